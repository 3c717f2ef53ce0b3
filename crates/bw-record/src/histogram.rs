//! A histogram of durations with constant relative precision.
//!
//! Decision: the buckets are HdrHistogram's (relative precision, lossless merging, a format that
//! other tools read), counted in an array of our own and converted by the library at the end. An operation has
//! several records: five cost 53 ns with the library's `record` and 30 ns with ours, of the 100 ns that an
//! engine of 10 million operations a second has in total (examples/record_cost.rs). Sum, sum of
//! squares, minimum and maximum are stored as exact integers: a mean computed from buckets is
//! off by up to half a bucket and a maximum by a whole one. Rejected: a t-digest, as its merges depend on their
//! order. Source: HdrHistogram's buckets and sub-buckets.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use std::ops::Range;

/// The longest duration that is distinguished: one hour [ns]. Longer ones are recorded as this.
pub(crate) const LONGEST_NS: u64 = 3_600_000_000_000;

/// The counts of durations from 0 to [`LONGEST_NS`].
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    buckets: Buckets,
    counts: Box<[u64]>,
    sum: u128,
    squares: u128,
    least: u64,
    greatest: u64,
}

/// The assignment of values to buckets: those below 2^`bits` one by one, above it
/// 2^(`bits` - 1) buckets for every doubling.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Buckets {
    bits: u32,
    digits: u8,
}

impl Buckets {
    #[inline]
    fn index(self, value: u64) -> usize {
        let doublings = 64 - (value | ((1 << self.bits) - 1)).leading_zeros() - self.bits;
        ((doublings as usize) << (self.bits - 1)) + (value >> doublings) as usize
    }

    /// Returns the largest value of a bucket.
    fn end(self, index: usize) -> u64 {
        let half = self.bits - 1;
        let doublings = (index >> half).saturating_sub(1);
        let place = (index - (doublings << half)) as u64;
        ((place + 1) << doublings) - 1
    }
}

impl Histogram {
    /// Returns an empty histogram precise to three digits (270 KB).
    #[must_use]
    pub fn new() -> Self {
        Self::of(Buckets {
            bits: 11,
            digits: 3,
        })
    }

    /// Returns an empty histogram precise to two digits (37 KB), for intervals.
    #[must_use]
    pub fn coarse() -> Self {
        Self::of(Buckets { bits: 8, digits: 2 })
    }

    fn of(buckets: Buckets) -> Self {
        Self {
            buckets,
            counts: vec![0; buckets.index(LONGEST_NS) + 1].into(),
            sum: 0,
            squares: 0,
            least: u64::MAX,
            greatest: 0,
        }
    }

    /// Counts one duration [ns]. Never allocates.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let value = value.min(LONGEST_NS);
        self.counts[self.buckets.index(value)] += 1;
        self.sum += u128::from(value);
        self.squares += u128::from(value) * u128::from(value);
        self.least = self.least.min(value);
        self.greatest = self.greatest.max(value);
    }

    /// Returns the buckets from that of the least value to that of the greatest: all others are empty.
    fn occupied(&self) -> Range<usize> {
        if self.least > self.greatest {
            return 0..0;
        }
        self.buckets.index(self.least)..self.buckets.index(self.greatest) + 1
    }

    /// Adds the counts of `other`, which must have the same precision.
    pub fn merge(&mut self, other: &Self) {
        debug_assert_eq!(self.buckets, other.buckets, "of the same precision");
        for index in other.occupied() {
            self.counts[index] += other.counts[index];
        }
        self.sum += other.sum;
        self.squares += other.squares;
        self.least = self.least.min(other.least);
        self.greatest = self.greatest.max(other.greatest);
    }

    /// Writes to all memory of an empty histogram, so that recording causes no page fault.
    pub(crate) fn touch(&mut self) {
        // The allocator returns zeros without writing them, and the compiler knows that.
        std::hint::black_box(&mut self.counts).fill(0);
    }

    /// Removes all counts; keeps the memory.
    pub fn clear(&mut self) {
        let occupied = self.occupied();
        self.counts[occupied].fill(0);
        (self.sum, self.squares) = (0, 0);
        (self.least, self.greatest) = (u64::MAX, 0);
    }

    /// Returns the number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts[self.occupied()].iter().sum()
    }

    /// Returns the sum of all durations [ns], exact.
    #[must_use]
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Returns the minimum [ns], exact; None if empty.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        (self.least <= self.greatest).then_some(self.least)
    }

    /// Returns the maximum [ns], exact (at most [`LONGEST_NS`]); None if empty.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (self.least <= self.greatest).then_some(self.greatest)
    }

    /// Returns the mean [ns] from the exact sum; None if empty.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum as f64 / count as f64)
    }

    /// Returns the sample standard deviation [ns]; None with fewer than two values.
    ///
    /// Exact except for the last rounding: squares are taken about the integer part of the mean, in integers,
    /// so that a small spread around a large mean is not lost by cancellation.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn sd(&self) -> Option<f64> {
        let count = u128::from(self.count());
        if count < 2 {
            return None;
        }
        let (whole, rest) = (self.sum / count, self.sum % count);
        let about = self.squares + count * whole * whole - 2 * whole * self.sum;
        let correction = rest as f64 * (rest as f64 / count as f64);
        Some(((about as f64 - correction).max(0.0) / (count - 1) as f64).sqrt())
    }

    /// Returns the value that a share `quantile` (0..=1) does not exceed, rounded up to its
    /// bucket's end but never above the maximum [ns]; None if empty.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        self.quantile_among(quantile, 0)
    }

    /// Returns the quantile of these values and of `missing` greater ones; None if empty, or if it
    /// lies among the missing.
    #[must_use]
    pub fn quantile_among(&self, quantile: f64, missing: u64) -> Option<u64> {
        let [found] = self.quantiles_among([quantile], missing);
        found
    }

    /// Returns several quantiles, which ascend, as [`quantile_among`](Self::quantile_among) does, in one pass.
    #[must_use]
    pub(crate) fn quantiles_among<const N: usize>(
        &self,
        quantiles: [f64; N],
        missing: u64,
    ) -> [Option<u64>; N] {
        let whole = self.count() + missing;
        let (mut index, mut below) = (self.occupied(), 0);
        let mut last = None;
        quantiles.map(|quantile| {
            let rank = rank(quantile, whole);
            while below < rank {
                let next = index.next()?;
                below += self.counts[next];
                last = Some(next);
            }
            let end = self.buckets.end(last?);
            Some(end.clamp(self.least, self.greatest))
        })
    }

    /// Returns the buckets in HdrHistogram's format V2, deflated, as base64.
    #[must_use]
    pub(crate) fn hdr(&self) -> String {
        let hdr = Hdr::new_with_bounds(1, LONGEST_NS, self.buckets.digits);
        let mut hdr = hdr.unwrap_or_else(|_| unreachable!("the bounds are constants"));
        for index in self.occupied() {
            if self.counts[index] > 0 {
                hdr.saturating_record_n(self.buckets.end(index), self.counts[index]);
            }
        }
        let mut bytes = Vec::new();
        let written = V2DeflateSerializer::new().serialize(&hdr, &mut bytes);
        debug_assert!(written.is_ok(), "a vector takes everything");
        STANDARD.encode(bytes)
    }

    /// Adds the counts of a histogram of the same precision that [`Self::hdr`] wrote. Its sums are not in the text: mean
    /// and standard deviation are not known afterwards.
    ///
    /// # Errors
    /// The text is not such a histogram: what is wrong, in words.
    pub(crate) fn add_hdr(&mut self, text: &str) -> Result<(), String> {
        let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
        let read = Deserializer::new().deserialize::<u64, _>(&mut &bytes[..]);
        let hdr = read.map_err(|error| format!("{error:?}"))?;
        if hdr.sigfig() != self.buckets.digits {
            let digits = hdr.sigfig();
            return Err(format!("{digits} digits, not {}", self.buckets.digits));
        }
        for bucket in hdr.iter_recorded() {
            let value = bucket.value_iterated_to().min(LONGEST_NS);
            self.counts[self.buckets.index(value)] += bucket.count_at_value();
            self.greatest = self.greatest.max(value);
        }
        if hdr.is_empty() {
            return Ok(());
        }
        // A bucket's end is not below any value in it, so the lower bound changes no quantile.
        self.least = 0;
        Ok(())
    }

    /// Sets the least and the greatest value, which the buckets have only approximately.
    pub(crate) fn bound(&mut self, least: u64, greatest: u64) {
        (self.least, self.greatest) = (least, greatest);
    }
}

/// Returns the rank, from 1, of the quantile among `count` values in order. The product is lowered by its own
/// rounding error: 0.07 of 100 values is the 7th, though 0.07 * 100 is above 7 in floats.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
fn rank(quantile: f64, count: u64) -> u64 {
    let exact = quantile.clamp(0.0, 1.0) * count as f64;
    ((exact * (1.0 - f64::EPSILON)).ceil() as u64).clamp(1, count.max(1))
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(mut empty: Histogram, values: &[u64]) -> Histogram {
        values.iter().for_each(|value| empty.record(*value));
        empty
    }

    fn of(values: &[u64]) -> Histogram {
        filled(Histogram::new(), values)
    }

    #[test]
    fn nothing_has_no_figures() {
        let none = Histogram::new();
        assert_eq!((none.count(), none.min(), none.max()), (0, None, None));
        assert_eq!(
            (none.mean(), none.sd(), none.quantile(0.5)),
            (None, None, None)
        );
    }

    #[test]
    fn figures_are_exact_where_they_can_be() {
        let few = of(&[1_000_000_001, 1_000_000_003, 1_000_000_008]);
        assert_eq!(few.mean(), Some(1_000_000_004.0));
        assert!((few.sd().unwrap() - 13f64.sqrt()).abs() < 1e-12);
        assert_eq!(
            (few.min(), few.max()),
            (Some(1_000_000_001), Some(1_000_000_008))
        );
        assert_eq!(few.quantile(1.0), Some(1_000_000_008));
        assert_eq!(of(&[7]).sd(), None);
    }

    #[test]
    fn missing_values_are_greater_than_all() {
        let few = of(&[10, 20, 30]);
        assert_eq!(few.quantile_among(0.5, 0), Some(20));
        assert_eq!(few.quantile_among(0.5, 2), Some(30));
        assert_eq!(few.quantile_among(0.5, 4), None);
    }

    #[test]
    fn what_is_too_long_is_one_hour() {
        let long = of(&[u64::MAX, u64::MAX]);
        assert_eq!((long.count(), long.max()), (2, Some(LONGEST_NS)));
        assert_eq!((long.mean(), long.sd()), (Some(3.6e12), Some(0.0)));
    }

    #[test]
    fn the_serialised_form_is_read_by_the_library() {
        let bytes = STANDARD.decode(of(&[0, 5, 5_000_000]).hdr()).unwrap();
        let back: Hdr<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .unwrap();
        assert_eq!((back.len(), back.count_at(5), back.count_at(0)), (3, 1, 1));
        assert_eq!((back.sigfig(), back.high()), (3, LONGEST_NS));
    }

    #[test]
    fn a_rank_is_not_raised_by_rounding() {
        assert_eq!(
            (rank(0.07, 100), rank(0.0, 100), rank(1.0, 100)),
            (7, 1, 100)
        );
        assert_eq!((rank(0.9999, 10_000), rank(0.9999, 10_001)), (9999, 10_000));
        assert_eq!(rank(0.999, 10), 10);
    }

    proptest! {
        #[test]
        fn the_buckets_are_the_librarys(value in 0..=LONGEST_NS, digits in 2..=3u8) {
            let ours = if digits == 3 { Histogram::new() } else { Histogram::coarse() };
            let hdr = Hdr::<u64>::new_with_bounds(1, LONGEST_NS, digits).unwrap();
            let end = ours.buckets.end(ours.buckets.index(value));
            prop_assert_eq!(end, hdr.highest_equivalent(value));
            let bytes = STANDARD.decode(filled(ours, &[value]).hdr()).unwrap();
            let back: Hdr<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
            prop_assert_eq!((back.len(), back.count_at(value)), (1, 1));
        }

        #[test]
        fn quantiles_are_within_a_thousandth(mut values in prop::collection::vec(0..LONGEST_NS, 1..200), q in 0.0..=1.0f64) {
            let got = of(&values).quantile(q).unwrap();
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1];
            prop_assert!(got >= exact && got - exact <= exact / 1000 + 1, "{got} for {exact}");
        }

        #[test]
        fn merging_is_recording_both(a in prop::collection::vec(any::<u64>(), 0..50), b in prop::collection::vec(any::<u64>(), 0..50)) {
            let (mut ab, mut ba) = (of(&a), of(&b));
            ab.merge(&of(&b));
            ba.merge(&of(&a));
            let both = of(&a.iter().chain(&b).copied().collect::<Vec<_>>());
            prop_assert_eq!(&ab, &both);
            prop_assert_eq!(&ba, &both);
        }
    }
}
