//! When operations arrive: rate over time, burstiness, times between arrivals.
//!
//! Burstiness is the index of dispersion of counts: the variance of the number of arrivals in bins of a width over
//! its mean. Poisson arrivals have 1 at every scale, evenly spaced ones 0, bursty ones more, and long-range
//! dependence shows as growth with the scale. Source: Gusella, Characterizing the variability of arrival
//! processes with indexes of dispersion (IEEE JSAC 9(2), 1991). Only whole bins from the first arrival on count.

use super::series::{RateSeries, Series};
use bw_record::histogram::Histogram;
use bw_record::summary::HistogramSummary;
use bw_model::Nanos;
use serde::Serialize;

/// The widths at which burstiness is told: 1 ms to 10 s.
pub const SCALES: [Nanos; 5] = [
    Nanos(1_000_000),
    Nanos(10_000_000),
    Nanos(100_000_000),
    Nanos(1_000_000_000),
    Nanos(10_000_000_000),
];
/// The most bins of a series in the result.
pub const MOST_BINS: usize = 2000;

/// Burstiness at one scale.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Dispersion {
    /// The width of a bin.
    pub bin_ns: u64,
    /// Whole bins, empty ones among them.
    pub bins: u64,
    /// Arrivals in a bin.
    pub mean: Option<f64>,
    /// The most arrivals in a bin.
    pub max: u64,
    /// Variance of the counts over their mean; null of fewer than two bins.
    pub index: Option<f64>,
}

/// Times between one arrival and the next.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gaps {
    /// Their figures [ns].
    pub gap_ns: HistogramSummary,
    /// The squared coefficient of variation: 1 for Poisson arrivals, 0 for even ones.
    pub cv_squared: Option<f64>,
    /// Arrivals with the same stamp as the one before.
    pub equal: u64,
}

/// Counts in bins of one width.
#[derive(Clone, Debug)]
pub struct Counter {
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
    pub fn new(width: Nanos) -> Self {
        Self {
            width,
            present: 0,
            count: 0,
            sum: 0,
            squares: 0,
            max: 0,
        }
    }

    /// Counts an arrival. A stamp before the present bin counts in the present one.
    pub fn add(&mut self, at: Nanos) {
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

    /// Returns the figures of all bins before the present one, which is not over.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn dispersion(&self) -> Dispersion {
        let bins = self.present;
        let mean = (bins > 0).then(|| self.sum as f64 / bins as f64);
        // n * sum of squares - square of the sum, exactly: it cancels for even arrivals.
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

/// Arrivals in order.
#[derive(Debug)]
pub struct Arrivals {
    operations: Series<u64>,
    bytes: Series<u64>,
    counters: [Counter; SCALES.len()],
    gaps: Histogram,
    equal: u64,
    last: Option<Nanos>,
}

impl Arrivals {
    /// Returns an account of no arrivals.
    #[must_use]
    pub fn new() -> Self {
        Self {
            operations: Series::new(SCALES[0], MOST_BINS),
            bytes: Series::new(SCALES[0], MOST_BINS),
            counters: SCALES.map(Counter::new),
            gaps: Histogram::new(),
            equal: 0,
            last: None,
        }
    }

    /// Counts an arrival of so many bytes.
    pub fn add(&mut self, at: Nanos, bytes: u64) {
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
    pub fn result(&self) -> (RateSeries, Vec<Dispersion>, Gaps) {
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
    pub fn dispersion(&self) -> Vec<Dispersion> {
        self.counters.iter().map(Counter::dispersion).collect()
    }
}

impl Default for Arrivals {
    fn default() -> Self {
        Self::new()
    }
}
