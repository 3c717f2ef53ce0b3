//! How the workers' clocks follow CLOCK_MONOTONIC during a run.
//!
//! NTP changes the rate of CLOCK_MONOTONIC, and the counter's own rate changes with its temperature. The reporter reads
//! both clocks about once a second and offers the workers the slope since the reading before. A worker turns towards the
//! line that this describes, so that it would meet it after twice the time between the readings: each offer halves its
//! error, down to that of a reading, however long the run is. Its clock bends but never steps. Twice, because one that
//! meets the line at the next reading overshoots where readings are irregular. Rejected: the average slope since the
//! start, with which an error never disappears (100 ppm, changed half-way through an hour, leave 0.1 s).

use crate::clock::counter::Pair;
use crate::sequence_lock::SequenceLock;

/// Minimum time between two readings from which a slope is offered: their error of about 50 ns is then below 0.1 ppm [ns].
pub(super) const WINDOW_NS: u64 = 1_000_000_000;

/// A clock is corrected by at most one thousandth, so that no measured time is wrong by more.
const MOST_CORRECTION: u64 = 1000;

/// Returns nanoseconds per tick between two readings, in units of 2^-32; None if the readings are equal.
#[must_use]
pub(super) fn slope(from: Pair, to: Pair) -> Option<u64> {
    let ticks = to
        .ticks
        .checked_sub(from.ticks)
        .filter(|ticks| *ticks > 0)?;
    let ns = u128::from(to.ns.checked_sub(from.ns)?);
    u64::try_from((ns << 32) / u128::from(ticks)).ok()
}

#[inline]
#[allow(clippy::cast_possible_truncation)] // 2^64 ns are 584 years
pub(super) fn to_ns(ticks: u64, slope: u64) -> u64 {
    ((u128::from(ticks) * u128::from(slope)) >> 32) as u64
}

/// What the reporter offers the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// A reading of both clocks.
    pub pair: Pair,
    /// Nanoseconds per tick before it, in units of 2^-32.
    pub slope: u64,
    /// The time in which a worker's error is to disappear [ns].
    pub horizon_ns: u64,
}

impl Offer {
    /// Returns CLOCK_MONOTONIC at `ticks` [ns].
    fn ns_at(&self, ticks: u64) -> u64 {
        let after = ticks.saturating_sub(self.pair.ticks);
        self.pair.ns.saturating_add(to_ns(after, self.slope))
    }
}

/// The readings of both clocks, as the reporter takes them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Readings {
    first: Pair,
    last: Pair,
    /// Between the first two.
    pub initial: u64,
    /// Of the last offer.
    pub slope: u64,
    /// Between the first and the latest.
    pub average: u64,
}

impl Readings {
    /// Starts with two readings; None if the counter did not advance between them.
    pub(super) fn new(first: Pair, last: Pair) -> Option<Self> {
        let initial = slope(first, last).filter(|slope| *slope > 0)?;
        Some(Self {
            first,
            last,
            initial,
            slope: initial,
            average: initial,
        })
    }

    /// Adds a reading; returns what it offers, if the one before was long enough ago.
    pub(super) fn add(&mut self, pair: Pair) -> Option<Offer> {
        self.average = slope(self.first, pair).unwrap_or(self.average);
        let window_ns = pair.ns.saturating_sub(self.last.ns);
        if window_ns < WINDOW_NS {
            return None;
        }
        let measured = slope(self.last, pair).filter(|slope| *slope > 0)?;
        (self.last, self.slope) = (pair, measured);
        Some(Offer {
            pair,
            slope: measured,
            horizon_ns: window_ns.saturating_mul(2),
        })
    }
}

/// Hands the latest offer from the reporter to the workers. A worker that comes while it changes has none, and reads again
/// shortly after.
#[derive(Debug)]
pub(super) struct OfferCell(SequenceLock<4>);

impl OfferCell {
    /// Returns a cell without an offer.
    pub(super) fn new() -> Self {
        Self(SequenceLock::new())
    }

    /// Stores an offer; only one thread may do so.
    pub(super) fn write(&self, offer: Offer) {
        let Pair { ticks, ns } = offer.pair;
        self.0.write([ticks, ns, offer.slope, offer.horizon_ns]);
    }

    /// Returns the latest offer and its version, unless that is `seen`.
    pub(super) fn read(&self, seen: u64) -> Option<(u64, Offer)> {
        let (version, [ticks, ns, slope, horizon_ns]) = self.0.read(seen)?;
        let pair = Pair { ticks, ns };
        let offer = Offer {
            pair,
            slope,
            horizon_ns,
        };
        Some((version, offer))
    }
}

/// A worker's clock: a line through the counter's readings, with a bend at each offer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// CLOCK_MONOTONIC at zero [ns].
    pub zero_ns: u64,
    pub anchor_ticks: u64,
    pub anchor_ns: u64,
    pub slope: u64,
}

impl Line {
    /// Returns the time since zero at `ticks` [ns]; zero before it.
    #[inline]
    pub(super) fn at(&self, ticks: u64) -> u64 {
        self.anchor_ns + to_ns(ticks.saturating_sub(self.anchor_ticks), self.slope)
    }

    /// Bends the line at `ticks`: the time there stays the same, the slope after it is `slope`.
    pub(super) fn bend(&mut self, ticks: u64, slope: u64) {
        if ticks > self.anchor_ticks {
            self.anchor_ns = self.at(ticks);
            self.anchor_ticks = ticks;
        }
        self.slope = slope;
    }

    /// Turns towards CLOCK_MONOTONIC at `ticks`, so as to meet it after the horizon of the offer.
    pub(super) fn steer(&mut self, ticks: u64, offer: Offer) {
        if ticks <= self.anchor_ticks {
            return;
        }
        let horizon = i128::from(offer.horizon_ns.max(1));
        let most = horizon / i128::from(MOST_CORRECTION);
        let due = i128::from(offer.ns_at(ticks)) - i128::from(self.zero_ns);
        let error = (i128::from(self.at(ticks)) - due).clamp(-most, most);
        let slope = i128::from(offer.slope) * (horizon - error) / horizon;
        // The correction is at most a thousandth, so the slope stays positive and in range.
        self.bend(ticks, u64::try_from(slope).unwrap_or(offer.slope));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HZ: u64 = 3_000_000_000;
    const HOUR_NS: u64 = 3_600_000_000_000;

    /// A counter of 3 GHz, and a CLOCK_MONOTONIC that is faster by `ppm` from the middle of an hour on.
    struct Machine {
        ppm: i64,
        random: u64,
    }

    impl Machine {
        fn ns(&self, ticks: u64) -> u64 {
            let ns = ticks / (HZ / 1_000_000_000);
            let beyond = ns.saturating_sub(HOUR_NS / 2);
            let more = i128::from(beyond) * i128::from(self.ppm) / 1_000_000;
            ns.saturating_add_signed(i64::try_from(more).unwrap())
        }

        /// Returns a number below `most`: a generator of full period, enough for noise.
        fn below(&mut self, most: u64) -> u64 {
            self.random = (self.random)
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.random >> 33) % most
        }

        /// Returns a reading whose two parts are up to 50 ns apart.
        fn pair(&mut self, ticks: u64) -> Pair {
            let ns = self.ns(ticks) + 1000 - 50 + self.below(101);
            Pair {
                ticks: ticks + 3000,
                ns,
            }
        }
    }

    /// Runs an hour; returns the greatest error before the change, after it, and at the end [ns].
    fn hour(ppm: i64, windows_ms: std::ops::Range<u64>) -> [u64; 3] {
        let mut machine = Machine { ppm, random: 7 };
        let (first, second) = (machine.pair(0), machine.pair(HZ * 60 / 1000));
        let mut readings = Readings::new(first, second).unwrap();
        let mut line = Line {
            zero_ns: 100_000_000,
            anchor_ticks: HZ / 10,
            anchor_ns: 0,
            slope: readings.slope,
        };
        let (mut ticks, mut before, mut greatest) = (HZ / 10, 0, [0, 0, 0]);
        while ticks < HOUR_NS / 1_000_000_000 * HZ {
            let window_ms = windows_ms.start + machine.below(windows_ms.end - windows_ms.start);
            ticks += HZ / 1000 * window_ms;
            let offer = readings.add(machine.pair(ticks));
            // The worker comes to it up to 0.9 s later.
            let later = ticks + HZ / 1000 * machine.below(900);
            let now = line.at(later);
            assert!(now >= before, "the clock never steps back");
            before = now;
            let error = (now + line.zero_ns).abs_diff(machine.ns(later));
            // The first seconds have the error of a calibration of 60 ms.
            let changed = machine.ns(later) > HOUR_NS / 2;
            if ticks > 5 * HZ {
                greatest[usize::from(changed)] = error.max(greatest[usize::from(changed)]);
            }
            greatest[2] = error;
            if let Some(offer) = offer {
                line.steer(later, offer);
            }
        }
        greatest
    }

    #[test]
    fn after_a_change_of_the_rate_the_clock_converges() {
        for ppm in [100, -100, 1, 500] {
            let [before, after, end] = hour(ppm, 1000..1100);
            assert!(
                before < 1_000 && end < 1_000,
                "{ppm}: {before} {after} {end}"
            );
            // It follows within about four seconds.
            assert!(after < 1_000 + 4_000 * ppm.unsigned_abs(), "{ppm}: {after}");
        }
    }

    #[test]
    fn irregular_readings_do_no_harm() {
        let [before, _, end] = hour(100, 1000..3000);
        assert!(before < 2_000 && end < 2_000, "{before} {end}");
    }

    #[test]
    fn readings_close_together_offer_nothing_and_count_for_the_average() {
        let mut machine = Machine { ppm: 0, random: 1 };
        let (first, second) = (machine.pair(0), machine.pair(HZ / 10));
        let mut readings = Readings::new(first, second).unwrap();
        assert_eq!(readings.add(machine.pair(HZ / 5)), None);
        assert!(readings.add(machine.pair(HZ * 2)).is_some());
        assert_eq!(Readings::new(second, second).map(|one| one.slope), None);
    }

    #[test]
    fn an_offer_is_read_once() {
        let cell = OfferCell::new();
        assert_eq!(cell.read(0), None);
        let offer = Offer {
            pair: Pair { ticks: 1, ns: 2 },
            slope: 3,
            horizon_ns: 4,
        };
        cell.write(offer);
        let (version, read) = cell.read(0).unwrap();
        assert_eq!((read, cell.read(version)), (offer, None));
    }
}
