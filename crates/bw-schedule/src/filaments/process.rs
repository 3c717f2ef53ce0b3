//! A filament whose events are passed to a process of the user's, and whose operations are that process's replies.
//!
//! The filament never waits: it passes events on, and looks for replies at timers of its own. So a reply is found up to one
//! look later than it arrived. An operation whose time is over by then is issued at once; its issue error has the whole
//! delay, which counts as the generator's lateness.
//!
//! Decision: looks at timers, [`SOON`] after an event or a reply and then less and less often up to [`SELDOM`]. Rejected:
//! waking the worker by a descriptor: each target would have to wait for it too, and a worker that spins would have to make
//! a system call in each turn.

use crate::filaments::{Emissions, Event, Filament, FilamentId};
use bw_model::{Nanos, Operation};
use std::fmt;

/// How long after an event or a reply the next reply is looked for.
const SOON: Nanos = Nanos(20_000);
/// How often replies are looked for when none comes.
const SELDOM: Nanos = Nanos(1_000_000);
/// How many replies one look takes; the next look takes the rest.
const REPLIES: usize = 256;
/// The mark of the filament's own timers; the process's marks are below it.
pub const OWN_TIMER: u32 = u32::MAX;

/// What a process wants to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// An operation; its end is an event.
    Operation(Operation),
    /// A timer, with a mark below [`OWN_TIMER`].
    Timer(Nanos, u32),
    /// A message to a filament that exists.
    Message(Nanos, FilamentId, u64),
}

/// The connection to the process of one filament. It never waits.
pub trait Companion: Send {
    /// Passes an event on.
    fn send(&mut self, event: &Event);

    /// Returns the next reply, if one has arrived.
    fn receive(&mut self) -> Option<Reply>;

    /// Returns whether no reply can arrive any more: the process has said so, or has ended.
    fn is_over(&self) -> bool;
}

/// The connections to the processes of a workload.
pub trait Companions: fmt::Debug {
    /// Returns the connection of a filament, once.
    fn take(&self, filament: FilamentId) -> Option<Box<dyn Companion>>;
}

/// The filament.
pub struct Process {
    companion: Box<dyn Companion>,
    pause: Nanos,
    next_look: Nanos,
    over: bool,
}

impl Process {
    /// Returns the filament of a process that is ready.
    #[must_use]
    pub fn new(companion: Box<dyn Companion>) -> Self {
        Self {
            companion,
            pause: SOON,
            next_look: Nanos::NEVER,
            over: false,
        }
    }

    /// Emits the replies that have arrived; returns whether there was one.
    fn emit(&mut self, emit: &mut Emissions) -> bool {
        // Asked before the look: what arrived before the end is then found.
        let over = self.companion.is_over();
        for taken in 0..REPLIES {
            match self.companion.receive() {
                Some(Reply::Operation(operation)) => emit.operations.push(Operation {
                    notify: true,
                    ..operation
                }),
                Some(Reply::Timer(at, tag)) => emit.timers.push((at, tag)),
                Some(Reply::Message(at, to, payload)) => emit.messages.push((at, to, payload)),
                None => {
                    self.over = over;
                    return taken > 0;
                }
            }
        }
        true
    }

    /// Sets the timer of the next look, unless an earlier one is set.
    fn look_again(&mut self, now: Nanos, emit: &mut Emissions) {
        let at = now + self.pause;
        if !self.over && at < self.next_look {
            self.next_look = at;
            emit.timers.push((at, OWN_TIMER));
        }
    }
}

impl Filament for Process {
    fn wake(&mut self, event: Event, emit: &mut Emissions) {
        let now = match event {
            Event::Start => Nanos::ZERO,
            Event::Timer { at, .. } | Event::Message { at, .. } => at,
            Event::Completed(ended) => ended.at,
        };
        let mut busy = true;
        match event {
            // A timer that a shorter pause has overtaken.
            Event::Timer { at, tag: OWN_TIMER } if at != self.next_look => return,
            Event::Timer { tag: OWN_TIMER, .. } => {
                self.next_look = Nanos::NEVER;
                busy = false;
            }
            // The process was started, and has replied, before.
            Event::Start => {}
            event => self.companion.send(&event),
        }
        busy |= self.emit(emit);
        self.pause = if busy {
            SOON
        } else {
            Nanos(self.pause.0 * 2).min(SELDOM)
        };
        self.look_again(now, emit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filaments::Completion;
    use crate::replay::replay;
    use bw_model::Kind;
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    /// Replies to each completion with the next read, `think` later, until `left` are issued.
    struct Scripted {
        left: u64,
        think: u64,
        replies: VecDeque<Reply>,
        events: Arc<Mutex<Vec<Event>>>,
    }

    impl Scripted {
        fn read(at: u64, tag: u32) -> Reply {
            Reply::Operation(Operation {
                at: Nanos(at),
                tag,
                ..Operation::new(Kind::Read, 0, 512)
            })
        }
    }

    impl Companion for Scripted {
        fn send(&mut self, event: &Event) {
            self.events.lock().unwrap().push(*event);
            if let (Event::Completed(ended), 1..) = (event, self.left) {
                self.left -= 1;
                let next = Self::read(ended.at.0 + self.think, ended.tag + 1);
                self.replies.push_back(next);
            }
        }

        fn receive(&mut self) -> Option<Reply> {
            self.replies.pop_front()
        }

        fn is_over(&self) -> bool {
            self.left == 0
        }
    }

    #[test]
    fn it_reacts_to_completions_and_ends_when_the_process_does() {
        let events = Arc::new(Mutex::new(Vec::new()));
        let scripted = Scripted {
            left: 9,
            think: 5_000,
            replies: VecDeque::from([Scripted::read(1000, 0)]),
            events: Arc::clone(&events),
        };
        let process = Process::new(Box::new(scripted));
        let service = |_: &Operation| (Nanos(100_000), 512);
        let done = replay(vec![(0, Box::new(process))], service, Nanos::SECOND);
        let starts: Vec<u64> = done.issued.iter().map(|(_, one)| one.at.0).collect();
        let expected: Vec<u64> = (0..10).map(|n| 1000 + n * 105_000).collect();
        assert_eq!(starts, expected);
        let tags = events.lock().unwrap().clone();
        let tags: Vec<u32> = tags
            .iter()
            .filter_map(|event| match event {
                Event::Completed(Completion { tag, .. }) => Some(*tag),
                _ => None,
            })
            .collect();
        assert_eq!(tags, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn replies_are_looked_for_often_after_an_event_and_seldom_later() {
        let scripted = Scripted {
            left: 1,
            think: 0,
            replies: VecDeque::new(),
            events: Arc::default(),
        };
        let mut process = Process::new(Box::new(scripted));
        let mut emit = Emissions::default();
        process.wake(Event::Start, &mut emit);
        let mut looks = Vec::new();
        while let Some((at, OWN_TIMER)) = emit.timers.pop() {
            looks.push(at.0);
            if at > Nanos(10 * SELDOM.0) {
                break;
            }
            process.wake(Event::Timer { at, tag: OWN_TIMER }, &mut emit);
        }
        assert_eq!(&looks[..4], [20_000, 60_000, 140_000, 300_000]);
        let last = looks.len() - 1;
        assert_eq!(looks[last] - looks[last - 1], SELDOM.0);
        let at = Nanos(looks[last] - 500_000);
        let event = Event::Message {
            at,
            from: 1,
            payload: 0,
        };
        process.wake(event, &mut emit);
        assert_eq!(emit.timers.pop(), Some((at + SOON, OWN_TIMER)));
        // The timer that was set before has no effect.
        let overtaken = Nanos(looks[last]);
        process.wake(
            Event::Timer {
                at: overtaken,
                tag: OWN_TIMER,
            },
            &mut emit,
        );
        assert!(emit.timers.is_empty());
    }
}
