//! One load from its request to its result.
//!
//! In order: check, look at the machine, open the target, choose the clock; start the workers and
//! report until all are done; put together what they left.

use crate::crew::{Crew, Maker, NOT_YET_NS, Report};
use crate::demand;
use crate::environment::{self, EnvironmentReport};
use crate::exchange::exchange;
use crate::guard::Guard;
use crate::ledger::{BLOCK, Counts, Ledger};
use crate::naive::{self, Moment};
use crate::read_ahead::{Fit, Outcome, Readers};
use crate::reporter::{Desk, Reported, Reporter};
use crate::request::{LoadRequest, Pacer};
use crate::result::{self, LoadResult, Parts, Progress};
use crate::samples::Samples;
use crate::signals;
use crate::targets::{self, Opened};
use crate::timekeeper::Timekeeper;
use crate::trouble::Trouble;
use crate::worker::{Hosted, Plan, Stop};
use bw_record::interval::Interval;
use bw_schedule::workload::Placement;
use bw_trace::input::TraceInput;
use bw_trace::report::TraceReport;
use bw_model::Nanos;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Within so much of an operation's time a worker begins nothing else.
const NEAR: Nanos = Nanos(1_000);
/// Intervals of one worker that may be under way to the reporter.
const INTERVALS: usize = 64;
/// Blocks of rows of one worker: 64 blocks of 4096 rows of 56 bytes are 14 MiB.
const BLOCKS: usize = 64;

/// Runs a load; `tell` hears of every interval.
///
/// # Errors
/// The request is wrong (status 2), or the machine or the target fails (status 1).
pub fn run(request: &LoadRequest, tell: &mut dyn FnMut(&Progress)) -> Result<LoadResult, Trouble> {
    request.check()?;
    let opened = targets::open(request)?;
    if request.pacer != Pacer::Spin {
        return naively(&opened, request, tell);
    }
    match &opened {
        Opened::Null(maker) => on(maker, &opened, request, tell),
        Opened::File(maker) => on(&**maker, &opened, request, tell),
        Opened::Tcp(maker) => on(maker, &opened, request, tell),
        Opened::Http(maker) => on(maker, &opened, request, tell),
    }
}

/// What every run is made of, whoever issues.
struct Run {
    environment: EnvironmentReport,
    timekeeper: Timekeeper,
    stop: Stop,
    readers: Readers,
    extent: u64,
    starved: Starved,
}

impl Run {
    /// Readers of traces begin here, in a thread that is not pinned: theirs run where they may.
    fn prepare(request: &LoadRequest, opened: &Opened) -> Result<Self, Trouble> {
        let fit = Fit {
            target_bytes: Some(opened.extent()),
            align_bytes: opened.block_bytes(),
        };
        let traces: Vec<_> = demand::traces(&request.workload).collect();
        Ok(Self {
            environment: environment::prepare(request)?,
            timekeeper: Timekeeper::choose(request.clock)?,
            stop: Stop::default(),
            readers: Readers::open(&traces, request.workers, fit)?,
            extent: opened.extent(),
            starved: Starved::default(),
        })
    }

    /// Makes the filaments of one worker.
    fn build(&self, request: &LoadRequest, worker: usize) -> Result<Vec<Hosted>, Trouble> {
        // Both are below the greatest number of workers.
        let placement = Placement {
            worker: worker as u32,
            workers: request.workers as u32,
        };
        let mut sources = |trace: &TraceInput| self.readers.source(worker, trace);
        let built = (request.workload).build(placement, self.extent, &mut sources)?;
        self.readers.release(worker);
        self.starved.add(built.starved);
        let hosted = |(id, filament)| Hosted { id, filament };
        Ok(built.filaments.into_iter().map(hosted).collect())
    }

    fn finish(
        self,
        request: &LoadRequest,
        reporter: Reporter<'_>,
        (reports, started_ns): (Vec<Report>, u64),
    ) -> Result<LoadResult, Trouble> {
        self.timekeeper.refine();
        let Reported { series, samples } = reporter.close(result::last_end(&reports));
        let mut counts = Counts {
            starved: self.starved.total(),
            ..Counts::default()
        };
        for report in &reports {
            counts += report.ledger.counts();
        }
        Ok(result::assemble(Parts {
            request,
            started_ns,
            interrupted: signals::caught() > 0,
            clock: self.timekeeper.report(),
            environment: self.environment,
            intervals: series,
            samples: samples.map(|samples| samples.finish(counts.lost_rows)),
            counts,
            traces: traces(self.readers.finish())?,
            reports,
        }))
    }
}

fn reporter<'a>(
    request: &LoadRequest,
    desks: Vec<Desk>,
    tell: &'a mut dyn FnMut(&Progress),
) -> Result<Reporter<'a>, Trouble> {
    let path = request.samples.as_deref();
    let samples = path.map(|path| Samples::create(path, request.workers));
    let reporter = Reporter::new(desks, request.interval_ns, samples.transpose()?, tell);
    Ok(reporter.with_histograms(request.interval_histograms))
}

/// Runs a load on the targets that `maker` makes of `opened`.
fn on<M: Maker>(
    maker: &M,
    opened: &Opened,
    request: &LoadRequest,
    tell: &mut dyn FnMut(&Progress),
) -> Result<LoadResult, Trouble> {
    let run = Run::prepare(request, opened)?;
    let (ledgers, desks) = paper(request);
    let mut reporter = reporter(request, desks, tell)?;
    let build = |worker| run.build(request, worker);
    let crew = Crew {
        plan: plan(request),
        workers: request.workers,
        cpus: request.cpus.as_deref(),
        fifo: request.fifo,
        timekeeper: &run.timekeeper,
        stop: &run.stop,
        build: &build,
    };
    let done = crew.run(maker, ledgers, &mut reporter)?;
    run.finish(request, reporter, done)
}

/// Runs a load by one of the paper's naive replayers.
fn naively(
    opened: &Opened,
    request: &LoadRequest,
    tell: &mut dyn FnMut(&Progress),
) -> Result<LoadResult, Trouble> {
    naive::check(request)?;
    let run = Run::prepare(request, opened)?;
    let (mut ledgers, desks) = paper(request);
    let mut reporter = reporter(request, desks, tell)?;
    let filaments = run.build(request, 0)?;
    let standing = run.timekeeper.clock(NOT_YET_NS);
    let calls = opened.calls(naive::threads(request), &standing)?;
    let job = naive::Job {
        request,
        stop: &run.stop,
        timekeeper: &run.timekeeper,
        target: opened.describe_calls(),
    };
    let ledger = ledgers.remove(0);
    let (report, started_ns) = job.run((filaments, calls, ledger), |moment| match moment {
        Moment::Begun(started_ns) => reporter.begin(started_ns),
        Moment::Under => reporter.look(&run.timekeeper, &run.stop),
        Moment::Over => {
            reporter.finished(0);
            reporter.look(&run.timekeeper, &run.stop)
        }
    })?;
    run.finish(request, reporter, (vec![report], started_ns))
}

/// How often traces' readers were behind: one count for each worker.
#[derive(Default)]
struct Starved(Mutex<Vec<Arc<AtomicU64>>>);

impl Starved {
    fn add(&self, count: Arc<AtomicU64>) {
        // A worker that panicked while it held the lock has ended the run.
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(count);
    }

    fn total(&self) -> u64 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum()
    }
}

/// Returns the accounts of the traces.
///
/// # Errors
/// One was wrong in the middle: what was replayed is not what was asked for.
fn traces(outcomes: Vec<Outcome>) -> Result<Vec<TraceReport>, Trouble> {
    let account = |outcome: Outcome| match outcome.error {
        Some(error) => Err(Trouble::from(error)),
        None => Ok(outcome.report),
    };
    outcomes.into_iter().map(account).collect()
}

fn plan(request: &LoadRequest) -> Plan {
    Plan {
        depth: request.depth,
        backlog: request.backlog / request.workers,
        full: request.full,
        late: request.late,
        end: request.end(),
        drain: request.drain_ns,
        guard: Guard::REAL,
        near: NEAR,
        interval: request.interval_ns,
    }
}

/// Returns what the workers write into, and where the reporter finds it.
fn paper(request: &LoadRequest) -> (Vec<Ledger>, Vec<Desk>) {
    let one = |worker| {
        let spare = (0..2).map(|_| Box::new(Interval::new(0))).collect();
        let (filler, intervals) = exchange(INTERVALS, spare);
        let blocks = || (0..BLOCKS).map(|_| Vec::with_capacity(BLOCK)).collect();
        let rows = request
            .samples
            .is_some()
            .then(|| exchange(BLOCKS + 1, blocks()));
        let (row_filler, rows) = rows.unzip();
        let ledger = Ledger::new(worker, request.warm_up_ns, filler, row_filler);
        (ledger, Desk { intervals, rows })
    };
    // Workers are at most 1024.
    (0..request.workers as u16).map(one).unzip()
}
