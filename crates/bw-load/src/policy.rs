//! The policies for late operations and for operations without a free slot; and the spin margin.
//!
//! Decision: lateness is judged once, when the operation is first taken from the queue. From then on a delay is the
//! target's, not the generator's, and no policy hides it. Rejected: fio's policy (it drops the backlog of its rate on a
//! think time, and catches up otherwise, without reporting it). Sources: mutilate's -S, pgbench's -L.
//!
//! The spin margin is how long before a deadline a worker stops sleeping and starts to spin. It follows the oversleep
//! that the worker observes: up at once, down by a thousandth of the distance with every good sleep, which keeps it
//! near the p99.9. A fixed margin is too long on a quiet machine (spinning costs a core) and too short on a busy one. It
//! starts at its maximum, so with an operation every 100 us the worker spins from the start: learning by sleeping would
//! give the CPU to others and make operations late. Timer slack must be 1 ns for this. Source: fio's nanosleep and spin
//! (time.c).

use bw_model::Nanos;
use serde::{Deserialize, Serialize};

/// The burst policy treats operations later than this as late: Buttress's own bound of accuracy.
pub(crate) const LATE_FROM: Nanos = Nanos(100_000);

/// What happens to operations that the generator would issue late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "policy", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Late {
    /// All are issued at once; their response time counts from the intended start.
    #[default]
    CatchUp,
    /// Operations later than `after_ns` are skipped and counted.
    Skip {
        /// The lateness from which an operation is skipped.
        after_ns: Nanos,
    },
    /// In an unbroken run of operations later than 100 us this number is issued, and the rest is skipped.
    Burst {
        /// The number that is issued.
        operations: u64,
    },
}

/// What happens to an operation that finds `depth` others in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Full {
    /// It waits for a free slot, first come first served, and is counted as delayed (`held`).
    #[default]
    Queue,
    /// It is dropped and counted.
    Drop,
}

/// Applies the late policy to operations, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LateFilter {
    policy: Late,
    run: u64,
}

impl LateFilter {
    /// Returns a filter that has seen nothing late.
    #[must_use]
    pub(crate) fn new(policy: Late) -> Self {
        Self { policy, run: 0 }
    }

    /// Returns whether an operation with this lateness is to be skipped.
    #[inline]
    pub(crate) fn skips(&mut self, lateness: Nanos) -> bool {
        match self.policy {
            Late::CatchUp => false,
            Late::Skip { after_ns } => lateness > after_ns,
            Late::Burst { operations } => {
                self.run = if lateness > LATE_FROM {
                    self.run + 1
                } else {
                    0
                };
                self.run > operations
            }
        }
    }
}

/// How long before a deadline a worker stops sleeping and spins; adapted to the observed oversleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpinMargin {
    floor: u64,
    cap: u64,
    length: u64,
}

impl SpinMargin {
    /// For real machines: between 20 us and 200 us.
    pub(crate) const REAL: Self = Self {
        floor: 20_000,
        cap: 200_000,
        length: 200_000,
    };
    /// For virtual time, in which sleeping is exact.
    pub const NONE: Self = Self {
        floor: 0,
        cap: 0,
        length: 0,
    };

    /// Returns the present margin.
    #[inline]
    #[must_use]
    pub fn length(&self) -> Nanos {
        Nanos(self.length)
    }

    /// Adapts to a sleep that took `oversleep` too long.
    pub fn learn(&mut self, oversleep: Nanos) {
        let wanted = oversleep.0 + oversleep.0 / 8;
        let decayed = self.length - self.length.saturating_sub(wanted) / 1024;
        self.length = decayed.max(wanted).clamp(self.floor, self.cap);
    }
}

#[cfg(test)]
mod policy_tests {
    use super::*;

    #[test]
    fn catching_up_skips_nothing_and_skipping_skips_beyond_the_limit() {
        assert!(!LateFilter::new(Late::CatchUp).skips(Nanos::NEVER));
        let mut late_filter = LateFilter::new(Late::Skip {
            after_ns: Nanos(10),
        });
        assert_eq!(
            [10, 11].map(|ns| late_filter.skips(Nanos(ns))),
            [false, true]
        );
    }

    #[test]
    fn a_burst_is_an_unbroken_run_of_late_ones() {
        let mut late_filter = LateFilter::new(Late::Burst { operations: 2 });
        let late = [LATE_FROM.0 + 1; 3];
        assert_eq!(
            late.map(|ns| late_filter.skips(Nanos(ns))),
            [false, false, true]
        );
        assert!(!late_filter.skips(LATE_FROM));
        assert_eq!(
            late.map(|ns| late_filter.skips(Nanos(ns))),
            [false, false, true]
        );
    }
}

#[cfg(test)]
mod guard_tests {
    use super::*;

    #[test]
    fn up_at_once_down_slowly_within_its_bounds() {
        let mut spin_margin = SpinMargin::REAL;
        assert_eq!(spin_margin.length(), Nanos(200_000));
        (0..100_000).for_each(|_| spin_margin.learn(Nanos(0)));
        spin_margin.learn(Nanos(100_000));
        assert_eq!(spin_margin.length(), Nanos(112_500));
        spin_margin.learn(Nanos(1_000));
        assert!(spin_margin.length() < Nanos(112_500) && spin_margin.length() > Nanos(112_000));
        (0..100_000).for_each(|_| spin_margin.learn(Nanos(0)));
        assert!(spin_margin.length() < Nanos(22_000) && spin_margin.length() >= Nanos(20_000));
        spin_margin.learn(Nanos(9_000_000));
        assert_eq!(spin_margin.length(), Nanos(200_000));
    }

    #[test]
    fn in_virtual_time_there_is_none() {
        let mut spin_margin = SpinMargin::NONE;
        spin_margin.learn(Nanos(5));
        assert_eq!(spin_margin.length(), Nanos::ZERO);
    }
}
