//! `bw-launcher measure`: Auto-pilot's ap_measure. Runs a command and appends a `[measurement]` block to APLOG.
//!
//! The command shares our terminal, process group and files. Signals from other processes are forwarded; those from a
//! terminal reach the command directly. Sources: Auto-pilot paper, section 3.2; GNU time for the exit statuses
//! 126 and 127; docs/launcher-protocol.md.

use crate::hooks::{
    HookCall, HookEvent, HookOutput, Hooks, MeasurementBlock, blocks_of, values_of,
};
use crate::null_device;
use crate::slots::Environment;
use crate::spawn::{Child, Program, Spawner, StartStep};
use crate::wait::{ChildProcess, ProcessExit, poll};
use bw_sys::poll::readable;
use bw_sys::signals::{Disposition, SignalFd, TERMINATION, set_disposition};
use std::env;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;

/// What to measure.
#[derive(Debug, PartialEq, Eq)]
pub struct Measurement {
    /// Hooks and directories of hooks, called before those of BW_HOOKS.
    pub hooks: Vec<String>,
    /// The command.
    pub argv: Vec<String>,
}

/// Measures the command and returns its exit status. Errors: the block cannot be written, or the
/// system refuses a call that is essential.
pub fn measure(measurement: &Measurement) -> io::Result<i32> {
    // If the caller ignores SIGCHLD, the kernel would collect our children: their status and usage would be
    // lost, and waiting for them would fail.
    set_disposition(libc::SIGCHLD, Disposition::Default);
    let signals = SignalFd::block(&TERMINATION)?;
    let spawner = Spawner::new(1)?;
    let measured = MeasuredCommand {
        signals: &signals,
        spawner: &spawner,
        null: &null_device()?,
    };
    let hooks = hooks(&measurement.hooks)?;
    let program = Program::new(&measurement.argv, &env::var("PATH").unwrap_or_default())?;
    let mut said = measured.hooks(hooks.as_ref(), HookEvent::Premeasure);
    said.extend(measured.hooks(hooks.as_ref(), HookEvent::Start));
    let seen = measured.run(&program, &Environment::inherited(None)?, None)?;
    said.extend(measured.hooks(hooks.as_ref(), HookEvent::End));
    append(&block(measurement, &seen, &said).text())?;
    for last in measured.hooks(hooks.as_ref(), HookEvent::Final) {
        append(&blocks_of(&last.text))?;
    }
    Ok(seen.status)
}

/// The measurements of a process.
struct MeasuredRun {
    status: i32,
    start_ns: u64,
    ended: Option<ProcessExit>,
    error: Option<String>,
}

struct MeasuredCommand<'a> {
    signals: &'a SignalFd,
    spawner: &'a Spawner,
    null: &'a File,
}

impl MeasuredCommand<'_> {
    fn hooks(&self, hooks: Option<&Hooks>, event: HookEvent) -> Vec<HookOutput> {
        let Some(hooks) = hooks else {
            return Vec::new();
        };
        let said = hooks.call(event, |call: &HookCall<'_>| {
            let seen = self
                .run(call.program, call.environment, Some(call.output))
                .map_err(|error| error.to_string())?;
            seen.error.map_or(Ok(seen.status), Err)
        });
        for trouble in said.iter().flat_map(|said| said.text.lines()) {
            if let Some(message) = trouble.strip_prefix("# error: ") {
                eprintln!(
                    "bw-launcher measure: a hook failed at {}: {message}",
                    event.name()
                );
            }
        }
        said
    }

    fn run(
        &self,
        program: &Program,
        environment: &Environment,
        output: Option<i32>,
    ) -> io::Result<MeasuredRun> {
        let report = self.spawner.report(0);
        let spawned = self.spawner.light(&Child {
            program,
            environment,
            directory: None,
            files: output.map(|output| [self.null.as_raw_fd(), output, 2]),
            parent: self.spawner.parent(),
            report,
            gate: None,
        })?;
        let mut process = ChildProcess::new(spawned);
        self.wait(&mut process, output.is_none());
        let trouble = report
            .trouble()
            .map(|(step, errno)| trouble(program, step, errno));
        let status = process
            .ended
            .map_or(128 + libc::SIGKILL, |ended| ended.status);
        Ok(MeasuredRun {
            status: trouble.as_ref().map_or(status, |(status, _)| *status),
            start_ns: report.start_ns(),
            ended: process.ended,
            error: trouble.map(|(_, message)| message),
        })
    }

    /// Waits for the process. A signal that arrives while a hook runs is held back for the command.
    fn wait(&self, process: &mut ChildProcess, pass_on: bool) {
        let signals = if pass_on { self.signals.fd() } else { -1 };
        while process.ended.is_none() {
            let mut fds = [process.fd(), signals].map(readable);
            let now = poll(&mut fds, None);
            if fds[0].revents != 0 {
                process.collect(now);
            }
            while let Some(arrived) = (fds[1].revents != 0).then(|| self.signals.next()).flatten() {
                if !arrived.from_kernel {
                    process.send(arrived.signal);
                }
            }
        }
    }
}

fn trouble(program: &Program, step: StartStep, errno: i32) -> (i32, String) {
    let error = io::Error::from_raw_os_error(errno);
    let status = match errno {
        libc::ENOENT | libc::ENOTDIR if step == StartStep::Execute => 127,
        _ => 126,
    };
    (
        status,
        format!("cannot execute {}: {error}", program.name()),
    )
}

fn hooks(given: &[String]) -> io::Result<Option<Hooks>> {
    let more = env::var("BW_HOOKS").unwrap_or_default();
    let mut paths = given.to_vec();
    paths.extend(more.split(':').map(str::to_owned));
    if paths.iter().all(String::is_empty) {
        return Ok(None);
    }
    Hooks::new(&paths, |state| Environment::inherited(Some(state))).map(Some)
}

fn block(measurement: &Measurement, seen: &MeasuredRun, said: &[HookOutput]) -> MeasurementBlock {
    if let Some(error) = &seen.error {
        eprintln!("bw-launcher measure: {error}");
    }
    MeasurementBlock {
        thread: number_of("APTHREAD").unwrap_or(1),
        epoch: number_of("APEPOCH").unwrap_or(1),
        command: measurement.argv.join(" ").replace(['\n', '\r'], " "),
        status: seen.status,
        // On stdout it would be a quantity of Auto-pilot's Getstats.
        start_ns: aplog().and(seen.ended).map(|_| seen.start_ns),
        elapsed_ns: seen
            .ended
            .map_or(0, |ended| ended.at_ns.saturating_sub(seen.start_ns)),
        usage: seen.ended.map(|ended| ended.usage),
        values: said.iter().flat_map(|said| values_of(&said.text)).collect(),
    }
}

fn number_of(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

fn aplog() -> Option<OsString> {
    env::var_os("APLOG").filter(|path| !path.is_empty())
}

/// Appends the text with one write, so that blocks of several processes never mix.
fn append(text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    match aplog() {
        Some(path) => OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)?
            .write_all(text.as_bytes()),
        None => io::stdout().lock().write_all(text.as_bytes()),
    }
}
