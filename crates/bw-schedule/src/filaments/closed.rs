//! Closed loops, and filaments that wait for others.
//!
//! A `User` of a closed loop waits for the answer, thinks, and sends the next request. Decision: one filament for
//! each user. A user is a random stream, a cursor and two pointers to data that all users share, so a million of them
//! fit in a small machine's memory (tests/closed_size.rs measures it). A user starts at time zero without thinking
//! first. A closed loop cannot overload its target and hides the target's stalls (Schroeder, Wierman and
//! Harchol-Balter, Open versus closed, NSDI '06); tests/stall.rs measures by how much.
//!
//! A `Leader` wraps a filament and sends a message at the end of every N-th of its operations; a `Follow` issues an
//! operation when a message arrives. Any filament can send one: the payload does not matter.

use crate::access::Access;
use crate::distribution::Distribution;
use crate::filaments::tag_of;
use crate::filaments::{Completion, Emissions, Event, Filament, FilamentId, SequenceEnd};
use crate::random::Stream;
use bw_model::{Nanos, Operation};
use slab::Slab;
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
    /// operation. A dropped operation counts as ended.
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

/// A follower that is notified of every `every`-th operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follower {
    /// The follower.
    pub id: FilamentId,
    /// Interval between notifications, in operations; at least 1.
    pub every: u64,
}

impl Follower {
    fn wants(self, index: u64) -> bool {
        (index + 1).is_multiple_of(self.every)
    }
}

/// An operation with a follower: the leader's mark and `notify`, and its index.
#[derive(Clone, Copy)]
struct Awaited {
    tag: u32,
    notify: bool,
    index: u64,
}

/// A filament and its followers. The message to a follower is sent when every N-th operation
/// (in the order in which they were emitted) ends; its content is the operation's index, from 0.
pub struct Leader {
    filament: Box<dyn Filament>,
    followers: Box<[Follower]>,
    emitted: u64,
    awaited: Slab<Awaited>,
}

impl Leader {
    /// Returns `filament` with these followers.
    #[must_use]
    pub fn new(filament: Box<dyn Filament>, followers: Vec<Follower>) -> Self {
        Self {
            filament,
            followers: followers.into_boxed_slice(),
            emitted: 0,
            awaited: Slab::default(),
        }
    }

    fn mark(&mut self, operation: &mut Operation) {
        let index = self.emitted;
        self.emitted += 1;
        let followed = self.followers.iter().any(|f| f.wants(index));
        if followed || operation.notify {
            operation.tag = tag_of(self.awaited.insert(Awaited {
                tag: operation.tag,
                notify: operation.notify,
                index,
            }));
            operation.notify = true;
        }
    }

    /// Notifies the followers; returns the event as the filament itself expects it, if it expects one.
    fn notify_followers(&mut self, ended: Completion, emit: &mut Emissions) -> Option<Event> {
        let awaited = self.awaited.try_remove(ended.tag as usize)?;
        let wanting = self.followers.iter().filter(|f| f.wants(awaited.index));
        for follower in wanting {
            emit.messages.push((ended.at, follower.id, awaited.index));
        }
        awaited.notify.then_some(Event::Completed(Completion {
            tag: awaited.tag,
            ..ended
        }))
    }
}

impl Filament for Leader {
    fn wake(&mut self, event: Event, emit: &mut Emissions) {
        let inner = match event {
            Event::Completed(ended) => self.notify_followers(ended, emit),
            other => Some(other),
        };
        let first = emit.operations.len();
        if let Some(event) = inner {
            self.filament.wake(event, emit);
        }
        for operation in &mut emit.operations[first..] {
            self.mark(operation);
        }
    }

    fn unfinished(&self, end: Nanos, sequences: &mut Vec<SequenceEnd>) {
        self.filament.unfinished(end, sequences);
    }
}

/// Issues one operation for each message, some time after it.
#[derive(Debug)]
pub struct Follow {
    delay: Distribution,
    access: Access,
    stream: Stream,
}

impl Follow {
    /// Returns a filament whose operations start a time drawn from `delay` [ns] with `stream`
    /// after each message.
    #[must_use]
    pub fn new(delay: Distribution, access: Access, stream: Stream) -> Self {
        Self {
            delay,
            access,
            stream,
        }
    }
}

impl Filament for Follow {
    fn wake(&mut self, event: Event, emit: &mut Emissions) {
        if let Event::Message { at, .. } = event {
            let delay = Nanos(self.delay.draw(&mut self.stream));
            emit.operations.push(self.access.next(at + delay));
        }
    }
}
