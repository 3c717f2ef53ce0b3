//! Waking filaments, and putting what they emit where it belongs.

use super::{NOWHERE, Wake, Worker};
use crate::agenda::Planned;
use crate::clock::Clock;
use crate::heap::Due;
use crate::mail::Letter;
use crate::target::Target;
use bw_schedule::filament::{Event, FilamentId};
use bw_model::Nanos;

/// Wakes in one turn, at most.
const TURN: usize = 64;
/// A timer is not put off longer than this for an operation that is due soon.
const PUT_OFF: Nanos = Nanos(20_000);

impl<C: Clock, T: Target> Worker<C, T> {
    /// Wakes a filament and takes over what it emits.
    #[inline]
    pub(super) fn wake(&mut self, place: u32, event: Event) {
        let hosted = &mut self.filaments[place as usize];
        hosted.filament.wake(event, &mut self.emissions);
        for operation in self.emissions.operations.drain(..) {
            self.agenda.push(Planned {
                operation,
                filament: place,
                stream: hosted.id,
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
            let letter = Letter {
                at,
                from,
                to,
                payload,
            };
            self.address(letter);
        }
        self.emissions.messages.clear();
    }

    /// Puts a letter on the list of wakes if its filament lives here; else it goes to its home.
    fn address(&mut self, letter: Letter) {
        let home = self.mail.home(letter.to);
        match self.homes.get(letter.to as usize) {
            Some(place) if *place != NOWHERE => self.push_letter(*place, letter),
            _ if self.mail.is_own(home) => self.ledger.undeliverable(),
            _ => self.mail.send(home, letter),
        }
    }

    fn push_letter(&mut self, place: u32, letter: Letter) {
        let event = Event::Message {
            at: letter.at,
            from: letter.from,
            payload: letter.payload,
        };
        self.push_wake(letter.at, place, event);
    }

    fn push_wake(&mut self, at: Nanos, filament: u32, event: Event) {
        self.wakes.push(Due {
            at,
            order: self.order,
            what: Wake { filament, event },
        });
        self.order += 1;
    }

    /// Returns when the next timer or message is due; [`Nanos::NEVER`] if there is none.
    #[inline]
    pub(super) fn next_wake(&self) -> Nanos {
        self.wakes.first().map_or(Nanos::NEVER, |due| due.at)
    }

    /// Wakes filaments for timers and messages that are due, until an operation is due.
    #[inline]
    pub(super) fn deliver(&mut self) -> bool {
        self.collect();
        let due = self.now.min(Nanos(self.plan.end.0 - 1));
        let mut any = false;
        for _ in 0..TURN {
            let next = self.next_wake();
            if next > due || self.put_off(next) {
                break;
            }
            any = true;
            if let Some(wake) = self.wakes.pop() {
                self.wake(wake.what.filament, wake.what.event);
            }
            if self.agenda.next_at() <= self.now {
                break;
            }
        }
        any
    }

    /// Returns whether a wake of this time had better come after the operation that is due soon.
    #[inline]
    fn put_off(&self, wake: Nanos) -> bool {
        self.agenda.next_at().since(self.now).0 < self.plan.near.0 / 2
            && self.now.since(wake) < PUT_OFF
    }

    /// Takes in the letters of other workers.
    #[inline]
    fn collect(&mut self) {
        while let Some(letter) = self.mail.receive() {
            match self.place(letter.to) {
                Some(place) => self.push_letter(place, letter),
                None => self.ledger.undeliverable(),
            }
        }
    }

    fn place(&self, filament: FilamentId) -> Option<u32> {
        let place = *self.homes.get(filament as usize)?;
        (place != NOWHERE).then_some(place)
    }
}
