//! The closed loop: a user who waits for the answer, thinks, and asks again.
//!
//! Decision: one filament for each user. A user is a stream of randomness, a cursor and two pointers
//! to what all users share, so that a million of them fit a small machine's memory (tests/closed_size.rs
//! measures it). A user begins at time zero without thinking first. A closed loop cannot
//! overload its target and hides the target's stalls (Schroeder, Wierman and Harchol-Balter,
//! Open versus closed, NSDI '06): tests/stall.rs shows how much.

use crate::access::Access;
use crate::distribution::Distribution;
use crate::filament::{Emissions, Event, Filament};
use crate::random::Stream;
use bw_model::Nanos;
use std::sync::Arc;

/// One user of a closed loop.
#[derive(Debug)]
pub struct User {
    think: Arc<Distribution>,
    access: Access,
    stream: Stream,
}

impl User {
    /// Returns a user who thinks for a time drawn from `think` [ns] with `stream` after each
    /// operation. One that was dropped has ended too.
    #[must_use]
    pub fn new(think: Arc<Distribution>, access: Access, stream: Stream) -> Self {
        Self {
            think,
            access,
            stream,
        }
    }

    fn ask(&mut self, at: Nanos, emit: &mut Emissions) {
        let mut operation = self.access.next(at);
        operation.notify = true;
        emit.operations.push(operation);
    }
}

impl Filament for User {
    fn wake(&mut self, event: Event, emit: &mut Emissions) {
        match event {
            Event::Start => self.ask(Nanos::ZERO, emit),
            Event::Completed(ended) => {
                let think = Nanos(self.think.draw(&mut self.stream));
                self.ask(ended.at + think, emit);
            }
            Event::Timer { .. } | Event::Message { .. } => {}
        }
    }
}
