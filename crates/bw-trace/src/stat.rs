//! The statistics of a trace: burstiness, sizes, sequentiality, skew, queue; of recorded requests instead of sizes and
//! places their methods, statuses, hosts, paths and bodies.
//!
//! Decision: one pass over rows in the order of arrival, in memory that does not grow with their number, so that a
//! trace of 1e8 operations needs no more than one of 1e6. Where this requires an estimate (the working set beyond a
//! memory limit) the result contains `"sampled"` and the rate. A figure that does not exist is null.

pub(crate) mod arrivals;
pub(crate) mod locality;
pub mod popularity;
pub mod requests;

use crate::input::{TraceInput, TraceReport};
use crate::stat::arrivals::{ArrivalStatistics, Dispersion, Gaps, Queue, QueueResult, RateSeries};
use crate::stat::locality::{Locality, Sequentiality, SizeResult, Sizes};
use crate::stat::popularity::{Popularity, PopularityResult, WorkingSet};
pub use crate::stat::requests::KindShare;
use crate::stat::requests::{RequestMeasures, RequestStatistics};
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
    /// Sum of their sizes; of requests, of the bodies of their responses.
    pub bytes: u64,
    /// From the first arrival to the last.
    pub duration_ns: u64,
    /// Operations after the first, divided by the duration; null if that is zero.
    pub rate_per_s: Option<f64>,
    /// By kind; requests by method.
    pub kinds: BTreeMap<String, KindShare>,
    /// Operations and bytes over time.
    pub rate: RateSeries,
    /// Burstiness: the variance of counts divided by their mean, at several scales.
    pub dispersion: Vec<Dispersion>,
    /// Times between arrivals.
    pub gaps: Gaps,
    /// Sizes of operations; null: they are requests.
    pub sizes: Option<SizeResult>,
    /// Distances between consecutive operations; null: they are requests.
    pub sequentiality: Option<Sequentiality>,
    /// Skew of accesses.
    pub popularity: PopularityResult,
    /// Number of different blocks or paths accessed.
    pub working_set: WorkingSet,
    /// What the requests are; null: the trace is one of block I/O.
    pub requests: Option<RequestStatistics>,
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

/// Returns the statistics of a trace. Requests are described as they were recorded, also those that a replay skips because
/// of their method.
///
/// # Errors
/// Those of reading it; a block size of zero.
pub fn stat(request: &StatRequest) -> Result<StatResult, EngineError> {
    let mut trace = trace::open(&TraceInput {
        unsafe_methods: true,
        ..request.input.clone()
    })?;
    let memory_bytes = request.memory_bytes;
    let mut measures = Measures::new(if trace.format().has_requests() {
        Subject::Requests(Box::new(RequestMeasures::new(memory_bytes)))
    } else {
        let block_bytes = request.block_bytes.max(1);
        Subject::Blocks(Box::new(BlockMeasures::new(block_bytes, memory_bytes)))
    });
    while let Some(row) = trace.next() {
        let row = row?;
        let at = measures.add(&row);
        match &mut measures.subject {
            Subject::Blocks(blocks) => {
                blocks.add(at, &row);
                measures.arrivals.add(at, u64::from(row.size));
            }
            Subject::Requests(requests) => {
                let response = trace.response();
                if let Some(request) = trace.request(&row) {
                    requests.add(at, row.device, &request, response);
                }
                measures.arrivals.add(at, response.body_bytes.unwrap_or(0));
            }
        }
    }
    Ok(measures.result(trace.devices(), trace.report()))
}

/// What differs between block I/O and requests.
enum Subject {
    Blocks(Box<BlockMeasures>),
    Requests(Box<RequestMeasures>),
}

/// Kinds, sizes and places of block I/O.
struct BlockMeasures {
    kinds: [KindShare; Kind::ALL.len()],
    sizes: Sizes,
    locality: Locality,
    popularity: Popularity,
}

impl BlockMeasures {
    fn new(block_bytes: u64, memory_bytes: u64) -> Self {
        Self {
            kinds: [KindShare::default(); Kind::ALL.len()],
            sizes: Sizes::default(),
            locality: Locality::default(),
            popularity: Popularity::new(Some(block_bytes), memory_bytes),
        }
    }

    fn add(&mut self, at: Nanos, row: &Row) {
        let kind = &mut self.kinds[row.kind as usize];
        kind.operations += 1;
        kind.bytes += u64::from(row.size);
        self.sizes.add(row);
        self.locality.add(row);
        self.popularity.add(at, row);
    }
}

/// The state of all statistics, which take one pass.
struct Measures {
    first: Option<Nanos>,
    last: Nanos,
    arrivals: ArrivalStatistics,
    subject: Subject,
    queue: Queue,
    response: Histogram,
    issue_error: Histogram,
    errors: u64,
}

impl Measures {
    fn new(subject: Subject) -> Self {
        Self {
            first: None,
            last: Nanos::ZERO,
            arrivals: ArrivalStatistics::new(),
            subject,
            queue: Queue::new(),
            response: Histogram::new(),
            issue_error: Histogram::new(),
            errors: 0,
        }
    }

    /// Adds what all traces have; returns the time since the first arrival.
    fn add(&mut self, row: &Row) -> Nanos {
        let first = *self.first.get_or_insert(row.intended);
        let at = row.intended.since(first);
        self.last = self.last.max(at);
        self.queue.add(at, row.completed_since(first));
        self.times(row);
        at
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

    fn result(self, devices: &[String], report: TraceReport) -> StatResult {
        let (kinds, sizes, sequentiality, popularity, requests) = match self.subject {
            Subject::Blocks(blocks) => {
                let named = Kind::ALL.map(|kind| kind.name().to_owned()).into_iter();
                let kinds: BTreeMap<_, _> = named.zip(blocks.kinds).collect();
                let sizes = Some(blocks.sizes.result());
                let sequentiality = Some(blocks.locality.result());
                (kinds, sizes, sequentiality, blocks.popularity, None)
            }
            Subject::Requests(requests) => {
                let (kinds, popularity, found) = requests.result(devices);
                (kinds, None, None, popularity, Some(found))
            }
        };
        let kinds = shares(kinds);
        let operations = kinds.values().map(|kind| kind.operations).sum();
        let (popularity, working_set) = popularity.result();
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
            sizes,
            sequentiality,
            popularity,
            working_set,
            requests,
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

/// Returns the kinds that occur, with their shares.
#[allow(clippy::cast_precision_loss)]
fn shares(mut kinds: BTreeMap<String, KindShare>) -> BTreeMap<String, KindShare> {
    let all: u64 = kinds.values().map(|kind| kind.operations).sum();
    kinds.retain(|_, kind| kind.operations > 0);
    for kind in kinds.values_mut() {
        kind.share = kind.operations as f64 / all as f64;
    }
    kinds
}
