//! An HTTP server as a target: an operation is one request and its whole response (see [`bw_protocol::http1`] and
//! [`bw_protocol::http2`]).
//!
//! Requests are made before the run, one for each path; an operation's `offset` selects one.
//! Not done: proxies, cookies.

mod http2;
pub mod request;

pub use crate::http::http2::{Http2Plan, Http2Target};
pub use bw_protocol::http1::status_of;

use crate::http::request::HttpPlan;
use crate::net::Network;
use bw_model::EngineError;
use bw_protocol::http1::Http1;
use std::sync::Arc;

/// A server of HTTP/1.1 as one worker's target.
pub type HttpTarget = Network<Http1>;

impl HttpPlan {
    /// Returns a target with `connections` connections, all established.
    ///
    /// # Errors
    /// As [`Network::open`].
    pub fn open(&self, connections: u32) -> Result<HttpTarget, EngineError> {
        let http = Http1::new(Arc::clone(&self.requests), self.connecting.outstanding());
        self.connecting.open(http, connections)
    }
}
