//! The HTTP target's specification, its checks, and the bytes of its requests of HTTP/1.1.

use crate::http::HttpPlan;
use crate::labels::too_many;
use crate::net::plan::{PlanOptions, ServerPlan};
use crate::net::spec::{Connecting, server_spec};
use crate::net::tls::settings::HTTP_1_1;
use crate::recorded::{ReadTrace, RecordedSource};
use base64::Engine;
use bw_model::{EngineError, ExchangeAddress, Nanos};
use bw_protocol::check::{Check, Needle};
use bw_protocol::events::{EventFormat, EventSpec, Meaning};
use bw_protocol::grpc::Calls;
use bw_protocol::http1::{Body, Http1, Request, Requests};
use bw_protocol::streams::{StreamLimits, Streams};
use bw_protocol::values::ValueSpec;
use bw_protocol::{Protocol, Template, Values};
use bw_trace::requests::RecordedRequest;
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Method, Uri};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

server_spec! {
    /// The user's specification of the target.
    pub struct HttpSpec {
        /// `http://host[:port][/path]`, or the same with `https`; with `grpc` or `grpcs` the operations are calls of gRPC.
        pub url: String,
        /// The method; GET by default.
        #[serde(default = "get")]
        pub method: String,
        /// The paths to request: an operation's `offset` is an index into this. If only `/` or empty: the URL's path.
        #[serde(default)]
        pub paths: Vec<String>,
        /// Requests with labels, instead of the method, paths and body: an operation's `offset` is an index into this.
        #[serde(default)]
        pub requests: Vec<RequestSpec>,
        /// The values of their templates, by name.
        #[serde(default)]
        pub values: BTreeMap<String, ValueSpec>,
        /// More header fields of every request: name and value.
        #[serde(default)]
        pub headers: Vec<(String, String)>,
        /// The length of each request's body [bytes].
        #[serde(default)]
        pub body_bytes: u64,
        /// The version of HTTP.
        #[serde(default)]
        pub http: HttpVersion,
        /// The deadline that each call of gRPC has; None: none.
        #[serde(default)]
        pub deadline_ns: Option<Nanos>,
        /// Statuses of gRPC that are no errors beside OK.
        #[serde(default)]
        pub accepted: Vec<u8>,
        /// How responses are read as streams; None: they are not.
        #[serde(default)]
        pub events: Option<EventsSpec>,
    }
}

/// How responses are read as streams of events.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsSpec {
    /// How events are delimited.
    pub format: EventFormat,
    /// Whose they are.
    #[serde(default)]
    pub meaning: Meaning,
    /// Data of the event that ends a stream; None: as the meaning has it.
    #[serde(default)]
    pub end: Option<String>,
    /// Until when the first event with content must arrive, counted as `timeout_ns`; None: no limit.
    #[serde(default)]
    pub first_timeout_ns: Option<Nanos>,
    /// How long the next event with content, or the end, may take; None: no limit.
    #[serde(default)]
    pub gap_timeout_ns: Option<Nanos>,
}

impl EventsSpec {
    /// Returns the streams of one worker.
    pub(crate) fn streams(&self) -> Streams {
        let spec = EventSpec::new(self.format, self.meaning, self.end.as_deref());
        let limits = StreamLimits {
            first: self.first_timeout_ns,
            gap: self.gap_timeout_ns,
        };
        Streams::new(spec, limits)
    }
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

/// What requests without labels consist of, in all versions of HTTP.
pub(super) struct Unlabelled {
    pub(super) method: Method,
    pub(super) is_head: bool,
    pub(super) paths: Vec<String>,
    /// The header fields, Host among them.
    pub(super) fields: Vec<(String, String)>,
}

/// A request with a label in all versions of HTTP, all of it checked. Its path and the values of its fields are texts of
/// templates.
pub(super) struct Labelled {
    pub(super) method: Method,
    pub(super) path: String,
    /// The header fields, Host among them; Content-Length too, unless the body is a [`Body::Template`].
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Body,
    pub(super) check: Check,
}

/// A recorded request in all versions of HTTP.
pub(super) struct Recorded<'a> {
    pub(super) method: Method,
    /// Path and query, or `*`; perhaps not UTF-8.
    pub(super) target: &'a [u8],
    /// The header fields, Host and Content-Length among them.
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Body,
    pub(super) check: Check,
}

/// A request with a label. Its path, the values of its headers and its body are templates.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSpec {
    /// Its label in the result; requests with the same one count together.
    pub label: String,
    /// The method; GET by default.
    #[serde(default = "get")]
    pub method: String,
    /// The path.
    pub path: String,
    /// Header fields: name and value; they replace those of the target.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// The body.
    #[serde(default)]
    pub body: Option<String>,
    /// The body as bytes without places for values, in base64.
    #[serde(default)]
    pub body_base64: Option<String>,
    /// What the response must be.
    #[serde(default)]
    pub expect: ExpectSpec,
}

/// What a response must be; anything else is an error of its operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectSpec {
    /// Its status; None: any below 400.
    #[serde(default)]
    pub status: Option<u16>,
    /// A text that its body contains.
    #[serde(default)]
    pub contains: Option<String>,
    /// The least length of its body [bytes].
    #[serde(default)]
    pub min_bytes: u64,
}

fn get() -> String {
    "GET".into()
}

/// The parts of a URL.
pub(crate) struct ParsedUrl {
    /// Whether it is with TLS.
    pub(crate) tls: bool,
    /// Whether operations are calls of gRPC.
    pub(crate) is_grpc: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// As in the Host field.
    pub(crate) authority: String,
    pub(crate) path: String,
}

fn bad_url(url: &str, what: &str, remedy: &str) -> EngineError {
    EngineError::request("url", format!("url {url:?}: {what}"), remedy)
}

impl ParsedUrl {
    /// Returns the parts of a URL with one of these schemes, each second of them with TLS; `has_tls`: there are settings of
    /// TLS.
    ///
    /// # Errors
    /// `url`: it is none, or has what is not sent.
    pub(crate) fn parse(url: &str, schemes: &[&str], has_tls: bool) -> Result<Self, EngineError> {
        let bad_url = |what: &str, remedy: &str| bad_url(url, what, remedy);
        let form = |place: usize| format!("write it as {}://host:port/path", schemes[place]);
        let uri: Uri = url
            .parse()
            .map_err(|error| bad_url(&format!("{error}"), &form(0)))?;
        let scheme = uri.scheme_str().unwrap_or_default();
        let Some(place) = schemes.iter().position(|known| *known == scheme) else {
            return Err(bad_url(&format!("not an {} URL", schemes[0]), &form(0)));
        };
        let tls = place % 2 == 1;
        let default_port = if tls { 443 } else { 80 };
        if has_tls && !tls {
            return Err(bad_url("it has settings of TLS", &form(place + 1)));
        }
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            let remedy = "give the name and password as a header, Authorization";
            return Err(bad_url("a user name in the URL is not sent", remedy));
        }
        if url.contains('#') {
            return Err(bad_url("a fragment (#...) is not sent", "leave it out"));
        }
        let host = uri.host().unwrap_or_default();
        // "host:" and a port above 65535 both have a colon, and no port that fits.
        let port = match (uri.port_u16(), authority.len() == host.len()) {
            (Some(port), _) if port > 0 => port,
            (None, true) => default_port,
            _ => return Err(bad_url("no such port", "give one of 1 to 65535")),
        };
        Ok(Self {
            tls,
            is_grpc: matches!(scheme, "grpc" | "grpcs"),
            host: host.trim_matches(['[', ']']).into(),
            port,
            authority: authority.into(),
            path: uri
                .path_and_query()
                .map_or("/", PathAndQuery::as_str)
                .into(),
        })
    }
}

impl HttpSpec {
    /// Returns the plan for HTTP/1.1: everything checked, the requests made, the host resolved.
    ///
    /// # Errors
    /// `url`, `method`, `path`, `header`, `values`, `request`: bad input; and as
    /// [`Connecting::to`](crate::net::spec::Connecting::to) and
    /// [`TlsSpec::settings`](crate::net::tls::settings::TlsSpec::settings).
    pub fn plan(&self, options: PlanOptions) -> Result<HttpPlan, EngineError> {
        let server = self.server()?;
        let (requests, recorded) = if !options.traces.is_empty() {
            let (requests, recorded) = self.of_traces(&server, options.traces, recorded_request)?;
            (Requests::of(requests, Values::default()), recorded)
        } else if self.requests.is_empty() {
            (self.unlabelled(&server)?, Vec::new())
        } else {
            let (requests, values) = self.labelled(&server, &options, request)?;
            (Requests::of(requests, values), Vec::new())
        };
        let (count, requests) = (requests.count(), Arc::new(requests));
        let events = self.events.clone();
        let http = move |outstanding| {
            let http = Http1::new(Arc::clone(&requests), outstanding);
            http.with_streams(events.as_ref().map(EventsSpec::streams))
        };
        let plan = ServerPlan::new("http", self.connecting_to(&server, HTTP_1_1)?, http);
        Ok(self.described(plan.with_recorded(recorded), "1.1", count))
    }

    /// Returns where and how connections are made; `version`: the name in ALPN of the version of HTTP.
    pub(super) fn connecting_to(
        &self,
        server: &ParsedUrl,
        version: &'static str,
    ) -> Result<Connecting, EngineError> {
        let tls = if server.tls {
            let tls = self.tls.clone().unwrap_or_default();
            Some(tls.settings(&server.host, Some(version))?)
        } else {
            None
        };
        self.connecting(&server.host, server.port, tls)
    }

    /// Returns the plan with its version of HTTP and its number of requests.
    pub(super) fn described<P: Protocol>(
        &self,
        plan: ServerPlan<P>,
        version: &str,
        count: usize,
    ) -> ServerPlan<P> {
        let labels = self.requests.iter().map(|request| request.label.clone());
        plan.with_requests(count, labels.collect())
            .about("http", version)
    }

    /// Returns the requests of recorded traces, each made by `make`, and the traces with the places of their requests.
    pub(super) fn of_traces<R>(
        &self,
        server: &ParsedUrl,
        traces: Vec<ReadTrace>,
        make: impl Fn(Recorded<'_>) -> Result<R, EngineError>,
    ) -> Result<(Vec<R>, Vec<RecordedSource>), EngineError> {
        let mut requests = Vec::new();
        let mut sources = Vec::new();
        for trace in traces {
            let first = u32::try_from(requests.len()).unwrap_or(u32::MAX);
            for request in &trace.recorded.requests {
                requests.push(make(self.recorded(server, request)?)?);
            }
            sources.push(trace.source(first));
        }
        self.check_recorded(server, requests.len())?;
        Ok((requests, sources))
    }

    /// Refuses what cannot be read as streams.
    fn check_events(&self) -> Result<(), EngineError> {
        let Some(events) = &self.events else {
            return Ok(());
        };
        let refused = |message: &str, remedy: &str| {
            let message = format!("events: {message}");
            Err(EngineError::request("events", message, remedy).about("target.events"))
        };
        if events.format == EventFormat::WebSocket {
            return refused(
                "messages of WebSocket are for a target ws://",
                "use another format",
            );
        }
        if events.end.as_ref().is_some_and(String::is_empty) {
            return refused("the end mark is empty", "give the data of the last event");
        }
        let mut methods = self.requests.iter().map(|request| &request.method);
        if methods.any(|method| method == "HEAD") || self.method == "HEAD" {
            return refused("an answer to HEAD has no body", "use another method");
        }
        Ok(())
    }

    pub(super) fn server(&self) -> Result<ParsedUrl, EngineError> {
        self.check_events()?;
        let schemes = ["http", "https", "grpc", "grpcs"];
        let server = ParsedUrl::parse(&self.url, &schemes, self.tls.is_some())?;
        let bad_url = |what: &str, remedy: &str| Err(bad_url(&self.url, what, remedy));
        if server.is_grpc && self.http == HttpVersion::One {
            return bad_url("gRPC needs HTTP/2", "set http to \"2\"");
        }
        let mut methods = self.requests.iter().map(|one| &one.method);
        if server.is_grpc && (self.requests.is_empty() || methods.any(|method| method != "POST")) {
            let remedy = "add requests";
            return bad_url(
                "a call is a request with a label and the method POST",
                remedy,
            );
        }
        if (self.deadline_ns.is_some() || !self.accepted.is_empty()) && !server.is_grpc {
            let what = "it has a deadline or accepted statuses, which only gRPC has";
            return bad_url(what, "write grpc://");
        }
        Ok(server)
    }

    /// Returns what the requests without labels consist of, all of it checked.
    pub(super) fn parts(&self, server: &ParsedUrl) -> Result<Unlabelled, EngineError> {
        let method = method(&self.method)?;
        let mut fields = self.first_fields(server, &[]);
        if self.body_bytes > 0 || has_body(&method) {
            fields.push(("Content-Length".to_owned(), self.body_bytes.to_string()));
        }
        for (name, value) in &self.headers {
            check_field(name, value)?;
            fields.push((name.clone(), value.clone()));
        }
        let paths = self.targets(server)?;
        if paths.len() as u64 > ExchangeAddress::REQUESTS {
            let message = format!(
                "{} paths: at most {}",
                paths.len(),
                ExchangeAddress::REQUESTS
            );
            let remedy = "use a request whose path is a value, one of several lines";
            return Err(EngineError::request("path", message, remedy));
        }
        Ok(Unlabelled {
            is_head: method == Method::HEAD,
            method,
            paths,
            fields,
        })
    }

    /// Returns one request for each path.
    fn unlabelled(&self, server: &ParsedUrl) -> Result<Requests, EngineError> {
        let parts = self.parts(server)?;
        let (method, fields) = (parts.method, text_of(&parts.fields));
        let head = |path: &String| {
            let head = format!("{method} {path} HTTP/1.1\r\n{fields}\r\n");
            head.into_bytes().into_boxed_slice()
        };
        let heads = parts.paths.iter().map(head).collect();
        Ok(Requests::new(heads, self.body_bytes, parts.is_head))
    }

    /// Returns the requests with labels, each made by `make`, and the values of their templates.
    pub(super) fn labelled<R>(
        &self,
        server: &ParsedUrl,
        options: &PlanOptions,
        make: impl Fn(Labelled, &Values) -> Result<R, EngineError>,
    ) -> Result<(Vec<R>, Values), EngineError> {
        let refused = |what: &str, remedy: &str| {
            let message = format!("requests: {what}");
            Err(EngineError::request("request", message, remedy).about("target.requests"))
        };
        if let Some(what) = too_many(self.requests.iter().map(|one| &one.label)) {
            return refused(&what, "give requests the same label");
        }
        if server.path != "/" || !matches!(&self.paths[..], [] | [_]) {
            return refused(
                "there are paths too",
                "leave the path of the URL and the paths out: requests have their own",
            );
        }
        if self.body_bytes > 0 || self.method != get() {
            return refused(
                "the target has a method or a body too",
                "give them to the requests",
            );
        }
        let values = options.values(&self.values)?;
        let one = |(place, spec): (usize, &RequestSpec)| {
            let made = self.label(server, spec, &values);
            let made = made.and_then(|labelled| make(labelled, &values));
            made.map_err(|mut error| {
                error.message = format!("request {}: {}", spec.label, error.message);
                error.about(format!("target.requests[{place}]"))
            })
        };
        let requests = self.requests.iter().enumerate().map(one);
        Ok((requests.collect::<Result<_, _>>()?, values))
    }

    /// Returns what a request with a label consists of, all of it checked.
    fn label(
        &self,
        server: &ParsedUrl,
        spec: &RequestSpec,
        values: &Values,
    ) -> Result<Labelled, EngineError> {
        let wrong =
            |message: String, remedy: &str| EngineError::request("request", message, remedy);
        let template = |what, text| template(what, text, values);
        let method = method(&spec.method)?;
        let path = template("path", &spec.path)?;
        check_filled("path", &path, values, &check_path)?;
        let mut fields = self.first_fields(server, &spec.headers);
        let mut put = |name: &str, value: String| fields.push((name.to_owned(), value));
        let own = |name: &str| has_field(&spec.headers, name);
        let common = self.headers.iter().filter(|(name, _)| !own(name));
        for (name, value) in common {
            check_field(name, value)?;
            put(name, value.replace("${", "$${"));
        }
        for (name, value) in &spec.headers {
            let filled = template("header", value)?;
            check_filled("header", &filled, values, &|value| check_field(name, value))?;
            put(name, value.clone());
        }
        let body = match (&spec.body, &spec.body_base64) {
            (Some(_), Some(_)) => {
                let message = "it has a body and body_base64".to_owned();
                return Err(wrong(message, "leave one out"));
            }
            (Some(text), None) => {
                let body = template("body", text)?;
                match body.as_literal() {
                    Some(bytes) => Body::Bytes(bytes.into()),
                    None => Body::Template(body),
                }
            }
            (None, Some(text)) => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(text);
                let bytes = bytes.map_err(|error| {
                    wrong(
                        format!("body_base64: {error}"),
                        "encode the bytes as base64",
                    )
                })?;
                Body::Bytes(bytes.into())
            }
            (None, None) => Body::Filler(0),
        };
        let length = match &body {
            Body::Bytes(bytes) => Some(bytes.len()),
            Body::Filler(_) => has_body(&method).then_some(0),
            Body::Template(_) => None,
        };
        if let Some(length) = length.filter(|_| !server.is_grpc) {
            put("Content-Length", length.to_string());
        }
        Ok(Labelled {
            path: spec.path.clone(),
            fields,
            body,
            check: spec.expect.check(method == Method::HEAD)?,
            method,
        })
    }

    /// Refuses a target that has requests of its own beside recorded ones.
    fn check_recorded(&self, server: &ParsedUrl, count: usize) -> Result<(), EngineError> {
        let refused = |message: &str, remedy: &str| {
            let message = format!("url {:?}: {message}", self.url);
            Err(EngineError::request("url", message, remedy).about("target"))
        };
        let has_paths = server.path != "/" || self.paths.iter().any(|path| path != "/");
        if has_paths || !self.requests.is_empty() || self.body_bytes > 0 || self.method != get() {
            return refused(
                "a trace of requests has paths, methods and bodies of its own",
                "give the server alone: http://host:port/",
            );
        }
        if count as u64 > ExchangeAddress::REQUESTS {
            let message = format!("more than {} different requests", ExchangeAddress::REQUESTS);
            return refused(&message, "replay fewer of the traces, or a part (--for)");
        }
        self.headers
            .iter()
            .try_for_each(|(name, value)| check_field(name, value))
    }

    /// Returns what a recorded request consists of; fields of the target replace recorded ones.
    fn recorded<'a>(
        &self,
        server: &ParsedUrl,
        request: &'a RecordedRequest,
    ) -> Result<Recorded<'a>, EngineError> {
        let method = method(&request.method)?;
        let own = request.headers.iter();
        let own = own.filter(|(name, _)| !has_field(&self.headers, name));
        let own = own.map(|(name, value)| (name.to_string(), value.to_string()));
        let own: Vec<_> = own.collect();
        let mut fields = self.first_fields(server, &own);
        fields.extend(self.headers.iter().cloned());
        fields.extend(own);
        let body: Arc<[u8]> = request.body.clone().unwrap_or_default();
        if has_body(&method) || !body.is_empty() {
            fields.push(("Content-Length".to_owned(), body.len().to_string()));
        }
        Ok(Recorded {
            method,
            target: &request.target,
            fields,
            body: if body.is_empty() {
                Body::Filler(0)
            } else {
                Body::Bytes(body)
            },
            check: Check {
                recorded: request.status,
                ..Check::default()
            },
        })
    }

    /// Returns the fields that the engine sets unless the target's or these do.
    fn first_fields(&self, server: &ParsedUrl, own: &[(String, String)]) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        let mut put = |name: &str, value: &str| fields.push((name.to_owned(), value.to_owned()));
        let given = |name: &str| has_field(&self.headers, name) || has_field(own, name);
        if !given("host") {
            put("Host", &server.authority);
        }
        if !given("user-agent") {
            put("User-Agent", "benchwright");
        }
        if server.is_grpc {
            fields.splice(0..0, self.fields_of_calls());
        }
        fields
    }

    /// Returns the fields that each call of gRPC has.
    fn fields_of_calls(&self) -> Vec<(String, String)> {
        let deadline = self
            .deadline_ns
            .map(|limit| ("grpc-timeout", timeout_text(limit)));
        let others = [
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("grpc-accept-encoding", "identity"),
        ];
        let others = others.map(|(name, value)| (name, value.to_owned()));
        let all = deadline.into_iter().chain(others);
        all.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Returns how calls of gRPC are judged; None: the operations are none.
    pub(super) fn calls(&self, server: &ParsedUrl) -> impl Fn() -> Option<Calls> + use<> {
        let is_stream = self
            .events
            .as_ref()
            .is_some_and(|events| events.format == EventFormat::Grpc);
        let (is_grpc, has_deadline) = (server.is_grpc, self.deadline_ns.is_some());
        let accepted = self.accepted.clone();
        move || is_grpc.then(|| Calls::new(is_stream, has_deadline, &accepted))
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
        self.paths.iter().try_for_each(|path| check_path(path))?;
        Ok(self.paths.clone())
    }
}

impl ExpectSpec {
    /// Returns the check of a response; `is_head`: it has no body.
    fn check(&self, is_head: bool) -> Result<Check, EngineError> {
        let refused = |message: &str, remedy: &str| {
            let message = format!("expect: {message}");
            Err(EngineError::request("request", message, remedy))
        };
        if self
            .status
            .is_some_and(|status| !(200..1000).contains(&status))
        {
            return refused("no such status", "give one of 200 to 999");
        }
        if is_head && (self.contains.is_some() || self.min_bytes > 0) {
            return refused("a response to HEAD has no body", "expect a status only");
        }
        let contains = match &self.contains {
            None => None,
            Some(text) => match Needle::new(text.as_bytes()) {
                None => return refused("the text is longer than 64 KiB", "use a shorter one"),
                found => found,
            },
        };
        Ok(Check {
            status: self.status,
            contains,
            min_bytes: self.min_bytes,
            recorded: None,
        })
    }
}

/// Returns a recorded request of HTTP/1.1.
fn recorded_request(recorded: Recorded<'_>) -> Result<Request, EngineError> {
    let fields = text_of(&recorded.fields);
    let head = [
        recorded.method.as_str().as_bytes(),
        b" ",
        recorded.target,
        b" HTTP/1.1\r\n",
        fields.as_bytes(),
        b"\r\n",
    ];
    Ok(Request {
        head: Template::literal(&head.concat()),
        body: recorded.body,
        is_head: recorded.method == Method::HEAD,
        check: recorded.check,
    })
}

/// Returns a request of HTTP/1.1.
fn request(labelled: Labelled, values: &Values) -> Result<Request, EngineError> {
    let Labelled {
        method,
        path,
        fields,
        body,
        check,
    } = labelled;
    let end = match body {
        Body::Template(_) => "",
        _ => "\r\n",
    };
    let head = format!("{method} {path} HTTP/1.1\r\n{}{end}", text_of(&fields));
    Ok(Request {
        head: template("head", &head, values)?,
        body,
        is_head: method == Method::HEAD,
        check,
    })
}

/// Returns the template of a text; `what` it is.
pub(super) fn template(what: &str, text: &str, values: &Values) -> Result<Template, EngineError> {
    Template::parse(text, values).map_err(|error| {
        let message = format!("{what}: {error}");
        EngineError::request("request", message, "correct the text")
    })
}

/// Returns a time limit as the field `grpc-timeout` has it: at most eight digits and a unit, not below the limit.
fn timeout_text(limit: Nanos) -> String {
    const UNITS: [(u64, char); 4] = [
        (1, 'n'),
        (1000, 'u'),
        (1_000_000, 'm'),
        (1_000_000_000, 'S'),
    ];
    let numbers = UNITS.map(|(nanos, unit)| (limit.0.div_ceil(nanos), unit));
    let (number, unit) = numbers
        .into_iter()
        .find(|one| one.0 < 100_000_000)
        .unwrap_or((99_999_999, 'S'));
    format!("{number}{unit}")
}

/// Returns the method of this name.
fn method(name: &str) -> Result<Method, EngineError> {
    let remedy = "use GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH or a method of your server";
    let refused = |what: &str| {
        let message = format!("method {name:?}: {what}");
        EngineError::request("method", message, remedy)
    };
    let method =
        Method::from_bytes(name.as_bytes()).map_err(|_| refused("not a valid method name"))?;
    if matches!(method, Method::CONNECT) {
        return Err(refused("it opens a tunnel, which is not supported"));
    }
    Ok(method)
}

/// Returns whether a request with this method says how long its body is, even if it has none.
fn has_body(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH].contains(method)
}

pub(crate) fn has_field(fields: &[(String, String)], name: &str) -> bool {
    let mut names = fields.iter().map(|(name, _)| name);
    names.any(|other| other.eq_ignore_ascii_case(name))
}

fn put(fields: &mut String, name: &str, value: &str) {
    for text in [name, ": ", value, "\r\n"] {
        fields.push_str(text);
    }
}

/// Returns the lines of these fields.
fn text_of(fields: &[(String, String)]) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        put(&mut text, name, value);
    }
    text
}

/// Refuses a path that cannot be requested.
fn check_path(path: &str) -> Result<(), EngineError> {
    let sent = path.parse::<PathAndQuery>();
    if path.starts_with('/') && sent.is_ok_and(|sent| sent.as_str() == path) {
        return Ok(());
    }
    let message = format!("path {path:?}: it cannot be requested");
    let remedy = "start it with /, encode blanks and special characters (%20), and leave out #...";
    Err(EngineError::request("path", message, remedy))
}

/// Checks a template with each line that its places can have, one place at a time: other values consist of letters,
/// digits and `-`.
pub(super) fn check_filled(
    what: &str,
    template: &Template,
    values: &Values,
    check: &dyn Fn(&str) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    let filled = |place: Option<(usize, &str)>| {
        let text = template.text_with(values, place);
        String::from_utf8(text).map_err(|_| {
            let message = format!("{what}: a value is not UTF-8");
            EngineError::request("request", message, "use another value")
        })
    };
    check(&filled(None)?)?;
    for index in template.places() {
        let lines = values.lines(index).into_iter().flatten();
        for (number, line) in lines.enumerate() {
            let checked = filled(Some((index, line))).and_then(|text| check(&text));
            checked.map_err(|mut error| {
                let name = values.name(index);
                let line = number + 1;
                error.message = format!("{} (line {line} of value {name})", error.message);
                error
            })?;
        }
    }
    Ok(())
}

/// Refuses an invalid header field, or one that contradicts the body.
pub(crate) fn check_field(name: &str, value: &str) -> Result<(), EngineError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(fields: &str) -> HttpSpec {
        let json = format!(r#"{{"connections": 1, {fields}}}"#);
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn a_deadline_is_never_shorter_than_it_is() {
        let text = |nanos| timeout_text(Nanos(nanos));
        assert_eq!([text(1), text(99_999_999)], ["1n", "99999999n"]);
        assert_eq!(
            [text(100_000_001), text(500_000_000)],
            ["100001u", "500000u"]
        );
        assert_eq!(text(3_600_000_000_000), "3600000m");
        assert_eq!(text(u64::MAX), "99999999S");
    }

    #[test]
    fn calls_have_the_fields_of_grpc_first_and_no_length() {
        let spec = spec(
            r#""url": "grpc://127.0.0.1:1/", "http": "2", "deadline_ns": 500000000, "headers": [["tenant", "a"]],
            "requests": [{"label": "m", "method": "POST", "path": "/s/m", "body_base64": "AAAAAAA="}]"#,
        );
        let server = spec.server().unwrap();
        let values = Values::default();
        let call = spec.label(&server, &spec.requests[0], &values).unwrap();
        let names: Vec<_> = call.fields.iter().map(|(name, _)| name.as_str()).collect();
        let own = ["grpc-timeout", "te", "content-type", "grpc-accept-encoding"];
        assert_eq!(names[..4], own);
        assert_eq!(names[4..], ["Host", "User-Agent", "tenant"]);
        assert_eq!(call.fields[0].1, "500000u");
    }

    #[test]
    fn what_is_no_call_is_refused() {
        let call = r#""requests": [{"label": "m", "method": "POST", "path": "/s/m"}]"#;
        let refused = |fields: &str| spec(fields).server().is_err();
        assert!(!refused(&format!(
            r#""url": "grpc://h:1/", "http": "2", {call}"#
        )));
        assert!(refused(&format!(r#""url": "grpc://h:1/", {call}"#)));
        assert!(refused(r#""url": "grpc://h:1/", "http": "2""#));
        let get = call.replace("POST", "GET");
        assert!(refused(&format!(
            r#""url": "grpc://h:1/", "http": "2", {get}"#
        )));
        assert!(refused(r#""url": "http://h:1/", "deadline_ns": 1"#));
        assert!(refused(r#""url": "http://h:1/", "accepted": [5]"#));
    }
}
