//! A histogram of lengths of time that never loses precision where it matters.
//!
//! Decision: buckets are an `HdrHistogram` (relative precision, lossless merging, a format that
//! other tools read); count, sum, sum of squares, least and greatest stand beside it as exact
//! integers, because a mean from buckets is off by up to half a bucket and a maximum by a whole one.
//! A t-digest lost: its merges depend on their order. Source: reference/load.md section 7.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

/// The longest time that is told apart: one hour [ns]. Longer ones are recorded as this.
pub const LONGEST_NS: u64 = 3_600_000_000_000;

/// How often each length of time happened, from 0 to [`LONGEST_NS`].
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    buckets: Hdr<u64>,
    sum: u128,
    squares: u128,
    least: u64,
    greatest: u64,
}

impl Histogram {
    /// Returns an empty histogram precise to three digits (270 KB).
    #[must_use]
    pub fn new() -> Self {
        Self::with_digits(3)
    }

    /// Returns an empty histogram precise to two digits (37 KB), for intervals.
    #[must_use]
    pub fn coarse() -> Self {
        Self::with_digits(2)
    }

    fn with_digits(digits: u8) -> Self {
        let buckets = Hdr::new_with_bounds(1, LONGEST_NS, digits);
        let mut buckets = buckets.unwrap_or_else(|_| unreachable!("the bounds are constants"));
        buckets.auto(false);
        Self {
            buckets,
            sum: 0,
            squares: 0,
            least: u64::MAX,
            greatest: 0,
        }
    }

    /// Counts one length of time [ns]. Never allocates.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let value = value.min(LONGEST_NS);
        self.buckets.saturating_record(value);
        self.sum += u128::from(value);
        self.squares += u128::from(value) * u128::from(value);
        self.least = self.least.min(value);
        self.greatest = self.greatest.max(value);
    }

    /// Adds what `other` counted, which must have the same precision.
    pub fn merge(&mut self, other: &Self) {
        let added = self.buckets.add(&other.buckets);
        debug_assert!(added.is_ok(), "both have the same range");
        self.sum += other.sum;
        self.squares += other.squares;
        self.least = self.least.min(other.least);
        self.greatest = self.greatest.max(other.greatest);
    }

    /// Forgets everything; keeps the memory.
    pub fn clear(&mut self) {
        self.buckets.reset();
        (self.sum, self.squares) = (0, 0);
        (self.least, self.greatest) = (u64::MAX, 0);
    }

    /// Returns how many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// Returns the least [ns], exactly; None if there is none.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.least)
    }

    /// Returns the greatest [ns], exactly (at most [`LONGEST_NS`]); None if there is none.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.greatest)
    }

    /// Returns the mean [ns] from the exact sum; None of nothing.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn mean(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum as f64 / self.count() as f64)
    }

    /// Returns the sample standard deviation [ns]; None of fewer than two.
    ///
    /// Exact but for the last rounding: squares are taken about the mean's whole part in integers,
    /// so that a small spread on top of a large mean does not cancel away.
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
    /// bucket's end but never above the greatest [ns]; None of nothing.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        (self.count() > 0).then(|| {
            let edge = self.buckets.value_at_quantile(quantile);
            edge.clamp(self.least, self.greatest)
        })
    }

    /// Returns the share of values at or below `value` (its bucket counted whole); None of nothing.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn share_up_to(&self, value: u64) -> Option<f64> {
        let value = value.min(LONGEST_NS);
        (self.count() > 0)
            .then(|| self.buckets.count_between(0, value) as f64 / self.count() as f64)
    }

    /// Returns the buckets in HdrHistogram's format V2, deflated, as base64.
    #[must_use]
    pub fn hdr(&self) -> String {
        let mut bytes = Vec::new();
        let written = V2DeflateSerializer::new().serialize(&self.buckets, &mut bytes);
        debug_assert!(written.is_ok(), "a vector takes everything");
        STANDARD.encode(bytes)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|value| histogram.record(*value));
        histogram
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

    proptest! {
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
