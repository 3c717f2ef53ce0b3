//! What one worker records: counts, histograms, the current interval, and rows on request.
//!
//! Decision: everything is written into memory that the worker alone owns; a finished interval and a full
//! block of rows are handed over whole. In Buttress a statistics thread (section 4.3) received every
//! event; here the worker fills the histograms itself, which costs less than handing over an event.
//!
//! Operations whose intended start lies in the warm-up are not in counts and histograms; they are
//! in the intervals and in the rows, and where they start and end in the measured part, in [`FlowCounts`].
//!
//! The number of operations in flight is integrated over time as it changes, without regard to which operation ends.
//! By Little's law it must agree with throughput and mean time in flight, which come from the histograms: what loses,
//! repeats or wrongly stamps an operation makes the two differ. Source: J. D. C. Little, Operations Research 9 (1961).

use crate::actions::{Action, ActionLog};
use crate::channels::BlockSender;
use crate::groups::{GroupRecords, Groups};
use crate::queue::{InFlight, Planned};
use crate::routes::Routes;
use crate::target::{SeenStream, Target};
use bw_model::{DROPPED, Nanos, Row};
use bw_record::interval::Interval;
use bw_record::recorder::{LostOperations, OperationOutcome, Recorder, narrow};
use bw_record::streams::{StreamEnd, StreamLimit, StreamRecord, is_good};
use bw_schedule::filaments::{SequenceEnd, SequenceOutcome};
use serde::Serialize;
use std::collections::VecDeque;
use std::ops::{AddAssign, Range};
use std::sync::Arc;

/// Rows in a block.
pub const BLOCK: usize = 4096;

/// What became of the operations whose intended start lies in the measured part: `counts` of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OperationCounts {
    /// Due: their intended start has come.
    pub intended: u64,
    /// Issued.
    pub issued: u64,
    /// Completed.
    pub completed: u64,
    /// Completed with an error.
    pub errors: u64,
    /// Dropped for lack of a free slot.
    pub dropped: u64,
    /// Skipped by the late policy.
    pub skipped: u64,
    /// Delayed: they had to wait for a free slot.
    pub held: u64,
    /// Of these the ones that the worker came to late: they wait because it started others late.
    pub held_late: u64,
    /// In flight when the worker stopped waiting for them.
    pub unfinished: u64,
    /// Still waiting for a free slot when the worker stopped waiting.
    pub waiting: u64,
    /// Of the issued ones those that were issued after the end of the measured part.
    pub drained: u64,
    /// Issued before their time: never, by construction.
    pub early: u64,
    /// How often a trace's reader was behind; counted for the run, not for each worker.
    pub starved: u64,
    /// Completions of operations that were not in flight: an error of the target.
    pub stray: u64,
    /// Messages to filaments that do not exist.
    pub undeliverable: u64,
    /// Workers whose backlog exceeded its limit.
    #[serde(skip)]
    pub backlogs: u64,
    /// Rows that the reporter had no room for: reported with the samples.
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
        self.held_late += other.held_late;
        self.unfinished += other.unfinished;
        self.waiting += other.waiting;
        self.drained += other.drained;
        self.early += other.early;
        self.starved += other.starved;
        self.stray += other.stray;
        self.undeliverable += other.undeliverable;
        self.backlogs += other.backlogs;
        self.lost_rows += other.lost_rows;
    }
}

/// What happened between the start and the end of the measured part, whatever the intended start of the operations:
/// `flow` of the protocol. With `counts`, in which a dropped or skipped operation never waits:
///
/// - `waiting_at_start` + intended = issued + dropped + skipped + `waiting_at_end`
/// - `in_flight_at_start` + issued = completed + `in_flight_at_end`
///
/// Rates are from these: those of [`OperationCounts`] divided by the length would have the operations that ended after
/// it, and in overload not those that waited since the warm-up. Source: P. J. Denning, J. P. Buzen, The operational
/// analysis of queueing network models, ACM Computing Surveys 10 (1978).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlowCounts {
    /// Due before the start, and not issued before it.
    pub waiting_at_start: u64,
    /// Issued before the start, and not ended before it.
    pub in_flight_at_start: u64,
    /// Actual starts.
    pub issued: u64,
    /// Ends.
    pub completed: u64,
    /// Those of `completed` that failed.
    pub errors: u64,
    /// Those of `completed` whose intended start lies in the warm-up.
    pub of_warm_up: u64,
    /// Due before the end, and not issued before it.
    pub waiting_at_end: u64,
    /// Issued before the end, and not ended before it.
    pub in_flight_at_end: u64,
    /// Those of `waiting_at_end` that were issued afterwards.
    pub drained: u64,
}

impl AddAssign for FlowCounts {
    fn add_assign(&mut self, other: Self) {
        self.waiting_at_start += other.waiting_at_start;
        self.in_flight_at_start += other.in_flight_at_start;
        self.issued += other.issued;
        self.completed += other.completed;
        self.errors += other.errors;
        self.of_warm_up += other.of_warm_up;
        self.waiting_at_end += other.waiting_at_end;
        self.in_flight_at_end += other.in_flight_at_end;
        self.drained += other.drained;
    }
}

/// The time integral of the number of operations in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct InFlightIntegral {
    /// In flight since `since`.
    number: u64,
    since: Nanos,
    /// Until `since` [operations x ns].
    area: u128,
}

impl InFlightIntegral {
    /// Moves on to `now`.
    #[inline]
    fn advance(&mut self, now: Nanos) {
        self.area += u128::from(self.number) * u128::from(now.since(self.since).0);
        self.since = now;
    }

    #[inline]
    fn start(&mut self, now: Nanos) {
        self.advance(now);
        self.number += 1;
    }

    #[inline]
    fn end(&mut self, now: Nanos) {
        self.advance(now);
        self.number = self.number.saturating_sub(1);
    }
}

/// What one worker records.
pub struct WorkerRecord {
    worker: u16,
    measured_from: Nanos,
    measured_until: Nanos,
    counts: OperationCounts,
    flow: FlowCounts,
    in_flight: InFlightIntegral,
    failed_ns: u128,
    groups: GroupRecords,
    interval: Box<Interval>,
    intervals: BlockSender<Box<Interval>>,
    backlog: VecDeque<Box<Interval>>,
    rows: Option<RowBlocks>,
    /// None: no target has streams.
    streams: Option<Box<JudgedStreams>>,
    /// Of several targets; then the device of a row is its target.
    routes: Option<Routes>,
    last_end: Nanos,
    actions: Option<ActionLog>,
}

/// The streams, and the limits of good ones.
struct JudgedStreams {
    record: StreamRecord,
    limits: Vec<StreamLimit>,
    /// Of each target whether it has streams.
    targets: Vec<bool>,
}

/// A worker's ends of its channels to the reporter.
#[derive(Debug)]
pub(crate) struct RecordChannels {
    /// Finished intervals.
    pub intervals: BlockSender<Box<Interval>>,
    /// Full blocks of rows, on request.
    pub rows: Option<BlockSender<Vec<Row>>>,
}

/// The rows of all operations, on request.
struct RowBlocks {
    block: Vec<Row>,
    blocks: BlockSender<Vec<Row>>,
}

impl WorkerRecord {
    /// Returns an empty record of one worker. Intervals go to `intervals`, rows to `rows` if it is
    /// present.
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
            measured_until: Nanos::NEVER,
            counts: OperationCounts::default(),
            flow: FlowCounts::default(),
            in_flight: InFlightIntegral::default(),
            failed_ns: 0,
            groups: GroupRecords::one(),
            interval: Box::new(Interval::new(0)),
            intervals,
            backlog: VecDeque::new(),
            rows: rows.map(|blocks| RowBlocks {
                block: Vec::with_capacity(BLOCK),
                blocks,
            }),
            streams: None,
            routes: None,
            last_end: Nanos::ZERO,
            actions: None,
        }
    }

    /// Records streams too, with these limits of good ones; None: no target has streams. `targets`: of each whether it has.
    #[must_use]
    pub(crate) fn with_streams(
        mut self,
        limits: Option<Vec<StreamLimit>>,
        targets: Vec<bool>,
    ) -> Self {
        let Some(limits) = limits else { return self };
        let judged = !limits.is_empty();
        *self.interval = Interval::new(0).with_streams(Some(judged));
        let mut record = StreamRecord::new(judged);
        record.touch();
        self.streams = Some(Box::new(JudgedStreams {
            record,
            limits,
            targets,
        }));
        self
    }

    /// Writes the target of each operation into its row.
    #[must_use]
    pub(crate) fn with_routes(self, routes: Option<Routes>) -> Self {
        Self { routes, ..self }
    }

    /// Records the operations of each group, and allocates the histograms for what these are expected to issue and for
    /// this number of chains. Writes to all memory of the record, so that the run has no page faults for it.
    #[must_use]
    pub(crate) fn with_groups(mut self, groups: Arc<Groups>, chains: usize) -> Self {
        self.groups = GroupRecords::new(groups, chains);
        self.interval.touch();
        if let Some(rows) = &mut self.rows {
            touch(&mut rows.block);
        }
        self
    }

    /// Logs what the worker does, if that is asked for.
    #[must_use]
    pub(crate) fn with_actions(mut self, are_wanted: bool) -> Self {
        self.actions = are_wanted.then(ActionLog::new);
        self
    }

    /// Returns what the worker did, if that is logged.
    pub(crate) fn actions(&self) -> Option<&ActionLog> {
        self.actions.as_ref()
    }

    /// Returns whether what the worker does is logged.
    #[inline]
    pub(crate) fn logs_actions(&self) -> bool {
        self.actions.is_some()
    }

    /// Logs what the worker did between two moments, if that is asked for.
    #[inline]
    pub(crate) fn did(&mut self, action: Action, between: (Nanos, Nanos), count: usize) {
        if let Some(actions) = &mut self.actions {
            actions.add(action, between, count);
        }
    }
}

/// Events of operations.
impl WorkerRecord {
    /// Returns where the measured part begins.
    pub(crate) fn measured_from(&self) -> Nanos {
        self.measured_from
    }

    /// Returns the measured part.
    pub(crate) fn measured_part(&self) -> Range<Nanos> {
        self.measured_from..self.measured_until
    }

    /// Returns whether an operation belongs to the measured part.
    #[inline]
    fn measured(&self, planned: &Planned) -> bool {
        planned.operation.at >= self.measured_from
    }

    /// Counts an operation whose intended start has come.
    #[inline]
    pub fn intended(&mut self, planned: &Planned) {
        self.interval.intended += 1;
        self.counts.intended += u64::from(self.measured(planned));
    }

    /// Records the issue of an operation.
    #[inline]
    pub fn issued(&mut self, planned: &Planned, now: Nanos) {
        self.interval.issue(now.since(planned.operation.at).0);
        let (measured, drained) = (self.measured(planned), now >= self.measured_until);
        if now >= self.measured_from {
            self.flow.issued += u64::from(!drained);
            self.flow.waiting_at_start += u64::from(!measured);
        }
        self.flow.waiting_at_end += u64::from(drained);
        self.flow.drained += u64::from(drained);
        if measured {
            self.in_flight.start(now);
            self.counts.issued += 1;
            self.counts.drained += u64::from(drained);
            self.counts.early += u64::from(now < planned.operation.at);
        }
    }

    /// Counts an operation that waits for a free slot; `is_late`: the worker came to it late.
    pub fn held(&mut self, planned: &Planned, is_late: bool) {
        let held = u64::from(self.measured(planned));
        self.counts.held += held;
        self.counts.held_late += held * u64::from(is_late);
    }

    /// Sets the end of the measured part, which is not before its start.
    pub(crate) fn measure_until(&mut self, end: Nanos) {
        self.measured_until = end.max(self.measured_from);
    }

    /// Notes that the backlog exceeded its limit, which ends the run.
    pub(crate) fn backlog_exceeded(&mut self) {
        self.counts.backlogs = 1;
    }

    /// Counts an operation that is dropped for lack of a free slot.
    pub fn dropped(&mut self, planned: &Planned) {
        self.interval.dropped += 1;
        self.counts.dropped += u64::from(self.measured(planned));
        self.lose(planned, |lost| lost.dropped += 1);
        if self.has_streams_of(planned) {
            self.interval.drop_stream();
        }
        self.note_never_issued(planned);
    }

    /// Counts an operation that is skipped by the late policy.
    pub fn skipped(&mut self, planned: &Planned) {
        self.counts.skipped += u64::from(self.measured(planned));
        self.lose(planned, |lost| lost.skipped += 1);
        self.note_never_issued(planned);
    }

    /// Records the completion of an operation, seen at `now`; it had arrived at `arrived`.
    #[inline]
    pub fn completed(&mut self, flight: &InFlight, now: Nanos, arrived: Nanos, result: i64) {
        let outcome = OperationOutcome {
            operation: flight.planned.operation,
            issued: flight.issued,
            completed: now,
            arrived,
            result,
            held_since: flight.held_since,
        };
        self.interval.complete(outcome.response(), result < 0);
        self.flow_ended(flight, now);
        let measured = self.measured(&flight.planned);
        let record = self.groups.of(flight.planned.stream, &outcome.operation);
        if now >= self.measured_from && now < self.measured_until {
            self.flow.completed += 1;
            self.flow.errors += u64::from(result < 0);
            self.flow.of_warm_up += u64::from(!measured);
            record.record_in_time(&outcome);
        }
        if measured {
            self.in_flight.end(now);
            self.counts.completed += 1;
            if result < 0 {
                self.counts.errors += 1;
                self.failed_ns += u128::from(outcome.service());
            }
            record.record(&outcome);
        }
        self.last_end = now;
        if self.rows.is_some() {
            let stream = flight.planned.stream;
            self.push_row(outcome.row(stream, self.device(stream)));
        }
    }

    /// Returns whether a target has streams.
    #[inline]
    pub(crate) fn has_streams(&self) -> bool {
        self.streams.is_some()
    }

    /// Records the stream of an operation that is recorded as completed at `now`; `read_at`: the time, by the worker's clock,
    /// of the target's `now_ns`.
    pub(crate) fn stream(
        &mut self,
        flight: &InFlight,
        now: Nanos,
        read_at: Nanos,
        result: i64,
        seen: &SeenStream,
    ) {
        let Some(streams) = &mut self.streams else {
            return;
        };
        let (planned, outcome) = (&flight.planned, &seen.outcome);
        let (issued, latest) = (flight.issued, now.max(flight.issued));
        // What happened in between, by a clock that was set meanwhile, may be anything.
        let time = |ns: Option<u64>| {
            let ago = seen.now_ns.saturating_sub(ns?);
            Some(Nanos(read_at.0.saturating_sub(ago)).clamp(issued, latest))
        };
        let end = StreamEnd {
            intended: planned.operation.at,
            issued,
            ended: now,
            result: narrow(result),
            first_event: time(outcome.first_event_ns),
            first_shared: outcome.first_shared,
            in_time: outcome.in_time,
            first: time(outcome.first_ns),
            first_visible: time(outcome.first_visible_ns),
            last: time(outcome.last_ns),
            largest_gap: outcome.largest_gap_ns.map(Nanos),
            events: outcome.events,
            content: outcome.content,
            shared: outcome.shared,
            tokens: outcome.tokens,
            prompt_tokens: outcome.prompt_tokens,
            cached_tokens: outcome.cached_tokens,
            reasoning_tokens: outcome.reasoning_tokens,
            stopped_by_length: outcome.stopped_by_length,
        };
        let good = is_good(&end, &streams.limits);
        self.interval
            .complete_stream(end.first_ns(), end.known_tokens(), good);
        let is_in_time = now >= self.measured_from && now < self.measured_until;
        streams.record.record_in_time(&end, is_in_time);
        if planned.operation.at >= self.measured_from {
            streams.record.record(&end, good);
        }
    }

    /// Returns whether an operation would be a stream.
    fn has_streams_of(&self, planned: &Planned) -> bool {
        let target = usize::from(self.target(planned.stream));
        let streams = self.streams.as_ref();
        streams.is_some_and(|streams| streams.targets[target])
    }

    /// Counts an operation that does not end in its group, and with the streams if it would have been one.
    fn lose(&mut self, planned: &Planned, count: fn(&mut LostOperations)) {
        if !self.measured(planned) {
            return;
        }
        let operation = &planned.operation;
        let record = self.groups.of(planned.stream, operation);
        count(record.lost_mut(operation.kind));
        self.lose_stream(planned, count);
    }

    /// Counts an operation of the measured part that does not end with the streams if it would have been one.
    fn lose_stream(&mut self, planned: &Planned, count: fn(&mut LostOperations)) {
        let is_one = self.has_streams_of(planned);
        if let Some(streams) = self.streams.as_mut().filter(|_| is_one) {
            count(&mut streams.record.lost);
        }
    }

    /// Takes from the target what it has counted of reads, at the end.
    pub(crate) fn take_reads(&mut self, target: &impl Target) {
        if let Some(streams) = &mut self.streams {
            let StreamRecord {
                gap, read_lateness, ..
            } = &mut streams.record;
            target.add_reads(gap, read_lateness);
        }
    }

    /// Returns the streams; None: no target has any.
    pub(crate) fn streams(&self) -> Option<&StreamRecord> {
        self.streams.as_ref().map(|streams| &streams.record)
    }

    /// Counts an operation that was in flight at the start or the end of the measured part, and was so until `ended`.
    #[inline]
    fn flow_ended(&mut self, flight: &InFlight, ended: Nanos) {
        let across = |moment| u64::from(flight.issued < moment && ended >= moment);
        self.flow.in_flight_at_start += across(self.measured_from);
        self.flow.in_flight_at_end += across(self.measured_until);
    }

    /// Records the end of a sequence.
    pub(crate) fn sequence(&mut self, end: &SequenceEnd) {
        if end.intended < self.measured_from {
            return;
        }
        let record = self.groups.chains().sequence_mut(end.chain);
        record.operations += u64::from(end.operations);
        match end.outcome {
            SequenceOutcome::Completed => {
                record.completed += 1;
                record.response.record(end.ended.since(end.intended).0);
            }
            SequenceOutcome::Failed => record.errors += 1,
            SequenceOutcome::Unfinished => record.unfinished += 1,
        }
    }

    /// Counts a completion of an operation that is not in flight.
    pub fn stray(&mut self) {
        self.counts.stray += 1;
    }

    /// Counts a message to a filament that does not exist.
    pub(crate) fn undeliverable(&mut self) {
        self.counts.undeliverable += 1;
    }

    /// Counts operations that remain in flight at `now` and are not waited for.
    pub fn unfinished<'a>(&mut self, now: Nanos, flights: impl Iterator<Item = &'a InFlight>) {
        self.in_flight.advance(now);
        for flight in flights {
            self.flow_ended(flight, Nanos::NEVER);
            let operation = &flight.planned.operation;
            if self.measured(&flight.planned) {
                self.counts.unfinished += 1;
                self.lose_stream(&flight.planned, |lost| lost.unfinished += 1);
                let held = flight.held_since.is_some();
                let record = self.groups.of(flight.planned.stream, operation);
                record.record_unfinished(operation, flight.issued, held);
            }
            self.push_row(self.row(&flight.planned, flight.issued, 0));
        }
    }

    /// Counts operations that still wait for a free slot.
    pub fn waiting(&mut self, mut next: impl FnMut() -> Option<Planned>) {
        while let Some(planned) = next() {
            let measured = self.measured(&planned);
            self.counts.waiting += u64::from(measured);
            self.lose(&planned, |lost| lost.waiting += 1);
            self.flow.waiting_at_start += u64::from(!measured);
            self.flow.waiting_at_end += 1;
            self.note_never_issued(&planned);
        }
    }
}

/// Intervals and rows.
impl WorkerRecord {
    /// Ends the current interval and starts number `index`. Allocates only if the reporter has returned no
    /// empty one for many intervals.
    pub fn turn_over(&mut self, index: u64, in_flight: u64, waiting: u64) {
        (self.interval.in_flight, self.interval.waiting) = (in_flight, waiting);
        let next = match self.intervals.take() {
            Some(mut used) => {
                used.reset(index);
                used
            }
            None => {
                let judged = self.streams.as_ref().map(|one| !one.limits.is_empty());
                Box::new(Interval::new(index).with_streams(judged))
            }
        };
        let full = std::mem::replace(&mut self.interval, next);
        self.backlog.push_back(full);
        self.hand_over();
    }

    /// Hands finished intervals over in order, as far as there is room.
    fn hand_over(&mut self) {
        while let Some(interval) = self.backlog.pop_front() {
            if let Err(interval) = self.intervals.give(interval) {
                self.backlog.push_front(interval);
                break;
            }
        }
    }

    /// Returns the device in the row of a filament's operation: its worker, or its target if there are several.
    #[inline]
    fn device(&self, stream: u32) -> u16 {
        let routes = self.routes.as_ref();
        routes.map_or(self.worker, |routes| routes.part_of(stream))
    }

    /// Returns the target of a filament's operations.
    #[inline]
    fn target(&self, stream: u32) -> u16 {
        let routes = self.routes.as_ref();
        routes.map_or(0, |routes| routes.part_of(stream))
    }

    fn row(&self, planned: &Planned, issued: Nanos, result: i32) -> Row {
        Row {
            intended: planned.operation.at,
            issued,
            completed: Nanos::NEVER,
            offset: planned.operation.row_offset(),
            size: planned.operation.size,
            result,
            stream: planned.stream,
            device: self.device(planned.stream),
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

    /// Hands the last interval and the last rows to the reporter.
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

    /// Returns what happened in the measured part.
    #[must_use]
    pub fn flow(&self) -> FlowCounts {
        self.flow
    }

    /// Returns the record of all operations.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        self.groups.whole()
    }

    /// Returns what was recorded of each group.
    pub(crate) fn groups(&self) -> &GroupRecords {
        &self.groups
    }

    /// Returns the time integral of the number of measured operations in flight [operations x ns].
    #[must_use]
    pub fn in_flight_area(&self) -> u128 {
        self.in_flight.area
    }

    /// Returns the time in flight of all failed operations together [ns]: it is in no histogram.
    #[must_use]
    pub fn failed_ns(&self) -> u128 {
        self.failed_ns
    }

    /// Returns when the last operation completed; zero if none did.
    #[must_use]
    pub fn last_end(&self) -> Nanos {
        self.last_end
    }
}

/// Writes to all memory of an empty block.
pub(crate) fn touch(block: &mut Vec<Row>) {
    block.resize(block.capacity(), Row::ZERO);
    std::hint::black_box(&mut *block).clear();
}

impl RowBlocks {
    /// Hands the block over and continues with an empty one; returns how many rows were lost because
    /// there was none. Waiting for the reporter would make operations late.
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

    /// Hands the last block over. The run has ended, so this may wait for the reporter.
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
    use crate::groups::GroupedFilament;
    use bw_model::{ExchangeAddress, Kind, Operation};
    use bw_protocol::events::StreamOutcome;
    use bw_record::streams::StreamTime;

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

    fn operation(at: Nanos) -> Operation {
        Operation {
            at,
            ..Operation::new(Kind::Read, 0, 512)
        }
    }

    /// Returns the page faults of this thread so far.
    fn faults() -> i64 {
        // SAFETY: all members of a `rusage` are numbers.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is a `rusage` that this thread owns.
        let failed = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
        assert_eq!(failed, 0);
        usage.ru_minflt
    }

    #[test]
    fn streams_that_never_ended_are_those_of_targets_with_streams() {
        let (sender, _stream) = exchange(8, Vec::new());
        let routes = Routes::new(&[0..1, 1..2], &[0, 1]);
        let mut record = WorkerRecord::new(0, Nanos(10), sender, None)
            .with_streams(Some(Vec::new()), vec![false, true])
            .with_routes(Some(routes));
        for (at, stream) in [(5, 1), (20, 0), (20, 1)] {
            let planned = Planned {
                operation: operation(Nanos(at)),
                filament: stream,
                stream,
            };
            let flight = InFlight {
                planned,
                issued: Nanos(at),
                held_since: None,
            };
            record.dropped(&planned);
            record.skipped(&planned);
            record.unfinished(Nanos(30), std::iter::once(&flight));
            let mut waiting = Some(planned);
            record.waiting(|| waiting.take());
        }
        assert_eq!(record.counts.unfinished, 2);
        let of_streams = LostOperations {
            dropped: 1,
            skipped: 1,
            waiting: 1,
            unfinished: 1,
        };
        assert_eq!(record.streams().unwrap().lost, of_streams);
    }

    #[test]
    fn recording_has_no_page_faults() {
        let (intervals, _stream) = exchange(8, Vec::new());
        let (rows, _blocks) = exchange(8, Vec::new());
        let filament = |name: &str| GroupedFilament {
            name: name.to_owned(),
            kinds: vec![Kind::Exchange],
            ..GroupedFilament::default()
        };
        let filaments = vec![filament("a"), filament("b")];
        let labels = [vec!["get".to_owned(), "put".to_owned()]];
        let groups = Groups::new(filaments, &[0..1, 1..2], Vec::new(), &labels);
        let limit = StreamLimit {
            of: StreamTime::First,
            limit_ns: Nanos(1),
        };
        let mut record = WorkerRecord::new(0, Nanos::ZERO, intervals, Some(rows))
            .with_streams(Some(vec![limit]), vec![true])
            .with_groups(Arc::new(groups), 0);
        let before = faults();
        // Fewer than a block, with times of all lengths.
        for number in 1..BLOCK as u64 {
            let (at, late) = (Nanos(number), Nanos(number * 7919));
            let address = ExchangeAddress {
                request: (number % 2) as u32,
                number,
            };
            let operation = Operation {
                at,
                ..Operation::new(Kind::Exchange, address.pack(), 512)
            };
            let stream = (number / 2 % 2) as u32;
            let planned = Planned {
                operation,
                filament: stream,
                stream,
            };
            let ended = at + late + Nanos(1 << (number % 40));
            record.intended(&planned);
            record.issued(&planned, at + late);
            let flight = InFlight {
                planned,
                issued: at + late,
                held_since: (number % 2 == 0).then_some(at),
            };
            record.completed(
                &flight,
                ended,
                ended,
                if number % 5 == 0 { -5 } else { 512 },
            );
            let seen = SeenStream {
                outcome: StreamOutcome {
                    first_event_ns: Some(1),
                    first_ns: Some(1),
                    first_visible_ns: Some(number),
                    last_ns: Some(number),
                    largest_gap_ns: Some(number),
                    tokens: Some(2),
                    ..StreamOutcome::default()
                },
                now_ns: number,
            };
            record.stream(&flight, ended, ended, 512, &seen);
        }
        let during = faults() - before;
        assert!(during < 10, "{during} page faults");
    }
}
