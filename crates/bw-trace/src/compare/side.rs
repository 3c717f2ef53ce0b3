//! The figures of one side alone, for a reading side by side.

use super::align::Operation;
use crate::report::TraceReport;
use crate::stat::arrivals::{Arrivals, Dispersion};
use crate::stat::queue::{Queue, QueueResult};
use bw_record::histogram::Histogram;
use bw_record::summary::HistogramSummary;
use bw_model::Nanos;
use serde::Serialize;

/// One side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideResult {
    /// How many operations.
    pub operations: u64,
    /// Burstiness on its own axis of time.
    pub dispersion: Vec<Dispersion>,
    /// Arrival to end, of operations that did not fail.
    pub response_ns: HistogramSummary,
    /// The distribution of response times.
    pub response_cdf: Vec<CdfPoint>,
    /// How many are under way; null where it has no ends.
    pub queue: Option<QueueResult>,
    /// What reading it did to it.
    pub report: TraceReport,
}

/// A point of a cumulative distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CdfPoint {
    /// Share of operations that do not exceed it, in millionths.
    pub share_micro: u64,
    /// The response time.
    pub response_ns: u64,
}

/// Follows one side.
#[derive(Debug)]
pub struct Side {
    first: Option<u64>,
    operations: u64,
    arrivals: Arrivals,
    queue: Queue,
    response: Histogram,
}

impl Side {
    /// Returns an account of nothing.
    pub fn new() -> Self {
        Self {
            first: None,
            operations: 0,
            arrivals: Arrivals::new(),
            queue: Queue::new(),
            response: Histogram::new(),
        }
    }

    /// Follows an operation that arrives at `arrival` on the side's own axis.
    pub fn add(&mut self, arrival: Nanos, operation: &Operation) {
        let row = &operation.row;
        let first = Nanos(*self.first.get_or_insert(arrival.0));
        let ended = row.completed != Nanos::NEVER;
        self.operations += 1;
        self.arrivals.add(arrival.since(first), u64::from(row.size));
        let end = ended.then(|| row.completed.since(first));
        self.queue.add(arrival.since(first), end);
        if ended && row.result >= 0 {
            self.response.record(row.completed.since(arrival).0);
        }
    }

    /// Returns the figures.
    pub fn result(self, report: TraceReport) -> SideResult {
        SideResult {
            operations: self.operations,
            dispersion: self.arrivals.dispersion(),
            response_ns: (&self.response).into(),
            response_cdf: cdf(&self.response),
            queue: self.queue.result(),
            report,
        }
    }
}

/// Returns every hundredth, and more of the tail.
#[allow(clippy::cast_precision_loss)]
fn cdf(of: &Histogram) -> Vec<CdfPoint> {
    let hundredths = (0..=99).map(|share| share * 10_000);
    let tail = [995_000, 999_000, 999_500, 999_900, 999_990, 1_000_000];
    let point = |share_micro: u64| {
        let response_ns = of.quantile(share_micro as f64 / 1e6)?;
        Some(CdfPoint {
            share_micro,
            response_ns,
        })
    };
    hundredths.chain(tail).filter_map(point).collect()
}
