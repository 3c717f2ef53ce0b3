//! The statistics of a trace: burstiness, sizes, sequentiality, skew, queue.
//!
//! Decision: one pass over rows in the order of arrival, in memory that does not grow with their number, so that a
//! trace of 1e8 operations needs no more than one of 1e6. Where this requires an estimate (the working set beyond a
//! memory limit) the result contains `"sampled"` and the rate. A figure that does not exist is null.

pub(crate) mod arrivals;
pub(crate) mod locality;
pub mod popularity;

use crate::input::{TraceInput, TraceReport};
use crate::stat::arrivals::{ArrivalStatistics, Dispersion, Gaps, Queue, QueueResult, RateSeries};
use crate::stat::locality::{Locality, Sequentiality, SizeResult, Sizes};
use crate::stat::popularity::{Popularity, PopularityResult, WorkingSet};
use crate::trace;
use bw_model::EngineError;
use bw_model::{Kind, Nanos, Row};
use bw_record::histogram::Histogram;
use bw_record::summary::HistogramSummary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The request `trace-stat`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatRequest {
    /// The trace.
    pub input: TraceInput,
    /// The blocks in which popularity and working set are counted [bytes]; at least 1.
    #[serde(default = "default_block")]
    pub block_bytes: u64,
    /// Approximate maximum memory of the table of blocks; beyond it blocks are sampled [bytes].
    #[serde(default = "default_memory")]
    pub memory_bytes: u64,
}

fn default_block() -> u64 {
    4096
}

fn default_memory() -> u64 {
    256 << 20
}

/// The result of `trace-stat`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StatResult {
    /// Schema of this document.
    pub schema: &'static str,
    /// Number of operations.
    pub operations: u64,
    /// Sum of their sizes.
    pub bytes: u64,
    /// From the first arrival to the last.
    pub duration_ns: u64,
    /// Operations after the first, divided by the duration; null if that is zero.
    pub rate_per_s: Option<f64>,
    /// By kind.
    pub kinds: BTreeMap<&'static str, KindShare>,
    /// Operations and bytes over time.
    pub rate: RateSeries,
    /// Burstiness: the variance of counts divided by their mean, at several scales.
    pub dispersion: Vec<Dispersion>,
    /// Times between arrivals.
    pub gaps: Gaps,
    /// Sizes of operations.
    pub sizes: SizeResult,
    /// Distances between consecutive operations.
    pub sequentiality: Sequentiality,
    /// Skew of accesses.
    pub popularity: PopularityResult,
    /// Number of different blocks accessed.
    pub working_set: WorkingSet,
    /// Number of operations in progress; null if the trace has no completions.
    pub queue: Option<QueueResult>,
    /// Time from arrival to completion, of operations with a known completion that did not fail.
    pub response_ns: HistogramSummary,
    /// Time from arrival to actual start, where it is known.
    pub issue_error_ns: HistogramSummary,
    /// Operations whose result is an error.
    pub errors: u64,
    /// The report of reading the trace.
    pub report: TraceReport,
}

/// The share of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct KindShare {
    /// Number of operations.
    pub operations: u64,
    /// Sum of their sizes.
    pub bytes: u64,
    /// Share of all operations.
    pub share: f64,
}

/// Returns the statistics of a trace.
///
/// # Errors
/// Those of reading it; a block size of zero.
pub fn stat(request: &StatRequest) -> Result<StatResult, EngineError> {
    let mut trace = trace::open(&request.input)?;
    let mut measures = Measures::new(request.block_bytes.max(1), request.memory_bytes);
    for row in trace.by_ref() {
        measures.add(&row?);
    }
    Ok(measures.result(trace.report()))
}

/// The state of all statistics, which take one pass.
struct Measures {
    first: Option<Nanos>,
    last: Nanos,
    kinds: [KindShare; Kind::ALL.len()],
    arrivals: ArrivalStatistics,
    sizes: Sizes,
    locality: Locality,
    popularity: Popularity,
    queue: Queue,
    response: Histogram,
    issue_error: Histogram,
    errors: u64,
}

impl Measures {
    fn new(block_bytes: u64, memory_bytes: u64) -> Self {
        Self {
            first: None,
            last: Nanos::ZERO,
            kinds: [KindShare::default(); Kind::ALL.len()],
            arrivals: ArrivalStatistics::new(),
            sizes: Sizes::default(),
            locality: Locality::default(),
            popularity: Popularity::new(block_bytes, memory_bytes),
            queue: Queue::new(),
            response: Histogram::new(),
            issue_error: Histogram::new(),
            errors: 0,
        }
    }

    fn add(&mut self, row: &Row) {
        let first = *self.first.get_or_insert(row.intended);
        let at = row.intended.since(first);
        self.last = self.last.max(at);
        let kind = &mut self.kinds[row.kind as usize];
        kind.operations += 1;
        kind.bytes += u64::from(row.size);
        self.arrivals.add(at, u64::from(row.size));
        self.sizes.add(row);
        self.locality.add(row);
        self.popularity.add(at, row);
        self.queue.add(at, row.completed_since(first));
        self.times(row);
    }

    fn times(&mut self, row: &Row) {
        self.errors += u64::from(row.result < 0);
        if row.completed != Nanos::NEVER && row.result >= 0 {
            self.response.record(row.completed.since(row.intended).0);
        }
        if row.issued != Nanos::NEVER {
            self.issue_error.record(row.issued.since(row.intended).0);
        }
    }

    fn result(self, report: TraceReport) -> StatResult {
        let kinds = shares(self.kinds);
        let operations = kinds.values().map(|kind| kind.operations).sum();
        let (popularity, working_set) = self.popularity.result();
        let (rate, dispersion, gaps) = self.arrivals.result();
        StatResult {
            schema: "trace-stat/1",
            operations,
            bytes: kinds.values().map(|kind| kind.bytes).sum(),
            duration_ns: self.last.0,
            rate_per_s: rate_per_s(operations, self.last),
            kinds,
            rate,
            dispersion,
            gaps,
            sizes: self.sizes.result(),
            sequentiality: self.locality.result(),
            popularity,
            working_set,
            queue: self.queue.result(),
            response_ns: (&self.response).into(),
            issue_error_ns: (&self.issue_error).into(),
            errors: self.errors,
            report,
        }
    }
}

/// The end of a row on another time axis.
trait CompletedSince {
    fn completed_since(&self, first: Nanos) -> Option<Nanos>;
}

impl CompletedSince for Row {
    fn completed_since(&self, first: Nanos) -> Option<Nanos> {
        (self.completed != Nanos::NEVER).then(|| self.completed.since(first))
    }
}

#[allow(clippy::cast_precision_loss)]
fn rate_per_s(operations: u64, duration: Nanos) -> Option<f64> {
    (duration > Nanos::ZERO).then(|| operations.saturating_sub(1) as f64 / duration.as_seconds())
}

#[allow(clippy::cast_precision_loss)]
fn shares(kinds: [KindShare; Kind::ALL.len()]) -> BTreeMap<&'static str, KindShare> {
    let all: u64 = kinds.iter().map(|kind| kind.operations).sum();
    let named = Kind::ALL.into_iter().zip(kinds);
    named
        .filter(|(_, kind)| kind.operations > 0)
        .map(|(name, kind)| {
            let share = kind.operations as f64 / all as f64;
            (name.name(), KindShare { share, ..kind })
        })
        .collect()
}
