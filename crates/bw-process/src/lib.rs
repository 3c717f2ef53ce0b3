//! Starts the processes of a trial together, times them, and leaves none running.
//!
//! Purpose: everything about a trial that must not happen inside Python. A child's peak
//! resident size starts from its spawner's, and a garbage collector beside a stop watch
//! is noise; so a small single-threaded program starts, stamps and waits.
//! Decision: raw clone, fork and poll over pidfds; rejected: `std::process::Command`, because it
//! can neither stamp just before execve nor hold N processes at a start gate.
//! Specification: docs/launcher-protocol.md. Non-goals: deciding anything about statistics.

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
