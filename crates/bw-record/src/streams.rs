//! The outcomes of streams: answers whose events have times of their own.
//!
//! A stream is recorded beside its operation. Its histograms have the streams that succeeded, as those of the response
//! times; the gaps and the lateness of reads are counted where they happen, also of streams that fail later.

use crate::errno::{STREAM_CUT, STREAM_ERROR};
use crate::histogram::Histogram;
use crate::recorder::LostOperations;
use crate::summary::HistogramSummary;
use bw_model::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::BinaryHeap;

/// How many streams the timeline has.
const TIMELINE: usize = 300;

/// A stream that ended; times are since time zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamEnd {
    /// Its intended start.
    pub intended: Nanos,
    /// Its actual start.
    pub issued: Nanos,
    /// The end of its answer, as its operation has it.
    pub ended: Nanos,
    /// Its result, as its operation has it.
    pub result: i32,
    /// Arrival of the first event of any kind.
    pub first_event: Option<Nanos>,
    /// Arrival of the first event with content.
    pub first: Option<Nanos>,
    /// Arrival of the first event with content other than reasoning.
    pub first_visible: Option<Nanos>,
    /// Arrival of the last event with content.
    pub last: Option<Nanos>,
    /// Largest time between two events with content.
    pub largest_gap: Option<Nanos>,
    /// Events of any kind.
    pub events: u32,
    /// Events with content.
    pub content: u32,
    /// Those of them that share a read with the one before.
    pub shared: u32,
    /// Whether the second of them shares the read of the first.
    pub first_shared: bool,
    /// Those of them that arrived in the measured part of the run.
    pub in_time: u32,
    /// Tokens of the output, if the server said so.
    pub tokens: Option<u32>,
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u32>,
    /// Tokens of the prompt from the server's cache.
    pub cached_tokens: Option<u32>,
    /// Tokens of the output that were reasoning.
    pub reasoning_tokens: Option<u32>,
    /// Whether the output reached its maximum length.
    pub stopped_by_length: bool,
}

impl StreamEnd {
    /// Returns the time from its intended start to `event`.
    fn since_intended(&self, event: Option<Nanos>) -> Option<u64> {
        event.map(|at| at.since(self.intended).0)
    }

    /// Returns the time from its intended start to the first event with content [ns], if it succeeded.
    #[must_use]
    pub fn first_ns(&self) -> Option<u64> {
        let first = self.since_intended(self.first);
        first.filter(|_| self.result >= 0)
    }

    /// Returns the time of each token after the first [ns]; None: there is none, their number is unknown, or all events with
    /// content share a read, of whose arrival only the end is known.
    fn tpot(&self) -> Option<u64> {
        let (first, last) = (self.first?, self.last?);
        let more = self.tokens.filter(|tokens| *tokens > 1)? - 1;
        let between = last.since(first).0;
        (between > 0).then(|| between / u64::from(more))
    }

    /// Returns the tokens that it is known to have, if it succeeded.
    #[must_use]
    pub fn known_tokens(&self) -> u32 {
        let tokens = self.tokens.filter(|_| self.result >= 0);
        tokens.unwrap_or_default()
    }
}

/// A time of a stream that a limit is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamTime {
    /// From the intended start to the first event with content.
    First,
    /// From the intended start to the first event with content other than reasoning.
    FirstVisible,
    /// The largest gap.
    Gap,
    /// The time of each token after the first.
    Tpot,
    /// From the intended start to the end of the answer.
    Response,
    /// From the intended start to the last event with content.
    Last,
}

/// A limit that a good stream is below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamLimit {
    /// Of what.
    pub of: StreamTime,
    /// The limit.
    pub limit_ns: Nanos,
}

impl StreamLimit {
    /// Returns whether the stream is below it. Without a gap, or with one token, there is nothing that could be slow;
    /// what is unknown (no event with content, no number of tokens, all events in one read) is not below it.
    fn is_met(&self, stream: &StreamEnd) -> bool {
        let time = match self.of {
            StreamTime::First => stream.since_intended(stream.first),
            StreamTime::FirstVisible => stream.since_intended(stream.first_visible),
            StreamTime::Gap => Some(stream.largest_gap.unwrap_or_default().0),
            StreamTime::Tpot => match stream.tokens {
                Some(0..=1) => Some(0),
                _ => stream.tpot(),
            },
            StreamTime::Response => stream.since_intended(Some(stream.ended)),
            StreamTime::Last => stream.since_intended(stream.last),
        };
        time.is_some_and(|time| time < self.limit_ns.0)
    }
}

/// Returns whether a stream succeeded and is below all limits; None: there are none.
#[must_use]
pub fn is_good(stream: &StreamEnd, limits: &[StreamLimit]) -> Option<bool> {
    let met = || limits.iter().all(|limit| limit.is_met(stream));
    (!limits.is_empty()).then(|| stream.result >= 0 && met())
}

/// A stream of the timeline: intended and actual start, first and last event with content, end (all since time zero
/// [ns]), tokens, result.
type TimelineRow = (u64, u64, Option<u64>, Option<u64>, u64, Option<u32>, i32);

/// The times of streams that succeeded.
#[derive(Clone, Debug, Default)]
struct StreamTimes {
    first: Histogram,
    first_service: Histogram,
    first_visible: Histogram,
    first_event: Histogram,
    last: Histogram,
    tpot: Histogram,
    largest_gap: Histogram,
}

impl StreamTimes {
    fn all_mut(&mut self) -> [&mut Histogram; 7] {
        [
            &mut self.first,
            &mut self.first_service,
            &mut self.first_visible,
            &mut self.first_event,
            &mut self.last,
            &mut self.tpot,
            &mut self.largest_gap,
        ]
    }
}

/// The record of the streams of one worker, or of several merged. About 2.4 MB.
#[derive(Clone, Debug, Default)]
pub struct StreamRecord {
    counts: StreamCounts,
    /// Streams that never ended.
    pub lost: LostOperations,
    /// Tokens that arrived in the measured part, whatever the intended start of their stream.
    in_time_tokens: f64,
    times: StreamTimes,
    /// Between events with content of one stream that are of different reads [ns].
    pub gap: Histogram,
    /// How long after its arrival an event with content was read [ns], for each read.
    pub read_lateness: Histogram,
    /// Those with the earliest intended starts, the latest of them on top.
    timeline: BinaryHeap<TimelineRow>,
}

/// The counts of `streams` in the protocol: all but the first four are of streams that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamCounts {
    /// Streams that ended.
    pub operations: u64,
    /// Streams that succeeded.
    pub succeeded: u64,
    /// Streams that ended without their end mark.
    pub cut: u64,
    /// Streams that reported an error in an event.
    pub failed_inside: u64,
    /// Events of any kind.
    pub events: u64,
    /// Events with content.
    pub content_events: u64,
    /// Events with content that share a read with the one before.
    pub shared_events: u64,
    /// Tokens of the outputs.
    pub tokens: u64,
    /// Streams whose number of tokens is known.
    pub with_tokens: u64,
    /// Streams of several tokens without a time per token.
    pub without_tpot: u64,
    /// Streams whose second event with content shares the read of the first.
    pub first_shared: u64,
    /// Streams without any event.
    pub without_events: u64,
    /// Tokens of the prompts.
    pub prompt_tokens: u64,
    /// Tokens of the prompts from the cache; None: no server said so.
    pub cached_tokens: Option<u64>,
    /// Tokens of the outputs that were reasoning; None: no server said so.
    pub reasoning_tokens: Option<u64>,
    /// Streams whose output reached its maximum length.
    pub stopped_by_length: u64,
    /// Streams that met all limits; None: there are none.
    pub good: Option<u64>,
}

/// Adds a count that may be unknown.
fn add(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or_default() + more);
    }
}

impl StreamCounts {
    fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.succeeded += other.succeeded;
        self.cut += other.cut;
        self.failed_inside += other.failed_inside;
        self.events += other.events;
        self.content_events += other.content_events;
        self.shared_events += other.shared_events;
        self.tokens += other.tokens;
        self.with_tokens += other.with_tokens;
        self.without_tpot += other.without_tpot;
        self.first_shared += other.first_shared;
        self.without_events += other.without_events;
        self.prompt_tokens += other.prompt_tokens;
        add(&mut self.cached_tokens, other.cached_tokens);
        add(&mut self.reasoning_tokens, other.reasoning_tokens);
        self.stopped_by_length += other.stopped_by_length;
        add(&mut self.good, other.good);
    }
}

impl StreamRecord {
    /// Returns an empty record with all its memory allocated; `judged`: streams have limits.
    #[must_use]
    pub fn new(judged: bool) -> Self {
        Self {
            counts: StreamCounts {
                good: judged.then_some(0),
                ..StreamCounts::default()
            },
            timeline: BinaryHeap::with_capacity(TIMELINE + 1),
            ..Self::default()
        }
    }

    /// Writes to all memory of an empty record, so that recording causes no page fault.
    pub fn touch(&mut self) {
        self.times.all_mut().into_iter().for_each(Histogram::touch);
        self.gap.touch();
        self.read_lateness.touch();
    }

    /// Records a stream that ended; `good`: see [`is_good`]. Never allocates.
    pub fn record(&mut self, stream: &StreamEnd, good: Option<bool>) {
        self.note(stream);
        let counts = &mut self.counts;
        counts.operations += 1;
        counts.cut += u64::from(stream.result == STREAM_CUT);
        counts.failed_inside += u64::from(stream.result == STREAM_ERROR);
        add(&mut counts.good, good.map(u64::from));
        if stream.result < 0 {
            return;
        }
        counts.succeeded += 1;
        counts.events += u64::from(stream.events);
        counts.content_events += u64::from(stream.content);
        counts.shared_events += u64::from(stream.shared);
        counts.tokens += u64::from(stream.tokens.unwrap_or_default());
        counts.with_tokens += u64::from(stream.tokens.is_some());
        let has_several = stream.tokens.is_some_and(|tokens| tokens > 1);
        counts.without_tpot += u64::from(has_several && stream.tpot().is_none());
        counts.first_shared += u64::from(stream.first_shared);
        counts.without_events += u64::from(stream.events == 0);
        counts.prompt_tokens += u64::from(stream.prompt_tokens.unwrap_or_default());
        add(
            &mut counts.cached_tokens,
            stream.cached_tokens.map(u64::from),
        );
        add(
            &mut counts.reasoning_tokens,
            stream.reasoning_tokens.map(u64::from),
        );
        counts.stopped_by_length += u64::from(stream.stopped_by_length);
        let first_service = stream.first.map(|first| first.since(stream.issued).0);
        let times = [
            stream.since_intended(stream.first),
            first_service,
            stream.since_intended(stream.first_visible),
            stream.since_intended(stream.first_event),
            stream.since_intended(stream.last),
            stream.tpot(),
            stream.largest_gap.map(|gap| gap.0),
        ];
        for (histogram, time) in self.times.all_mut().into_iter().zip(times) {
            if let Some(time) = time {
                histogram.record(time);
            }
        }
    }

    /// Counts the tokens of a stream that arrived in the measured part, whatever its intended start: when each of them
    /// arrived is unknown, so all events with content count as equally many. Without such an event they arrived with the
    /// end, which `ended_in_time` is about.
    pub fn record_in_time(&mut self, stream: &StreamEnd, ended_in_time: bool) {
        let share = match stream.content {
            0 => f64::from(u8::from(ended_in_time)),
            content => f64::from(stream.in_time) / f64::from(content),
        };
        self.in_time_tokens += f64::from(stream.known_tokens()) * share;
    }

    /// Takes a stream into the timeline, if it is one of those with the earliest intended starts.
    fn note(&mut self, stream: &StreamEnd) {
        let ns = |time: Option<Nanos>| time.map(|time| time.0);
        let intended = stream.intended.0;
        let is_full = self.timeline.len() >= TIMELINE;
        if is_full && self.timeline.peek().is_some_and(|last| intended >= last.0) {
            return;
        }
        if is_full {
            self.timeline.pop();
        }
        self.timeline.push((
            intended,
            stream.issued.0,
            ns(stream.first),
            ns(stream.last),
            stream.ended.0,
            stream.tokens,
            stream.result,
        ));
    }

    /// Adds the record of another worker.
    pub fn merge(&mut self, mut other: Self) {
        self.counts.merge(&other.counts);
        self.lost.merge(&other.lost);
        self.in_time_tokens += other.in_time_tokens;
        let theirs = other.times.all_mut();
        for (mine, theirs) in self.times.all_mut().into_iter().zip(theirs) {
            mine.merge(theirs);
        }
        self.gap.merge(&other.gap);
        self.read_lateness.merge(&other.read_lateness);
        self.timeline.append(&mut other.timeline);
    }

    /// Returns the figures; `measured`: the length of the measured part.
    #[must_use]
    pub fn summary(&self, measured: Nanos) -> StreamSummary {
        let has_length = measured > Nanos::ZERO;
        let times = &self.times;
        StreamSummary {
            counts: self.counts,
            lost: self.lost,
            first_ns: (&times.first).into(),
            first_service_ns: (&times.first_service).into(),
            first_visible_ns: (&times.first_visible).into(),
            first_event_ns: (&times.first_event).into(),
            last_ns: (&times.last).into(),
            tpot_ns: (&times.tpot).into(),
            gap_ns: (&self.gap).into(),
            largest_gap_ns: (&times.largest_gap).into(),
            read_lateness_ns: (&self.read_lateness).into(),
            tokens_per_s: has_length.then(|| self.in_time_tokens / measured.as_seconds()),
            timeline: earliest(self.timeline.iter().copied()),
        }
    }
}

/// Returns the rows with the earliest intended starts, in their order.
fn earliest(rows: impl Iterator<Item = TimelineRow>) -> Vec<TimelineRow> {
    let mut rows: Vec<TimelineRow> = rows.collect();
    rows.sort_unstable();
    rows.truncate(TIMELINE);
    rows
}

/// `streams` of the protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamSummary {
    #[serde(flatten)]
    counts: StreamCounts,
    lost: LostOperations,
    first_ns: HistogramSummary,
    first_service_ns: HistogramSummary,
    first_visible_ns: HistogramSummary,
    first_event_ns: HistogramSummary,
    last_ns: HistogramSummary,
    tpot_ns: HistogramSummary,
    gap_ns: HistogramSummary,
    largest_gap_ns: HistogramSummary,
    read_lateness_ns: HistogramSummary,
    tokens_per_s: Option<f64>,
    timeline: Vec<TimelineRow>,
}

impl StreamSummary {
    /// Returns the figures of all streams of these records together.
    ///
    /// # Errors
    /// As for [`HistogramSummary::merged`].
    pub fn merged(parts: &[Self]) -> Result<Self, String> {
        let mut counts = StreamCounts::default();
        parts.iter().for_each(|part| counts.merge(&part.counts));
        let mut lost = LostOperations::default();
        parts.iter().for_each(|part| lost.merge(&part.lost));
        let times = |which: fn(&Self) -> &HistogramSummary| {
            HistogramSummary::merged(parts.iter().map(which))
        };
        let rates = parts.iter().filter_map(|part| part.tokens_per_s);
        Ok(Self {
            counts,
            lost,
            first_ns: times(|part| &part.first_ns)?,
            first_service_ns: times(|part| &part.first_service_ns)?,
            first_visible_ns: times(|part| &part.first_visible_ns)?,
            first_event_ns: times(|part| &part.first_event_ns)?,
            last_ns: times(|part| &part.last_ns)?,
            tpot_ns: times(|part| &part.tpot_ns)?,
            gap_ns: times(|part| &part.gap_ns)?,
            largest_gap_ns: times(|part| &part.largest_gap_ns)?,
            read_lateness_ns: times(|part| &part.read_lateness_ns)?,
            tokens_per_s: rates.reduce(|sum, rate| sum + rate),
            timeline: earliest(parts.iter().flat_map(|part| part.timeline.iter().copied())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stream(intended: u64) -> StreamEnd {
        let at = |after| Nanos(intended + after);
        StreamEnd {
            intended: at(0),
            issued: at(10),
            ended: at(1000),
            result: 64,
            first_event: Some(at(100)),
            first: Some(at(200)),
            first_visible: Some(at(300)),
            last: Some(at(800)),
            largest_gap: Some(Nanos(90)),
            events: 12,
            content: 10,
            shared: 2,
            in_time: 5,
            first_shared: true,
            tokens: Some(13),
            prompt_tokens: Some(5),
            ..StreamEnd::default()
        }
    }

    fn limit(of: StreamTime, limit_ns: u64) -> StreamLimit {
        let limit_ns = Nanos(limit_ns);
        StreamLimit { of, limit_ns }
    }

    #[test]
    fn times_count_from_the_intended_start_and_failures_have_none() {
        let mut record = StreamRecord::new(false);
        record.record(&stream(5000), None);
        for result in [STREAM_CUT, STREAM_ERROR, -104] {
            let failed = StreamEnd {
                result,
                ..stream(7000)
            };
            record.record(&failed, None);
            record.record_in_time(&failed, true);
        }
        record.record_in_time(&stream(5000), false);
        record.gap.record(90);
        let json = serde_json::to_value(record.summary(Nanos::SECOND)).unwrap();
        for (time, expected) in [
            ("first_ns", 200),
            ("first_service_ns", 190),
            ("first_visible_ns", 300),
            ("first_event_ns", 100),
            ("last_ns", 800),
            ("tpot_ns", 50),
            ("largest_gap_ns", 90),
            ("gap_ns", 90),
        ] {
            assert_eq!(json[time]["count"], 1, "{time}");
            assert_eq!(json[time]["max"], expected, "{time}");
        }
        assert_eq!(json["read_lateness_ns"]["count"], 0);
        for (count, expected) in [
            ("operations", json!(4)),
            ("succeeded", json!(1)),
            ("cut", json!(1)),
            ("failed_inside", json!(1)),
            ("events", json!(12)),
            ("content_events", json!(10)),
            ("shared_events", json!(2)),
            ("tokens", json!(13)),
            ("with_tokens", json!(1)),
            ("prompt_tokens", json!(5)),
            ("cached_tokens", json!(null)),
            ("reasoning_tokens", json!(null)),
            ("stopped_by_length", json!(0)),
            ("good", json!(null)),
            ("without_tpot", json!(0)),
            ("first_shared", json!(1)),
            ("without_events", json!(0)),
            ("tokens_per_s", json!(6.5)),
        ] {
            assert_eq!(json[count], expected, "{count}");
        }
        let first = json!([5000, 5010, 5200, 5800, 6000, 13, 64]);
        assert_eq!(json["timeline"][0], first);
        assert_eq!(json["timeline"].as_array().unwrap().len(), 4);
        let back: StreamSummary = serde_json::from_value(json).unwrap();
        assert_eq!(back, record.summary(Nanos::SECOND));
    }

    #[test]
    fn a_good_stream_succeeded_below_all_limits() {
        let (fast, slow) = (limit(StreamTime::First, 201), limit(StreamTime::First, 200));
        assert_eq!(is_good(&stream(0), &[]), None);
        assert_eq!(is_good(&stream(0), &[fast]), Some(true));
        assert_eq!(is_good(&stream(0), &[fast, slow]), Some(false));
        for (of, time) in [
            (StreamTime::FirstVisible, 300),
            (StreamTime::Gap, 90),
            (StreamTime::Tpot, 50),
            (StreamTime::Response, 1000),
            (StreamTime::Last, 800),
        ] {
            assert_eq!(is_good(&stream(0), &[limit(of, time + 1)]), Some(true));
            assert_eq!(is_good(&stream(0), &[limit(of, time)]), Some(false));
        }
        let failed = StreamEnd {
            result: STREAM_CUT,
            ..stream(0)
        };
        assert_eq!(is_good(&failed, &[fast]), Some(false));
    }

    #[test]
    fn what_is_unknown_is_not_below_a_limit_and_what_cannot_be_slow_is() {
        let nothing = StreamEnd {
            result: 5,
            ..StreamEnd::default()
        };
        for of in [StreamTime::First, StreamTime::Tpot, StreamTime::Last] {
            assert_eq!(is_good(&nothing, &[limit(of, u64::MAX)]), Some(false));
        }
        assert_eq!(is_good(&nothing, &[limit(StreamTime::Gap, 1)]), Some(true));
        let one = StreamEnd {
            tokens: Some(1),
            ..stream(0)
        };
        assert_eq!(is_good(&one, &[limit(StreamTime::Tpot, 1)]), Some(true));
    }

    #[test]
    fn events_of_one_read_have_no_time_per_token() {
        let mut record = StreamRecord::new(false);
        let together = StreamEnd {
            first: stream(0).last,
            ..stream(0)
        };
        let alone = StreamEnd {
            content: 1,
            first_shared: false,
            ..together
        };
        let nothing = StreamEnd {
            result: 0,
            tokens: Some(7),
            ..StreamEnd::default()
        };
        for end in [together, alone] {
            let tpot = [limit(StreamTime::Tpot, u64::MAX)];
            assert_eq!((end.tpot(), is_good(&end, &tpot)), (None, Some(false)));
        }
        for end in [together, alone, nothing, stream(0)] {
            record.record(&end, None);
        }
        record.record_in_time(&nothing, true);
        record.record_in_time(&nothing, false);
        let summary = record.summary(Nanos::SECOND);
        assert_eq!((summary.counts.without_tpot, summary.tpot_ns.count), (3, 1));
        assert_eq!(summary.counts.first_shared, 2);
        assert_eq!(summary.counts.without_events, 1);
        assert_eq!(summary.tokens_per_s, Some(7.0));
    }

    #[test]
    fn the_timeline_has_the_earliest_starts_whatever_the_order_of_the_ends() {
        let mut one = StreamRecord::new(true);
        (0..1000)
            .rev()
            .for_each(|at| one.record(&stream(at), Some(true)));
        let mut other = StreamRecord::new(true);
        (100..200).for_each(|at| other.record(&stream(at), Some(false)));
        let summaries = [&one, &other].map(|record| record.summary(Nanos::SECOND));
        one.merge(other);
        let mut whole = one.summary(Nanos::SECOND);
        let starts: Vec<u64> = whole.timeline.iter().map(|row| row.0).collect();
        let expected = (0..100).chain((100..200).flat_map(|at| [at, at]));
        assert_eq!(starts, expected.collect::<Vec<_>>());
        assert_eq!(whole.counts.good, Some(1000));
        // What two engines say is what one would.
        let merged = StreamSummary::merged(&summaries).unwrap();
        for (mine, theirs) in [
            (&mut whole.first_ns, &merged.first_ns),
            (&mut whole.tpot_ns, &merged.tpot_ns),
        ] {
            assert_eq!((mine.count, mine.p99), (theirs.count, theirs.p99));
        }
        assert_eq!(merged.counts, whole.counts);
        assert_eq!(merged.timeline, whole.timeline);
    }
}
