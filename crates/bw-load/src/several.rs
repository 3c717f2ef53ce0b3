//! Several targets in one run: each filament uses one of them.
//!
//! A worker has one composite target, made of one part for each target. The part of an operation follows from its
//! filament. Each part has slots of its own, so a target that stands still holds up only what is meant for it: the worker
//! keeps a queue for each part of the operations that wait for room in it.
//!
//! Decisions. The parts are behind a vtable: a call of some nanoseconds, beside an operation of a microsecond, for a
//! mechanism that takes every kind of target. Rejected: a generic type for each combination; one ring with several
//! registered files, which is for files alone. A batch has one operation: those of a batch share a stamp, and parts are
//! flushed by calls of their own. A worker that waits while something can happen on several parts sleeps in ppoll() on the
//! descriptors of all, until the first of them is due: none is preferred. The engine `threads` has no descriptor and is
//! due every 50 us, so that its completions are seen that much late at most.

use crate::routes::Routes;
use crate::target::{Background, Reaped, SeenStream, Target};
use bw_model::{Nanos, Operation};
use bw_record::histogram::Histogram;
use bw_schedule::filaments::FilamentId;
use bw_sys::clock::monotonic_ns;
use bw_sys::poll::{Interrupts, PollEntry, poll, readable};
use std::io;
use std::ops::Range;

/// The slot of a part's slot that is free.
const NO_SLOT: u32 = u32::MAX;

/// A part, and which slots of the worker its own slots stand for.
struct PartState {
    target: Box<dyn Target>,
    free: Vec<u32>,
    slots: Box<[u32]>,
    /// Whether its descriptor was readable after the last wait.
    is_readable: bool,
}

impl PartState {
    fn new(target: Box<dyn Target>, depth: u32) -> Self {
        let depth = depth.min(target.capacity()).max(1);
        Self {
            target,
            free: (0..depth).rev().collect(),
            slots: vec![NO_SLOT; depth as usize].into_boxed_slice(),
            is_readable: false,
        }
    }

    fn is_busy(&self) -> bool {
        self.free.len() < self.slots.len()
    }

    fn background(&self) -> Background {
        if self.is_readable {
            Background::Work
        } else {
            self.target.background()
        }
    }

    /// Returns whether something can happen on it.
    fn is_awaited(&self) -> bool {
        self.is_busy() || self.background() != Background::Nothing
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
    /// The part of each of the worker's slots, and its own slot there, of the operation that was last in it.
    owners: Box<[(u16, u32)]>,
    /// The part with a prepared operation.
    prepared: Option<usize>,
    /// The part whose completions are taken first, in turn.
    first: usize,
    entries: Vec<PollEntry>,
}

impl Several {
    /// Returns the composite of these targets, each with at most `depth` operations in flight.
    #[must_use]
    pub fn new(targets: Vec<Box<dyn Target>>, routes: Routes, depth: u32) -> Self {
        let parts: Vec<_> = targets
            .into_iter()
            .map(|target| PartState::new(target, depth))
            .collect();
        let slots = parts.iter().map(|part: &PartState| part.slots.len()).sum();
        Self {
            owners: vec![(0, NO_SLOT); slots].into_boxed_slice(),
            entries: Vec::with_capacity(parts.len()),
            parts,
            routes,
            prepared: None,
            first: 0,
        }
    }

    /// Returns the target of a part.
    pub(crate) fn part(&self, part: usize) -> &dyn Target {
        &*self.parts[part].target
    }

    /// Returns the target of a part, to change it.
    pub(crate) fn part_mut(&mut self, part: usize) -> &mut dyn Target {
        &mut *self.parts[part].target
    }

    /// Sleeps until one of several parts has a completion or other work, or for `at_most`.
    fn wait_for_any(&mut self, mut at_most: Nanos) -> io::Result<()> {
        self.entries.clear();
        let mut first = None;
        for (index, part) in self.parts.iter_mut().enumerate() {
            let mut descriptor = None;
            if part.is_awaited() {
                let awaited = part.target.awaited();
                descriptor = awaited.descriptor;
                if first.is_none() || awaited.at_most < at_most {
                    at_most = at_most.min(awaited.at_most);
                    first = Some(index);
                }
            }
            // Entries with a number below zero are ignored.
            self.entries.push(readable(descriptor.unwrap_or(-1)));
        }
        if at_most == Nanos::ZERO {
            return Ok(());
        }
        if let Some(first) = first
            && self.entries.iter().all(|entry| entry.fd < 0)
        {
            // It may have another clock.
            return self.parts[first].target.wait(at_most);
        }
        let deadline_ns = monotonic_ns().saturating_add(at_most.0);
        match poll(&mut self.entries, Some(deadline_ns), Interrupts::AsBefore) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for (part, entry) in self.parts.iter_mut().zip(&self.entries) {
            part.is_readable |= entry.revents != 0;
        }
        Ok(())
    }
}

impl Target for Several {
    fn has_parts(&self) -> bool {
        true
    }

    fn batch(&self) -> usize {
        1
    }

    fn capacity(&self) -> u32 {
        let slots = self.parts.iter().map(|part| part.slots.len() as u32);
        slots.sum()
    }

    fn measure_streams(&self, now: Nanos, part: Range<Nanos>) {
        for one in &self.parts {
            one.target.measure_streams(now, part.clone());
        }
    }

    fn measure_from(&mut self, from: Nanos) {
        for part in &mut self.parts {
            part.target.measure_from(from);
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
        // There are at most 1024 targets.
        self.owners[slot as usize] = (part as u16, own);
        state.target.submit(own, operation);
        self.prepared = Some(part);
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.prepared.take() {
            Some(part) => self.parts[part].target.flush(),
            None => Ok(()),
        }
    }

    fn reap(&mut self, ends: &mut Vec<Reaped>) -> io::Result<()> {
        let count = self.parts.len();
        for step in 0..count {
            let part = &mut self.parts[(self.first + step) % count];
            let has_work = part.is_busy() || part.background() == Background::Work;
            if has_work && ends.len() < ends.capacity() {
                part.is_readable = false;
                let before = ends.len();
                part.target.reap(ends)?;
                for end in &mut ends[before..] {
                    end.slot = part.free(end.slot);
                }
            }
        }
        self.first = (self.first + 1) % count.max(1);
        Ok(())
    }

    fn wait(&mut self, at_most: Nanos) -> io::Result<()> {
        let mut awaited = (0..self.parts.len()).filter(|part| self.parts[*part].is_awaited());
        let (first, second) = (awaited.next(), awaited.next());
        match (first, second) {
            (Some(only), None) => self.parts[only].target.wait(at_most),
            (Some(_), Some(_)) => self.wait_for_any(at_most),
            (None, _) => {
                bw_sys::clock::sleep(at_most.0);
                Ok(())
            }
        }
    }

    fn stream(&self, slot: u32) -> Option<SeenStream> {
        let (part, own) = *self.owners.get(slot as usize)?;
        self.part(part.into()).stream(own)
    }

    fn add_reads(&self, gaps: &mut Histogram, read_lateness: &mut Histogram) {
        for part in &self.parts {
            part.target.add_reads(gaps, read_lateness);
        }
    }

    fn background(&self) -> Background {
        let parts = self.parts.iter().map(PartState::background);
        parts.max().unwrap_or(Background::Nothing)
    }
}
