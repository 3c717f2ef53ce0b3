//! Recorded HTTP requests: the table of the different requests of a trace, and a whole trace as times and indexes.
//!
//! A parser gives the parts of each recorded request to a [`RequestTable`]; an operation has the request's index as its
//! offset. The table decides what may be sent: only safe methods unless the user wants all, no header of the connection
//! between the client and the server that was recorded, and no credentials unless the user wants them.
//!
//! Decision: each different request is stored once, and a recorded request is a time and an index, so a log of a million
//! lines needs 16 MB and its different requests. Rejected: a request for each line; a second pass over the file, which
//! may have grown meanwhile, or is a pipe. Sources: RFC 9110, sections 7.6.1 (hop-by-hop fields) and 9.2.1 (safe methods).

use crate::input::{RequestCounts, TraceInput};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of different requests: an operation has no room for more.
const MOST_REQUESTS: usize = 1 << 24;

/// Methods that change nothing on a server.
const SAFE_METHODS: [&str; 3] = ["GET", "HEAD", "OPTIONS"];

/// Maximum number of kinds of records without a request that can be sent.
const MOST_KINDS: usize = 16;
/// Names of such kinds.
const NO_REQUEST: &str = "no request";
const INVALID: &str = "an invalid request";

/// Methods whose requests usually have a body.
const METHODS_WITH_BODY: [&str; 3] = ["POST", "PUT", "PATCH"];

/// Fields of one connection, and those that the engine sets itself.
const OWN_FIELDS: [&str; 12] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields that give the right to do something.
const CREDENTIALS: [&str; 9] = [
    "authorization",
    "cookie",
    "cookie2",
    "proxy-authorization",
    "x-amz-security-token",
    "x-api-key",
    "x-auth-token",
    "x-csrf-token",
    "x-xsrf-token",
];

/// One request as it is sent, without the fields that the engine sets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordedRequest {
    /// The method.
    pub method: Box<str>,
    /// Path and query, or `*`; without blanks and control characters.
    pub target: Box<[u8]>,
    /// Valid fields.
    pub headers: Box<[(Box<str>, Box<str>)]>,
    /// The body; None: none was recorded.
    pub body: Option<Arc<[u8]>>,
    /// The status of the recorded response if it was 400 or more: the same one is no error.
    pub status: Option<u16>,
}

/// The body of a recorded request.
#[derive(Debug)]
pub(crate) struct RecordedBody {
    pub bytes: Vec<u8>,
    /// Whether the trace states other lengths.
    pub has_other_length: bool,
}

/// The parts of a recorded request, as a parser finds them.
#[derive(Debug, Default)]
pub(crate) struct RecordedParts {
    pub method: Vec<u8>,
    /// In any form.
    pub target: Vec<u8>,
    pub headers: Vec<(String, String)>,
    pub body: Option<RecordedBody>,
    /// Whether there was a body that the trace describes, but whose bytes cannot be made of that.
    pub has_lost_body: bool,
    pub status: Option<u16>,
    /// Whether the stamp is a whole second.
    pub whole_second: bool,
}

/// The different requests of a trace.
#[derive(Debug, Default)]
pub(crate) struct RequestTable {
    unsafe_methods: bool,
    credentials: bool,
    index: HashMap<Arc<RecordedRequest>, u32>,
    requests: Vec<Arc<RecordedRequest>>,
    counts: RequestCounts,
}

/// A table that the parsers of several files share.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedRequests(Arc<Mutex<RequestTable>>);

impl SharedRequests {
    /// Returns an empty table with the policies of `input`.
    pub(crate) fn new(input: &TraceInput) -> Self {
        Self(Arc::new(Mutex::new(RequestTable {
            unsafe_methods: input.unsafe_methods,
            credentials: input.credentials,
            ..RequestTable::default()
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, RequestTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestTable {
    /// Returns the index of a request, new or known; None if it is not replayed, which is counted.
    ///
    /// Errors: what is malformed.
    pub(crate) fn add(&mut self, parts: RecordedParts) -> Result<Option<u32>, String> {
        let method = String::from_utf8(parts.method).ok();
        let method = method.filter(|method| is_token(method));
        let target = origin_form(&parts.target);
        let is_request = |method: &str, target: &[u8]| {
            method != "CONNECT" && (target != b"*" || method == "OPTIONS")
        };
        let (method, target) = match (method, target) {
            (Some(method), Some(target)) if is_request(&method, &target) => (method, target),
            (method, _) => {
                self.skip(unsendable(method.as_deref(), &parts.target));
                return Ok(None);
            }
        };
        if !self.unsafe_methods && !SAFE_METHODS.contains(&method.as_str()) {
            self.counts.unsafe_methods += 1;
            return Ok(None);
        }
        if parts.has_lost_body {
            self.counts.lost_bodies += 1;
            return Ok(None);
        }
        let (headers, had_credentials) = self.headers(&parts.headers)?;
        self.counts.credentials += u64::from(had_credentials);
        let has_body = METHODS_WITH_BODY.contains(&method.as_str());
        self.counts.without_body += u64::from(has_body && parts.body.is_none());
        let other_length = parts
            .body
            .as_ref()
            .is_some_and(|body| body.has_other_length);
        self.counts.other_lengths += u64::from(other_length);
        self.counts.whole_seconds += u64::from(parts.whole_second);
        let request = RecordedRequest {
            method: method.into(),
            target: target.into(),
            headers,
            body: parts.body.map(|body| body.bytes.into()),
            status: parts.status.filter(|status| (400..600).contains(status)),
        };
        self.index_of(request).map(Some)
    }

    /// Counts a record that has no request that can be sent.
    fn skip(&mut self, what: String) {
        let kinds = &mut self.counts.unsendable;
        // A hostile trace may have any number of schemes.
        let is_known = kinds.len() < MOST_KINDS || kinds.contains_key(&what);
        let what = if is_known { what } else { INVALID.to_owned() };
        *kinds.entry(what).or_default() += 1;
        self.counts.unreplayable += 1;
    }

    fn index_of(&mut self, request: RecordedRequest) -> Result<u32, String> {
        if let Some(index) = self.index.get(&request) {
            return Ok(*index);
        }
        if self.requests.len() >= MOST_REQUESTS {
            return Err(format!("more than {MOST_REQUESTS} different requests"));
        }
        // Below 2^24.
        #[allow(clippy::cast_possible_truncation)]
        let index = self.requests.len() as u32;
        let request = Arc::new(request);
        self.requests.push(Arc::clone(&request));
        self.index.insert(request, index);
        self.counts.distinct += 1;
        Ok(index)
    }

    /// Returns the fields that are sent, and whether there were credentials that are not.
    #[allow(clippy::type_complexity)]
    fn headers(
        &self,
        recorded: &[(String, String)],
    ) -> Result<(Box<[(Box<str>, Box<str>)]>, bool), String> {
        let mut named: Vec<String> = Vec::new();
        for (name, value) in recorded {
            if name.eq_ignore_ascii_case("connection") {
                named.extend(value.split(',').map(|name| name.trim().to_lowercase()));
            }
        }
        let mut had_credentials = false;
        let mut sent = Vec::new();
        for (name, value) in recorded {
            let lower = name.to_ascii_lowercase();
            // HTTP/2's pseudo fields are recorded as fields by browsers.
            if lower.starts_with(':')
                || OWN_FIELDS.contains(&lower.as_str())
                || named.contains(&lower)
            {
                continue;
            }
            if !self.credentials && CREDENTIALS.contains(&lower.as_str()) {
                had_credentials = true;
                continue;
            }
            if !is_token(name) {
                return Err(format!("the name of the header {name:?} is invalid"));
            }
            if value
                .bytes()
                .any(|byte| (byte < b' ' && byte != b'\t') || byte == 0x7f)
            {
                return Err(format!("the header {name} has a control character"));
            }
            sent.push((name.as_str().into(), value.trim().into()));
        }
        Ok((sent.into(), had_credentials))
    }

    /// Returns the request with an index.
    pub(crate) fn get(&self, index: u64) -> Option<Arc<RecordedRequest>> {
        let index = usize::try_from(index).ok()?;
        self.requests.get(index).map(Arc::clone)
    }

    /// Returns the counts so far.
    pub(crate) fn counts(&self) -> RequestCounts {
        self.counts.clone()
    }
}

/// Returns whether `text` is a token of RFC 9110: a method, or the name of a field.
fn is_token(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

/// Returns path and query of a target in any form, `*` as it is; None if it cannot be sent.
fn origin_form(target: &[u8]) -> Option<Vec<u8>> {
    let end = target.iter().position(|byte| *byte == b'#');
    let target = &target[..end.unwrap_or(target.len())];
    if target.is_empty() || target.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
        return None;
    }
    if target == b"*" || target[0] == b'/' {
        return Some(target.to_vec());
    }
    let rest = after_scheme(target)?;
    let authority = rest.iter().position(|byte| b"/?".contains(byte));
    let path = &rest[authority.unwrap_or(rest.len())..];
    let mut whole = Vec::with_capacity(path.len() + 1);
    if path.first() != Some(&b'/') {
        whole.push(b'/');
    }
    whole.extend_from_slice(path);
    Some(whole)
}

/// Returns what a record without a request that can be sent has in its place: `data:`, `CONNECT`, no request, or an
/// invalid one.
fn unsendable(method: Option<&str>, target: &[u8]) -> String {
    if target.is_empty() {
        return NO_REQUEST.to_owned();
    }
    if method == Some("CONNECT") {
        return "CONNECT".to_owned();
    }
    let scheme = target
        .split(|byte| *byte == b':')
        .next()
        .unwrap_or_default();
    let is_scheme = scheme.len() < target.len()
        && scheme.len() <= 32
        && scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && after_scheme(target).is_none()
        && scheme
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
    match std::str::from_utf8(scheme) {
        Ok(scheme) if is_scheme => format!("{}:", scheme.to_ascii_lowercase()),
        _ => INVALID.to_owned(),
    }
}

fn after_scheme(url: &[u8]) -> Option<&[u8]> {
    ["http://", "https://"].into_iter().find_map(|scheme| {
        let start = url.get(..scheme.len())?;
        start
            .eq_ignore_ascii_case(scheme.as_bytes())
            .then_some(&url[scheme.len()..])
    })
}

/// Returns the authority of an absolute URL, without a user's name.
pub(crate) fn authority(url: &[u8]) -> Option<&[u8]> {
    let rest = after_scheme(url)?;
    let end = rest.iter().position(|byte| b"/?#".contains(byte));
    let authority = &rest[..end.unwrap_or(rest.len())];
    let user = authority.iter().rposition(|byte| *byte == b'@');
    Some(&authority[user.map_or(0, |at| at + 1)..])
}

impl SharedRequests {
    /// Returns the requests, by index, and empties the table.
    pub(crate) fn take(&self) -> Vec<Arc<RecordedRequest>> {
        let mut table = self.lock();
        table.index = HashMap::new();
        std::mem::take(&mut table.requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(method: &str, target: &str) -> RecordedParts {
        RecordedParts {
            method: method.into(),
            target: target.into(),
            ..RecordedParts::default()
        }
    }

    #[test]
    fn targets_become_path_and_query() {
        let form = |target: &str| {
            origin_form(target.as_bytes()).map(|form| String::from_utf8(form).unwrap())
        };
        assert_eq!(form("/a?b=c#d").as_deref(), Some("/a?b=c"));
        assert_eq!(form("HTTP://h:80/a?b").as_deref(), Some("/a?b"));
        assert_eq!(form("https://h").as_deref(), Some("/"));
        assert_eq!(form("https://h?q").as_deref(), Some("/?q"));
        for bad in ["", "h:443", "/a b", "/a\r\nX: y", "data:text/plain,x", "#x"] {
            assert_eq!(form(bad), None, "{bad:?}");
        }
        assert_eq!(authority(b"https://me@h:1/x"), Some(&b"h:1"[..]));
    }

    #[test]
    fn equal_requests_have_one_index_and_what_is_skipped_is_counted() {
        let mut table = RequestTable::default();
        let mut add = |method: &str, target: &str| table.add(parts(method, target)).unwrap();
        assert_eq!(add("GET", "/a"), Some(0));
        assert_eq!(add("HEAD", "/a"), Some(1));
        assert_eq!(add("GET", "http://h/a"), Some(0));
        assert_eq!(add("OPTIONS", "*"), Some(2));
        for skipped in [("POST", "/a"), ("TRACE", "/")] {
            assert_eq!(add(skipped.0, skipped.1), None);
        }
        for skipped in [("CONNECT", "h:443"), ("GET", "*"), ("-", ""), ("G T", "/")] {
            assert_eq!(add(skipped.0, skipped.1), None);
        }
        let counts = table.counts();
        assert_eq!(
            (counts.distinct, counts.unsafe_methods, counts.unreplayable),
            (3, 2, 4)
        );
    }

    #[test]
    fn neither_credentials_nor_fields_of_a_connection_are_sent() {
        let headers = [
            ("Cookie", "secret=1"),
            ("AUTHORIZATION", "Bearer secret"),
            ("Connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("Host", "elsewhere"),
            (":authority", "elsewhere"),
            ("Accept", " text/html "),
        ];
        let request = |credentials: bool| {
            let mut table = RequestTable {
                credentials,
                ..RequestTable::default()
            };
            let owned = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let parts = RecordedParts {
                headers: owned.into(),
                ..parts("GET", "/")
            };
            table.add(parts).unwrap();
            (
                table.requests[0].headers.clone(),
                table.counts().credentials,
            )
        };
        let (sent, without) = request(false);
        assert_eq!(*sent, [("Accept".into(), "text/html".into())]);
        assert_eq!(without, 1);
        let (sent, without) = request(true);
        let names: Vec<&str> = sent.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["Cookie", "AUTHORIZATION", "Accept"]);
        assert_eq!(without, 0);
    }

    #[test]
    fn a_header_that_would_be_another_line_is_malformed() {
        let mut table = RequestTable::default();
        for (name, value) in [("A", "b\r\nC: d"), ("A b", "c"), ("", "c")] {
            let parts = RecordedParts {
                headers: vec![(name.to_owned(), value.to_owned())],
                ..parts("GET", "/")
            };
            assert!(table.add(parts).is_err(), "{name:?}");
        }
    }

    #[test]
    fn unsafe_methods_are_replayed_on_request_and_bodies_that_are_missing_are_counted() {
        let mut table = RequestTable {
            unsafe_methods: true,
            ..RequestTable::default()
        };
        assert_eq!(table.add(parts("POST", "/")).unwrap(), Some(0));
        let with_body = RecordedParts {
            body: Some(RecordedBody {
                bytes: b"x".to_vec(),
                has_other_length: false,
            }),
            status: Some(404),
            ..parts("POST", "/")
        };
        assert_eq!(table.add(with_body).unwrap(), Some(1));
        assert_eq!(table.counts().without_body, 1);
        assert_eq!(table.requests[1].status, Some(404));
    }
}
