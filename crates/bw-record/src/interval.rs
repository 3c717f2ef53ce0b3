//! What happened in one stretch of a run: a point of its series.
//!
//! Issues are counted in the interval they were issued in, ends in the interval they ended
//! in, intended starts where they were meant to be: three questions, three answers.

use crate::distribution::Distribution;
use crate::recorder::Outcome;
use bw_units::Nanos;
use serde::Serialize;

/// Significant digits of an interval's distributions: 1 %, and 40 KiB each.
const DIGITS: u8 = 2;

/// The record of one interval of one worker; mergeable with the same interval of others.
#[derive(Clone, Debug)]
pub struct Interval {
    /// When it began.
    pub start: Nanos,
    /// How long it lasted; the last one of a run may be shorter than the others.
    pub length: Nanos,
    /// Operations whose intended start lies in it.
    pub intended: u64,
    /// Operations issued in it.
    pub issued: u64,
    /// Operations dropped in it.
    pub dropped: u64,
    /// Operations that ended in it.
    pub completed: u64,
    /// Those that ended in it with an error.
    pub errors: u64,
    /// Operations in flight at its end.
    pub in_flight: u64,
    /// Operations waiting for a free place at its end.
    pub waiting: u64,
    response: Distribution,
    issue_error: Distribution,
}

impl Default for Interval {
    fn default() -> Self {
        Self::new()
    }
}

impl Interval {
    /// Returns an empty interval; its memory (about 80 KiB) is taken now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            start: Nanos::ZERO,
            length: Nanos::ZERO,
            intended: 0,
            issued: 0,
            dropped: 0,
            completed: 0,
            errors: 0,
            in_flight: 0,
            waiting: 0,
            response: Distribution::new(DIGITS),
            issue_error: Distribution::new(DIGITS),
        }
    }

    /// Records the end of an operation.
    #[inline]
    pub fn record(&mut self, outcome: &Outcome) {
        self.completed += 1;
        self.issue_error.record(outcome.issue_error());
        if outcome.result < 0 {
            self.errors += 1;
        } else {
            self.response.record(outcome.response());
        }
    }

    /// Empties it for another use, and keeps the memory.
    pub fn reset(&mut self) {
        (self.start, self.length) = (Nanos::ZERO, Nanos::ZERO);
        (self.intended, self.issued, self.dropped) = (0, 0, 0);
        (self.completed, self.errors) = (0, 0);
        (self.in_flight, self.waiting) = (0, 0);
        self.response.clear();
        self.issue_error.clear();
    }

    /// Takes in the same interval of another worker.
    pub fn merge(&mut self, other: &Self) {
        self.length = self.length.max(other.length);
        self.intended += other.intended;
        self.issued += other.issued;
        self.dropped += other.dropped;
        self.completed += other.completed;
        self.errors += other.errors;
        self.in_flight += other.in_flight;
        self.waiting += other.waiting;
        self.response.merge(&other.response);
        self.issue_error.merge(&other.issue_error);
    }

    /// Returns the median response time of what ended well; None without any [ns].
    #[must_use]
    pub fn response_p50(&self) -> Option<u64> {
        self.response.quantile(0.5)
    }

    /// Returns the figures for a report.
    #[must_use]
    pub fn summary(&self) -> IntervalSummary {
        IntervalSummary {
            start_ns: self.start.0,
            length_ns: self.length.0,
            intended: self.intended,
            issued: self.issued,
            completed: self.completed,
            errors: self.errors,
            dropped: self.dropped,
            in_flight: self.in_flight,
            waiting: self.waiting,
            response_ns_p50: self.response.quantile(0.5),
            response_ns_p99: self.response.quantile(0.99),
            response_ns_max: self.response.max(),
            issue_error_ns_p99: self.issue_error.quantile(0.99),
        }
    }
}

/// One interval's figures; see [`Interval`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct IntervalSummary {
    pub start_ns: u64,
    pub length_ns: u64,
    pub intended: u64,
    pub issued: u64,
    pub completed: u64,
    pub errors: u64,
    pub dropped: u64,
    pub in_flight: u64,
    pub waiting: u64,
    pub response_ns_p50: Option<u64>,
    pub response_ns_p99: Option<u64>,
    pub response_ns_max: Option<u64>,
    pub issue_error_ns_p99: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use bw_schedule::operation::{Kind, Operation};

    fn outcome(response: u64, result: i32) -> Outcome {
        let operation = Operation {
            at: Nanos(10),
            offset: 0,
            size: 1,
            kind: Kind::Read,
            notify: false,
            tag: 0,
        };
        let (issued, completed) = (Nanos(12), Nanos(10 + response));
        Outcome {
            operation,
            issued,
            completed,
            result,
            held: false,
        }
    }

    #[test]
    fn ends_are_counted_and_errors_have_no_response_time() {
        let mut interval = Interval::new();
        interval.record(&outcome(100, 1));
        interval.record(&outcome(900, -5));
        let summary = interval.summary();
        assert_eq!((summary.completed, summary.errors), (2, 1));
        assert_eq!(summary.response_ns_max, Some(100));
        interval.reset();
        assert_eq!(interval.summary(), Interval::new().summary());
    }

    #[test]
    fn intervals_of_workers_merge() {
        let (mut one, mut other) = (Interval::new(), Interval::new());
        one.record(&outcome(100, 1));
        other.record(&outcome(300, 1));
        (one.in_flight, other.in_flight) = (2, 3);
        one.merge(&other);
        let summary = one.summary();
        assert_eq!((summary.completed, summary.in_flight), (2, 5));
        assert_eq!(summary.response_ns_max, Some(300));
    }
}
