//! The naive replayers of the paper as issue strategies, to be compared with the engine's own loop.
//!
//! SELECT and SLEEP: a master hands the next operation to a free thread, which waits for its time by
//! select() or usleep() and then does it, synchronously. DED-CLOCK: a thread spins on the clock
//! and wakes a sleeping thread for every operation that is due. All as section 2 of the paper has
//! them: the kernel's default timer slack, no pinning of the threads, `depth` threads. They run
//! what does not wait for completions; the record is the same as that of the engine's own loop.
//!
//! Decision: one ledger behind a lock for all threads, written when an operation has ended: it costs
//! nothing before the issue, and 128 ledgers would be a gigabyte.

use crate::ahead::{Ahead, Next};
use crate::clock::Clock;
use crate::ledger::Ledger;
use crate::request::Pacer;
use crate::seat;
use crate::slots::Flight;
use crate::starting_line::StartingLine;
use crate::synchronous::Synchronous;
use crate::timekeeper::AnyClock;
use crate::trouble::Trouble;
use crate::worker::Stop;
use crate::{agenda::Planned, clock};
use bw_model::Nanos;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How far the master looks ahead of the present.
const HORIZON: Nanos = Nanos::SECOND;
/// One sleep is not longer, so that a signal is heard; the last one before the time is what counts.
const LONGEST_SLEEP: u64 = 100_000_000;

/// Why a naive pacer stopped: everything was done, or it met what it cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything was handed out and done.
    Done,
    /// A filament waits for completions.
    ClosedLoop,
}

/// Operations on their way from the master to the threads.
struct Hands {
    waiting: Mutex<(VecDeque<Planned>, bool)>,
    something: Condvar,
    room: Condvar,
    most: usize,
}

impl Hands {
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

/// The ledger, and when its present interval ends.
struct Book {
    ledger: Ledger,
    boundary: Nanos,
}

/// A naive replayer.
pub struct Naive<'a> {
    /// Which.
    pub pacer: Pacer,
    /// Operations meant to start from here on are not of this run.
    pub end: Nanos,
    /// The length of the intervals of the report.
    pub interval: Nanos,
    /// How to end early.
    pub stop: &'a Stop,
    /// The processor that the master is bound to; its threads run where they may.
    pub cpu: Option<usize>,
}

impl Naive<'_> {
    /// Runs the filaments with one thread for each of `calls`; returns the record and how it ended.
    /// `begin` sets time zero when every thread is ready, and returns the clock from then on.
    ///
    /// # Errors
    /// `no-such-cpu`; `worker-start`: the system has no more threads.
    pub fn run(
        &self,
        ahead: Ahead,
        calls: Vec<Box<dyn Synchronous>>,
        begin: impl FnOnce() -> AnyClock,
        ledger: Ledger,
    ) -> Result<(Ledger, Ended), Trouble> {
        let hands = Hands {
            waiting: Mutex::default(),
            something: Condvar::new(),
            room: Condvar::new(),
            most: calls.len(),
        };
        let boundary = self.interval;
        let book = Mutex::new(Book { ledger, boundary });
        let line = StartingLine::default();
        let ended = std::thread::scope(|scope| {
            let (threads, places) = (calls.len(), (&line, &hands, &book));
            let mut calls = calls.into_iter();
            let started = calls.try_for_each(|call| {
                let serve = move || self.serve(call, places);
                let thread = std::thread::Builder::new().spawn_scoped(scope, serve);
                thread.map(drop).map_err(|error| not_started(&error))
            });
            // The threads are there already, and do not inherit it.
            let seated = started.and_then(|()| self.cpu.map_or(Ok(()), seat::take));
            let ended = seated.map(|()| {
                line.wait_for(threads);
                let clock = begin();
                line.go(clock.clone());
                self.hand_out(ahead, clock, &hands)
            });
            line.send_home();
            hands.close();
            ended
        })?;
        let mut book = book.into_inner().unwrap_or_else(PoisonError::into_inner);
        book.ledger.close(0, 0);
        Ok((book.ledger, ended))
    }

    /// The master: hands operations out in their order.
    fn hand_out(&self, mut ahead: Ahead, mut clock: AnyClock, hands: &Hands) -> Ended {
        while self.stop.load(Ordering::Relaxed) == 0 {
            let now = clock.now();
            match ahead.next(now + HORIZON) {
                Next::Operation(planned) if planned.operation.at < self.end => {
                    if self.pacer == Pacer::DedClock && !self.spin(&mut clock, planned.operation.at)
                    {
                        break;
                    }
                    hands.give(planned);
                }
                Next::Later(at) if at < self.end => clock::sleep(Nanos(1_000_000)),
                Next::Operation(_) | Next::Later(_) | Next::End => break,
                Next::Closed => return Ended::ClosedLoop,
            }
        }
        Ended::Done
    }

    /// Spins until `at`; false if told to stop.
    fn spin(&self, clock: &mut AnyClock, at: Nanos) -> bool {
        while clock.now() < at {
            if self.stop.load(Ordering::Relaxed) > 0 {
                return false;
            }
        }
        true
    }

    /// A thread: waits for the time of each operation that it is given, and does it.
    fn serve(
        &self,
        mut call: Box<dyn Synchronous>,
        (line, hands, book): (&StartingLine, &Hands, &Mutex<Book>),
    ) {
        let Some(mut clock) = line.ready() else {
            return;
        };
        call.begin(&clock);
        while let Some(planned) = hands.take() {
            if !self.wait(&mut clock, planned.operation.at) {
                continue;
            }
            let issued = clock.now();
            let result = call.execute(&planned.operation);
            let now = clock.now();
            let held = false;
            let flight = Flight {
                planned,
                issued,
                held,
            };
            self.note(&mut lock(book), &flight, now, result);
        }
    }

    fn note(&self, book: &mut Book, flight: &Flight, now: Nanos, result: i32) {
        if now >= book.boundary {
            let index = now.0 / self.interval.0.max(1);
            book.ledger.turn_over(index, 0, 0);
            book.boundary = Nanos((index + 1).saturating_mul(self.interval.0));
        }
        book.ledger.intended(&flight.planned);
        book.ledger.issued(&flight.planned, flight.issued);
        book.ledger.completed(flight, now, result);
    }

    /// Waits until `at`; false if the run is stopped before.
    fn wait(&self, clock: &mut AnyClock, at: Nanos) -> bool {
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

fn not_started(error: &std::io::Error) -> Trouble {
    let message = format!("the threads of the pacer could not be started: {error}");
    Trouble::operating("worker-start", message, "ask for less depth")
}

fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
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
    let microseconds = u32::try_from(microseconds).unwrap_or(999_999).min(999_999);
    // SAFETY: an integer below a million.
    unsafe { libc::usleep(microseconds) };
}
