//! The client's side of the protocols that servers speak, without sockets and without a clock: a [`Protocol`] makes
//! the bytes of operations and reads the results out of the bytes that arrive.
//!
//! Decision: a connection carries any number of operations at once, each under its slot, because pipelining and streams
//! need that; a protocol with one operation at a time has a `room` of 1. What is sent is put into an [`Outgoing`], so
//! that the requests of one flush share a write. Rejected: a request as a chain of borrowed pieces, which can
//! describe one operation only and none of the answers that a protocol sends by itself.

pub mod check;
pub mod datagram;
pub mod echo;
pub mod events;
mod exchanges;
pub mod grpc;
pub mod http1;
pub mod http2;
mod measured;
mod outgoing;
pub mod payload;
pub mod postgres;
pub mod redis;
pub mod streams;
pub mod template;
pub mod values;
pub mod websocket;

pub use crate::measured::MeasuredPart;
pub use crate::outgoing::Outgoing;
pub use crate::template::{Sink, Template};
pub use crate::values::Values;

use crate::grpc::Calls;
use crate::streams::Streams;
use bw_model::{Nanos, Operation};

/// The result of an operation on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The operation's slot.
    pub slot: u32,
    /// Bytes transferred, or a negative errno (or what the protocol adds to those).
    pub result: i64,
}

/// The result of an [`End`] whose operation the server is known not to have processed, because it announced that it
/// processes no more (`Connection: close` on an earlier response, GOAWAY): the operation is sent again on another
/// connection. No other result equals it.
pub const RESEND: i32 = i32::MIN + 1;

/// The state of a connection after a step of its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// The protocol's own handshake is not complete: no operation can begin.
    Handshake,
    /// Operations can begin, as far as `room` says.
    Ready,
    /// No further operation can begin; the connection is closed when those in progress have ended (`Connection: close`,
    /// GOAWAY).
    Closing,
    /// The server's bytes do not follow the protocol, or it refused the handshake: all operations in progress end with
    /// this result, and the connection is closed.
    Failed(i32),
}

/// A protocol's client side, as bytes.
///
/// An operation is in progress from [`begin`](Protocol::begin) until its [`End`] was appended, or
/// [`cancel`](Protocol::cancel) was called for it. Ends that a step appends count, whatever state it returns: after
/// [`SessionState::Failed`] only the operations that are still in progress end with its result.
pub trait Protocol: 'static {
    /// The state of one connection, with its buffers; `session()` allocates. Later only what is exceptional does: a handshake
    /// that is repeated, a large head.
    type Session;

    /// Returns the state for one more connection.
    fn session(&self) -> Self::Session;

    /// Reports the certificate (X.509, DER) of the server, if the connection uses TLS; called before [`open`](Self::open).
    fn secured(&self, _session: &mut Self::Session, _certificate: &[u8]) {}

    /// Starts anew on a connection that was just established; puts what the client sends first.
    fn open(&self, session: &mut Self::Session, out: &mut Outgoing) -> SessionState;

    /// Returns how many more operations this connection can begin now: at most what `--outstanding` allows, 1 without
    /// pipelining.
    fn room(&self, session: &Self::Session) -> u32;

    /// Puts the operation's request; called only with room.
    ///
    /// # Errors
    /// The result of an operation that this protocol cannot carry out: nothing was put, and it is not in progress.
    fn begin(
        &self,
        session: &mut Self::Session,
        slot: u32,
        operation: &Operation,
        out: &mut Outgoing,
    ) -> Result<(), i32>;

    /// Puts more of what a request consists of, when everything that was put has been written (a long body, under the
    /// flow control of the protocol).
    fn more(&self, _session: &mut Self::Session, _out: &mut Outgoing) {}

    /// Reports that everything that was put has been written to the socket.
    fn sent(&self, session: &mut Self::Session, ends: &mut Vec<End>) -> SessionState;

    /// Reads received bytes, never empty; of UDP a whole datagram, which may be. Appends the ends of operations; may put
    /// answers (window updates, acknowledgements, authentication).
    fn receive(
        &self,
        session: &mut Self::Session,
        bytes: &[u8],
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) -> SessionState;

    /// Reports that the server closed the connection: appends the ends of all operations in progress (a body that ends
    /// with the connection, or `-ECONNRESET`).
    fn closed(&self, session: &mut Self::Session, ends: &mut Vec<End>);

    /// Gives up an operation that exceeded its time limit; returns whether the connection stays usable (HTTP/2:
    /// RST_STREAM). Its end is the pool's.
    fn cancel(&self, session: &mut Self::Session, slot: u32, out: &mut Outgoing) -> bool;

    /// Puts what announces that the client closes the connection, on which nothing is in progress.
    fn goodbye(&self, _session: &mut Self::Session, _out: &mut Outgoing) {}

    /// Returns text for the error message if the handshake failed before the run (a server's refusal), never a secret.
    fn refusal(&self, _session: &Self::Session) -> Option<String> {
        None
    }

    /// Returns what to do about the [`refusal`](Self::refusal); None: check the server.
    fn remedy(&self, _session: &Self::Session) -> Option<&'static str> {
        None
    }

    /// Returns the result of an operation that failed before its answer was complete, which would be `result`; `begun`: it
    /// has had a connection.
    fn broken(&self, slot: u32, result: i64, begun: bool) -> i64 {
        match self.streams() {
            Some(streams) if begun => streams.broken(slot, result),
            _ => result,
        }
    }

    /// Returns its streams, whose times are set before each [`receive`](Self::receive); None: it has none.
    #[inline]
    fn streams(&self) -> Option<&Streams> {
        None
    }

    /// Leaves operations with an intended start before `from`, the warm-up, out of the counts below.
    fn measure_from(&mut self, _from: Nanos) {}

    /// Returns how many replies had no value; None: the protocol has no such replies.
    fn nil_replies(&self) -> Option<u64> {
        None
    }

    /// Returns the calls of gRPC; None: the operations are none.
    fn calls(&self) -> Option<&Calls> {
        None
    }

    /// Returns how many messages arrived that answer no operation; None: the protocol has no such messages.
    fn pushes(&self) -> Option<u64> {
        None
    }

    /// Returns how many complete responses had a status of 200 to 299, 300 to 399, 400 to 499, 500 to 599; None: the
    /// protocol has no such statuses.
    fn statuses(&self) -> Option<[u64; 4]> {
        None
    }
}
