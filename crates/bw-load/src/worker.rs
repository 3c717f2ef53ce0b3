//! The worker: one thread, its filaments, its target, and the loop that executes their events.
//!
//! One turn of the loop: issue every operation that is due; wake filaments for timers and messages; take a
//! bounded number of completions from the target; if there was nothing to do, sleep or spin until there is. Operations
//! come first (Buttress, section 5.1), and nothing else is started just before one is due.
//!
//! Decision: workers share only the stop flag, the rings for messages between filaments, and the rings to the
//! reporter. Rejected: the paper's shared queues with bypass locking. Its operations were synchronous, so idle threads
//! had to find each other's work; ours are asynchronous. The worker is generic over clock and target, so the same loop
//! runs in real and in virtual time.

use crate::actions::Action;
use crate::channels::{MessageLinks, RemoteMessage};
use crate::clock::Clock;
use crate::policy::{Contention, Full, LATE_FROM, Late, LateFilter, ReapMargin, SpinMargin};
use crate::queue::{
    Due, InFlight, OperationQueue, Planned, Slots, TimeHeap, Waiting, WaitingQueues,
};
use crate::record::WorkerRecord;
use crate::target::{Background, Reaped, Target};
use bw_model::{DROPPED, Nanos};
use bw_record::recorder::narrow;
use bw_schedule::filaments::{Completion, Emissions, Event, Filament, FilamentId};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Maximum number of operations submitted under one stamp and one flush, whatever the target accepts.
pub(crate) const BATCH: usize = 16;
/// Approximate maximum of operations issued in one turn, so that completions are taken too.
const TURN: usize = 128;

/// A filament and its number in the workload.
pub struct WorkerFilament {
    /// Its number, the same on every worker.
    pub id: FilamentId,
    /// The filament.
    pub filament: Box<dyn Filament>,
}

/// The parameters of a worker.
#[derive(Clone, Copy, Debug)]
pub struct WorkerPlan {
    /// Maximum number of operations in flight.
    pub depth: u32,
    /// Operations that may wait for a free slot; one more ends the run.
    pub backlog: usize,
    /// What happens to an operation that finds no free slot.
    pub full: Full,
    /// What happens to a late operation.
    pub late: Late,
    /// Operations with an intended start from here on do not belong to this run; [`Nanos::NEVER`]: all belong to it.
    pub end: Nanos,
    /// How long operations that wait for a free slot are issued after the end, and those in flight are waited for.
    pub drain: Nanos,
    /// How long before a deadline spinning starts.
    pub spin_margin: SpinMargin,
    /// Within this time before an operation nothing else is started; for completions it is longer where taking them takes
    /// longer ([`ReapMargin`]).
    pub near: Nanos,
    /// The length of the intervals of the report.
    pub interval: Nanos,
}

/// How a worker spent its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Time spent waiting by spinning.
    pub spun: Nanos,
    /// Time spent waiting by sleeping.
    pub slept: Nanos,
    /// Time spent on everything else.
    pub busy: Nanos,
}

/// Ends a run early: 0 continue, 1 issue nothing more, 2 do not wait for operations in flight either.
pub type Stop = Arc<AtomicU8>;

/// A timer or a message to deliver.
#[derive(Clone, Copy, Debug)]
struct PendingEvent {
    filament: u32,
    event: Event,
}

/// The worker. See the module's description.
pub struct Worker<C, T> {
    clock: C,
    target: T,
    plan: WorkerPlan,
    stop: Stop,
    links: MessageLinks,
    record: WorkerRecord,
    filaments: Vec<WorkerFilament>,
    positions: Vec<u32>,
    queue: OperationQueue,
    waiting: WaitingQueues,
    events: TimeHeap<PendingEvent>,
    order: u64,
    slots: Slots,
    late_filter: LateFilter,
    reap_margin: ReapMargin,
    contention: Contention,
    has_short_slices: bool,
    emissions: Emissions,
    ends: Vec<Reaped>,
    now: Nanos,
    accounted_until: Nanos,
    last_reap: Nanos,
    boundary: Nanos,
    refine_at: Nanos,
    draining: bool,
    /// Whether the run was ended early: then nothing new is started.
    stopped: bool,
    times: Times,
}

/// What a worker returns at its end.
pub struct Finished<T> {
    /// Everything recorded.
    pub record: WorkerRecord,
    /// How the time was spent.
    pub times: Times,
    /// The spin margin at the end.
    pub spin_margin: Nanos,
    /// Where the run ended: earlier than planned if it was stopped, [`Nanos::NEVER`] if nothing was left to do.
    pub end: Nanos,
    /// The target; some of its operations may never have completed.
    pub target: T,
}

const NOWHERE: u32 = u32::MAX;
/// How often a waiting worker reads the stop flag, and every worker the slope of its clock.
const STOP_POLL: Nanos = Nanos(20_000_000);

impl<C: Clock, T: Target> Worker<C, T> {
    /// Returns a worker whose filaments have received [`Event::Start`]: their first operations are queued before the
    /// run starts.
    #[must_use]
    pub fn new(plan: WorkerPlan, mut target: T, clock: C, mut inputs: WorkerInputs) -> Self {
        target.measure_from(inputs.record.measured_from());
        inputs.record.measure_until(plan.end);
        // Each part of a target with parts has the plan's depth.
        let depth = if target.has_parts() {
            target.capacity()
        } else {
            plan.depth.min(target.capacity()).max(1)
        };
        let room = (depth as usize * 4).max(16_384);
        let mut worker = Self {
            positions: positions(&inputs.filaments),
            queue: OperationQueue::with_capacity(room),
            waiting: WaitingQueues::new(target.parts(), room),
            events: TimeHeap::with_capacity(room.max(inputs.filaments.len())),
            filaments: inputs.filaments,
            links: inputs.links,
            stop: inputs.stop,
            record: inputs.record,
            order: 0,
            slots: Slots::new(depth),
            late_filter: LateFilter::new(plan.late),
            reap_margin: ReapMargin::new(plan.near),
            contention: Contention::default(),
            has_short_slices: false,
            emissions: Emissions {
                timers: Vec::with_capacity(1024),
                operations: Vec::with_capacity(1024),
                messages: Vec::with_capacity(1024),
                sequences: Vec::with_capacity(64),
            },
            ends: Vec::with_capacity(target.slice()),
            now: Nanos::ZERO,
            accounted_until: Nanos::ZERO,
            last_reap: Nanos::ZERO,
            boundary: plan.interval,
            refine_at: Nanos::ZERO,
            draining: false,
            stopped: false,
            times: Times::default(),
            clock,
            target,
            plan,
        };
        (0..worker.filaments.len()).for_each(|place| worker.wake(place as u32, Event::Start));
        worker
    }

    /// Sets the clock, once all workers are ready and time zero is known; returns the target, whose
    /// clock may need to be set too.
    pub(crate) fn set_clock(&mut self, clock: C) -> &mut T {
        self.clock = clock;
        &mut self.target
    }

    /// Runs until the end, until nothing is left to do, or until stopped; then waits for operations in
    /// flight.
    ///
    /// # Errors
    /// The target failed.
    pub fn run(mut self) -> io::Result<Finished<T>> {
        self.now = self.clock.now();
        self.measure_streams();
        while !self.over() {
            self.turn()?;
        }
        self.links.close();
        self.drain()?;
        self.times.busy += self.now.since(self.accounted_until);
        self.record.unfinished(self.now, self.slots.flights());
        let end = self.plan.end.min(self.now);
        for entry in &self.filaments {
            (entry.filament).unfinished(end, &mut self.emissions.sequences);
        }
        self.record_sequences();
        let (in_flight, waiting) = (self.slots.in_flight(), self.waiting.len());
        self.record
            .waiting(|| Some(self.waiting.pop(|_| true)?.planned));
        self.record.take_reads(&self.target);
        self.record.close(in_flight as u64, waiting as u64);
        Ok(Finished {
            record: self.record,
            times: self.times,
            spin_margin: self.plan.spin_margin.length(),
            end: self.plan.end,
            target: self.target,
        })
    }

    /// Lets the target know the measured part of the run.
    fn measure_streams(&mut self) {
        if self.record.has_streams() {
            let now = self.clock.now();
            self.target
                .measure_streams(now, self.record.measured_part());
        }
    }

    fn turn(&mut self) -> io::Result<()> {
        let before = self.now;
        let mut worked = self.log(Action::Issue, Self::issue)?;
        worked |= self.log(Action::Wake, |worker| Ok(worker.deliver()))?;
        if self.may_reap() {
            worked |= self.log(Action::Reap, Self::reap)?;
        }
        self.keep_time();
        if !worked {
            return self.idle();
        }
        if self.now == before {
            self.now = self.clock.now();
        }
        Ok(())
    }

    /// Does something, logs it if that is asked for and there was something to do, and returns whether there was.
    #[inline]
    fn log(
        &mut self,
        action: Action,
        does: impl FnOnce(&mut Self) -> io::Result<usize>,
    ) -> io::Result<bool> {
        if !self.record.logs_actions() {
            return Ok(does(self)? > 0);
        }
        let begun = self.clock.now();
        let count = does(self)?;
        if count > 0 {
            let between = (begun, self.clock.now());
            self.record.did(action, between, count);
        }
        Ok(count > 0)
    }

    /// Returns whether the run is over: no operation with an intended start in it is left.
    fn over(&mut self) -> bool {
        if self.stop.load(Ordering::Relaxed) > 0 {
            self.stopped = true;
            if self.now < self.plan.end {
                self.plan.end = self.now.max(Nanos(1));
                // What has happened so far lies before it.
                self.record.measure_until(self.now + Nanos(1));
                self.measure_streams();
            }
        }
        if self.now >= self.plan.end {
            return self.queue.next_at() >= self.plan.end && self.next_wake() >= self.plan.end;
        }
        self.queue.is_empty()
            && self.events.is_empty()
            && self.waiting.is_empty()
            && self.slots.in_flight() == 0
            && self.links.become_idle()
    }

    /// Issues the operations that wait for a free slot, unless the run was ended early, and waits for those in flight; at
    /// most as long as the plan allows. The waiting ones were due in the run, and have waited longest: without them the
    /// highest percentiles would be too low.
    fn drain(&mut self) -> io::Result<()> {
        self.draining = true;
        let begun = self.now;
        let interrupted = self.stop.load(Ordering::Relaxed);
        let has_work = |worker: &Self| {
            worker.slots.in_flight() > 0 || !(worker.stopped || worker.waiting.is_empty())
        };
        while has_work(self) && self.now.since(begun) < self.plan.drain {
            if self.stop.load(Ordering::Relaxed) > interrupted {
                break;
            }
            let issued = !self.stopped && self.log(Action::Issue, Self::issue)?;
            if !(self.log(Action::Reap, Self::reap)? || issued) {
                let left = (begun + self.plan.drain).since(self.now).min(STOP_POLL);
                self.log(Action::Sleep, |worker| worker.target.wait(left).map(|()| 1))?;
                self.now = self.clock.now();
            }
            self.keep_time();
        }
        Ok(())
    }

    /// Ends the interval, and adopts a better slope of the clock, where it is time.
    #[inline]
    fn keep_time(&mut self) {
        if self.now >= self.boundary {
            self.turn_over();
        }
        if self.now >= self.refine_at {
            self.refine_at = self.now + STOP_POLL;
            self.clock.refine();
        }
    }

    /// Starts the interval of the current time. Intervals in which the worker itself did not run (a virtual
    /// machine that was paused) are left out.
    fn turn_over(&mut self) {
        let index = self.now.0 / self.plan.interval.0.max(1);
        let (in_flight, waiting) = (self.slots.in_flight(), self.waiting.len());
        self.record
            .turn_over(index, in_flight as u64, waiting as u64);
        self.boundary = Nanos((index + 1).saturating_mul(self.plan.interval.0));
    }
}

/// The inputs of a worker besides its plan, its target and its clock.
pub struct WorkerInputs {
    /// The filaments that live here.
    pub filaments: Vec<WorkerFilament>,
    /// Its links to other workers.
    pub links: MessageLinks,
    /// The flag that ends the run.
    pub stop: Stop,
    /// Where everything is recorded.
    pub record: WorkerRecord,
}

/// Returns, for every filament number, its index among `filaments`; [`NOWHERE`] if it is not there.
fn positions(filaments: &[WorkerFilament]) -> Vec<u32> {
    let numbers = filaments.iter().map(|entry| entry.id as usize + 1).max();
    let mut positions = vec![NOWHERE; numbers.unwrap_or(0)];
    for (place, entry) in (0..).zip(filaments) {
        positions[entry.id as usize] = place;
    }
    positions
}

/// Completions are not left with the target longer than this, however near the next operation is.
const REAP_AT_LEAST: Nanos = Nanos(5_000);

/// Maximum number of operations without a free slot that one turn handles: a closed loop whose operations
/// are dropped emits the next ones at once.
const OVERFLOW: usize = 256;

impl<C: Clock, T: Target> Worker<C, T> {
    /// Issues due operations batch by batch, up to a limit, since completions must be taken too. Returns how much was done.
    #[inline]
    pub(super) fn issue(&mut self) -> io::Result<usize> {
        let mut done = 0;
        while done < TURN {
            match self.issue_batch()? {
                0 => break,
                more => done += more,
            }
        }
        Ok(done)
    }

    /// Issues a batch of due operations under one stamp, taken just before one flush. Returns how much was
    /// done: the number of operations, or [`BATCH`] if room was made.
    #[inline]
    fn issue_batch(&mut self) -> io::Result<usize> {
        let due = self.now.min(Nanos(self.plan.end.0 - 1));
        let most = self.target.batch().clamp(1, BATCH);
        let mut batch = [0_u32; BATCH];
        let mut length = 0;
        while length < most && !self.slots.full() {
            let Some((planned, held_since)) = self.next_due(due) else {
                break;
            };
            if let Some(slot) = self.slots.take(planned, held_since) {
                let part = self.target.part_of(planned.stream);
                self.target.submit_to(part, slot, &planned.operation);
                batch[length] = slot;
                length += 1;
            }
        }
        if length > 0 {
            self.now = self.clock.now();
            if self.target.flush_calls_kernel() && self.is_near() {
                self.target.flush_only()?;
            } else {
                self.target.flush()?;
            }
            self.stamp(&batch[..length]);
            if self.target.flush_calls_kernel() {
                self.now = self.clock.now();
            }
            return Ok(length);
        }
        let more = self.slots.full() && self.queue.next_at() <= due;
        Ok(if more && self.make_room(due)? {
            BATCH
        } else {
            0
        })
    }

    /// Handles due operations while every slot is taken: completions that are already there free slots; only if
    /// there are none is the target full.
    fn make_room(&mut self, due: Nanos) -> io::Result<bool> {
        Ok(self.reap()? > 0 || self.overflow(due))
    }

    /// Stores the actual start of a batch: now.
    #[inline]
    fn stamp(&mut self, batch: &[u32]) {
        for slot in batch {
            if let Some(planned) = self.slots.stamp(*slot, self.now) {
                self.record.issued(planned, self.now);
            }
        }
    }

    /// Returns the next operation to issue; if a full target delayed it, with the time since when.
    #[inline]
    fn next_due(&mut self, due: Nanos) -> Option<(Planned, Option<Nanos>)> {
        if !self.waiting.is_empty() && !self.stopped {
            let target = &self.target;
            let waiting = self.waiting.pop(|part| target.has_room(part));
            if !self.target.has_parts() || waiting.is_some() {
                return waiting.map(|one| (one.planned, Some(one.since)));
            }
        }
        if self.target.has_parts() {
            return self.next_with_room(due).map(|planned| (planned, None));
        }
        self.take_due(due).map(|planned| (planned, None))
    }

    /// Takes the next operation whose part of the target has room; those before it wait, or are dropped.
    fn next_with_room(&mut self, due: Nanos) -> Option<Planned> {
        for _ in 0..OVERFLOW {
            let planned = self.take_due(due)?;
            if self.target.has_room(self.target.part_of(planned.stream)) {
                return Some(planned);
            }
            if !self.without_room(planned) {
                return None;
            }
        }
        None
    }

    /// Takes the next operation that the late policy does not skip from the queue.
    #[inline]
    fn take_due(&mut self, due: Nanos) -> Option<Planned> {
        loop {
            let planned = self.queue.pop_due(due)?;
            self.record.intended(&planned);
            if !self.late_filter.skips(self.now.since(planned.operation.at)) {
                return Some(planned);
            }
            self.record.skipped(&planned);
            self.give_up(planned);
        }
    }

    /// Handles due operations while the target is full.
    #[inline]
    fn overflow(&mut self, due: Nanos) -> bool {
        for taken in 0..OVERFLOW {
            let Some(planned) = self.take_due(due) else {
                return taken > 0;
            };
            if !self.without_room(planned) {
                return true;
            }
        }
        true
    }

    /// Handles an operation that finds no room; returns false if more of them wait than the plan allows.
    fn without_room(&mut self, planned: Planned) -> bool {
        match self.plan.full {
            Full::Queue => {
                // One that the worker came to late found the slots taken by others that it started late, all at once.
                let is_late = self.now.since(planned.operation.at) > LATE_FROM;
                self.record.held(&planned, is_late);
                let since = self.now;
                self.waiting.push(
                    self.target.part_of(planned.stream),
                    Waiting { planned, since },
                );
                if self.waiting.len() > self.plan.backlog {
                    self.record.backlog_exceeded();
                    self.stop.fetch_max(1, Ordering::Relaxed);
                    return false;
                }
            }
            Full::Drop => {
                self.record.dropped(&planned);
                self.give_up(planned);
            }
        }
        true
    }

    /// Notifies the filament, if it requests that, that its operation will not be issued.
    fn give_up(&mut self, planned: Planned) {
        if planned.operation.notify {
            self.wake(planned.filament, completed(&planned, self.now, DROPPED));
        }
    }

    /// Returns whether an operation is due so soon that taking completions could delay it.
    #[inline]
    fn is_near(&self) -> bool {
        self.queue.next_at().since(self.now) < self.reap_margin.length()
    }

    /// Returns whether the target may have completions, or has other work.
    #[inline]
    fn has_work(&self) -> bool {
        self.slots.in_flight() > 0 || self.target.background() == Background::Work
    }

    /// Returns whether the target may work now: not just before an operation is due, unless
    /// completions have waited long or slots are scarce.
    #[inline]
    pub(super) fn may_reap(&self) -> bool {
        if !self.is_near() {
            return self.has_work();
        }
        let waited = self.now.since(self.last_reap) >= REAP_AT_LEAST;
        self.slots.in_flight() > 0 && (waited || self.slots.scarce())
    }

    /// Takes completions from the target; they get one stamp, since they are seen together. Returns how many.
    #[inline]
    pub(super) fn reap(&mut self) -> io::Result<usize> {
        let mut ends = std::mem::take(&mut self.ends);
        ends.clear();
        let begun = self.now;
        self.target.reap(&mut ends)?;
        let any = !ends.is_empty();
        if any {
            self.now = self.clock.now();
            if self.target.flush_calls_kernel() {
                self.reap_margin.learn(self.now.since(begun));
            }
        }
        self.last_reap = self.now;
        for end in &ends {
            match self.slots.free(end.slot) {
                Some(flight) => self.ended(&flight, end),
                None => self.record.stray(),
            }
        }
        let count = ends.len();
        self.ends = ends;
        Ok(count)
    }

    #[inline]
    fn ended(&mut self, flight: &InFlight, end: &Reaped) {
        let result = end.result;
        let arrived = Nanos(self.now.0.saturating_sub(end.unseen.0));
        self.record.completed(flight, self.now, arrived, result);
        if self.record.has_streams() {
            self.stream_ended(flight, end);
        }
        if flight.planned.operation.notify {
            let event = completed(&flight.planned, self.now, narrow(result));
            if self.draining {
                self.end_sequence(flight.planned.filament, event);
            } else {
                self.wake(flight.planned.filament, event);
            }
        }
    }

    /// Records the stream of an operation that ended. The target's clock and the worker's are read one after the other,
    /// so that the times of the events are those of the worker's clock, however long ago they were.
    fn stream_ended(&mut self, flight: &InFlight, end: &Reaped) {
        if let Some(seen) = self.target.stream(end.slot) {
            let read_at = self.clock.now();
            self.record
                .stream(flight, self.now, read_at, end.result, &seen);
        }
    }

    /// Wakes a filament after the end of the run, when nothing that it emits happens any more: a sequence whose last
    /// operation has ended is complete.
    #[cold]
    fn end_sequence(&mut self, place: u32, event: Event) {
        let filament = &mut self.filaments[place as usize].filament;
        filament.wake(event, &mut self.emissions);
        self.emissions.operations.clear();
        self.emissions.timers.clear();
        self.emissions.messages.clear();
        self.record_sequences();
    }
}

#[inline]
fn completed(planned: &Planned, at: Nanos, result: i32) -> Event {
    Event::Completed(Completion {
        at,
        intended: planned.operation.at,
        kind: planned.operation.kind,
        tag: planned.operation.tag,
        result,
    })
}

/// Maximum number of filaments woken in one turn.
const EVENTS_PER_TURN: usize = 64;
/// A timer is not delayed longer than this for an operation that is due soon.
const PUT_OFF: Nanos = Nanos(20_000);

impl<C: Clock, T: Target> Worker<C, T> {
    /// Wakes a filament and queues what it emits.
    #[inline]
    pub(super) fn wake(&mut self, place: u32, event: Event) {
        let entry = &mut self.filaments[place as usize];
        entry.filament.wake(event, &mut self.emissions);
        for operation in self.emissions.operations.drain(..) {
            self.queue.push(Planned {
                operation,
                filament: place,
                stream: entry.id,
            });
        }
        let events = !self.emissions.timers.is_empty() || !self.emissions.messages.is_empty();
        if events || !self.emissions.sequences.is_empty() {
            self.take_events(place);
        }
    }

    fn record_sequences(&mut self) {
        for sequence in self.emissions.sequences.drain(..) {
            self.record.sequence(&sequence);
        }
    }

    fn take_events(&mut self, place: u32) {
        self.record_sequences();
        for index in 0..self.emissions.timers.len() {
            let (at, tag) = self.emissions.timers[index];
            self.push_wake(at, place, Event::Timer { at, tag });
        }
        self.emissions.timers.clear();
        let from = self.filaments[place as usize].id;
        for index in 0..self.emissions.messages.len() {
            let (at, to, payload) = self.emissions.messages[index];
            let message = RemoteMessage {
                at,
                from,
                to,
                payload,
            };
            self.address(message);
        }
        self.emissions.messages.clear();
    }

    /// Queues a message as an event if its filament is on this worker; otherwise sends it to the filament's worker.
    fn address(&mut self, message: RemoteMessage) {
        let worker = self.links.worker_of(message.to);
        match self.positions.get(message.to as usize) {
            Some(place) if *place != NOWHERE => self.push_message(*place, message),
            _ if self.links.is_own(worker) => self.record.undeliverable(),
            _ => self.links.send(worker, message),
        }
    }

    fn push_message(&mut self, place: u32, message: RemoteMessage) {
        let event = Event::Message {
            at: message.at,
            from: message.from,
            payload: message.payload,
        };
        self.push_wake(message.at, place, event);
    }

    fn push_wake(&mut self, at: Nanos, filament: u32, event: Event) {
        self.events.push(Due {
            at,
            order: self.order,
            what: PendingEvent { filament, event },
        });
        self.order += 1;
    }

    /// Returns when the next timer or message is due; [`Nanos::NEVER`] if there is none.
    #[inline]
    pub(super) fn next_wake(&self) -> Nanos {
        self.events.first().map_or(Nanos::NEVER, |due| due.at)
    }

    /// Wakes filaments for timers and messages that are due, until an operation is due. Returns how many.
    #[inline]
    pub(super) fn deliver(&mut self) -> usize {
        self.collect();
        let due = self.now.min(Nanos(self.plan.end.0 - 1));
        let mut woken = 0;
        for _ in 0..EVENTS_PER_TURN {
            let next = self.next_wake();
            if next > due || self.put_off(next) {
                break;
            }
            woken += 1;
            if let Some(wake) = self.events.pop() {
                self.wake(wake.what.filament, wake.what.event);
            }
            if self.queue.next_at() <= self.now {
                break;
            }
        }
        woken
    }

    /// Returns whether a wake at this time should come after the operation that is due soon.
    #[inline]
    fn put_off(&self, wake: Nanos) -> bool {
        self.queue.next_at().since(self.now).0 < self.plan.near.0 / 2
            && self.now.since(wake) < PUT_OFF
    }

    /// Receives the messages of other workers.
    #[inline]
    fn collect(&mut self) {
        while let Some(message) = self.links.receive() {
            match self.place(message.to) {
                Some(place) => self.push_message(place, message),
                None => self.record.undeliverable(),
            }
        }
    }

    fn place(&self, filament: FilamentId) -> Option<u32> {
        let place = *self.positions.get(filament as usize)?;
        (place != NOWHERE).then_some(place)
    }
}

/// A shorter sleep is not worth its system call.
const SHORTEST: Nanos = Nanos(5_000);

impl<C: Clock, T: Target> Worker<C, T> {
    /// Waits until something is due, or an operation completes.
    pub(super) fn idle(&mut self) -> io::Result<()> {
        self.links.send_held_back();
        self.now = self.clock.now();
        self.times.busy += self.now.since(self.accounted_until);
        self.accounted_until = self.now;
        let left = self.deadline().since(self.now);
        let contended = self.contention.is_contended(self.now);
        if contended != self.has_short_slices {
            self.has_short_slices = contended;
            self.clock.want_short_slices(contended);
        }
        let spin_margin = if contended {
            self.plan.spin_margin.shortest()
        } else {
            self.plan.spin_margin.length()
        };
        let (action, time) = if left > spin_margin + SHORTEST.min(spin_margin) {
            self.sleep(left - spin_margin)?;
            (Action::Sleep, &mut self.times.slept)
        } else {
            self.spin(self.now + left)?;
            (Action::Spin, &mut self.times.spun)
        };
        *time += self.now.since(self.accounted_until);
        self.record.did(action, (self.accounted_until, self.now), 1);
        self.accounted_until = self.now;
        Ok(())
    }

    /// Returns the time until which this worker has nothing to do.
    fn deadline(&self) -> Nanos {
        let wake = self.next_wake();
        // A wake that was delayed waits for the operation.
        let wake = if wake <= self.now { Nanos::NEVER } else { wake };
        let next = self.queue.next_at().min(wake);
        let poll = STOP_POLL.min(self.links.poll_limit());
        next.min(self.boundary)
            .min(self.plan.end)
            .min(self.now + poll)
    }

    /// Sleeps, with the target if something may happen there; adapts the spin margin to the oversleep.
    fn sleep(&mut self, length: Nanos) -> io::Result<()> {
        let until = self.now + length;
        if self.slots.in_flight() > 0 || self.target.background() != Background::Nothing {
            self.target.wait(length)?;
        } else {
            self.clock.sleep(length);
        }
        self.now = self.clock.now();
        // What completed meanwhile has not waited yet.
        self.last_reap = self.now;
        if self.now >= until {
            self.plan.spin_margin.learn(self.now - until);
        }
        Ok(())
    }

    /// Spins until the deadline, or until an operation has completed well before it.
    fn spin(&mut self, deadline: Nanos) -> io::Result<()> {
        while self.now < deadline {
            let before = self.now;
            if deadline - self.now > self.reap_margin.length() {
                // Also where something may arrive: a target that has just looked need not do it between the intended and the
                // actual start.
                let watches = self.target.background() != Background::Nothing;
                let may_reap = self.slots.in_flight() > 0 || watches;
                if may_reap && self.log(Action::Reap, Self::reap)? {
                    break;
                }
                std::hint::spin_loop();
            }
            self.now = self.clock.now();
            let gap = self.now - before;
            if gap > Contention::GAP {
                let preemptions = self.clock.preemptions();
                self.contention.learn(preemptions, gap, self.now);
            }
        }
        Ok(())
    }
}
