//! The figures of a comparison: arrival errors of pairs, arrivals counted in the same bins, and each side alone.
//!
//! An arrival error is B's arrival minus A's; early arrivals have negative errors. Two figures of the counts at 1 ms:
//! *equal* is the share of A's operations in bins in which both have the same count. It is strict, since one operation
//! that crosses an edge changes two bins. *Overlap* is the sum of each bin's smaller count, divided by A's operations;
//! there that operation costs one. At 1 s both counts are reported side by side (figure 10 of the Buttress paper).

use crate::compare::pairing::{ComparedOperation, Side};
use crate::input::TraceReport;
use crate::stat::arrivals::{ArrivalStatistics, Dispersion, Queue, QueueResult, TimeSeries};
use bw_model::Nanos;
use bw_record::histogram::Histogram;
use bw_record::summary::HistogramSummary;
use serde::Serialize;
use std::collections::BTreeMap;

/// The distances within which shares are reported [ns].
const WITHIN: [u64; 3] = [10_000, 100_000, 1_000_000];
/// The quantiles that are reported.
const QUANTILES: [f64; 11] = [
    0.0, 0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999, 1.0,
];

/// The errors of B's arrivals.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArrivalError {
    /// Mean; negative: early on average; null without pairs.
    pub mean_ns: Option<f64>,
    /// Quantiles of the error.
    pub quantiles: Vec<SignedQuantile>,
    /// Shares of pairs within some distances, early or late.
    pub within: Vec<Within>,
    /// Errors of the pairs that are late or exact.
    pub late_ns: HistogramSummary,
    /// Amounts by which the other pairs are early.
    pub early_ns: HistogramSummary,
    /// Absolute errors of all pairs.
    pub absolute_ns: HistogramSummary,
}

/// One point of the distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SignedQuantile {
    /// Share of pairs that do not exceed it.
    pub share: f64,
    /// Arrival error; precise to a thousandth.
    pub error_ns: i64,
}

/// The share of pairs within a distance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Within {
    /// The distance.
    pub within_ns: u64,
    /// The share, exactly.
    pub share: f64,
}

/// Collects arrival errors.
#[derive(Debug)]
pub(crate) struct ArrivalErrors {
    late: Histogram,
    early: Histogram,
    sum: i128,
    within: [u64; WITHIN.len()],
}

impl ArrivalErrors {
    /// Returns an empty collection.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self {
            late: Histogram::new(),
            early: Histogram::new(),
            sum: 0,
            within: [0; WITHIN.len()],
        }
    }

    /// Counts the error of a pair [ns].
    pub(crate) fn add(&mut self, error_ns: i128) {
        let distance = u64::try_from(error_ns.unsigned_abs()).unwrap_or(u64::MAX);
        self.sum += error_ns;
        if error_ns < 0 {
            self.early.record(distance);
        } else {
            self.late.record(distance);
        }
        for (count, within) in self.within.iter_mut().zip(WITHIN) {
            *count += u64::from(distance <= within);
        }
    }

    /// Returns the figures.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn result(&self) -> ArrivalError {
        let all = self.late.count() + self.early.count();
        let mut absolute = self.late.clone();
        absolute.merge(&self.early);
        let within = self
            .within
            .iter()
            .zip(WITHIN)
            .map(|(count, within_ns)| Within {
                within_ns,
                share: *count as f64 / all as f64,
            });
        let quantiles = QUANTILES.iter().filter_map(|share| self.quantile(*share));
        ArrivalError {
            mean_ns: (all > 0).then(|| self.sum as f64 / all as f64),
            quantiles: quantiles.collect(),
            within: within.filter(|_| all > 0).collect(),
            late_ns: (&self.late).into(),
            early_ns: (&self.early).into(),
            absolute_ns: (&absolute).into(),
        }
    }

    /// Returns the value at `share`: the early errors come first, from the earliest on.
    #[allow(clippy::cast_precision_loss)]
    fn quantile(&self, share: f64) -> Option<SignedQuantile> {
        let (early, late) = (self.early.count() as f64, self.late.count() as f64);
        let rank = share * (early + late);
        let error_ns = if rank < early || late == 0.0 {
            let value = self.early.quantile(1.0 - rank / early)?;
            -i64::try_from(value).ok()?
        } else {
            i64::try_from(self.late.quantile((rank - early) / late)?).ok()?
        };
        Some(SignedQuantile { share, error_ns })
    }
}

impl Default for ArrivalErrors {
    fn default() -> Self {
        Self::new()
    }
}

/// The width of the narrow bins [ns].
const FINE: i128 = 1_000_000;
/// How many narrow bins are open at a time: a stamp further back than 1 s opens its bin again.
const OPEN: usize = 1000;
/// Maximum number of wide bins before they are joined.
const MOST: usize = 20_000;

/// The counts of both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CountComparison {
    /// The width of the narrow bins.
    pub fine_bin_ns: u64,
    /// Share of A's operations in narrow bins with equal counts; null without operations.
    pub equal_share: Option<f64>,
    /// Sum of the smaller counts of all narrow bins, divided by A's operations; null without operations.
    pub overlap_share: Option<f64>,
    /// The width of the wide bins: 1 s, wider for traces of more than 20,000 s.
    pub bin_ns: u64,
    /// A's arrivals in each wide bin.
    pub a: Vec<u64>,
    /// B's arrivals in each wide bin.
    pub b: Vec<u64>,
    /// Arrivals before time zero, which are not in any wide bin.
    pub before_zero: u64,
}

/// Counts arrivals of both sides.
#[derive(Debug)]
pub(crate) struct ArrivalCounter {
    open: BTreeMap<i128, [u64; 2]>,
    all: u64,
    equal: u64,
    overlap: u64,
    wide: [TimeSeries<u64>; 2],
    before_zero: u64,
}

impl ArrivalCounter {
    /// Returns an empty counter.
    #[must_use]
    pub(crate) fn new() -> Self {
        let wide = || TimeSeries::new(Nanos::SECOND, MOST);
        Self {
            open: BTreeMap::new(),
            all: 0,
            equal: 0,
            overlap: 0,
            wide: [wide(), wide()],
            before_zero: 0,
        }
    }

    /// Counts an arrival on B's axis [ns].
    pub(crate) fn add(&mut self, which: Side, at: i128) {
        let bin = self.open.entry(at.div_euclid(FINE)).or_insert([0; 2]);
        bin[which as usize] += 1;
        if self.open.len() > OPEN
            && let Some((_, counts)) = self.open.pop_first()
        {
            self.close(counts);
        }
        match u64::try_from(at) {
            Ok(at) => self.wide[which as usize].add(Nanos(at), 1),
            Err(_) => self.before_zero += 1,
        }
    }

    fn close(&mut self, [a, b]: [u64; 2]) {
        self.all += a;
        self.equal += if a == b { a } else { 0 };
        self.overlap += a.min(b);
    }

    /// Returns the figures.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn result(mut self) -> CountComparison {
        for counts in std::mem::take(&mut self.open).into_values() {
            self.close(counts);
        }
        let share = |part: u64| (self.all > 0).then(|| part as f64 / self.all as f64);
        let (equal_share, overlap_share) = (share(self.equal), share(self.overlap));
        let [a, b] = self.wide;
        let (width, a, b) = side_by_side(a, b);
        CountComparison {
            fine_bin_ns: FINE as u64,
            equal_share,
            overlap_share,
            bin_ns: width.0,
            a,
            b,
            before_zero: self.before_zero,
        }
    }
}

/// Returns both series with the same bins.
fn side_by_side(mut a: TimeSeries<u64>, mut b: TimeSeries<u64>) -> (Nanos, Vec<u64>, Vec<u64>) {
    let bins = |series: &TimeSeries<u64>| series.bins().len() as u64;
    let end = (a.width().0 * bins(&a)).max(b.width().0 * bins(&b));
    for series in [&mut a, &mut b] {
        // Adding zero at the end makes the series as wide and as long as the other.
        series.add(Nanos(end.saturating_sub(1)), 0);
    }
    (a.width(), a.bins().to_vec(), b.bins().to_vec())
}

impl Default for ArrivalCounter {
    fn default() -> Self {
        Self::new()
    }
}

/// Figures of one side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideResult {
    /// Number of operations.
    pub operations: u64,
    /// Burstiness on its own time axis.
    pub dispersion: Vec<Dispersion>,
    /// Time from arrival to completion, of operations that did not fail.
    pub response_ns: HistogramSummary,
    /// The distribution of response times.
    pub response_cdf: Vec<CdfPoint>,
    /// Number of operations in progress; null if it has no completions.
    pub queue: Option<QueueResult>,
    /// The report of reading it.
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

/// Collects the figures of one side.
#[derive(Debug)]
pub(crate) struct SideStatistics {
    first: Option<u64>,
    operations: u64,
    arrivals: ArrivalStatistics,
    queue: Queue,
    response: Histogram,
}

impl SideStatistics {
    /// Returns an empty collection.
    pub(crate) fn new() -> Self {
        Self {
            first: None,
            operations: 0,
            arrivals: ArrivalStatistics::new(),
            queue: Queue::new(),
            response: Histogram::new(),
        }
    }

    /// Adds an operation that arrives at `arrival` on the side's own time axis.
    pub(crate) fn add(&mut self, arrival: Nanos, operation: &ComparedOperation) {
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
    pub(crate) fn result(self, report: TraceReport) -> SideResult {
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

/// Returns the distribution at every hundredth, with more points in the tail.
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

#[cfg(test)]
mod errors_tests {
    use super::*;

    #[test]
    fn early_ones_are_below_zero() {
        let mut errors = ArrivalErrors::new();
        for error in [-300, -200, -100, 0, 100, 200, 300, 400_000] {
            errors.add(error);
        }
        let result = errors.result();
        assert_eq!(result.mean_ns, Some(50_000.0));
        let ends = [result.quantiles[0], result.quantiles[10]];
        assert_eq!(ends.map(|end| end.error_ns), [-300, 400_000]);
        let shares: Vec<f64> = result.within.iter().map(|within| within.share).collect();
        assert_eq!(shares, [0.875, 0.875, 1.0]);
        assert_eq!((result.early_ns.count, result.late_ns.count), (3, 5));
    }

    #[test]
    fn quantiles_never_fall() {
        let mut errors = ArrivalErrors::new();
        (-500..700).for_each(|error| errors.add(error * error * error));
        let quantiles = errors.result().quantiles;
        assert!(
            quantiles.is_sorted_by_key(|one| one.error_ns),
            "{quantiles:?}"
        );
        let median = quantiles[5].error_ns;
        assert!((median - 99 * 99 * 99).abs() < 40_000, "{median}");
    }

    #[test]
    fn of_nothing_there_are_no_figures() {
        let result = ArrivalErrors::new().result();
        assert_eq!(
            (result.mean_ns, result.quantiles.len(), result.within.len()),
            (None, 0, 0)
        );
    }
}

#[cfg(test)]
mod counts_tests {
    use super::*;

    #[test]
    fn one_that_slips_over_an_edge_spoils_two_bins_and_costs_one_operation() {
        let mut counts = ArrivalCounter::new();
        for at in 0..100 {
            counts.add(Side::A, at * 100_000);
            let late = if at == 19 { 100_000 } else { 0 };
            counts.add(Side::B, at * 100_000 + late);
        }
        let result = counts.result();
        assert_eq!(
            (result.equal_share, result.overlap_share),
            (Some(0.8), Some(0.99))
        );
        assert_eq!((result.a, result.b), (vec![100], vec![100]));
    }

    #[test]
    fn both_sides_have_the_same_bins() {
        let mut counts = ArrivalCounter::new();
        counts.add(Side::A, 500_000_000);
        counts.add(Side::B, 30_000_500_000_000);
        counts.add(Side::B, -1);
        let result = counts.result();
        assert_eq!(
            (result.bin_ns, result.a.len()),
            (2_000_000_000, result.b.len())
        );
        assert_eq!(
            (result.a[0], result.b[15_000], result.before_zero),
            (1, 1, 1)
        );
        assert_eq!(result.equal_share, Some(0.0));
    }
}
