//! One epoch: SETUP, EXEC in N processes, CLEANUP in any case; then nothing is left running.
//!
//! Source: docs/launcher-protocol.md, "An epoch"; Auto-pilot paper, section 3.1.

use crate::batch::{Batch, PreparedCommand};
use crate::control::Control;
use crate::descendants::{Identity, descendants, end_descendants};
use crate::hooks::{HookCall, HookEvent};
use crate::output::{OutputRange, OutputState, Sink};
use crate::protocol::{Ending, EpochRecord, Keep, Mode, ProcessRecord};
use crate::slots::ProcessSlot;
use crate::spawn::{Child, Program, Spawned, StartReport, StartStep};
use crate::wait::{ChildProcess, ProcessExit, WaitConditions, WaitEnd, reap, wait_all};
use bw_sys::clock::{monotonic_ns, realtime_ns};
use std::io;
use std::os::fd::AsRawFd;

/// Interval between two checks of the output of up to `SLOTS_PER_LOOK` processes.
const LOOK_NS: u64 = 50_000_000;
const SLOTS_PER_LOOK: u64 = 64;

/// Runs one epoch and returns its record.
pub(crate) fn run_epoch(batch: &mut Batch<'_>, control: &mut Control, epoch: u64) -> EpochRecord {
    let record = EpochRecord {
        id: batch.run.id,
        epoch,
        ending: Ending::Ok,
        started_ns: realtime_ns(),
        duration_ns: 0,
        release_skew_ns: 0,
        output_full: false,
        stopped: false,
        left_running: 0,
        not_permitted: 0,
        processes: Vec::with_capacity(batch.slots.len()),
        aplog: Vec::new(),
        hooks: Vec::new(),
    };
    let mut run = EpochRun {
        batch,
        control,
        record,
        deadline_ns: None,
    };
    run.phases();
    run.record
}

struct EpochRun<'e, 'a> {
    batch: &'e mut Batch<'a>,
    control: &'e mut Control,
    record: EpochRecord,
    deadline_ns: Option<u64>,
}

impl EpochRun<'_, '_> {
    fn phases(&mut self) {
        // Being stopped before it does no harm.
        let _ = self.control.was_continued();
        let begun = monotonic_ns();
        self.empty_aplogs();
        self.singles();
        self.phase(&Mode::Setup, &self.batch.spared.clone());
        if self.record.ending == Ending::Ok {
            self.exec();
        }
        self.phase(&Mode::Cleanup, &self.batch.spared.clone());
        self.record.duration_ns = monotonic_ns() - begun;
        if self.batch.has_epochs() {
            let grace_ns = self.batch.run.grace_ns;
            let left = end_descendants(&self.batch.spared, grace_ns, &mut []);
            (self.record.left_running, self.record.not_permitted) =
                (left.ended, left.not_permitted);
        }
        self.record.aplog = self.aplog_texts();
        self.record.stopped = self.control.was_continued();
    }

    fn empty_aplogs(&mut self) {
        for aplog in &mut self.batch.aplogs {
            if let Err(error) = aplog.clear() {
                eprintln!(
                    "bw-launcher: cannot empty {}: {error}",
                    aplog.path().display()
                );
            }
        }
    }

    fn aplog_texts(&mut self) -> Vec<(u32, String)> {
        let aplogs = self.batch.aplogs.iter_mut();
        aplogs
            .filter_map(|aplog| Some((aplog.thread, aplog.text()?)))
            .collect()
    }

    fn singles(&mut self) {
        let spared = self.batch.spared.clone();
        for place in 0..self.batch.commands.len() {
            let failed = self.batch.run.stop_on_failure && self.record.ending != Ending::Ok;
            if matches!(self.batch.commands[place].mode, Mode::Single(_)) && !failed {
                self.command(place, &spared);
            }
        }
    }

    fn exec(&mut self) {
        let executes = self.batch.commands.iter().any(|c| c.mode == Mode::Exec);
        if !executes {
            return;
        }
        // CLEANUP must stop what SETUP has started (a server), also after a timeout.
        let spared = if reap(&mut []) {
            descendants(&[])
        } else {
            Vec::new()
        };
        let timeout_ns = self.batch.run.timeout_ns;
        self.hooks(HookEvent::Premeasure, &spared);
        self.hooks(HookEvent::Start, &spared);
        self.deadline_ns = timeout_ns.map(|limit| monotonic_ns().saturating_add(limit));
        self.phase(&Mode::Exec, &spared);
        self.deadline_ns = None;
        self.hooks(HookEvent::End, &spared);
        self.hooks(HookEvent::Final, &spared);
    }

    fn hooks(&mut self, event: HookEvent, spared: &[Identity]) {
        let Some((hooks, log)) = &self.batch.hooks else {
            return;
        };
        if self.control.stops(&Mode::Exec) {
            return;
        }
        let batch = &*self.batch;
        let control = &mut *self.control;
        let said = hooks.call(event, |call| {
            let files = [batch.resources.null.as_raw_fd(), call.output, log.fd()];
            run_hook(batch, control, call, files, spared)
        });
        let said = said
            .into_iter()
            .map(|said| (said.name, said.event.name(), said.text));
        self.record.hooks.extend(said);
    }

    /// Runs the commands of a mode in order. Only CLEANUP continues after a failure.
    fn phase(&mut self, mode: &Mode, spared: &[Identity]) {
        for place in 0..self.batch.commands.len() {
            if self.batch.commands[place].mode != *mode {
                continue;
            }
            if *mode != Mode::Cleanup && self.record.ending != Ending::Ok {
                return;
            }
            self.command(place, spared);
        }
    }

    fn command(&mut self, place: usize, spared: &[Identity]) {
        let mode = self.batch.commands[place].mode.clone();
        if self.control.stops(&mode) {
            self.record.ending = Ending::Interrupted;
            return;
        }
        if mode == Mode::Exec {
            self.arm();
        }
        for slot in self.batch.slots_of(place) {
            slot.out.begin();
            slot.err.begin();
        }
        let mut started = start(self.batch, &self.batch.commands[place]);
        let woken = self.wait(place, &mut started, spared);
        let first = self.record.processes.len();
        self.note(place, &started);
        self.judge(first, woken);
    }

    /// Adds the records of a command's processes.
    fn note(&mut self, place: usize, started: &Started) {
        let prepared = &self.batch.commands[place];
        for (number, slot) in self.batch.slots_of(place).iter().enumerate() {
            let report = self.batch.spawner.report(number);
            let mut record = started.record(number, report, prepared);
            record.thread = slot.thread;
            let failed = self.batch.run.failed(&record);
            let [out, err] = [&slot.out, &slot.err].map(|sink| taken(sink, failed));
            (record.out, record.out_bytes) = (out.range, out.written);
            (record.err, record.err_bytes) = (err.range, err.written);
            self.record.output_full |= slot.out.is_full() || slot.err.is_full();
            self.record.processes.push(record);
        }
    }

    /// Resets the semaphore and the barrier for an EXEC.
    fn arm(&mut self) {
        let threads = self.batch.run.threads;
        self.batch.resources.barrier.reset(threads);
        let semaphore = self.batch.semaphore.as_mut();
        if let Some(Err(error)) = semaphore.map(|semaphore| semaphore.set(threads)) {
            eprintln!("bw-launcher: cannot set the semaphore of APIPCKEY: {error}");
        }
    }

    fn wait(&mut self, place: usize, started: &mut Started, spared: &[Identity]) -> WaitEnd {
        let mode = &self.batch.commands[place].mode;
        let slots = self.batch.slots_of(place);
        let check = || {
            slots
                .iter()
                .map(ProcessSlot::check)
                .max()
                .unwrap_or(OutputState::Quiet)
        };
        let look_ns = LOOK_NS * (slots.len() as u64).div_ceil(SLOTS_PER_LOOK);
        let checked = *mode == Mode::Exec && self.batch.run.output.keep != Keep::Null;
        let limits = WaitConditions {
            mode,
            deadline_ns: self.deadline_ns,
            check: checked.then_some((look_ns, &check)),
        };
        let barrier = (*mode == Mode::Exec).then_some(self.batch.resources.barrier);
        let at_end = || {
            if let Some(barrier) = barrier {
                barrier.break_up();
            }
        };
        let woken = wait_all(&mut started.processes, self.control, &limits, at_end);
        if woken != WaitEnd::Finished {
            end_descendants(spared, self.batch.run.grace_ns, &mut started.processes);
        }
        woken
    }

    /// Updates the ending of the epoch by a command's records, from `first` on.
    fn judge(&mut self, first: usize, woken: WaitEnd) {
        let records = &self.record.processes[first..];
        let failed = records.iter().any(|record| self.batch.run.failed(record));
        if records.iter().any(|record| record.mode == Mode::Exec) {
            let starts = || records.iter().map(|r| r.start_ns).filter(|&ns| ns > 0);
            let skew = starts().max().zip(starts().min()).map_or(0, |(a, b)| a - b);
            self.record.release_skew_ns = self.record.release_skew_ns.max(skew);
        }
        match woken {
            WaitEnd::Asked => self.record.ending = Ending::Interrupted,
            WaitEnd::Deadline => self.record.ending = Ending::Timeout,
            WaitEnd::Full => self.record.ending = Ending::Failed,
            WaitEnd::Finished if failed && self.record.ending == Ending::Ok => {
                self.record.ending = Ending::Failed;
            }
            WaitEnd::Finished => {}
        }
    }
}

/// The processes of one command.
struct Started {
    processes: Vec<ChildProcess>,
    /// For each slot: the index of its process, or why there is none.
    slots: Vec<Result<usize, String>>,
}

impl Started {
    fn new(results: impl IntoIterator<Item = io::Result<Spawned>>) -> Self {
        let mut processes = Vec::new();
        let slots = results
            .into_iter()
            .map(|result| match result {
                Ok(spawned) => {
                    processes.push(ChildProcess::new(spawned));
                    Ok(processes.len() - 1)
                }
                Err(error) => Err(format!("cannot create a process: {error}")),
            })
            .collect();
        Self { processes, slots }
    }

    fn record(
        &self,
        number: usize,
        report: StartReport<'_>,
        prepared: &PreparedCommand,
    ) -> ProcessRecord {
        let (ended, error) = match &self.slots[number] {
            Ok(place) => (
                self.processes[*place].ended,
                trouble(report, &prepared.program),
            ),
            Err(error) => (None, error.clone()),
        };
        let start_ns = report.start_ns();
        ProcessRecord {
            mode: prepared.mode.clone(),
            index: prepared.index,
            thread: 0,
            status: status(ended, &error),
            elapsed_ns: ended.map_or(0, |ended| ended.at_ns.saturating_sub(start_ns)),
            usage: ended.map(|ended| ended.usage).unwrap_or_default(),
            start_ns,
            out: [0, 0],
            err: [0, 0],
            out_bytes: 0,
            err_bytes: 0,
            error,
        }
    }
}

/// Returns the status: 127 if the process could not be started; 137 if not even SIGKILL ended it.
fn status(ended: Option<ProcessExit>, error: &str) -> i32 {
    match ended {
        _ if !error.is_empty() => 127,
        Some(ended) => ended.status,
        None => 128 + libc::SIGKILL,
    }
}

fn trouble(report: StartReport<'_>, program: &Program) -> String {
    let Some((step, errno)) = report.trouble() else {
        return String::new();
    };
    let error = io::Error::from_raw_os_error(errno);
    let name = program.name();
    match step {
        StartStep::Directory => format!("cannot enter the working directory: {error}"),
        StartStep::Files => format!("cannot connect stdin, stdout and stderr: {error}"),
        StartStep::Gate => "another thread of the trial could not be created".to_owned(),
        StartStep::Execute => format!("cannot execute {name}: {error}"),
    }
}

/// Runs one hook to its end; an interrupt ends it. Errors: why it could not be started.
fn run_hook(
    batch: &Batch<'_>,
    control: &mut Control,
    call: &HookCall<'_>,
    files: [i32; 3],
    spared: &[Identity],
) -> Result<i32, String> {
    let report = batch.spawner.report(0);
    let spawned = batch.spawner.one(&Child {
        program: call.program,
        environment: call.environment,
        directory: Some(&batch.directory),
        files: Some(files),
        parent: batch.spawner.parent(),
        report,
        gate: None,
    });
    let spawned = spawned.map_err(|error| format!("cannot create a process: {error}"))?;
    let mut process = [ChildProcess::new(spawned)];
    let limits = WaitConditions {
        mode: &Mode::Exec,
        deadline_ns: None,
        check: None,
    };
    if wait_all(&mut process, control, &limits, || ()) != WaitEnd::Finished {
        end_descendants(spared, batch.run.grace_ns, &mut process);
    }
    let error = trouble(report, call.program);
    if error.is_empty() {
        return Ok(status(process[0].ended, ""));
    }
    Err(error)
}

/// Returns the range of a process's output; empty if the log cannot be written.
fn taken(sink: &Sink, failed: bool) -> OutputRange {
    sink.take(failed).unwrap_or_else(|error| {
        eprintln!("bw-launcher: cannot keep the output: {error}");
        OutputRange::default()
    })
}

fn start(batch: &Batch<'_>, prepared: &PreparedCommand) -> Started {
    let slots = &batch.slots[prepared.slots.clone()];
    let gate = (slots.len() > 1).then(|| batch.gate());
    let child = |number: usize| Child {
        program: &prepared.program,
        environment: &slots[number].environment,
        directory: Some(&batch.directory),
        files: Some([
            batch.resources.null.as_raw_fd(),
            slots[number].out.fd(),
            slots[number].err.fd(),
        ]),
        parent: batch.spawner.parent(),
        report: batch.spawner.report(number),
        gate,
    };
    match gate {
        None => Started::new([batch.spawner.one(&child(0))]),
        Some(gate) => {
            let children: Vec<_> = (0..slots.len()).map(child).collect();
            Started::new(batch.spawner.together(&children, gate))
        }
    }
}
