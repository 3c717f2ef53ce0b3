//! A load by one of the naive pacers: what it may be asked, and its thread beside the reporter's.

use crate::ahead::Ahead;
use crate::clock::{monotonic_ns, realtime_ns};
use crate::crew::Report;
use crate::ledger::Ledger;
use crate::pacer::{Ended, Naive};
use crate::policy::{Full, Late};
use crate::reporter::LOOK;
use crate::request::{LoadRequest, Pacer};
use crate::synchronous::Synchronous;
use crate::timekeeper::Timekeeper;
use crate::trouble::Trouble;
use crate::worker::{Hosted, Stop, Times};
use bw_model::Nanos;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};

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

/// What the reporter's thread hears of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Time zero is set: `CLOCK_REALTIME` [ns].
    Begun(u64),
    /// The run is under way.
    Under,
    /// All is done.
    Over,
}

/// What the pacer is run with.
pub struct Job<'a> {
    /// What is asked.
    pub request: &'a LoadRequest,
    /// How to end early.
    pub stop: &'a Stop,
    /// What the clock is made by.
    pub timekeeper: &'a Timekeeper,
    /// What the result says about the target.
    pub target: serde_json::Value,
}

/// The filaments, the calls, and what is recorded into.
type Parts = (Vec<Hosted>, Vec<Box<dyn Synchronous>>, Ledger);

impl Job<'_> {
    /// Runs it; `look` hears of the beginning, 50 times a second that it is under way, and of the
    /// end. Returns time zero too: `CLOCK_REALTIME` [ns].
    ///
    /// # Errors
    /// `pacer-closed`: a filament waits for completions; the processor is none.
    pub fn run(
        &self,
        parts: Parts,
        mut look: impl FnMut(Moment),
    ) -> Result<(Report, u64), Trouble> {
        let (begun, told) = channel();
        let ((ledger, ended), started_ns) = std::thread::scope(|scope| {
            let master = scope.spawn(move || self.issue(parts, begun));
            let started_ns = told.recv();
            if let Ok(started_ns) = started_ns {
                look(Moment::Begun(started_ns));
            }
            while !master.is_finished() {
                std::thread::sleep(std::time::Duration::from_nanos(LOOK.0));
                look(Moment::Under);
            }
            let ended = master
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // A master that did not begin has an error.
            ended.map(|ended| (ended, started_ns.unwrap_or_default()))
        })?;
        look(Moment::Over);
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
        Ok((self.report(ledger), started_ns))
    }

    fn issue(
        &self,
        (filaments, calls, ledger): Parts,
        begun: Sender<u64>,
    ) -> Result<(Ledger, Ended), Trouble> {
        let naive = Naive {
            pacer: self.request.pacer,
            end: self.request.end(),
            interval: self.request.interval_ns,
            stop: self.stop,
            cpu: self.request.cpus.as_ref().map(|cpus| cpus[0]),
        };
        let begin = move || {
            let mut clock = self.timekeeper.clock(monotonic_ns());
            // Whoever listens does so until the end.
            let _ = begun.send(realtime_ns());
            clock.wait_for_zero();
            clock
        };
        naive.run(Ahead::new(filaments), calls, begin, ledger)
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
