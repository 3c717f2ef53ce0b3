//! An echo server over TCP as a target: an operation sends `size` bytes and receives as many.
//!
//! Decision: what comes back is compared with what was sent, because an echo that answers
//! with other bytes is no measurement of one; where `receive_bytes` says how much comes back,
//! the content is the server's affair. TCP_NODELAY is set, so that Nagle's algorithm does not pace us.

use crate::net::connection::Endpoint;
use crate::net::{ExchangeState, Network, Protocol};
use bw_model::EngineError;
use bw_model::{Nanos, Operation};
use serde::Deserialize;

/// How much is sent in one piece at most [bytes]; the content repeats after it.
const FILLER_BYTES: usize = 64 * 1024;

/// How the user describes the target.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpSpec {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Connections, and so operations in flight at most.
    pub connections: u32,
    /// How much comes back for each operation [bytes]; None: what was sent.
    #[serde(default)]
    pub receive_bytes: Option<u64>,
    /// How long an operation may take, a wait for a connection included; None: for ever.
    #[serde(default = "crate::net::default_timeout")]
    pub timeout_ns: Option<Nanos>,
}

/// A spec whose name is resolved: what every worker opens its own target from.
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
    /// Returns a target with so many connections, all made.
    ///
    /// # Errors
    /// As [`Network::open`].
    pub fn open(&self, connections: u32) -> Result<TcpTarget, EngineError> {
        let echo = Echo::new(self.receive_bytes);
        Network::open(echo, &self.endpoint, connections, self.timeout)
    }
}

/// The protocol: so many bytes there, so many back.
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
    /// Returns the protocol; `receive_bytes`: how much comes back, None: what was sent.
    #[must_use]
    pub(crate) fn new(receive_bytes: Option<u64>) -> Self {
        // No period that a buffer of a power of two could hide.
        let sender = (0..FILLER_BYTES).map(|place| (place % 251) as u8).collect();
        Self {
            sender,
            receive_bytes,
        }
    }

    /// Returns whether `bytes` are what was sent from place `from` on.
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

/// Returns the place in the filler of byte `place` of an exchange.
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

    /// Sends everything; returns what was sent.
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
