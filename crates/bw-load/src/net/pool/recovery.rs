//! What becomes of a lost connection.
//!
//! Decision: a connection is made again at once if it has carried a whole exchange, otherwise
//! after [`RETRY`], so that a server that is down or refuses everybody is not stormed. An attempt that
//! fails ends the operation that has waited longest with that errno, if one waits.

use super::{Pool, SLICE};
use crate::net::Protocol;
use crate::net::connection::State;
use crate::net::epoll::Interest;
use std::io;
use std::time::{Duration, Instant};

/// How long a connection that could not be made, or was of no use, is left alone.
const RETRY: Duration = Duration::from_millis(50);

impl<P: Protocol> Pool<P> {
    /// Closes the connection and sees to it that it is made again.
    pub(super) fn lose(&mut self, index: u32, by_server: bool) -> io::Result<()> {
        let connection = self.connection(index);
        connection.close(by_server);
        if connection.proven {
            return self.reconnect(index);
        }
        self.retries.push_back((Instant::now() + RETRY, index));
        Ok(())
    }

    pub(super) fn reconnect(&mut self, index: u32) -> io::Result<()> {
        let address = self.address;
        match self.connection(index).reconnect(address) {
            // The outcome comes as an event, even if it is there already.
            Ok(()) => self.connections[index as usize].watch(&self.epoll, Interest::Write, index),
            Err(errno) => {
                self.not_connected(index, errno);
                Ok(())
            }
        }
    }

    pub(super) fn connected(&mut self, index: u32) -> io::Result<()> {
        self.counts.reconnects += 1;
        self.connection(index).state = State::Free;
        self.connections[index as usize].rewatch(&self.epoll, Interest::Read, index)
    }

    /// Notes that an attempt failed: it is due again later, and an operation that waits ends.
    pub(super) fn not_connected(&mut self, index: u32, errno: i32) {
        self.counts.failed_connects += 1;
        self.retries.push_back((Instant::now() + RETRY, index));
        if let Some((slot, _)) = self.waiting.pop_front() {
            self.end(slot, errno);
        }
    }

    pub(super) fn retry(&mut self) -> io::Result<()> {
        let now = Instant::now();
        for _ in 0..SLICE {
            match self.retries.front() {
                Some(&(due, index)) if due <= now => {
                    self.retries.pop_front();
                    self.reconnect(index)?;
                }
                _ => return Ok(()),
            }
        }
        Ok(())
    }
}
