//! A server of WebSocket as a target: an operation is one message and what answers it (see [`bw_protocol::websocket`]).

use crate::http::request::{EventsSpec, ParsedUrl, check_field, has_field};
use crate::labels;
use crate::net::Network;
use crate::net::plan::{PlanOptions, ServerPlan};
use crate::net::spec::server_spec;
use crate::net::tls::settings::HTTP_1_1;
use crate::payload::{self, PayloadSpec};
use bw_model::EngineError;
use bw_protocol::events::{EventFormat, Meaning};
use bw_protocol::payload::Prefix;
use bw_protocol::values::ValueSpec;
use bw_protocol::websocket::{Answers, EndMark, Expected, Messages, Pointer, Upgrade, WebSocket};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most bytes of a message that is sent.
const MOST_BYTES: usize = 1 << 30;

server_spec! {
    /// The user's specification of the target.
    pub struct WebSocketSpec {
        /// `ws://host[:port][/path]`, or the same with `wss`.
        pub url: String,
        /// More header fields of the upgrade: name and value.
        #[serde(default)]
        pub headers: Vec<(String, String)>,
        /// The subprotocols that are offered, the preferred one first.
        #[serde(default)]
        pub subprotocols: Vec<String>,
        /// What operations send: an operation's `offset` is an index into this. A text is a text message, all others are
        /// binary. Empty: as many bytes as the operation has, which must come back.
        #[serde(default)]
        pub payloads: Vec<PayloadSpec>,
        /// The labels of the payloads, in order; empty: they have none.
        #[serde(default)]
        pub labels: Vec<String>,
        /// The values of their templates, by name.
        #[serde(default)]
        pub values: BTreeMap<String, ValueSpec>,
        /// Which messages are answers: `next`, `none`, a JSON pointer such as `/id`, or `hex:` and the digits of what they
        /// begin with; `??` is any byte.
        #[serde(default = "next")]
        pub answer: String,
        /// What an answer begins with, as hexadecimal digits; `??` is any byte.
        #[serde(default)]
        pub expect: Option<String>,
        /// The most bytes of a message of the server.
        #[serde(default = "message_bytes")]
        pub message_bytes: u64,
        /// How answers of several messages are read; None: an answer is one message.
        #[serde(default)]
        pub events: Option<EventsSpec>,
    }
}

fn next() -> String {
    "next".to_owned()
}

/// As much as the largest limit of a server that is usual (Node's ws has 100 MiB).
fn message_bytes() -> u64 {
    100 << 20
}

/// The plan of a load on a server of WebSocket.
pub type WebSocketPlan = ServerPlan<WebSocket>;

/// A server of WebSocket as one worker's target.
pub type WebSocketTarget = Network<WebSocket>;

impl WebSocketSpec {
    /// Returns the plan, with the addresses of the host.
    ///
    /// # Errors
    /// `url`, `header`, `subprotocol`, `payload`, `labels`, `values`, `answer`, `expect`, `events`: bad input; and as
    /// [`Connecting::to`](crate::net::spec::Connecting::to) and
    /// [`TlsSpec::settings`](crate::net::tls::settings::TlsSpec::settings).
    pub fn plan(&self, options: PlanOptions) -> Result<WebSocketPlan, EngineError> {
        let server = ParsedUrl::parse(&self.url, &["ws", "wss"], self.tls.is_some())?;
        let upgrade = Arc::new(self.upgrade(&server)?);
        let values = options.values(&self.values)?;
        let payloads = payload::payloads(&self.payloads, &values, MOST_BYTES)?;
        labels::check(&self.labels, payloads.len())?;
        let messages = Arc::new(Messages::new(payloads, values));
        let expected = Arc::new(self.expected(&messages)?);
        let tls = match server.tls {
            true => {
                let tls = self.tls.clone().unwrap_or_default();
                Some(tls.settings(&server.host, Some(HTTP_1_1))?)
            }
            false => None,
        };
        let connecting = self.connecting(&server.host, server.port, tls)?;
        let (count, events) = (messages.count(), self.events.clone());
        let websocket = move |outstanding| {
            let upgrade = Arc::clone(&upgrade);
            let messages = Arc::clone(&messages);
            let expected = Arc::clone(&expected);
            let websocket = WebSocket::new(upgrade, messages, expected, outstanding);
            websocket.with_streams(events.as_ref().map(EventsSpec::streams))
        };
        let plan = ServerPlan::new("websocket", connecting, websocket);
        Ok(plan.with_requests(count, self.labels.clone()))
    }

    fn upgrade(&self, server: &ParsedUrl) -> Result<Upgrade, EngineError> {
        let mut fields = Vec::new();
        let own = [
            ("Host", server.authority.as_str()),
            ("User-Agent", "benchwright"),
        ];
        for (name, value) in own {
            if !has_field(&self.headers, name) {
                fields.push((name.to_owned(), value.to_owned()));
            }
        }
        for (name, value) in &self.headers {
            check_field(name, value)?;
            let lower = name.to_ascii_lowercase();
            if lower == "connection" || lower.starts_with("sec-websocket-") {
                let message = format!("header {name:?}: bw sets it");
                let remedy = "leave it out; subprotocols are a key of their own";
                return Err(EngineError::request("header", message, remedy));
            }
            fields.push((name.clone(), value.clone()));
        }
        let is_token = |name: &String| http::HeaderName::from_bytes(name.as_bytes()).is_ok();
        if let Some(wrong) = self.subprotocols.iter().find(|name| !is_token(name)) {
            let message = format!("subprotocol {wrong:?}: it is no token of HTTP");
            let remedy = "use letters, digits, . and -";
            return Err(EngineError::request("subprotocol", message, remedy));
        }
        Ok(Upgrade::new(
            &server.path,
            &fields,
            self.subprotocols.clone(),
        ))
    }

    fn expected(&self, messages: &Messages) -> Result<Expected, EngineError> {
        let wrong = |code: &'static str, message: String, remedy: &str| {
            let field = format!("target.{code}");
            EngineError::request(code, format!("{code}: {message}"), remedy).about(field)
        };
        let prefix = |code, digits: &str| {
            Prefix::parse(digits).map_err(|message| wrong(code, message, "correct the digits"))
        };
        let answers = match &*self.answer {
            "next" => Answers::Next,
            "none" => Answers::None,
            other => match other.strip_prefix("hex:") {
                Some(digits) => Answers::Prefix(prefix("answer", digits)?),
                None => Answers::Member(Pointer::parse(other).map_err(|message| {
                    wrong(
                        "answer",
                        message,
                        "write next, none, or a pointer such as /id",
                    )
                })?),
            },
        };
        if let Answers::Member(pointer) = &answers {
            let place = match self.payloads.is_empty() {
                true => Some(0),
                false => messages.without(pointer),
            };
            if let Some(place) = place {
                let message = format!("message {} has no member {}", place + 1, self.answer);
                let remedy = "give the message such a member, with a value such as a counter";
                return Err(wrong("answer", message, remedy));
            }
        }
        let expect = self.expect.as_deref();
        let expect = expect.map(|digits| prefix("expect", digits)).transpose()?;
        if self.expect.is_some() && matches!(answers, Answers::None) {
            let message = "no answer is awaited".to_owned();
            return Err(wrong("expect", message, "leave it out"));
        }
        Ok(Expected {
            end: self.end_mark(&answers)?,
            answers,
            prefix: expect.unwrap_or_default(),
            most_bytes: self.message_bytes,
        })
    }

    fn end_mark(&self, answers: &Answers) -> Result<Option<EndMark>, EngineError> {
        let Some(events) = &self.events else {
            return Ok(None);
        };
        let wrong = |message: &str, remedy: &str| {
            let message = format!("events: {message}");
            Err(EngineError::request("events", message, remedy).about("target.events"))
        };
        if events.format != EventFormat::WebSocket || events.meaning != Meaning::Plain {
            let remedy = "use the format websocket, without the meaning of a language model";
            return wrong("messages of WebSocket are read as they are", remedy);
        }
        if self.expect.is_some() || self.payloads.is_empty() || matches!(answers, Answers::None) {
            let remedy = "give messages, and leave out expect and answer = \"none\"";
            return wrong("an answer of several messages belongs to a message", remedy);
        }
        let mark = events.end.as_deref().unwrap_or_default();
        let mark = match mark.strip_prefix('/').and_then(|rest| rest.split_once('=')) {
            Some((name, value)) => match Pointer::parse(&format!("/{name}")) {
                Ok(pointer) => EndMark::Member(pointer, value.as_bytes().into()),
                Err(message) => return wrong(&message, "correct the end mark"),
            },
            None => EndMark::Text(mark.as_bytes().into()),
        };
        match (&mark, answers) {
            (EndMark::Text(text), _) if text.is_empty() => {
                let remedy = "give the text of the last message, or /NAME=VALUE of a member of it";
                wrong("there is no end mark", remedy)
            }
            (EndMark::Text(_), Answers::Member(_)) => {
                let remedy =
                    "write /NAME=VALUE, a member of the last message beside its identifier";
                wrong(
                    "an end mark that is the whole message has no identifier",
                    remedy,
                )
            }
            _ => Ok(Some(mark)),
        }
    }
}
