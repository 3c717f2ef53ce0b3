//! The figures of a record, with the names of docs/engine-protocol.md.
//!
//! Decision: a figure that does not exist is `null`, never zero. A percentile comes with the number
//! of values; the reader decides whether that is enough.

use crate::histogram::Histogram;
use crate::recorder::{KindRecord, LostOperations, Recorder, SequenceRecord};
use bw_model::Kind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `H` of the protocol: the figures of one histogram, in the unit of the field's name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistogramSummary {
    /// Number of values.
    pub count: u64,
    /// Mean, from the exact sum.
    pub mean: Option<f64>,
    /// Sample standard deviation; null with fewer than two values.
    pub sd: Option<f64>,
    /// Minimum, exact.
    pub min: Option<u64>,
    /// Maximum, exact up to one hour.
    pub max: Option<u64>,
    /// Median, precise to a thousandth, as all percentiles.
    pub p50: Option<u64>,
    /// 90 % do not exceed it.
    pub p90: Option<u64>,
    /// 95 % do not exceed it.
    pub p95: Option<u64>,
    /// 98 % do not exceed it.
    pub p98: Option<u64>,
    /// 99 % do not exceed it.
    pub p99: Option<u64>,
    /// 99.9 % do not exceed it.
    #[serde(rename = "p99.9")]
    pub p99_9: Option<u64>,
    /// 99.99 % do not exceed it.
    #[serde(rename = "p99.99")]
    pub p99_99: Option<u64>,
    /// The buckets: HdrHistogram V2, deflated, base64.
    pub hdr: String,
}

impl From<&Histogram> for HistogramSummary {
    fn from(of: &Histogram) -> Self {
        let shares = [0.5, 0.9, 0.95, 0.98, 0.99, 0.999, 0.9999];
        let [p50, p90, p95, p98, p99, p99_9, p99_99] = of.quantiles_among(shares, 0);
        Self {
            count: of.count(),
            mean: of.mean(),
            sd: of.sd(),
            min: of.min(),
            max: of.max(),
            p50,
            p90,
            p95,
            p98,
            p99,
            p99_9,
            p99_99,
            hdr: of.hdr(),
        }
    }
}

impl HistogramSummary {
    /// Returns the figures of all values of these histograms together. Percentiles come from the sum of the counts, so
    /// they are those of one histogram with all values; mean and standard deviation from those of the parts.
    ///
    /// # Errors
    /// The buckets of a part cannot be read: in words.
    pub fn merged<'a>(parts: impl Iterator<Item = &'a Self>) -> Result<Self, String> {
        let (mut histogram, mut moments) = (Histogram::new(), Moments::default());
        let (mut least, mut greatest) = (u64::MAX, 0);
        for part in parts {
            histogram.add_hdr(&part.hdr)?;
            if let (Some(mean), Some(min), Some(max)) = (part.mean, part.min, part.max) {
                moments.add(part.count, mean, part.sd.unwrap_or_default());
                (least, greatest) = (least.min(min), greatest.max(max));
            }
        }
        histogram.bound(least, greatest);
        Ok(Self {
            mean: (moments.count > 0.0).then_some(moments.mean),
            sd: (moments.count > 1.0).then(|| (moments.squares / (moments.count - 1.0)).sqrt()),
            ..Self::from(&histogram)
        })
    }
}

/// Count, mean, and the sum of squared differences from the mean. Source: Chan, Golub, LeVeque (1979).
#[derive(Default)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    #[allow(clippy::cast_precision_loss)]
    fn add(&mut self, count: u64, mean: f64, sd: f64) {
        let (more, difference) = (count as f64, mean - self.mean);
        let all = self.count + more;
        self.squares += (more - 1.0) * sd * sd + difference * difference * self.count * more / all;
        self.mean += difference * more / all;
        self.count = all;
    }
}

/// One of `kinds` in the protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindSummary {
    /// Operations that ended, including failed ones.
    pub operations: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Operations that succeeded and ended in the measured part, whatever their intended start.
    pub in_time: u64,
    /// Bytes that these transferred.
    pub in_time_bytes: u64,
    /// Failed operations by error: "EIO", "HTTP 503".
    pub errors: BTreeMap<String, u64>,
    /// Operations that did not end; they are not among `operations`.
    #[serde(default)]
    pub lost: LostOperations,
    /// Actual minus intended start, of every operation issued.
    pub issue_error_ns: HistogramSummary,
    /// Time from intended start to end, of operations that succeeded.
    pub response_ns: HistogramSummary,
    /// Time from actual start to end, of operations that succeeded.
    pub service_ns: HistogramSummary,
    /// The target's part of the response, of operations that succeeded: without the generator's lateness.
    pub target_response_ns: HistogramSummary,
    /// Time from intended start to end, of operations that failed.
    pub failed_response_ns: HistogramSummary,
}

impl From<&KindRecord> for KindSummary {
    fn from(of: &KindRecord) -> Self {
        Self {
            operations: of.operations,
            bytes: of.bytes,
            in_time: of.in_time,
            in_time_bytes: of.in_time_bytes,
            errors: of.errors.iter().collect(),
            lost: of.lost,
            issue_error_ns: (&of.issue_error()).into(),
            response_ns: (&of.response).into(),
            service_ns: (&of.service).into(),
            target_response_ns: (&of.target).into(),
            failed_response_ns: (&of.failed).into(),
        }
    }
}

impl KindSummary {
    /// Returns the figures of all operations of these records together.
    ///
    /// # Errors
    /// As for [`HistogramSummary::merged`].
    pub fn merged(parts: &[Self]) -> Result<Self, String> {
        let mut errors = BTreeMap::new();
        for (name, count) in parts.iter().flat_map(|part| &part.errors) {
            *errors.entry(name.clone()).or_default() += count;
        }
        let mut lost = LostOperations::default();
        parts.iter().for_each(|part| lost.merge(&part.lost));
        let times = |which: fn(&Self) -> &HistogramSummary| {
            HistogramSummary::merged(parts.iter().map(which))
        };
        Ok(Self {
            operations: parts.iter().map(|part| part.operations).sum(),
            bytes: parts.iter().map(|part| part.bytes).sum(),
            in_time: parts.iter().map(|part| part.in_time).sum(),
            in_time_bytes: parts.iter().map(|part| part.in_time_bytes).sum(),
            errors,
            lost,
            issue_error_ns: times(|part| &part.issue_error_ns)?,
            response_ns: times(|part| &part.response_ns)?,
            service_ns: times(|part| &part.service_ns)?,
            target_response_ns: times(|part| &part.target_response_ns)?,
            failed_response_ns: times(|part| &part.failed_response_ns)?,
        })
    }
}

/// One of `groups` in the protocol: the operations of a filament or of a target, or those of one label or kind among
/// them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupSummary {
    /// The filament; None: all filaments of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filament: Option<String>,
    /// The target; None: the load has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The label or the kind; None: all operations, and there are groups of several labels or kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The figures.
    #[serde(flatten)]
    pub figures: KindSummary,
}

impl GroupSummary {
    /// Returns the groups of several engines that issue parts of one schedule, in the order of their first one.
    ///
    /// # Errors
    /// As for [`HistogramSummary::merged`].
    pub fn merged(parts: Vec<Vec<Self>>) -> Result<Vec<Self>, String> {
        let mut all: Vec<(Self, Vec<KindSummary>)> = Vec::new();
        for group in parts.into_iter().flatten() {
            let figures = group.figures.clone();
            match all.iter_mut().find(|(known, _)| known.is_same(&group)) {
                Some((_, each)) => each.push(figures),
                None => all.push((group, vec![figures])),
            }
        }
        let merged = |(group, each): (Self, Vec<KindSummary>)| {
            let figures = KindSummary::merged(&each)?;
            Ok(Self { figures, ..group })
        };
        all.into_iter().map(merged).collect()
    }

    fn is_same(&self, other: &Self) -> bool {
        let name = |one: &Self| {
            (
                one.filament.clone(),
                one.target.clone(),
                one.operation.clone(),
            )
        };
        name(self) == name(other)
    }
}

/// One of `sequences` in the protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequenceSummary {
    /// Sequences whose first operation was intended to start in the measured part.
    pub started: u64,
    /// Those that ended with all their operations successful.
    pub completed: u64,
    /// Those that ended with a failed operation.
    pub errors: u64,
    /// Those that the end of the run cut short.
    pub unfinished: u64,
    /// Operations of all of them that ended.
    pub operations: u64,
    /// Time from the intended start of the first operation to the end of the last, of completed ones.
    pub response_ns: HistogramSummary,
}

impl SequenceSummary {
    /// Returns the figures of several engines that issue parts of one schedule.
    ///
    /// # Errors
    /// Buckets that are none.
    pub fn merged(parts: &[Self]) -> Result<Self, String> {
        let sum = |of: fn(&Self) -> u64| parts.iter().map(of).sum();
        Ok(Self {
            started: sum(|part| part.started),
            completed: sum(|part| part.completed),
            errors: sum(|part| part.errors),
            unfinished: sum(|part| part.unfinished),
            operations: sum(|part| part.operations),
            response_ns: HistogramSummary::merged(parts.iter().map(|part| &part.response_ns))?,
        })
    }
}

impl From<&SequenceRecord> for SequenceSummary {
    fn from(of: &SequenceRecord) -> Self {
        Self {
            started: of.completed + of.errors + of.unfinished,
            completed: of.completed,
            errors: of.errors,
            unfinished: of.unfinished,
            operations: of.operations,
            response_ns: (&of.response).into(),
        }
    }
}

/// One of `intervals` in the protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntervalSummary {
    /// Start, since time zero.
    pub start_ns: u64,
    /// Length; the run's last interval may be shorter.
    pub length_ns: u64,
    /// Intended starts in it.
    pub intended: u64,
    /// Actual starts in it.
    pub issued: u64,
    /// Ends in it, including failed operations.
    pub completed: u64,
    /// Failed operations that ended in it.
    pub errors: u64,
    /// Dropped in it.
    pub dropped: u64,
    /// In flight at its end.
    pub in_flight: u64,
    /// Due and waiting for a free slot at its end.
    pub waiting: u64,
    /// Mean response time of operations that ended in it and succeeded; from the exact sum.
    pub response_ns_mean: Option<f64>,
    /// Median of these and of those that failed or were dropped, which count as slower; precise to a
    /// hundredth, as p99. None: it lies among the latter.
    pub response_ns_p50: Option<u64>,
    /// 99th percentile of the same operations.
    pub response_ns_p99: Option<u64>,
    /// Maximum of those that succeeded, exact.
    pub response_ns_max: Option<u64>,
    /// 99th percentile of the issue error of operations that started in it.
    pub issue_error_ns_p99: Option<u64>,
    /// On request: the buckets of the response times, HdrHistogram V2, deflated, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_hdr: Option<String>,
    /// Streams that ended in it or were dropped; None: no target has streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<u64>,
    /// Median time from the intended start to the first content event of these; those without one count as slower. None: no stream, or it lies among the latter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ns_p50: Option<u64>,
    /// 99th percentile of the same streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ns_p99: Option<u64>,
    /// Tokens of the streams that ended in it; None: no target has streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Streams that ended in it and met all limits; None: there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub good: Option<u64>,
    /// On request: the buckets of the times to the first content event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_hdr: Option<String>,
}

impl IntervalSummary {
    /// Returns the figures of one interval of several engines, or of several engines' shorter intervals in it. `parts`
    /// has the intervals of each engine in order, with the buckets of their response times; `start` is that of the
    /// result. The 99th percentile of the issue error is the largest of the parts: the whole's is not above it.
    ///
    /// # Errors
    /// The buckets of a part cannot be read, or are absent: in words.
    #[allow(clippy::cast_precision_loss)]
    pub fn merged(start: u64, parts: &[Vec<Self>]) -> Result<Self, String> {
        let each = || parts.iter().flatten();
        let sum = |of: fn(&Self) -> u64| each().map(of).sum();
        // Of an engine, these two are what its last interval ends with.
        let at_end = |of: fn(&Self) -> u64| parts.iter().filter_map(|one| one.last().map(of)).sum();
        let (mut response, mut first) = (Histogram::coarse(), Histogram::coarse());
        for part in each() {
            let buckets = part
                .response_hdr
                .as_ref()
                .ok_or("an interval without its buckets")?;
            response.add_hdr(buckets)?;
            if let Some(buckets) = &part.first_hdr {
                first.add_hdr(buckets)?;
            }
        }
        let of_streams = |of: fn(&Self) -> Option<u64>| {
            let known: Vec<u64> = each().filter_map(of).collect();
            (!known.is_empty()).then(|| known.iter().sum::<u64>())
        };
        let tokens = of_streams(|part| part.tokens);
        let streams = of_streams(|part| part.streams);
        let without_first = streams.unwrap_or_default().saturating_sub(first.count());
        let (mut total, mut answered) = (0.0, 0);
        for part in each() {
            let count = part.completed - part.errors;
            total += part.response_ns_mean.unwrap_or_default() * count as f64;
            answered += count;
        }
        let greatest = each().filter_map(|part| part.response_ns_max).max();
        response.bound(0, greatest.unwrap_or_default());
        let ends = each().map(|part| part.start_ns + part.length_ns);
        let missing = sum(|part| part.errors) + sum(|part| part.dropped);
        Ok(Self {
            start_ns: start,
            length_ns: ends.max().unwrap_or(start).saturating_sub(start),
            intended: sum(|part| part.intended),
            issued: sum(|part| part.issued),
            completed: sum(|part| part.completed),
            errors: sum(|part| part.errors),
            dropped: sum(|part| part.dropped),
            in_flight: at_end(|part| part.in_flight),
            waiting: at_end(|part| part.waiting),
            response_ns_mean: (answered > 0).then(|| total / answered as f64),
            response_ns_p50: response.quantile_among(0.5, missing),
            response_ns_p99: response.quantile_among(0.99, missing),
            response_ns_max: greatest,
            issue_error_ns_p99: each().filter_map(|part| part.issue_error_ns_p99).max(),
            response_hdr: Some(response.hdr()),
            streams,
            first_ns_p50: first.quantile_among(0.5, without_first),
            first_ns_p99: first.quantile_among(0.99, without_first),
            tokens,
            good: of_streams(|part| part.good),
            first_hdr: tokens.map(|_| first.hdr()),
        })
    }
}

/// Returns `kinds` of the protocol: each kind of which there was an operation, and "all".
#[must_use]
pub fn kinds(recorder: &Recorder) -> BTreeMap<String, KindSummary> {
    let issued = |kind: &KindRecord| kind.in_time + kind.lateness.count() + kind.held.count() > 0;
    let each = Kind::ALL.into_iter().filter_map(|kind| {
        let record = recorder.kind(kind).filter(|record| issued(record))?;
        Some((kind.name().to_owned(), record.into()))
    });
    let all = ("all".to_owned(), (&recorder.all()).into());
    each.chain([all]).collect()
}

/// Returns `lateness_ns` of the protocol: the issue error that the generator caused.
#[must_use]
pub fn lateness(recorder: &Recorder) -> HistogramSummary {
    (&recorder.all().lateness).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::OperationOutcome;
    use bw_model::Nanos;
    use bw_model::Operation;

    #[test]
    fn what_does_not_exist_is_null_and_kinds_that_never_happened_are_absent() {
        let json = serde_json::to_value(kinds(&Recorder::new())).unwrap();
        assert_eq!(
            json.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["all"]
        );
        let response = &json["all"]["response_ns"];
        assert_eq!(response["count"], 0);
        for absent in ["mean", "sd", "min", "max", "p50", "p99.9", "p99.99"] {
            assert!(response[absent].is_null(), "{absent}");
        }
    }

    fn filled(values: impl Iterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        values.for_each(|value| histogram.record(value));
        histogram
    }

    #[test]
    fn merged_figures_are_those_of_one_histogram_with_all_values() {
        let value = |number: u64| number * number % 7_919 * 131 + 17;
        let all = HistogramSummary::from(&filled((0..9_000).map(value)));
        let parts = [0..4, 4..3_000, 3_000..3_000, 3_000..9_000];
        let parts = parts.map(|part| HistogramSummary::from(&filled(part.map(value))));
        let merged = HistogramSummary::merged(parts.iter()).unwrap();
        let close = |one: Option<f64>, other: Option<f64>| {
            (one.unwrap() - other.unwrap()).abs() < 1e-9 * other.unwrap()
        };
        assert!(close(merged.mean, all.mean) && close(merged.sd, all.sd));
        let exact = HistogramSummary {
            mean: all.mean,
            sd: all.sd,
            ..merged
        };
        assert_eq!(exact, all);
        let none = HistogramSummary::from(&Histogram::new());
        assert_eq!(
            HistogramSummary::merged([&none, &none].into_iter()),
            Ok(none)
        );
    }

    #[test]
    fn groups_of_two_engines_are_one_each() {
        let group = |filament: &str, operation: Option<&str>, numbers: std::ops::Range<u64>| {
            let record = KindRecord {
                operations: numbers.end - numbers.start,
                response: filled(numbers),
                lost: LostOperations {
                    waiting: 1,
                    ..LostOperations::default()
                },
                ..KindRecord::default()
            };
            GroupSummary {
                filament: Some(filament.to_owned()),
                target: None,
                operation: operation.map(str::to_owned),
                figures: (&record).into(),
            }
        };
        let engines = vec![
            vec![group("a", None, 1..4), group("a", Some("read"), 1..3)],
            vec![group("a", None, 4..9), group("b", None, 5..6)],
        ];
        let merged = GroupSummary::merged(engines).unwrap();
        let figures = merged.iter().map(|one| {
            let lost = one.figures.lost.waiting;
            let times = &one.figures.response_ns;
            (
                one.filament.as_deref(),
                one.operation.as_deref(),
                lost,
                times.count,
                times.max,
            )
        });
        assert_eq!(
            figures.collect::<Vec<_>>(),
            [
                (Some("a"), None, 2, 8, Some(8)),
                (Some("a"), Some("read"), 1, 2, Some(2)),
                (Some("b"), None, 1, 1, Some(5)),
            ]
        );
    }

    #[test]
    fn intervals_of_two_engines_are_one() {
        let mut engines = [0, 1].map(|index| [0, 1].map(|_| crate::interval::Interval::new(index)));
        let mut whole = crate::interval::Interval::new(0);
        for number in 0..400_u64 {
            let one = &mut engines[usize::from(number % 4 > 1)][(number % 2) as usize];
            for interval in [one, &mut whole] {
                interval.intended += 1;
                interval.issue(number);
                interval.complete(1_000 + number * 37, number % 50 == 0);
            }
        }
        let summary = |interval: &crate::interval::Interval| IntervalSummary {
            response_hdr: Some(interval.response_hdr()),
            ..interval.summary(Nanos(interval.index * 50), Nanos(50))
        };
        let part = |place: usize| {
            engines
                .iter()
                .map(|engine| summary(&engine[place]))
                .collect()
        };
        let merged = IntervalSummary::merged(0, &[part(0), part(1)]).unwrap();
        let expected = IntervalSummary {
            response_hdr: Some(whole.response_hdr()),
            issue_error_ns_p99: merged.issue_error_ns_p99,
            response_ns_mean: merged.response_ns_mean,
            ..whole.summary(Nanos(0), Nanos(100))
        };
        assert_eq!(merged, expected);
        let means = [
            merged.response_ns_mean,
            whole.summary(Nanos(0), Nanos(1)).response_ns_mean,
        ];
        assert!((means[0].unwrap() - means[1].unwrap()).abs() < 1e-6);
    }

    #[test]
    fn the_figures_have_the_protocols_names() {
        let mut recorder = Recorder::new();
        for at in 0..10 {
            let operation = Operation {
                at: Nanos(at),
                ..Operation::new(Kind::Read, 0, 512)
            };
            let (issued, completed) = (Nanos(at + 5), Nanos(at + 105));
            recorder.record(&OperationOutcome {
                operation,
                issued,
                completed,
                arrived: completed,
                result: 512,
                held_since: (at == 9).then_some(Nanos(at + 2)),
            });
        }
        let json = serde_json::to_value(kinds(&recorder)).unwrap();
        assert_eq!(json["read"]["operations"], 10);
        assert_eq!(json["read"]["bytes"], 5120);
        assert_eq!(json["all"]["response_ns"]["p99.9"], 105);
        assert_eq!(json["all"]["service_ns"]["mean"], 100.0);
        assert_eq!(json["all"]["target_response_ns"]["mean"], 100.3);
        assert_eq!(json["all"]["issue_error_ns"]["count"], 10);
        assert_eq!(lateness(&recorder).count, 9);
        let back: BTreeMap<String, KindSummary> = serde_json::from_value(json).unwrap();
        assert_eq!(back, kinds(&recorder));
    }
}
