//! A filament that tells others of its operations: what makes waiting by messages possible.
//!
//! Decision: a wrapper around any filament, so that none has to know that it is followed. A filament
//! marks its operations for itself; the wrapper keeps that mark aside and gives it back
//! with the completion. A hook in every filament lost: six copies of the same book-keeping.
//!
//! A leader is never split over workers: which operation is its N-th would then depend on
//! the split.

use crate::filament::{Completion, Emissions, Event, Filament, FilamentId};
use crate::filaments::slab::Slab;
use bw_model::Operation;

/// Who wants to hear of every so many-th operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follower {
    /// Who.
    pub id: FilamentId,
    /// Every how many operations; at least 1.
    pub every: u64,
}

impl Follower {
    fn wants(self, index: u64) -> bool {
        (index + 1).is_multiple_of(self.every)
    }
}

/// An operation whose end somebody waits for: the leader's own mark and wish, and its index.
#[derive(Clone, Copy)]
struct Awaited {
    tag: u32,
    notify: bool,
    index: u64,
}

/// A filament and those who follow it. The message to a follower arrives when every N-th operation
/// (in the order in which they were emitted) ends; its payload is the operation's index, from 0.
pub struct Leader {
    filament: Box<dyn Filament>,
    followers: Box<[Follower]>,
    emitted: u64,
    awaited: Slab<Awaited>,
}

impl Leader {
    /// Returns `filament`, followed.
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
            operation.tag = self.awaited.insert(Awaited {
                tag: operation.tag,
                notify: operation.notify,
                index,
            });
            operation.notify = true;
        }
    }

    /// Tells the followers; returns the event as the filament itself expects it, if it does.
    fn tell(&mut self, ended: Completion, emit: &mut Emissions) -> Option<Event> {
        let awaited = self.awaited.remove(ended.tag)?;
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
            Event::Completed(ended) => self.tell(ended, emit),
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
}
