//! A queue of things by their time: a heap of four children each.
//!
//! Decision: four children, since the path to the leaves is half as long as with two and
//! the four keys of a node lie in neighbouring cache lines; things due at the same time come out in the order they went
//! in, so that a run is reproducible. What lost: `BinaryHeap` (no order among equals without
//! a key of our own, deeper), a calendar queue (needs to know the gaps).

use bw_model::Nanos;

/// Something, and when it is due.
#[derive(Clone, Copy, Debug)]
pub struct Due<T> {
    /// When.
    pub at: Nanos,
    /// Its number in the order of arrival: breaks ties.
    pub order: u64,
    /// What.
    pub what: T,
}

impl<T> Due<T> {
    /// Returns whether it comes out before `other`.
    #[inline]
    pub fn before(&self, other: &Self) -> bool {
        (self.at, self.order) < (other.at, other.order)
    }
}

/// The queue. Grows by doubling; made with its capacity so that it seldom must.
#[derive(Debug)]
pub struct Heap<T> {
    nodes: Vec<Due<T>>,
}

impl<T: Copy> Heap<T> {
    /// Returns an empty queue with room for `capacity`.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            nodes: Vec::with_capacity(capacity),
        }
    }

    /// Returns the first without taking it.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<&Due<T>> {
        self.nodes.first()
    }

    /// Returns how many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds one.
    pub fn push(&mut self, due: Due<T>) {
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

    /// Takes the first.
    pub fn pop(&mut self) -> Option<Due<T>> {
        let last = self.nodes.pop()?;
        let Some(first) = self.nodes.first().copied() else {
            return Some(last);
        };
        self.sink(last);
        Some(first)
    }

    /// Puts `due` in at the top and lets it sink to its place.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_sorts_and_keeps_the_order_of_equals(times in prop::collection::vec(0u64..50, 0..300)) {
            let mut heap = Heap::with_capacity(4);
            let mut expected = Vec::new();
            for (order, at) in (0..).zip(&times) {
                heap.push(Due { at: Nanos(*at), order, what: () });
                expected.push((Nanos(*at), order));
            }
            expected.sort_unstable();
            let popped: Vec<_> = std::iter::from_fn(|| heap.pop()).map(|due| (due.at, due.order)).collect();
            prop_assert_eq!(popped, expected);
        }
    }
}
