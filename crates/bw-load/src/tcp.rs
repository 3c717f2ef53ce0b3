//! An echo server over TCP or a Unix socket as a target: an operation sends `size` bytes and receives as many
//! (see [`bw_protocol::echo`]). TCP_NODELAY is set, so that Nagle's algorithm does not delay requests.

use crate::net::Network;
use crate::net::spec::{Connecting, server_spec};
use bw_model::EngineError;
use bw_protocol::echo::Echo;

server_spec! {
    /// The user's specification of the target.
    pub struct TcpSpec {
        /// A name or an address.
        pub host: String,
        /// The port.
        pub port: u16,
        /// Size of the response to each operation [bytes]; None: as much as was sent.
        #[serde(default)]
        pub receive_bytes: Option<u64>,
    }
}

/// A spec with a resolved name: every worker opens its own target from it.
#[derive(Clone, Debug)]
pub struct TcpPlan {
    connecting: Connecting,
    receive_bytes: Option<u64>,
}

/// A TCP server as one worker's target.
pub type TcpTarget = Network<Echo>;

impl TcpSpec {
    /// Returns the plan, with the addresses of the host.
    ///
    /// # Errors
    /// As [`Connecting::to`] and [`TlsSpec::settings`](crate::net::tls::settings::TlsSpec::settings).
    pub fn plan(&self) -> Result<TcpPlan, EngineError> {
        let tls = self.tls.as_ref().map(|tls| tls.settings(&self.host, None));
        Ok(TcpPlan {
            connecting: self.connecting(&self.host, self.port, tls.transpose()?)?,
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
        let echo = Echo::new(self.receive_bytes, self.connecting.outstanding());
        self.connecting.open(echo, connections)
    }
}
