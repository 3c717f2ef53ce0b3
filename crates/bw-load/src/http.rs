//! An HTTP/1.1 server as a target: an operation is one request and its whole response.
//!
//! Requests are made before the run, one for each path; an operation's `offset` selects one, its
//! `size` has no meaning. Bodies are counted and dropped as they arrive, whatever their length.
//! A status of 400 or more is an error, reported as `-(10000 + status)`; an invalid response
//! is `-EPROTO`; one that ends too early is `-ECONNRESET`. Redirects (3xx) are answers, and are not followed.
//!
//! Decision: one request at a time on a connection. Pipelining would let a slow response delay
//! those behind it, and servers and proxies differ in how they support it. A request on a connection that the server
//! is closing at that moment is an error and is not sent again: only the user knows whether repeating it is safe.
//! Not done: TLS, HTTP/2, proxies, cookies. Sources: RFC 9110, RFC 9112.

pub(crate) mod chunked;
pub mod request;
pub mod response;

use crate::http::request::{HttpPlan, Requests};
use crate::http::response::Response;
use crate::net::{ExchangeState, Network, Protocol};
use bw_model::EngineError;
use bw_model::Operation;
use bw_record::errno::HTTP_STATUS;
use std::sync::Arc;

/// The lowest status that is an error.
const FIRST_ERROR: u16 = 400;

/// An HTTP server as one worker's target.
pub type HttpTarget = Network<Http>;

/// Returns the HTTP status that a result encodes; None for bytes and for an errno.
#[must_use]
pub fn status_of(result: i32) -> Option<u16> {
    let status = result.checked_neg()?.checked_sub(HTTP_STATUS)?;
    u16::try_from(status)
        .ok()
        .filter(|status| (FIRST_ERROR..1000).contains(status))
}

impl HttpPlan {
    /// Returns a target with `connections` connections, all established.
    ///
    /// # Errors
    /// As [`Network::open`].
    pub fn open(&self, connections: u32) -> Result<HttpTarget, EngineError> {
        let requests = Arc::clone(&self.requests);
        Network::open(Http { requests }, &self.endpoint, connections, self.timeout)
    }
}

/// The protocol.
#[derive(Debug)]
pub struct Http {
    requests: Arc<Requests>,
}

/// One exchange.
#[derive(Debug)]
pub struct HttpExchange {
    path: usize,
    whole: bool,
    response: Response,
}

impl HttpExchange {
    /// Returns the result of a complete response.
    fn result(&self) -> i32 {
        let status = self.response.status();
        if status >= FIRST_ERROR {
            return -(HTTP_STATUS + i32::from(status));
        }
        i32::try_from(self.response.body_bytes()).unwrap_or(i32::MAX)
    }
}

impl Protocol for Http {
    type Exchange = HttpExchange;

    fn exchange(&self) -> HttpExchange {
        HttpExchange {
            path: 0,
            whole: false,
            response: Response::new(),
        }
    }

    fn begin(&self, exchange: &mut HttpExchange, operation: &Operation) -> Result<(), i32> {
        exchange.path = usize::try_from(operation.offset)
            .ok()
            .filter(|&path| path < self.requests.count())
            .ok_or(-libc::EINVAL)?;
        exchange.whole = false;
        exchange.response.begin(self.requests.is_head());
        Ok(())
    }

    fn outgoing<'a>(&'a self, exchange: &'a HttpExchange, sent: u64) -> &'a [u8] {
        self.requests.piece(exchange.path, sent)
    }

    fn sent(&self, exchange: &mut HttpExchange) -> ExchangeState {
        exchange.whole = true;
        ExchangeState::More
    }

    fn receive(&self, exchange: &mut HttpExchange, bytes: &[u8]) -> ExchangeState {
        let used = match exchange.response.receive(bytes) {
            response::ParseProgress::More => return ExchangeState::More,
            response::ParseProgress::Complete { used } => used,
            response::ParseProgress::Malformed => {
                return ExchangeState::Ended {
                    result: -libc::EPROTO,
                    reusable: false,
                };
            }
        };
        // A response that comes before the whole request was sent, or with more bytes behind it, makes the connection
        // unusable.
        let clean = exchange.whole && used == bytes.len();
        ExchangeState::Ended {
            result: exchange.result(),
            reusable: clean && exchange.response.is_persistent(),
        }
    }

    fn closed(&self, exchange: &mut HttpExchange) -> i32 {
        if exchange.response.close() {
            return exchange.result();
        }
        -libc::ECONNRESET
    }
}
