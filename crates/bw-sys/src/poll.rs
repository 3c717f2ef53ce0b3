//! Waiting for descriptors until a deadline. Source: ppoll(2).

use crate::clock::monotonic_ns;
use std::io;
use std::ptr;

/// A descriptor to wait for, as poll(2) takes it; one below zero is ignored.
pub type PollEntry = libc::pollfd;

/// Returns an entry that waits for input.
#[must_use]
pub fn readable(fd: i32) -> PollEntry {
    entry(fd, libc::POLLIN)
}

/// Returns an entry that waits for room to write.
#[must_use]
pub fn writable(fd: i32) -> PollEntry {
    entry(fd, libc::POLLOUT)
}

fn entry(fd: i32, events: i16) -> PollEntry {
    PollEntry {
        fd,
        events,
        revents: 0,
    }
}

/// Which signals may interrupt a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupts {
    /// Those that are not blocked at the moment.
    AsBefore,
    /// All signals, also blocked ones.
    All,
}

/// Waits for the entries until CLOCK_MONOTONIC is `deadline_ns` (None: no deadline); returns how many are ready.
///
/// # Errors
/// As ppoll(2); `Interrupted` after a signal. No entry is ready then.
pub fn poll(
    entries: &mut [PollEntry],
    deadline_ns: Option<u64>,
    interrupts: Interrupts,
) -> io::Result<usize> {
    let left = deadline_ns.map(|deadline| {
        let left = deadline.saturating_sub(monotonic_ns());
        libc::timespec {
            tv_sec: (left / 1_000_000_000).cast_signed(),
            tv_nsec: (left % 1_000_000_000).cast_signed(),
        }
    });
    let left = left.as_ref().map_or(ptr::null(), ptr::from_ref);
    let none = crate::signals::set_of(&[]);
    let mask = match interrupts {
        Interrupts::AsBefore => ptr::null(),
        Interrupts::All => ptr::from_ref(&none),
    };
    let count = entries.len() as libc::nfds_t;
    // SAFETY: the entries are valid for their number; the time and the mask are null or outlive the call.
    let ready = unsafe { libc::ppoll(entries.as_mut_ptr(), count, left, mask) };
    usize::try_from(ready).map_err(|_| {
        let error = io::Error::last_os_error();
        entries.iter_mut().for_each(|entry| entry.revents = 0);
        error
    })
}
