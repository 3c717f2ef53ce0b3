//! Stamps: counted from time zero, brought forward by a speed, and spread where they are equal.
//!
//! Operations that share a stamp arrive together, or are spread until the next stamp.
//!
//! Decision: spreading reaches over one second at most, the coarsest unit of any format's stamps. Two
//! operations of one microsecond before a pause of a minute would else end up half a minute apart.
//! An operation keeps its response time: its end moves with its start.

use crate::entry::Entry;
use bw_model::Row;
use bw_model::Nanos;
use std::collections::VecDeque;

/// How far equal stamps are spread at most [ns].
const FARTHEST_NS: u64 = 1_000_000_000;

/// How many equal stamps are held to be spread: bounds the memory.
pub(crate) const MOST_EQUAL: usize = 1 << 20;

/// Operations in order, those with one stamp spread evenly.
#[derive(Default)]
pub(crate) struct Spread {
    equal: VecDeque<Entry>,
    ready: VecDeque<Entry>,
    moved: u64,
}

impl Spread {
    /// Takes the next operation in.
    ///
    /// Errors: more than a million share its stamp; it is given back.
    pub fn push(&mut self, entry: Entry) -> Result<(), Entry> {
        let new = self
            .equal
            .front()
            .is_some_and(|first| first.at() != entry.at());
        if new {
            self.settle(entry.at());
        } else if self.equal.len() >= MOST_EQUAL {
            return Err(entry);
        }
        self.equal.push_back(entry);
        Ok(())
    }

    /// Returns the next operation whose stamp is settled.
    pub fn pop(&mut self) -> Option<Entry> {
        self.ready.pop_front()
    }

    /// Settles the last stamps: nothing comes after them, and nothing may come at `end` or later [ns].
    pub fn end(&mut self, end: u64) {
        self.settle(end);
    }

    /// Returns how many operations were moved.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    fn settle(&mut self, next: u64) {
        let Some(first) = self.equal.front() else {
            return;
        };
        let room = (next - first.at()).min(FARTHEST_NS);
        let count = self.equal.len() as u64;
        for place in 0..count {
            // No overflow: a second in ns times a million is below 2^51.
            let by = room * place / count;
            let Some(entry) = self.equal.pop_front() else {
                break;
            };
            self.moved += u64::from(by > 0);
            self.ready.push_back(moved(entry, by));
        }
    }
}

fn moved(mut entry: Entry, by: u64) -> Entry {
    let row = &mut entry.row;
    row.intended += Nanos(by);
    // NEVER stays: addition saturates.
    row.issued += Nanos(by);
    row.completed += Nanos(by);
    entry
}

/// Counts the stamps from `origin` [ns].
pub(crate) fn rebase(row: &mut Row, origin: u64) {
    row.intended = row.intended.since(Nanos(origin));
    for stamp in [&mut row.issued, &mut row.completed] {
        if *stamp != Nanos::NEVER {
            *stamp = stamp.since(Nanos(origin));
        }
    }
}

/// Brings the arrival forward by the speed; the times from it to start and end stay.
pub(crate) fn hasten(row: &mut Row, speed_micro: u64) {
    if speed_micro == 1_000_000 {
        return;
    }
    let before = row.intended;
    let exact = u128::from(before.0) * 1_000_000 / u128::from(speed_micro);
    row.intended = Nanos(u64::try_from(exact).unwrap_or(u64::MAX));
    for stamp in [&mut row.issued, &mut row.completed] {
        if *stamp != Nanos::NEVER {
            *stamp = row.intended + stamp.since(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bw_model::Kind;
    use proptest::prelude::*;

    fn spread(stamps: &[u64]) -> (Vec<u64>, u64) {
        let mut spread = Spread::default();
        for at in stamps {
            let entry = Entry::new(*at, Kind::Read, 0, 1).ended(Some(at + 7));
            spread.push(entry).unwrap();
        }
        spread.end(u64::MAX);
        let entries: Vec<Entry> = std::iter::from_fn(|| spread.pop()).collect();
        for entry in &entries {
            assert_eq!(entry.row.completed.0, entry.at() + 7);
        }
        (entries.iter().map(Entry::at).collect(), spread.moved())
    }

    #[test]
    fn a_second_of_four_becomes_quarters() {
        let second = 1_000_000_000;
        let (stamps, moved) = spread(&[0, 0, 0, 0, second]);
        assert_eq!(stamps, [0, second / 4, second / 2, 3 * second / 4, second]);
        assert_eq!(moved, 3);
    }

    #[test]
    fn a_long_pause_does_not_pull_two_apart() {
        let minute = 60_000_000_000;
        assert_eq!(spread(&[0, 0, minute]).0, [0, 500_000_000, minute]);
        assert_eq!(spread(&[5, 5]).0, [5, 500_000_005]);
    }

    proptest! {
        #[test]
        fn keeps_order_and_stays_before_the_next_stamp(
            mut stamps in proptest::collection::vec(0_u64..3_000_000_000, 1..200),
            unit in prop_oneof![Just(1_u64), Just(10), Just(1_000_000_000)],
        ) {
            for stamp in &mut stamps {
                *stamp -= *stamp % unit;
            }
            stamps.sort_unstable();
            let (out, _) = spread(&stamps);
            prop_assert!(out.is_sorted());
            for (place, at) in out.iter().enumerate() {
                prop_assert!(*at >= stamps[place]);
                let next = stamps.iter().find(|stamp| **stamp > stamps[place]);
                let limit = next.map_or(u64::MAX, |next| *next).min(stamps[place] + FARTHEST_NS);
                prop_assert!(*at < limit);
            }
        }
    }
}
