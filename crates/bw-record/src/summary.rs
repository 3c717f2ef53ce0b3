//! The figures of a record, with the names of docs/engine-protocol.md.
//!
//! Decision: a figure that does not exist is `null`, never zero. A percentile comes with the number
//! of values; the reader decides whether that is enough.

use crate::histogram::Histogram;
use crate::recorder::{KindRecord, Recorder, SequenceRecord};
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
        Self {
            count: of.count(),
            mean: of.mean(),
            sd: of.sd(),
            min: of.min(),
            max: of.max(),
            p50: of.quantile(0.5),
            p90: of.quantile(0.9),
            p95: of.quantile(0.95),
            p98: of.quantile(0.98),
            p99: of.quantile(0.99),
            p99_9: of.quantile(0.999),
            p99_99: of.quantile(0.9999),
            hdr: of.hdr(),
        }
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
    /// Failed operations by error: "EIO", "HTTP 503".
    pub errors: BTreeMap<String, u64>,
    /// Actual minus intended start, of every operation issued.
    pub issue_error_ns: HistogramSummary,
    /// Time from intended start to end, of operations that succeeded.
    pub response_ns: HistogramSummary,
    /// Time from actual start to end, of operations that succeeded.
    pub service_ns: HistogramSummary,
    /// Time from intended start to end, of operations that failed.
    pub failed_response_ns: HistogramSummary,
}

impl From<&KindRecord> for KindSummary {
    fn from(of: &KindRecord) -> Self {
        Self {
            operations: of.operations,
            bytes: of.bytes,
            errors: of.errors.iter().collect(),
            issue_error_ns: (&of.issue_error()).into(),
            response_ns: (&of.response).into(),
            service_ns: (&of.service).into(),
            failed_response_ns: (&of.failed).into(),
        }
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
    /// Their median; precise to a hundredth, as p99.
    pub response_ns_p50: Option<u64>,
    /// 99 % do not exceed it.
    pub response_ns_p99: Option<u64>,
    /// Their maximum, exact.
    pub response_ns_max: Option<u64>,
    /// 99th percentile of the issue error of operations that started in it.
    pub issue_error_ns_p99: Option<u64>,
    /// On request: the buckets of the response times, HdrHistogram V2, deflated, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_hdr: Option<String>,
}

/// Returns `kinds` of the protocol: each kind that was issued, and "all".
#[must_use]
pub fn kinds(recorder: &Recorder) -> BTreeMap<String, KindSummary> {
    let issued = |kind: &KindRecord| kind.lateness.count() + kind.held.count() > 0;
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

    #[test]
    fn the_figures_have_the_protocols_names() {
        let mut recorder = Recorder::new();
        for at in 0..10 {
            let operation = Operation {
                at: Nanos(at),
                offset: 0,
                size: 512,
                kind: Kind::Read,
                notify: false,
                tag: 0,
            };
            let (issued, completed) = (Nanos(at + 5), Nanos(at + 105));
            recorder.record(&OperationOutcome {
                operation,
                issued,
                completed,
                result: 512,
                held: at == 9,
            });
        }
        let json = serde_json::to_value(kinds(&recorder)).unwrap();
        assert_eq!(json["read"]["operations"], 10);
        assert_eq!(json["read"]["bytes"], 5120);
        assert_eq!(json["all"]["response_ns"]["p99.9"], 105);
        assert_eq!(json["all"]["service_ns"]["mean"], 100.0);
        assert_eq!(json["all"]["issue_error_ns"]["count"], 10);
        assert_eq!(lateness(&recorder).count, 9);
        let back: BTreeMap<String, KindSummary> = serde_json::from_value(json).unwrap();
        assert_eq!(back, kinds(&recorder));
    }
}
