//! The clocks of a run: the trait, the kernel's clock, the time stamp counter, and a clock that tests advance.
//!
//! Decision: the worker is generic over its clock, so the loop that runs in real time also runs in a simulation. A run's
//! clock is an enum (`RunClock`) of the kernel's clock and the counter.
//!
//! The counter is used only where the kernel itself trusts it (its current clock source is `tsc`) and the CPU says that
//! it is invariant. Its slope is measured against `CLOCK_MONOTONIC` over at least 50 ms at the start and over the whole
//! run afterwards. Rejected: `quanta` (calibrates once, no drift), `minstant` and `fastant` (hide the policy). The
//! conversion is one 64x64-bit multiplication. A worker adopts a better slope from the current reading on, so its clock
//! bends but never steps. The reading is not fenced: a stamp can be some 10 ns early.

use bw_model::EngineError;
use bw_model::Nanos;
use bw_sys::clock::monotonic_ns;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
}

const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Minimum duration of the first calibration [ns].
const CALIBRATION_NS: u64 = 60_000_000;

/// Checks whether the counter may be used as a clock here.
///
/// # Errors
/// What is missing, in words.
pub fn sound() -> Result<(), String> {
    let source = std::fs::read_to_string(SOURCE).unwrap_or_default();
    if source.trim() != "tsc" {
        return Err(format!(
            "the kernel's clock source is '{}', not 'tsc'",
            source.trim()
        ));
    }
    if invariant_tsc() == Some(true) {
        Ok(())
    } else {
        Err("the CPU does not report that its counter is invariant".to_owned())
    }
}

/// Returns whether the counter runs at one rate, whatever the CPU does to save power; None on machines without one.
/// Source: CPUID, leaf 8000_0007h, EDX, bit 8.
#[cfg(target_arch = "x86_64")]
pub(crate) fn invariant_tsc() -> Option<bool> {
    use core::arch::x86_64::__cpuid;
    const GREATEST_LEAF: u32 = 0x8000_0000;
    const POWER_MANAGEMENT: u32 = 0x8000_0007;
    #[allow(unused_unsafe)] // newer compilers know that it is safe
    // SAFETY: every x86-64 CPU has CPUID.
    let leaf = |number| unsafe { __cpuid(number) };
    let known = leaf(GREATEST_LEAF).eax >= POWER_MANAGEMENT;
    Some(known && leaf(POWER_MANAGEMENT).edx & 1 << 8 != 0)
}

/// The same on other architectures: there is no such counter.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn invariant_tsc() -> Option<bool> {
    None
}

/// Reads the counter.
#[cfg(target_arch = "x86_64")]
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 CPU has RDTSC, and Linux does not forbid it to programs.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Returns 0: there is no counter here, and [`sound`] reports so.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn ticks() -> u64 {
    0
}

/// One reading of both clocks, as close together as possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The counter.
    pub ticks: u64,
    /// `CLOCK_MONOTONIC` [ns].
    pub ns: u64,
}

impl Pair {
    /// Reads both clocks 64 times and returns the pair with the shortest distance between its two counter readings,
    /// so that an interruption between them does not count.
    #[must_use]
    pub(crate) fn read() -> Self {
        let reading = |_| {
            let (before, ns, after) = (ticks(), monotonic_ns(), ticks());
            let width = after.saturating_sub(before);
            (
                width,
                Self {
                    ticks: before + width / 2,
                    ns,
                },
            )
        };
        (0..64)
            .map(reading)
            .min_by_key(|(width, _)| *width)
            .map_or(Self { ticks: 0, ns: 0 }, |(_, pair)| pair)
    }
}

/// Returns nanoseconds per tick between two readings, in units of 2^-32; None if the readings are equal.
#[must_use]
pub fn slope(from: Pair, to: Pair) -> Option<u64> {
    let ticks = to
        .ticks
        .checked_sub(from.ticks)
        .filter(|ticks| *ticks > 0)?;
    let ns = u128::from(to.ns.checked_sub(from.ns)?);
    u64::try_from((ns << 32) / u128::from(ticks)).ok()
}

#[inline]
#[allow(clippy::cast_possible_truncation)] // 2^64 ns are 584 years
fn to_ns(ticks: u64, slope: u64) -> u64 {
    ((u128::from(ticks) * u128::from(slope)) >> 32) as u64
}

/// The relation of the counter to time: measured at the start, refined during the run.
#[derive(Debug)]
pub(crate) struct Calibration {
    first: Pair,
    initial: u64,
    current: Arc<AtomicU64>,
}

impl Calibration {
    /// Measures the counter's rate; takes about 60 ms.
    ///
    /// # Errors
    /// The counter did not move, or is not usable as a clock here: in words.
    pub(crate) fn measure() -> Result<Self, String> {
        sound()?;
        let first = Pair::read();
        // A signal ends a sleep early, and a slope over a short time is inaccurate.
        let end = first.ns + CALIBRATION_NS;
        while let left @ 1.. = end.saturating_sub(monotonic_ns()) {
            bw_sys::clock::sleep(left);
        }
        let initial = slope(first, Pair::read()).filter(|slope| *slope > 0);
        let initial = initial.ok_or("the counter did not advance during its calibration")?;
        Ok(Self {
            first,
            initial,
            current: Arc::new(AtomicU64::new(initial)),
        })
    }

    /// Measures the slope since the start, and offers it to the workers' clocks.
    pub(crate) fn refine(&self) {
        if let Some(slope) = slope(self.first, Pair::read()) {
            self.current.store(slope, Ordering::Relaxed);
        }
    }

    /// Returns ticks per second, by the current slope.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn hz(&self) -> f64 {
        1e9 * 4_294_967_296.0 / self.current.load(Ordering::Relaxed) as f64
    }

    /// Returns by how much the current slope differs from the first one, in millionths.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn drift_ppm(&self) -> f64 {
        let current = self.current.load(Ordering::Relaxed) as f64;
        (current / self.initial as f64 - 1.0) * 1e6
    }

    /// Returns a clock that reads zero at `zero_ns` of `CLOCK_MONOTONIC`, and before it.
    #[must_use]
    pub(crate) fn clock(&self, zero_ns: u64) -> Tsc {
        let slope = self.current.load(Ordering::Relaxed);
        let now = Pair::read();
        let distance = |ns: u64| u64::try_from((u128::from(ns) << 32) / u128::from(slope));
        let ahead = distance(zero_ns.saturating_sub(now.ns)).unwrap_or(u64::MAX);
        let behind = distance(now.ns.saturating_sub(zero_ns)).unwrap_or(u64::MAX);
        Tsc {
            anchor_ticks: now.ticks.saturating_add(ahead).saturating_sub(behind),
            anchor_ns: 0,
            slope,
            offered: Arc::clone(&self.current),
        }
    }
}

/// The counter as a clock. See the module.
#[derive(Clone, Debug)]
pub struct Tsc {
    anchor_ticks: u64,
    anchor_ns: u64,
    slope: u64,
    offered: Arc<AtomicU64>,
}

impl Tsc {
    #[inline]
    fn at(&self, ticks: u64) -> Nanos {
        Nanos(self.anchor_ns + to_ns(ticks.saturating_sub(self.anchor_ticks), self.slope))
    }

    /// Bends the line at `ticks`: the time there stays the same, the slope after it is `slope`.
    fn bend(&mut self, ticks: u64, slope: u64) {
        if ticks > self.anchor_ticks {
            self.anchor_ns = self.at(ticks).0;
            self.anchor_ticks = ticks;
        }
        self.slope = slope;
    }
}

impl Clock for Tsc {
    #[inline]
    fn now(&mut self) -> Nanos {
        self.at(ticks())
    }

    fn refine(&mut self) {
        let offered = self.offered.load(Ordering::Relaxed);
        if offered != self.slope {
            self.bend(ticks(), offered);
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
    Tsc(Calibration),
    /// The kernel's clock, and the reason why it is not the counter; none where the architecture has no counter.
    Monotonic(Option<String>),
}

/// What the result says about the clock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClockReport {
    /// `tsc` or `monotonic`.
    pub source: &'static str,
    /// Ticks per second of the counter.
    pub hz: Option<f64>,
    /// By how much the slope over the run differs from the first one, in millionths.
    pub drift_ppm: Option<f64>,
    /// Why the counter is not used.
    pub absent: Option<String>,
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
                format!("the time stamp counter cannot be the clock: {why}"),
                "use the clock 'auto' or 'monotonic'",
            )
        };
        match choice {
            ClockChoice::Tsc => Calibration::measure().map(Self::Tsc).map_err(unsound),
            ClockChoice::Auto if invariant_tsc().is_none() => Ok(Self::Monotonic(None)),
            ClockChoice::Auto => {
                Ok(Calibration::measure().map_or_else(|why| Self::Monotonic(Some(why)), Self::Tsc))
            }
            ClockChoice::Monotonic => Ok(Self::Monotonic(Some("asked for".to_owned()))),
        }
    }

    /// Measures the slope again, if the clock has one.
    pub(crate) fn refine(&self) {
        if let Self::Tsc(calibration) = self {
            calibration.refine();
        }
    }

    /// Returns the clock's part of the result.
    #[must_use]
    pub(crate) fn report(&self) -> ClockReport {
        match self {
            Self::Tsc(calibration) => ClockReport {
                source: "tsc",
                hz: Some(calibration.hz()),
                drift_ppm: Some(calibration.drift_ppm()),
                absent: None,
            },
            Self::Monotonic(why) => ClockReport {
                source: "monotonic",
                hz: None,
                drift_ppm: None,
                absent: why.clone(),
            },
        }
    }
}

/// A clock of either kind, for code that need not be compiled twice.
#[derive(Clone, Debug)]
pub enum RunClock {
    /// The counter.
    Tsc(Tsc),
    /// The kernel's.
    Monotonic(Monotonic),
}

impl ClockSource {
    /// Returns a clock that reads zero at `zero_ns` of `CLOCK_MONOTONIC`, and before it.
    #[must_use]
    pub(crate) fn clock(&self, zero_ns: u64) -> RunClock {
        match self {
            Self::Tsc(calibration) => RunClock::Tsc(calibration.clock(zero_ns)),
            Self::Monotonic(_) => RunClock::Monotonic(Monotonic::starting_at(zero_ns)),
        }
    }
}

impl Clock for RunClock {
    #[inline]
    fn now(&mut self) -> bw_model::Nanos {
        match self {
            Self::Tsc(clock) => clock.now(),
            Self::Monotonic(clock) => clock.now(),
        }
    }

    fn refine(&mut self) {
        if let Self::Tsc(clock) = self {
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
mod tsc_tests {
    use super::*;
    use std::io::Write as _;

    fn clock(slope: u64) -> Tsc {
        Tsc {
            anchor_ticks: 1000,
            anchor_ns: 0,
            slope,
            offered: Arc::new(AtomicU64::new(slope)),
        }
    }

    #[test]
    fn a_slope_of_one_half_halves() {
        let from = Pair { ticks: 10, ns: 5 };
        let to = Pair {
            ticks: 2_000_000_010,
            ns: 1_000_000_005,
        };
        assert_eq!(slope(from, to), Some(1 << 31));
        assert_eq!(slope(to, from), None);
    }

    #[test]
    fn before_the_anchor_it_is_zero() {
        assert_eq!(clock(1 << 32).at(999), Nanos::ZERO);
    }

    #[test]
    fn a_better_slope_bends_the_line_and_never_steps() {
        let mut clock = clock(1 << 32);
        let before = clock.at(1_000_000);
        clock.bend(1_000_000, (1 << 32) - (1 << 20));
        assert_eq!(clock.at(1_000_000), before);
        assert!(clock.at(1_000_001) >= before);
        assert_eq!(clock.at(2_024_000_000).0, 2_023_505_103);
    }

    #[test]
    fn a_year_of_ticks_does_not_overflow() {
        let year = 3_000_000_000 * 31_536_000;
        assert_eq!(to_ns(year, (1u64 << 32) / 3), 31_535_999_992_657_452);
    }

    #[test]
    fn only_a_machine_with_a_counter_reports_why_it_is_not_used() {
        let report = ClockSource::choose(ClockChoice::Auto).unwrap().report();
        let has_counter = invariant_tsc().is_some();
        let reported = report.source == "monotonic" && has_counter;
        assert_eq!(report.absent.is_some(), reported);
    }

    #[test]
    fn the_real_counter_agrees_with_the_kernels_clock_to_a_thousandth() {
        let Ok(calibration) = Calibration::measure() else {
            writeln!(std::io::stderr(), "skipped: {:?}", sound()).unwrap();
            return;
        };
        calibration.refine();
        assert!(calibration.drift_ppm().abs() < 1000.0);
        let mut clock = calibration.clock(monotonic_ns());
        let times: Vec<_> = (0..1000).map(|_| clock.now()).collect();
        assert!(times.is_sorted());
    }
}
