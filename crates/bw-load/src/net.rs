//! Targets on a network: many connections, on each one or several operations at a time.
//!
//! An operation takes the connection that was idle longest, or with several operations per connection the next in turn.
//! If none has room (all are being reconnected), it waits for the first, and its service time includes the wait. The
//! operation of a lost connection fails with the errno; the connection is reestablished without blocking the loop, its
//! handshake included, and nothing allocates for an operation after the run has started.
//!
//! Decision: own sockets and epoll. Rejected: an async runtime, whose timers and queue come between the intended start
//! and the send (oha and sai3-bench use one); io_uring, because one `send` and one `recv` per exchange cost less than
//! the server's part, and epoll is permitted everywhere.
//!
//! UDP has the same pool: a connection is a connected socket with one operation at a time, so the kernel drops what other
//! addresses send, and an error of ICMP belongs to one operation. A socket whose operation exceeded its limit or failed, or
//! that received a datagram for which no operation waits, is replaced: a late answer reaches the old socket, which stays
//! open until the next replacement, and is counted. Rejected: one socket for all operations, which needs an identifier in
//! each answer; and sendmmsg, whose datagrams would share a stamp.

pub(crate) mod connection;
pub(crate) mod connections;
pub(crate) mod epoll;
pub(crate) mod plan;
pub(crate) mod pool;
pub(crate) mod slot_list;
pub(crate) mod spec;
pub(crate) mod tls;
pub(crate) mod transport;

pub(crate) use crate::net::connection::ConnectionOptions;

use crate::net::connection::{CONNECT_TIMEOUT, Endpoint};
use crate::net::pool::{HandshakeFailure, Pool};
use crate::net::tls::TlsDescription;
use crate::target::{Awaited, Background, Reaped, SeenStream, Target};
use bw_model::EngineError;
use bw_model::{Nanos, Operation};
use bw_protocol::Protocol;
use bw_protocol::grpc::Calls;
use bw_record::histogram::Histogram;
use bw_record::summary::HistogramSummary;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::{fmt, io};

/// What a network target did, for the result's `target` object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NetworkDescription {
    /// The server, as the user named it.
    pub server: String,
    /// The address that the name resolved to, or `unix:` and a path.
    pub address: String,
    /// How many connections this worker has.
    pub connections: u32,
    /// Maximum number of operations in progress on a connection.
    pub outstanding: u32,
    /// After how many operations a connection is closed and established anew.
    pub requests_per_connection: Option<u64>,
    /// Reconnections, because the server had closed the connection, it had failed, or it had carried
    /// `requests_per_connection` operations.
    pub reconnects: u64,
    /// Reconnection attempts that failed.
    pub failed_connects: u64,
    /// Bytes sent, heads included.
    pub sent_bytes: u64,
    /// Bytes received, heads and codings included.
    pub received_bytes: u64,
    /// Connections that were closed because unrequested bytes arrived on them; of UDP the datagrams for which no operation
    /// waited, late answers excepted.
    pub unrequested: u64,
    /// Operations that exceeded the time limit.
    pub timeouts: u64,
    /// What arrived too late; None: not UDP.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub late: Option<LateCounts>,
    /// Replies without a value; None: the protocol has no such replies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nil_replies: Option<u64>,
    /// Messages that arrived and answer no operation; None: the protocol has no such messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pushes: Option<u64>,
    /// Complete responses by the class of their status; None: the protocol has none.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub statuses: Option<StatusCounts>,
    /// What the server said with the first error of each status of gRPC; None: the operations are no calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_messages: Option<BTreeMap<String, String>>,
    /// Operations that were sent again because the server announced that it had not processed them.
    pub resent: u64,
    /// The time limit of an operation.
    pub timeout_ns: Option<Nanos>,
    /// How long connects took, those before the run included; UDP has none.
    pub connect_ns: HistogramSummary,
    /// How long handshakes took, from the connected socket to the first possible operation; None without handshakes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake_ns: Option<HistogramSummary>,
    /// What the first connection agreed on; None without TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsDescription>,
}

/// What arrived for operations of UDP that had ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LateCounts {
    /// Answers that arrived after the time limit of their operation, and before that of the next one on its connection.
    pub late_replies: u64,
    /// Errors of the network (ICMP) that arrived when no operation was in progress on their socket: those of datagrams that
    /// expect no answer.
    pub late_errors: u64,
}

/// Complete responses of HTTP by the class of their status, without those of the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StatusCounts {
    /// 200 to 299.
    pub status_2xx: u64,
    /// 300 to 399.
    pub status_3xx: u64,
    /// 400 to 499.
    pub status_4xx: u64,
    /// 500 to 599.
    pub status_5xx: u64,
}

impl From<[u64; 4]> for StatusCounts {
    fn from(counts: [u64; 4]) -> Self {
        let [status_2xx, status_3xx, status_4xx, status_5xx] = counts;
        Self {
            status_2xx,
            status_3xx,
            status_4xx,
            status_5xx,
        }
    }
}

/// Default time limit of an operation. It equals the wait for operations in flight at the end of a run, so that an
/// operation in the middle is not given up sooner than one at the end. vegeta and ab have the same limit.
pub(crate) const TIMEOUT: Nanos = Nanos(30_000_000_000);

/// Maximum number of operations in progress on all connections of a worker.
const CAPACITY: u32 = 1 << 20;

/// A server as the target of one worker.
pub struct Network<P: Protocol> {
    pool: Pool<P>,
    server: String,
    options: ConnectionOptions,
    tls: Option<TlsDescription>,
}

impl<P: Protocol> Network<P> {
    /// Returns the target with all its connections established and their handshakes complete.
    ///
    /// # Errors
    /// `connections`: their number is impossible; as [`Endpoint::connect`]; `epoll`: the system has no more descriptors;
    /// `tls`, `tls-certificate`, `handshake`: the server refuses one, or is refused.
    pub(crate) fn open(
        protocol: P,
        endpoint: &Endpoint,
        connections: u32,
        options: ConnectionOptions,
    ) -> Result<Self, EngineError> {
        check_capacity(&endpoint.name, connections, options.outstanding)?;
        let failed = |error: io::Error| {
            let message = format!("{}: epoll: {error}", endpoint.name);
            EngineError::request(
                "epoll",
                message,
                "raise the limit of open files (ulimit -n)",
            )
        };
        let established = endpoint.connect(connections)?;
        let mut pool = Pool::new(protocol, established, options).map_err(failed)?;
        pool.shake_hands()
            .map_err(failed)?
            .map_err(|failure| refused(&endpoint.name, failure))?;
        let server = endpoint.name.clone();
        Ok(Self {
            tls: pool.tls(),
            pool,
            server,
            options,
        })
    }

    /// Returns the target's description and counts so far.
    #[must_use]
    pub fn describe(&self) -> NetworkDescription {
        let counts = self.pool.counts();
        let handshakes = self.pool.handshake_times();
        NetworkDescription {
            server: self.server.clone(),
            address: self.pool.address().to_string(),
            connections: self.pool.size(),
            outstanding: self.options.outstanding,
            requests_per_connection: self.options.requests_per_connection,
            reconnects: counts.traffic.reconnects,
            failed_connects: counts.traffic.failed_connects,
            sent_bytes: counts.traffic.sent_bytes,
            received_bytes: counts.traffic.received_bytes,
            unrequested: counts.unrequested + counts.traffic.late.others,
            timeouts: counts.timeouts,
            late: self.pool.address().is_datagram().then_some(LateCounts {
                late_replies: counts.traffic.late.replies,
                late_errors: counts.late_errors,
            }),
            nil_replies: self.pool.protocol().nil_replies(),
            pushes: self.pool.protocol().pushes(),
            statuses: self.pool.protocol().statuses().map(StatusCounts::from),
            grpc_messages: self.pool.protocol().calls().map(Calls::texts),
            resent: counts.resent,
            timeout_ns: self.options.timeout,
            connect_ns: self.pool.connect_times().into(),
            handshake_ns: (handshakes.count() > 0).then(|| handshakes.into()),
            tls: self.tls.clone(),
        }
    }
}

/// Checks that a worker can have so many operations in progress on so many connections.
///
/// # Errors
/// `connections`: it cannot.
pub(crate) fn check_capacity(
    server: &str,
    connections: u32,
    outstanding: u32,
) -> Result<(), EngineError> {
    let wrong = |what: String, remedy: &str| {
        let message = format!("{server}: {what}");
        Err(EngineError::request("connections", message, remedy))
    };
    if connections == 0 {
        let what = "the number of connections is 0".to_owned();
        return wrong(what, "use at least one");
    }
    let slots = connections.checked_mul(outstanding);
    if slots.is_none_or(|slots| slots > CAPACITY) {
        let what = format!(
            "{connections} connections with {outstanding} operations each: at most {CAPACITY} operations fit"
        );
        return wrong(
            what,
            "use fewer connections, or fewer outstanding operations",
        );
    }
    Ok(())
}

/// Returns the error of a handshake that failed before the run.
fn refused(server: &str, failure: HandshakeFailure) -> EngineError {
    let HandshakeFailure {
        result,
        refusal,
        remedy,
        tls,
    } = failure;
    if let Some(tls) = tls {
        let message = format!("{server}: no TLS connection: {}", tls.what);
        return EngineError::request(tls.code, message, tls.remedy);
    }
    let reason = refusal.unwrap_or_else(|| {
        if result == -libc::ETIMEDOUT {
            return format!("no answer within {} s", CONNECT_TIMEOUT.as_secs());
        }
        bw_record::errno::name(result)
    });
    let message = format!("{server}: the handshake failed: {reason}");
    let remedy = remedy.unwrap_or("check that the server speaks this protocol, and read its log");
    EngineError::request("handshake", message, remedy)
}

impl<P: Protocol> Target for Network<P> {
    /// The requests of a flush that share a connection share a write; those to others are written one by one.
    #[inline]
    fn batch(&self) -> usize {
        self.pool.batch()
    }

    fn capacity(&self) -> u32 {
        self.pool.capacity()
    }

    fn measure_from(&mut self, from: Nanos) {
        self.pool.measure_from(from);
    }

    fn measure_streams(&self, now: Nanos, part: Range<Nanos>) {
        self.pool.measure_streams(now, part);
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

    fn awaited(&mut self) -> Awaited {
        self.pool.awaited()
    }

    #[inline]
    fn background(&self) -> Background {
        self.pool.background()
    }

    fn stream(&self, slot: u32) -> Option<SeenStream> {
        self.pool.stream(slot)
    }

    fn add_reads(&self, gaps: &mut Histogram, read_lateness: &mut Histogram) {
        if let Some(streams) = self.pool.protocol().streams() {
            streams.add_reads(gaps, read_lateness);
        }
    }
}

impl<P: Protocol> fmt::Debug for Network<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe().fmt(formatter)
    }
}

#[cfg(test)]
mod tests;
