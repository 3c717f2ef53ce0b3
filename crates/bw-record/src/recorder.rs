//! The outcomes of one worker's operations, as histograms and counts.
//!
//! Decision: all memory is allocated before the run starts, and recording is a few array
//! increments, so that it can be in the hot loop. A kind has 1.6 MB of histograms, so only the kinds that a workload
//! is expected to issue have them from the start; another one gets them at its first operation. Each worker has its own recorder; they are merged after the
//! run. "All kinds" and "lateness" are sums of stored histograms, computed at the end
//! rather than recorded twice. Failed operations have their own histogram of response times: a
//! refusal after 10 us would improve the successes' quantiles, and a timeout after 30 s must not be lost.
//!
//! The target's response has a histogram of its own although it is the service time of all operations that started at
//! once: the others would need two more, of both of their times, for the sums of "service" and "target".

use crate::errno::ErrorCounts;
use crate::histogram::Histogram;
use bw_model::{Kind, Nanos, Operation, Row};
use serde::{Deserialize, Serialize};

/// The outcome of one operation that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationOutcome {
    /// The operation as intended.
    pub operation: Operation,
    /// The actual start.
    pub issued: Nanos,
    /// The end: when the generator saw it.
    pub completed: Nanos,
    /// When it had arrived, as far as the target knows: at `completed`, or earlier.
    pub arrived: Nanos,
    /// Bytes transferred, or an error if negative (see [`crate::errno`]).
    pub result: i64,
    /// If it had to wait for a free slot: when the generator came to it. From then on the delay is the target's.
    pub held_since: Option<Nanos>,
}

impl OperationOutcome {
    /// Returns how much later than intended it started [ns]; zero if it was early.
    #[must_use]
    pub fn issue_error(&self) -> u64 {
        self.issued.since(self.operation.at).0
    }

    /// Returns the time from its intended start to its end [ns].
    #[must_use]
    pub fn response(&self) -> u64 {
        self.completed.since(self.operation.at).0
    }

    /// Returns the time from its actual start to its end [ns].
    #[must_use]
    pub fn service(&self) -> u64 {
        self.completed.since(self.issued).0
    }

    /// Returns the time that the target is responsible for [ns]: from when the generator came to it, if it had to wait for
    /// a free slot, else from its actual start, to when its end had arrived. Never more than the response; less than the
    /// service time by the time for which the generator did not see its end.
    #[must_use]
    pub fn target_response(&self) -> u64 {
        let from = self.held_since.unwrap_or(self.issued);
        // A clock that was set meanwhile may say anything.
        let arrived = self
            .arrived
            .clamp(self.issued, self.completed.max(self.issued));
        arrived.since(from).0
    }

    /// Returns how many bytes it transferred; None if it failed.
    fn bytes(&self) -> Option<u64> {
        let bytes = u64::try_from(self.result).ok()?;
        Some(if self.operation.kind.transfers() {
            bytes
        } else {
            0
        })
    }

    /// Returns it as a row of samples: `stream` is its filament, `worker` the worker that executed it.
    #[must_use]
    pub fn row(&self, stream: u32, worker: u16) -> Row {
        Row {
            intended: self.operation.at,
            issued: self.issued,
            completed: self.completed,
            offset: self.operation.row_offset(),
            size: self.operation.size,
            result: narrow(self.result),
            stream,
            device: worker,
            kind: self.operation.kind,
        }
    }
}

/// Returns a result as rows and filaments have it: an error as it is, 2 GiB or more as the largest number.
#[must_use]
pub fn narrow(result: i64) -> i32 {
    i32::try_from(result).unwrap_or(i32::MAX)
}

/// Intended operations that did not end, or did not even begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostOperations {
    /// There was no room in flight.
    pub dropped: u64,
    /// Too late, by the policy for late operations.
    pub skipped: u64,
    /// Due and never issued.
    pub waiting: u64,
    /// In flight when the run was over.
    pub unfinished: u64,
}

impl LostOperations {
    /// Adds the counts of `other`.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.dropped += other.dropped;
        self.skipped += other.skipped;
        self.waiting += other.waiting;
        self.unfinished += other.unfinished;
    }

    /// Returns how many there are.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.dropped + self.skipped + self.waiting + self.unfinished
    }
}

/// The record of one kind of operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KindRecord {
    /// Operations that ended, including failed ones.
    pub operations: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Operations that succeeded and ended in the measured part, whatever their intended start.
    pub in_time: u64,
    /// Bytes that these transferred.
    pub in_time_bytes: u64,
    /// Operations that did not end.
    pub lost: LostOperations,
    /// Failed operations by error.
    pub errors: ErrorCounts,
    /// Issue error of operations that were not delayed by a full target [ns].
    pub lateness: Histogram,
    /// Issue error of operations that waited for a free slot [ns].
    pub held: Histogram,
    /// Time from intended start to end, of operations that succeeded [ns].
    pub response: Histogram,
    /// Time from actual start to end, of operations that succeeded [ns].
    pub service: Histogram,
    /// The target's part of the response, of operations that succeeded ([`OperationOutcome::target_response`]) [ns].
    pub target: Histogram,
    /// Time from intended start to end, of operations that failed [ns].
    pub failed: Histogram,
}

impl KindRecord {
    #[inline]
    fn start(&mut self, issue_error: u64, held: bool) {
        if held {
            self.held.record(issue_error);
        } else {
            self.lateness.record(issue_error);
        }
    }

    #[inline]
    fn end(&mut self, outcome: &OperationOutcome) {
        self.operations += 1;
        if let Some(bytes) = outcome.bytes() {
            self.bytes += bytes;
            self.response.record(outcome.response());
            self.service.record(outcome.service());
            self.target.record(outcome.target_response());
        } else {
            self.errors.count(narrow(outcome.result));
            self.failed.record(outcome.response());
        }
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.in_time += other.in_time;
        self.in_time_bytes += other.in_time_bytes;
        self.lost.merge(&other.lost);
        self.errors.merge(&other.errors);
        self.lateness.merge(&other.lateness);
        self.held.merge(&other.held);
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.target.merge(&other.target);
        self.failed.merge(&other.failed);
    }

    /// Returns whether there was any operation.
    #[must_use]
    pub fn has_any(&self) -> bool {
        self.in_time + self.lost.all() + self.lateness.count() + self.held.count() > 0
    }

    /// Returns the issue error of all operations, delayed or not.
    #[must_use]
    pub(crate) fn issue_error(&self) -> Histogram {
        let mut both = self.lateness.clone();
        both.merge(&self.held);
        both
    }
}

/// The record of the sequences of one chain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SequenceRecord {
    /// Sequences that ended with all their operations successful.
    pub completed: u64,
    /// Sequences that ended with a failed operation.
    pub errors: u64,
    /// Sequences that the end of the run cut short.
    pub unfinished: u64,
    /// Operations of all of them that ended.
    pub operations: u64,
    /// Time from the intended start of the first operation to the end of the last, of completed ones [ns].
    pub response: Histogram,
}

impl SequenceRecord {
    fn merge(&mut self, other: &Self) {
        self.completed += other.completed;
        self.errors += other.errors;
        self.unfinished += other.unfinished;
        self.operations += other.operations;
        self.response.merge(&other.response);
    }
}

/// The record of one worker, or of several merged. About 1.6 MB for each kind that is issued, 270 KB for each chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorder {
    /// By the kinds' numbers.
    kinds: Box<[Option<KindRecord>; Kind::ALL.len()]>,
    sequences: Vec<SequenceRecord>,
    early: u64,
    unfinished: u64,
}

impl Recorder {
    /// Returns an empty record without memory for any kind.
    #[must_use]
    pub fn new() -> Self {
        Self {
            kinds: Box::new([const { None }; Kind::ALL.len()]),
            sequences: Vec::new(),
            early: 0,
            unfinished: 0,
        }
    }

    /// Allocates the memory for these kinds and this number of chains, so that recording them does not.
    pub fn expect(&mut self, kinds: impl IntoIterator<Item = Kind>, chains: usize) {
        for kind in kinds {
            self.kind_mut(kind);
        }
        if self.sequences.len() < chains {
            self.sequences.resize_with(chains, SequenceRecord::default);
        }
    }

    /// Writes to all memory of an empty record, so that recording causes no page fault.
    pub fn touch(&mut self) {
        for kind in self.kinds.iter_mut().flatten() {
            let times = [&mut kind.response, &mut kind.service, &mut kind.target];
            times.into_iter().for_each(Histogram::touch);
            let others = [&mut kind.lateness, &mut kind.held, &mut kind.failed];
            others.into_iter().for_each(Histogram::touch);
        }
        for sequence in &mut self.sequences {
            sequence.response.touch();
        }
    }

    #[inline]
    fn kind_mut(&mut self, kind: Kind) -> &mut KindRecord {
        self.kinds[kind as usize].get_or_insert_with(first)
    }

    /// Records an operation that ended. Does not allocate if its kind was expected.
    #[inline]
    pub fn record(&mut self, outcome: &OperationOutcome) {
        self.early += u64::from(outcome.issued < outcome.operation.at);
        let kind = self.kind_mut(outcome.operation.kind);
        kind.start(outcome.issue_error(), outcome.held_since.is_some());
        kind.end(outcome);
    }

    /// Counts an operation that ended in the measured part, whatever its intended start.
    #[inline]
    pub fn record_in_time(&mut self, outcome: &OperationOutcome) {
        if let Some(bytes) = outcome.bytes() {
            let kind = self.kind_mut(outcome.operation.kind);
            kind.in_time += 1;
            kind.in_time_bytes += bytes;
        }
    }

    /// Records an operation that was still in flight when the run stopped waiting:
    /// its issue error counts, its times are unknown.
    pub fn record_unfinished(&mut self, operation: &Operation, issued: Nanos, held: bool) {
        self.early += u64::from(issued < operation.at);
        self.unfinished += 1;
        let issue_error = issued.since(operation.at).0;
        let kind = self.kind_mut(operation.kind);
        kind.start(issue_error, held);
        kind.lost.unfinished += 1;
    }

    /// Returns the counts of operations of a kind that did not end. Allocates if the kind was not expected.
    pub fn lost_mut(&mut self, kind: Kind) -> &mut LostOperations {
        &mut self.kind_mut(kind).lost
    }

    /// Returns the record of the sequences of a chain. Allocates if the chain was not expected.
    pub fn sequence_mut(&mut self, chain: u16) -> &mut SequenceRecord {
        let index = usize::from(chain);
        self.expect([], index + 1);
        &mut self.sequences[index]
    }

    /// Returns the records of the chains, in the order of their indices.
    #[must_use]
    pub fn sequences(&self) -> &[SequenceRecord] {
        &self.sequences
    }

    /// Adds the counts of `other`. Associative and commutative.
    pub fn merge(&mut self, other: &Self) {
        for kind in Kind::ALL {
            if let Some(theirs) = other.kind(kind) {
                self.kind_mut(kind).merge(theirs);
            }
        }
        self.expect([], other.sequences.len());
        for (mine, theirs) in self.sequences.iter_mut().zip(&other.sequences) {
            mine.merge(theirs);
        }
        self.early += other.early;
        self.unfinished += other.unfinished;
    }

    /// Returns the record of one kind; None if it was neither expected nor issued.
    #[must_use]
    pub fn kind(&self, kind: Kind) -> Option<&KindRecord> {
        self.kinds[kind as usize].as_ref()
    }

    /// Returns the sum of the records of all kinds.
    #[must_use]
    pub fn all(&self) -> KindRecord {
        let mut all = KindRecord::default();
        let kinds = self.kinds.iter().flatten();
        kinds.for_each(|kind| all.merge(kind));
        all
    }

    /// Returns how many started before their intended start. Anything but zero is a defect of the engine.
    #[must_use]
    pub fn early(&self) -> u64 {
        self.early
    }

    /// Returns how many were issued and did not end.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.unfinished
    }
}

#[cold]
fn first() -> KindRecord {
    KindRecord::default()
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn outcome(kind: u8, at: u64, waits: (u64, u64), result: i64) -> OperationOutcome {
        let operation = Operation {
            at: Nanos(at),
            ..Operation::new(Kind::from_number(kind).unwrap(), 0, 4096)
        };
        let issued = Nanos(at + waits.0);
        OperationOutcome {
            operation,
            issued,
            completed: issued + Nanos(waits.1),
            arrived: issued + Nanos(waits.1),
            result,
            held_since: waits.0.is_multiple_of(3).then_some(Nanos(at + waits.0 / 3)),
        }
    }

    #[test]
    fn results_above_two_gigabytes_are_added_whole() {
        let mut recorder = Recorder::new();
        for number in 0..3 {
            recorder.record(&outcome(1, number, (0, 200), 3 << 30));
        }
        assert_eq!(recorder.all().bytes, 9 << 30);
        assert_eq!(outcome(1, 0, (0, 1), 3 << 30).row(0, 0).result, i32::MAX);
        assert_eq!(outcome(1, 0, (0, 1), -5).row(0, 0).result, -5);
    }

    #[test]
    fn response_counts_from_the_intended_start_and_service_from_the_actual_one() {
        let mut recorder = Recorder::new();
        recorder.record(&outcome(0, 1000, (50, 200), 4096));
        recorder.record(&outcome(0, 2000, (60, 300), 4096));
        let reads = recorder.kind(Kind::Read).unwrap();
        assert_eq!((reads.operations, reads.bytes), (2, 8192));
        assert_eq!(
            (reads.lateness.max(), reads.held.max()),
            (Some(50), Some(60))
        );
        assert_eq!(
            (reads.response.max(), reads.service.max()),
            (Some(360), Some(300))
        );
        assert_eq!(reads.issue_error().count(), 2);
        assert_eq!(recorder.early(), 0);
    }

    #[test]
    fn the_target_is_responsible_from_the_start_or_from_when_the_generator_came_to_what_had_to_wait()
     {
        let at_once = |late: u64| OperationOutcome {
            held_since: None,
            ..outcome(0, 1000, (late, 200), 1)
        };
        let held = |came: u64, waited: u64| OperationOutcome {
            held_since: Some(Nanos(1000 + came)),
            ..outcome(0, 1000, (came + waited, 200), 1)
        };
        let unseen = |ns: u64, outcome: OperationOutcome| OperationOutcome {
            arrived: Nanos(outcome.completed.0 - ns),
            ..outcome
        };
        // Each: response, and the target's part of it.
        for (outcome, times) in [
            (unseen(30, at_once(0)), (200, 170)),
            (unseen(30, held(90, 50)), (340, 220)),
            // The clock of the stamps was set.
            (unseen(900, held(90, 50)), (340, 50)),
            (at_once(0), (200, 200)),
            (at_once(90), (290, 200)),
            (held(0, 50), (250, 250)),
            (held(90, 50), (340, 250)),
        ] {
            let mut recorder = Recorder::new();
            recorder.record(&outcome);
            let reads = recorder.kind(Kind::Read).unwrap();
            let greatest = [&reads.response, &reads.target].map(Histogram::max);
            assert_eq!(greatest, [Some(times.0), Some(times.1)], "{outcome:?}");
            let failed = OperationOutcome {
                result: -5,
                ..outcome
            };
            recorder.record(&failed);
            assert_eq!(recorder.all().target.count(), 1);
        }
    }

    #[test]
    fn a_failure_is_counted_and_kept_apart() {
        let mut recorder = Recorder::new();
        recorder.record(&outcome(1, 0, (1, 7), -5));
        let writes = recorder.kind(Kind::Write).unwrap();
        assert_eq!((writes.operations, writes.bytes), (1, 0));
        assert_eq!((writes.response.count(), writes.failed.max()), (0, Some(8)));
        assert_eq!(writes.errors.iter().next(), Some(("EIO".to_owned(), 1)));
    }

    #[test]
    fn only_reads_writes_and_appends_of_files_count_bytes() {
        let mut recorder = Recorder::new();
        for kind in Kind::ALL {
            recorder.record(&outcome(kind as u8, 0, (1, 7), 100));
        }
        let bytes = |kind| recorder.kind(kind).unwrap().bytes;
        assert_eq!((bytes(Kind::Append), bytes(Kind::Readdir)), (100, 0));
        assert_eq!((recorder.all().operations, recorder.all().bytes), (21, 600));
    }

    #[test]
    fn a_kind_that_is_neither_expected_nor_issued_has_no_record() {
        let mut recorder = Recorder::new();
        recorder.expect([Kind::Read], 2);
        recorder.record(&outcome(12, 0, (1, 7), 0));
        let recorded = Kind::ALL.map(|kind| recorder.kind(kind).map(|record| record.operations));
        let mut expected = [None; 21];
        (expected[0], expected[12]) = (Some(0), Some(1));
        assert_eq!(recorded, expected);
        assert_eq!(recorder.sequences().len(), 2);
    }

    #[test]
    fn early_and_unfinished_are_reported() {
        let mut recorder = Recorder::new();
        let mut early = outcome(0, 100, (1, 5), 1);
        early.issued = Nanos(99);
        recorder.record(&early);
        recorder.record_unfinished(&early.operation, Nanos(140), false);
        assert_eq!((recorder.early(), recorder.unfinished()), (1, 1));
        let all = recorder.all();
        assert_eq!((all.operations, all.lateness.count()), (1, 2));
        recorder.lost_mut(Kind::Write).dropped += 1;
        let lost = |kind| recorder.kind(kind).unwrap().lost.all();
        assert_eq!([lost(Kind::Read), lost(Kind::Write)], [1, 1]);
        assert_eq!(recorder.all().lost.all(), 2);
    }

    fn record(outcomes: &[OperationOutcome]) -> Recorder {
        let mut recorder = Recorder::new();
        outcomes.iter().for_each(|outcome| recorder.record(outcome));
        recorder
    }

    fn outcomes() -> impl Strategy<Value = Vec<OperationOutcome>> {
        let one = (
            0..21u8,
            any::<u32>(),
            (any::<u32>(), any::<u32>()),
            -200..5000i32,
        );
        let one = one.prop_map(|(kind, at, (error, service), result)| {
            outcome(
                kind,
                at.into(),
                (error.into(), service.into()),
                i64::from(result),
            )
        });
        prop::collection::vec(one, 0..20)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn the_targets_part_is_service_and_wait_and_no_more_than_the_response(
            outcomes in outcomes(), arrived in any::<u64>()
        ) {
            for one in outcomes {
                prop_assert!(one.service() <= one.target_response());
                prop_assert!(one.target_response() <= one.response());
                let arrived = OperationOutcome { arrived: Nanos(arrived), ..one };
                prop_assert!(arrived.target_response() <= one.target_response());
            }
        }

        #[test]
        fn any_order_of_merging_gives_the_same(a in outcomes(), b in outcomes(), c in outcomes()) {
            let (mut left, mut right) = (record(&a), record(&c));
            left.merge(&record(&b));
            left.merge(&record(&c));
            right.merge(&record(&b));
            right.merge(&record(&a));
            prop_assert_eq!(&left, &right);
            prop_assert_eq!(left, record(&[a, b, c].concat()));
        }
    }
}
