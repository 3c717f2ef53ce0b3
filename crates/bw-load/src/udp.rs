//! A UDP server as a target: an operation is one datagram and the one that answers it (see [`bw_protocol::datagram`]).
//!
//! Each operation in progress has a connected socket of its own, a *connection* of the pool.
//!
//! Decision: an operation that expects an answer has a time limit, one second by default, as long as resolvers of DNS and
//! clients of games wait. Nobody sends a lost datagram again, so without a limit it would hold its connection to the end.

use crate::net::plan::{PlanOptions, ServerPlan};
use crate::net::spec::Connecting;
use crate::net::{ConnectionOptions, Network};
use crate::payload::{self, PayloadSpec};
use bw_model::{EngineError, Nanos};
use bw_protocol::datagram::{Answer, Datagrams, MOST_BYTES};
use bw_protocol::payload::Prefix;
use bw_protocol::values::ValueSpec;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The user's specification of the target.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UdpSpec {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// What operations send: an operation's `offset` is an index into this. Empty: as many bytes as the operation has, which
    /// the server returns.
    #[serde(default)]
    pub payloads: Vec<PayloadSpec>,
    /// The values of their templates, by name.
    #[serde(default)]
    pub values: BTreeMap<String, ValueSpec>,
    /// The length of each answer [bytes]; 0: none is expected; None: any.
    #[serde(default)]
    pub receive_bytes: Option<u64>,
    /// An answer begins with so many bytes of its request; a datagram that does not is dropped.
    #[serde(default)]
    pub match_bytes: u32,
    /// What an answer begins with, as hexadecimal digits; `??` is any byte.
    #[serde(default)]
    pub expect: Option<String>,
    /// Number of sockets: the most operations in progress.
    pub connections: u32,
    /// After how many operations a socket is replaced by one with another port; None: never.
    #[serde(default)]
    pub requests_per_connection: Option<u64>,
    /// How long an operation may take; None: no limit, if no answer is expected.
    #[serde(default = "default_timeout")]
    pub timeout_ns: Option<Nanos>,
}

/// Returns the default of `timeout_ns`.
#[allow(clippy::unnecessary_wraps)] // serde wants the field's type
fn default_timeout() -> Option<Nanos> {
    Some(Nanos::SECOND)
}

/// The plan of a load on a UDP server.
pub type UdpPlan = ServerPlan<Datagrams>;

/// A UDP server as one worker's target.
pub type UdpTarget = Network<Datagrams>;

impl UdpSpec {
    /// Returns the plan, with the addresses of the host.
    ///
    /// # Errors
    /// `values`, `payload`, `expect`, `timeout`, `match`: bad input; and as [`Connecting::datagrams`].
    pub fn plan(&self, options: PlanOptions) -> Result<UdpPlan, EngineError> {
        let values = options.values(&self.values)?;
        let payloads: Arc<[_]> = payload::payloads(&self.payloads, &values, MOST_BYTES)?.into();
        let answer = self.answer()?;
        let connections = ConnectionOptions {
            outstanding: 1,
            requests_per_connection: self.requests_per_connection,
            timeout: self.timeout_ns,
        };
        let connecting = Connecting::datagrams(&self.host, self.port, connections)?;
        let count = payloads.len().max(1);
        let values = Arc::new(values);
        let datagrams = move |_outstanding| {
            Datagrams::new(Arc::clone(&payloads), Arc::clone(&values), answer.clone())
        };
        let plan = ServerPlan::new("udp", connecting, datagrams);
        Ok(plan.with_requests(count, Vec::new()))
    }

    fn answer(&self) -> Result<Answer, EngineError> {
        let wrong = |code: &'static str, message: String, remedy: &str, field: &str| {
            Err(EngineError::request(code, message, remedy).about(format!("target.{field}")))
        };
        if self.timeout_ns.is_none() && self.receive_bytes != Some(0) {
            let message =
                "timeout: without a time limit a lost datagram would never end".to_owned();
            return wrong("timeout", message, "give a time limit", "timeout_ns");
        }
        let match_bytes = self.match_bytes as usize;
        if match_bytes > MOST_BYTES {
            let message =
                format!("match_bytes: {match_bytes}: a datagram has at most {MOST_BYTES}");
            return wrong("match", message, "use a smaller number", "match_bytes");
        }
        let expect = self.expect.as_deref().map(Prefix::parse).transpose();
        let expect = match expect {
            Ok(expect) => expect.unwrap_or_default(),
            Err(message) => {
                let message = format!("expect: {message}");
                return wrong("expect", message, "correct the digits", "expect");
            }
        };
        Ok(Answer {
            bytes: self.receive_bytes,
            match_bytes,
            expect,
        })
    }
}
