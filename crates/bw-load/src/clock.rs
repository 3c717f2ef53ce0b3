//! The clocks of a run: the trait, the kernel's clock, the time stamp counter, and a clock that tests advance.
//!
//! Decision: the worker is generic over its clock, so the loop that runs in real time also runs in a simulation. A run's
//! clock is an enum (`RunClock`) of the kernel's clock and the counter.
//!
//! The counter (`counter`) is used only where the kernel itself trusts it, which is looked at again during the run. Its slope
//! is measured against `CLOCK_MONOTONIC` over 60 ms at the start and about once a second afterwards (`steering`). Rejected:
//! `quanta` (calibrates once, no drift), `minstant` and `fastant` (hide the policy). The conversion is one 64x64-bit
//! multiplication.

mod counter;
mod steering;

use self::counter::Pair;
pub(crate) use self::counter::invariant_tsc;
use self::steering::{Line, OfferCell, Readings};
use bw_model::EngineError;
use bw_model::Nanos;
use bw_sys::clock::monotonic_ns;
use bw_sys::cpus::ask_for_short_slices;
use bw_sys::process::thread_preemptions;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The shortest time slice that Linux allows.
const SHORT_SLICE_NS: u64 = 100_000;

/// Reads the time since the start of the run. Each worker has its own copy.
pub trait Clock {
    /// Returns the time since the start of the run; zero before it. Never steps backwards.
    fn now(&mut self) -> Nanos;

    /// Sleeps for about `length`; a signal or the kernel may end the sleep early or late.
    fn sleep(&mut self, length: Nanos) {
        bw_sys::clock::sleep(length.0);
    }

    /// Adopts a better slope, if the clock has one. Called between operations.
    fn refine(&mut self) {}

    /// Returns how often the calling thread was preempted.
    fn preemptions(&self) -> u64 {
        thread_preemptions()
    }

    /// Asks for short time slices, or for those of other threads. A thread that mostly sleeps preempts others by them when it
    /// wakes; one that spins is only interrupted more often.
    fn want_short_slices(&self, short: bool) {
        ask_for_short_slices(if short { SHORT_SLICE_NS } else { 0 });
    }
}

/// `CLOCK_MONOTONIC`, counted from the start of the run.
#[derive(Clone, Copy, Debug)]
pub struct Monotonic {
    zero_ns: u64,
}

impl Monotonic {
    /// Returns a clock that reads zero at `zero_ns` of `CLOCK_MONOTONIC`, and before it.
    #[must_use]
    pub(crate) fn starting_at(zero_ns: u64) -> Self {
        Self { zero_ns }
    }
}

impl Clock for Monotonic {
    fn now(&mut self) -> Nanos {
        Nanos(monotonic_ns().saturating_sub(self.zero_ns))
    }
}

/// A clock that moves only when someone sleeps on it. Copies show the same time.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock {
    time: Rc<Cell<u64>>,
    cost: u64,
}

impl VirtualClock {
    /// Returns a clock at zero whose every reading takes `cost`: a generator of limited speed.
    #[must_use]
    pub fn with_cost(cost: Nanos) -> Self {
        Self {
            time: Rc::default(),
            cost: cost.0,
        }
    }

    /// Moves the time forward by `length`.
    pub fn advance(&self, length: Nanos) {
        self.time.set(self.time.get().saturating_add(length.0));
    }
}

impl Clock for VirtualClock {
    fn now(&mut self) -> Nanos {
        let time = self.time.get();
        self.time.set(time + self.cost);
        Nanos(time)
    }

    fn sleep(&mut self, length: Nanos) {
        self.advance(length);
    }

    // Nothing preempts anyone in virtual time.
    fn preemptions(&self) -> u64 {
        0
    }

    fn want_short_slices(&self, _short: bool) {}
}

/// Minimum duration of the first calibration [ns].
const CALIBRATION_NS: u64 = 60_000_000;

/// The relation of the counter to time: measured at the start, and about once a second during the run.
#[derive(Debug)]
pub(crate) struct Calibration {
    state: Mutex<CalibrationState>,
    offers: Arc<OfferCell>,
}

/// What the reporter alone changes.
#[derive(Debug)]
struct CalibrationState {
    readings: Readings,
    /// Why the counter should not have been used, if that became known during the run.
    unsound: Option<String>,
}

impl Calibration {
    /// Measures the counter's rate; takes about 60 ms.
    ///
    /// # Errors
    /// The counter did not move, or is not usable as a clock here: in words.
    pub(crate) fn measure() -> Result<Self, String> {
        counter::sound()?;
        let first = Pair::read();
        // A signal ends a sleep early, and a slope over a short time is inaccurate.
        let end = first.ns + CALIBRATION_NS;
        while let left @ 1.. = end.saturating_sub(monotonic_ns()) {
            bw_sys::clock::sleep(left);
        }
        let readings = Readings::new(first, Pair::read());
        let readings = readings.ok_or("the counter did not advance during its calibration")?;
        Ok(Self {
            state: Mutex::new(CalibrationState {
                readings,
                unsound: None,
            }),
            offers: Arc::new(OfferCell::new()),
        })
    }

    /// Returns the state. Only the reporter and workers that start take the lock.
    fn state(&self) -> MutexGuard<'_, CalibrationState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads both clocks, and offers the workers' clocks the slope. Checks whether the kernel still trusts the counter.
    pub(crate) fn refine(&self) {
        self.refine_from(Pair::read(), counter::sound);
    }

    fn refine_from(&self, pair: Pair, sound: impl Fn() -> Result<(), String>) {
        let mut state = self.state();
        if let Some(offer) = state.readings.add(pair) {
            self.offers.write(offer);
            // The first reason stays: the kernel does not return to a counter that it left.
            state.unsound = state.unsound.take().or_else(|| sound().err());
        }
    }

    /// Returns the clock's part of the result.
    #[allow(clippy::cast_precision_loss)]
    fn report(&self) -> ClockReport {
        let state = self.state();
        let (average, initial) = (state.readings.average, state.readings.initial);
        ClockReport {
            source: counter::name().unwrap_or_default(),
            hz: Some(1e9 * 4_294_967_296.0 / average as f64),
            drift_ppm: Some((average as f64 / initial as f64 - 1.0) * 1e6),
            absent: None,
            unsound: state.unsound.clone(),
        }
    }

    /// Returns a clock that reads zero at `zero_ns` of `CLOCK_MONOTONIC`, and before it.
    #[must_use]
    pub(crate) fn clock(&self, zero_ns: u64) -> CounterClock {
        let slope = self.state().readings.slope;
        let now = Pair::read();
        let distance = |ns: u64| u64::try_from((u128::from(ns) << 32) / u128::from(slope));
        let ahead = distance(zero_ns.saturating_sub(now.ns)).unwrap_or(u64::MAX);
        let behind = distance(now.ns.saturating_sub(zero_ns)).unwrap_or(u64::MAX);
        CounterClock {
            line: Line {
                zero_ns,
                anchor_ticks: now.ticks.saturating_add(ahead).saturating_sub(behind),
                anchor_ns: 0,
                slope,
            },
            offers: Arc::clone(&self.offers),
            seen: 0,
        }
    }
}

/// The counter as a clock. See the module.
#[derive(Clone, Debug)]
pub struct CounterClock {
    line: Line,
    offers: Arc<OfferCell>,
    /// The version of the last offer that was adopted.
    seen: u64,
}

impl Clock for CounterClock {
    #[inline]
    fn now(&mut self) -> Nanos {
        Nanos(self.line.at(counter::ticks()))
    }

    fn refine(&mut self) {
        if let Some((version, offer)) = self.offers.read(self.seen) {
            self.seen = version;
            self.line.steer(counter::ticks(), offer);
        }
    }
}

/// Where the time comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClockChoice {
    /// The counter where it is usable, otherwise the kernel's clock.
    #[default]
    Auto,
    /// The counter, or an error.
    Tsc,
    /// The kernel's clock.
    Monotonic,
}

/// The clock of a run, from which every worker gets its own copy.
#[derive(Debug)]
pub(crate) enum ClockSource {
    /// The counter.
    Counter(Calibration),
    /// The kernel's clock, and the reason why it is not the counter; none where the architecture has no counter.
    Monotonic(Option<String>),
}

/// What the result says about the clock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClockReport {
    /// `tsc`, `cntvct` (of AArch64) or `monotonic`.
    pub source: &'static str,
    /// Ticks per second of the counter.
    pub hz: Option<f64>,
    /// By how much the average slope over the run differs from the first one, in millionths.
    pub drift_ppm: Option<f64>,
    /// Why the counter is not used.
    pub absent: Option<String>,
    /// Why the counter should not have been used: the kernel stopped trusting it during the run.
    pub unsound: Option<String>,
}

impl RunClock {
    /// Waits until time zero. Before it this clock reads zero, so operations due at zero would be
    /// issued and completed in no time.
    pub(crate) fn wait_for_zero(&mut self) {
        while self.now().0 == 0 {
            std::hint::spin_loop();
        }
    }
}

impl ClockSource {
    /// Chooses and calibrates; takes about 60 ms with the counter.
    ///
    /// # Errors
    /// `clock-unsound`: the request names the counter, and it is not usable here.
    pub(crate) fn choose(choice: ClockChoice) -> Result<Self, EngineError> {
        let unsound = |why: String| {
            EngineError::operating(
                "clock-unsound",
                format!("the CPU's counter cannot be the clock: {why}"),
                "use the clock 'auto' or 'monotonic'",
            )
        };
        match choice {
            ClockChoice::Tsc => Calibration::measure().map(Self::Counter).map_err(unsound),
            ClockChoice::Auto if counter::name().is_none() => Ok(Self::Monotonic(None)),
            ClockChoice::Auto => {
                Ok(Calibration::measure()
                    .map_or_else(|why| Self::Monotonic(Some(why)), Self::Counter))
            }
            ClockChoice::Monotonic => Ok(Self::Monotonic(Some("asked for".to_owned()))),
        }
    }

    /// Measures the slope again, if the clock has one.
    pub(crate) fn refine(&self) {
        if let Self::Counter(calibration) = self {
            calibration.refine();
        }
    }

    /// Returns a counter that was calibrated and last read this long ago.
    #[cfg(test)]
    pub(crate) fn read_seconds_ago(seconds: u64) -> Self {
        let ns = monotonic_ns() - seconds * 1_000_000_000;
        let readings = Readings::new(
            Pair {
                ticks: 0,
                ns: ns - 1,
            },
            Pair { ticks: 1, ns },
        );
        Self::Counter(Calibration {
            state: Mutex::new(CalibrationState {
                readings: readings.unwrap(),
                unsound: None,
            }),
            offers: Arc::new(OfferCell::new()),
        })
    }

    /// Returns whether the workers were offered a slope.
    #[cfg(test)]
    pub(crate) fn has_offer(&self) -> bool {
        matches!(self, Self::Counter(calibration) if calibration.offers.read(0).is_some())
    }

    /// Returns the clock's part of the result.
    #[must_use]
    pub(crate) fn report(&self) -> ClockReport {
        match self {
            Self::Counter(calibration) => calibration.report(),
            Self::Monotonic(why) => ClockReport {
                source: "monotonic",
                hz: None,
                drift_ppm: None,
                absent: why.clone(),
                unsound: None,
            },
        }
    }
}

/// A clock of either kind, for code that need not be compiled twice.
#[derive(Clone, Debug)]
pub enum RunClock {
    /// The counter.
    Counter(CounterClock),
    /// The kernel's.
    Monotonic(Monotonic),
}

impl ClockSource {
    /// Returns a clock that reads zero at `zero_ns` of `CLOCK_MONOTONIC`, and before it.
    #[must_use]
    pub(crate) fn clock(&self, zero_ns: u64) -> RunClock {
        match self {
            Self::Counter(calibration) => RunClock::Counter(calibration.clock(zero_ns)),
            Self::Monotonic(_) => RunClock::Monotonic(Monotonic::starting_at(zero_ns)),
        }
    }
}

impl Clock for RunClock {
    #[inline]
    fn now(&mut self) -> bw_model::Nanos {
        match self {
            Self::Counter(clock) => clock.now(),
            Self::Monotonic(clock) => clock.now(),
        }
    }

    fn refine(&mut self) {
        if let Self::Counter(clock) = self {
            clock.refine();
        }
    }
}

#[cfg(test)]
mod clock_tests {
    use super::*;

    #[test]
    fn copies_of_a_virtual_clock_show_the_same_time() {
        let mut one = VirtualClock::default();
        let mut other = one.clone();
        one.sleep(Nanos(5));
        assert_eq!((one.now(), other.now()), (Nanos(5), Nanos(5)));
    }

    #[test]
    fn before_the_start_it_is_zero() {
        let mut clock = Monotonic::starting_at(monotonic_ns() + 1_000_000_000_000);
        assert_eq!(clock.now(), Nanos::ZERO);
    }

    #[test]
    fn the_kernels_clock_never_steps_back() {
        let mut clock = Monotonic::starting_at(monotonic_ns());
        let times: Vec<_> = (0..1000).map(|_| clock.now()).collect();
        assert!(times.is_sorted());
    }
}

#[cfg(test)]
mod counter_tests {
    use super::*;
    use std::io::Write as _;

    fn line(slope: u64) -> Line {
        Line {
            zero_ns: 0,
            anchor_ticks: 1000,
            anchor_ns: 0,
            slope,
        }
    }

    #[test]
    fn a_slope_of_one_half_halves() {
        let from = Pair { ticks: 10, ns: 5 };
        let to = Pair {
            ticks: 2_000_000_010,
            ns: 1_000_000_005,
        };
        assert_eq!(steering::slope(from, to), Some(1 << 31));
        assert_eq!(steering::slope(to, from), None);
    }

    #[test]
    fn before_the_anchor_it_is_zero() {
        assert_eq!(line(1 << 32).at(999), 0);
    }

    #[test]
    fn a_better_slope_bends_the_line_and_never_steps() {
        let mut line = line(1 << 32);
        let before = line.at(1_000_000);
        line.bend(1_000_000, (1 << 32) - (1 << 20));
        assert_eq!(line.at(1_000_000), before);
        assert!(line.at(1_000_001) >= before);
        assert_eq!(line.at(2_024_000_000), 2_023_505_103);
    }

    #[test]
    fn a_year_of_ticks_does_not_overflow() {
        let year = 3_000_000_000 * 31_536_000;
        assert_eq!(
            steering::to_ns(year, (1u64 << 32) / 3),
            31_535_999_992_657_452
        );
    }

    #[test]
    fn only_a_machine_with_a_counter_reports_why_it_is_not_used() {
        let report = ClockSource::choose(ClockChoice::Auto).unwrap().report();
        let has_counter = counter::name().is_some();
        let reported = report.source == "monotonic" && has_counter;
        assert_eq!(report.absent.is_some(), reported);
    }

    #[test]
    fn the_real_counter_agrees_with_the_kernels_clock_to_a_thousandth() {
        let Ok(calibration) = Calibration::measure() else {
            writeln!(std::io::stderr(), "skipped: {:?}", counter::sound()).unwrap();
            return;
        };
        calibration.refine();
        assert!(calibration.report().drift_ppm.unwrap().abs() < 1000.0);
        let mut clock = calibration.clock(monotonic_ns());
        let times: Vec<_> = (0..1000).map(|_| clock.now()).collect();
        assert!(times.is_sorted());
    }

    #[test]
    fn a_counter_that_the_kernel_leaves_during_the_run_is_reported() {
        let pair = |seconds: u64| Pair {
            ticks: seconds * 3_000_000_000,
            ns: seconds * 1_000_000_000,
        };
        let calibration = Calibration {
            state: Mutex::new(CalibrationState {
                readings: Readings::new(pair(0), pair(1)).unwrap(),
                unsound: None,
            }),
            offers: Arc::new(OfferCell::new()),
        };
        let unsound = || calibration.report().unsound;
        calibration.refine_from(pair(3), || Ok(()));
        assert_eq!(unsound(), None);
        calibration.refine_from(pair(5), || Err("the kernel left it".to_owned()));
        calibration.refine_from(pair(7), || Ok(()));
        assert_eq!(unsound().as_deref(), Some("the kernel left it"));
        assert_eq!(
            calibration.offers.read(0).map(|(_, offer)| offer.pair),
            Some(pair(7))
        );
    }
}
