//! The target: what operations are executed on.
//!
//! A target belongs to one worker (each worker makes its own from a shared description) and is
//! asynchronous: `submit` hands over, `reap` gives back. Nothing here may allocate, lock or
//! log once the run has begun.

use bw_model::{Nanos, Operation};
use std::io;

/// The end of an operation on a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reaped {
    /// The slot that `submit` was given.
    pub slot: u32,
    /// Bytes transferred, or a negative errno.
    pub result: i32,
}

/// Something that executes operations.
pub trait Target {
    /// Whether `flush` makes system calls. The worker then reads its clock again after each flush, so that it
    /// sees what became due meanwhile.
    const FLUSH_CALLS_KERNEL: bool = true;

    /// Returns how many operations one hand-over to the kernel takes, at least 1: no more than
    /// that are submitted before a flush, so that each is stamped just before its own hand-over.
    fn batch(&self) -> usize;

    /// Returns how many operations may be in flight at once, at most: slots are below it.
    fn capacity(&self) -> u32;

    /// Prepares an operation under `slot`, which is free. It may start now, or with `flush`.
    fn submit(&mut self, slot: u32, operation: &Operation);

    /// Starts everything that was prepared: at most [`batch`](Target::batch) operations. The worker reads
    /// the clock just before; that is the actual start of all of them.
    ///
    /// # Errors
    /// The kernel refuses the whole submission: the run ends.
    fn flush(&mut self) -> io::Result<()>;

    /// Appends ends to `ends`, at most its spare capacity. Returns at once.
    ///
    /// # Errors
    /// The kernel refuses to report completions: the run ends.
    fn reap(&mut self, ends: &mut Vec<Reaped>) -> io::Result<()>;

    /// Sleeps until something ends, or for about `at_most`; may return early. The worker takes
    /// care of what comes after: the last stretch before a deadline is spun, never slept.
    ///
    /// # Errors
    /// The kernel refuses to wait: the run ends.
    fn wait(&mut self, at_most: Nanos) -> io::Result<()>;
}
