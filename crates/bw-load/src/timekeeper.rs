//! Which clock a run has, and why.

use crate::clock::{Clock, Monotonic};
use crate::request::ClockChoice;
use crate::trouble::Trouble;
use crate::tsc::{Calibration, Tsc};
use serde::Serialize;

/// The clock of a run, from which every worker gets its own copy.
#[derive(Debug)]
pub enum Timekeeper {
    /// The counter.
    Tsc(Calibration),
    /// The kernel's clock, and why not the counter.
    Monotonic(String),
}

/// What the result says about the clock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClockReport {
    /// `tsc` or `monotonic`.
    pub source: &'static str,
    /// Ticks per second of the counter.
    pub hz: Option<f64>,
    /// By how much its slope over the run differs from the first one.
    pub drift_ppm: Option<f64>,
    /// Why it is not the counter.
    pub absent: Option<String>,
}

impl AnyClock {
    /// Returns when time zero has come. Before it this clock stands at zero, and what is due then
    /// would be issued, and ended, in no time at all.
    pub fn wait_for_zero(&mut self) {
        while self.now().0 == 0 {
            std::hint::spin_loop();
        }
    }
}

impl Timekeeper {
    /// Chooses and calibrates; takes about 60 ms with the counter.
    ///
    /// # Errors
    /// `clock-unsound`: the counter was asked for by name and is not sound here.
    pub fn choose(choice: ClockChoice) -> Result<Self, Trouble> {
        let unsound = |why: String| {
            Trouble::operating(
                "clock-unsound",
                format!("the time stamp counter cannot be the clock: {why}"),
                "ask for the clock 'auto' or 'monotonic'",
            )
        };
        match choice {
            ClockChoice::Tsc => Calibration::measure().map(Self::Tsc).map_err(unsound),
            ClockChoice::Auto => Ok(Calibration::measure().map_or_else(Self::Monotonic, Self::Tsc)),
            ClockChoice::Monotonic => Ok(Self::Monotonic("asked for".to_owned())),
        }
    }

    /// Measures the slope again, where there is one.
    pub fn refine(&self) {
        if let Self::Tsc(calibration) = self {
            calibration.refine();
        }
    }

    /// Returns what the result says.
    #[must_use]
    pub fn report(&self) -> ClockReport {
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
                absent: Some(why.clone()),
            },
        }
    }
}

/// A clock that is either; for what is not worth two copies of the code.
#[derive(Clone, Debug)]
pub enum AnyClock {
    /// The counter.
    Tsc(Tsc),
    /// The kernel's.
    Monotonic(Monotonic),
}

impl Timekeeper {
    /// Returns a clock that reads zero at `zero_ns` of `CLOCK_MONOTONIC`, and before it.
    #[must_use]
    pub fn clock(&self, zero_ns: u64) -> AnyClock {
        match self {
            Self::Tsc(calibration) => AnyClock::Tsc(calibration.clock(zero_ns)),
            Self::Monotonic(_) => AnyClock::Monotonic(Monotonic::starting_at(zero_ns)),
        }
    }
}

impl Clock for AnyClock {
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
