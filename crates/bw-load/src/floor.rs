//! The floor: how late a bare spin loop is on this CPU at this time. The engine's issue error is
//! compared with it (`"type":"floor"`).
//!
//! Decision: the same clock, CPU binding and histogram as the worker's, and nothing
//! else. Interrupts, the hypervisor and other programs are included, so whatever the
//! engine adds to the floor is its own.

use crate::clock::ClockChoice;
use crate::clock::{Clock, ClockReport, ClockSource};
use crate::environment;
use bw_model::EngineError;
use bw_model::{Nanos, Rate};
use bw_record::histogram::Histogram;
use bw_record::summary::HistogramSummary;
use bw_sys::clock::monotonic_ns;
use serde::{Deserialize, Serialize};

/// The request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FloorRequest {
    /// Deadlines per second, evenly spaced.
    pub micro_per_s: Rate,
    /// Duration.
    pub duration_ns: Nanos,
    /// The CPU to bind to.
    #[serde(default)]
    pub cpu: Option<usize>,
    /// Where the time comes from.
    #[serde(default)]
    pub clock: ClockChoice,
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct FloorResult {
    /// `floor/1`.
    pub schema: &'static str,
    /// Whether a signal ended it.
    pub interrupted: bool,
    /// The clock.
    pub clock: ClockReport,
    /// By how much the loop missed its deadlines.
    pub overshoot_ns: HistogramSummary,
}

/// Spins to every deadline and returns the distribution of the overshoot.
///
/// # Errors
/// The CPU does not exist, or the clock is not available.
pub fn run(request: &FloorRequest) -> Result<FloorResult, EngineError> {
    request.cpu.map_or(Ok(()), environment::take_cpu)?;
    let clock_source = ClockSource::choose(request.clock)?;
    let mut clock = clock_source.clock(monotonic_ns() + 1_000_000);
    let overshoot = spin(&mut clock, request.micro_per_s, request.duration_ns);
    clock_source.refine();
    Ok(FloorResult {
        schema: "floor/1",
        interrupted: bw_sys::signals::caught() > 0,
        clock: clock_source.report(),
        overshoot_ns: (&overshoot).into(),
    })
}

fn spin(clock: &mut impl Clock, rate: Rate, until: Nanos) -> Histogram {
    let mut overshoot = Histogram::new();
    for index in 0.. {
        let deadline = rate.arrival(index);
        if deadline >= until || bw_sys::signals::caught() > 0 {
            break;
        }
        let mut now = clock.now();
        while now < deadline {
            now = clock.now();
        }
        overshoot.record(now.since(deadline).0);
    }
    overshoot
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock whose every reading takes 7 ns.
    struct Steps(u64);

    impl Clock for Steps {
        fn now(&mut self) -> Nanos {
            self.0 += 7;
            Nanos(self.0)
        }
    }

    #[test]
    fn every_deadline_is_met_with_the_overshoot_of_the_clock() {
        let rate = Rate::from_micro_per_s(10_000_000_000_000).unwrap();
        let overshoot = spin(&mut Steps(0), rate, Nanos(100_000));
        assert_eq!((overshoot.count(), overshoot.max()), (1000, Some(7)));
    }
}
