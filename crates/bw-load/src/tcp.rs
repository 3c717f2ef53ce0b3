//! An echo server over TCP or a Unix socket as a target: an operation sends `size` bytes and receives as many
//! (see [`bw_protocol::echo`]). TCP_NODELAY is set, so that Nagle's algorithm does not delay requests.

use crate::net::Network;
use crate::net::plan::{PlanOptions, ServerPlan};
use crate::net::spec::server_spec;
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

/// The plan of a load on a TCP server.
pub type TcpPlan = ServerPlan<Echo>;

/// A TCP server as one worker's target.
pub type TcpTarget = Network<Echo>;

impl TcpSpec {
    /// Returns the plan, with the addresses of the host.
    ///
    /// # Errors
    /// As [`Connecting::to`](crate::net::spec::Connecting::to) and [`TlsSpec::settings`](crate::net::tls::settings::TlsSpec::settings).
    pub fn plan(&self, _options: PlanOptions) -> Result<TcpPlan, EngineError> {
        let tls = self.tls.as_ref().map(|tls| tls.settings(&self.host, None));
        let connecting = self.connecting(&self.host, self.port, tls.transpose()?)?;
        let receive_bytes = self.receive_bytes;
        let echo = move |outstanding| Echo::new(receive_bytes, outstanding);
        Ok(ServerPlan::new("tcp", connecting, echo))
    }
}
