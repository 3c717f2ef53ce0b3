//! The operating system's interface for the programs: clocks, futexes, memory, CPUs, processes, signals, /proc.
//!
//! Purpose: one place for all system calls of the launcher, the engine and the sampler, so that `unsafe` has few
//! places. Decision: rustix, whose calls are safe, where it has a call; libc for the rest (clone, wait4, signalfd,
//! semctl, sched_setscheduler, ppoll with a mask). rustix makes system calls directly: it allocates nothing, takes no
//! lock and does not change `errno`, so its calls are also async-signal-safe, which the launcher's children need.
//! Rejected: nix, which uses the C library and its `errno`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod arrival;
pub mod clock;
pub mod cpus;
pub mod futex;
pub mod memory;
pub mod poll;
pub mod process;
pub mod procfs;
pub mod regular;
pub mod semaphore;
pub mod signals;
pub mod socket;

use std::io;

/// Returns the text of a system error without the suffix that Rust adds: `(os error 2)`.
#[must_use]
pub fn reason(error: &impl std::fmt::Display) -> String {
    let mut text = error.to_string();
    if let Some(end) = text.find(" (os error") {
        text.truncate(end);
    }
    text
}

/// Returns `status`, or the error of the last C call if `status` is negative.
fn checked(status: i32) -> io::Result<i32> {
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(status)
}
