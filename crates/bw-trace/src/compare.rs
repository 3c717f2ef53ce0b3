//! How faithful trace B is to trace A: the fidelity of a replay (Buttress, figures 8 to 11).
//!
//! Decision: A's arrivals, divided by the speed, are the intention. B's arrival is its actual start if it is known
//! (samples of an engine), otherwise its stamp (an outside observer). Operations are paired in order by kind, offset
//! and size, not by their position in the file: if a replay drops or reorders some, the others must still be paired
//! correctly. Both are read in parallel, once, with bounded windows. Non-goal: guessing how addresses were changed;
//! read A with the policy (wrap, scale) that the replay used.

pub(crate) mod figures;
pub mod pairing;

use crate::compare::figures::{
    ArrivalCounter, ArrivalError, ArrivalErrors, CountComparison, SideResult, SideStatistics,
};
use crate::compare::pairing::{Alignment, GivenAlignment, PairMatcher, Prefix, Side};
use crate::error::TraceCode;
use crate::input::{TraceInput, TraceReport};
use crate::trace::{self, Trace};
use bw_model::EngineError;
use bw_model::{DROPPED, Nanos};
use serde::{Deserialize, Serialize};

/// The request `trace-compare`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompareRequest {
    /// The original: a trace.
    pub a: TraceInput,
    /// The replay: samples, or the recording of an observer.
    pub b: TraceInput,
    /// Intended speed of B relative to A, in millionths; null: estimated from the first operations.
    #[serde(default)]
    pub speed_micro: Option<u64>,
    /// The time of A's first arrival in B [ns]; null: from the stamps if B contains its intended starts, otherwise such
    /// that the median arrival error of the first operations is zero.
    #[serde(default)]
    pub shift_ns: Option<i64>,
    /// Maximum arrival error of a pair [ns].
    #[serde(default = "default_window")]
    pub window_ns: u64,
    /// Whether the operations of a pair must also be on devices of the same name.
    #[serde(default)]
    pub by_device: bool,
}

fn default_window() -> u64 {
    60_000_000_000
}

/// The result of `trace-compare`. Times are B's: A's divided by the speed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompareResult {
    /// Schema of this document.
    pub schema: &'static str,
    /// Speed and shift, and their origins.
    pub alignment: Alignment,
    /// Operations that were paired.
    pub matched: u64,
    /// Operations of A without a pair in B within the window.
    pub unmatched_a: u64,
    /// Operations of B without a pair in A within the window.
    pub unmatched_b: u64,
    /// Operations that B has but never issued: they have no arrival.
    pub dropped_b: u64,
    /// B's arrival minus A's, over pairs.
    pub arrival_error: ArrivalError,
    /// Arrivals in bins of 1 ms and of 1 s.
    pub counts: CountComparison,
    /// Figures of A alone.
    pub a: SideResult,
    /// Figures of B alone.
    pub b: SideResult,
    /// B's mean response time over A's; null unless both are known.
    pub response_ratio: Option<f64>,
    /// B's mean queue over A's; null unless both are known.
    pub queue_ratio: Option<f64>,
}

/// Returns how faithful B is to A.
///
/// # Errors
/// Those of reading either; a speed of zero; one that cannot be estimated.
pub fn compare(request: &CompareRequest) -> Result<CompareResult, EngineError> {
    let path = request.b.path.list().first().map_or("", String::as_str);
    if request.speed_micro == Some(0) {
        let message = "the speed is zero";
        let remedy = "give how much faster than A B is, as 4x";
        return Err(TraceCode::TraceOption.error(path, message, remedy));
    }
    let (mut a, mut b) = (trace::open(&request.a)?, trace::open(&request.b)?);
    let prefixes = (Prefix::read(&mut a)?, Prefix::read(&mut b)?);
    let given = GivenAlignment {
        speed_micro: request.speed_micro,
        shift_ns: request.shift_ns,
        path,
    };
    let alignment = pairing::align(given, &prefixes)?;
    let mut comparison = Comparison::new(request, alignment);
    let (a, b) = comparison.run((prefixes.0.then(a), prefixes.1.then(b)))?;
    Ok(comparison.result(a, b))
}

/// The state of a comparison, which takes one pass.
struct Comparison {
    alignment: Alignment,
    by_device: bool,
    pairs: PairMatcher,
    dropped_b: u64,
    errors: ArrivalErrors,
    counts: ArrivalCounter,
    a: SideStatistics,
    b: SideStatistics,
}

impl Comparison {
    fn new(request: &CompareRequest, alignment: Alignment) -> Self {
        Self {
            alignment,
            by_device: request.by_device,
            pairs: PairMatcher::new(request.window_ns),
            dropped_b: 0,
            errors: ArrivalErrors::new(),
            counts: ArrivalCounter::new(),
            a: SideStatistics::new(),
            b: SideStatistics::new(),
        }
    }

    /// Reads both in the order of time on B's axis.
    fn run(
        &mut self,
        (mut a, mut b): (pairing::TraceRows, pairing::TraceRows),
    ) -> Result<(TraceReport, TraceReport), EngineError> {
        let (mut next_a, mut next_b) = (a.row()?, b.row()?);
        loop {
            let at_a = next_a.map(|row| self.alignment.on_b(row.intended.0));
            let at_b = next_b.map(|row| i128::from(pairing::arrival(&row)));
            match (at_a, at_b) {
                (None, None) => break,
                (Some(at), other) if other.is_none_or(|other| at <= other) => {
                    self.take(Side::A, at, &a.operation(next_a, self.by_device));
                    next_a = a.row()?;
                }
                (_, at) => {
                    self.take(
                        Side::B,
                        at.unwrap_or(0),
                        &b.operation(next_b, self.by_device),
                    );
                    next_b = b.row()?;
                }
            }
        }
        Ok((a.report(), b.report()))
    }

    fn take(&mut self, which: Side, at: i128, operation: &pairing::ComparedOperation) {
        if which == Side::B && operation.row.result == DROPPED {
            self.dropped_b += 1;
            return;
        }
        self.counts.add(which, at);
        let row = &operation.row;
        let (side, arrival) = match which {
            Side::A => (&mut self.a, row.intended.0),
            Side::B => (&mut self.b, pairing::arrival(row)),
        };
        side.add(Nanos(arrival), operation);
        if let Some(error_ns) = self.pairs.take(which, at, operation.key) {
            self.errors.add(error_ns);
        }
    }

    fn result(self, report_a: TraceReport, report_b: TraceReport) -> CompareResult {
        let (unmatched_a, unmatched_b) = self.pairs.unmatched();
        let (a, b) = (self.a.result(report_a), self.b.result(report_b));
        let queue = |side: &SideResult| side.queue.as_ref().and_then(|queue| queue.mean);
        CompareResult {
            schema: "trace-compare/1",
            alignment: self.alignment,
            matched: self.pairs.matched(),
            unmatched_a,
            unmatched_b,
            dropped_b: self.dropped_b,
            arrival_error: self.errors.result(),
            counts: self.counts.result(),
            response_ratio: ratio(b.response_ns.mean, a.response_ns.mean),
            queue_ratio: ratio(queue(&b), queue(&a)),
            a,
            b,
        }
    }
}

fn ratio(b: Option<f64>, a: Option<f64>) -> Option<f64> {
    b.zip(a.filter(|a| *a > 0.0)).map(|(b, a)| b / a)
}

impl pairing::RowSource for Trace {
    fn report(&self) -> TraceReport {
        Self::report(self)
    }

    fn devices(&self) -> &[String] {
        Self::devices(self)
    }

    fn tells_intentions(&self) -> bool {
        Self::tells_intentions(self)
    }
}
