//! Issuing what is due, and taking back what has ended.

use super::{BATCH, TURN, Worker};
use crate::agenda::Planned;
use crate::clock::Clock;
use crate::policy::Full;
use crate::slots::Flight;
use crate::target::Target;
use bw_model::DROPPED;
use bw_schedule::filament::{Completion, Event};
use bw_model::Nanos;
use std::io;
use std::sync::atomic::Ordering;

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
        let more = self.slots.full() && self.agenda.next_at() <= due;
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
                self.ledger.issued(planned, self.now);
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

    /// Takes the next operation from the agenda that the late policy does not skip.
    #[inline]
    fn take_due(&mut self, due: Nanos) -> Option<Planned> {
        loop {
            let planned = self.agenda.pop_due(due)?;
            self.ledger.intended(&planned);
            if !self.judge.skips(self.now.since(planned.operation.at)) {
                return Some(planned);
            }
            self.ledger.skipped(&planned);
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
                    self.ledger.held(&planned);
                    self.waiting.push(planned);
                    if self.waiting.len() > self.plan.backlog {
                        self.ledger.backlog_exceeded();
                        self.stop.fetch_max(1, Ordering::Relaxed);
                        return true;
                    }
                }
                Full::Drop => {
                    self.ledger.dropped(&planned);
                    self.give_up(planned);
                }
            }
        }
        true
    }

    /// Tells the filament that its operation will not be issued, if it wants to know.
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
            && (self.agenda.next_at().since(self.now) >= self.plan.near
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
                None => self.ledger.stray(),
            }
        }
        self.ends = ends;
        Ok(any)
    }

    #[inline]
    fn ended(&mut self, flight: &Flight, result: i32) {
        self.ledger.completed(flight, self.now, result);
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
