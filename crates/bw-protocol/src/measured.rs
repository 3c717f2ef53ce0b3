//! The measured part of a run, by which counts of operations leave out the warm-up.

use bw_model::{Nanos, Operation};

/// The operations that are counted: those with an intended start from a time on, at first all.
#[derive(Clone, Debug, Default)]
pub struct MeasuredPart {
    start: Nanos,
    is_awaited: bool,
}

impl MeasuredPart {
    /// Sets the start: the end of the warm-up.
    pub fn set_start(&mut self, from: Nanos) {
        self.start = from;
        self.is_awaited = from > Nanos::ZERO;
    }

    /// Returns whether the operation belongs to it.
    #[inline]
    #[must_use]
    pub fn has(&self, operation: &Operation) -> bool {
        operation.at >= self.start
    }

    /// Takes an operation that is submitted; returns whether it is the first one after a warm-up.
    #[inline]
    pub fn begins_with(&mut self, operation: &Operation) -> bool {
        let begins = self.is_awaited && self.has(operation);
        self.is_awaited &= !begins;
        begins
    }

    /// Returns whether no operation of it was submitted yet, after a warm-up.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.is_awaited
    }
}
