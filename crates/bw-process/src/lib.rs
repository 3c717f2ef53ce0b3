//! Starts the processes of a trial together, times them, and leaves none running.
//!
//! Purpose: everything about a trial that must not happen inside Python. A child's peak
//! resident size starts from its spawner's, and a garbage collector beside a stop watch
//! is noise; so a small single-threaded program starts, stamps and waits.
//! Decision: raw clone, fork and poll over pidfds; `std::process::Command` lost because it
//! can neither stamp just before execve nor hold N processes at a start gate.
//! Specification: docs/launcher-protocol.md. Non-goals: deciding anything about statistics.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod aplog;
pub mod arguments;
pub mod barrier;
pub mod barrier_command;
pub mod batch;
pub mod block;
pub mod child;
pub mod clock;
pub mod control;
pub mod descendants;
pub mod ending;
pub mod epoch;
pub mod guard;
pub mod hooks;
pub mod logs;
pub mod measure;
pub mod notes;
pub mod output;
pub mod pidfd;
pub mod program;
pub mod protocol;
pub mod replies;
pub mod seat;
pub mod semaphore;
pub mod shared;
pub mod signals;
pub mod spawn;
pub mod wait;
pub mod worker;
