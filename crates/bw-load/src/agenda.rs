//! The operations that a worker has yet to issue, in the order of their intended start.
//!
//! Decision: a line and a heap. Filaments mostly emit in the order of time, and what continues
//! the line is appended to it for the cost of a copy; only what must go before the end of the line
//! passes the heap. Operations are apart from timers and messages, since they go first
//! (Buttress, section 5.1, "I/O events ... their own priority queue").

use crate::heap::{Due, Heap};
use bw_model::Operation;
use bw_model::Nanos;
use std::collections::VecDeque;

/// An operation, and which of the worker's filaments it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The operation.
    pub operation: Operation,
    /// The filament: its place among the worker's.
    pub filament: u32,
    /// The filament: its number in the workload.
    pub stream: u32,
}

/// The operations to be issued.
#[derive(Debug)]
pub struct Agenda {
    line: VecDeque<Due<Planned>>,
    heap: Heap<Planned>,
    order: u64,
}

impl Agenda {
    /// Returns an empty agenda with room for `capacity` operations in order and as many out of it.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            line: VecDeque::with_capacity(capacity),
            heap: Heap::with_capacity(capacity),
            order: 0,
        }
    }

    /// Adds an operation.
    #[inline]
    pub fn push(&mut self, planned: Planned) {
        let at = planned.operation.at;
        let due = Due {
            at,
            order: self.order,
            what: planned,
        };
        self.order += 1;
        if self.line.back().is_none_or(|last| last.at <= at) {
            self.line.push_back(due);
        } else {
            self.heap.push(due);
        }
    }

    /// Returns the intended start of the first; [`Nanos::NEVER`] if there is none.
    #[inline]
    #[must_use]
    pub fn next_at(&self) -> Nanos {
        let line = self.line.front().map_or(Nanos::NEVER, |due| due.at);
        let heap = self.heap.first().map_or(Nanos::NEVER, |due| due.at);
        line.min(heap)
    }

    /// Takes the first operation if it is due at `now`.
    #[inline]
    pub fn pop_due(&mut self, now: Nanos) -> Option<Planned> {
        match (self.line.front(), self.heap.first()) {
            (Some(line), None) if line.at <= now => self.line.pop_front(),
            (Some(line), Some(heap)) if line.before(heap) && line.at <= now => {
                self.line.pop_front()
            }
            (_, Some(heap)) if heap.at <= now => self.heap.pop(),
            _ => None,
        }
        .map(|due| due.what)
    }

    /// Returns how many operations there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.line.len() + self.heap.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bw_model::Kind;
    use proptest::prelude::*;

    fn planned(at: u64, filament: u32) -> Planned {
        let operation = Operation {
            at: Nanos(at),
            offset: 0,
            size: 0,
            kind: Kind::Read,
            notify: false,
            tag: 0,
        };
        Planned {
            operation,
            filament,
            stream: 0,
        }
    }

    proptest! {
        #[test]
        fn whatever_goes_in_comes_out_in_the_order_of_time(times in prop::collection::vec(0u64..99, 0..200)) {
            let mut agenda = Agenda::with_capacity(1);
            for (number, at) in (0..).zip(&times) {
                agenda.push(planned(*at, number));
            }
            let mut expected: Vec<_> = times.iter().copied().zip(0u32..).collect();
            expected.sort_unstable();
            let taken: Vec<_> = std::iter::from_fn(|| agenda.pop_due(Nanos::NEVER))
                .map(|planned| (planned.operation.at.0, planned.filament)).collect();
            prop_assert_eq!(taken, expected);
        }
    }

    #[test]
    fn nothing_comes_out_before_its_time() {
        let mut agenda = Agenda::with_capacity(4);
        agenda.push(planned(10, 0));
        agenda.push(planned(5, 1));
        assert_eq!(agenda.next_at(), Nanos(5));
        assert!(agenda.pop_due(Nanos(4)).is_none());
        assert_eq!(agenda.pop_due(Nanos(5)).map(|p| p.filament), Some(1));
        assert!(agenda.pop_due(Nanos(9)).is_none());
        assert_eq!(agenda.len(), 1);
    }
}
