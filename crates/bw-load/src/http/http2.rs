//! A server of HTTP/2 as a target: its requests as fields, and the fields that HTTP/2 does not have.
//!
//! The version is what the user requests, never what a server offers: a load that is HTTP/2 on one server and HTTP/1.1
//! on another one cannot be compared. With https it is agreed on by ALPN; with http it is assumed (prior knowledge).
//! Sources: RFC 9113 (section 3.3 for prior knowledge, 8.2.2 for the fields).

use crate::http::request::HttpSpec;
use crate::net::connection::Endpoint;
use crate::net::tls::settings::HTTP_2;
use crate::net::{ConnectionOptions, Network};
use bw_model::EngineError;
use bw_protocol::http2::{Http2, Requests};
use std::sync::Arc;

/// A server of HTTP/2 as one worker's target.
pub type Http2Target = Network<Http2>;

/// A checked spec with a resolved name: every worker opens its own target from it.
#[derive(Clone, Debug)]
pub struct Http2Plan {
    endpoint: Endpoint,
    requests: Arc<Requests>,
    options: ConnectionOptions,
}

impl Http2Plan {
    /// Returns the requests, which all workers share.
    #[must_use]
    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Returns a target with `connections` connections, all established.
    ///
    /// # Errors
    /// As [`Network::open`].
    pub fn open(&self, connections: u32) -> Result<Http2Target, EngineError> {
        let http = Http2::new(Arc::clone(&self.requests), self.options.outstanding);
        Network::open(http, &self.endpoint, connections, self.options)
    }
}

impl HttpSpec {
    /// Returns the plan for HTTP/2: everything checked, the requests made, the host resolved.
    ///
    /// # Errors
    /// As [`HttpSpec::plan`]; `header` also for a field that HTTP/2 does not have, `request` for requests with labels.
    pub fn plan_http2(&self) -> Result<Http2Plan, EngineError> {
        if !self.requests.is_empty() {
            let message = "requests: requests with labels are sent with HTTP/1.1 only";
            let remedy = "use HTTP/1.1 (--http 1.1), or give paths instead of requests";
            return Err(EngineError::request("request", message, remedy).about("target.requests"));
        }
        let server = self.server()?;
        let parts = self.parts(&server)?;
        let (endpoint, options) = self.connections_to(&server, HTTP_2)?;
        let scheme = if server.tls { "https" } else { "http" };
        let mut authority = String::new();
        let mut fields = Vec::new();
        for (name, value) in parts.fields {
            let name = name.to_ascii_lowercase();
            if name == "host" {
                authority = value;
            } else {
                check_field(&name, &value)?;
                fields.push((name, value));
            }
        }
        let request = |path: &String| {
            let first = [
                (":method", parts.method.as_str()),
                (":scheme", scheme),
                (":authority", &authority),
                (":path", path),
            ];
            let first = first.map(|(name, value)| (name.to_owned(), value.to_owned()));
            first.into_iter().chain(fields.clone()).collect()
        };
        let requests: Vec<Vec<(String, String)>> = parts.paths.iter().map(request).collect();
        let requests = Requests::new(&requests, self.body_bytes, parts.is_head);
        Ok(Http2Plan {
            endpoint,
            requests: Arc::new(requests),
            options,
        })
    }
}

/// Refuses a field about the connection, which HTTP/2 does not have.
fn check_field(name: &str, value: &str) -> Result<(), EngineError> {
    let of_the_connection = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "http2-settings",
    ];
    if of_the_connection.contains(&name) || name == "te" && value != "trailers" {
        let message = format!("header {name:?}: HTTP/2 does not have it");
        let remedy = "leave it out, or use HTTP/1.1 (--http 1.1)";
        return Err(EngineError::request("header", message, remedy));
    }
    Ok(())
}
