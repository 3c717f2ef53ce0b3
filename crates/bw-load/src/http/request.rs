//! The HTTP target's specification, its checks, and the bytes of its requests of HTTP/1.1.

use crate::net::ConnectionOptions;
use crate::net::connection::Endpoint;
use crate::net::tls::settings::{HTTP_1_1, TlsSpec};
use bw_model::EngineError;
use bw_model::Nanos;
use bw_protocol::http1::Requests;
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Method, Uri};
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;

/// The user's specification of the target.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSpec {
    /// `http://host[:port][/path]`, or the same with `https`.
    pub url: String,
    /// The method; GET by default.
    #[serde(default = "get")]
    pub method: String,
    /// The paths to request: an operation's `offset` is an index into this. If only `/` or empty: the URL's path.
    #[serde(default)]
    pub paths: Vec<String>,
    /// More header fields: name and value.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// The length of each request's body [bytes].
    #[serde(default)]
    pub body_bytes: u64,
    /// The Unix socket to connect to, instead of the host of the URL.
    #[serde(default)]
    pub unix_socket: Option<PathBuf>,
    /// Number of connections.
    pub connections: u32,
    /// Maximum number of requests in progress on a connection (pipelining).
    #[serde(default = "crate::net::default_outstanding")]
    pub outstanding: u32,
    /// After how many requests a connection is closed and established anew; None: never.
    #[serde(default)]
    pub requests_per_connection: Option<u64>,
    /// How long an operation may take, including a wait for a connection; None: no limit.
    #[serde(default = "crate::net::default_timeout")]
    pub timeout_ns: Option<Nanos>,
    /// How TLS is used, with https; None: as by default.
    #[serde(default)]
    pub tls: Option<TlsSpec>,
    /// The version of HTTP.
    #[serde(default)]
    pub http: HttpVersion,
}

/// A version of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum HttpVersion {
    /// HTTP/1.1: one request at a time on a connection, or pipelining.
    #[default]
    #[serde(rename = "1.1")]
    One,
    /// HTTP/2: streams.
    #[serde(rename = "2")]
    Two,
}

/// What all versions of HTTP need of a spec.
pub(super) struct CheckedSpec {
    pub(super) method: Method,
    pub(super) is_head: bool,
    /// Whether the scheme is https.
    pub(super) tls: bool,
    pub(super) paths: Vec<String>,
    /// The header fields, Host among them.
    pub(super) fields: Vec<(String, String)>,
    pub(super) endpoint: Endpoint,
    pub(super) options: ConnectionOptions,
}

fn get() -> String {
    "GET".into()
}

/// A checked spec with a resolved name: every worker opens its own target from it.
#[derive(Clone, Debug)]
pub struct HttpPlan {
    pub(super) endpoint: Endpoint,
    pub(super) requests: Arc<Requests>,
    pub(super) options: ConnectionOptions,
}

impl HttpPlan {
    /// Returns the requests, which all workers share.
    #[must_use]
    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }
}

/// The parts of a URL.
struct ParsedUrl {
    /// Whether it is https.
    tls: bool,
    host: String,
    port: u16,
    /// As in the Host field.
    authority: String,
    path: String,
}

impl HttpSpec {
    /// Returns the plan for HTTP/1.1: everything checked, the requests made, the host resolved.
    ///
    /// # Errors
    /// `url`, `method`, `path`, `header`: bad input; and as [`Endpoint::find`], [`ConnectionOptions::checked`] and
    /// [`TlsSpec::settings`].
    pub fn plan(&self) -> Result<HttpPlan, EngineError> {
        let checked = self.checked(HTTP_1_1)?;
        let mut fields = String::new();
        for (name, value) in &checked.fields {
            fields += &format!("{name}: {value}\r\n");
        }
        let method = checked.method;
        let head = |path: &String| {
            let head = format!("{method} {path} HTTP/1.1\r\n{fields}\r\n");
            head.into_bytes().into_boxed_slice()
        };
        let heads = checked.paths.iter().map(head).collect();
        let requests = Requests::new(heads, self.body_bytes, checked.is_head);
        Ok(HttpPlan {
            options: checked.options,
            endpoint: checked.endpoint,
            requests: Arc::new(requests),
        })
    }

    /// Returns what all versions of HTTP need; `version`: its name in ALPN.
    pub(super) fn checked(&self, version: &'static str) -> Result<CheckedSpec, EngineError> {
        let server = self.server()?;
        let method = self.method()?;
        let fields = self.fields(&server, &method)?;
        let paths = self.targets(&server)?;
        let options = ConnectionOptions {
            outstanding: self.outstanding,
            requests_per_connection: self.requests_per_connection,
            timeout: self.timeout_ns,
        };
        let tls = if server.tls {
            let tls = self.tls.clone().unwrap_or_default();
            Some(tls.settings(&server.host, Some(version))?)
        } else {
            None
        };
        let endpoint = Endpoint::find(&server.host, server.port, self.unix_socket.as_deref())?;
        Ok(CheckedSpec {
            is_head: method == Method::HEAD,
            method,
            tls: server.tls,
            paths,
            fields,
            options: options.checked()?,
            endpoint: endpoint.with_tls(tls),
        })
    }

    fn server(&self) -> Result<ParsedUrl, EngineError> {
        let url = &self.url;
        let uri: Uri = url.parse().map_err(|error| {
            self.bad_url(&format!("{error}"), "write it as http://host:port/path")
        })?;
        let (tls, default_port) = match uri.scheme_str() {
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            _ => return Err(self.bad_url("not an http URL", "write it as http://host:port/path")),
        };
        if self.tls.is_some() && !tls {
            return Err(self.bad_url(
                "it has settings of TLS",
                "write it as https://host:port/path",
            ));
        }
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            let remedy = "give the name and password as a header, Authorization";
            return Err(self.bad_url("a user name in the URL is not sent", remedy));
        }
        if url.contains('#') {
            return Err(self.bad_url("a fragment (#...) is not sent", "leave it out"));
        }
        let host = uri.host().unwrap_or_default();
        // "host:" and a port above 65535 both have a colon, and no port that fits.
        let port = match (uri.port_u16(), authority.len() == host.len()) {
            (Some(port), _) if port > 0 => port,
            (None, true) => default_port,
            _ => return Err(self.bad_url("no such port", "give one of 1 to 65535")),
        };
        Ok(ParsedUrl {
            tls,
            host: host.trim_matches(['[', ']']).into(),
            port,
            authority: authority.into(),
            path: uri
                .path_and_query()
                .map_or("/", PathAndQuery::as_str)
                .into(),
        })
    }

    fn bad_url(&self, what: &str, remedy: &str) -> EngineError {
        EngineError::request("url", format!("url {:?}: {what}", self.url), remedy)
    }

    fn method(&self) -> Result<Method, EngineError> {
        let remedy = "use GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH or a method of your server";
        let refused = |what: &str| {
            let message = format!("method {:?}: {what}", self.method);
            EngineError::request("method", message, remedy)
        };
        let method = Method::from_bytes(self.method.as_bytes())
            .map_err(|_| refused("not a valid method name"))?;
        if matches!(method, Method::CONNECT) {
            return Err(refused("it opens a tunnel, which is not supported"));
        }
        Ok(method)
    }

    /// Returns the paths to request: those of the spec, or the URL's.
    fn targets(&self, server: &ParsedUrl) -> Result<Vec<String>, EngineError> {
        if matches!(&self.paths[..], [] | [_]) && self.paths.iter().all(|path| path == "/") {
            return Ok(vec![server.path.clone()]);
        }
        if server.path != "/" {
            let message = format!("url {:?}: it has a path, and paths are given too", self.url);
            return Err(EngineError::request(
                "url",
                message,
                "put all of them into paths",
            ));
        }
        for path in &self.paths {
            let sent = path.parse::<PathAndQuery>();
            if !path.starts_with('/') || !sent.is_ok_and(|sent| sent.as_str() == path) {
                let message = format!("path {path:?}: it cannot be requested");
                let remedy = "start it with /, encode blanks and special characters (%20), and leave out #...";
                return Err(EngineError::request("path", message, remedy));
            }
        }
        Ok(self.paths.clone())
    }

    /// Returns the header fields.
    fn fields(
        &self,
        server: &ParsedUrl,
        method: &Method,
    ) -> Result<Vec<(String, String)>, EngineError> {
        let mut fields = Vec::new();
        let mut put = |name: &str, value: &str| fields.push((name.to_owned(), value.to_owned()));
        if !self.has_field("host") {
            put("Host", &server.authority);
        }
        if !self.has_field("user-agent") {
            put("User-Agent", "benchwright");
        }
        if self.body_bytes > 0 || [Method::POST, Method::PUT, Method::PATCH].contains(method) {
            put("Content-Length", &self.body_bytes.to_string());
        }
        for (name, value) in &self.headers {
            check_field(name, value)?;
            put(name, value);
        }
        Ok(fields)
    }

    fn has_field(&self, name: &str) -> bool {
        self.headers
            .iter()
            .any(|(said, _)| said.eq_ignore_ascii_case(name))
    }
}

/// Refuses an invalid header field, or one that contradicts the body.
fn check_field(name: &str, value: &str) -> Result<(), EngineError> {
    let refused = |what: &str, remedy: &str| {
        let message = format!("header {name:?}: {what}");
        Err(EngineError::request("header", message, remedy))
    };
    if HeaderName::from_bytes(name.as_bytes()).is_err() {
        return refused(
            "not a valid name of a header field",
            "use letters, digits and -",
        );
    }
    if HeaderValue::from_str(value).is_err() {
        return refused(
            "its value has a character that is not allowed",
            "use visible ASCII",
        );
    }
    let of_the_body = ["content-length", "transfer-encoding", "upgrade"];
    if of_the_body.iter().any(|own| name.eq_ignore_ascii_case(own)) {
        return refused("bw sets it", "give the length as body_bytes");
    }
    Ok(())
}
