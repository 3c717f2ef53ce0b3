//! The record of a run: for every kind of operation its times, bytes and errors.
//!
//! What is in which distribution: issue error counts every operation that was issued; response time
//! (from the intended start) and service time (from the actual start) count those that
//! ended well, because an error that comes back at once would flatter both. Lateness is the
//! issue error of operations that no full target held back: the generator's own fault.

use crate::distribution::{Distribution, DistributionSummary};
use crate::errors::Errors;
use bw_schedule::operation::{Kind, Operation};
use bw_units::Nanos;
use serde::Serialize;
use std::collections::BTreeMap;

/// Significant digits of a run's distributions: 0.1 %.
const DIGITS: u8 = 3;

/// An operation that was issued and has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What was meant, and when.
    pub operation: Operation,
    /// The actual start.
    pub issued: Nanos,
    /// The end.
    pub completed: Nanos,
    /// Bytes transferred, or a negative error (see `errors`).
    pub result: i32,
    /// Whether it had to wait for a free place in flight.
    pub held: bool,
}

impl Outcome {
    /// Returns how long after the intended start it was issued.
    #[must_use]
    pub fn issue_error(&self) -> Nanos {
        self.issued.since(self.operation.at)
    }

    /// Returns the time from the intended start to the end.
    #[must_use]
    pub fn response(&self) -> Nanos {
        self.completed.since(self.operation.at)
    }

    /// Returns the time from the actual start to the end.
    #[must_use]
    pub fn service(&self) -> Nanos {
        self.completed.since(self.issued)
    }
}

/// The record of one kind of operation.
#[derive(Clone, Debug, PartialEq)]
pub struct KindRecord {
    operations: u64,
    bytes: u64,
    errors: Errors,
    issue_error: Distribution,
    response: Distribution,
    service: Distribution,
}

impl KindRecord {
    fn new() -> Self {
        Self {
            operations: 0,
            bytes: 0,
            errors: Errors::default(),
            issue_error: Distribution::new(DIGITS),
            response: Distribution::new(DIGITS),
            service: Distribution::new(DIGITS),
        }
    }

    #[inline]
    fn record(&mut self, outcome: &Outcome) {
        self.operations += 1;
        self.issue_error.record(outcome.issue_error());
        match u64::try_from(outcome.result) {
            Ok(bytes) => {
                self.bytes += bytes;
                self.response.record(outcome.response());
                self.service.record(outcome.service());
            }
            Err(_) => self.errors.count(outcome.result),
        }
    }

    fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.errors.merge(&other.errors);
        self.issue_error.merge(&other.issue_error);
        self.response.merge(&other.response);
        self.service.merge(&other.service);
    }

    /// Returns the figures for a report.
    #[must_use]
    pub fn summary(&self) -> KindSummary {
        KindSummary {
            operations: self.operations,
            bytes: self.bytes,
            errors: self.errors.named(),
            issue_error_ns: self.issue_error.summary(),
            response_ns: self.response.summary(),
            service_ns: self.service.summary(),
        }
    }
}

/// One kind's figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindSummary {
    /// Operations that ended, well or not.
    pub operations: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Errors by name.
    pub errors: BTreeMap<String, u64>,
    /// Actual minus intended start, of all.
    pub issue_error_ns: DistributionSummary,
    /// End minus intended start, of those that ended well.
    pub response_ns: DistributionSummary,
    /// End minus actual start, of those that ended well.
    pub service_ns: DistributionSummary,
}

/// The record of a run, or of one worker's part of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorder {
    kinds: Vec<KindRecord>,
    lateness: Distribution,
    early: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// Returns an empty record; all its memory (about 4 MiB) is taken now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            kinds: Kind::ALL.map(|_| KindRecord::new()).into(),
            lateness: Distribution::new(DIGITS),
            early: 0,
        }
    }

    /// Records the end of an operation. Allocates nothing.
    #[inline]
    pub fn record(&mut self, outcome: &Outcome) {
        self.early += u64::from(outcome.issued < outcome.operation.at);
        if !outcome.held {
            self.lateness.record(outcome.issue_error());
        }
        self.kinds[outcome.operation.kind as usize].record(outcome);
    }

    /// Takes in what another worker recorded; the order of mergings changes nothing.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.kinds.iter_mut().zip(&other.kinds) {
            mine.merge(theirs);
        }
        self.lateness.merge(&other.lateness);
        self.early += other.early;
    }

    /// Returns how many operations were issued before their time: a defect of the generator.
    #[must_use]
    pub fn early(&self) -> u64 {
        self.early
    }

    /// Returns how many operations ended.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.operations).sum()
    }

    /// Returns how many operations ended with an error.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.errors.total()).sum()
    }

    /// Returns the issue error of operations that no full target held back.
    #[must_use]
    pub fn lateness(&self) -> &Distribution {
        &self.lateness
    }

    /// Returns the figures of each kind that occurred, by name, and of `all` together.
    #[must_use]
    pub fn summary(&self) -> BTreeMap<String, KindSummary> {
        let mut all = KindRecord::new();
        let mut kinds = BTreeMap::new();
        for (kind, record) in Kind::ALL.iter().zip(&self.kinds) {
            all.merge(record);
            if record.operations > 0 {
                kinds.insert(kind.name().to_owned(), record.summary());
            }
        }
        kinds.insert("all".to_owned(), all.summary());
        kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn outcome(kind: Kind, times: (u64, u64, u64), result: i32) -> Outcome {
        let operation = Operation {
            at: Nanos(times.0),
            offset: 0,
            size: 4096,
            kind,
            notify: false,
            tag: 0,
        };
        let (issued, completed) = (Nanos(times.1), Nanos(times.2));
        Outcome {
            operation,
            issued,
            completed,
            result,
            held: false,
        }
    }

    #[test]
    fn response_counts_from_the_intended_start_and_service_from_the_actual() {
        let mut recorder = Recorder::new();
        recorder.record(&outcome(Kind::Read, (100, 150, 400), 4096));
        let read = &recorder.summary()["read"];
        assert_eq!(read.issue_error_ns.max, Some(50));
        assert_eq!(read.response_ns.max, Some(300));
        assert_eq!(read.service_ns.max, Some(250));
        assert_eq!((read.operations, read.bytes), (1, 4096));
    }

    #[test]
    fn an_error_has_no_response_time_and_is_named() {
        let mut recorder = Recorder::new();
        recorder.record(&outcome(Kind::Write, (1, 2, 3), -28));
        let all = &recorder.summary()["all"];
        assert_eq!((all.operations, all.bytes), (1, 0));
        assert_eq!((all.response_ns.count, all.issue_error_ns.count), (0, 1));
        assert_eq!(all.errors["ENOSPC"], 1);
    }

    #[test]
    fn what_was_held_is_not_the_generators_lateness() {
        let mut recorder = Recorder::new();
        recorder.record(&Outcome {
            held: true,
            ..outcome(Kind::Read, (0, 9000, 9001), 1)
        });
        recorder.record(&outcome(Kind::Read, (0, 10, 11), 1));
        assert_eq!(recorder.lateness().summary().max, Some(10));
        assert_eq!(recorder.summary()["read"].issue_error_ns.max, Some(9000));
    }

    #[test]
    fn an_early_start_is_counted() {
        let mut recorder = Recorder::new();
        recorder.record(&outcome(Kind::Read, (100, 99, 200), 1));
        assert_eq!(recorder.early(), 1);
    }

    proptest! {
        #[test]
        fn parts_merged_in_any_order_are_the_whole(
            rows in prop::collection::vec(
                (0_u8..5, 0_u64..1000, 0_u64..1000, 0_u64..100_000, -40_i32..5000), 0..60),
            cut in 0_usize..60,
        ) {
            let outcomes: Vec<Outcome> = rows
                .iter()
                .map(|(kind, at, late, long, result)| {
                    let times = (*at, at + late, at + late + long);
                    outcome(Kind::from_number(*kind).unwrap(), times, *result)
                })
                .collect();
            let recorded = |part: &[Outcome]| {
                let mut recorder = Recorder::new();
                part.iter().for_each(|outcome| recorder.record(outcome));
                recorder
            };
            let (left, right) = outcomes.split_at(cut.min(outcomes.len()));
            let (mut one, mut other) = (recorded(left), recorded(right));
            one.merge(&recorded(right));
            other.merge(&recorded(left));
            let whole = recorded(&outcomes);
            prop_assert_eq!(one.summary(), whole.summary());
            prop_assert_eq!(&other.summary(), &whole.summary());
            prop_assert_eq!(one.operations(), outcomes.len() as u64);
        }
    }
}
