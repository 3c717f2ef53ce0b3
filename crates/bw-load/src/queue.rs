//! The queues of a worker: timers and operations by time, operations that wait for a slot, and the slots in flight.
//!
//! Decisions. The heap has four children per node: the path to the leaves is half as long as with two, and the four
//! keys of a node lie in neighbouring cache lines. Items due at the same time leave in the order in which they were
//! added, so a run is reproducible. Rejected: `BinaryHeap` (deeper, and no order among equals without a key of our
//! own), a calendar queue (needs to know the gaps).
//!
//! Operations have a queue of their own, since they go first (Buttress, section 5.1, "I/O events ... their own priority
//! queue"): a FIFO and a heap. Filaments mostly emit in the order of time, and an operation that continues the FIFO is
//! appended for the cost of a copy; only an operation that is due before the end of the FIFO goes into the heap.
//!
//! Operations that are due and find no free slot wait first come, first served, in chunks of a fixed size: a single
//! buffer that doubles would be copied whole in the middle of a run. Beyond the initial chunks, every 4096 operations
//! of backlog cost one allocation of 192 KiB, the only allocation in the loop; by then the target is behind anyway. The
//! plan's `backlog` bounds it.

use bw_model::{Nanos, Operation};
use std::collections::VecDeque;

/// An item, and when it is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due<T> {
    pub at: Nanos,
    /// Its number in the order of insertion: breaks ties.
    pub order: u64,
    pub what: T,
}

impl<T> Due<T> {
    /// Returns whether it comes out before `other`.
    #[inline]
    pub(crate) fn before(&self, other: &Self) -> bool {
        (self.at, self.order) < (other.at, other.order)
    }
}

/// The queue. Grows by doubling; its initial capacity makes that rare.
#[derive(Debug)]
pub(crate) struct TimeHeap<T> {
    nodes: Vec<Due<T>>,
}

impl<T: Copy> TimeHeap<T> {
    /// Returns an empty queue with room for `capacity`.
    #[must_use]
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            nodes: Vec::with_capacity(capacity),
        }
    }

    /// Returns the first item without taking it.
    #[inline]
    #[must_use]
    pub(crate) fn first(&self) -> Option<&Due<T>> {
        self.nodes.first()
    }

    /// Returns the number of items.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether the queue is empty.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds an item.
    pub(crate) fn push(&mut self, due: Due<T>) {
        let mut place = self.nodes.len();
        self.nodes.push(due);
        while place > 0 {
            let parent = (place - 1) / 4;
            if !due.before(&self.nodes[parent]) {
                break;
            }
            self.nodes[place] = self.nodes[parent];
            place = parent;
        }
        self.nodes[place] = due;
    }

    /// Takes the first item.
    pub(crate) fn pop(&mut self) -> Option<Due<T>> {
        let last = self.nodes.pop()?;
        let Some(first) = self.nodes.first().copied() else {
            return Some(last);
        };
        self.sink(last);
        Some(first)
    }

    /// Inserts `due` at the top and lets it sink to its place.
    fn sink(&mut self, due: Due<T>) {
        let mut place = 0;
        loop {
            let begin = place * 4 + 1;
            let end = (begin + 4).min(self.nodes.len());
            let Some(least) = (begin..end).reduce(|a, b| self.earlier(a, b)) else {
                break;
            };
            if !self.nodes[least].before(&due) {
                break;
            }
            self.nodes[place] = self.nodes[least];
            place = least;
        }
        self.nodes[place] = due;
    }

    #[inline]
    fn earlier(&self, a: usize, b: usize) -> usize {
        if self.nodes[b].before(&self.nodes[a]) {
            b
        } else {
            a
        }
    }
}

/// An operation, and which of the worker's filaments it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The operation.
    pub operation: Operation,
    /// The filament's index among the worker's filaments.
    pub filament: u32,
    /// The filament's number in the workload.
    pub stream: u32,
}

/// An operation that waits for a free slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub planned: Planned,
    /// When the worker came to it.
    pub since: Nanos,
}

/// The operations to issue.
#[derive(Debug)]
pub(crate) struct OperationQueue {
    line: VecDeque<Due<Planned>>,
    heap: TimeHeap<Planned>,
    order: u64,
}

impl OperationQueue {
    /// Returns an empty queue with room for `capacity` operations in order and as many out of it.
    #[must_use]
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            line: VecDeque::with_capacity(capacity),
            heap: TimeHeap::with_capacity(capacity),
            order: 0,
        }
    }

    /// Adds an operation.
    #[inline]
    pub(crate) fn push(&mut self, planned: Planned) {
        let at = planned.operation.at;
        let due = Due {
            at,
            order: self.order,
            what: planned,
        };
        self.order += 1;
        if self.line.is_empty() {
            // Begins at the first place again: a loop with few operations stays in the cache.
            self.line.clear();
        }
        if self.line.back().is_none_or(|last| last.at <= at) {
            self.line.push_back(due);
        } else {
            self.heap.push(due);
        }
    }

    /// Returns the intended start of the first operation; [`Nanos::NEVER`] if there is none.
    #[inline]
    #[must_use]
    pub(crate) fn next_at(&self) -> Nanos {
        let line = self.line.front().map_or(Nanos::NEVER, |due| due.at);
        let heap = self.heap.first().map_or(Nanos::NEVER, |due| due.at);
        line.min(heap)
    }

    /// Takes the first operation if it is due at `now`.
    #[inline]
    pub(crate) fn pop_due(&mut self, now: Nanos) -> Option<Planned> {
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

    /// Returns the number of operations.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.line.len() + self.heap.len()
    }

    /// Returns whether the queue is empty.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

const CHUNK: usize = 4096;

/// The queue.
#[derive(Debug)]
pub(crate) struct WaitingQueue {
    chunks: VecDeque<VecDeque<Waiting>>,
    spare: Vec<VecDeque<Waiting>>,
    length: usize,
}

impl WaitingQueue {
    /// Returns an empty queue with room for at least `capacity` operations.
    #[must_use]
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let chunks = capacity.div_ceil(CHUNK) + 1;
        Self {
            chunks: VecDeque::with_capacity(chunks.max(1024)),
            spare: (0..chunks)
                .map(|_| VecDeque::with_capacity(CHUNK))
                .collect(),
            length: 0,
        }
    }

    /// Appends an operation.
    pub(crate) fn push(&mut self, waiting: Waiting) {
        if self.chunks.back().is_none_or(|chunk| chunk.len() == CHUNK) {
            let chunk = self.spare.pop();
            let chunk = chunk.unwrap_or_else(|| VecDeque::with_capacity(CHUNK));
            self.chunks.push_back(chunk);
        }
        if let Some(chunk) = self.chunks.back_mut() {
            chunk.push_back(waiting);
            self.length += 1;
        }
    }

    /// Takes the first operation.
    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        let chunk = self.chunks.front_mut()?;
        let waiting = chunk.pop_front();
        if chunk.is_empty() {
            self.spare.extend(self.chunks.pop_front());
        }
        self.length -= usize::from(waiting.is_some());
        waiting
    }

    /// Returns whether no operation waits.
    #[inline]
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// A queue of waiting operations for each part of the target.
#[derive(Debug)]
pub(crate) struct WaitingQueues {
    queues: Vec<WaitingQueue>,
    length: usize,
}

impl WaitingQueues {
    /// Returns empty queues for `parts` parts, each with room for at least `capacity` operations.
    #[must_use]
    pub(crate) fn new(parts: usize, capacity: usize) -> Self {
        let queue = |_| WaitingQueue::with_capacity(capacity);
        Self {
            queues: (0..parts).map(queue).collect(),
            length: 0,
        }
    }

    /// Appends an operation that waits for a part.
    pub(crate) fn push(&mut self, part: usize, waiting: Waiting) {
        self.queues[part].push(waiting);
        self.length += 1;
    }

    /// Takes the first operation that waits for one of the parts with room.
    #[inline]
    pub(crate) fn pop(&mut self, mut has_room: impl FnMut(usize) -> bool) -> Option<Waiting> {
        let mut parts = (0..).zip(&mut self.queues);
        let (_, queue) = parts.find(|(part, queue)| !queue.is_empty() && has_room(*part))?;
        self.length -= 1;
        queue.pop()
    }

    /// Returns the number of waiting operations.
    #[inline]
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Returns whether no operation waits.
    #[inline]
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// An operation in flight.
#[derive(Clone, Copy, Debug)]
pub struct InFlight {
    /// The operation and its filament.
    pub planned: Planned,
    /// The actual start.
    pub issued: Nanos,
    /// If it had to wait for this slot: since when.
    pub held_since: Option<Nanos>,
}

/// The slots: a fixed number of places for operations in flight.
#[derive(Debug)]
pub(crate) struct Slots {
    flights: Vec<Option<InFlight>>,
    free: Vec<u32>,
}

impl Slots {
    /// Returns `depth` free slots.
    #[must_use]
    pub(crate) fn new(depth: u32) -> Self {
        Self {
            flights: vec![None; depth as usize],
            free: (0..depth).rev().collect(),
        }
    }

    /// Returns how many operations are in flight.
    #[inline]
    #[must_use]
    pub(crate) fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    /// Returns whether every slot is taken.
    #[inline]
    #[must_use]
    pub(crate) fn full(&self) -> bool {
        self.free.is_empty()
    }

    /// Returns whether less than a quarter of the slots is free.
    #[inline]
    #[must_use]
    pub(crate) fn scarce(&self) -> bool {
        self.free.len() * 4 < self.flights.len()
    }

    /// Takes a free slot for the operation; returns its number, or None if every slot is taken.
    #[inline]
    pub(crate) fn take(&mut self, planned: Planned, held_since: Option<Nanos>) -> Option<u32> {
        let slot = self.free.pop()?;
        self.flights[slot as usize] = Some(InFlight {
            planned,
            issued: Nanos::NEVER,
            held_since,
        });
        Some(slot)
    }

    /// Stores the actual start of the operation under `slot`, and returns the operation; None if the slot is free.
    #[inline]
    pub(crate) fn stamp(&mut self, slot: u32, issued: Nanos) -> Option<&Planned> {
        let flight = self.flights.get_mut(slot as usize)?.as_mut()?;
        flight.issued = issued;
        Some(&flight.planned)
    }

    /// Frees a slot and returns its operation; None if it was free, or does not exist.
    #[inline]
    pub(crate) fn free(&mut self, slot: u32) -> Option<InFlight> {
        let flight = self.flights.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(flight)
    }

    /// Returns everything in flight.
    pub(crate) fn flights(&self) -> impl Iterator<Item = &InFlight> {
        self.flights.iter().flatten()
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
            ..Operation::new(Kind::Read, 0, 0)
        };
        Planned {
            operation,
            filament,
            stream: 0,
        }
    }

    proptest! {
        #[test]
        fn the_heap_sorts_and_keeps_the_order_of_equals(times in prop::collection::vec(0u64..50, 0..300)) {
            let mut heap = TimeHeap::with_capacity(4);
            let mut expected = Vec::new();
            for (order, at) in (0..).zip(&times) {
                heap.push(Due { at: Nanos(*at), order, what: () });
                expected.push((Nanos(*at), order));
            }
            expected.sort_unstable();
            let popped: Vec<_> = std::iter::from_fn(|| heap.pop()).map(|due| (due.at, due.order)).collect();
            prop_assert_eq!(popped, expected);
        }

        #[test]
        fn whatever_goes_in_comes_out_in_the_order_of_time(times in prop::collection::vec(0u64..99, 0..200)) {
            let mut queue = OperationQueue::with_capacity(1);
            for (number, at) in (0..).zip(&times) {
                queue.push(planned(*at, number));
            }
            let mut expected: Vec<_> = times.iter().copied().zip(0u32..).collect();
            expected.sort_unstable();
            let taken: Vec<_> = std::iter::from_fn(|| queue.pop_due(Nanos::NEVER))
                .map(|planned| (planned.operation.at.0, planned.filament)).collect();
            prop_assert_eq!(taken, expected);
        }
    }

    #[test]
    fn nothing_comes_out_before_its_time() {
        let mut queue = OperationQueue::with_capacity(4);
        queue.push(planned(10, 0));
        queue.push(planned(5, 1));
        assert_eq!(queue.next_at(), Nanos(5));
        assert!(queue.pop_due(Nanos(4)).is_none());
        assert_eq!(queue.pop_due(Nanos(5)).map(|p| p.filament), Some(1));
        assert!(queue.pop_due(Nanos(9)).is_none());
        assert_eq!(queue.len(), 1);
    }

    fn waiting(n: u32) -> Waiting {
        Waiting {
            planned: planned(0, n),
            since: Nanos(u64::from(n)),
        }
    }

    #[test]
    fn first_come_first_served_over_many_chunks() {
        let mut queue = WaitingQueue::with_capacity(1);
        let mut expected = 0..30_000;
        for round in 0..3 {
            (round * 10_000..(round + 1) * 10_000).for_each(|n| queue.push(waiting(n)));
            for _ in 0..5000 {
                assert_eq!(queue.pop(), expected.next().map(waiting));
            }
        }
        assert_eq!(queue.length, 15_000);
        while let Some(next) = queue.pop() {
            assert_eq!(Some(next), expected.next().map(waiting));
        }
        assert!(queue.is_empty() && expected.next().is_none());
    }
}
