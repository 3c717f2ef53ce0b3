//! The distribution of one time: an HdrHistogram, and the exact sums beside it.
//!
//! Decision: the hot loop records into hdrhistogram itself (about 2 ns a value, measured), so
//! that nothing is converted and every tool of that family can read the result. Mean and
//! deviation come from exact integer sums, not from the middle of buckets.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bw_units::Nanos;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde::Serialize;

/// One hour: what is longer is recorded as one hour, and its exact size stands in `max`.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// A distribution of times [ns].
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    histogram: Histogram<u64>,
    sum: u128,
    sum_of_squares: u128,
    max: u64,
}

impl Distribution {
    /// Returns an empty distribution that tells values apart to so many significant digits (1 to 5).
    ///
    /// # Panics
    /// With other digits: a programmer's error.
    #[must_use]
    pub fn new(digits: u8) -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, digits);
        assert!(histogram.is_ok(), "1 to 5 digits, not {digits}");
        Self {
            histogram: histogram.unwrap_or_else(|_| unreachable!()),
            sum: 0,
            sum_of_squares: 0,
            max: 0,
        }
    }

    /// Records one time.
    #[inline]
    pub fn record(&mut self, time: Nanos) {
        self.histogram.saturating_record(time.0);
        self.sum += u128::from(time.0);
        self.sum_of_squares += u128::from(time.0) * u128::from(time.0);
        self.max = self.max.max(time.0);
    }

    /// Takes in what another one recorded; the order of mergings changes nothing.
    pub fn merge(&mut self, other: &Self) {
        // Both have the same bounds, and other digits only lose precision: this cannot fail.
        let merged = self.histogram.add(&other.histogram);
        debug_assert!(merged.is_ok());
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
        self.max = self.max.max(other.max);
    }

    /// Forgets everything, and keeps the memory.
    pub fn clear(&mut self) {
        self.histogram.reset();
        (self.sum, self.sum_of_squares, self.max) = (0, 0, 0);
    }

    /// Returns how many were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the longest, exactly; None if there is none [ns].
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.max)
    }

    /// Returns the smallest recorded time that at least this share (0 to 1) do not exceed; None if there is none [ns].
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        (self.count() > 0).then(|| self.histogram.value_at_quantile(share).min(self.max))
    }

    /// Returns the figures for a report.
    #[must_use]
    pub fn summary(&self) -> DistributionSummary {
        let at = |share| self.quantile(share);
        DistributionSummary {
            count: self.count(),
            mean: self.mean(),
            sd: self.deviation(),
            min: (self.count() > 0).then(|| self.histogram.min().min(self.max)),
            max: self.max(),
            p50: at(0.50),
            p90: at(0.90),
            p95: at(0.95),
            p98: at(0.98),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            hdr: self.encoded(),
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn mean(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum as f64 / self.count() as f64)
    }

    /// The sample standard deviation; None below two values.
    #[allow(clippy::cast_precision_loss)]
    fn deviation(&self) -> Option<f64> {
        let count = u128::from(self.count());
        if count < 2 {
            return None;
        }
        // n * sum of squares - square of the sum, exactly where 128 bits hold it.
        let spread = match (
            count.checked_mul(self.sum_of_squares),
            self.sum.checked_mul(self.sum),
        ) {
            (Some(squares), Some(square)) => squares.saturating_sub(square) as f64,
            _ => (count as f64 * self.sum_of_squares as f64 - (self.sum as f64).powi(2)).max(0.0),
        };
        Some((spread / (count as f64 * (count - 1) as f64)).sqrt())
    }

    /// The histogram in HdrHistogram's V2 form, deflated, as base64; None if it is empty.
    fn encoded(&self) -> Option<String> {
        let mut bytes = Vec::new();
        let written = V2DeflateSerializer::new().serialize(&self.histogram, &mut bytes);
        (self.count() > 0 && written.is_ok()).then(|| STANDARD.encode(bytes))
    }
}

/// A distribution's figures [ns]. What does not exist is null.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DistributionSummary {
    /// How many samples stand behind the other figures.
    pub count: u64,
    /// The arithmetic mean, exact.
    pub mean: Option<f64>,
    /// The sample standard deviation.
    pub sd: Option<f64>,
    /// The shortest.
    pub min: Option<u64>,
    /// The longest, exactly.
    pub max: Option<u64>,
    /// The median.
    pub p50: Option<u64>,
    /// The 90th percentile.
    pub p90: Option<u64>,
    /// The 95th percentile.
    pub p95: Option<u64>,
    /// The 98th percentile.
    pub p98: Option<u64>,
    /// The 99th percentile.
    pub p99: Option<u64>,
    /// The 99.9th percentile.
    #[serde(rename = "p99.9")]
    pub p99_9: Option<u64>,
    /// The 99.99th percentile.
    #[serde(rename = "p99.99")]
    pub p99_99: Option<u64>,
    /// The whole histogram: base64 of HdrHistogram V2, deflated.
    pub hdr: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;
    use proptest::prelude::*;

    fn of(times: &[u64]) -> Distribution {
        let mut made = Distribution::new(3);
        times.iter().for_each(|time| made.record(Nanos(*time)));
        made
    }

    #[test]
    fn nothing_recorded_has_no_figures() {
        let summary = Distribution::new(3).summary();
        assert_eq!((summary.count, summary.p50, summary.max), (0, None, None));
        assert_eq!((summary.mean, summary.sd, summary.hdr), (None, None, None));
    }

    #[test]
    fn figures_of_known_times() {
        let summary = of(&[1000, 2000, 3000, 4000]).summary();
        assert_eq!(summary.mean, Some(2500.0));
        assert!((summary.sd.unwrap() - 1290.994_448_735_805_6).abs() < 1e-9);
        assert_eq!((summary.min, summary.max), (Some(1000), Some(4000)));
        assert_eq!(summary.p50, Some(2000));
    }

    #[test]
    fn a_time_beyond_an_hour_is_counted_and_its_size_kept() {
        let made = of(&[LONGEST_NS * 5]);
        assert_eq!((made.count(), made.max()), (1, Some(LONGEST_NS * 5)));
        assert!(made.quantile(0.5).unwrap() >= LONGEST_NS / 1000 * 999);
    }

    #[test]
    fn the_encoded_histogram_is_read_by_the_library() {
        let text = of(&[100, 5000, 5000]).summary().hdr.unwrap();
        let bytes = STANDARD.decode(text).unwrap();
        let read: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .unwrap();
        assert_eq!((read.len(), read.count_at(5000)), (3, 2));
    }

    proptest! {
        #[test]
        fn merging_is_recording_everything_in_one(
            left in prop::collection::vec(0..LONGEST_NS * 2, 0..50),
            right in prop::collection::vec(0..LONGEST_NS * 2, 0..50),
        ) {
            let whole = of(&[left.clone(), right.clone()].concat());
            let (mut one, mut other) = (of(&left), of(&right));
            one.merge(&of(&right));
            other.merge(&of(&left));
            prop_assert_eq!(one.summary(), whole.summary());
            prop_assert_eq!(other.summary(), whole.summary());
        }

        #[test]
        fn a_quantile_is_within_a_thousandth_of_the_exact_one(
            mut times in prop::collection::vec(1..10_000_000_u64, 1..200),
            share in 0.01..1.0_f64,
        ) {
            let made = of(&times).quantile(share).unwrap();
            times.sort_unstable();
            #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let rank = ((times.len() as f64 * share).ceil() as usize).clamp(1, times.len());
            let exact = times[rank - 1];
            prop_assert!(made >= exact && made <= exact + exact / 1000 + 1, "{made} {exact}");
        }
    }
}
