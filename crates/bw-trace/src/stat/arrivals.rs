//! When operations arrive: rate over time, burstiness, times between arrivals.
//!
//! Burstiness is the index of dispersion of counts: the variance of the number of arrivals per bin divided by
//! its mean. It is 1 at every scale for Poisson arrivals, 0 for evenly spaced ones, more for bursty ones; long-range
//! dependence appears as growth with the scale. Source: Gusella, Characterizing the variability of arrival
//! processes with indexes of dispersion (IEEE JSAC 9(2), 1991). Only whole bins from the first arrival on count.
//!
//! Sums over time use bins that widen as the trace goes on, so that their number stays bounded.
//!
//! The number of operations in progress is followed as arrivals minus completions.
//!
//! Its mean is the integral over the time from the first arrival to the last event of an operation with a known
//! completion; by Little's law it is the arrival rate times the mean time in the system. Operations without a
//! completion are not included, but counted separately: an unknown end is neither immediate nor infinitely late.

use bw_model::Nanos;
use bw_record::histogram::Histogram;
use bw_record::summary::HistogramSummary;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The widths at which burstiness is reported: 1 ms to 10 s.
pub(crate) const SCALES: [Nanos; 5] = [
    Nanos(1_000_000),
    Nanos(10_000_000),
    Nanos(100_000_000),
    Nanos(1_000_000_000),
    Nanos(10_000_000_000),
];
/// Maximum number of bins of a series in the result.
pub(crate) const MOST_BINS: usize = 2000;

/// Burstiness at one scale.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Dispersion {
    /// The width of a bin.
    pub bin_ns: u64,
    /// Whole bins, including empty ones.
    pub bins: u64,
    /// Mean number of arrivals per bin.
    pub mean: Option<f64>,
    /// Maximum number of arrivals in a bin.
    pub max: u64,
    /// Variance of the counts divided by their mean; null with fewer than two bins.
    pub index: Option<f64>,
}

/// Times between consecutive arrivals.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gaps {
    /// Their distribution [ns].
    pub gap_ns: HistogramSummary,
    /// The squared coefficient of variation: 1 for Poisson arrivals, 0 for evenly spaced ones.
    pub cv_squared: Option<f64>,
    /// Arrivals with the same stamp as the previous one.
    pub equal: u64,
}

/// Counts in bins of one width.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    width: Nanos,
    present: u64,
    count: u64,
    sum: u128,
    squares: u128,
    max: u64,
}

impl Counter {
    /// Returns a counter of bins of `width` > 0.
    #[must_use]
    pub(crate) fn new(width: Nanos) -> Self {
        Self {
            width,
            present: 0,
            count: 0,
            sum: 0,
            squares: 0,
            max: 0,
        }
    }

    /// Counts an arrival. A stamp before the current bin counts in the current one.
    pub(crate) fn add(&mut self, at: Nanos) {
        let index = at.0 / self.width.0;
        if index > self.present {
            self.close();
            self.present = index;
        }
        self.count += 1;
    }

    fn close(&mut self) {
        self.sum += u128::from(self.count);
        self.squares += u128::from(self.count) * u128::from(self.count);
        self.max = self.max.max(self.count);
        self.count = 0;
    }

    /// Returns the figures of all bins before the current one, which is incomplete.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn dispersion(&self) -> Dispersion {
        let bins = self.present;
        let mean = (bins > 0).then(|| self.sum as f64 / bins as f64);
        // n * sum of squares - square of the sum, exact: for even arrivals the terms cancel.
        let spread = u128::from(bins) * self.squares - self.sum * self.sum;
        let index = (bins > 1 && self.sum > 0)
            .then(|| spread as f64 / ((bins - 1) as f64 * self.sum as f64));
        Dispersion {
            bin_ns: self.width.0,
            bins,
            mean,
            max: self.max,
            index,
        }
    }
}

/// Collects arrivals in order.
#[derive(Debug)]
pub(crate) struct ArrivalStatistics {
    operations: TimeSeries<u64>,
    bytes: TimeSeries<u64>,
    counters: [Counter; SCALES.len()],
    gaps: Histogram,
    equal: u64,
    last: Option<Nanos>,
}

impl ArrivalStatistics {
    /// Returns an empty collection.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self {
            operations: TimeSeries::new(SCALES[0], MOST_BINS),
            bytes: TimeSeries::new(SCALES[0], MOST_BINS),
            counters: SCALES.map(Counter::new),
            gaps: Histogram::new(),
            equal: 0,
            last: None,
        }
    }

    /// Counts an arrival of `bytes` bytes.
    pub(crate) fn add(&mut self, at: Nanos, bytes: u64) {
        self.operations.add(at, 1);
        self.bytes.add(at, bytes);
        self.counters.iter_mut().for_each(|counter| counter.add(at));
        if let Some(last) = self.last.replace(at) {
            self.gaps.record(at.since(last).0);
            self.equal += u64::from(at == last);
        }
    }

    /// Returns rate, burstiness and gaps.
    #[must_use]
    pub(crate) fn result(&self) -> (RateSeries, Vec<Dispersion>, Gaps) {
        let operations = self.operations.bins().to_vec();
        let rate = RateSeries {
            bin_ns: self.operations.width().0,
            operations_max: operations.iter().copied().max().unwrap_or(0),
            operations,
            bytes: self.bytes.bins().to_vec(),
        };
        let cv = self.gaps.sd().zip(self.gaps.mean());
        let cv = cv
            .filter(|(_, mean)| *mean > 0.0)
            .map(|(sd, mean)| sd / mean);
        let gaps = Gaps {
            gap_ns: (&self.gaps).into(),
            cv_squared: cv.map(|cv| cv * cv),
            equal: self.equal,
        };
        (rate, self.dispersion(), gaps)
    }

    /// Returns the burstiness at each scale.
    #[must_use]
    pub(crate) fn dispersion(&self) -> Vec<Dispersion> {
        self.counters.iter().map(Counter::dispersion).collect()
    }
}

impl Default for ArrivalStatistics {
    fn default() -> Self {
        Self::new()
    }
}

/// The factors by which bins widen alternately: 1, 2, 10, 20, 100 ... times the first width.
const FACTORS: [usize; 2] = [2, 5];

/// A sum for each bin, with a maximum number of bins; when more are needed neighbours are joined.
#[derive(Clone, Debug)]
pub(crate) struct TimeSeries<T> {
    width: Nanos,
    most: usize,
    widened: usize,
    bins: Vec<T>,
}

impl<T: Copy + Default + std::ops::AddAssign> TimeSeries<T> {
    /// Returns an empty series of bins of `width` > 0, at most `most` of them.
    #[must_use]
    pub(crate) fn new(width: Nanos, most: usize) -> Self {
        Self {
            width,
            most: most.max(2),
            widened: 0,
            bins: Vec::new(),
        }
    }

    /// Adds `amount` to the bin of time `at`.
    pub(crate) fn add(&mut self, at: Nanos, amount: T) {
        let index = self.reach(at);
        self.bins[index] += amount;
    }

    /// Returns the index of the bin of time `at`, which exists from then on.
    fn reach(&mut self, at: Nanos) -> usize {
        while at.0 / self.width.0 >= self.most as u64 {
            self.widen();
        }
        let index = (at.0 / self.width.0) as usize;
        if index >= self.bins.len() {
            self.bins.resize(index + 1, T::default());
        }
        index
    }

    fn widen(&mut self) {
        let factor = FACTORS[self.widened % FACTORS.len()];
        let joined = self.bins.chunks(factor).map(|chunk| {
            let mut sum = T::default();
            chunk.iter().for_each(|one| sum += *one);
            sum
        });
        self.bins = joined.collect();
        self.width = Nanos(self.width.0.saturating_mul(factor as u64));
        self.widened += 1;
    }

    /// Returns the width of the bins.
    #[must_use]
    pub(crate) fn width(&self) -> Nanos {
        self.width
    }

    /// Returns the bins from time zero on.
    #[must_use]
    pub(crate) fn bins(&self) -> &[T] {
        &self.bins
    }
}

impl TimeSeries<f64> {
    /// Adds, to each bin, `depth` times the part of the interval from `from` to `to` that lies in it.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn add_stretch(&mut self, (from, to): (Nanos, Nanos), depth: f64) {
        let mut from = from;
        if from < to {
            // The bin after an interval that ends at its edge is not touched.
            self.reach(Nanos(to.0 - 1));
        }
        while from < to {
            let index = (from.0 / self.width.0) as usize;
            let end = Nanos((index as u64 + 1).saturating_mul(self.width.0)).min(to);
            self.bins[index] += end.since(from).0 as f64 * depth;
            from = end;
        }
    }
}

/// Operations and bytes over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RateSeries {
    /// The width of a bin; the last one may be shorter.
    pub bin_ns: u64,
    /// Arrivals in each bin.
    pub operations: Vec<u64>,
    /// Their bytes.
    pub bytes: Vec<u64>,
    /// Maximum number of arrivals in a bin.
    pub operations_max: u64,
}

/// Maximum number of operations in progress before counting stops: 16 Mi, 128 MB.
const DEEPEST: usize = 16 << 20;

/// The number of operations in progress.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueResult {
    /// Operations with a known completion.
    pub operations: u64,
    /// Operations without one, not included.
    pub without_end: u64,
    /// Mean over time; null if the time is zero.
    pub mean: Option<f64>,
    /// Mean number that an arrival finds in progress.
    pub mean_at_arrival: f64,
    /// Maximum.
    pub max: u64,
    /// The mean over time in each bin.
    pub series: DepthSeries,
}

/// The number in progress over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DepthSeries {
    /// The width of a bin.
    pub bin_ns: u64,
    /// The mean in each bin.
    pub mean: Vec<f64>,
}

/// Follows arrivals, in order, and completions.
#[derive(Debug)]
pub(crate) struct Queue {
    under_way: BinaryHeap<Reverse<u64>>,
    now: Nanos,
    area: f64,
    series: TimeSeries<f64>,
    operations: u64,
    without_end: u64,
    found: u128,
    max: u64,
    given_up: bool,
}

impl Queue {
    /// Returns an empty queue at time zero.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self {
            under_way: BinaryHeap::new(),
            now: Nanos::ZERO,
            area: 0.0,
            series: TimeSeries::new(SCALES[0], MOST_BINS),
            operations: 0,
            without_end: 0,
            found: 0,
            max: 0,
            given_up: false,
        }
    }

    /// Adds an arrival at `at`, which completes at `end` if that is known.
    pub(crate) fn add(&mut self, at: Nanos, end: Option<Nanos>) {
        let Some(end) = end else {
            self.without_end += 1;
            return;
        };
        self.until(at);
        self.operations += 1;
        self.found += self.under_way.len() as u128;
        if self.under_way.len() < DEEPEST {
            self.under_way.push(Reverse(end.max(at).0));
        } else {
            self.given_up = true;
        }
        self.max = self.max.max(self.under_way.len() as u64);
    }

    /// Handles all completions until `at`.
    fn until(&mut self, at: Nanos) {
        while let Some(Reverse(end)) = self.under_way.peek().copied() {
            if end > at.0 {
                break;
            }
            self.advance(Nanos(end));
            self.under_way.pop();
        }
        self.advance(at);
    }

    #[allow(clippy::cast_precision_loss)]
    fn advance(&mut self, to: Nanos) {
        let depth = self.under_way.len() as f64;
        if to > self.now && depth > 0.0 {
            self.area += to.since(self.now).0 as f64 * depth;
            self.series.add_stretch((self.now, to), depth);
        }
        self.now = self.now.max(to);
    }

    /// Returns the figures; None if no completion is known, or more operations were in progress than memory permits.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn result(mut self) -> Option<QueueResult> {
        self.until(Nanos::NEVER.min(self.last_end()));
        if self.operations == 0 || self.given_up {
            return None;
        }
        let width = self.series.width();
        let length = |index: usize| {
            let start = Nanos(width.0 * index as u64);
            self.now.since(start).min(width).0.max(1) as f64
        };
        let bins = self.series.bins().iter().enumerate();
        let mean = bins.map(|(index, area)| area / length(index)).collect();
        Some(QueueResult {
            operations: self.operations,
            without_end: self.without_end,
            mean: (self.now > Nanos::ZERO).then(|| self.area / self.now.0 as f64),
            mean_at_arrival: self.found as f64 / self.operations as f64,
            max: self.max,
            series: DepthSeries {
                bin_ns: width.0,
                mean,
            },
        })
    }

    fn last_end(&self) -> Nanos {
        let last = self.under_way.iter().map(|end| end.0).max();
        last.map_or(self.now, Nanos)
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bins_widen_by_two_and_five_in_turn() {
        let mut series = TimeSeries::new(Nanos(1), 4);
        for at in 0..40 {
            series.add(Nanos(at), 1_u64);
        }
        assert_eq!(
            (series.width(), series.bins()),
            (Nanos(10), &[10, 10, 10, 10][..])
        );
        series.add(Nanos(40), 1);
        assert_eq!(
            (series.width(), series.bins()),
            (Nanos(20), &[20, 20, 1][..])
        );
    }

    #[test]
    fn a_stretch_up_to_an_edge_makes_no_bin_behind_it() {
        let mut series = TimeSeries::new(Nanos(10), 50);
        series.add_stretch((Nanos(0), Nanos(20)), 2.0);
        series.add_stretch((Nanos(20), Nanos(20)), 2.0);
        assert_eq!(series.bins(), [20.0, 20.0]);
    }

    proptest! {
        #[test]
        fn widening_loses_nothing(stamps in prop::collection::vec(any::<u64>(), 1..50)) {
            let mut series = TimeSeries::new(Nanos(1_000_000), 20);
            stamps.iter().for_each(|at| series.add(Nanos(*at), 1_u64));
            prop_assert_eq!(series.bins().iter().sum::<u64>(), stamps.len() as u64);
            prop_assert!(series.bins().len() <= 20);
        }

        #[test]
        fn a_stretch_keeps_its_area(from in 0..10_000u64, length in 0..10_000u64) {
            let mut series = TimeSeries::new(Nanos(7), 50);
            series.add_stretch((Nanos(from), Nanos(from + length)), 3.0);
            let area: f64 = series.bins().iter().sum();
            prop_assert!((area - 3.0 * length as f64).abs() < 1e-6);
        }
    }
}
