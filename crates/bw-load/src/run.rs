//! One load from its request to its result.
//!
//! In order: check, open the target (which makes its file set), examine the machine, choose the clock; start the
//! workers and report until all have finished; assemble the result.

use crate::actions::ActionFile;
use crate::channels::exchange;
use crate::clock::ClockSource;
use crate::environment::{self, EnvironmentReport};
use crate::file_set::claim;
use crate::file_set::make::MakeReport;
use crate::groups::{GroupedFilament, Groups};
use crate::pacer::{OTHER_PACER, PacerJob, PacerPhase};
use crate::policy::SpinMargin;
use crate::pool::{WorkerOutcome, WorkerPool};
use crate::processes::UserProcesses;
use crate::read_ahead::{Fit, ReadOutcome, Readers};
use crate::record::{self, BLOCK, OperationCounts, RecordChannels, WorkerRecord};
pub use crate::reporter::{Progress, RunListener};
use crate::reporter::{Reported, Reporter, Samples, WorkerStreams};
use crate::request::{self, LoadRequest, Pacer};
use crate::result::{self, LoadResult, ResultParts};
use crate::routes::Routes;
use crate::targets::{self, OpenTarget, RunTarget, SeveralFactory};
use crate::worker::{Stop, Times, WorkerFilament, WorkerPlan};
use bw_model::EngineError;
use bw_model::Nanos;
use bw_record::interval::Interval;
use bw_schedule::file_counts::RunFiles;
use bw_schedule::file_set::FileSet;
use bw_schedule::workload::build::Extent;
use bw_schedule::workload::{FilamentSpec, WorkloadSpec};
use bw_sys::clock::monotonic_ns;
use bw_trace::input::{TraceInput, TraceReport};
use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Within this time before an operation a worker starts nothing else.
const NEAR: Nanos = Nanos(1_000);
/// Maximum number of intervals of one worker on their way to the reporter.
const INTERVALS: usize = 64;
/// Empty intervals that a worker has from the start.
const SPARE_INTERVALS: usize = 2;
/// Number of row blocks of one worker: 64 blocks of 4096 rows of 56 bytes are 14 MiB.
const BLOCKS: usize = 64;

/// Runs a load.
///
/// # Errors
/// The request is invalid (status 2), or the machine or the target fails (status 1).
pub fn run(
    request: &LoadRequest,
    listener: &mut dyn RunListener,
) -> Result<LoadResult, EngineError> {
    request.check()?;
    let files = run_files(request)?;
    let set = files.as_ref().map(|files| files.roster().set());
    let opened = targets::open(request, set, &mut |progress| listener.making(progress))?;
    if request.wait_for_start {
        listener.ready()?;
    }
    let run = RunContext::prepare(request, &*opened, files)?;
    if request.pacer != Pacer::Spin {
        return run_other(run, &*opened, request, listener);
    }
    on(&*opened, run, request, listener)
}

/// The parts that every run needs, with any pacer.
struct RunContext {
    environment: EnvironmentReport,
    clock_source: ClockSource,
    stop: Stop,
    readers: Readers,
    /// With traces fitted to their targets, of which there are several.
    workload: Option<WorkloadSpec<TraceInput>>,
    extents: Extents,
    routes: Option<Routes>,
    groups: Arc<Groups>,
    processes: UserProcesses,
    /// The names of the devices in the rows.
    devices: Vec<String>,
    files: Option<RunFiles>,
    made: Option<MakeReport>,
    starved: Starved,
    actions: Option<ActionFile>,
}

impl RunContext {
    /// Opens the traces' readers in a thread that is not pinned, so that they may run on any CPU.
    fn prepare(
        request: &LoadRequest,
        opened: &dyn RunTarget,
        files: Option<RunFiles>,
    ) -> Result<Self, EngineError> {
        let (fit, workload) = match several(opened) {
            Some(several) => {
                let fit = Fit {
                    requests: opened.takes_any_request(),
                    ..Fit::default()
                };
                (fit, Some(several.fitted(&request.workload)))
            }
            None => {
                let fit = Fit {
                    target_bytes: Some(opened.extent()),
                    align_bytes: opened.block_bytes(),
                    requests: opened.takes_any_request(),
                };
                (fit, None)
            }
        };
        let traces: Vec<_> =
            request::traces(workload.as_ref().unwrap_or(&request.workload)).collect();
        let devices = match several(opened) {
            Some(several) => several.names().map(str::to_owned).collect(),
            None => (0..request.workers)
                .map(|worker| format!("worker {worker}"))
                .collect(),
        };
        let (extents, stop) = (Extents::of(opened), Stop::default());
        let extent = |place| extents.of_place(place);
        Ok(Self {
            environment: environment::prepare_process(request)?,
            clock_source: ClockSource::choose(request.clock)?,
            readers: Readers::open(
                &traces,
                request.workers,
                fit,
                &opened.recorded().unwrap_or_default(),
            )?,
            processes: UserProcesses::start(&request.workload, extent, &stop)?,
            stop,
            workload,
            extents,
            routes: several(opened).map(|several| several.routes().clone()),
            groups: Arc::new(groups(request, opened)?),
            devices,
            files,
            made: opened.made(),
            starved: Starved::default(),
            actions: request
                .actions
                .as_deref()
                .map(ActionFile::create)
                .transpose()?,
        })
    }

    /// Makes the filaments of one worker.
    fn build(
        &self,
        request: &LoadRequest,
        worker: usize,
    ) -> Result<Vec<WorkerFilament>, EngineError> {
        let placement = request.placement(worker);
        let mut sources = |trace: &TraceInput| self.readers.source(worker, trace);
        let workload = self.workload.as_ref().unwrap_or(&request.workload);
        let each = self.extents.each();
        let extent = Extent {
            files: self.files.as_ref(),
            each: each.as_deref(),
            processes: Some(&self.processes),
            ..Extent::from(self.extents.whole)
        };
        let built = workload.build(placement, extent, &mut sources)?;
        self.readers.release(worker);
        self.starved.add(built.starved);
        let entry = |(id, filament)| WorkerFilament { id, filament };
        Ok(built.filaments.into_iter().map(entry).collect())
    }

    /// Makes the record of one worker, whose thread calls this: its memory is near the worker's CPU then.
    fn record(
        &self,
        request: &LoadRequest,
        worker: usize,
        mut channels: RecordChannels,
    ) -> WorkerRecord {
        let limits = request.stream_limits();
        channels.intervals.stock((0..SPARE_INTERVALS).map(|_| {
            let judged = limits.as_ref().map(|limits| !limits.is_empty());
            let mut interval = Box::new(Interval::new(0).with_streams(judged));
            interval.touch();
            interval
        }));
        if let Some(rows) = &mut channels.rows {
            rows.stock((0..BLOCKS).map(|_| {
                let mut block = Vec::with_capacity(BLOCK);
                record::touch(&mut block);
                block
            }));
        }
        let RecordChannels { intervals, rows } = channels;
        // There are at most 1024 workers.
        WorkerRecord::new(worker as u16, request.warm_up_ns, intervals, rows)
            .with_streams(limits, request.streamed_targets())
            .with_routes(self.routes.clone())
            .with_groups(Arc::clone(&self.groups), request.workload.chains())
            .with_actions(request.actions.is_some())
    }

    fn finish(
        self,
        request: &LoadRequest,
        reporter: Reporter<'_>,
        (reports, started_ns): (Vec<WorkerOutcome>, u64),
    ) -> Result<LoadResult, EngineError> {
        if claim::is_lost() {
            let message = "the file set: another run has taken it over, because this one did not renew its lock (it was stopped for longer than 30 s)";
            let remedy = "run it again after the other one";
            return Err(EngineError::operating("file-set-lost", message, remedy).about("target"));
        }
        self.clock_source.refine();
        let Reported { series, samples } = reporter.close(result::last_end(&reports));
        let mut counts = OperationCounts {
            starved: self.starved.total(),
            ..OperationCounts::default()
        };
        for report in &reports {
            counts += report.record.counts();
        }
        let logs = reports.iter().filter_map(|report| report.record.actions());
        let actions = self.actions.map(|file| file.finish(logs, started_ns));
        Ok(result::assemble(ResultParts {
            request,
            actions,
            started_ns,
            interrupted: bw_sys::signals::caught() > 0,
            clock: self.clock_source.report(),
            environment: self.environment,
            intervals: series,
            samples: samples.map(|samples| samples.finish(counts.lost_rows)),
            counts,
            files: self.files.as_ref(),
            made: self.made,
            traces: traces(self.readers.finish())?,
            processes: self.processes.finish()?,
            reports,
        }))
    }
}

fn several(opened: &dyn RunTarget) -> Option<&SeveralFactory> {
    let opened: &dyn Any = opened;
    opened.downcast_ref()
}

/// Returns the groups of operations of which the result has figures.
fn groups(request: &LoadRequest, opened: &dyn RunTarget) -> Result<Groups, EngineError> {
    let several = several(opened);
    let filaments = request.workload.filaments.iter().enumerate();
    let filament = |(place, filament): (usize, &FilamentSpec<TraceInput>)| GroupedFilament {
        name: filament
            .name()
            .map_or_else(|| (place + 1).to_string(), str::to_owned),
        target: several.map_or(0, |several| several.part_of(place)),
        kinds: filament.kinds(),
    };
    let targets = several.map(|several| several.names().map(str::to_owned).collect());
    Ok(Groups::new(
        filaments.map(filament).collect(),
        &request.workload.ids()?,
        targets.unwrap_or_default(),
        &opened.labels(),
    ))
}

/// The sizes of the target, or of several targets.
struct Extents {
    /// Of the only target [bytes].
    whole: u64,
    /// Of several: that of the target of each filament of the list [bytes].
    each: Vec<u64>,
}

impl Extents {
    fn of(opened: &dyn RunTarget) -> Self {
        let targets = several(opened)
            .into_iter()
            .flat_map(SeveralFactory::targets);
        let each = targets.map(OpenTarget::extent).collect();
        Self {
            whole: opened.extent(),
            each,
        }
    }

    /// Returns what the filament at this place of the list finds [bytes].
    fn of_place(&self, place: usize) -> u64 {
        self.each.get(place).copied().unwrap_or(self.whole)
    }

    /// Returns what each filament of the list finds; None if all find the same.
    fn each(&self) -> Option<Vec<Extent<'_>>> {
        let each = || self.each.iter().map(|bytes| Extent::from(*bytes)).collect();
        (!self.each.is_empty()).then(each)
    }
}

/// Returns the file set that the filaments use.
fn run_files(request: &LoadRequest) -> Result<Option<RunFiles>, EngineError> {
    let Some(spec) = &request.workload.file_set else {
        return Ok(None);
    };
    let set = FileSet::new(spec).map_err(|error| {
        let message = format!("file_set: {error}");
        EngineError::request("bad-workload", message, "correct the file set")
            .about("workload.file_set")
    })?;
    Ok(Some(RunFiles::new(&request.workload, Arc::new(set))?))
}

fn reporter<'a>(
    request: &LoadRequest,
    devices: &[String],
    streams: Vec<WorkerStreams>,
    listener: &'a mut dyn RunListener,
) -> Result<Reporter<'a>, EngineError> {
    let path = request.samples.as_deref();
    let samples = path.map(|path| Samples::create(path, devices.to_vec()));
    let reporter = Reporter::new(streams, request.interval_ns, samples.transpose()?, listener);
    Ok(reporter.with_histograms(request.interval_histograms))
}

/// Runs a load on the targets of the workers.
fn on(
    opened: &dyn RunTarget,
    run: RunContext,
    request: &LoadRequest,
    listener: &mut dyn RunListener,
) -> Result<LoadResult, EngineError> {
    let (channels, streams) = recording_channels(request);
    let mut reporter = reporter(request, &run.devices, streams, listener)?;
    let build = |worker| run.build(request, worker);
    let record = |worker, channels| run.record(request, worker, channels);
    let pool = WorkerPool {
        plan: plan(request),
        workers: request.workers,
        cpus: request.cpus.as_deref(),
        fifo: request.fifo,
        low_priority: request.low_priority,
        clock_source: &run.clock_source,
        stop: &run.stop,
        build: &build,
        record: &record,
    };
    let done = opened.run(&pool, channels, &mut reporter)?;
    run.finish(request, reporter, done)
}

/// How often traces' readers were behind: one counter for each worker.
#[derive(Default)]
struct Starved(Mutex<Vec<Arc<AtomicU64>>>);

impl Starved {
    fn add(&self, count: Arc<AtomicU64>) {
        // A worker that panics while it holds the lock ends the process.
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

/// Returns the reports of the traces.
///
/// # Errors
/// A trace was malformed in the middle: the replay is not what was requested.
fn traces(outcomes: Vec<ReadOutcome>) -> Result<Vec<TraceReport>, EngineError> {
    let account = |outcome: ReadOutcome| match outcome.error {
        Some(error) => Err(error),
        None => Ok(outcome.report),
    };
    outcomes.into_iter().map(account).collect()
}

fn plan(request: &LoadRequest) -> WorkerPlan {
    WorkerPlan {
        depth: request.depth,
        backlog: request.backlog / request.workers,
        full: request.full,
        late: request.late,
        end: request.end(),
        drain: request.drain_ns,
        spin_margin: SpinMargin::REAL,
        near: NEAR,
        interval: request.interval_ns,
    }
}

/// Returns the workers' and the reporter's ends of the channels between them.
fn recording_channels(request: &LoadRequest) -> (Vec<RecordChannels>, Vec<WorkerStreams>) {
    let one = |_| {
        let (sender, intervals) = exchange(INTERVALS, Vec::new());
        let rows = (request.samples.is_some()).then(|| exchange(BLOCKS + 1, Vec::new()));
        let (row_sender, rows) = rows.unzip();
        let channels = RecordChannels {
            intervals: sender,
            rows: row_sender,
        };
        (channels, WorkerStreams { intervals, rows })
    };
    (0..request.workers).map(one).unzip()
}

/// Runs a load by another pacer than the engine's own.
///
/// # Errors
/// `pacer-unavailable`: this program has none; what the pacer refuses.
fn run_other(
    run: RunContext,
    opened: &dyn RunTarget,
    request: &LoadRequest,
    listener: &mut dyn RunListener,
) -> Result<LoadResult, EngineError> {
    let Some(pacer) = OTHER_PACER.get() else {
        let message = format!(
            "pacer: this engine does not have the pacer '{}'",
            request.pacer.name()
        );
        let remedy = "leave the pacer out, or use the program of benches/naive-pacers";
        return Err(EngineError::request("pacer-unavailable", message, remedy).about("pacer"));
    };
    let (mut channels, streams) = recording_channels(request);
    let mut reporter = reporter(request, &run.devices, streams, listener)?;
    let begin = || {
        let mut clock = run.clock_source.clock(monotonic_ns());
        clock.wait_for_zero();
        clock
    };
    let mut record = run.record(request, 0, channels.remove(0));
    record.measure_until(request.end());
    let job = PacerJob {
        request,
        size_bytes: opened.extent(),
        stop: &run.stop,
        begin: &begin,
        filaments: run.build(request, 0)?,
        record,
    };
    let outcome = pacer(job, &mut |phase| match phase {
        PacerPhase::Begun(started_ns) => reporter.begin(started_ns),
        PacerPhase::Under => reporter.serve(&run.clock_source, &run.stop),
        PacerPhase::Over => {
            reporter.finished(0);
            reporter.serve(&run.clock_source, &run.stop)
        }
    })?;
    let end = match run.stop.load(Ordering::Relaxed) {
        0 => request.end(),
        _ => outcome.record.last_end(),
    };
    let report = WorkerOutcome {
        worker: 0,
        record: outcome.record,
        times: Times::default(),
        spin_margin: Nanos::ZERO,
        scheduling: None,
        end,
        target: outcome.target,
    };
    run.finish(request, reporter, (vec![report], outcome.started_ns))
}
