//! The operating system as the programs use it: clocks, futexes, memory, CPUs, processes, signals, /proc.
//!
//! Purpose: one home for what the launcher, the engine and the sampler ask of the kernel, so that `unsafe` has few
//! places. Decision: rustix, whose calls are safe, where it has a call; libc for the rest (clone, wait4, signalfd,
//! semctl, sched_setscheduler, ppoll with a mask). rustix makes system calls itself: it allocates nothing, takes no lock
//! and leaves `errno` alone, so its calls are async-signal-safe too, which the launcher's children need. Rejected: nix,
//! which goes through the C library and its `errno`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod clock;
pub mod cpus;
pub mod futex;
pub mod memory;
pub mod poll;
pub mod process;
pub mod procfs;
pub mod semaphore;
pub mod signals;

use std::io;

/// Returns the text of an error of the system without the number that Rust adds: `(os error 2)`.
#[must_use]
pub fn reason(error: &impl std::fmt::Display) -> String {
    let mut text = error.to_string();
    if let Some(end) = text.find(" (os error") {
        text.truncate(end);
    }
    text
}

/// Returns the error of the last C call where `status` is below zero, else the status.
fn checked(status: i32) -> io::Result<i32> {
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(status)
}
