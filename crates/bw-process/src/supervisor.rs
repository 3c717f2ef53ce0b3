//! The supervisor: starts the runner, waits, and ends what is left running if the runner is killed.
//!
//! Both are subreapers: the supervisor inherits the runner's orphans. The runner gets SIGTERM if
//! the supervisor dies, and leads a session of its own, so a terminal's Ctrl-C reaches only `bw`.
//! Decision: two processes of 1 MiB. Rejected: a cgroup with cgroup.kill, which needs privileges.
//! Sources: prctl(2), setsid(2).

use crate::cleanup::{CleanupNotes, remove_abandoned};
use crate::descendants::end_descendants;
use crate::runner;
use crate::wait::poll;
use bw_sys::clock::monotonic_ns;
use bw_sys::poll::readable;
use bw_sys::process::{
    Blocking, ProcessFd, ProcessId, become_subreaper, close_from, die_with_parent, own_id,
    parent_id, wait_for,
};
use bw_sys::signals::{self, SignalFd, TERMINATION, reset_dispositions};
use std::io;
use std::os::fd::AsRawFd;

const GRACE_NS: u64 = 2_000_000_000;
/// A runner that has not ended this long after SIGTERM is killed [ns].
const PATIENCE_NS: u64 = 60_000_000_000;
/// Time between two SIGKILLs to a runner that does not end, because it is in an uninterruptible sleep [ns].
const KILL_AGAIN_NS: u64 = 1_000_000_000;

/// When a runner that was asked to end is killed.
#[derive(Debug, Default)]
struct KillTimer {
    /// CLOCK_MONOTONIC [ns]; None: it was not asked to end.
    due_ns: Option<u64>,
}

impl KillTimer {
    /// Starts the timer; returns whether it was not running.
    fn start(&mut self, now_ns: u64) -> bool {
        let starts = self.due_ns.is_none();
        self.due_ns.get_or_insert(now_ns + PATIENCE_NS);
        starts
    }

    /// Returns whether the runner is to be killed now. The timer then moves on: a deadline in the past would make the
    /// poll return at once, again and again.
    fn fires(&mut self, now_ns: u64) -> bool {
        let fires = self.due_ns.is_some_and(|due| now_ns >= due);
        if fires {
            self.due_ns = Some(now_ns + KILL_AGAIN_NS);
        }
        fires
    }
}

/// Executes `bw-launcher serve`. Returns the exit status. Errors: the system refuses an essential call.
pub fn serve() -> io::Result<i32> {
    // SAFETY: only standard descriptors are in use so far.
    unsafe { close_from(3) };
    reset_dispositions();
    // Before the runner sends hello: from then on a signal may come.
    signals::block(&TERMINATION);
    remove_abandoned();
    let parent = parent_id();
    let notes = CleanupNotes::new()?;
    let supervisor = own_id();
    // SAFETY: single-threaded; the child goes on in this program.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(work(supervisor, &notes)),
        runner => watch(runner, parent, &notes),
    }
}

fn work(supervisor: ProcessId, notes: &CleanupNotes) -> i32 {
    // The child leads no group yet, so this cannot fail.
    let _ = rustix::process::setsid();
    if !die_with_parent(supervisor, libc::SIGTERM) {
        return 1;
    }
    match runner::serve(notes) {
        Ok(()) => 0,
        Err(error) => {
            // `bw` was killed and reads no more: a resume reports that.
            if error.kind() != io::ErrorKind::BrokenPipe {
                eprintln!("bw-launcher: {error}");
            }
            1
        }
    }
}

fn watch(runner: ProcessId, parent: ProcessId, notes: &CleanupNotes) -> io::Result<i32> {
    become_subreaper();
    let signals = SignalFd::block(&TERMINATION)?;
    let process = ProcessFd::open(runner)?;
    let parent = ProcessFd::open(parent).ok();
    let parent = parent.as_ref().map_or(-1, AsRawFd::as_raw_fd);
    let mut fds = [process.as_raw_fd(), signals.fd(), parent].map(readable);
    let mut kill_timer = KillTimer::default();
    loop {
        let now = poll(&mut fds, kill_timer.due_ns);
        if fds[0].revents != 0 {
            break;
        }
        let terminated = fds[1].revents != 0 && is_terminated(&signals);
        if (terminated || fds[2].revents != 0) && kill_timer.start(now) {
            process.send(libc::SIGTERM);
        }
        if fds[2].revents != 0 {
            fds[2].fd = -1;
        }
        if kill_timer.fires(monotonic_ns()) {
            process.send(libc::SIGKILL);
        }
    }
    let status = wait_for(runner, Blocking::Yes).map_or(0, |ended| ended.status);
    end_descendants(&[], GRACE_NS, &mut []).complain();
    notes.clear();
    Ok(status)
}

/// Returns whether a signal ends the launcher. Ctrl-C and Ctrl-\ are read and ignored, because `bw` handles them.
fn is_terminated(signals: &SignalFd) -> bool {
    let mut terminated = false;
    while let Some(arrived) = signals.next() {
        terminated |= matches!(arrived.signal, libc::SIGTERM | libc::SIGHUP);
    }
    terminated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_that_does_not_end_is_killed_again_each_second_and_not_all_the_time() {
        let mut timer = KillTimer::default();
        assert!(!timer.fires(u64::MAX));
        assert!(timer.start(5) && !timer.start(7));
        let mut now_ns = 5 + PATIENCE_NS;
        assert!(!timer.fires(now_ns - 1));
        for _ in 0..3 {
            assert!(timer.fires(now_ns) && !timer.fires(now_ns));
            // What the poll waits for lies ahead.
            assert_eq!(timer.due_ns, Some(now_ns + KILL_AGAIN_NS));
            now_ns += KILL_AGAIN_NS;
        }
    }
}
