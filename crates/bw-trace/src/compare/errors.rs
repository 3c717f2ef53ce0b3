//! The arrival error of pairs: B's arrival less A's, early ones below zero.

use bw_record::histogram::Histogram;
use bw_record::summary::HistogramSummary;
use serde::Serialize;

/// The distances within which shares are told [ns].
const WITHIN: [u64; 3] = [10_000, 100_000, 1_000_000];
/// The quantiles that are told.
const QUANTILES: [f64; 11] = [
    0.0, 0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999, 1.0,
];

/// How far B's arrivals are from A's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArrivalError {
    /// Below zero: early on average; null of nothing.
    pub mean_ns: Option<f64>,
    /// Value at each of some shares of pairs.
    pub quantiles: Vec<SignedQuantile>,
    /// Share of pairs that are at most so far off, early or late.
    pub within: Vec<Within>,
    /// How late those are that are not early.
    pub late_ns: HistogramSummary,
    /// How early the others are.
    pub early_ns: HistogramSummary,
    /// How far off all are, early or late.
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
pub struct Errors {
    late: Histogram,
    early: Histogram,
    sum: i128,
    within: [u64; WITHIN.len()],
}

impl Errors {
    /// Returns an account of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self {
            late: Histogram::new(),
            early: Histogram::new(),
            sum: 0,
            within: [0; WITHIN.len()],
        }
    }

    /// Counts the error of a pair [ns].
    pub fn add(&mut self, error_ns: i128) {
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
    pub fn result(&self) -> ArrivalError {
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

    /// Returns the value at `share`: among the early ones from the earliest on, then among the others.
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

impl Default for Errors {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_ones_are_below_zero() {
        let mut errors = Errors::new();
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
        let mut errors = Errors::new();
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
        let result = Errors::new().result();
        assert_eq!(
            (result.mean_ns, result.quantiles.len(), result.within.len()),
            (None, 0, 0)
        );
    }
}
