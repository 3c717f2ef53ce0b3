//! What the specifications of all servers have in common: the fields of their connections, and what is made of them.
//!
//! Decision: a macro adds the fields to each spec. Rejected: a struct of their own with `serde(flatten)`, whose errors about
//! an unknown field do not list the known ones. UDP has three of the fields, with another time limit, and writes them out.

use crate::net::connection::{ConnectionOptions, Endpoint};
use crate::net::tls::settings::TlsSettings;
use crate::net::{Network, TIMEOUT};
use bw_model::{EngineError, Nanos};
use bw_protocol::Protocol;
use std::path::Path;

/// Returns the default of `timeout_ns`.
#[allow(clippy::unnecessary_wraps)] // serde wants the field's type
pub(crate) fn default_timeout() -> Option<Nanos> {
    Some(TIMEOUT)
}

/// Returns the default of `outstanding`: no pipelining.
pub(crate) fn default_outstanding() -> u32 {
    1
}

/// Declares the user's specification of a server: its own fields, and behind them those of its connections.
macro_rules! server_spec {
    ($(#[$about:meta])* pub struct $name:ident { $($own:tt)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($own)*
            /// The Unix socket to connect to, instead of the host and the port.
            #[serde(default)]
            pub unix_socket: Option<std::path::PathBuf>,
            /// Number of connections.
            pub connections: u32,
            /// Maximum number of operations in progress on a connection (pipelining).
            #[serde(default = "crate::net::spec::default_outstanding")]
            pub outstanding: u32,
            /// After how many operations a connection is closed and established anew; None: never.
            #[serde(default)]
            pub requests_per_connection: Option<u64>,
            /// How long an operation may take, including a wait for a connection; None: no limit.
            #[serde(default = "crate::net::spec::default_timeout")]
            pub timeout_ns: Option<bw_model::Nanos>,
            /// How TLS is used; None: not at all, or as by default if the URL requires it.
            #[serde(default)]
            pub tls: Option<crate::net::tls::settings::TlsSpec>,
        }

        impl $name {
            /// Returns where and how connections to the server are made.
            ///
            /// # Errors
            /// As [`Connecting::to`](crate::net::spec::Connecting::to).
            pub(crate) fn connecting(
                &self,
                host: &str,
                port: u16,
                tls: Option<crate::net::tls::settings::TlsSettings>,
            ) -> Result<crate::net::spec::Connecting, bw_model::EngineError> {
                let options = crate::net::ConnectionOptions {
                    outstanding: self.outstanding,
                    requests_per_connection: self.requests_per_connection,
                    timeout: self.timeout_ns,
                };
                let unix_socket = self.unix_socket.as_deref();
                crate::net::spec::Connecting::to(host, port, unix_socket, tls, options)
            }
        }
    };
}

pub(crate) use server_spec;

/// Where a server is, and how its connections are used: every worker opens its own target from it.
#[derive(Clone, Debug)]
pub(crate) struct Connecting {
    endpoint: Endpoint,
    options: ConnectionOptions,
}

impl Connecting {
    /// Returns how to connect to a Unix socket, or without one to a host's port.
    ///
    /// # Errors
    /// As [`ConnectionOptions::checked`] and [`Endpoint::find`].
    pub(crate) fn to(
        host: &str,
        port: u16,
        unix_socket: Option<&Path>,
        tls: Option<TlsSettings>,
        options: ConnectionOptions,
    ) -> Result<Self, EngineError> {
        let options = options.checked()?;
        let endpoint = Endpoint::find(host, port, unix_socket)?.with_tls(tls);
        Ok(Self { endpoint, options })
    }

    /// Returns how to send datagrams to a host's port.
    ///
    /// # Errors
    /// As [`ConnectionOptions::checked`] and [`Endpoint::resolve`].
    pub(crate) fn datagrams(
        host: &str,
        port: u16,
        options: ConnectionOptions,
    ) -> Result<Self, EngineError> {
        let options = options.checked()?;
        let endpoint = Endpoint::resolve(host, port)?.with_datagrams();
        Ok(Self { endpoint, options })
    }

    /// Returns the maximum number of operations in progress on a connection.
    pub(crate) fn outstanding(&self) -> u32 {
        self.options.outstanding
    }

    /// Returns a target with `connections` connections, all established and their handshakes complete.
    ///
    /// # Errors
    /// As [`Network::open`].
    pub(crate) fn open<P: Protocol>(
        &self,
        protocol: P,
        connections: u32,
    ) -> Result<Network<P>, EngineError> {
        Network::open(protocol, &self.endpoint, connections, self.options)
    }
}
