//! Starts the processes of a trial together, times them, and leaves none running.
//!
//! Purpose: the parts of a trial that must not run inside Python. A child's peak
//! resident size starts from its parent's, and a garbage collector adds noise to timing;
//! so a small single-threaded program starts, stamps and waits.
//! Decision: raw clone, fork and poll over pidfds. Rejected: `std::process::Command`, because it
//! can neither stamp just before execve nor hold N processes at a start gate.
//! Specification: docs/launcher-protocol.md. Non-goals: any statistical decision.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod arguments;
pub mod barrier;
mod batch;
mod cleanup;
mod control;
mod descendants;
mod epoch;
mod hooks;
pub mod measure;
mod output;
mod protocol;
mod runner;
mod slots;
mod spawn;
pub mod supervisor;
mod wait;

use std::fs::File;
use std::io;

/// Opens /dev/null. Errors: open(2), with its name.
fn null_device() -> io::Result<File> {
    const PATH: &str = "/dev/null";
    let opened = File::options().read(true).write(true).open(PATH);
    opened.map_err(|error| {
        io::Error::new(error.kind(), format!("{PATH}: {}", bw_sys::reason(&error)))
    })
}
