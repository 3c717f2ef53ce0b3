//! The worker: one thread, its filaments, its target, and the loop that executes their events.
//!
//! A turn of the loop: issue every operation that is due; then wake filaments for timers and messages; then take a
//! bounded slice of completions from the target; and if there was nothing to do, sleep or spin until there is. Operations
//! come first (Buttress, section 5.1), and nothing else is started just before one is due.
//!
//! Decision: workers share only the stop flag, the rings for messages between filaments, and the rings for what is
//! reported. Rejected: shared queues with bypass locking (the paper's). Its operations were synchronous, so idle threads
//! had to find each other's work; ours are not. Generic over clock and target, so the same loop runs in real and in
//! virtual time.

use crate::channels::{MessageLinks, RemoteMessage};
use crate::clock::Clock;
use crate::policy::{Full, Late, LateFilter, SpinMargin};
use crate::queue::{Due, InFlight, OperationQueue, Planned, Slots, TimeHeap, WaitingQueue};
use crate::record::WorkerRecord;
use crate::target::{Reaped, Target};
use bw_model::{DROPPED, Nanos};
use bw_schedule::filaments::{Completion, Emissions, Event, Filament, FilamentId};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Operations submitted under one stamp and one flush, at most, whatever the target takes.
pub(crate) const BATCH: usize = 16;
/// Operations issued in one turn, about: ends must be taken too.
const TURN: usize = 128;
/// Ends taken from the target in one slice, at most.
pub(crate) const SLICE: usize = 16;

/// A filament and its number in the workload.
pub struct WorkerFilament {
    /// Its number, the same on every worker.
    pub id: FilamentId,
    /// The filament.
    pub filament: Box<dyn Filament>,
}

/// What is asked of a worker.
#[derive(Clone, Copy, Debug)]
pub struct WorkerPlan {
    /// In flight at most.
    pub depth: u32,
    /// Operations that may wait for a free place; one more ends the run.
    pub backlog: usize,
    /// When that is reached.
    pub full: Full,
    /// When the generator is late.
    pub late: Late,
    /// Operations meant to start from here on are not of this run; [`Nanos::NEVER`]: all are.
    pub end: Nanos,
    /// How long after the end those in flight are waited for.
    pub drain: Nanos,
    /// How long before a deadline to begin to spin.
    pub spin_margin: SpinMargin,
    /// Within so much of an operation's time nothing else is begun.
    pub near: Nanos,
    /// The length of the intervals of the report.
    pub interval: Nanos,
}

/// How a worker spent its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Waiting by spinning.
    pub spun: Nanos,
    /// Waiting by sleeping.
    pub slept: Nanos,
    /// Everything else.
    pub busy: Nanos,
}

/// How to end a run before its end: 0 go on, 1 begin nothing new, 2 wait for nothing either.
pub type Stop = Arc<AtomicU8>;

/// A timer or a message to be delivered.
#[derive(Clone, Copy, Debug)]
struct PendingEvent {
    filament: u32,
    event: Event,
}

/// The worker. See the module.
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
    waiting: WaitingQueue,
    events: TimeHeap<PendingEvent>,
    order: u64,
    slots: Slots,
    late_filter: LateFilter,
    emissions: Emissions,
    ends: Vec<Reaped>,
    now: Nanos,
    accounted_until: Nanos,
    last_reap: Nanos,
    boundary: Nanos,
    draining: bool,
    times: Times,
}

/// What a worker leaves behind.
pub struct Finished<T> {
    /// Everything recorded.
    pub record: WorkerRecord,
    /// How the time was spent.
    pub times: Times,
    /// The spin margin at the end.
    pub spin_margin: Nanos,
    /// Where the run ended: earlier than planned if it was stopped, [`Nanos::NEVER`] if nothing was left to do.
    pub end: Nanos,
    /// The target, with operations that never ended perhaps.
    pub target: T,
}

const NOWHERE: u32 = u32::MAX;
/// How often a waiting worker looks at the stop flag.
const STOP_POLL: Nanos = Nanos(20_000_000);

impl<C: Clock, T: Target> Worker<C, T> {
    /// Returns a worker whose filaments have received [`Event::Start`]: their first operations are queued before the
    /// run begins.
    #[must_use]
    pub fn new(plan: WorkerPlan, target: T, clock: C, inputs: WorkerInputs) -> Self {
        let depth = plan.depth.min(target.capacity()).max(1);
        let room = (depth as usize * 4).max(16_384);
        let mut worker = Self {
            positions: positions(&inputs.filaments),
            queue: OperationQueue::with_capacity(room),
            waiting: WaitingQueue::with_capacity(room),
            events: TimeHeap::with_capacity(room.max(inputs.filaments.len())),
            filaments: inputs.filaments,
            links: inputs.links,
            stop: inputs.stop,
            record: inputs.record,
            order: 0,
            slots: Slots::new(depth),
            late_filter: LateFilter::new(plan.late),
            emissions: Emissions {
                timers: Vec::with_capacity(1024),
                operations: Vec::with_capacity(1024),
                messages: Vec::with_capacity(1024),
            },
            ends: Vec::with_capacity(SLICE),
            now: Nanos::ZERO,
            accounted_until: Nanos::ZERO,
            last_reap: Nanos::ZERO,
            boundary: plan.interval,
            draining: false,
            times: Times::default(),
            clock,
            target,
            plan,
        };
        (0..worker.filaments.len()).for_each(|place| worker.wake(place as u32, Event::Start));
        worker
    }

    /// Sets the clock, once everybody is ready and time zero is known; returns the target, whose
    /// clock may have to be set too.
    pub(crate) fn set_clock(&mut self, clock: C) -> &mut T {
        self.clock = clock;
        &mut self.target
    }

    /// Runs until the end, until nothing is left to do, or until stopped; then waits for what is
    /// in flight.
    ///
    /// # Errors
    /// The target cannot go on.
    pub fn run(mut self) -> io::Result<Finished<T>> {
        self.now = self.clock.now();
        while !self.over() {
            self.turn()?;
        }
        self.links.close();
        self.drain()?;
        self.times.busy += self.now.since(self.accounted_until);
        self.record.unfinished(self.slots.flights());
        let (in_flight, waiting) = (self.slots.in_flight(), self.waiting.len());
        self.record.waiting(|| self.waiting.pop());
        self.record.close(in_flight as u64, waiting as u64);
        Ok(Finished {
            record: self.record,
            times: self.times,
            spin_margin: self.plan.spin_margin.length(),
            end: self.plan.end,
            target: self.target,
        })
    }

    fn turn(&mut self) -> io::Result<()> {
        let before = self.now;
        let mut worked = self.issue()?;
        worked |= self.deliver();
        if self.may_reap() {
            worked |= self.reap()?;
        }
        if self.now >= self.boundary {
            self.turn_over();
        }
        if !worked {
            return self.idle();
        }
        if self.now == before {
            self.now = self.clock.now();
        }
        Ok(())
    }

    /// Returns whether the run is over: nothing that is meant to start in it is left to be done.
    fn over(&mut self) -> bool {
        if self.stop.load(Ordering::Relaxed) > 0 {
            self.plan.end = self.plan.end.min(self.now.max(Nanos(1)));
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

    /// Waits for what is in flight, not longer than the plan allows.
    fn drain(&mut self) -> io::Result<()> {
        self.draining = true;
        let begun = self.now;
        let interrupted = self.stop.load(Ordering::Relaxed);
        while self.slots.in_flight() > 0 && self.now.since(begun) < self.plan.drain {
            if self.stop.load(Ordering::Relaxed) > interrupted {
                break;
            }
            if !self.reap()? {
                let left = (begun + self.plan.drain).since(self.now).min(STOP_POLL);
                self.target.wait(left)?;
                self.now = self.clock.now();
            }
            if self.now >= self.boundary {
                self.turn_over();
            }
        }
        Ok(())
    }

    /// Begins the interval of now. Those in between, in which the worker itself did not run (a virtual
    /// machine that was paused), are left out.
    fn turn_over(&mut self) {
        let index = self.now.0 / self.plan.interval.0.max(1);
        let (in_flight, waiting) = (self.slots.in_flight(), self.waiting.len());
        self.record
            .turn_over(index, in_flight as u64, waiting as u64);
        self.boundary = Nanos((index + 1).saturating_mul(self.plan.interval.0));
        self.clock.refine();
    }
}

/// What a worker is given besides its plan, its target and its clock.
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

/// Returns for every number of a filament its place among these; [`NOWHERE`] if it is not there.
fn positions(filaments: &[WorkerFilament]) -> Vec<u32> {
    let numbers = filaments.iter().map(|entry| entry.id as usize + 1).max();
    let mut positions = vec![NOWHERE; numbers.unwrap_or(0)];
    for (place, entry) in (0..).zip(filaments) {
        positions[entry.id as usize] = place;
    }
    positions
}

/// Ends are not left with the target longer than this, however near the next operation is.
const REAP_AT_LEAST: Nanos = Nanos(5_000);

/// Operations that find no room, dealt with in one turn at most: a closed loop whose operations
/// are dropped emits the next ones at once.
const OVERFLOW: usize = 256;

impl<C: Clock, T: Target> Worker<C, T> {
    /// Issues what is due, batch by batch; not for ever, since ends must be taken too.
    #[inline]
    pub(super) fn issue(&mut self) -> io::Result<bool> {
        let mut done = 0;
        while done < TURN {
            match self.issue_batch()? {
                0 => break,
                more => done += more,
            }
        }
        Ok(done > 0)
    }

    /// Issues a batch of what is due: under one stamp, taken just before one flush. Returns how much was
    /// done: operations issued, or a whole [`BATCH`] for room that was made.
    #[inline]
    fn issue_batch(&mut self) -> io::Result<usize> {
        let due = self.now.min(Nanos(self.plan.end.0 - 1));
        let most = self.target.batch().clamp(1, BATCH);
        let mut batch = [0_u32; BATCH];
        let mut length = 0;
        while length < most && !self.slots.full() {
            let Some((planned, held)) = self.next_due(due) else {
                break;
            };
            if let Some(slot) = self.slots.take(planned, held) {
                self.target.submit(slot, &planned.operation);
                batch[length] = slot;
                length += 1;
            }
        }
        if length > 0 {
            self.now = self.clock.now();
            self.target.flush()?;
            self.stamp(&batch[..length]);
            if T::FLUSH_CALLS_KERNEL {
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

    /// Deals with what is due while every place is taken: ends that are there already make room; only if
    /// there is none is the target full.
    fn make_room(&mut self, due: Nanos) -> io::Result<bool> {
        Ok(self.reap()? || self.overflow(due))
    }

    /// Notes the actual start of a batch: now.
    #[inline]
    fn stamp(&mut self, batch: &[u32]) {
        for slot in batch {
            if let Some(planned) = self.slots.stamp(*slot, self.now) {
                self.record.issued(planned, self.now);
            }
        }
    }

    /// Returns the next operation to be issued, and whether it was held back by a full target.
    #[inline]
    fn next_due(&mut self, due: Nanos) -> Option<(Planned, bool)> {
        if !self.waiting.is_empty() && self.now < self.plan.end {
            return self.waiting.pop().map(|planned| (planned, true));
        }
        self.take_due(due).map(|planned| (planned, false))
    }

    /// Takes the next operation from the queue that the late policy does not skip.
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

    /// Deals with what is due while the target is full.
    #[inline]
    fn overflow(&mut self, due: Nanos) -> bool {
        for taken in 0..OVERFLOW {
            let Some(planned) = self.take_due(due) else {
                return taken > 0;
            };
            match self.plan.full {
                Full::Queue => {
                    self.record.held(&planned);
                    self.waiting.push(planned);
                    if self.waiting.len() > self.plan.backlog {
                        self.record.backlog_exceeded();
                        self.stop.fetch_max(1, Ordering::Relaxed);
                        return true;
                    }
                }
                Full::Drop => {
                    self.record.dropped(&planned);
                    self.give_up(planned);
                }
            }
        }
        true
    }

    /// Notifies the filament, if it asks for that, that its operation will not be issued.
    fn give_up(&mut self, planned: Planned) {
        if planned.operation.notify {
            self.wake(planned.filament, completed(&planned, self.now, DROPPED));
        }
    }

    /// Returns whether this is a moment for ends: not just before an operation is due, unless
    /// they have been left for long or places are scarce.
    #[inline]
    pub(super) fn may_reap(&self) -> bool {
        let in_flight = self.slots.in_flight();
        in_flight > 0
            && (self.queue.next_at().since(self.now) >= self.plan.near
                || self.now.since(self.last_reap) >= REAP_AT_LEAST
                || self.slots.scarce())
    }

    /// Takes a slice of ends from the target; they get one stamp, since they are seen together.
    #[inline]
    pub(super) fn reap(&mut self) -> io::Result<bool> {
        let mut ends = std::mem::take(&mut self.ends);
        ends.clear();
        self.target.reap(&mut ends)?;
        let any = !ends.is_empty();
        if any {
            self.now = self.clock.now();
        }
        self.last_reap = self.now;
        for end in &ends {
            match self.slots.free(end.slot) {
                Some(flight) => self.ended(&flight, end.result),
                None => self.record.stray(),
            }
        }
        self.ends = ends;
        Ok(any)
    }

    #[inline]
    fn ended(&mut self, flight: &InFlight, result: i32) {
        self.record.completed(flight, self.now, result);
        if flight.planned.operation.notify && !self.draining {
            let event = completed(&flight.planned, self.now, result);
            self.wake(flight.planned.filament, event);
        }
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

/// Wakes in one turn, at most.
const EVENTS_PER_TURN: usize = 64;
/// A timer is not put off longer than this for an operation that is due soon.
const PUT_OFF: Nanos = Nanos(20_000);

impl<C: Clock, T: Target> Worker<C, T> {
    /// Wakes a filament and takes over what it emits.
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
        if !self.emissions.timers.is_empty() || !self.emissions.messages.is_empty() {
            self.take_events(place);
        }
    }

    fn take_events(&mut self, place: u32) {
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

    /// Queues a message as an event if its filament is on this worker; else sends it to the filament's worker.
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

    /// Wakes filaments for timers and messages that are due, until an operation is due.
    #[inline]
    pub(super) fn deliver(&mut self) -> bool {
        self.collect();
        let due = self.now.min(Nanos(self.plan.end.0 - 1));
        let mut any = false;
        for _ in 0..EVENTS_PER_TURN {
            let next = self.next_wake();
            if next > due || self.put_off(next) {
                break;
            }
            any = true;
            if let Some(wake) = self.events.pop() {
                self.wake(wake.what.filament, wake.what.event);
            }
            if self.queue.next_at() <= self.now {
                break;
            }
        }
        any
    }

    /// Returns whether a wake of this time had better come after the operation that is due soon.
    #[inline]
    fn put_off(&self, wake: Nanos) -> bool {
        self.queue.next_at().since(self.now).0 < self.plan.near.0 / 2
            && self.now.since(wake) < PUT_OFF
    }

    /// Takes in the messages of other workers.
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

/// A sleep shorter than this is not worth its system call.
const SHORTEST: Nanos = Nanos(5_000);

impl<C: Clock, T: Target> Worker<C, T> {
    /// Waits until something is due, or ends.
    pub(super) fn idle(&mut self) -> io::Result<()> {
        self.links.send_held_back();
        self.now = self.clock.now();
        self.times.busy += self.now.since(self.accounted_until);
        self.accounted_until = self.now;
        let left = self.deadline().since(self.now);
        let spin_margin = self.plan.spin_margin.length();
        if left > spin_margin + SHORTEST.min(spin_margin) {
            self.sleep(left - spin_margin)?;
            self.times.slept += self.now.since(self.accounted_until);
        } else {
            self.spin(self.now + left)?;
            self.times.spun += self.now.since(self.accounted_until);
        }
        self.accounted_until = self.now;
        Ok(())
    }

    /// Returns until when nothing is to be done that this worker knows of.
    fn deadline(&self) -> Nanos {
        let wake = self.next_wake();
        // One that was put off waits for the operation.
        let wake = if wake <= self.now { Nanos::NEVER } else { wake };
        let next = self.queue.next_at().min(wake);
        let poll = STOP_POLL.min(self.links.poll_limit());
        next.min(self.boundary)
            .min(self.plan.end)
            .min(self.now + poll)
    }

    /// Sleeps, with the target if there is something to end; learns how much too long it took.
    fn sleep(&mut self, length: Nanos) -> io::Result<()> {
        let until = self.now + length;
        if self.slots.in_flight() > 0 {
            self.target.wait(length)?;
        } else {
            self.clock.sleep(length);
        }
        self.now = self.clock.now();
        if self.now >= until {
            self.plan.spin_margin.learn(self.now - until);
        }
        Ok(())
    }

    /// Spins until the deadline, or until something has ended well before it.
    fn spin(&mut self, deadline: Nanos) -> io::Result<()> {
        while self.now < deadline {
            if deadline - self.now > self.plan.near {
                if self.slots.in_flight() > 0 && self.reap()? {
                    break;
                }
                std::hint::spin_loop();
            }
            self.now = self.clock.now();
        }
        Ok(())
    }
}
