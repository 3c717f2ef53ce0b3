//! What the naive pacers call: one operation, executed by the thread that asks for it.
//!
//! Decision: a trait of its own beside [`Target`](crate::target::Target), because the paper's
//! SELECT, SLEEP and DED-CLOCK replayers block in the call (Buttress, section 2); to dress the
//! asynchronous target as a blocking one would measure our engine, not theirs.

use crate::timekeeper::AnyClock;
use bw_model::Operation;

/// Something that executes an operation while the caller waits. One for each thread.
pub trait Synchronous: Send {
    /// Tells the clock that counts from time zero, before the first operation.
    fn begin(&mut self, _clock: &AnyClock) {}

    /// Executes `operation` and returns the bytes transferred, or a negative errno. Its `at`
    /// is not looked at: when to call is the caller's business.
    fn execute(&self, operation: &Operation) -> i32;
}
