//! Arrival processes: when the next operation should start.
//!
//! Decision: every process has mean rate one in operational time (see [`crate::rate`]), so that each works with each
//! rate profile, and the expected number of arrivals equals the integral of the rate at any time. Random gaps start
//! with the residual of a gap, as if the process had always been running; starting with a whole gap
//! would be off by (cv^2 - 1)/2 arrivals. On/off is a Poisson process in time, silent in the off periods.
//! Source: D. R. Cox, Renewal Theory (1962), 5.2 (equilibrium renewal processes).

use crate::distribution::{Distribution, DistributionSpec};
use crate::random::Stream;
use crate::rate::{OPERATION, RateProfile, RateSpec};
use bw_model::Nanos;
use serde::{Deserialize, Serialize};

/// An arrival process as the user describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ArrivalSpec {
    /// Equal gaps (in operational time), the first arrival at zero.
    Constant {},
    /// Exponential gaps.
    Poisson {},
    /// Gaps uniform between zero and twice their mean.
    Uniform {},
    /// Gamma gaps.
    Gamma {
        /// The coefficient of variation of the gaps: 1 is Poisson, above is bursty.
        cv_micro: u64,
    },
    /// Poisson arrivals at the profile's rate in on periods, none in off periods; starts with an on period.
    OnOff {
        /// Lengths of the on periods [ns].
        on: DistributionSpec,
        /// Lengths of the off periods [ns].
        off: DistributionSpec,
    },
    /// At every tick, as many arrivals together as bring their number up to the rate's integral, none at zero: the loop
    /// of Fstress, whose period is 1 ms.
    Metronome {
        /// Time between two ticks [ns].
        period_ns: u64,
    },
    /// Recorded gaps: from the start to the first arrival, then from each to the next.
    /// With the rate `recorded` they are unchanged; with any other rate they are scaled to its mean.
    Recorded {
        /// The gaps [ns].
        gaps_ns: Vec<u64>,
        /// Whether they start again after the last.
        #[serde(default = "yes")]
        repeat: bool,
    },
}

fn yes() -> bool {
    true
}

/// The arrivals of one filament, one after the other.
#[derive(Clone, Debug)]
pub struct Arrivals {
    process: ArrivalProcess,
    profile: RateProfile,
    stream: Stream,
    last: Nanos,
    begun: bool,
}

#[derive(Clone, Debug)]
enum ArrivalProcess {
    Constant,
    Poisson,
    Uniform,
    Gamma { shape: f64 },
    OnOff(Periods),
    Metronome { period: u64 },
    Recorded(Recorded),
}

impl Arrivals {
    /// Returns the arrivals described, from time zero.
    ///
    /// # Errors
    /// What is wrong with the description, and what to do.
    pub fn new(arrival: &ArrivalSpec, rate: &RateSpec, stream: Stream) -> Result<Self, String> {
        let recorded = matches!(arrival, ArrivalSpec::Recorded { .. });
        if *rate == RateSpec::Recorded && !recorded {
            return Err("rate: recorded is for recorded arrivals only: give a rate".into());
        }
        let profile = RateProfile::new(rate)?;
        let process =
            match arrival {
                ArrivalSpec::Constant {} => ArrivalProcess::Constant,
                ArrivalSpec::Poisson {} => ArrivalProcess::Poisson,
                ArrivalSpec::Uniform {} => ArrivalProcess::Uniform,
                ArrivalSpec::Gamma { cv_micro } => gamma(*cv_micro)?,
                ArrivalSpec::OnOff { on, off } => {
                    ArrivalProcess::OnOff(Periods::new(on, off, &profile)?)
                }
                ArrivalSpec::Metronome { period_ns: 0 } => {
                    return Err("metronome: period_ns is 0: give at least 1".into());
                }
                ArrivalSpec::Metronome { period_ns } => {
                    ArrivalProcess::Metronome { period: *period_ns }
                }
                ArrivalSpec::Recorded { gaps_ns, repeat } => ArrivalProcess::Recorded(
                    Recorded::new(gaps_ns, *repeat, *rate == RateSpec::Recorded)?,
                ),
            };
        Ok(Self {
            process,
            profile,
            stream,
            last: Nanos::ZERO,
            begun: false,
        })
    }

    /// Returns the gap to the next arrival in operational time; None after the last.
    #[inline]
    fn gap(&mut self) -> Option<u128> {
        let first = !std::mem::replace(&mut self.begun, true);
        let stream = &mut self.stream;
        Some(match &mut self.process {
            ArrivalProcess::Constant if first => 0,
            // Of the metronome: the n-th arrival is due when the integral of the rate is n.
            ArrivalProcess::Constant | ArrivalProcess::Metronome { .. } => u128::from(OPERATION),
            ArrivalProcess::Poisson | ArrivalProcess::OnOff(_) => units(stream.exponential()),
            // The residual of a gap is a uniform part of one chosen in proportion to its length.
            ArrivalProcess::Uniform if first => units(2.0 * stream.unit().sqrt() * stream.unit()),
            ArrivalProcess::Uniform => units(2.0 * stream.unit()),
            ArrivalProcess::Gamma { shape } if first => {
                units(stream.gamma(*shape + 1.0) / *shape * stream.unit())
            }
            ArrivalProcess::Gamma { shape } => units(stream.gamma(*shape) / *shape),
            ArrivalProcess::Recorded(recorded) => recorded.gap()?,
        })
    }

    /// Returns the next arrival of on/off. An arrival in an off period is discarded, and the search continues
    /// in the next on period: exponential gaps have no memory.
    fn next_in_on_period(&mut self) -> Option<Nanos> {
        loop {
            let gap = self.gap()?;
            let at = self.profile.advance(gap)?;
            let ArrivalProcess::OnOff(periods) = &mut self.process else {
                return Some(at);
            };
            let on = periods.on_from(at, &mut self.stream)?;
            if on == at {
                return Some(at);
            }
            self.profile.seek(on)?;
        }
    }
}

/// The intended starts, never decreasing. They end (None) where the rate profile ends at zero or
/// after the last recorded gap without repetition.
impl Iterator for Arrivals {
    type Item = Nanos;

    #[inline]
    fn next(&mut self) -> Option<Nanos> {
        let at = match self.process {
            ArrivalProcess::OnOff(_) => self.next_in_on_period()?,
            ArrivalProcess::Metronome { period } => {
                let gap = self.gap()?;
                let due = self.profile.advance(gap)?.0;
                Nanos(due.checked_next_multiple_of(period)?)
            }
            _ => {
                let gap = self.gap()?;
                self.profile.advance(gap)?
            }
        };
        if at == Nanos::NEVER {
            return None;
        }
        self.last = self.last.max(at);
        Some(self.last)
    }
}

/// Returns a gap (in mean gaps) in units of operational time.
#[inline]
fn units(gap: f64) -> u128 {
    let units = gap * OPERATION as f64;
    if units < u64::MAX as f64 {
        u128::from(units as u64)
    } else {
        // Far below an overflow of the sum; only extreme gammas give such gaps.
        (units as u128).min(u128::MAX >> 8)
    }
}

fn gamma(cv_micro: u64) -> Result<ArrivalProcess, String> {
    if !(1_000..=1_000_000_000).contains(&cv_micro) {
        return Err(format!(
            "gamma: cv_micro is {cv_micro}: give 1000 to 1000000000 (0.001 to 1000), or constant arrivals"
        ));
    }
    let cv = cv_micro as f64 / 1e6;
    Ok(ArrivalProcess::Gamma {
        shape: 1.0 / (cv * cv),
    })
}

/// The on periods of an on/off process.
#[derive(Clone, Debug)]
struct Periods {
    on: Distribution,
    off: Distribution,
    begin: u64,
    /// None: the first period has not been drawn yet.
    end: Option<u64>,
}

impl Periods {
    fn new(
        on: &DistributionSpec,
        off: &DistributionSpec,
        profile: &RateProfile,
    ) -> Result<Self, String> {
        let on = Distribution::new(on).map_err(|error| format!("on-off: on: {error}"))?;
        let off = Distribution::new(off).map_err(|error| format!("on-off: off: {error}"))?;
        let mean = on.mean().unwrap_or(f64::INFINITY);
        if mean * 1e-9 * profile.peak_per_s() < 1e-6 {
            return Err(
                "on-off: fewer than one arrival in a million on periods: make them longer or the rate higher"
                    .into(),
            );
        }
        Ok(Self {
            on,
            off,
            begin: 0,
            end: None,
        })
    }

    /// Returns `at` if it lies in an on period, otherwise the start of the next one; None when time ends.
    fn on_from(&mut self, at: Nanos, stream: &mut Stream) -> Option<Nanos> {
        loop {
            match self.end {
                Some(end) if at.0 < end => return Some(at.max(Nanos(self.begin))),
                Some(end) => self.begin = end.checked_add(self.off.draw(stream))?,
                None => {}
            }
            self.end = Some(self.begin.saturating_add(self.on.draw(stream)));
        }
    }
}

/// Recorded gaps in operational time.
#[derive(Clone, Debug)]
struct Recorded {
    /// When each arrives, since the start of the recording.
    arrivals: Vec<u128>,
    index: usize,
    repeat: bool,
}

impl Recorded {
    fn new(gaps_ns: &[u64], repeat: bool, unscaled: bool) -> Result<Self, String> {
        let total: u128 = gaps_ns.iter().map(|&gap| u128::from(gap)).sum();
        if total == 0 {
            return Err(
                "recorded: gaps_ns is empty or all 0: give the gaps between arrivals".into(),
            );
        }
        if total > u128::from(u64::MAX) {
            return Err("recorded: gaps_ns last longer than 584 years: are they in ns?".into());
        }
        let whole = u128::from(OPERATION) * gaps_ns.len() as u128;
        let mut sum = 0_u64;
        let arrivals = (gaps_ns.iter())
            .map(|gap| {
                sum += gap;
                match (unscaled, u128::from(sum) == total) {
                    (true, _) => u128::from(sum) * u128::from(OPERATION),
                    // One repetition is exactly as long as its arrivals, regardless of rounding.
                    (false, true) => whole,
                    (false, false) => (sum as f64 / total as f64 * whole as f64) as u128,
                }
            })
            .collect();
        Ok(Self {
            arrivals,
            index: 0,
            repeat,
        })
    }

    fn gap(&mut self) -> Option<u128> {
        if self.index == self.arrivals.len() {
            if !self.repeat {
                return None;
            }
            self.index = 0;
        }
        let before = self
            .index
            .checked_sub(1)
            .map_or(0, |place| self.arrivals[place]);
        let gap = self.arrivals[self.index] - before;
        self.index += 1;
        Some(gap)
    }
}
