//! The hand-over of slots between a worker and the threads of its pool: two rings of atomic numbers, and a futex for each
//! side to sleep on.
//!
//! A slot's number is in each ring at most once at a time, so neither ring can overflow. What one side wrote before it
//! handed a slot over, the other side sees. loom checks it (`make soundness`), except [`Handover::falls_asleep`], whose
//! order between two different variables loom does not know.

use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Scope, futex};
use std::time::Duration;

/// What the worker and its pool share.
#[derive(Debug)]
pub(crate) struct Handover {
    /// Slots to be executed: the worker appends, any thread of the pool takes.
    ready: Box<[AtomicU32]>,
    ready_head: AtomicU64,
    ready_tail: AtomicU64,
    /// Slots that ended, plus one; zero: empty. The pool appends, the worker takes.
    ended: Box<[AtomicU32]>,
    ended_tail: AtomicU64,
    /// Changes with each submission; the pool's threads sleep on it.
    submitted: AtomicU32,
    sleepers: AtomicU32,
    /// Changes with each completion; the worker sleeps on it.
    completed: AtomicU32,
    waiting: AtomicBool,
    stopped: AtomicBool,
}

impl Handover {
    /// Returns the rings for slots below `depth`.
    pub(crate) fn new(depth: u32) -> Self {
        let room = depth.next_power_of_two();
        let numbers = || (0..room).map(|_| AtomicU32::new(0)).collect();
        Self {
            ready: numbers(),
            ready_head: AtomicU64::new(0),
            ready_tail: AtomicU64::new(0),
            ended: numbers(),
            ended_tail: AtomicU64::new(0),
            submitted: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            completed: AtomicU32::new(0),
            waiting: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        }
    }

    /// Returns the cell of ring `cells` for entry number `index`.
    #[allow(clippy::cast_possible_truncation)]
    fn cell(cells: &[AtomicU32], index: u64) -> &AtomicU32 {
        &cells[index as usize & (cells.len() - 1)]
    }
}

/// The side of the pool.
impl Handover {
    /// Returns the next slot to execute; sleeps until there is one. None: the hand-over was stopped.
    pub(crate) fn next(&self) -> Option<u32> {
        loop {
            // Read before the stop flag, which is set before this word changes. In the other order the
            // thread could take that change for an old one and sleep forever.
            let seen = self.submitted.load(SeqCst);
            if self.stopped.load(SeqCst) {
                return None;
            }
            if let Some(slot) = self.take() {
                return Some(slot);
            }
            self.sleepers.fetch_add(1, SeqCst);
            // Returns at once if there was a submission or a stop since `seen`.
            futex::wait(&self.submitted, seen, None, Scope::Private);
            self.sleepers.fetch_sub(1, SeqCst);
        }
    }

    /// Takes the next slot to execute; None if there is none.
    fn take(&self) -> Option<u32> {
        let mut head = self.ready_head.load(Acquire);
        while head != self.ready_tail.load(Acquire) {
            // If another thread takes this entry first, the cell may hold a later one: then
            // the exchange fails, and the value is discarded.
            let slot = Self::cell(&self.ready, head).load(Relaxed);
            match self
                .ready_head
                .compare_exchange(head, head + 1, SeqCst, Acquire)
            {
                Ok(_) => return Some(slot),
                Err(now) => head = now,
            }
        }
        None
    }

    /// Reports the completion of `slot`; returns whether the worker may be asleep and must be woken.
    #[must_use]
    pub(crate) fn finish(&self, slot: u32) -> bool {
        let index = self.ended_tail.fetch_add(1, SeqCst);
        Self::cell(&self.ended, index).store(slot + 1, Release);
        self.completed.fetch_add(1, SeqCst);
        self.waiting.load(SeqCst)
    }

    /// Wakes a worker that sleeps in [`wait`](Handover::wait).
    pub(crate) fn wake_worker(&self) {
        futex::wake(&self.completed, 1, Scope::Private);
    }
}

/// The side of the worker, which counts the entries that it has put and taken.
impl Handover {
    /// Writes entry number `index` of the slots to execute; it is not visible yet.
    pub(crate) fn prepare(&self, index: u64, slot: u32) {
        Self::cell(&self.ready, index).store(slot, Relaxed);
    }

    /// Makes the entries below `prepared` visible, and wakes as many threads as there are new ones.
    pub(crate) fn publish(&self, prepared: u64) {
        let published = self.ready_tail.swap(prepared, SeqCst);
        let count = prepared - published;
        if count == 0 {
            return;
        }
        self.submitted.fetch_add(1, SeqCst);
        if self.sleepers.load(SeqCst) > 0 {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            futex::wake(&self.submitted, count, Scope::Private);
        }
    }

    /// Returns whether entry number `index` of the completions is there.
    fn has_end(&self, index: u64) -> bool {
        Self::cell(&self.ended, index).load(Acquire) != 0
    }

    /// Takes entry number `index` of the completions; None if it is not there yet.
    pub(crate) fn take_end(&self, index: u64) -> Option<u32> {
        let cell = Self::cell(&self.ended, index);
        let slot = cell.load(Acquire).checked_sub(1)?;
        cell.store(0, Relaxed);
        Some(slot)
    }

    /// Sleeps until completion number `index` is there, at most for `at_most`; may return early.
    pub(crate) fn wait(&self, index: u64, at_most: Option<Duration>) {
        self.waiting.store(true, SeqCst);
        let seen = self.completed.load(SeqCst);
        if !self.has_end(index) {
            futex::wait(&self.completed, seen, at_most, Scope::Private);
        }
        self.waiting.store(false, SeqCst);
    }

    /// Returns whether the worker may sleep on something else: completion number `index` is not there, and
    /// [`finish`](Handover::finish) will say that the worker must be woken.
    pub(crate) fn falls_asleep(&self, index: u64) -> bool {
        self.waiting.store(true, SeqCst);
        // Orders the look at the ring of ends after the store, as in `wait`.
        let _ = self.completed.load(SeqCst);
        !self.has_end(index)
    }

    /// Ends the time after [`falls_asleep`](Handover::falls_asleep).
    pub(crate) fn woke_up(&self) {
        self.waiting.store(false, SeqCst);
    }

    /// Ends the threads of the pool, each after the slot that it executes.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, SeqCst);
        self.submitted.fetch_add(1, SeqCst);
        futex::wake(&self.submitted, u32::MAX, Scope::Private);
    }
}
