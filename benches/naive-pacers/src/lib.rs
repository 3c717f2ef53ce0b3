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

use bw_load::clock::{Clock, RunClock};
use bw_load::environment;
use bw_load::null::NullSpec;
use bw_load::pacer::{InFlight, OTHER_PACER, PacerJob, PacerOutcome, PacerPhase, Planned};
use bw_load::policy::{Full, Late};
use bw_load::record::WorkerRecord;
use bw_load::request::{LoadRequest, Pacer, TargetSpec};
use bw_load::worker::{Stop, WorkerFilament};
use bw_model::{EngineError, Kind, Nanos, Operation};
use bw_schedule::filaments::{Emissions, Event, FilamentId};
use bw_sys::clock::realtime_ns;
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The maximum number of threads.
const THREADS: u32 = 1024;

/// Refuses requests that the naive pacers do not support.
///
/// # Errors
/// `pacer-option`.
fn check(request: &LoadRequest) -> Result<(), EngineError> {
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

/// Has requests that name one of these pacers carried out by it, from now on.
pub fn install() {
    OTHER_PACER.get_or_init(|| run);
}

/// How often the thread that reports looks.
const LOOK: Duration = Duration::from_millis(20);

/// Runs a load; see [`bw_load::pacer::OtherPacer`].
///
/// # Errors
/// `pacer-option`, `pacer-target`; `pacer-closed`: a filament waits for completions; `no-such-cpu`.
fn run(job: PacerJob<'_>, look: &mut dyn FnMut(PacerPhase)) -> Result<PacerOutcome, EngineError> {
    let request = job.request;
    check(request)?;
    let (kind, targets) = targets(request)?;
    let naive = Naive {
        pacer: request.pacer,
        end: request.end(),
        interval: request.interval_ns,
        stop: job.stop,
        cpu: request.cpus.as_ref().map(|cpus| cpus[0]),
    };
    let (begun, receiver) = channel();
    let ahead = Ahead::new(job.filaments);
    let (record, begin) = (job.record, job.begin);
    let ((record, ended), started_ns) = std::thread::scope(|scope| {
        let master = scope.spawn(move || naive.run(ahead, targets, (begin, begun), record));
        let started_ns = receiver.recv();
        if let Ok(started_ns) = started_ns {
            look(PacerPhase::Begun(started_ns));
        }
        while !master.is_finished() {
            std::thread::sleep(LOOK);
            look(PacerPhase::Under);
        }
        let ended = master
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // A master that did not start has an error.
        ended.map(|ended| (ended, started_ns.unwrap_or_default()))
    })?;
    look(PacerPhase::Over);
    if ended == PacerEnd::ClosedLoop {
        return Err(EngineError::request(
            "pacer-closed",
            format!(
                "the pacer '{}' cannot run filaments that wait for completions",
                request.pacer.name()
            ),
            "use open loops and traces, or leave the pacer out",
        ));
    }
    let size_bytes = job.size_bytes;
    Ok(PacerOutcome {
        record,
        target: json!({"kind": kind, "engine": "synchronous", "size_bytes": size_bytes, "features": [], "absent": []}),
        started_ns,
    })
}

/// How far ahead of the present the master looks.
const HORIZON: Nanos = Nanos::SECOND;
/// The longest single sleep, so that a signal is noticed; only the last sleep before the deadline affects accuracy.
const LONGEST_SLEEP: u64 = 100_000_000;

/// Why a naive pacer stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacerEnd {
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
struct Naive<'a> {
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
    /// `begin` sets time zero when every thread is ready, and `begun` receives it.
    ///
    /// # Errors
    /// `no-such-cpu`; `worker-start`: the system has no more threads.
    fn run(
        &self,
        ahead: Ahead,
        calls: Targets,
        (begin, begun): (&(dyn Fn() -> RunClock + Sync), Sender<u64>),
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
        let barrier = StartBarrier::new();
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
                let started_ns = realtime_ns();
                let clock = begin();
                // The receiver exists until the end.
                let _ = begun.send(started_ns);
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
        (barrier, hand_off, recording): (
            &StartBarrier<RunClock>,
            &OperationHandOff,
            &Mutex<LockedRecord>,
        ),
    ) {
        let Some(mut clock) = barrier.ready() else {
            return;
        };
        while let Some(planned) = hand_off.take() {
            if !self.wait(&mut clock, planned.operation.at) {
                continue;
            }
            let issued = clock.now();
            let result = call.execute(&mut clock, &planned.operation);
            let now = clock.now();
            let flight = InFlight {
                planned,
                issued,
                held_since: None,
            };
            self.note(&mut lock(recording), &flight, now, result);
        }
    }

    fn note(&self, recording: &mut LockedRecord, flight: &InFlight, now: Nanos, result: i64) {
        if now >= recording.boundary {
            let index = now.0 / self.interval.0.max(1);
            recording.record.turn_over(index, 0, 0);
            recording.boundary = Nanos((index + 1).saturating_mul(self.interval.0));
        }
        recording.record.intended(&flight.planned);
        recording.record.issued(&flight.planned, flight.issued);
        recording.record.completed(flight, now, now, result);
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
enum Next {
    /// This operation.
    Operation(Planned),
    /// Nothing before this time: ask again closer to it.
    Later(Nanos),
    /// Nothing more.
    End,
    /// An operation requests notice of its completion: a closed loop, which no naive pacer can run.
    Closed,
}

/// The filaments, and what they have emitted.
struct Ahead {
    filaments: Vec<WorkerFilament>,
    /// By time, and of one time in the order of their emission.
    queue: BTreeMap<(Nanos, u64), Planned>,
    /// Events, each with the place of its filament.
    events: BTreeMap<(Nanos, u64), (usize, Event)>,
    emissions: Emissions,
    order: u64,
}

impl Ahead {
    /// Returns the filaments, which have received [`Event::Start`].
    #[must_use]
    fn new(filaments: Vec<WorkerFilament>) -> Self {
        let mut ahead = Self {
            queue: BTreeMap::new(),
            events: BTreeMap::new(),
            emissions: Emissions::default(),
            order: 0,
            filaments,
        };
        (0..ahead.filaments.len()).for_each(|place| ahead.wake(place, Event::Start));
        ahead
    }

    /// Returns what comes next; looks no further than `horizon`.
    fn next(&mut self, horizon: Nanos) -> Next {
        loop {
            let first = |due: Option<&(Nanos, u64)>| due.map_or(Nanos::NEVER, |(at, _)| *at);
            let wake = first(self.events.keys().next());
            let at = first(self.queue.keys().next());
            if wake.min(at) == Nanos::NEVER {
                return Next::End;
            }
            if wake.min(at) > horizon {
                return Next::Later(wake.min(at));
            }
            // What a wake emits may be due at once, so it goes first.
            if wake > at {
                break;
            }
            if let Some((_, (place, event))) = self.events.pop_first() {
                self.wake(place, event);
            }
        }
        match self.queue.pop_first() {
            Some((_, planned)) if planned.operation.notify => Next::Closed,
            Some((_, planned)) => Next::Operation(planned),
            None => Next::End,
        }
    }

    fn wake(&mut self, place: usize, event: Event) {
        let mut emissions = std::mem::take(&mut self.emissions);
        let entry = &mut self.filaments[place];
        entry.filament.wake(event, &mut emissions);
        let from = entry.id;
        for operation in emissions.operations.drain(..) {
            let (filament, stream) = (u32::try_from(place).unwrap_or(u32::MAX), from);
            let planned = Planned {
                operation,
                filament,
                stream,
            };
            self.queue.insert((operation.at, self.order), planned);
            self.order += 1;
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
        self.events.insert((at, self.order), (place, event));
        self.order += 1;
    }
}

/// The threads of a run wait here until all are ready, and are then released.
struct StartBarrier<C> {
    state: Mutex<StartState<C>>,
    changed: Condvar,
}

struct StartState<C> {
    ready: usize,
    word: Option<StartSignal<C>>,
}

/// What ends the wait of the threads.
#[derive(Clone)]
enum StartSignal<C> {
    Go(C),
    Cancel,
}

impl<C: Clone> StartBarrier<C> {
    fn new() -> Self {
        let (ready, word) = (0, None);
        Self {
            state: Mutex::new(StartState { ready, word }),
            changed: Condvar::new(),
        }
    }

    /// Reports that this thread is ready, and waits; returns the clock from time zero, or None if
    /// the run does not start.
    fn ready(&self) -> Option<C> {
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
    fn wait_for(&self, threads: usize) {
        let mut state = self.lock();
        while state.ready < threads {
            state = self.wait(state);
        }
    }

    /// Releases all threads, with this clock.
    fn go(&self, clock: C) {
        self.signal(StartSignal::Go(clock));
    }

    /// Cancels the run for the threads that wait; those already released are not affected.
    fn cancel(&self) {
        self.signal(StartSignal::Cancel);
    }

    fn signal(&self, word: StartSignal<C>) {
        self.lock().word.get_or_insert(word);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, StartState<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, StartState<C>>) -> MutexGuard<'a, StartState<C>> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Something that executes an operation while the caller waits. One for each thread.
trait BlockingTarget: Send {
    /// Executes `operation` at once and returns the bytes transferred, or a negative errno. Ignores its `at`:
    /// when to call is the caller's decision.
    fn execute(&mut self, clock: &mut RunClock, operation: &Operation) -> i64;
}

/// The null target for callers that wait.
struct BlockingNull(NullSpec);

impl BlockingTarget for BlockingNull {
    fn execute(&mut self, clock: &mut RunClock, operation: &Operation) -> i64 {
        let now = clock.now();
        let end = self.0.end_of(now);
        if end > now {
            clock.sleep(end - now);
        }
        i64::from(operation.size)
    }
}

/// What direct I/O requires of addresses [bytes].
const ALIGNMENT: usize = 4096;
/// Size of the memory that a thread has from the start [bytes].
const ROOM: usize = 1 << 20;

/// A file for callers that wait, with its own memory.
struct BlockingFile {
    file: File,
    memory: Vec<u8>,
}

/// Returns memory for an operation: aligned, and pseudo-random until something is read into it.
fn aligned(memory: &mut Vec<u8>, size: usize) -> &mut [u8] {
    let length = size.max(ROOM) + ALIGNMENT;
    if memory.len() < length {
        let byte = |place: usize| (place.wrapping_mul(0x9e37_79b9) >> 16) as u8;
        *memory = (0..length).map(byte).collect();
    }
    let from = memory.as_ptr().align_offset(ALIGNMENT);
    &mut memory[from..from + size]
}

impl BlockingTarget for BlockingFile {
    fn execute(&mut self, _: &mut RunClock, operation: &Operation) -> i64 {
        let (offset, size) = (operation.offset, operation.size as usize);
        let done = match operation.kind {
            Kind::Read | Kind::Write => {
                let buffer = aligned(&mut self.memory, size);
                match operation.kind {
                    Kind::Read => self.file.read_exact_at(buffer, offset),
                    _ => self.file.write_all_at(buffer, offset),
                }
            }
            Kind::Flush => self.file.sync_all(),
            _ => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
        };
        match (operation.kind, done) {
            (_, Err(error)) => -i64::from(error.raw_os_error().unwrap_or(libc::EIO)),
            (Kind::Flush, Ok(())) => 0,
            (_, Ok(())) => i64::from(operation.size),
        }
    }
}

/// The blocking targets, one for each thread.
type Targets = Vec<Box<dyn BlockingTarget>>;

/// Returns the kind of the target, and as many of them as the depth allows threads.
///
/// # Errors
/// `pacer-target`: a server cannot be used this way, or the file cannot be opened again.
fn targets(request: &LoadRequest) -> Result<(&'static str, Targets), EngineError> {
    let refused = |message: String| {
        Err(EngineError::request(
            "pacer-target",
            message,
            "leave the pacer out",
        ))
    };
    let threads = request.depth.min(THREADS);
    match &request.target {
        TargetSpec::Null(spec) => {
            let one = |_| Box::new(BlockingNull(spec.clone())) as Box<dyn BlockingTarget>;
            Ok(("null", (0..threads).map(one).collect()))
        }
        TargetSpec::File(spec) => {
            let mut options = OpenOptions::new();
            options
                .read(true)
                .write(bw_load::request::writes(&request.workload));
            options.custom_flags(if spec.direct { libc::O_DIRECT } else { 0 });
            let one = |_| -> io::Result<Box<dyn BlockingTarget>> {
                let mut memory = Vec::new();
                aligned(&mut memory, ROOM);
                let file = options.open(&spec.path)?;
                Ok(Box::new(BlockingFile { file, memory }))
            };
            match (0..threads).map(one).collect() {
                Ok(targets) => Ok(("file", targets)),
                Err(error) => refused(format!("{}: {error}", spec.path.display())),
            }
        }
        _ => refused("the naive pacers run on 'null' and on files".to_owned()),
    }
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn begun(say: impl FnOnce(&StartBarrier<()>)) -> usize {
        let (barrier, begun) = (StartBarrier::new(), AtomicUsize::new(0));
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
        assert_eq!(begun(|barrier| barrier.go(())), 3);
    }

    #[test]
    fn nobody_begins_when_sent_home() {
        assert_eq!(begun(StartBarrier::cancel), 0);
    }
}
