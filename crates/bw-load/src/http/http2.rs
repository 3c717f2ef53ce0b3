//! A server of HTTP/2 as a target: its requests as fields, and the fields that HTTP/2 does not have.
//!
//! The version is what the user requests, never what a server offers: a load that is HTTP/2 on one server and HTTP/1.1
//! on another one cannot be compared. With https it is agreed on by ALPN; with http it is assumed (prior knowledge).
//! Sources: RFC 9113 (section 3.3 for prior knowledge, 8.2 for the fields).

use crate::http::Http2Plan;
use crate::http::request::{EventsSpec, HttpSpec, Labelled, Recorded, check_filled, template};
use crate::net::plan::{PlanOptions, ServerPlan};
use crate::net::tls::settings::HTTP_2;
use bw_model::EngineError;
use bw_protocol::http2::{Http2, Request, Requests};
use bw_protocol::{Template, Values};
use http::Method;
use std::sync::Arc;

impl HttpSpec {
    /// Returns the plan for HTTP/2: everything checked, the requests made, the host resolved.
    ///
    /// # Errors
    /// As [`HttpSpec::plan`]; `header` also for a field that HTTP/2 does not have.
    pub fn plan_http2(&self, options: PlanOptions) -> Result<Http2Plan, EngineError> {
        let server = self.server()?;
        let scheme = if server.tls { "https" } else { "http" };
        let (requests, recorded) = if !options.traces.is_empty() {
            for (name, value) in &self.headers {
                check_field(name, value)?;
            }
            let make = |recorded: Recorded<'_>| Ok(recorded_request(recorded, scheme));
            let (requests, recorded) = self.of_traces(&server, options.traces, make)?;
            (Requests::of(requests, Values::default()), recorded)
        } else if self.requests.is_empty() {
            let parts = self.parts(&server)?;
            for (name, value) in &parts.fields {
                check_field(name, value)?;
            }
            let fields = |path: &String| fields_of(&parts.method, scheme, path, &parts.fields);
            let requests: Vec<_> = parts.paths.iter().map(fields).collect();
            let requests = Requests::new(&requests, self.body_bytes, parts.is_head);
            (requests, Vec::new())
        } else {
            let make = |labelled: Labelled, values: &Values| request(labelled, scheme, values);
            let (requests, values) = self.labelled(&server, &options, make)?;
            (Requests::of(requests, values), Vec::new())
        };
        let (count, requests) = (requests.count(), Arc::new(requests));
        let events = self.events.clone();
        let calls = self.calls(&server);
        let http = move |outstanding| {
            let http = Http2::new(Arc::clone(&requests), outstanding).with_calls(calls());
            http.with_streams(events.as_ref().map(EventsSpec::streams))
        };
        let plan = ServerPlan::new("http", self.connecting_to(&server, HTTP_2)?, http);
        Ok(self.described(plan.with_recorded(recorded), "2", count))
    }
}

/// Returns a recorded request. Reading the trace removed the fields that HTTP/2 does not have, and the blanks around
/// values; the path may be bytes that are not UTF-8.
fn recorded_request(recorded: Recorded<'_>, scheme: &str) -> Request {
    let others = fields_of(&recorded.method, scheme, "", &recorded.fields);
    let literal = |name: &str, value: &[u8]| (name.to_owned(), Template::literal(value));
    let fields = others.iter().map(|(name, value)| match name.as_str() {
        ":path" => literal(name, recorded.target),
        name => literal(name, value.as_bytes()),
    });
    Request {
        fields: fields.collect(),
        body: recorded.body,
        is_head: recorded.method == Method::HEAD,
        check: recorded.check,
    }
}

/// Returns a request with a label.
fn request(labelled: Labelled, scheme: &str, values: &Values) -> Result<Request, EngineError> {
    let Labelled {
        method,
        path,
        fields,
        body,
        check,
    } = labelled;
    for (name, value) in &fields {
        let value = template("header", value, values)?;
        check_filled("header", &value, values, &|value| check_field(name, value))?;
    }
    let fields = fields_of(&method, scheme, &path, &fields).into_iter();
    let fields = fields.map(|(name, value)| Ok((name, template("header", &value, values)?)));
    Ok(Request {
        fields: fields.collect::<Result<_, EngineError>>()?,
        body,
        is_head: method == Method::HEAD,
        check,
    })
}

/// Returns the fields of a request, those with a colon first: Host is one of those.
fn fields_of(
    method: &Method,
    scheme: &str,
    path: &str,
    fields: &[(String, String)],
) -> Vec<(String, String)> {
    let is_host = |name: &str| name.eq_ignore_ascii_case("host");
    let host = fields.iter().rfind(|(name, _)| is_host(name));
    let first = [
        (":method", method.as_str()),
        (":scheme", scheme),
        (":authority", host.map_or("", |(_, value)| value)),
        (":path", path),
    ];
    let first = first.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let others = fields.iter().filter(|(name, _)| !is_host(name));
    let others = others.map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    first.into_iter().chain(others).collect()
}

/// Refuses a field that HTTP/2 does not have: one about the connection, or a value that begins or ends with a blank.
fn check_field(name: &str, value: &str) -> Result<(), EngineError> {
    let of_the_connection = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "http2-settings",
    ];
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    let what = if of_the_connection.into_iter().any(is) || is("te") && value != "trailers" {
        "HTTP/2 does not have it"
    } else if value.trim_matches([' ', '\t']) != value {
        "its value begins or ends with a blank, which HTTP/2 does not allow"
    } else {
        return Ok(());
    };
    let message = format!("header {name:?}: {what}");
    let remedy = "leave it out, or use HTTP/1.1 (--http 1.1)";
    Err(EngineError::request("header", message, remedy))
}
