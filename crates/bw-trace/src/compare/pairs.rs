//! Finds the operation of one side that is an operation of the other: the same key, in order, within a window.

use super::align::Key;
use std::collections::{HashMap, VecDeque};

/// How many operations may wait for their other half: 4 Mi, about 500 MB. Beyond it the oldest are given up.
const MOST: usize = 4 << 20;

/// Which side an operation is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// What was meant.
    A,
    /// What became of it.
    B,
}

/// Those of one key that wait: all of them are of one side.
#[derive(Debug)]
struct Waiting {
    which: Which,
    since: VecDeque<(i128, u64)>,
}

/// Pairs operations that come in the order of time.
#[derive(Debug)]
pub struct Pairs {
    window: i128,
    waiting: HashMap<Key, Waiting>,
    in_order: VecDeque<(i128, u64, Key)>,
    number: u64,
    matched: u64,
    given_up: [u64; 2],
}

impl Pairs {
    /// Returns an empty account; a pair is at most `window_ns` apart.
    #[must_use]
    pub fn new(window_ns: u64) -> Self {
        Self {
            window: i128::from(window_ns),
            waiting: HashMap::new(),
            in_order: VecDeque::new(),
            number: 0,
            matched: 0,
            given_up: [0; 2],
        }
    }

    /// Takes an operation that arrives at `at`. Returns B's arrival less A's if it completes a pair [ns].
    pub fn take(&mut self, which: Which, at: i128, key: Key) -> Option<i128> {
        self.give_up_before(at - self.window);
        if let Some(other) = self.other_half(which, key) {
            self.matched += 1;
            return Some(if which == Which::B {
                at - other
            } else {
                other - at
            });
        }
        self.number += 1;
        let since = VecDeque::new();
        let waiting = self.waiting.entry(key).or_insert(Waiting { which, since });
        waiting.since.push_back((at, self.number));
        self.in_order.push_back((at, self.number, key));
        None
    }

    fn other_half(&mut self, which: Which, key: Key) -> Option<i128> {
        let waiting = self.waiting.get_mut(&key)?;
        if waiting.which == which {
            return None;
        }
        let (at, _) = waiting.since.pop_front()?;
        if waiting.since.is_empty() {
            self.waiting.remove(&key);
        }
        Some(at)
    }

    fn give_up_before(&mut self, before: i128) {
        while let Some((at, number, key)) = self.in_order.front().copied() {
            if at >= before && self.in_order.len() <= MOST {
                break;
            }
            self.in_order.pop_front();
            self.give_up(number, key);
        }
    }

    /// Gives up number `number` if it still waits: then it is the first of its key.
    fn give_up(&mut self, number: u64, key: Key) {
        let Some(waiting) = self.waiting.get_mut(&key) else {
            return;
        };
        if waiting.since.front().is_some_and(|first| first.1 == number) {
            waiting.since.pop_front();
            self.given_up[waiting.which as usize] += 1;
        }
        if waiting.since.is_empty() {
            self.waiting.remove(&key);
        }
    }

    /// Returns how many pairs there are.
    #[must_use]
    pub fn matched(&self) -> u64 {
        self.matched
    }

    /// Returns how many of A and of B have no other half, those that wait still among them.
    #[must_use]
    pub fn unmatched(&self) -> (u64, u64) {
        let mut left = self.given_up;
        for waiting in self.waiting.values() {
            left[waiting.which as usize] += waiting.since.len() as u64;
        }
        (left[0], left[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_operations_are_paired_in_their_order() {
        let mut pairs = Pairs::new(100);
        assert_eq!(pairs.take(Which::A, 0, 7), None);
        assert_eq!(pairs.take(Which::A, 10, 7), None);
        assert_eq!(pairs.take(Which::B, 12, 7), Some(12));
        assert_eq!(pairs.take(Which::B, 13, 7), Some(3));
        assert_eq!(pairs.take(Which::B, 14, 7), None);
        assert_eq!(pairs.take(Which::A, 20, 7), Some(-6));
        assert_eq!((pairs.matched(), pairs.unmatched()), (3, (0, 0)));
    }

    #[test]
    fn what_is_too_far_apart_is_no_pair() {
        let mut pairs = Pairs::new(100);
        pairs.take(Which::A, 0, 7);
        assert_eq!(pairs.take(Which::B, 101, 7), None);
        assert_eq!((pairs.matched(), pairs.unmatched()), (0, (1, 1)));
    }

    proptest! {
        #[test]
        fn nothing_is_lost(steps in prop::collection::vec((any::<bool>(), 0..50i128, 0..4u64), 0..200)) {
            let mut pairs = Pairs::new(100);
            let (mut at, mut all) = (0, [0, 0]);
            for (of_b, gap, key) in steps {
                at += gap;
                let which = if of_b { Which::B } else { Which::A };
                all[which as usize] += 1;
                if let Some(error) = pairs.take(which, at, key) {
                    prop_assert!(error.abs() <= 100);
                }
            }
            let (a, b) = pairs.unmatched();
            prop_assert_eq!([a + pairs.matched(), b + pairs.matched()], all);
        }
    }
}
