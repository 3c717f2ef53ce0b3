//! The order of a trace in time: the reorder window, and the adjustment of stamps.
//!
//! Decision: two queues. An operation in order goes to the end of the first and costs a push and a pop; only
//! a late operation goes through a heap. One heap for all would cost a logarithm for each operation, although most
//! traces are sorted already. Stamps further back than the window are refused.
//!
//! Then stamps are converted to the time since zero, divided by the speed, and on request equal stamps are spread.
//! Spreading reaches over one second at most, the coarsest unit of any format's stamps: otherwise two operations with
//! the same stamp before a pause of a minute would be half a minute apart. An operation keeps its response
//! time: its end moves with its start.

use crate::entry::{DeviceNames, ParseError, TraceEntry};
use crate::error::TraceCode;
use crate::input::REMEMBERED;
use crate::source::{Account, TraceSource};
use bw_model::EngineError;
use bw_model::{Nanos, Row};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// How many operations the window holds by default.
pub(crate) const WINDOW_ROWS: usize = 65_536;

/// The operations that cannot be returned yet.
pub(crate) struct OrderWindow {
    run: VecDeque<TraceEntry>,
    late: BinaryHeap<Reverse<ByStamp>>,
    window_ns: u64,
    window_rows: usize,
    newest: u64,
    released: u64,
    received: u64,
    reordered: u64,
}

/// An operation that came too late.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLate {
    /// How far it lies behind the last operation that was returned [ns].
    pub behind_ns: u64,
    /// Whether the window was shortened by its maximum number of operations.
    pub rows_were_full: bool,
}

impl OrderWindow {
    /// Returns an empty window of this length [ns] and number of operations.
    pub(crate) fn new(window_ns: u64, window_rows: usize) -> Self {
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

    /// Adds an operation.
    ///
    /// Errors: operations after it have been returned already.
    pub(crate) fn push(&mut self, mut entry: TraceEntry) -> Result<(), TooLate> {
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

    /// Returns the earliest operation if no later input can be before it; `all`: there is no more input.
    pub(crate) fn pop(&mut self, all: bool) -> Option<TraceEntry> {
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
    pub(crate) fn window_ns(&self) -> u64 {
        self.window_ns
    }

    /// Returns how many operations came after a later one.
    pub(crate) fn reordered(&self) -> u64 {
        self.reordered
    }
}

fn key(entry: &TraceEntry) -> (u64, u64) {
    (entry.at(), entry.sequence)
}

#[derive(PartialEq, Eq)]
struct ByStamp(TraceEntry);

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

/// A source whose operations are returned in order.
pub(crate) struct Ordered {
    /// The files.
    pub paths: Vec<String>,
    source: Box<dyn TraceSource<TraceEntry>>,
    devices: DeviceNames,
    order: OrderWindow,
    lenient: bool,
    read: bool,
    skipped: u64,
    skipped_first: Vec<String>,
    failure: Option<EngineError>,
}

impl Ordered {
    /// Returns the operations of `source`, which reads `paths`; `lenient`: malformed lines and records are skipped.
    pub(crate) fn new(
        paths: Vec<String>,
        source: Box<dyn TraceSource<TraceEntry>>,
        order: OrderWindow,
        lenient: bool,
    ) -> Self {
        Self {
            paths,
            source,
            devices: DeviceNames::default(),
            order,
            lenient,
            read: false,
            skipped: 0,
            skipped_first: Vec::new(),
            failure: None,
        }
    }

    /// Returns the next operation in order, with the trace's own stamps. An error ends the trace;
    /// the operations before it, which the window may still hold, come first.
    pub(crate) fn next(&mut self) -> Option<TraceEntry> {
        loop {
            if let Some(entry) = self.order.pop(self.read) {
                return Some(entry);
            }
            if self.read {
                return None;
            }
            match self.source.next(&mut self.devices) {
                Ok(Some(entry)) => {
                    if let Err(late) = self.order.push(entry) {
                        self.fail(self.out_of_order(&entry, &late));
                    }
                }
                Ok(None) => self.read = true,
                Err(fault) if self.lenient && fault.can_be_skipped() => self.skip(fault),
                Err(fault) => self.fail(fault.into_error(&self.paths)),
            }
        }
    }

    fn fail(&mut self, error: EngineError) {
        self.read = true;
        self.failure = Some(error);
    }

    fn skip(&mut self, fault: ParseError) {
        self.skipped += 1;
        if self.skipped_first.len() < REMEMBERED {
            let error = fault.into_error(&self.paths);
            self.skipped_first.push(error.without_remedy());
        }
    }

    fn out_of_order(&self, entry: &TraceEntry, late: &TooLate) -> EngineError {
        let message = format!(
            "the stamp {} ns is {} ns before one that was already passed on",
            entry.at(),
            late.behind_ns
        );
        let window = self.order.window_ns();
        let remedy = if late.rows_were_full {
            "hold more operations for sorting (window_rows), or sort the trace".to_owned()
        } else {
            format!(
                "widen the window for sorting (--window, now {window} ns) to more than {} ns",
                window.saturating_add(late.behind_ns)
            )
        };
        self.at_entry(TraceCode::TraceOrder, entry, &message, &remedy)
    }

    /// Returns an error at the place of `entry`.
    pub(crate) fn at_entry(
        &self,
        code: TraceCode,
        entry: &TraceEntry,
        message: &str,
        remedy: &str,
    ) -> EngineError {
        let path = self
            .paths
            .get(usize::from(entry.file))
            .map_or("", String::as_str);
        entry.place.of(code.error(path, message, remedy))
    }

    /// Returns the error that ended the reading before the end of the trace; only once.
    pub(crate) fn take_failure(&mut self) -> Option<EngineError> {
        self.failure.take()
    }

    /// Returns whether everything was read.
    pub(crate) fn is_read(&self) -> bool {
        self.read
    }

    /// Returns whether the next operation is available without reading.
    pub(crate) fn at_hand(&self) -> bool {
        self.source.at_hand()
    }

    /// Returns the names of the devices found so far.
    pub(crate) fn device_names(&self) -> &[String] {
        self.devices.names()
    }

    /// Returns the reorder window.
    pub(crate) fn window(&self) -> &OrderWindow {
        &self.order
    }

    /// Returns the account of the reading, and the lines that were skipped here.
    pub(crate) fn account(&self) -> (Account, Vec<String>) {
        let mut account = self.source.account();
        account.skipped += self.skipped;
        let first = self.skipped_first.iter().cloned();
        let first = first.chain(account.skipped_first.take()).collect();
        (account, first)
    }
}

/// Maximum number of equal stamps that are spread: bounds the memory.
pub(crate) const MOST_EQUAL: usize = 1 << 20;

/// Operations in order; those with equal stamps are spread evenly.
#[derive(Default)]
pub(crate) struct Spread {
    equal: VecDeque<TraceEntry>,
    ready: VecDeque<TraceEntry>,
    moved: u64,
}

impl Spread {
    /// Adds the next operation.
    ///
    /// Errors: more than a million share its stamp; the operation is returned.
    pub(crate) fn push(&mut self, entry: TraceEntry) -> Result<(), TraceEntry> {
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

    /// Returns the next operation whose stamp is final.
    pub(crate) fn pop(&mut self) -> Option<TraceEntry> {
        self.ready.pop_front()
    }

    /// Makes the last stamps final: no operation follows, and none may be at `end` or later [ns].
    pub(crate) fn end(&mut self, end: u64) {
        self.settle(end);
    }

    /// Returns how many operations were moved.
    pub(crate) fn moved(&self) -> u64 {
        self.moved
    }

    fn settle(&mut self, next: u64) {
        let Some(first) = self.equal.front() else {
            return;
        };
        let room = (next - first.at()).min(first.reach_ns);
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

fn moved(mut entry: TraceEntry, by: u64) -> TraceEntry {
    let row = &mut entry.row;
    row.intended += Nanos(by);
    // NEVER stays: addition saturates.
    row.issued += Nanos(by);
    row.completed += Nanos(by);
    entry
}

/// Subtracts `origin` from the stamps [ns].
pub(crate) fn rebase(row: &mut Row, origin: u64) {
    row.intended = row.intended.since(Nanos(origin));
    for stamp in [&mut row.issued, &mut row.completed] {
        if *stamp != Nanos::NEVER {
            *stamp = stamp.since(Nanos(origin));
        }
    }
}

/// Divides the arrival by the speed; the times from it to start and end stay the same.
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
mod order_tests {
    use super::*;
    use bw_model::Kind;
    use proptest::prelude::*;

    /// Returns the output: stamps, with the position in the input as offset.
    fn through(window: &mut OrderWindow, stamps: &[u64]) -> Result<Vec<(u64, u64)>, TooLate> {
        let mut out = Vec::new();
        for (place, at) in stamps.iter().enumerate() {
            window.push(TraceEntry::new(*at, Kind::Read, place as u64, 1))?;
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

#[cfg(test)]
mod stamps_tests {
    use super::*;
    use crate::entry::FARTHEST_NS;
    use bw_model::Kind;
    use proptest::prelude::*;

    fn spread(stamps: &[u64]) -> (Vec<u64>, u64) {
        let mut spread = Spread::default();
        for at in stamps {
            let entry = TraceEntry::new(*at, Kind::Read, 0, 1).ended(Some(at + 7));
            spread.push(entry).unwrap();
        }
        spread.end(u64::MAX);
        let entries: Vec<TraceEntry> = std::iter::from_fn(|| spread.pop()).collect();
        for entry in &entries {
            assert_eq!(entry.row.completed.0, entry.at() + 7);
        }
        (entries.iter().map(TraceEntry::at).collect(), spread.moved())
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
