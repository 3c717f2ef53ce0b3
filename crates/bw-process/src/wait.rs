//! Waits for processes and for what `bw` says, in one poll.
//!
//! The end stamp is taken directly after poll wakes, before wait4 collects the usage: what
//! the kernel does on behalf of wait4 is not the program's time.
//! Sources: wait4(2), getrusage(2), ppoll(2).

use crate::clock::monotonic_ns;
use crate::control::{Control, readable};
use crate::output::OutputState;
use crate::pidfd;
use crate::protocol::Mode;
use crate::spawn::Spawned;
use std::os::fd::AsRawFd;

/// How and when a process ended.
#[derive(Debug, Clone, Copy)]
pub struct ProcessExit {
    /// Exit status, or 128 + signal.
    pub status: i32,
    /// CLOCK_MONOTONIC [ns].
    pub at_ns: u64,
    /// What it and the children that it waited for have used.
    pub usage: libc::rusage,
}

/// The status of a process that has ended, nobody knows how.
pub const UNKNOWN: i32 = 255;

impl ProcessExit {
    fn unknown(at_ns: u64) -> Self {
        Self {
            status: UNKNOWN,
            at_ns,
            // SAFETY: an all-zero rusage is a valid value of plain integers.
            usage: unsafe { std::mem::zeroed() },
        }
    }
}

/// A process that this one created, until and after its end.
#[derive(Debug)]
pub struct ChildProcess {
    spawned: Spawned,
    /// None while it runs.
    pub ended: Option<ProcessExit>,
}

impl ChildProcess {
    /// A process that runs.
    pub fn new(spawned: Spawned) -> Self {
        let ended = None;
        Self { spawned, ended }
    }

    /// Readable when it has ended.
    pub fn fd(&self) -> i32 {
        self.spawned.pidfd.as_raw_fd()
    }

    /// Sends it a signal.
    pub fn send(&self, signal: i32) {
        pidfd::send(&self.spawned.pidfd, signal);
    }

    /// Notes its end, seen at `at_ns`. Where somebody else has collected it, its status is [`UNKNOWN`].
    pub fn collect(&mut self, at_ns: u64) {
        let ended = collect(self.spawned.pid, at_ns, 0).map(|(_, ended)| ended);
        self.ended = Some(ended.unwrap_or_else(|| ProcessExit::unknown(at_ns)));
    }
}

/// Why waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// All have ended.
    Finished,
    /// The deadline has passed.
    Deadline,
    /// An interrupt, or the end of everything.
    Asked,
    /// Their output passed its limit.
    Full,
}

/// What to wait for.
pub struct WaitConditions<'a> {
    /// Says whether an interrupt concerns these processes.
    pub mode: &'a Mode,
    /// CLOCK_MONOTONIC [ns].
    pub deadline_ns: Option<u64>,
    /// How often to look after their output [ns], and what does it.
    pub tend: Option<(u64, &'a dyn Fn() -> OutputState)>,
}

impl std::fmt::Debug for WaitConditions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WaitConditions({:?}, {:?})", self.mode, self.deadline_ns)
    }
}

/// Waits until all processes have ended or something else asks for attention. `at_end` is
/// called once for each that ends.
pub fn wait_all(
    processes: &mut [ChildProcess],
    control: &mut Control,
    limits: &WaitConditions<'_>,
    at_end: impl Fn(),
) -> WaitEnd {
    let mut fds = Vec::with_capacity(processes.len() + 2);
    let mut look_ns = limits.tend.map(|(every_ns, _)| monotonic_ns() + every_ns);
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
        if let Some((every_ns, tend)) = limits.tend
            && look_ns.is_some_and(|look| now >= look)
        {
            match tend() {
                OutputState::Quiet => look_ns = Some(now + every_ns),
                OutputState::More => {}
                OutputState::Full => return WaitEnd::Full,
            }
        }
    }
}

/// Collects every child that has ended, ours and adopted ones. Returns whether any child
/// is left, running.
pub fn reap(processes: &mut [ChildProcess]) -> bool {
    loop {
        let now = monotonic_ns();
        let Some((pid, ended)) = collect(-1, now, libc::WNOHANG) else {
            return false;
        };
        if pid == 0 {
            return true;
        }
        if let Some(process) = processes.iter_mut().find(|p| p.spawned.pid == pid) {
            process.ended.get_or_insert(ended);
        }
    }
}

/// Polls until the deadline and returns CLOCK_MONOTONIC [ns] directly after.
pub fn poll(fds: &mut [libc::pollfd], deadline_ns: Option<u64>) -> u64 {
    let left = deadline_ns.map(|deadline| {
        let left = deadline.saturating_sub(monotonic_ns());
        libc::timespec {
            tv_sec: (left / 1_000_000_000) as libc::time_t,
            tv_nsec: (left % 1_000_000_000) as libc::c_long,
        }
    });
    let left = left.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `fds` is valid for its length, `left` null or valid; no mask is given.
    let polled = unsafe {
        libc::ppoll(
            fds.as_mut_ptr(),
            fds.len() as libc::nfds_t,
            left,
            std::ptr::null(),
        )
    };
    let now = monotonic_ns();
    if polled < 0 {
        fds.iter_mut().for_each(|fd| fd.revents = 0);
    }
    now
}

/// None: there is no such child. Pid 0: none of them has ended (WNOHANG).
fn collect(pid: libc::pid_t, at_ns: u64, options: i32) -> Option<(libc::pid_t, ProcessExit)> {
    let mut status = 0;
    // SAFETY: an all-zero rusage is a valid value of plain integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `status` and `usage` are writable.
    let pid = unsafe { libc::wait4(pid, &mut status, options, &mut usage) };
    let ended = ProcessExit {
        status: exit_status(status),
        at_ns,
        usage,
    };
    (pid >= 0).then_some((pid, ended))
}

fn exit_status(status: i32) -> i32 {
    if libc::WIFSIGNALED(status) {
        128 + libc::WTERMSIG(status)
    } else {
        libc::WEXITSTATUS(status)
    }
}
