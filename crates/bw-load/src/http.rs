//! An HTTP server as a target: an operation is one request and its whole response (see [`bw_protocol::http1`] and
//! [`bw_protocol::http2`]).
//!
//! Requests are made before the run, one for each path; an operation's `offset` selects one.
//! Not done: proxies, cookies.

mod http2;
pub mod request;

pub use bw_protocol::http1::status_of;

use crate::net::Network;
use crate::net::plan::ServerPlan;
use bw_protocol::http1::Http1;
use bw_protocol::http2::Http2;

/// A server of HTTP/1.1 as one worker's target.
pub type HttpTarget = Network<Http1>;
/// A server of HTTP/2 as one worker's target.
pub type Http2Target = Network<Http2>;
/// The plan of a load on a server of HTTP/1.1.
pub type HttpPlan = ServerPlan<Http1>;
/// The plan of a load on a server of HTTP/2.
pub type Http2Plan = ServerPlan<Http2>;
