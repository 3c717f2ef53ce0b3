//! Waits for processes and for requests of `bw`, in one poll.
//!
//! The end stamp is taken directly after poll wakes, before wait4 collects the usage, so that
//! the kernel's work for wait4 does not count as the program's time.
//! Sources: wait4(2), getrusage(2), ppoll(2).

use crate::control::Control;
use crate::output::OutputState;
use crate::protocol::Mode;
use crate::spawn::Spawned;
use bw_sys::clock::monotonic_ns;
use bw_sys::poll::{Interrupts, PollEntry, readable};
use bw_sys::process::{Blocking, EndedChild, ResourceUsage, wait_for};
use std::os::fd::AsRawFd;

/// How and when a process ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessExit {
    /// Exit status, or 128 + signal.
    pub status: i32,
    /// CLOCK_MONOTONIC [ns].
    pub at_ns: u64,
    /// Resource usage of the process and the children that it waited for.
    pub usage: ResourceUsage,
}

/// The status of a process whose exit status is unknown.
pub(crate) const UNKNOWN: i32 = 255;

impl ProcessExit {
    fn of(ended: &EndedChild, at_ns: u64) -> Self {
        Self {
            status: ended.status,
            at_ns,
            usage: ended.usage,
        }
    }

    fn unknown(at_ns: u64) -> Self {
        Self {
            status: UNKNOWN,
            at_ns,
            usage: ResourceUsage::default(),
        }
    }
}

/// A process that this one created, during and after its life.
#[derive(Debug)]
pub(crate) struct ChildProcess {
    spawned: Spawned,
    /// None while it runs.
    pub ended: Option<ProcessExit>,
}

impl ChildProcess {
    /// Returns a process that runs.
    pub(crate) fn new(spawned: Spawned) -> Self {
        let ended = None;
        Self { spawned, ended }
    }

    /// Returns the pidfd, which is readable when the process has ended.
    pub(crate) fn fd(&self) -> i32 {
        self.spawned.pidfd.as_raw_fd()
    }

    /// Sends the process a signal.
    pub(crate) fn send(&self, signal: i32) {
        self.spawned.pidfd.send(signal);
    }

    /// Notes the end of the process, seen at `at_ns`. If another process collected it, its status is [`UNKNOWN`].
    pub(crate) fn collect(&mut self, at_ns: u64) {
        let ended =
            wait_for(self.spawned.pid, Blocking::Yes).map(|ended| ProcessExit::of(&ended, at_ns));
        self.ended = Some(ended.unwrap_or_else(|| ProcessExit::unknown(at_ns)));
    }
}

/// Why waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// All have ended.
    Finished,
    /// The deadline has passed.
    Deadline,
    /// An interrupt, or a termination signal.
    Asked,
    /// Their output passed its limit.
    Full,
}

/// What to wait for.
pub(crate) struct WaitConditions<'a> {
    /// Decides whether an interrupt concerns these processes.
    pub mode: &'a Mode,
    /// Deadline, CLOCK_MONOTONIC [ns].
    pub deadline_ns: Option<u64>,
    /// Interval of the output checks [ns], and the check.
    pub check: Option<(u64, &'a dyn Fn() -> OutputState)>,
}

impl std::fmt::Debug for WaitConditions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WaitConditions({:?}, {:?})", self.mode, self.deadline_ns)
    }
}

/// Waits until all processes have ended or another condition holds. Calls `at_end`
/// once for each process that ends.
pub(crate) fn wait_all(
    processes: &mut [ChildProcess],
    control: &mut Control,
    limits: &WaitConditions<'_>,
    at_end: impl Fn(),
) -> WaitEnd {
    let mut fds = Vec::with_capacity(processes.len() + 2);
    let mut look_ns = limits.check.map(|(every_ns, _)| monotonic_ns() + every_ns);
    loop {
        if control.stops(limits.mode) {
            return WaitEnd::Asked;
        }
        fds.clear();
        fds.extend(control.fds());
        let running = processes.iter().filter(|p| p.ended.is_none());
        fds.extend(running.map(|p| readable(p.fd())));
        if fds.len() == 2 {
            return WaitEnd::Finished;
        }
        let now = poll(
            &mut fds,
            limits.deadline_ns.into_iter().chain(look_ns).min(),
        );
        let running = processes.iter_mut().filter(|p| p.ended.is_none());
        for (process, fd) in running.zip(&fds[2..]) {
            if fd.revents != 0 {
                process.collect(now);
                at_end();
            }
        }
        control.take(&fds);
        if limits.deadline_ns.is_some_and(|deadline| now >= deadline)
            && processes.iter().any(|p| p.ended.is_none())
        {
            return WaitEnd::Deadline;
        }
        if let Some((every_ns, check)) = limits.check
            && look_ns.is_some_and(|look| now >= look)
        {
            match check() {
                OutputState::Quiet => look_ns = Some(now + every_ns),
                OutputState::More => {}
                OutputState::Full => return WaitEnd::Full,
            }
        }
    }
}

/// Collects every child that has ended, our own and adopted ones. Returns whether any child
/// is left running.
pub(crate) fn reap(processes: &mut [ChildProcess]) -> bool {
    loop {
        let now = monotonic_ns();
        let Some(ended) = wait_for(-1, Blocking::No) else {
            return false;
        };
        if ended.pid == 0 {
            return true;
        }
        if let Some(process) = processes.iter_mut().find(|p| p.spawned.pid == ended.pid) {
            process.ended.get_or_insert(ProcessExit::of(&ended, now));
        }
    }
}

/// Polls until the deadline and returns CLOCK_MONOTONIC [ns] directly after.
pub(crate) fn poll(fds: &mut [PollEntry], deadline_ns: Option<u64>) -> u64 {
    // A signal ends the poll with nothing ready.
    let _ = bw_sys::poll::poll(fds, deadline_ns, Interrupts::AsBefore);
    monotonic_ns()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bw_sys::process::ProcessFd;
    use std::process::Command;

    /// ECHILD is the end of the process, not one more reason to wait for it.
    #[test]
    fn a_child_that_another_collected_has_ended_with_an_unknown_status() {
        let mut command = Command::new("true").spawn().unwrap();
        let pid = i32::try_from(command.id()).unwrap();
        let pidfd = ProcessFd::open(pid).unwrap();
        assert!(wait_for(pid, Blocking::Yes).is_some());
        let mut process = ChildProcess::new(Spawned { pid, pidfd });
        process.collect(7);
        let ended = process.ended.map(|ended| (ended.status, ended.at_ns));
        assert_eq!(ended, Some((UNKNOWN, 7)));
        assert!(command.wait().is_err());
    }
}
