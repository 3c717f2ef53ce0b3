//! An echo server over TCP as a target: an operation sends `size` bytes and receives as many.
//!
//! Decision: the response is compared with the request, because a server that answers with other bytes
//! is not an echo server. With `receive_bytes` only the length of the response counts, and its content is not
//! checked. TCP_NODELAY is set, so that Nagle's algorithm does not delay requests.

use crate::net::connection::Endpoint;
use crate::net::{ExchangeState, Network, Protocol};
use bw_model::EngineError;
use bw_model::{Nanos, Operation};
use serde::Deserialize;

/// Maximum size of one piece that is sent [bytes]; the content repeats after it.
const FILLER_BYTES: usize = 64 * 1024;

/// The user's specification of the target.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpSpec {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Number of connections, which is also the maximum of operations in flight.
    pub connections: u32,
    /// Size of the response to each operation [bytes]; None: as much as was sent.
    #[serde(default)]
    pub receive_bytes: Option<u64>,
    /// How long an operation may take, including a wait for a connection; None: no limit.
    #[serde(default = "crate::net::default_timeout")]
    pub timeout_ns: Option<Nanos>,
}

/// A spec with a resolved name: every worker opens its own target from it.
#[derive(Clone, Debug)]
pub struct TcpPlan {
    endpoint: Endpoint,
    receive_bytes: Option<u64>,
    timeout: Option<Nanos>,
}

/// A TCP server as one worker's target.
pub type TcpTarget = Network<Echo>;

impl TcpSpec {
    /// Returns the plan, with the addresses of the host.
    ///
    /// # Errors
    /// As [`Endpoint::resolve`].
    pub fn plan(&self) -> Result<TcpPlan, EngineError> {
        Ok(TcpPlan {
            endpoint: Endpoint::resolve(&self.host, self.port)?,
            receive_bytes: self.receive_bytes,
            timeout: self.timeout_ns,
        })
    }
}

impl TcpPlan {
    /// Returns a target with `connections` connections, all established.
    ///
    /// # Errors
    /// As [`Network::open`].
    pub fn open(&self, connections: u32) -> Result<TcpTarget, EngineError> {
        let echo = Echo::new(self.receive_bytes);
        Network::open(echo, &self.endpoint, connections, self.timeout)
    }
}

/// The protocol: send a number of bytes, receive a number of bytes.
#[derive(Debug)]
pub struct Echo {
    sender: Box<[u8]>,
    receive_bytes: Option<u64>,
}

/// One exchange.
#[derive(Clone, Copy, Debug, Default)]
pub struct EchoExchange {
    size: u64,
    expected: u64,
    received: u64,
    whole: bool,
}

impl Echo {
    /// Returns the protocol; `receive_bytes` is the size of the response, None: as much as was sent.
    #[must_use]
    pub(crate) fn new(receive_bytes: Option<u64>) -> Self {
        // The period is prime, so a buffer whose size is a power of two cannot hide an offset.
        let sender = (0..FILLER_BYTES).map(|place| (place % 251) as u8).collect();
        Self {
            sender,
            receive_bytes,
        }
    }

    /// Returns whether `bytes` equal what was sent from position `from` on.
    fn is_echo(&self, from: u64, mut bytes: &[u8]) -> bool {
        let mut place = remainder(from);
        while !bytes.is_empty() {
            let length = bytes.len().min(FILLER_BYTES - place);
            let (piece, rest) = bytes.split_at(length);
            if piece != &self.sender[place..place + length] {
                return false;
            }
            bytes = rest;
            place = 0;
        }
        true
    }
}

impl EchoExchange {
    fn progress(&self) -> ExchangeState {
        if !self.whole || self.received < self.expected {
            return ExchangeState::More;
        }
        ExchangeState::Ended {
            result: i32::try_from(self.received).unwrap_or(i32::MAX),
            reusable: true,
        }
    }
}

impl Protocol for Echo {
    type Exchange = EchoExchange;

    fn exchange(&self) -> EchoExchange {
        EchoExchange::default()
    }

    fn begin(&self, exchange: &mut EchoExchange, operation: &Operation) -> Result<(), i32> {
        let size = u64::from(operation.size);
        *exchange = EchoExchange {
            size,
            expected: self.receive_bytes.unwrap_or(size),
            received: 0,
            whole: false,
        };
        Ok(())
    }

    fn outgoing<'a>(&'a self, exchange: &'a EchoExchange, sent: u64) -> &'a [u8] {
        let from = remainder(sent);
        let left = exchange.size.saturating_sub(sent);
        let length = left.min((FILLER_BYTES - from) as u64) as usize;
        &self.sender[from..from + length]
    }

    fn sent(&self, exchange: &mut EchoExchange) -> ExchangeState {
        exchange.whole = true;
        exchange.progress()
    }

    fn receive(&self, exchange: &mut EchoExchange, bytes: &[u8]) -> ExchangeState {
        let from = exchange.received;
        exchange.received += bytes.len() as u64;
        let failed = |errno: i32| ExchangeState::Ended {
            result: -errno,
            reusable: false,
        };
        if exchange.received > exchange.expected {
            return failed(libc::EPROTO);
        }
        if self.receive_bytes.is_none() && !self.is_echo(from, bytes) {
            return failed(libc::EBADMSG);
        }
        exchange.progress()
    }

    fn closed(&self, _: &mut EchoExchange) -> i32 {
        -libc::ECONNRESET
    }
}

/// Returns the position in the filler of byte `place` of an exchange.
#[allow(clippy::cast_possible_truncation)]
fn remainder(place: u64) -> usize {
    (place % FILLER_BYTES as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use bw_model::Kind;
    use bw_model::Nanos;

    fn operation(size: u32) -> Operation {
        Operation {
            at: Nanos::ZERO,
            offset: 0,
            size,
            kind: Kind::Exchange,
            notify: false,
            tag: 0,
        }
    }

    /// Sends everything; returns the bytes sent.
    fn send(echo: &Echo, exchange: &mut EchoExchange) -> Vec<u8> {
        let mut sent = Vec::new();
        loop {
            let piece = echo.outgoing(exchange, sent.len() as u64);
            if piece.is_empty() {
                return sent;
            }
            sent.extend_from_slice(piece);
        }
    }

    #[test]
    fn a_long_echo_is_compared_over_the_filler_s_end() {
        let echo = Echo::new(None);
        let mut exchange = echo.exchange();
        echo.begin(&mut exchange, &operation(200_000)).unwrap();
        let sent = send(&echo, &mut exchange);
        assert_eq!(sent.len(), 200_000);
        assert_eq!(echo.sent(&mut exchange), ExchangeState::More);
        assert_eq!(
            echo.receive(&mut exchange, &sent[..70_001]),
            ExchangeState::More
        );
        let end = ExchangeState::Ended {
            result: 200_000,
            reusable: true,
        };
        assert_eq!(echo.receive(&mut exchange, &sent[70_001..]), end);
    }

    #[test]
    fn other_bytes_and_too_many_are_errors() {
        let echo = Echo::new(None);
        let mut exchange = echo.exchange();
        for (back, errno) in [(vec![0, 1, 3], libc::EBADMSG), (vec![0; 5], libc::EPROTO)] {
            echo.begin(&mut exchange, &operation(4)).unwrap();
            echo.sent(&mut exchange);
            let end = ExchangeState::Ended {
                result: -errno,
                reusable: false,
            };
            assert_eq!(echo.receive(&mut exchange, &back), end);
        }
    }
}
