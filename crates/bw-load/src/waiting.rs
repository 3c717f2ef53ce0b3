//! The operations that are due and find no free place in flight: a queue, first come first served.
//!
//! Decision: chunks of fixed size instead of one growing buffer, since a buffer of a million
//! waiting operations that doubles is copied whole in the middle of a run. So many chunks
//! are there from the start; beyond them one allocation of 160 KiB is made for every 4096
//! operations of backlog, the only one in the loop: by then the target is behind anyway. How long it may become
//! is the plan's `backlog`.

use crate::agenda::Planned;
use std::collections::VecDeque;

const CHUNK: usize = 4096;

/// The queue.
#[derive(Debug)]
pub struct Waiting {
    chunks: VecDeque<VecDeque<Planned>>,
    spare: Vec<VecDeque<Planned>>,
    length: usize,
}

impl Waiting {
    /// Returns an empty queue with room for at least `capacity` operations.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let chunks = capacity.div_ceil(CHUNK) + 1;
        Self {
            chunks: VecDeque::with_capacity(chunks.max(1024)),
            spare: (0..chunks)
                .map(|_| VecDeque::with_capacity(CHUNK))
                .collect(),
            length: 0,
        }
    }

    /// Appends one.
    pub fn push(&mut self, planned: Planned) {
        if self.chunks.back().is_none_or(|chunk| chunk.len() == CHUNK) {
            let chunk = self.spare.pop();
            let chunk = chunk.unwrap_or_else(|| VecDeque::with_capacity(CHUNK));
            self.chunks.push_back(chunk);
        }
        if let Some(chunk) = self.chunks.back_mut() {
            chunk.push_back(planned);
            self.length += 1;
        }
    }

    /// Takes the first.
    pub fn pop(&mut self) -> Option<Planned> {
        let chunk = self.chunks.front_mut()?;
        let planned = chunk.pop_front();
        if chunk.is_empty() {
            self.spare.extend(self.chunks.pop_front());
        }
        self.length -= usize::from(planned.is_some());
        planned
    }

    /// Returns how many wait.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether none waits.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bw_model::{Kind, Operation};
    use bw_model::Nanos;

    fn planned(filament: u32) -> Planned {
        let operation = Operation {
            at: Nanos::ZERO,
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

    #[test]
    fn first_come_first_served_over_many_chunks() {
        let mut waiting = Waiting::with_capacity(1);
        let mut expected = 0..30_000;
        for round in 0..3 {
            (round * 10_000..(round + 1) * 10_000).for_each(|n| waiting.push(planned(n)));
            for _ in 0..5000 {
                assert_eq!(waiting.pop().map(|p| p.filament), expected.next());
            }
        }
        assert_eq!(waiting.len(), 15_000);
        while let Some(planned) = waiting.pop() {
            assert_eq!(Some(planned.filament), expected.next());
        }
        assert!(waiting.is_empty() && expected.next().is_none());
    }
}
