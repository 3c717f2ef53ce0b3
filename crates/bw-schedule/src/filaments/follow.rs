//! A filament that waits for another: it issues an operation when a message says so.
//!
//! The messages come from a [`Leader`](super::leader::Leader), at the end of every N-th of its
//! operations. Any filament can send one: what a message says does not matter here.

use crate::access::Access;
use crate::distribution::Distribution;
use crate::filament::{Emissions, Event, Filament};
use crate::random::Stream;
use bw_model::Nanos;

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
