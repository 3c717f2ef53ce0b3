//! What a trace is like: how bursty, how large, how sequential, how skewed, how deep.
//!
//! Decision: one pass over rows in the order of arrival, in memory that does not grow with their number, so that a
//! trace of 1e8 operations needs no more than one of 1e6. Where that forces an estimate (the working set beyond a
//! limit of memory) the result says `"sampled"` and at which rate. A figure that does not exist is null.

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
    /// About how much memory the table of blocks may take before it is sampled [bytes].
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
    /// The shape of this document.
    pub schema: &'static str,
    /// How many operations.
    pub operations: u64,
    /// Their sizes added up.
    pub bytes: u64,
    /// From the first arrival to the last.
    pub duration_ns: u64,
    /// Operations after the first over the duration; null of an instant.
    pub rate_per_s: Option<f64>,
    /// By kind.
    pub kinds: BTreeMap<&'static str, KindShare>,
    /// Operations and bytes over time.
    pub rate: RateSeries,
    /// Burstiness: at several scales the variance of counts over their mean.
    pub dispersion: Vec<Dispersion>,
    /// Times between arrivals.
    pub gaps: Gaps,
    /// How large operations are.
    pub sizes: SizeResult,
    /// How far operations lie from the one before.
    pub sequentiality: Sequentiality,
    /// How skewed accesses are.
    pub popularity: PopularityResult,
    /// How many different blocks are touched.
    pub working_set: WorkingSet,
    /// How many are under way; null where the trace has no ends.
    pub queue: Option<QueueResult>,
    /// Arrival to end, of operations whose end is known and that did not fail.
    pub response_ns: HistogramSummary,
    /// Arrival to actual start, where it is known.
    pub issue_error_ns: HistogramSummary,
    /// Operations whose result is an error.
    pub errors: u64,
    /// What reading the trace did to it.
    pub report: TraceReport,
}

/// One kind's part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct KindShare {
    /// How many operations.
    pub operations: u64,
    /// Their sizes added up.
    pub bytes: u64,
    /// Of all operations.
    pub share: f64,
}

/// Returns what the trace is like.
///
/// # Errors
/// Those of reading it; a block of no bytes.
pub fn stat(request: &StatRequest) -> Result<StatResult, EngineError> {
    let mut trace = trace::open(&request.input)?;
    let mut measures = Measures::new(request.block_bytes.max(1), request.memory_bytes);
    for row in trace.by_ref() {
        measures.add(&row?);
    }
    Ok(measures.result(trace.report()))
}

/// Everything that is measured in one pass.
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

/// The end of a row on a time axis of one's own.
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
