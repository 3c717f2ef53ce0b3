//! The policies for late operations and for operations without a free slot; the spin margin; busy polling.
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
//!
//! A worker that spins uses up its share of a CPU that others want too. The scheduler then lets it wait for whole slices of the
//! others: milliseconds, in which everything due is late. A worker that mostly sleeps keeps its claim, and preempts them when it
//! wakes. So a worker that lost 2 % of a second by preemptions while it spun sleeps until shortly before its deadlines
//! for a while. Rejected: `sched_yield`, which gives up the CPU and the claim.
//!
//! The reap margin is the time before an operation in which no completions are taken, because a call that takes them and
//! begins just before the operation is due would delay it. It follows the longest recent call in the same way. Rejected: a
//! fixed 1 us; a call that enters the kernel takes 2 to 4 us.
//!
//! Busy polling is to look for replies for a short time before a sleep. The server's next reply then need not wake the
//! worker, which costs both of them CPU time and, in a virtual machine, an exit to the hypervisor. Decision: only for waits
//! without a deadline nearby, so of closed loops and of low rates, and only as long as replies come within that time.
//! Rejected: `SO_BUSY_POLL`, which does nothing on loopback; `SO_RCVLOWAT`, with which the end of an operation would be seen late.

use bw_model::Nanos;
use bw_sys::clock::monotonic_ns;
use serde::{Deserialize, Serialize};
use std::io;

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
    pub const REAL: Self = Self {
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

    /// Returns the margin of a worker that should hardly spin.
    #[must_use]
    pub(crate) fn shortest(&self) -> Nanos {
        Nanos(self.floor)
    }

    /// Adapts to a sleep that took `oversleep` too long.
    pub fn learn(&mut self, oversleep: Nanos) {
        let wanted = oversleep.0 + oversleep.0 / 8;
        let decayed = self.length - self.length.saturating_sub(wanted) / 1024;
        self.length = decayed.max(wanted).clamp(self.floor, self.cap);
    }
}

/// Whether others compete for the worker's CPU, so that it should not spin: for a while after it lost much time by preemptions
/// while it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contention {
    /// The count of preemptions when it was last looked at.
    preemptions: u64,
    /// Since when `lost` is counted.
    since: Nanos,
    /// The time lost by preemptions since then.
    lost: Nanos,
    until: Nanos,
    length: Nanos,
}

impl Contention {
    /// A gap between two readings of the clock from which on a spinning worker asks whether it was preempted.
    pub(crate) const GAP: Nanos = Nanos(100_000);
    /// The share of a window of time that may be lost: who mostly has the CPU is best off spinning.
    const TOLERATED: Nanos = Nanos(20_000_000);
    const WINDOW: Nanos = Nanos(1_000_000_000);
    /// For how long a worker does not spin; twice as long each time that it is preempted again soon afterwards.
    const SHORTEST: Nanos = Nanos(1_000_000_000);
    const LONGEST: Nanos = Nanos(16_000_000_000);

    /// Notes the thread's count of preemptions after a gap of this length, at `now`.
    pub(crate) fn learn(&mut self, preemptions: u64, gap: Nanos, now: Nanos) {
        if preemptions == self.preemptions {
            // The hypervisor or an interrupt: no claim to a CPU helps against those.
            return;
        }
        self.preemptions = preemptions;
        if now.since(self.since) > Self::WINDOW {
            (self.since, self.lost) = (now, Nanos::ZERO);
        }
        self.lost += gap;
        if self.lost < Self::TOLERATED {
            return;
        }
        self.lost = Nanos::ZERO;
        self.length = if now.since(self.until) <= self.length {
            Nanos(self.length.0 * 2).clamp(Self::SHORTEST, Self::LONGEST)
        } else {
            Self::SHORTEST
        };
        self.until = now + self.length;
    }

    /// Returns whether the worker should sleep up to its deadlines.
    #[inline]
    pub(crate) fn is_contended(&self, now: Nanos) -> bool {
        now < self.until
    }
}

/// How long before an operation is due no completions are taken: as long as the longest recent call that took some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReapMargin {
    floor: u64,
    length: u64,
}

impl ReapMargin {
    /// Completions wait at most this long for an operation; a longer call was interrupted by something else.
    const CAP: u64 = 8_000;

    /// Returns a margin that is never shorter than `floor`.
    #[must_use]
    pub(crate) fn new(floor: Nanos) -> Self {
        Self {
            floor: floor.0,
            length: floor.0,
        }
    }

    /// Returns the present margin.
    #[inline]
    #[must_use]
    pub(crate) fn length(&self) -> Nanos {
        Nanos(self.length)
    }

    /// Adapts to a call that took `length`: up at once, down by a sixty-fourth of the distance.
    #[inline]
    pub(crate) fn learn(&mut self, length: Nanos) {
        let wanted = length.0.min(Self::CAP).max(self.floor);
        let decayed = self.length - self.length.saturating_sub(wanted).div_ceil(64);
        self.length = decayed.max(wanted);
    }
}

/// Decides how long a wait polls before it sleeps; adapted to how often that found something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BusyPolling {
    /// Polls that found something, less those that did not, between 0 and [`Self::MOST_CREDIT`].
    credit: u32,
    /// Waits since the last one that polled.
    waits: u32,
}

impl BusyPolling {
    /// How long a wait polls: about what a sleep and its end cost.
    const LENGTH: Nanos = Nanos(20_000);
    /// A wait that may last less long does not poll: its worker has an operation to issue soon.
    const SHORTEST_WAIT: Nanos = Nanos(5_000_000);
    const MOST_CREDIT: u32 = 16;
    /// Without credit one wait of so many polls, as a trial.
    const TRIAL: u32 = 256;

    /// Returns how long a wait of at most this length polls.
    #[inline]
    pub(crate) fn length(&mut self, at_most: Nanos) -> Nanos {
        if at_most < Self::SHORTEST_WAIT {
            return Nanos::ZERO;
        }
        self.waits += 1;
        if self.credit == 0 && self.waits < Self::TRIAL {
            return Nanos::ZERO;
        }
        self.waits = 0;
        Self::LENGTH
    }

    /// Looks for something at the start of a wait of at most this length, for as long as a wait polls; returns whether `look`
    /// found it.
    ///
    /// # Errors
    /// Those of `look`.
    pub(crate) fn poll(
        &mut self,
        at_most: Nanos,
        mut look: impl FnMut() -> io::Result<bool>,
    ) -> io::Result<bool> {
        let length = self.length(at_most);
        if length == Nanos::ZERO {
            return Ok(false);
        }
        let until_ns = monotonic_ns() + length.0;
        let mut found = false;
        while !found && monotonic_ns() < until_ns {
            found = look()?;
        }
        self.learn(found);
        Ok(found)
    }

    /// Adapts to a wait that polled, and found something or not.
    #[inline]
    pub(crate) fn learn(&mut self, found: bool) {
        self.credit = if found {
            Self::MOST_CREDIT.min(self.credit + 1)
        } else {
            self.credit.saturating_sub(1)
        };
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
mod contention_tests {
    use super::*;

    const SECOND: Nanos = Nanos::SECOND;

    #[test]
    fn each_preemption_soon_after_the_last_one_doubles_the_time_without_spinning() {
        let mut contention = Contention::default();
        let mut now = Nanos(5_000_000_000);
        for (count, seconds) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 16)] {
            contention.learn(count, Contention::TOLERATED, now);
            let end = now + Nanos(seconds * SECOND.0);
            assert!(contention.is_contended(end - Nanos(1)), "{count}");
            assert!(!contention.is_contended(end), "{count}");
            now = end;
        }
        now += Nanos(17 * SECOND.0);
        contention.learn(7, Contention::TOLERATED, now);
        assert!(!contention.is_contended(now + SECOND));
    }

    #[test]
    fn a_gap_without_a_preemption_changes_nothing() {
        let mut contention = Contention::default();
        contention.learn(0, SECOND, SECOND);
        assert!(!contention.is_contended(SECOND));
        contention.learn(3, SECOND, SECOND);
        contention.learn(3, SECOND, Nanos(2 * SECOND.0));
        assert!(!contention.is_contended(Nanos(2 * SECOND.0)));
    }

    #[test]
    fn a_preemption_now_and_then_changes_nothing() {
        let mut contention = Contention::default();
        for count in 1..100 {
            let now = Nanos(count * 200_000_000);
            contention.learn(count, Nanos(3_000_000), now);
            assert!(!contention.is_contended(now), "{count}");
        }
        let now = Nanos(20_000_000_000);
        (100..107).for_each(|count| contention.learn(count, Nanos(3_000_000), now));
        assert!(contention.is_contended(now));
    }
}

#[cfg(test)]
mod reap_margin_tests {
    use super::*;

    #[test]
    fn it_follows_the_longest_recent_call_within_its_bounds() {
        let mut margin = ReapMargin::new(Nanos(1_000));
        margin.learn(Nanos(300));
        assert_eq!(margin.length(), Nanos(1_000));
        margin.learn(Nanos(4_200));
        assert_eq!(margin.length(), Nanos(4_200));
        margin.learn(Nanos(1_000));
        assert_eq!(margin.length(), Nanos(4_150));
        (0..1000).for_each(|_| margin.learn(Nanos(1_500)));
        assert_eq!(margin.length(), Nanos(1_500));
        margin.learn(Nanos(2_000_000));
        assert_eq!(margin.length(), Nanos(ReapMargin::CAP));
    }
}

#[cfg(test)]
mod busy_polling_tests {
    use super::*;

    const LONG: Nanos = Nanos(20_000_000);

    /// Returns how many of these waits polled, if polls find something or not.
    fn polled(busy_polling: &mut BusyPolling, waits: u32, found: bool) -> u32 {
        let mut count = 0;
        for _ in 0..waits {
            let length = busy_polling.length(LONG);
            if length > Nanos::ZERO {
                count += 1;
                busy_polling.learn(found);
            }
        }
        count
    }

    #[test]
    fn it_goes_on_while_replies_come_soon_and_is_tried_now_and_then_otherwise() {
        let mut busy_polling = BusyPolling::default();
        assert_eq!(polled(&mut busy_polling, 2560, false), 10);
        assert_eq!(polled(&mut busy_polling, 256, true), 1);
        assert_eq!(polled(&mut busy_polling, 1000, true), 1000);
        assert_eq!(polled(&mut busy_polling, 256, false), 16);
    }

    #[test]
    fn a_wait_before_an_operation_does_not_poll() {
        let mut busy_polling = BusyPolling::default();
        polled(&mut busy_polling, 1000, true);
        assert_eq!(busy_polling.length(Nanos(4_999_999)), Nanos::ZERO);
        assert!(busy_polling.length(Nanos(5_000_000)) > Nanos::ZERO);
    }
}

#[cfg(test)]
mod spin_margin_tests {
    use super::*;

    #[test]
    fn it_grows_at_once_and_falls_slowly_within_its_bounds() {
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
