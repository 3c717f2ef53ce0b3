//! Sums over time in bins that widen as the trace goes on, so that their number stays bounded.

use bw_model::Nanos;
use serde::Serialize;

/// The factors by which bins widen in turn: 1, 2, 10, 20, 100 ... times the first width.
const FACTORS: [usize; 2] = [2, 5];

/// A sum for each bin. At most so many bins; when more are needed neighbours are joined.
#[derive(Clone, Debug)]
pub struct Series<T> {
    width: Nanos,
    most: usize,
    widened: usize,
    bins: Vec<T>,
}

impl<T: Copy + Default + std::ops::AddAssign> Series<T> {
    /// Returns an empty series of bins of `width` > 0, at most `most` of them.
    #[must_use]
    pub fn new(width: Nanos, most: usize) -> Self {
        Self {
            width,
            most: most.max(2),
            widened: 0,
            bins: Vec::new(),
        }
    }

    /// Adds `amount` to the bin of time `at`.
    pub fn add(&mut self, at: Nanos, amount: T) {
        let index = self.reach(at);
        self.bins[index] += amount;
    }

    /// Returns the place of the bin of time `at`, which exists from now on.
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
    pub fn width(&self) -> Nanos {
        self.width
    }

    /// Returns the bins from time zero on.
    #[must_use]
    pub fn bins(&self) -> &[T] {
        &self.bins
    }
}

impl Series<f64> {
    /// Adds `depth` times the time that the stretch from `from` to `to` spends in each bin.
    #[allow(clippy::cast_precision_loss)]
    pub fn add_stretch(&mut self, (from, to): (Nanos, Nanos), depth: f64) {
        let mut from = from;
        if from < to {
            // The bin behind a stretch that ends at its edge is not touched.
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
    /// The most arrivals of a bin.
    pub operations_max: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bins_widen_by_two_and_five_in_turn() {
        let mut series = Series::new(Nanos(1), 4);
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
        let mut series = Series::new(Nanos(10), 50);
        series.add_stretch((Nanos(0), Nanos(20)), 2.0);
        series.add_stretch((Nanos(20), Nanos(20)), 2.0);
        assert_eq!(series.bins(), [20.0, 20.0]);
    }

    proptest! {
        #[test]
        fn widening_loses_nothing(stamps in prop::collection::vec(any::<u64>(), 1..50)) {
            let mut series = Series::new(Nanos(1_000_000), 20);
            stamps.iter().for_each(|at| series.add(Nanos(*at), 1_u64));
            prop_assert_eq!(series.bins().iter().sum::<u64>(), stamps.len() as u64);
            prop_assert!(series.bins().len() <= 20);
        }

        #[test]
        fn a_stretch_keeps_its_area(from in 0..10_000u64, length in 0..10_000u64) {
            let mut series = Series::new(Nanos(7), 50);
            series.add_stretch((Nanos(from), Nanos(from + length)), 3.0);
            let area: f64 = series.bins().iter().sum();
            prop_assert!((area - 3.0 * length as f64).abs() < 1e-6);
        }
    }
}
