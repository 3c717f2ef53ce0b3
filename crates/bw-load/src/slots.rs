//! The places in flight: which operation is under which number on the target.

use crate::agenda::Planned;
use bw_model::Nanos;

/// An operation in flight.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    /// What, and whose.
    pub planned: Planned,
    /// The actual start.
    pub issued: Nanos,
    /// Whether it had to wait for this place.
    pub held: bool,
}

/// The places: a fixed number of them.
#[derive(Debug)]
pub struct Slots {
    flights: Vec<Option<Flight>>,
    free: Vec<u32>,
}

impl Slots {
    /// Returns `depth` free places.
    #[must_use]
    pub fn new(depth: u32) -> Self {
        Self {
            flights: vec![None; depth as usize],
            free: (0..depth).rev().collect(),
        }
    }

    /// Returns how many are in flight.
    #[inline]
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    /// Returns whether every place is taken.
    #[inline]
    #[must_use]
    pub fn full(&self) -> bool {
        self.free.is_empty()
    }

    /// Returns whether less than a quarter of the places is free.
    #[inline]
    #[must_use]
    pub fn scarce(&self) -> bool {
        self.free.len() * 4 < self.flights.len()
    }

    /// Takes a free place for the operation; its number, or None if every place is taken.
    #[inline]
    pub fn take(&mut self, planned: Planned, held: bool) -> Option<u32> {
        let slot = self.free.pop()?;
        self.flights[slot as usize] = Some(Flight {
            planned,
            issued: Nanos::NEVER,
            held,
        });
        Some(slot)
    }

    /// Notes the actual start of what is under `slot`, and returns that; None if it is free.
    #[inline]
    pub fn stamp(&mut self, slot: u32, issued: Nanos) -> Option<&Planned> {
        let flight = self.flights.get_mut(slot as usize)?.as_mut()?;
        flight.issued = issued;
        Some(&flight.planned)
    }

    /// Frees a place and returns what was there; None if it was free, or is no place.
    #[inline]
    pub fn free(&mut self, slot: u32) -> Option<Flight> {
        let flight = self.flights.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(flight)
    }

    /// Returns everything in flight.
    pub fn flights(&self) -> impl Iterator<Item = &Flight> {
        self.flights.iter().flatten()
    }
}
