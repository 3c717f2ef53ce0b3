//! What one worker records: counts, histograms, the present interval, and rows on request.
//!
//! Decision: everything is written into memory that the worker alone owns; a finished interval and a full
//! block of rows are handed over whole. Buttress's statistics thread (section 4.3) got every
//! event; here the worker fills the histograms itself, which costs less than to hand over an event.
//!
//! Operations whose intended start lies in the warm-up are not in counts and histograms; they are
//! in the intervals and in the rows.

use crate::channels::BlockSender;
use crate::queue::{InFlight, Planned};
use bw_model::{DROPPED, Nanos, Row};
use bw_record::interval::Interval;
use bw_record::recorder::{OperationOutcome, Recorder};
use serde::Serialize;
use std::collections::VecDeque;
use std::ops::AddAssign;

/// Rows in a block.
pub const BLOCK: usize = 4096;

/// What became of the operations whose intended start lies in the measured part: `counts` of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OperationCounts {
    /// Meant to start.
    pub intended: u64,
    /// Issued.
    pub issued: u64,
    /// Ended.
    pub completed: u64,
    /// Ended with an error.
    pub errors: u64,
    /// Found no room and were dropped.
    pub dropped: u64,
    /// Were too late for the late policy.
    pub skipped: u64,
    /// Had to wait for a free place.
    pub held: u64,
    /// Were in flight when the worker stopped waiting for them.
    pub unfinished: u64,
    /// Still waited for a free place at the end.
    pub waiting: u64,
    /// Were issued before their time: never, by construction.
    pub early: u64,
    /// How often a trace's reader was behind: the run's figure, no worker's.
    pub starved: u64,
    /// Ends of operations that were not in flight: an error of the target.
    #[serde(skip)]
    pub stray: u64,
    /// Messages to filaments that do not exist.
    #[serde(skip)]
    pub undeliverable: u64,
    /// Workers whose backlog became longer than it may.
    #[serde(skip)]
    pub backlogs: u64,
    /// Rows for which the reporter had no room: reported with the samples.
    #[serde(skip)]
    pub lost_rows: u64,
}

impl AddAssign for OperationCounts {
    fn add_assign(&mut self, other: Self) {
        self.intended += other.intended;
        self.issued += other.issued;
        self.completed += other.completed;
        self.errors += other.errors;
        self.dropped += other.dropped;
        self.skipped += other.skipped;
        self.held += other.held;
        self.unfinished += other.unfinished;
        self.waiting += other.waiting;
        self.early += other.early;
        self.starved += other.starved;
        self.stray += other.stray;
        self.undeliverable += other.undeliverable;
        self.backlogs += other.backlogs;
        self.lost_rows += other.lost_rows;
    }
}

/// What one worker records.
pub struct WorkerRecord {
    worker: u16,
    measured_from: Nanos,
    counts: OperationCounts,
    recorder: Recorder,
    interval: Box<Interval>,
    intervals: BlockSender<Box<Interval>>,
    backlog: VecDeque<Box<Interval>>,
    rows: Option<RowBlocks>,
    last_end: Nanos,
}

/// The rows of every operation, on request.
struct RowBlocks {
    block: Vec<Row>,
    blocks: BlockSender<Vec<Row>>,
}

impl WorkerRecord {
    /// Returns an empty record of one worker. Intervals go to `intervals`, rows to `rows` if there is
    /// such a thing.
    #[must_use]
    pub fn new(
        worker: u16,
        measured_from: Nanos,
        intervals: BlockSender<Box<Interval>>,
        rows: Option<BlockSender<Vec<Row>>>,
    ) -> Self {
        Self {
            worker,
            measured_from,
            counts: OperationCounts::default(),
            recorder: Recorder::new(),
            interval: Box::new(Interval::new(0)),
            intervals,
            backlog: VecDeque::new(),
            rows: rows.map(|blocks| RowBlocks {
                block: Vec::with_capacity(BLOCK),
                blocks,
            }),
            last_end: Nanos::ZERO,
        }
    }
}

/// What happens to operations.
impl WorkerRecord {
    /// Returns whether an operation is of the measured part.
    #[inline]
    fn measured(&self, planned: &Planned) -> bool {
        planned.operation.at >= self.measured_from
    }

    /// An operation's time has come.
    #[inline]
    pub fn intended(&mut self, planned: &Planned) {
        self.interval.intended += 1;
        self.counts.intended += u64::from(self.measured(planned));
    }

    /// An operation is issued now.
    #[inline]
    pub fn issued(&mut self, planned: &Planned, now: Nanos) {
        self.interval.issue(now.since(planned.operation.at).0);
        if self.measured(planned) {
            self.counts.issued += 1;
            self.counts.early += u64::from(now < planned.operation.at);
        }
    }

    /// An operation finds no room and waits.
    pub fn held(&mut self, planned: &Planned) {
        self.counts.held += u64::from(self.measured(planned));
    }

    /// More operations wait than may: the run ends.
    pub(crate) fn backlog_exceeded(&mut self) {
        self.counts.backlogs = 1;
    }

    /// An operation finds no room and is dropped.
    pub fn dropped(&mut self, planned: &Planned) {
        self.interval.dropped += 1;
        self.counts.dropped += u64::from(self.measured(planned));
        self.note_never_issued(planned);
    }

    /// An operation is too late for the late policy.
    pub fn skipped(&mut self, planned: &Planned) {
        self.counts.skipped += u64::from(self.measured(planned));
        self.note_never_issued(planned);
    }

    /// An operation has ended.
    #[inline]
    pub fn completed(&mut self, flight: &InFlight, now: Nanos, result: i32) {
        let outcome = OperationOutcome {
            operation: flight.planned.operation,
            issued: flight.issued,
            completed: now,
            result,
            held: flight.held,
        };
        self.interval.complete(outcome.response(), result < 0);
        if self.measured(&flight.planned) {
            self.counts.completed += 1;
            self.counts.errors += u64::from(result < 0);
            self.recorder.record(&outcome);
        }
        self.last_end = now;
        if self.rows.is_some() {
            self.push_row(outcome.row(flight.planned.stream, self.worker));
        }
    }

    /// An end came of an operation that is not in flight.
    pub fn stray(&mut self) {
        self.counts.stray += 1;
    }

    /// A message is for a filament that does not exist.
    pub(crate) fn undeliverable(&mut self) {
        self.counts.undeliverable += 1;
    }

    /// These are left in flight: they are not waited for any more.
    pub fn unfinished<'a>(&mut self, flights: impl Iterator<Item = &'a InFlight>) {
        for flight in flights {
            let operation = &flight.planned.operation;
            if self.measured(&flight.planned) {
                self.counts.unfinished += 1;
                self.recorder
                    .record_unfinished(operation, flight.issued, flight.held);
            }
            self.push_row(self.row(&flight.planned, flight.issued, 0));
        }
    }

    /// These still wait for a free place.
    pub fn waiting(&mut self, mut next: impl FnMut() -> Option<Planned>) {
        while let Some(planned) = next() {
            self.counts.waiting += u64::from(self.measured(&planned));
            self.note_never_issued(&planned);
        }
    }
}

/// Intervals and rows.
impl WorkerRecord {
    /// Ends the present interval and begins number `index`. Allocates only if the reporter has not given
    /// an empty one back for many intervals.
    pub(crate) fn turn_over(&mut self, index: u64, in_flight: u64, waiting: u64) {
        (self.interval.in_flight, self.interval.waiting) = (in_flight, waiting);
        let next = match self.intervals.take() {
            Some(mut used) => {
                used.reset(index);
                used
            }
            None => Box::new(Interval::new(index)),
        };
        let full = std::mem::replace(&mut self.interval, next);
        self.backlog.push_back(full);
        self.hand_over();
    }

    /// Hands intervals over in order, as far as there is room.
    fn hand_over(&mut self) {
        while let Some(interval) = self.backlog.pop_front() {
            if let Err(interval) = self.intervals.give(interval) {
                self.backlog.push_front(interval);
                break;
            }
        }
    }

    fn row(&self, planned: &Planned, issued: Nanos, result: i32) -> Row {
        Row {
            intended: planned.operation.at,
            issued,
            completed: Nanos::NEVER,
            offset: planned.operation.offset,
            size: planned.operation.size,
            result,
            stream: planned.stream,
            device: self.worker,
            kind: planned.operation.kind,
        }
    }

    fn note_never_issued(&mut self, planned: &Planned) {
        if self.rows.is_some() {
            self.push_row(self.row(planned, Nanos::NEVER, DROPPED));
        }
    }

    #[inline]
    fn push_row(&mut self, row: Row) {
        let Some(rows) = &mut self.rows else { return };
        rows.block.push(row);
        if rows.block.len() == BLOCK {
            self.counts.lost_rows += rows.hand_over();
        }
    }

    /// Ends everything: the last interval and the last rows go to the reporter.
    pub fn close(&mut self, in_flight: u64, waiting: u64) {
        let interval = &self.interval;
        let any = interval.intended + interval.issued + interval.completed + interval.dropped;
        if any > 0 || interval.index == 0 {
            self.turn_over(interval.index + 1, in_flight, waiting);
        }
        while !self.backlog.is_empty() && !self.intervals.is_abandoned() {
            bw_sys::clock::sleep(1_000_000);
            self.hand_over();
        }
        if let Some(rows) = &mut self.rows {
            self.counts.lost_rows += rows.hand_over_at_last();
        }
    }

    /// Returns the counts.
    #[must_use]
    pub fn counts(&self) -> OperationCounts {
        self.counts
    }

    /// Returns the histograms.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Returns when the last operation ended; zero if none did.
    #[must_use]
    pub fn last_end(&self) -> Nanos {
        self.last_end
    }
}

impl RowBlocks {
    /// Hands the block over and goes on with an empty one; returns how many rows were lost for
    /// want of one, since to wait for the reporter would be to issue late.
    fn hand_over(&mut self) -> u64 {
        match self.blocks.take() {
            Some(mut empty) if !self.blocks.is_full() => {
                empty.clear();
                drop(self.blocks.give(std::mem::replace(&mut self.block, empty)));
                0
            }
            _ => {
                let lost = self.block.len() as u64;
                self.block.clear();
                lost
            }
        }
    }

    /// Hands the last block over; the run is over, so it may wait for the reporter.
    fn hand_over_at_last(&mut self) -> u64 {
        while self.blocks.is_full() && !self.blocks.is_abandoned() {
            bw_sys::clock::sleep(1_000_000);
        }
        let last = std::mem::take(&mut self.block);
        self.blocks
            .give(last)
            .map_or_else(|last| last.len() as u64, |()| 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::exchange;

    #[test]
    fn an_hour_in_which_the_worker_did_not_run_costs_one_interval() {
        let (sender, mut stream) = exchange(64, Vec::new());
        let mut record = WorkerRecord::new(0, Nanos::ZERO, sender, None);
        record.turn_over(1, 0, 0);
        record.turn_over(3_600_000, 7, 0);
        record.turn_over(3_600_001, 0, 0);
        let handed = std::iter::from_fn(|| stream.take());
        let handed: Vec<_> = handed.map(|one| (one.index, one.in_flight)).collect();
        assert_eq!(handed, [(0, 0), (1, 7), (3_600_000, 0)]);
    }
}
