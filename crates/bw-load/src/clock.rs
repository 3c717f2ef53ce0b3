//! The clock of a run, and a clock that tests move by hand.

use bw_units::Nanos;

/// Tells the time since the start of the run. Each worker has its own copy.
pub trait Clock {
    /// Returns the time since the start of the run; zero before it.
    fn now(&mut self) -> Nanos;
}
