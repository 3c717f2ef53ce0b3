//! Arrivals of both sides in the same bins: does B reproduce A's bursts?
//!
//! Two figures at 1 ms. Equal: the share of A's operations in bins in which both have the same count; it is
//! strict, one operation that slips over an edge spoils two bins. Overlap: of each bin the smaller count, over all of A;
//! that one operation costs one. At 1 s both counts, side by side (figure 10 of the paper).

use super::pairs::Which;
use crate::stat::series::Series;
use bw_model::Nanos;
use serde::Serialize;
use std::collections::BTreeMap;

/// The width of the narrow bins [ns].
const FINE: i128 = 1_000_000;
/// How many narrow bins are open at a time: a stamp that lies further back (1 s) opens its bin anew.
const OPEN: usize = 1000;
/// The most wide bins before they are joined.
const MOST: usize = 20_000;

/// Counts of both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CountComparison {
    /// The width of the narrow bins.
    pub fine_bin_ns: u64,
    /// Share of A's operations in narrow bins with equal counts; null of nothing.
    pub equal_share: Option<f64>,
    /// The smaller counts of all narrow bins over A's operations; null of nothing.
    pub overlap_share: Option<f64>,
    /// The width of the wide bins: 1 s, wider for traces of more than 20,000 s.
    pub bin_ns: u64,
    /// A's arrivals in each wide bin.
    pub a: Vec<u64>,
    /// B's arrivals in each wide bin.
    pub b: Vec<u64>,
    /// Arrivals before time zero, which are in no wide bin.
    pub before_zero: u64,
}

/// Counts arrivals of both sides.
#[derive(Debug)]
pub struct Counts {
    open: BTreeMap<i128, [u64; 2]>,
    all: u64,
    equal: u64,
    overlap: u64,
    wide: [Series<u64>; 2],
    before_zero: u64,
}

impl Counts {
    /// Returns an account of nothing.
    #[must_use]
    pub fn new() -> Self {
        let wide = || Series::new(Nanos::SECOND, MOST);
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
    pub fn add(&mut self, which: Which, at: i128) {
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
    pub fn result(mut self) -> CountComparison {
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
fn side_by_side(mut a: Series<u64>, mut b: Series<u64>) -> (Nanos, Vec<u64>, Vec<u64>) {
    let bins = |series: &Series<u64>| series.bins().len() as u64;
    let end = (a.width().0 * bins(&a)).max(b.width().0 * bins(&b));
    for series in [&mut a, &mut b] {
        // Adding nothing at the end makes the series as wide and as long as the other.
        series.add(Nanos(end.saturating_sub(1)), 0);
    }
    (a.width(), a.bins().to_vec(), b.bins().to_vec())
}

impl Default for Counts {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_slips_over_an_edge_spoils_two_bins_and_costs_one_operation() {
        let mut counts = Counts::new();
        for at in 0..100 {
            counts.add(Which::A, at * 100_000);
            let late = if at == 19 { 100_000 } else { 0 };
            counts.add(Which::B, at * 100_000 + late);
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
        let mut counts = Counts::new();
        counts.add(Which::A, 500_000_000);
        counts.add(Which::B, 30_000_500_000_000);
        counts.add(Which::B, -1);
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
