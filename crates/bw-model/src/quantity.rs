//! Times and rates: two quantities that the engine must never confuse or round.
//!
//! Decision: a time is a whole number of nanoseconds since the start of the run in a `u64` (584 years). A rate is a
//! whole number of micro-operations per second, so the n-th arrival of a constant rate is computed exactly, with
//! integers. Rejected: a rate stored as a period in whole microseconds. It makes fio's Poisson arrivals 72 % too fast
//! at a million per second (fio 3.42, backend.c, `usec_for_io`).

use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Sub};

/// A point of time since the start of the run, or a length of time [ns].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The start of the run.
    pub const ZERO: Self = Self(0);
    /// Later than everything; "never" and "not yet".
    pub const NEVER: Self = Self(u64::MAX);
    /// One second.
    pub const SECOND: Self = Self(1_000_000_000);

    /// Returns the time since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// Returns the seconds as a float, for reports only.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add for Nanos {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.since(other)
    }
}

/// Operations per second, exact to a millionth of an operation per second; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Rate(u64);

impl Rate {
    /// Returns the rate of `micro_per_s` millionths of an operation per second; None for zero.
    #[must_use]
    pub fn from_micro_per_s(micro_per_s: u64) -> Option<Self> {
        (micro_per_s > 0).then_some(Self(micro_per_s))
    }

    /// Returns the rate in millionths of an operation per second.
    #[must_use]
    pub fn micro_per_s(self) -> u64 {
        self.0
    }

    /// Returns operations per second as a float.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn per_s(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns when arrival `index` (from 0) of a constant rate is due, rounded down [ns].
    #[must_use]
    #[allow(clippy::cast_possible_truncation)]
    pub fn arrival(self, index: u64) -> Nanos {
        let exact = u128::from(index) * 1_000_000_000_000_000 / u128::from(self.0);
        Nanos(exact.min(u128::from(u64::MAX)) as u64)
    }
}

impl TryFrom<u64> for Rate {
    type Error = &'static str;

    fn try_from(micro_per_s: u64) -> Result<Self, Self::Error> {
        Self::from_micro_per_s(micro_per_s).ok_or("a rate must be above zero")
    }
}

impl From<Rate> for u64 {
    fn from(rate: Rate) -> Self {
        rate.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_millionth_arrival_at_three_per_second_is_exact() {
        let rate = Rate::from_micro_per_s(3_000_000).unwrap();
        assert_eq!(rate.arrival(1), Nanos(333_333_333));
        assert_eq!(rate.arrival(3_000_000), Nanos(1_000_000_000_000_000));
    }

    #[test]
    fn a_rate_of_zero_is_refused() {
        assert!(Rate::from_micro_per_s(0).is_none());
        assert!(serde_like(0).is_err());
    }

    fn serde_like(value: u64) -> Result<Rate, &'static str> {
        Rate::try_from(value)
    }

    #[test]
    fn time_saturates_instead_of_wrapping() {
        assert_eq!(Nanos(3) - Nanos(5), Nanos::ZERO);
        assert_eq!(Nanos::NEVER + Nanos(1), Nanos::NEVER);
    }
}
