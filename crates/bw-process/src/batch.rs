//! The preparation of a run request: opens and prepares everything before the first epoch.
//!
//! Source: docs/launcher-protocol.md, "run".

use crate::barrier::{self, Barrier};
use crate::cleanup::{CleanupNotes, Semaphore};
use crate::descendants::{Identity, descendants};
use crate::hooks::Hooks;
use crate::null_device;
use crate::output::{Aplog, Log, Sink};
use crate::protocol::{MOST_THREADS, Mode, OutputPolicy, Run};
use crate::slots::{BaseEnvironment, ProcessSlot};
use crate::spawn::{Program, Spawner};
use crate::wait::reap;
use bw_sys::memory::Mapping;
use bw_sys::process::own_usage;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

/// Resources that outlive a run.
#[derive(Debug)]
pub(crate) struct SharedResources<'a> {
    /// Notes for the supervisor.
    pub notes: &'a CleanupNotes,
    /// The barrier that EXEC processes use.
    pub barrier: Barrier<'a>,
    /// The barrier's file: the value of BW_BARRIER.
    pub barrier_path: &'a str,
    /// /dev/null.
    pub null: &'a File,
}

/// A command with its slots.
#[derive(Debug)]
pub(crate) struct PreparedCommand {
    /// The part of the test.
    pub mode: Mode,
    /// Position in its mode's list.
    pub index: u32,
    /// What to execute.
    pub program: Program,
    /// Which slots it occupies.
    pub slots: Range<usize>,
}

/// A prepared run.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    /// The request.
    pub run: Run,
    /// The shared resources.
    pub resources: &'a SharedResources<'a>,
    /// Commands in the order of the request.
    pub commands: Vec<PreparedCommand>,
    /// The processes' slots.
    pub slots: Vec<ProcessSlot>,
    /// The APLOG of every thread, 0 first.
    pub aplogs: Vec<Aplog>,
    /// Working directory.
    pub directory: CString,
    /// Creates the children.
    pub spawner: Spawner,
    /// APIPCKEY, if the system supports such semaphores.
    pub semaphore: Option<Semaphore<'a>>,
    /// Measurement hooks, with the file for their stderr.
    pub hooks: Option<(Hooks, Log)>,
    /// Processes that existed before the run: daemons of an earlier PRESETUP.
    pub spared: Vec<Identity>,
    null: Rc<File>,
    gate: Mapping,
    /// The variables that all processes have in common.
    pub surroundings: BaseEnvironment,
}

impl<'a> Batch<'a> {
    /// Prepares a run. Errors: why it cannot run.
    pub(crate) fn prepare(run: Run, resources: &'a SharedResources<'a>) -> Result<Self, String> {
        check(&run)?;
        Self::open(run, resources).map_err(|error| error.to_string())
    }

    fn open(run: Run, resources: &'a SharedResources<'a>) -> io::Result<Self> {
        let surroundings = BaseEnvironment::new(&run.environment)?;
        let executes = run.commands.iter().any(|c| c.mode == Mode::Exec);
        let semaphore = if executes { semaphore(resources) } else { None };
        let mut batch = Self {
            resources,
            commands: Vec::new(),
            slots: Vec::new(),
            aplogs: Vec::new(),
            directory: CString::new(run.directory.as_str())?,
            spawner: Spawner::new(run.threads as usize)?,
            semaphore,
            hooks: None,
            spared: Vec::new(),
            null: Rc::new(null_device()?),
            gate: Mapping::shared(barrier::WORDS * 4)?,
            surroundings,
            run,
        };
        batch.open_aplogs(executes)?;
        batch.make_slots()?;
        if executes && !batch.run.hooks.is_empty() {
            batch.hooks = Some(batch.open_hooks()?);
        }
        if reap(&mut []) {
            batch.spared = descendants(&[]);
        }
        Ok(batch)
    }

    fn open_aplogs(&mut self, executes: bool) -> io::Result<()> {
        let last = if executes { self.run.threads } else { 0 };
        let logs = Path::new(&self.run.logs);
        self.aplogs = (0..=last)
            .map(|thread| Aplog::open(logs, thread))
            .collect::<io::Result<_>>()?;
        Ok(())
    }

    fn make_slots(&mut self) -> io::Result<()> {
        for command in std::mem::take(&mut self.run.commands) {
            let mode = command.mode;
            let known = self.commands.iter().rev().find(|c| c.mode == mode);
            let (index, slots) = match known {
                Some(known) => (known.index + 1, known.slots.clone()),
                None => (0, self.open_slots(&mode)?),
            };
            let program = Program::new(&command.argv, self.surroundings.path())?;
            self.commands.push(PreparedCommand {
                mode,
                index,
                program,
                slots,
            });
        }
        Ok(())
    }

    fn open_slots(&mut self, mode: &Mode) -> io::Result<Range<usize>> {
        let first = self.slots.len();
        let threads = match mode {
            Mode::Exec => 1..=self.run.threads,
            _ => 0..=0,
        };
        for thread in threads {
            let slot = self.slot(mode, thread)?;
            self.slots.push(slot);
        }
        Ok(first..self.slots.len())
    }

    fn variables(&self, mode: &str, thread: u32) -> Vec<(&'static str, String)> {
        let aplog = self.aplogs[thread as usize].path();
        vec![
            ("APMODE", mode.to_owned()),
            ("THREADS", self.run.threads.to_string()),
            ("APTHREAD", thread.to_string()),
            ("APLOG", aplog.to_string_lossy().into_owned()),
        ]
    }

    fn slot(&self, mode: &Mode, thread: u32) -> io::Result<ProcessSlot> {
        let mut own = self.variables(mode.name(), thread);
        if *mode == Mode::Exec {
            own.push(("BW_BARRIER", self.resources.barrier_path.to_owned()));
            if let Some(semaphore) = &self.semaphore {
                own.push(("APIPCKEY", semaphore.key().to_string()));
            }
            if !self.run.hooks.is_empty() {
                own.push(("BW_HOOKS", self.run.hooks.join(":")));
            }
        }
        let environment = self.surroundings.environment(&own)?;
        let name = format!("{}-{thread}", mode.name().to_ascii_lowercase());
        let stem = Path::new(&self.run.logs).join(name);
        let all = OutputPolicy::default();
        let output = match mode {
            Mode::Exec => &self.run.output,
            _ => &all,
        };
        ProcessSlot::new(&stem, thread, environment, |stream, path| {
            Sink::open(output, stream, path, &self.null, self.run.threads)
        })
    }

    fn open_hooks(&self) -> io::Result<(Hooks, Log)> {
        let hooks = Hooks::new(&self.run.hooks, |state| {
            let mut own = self.variables("HOOK", 0);
            own.push(("BW_HOOK_STATE", state.to_string_lossy().into_owned()));
            self.surroundings.environment(&own)
        })?;
        self.resources.notes.directory(hooks.state());
        let log = Log::open(Path::new(&self.run.logs).join("hook-0.err"))?;
        Ok((hooks, log))
    }

    /// Returns the slots of the command at `place`.
    pub(crate) fn slots_of(&self, place: usize) -> &[ProcessSlot] {
        &self.slots[self.commands[place].slots.clone()]
    }

    /// Returns the gate at which the threads of an EXEC wait for each other.
    pub(crate) fn gate(&self) -> Barrier<'_> {
        Barrier::new(self.gate.words())
    }

    /// Returns whether processes that outlive an epoch are ended.
    pub(crate) fn has_epochs(&self) -> bool {
        let single = |command: &PreparedCommand| matches!(command.mode, Mode::Single(_));
        !self.commands.iter().all(single)
    }
}

/// Returns our own peak resident size: execve carries it over, so no child's can be lower [bytes].
pub(crate) fn rss_floor_bytes() -> u64 {
    own_usage().rss_bytes
}

/// Returns the semaphore. Without System V semaphores scripts run without APIPCKEY; those that need it fail.
fn semaphore<'a>(resources: &SharedResources<'a>) -> Option<Semaphore<'a>> {
    Semaphore::create(resources.notes.semaphore())
        .inspect_err(|error| eprintln!("bw-launcher: no APIPCKEY, semget: {error}"))
        .ok()
}

fn check(run: &Run) -> Result<(), String> {
    if run.threads == 0 || run.threads > MOST_THREADS {
        return Err(format!(
            "threads is {}, not 1 to {MOST_THREADS}",
            run.threads
        ));
    }
    if run.commands.iter().any(|command| command.argv.is_empty()) {
        return Err("a command has an empty argv".to_owned());
    }
    if !Path::new(&run.directory).is_dir() {
        return Err(format!("{} is not a directory", run.directory));
    }
    for (name, _) in &run.environment {
        if name.is_empty() || name.contains('=') {
            return Err(format!("`{name}` cannot name an environment variable"));
        }
    }
    Ok(())
}
