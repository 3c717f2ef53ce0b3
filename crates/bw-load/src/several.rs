//! Several targets in one run: each filament uses one of them.
//!
//! A worker has one composite target, made of one part for each target. The part of an operation follows from its
//! filament. Each part has slots of its own, so a target that stands still holds up only what is meant for it: the worker
//! keeps a queue for each part of the operations that wait for room in it.
//!
//! Decisions. The parts are behind a vtable: a call of some nanoseconds, beside an operation of a microsecond, for a
//! mechanism that takes every kind of target. Rejected: a generic type for each combination; one ring with several
//! registered files, which is for files alone. A batch has one operation: those of a batch share a stamp, and parts are
//! flushed by calls of their own. A worker that waits while several parts have operations in flight sleeps in ppoll() on the
//! descriptors of all; a part without one (the engine `threads`, the null target) is waited for in slices of
//! [`SLICE`], so that completions of the others are seen that much late at most.

use crate::routes::Routes;
use crate::target::{Reaped, Target};
use bw_model::{Nanos, Operation};
use bw_schedule::filaments::FilamentId;
use bw_sys::clock::monotonic_ns;
use bw_sys::poll::{Interrupts, PollEntry, poll, readable};
use std::any::Any;
use std::io;

/// How long one part is waited for while others have operations in flight.
const SLICE: Nanos = Nanos(50_000);
/// How long descriptors are waited for at most: time limits of network targets are looked at this often.
const LOOK: Nanos = Nanos(1_000_000);
/// The slot of a part's slot that is free.
const NO_SLOT: u32 = u32::MAX;

/// A target behind a vtable.
pub trait Part: Any {
    /// See [`Target::capacity`].
    fn room(&self) -> u32;
    /// See [`Target::submit`].
    fn put(&mut self, slot: u32, operation: &Operation);
    /// See [`Target::flush`].
    fn start(&mut self) -> io::Result<()>;
    /// See [`Target::reap`].
    fn take(&mut self, ends: &mut Vec<Reaped>) -> io::Result<()>;
    /// See [`Target::wait`].
    fn rest(&mut self, at_most: Nanos) -> io::Result<()>;
    /// See [`Target::descriptor`].
    fn readiness(&self) -> Option<i32>;
    /// See [`Target::measure_from`].
    fn count_from(&mut self, from: Nanos);
}

impl<T: Target + 'static> Part for T {
    fn room(&self) -> u32 {
        self.capacity()
    }

    fn put(&mut self, slot: u32, operation: &Operation) {
        self.submit(slot, operation);
    }

    fn start(&mut self) -> io::Result<()> {
        self.flush()
    }

    fn take(&mut self, ends: &mut Vec<Reaped>) -> io::Result<()> {
        self.reap(ends)
    }

    fn rest(&mut self, at_most: Nanos) -> io::Result<()> {
        self.wait(at_most)
    }

    fn readiness(&self) -> Option<i32> {
        self.descriptor()
    }

    fn count_from(&mut self, from: Nanos) {
        self.measure_from(from);
    }
}

/// A part, and which slots of the worker its own slots stand for.
struct PartState {
    target: Box<dyn Part>,
    free: Vec<u32>,
    slots: Box<[u32]>,
}

impl PartState {
    fn new(target: Box<dyn Part>, depth: u32) -> Self {
        let depth = depth.min(target.room()).max(1);
        Self {
            target,
            free: (0..depth).rev().collect(),
            slots: vec![NO_SLOT; depth as usize].into_boxed_slice(),
        }
    }

    fn is_busy(&self) -> bool {
        self.free.len() < self.slots.len()
    }

    /// Frees the part's own slot, and returns that of the worker; one that does not exist if it was free.
    fn free(&mut self, own: u32) -> u32 {
        let Some(slot) = self.slots.get_mut(own as usize) else {
            return NO_SLOT;
        };
        let slot = std::mem::replace(slot, NO_SLOT);
        if slot != NO_SLOT {
            self.free.push(own);
        }
        slot
    }
}

/// Several targets as one worker's target.
pub struct Several {
    parts: Vec<PartState>,
    routes: Routes,
    /// The part with a prepared operation.
    prepared: Option<usize>,
    /// The part whose completions are taken first, in turn.
    first: usize,
    entries: Vec<PollEntry>,
}

impl Several {
    /// Returns the composite of these targets, each with at most `depth` operations in flight.
    #[must_use]
    pub fn new(targets: Vec<Box<dyn Part>>, routes: Routes, depth: u32) -> Self {
        let parts: Vec<_> = targets
            .into_iter()
            .map(|target| PartState::new(target, depth))
            .collect();
        Self {
            entries: Vec::with_capacity(parts.len()),
            parts,
            routes,
            prepared: None,
            first: 0,
        }
    }

    /// Returns the target of a part.
    pub(crate) fn part(&self, part: usize) -> &dyn Part {
        &*self.parts[part].target
    }

    /// Returns the target of a part, to change it.
    pub(crate) fn part_mut(&mut self, part: usize) -> &mut dyn Part {
        &mut *self.parts[part].target
    }

    /// Sleeps until one of several busy parts has a completion, or for `at_most`.
    fn wait_for_any(&mut self, at_most: Nanos) -> io::Result<()> {
        self.entries.clear();
        for part in self.parts.iter_mut().filter(|part| part.is_busy()) {
            match part.target.readiness() {
                Some(descriptor) => self.entries.push(readable(descriptor)),
                None => return part.target.rest(at_most.min(SLICE)),
            }
        }
        let deadline_ns = monotonic_ns() + at_most.min(LOOK).0;
        match poll(&mut self.entries, Some(deadline_ns), Interrupts::AsBefore) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }
}

impl Target for Several {
    const HAS_PARTS: bool = true;

    fn batch(&self) -> usize {
        1
    }

    fn capacity(&self) -> u32 {
        let slots = self.parts.iter().map(|part| part.slots.len() as u32);
        slots.sum()
    }

    fn measure_from(&mut self, from: Nanos) {
        for part in &mut self.parts {
            part.target.count_from(from);
        }
    }

    fn submit(&mut self, slot: u32, operation: &Operation) {
        self.submit_to(0, slot, operation);
    }

    fn parts(&self) -> usize {
        self.parts.len()
    }

    fn part_of(&self, filament: FilamentId) -> usize {
        self.routes.part_of(filament).into()
    }

    fn has_room(&self, part: usize) -> bool {
        !self.parts[part].free.is_empty()
    }

    fn submit_to(&mut self, part: usize, slot: u32, operation: &Operation) {
        let state = &mut self.parts[part];
        let own = state.free.pop();
        let own = own.expect("the worker asks for room before it submits");
        state.slots[own as usize] = slot;
        state.target.put(own, operation);
        self.prepared = Some(part);
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.prepared.take() {
            Some(part) => self.parts[part].target.start(),
            None => Ok(()),
        }
    }

    fn reap(&mut self, ends: &mut Vec<Reaped>) -> io::Result<()> {
        let count = self.parts.len();
        for step in 0..count {
            let part = &mut self.parts[(self.first + step) % count];
            if part.is_busy() && ends.len() < ends.capacity() {
                let before = ends.len();
                part.target.take(ends)?;
                for end in &mut ends[before..] {
                    end.slot = part.free(end.slot);
                }
            }
        }
        self.first = (self.first + 1) % count.max(1);
        Ok(())
    }

    fn wait(&mut self, at_most: Nanos) -> io::Result<()> {
        let mut busy = (0..self.parts.len()).filter(|part| self.parts[*part].is_busy());
        let (first, second) = (busy.next(), busy.next());
        match (first, second) {
            (Some(only), None) => self.parts[only].target.rest(at_most),
            (Some(_), Some(_)) => self.wait_for_any(at_most),
            (None, _) => {
                bw_sys::clock::sleep(at_most.0);
                Ok(())
            }
        }
    }
}
