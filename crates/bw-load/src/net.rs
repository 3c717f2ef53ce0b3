//! Targets on a network: many connections, on each at most one exchange at a time.
//!
//! An operation takes the connection that was idle longest. If none is ready (all are being reconnected), it waits for
//! the first, and its service time includes the wait. The operation of a lost connection fails with the errno; the
//! connection is reestablished without blocking the loop, and nothing allocates after the run has started.
//!
//! Decision: own sockets and epoll. Rejected: an async runtime, whose timers and queue come between the intended start
//! and the send (oha and sai3-bench use one); io_uring, because one `send` and one `recv` per exchange cost less than
//! the server's part, and epoll is permitted everywhere.
//! Not supported: several requests in flight on a connection (HTTP pipelining), TLS, UDP.

pub(crate) mod connection;
pub(crate) mod epoll;
pub(crate) mod pool;

pub(crate) use crate::net::connection::{ExchangeState, Protocol};

use crate::net::connection::Endpoint;
use crate::net::pool::Pool;
use crate::target::{Reaped, Target};
use bw_model::EngineError;
use bw_model::{Nanos, Operation};
use serde::Serialize;
use std::{fmt, io};

/// What a network target did, for the result's `target` object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NetworkDescription {
    /// The server, as the user named it.
    pub server: String,
    /// The address that the name resolved to.
    pub address: String,
    /// How many connections this worker has.
    pub connections: u32,
    /// Reconnections, because the server had closed the connection or it had failed.
    pub reconnects: u64,
    /// Reconnection attempts that failed.
    pub failed_connects: u64,
    /// Bytes sent, heads included.
    pub sent_bytes: u64,
    /// Bytes received, heads and codings included.
    pub received_bytes: u64,
    /// Connections that were closed because unrequested bytes arrived on them.
    pub unrequested: u64,
    /// Operations that exceeded the time limit.
    pub timeouts: u64,
    /// The time limit of an operation.
    pub timeout_ns: Option<Nanos>,
}

/// Default time limit of an operation. It equals the wait for operations in flight at the end of a run, so that an
/// operation in the middle is not given up sooner than one at the end. vegeta and ab have the same limit.
pub(crate) const TIMEOUT: Nanos = Nanos(30_000_000_000);

/// Returns the default of `timeout_ns`.
#[allow(clippy::unnecessary_wraps)] // serde wants the field's type
pub(crate) fn default_timeout() -> Option<Nanos> {
    Some(TIMEOUT)
}

/// A server as the target of one worker.
pub struct Network<P: Protocol> {
    pool: Pool<P>,
    server: String,
    limit: Option<Nanos>,
}

impl<P: Protocol> Network<P> {
    /// Returns the target with all its connections established; an operation takes at most `limit`.
    ///
    /// # Errors
    /// As [`Endpoint::connect`]; `epoll`: the system has no more descriptors.
    pub(crate) fn open(
        protocol: P,
        endpoint: &Endpoint,
        connections: u32,
        limit: Option<Nanos>,
    ) -> Result<Self, EngineError> {
        if connections == 0 {
            let message = format!("{}: the number of connections is 0", endpoint.name);
            return Err(EngineError::request(
                "connections",
                message,
                "use at least one",
            ));
        }
        let (address, sockets) = endpoint.connect(connections)?;
        let pool = Pool::new(protocol, address, sockets, limit).map_err(|error| {
            let message = format!("{}: epoll: {error}", endpoint.name);
            EngineError::request(
                "epoll",
                message,
                "raise the limit of open files (ulimit -n)",
            )
        })?;
        let server = endpoint.name.clone();
        Ok(Self {
            pool,
            server,
            limit,
        })
    }

    /// Returns the target's description and counts so far.
    #[must_use]
    pub fn describe(&self) -> NetworkDescription {
        let counts = self.pool.counts();
        NetworkDescription {
            server: self.server.clone(),
            address: self.pool.address().to_string(),
            connections: self.pool.size(),
            reconnects: counts.reconnects,
            failed_connects: counts.failed_connects,
            sent_bytes: counts.sent_bytes,
            received_bytes: counts.received_bytes,
            unrequested: counts.unrequested,
            timeouts: counts.timeouts,
            timeout_ns: self.limit,
        }
    }
}

impl<P: Protocol> Target for Network<P> {
    /// Each request is written to its own socket.
    #[inline]
    fn batch(&self) -> usize {
        1
    }

    fn capacity(&self) -> u32 {
        self.pool.size()
    }

    fn submit(&mut self, slot: u32, operation: &Operation) {
        self.pool.submit(slot, operation);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pool.flush()
    }

    fn reap(&mut self, ends: &mut Vec<Reaped>) -> io::Result<()> {
        self.pool.reap(ends)
    }

    fn wait(&mut self, at_most: Nanos) -> io::Result<()> {
        self.pool.wait(at_most)
    }
}

impl<P: Protocol> fmt::Debug for Network<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe().fmt(formatter)
    }
}
