//! The worker: one thread, its filaments, its target, and the loop that executes their events.
//!
//! A turn of the loop: issue every operation that is due; then wake filaments for timers and messages;
//! then take a bounded slice of ends from the target; and if there was nothing of all this, sleep or
//! spin until there will be. Operations come first (Buttress, section 5.1), and nothing else is begun just
//! before one is due.
//!
//! Decision: workers share nothing but the stop flag, rings for letters between filaments, and
//! rings for what is reported. What lost: shared queues with bypass locking (the paper's): its
//! operations were synchronous, so idle threads had to find each other's work; ours are not.
//! Generic over clock and target, so that the same loop runs in real and in virtual time.

mod idle;
mod issue;
mod wake;

use crate::agenda::Agenda;
use crate::clock::Clock;
use crate::guard::Guard;
use crate::heap::Heap;
use crate::ledger::Ledger;
use crate::mail::Mail;
use crate::policy::{Full, Judge, Late};
use crate::slots::Slots;
use crate::target::{Reaped, Target};
use crate::waiting::Waiting;
use bw_schedule::filament::{Emissions, Event, Filament, FilamentId};
use bw_model::Nanos;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Operations submitted under one stamp and one flush, at most, whatever the target takes.
pub const BATCH: usize = 16;
/// Operations issued in one turn, about: ends must be taken too.
const TURN: usize = 128;
/// Ends taken from the target in one slice, at most.
pub const SLICE: usize = 16;

/// A filament and its number in the workload.
pub struct Hosted {
    /// Its number, the same on every worker.
    pub id: FilamentId,
    /// The filament.
    pub filament: Box<dyn Filament>,
}

/// What is asked of a worker.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
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
    pub guard: Guard,
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
struct Wake {
    filament: u32,
    event: Event,
}

/// The worker. See the module.
pub struct Worker<C, T> {
    clock: C,
    target: T,
    plan: Plan,
    stop: Stop,
    mail: Mail,
    ledger: Ledger,
    filaments: Vec<Hosted>,
    homes: Vec<u32>,
    agenda: Agenda,
    waiting: Waiting,
    wakes: Heap<Wake>,
    order: u64,
    slots: Slots,
    judge: Judge,
    emissions: Emissions,
    ends: Vec<Reaped>,
    now: Nanos,
    mark: Nanos,
    last_reap: Nanos,
    boundary: Nanos,
    draining: bool,
    times: Times,
}

/// What a worker leaves behind.
pub struct Finished<T> {
    /// Everything recorded.
    pub ledger: Ledger,
    /// How the time was spent.
    pub times: Times,
    /// The guard as it was at the end.
    pub guard: Nanos,
    /// Where the run ended: earlier than planned if it was stopped, [`Nanos::NEVER`] if nothing was left to do.
    pub end: Nanos,
    /// The target, with operations that never ended perhaps.
    pub target: T,
}

const NOWHERE: u32 = u32::MAX;
/// How often a waiting worker looks at the stop flag.
const GLANCE: Nanos = Nanos(20_000_000);

impl<C: Clock, T: Target> Worker<C, T> {
    /// Returns a worker whose filaments have been told of the start: what they meant for the
    /// first moments is on its agenda before time begins.
    #[must_use]
    pub fn new(plan: Plan, target: T, clock: C, office: Office) -> Self {
        let depth = plan.depth.min(target.capacity()).max(1);
        let room = (depth as usize * 4).max(16_384);
        let mut worker = Self {
            homes: homes(&office.filaments),
            agenda: Agenda::with_capacity(room),
            waiting: Waiting::with_capacity(room),
            wakes: Heap::with_capacity(room.max(office.filaments.len())),
            filaments: office.filaments,
            mail: office.mail,
            stop: office.stop,
            ledger: office.ledger,
            order: 0,
            slots: Slots::new(depth),
            judge: Judge::new(plan.late),
            emissions: Emissions {
                timers: Vec::with_capacity(1024),
                operations: Vec::with_capacity(1024),
                messages: Vec::with_capacity(1024),
            },
            ends: Vec::with_capacity(SLICE),
            now: Nanos::ZERO,
            mark: Nanos::ZERO,
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
    pub fn set_clock(&mut self, clock: C) -> &mut T {
        self.clock = clock;
        &mut self.target
    }

    /// Runs until the end, until nothing is left to do, or until told to stop; then waits for what is
    /// in flight.
    ///
    /// # Errors
    /// The target cannot go on.
    pub fn run(mut self) -> io::Result<Finished<T>> {
        self.now = self.clock.now();
        while !self.over() {
            self.turn()?;
        }
        self.mail.leave();
        self.drain()?;
        self.times.busy += self.now.since(self.mark);
        self.ledger.unfinished(self.slots.flights());
        let (in_flight, waiting) = (self.slots.in_flight(), self.waiting.len());
        self.ledger.waiting(|| self.waiting.pop());
        self.ledger.close(in_flight as u64, waiting as u64);
        Ok(Finished {
            ledger: self.ledger,
            times: self.times,
            guard: self.plan.guard.length(),
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
            return self.agenda.next_at() >= self.plan.end && self.next_wake() >= self.plan.end;
        }
        self.agenda.is_empty()
            && self.wakes.is_empty()
            && self.waiting.is_empty()
            && self.slots.in_flight() == 0
            && self.mail.rest()
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
                let left = (begun + self.plan.drain).since(self.now).min(GLANCE);
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
        self.ledger
            .turn_over(index, in_flight as u64, waiting as u64);
        self.boundary = Nanos((index + 1).saturating_mul(self.plan.interval.0));
        self.clock.refine();
    }
}

/// What a worker is given besides its plan, its target and its clock.
pub struct Office {
    /// The filaments that live here.
    pub filaments: Vec<Hosted>,
    /// Its letter box.
    pub mail: Mail,
    /// The flag that ends the run.
    pub stop: Stop,
    /// Where everything is recorded.
    pub ledger: Ledger,
}

/// Returns for every number of a filament its place among these; [`NOWHERE`] if it is not there.
fn homes(filaments: &[Hosted]) -> Vec<u32> {
    let numbers = filaments.iter().map(|hosted| hosted.id as usize + 1).max();
    let mut homes = vec![NOWHERE; numbers.unwrap_or(0)];
    for (place, hosted) in (0..).zip(filaments) {
        homes[hosted.id as usize] = place;
    }
    homes
}
