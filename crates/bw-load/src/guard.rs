//! How long before a deadline a worker stops sleeping and begins to spin.
//!
//! Decision: it follows the oversleep that the worker itself sees: up at once, down by a
//! thousandth of the distance with every good sleep, which holds it near the p99.9 of what happens here
//! and now. A fixed guard is too long on a quiet machine (spinning costs a core) and too short
//! on a busy one. It begins at its cap: an operation every 100 us is spun to from the start, since a sleep
//! of the rest gives the processor to others and learns at the cost of late operations. Timer slack must be 1 ns for this (seat.rs). Source: fio's nanosleep and
//! spin (time.c).

use bw_model::Nanos;

/// The adaptive guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    floor: u64,
    cap: u64,
    length: u64,
}

impl Guard {
    /// For real machines: between 20 us and 200 us.
    pub const REAL: Self = Self {
        floor: 20_000,
        cap: 200_000,
        length: 200_000,
    };
    /// For virtual time, where sleeping is exact.
    pub const NONE: Self = Self {
        floor: 0,
        cap: 0,
        length: 0,
    };

    /// Returns the present guard.
    #[inline]
    #[must_use]
    pub fn length(&self) -> Nanos {
        Nanos(self.length)
    }

    /// Learns that a sleep took so much longer than it should have.
    pub fn learn(&mut self, oversleep: Nanos) {
        let wanted = oversleep.0 + oversleep.0 / 8;
        let decayed = self.length - self.length.saturating_sub(wanted) / 1024;
        self.length = decayed.max(wanted).clamp(self.floor, self.cap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_at_once_down_slowly_within_its_bounds() {
        let mut guard = Guard::REAL;
        assert_eq!(guard.length(), Nanos(200_000));
        (0..100_000).for_each(|_| guard.learn(Nanos(0)));
        guard.learn(Nanos(100_000));
        assert_eq!(guard.length(), Nanos(112_500));
        guard.learn(Nanos(1_000));
        assert!(guard.length() < Nanos(112_500) && guard.length() > Nanos(112_000));
        (0..100_000).for_each(|_| guard.learn(Nanos(0)));
        assert!(guard.length() < Nanos(22_000) && guard.length() >= Nanos(20_000));
        guard.learn(Nanos(9_000_000));
        assert_eq!(guard.length(), Nanos(200_000));
    }

    #[test]
    fn in_virtual_time_there_is_none() {
        let mut guard = Guard::NONE;
        guard.learn(Nanos(5));
        assert_eq!(guard.length(), Nanos::ZERO);
    }
}
