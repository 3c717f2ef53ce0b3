//! A load by one of the naive pacers: what it may be asked, and its thread beside the reporter's.

use crate::ahead::Ahead;
use crate::crew::Report;
use crate::ledger::Ledger;
use crate::pacer::{Ended, Naive};
use crate::policy::{Full, Late};
use crate::reporter::LOOK;
use crate::request::{LoadRequest, Pacer};
use crate::synchronous::Synchronous;
use crate::timekeeper::AnyClock;
use crate::trouble::Trouble;
use crate::worker::{Hosted, Stop, Times};
use bw_units::Nanos;
use std::sync::atomic::Ordering;

/// How far ahead time zero is set.
pub const AHEAD_NS: u64 = 50_000_000;
/// The most threads.
const THREADS: u32 = 1024;

/// Checks what the naive pacers cannot do.
///
/// # Errors
/// `pacer-option`.
pub fn check(request: &LoadRequest) -> Result<(), Trouble> {
    let wrong = [
        (
            request.workers > 1,
            "one worker: its depth is the number of threads",
        ),
        (
            request.late != Late::CatchUp,
            "no late policy but 'catch-up'",
        ),
        (
            request.full != Full::Queue,
            "no dropping: a thread that is free takes what waits",
        ),
        (request.fifo.is_some(), "no real-time priority"),
    ];
    match wrong.iter().find(|(wrong, _)| *wrong) {
        Some((_, what)) => {
            let message = format!("the naive pacers have {what}");
            Err(Trouble::request(
                "pacer-option",
                message,
                "leave this option out, or the pacer",
            ))
        }
        None => Ok(()),
    }
}

/// Returns how many threads issue: the depth.
#[must_use]
pub fn threads(request: &LoadRequest) -> u32 {
    request.depth.min(THREADS)
}

/// What the pacer is run with.
pub struct Job<'a> {
    /// What is asked.
    pub request: &'a LoadRequest,
    /// How to end early.
    pub stop: &'a Stop,
    /// The clock, from time zero.
    pub clock: AnyClock,
    /// What the result says about the target.
    pub target: serde_json::Value,
}

/// The filaments, the calls, and what is recorded into.
type Parts = (Vec<Hosted>, Vec<Box<dyn Synchronous>>, Ledger);

impl Job<'_> {
    /// Runs it; `look` is called 50 times a second and once when all is done.
    ///
    /// # Errors
    /// `pacer-closed`: a filament waits for completions; the processor is none; as `look`.
    pub fn run(
        &self,
        (filaments, calls, ledger): Parts,
        mut look: impl FnMut(bool) -> Result<(), Trouble>,
    ) -> Result<Report, Trouble> {
        let cpu = self.request.cpus.as_ref().map(|cpus| cpus[0]);
        let mut failure = None;
        let (ledger, ended) = std::thread::scope(|scope| {
            let master = scope.spawn(|| self.issue(filaments, calls, ledger, cpu));
            while !master.is_finished() {
                std::thread::sleep(std::time::Duration::from_nanos(LOOK.0));
                if let Err(trouble) = look(false) {
                    self.stop.store(2, Ordering::Relaxed);
                    failure = failure.take().or(Some(trouble));
                }
            }
            master
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        look(true)?;
        if let Some(trouble) = failure {
            return Err(trouble);
        }
        if ended == Ended::ClosedLoop {
            return Err(Trouble::request(
                "pacer-closed",
                format!(
                    "the pacer '{}' cannot run filaments that wait for completions",
                    name(self.request.pacer)
                ),
                "use open loops and traces, or leave the pacer out",
            ));
        }
        Ok(self.report(ledger))
    }

    fn issue(
        &self,
        filaments: Vec<Hosted>,
        calls: Vec<Box<dyn Synchronous>>,
        ledger: Ledger,
        cpu: Option<usize>,
    ) -> Result<(Ledger, Ended), Trouble> {
        let naive = Naive {
            pacer: self.request.pacer,
            end: self.request.end(),
            interval: self.request.interval_ns,
            stop: self.stop,
            cpu,
        };
        naive.run(Ahead::new(filaments), calls, &self.clock, ledger)
    }

    fn report(&self, ledger: Ledger) -> Report {
        let stopped = self.stop.load(Ordering::Relaxed) > 0;
        let end = if stopped {
            ledger.last_end()
        } else {
            self.request.end()
        };
        Report {
            worker: 0,
            ledger,
            times: Times::default(),
            guard: Nanos::ZERO,
            end,
            target: self.target.clone(),
        }
    }
}

fn name(pacer: Pacer) -> &'static str {
    match pacer {
        Pacer::Spin => "spin",
        Pacer::Select => "select",
        Pacer::Sleep => "sleep",
        Pacer::DedClock => "ded-clock",
    }
}
