//! What happened in one interval of a run.
//!
//! Decision: a worker fills its own [`Interval`] and hands it over whole when it is over;
//! the reporter merges the workers' intervals and computes quantiles. An issue belongs to
//! the interval of its actual start, a completion to the interval of its end, an intended start
//! to its own. So a stall appears as an interval with the usual intended starts and no completions.

use crate::histogram::Histogram;
use crate::summary::IntervalSummary;
use bw_model::Nanos;

/// The record of one interval of one worker, or of several merged. About 75 KB.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// Its index in the series, from 0: it starts at `index` times the length.
    pub index: u64,
    /// Operations with an intended start in it.
    pub intended: u64,
    /// Operations with an actual start in it.
    pub issued: u64,
    /// Operations that ended in it, including failed ones.
    pub completed: u64,
    /// Those of `completed` that failed.
    pub errors: u64,
    /// Operations dropped in it.
    pub dropped: u64,
    /// Operations in flight at its end.
    pub in_flight: u64,
    /// Operations that were due and waiting for a free slot at its end.
    pub waiting: u64,
    response: Histogram,
    issue_error: Histogram,
    /// None: no target has streams.
    streams: Option<Box<IntervalStreams>>,
}

/// The streams that ended in an interval.
#[derive(Clone, Debug, PartialEq)]
struct IntervalStreams {
    /// Whether streams are judged.
    judged: bool,
    /// That ended or were dropped.
    ended: u64,
    tokens: u64,
    good: u64,
    first: Histogram,
}

impl IntervalStreams {
    fn new(judged: bool) -> Box<Self> {
        Box::new(Self {
            judged,
            ended: 0,
            tokens: 0,
            good: 0,
            first: Histogram::coarse(),
        })
    }
}

impl Interval {
    /// Returns an empty record with all its memory allocated.
    #[must_use]
    pub fn new(index: u64) -> Self {
        Self {
            index,
            intended: 0,
            issued: 0,
            completed: 0,
            errors: 0,
            dropped: 0,
            in_flight: 0,
            waiting: 0,
            response: Histogram::coarse(),
            issue_error: Histogram::coarse(),
            streams: None,
        }
    }

    /// Allocates the memory for streams, with whether they have limits; None: no target has streams.
    #[must_use]
    pub fn with_streams(self, judged: Option<bool>) -> Self {
        Self {
            streams: judged.map(IntervalStreams::new),
            ..self
        }
    }

    /// Writes to all memory of an empty interval, so that recording causes no page fault.
    pub fn touch(&mut self) {
        self.response.touch();
        self.issue_error.touch();
        if let Some(streams) = &mut self.streams {
            streams.first.touch();
        }
    }

    /// Counts an operation that starts in it. Never allocates.
    #[inline]
    pub fn issue(&mut self, issue_error_ns: u64) {
        self.issued += 1;
        self.issue_error.record(issue_error_ns);
    }

    /// Counts an operation that ends in it; a failed one's response time stays out of the quantiles.
    #[inline]
    pub fn complete(&mut self, response_ns: u64, failed: bool) {
        self.completed += 1;
        if failed {
            self.errors += 1;
        } else {
            self.response.record(response_ns);
        }
    }

    /// Counts a stream that ends in it, beside [`complete`](Self::complete): its time to the first content event, if it
    /// succeeded and had one, the tokens that it is known to have, and whether it met all limits (None: there are none).
    #[inline]
    pub fn complete_stream(&mut self, first_ns: Option<u64>, tokens: u32, good: Option<bool>) {
        let streams = (self.streams).get_or_insert_with(|| IntervalStreams::new(good.is_some()));
        streams.ended += 1;
        streams.tokens += u64::from(tokens);
        streams.good += u64::from(good == Some(true));
        if let Some(first_ns) = first_ns {
            streams.first.record(first_ns);
        }
    }

    /// Counts a stream that is dropped in it.
    pub fn drop_stream(&mut self) {
        if let Some(streams) = &mut self.streams {
            streams.ended += 1;
        }
    }

    /// Makes it the empty interval `index`; keeps the memory.
    pub fn reset(&mut self, index: u64) {
        self.response.clear();
        self.issue_error.clear();
        (self.index, self.intended, self.issued, self.completed) = (index, 0, 0, 0);
        (self.errors, self.dropped, self.in_flight, self.waiting) = (0, 0, 0, 0);
        if let Some(streams) = &mut self.streams {
            (streams.ended, streams.tokens, streams.good) = (0, 0, 0);
            streams.first.clear();
        }
    }

    /// Adds another worker's record of the same interval. Associative and commutative.
    pub fn merge(&mut self, other: &Self) {
        debug_assert_eq!(self.index, other.index, "of the same interval");
        self.intended += other.intended;
        self.issued += other.issued;
        self.completed += other.completed;
        self.errors += other.errors;
        self.dropped += other.dropped;
        self.in_flight += other.in_flight;
        self.waiting += other.waiting;
        self.response.merge(&other.response);
        self.issue_error.merge(&other.issue_error);
        if let Some(theirs) = &other.streams {
            let judged = theirs.judged;
            let mine = (self.streams).get_or_insert_with(|| IntervalStreams::new(judged));
            mine.judged |= judged;
            mine.ended += theirs.ended;
            mine.tokens += theirs.tokens;
            mine.good += theirs.good;
            mine.first.merge(&theirs.first);
        }
    }

    /// Returns the figures of the interval, whose length is `length`; the run's last one may be shorter.
    #[must_use]
    pub fn summary(&self, start: Nanos, length: Nanos) -> IntervalSummary {
        let missing = self.errors + self.dropped;
        let streams = self.streams.as_deref();
        let first = |share| {
            let IntervalStreams { ended, first, .. } = streams?;
            first.quantile_among(share, ended - first.count())
        };
        IntervalSummary {
            start_ns: start.0,
            length_ns: length.0,
            intended: self.intended,
            issued: self.issued,
            completed: self.completed,
            errors: self.errors,
            dropped: self.dropped,
            in_flight: self.in_flight,
            waiting: self.waiting,
            response_ns_mean: self.response.mean(),
            response_ns_p50: self.response.quantile_among(0.5, missing),
            response_ns_p99: self.response.quantile_among(0.99, missing),
            response_ns_max: self.response.max(),
            issue_error_ns_p99: self.issue_error.quantile(0.99),
            response_hdr: None,
            first_ns_p50: first(0.5),
            first_ns_p99: first(0.99),
            streams: streams.map(|one| one.ended),
            tokens: streams.map(|one| one.tokens),
            good: streams.filter(|one| one.judged).map(|one| one.good),
            first_hdr: None,
        }
    }

    /// Returns the buckets of the response times: HdrHistogram V2, deflated, base64.
    #[must_use]
    pub fn response_hdr(&self) -> String {
        self.response.hdr()
    }

    /// Returns the buckets of the times to the first content event; None: no target has streams.
    #[must_use]
    pub fn first_hdr(&self) -> Option<String> {
        self.streams.as_ref().map(|streams| streams.first.hdr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(index: u64, responses: &[u64]) -> Interval {
        let mut interval = Interval::new(index);
        for response in responses {
            interval.intended += 1;
            interval.issue(response / 10);
            interval.complete(*response, response % 7 == 0);
        }
        interval
    }

    #[test]
    fn an_interval_without_an_end_has_no_quantiles() {
        let mut interval = Interval::new(3);
        interval.intended = 5;
        let summary = interval.summary(Nanos(300), Nanos(100));
        assert_eq!((summary.intended, summary.completed), (5, 0));
        let quantiles = (summary.response_ns_p99, summary.issue_error_ns_p99);
        assert_eq!(quantiles, (None, None));
        assert_eq!(summary.response_ns_mean, None);
    }

    #[test]
    fn a_failure_ends_in_the_interval_and_stays_out_of_its_quantiles() {
        let summary = filled(0, &[10, 20, 70]).summary(Nanos(0), Nanos(100));
        assert_eq!((summary.completed, summary.errors), (3, 1));
        assert_eq!(summary.response_ns_max, Some(20));
        assert_eq!(summary.response_ns_mean, Some(15.0));
    }

    #[test]
    fn a_reset_interval_is_a_new_one() {
        let mut used = filled(4, &[1, 2, 7]);
        used.in_flight = 9;
        used.reset(5);
        assert_eq!(used, Interval::new(5));
        let mut used = filled(4, &[1, 2, 7]).with_streams(Some(true));
        used.complete_stream(Some(5), 3, Some(true));
        used.reset(5);
        assert_eq!(used, Interval::new(5).with_streams(Some(true)));
    }

    #[test]
    fn streams_have_figures_where_a_target_has_streams() {
        let plain = filled(0, &[10]);
        let summary = plain.summary(Nanos(0), Nanos(100));
        assert_eq!((summary.tokens, summary.good), (None, None));
        let mut streams = filled(0, &[10, 20, 70]).with_streams(Some(true));
        streams.complete_stream(Some(5), 3, Some(true));
        streams.complete_stream(Some(9), 0, Some(false));
        streams.complete_stream(None, 0, Some(false));
        streams.drop_stream();
        streams.merge(&plain);
        let mut both = plain;
        both.merge(&streams);
        let summary = both.summary(Nanos(0), Nanos(100));
        assert_eq!((summary.tokens, summary.good), (Some(3), Some(1)));
        // Four streams, of which the failed one and the dropped one are slower than all.
        assert_eq!(summary.streams, Some(4));
        assert_eq!(
            (summary.first_ns_p50, summary.first_ns_p99),
            (Some(9), None)
        );
        let json = serde_json::to_value(filled(0, &[10]).summary(Nanos(0), Nanos(1))).unwrap();
        assert!(json.get("tokens").is_none() && json.get("first_ns_p50").is_none());
    }

    proptest! {
        #[test]
        fn merging_workers_is_one_worker_doing_all(
            a in prop::collection::vec(0..1u64 << 40, 0..30),
            b in prop::collection::vec(0..1u64 << 40, 0..30),
        ) {
            let (mut ab, mut ba) = (filled(0, &a), filled(0, &b));
            ab.merge(&filled(0, &b));
            ba.merge(&filled(0, &a));
            prop_assert_eq!(&ab, &ba);
            prop_assert_eq!(ab, filled(0, &[a, b].concat()));
        }
    }
}
