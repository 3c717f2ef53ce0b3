//! Sessions that start on a schedule, each a chain of operations that wait for one another.
//!
//! Decision: all sessions of a workload are one filament, and an active session is an entry in a slab: their number
//! has no bound, and a filament for each would have to be created during the run. The first
//! operation of a session needs no completion, so it is emitted ahead of time, as in an
//! open loop.
//!
//! Split over W workers, session n lives on worker n mod W, which alone starts it: a session's randomness
//! depends only on its number.
//!
//! Partly open: sessions arrive whatever the target does, and each makes some requests,
//! one after the other, with think time between them.
//!
//! Many requests in a session behave like a closed loop, few like an open one. Source: Schroeder,
//! Wierman and Harchol-Balter, Open versus closed: a cautionary tale (NSDI '06).

use crate::access::Access;
use crate::arrival::Arrivals;
use crate::distribution::Distribution;
use crate::filaments::open::{BLOCK_OPERATIONS, Stride};
use crate::filaments::tag_of;
use crate::filaments::{Completion, Emissions, Event, Filament, SequenceEnd};
use crate::random::Stream;
use bw_model::{Nanos, Operation};
use slab::Slab;

/// The behaviour of a session.
pub(crate) trait SessionPattern: Send {
    /// The state of an active session.
    type Session: Send;

    /// Returns session `number` and its first operation, to start at `at`. Must depend only on
    /// the number and the time: other sessions may have started on other workers.
    fn begin(&mut self, number: u64, at: Nanos) -> (Self::Session, Operation);

    /// Returns the session's next operation after the end of the previous one; None if the session is over.
    fn go_on(&mut self, session: &mut Self::Session, ended: &Completion) -> Option<Operation>;

    /// Returns the session as a sequence, if sessions of this pattern count as sequences: unfinished until `go_on` has
    /// returned None.
    fn sequence(&self, session: &Self::Session) -> Option<SequenceEnd> {
        let _ = session;
        None
    }
}

/// Plays the sessions of a pattern.
#[derive(Debug)]
pub(crate) struct Sessions<P: SessionPattern> {
    arrivals: Arrivals,
    pattern: P,
    stride: Stride,
    begun: u64,
    left: u64,
    alive: Slab<P::Session>,
}

impl<P: SessionPattern> Sessions<P> {
    /// Returns a filament that plays `stride` of the sessions that begin at `arrivals`: the first `count` of them, all
    /// for None.
    pub(crate) fn new(arrivals: Arrivals, pattern: P, stride: Stride, count: Option<u64>) -> Self {
        Self {
            arrivals,
            pattern,
            stride,
            begun: 0,
            left: count.unwrap_or(u64::MAX),
            alive: Slab::default(),
        }
    }

    /// Starts a block of sessions and sets the timer to the start of its middle one.
    fn begin(&mut self, now: Nanos, emit: &mut Emissions) {
        for place in 0..BLOCK_OPERATIONS {
            let Some(left) = self.left.checked_sub(1) else {
                return;
            };
            self.left = left;
            let Some(at) = self.arrivals.next() else {
                return;
            };
            self.begin_one(at, emit);
            if place == BLOCK_OPERATIONS / 2 {
                emit.timers.push((at.max(now), 0));
            }
        }
    }

    fn begin_one(&mut self, at: Nanos, emit: &mut Emissions) {
        let number = self.begun;
        self.begun += 1;
        if self.stride.keeps(number) {
            let (session, mut first) = self.pattern.begin(number, at);
            first.tag = tag_of(self.alive.insert(session));
            first.notify = true;
            emit.operations.push(first);
        }
    }

    fn go_on(&mut self, ended: &Completion, emit: &mut Emissions) {
        let Some(session) = self.alive.get_mut(ended.tag as usize) else {
            return;
        };
        match self.pattern.go_on(session, ended) {
            Some(mut operation) => {
                operation.tag = ended.tag;
                operation.notify = true;
                emit.operations.push(operation);
            }
            None => {
                let session = self.alive.remove(ended.tag as usize);
                emit.sequences.extend(self.pattern.sequence(&session));
            }
        }
    }
}

impl<P: SessionPattern> Filament for Sessions<P> {
    fn wake(&mut self, event: Event, emit: &mut Emissions) {
        match event {
            Event::Start => self.begin(Nanos::ZERO, emit),
            Event::Timer { at, .. } => self.begin(at, emit),
            Event::Completed(ended) => self.go_on(&ended, emit),
            Event::Message { .. } => {}
        }
    }

    fn unfinished(&self, end: Nanos, sequences: &mut Vec<SequenceEnd>) {
        let alive = self.alive.iter();
        let alive = alive.filter_map(|(_, session)| self.pattern.sequence(session));
        sequences.extend(alive.filter_map(|sequence| sequence.cut_short(end)));
    }
}

/// The properties that all sessions share.
#[derive(Debug)]
pub(crate) struct PartlyOpen {
    /// Number of requests in a session; at least one is made.
    pub requests: Distribution,
    /// Think time after an answer [ns].
    pub think: Distribution,
    /// The operations; its own stream is not used.
    pub access: Access,
    /// The seed of the sessions' own streams.
    pub seed: u64,
}

/// An active session.
#[derive(Debug)]
pub(crate) struct Session {
    left: u64,
    stream: Stream,
    access: Access,
}

impl SessionPattern for PartlyOpen {
    type Session = Session;

    fn begin(&mut self, number: u64, at: Nanos) -> (Session, Operation) {
        let mut stream = Stream::new(self.seed, number);
        let requests = self.requests.draw(&mut stream);
        // A separate stream, so that a draw for thinking never shifts the accesses.
        let access = Stream::new(stream.next_u64(), number);
        let mut session = Session {
            left: requests.saturating_sub(1),
            stream,
            access: self.access.of_session(number, access),
        };
        let first = session.access.next(at);
        (session, first)
    }

    fn go_on(&mut self, session: &mut Session, ended: &Completion) -> Option<Operation> {
        session.left = session.left.checked_sub(1)?;
        let think = Nanos(self.think.draw(&mut session.stream));
        Some(session.access.next(ended.at + think))
    }
}
