//! The guard: starts the worker, waits, and ends what is left if the worker is killed.
//!
//! Both are subreapers: orphans of the worker fall to the guard. The worker gets SIGTERM if
//! the guard dies, and leads a session of its own, so a terminal's Ctrl-C reaches only `bw`.
//! Decision: two processes of 1 MiB; a cgroup with cgroup.kill lost, it needs rights.
//! Sources: prctl(2), setsid(2).

use crate::cleanup::{CleanupNotes, remove_abandoned};
use crate::clock::monotonic_ns;
use crate::control::readable;
use crate::descendants::{become_subreaper, end_descendants};
use crate::signals::{Signals, TERMINATION, hold, reset_actions};
use crate::wait::poll;
use crate::{pidfd, runner};
use std::io;
use std::os::fd::AsRawFd;

const GRACE_NS: u64 = 2_000_000_000;
/// A worker that was told to end and has not after this long is killed [ns].
const PATIENCE_NS: u64 = 60_000_000_000;

/// `bw-launcher serve`. Returns the exit status. Errors: the system refuses to begin.
pub fn serve() -> io::Result<i32> {
    // SAFETY: integer arguments; only standard descriptors are in use so far.
    unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
    reset_actions();
    // Before the worker can say hello: from then on a signal may come.
    hold(&TERMINATION);
    remove_abandoned();
    // SAFETY: no arguments.
    let parent = unsafe { libc::getppid() };
    let notes = CleanupNotes::new()?;
    // SAFETY: no arguments.
    let guard = unsafe { libc::getpid() };
    // SAFETY: single-threaded; the child goes on in this program.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(work(guard, &notes)),
        worker => watch(worker, parent, &notes),
    }
}

fn work(guard: libc::pid_t, notes: &CleanupNotes) -> i32 {
    // SAFETY: integer arguments only. The guard may have died before prctl took effect.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
        if libc::getppid() != guard {
            return 1;
        }
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

fn watch(worker: libc::pid_t, parent: libc::pid_t, notes: &CleanupNotes) -> io::Result<i32> {
    become_subreaper();
    let signals = Signals::block(&TERMINATION)?;
    let process = pidfd::open(worker)?;
    let parent = pidfd::open(parent).ok();
    let parent = parent.as_ref().map_or(-1, AsRawFd::as_raw_fd);
    let mut fds = [process.as_raw_fd(), signals.fd(), parent].map(readable);
    let mut deadline_ns = None;
    loop {
        let now = poll(&mut fds, deadline_ns);
        if fds[0].revents != 0 {
            break;
        }
        let told = fds[1].revents != 0 && told_to_end(&signals);
        if (told || fds[2].revents != 0) && deadline_ns.is_none() {
            pidfd::send(&process, libc::SIGTERM);
            deadline_ns = Some(now + PATIENCE_NS);
        }
        if fds[2].revents != 0 {
            fds[2].fd = -1;
        }
        if deadline_ns.is_some_and(|deadline| monotonic_ns() >= deadline) {
            pidfd::send(&process, libc::SIGKILL);
        }
    }
    let status = wait_for_runner(worker);
    end_descendants(&[], GRACE_NS, &mut []).complain();
    notes.clear();
    Ok(status)
}

/// Ctrl-C and Ctrl-\ are `bw`'s to answer: they are read and ignored.
fn told_to_end(signals: &Signals) -> bool {
    let mut told = false;
    while let Some(arrived) = signals.next() {
        told |= matches!(arrived.signal, libc::SIGTERM | libc::SIGHUP);
    }
    told
}

fn wait_for_runner(worker: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: `status` is writable.
    unsafe { libc::waitpid(worker, &mut status, 0) };
    if libc::WIFSIGNALED(status) {
        return 128 + libc::WTERMSIG(status);
    }
    libc::WEXITSTATUS(status)
}
