//! The operations of open-loop filaments one after the other, ahead of their time: for the naive pacers,
//! whose master hands out the next operation before it is due.

use crate::agenda::{Agenda, Planned};
use crate::heap::{Due, Heap};
use crate::worker::Hosted;
use bw_schedule::filament::{Emissions, Event, FilamentId};
use bw_model::Nanos;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// This operation.
    Operation(Planned),
    /// Nothing before this time: ask again when it is nearer.
    Later(Nanos),
    /// Nothing more.
    End,
    /// An operation wants to know of its end: a closed loop, which no naive pacer can run.
    Closed,
}

#[derive(Clone, Copy)]
struct Wake {
    place: usize,
    event: Event,
}

/// The filaments, and what they have emitted.
pub struct Ahead {
    filaments: Vec<Hosted>,
    agenda: Agenda,
    wakes: Heap<Wake>,
    emissions: Emissions,
    order: u64,
}

impl Ahead {
    /// Returns the filaments, told of the start.
    #[must_use]
    pub fn new(filaments: Vec<Hosted>) -> Self {
        let mut ahead = Self {
            agenda: Agenda::with_capacity(4096),
            wakes: Heap::with_capacity(filaments.len()),
            emissions: Emissions::default(),
            order: 0,
            filaments,
        };
        (0..ahead.filaments.len()).for_each(|place| ahead.wake(place, Event::Start));
        ahead
    }

    /// Returns what comes next; looks no further than `horizon`.
    pub fn next(&mut self, horizon: Nanos) -> Next {
        loop {
            let wake = self.wakes.first().map_or(Nanos::NEVER, |due| due.at);
            let at = self.agenda.next_at();
            if wake.min(at) == Nanos::NEVER {
                return Next::End;
            }
            if wake.min(at) > horizon {
                return Next::Later(wake.min(at));
            }
            // What a wake emits may be due at once, so it goes first.
            match self.wakes.first() {
                Some(due) if due.at <= at => self.wake_first(),
                _ => break,
            }
        }
        match self.agenda.pop_due(Nanos::NEVER) {
            Some(planned) if planned.operation.notify => Next::Closed,
            Some(planned) => Next::Operation(planned),
            None => Next::End,
        }
    }

    fn wake_first(&mut self) {
        if let Some(due) = self.wakes.pop() {
            self.wake(due.what.place, due.what.event);
        }
    }

    fn wake(&mut self, place: usize, event: Event) {
        let mut emissions = std::mem::take(&mut self.emissions);
        let hosted = &mut self.filaments[place];
        hosted.filament.wake(event, &mut emissions);
        let from = hosted.id;
        for operation in emissions.operations.drain(..) {
            let (filament, stream) = (u32::try_from(place).unwrap_or(u32::MAX), from);
            self.agenda.push(Planned {
                operation,
                filament,
                stream,
            });
        }
        for (at, tag) in emissions.timers.drain(..) {
            self.push(at, place, Event::Timer { at, tag });
        }
        for (at, to, payload) in emissions.messages.drain(..) {
            if let Some(place) = self.place(to) {
                self.push(at, place, Event::Message { at, from, payload });
            }
        }
        self.emissions = emissions;
    }

    fn place(&self, id: FilamentId) -> Option<usize> {
        self.filaments.iter().position(|hosted| hosted.id == id)
    }

    fn push(&mut self, at: Nanos, place: usize, event: Event) {
        self.wakes.push(Due {
            at,
            order: self.order,
            what: Wake { place, event },
        });
        self.order += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bw_schedule::filament::Filament;
    use bw_model::{Kind, Operation};

    /// Emits one operation at each of its timers, 10 ns apart, and tells its neighbour at the third.
    struct Ticking(u64);

    impl Filament for Ticking {
        fn wake(&mut self, event: Event, emit: &mut Emissions) {
            let at = match event {
                Event::Start => Nanos(self.0),
                Event::Timer { at, .. } | Event::Message { at, .. } => at,
                Event::Completed(_) => return,
            };
            let notify = matches!(event, Event::Message { .. });
            let operation = Operation {
                at,
                offset: 0,
                size: 1,
                kind: Kind::Read,
                notify,
                tag: 0,
            };
            emit.operations.push(operation);
            match at.0 {
                0..30 => emit.timers.push((at + Nanos(10), 0)),
                _ => emit.messages.push((at + Nanos(1), 1, 0)),
            }
        }
    }

    #[test]
    fn operations_come_in_order_up_to_the_horizon_and_closed_loops_are_seen() {
        let hosted = |id: u32| Hosted {
            id,
            filament: Box::new(Ticking(u64::from(id) * 5)),
        };
        let mut ahead = Ahead::new(vec![hosted(0), hosted(1)]);
        let mut times = Vec::new();
        let end = loop {
            match ahead.next(Nanos(25)) {
                Next::Operation(planned) => times.push(planned.operation.at.0),
                other => break other,
            }
        };
        assert_eq!(times, [0, 5, 10, 15, 20, 25]);
        assert_eq!(end, Next::Later(Nanos(30)));
        assert!(matches!(ahead.next(Nanos(99)), Next::Operation(_)));
        assert_eq!(ahead.next(Nanos(99)), Next::Closed);
    }
}
