//! The naive replayers of the Buttress paper as issue strategies, to be compared with the engine's own loop.
//!
//! SELECT and SLEEP: a master hands the next operation to a free thread, which waits for its time by select() or usleep()
//! and then executes it synchronously. DED-CLOCK: a thread spins on the clock and wakes a sleeping thread for every due
//! operation. All as in section 2 of the paper: the kernel's default timer slack, no pinning of the threads, `depth`
//! threads. They run only workloads that do not wait for completions; the record is that of the engine's own loop.
//!
//! Decisions. All threads share one record behind a lock, written when an operation has completed: it costs nothing
//! before the issue, and 128 records would take a gigabyte. Blocking targets have their own trait: wrapping the
//! asynchronous target would measure our engine, not theirs. Time zero is set only when all threads are ready: threads
//! with locked stacks and filled buffers take tenths of a second to start, and the first operations would be late for a
//! reason that is not the pacer's.

use crate::clock::{Clock, ClockSource, RunClock};
use crate::environment;
use crate::file::blocking;
use crate::file::buffers::Buffers;
use crate::file::open::OpenFile;
use crate::null::NullSpec;
use crate::policy::{Full, Late};
use crate::pool::WorkerOutcome;
use crate::queue::{Due, InFlight, OperationQueue, Planned, TimeHeap};
use crate::record::WorkerRecord;
use crate::reporter::TURN;
use crate::request::{LoadRequest, Pacer};
use crate::targets::{FileFactory, NullFactory, RunTarget};
use crate::worker::{Stop, Times, WorkerFilament};
use bw_model::EngineError;
use bw_model::{Nanos, Operation};
use bw_schedule::filaments::{Emissions, Event, FilamentId};
use bw_sys::clock::{monotonic_ns, realtime_ns};
use serde_json::{Value, json};
use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The maximum number of threads.
const THREADS: u32 = 1024;

/// Refuses requests that the naive pacers do not support.
///
/// # Errors
/// `pacer-option`.
pub fn check(request: &LoadRequest) -> Result<(), EngineError> {
    let wrong = [
        (
            request.workers > 1,
            "one worker: its depth is the number of threads",
        ),
        (
            request.late != Late::CatchUp,
            "the only late policy is 'catch-up'",
        ),
        (
            request.full != Full::Queue,
            "no dropping: a thread that is free takes what waits",
        ),
        (request.fifo.is_some(), "no real-time priority"),
        (
            request.low_priority.is_some(),
            "no priority: their threads have that of the process",
        ),
    ];
    match wrong.iter().find(|(wrong, _)| *wrong) {
        Some((_, what)) => {
            let message = format!("the naive pacers have {what}");
            Err(EngineError::request(
                "pacer-option",
                message,
                "leave this option out, or the pacer",
            ))
        }
        None => Ok(()),
    }
}

/// Returns the number of issuing threads: the depth.
#[must_use]
pub fn threads(request: &LoadRequest) -> u32 {
    request.depth.min(THREADS)
}

/// What the reporter's thread is notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NaivePhase {
    /// Time zero is set: `CLOCK_REALTIME` [ns].
    Begun(u64),
    /// The run is in progress.
    Under,
    /// The run has ended.
    Over,
}

/// The inputs of a naive run.
pub(crate) struct NaiveRun<'a> {
    /// The request.
    pub request: &'a LoadRequest,
    /// The flag that ends the run early.
    pub stop: &'a Stop,
    /// The source of the clock.
    pub clock_source: &'a ClockSource,
    /// What the result says about the target.
    pub target: serde_json::Value,
}

/// The filaments, the blocking targets, and the record.
type NaiveParts = (
    Vec<WorkerFilament>,
    Vec<Box<dyn BlockingTarget>>,
    WorkerRecord,
);

impl NaiveRun<'_> {
    /// Runs the load; calls `look` at the start, 50 times a second during the run, and at the
    /// end. Also returns time zero: `CLOCK_REALTIME` [ns].
    ///
    /// # Errors
    /// `pacer-closed`: a filament waits for completions; `no-such-cpu`.
    pub(crate) fn run(
        &self,
        parts: NaiveParts,
        mut look: impl FnMut(NaivePhase),
    ) -> Result<(WorkerOutcome, u64), EngineError> {
        let (begun, receiver) = channel();
        let ((record, ended), started_ns) = std::thread::scope(|scope| {
            let master = scope.spawn(move || self.issue(parts, begun));
            let started_ns = receiver.recv();
            if let Ok(started_ns) = started_ns {
                look(NaivePhase::Begun(started_ns));
            }
            while !master.is_finished() {
                std::thread::sleep(std::time::Duration::from_nanos(TURN.0));
                look(NaivePhase::Under);
            }
            let ended = master
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // A master that did not start has an error.
            ended.map(|ended| (ended, started_ns.unwrap_or_default()))
        })?;
        look(NaivePhase::Over);
        if ended == PacerEnd::ClosedLoop {
            return Err(EngineError::request(
                "pacer-closed",
                format!(
                    "the pacer '{}' cannot run filaments that wait for completions",
                    self.request.pacer.name()
                ),
                "use open loops and traces, or leave the pacer out",
            ));
        }
        Ok((self.report(record), started_ns))
    }

    fn issue(
        &self,
        (filaments, calls, record): NaiveParts,
        begun: Sender<u64>,
    ) -> Result<(WorkerRecord, PacerEnd), EngineError> {
        let naive = Naive {
            pacer: self.request.pacer,
            end: self.request.end(),
            interval: self.request.interval_ns,
            stop: self.stop,
            cpu: self.request.cpus.as_ref().map(|cpus| cpus[0]),
        };
        let begin = move || {
            let mut clock = self.clock_source.clock(monotonic_ns());
            // The receiver exists until the end.
            let _ = begun.send(realtime_ns());
            clock.wait_for_zero();
            clock
        };
        naive.run(Ahead::new(filaments), calls, begin, record)
    }

    fn report(&self, record: WorkerRecord) -> WorkerOutcome {
        let stopped = self.stop.load(Ordering::Relaxed) > 0;
        let end = if stopped {
            record.last_end()
        } else {
            self.request.end()
        };
        WorkerOutcome {
            worker: 0,
            record,
            times: Times::default(),
            spin_margin: Nanos::ZERO,
            scheduling: None,
            end,
            target: self.target.clone(),
        }
    }
}

/// How far ahead of the present the master looks.
const HORIZON: Nanos = Nanos::SECOND;
/// The longest single sleep, so that a signal is noticed; only the last sleep before the deadline affects accuracy.
const LONGEST_SLEEP: u64 = 100_000_000;

/// Why a naive pacer stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacerEnd {
    /// Everything was handed out and executed.
    Done,
    /// A filament waits for completions.
    ClosedLoop,
}

/// Operations on their way from the master to the threads.
struct OperationHandOff {
    waiting: Mutex<(VecDeque<Planned>, bool)>,
    something: Condvar,
    room: Condvar,
    most: usize,
}

impl OperationHandOff {
    fn lock(&self) -> MutexGuard<'_, (VecDeque<Planned>, bool)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands an operation over; waits while every thread has one.
    fn give(&self, planned: Planned) {
        let mut waiting = self.lock();
        while waiting.0.len() >= self.most {
            waiting = self
                .room
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
        waiting.0.push_back(planned);
        drop(waiting);
        self.something.notify_one();
    }

    /// Waits for an operation; None when there will be no more.
    fn take(&self) -> Option<Planned> {
        let mut waiting = self.lock();
        loop {
            if let Some(planned) = waiting.0.pop_front() {
                self.room.notify_one();
                return Some(planned);
            }
            if waiting.1 {
                return None;
            }
            waiting = self
                .something
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn close(&self) {
        self.lock().1 = true;
        self.something.notify_all();
    }
}

/// The record, and when its current interval ends.
struct LockedRecord {
    record: WorkerRecord,
    boundary: Nanos,
}

/// A naive replayer.
pub(crate) struct Naive<'a> {
    /// Which replayer.
    pub pacer: Pacer,
    /// Operations with an intended start from here on do not belong to this run.
    pub end: Nanos,
    /// The length of the intervals of the report.
    pub interval: Nanos,
    /// The flag that ends the run early.
    pub stop: &'a Stop,
    /// The CPU that the master is bound to; its threads are not bound.
    pub cpu: Option<usize>,
}

impl Naive<'_> {
    /// Runs the filaments with one thread for each of `calls`; returns the record and the reason for the end.
    /// `begin` sets time zero when every thread is ready, and returns the clock from then on.
    ///
    /// # Errors
    /// `no-such-cpu`; `worker-start`: the system has no more threads.
    pub(crate) fn run(
        &self,
        ahead: Ahead,
        calls: Vec<Box<dyn BlockingTarget>>,
        begin: impl FnOnce() -> RunClock,
        record: WorkerRecord,
    ) -> Result<(WorkerRecord, PacerEnd), EngineError> {
        let hand_off = OperationHandOff {
            waiting: Mutex::default(),
            something: Condvar::new(),
            room: Condvar::new(),
            most: calls.len(),
        };
        let boundary = self.interval;
        let recording = Mutex::new(LockedRecord { record, boundary });
        let barrier = StartBarrier::default();
        let ended = std::thread::scope(|scope| {
            let (threads, places) = (calls.len(), (&barrier, &hand_off, &recording));
            let mut calls = calls.into_iter();
            let started = calls.try_for_each(|call| {
                let serve = move || self.serve(call, places);
                let thread = std::thread::Builder::new().spawn_scoped(scope, serve);
                thread.map(drop).map_err(|error| not_started(&error))
            });
            // The threads exist already, and do not inherit the binding.
            let bound = started.and_then(|()| self.cpu.map_or(Ok(()), environment::take_cpu));
            let ended = bound.map(|()| {
                barrier.wait_for(threads);
                let clock = begin();
                barrier.go(clock.clone());
                self.hand_out(ahead, clock, &hand_off)
            });
            barrier.cancel();
            hand_off.close();
            ended
        })?;
        let mut recording = recording
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        recording.record.close(0, 0);
        Ok((recording.record, ended))
    }

    /// The master: hands operations out in order.
    fn hand_out(
        &self,
        mut ahead: Ahead,
        mut clock: RunClock,
        hand_off: &OperationHandOff,
    ) -> PacerEnd {
        while self.stop.load(Ordering::Relaxed) == 0 {
            let now = clock.now();
            match ahead.next(now + HORIZON) {
                Next::Operation(planned) if planned.operation.at < self.end => {
                    if self.pacer == Pacer::DedClock && !self.spin(&mut clock, planned.operation.at)
                    {
                        break;
                    }
                    hand_off.give(planned);
                }
                Next::Later(at) if at < self.end => bw_sys::clock::sleep(1_000_000),
                Next::Operation(_) | Next::Later(_) | Next::End => break,
                Next::Closed => return PacerEnd::ClosedLoop,
            }
        }
        PacerEnd::Done
    }

    /// Spins until `at`; false if the run was stopped.
    fn spin(&self, clock: &mut RunClock, at: Nanos) -> bool {
        while clock.now() < at {
            if self.stop.load(Ordering::Relaxed) > 0 {
                return false;
            }
        }
        true
    }

    /// A thread: waits for the time of each operation it receives, and executes it.
    fn serve(
        &self,
        mut call: Box<dyn BlockingTarget>,
        (barrier, hand_off, recording): (&StartBarrier, &OperationHandOff, &Mutex<LockedRecord>),
    ) {
        let Some(mut clock) = barrier.ready() else {
            return;
        };
        call.begin(&clock);
        while let Some(planned) = hand_off.take() {
            if !self.wait(&mut clock, planned.operation.at) {
                continue;
            }
            let issued = clock.now();
            let result = call.execute(&planned.operation);
            let now = clock.now();
            let flight = InFlight {
                planned,
                issued,
                held_since: None,
            };
            self.note(&mut lock(recording), &flight, now, result);
        }
    }

    fn note(&self, recording: &mut LockedRecord, flight: &InFlight, now: Nanos, result: i32) {
        if now >= recording.boundary {
            let index = now.0 / self.interval.0.max(1);
            recording.record.turn_over(index, 0, 0);
            recording.boundary = Nanos((index + 1).saturating_mul(self.interval.0));
        }
        recording.record.intended(&flight.planned);
        recording.record.issued(&flight.planned, flight.issued);
        recording.record.completed(flight, now, now, result.into());
    }

    /// Waits until `at`; false if the run is stopped before that.
    fn wait(&self, clock: &mut RunClock, at: Nanos) -> bool {
        loop {
            let left = at.since(clock.now()).0.min(LONGEST_SLEEP);
            if left == 0 || self.stop.load(Ordering::Relaxed) > 0 {
                return left == 0;
            }
            // Rounded up: never early.
            let microseconds = left.div_ceil(1000);
            match self.pacer {
                Pacer::Select => select(microseconds),
                _ => usleep(microseconds),
            }
        }
    }
}

fn not_started(error: &std::io::Error) -> EngineError {
    let message = format!("the threads of the pacer could not be started: {error}");
    EngineError::operating("worker-start", message, "use a smaller depth")
}

fn lock(recording: &Mutex<LockedRecord>) -> MutexGuard<'_, LockedRecord> {
    recording.lock().unwrap_or_else(PoisonError::into_inner)
}

fn select(microseconds: u64) {
    let mut time = libc::timeval {
        tv_sec: 0,
        tv_usec: i64::try_from(microseconds).unwrap_or(999_999).min(999_999),
    };
    let none = std::ptr::null_mut();
    // SAFETY: no descriptors are given, and the time is valid.
    unsafe { libc::select(0, none, none, none, &mut time) };
}

fn usleep(microseconds: u64) {
    bw_sys::clock::nanosleep(microseconds.min(999_999) * 1000);
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// This operation.
    Operation(Planned),
    /// Nothing before this time: ask again closer to it.
    Later(Nanos),
    /// Nothing more.
    End,
    /// An operation requests notice of its completion: a closed loop, which no naive pacer can run.
    Closed,
}

#[derive(Clone, Copy)]
struct NaiveEvent {
    place: usize,
    event: Event,
}

/// The filaments, and what they have emitted.
pub(crate) struct Ahead {
    filaments: Vec<WorkerFilament>,
    queue: OperationQueue,
    events: TimeHeap<NaiveEvent>,
    emissions: Emissions,
    order: u64,
}

impl Ahead {
    /// Returns the filaments, which have received [`Event::Start`].
    #[must_use]
    pub(crate) fn new(filaments: Vec<WorkerFilament>) -> Self {
        let mut ahead = Self {
            queue: OperationQueue::with_capacity(4096),
            events: TimeHeap::with_capacity(filaments.len()),
            emissions: Emissions::default(),
            order: 0,
            filaments,
        };
        (0..ahead.filaments.len()).for_each(|place| ahead.wake(place, Event::Start));
        ahead
    }

    /// Returns what comes next; looks no further than `horizon`.
    pub(crate) fn next(&mut self, horizon: Nanos) -> Next {
        loop {
            let wake = self.events.first().map_or(Nanos::NEVER, |due| due.at);
            let at = self.queue.next_at();
            if wake.min(at) == Nanos::NEVER {
                return Next::End;
            }
            if wake.min(at) > horizon {
                return Next::Later(wake.min(at));
            }
            // What a wake emits may be due at once, so it goes first.
            match self.events.first() {
                Some(due) if due.at <= at => self.wake_first(),
                _ => break,
            }
        }
        match self.queue.pop_due(Nanos::NEVER) {
            Some(planned) if planned.operation.notify => Next::Closed,
            Some(planned) => Next::Operation(planned),
            None => Next::End,
        }
    }

    fn wake_first(&mut self) {
        if let Some(due) = self.events.pop() {
            self.wake(due.what.place, due.what.event);
        }
    }

    fn wake(&mut self, place: usize, event: Event) {
        let mut emissions = std::mem::take(&mut self.emissions);
        let entry = &mut self.filaments[place];
        entry.filament.wake(event, &mut emissions);
        let from = entry.id;
        for operation in emissions.operations.drain(..) {
            let (filament, stream) = (u32::try_from(place).unwrap_or(u32::MAX), from);
            self.queue.push(Planned {
                operation,
                filament,
                stream,
            });
        }
        for (at, tag) in emissions.timers.drain(..) {
            self.push(at, place, Event::Timer { at, tag });
        }
        // A file set needs a target that no naive replayer has.
        emissions.sequences.clear();
        for (at, to, payload) in emissions.messages.drain(..) {
            if let Some(place) = self.place(to) {
                self.push(at, place, Event::Message { at, from, payload });
            }
        }
        self.emissions = emissions;
    }

    fn place(&self, id: FilamentId) -> Option<usize> {
        self.filaments.iter().position(|entry| entry.id == id)
    }

    fn push(&mut self, at: Nanos, place: usize, event: Event) {
        self.events.push(Due {
            at,
            order: self.order,
            what: NaiveEvent { place, event },
        });
        self.order += 1;
    }
}

/// The threads of a run wait here until all are ready, and are then released.
#[derive(Default)]
pub(crate) struct StartBarrier {
    state: Mutex<StartState>,
    changed: Condvar,
}

#[derive(Default)]
struct StartState {
    ready: usize,
    word: Option<StartSignal>,
}

/// What ends the wait of the threads.
#[derive(Clone)]
enum StartSignal {
    Go(RunClock),
    Cancel,
}

impl StartBarrier {
    /// Reports that this thread is ready, and waits; returns the clock from time zero, or None if
    /// the run does not start.
    pub(crate) fn ready(&self) -> Option<RunClock> {
        let mut state = self.lock();
        state.ready += 1;
        self.changed.notify_all();
        loop {
            match &state.word {
                Some(StartSignal::Go(clock)) => return Some(clock.clone()),
                Some(StartSignal::Cancel) => return None,
                None => state = self.wait(state),
            }
        }
    }

    /// Waits until `threads` threads are ready.
    pub(crate) fn wait_for(&self, threads: usize) {
        let mut state = self.lock();
        while state.ready < threads {
            state = self.wait(state);
        }
    }

    /// Releases all threads, with this clock.
    pub(crate) fn go(&self, clock: RunClock) {
        self.signal(StartSignal::Go(clock));
    }

    /// Cancels the run for the threads that wait; those already released are not affected.
    pub(crate) fn cancel(&self) {
        self.signal(StartSignal::Cancel);
    }

    fn signal(&self, word: StartSignal) {
        self.lock().word.get_or_insert(word);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, StartState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, StartState>) -> MutexGuard<'a, StartState> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Something that executes an operation while the caller waits. One for each thread.
pub trait BlockingTarget: Send {
    /// Gives the target the clock that counts from time zero, before the first operation.
    fn begin(&mut self, _clock: &RunClock) {}

    /// Executes `operation` at once and returns the bytes transferred, or a negative errno. Ignores its `at`:
    /// when to call is the caller's decision.
    fn execute(&self, operation: &Operation) -> i32;
}

/// The null target for callers that wait.
#[derive(Debug)]
pub(crate) struct BlockingNull {
    clock: RefCell<RunClock>,
    spec: NullSpec,
}

impl BlockingNull {
    /// Returns a null target that blocks its caller.
    #[must_use]
    pub(crate) fn new(spec: NullSpec, clock: RunClock) -> Self {
        let clock = RefCell::new(clock);
        Self { clock, spec }
    }
}

impl BlockingTarget for BlockingNull {
    fn begin(&mut self, clock: &RunClock) {
        self.clock = RefCell::new(clock.clone());
    }

    fn execute(&self, operation: &Operation) -> i32 {
        let mut clock = self.clock.borrow_mut();
        let now = clock.now();
        let end = self.spec.end_of(now);
        if end > now {
            clock.sleep(end - now);
        }
        i32::try_from(operation.size).unwrap_or(i32::MAX)
    }
}

/// Executes operations on a file while the caller waits. One for each thread: it has one buffer.
#[derive(Debug)]
pub struct BlockingFile {
    file: Arc<File>,
    buffers: RefCell<Buffers>,
}

impl BlockingFile {
    /// Returns a blocking file for an open file, and operations of up to `largest_bytes`.
    ///
    /// # Errors
    /// `target-engine`: there is no memory for the buffers.
    pub fn of(file: &OpenFile, largest_bytes: u32) -> Result<Self, EngineError> {
        let (file, buffers) = file.for_one_call(largest_bytes)?;
        let buffers = RefCell::new(buffers);
        Ok(Self { file, buffers })
    }
}

impl BlockingTarget for BlockingFile {
    fn execute(&self, operation: &Operation) -> i32 {
        match blocking::place(&mut self.buffers.borrow_mut(), 0, operation) {
            Ok(buffer) => blocking::execute(&self.file, operation, buffer.address),
            Err(error) => blocking::negative(&error),
        }
    }
}

/// The blocking targets of the naive pacers, one for each thread.
type Calls = Vec<Box<dyn BlockingTarget>>;

/// Returns `threads` blocking targets for the naive pacers, with a clock that reads zero until
/// the run starts.
///
/// # Errors
/// `pacer-target`: a server cannot be used this way; or there is no memory for the buffers.
pub(crate) fn calls(
    opened: &dyn RunTarget,
    threads: u32,
    early_clock: &RunClock,
) -> Result<Calls, EngineError> {
    let opened: &dyn Any = opened;
    let one = |_| -> Result<Box<dyn BlockingTarget>, EngineError> {
        if let Some(null) = opened.downcast_ref::<NullFactory>() {
            let null = BlockingNull::new(null.spec.clone(), early_clock.clone());
            return Ok(Box::new(null));
        }
        if let Some(file) = opened.downcast_ref::<FileFactory>() {
            return Ok(Box::new(BlockingFile::of(&file.open, file.largest_bytes)?));
        }
        Err(EngineError::request(
            "pacer-target",
            "the naive pacers run on 'null' and on files",
            "leave the pacer out",
        ))
    };
    (0..threads).map(one).collect()
}

/// Returns what the result of a naive pacer says about the target.
pub(crate) fn describe_calls(opened: &dyn RunTarget) -> Value {
    let size_bytes = opened.extent();
    let any: &dyn Any = opened;
    let kind = if any.is::<FileFactory>() {
        "file"
    } else {
        "null"
    };
    json!({"kind": kind, "engine": "synchronous", "size_bytes": size_bytes, "features": [], "absent": []})
}

#[cfg(test)]
mod ahead_tests {
    use super::*;
    use bw_model::{Kind, Operation};
    use bw_schedule::filaments::Filament;

    /// Emits one operation at each of its timers, 10 ns apart, and sends a message to the next filament at the third.
    struct Ticking(u64);

    impl Filament for Ticking {
        fn wake(&mut self, event: Event, emit: &mut Emissions) {
            let at = match event {
                Event::Start => Nanos(self.0),
                Event::Timer { at, .. } | Event::Message { at, .. } => at,
                Event::Completed(_) => return,
            };
            let notify = matches!(event, Event::Message { .. });
            let operation = Operation {
                at,
                offset: 0,
                size: 1,
                kind: Kind::Read,
                notify,
                tag: 0,
            };
            emit.operations.push(operation);
            match at.0 {
                0..30 => emit.timers.push((at + Nanos(10), 0)),
                _ => emit.messages.push((at + Nanos(1), 1, 0)),
            }
        }
    }

    #[test]
    fn operations_come_in_order_up_to_the_horizon_and_closed_loops_are_seen() {
        let entry = |id: u32| WorkerFilament {
            id,
            filament: Box::new(Ticking(u64::from(id) * 5)),
        };
        let mut ahead = Ahead::new(vec![entry(0), entry(1)]);
        let mut times = Vec::new();
        let end = loop {
            match ahead.next(Nanos(25)) {
                Next::Operation(planned) => times.push(planned.operation.at.0),
                other => break other,
            }
        };
        assert_eq!(times, [0, 5, 10, 15, 20, 25]);
        assert_eq!(end, Next::Later(Nanos(30)));
        assert!(matches!(ahead.next(Nanos(99)), Next::Operation(_)));
        assert_eq!(ahead.next(Nanos(99)), Next::Closed);
    }
}

#[cfg(test)]
mod starting_line_tests {
    use super::*;
    use crate::clock::Monotonic;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn begun(say: impl FnOnce(&StartBarrier)) -> usize {
        let (barrier, begun) = (StartBarrier::default(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    begun.fetch_add(usize::from(barrier.ready().is_some()), Ordering::SeqCst)
                });
            }
            barrier.wait_for(3);
            assert_eq!(begun.load(Ordering::SeqCst), 0);
            say(&barrier);
        });
        begun.into_inner()
    }

    #[test]
    fn nobody_begins_before_all_are_ready_and_then_all_do() {
        let clock = || RunClock::Monotonic(Monotonic::starting_at(0));
        assert_eq!(begun(|barrier| barrier.go(clock())), 3);
    }

    #[test]
    fn nobody_begins_when_sent_home() {
        assert_eq!(begun(StartBarrier::cancel), 0);
    }
}
