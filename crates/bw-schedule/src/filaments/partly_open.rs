//! Partly open: sessions arrive whatever the target does, and each makes some requests,
//! one after the other, with time to think between them.
//!
//! Many requests in a session behave like a closed loop, few like an open one. Source: Schroeder,
//! Wierman and Harchol-Balter, Open versus closed: a cautionary tale (NSDI '06).

use super::sessions::Pattern;
use crate::access::Access;
use crate::distribution::Distribution;
use crate::filament::Completion;
use bw_model::Operation;
use crate::random::Stream;
use bw_model::Nanos;

/// What the sessions have in common.
#[derive(Debug)]
pub struct PartlyOpen {
    /// How many requests a session makes; a session always makes at least one.
    pub requests: Distribution,
    /// How long it thinks after an answer [ns].
    pub think: Distribution,
    /// What it asks for; its own stream is not used.
    pub access: Access,
    /// The seed of the sessions' own streams.
    pub seed: u64,
}

/// A session alive.
#[derive(Debug)]
pub struct Session {
    left: u64,
    stream: Stream,
    access: Access,
}

impl Pattern for PartlyOpen {
    type Session = Session;

    fn begin(&mut self, number: u64, at: Nanos) -> (Session, Operation) {
        let mut stream = Stream::new(self.seed, number);
        let requests = self.requests.draw(&mut stream);
        // A stream of its own, so that a draw for thinking never shifts what is asked for.
        let access = Stream::new(stream.next_u64(), number);
        let mut session = Session {
            left: requests.saturating_sub(1),
            stream,
            access: self.access.with_stream(access),
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
