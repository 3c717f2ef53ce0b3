//! Operations that have been under way for too long: they end with `-ETIMEDOUT`.
//!
//! The time counts from the submission, so it includes a wait for a connection. The connection that carries
//! such an operation is closed and made again, since its answer may still come.

use super::{NOBODY, Pool, SLICE};
use crate::clock::monotonic_ns;
use crate::net::Protocol;
use bw_model::Nanos;
use std::io;

impl<P: Protocol> Pool<P> {
    /// Ends what is due.
    pub(super) fn expire(&mut self) -> io::Result<()> {
        if self.timeouts.first().is_none() {
            return Ok(());
        }
        let now_ns = monotonic_ns();
        for _ in 0..SLICE {
            match self.timeouts.first() {
                Some((slot, due_ns)) if due_ns <= now_ns => self.time_out(slot)?,
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    fn time_out(&mut self, slot: u32) -> io::Result<()> {
        self.counts.timeouts += 1;
        match self.carriers[slot as usize] {
            NOBODY => {
                let place = self.waiting.iter().position(|(waits, _)| *waits == slot);
                place.and_then(|place| self.waiting.remove(place));
                self.end(slot, -libc::ETIMEDOUT);
                Ok(())
            }
            index => {
                self.end_of(index, -libc::ETIMEDOUT);
                self.connection(index).close(false);
                // At once: the limit itself keeps a silent server from being stormed.
                self.reconnect(index)
            }
        }
    }

    /// Returns how long it is until the first is due; [`Nanos::NEVER`] if none ever is.
    pub(super) fn until_expiry(&self) -> Nanos {
        self.timeouts.first().map_or(Nanos::NEVER, |(_, due_ns)| {
            Nanos(due_ns.saturating_sub(monotonic_ns()))
        })
    }
}
