//! Rate profiles: how many operations per second should start, as a function of time.
//!
//! Decision: a process of mean rate one is laid out in *operational time* (the number of arrivals expected so far) and
//! mapped to time by the inverse of the cumulative rate. The cumulative rate is stored as an integer in units of
//! half a femto-operation, in which (micro-operations per second) x ns is whole, also on ramps; at
//! a flat rate the inverse is an integer division with the remainder carried. So nothing drifts, and nothing is
//! rounded twice. Rejected: a mean gap in whole microseconds (fio), and thinning (Lewis and
//! Shedler 1979), which makes a schedule of constant gaps impossible and wastes draws.
//! Source: E. Cinlar, Introduction to Stochastic Processes (1975), 4.7: time change by the inverse.

use bw_model::Nanos;
use serde::{Deserialize, Serialize};

/// Units of operational time in one operation.
pub(crate) const OPERATION: u64 = 2_000_000_000_000_000;

/// The maximum rate: one operation per nanosecond, the resolution of an intended start.
const GREATEST_MICRO_PER_S: u64 = 1_000_000_000_000_000;

/// A rate profile as the user describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RateFields", into = "RateFields")]
pub enum RateSpec {
    /// `{"micro_per_s":N}`: a constant rate.
    Constant {
        /// Millionths of an operation per second.
        micro_per_s: u64,
    },
    /// `{"steps":[...]}`: one after the other; the final rate of the last one continues.
    Steps(Vec<RateStep>),
    /// `{"recorded":true}`: the recorded gaps, unscaled. For recorded arrivals only.
    Recorded,
}

/// A part of a profile in which the rate changes linearly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateStep {
    /// Duration [ns].
    pub for_ns: u64,
    /// The rate at its start.
    pub from_micro_per_s: u64,
    /// The rate at its end.
    pub to_micro_per_s: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RateFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    micro_per_s: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<RateStep>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recorded: Option<bool>,
}

impl TryFrom<RateFields> for RateSpec {
    type Error = &'static str;

    fn try_from(fields: RateFields) -> Result<Self, Self::Error> {
        match (fields.micro_per_s, fields.steps, fields.recorded) {
            (Some(micro_per_s), None, None) => Ok(Self::Constant { micro_per_s }),
            (None, Some(steps), None) => Ok(Self::Steps(steps)),
            (None, None, Some(true)) => Ok(Self::Recorded),
            _ => Err("a rate is exactly one of micro_per_s, steps and recorded (true)"),
        }
    }
}

impl From<RateSpec> for RateFields {
    fn from(spec: RateSpec) -> Self {
        let mut fields = Self {
            micro_per_s: None,
            steps: None,
            recorded: None,
        };
        match spec {
            RateSpec::Constant { micro_per_s } => fields.micro_per_s = Some(micro_per_s),
            RateSpec::Steps(steps) => fields.steps = Some(steps),
            RateSpec::Recorded => fields.recorded = Some(true),
        }
        fields
    }
}

/// A position on a rate profile, which only moves forward in operational time.
#[derive(Clone, Debug)]
pub(crate) struct RateProfile {
    segments: Vec<Segment>,
    index: usize,
    /// Operational time since the start of the segment, or since `origin` if the rate is flat.
    inside: u128,
    /// In a flat segment: the last whole nanosecond reached.
    origin: u64,
    /// Operational time from where `inside` starts to the end of the segment.
    left: u128,
}

/// A stretch of time with a linear rate.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u64,
    length: u64,
    from: u64,
    to: u64,
    /// Its total operational time.
    units: u128,
}

impl Segment {
    fn new(start: u64, step: RateStep) -> Self {
        let (from, to) = (step.from_micro_per_s, step.to_micro_per_s);
        Self {
            start,
            length: step.for_ns,
            from,
            to,
            units: (u128::from(from) + u128::from(to)) * u128::from(step.for_ns),
        }
    }

    /// Returns the segment of a constant rate without end.
    fn holding(start: u64, micro_per_s: u64) -> Self {
        let step = RateStep {
            for_ns: u64::MAX,
            from_micro_per_s: micro_per_s,
            to_micro_per_s: micro_per_s,
        };
        Self::new(start, step)
    }

    fn is_flat(&self) -> bool {
        self.from == self.to
    }

    /// Returns the time into the segment at which its ramp has accumulated `inside`, rounded down [ns]. The rate there
    /// is the root of a sum of two positive terms in either direction of the ramp (counted from its lower end), so no
    /// digits are lost where it ends at zero.
    fn ramp_time(&self, inside: u128) -> u64 {
        let (from, to, length) = (self.from as f64, self.to as f64, self.length as f64);
        let square = if to > from {
            from * from + (to - from) / length * inside as f64
        } else {
            to * to + (from - to) / length * (self.units - inside) as f64
        };
        let time = inside as f64 / (from + square.sqrt());
        (time as u64).min(self.length)
    }

    /// Returns the operational time that its ramp accumulates in the first `time` ns.
    fn ramp_units(&self, time: u64) -> u128 {
        let (from, to, x) = (self.from as f64, self.to as f64, time as f64);
        let units = x * (2.0 * from + (to - from) * (x / self.length as f64));
        (units as u128).min(self.units)
    }
}

impl RateProfile {
    /// Returns the start of the profile.
    pub(crate) fn new(spec: &RateSpec) -> Result<Self, String> {
        let segments = match spec {
            RateSpec::Constant { micro_per_s: 0 } => {
                return Err(
                    "rate: micro_per_s is 0: nothing would ever arrive; give a rate".into(),
                );
            }
            RateSpec::Constant { micro_per_s } => {
                vec![Segment::holding(0, checked("rate", *micro_per_s)?)]
            }
            // One operation of operational time is one nanosecond.
            RateSpec::Recorded => vec![Segment::holding(0, GREATEST_MICRO_PER_S)],
            RateSpec::Steps(steps) => segments(steps)?,
        };
        let mut profile = Self {
            segments,
            index: 0,
            inside: 0,
            origin: 0,
            left: 0,
        };
        profile.enter(0);
        Ok(profile)
    }

    /// Returns the maximum rate of the profile [operations/s].
    pub(crate) fn peak_per_s(&self) -> f64 {
        let greatest = self.segments.iter().map(|s| s.from.max(s.to)).max();
        greatest.unwrap_or(0) as f64 / 1e6
    }

    /// Advances by `units` of operational time; returns the time reached, or None if the profile
    /// ends at rate zero before that (or time itself ends).
    #[inline]
    pub(crate) fn advance(&mut self, units: u128) -> Option<Nanos> {
        self.inside += units;
        while self.inside >= self.left {
            let beyond = self.inside - self.left;
            self.leave()?;
            self.inside = beyond;
        }
        let segment = &self.segments[self.index];
        if segment.is_flat() {
            return Some(self.flat_time());
        }
        let time = segment.ramp_time(self.inside);
        Some(Nanos(segment.start.saturating_add(time)))
    }

    /// Returns the time reached at a flat rate and carries the remainder of the division.
    #[inline]
    fn flat_time(&mut self) -> Nanos {
        let per_ns = self.segments[self.index].from * 2;
        let (time, inside) = divide(self.inside, per_ns);
        self.origin = self.origin.saturating_add(time);
        self.left -= self.inside - u128::from(inside);
        self.inside = u128::from(inside);
        Nanos(self.origin)
    }

    /// Advances to `time`, which is not before the time reached; None beyond a last rate of zero.
    pub(crate) fn seek(&mut self, time: Nanos) -> Option<()> {
        while self.end() <= time.0 {
            self.leave()?;
        }
        let segment = self.segments[self.index];
        if segment.is_flat() {
            let gone =
                u128::from(time.0.saturating_sub(self.origin)) * u128::from(segment.from * 2);
            self.left -= gone.min(self.left);
            self.origin = self.origin.max(time.0);
            self.inside = 0;
        } else {
            self.inside = segment.ramp_units(time.0.saturating_sub(segment.start));
        }
        Some(())
    }

    fn end(&self) -> u64 {
        let segment = &self.segments[self.index];
        segment.start.saturating_add(segment.length)
    }

    /// Moves to the start of the next segment.
    fn leave(&mut self) -> Option<()> {
        if self.index + 1 >= self.segments.len() {
            return None;
        }
        self.enter(self.index + 1);
        Some(())
    }

    fn enter(&mut self, index: usize) {
        let segment = self.segments[index];
        self.index = index;
        self.inside = 0;
        self.origin = segment.start;
        self.left = segment.units;
    }
}

/// Returns quotient and remainder; a divisor of 64 bits leaves a remainder of 64 bits.
#[inline]
fn divide(dividend: u128, divisor: u64) -> (u64, u64) {
    match u64::try_from(dividend) {
        Ok(dividend) => (dividend / divisor, dividend % divisor),
        Err(_) => {
            let wide = u128::from(divisor);
            let quotient = u64::try_from(dividend / wide).unwrap_or(u64::MAX);
            (quotient, (dividend % wide) as u64)
        }
    }
}

fn checked(name: &str, micro_per_s: u64) -> Result<u64, String> {
    if micro_per_s > GREATEST_MICRO_PER_S {
        return Err(format!(
            "{name}: {micro_per_s} micro_per_s is more than one operation a nanosecond: \
             give at most {GREATEST_MICRO_PER_S}"
        ));
    }
    Ok(micro_per_s)
}

fn segments(steps: &[RateStep]) -> Result<Vec<Segment>, String> {
    let Some(last) = steps.last() else {
        return Err("rate: steps is empty: give at least one step".into());
    };
    let mut segments = Vec::with_capacity(steps.len() + 1);
    let mut start = 0_u64;
    for (place, step) in steps.iter().enumerate() {
        let name = format!("rate: step {}", place + 1);
        checked(&name, step.from_micro_per_s.max(step.to_micro_per_s))?;
        segments.push(Segment::new(start, *step));
        start = start
            .checked_add(step.for_ns)
            .ok_or_else(|| format!("{name}: the steps last longer than 584 years: shorten them"))?;
    }
    segments.push(Segment::holding(start, last.to_micro_per_s));
    if segments.iter().all(|segment| segment.units == 0) {
        return Err("rate: every step has rate 0: nothing would ever arrive; give a rate".into());
    }
    Ok(segments)
}
