//! The reorder window: stamps that are a little out of order are put in order, others refused.
//!
//! Decision: two queues. What comes in order goes to the end of the first and costs a push and a pop;
//! only what comes late goes through a heap. One heap for all would cost a logarithm for every
//! operation of a trace that is sorted already, as most are.

use crate::entry::Entry;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// How many operations the window holds unless told otherwise.
pub(crate) const WINDOW_ROWS: usize = 65_536;

/// The operations whose turn has not come yet.
pub(crate) struct OrderWindow {
    run: VecDeque<Entry>,
    late: BinaryHeap<Reverse<ByStamp>>,
    window_ns: u64,
    window_rows: usize,
    newest: u64,
    released: u64,
    received: u64,
    reordered: u64,
}

/// An operation that came too far behind the others.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLate {
    /// How far it lies behind the last one that was let go [ns].
    pub behind_ns: u64,
    /// Whether the window was cut short by its number of operations.
    pub rows_were_full: bool,
}

impl OrderWindow {
    /// Returns an empty window of this length [ns] and number of operations.
    pub fn new(window_ns: u64, window_rows: usize) -> Self {
        Self {
            run: VecDeque::new(),
            late: BinaryHeap::new(),
            window_ns,
            window_rows,
            newest: 0,
            released: 0,
            received: 0,
            reordered: 0,
        }
    }

    /// Takes an operation in.
    ///
    /// Errors: its place in the order has passed already.
    pub fn push(&mut self, mut entry: Entry) -> Result<(), TooLate> {
        let at = entry.at();
        if at < self.released {
            return Err(TooLate {
                behind_ns: self.released - at,
                rows_were_full: self.newest - at <= self.window_ns,
            });
        }
        entry.sequence = self.received;
        self.received += 1;
        if at >= self.newest {
            self.newest = at;
            self.run.push_back(entry);
        } else {
            self.reordered += 1;
            self.late.push(Reverse(ByStamp(entry)));
        }
        Ok(())
    }

    /// Returns the earliest operation if nothing that may still come is before it; `all`: nothing comes.
    pub fn pop(&mut self, all: bool) -> Option<Entry> {
        let in_order = self.run.front().map(key);
        let late = self.late.peek().map(|Reverse(ByStamp(entry))| key(entry));
        let late_first = late.is_some() && (in_order.is_none() || late < in_order);
        let (at, _) = if late_first { late? } else { in_order? };
        let held = self.run.len() + self.late.len();
        if !all && self.newest - at < self.window_ns && held <= self.window_rows {
            return None;
        }
        self.released = at;
        if late_first {
            self.late.pop().map(|Reverse(ByStamp(entry))| entry)
        } else {
            self.run.pop_front()
        }
    }

    /// Returns the length of the window [ns].
    pub fn window_ns(&self) -> u64 {
        self.window_ns
    }

    /// Returns how many operations came behind a later one.
    pub fn reordered(&self) -> u64 {
        self.reordered
    }
}

fn key(entry: &Entry) -> (u64, u64) {
    (entry.at(), entry.sequence)
}

#[derive(PartialEq, Eq)]
struct ByStamp(Entry);

impl Ord for ByStamp {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        key(&self.0).cmp(&key(&other.0))
    }
}

impl PartialOrd for ByStamp {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bw_model::Kind;
    use proptest::prelude::*;

    /// Returns what comes out: stamps, and as offsets the places in the input.
    fn through(window: &mut OrderWindow, stamps: &[u64]) -> Result<Vec<(u64, u64)>, TooLate> {
        let mut out = Vec::new();
        for (place, at) in stamps.iter().enumerate() {
            window.push(Entry::new(*at, Kind::Read, place as u64, 1))?;
            while let Some(entry) = window.pop(false) {
                out.push((entry.at(), entry.row.offset));
            }
        }
        while let Some(entry) = window.pop(true) {
            out.push((entry.at(), entry.row.offset));
        }
        Ok(out)
    }

    #[test]
    fn a_window_of_nothing_takes_equal_stamps_and_refuses_earlier_ones() {
        let mut window = OrderWindow::new(0, WINDOW_ROWS);
        assert_eq!(through(&mut window, &[5, 5, 6]).unwrap().len(), 3);
        let late = through(&mut OrderWindow::new(0, WINDOW_ROWS), &[5, 9, 7]);
        assert_eq!(
            late,
            Err(TooLate {
                behind_ns: 2,
                rows_were_full: false
            })
        );
    }

    #[test]
    fn a_full_window_lets_go_early_and_says_so() {
        let mut window = OrderWindow::new(1000, 2);
        let late = through(&mut window, &[1, 2, 3, 4, 0]).unwrap_err();
        assert!(late.rows_were_full);
    }

    proptest! {
        #[test]
        fn equals_a_full_sort_when_the_disorder_fits(
            gaps in proptest::collection::vec((0_u64..50, 0_u64..=100), 0..300),
        ) {
            let mut clock = 100;
            let mut stamps = Vec::new();
            for (gap, back) in gaps {
                clock += gap;
                stamps.push(clock - back);
            }
            let mut sorted: Vec<(u64, u64)> =
                stamps.iter().enumerate().map(|(place, at)| (*at, place as u64)).collect();
            sorted.sort_by_key(|(at, _)| *at);
            let out = through(&mut OrderWindow::new(100, WINDOW_ROWS), &stamps);
            prop_assert_eq!(out.unwrap(), sorted);
        }

        #[test]
        fn never_gives_anything_out_of_order(
            stamps in proptest::collection::vec(0_u64..1000, 0..200),
            window_ns in 0_u64..1000,
            window_rows in 0_usize..50,
        ) {
            if let Ok(out) = through(&mut OrderWindow::new(window_ns, window_rows), &stamps) {
                prop_assert_eq!(out.len(), stamps.len());
                prop_assert!(out.is_sorted());
            }
        }
    }
}
