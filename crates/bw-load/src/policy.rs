//! What becomes of an operation that comes late, and of one that finds no room.
//!
//! Decision: lateness is judged once, when the operation is first taken from the agenda: from
//! then on a delay is the target's, not the generator's, and no policy hides it. What lost: fio's
//! silence (it drops the backlog of its rate on a think time, and catches up otherwise).
//! Source: mutilate's -S, pgbench's -L.

use bw_model::Nanos;
use serde::{Deserialize, Serialize};

/// An operation later than this is late to the burst policy: Buttress's own bound of accuracy.
pub const LATE: Nanos = Nanos(100_000);

/// What is done with operations that the generator comes to late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "policy", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Late {
    /// All are issued, at once; their response time counts from the intended start.
    #[default]
    CatchUp,
    /// Those later than `after_ns` are skipped, and counted.
    Skip {
        /// How late is too late.
        after_ns: Nanos,
    },
    /// Of an unbroken run of operations later than 100 us so many are issued, the rest skipped.
    Burst {
        /// How many.
        operations: u64,
    },
}

/// What is done with an operation that finds `depth` others in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Full {
    /// It waits for a free place, first come first served, and is counted as held.
    #[default]
    Queue,
    /// It is dropped, and counted.
    Drop,
}

/// Judges operations by the policy, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Judge {
    policy: Late,
    run: u64,
}

impl Judge {
    /// Returns a judge that has seen nothing late.
    #[must_use]
    pub fn new(policy: Late) -> Self {
        Self { policy, run: 0 }
    }

    /// Returns whether an operation that is so late is to be skipped.
    #[inline]
    pub fn skips(&mut self, lateness: Nanos) -> bool {
        match self.policy {
            Late::CatchUp => false,
            Late::Skip { after_ns } => lateness > after_ns,
            Late::Burst { operations } => {
                self.run = if lateness > LATE { self.run + 1 } else { 0 };
                self.run > operations
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catching_up_skips_nothing_and_skipping_skips_beyond_the_limit() {
        assert!(!Judge::new(Late::CatchUp).skips(Nanos::NEVER));
        let mut judge = Judge::new(Late::Skip {
            after_ns: Nanos(10),
        });
        assert_eq!([10, 11].map(|ns| judge.skips(Nanos(ns))), [false, true]);
    }

    #[test]
    fn a_burst_is_an_unbroken_run_of_late_ones() {
        let mut judge = Judge::new(Late::Burst { operations: 2 });
        let late = [LATE.0 + 1; 3];
        assert_eq!(late.map(|ns| judge.skips(Nanos(ns))), [false, false, true]);
        assert!(!judge.skips(LATE));
        assert_eq!(late.map(|ns| judge.skips(Nanos(ns))), [false, false, true]);
    }
}
