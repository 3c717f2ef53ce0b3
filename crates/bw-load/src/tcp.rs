//! An echo server over TCP or a Unix socket as a target: an operation sends `size` bytes and receives as many
//! (see [`bw_protocol::echo`]). TCP_NODELAY is set, so that Nagle's algorithm does not delay requests.

use crate::net::connection::Endpoint;
use crate::net::tls::settings::TlsSpec;
use crate::net::{ConnectionOptions, Network};
use bw_model::EngineError;
use bw_model::Nanos;
use bw_protocol::echo::Echo;
use serde::Deserialize;
use std::path::PathBuf;

/// The user's specification of the target.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpSpec {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The Unix socket to connect to, instead of host and port.
    #[serde(default)]
    pub unix_socket: Option<PathBuf>,
    /// Number of connections.
    pub connections: u32,
    /// Maximum number of operations in progress on a connection.
    #[serde(default = "crate::net::default_outstanding")]
    pub outstanding: u32,
    /// After how many operations a connection is closed and established anew; None: never.
    #[serde(default)]
    pub requests_per_connection: Option<u64>,
    /// Size of the response to each operation [bytes]; None: as much as was sent.
    #[serde(default)]
    pub receive_bytes: Option<u64>,
    /// How long an operation may take, including a wait for a connection; None: no limit.
    #[serde(default = "crate::net::default_timeout")]
    pub timeout_ns: Option<Nanos>,
    /// TLS; None: none.
    #[serde(default)]
    pub tls: Option<TlsSpec>,
}

/// A spec with a resolved name: every worker opens its own target from it.
#[derive(Clone, Debug)]
pub struct TcpPlan {
    endpoint: Endpoint,
    receive_bytes: Option<u64>,
    options: ConnectionOptions,
}

/// A TCP server as one worker's target.
pub type TcpTarget = Network<Echo>;

impl TcpSpec {
    /// Returns the plan, with the addresses of the host.
    ///
    /// # Errors
    /// As [`Endpoint::find`], [`ConnectionOptions::checked`] and [`TlsSpec::settings`].
    pub fn plan(&self) -> Result<TcpPlan, EngineError> {
        let options = ConnectionOptions {
            outstanding: self.outstanding,
            requests_per_connection: self.requests_per_connection,
            timeout: self.timeout_ns,
        };
        let tls = match &self.tls {
            Some(tls) => Some(tls.settings(&self.host, None)?),
            None => None,
        };
        let endpoint = Endpoint::find(&self.host, self.port, self.unix_socket.as_deref())?;
        Ok(TcpPlan {
            options: options.checked()?,
            endpoint: endpoint.with_tls(tls),
            receive_bytes: self.receive_bytes,
        })
    }
}

impl TcpPlan {
    /// Returns a target with `connections` connections, all established.
    ///
    /// # Errors
    /// As [`Network::open`].
    pub fn open(&self, connections: u32) -> Result<TcpTarget, EngineError> {
        let echo = Echo::new(self.receive_bytes, self.options.outstanding);
        Network::open(echo, &self.endpoint, connections, self.options)
    }
}
