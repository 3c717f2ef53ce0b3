//! The workers of one run: starts and pins them, sets time zero for all, and waits for them.
//!
//! Decision: a worker makes its target, wakes its filaments and touches its memory in its own thread, before time zero.
//! Time zero is set only when all are ready, slightly in the future, so that they start together. A worker that fails
//! to get ready ends the run before it starts.

use crate::channels::{MessageLinks, mesh};
use crate::clock::{ClockSource, RunClock};
use crate::environment;
use crate::record::{RecordChannels, WorkerRecord};
use crate::reporter::{Reporter, TURN};
use crate::request::LowPriority;
use crate::target::Target;
use crate::worker::{Stop, Times, Worker, WorkerFilament, WorkerInputs, WorkerPlan};
use bw_model::EngineError;
use bw_model::Nanos;
use bw_sys::clock::monotonic_ns;
use bw_sys::cpus::{self, Scheduling};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::Duration;

/// How far in the future time zero is set: enough for every worker to wake up and set its clock.
const AHEAD_NS: u64 = 3_000_000;
/// The priority that is below all others of SCHED_OTHER.
const LOWEST_NICE: i32 = 19;
/// A placeholder before time zero is known: far in the future, so the clock reads zero.
pub(crate) const EARLY_ZERO_NS: u64 = u64::MAX / 4;

/// Returns the filaments of a worker, given its number.
pub(crate) type Build<'a> = dyn Fn(usize) -> Result<Vec<WorkerFilament>, EngineError> + Sync + 'a;

/// Returns the record of a worker, given its number and its channels; called in its thread.
pub(crate) type Record<'a> = dyn Fn(usize, RecordChannels) -> WorkerRecord + Sync + 'a;

/// The inputs of all workers.
pub(crate) struct WorkerPool<'a> {
    pub plan: WorkerPlan,
    pub workers: usize,
    /// The CPUs, one for each worker.
    pub cpus: Option<&'a [usize]>,
    /// A real-time priority.
    pub fifo: Option<u8>,
    /// A priority below that of other threads.
    pub low_priority: Option<LowPriority>,
    /// The clock.
    pub clock_source: &'a ClockSource,
    /// The flag that ends the run early.
    pub stop: &'a Stop,
    /// Makes the filaments.
    pub build: &'a Build<'a>,
    /// Makes the records.
    pub record: &'a Record<'a>,
}

/// Makes a worker's target, gives it the run's clock, and describes it for the result.
pub(crate) trait TargetFactory: Sync {
    type Target: Target + 'static;

    /// Makes the target of one worker, with a clock that reads zero.
    ///
    /// # Errors
    /// There is no such target, or no such engine.
    fn make(&self, worker: usize, clock: RunClock) -> Result<Self::Target, EngineError>;

    /// Gives the target the clock that counts from time zero.
    fn begin(&self, _target: &mut Self::Target, _clock: RunClock) {}

    /// Returns the target's description for the result.
    fn describe(&self, target: &Self::Target) -> serde_json::Value;
}

/// What a worker returns at its end.
pub(crate) struct WorkerOutcome {
    /// Which worker.
    pub worker: usize,
    /// What it recorded.
    pub record: WorkerRecord,
    /// How it spent its time.
    pub times: Times,
    /// Its spin margin at the end.
    pub spin_margin: Nanos,
    /// How the kernel scheduled its thread; None for the pacers without a worker.
    pub scheduling: Option<Scheduling>,
    /// Where its part of the run ended: earlier than planned if it was stopped.
    pub end: Nanos,
    /// Its target's description.
    pub target: serde_json::Value,
}

/// What workers report to the thread that started them.
enum WorkerEvent {
    Ready,
    Done(Box<WorkerOutcome>),
    Failed(EngineError),
}

/// A worker's connection to the thread that started it.
struct WorkerLink {
    events: Sender<WorkerEvent>,
    start: Receiver<u64>,
}

impl WorkerPool<'_> {
    /// Runs all workers to the end and returns their outcomes in order, and time zero in
    /// `CLOCK_REALTIME` [ns]. The reporter runs meanwhile.
    ///
    /// # Errors
    /// A worker failed to get ready, or its target failed: the first such error.
    pub(crate) fn run<M: TargetFactory>(
        &self,
        factory: &M,
        channels: Vec<RecordChannels>,
        reporter: &mut Reporter<'_>,
    ) -> Result<(Vec<WorkerOutcome>, u64), EngineError> {
        std::thread::scope(|scope| {
            let (sender, events) = channel();
            let mut start_senders = Vec::with_capacity(self.workers);
            let ends = channels.into_iter().zip(mesh(self.workers));
            for (worker, (channels, links)) in ends.enumerate() {
                let (start, begin) = channel();
                start_senders.push(start);
                let link = WorkerLink {
                    events: sender.clone(),
                    start: begin,
                };
                self.start(scope, factory, (worker, channels, links), link)?;
            }
            drop(sender);
            wait_until_ready(&events, self.workers)?;
            let given_ns = reporter.armed()?;
            if let Some(zero_ns) = given_ns {
                wait_until_near(zero_ns)?;
                self.clock_source.refine();
            }
            let started_ns = begin(start_senders, given_ns);
            reporter.begin(started_ns);
            self.supervise(&events, reporter)
                .map(|reports| (reports, started_ns))
        })
    }

    fn start<'scope, M: TargetFactory>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        factory: &'scope M,
        what: (usize, RecordChannels, MessageLinks),
        link: WorkerLink,
    ) -> Result<(), EngineError> {
        let worker = what.0;
        let name = format!("bw-worker-{worker}");
        let work = move || {
            // A panic ends the process: see `environment::on_panic`.
            let event = match self.work(factory, what, &link) {
                Ok(Some(report)) => WorkerEvent::Done(Box::new(report)),
                Ok(None) => return,
                Err(error) => WorkerEvent::Failed(error),
            };
            // The receiver is closed if another worker failed first.
            drop(link.events.send(event));
        };
        let started = std::thread::Builder::new()
            .name(name)
            .spawn_scoped(scope, work);
        started.map(drop).map_err(|error| {
            let message = format!("worker {worker} could not be started: {error}");
            EngineError::operating("worker-start", message, "use fewer workers")
        })
    }

    /// Runs one worker from set-up to its outcome. None if the run did not start.
    fn work<M: TargetFactory>(
        &self,
        factory: &M,
        (worker, channels, links): (usize, RecordChannels, MessageLinks),
        link: &WorkerLink,
    ) -> Result<Option<WorkerOutcome>, EngineError> {
        self.set_up_thread(worker)?;
        let early_clock = self.clock_source.clock(EARLY_ZERO_NS);
        let target = factory.make(worker, early_clock.clone())?;
        let inputs = WorkerInputs {
            filaments: (self.build)(worker)?,
            links,
            stop: Stop::clone(self.stop),
            record: (self.record)(worker, channels),
        };
        let mut engine = Worker::new(self.plan, target, early_clock, inputs);
        self.take_priority(worker)?;
        let scheduling = Scheduling::current().ok();
        drop(link.events.send(WorkerEvent::Ready));
        let Ok(zero_ns) = link.start.recv() else {
            return Ok(None);
        };
        let mut clock = self.clock_source.clock(zero_ns);
        factory.begin(engine.set_clock(clock.clone()), clock.clone());
        clock.wait_for_zero();
        let finished = engine
            .run()
            .map_err(|error| target_failed(worker, &error))?;
        Ok(Some(WorkerOutcome {
            worker,
            target: factory.describe(&finished.target),
            record: finished.record,
            times: finished.times,
            spin_margin: finished.spin_margin,
            scheduling,
            end: finished.end,
        }))
    }

    fn set_up_thread(&self, worker: usize) -> Result<(), EngineError> {
        // Without it the spin margin grows by 50 us: the worker only spins longer.
        drop(cpus::set_timer_slack(1));
        let cpu = self.cpus.and_then(|cpus| cpus.get(worker)).copied();
        cpu.map_or(Ok(()), |cpu| {
            environment::take_cpu(cpu).map_err(|error| error.about("cpus"))
        })
    }

    fn take_priority(&self, worker: usize) -> Result<(), EngineError> {
        let (name, taken) = match (self.fifo, self.low_priority) {
            (Some(priority), _) => (
                format!("SCHED_FIFO {priority}"),
                cpus::set_fifo(priority).map_err(|error| ("fifo-refused", error)),
            ),
            (None, Some(low)) => {
                let (name, taken) = match low {
                    LowPriority::Nice => ("nice 19", cpus::set_nice(LOWEST_NICE)),
                    LowPriority::Idle => ("SCHED_IDLE", cpus::set_idle()),
                };
                let taken = taken.map_err(|error| ("low-priority-refused", error));
                (name.to_owned(), taken)
            }
            (None, None) => return Ok(()),
        };
        taken.map_err(|(code, error)| {
            let message = format!("worker {worker} cannot have {name}: {error}");
            let remedy = "run as root, or leave the priority out";
            EngineError::operating(code, message, remedy)
        })
    }

    /// Waits for all workers while the reporter processes what they hand over.
    fn supervise(
        &self,
        events: &Receiver<WorkerEvent>,
        reporter: &mut Reporter<'_>,
    ) -> Result<Vec<WorkerOutcome>, EngineError> {
        let (mut reports, mut failure) = (Vec::new(), None);
        loop {
            match events.recv_timeout(Duration::from_nanos(TURN.0)) {
                Ok(WorkerEvent::Done(report)) => {
                    reporter.finished(report.worker);
                    reports.push(*report);
                }
                Ok(WorkerEvent::Failed(error)) => {
                    self.stop.store(2, Ordering::Relaxed);
                    failure = failure.or(Some(error));
                }
                Ok(WorkerEvent::Ready) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            reporter.serve(self.clock_source, self.stop);
        }
        reports.sort_by_key(|report| report.worker);
        failure.map_or(Ok(reports), Err)
    }
}

fn wait_until_ready(events: &Receiver<WorkerEvent>, workers: usize) -> Result<(), EngineError> {
    for _ in 0..workers {
        match events.recv() {
            Ok(WorkerEvent::Failed(error)) => return Err(error),
            Ok(WorkerEvent::Ready | WorkerEvent::Done(_)) => {}
            Err(_) => {
                return Err(EngineError::operating(
                    "worker-died",
                    "a worker ended before it was ready",
                    "see the messages above; please report this",
                ));
            }
        }
    }
    Ok(())
}

/// Waits until a given time zero is so near that the workers must wake up. A signal ends the wait.
///
/// # Errors
/// `start-missed`: it is nearer already, or over.
fn wait_until_near(zero_ns: u64) -> Result<(), EngineError> {
    let near_ns = zero_ns.saturating_sub(AHEAD_NS);
    let ahead_ns = near_ns.saturating_sub(monotonic_ns());
    if ahead_ns == 0 {
        let message = "the time to start was over when the engine received it";
        let remedy = "the connection is slow, or the machine: try again";
        return Err(EngineError::operating("start-missed", message, remedy));
    }
    while let left @ 1.. = near_ns.saturating_sub(monotonic_ns()) {
        if bw_sys::signals::caught() > 0 {
            break;
        }
        bw_sys::clock::sleep(left.min(TURN.0));
    }
    Ok(())
}

/// Sets time zero for all workers, at the given time or soon; returns it in `CLOCK_REALTIME` [ns].
fn begin(start_senders: Vec<Sender<u64>>, given_ns: Option<u64>) -> u64 {
    let now_ns = monotonic_ns();
    let zero_ns = given_ns.unwrap_or(now_ns + AHEAD_NS);
    let started_ns = (bw_sys::clock::realtime_ns() + zero_ns).saturating_sub(now_ns);
    for start in start_senders {
        // A worker that has ended has reported why.
        let _ = start.send(zero_ns);
    }
    started_ns
}

fn target_failed(worker: usize, error: &std::io::Error) -> EngineError {
    EngineError::operating(
        "target-failed",
        format!("worker {worker}: the target failed: {error}"),
        "check that the target still exists, and read the kernel's log",
    )
}
