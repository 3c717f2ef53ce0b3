//! The outcomes of one worker's operations, as histograms and counts.
//!
//! Decision: all memory is allocated with the recorder, and recording is a few array
//! increments, so that it can be in the hot loop. Each worker has its own recorder; they are merged after the
//! run. "All kinds" and "lateness" are sums of stored histograms, computed at the end
//! rather than recorded twice. Failed operations have their own histogram of response times: a
//! refusal after 10 us would improve the successes' quantiles, and a timeout after 30 s must not be lost.

use crate::errno::ErrorCounts;
use crate::histogram::Histogram;
use bw_model::{Kind, Nanos, Operation, Row};

/// The outcome of one operation that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationOutcome {
    /// The operation as intended.
    pub operation: Operation,
    /// The actual start.
    pub issued: Nanos,
    /// The end.
    pub completed: Nanos,
    /// Bytes transferred, or an error if negative (see [`crate::errno`]).
    pub result: i32,
    /// Whether it had to wait for a free slot: its lateness is the target's.
    pub held: bool,
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

    /// Returns it as a row of samples: `stream` is its filament, `worker` the worker that executed it.
    #[must_use]
    pub fn row(&self, stream: u32, worker: u16) -> Row {
        Row {
            intended: self.operation.at,
            issued: self.issued,
            completed: self.completed,
            offset: self.operation.offset,
            size: self.operation.size,
            result: self.result,
            stream,
            device: worker,
            kind: self.operation.kind,
        }
    }
}

/// The record of one kind of operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KindRecord {
    /// Operations that ended, including failed ones.
    pub operations: u64,
    /// Bytes transferred.
    pub bytes: u64,
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
        if let Ok(bytes) = u64::try_from(outcome.result) {
            self.bytes += if outcome.operation.kind.transfers() {
                bytes
            } else {
                0
            };
            self.response.record(outcome.response());
            self.service.record(outcome.service());
        } else {
            self.errors.count(outcome.result);
            self.failed.record(outcome.response());
        }
    }

    /// Adds the counts of `other`.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.errors.merge(&other.errors);
        self.lateness.merge(&other.lateness);
        self.held.merge(&other.held);
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.failed.merge(&other.failed);
    }

    /// Returns the issue error of all operations, delayed or not.
    #[must_use]
    pub(crate) fn issue_error(&self) -> Histogram {
        let mut both = self.lateness.clone();
        both.merge(&self.held);
        both
    }
}

/// The record of one worker, or of several merged. About 7 MB.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorder {
    kinds: Vec<KindRecord>,
    early: u64,
    unfinished: u64,
}

impl Recorder {
    /// Returns an empty record with all its memory allocated.
    #[must_use]
    pub fn new() -> Self {
        Self {
            kinds: Kind::ALL.map(|_| KindRecord::default()).into(),
            early: 0,
            unfinished: 0,
        }
    }

    /// Records an operation that ended. Never allocates.
    #[inline]
    pub fn record(&mut self, outcome: &OperationOutcome) {
        self.early += u64::from(outcome.issued < outcome.operation.at);
        let kind = &mut self.kinds[outcome.operation.kind as usize];
        kind.start(outcome.issue_error(), outcome.held);
        kind.end(outcome);
    }

    /// Records an operation that was still in flight when the run stopped waiting:
    /// its issue error counts, its times are unknown.
    pub fn record_unfinished(&mut self, operation: &Operation, issued: Nanos, held: bool) {
        self.early += u64::from(issued < operation.at);
        self.unfinished += 1;
        let issue_error = issued.since(operation.at).0;
        self.kinds[operation.kind as usize].start(issue_error, held);
    }

    /// Adds the counts of `other`. Associative and commutative.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.kinds.iter_mut().zip(&other.kinds) {
            mine.merge(theirs);
        }
        self.early += other.early;
        self.unfinished += other.unfinished;
    }

    /// Returns the record of one kind.
    #[must_use]
    pub fn kind(&self, kind: Kind) -> &KindRecord {
        &self.kinds[kind as usize]
    }

    /// Returns the sum of the records of all kinds.
    #[must_use]
    pub fn all(&self) -> KindRecord {
        let mut all = KindRecord::default();
        self.kinds.iter().for_each(|kind| all.merge(kind));
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

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn outcome(kind: u8, at: u64, waits: (u64, u64), result: i32) -> OperationOutcome {
        let operation = Operation {
            at: Nanos(at),
            offset: 0,
            size: 4096,
            kind: Kind::from_number(kind).unwrap(),
            notify: false,
            tag: 0,
        };
        let issued = Nanos(at + waits.0);
        OperationOutcome {
            operation,
            issued,
            completed: issued + Nanos(waits.1),
            result,
            held: waits.0.is_multiple_of(3),
        }
    }

    #[test]
    fn response_counts_from_the_intended_start_and_service_from_the_actual_one() {
        let mut recorder = Recorder::new();
        recorder.record(&outcome(0, 1000, (50, 200), 4096));
        recorder.record(&outcome(0, 2000, (60, 300), 4096));
        let reads = recorder.kind(Kind::Read);
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
    fn a_failure_is_counted_and_kept_apart() {
        let mut recorder = Recorder::new();
        recorder.record(&outcome(1, 0, (1, 7), -5));
        let writes = recorder.kind(Kind::Write);
        assert_eq!((writes.operations, writes.bytes), (1, 0));
        assert_eq!((writes.response.count(), writes.failed.max()), (0, Some(8)));
        assert_eq!(writes.errors.iter().next(), Some(("EIO".to_owned(), 1)));
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
    }

    fn record(outcomes: &[OperationOutcome]) -> Recorder {
        let mut recorder = Recorder::new();
        outcomes.iter().for_each(|outcome| recorder.record(outcome));
        recorder
    }

    fn outcomes() -> impl Strategy<Value = Vec<OperationOutcome>> {
        let one = (
            0..5u8,
            any::<u32>(),
            (any::<u32>(), any::<u32>()),
            -200..5000i32,
        );
        let one = one.prop_map(|(kind, at, (error, service), result)| {
            outcome(kind, at.into(), (error.into(), service.into()), result)
        });
        prop::collection::vec(one, 0..20)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
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
