//! The handshake: an HTTP/1.1 request with which a connection becomes one of WebSocket, and its response. Source: RFC 6455,
//! section 4.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bw_record::errno::{WEBSOCKET_ERROR, websocket_refused};
use httparse::{EMPTY_HEADER, Header, Status};
use ring::digest;

/// The most bytes of the response's head. No server needs more; the connection is not used yet, so they are stored.
const HEAD_BYTES: usize = 64 * 1024;
/// The most fields of the response.
const FIELDS: usize = 128;
/// Random bytes of the key.
const KEY_BYTES: usize = 16;
/// What the server adds to the key before it hashes it.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The request, without the key and the empty line.
#[derive(Clone, Debug)]
pub struct Upgrade {
    head: Box<[u8]>,
    subprotocols: Vec<String>,
}

/// What the response has come to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// It is not whole.
    More,
    /// The connection is one of WebSocket; its frames begin behind so many bytes.
    Accepted { used: usize },
    /// It is none: the result of what waits for it, and why.
    Refused { result: i32, what: String },
}

impl Upgrade {
    /// Returns the upgrade at a path with these header fields, Host among them; the server may choose one of the
    /// subprotocols.
    #[must_use]
    pub fn new(path: &str, fields: &[(String, String)], subprotocols: Vec<String>) -> Self {
        let mut head = format!("GET {path} HTTP/1.1\r\n");
        let mut put = |name: &str, value: &str| {
            head.push_str(&format!("{name}: {value}\r\n"));
        };
        for (name, value) in fields {
            put(name, value);
        }
        put("Upgrade", "websocket");
        put("Connection", "Upgrade");
        put("Sec-WebSocket-Version", "13");
        if !subprotocols.is_empty() {
            put("Sec-WebSocket-Protocol", &subprotocols.join(", "));
        }
        Self {
            head: head.into_bytes().into(),
            subprotocols,
        }
    }

    /// Returns the request with the key of these random bytes, and what the server must answer to it.
    pub(super) fn request(&self, random: [u8; KEY_BYTES]) -> (Vec<u8>, String) {
        let key = STANDARD.encode(random);
        let field = format!("Sec-WebSocket-Key: {key}\r\n\r\n");
        let request = [&self.head, field.as_bytes()].concat();
        let keyed = [key.as_bytes(), GUID].concat();
        let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &keyed);
        (request, STANDARD.encode(hash))
    }

    /// Reads the head so far of the response.
    pub(super) fn answered(&self, head: &[u8], accept: &str) -> Answered {
        let mut fields = [EMPTY_HEADER; FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let used = match response.parse(head) {
            Ok(Status::Complete(used)) => used,
            Ok(Status::Partial) if head.len() < HEAD_BYTES => return Answered::More,
            _ => return wrong("its answer to the upgrade is not HTTP"),
        };
        let status = response.code.unwrap_or_default();
        if status != 101 && (100..200).contains(&status) {
            return match self.answered(&head[used..], accept) {
                Answered::Accepted { used: more } => Answered::Accepted { used: used + more },
                other => other,
            };
        }
        if status != 101 {
            let reason = response.reason.unwrap_or_default();
            let what = format!("upgrade refused {status} {reason}");
            return Answered::Refused {
                result: websocket_refused(status),
                what: what.trim_end().to_owned(),
            };
        }
        self.check(response.headers, accept)
            .map_or(Answered::Accepted { used }, wrong)
    }

    /// Returns why the fields of a response with status 101 open no connection; None: they do.
    fn check(&self, fields: &[Header<'_>], accept: &str) -> Option<&'static str> {
        let values = |name: &'static str| {
            let own = fields
                .iter()
                .filter(move |field| field.name.eq_ignore_ascii_case(name));
            own.map(|field| String::from_utf8_lossy(field.value).trim().to_owned())
        };
        let has = |name, token: &str| {
            values(name).any(|value| {
                let mut tokens = value.split(',');
                tokens.any(|one| one.trim().eq_ignore_ascii_case(token))
            })
        };
        if !has("upgrade", "websocket") || !has("connection", "upgrade") {
            return Some("its answer to the upgrade does not upgrade to websocket");
        }
        if values("sec-websocket-accept").ne([accept]) {
            return Some("its answer to the upgrade does not fit the key (Sec-WebSocket-Accept)");
        }
        if values("sec-websocket-extensions").any(|value| !value.is_empty()) {
            return Some("it uses an extension that was not offered (Sec-WebSocket-Extensions)");
        }
        let chosen: Vec<_> = values("sec-websocket-protocol").collect();
        let is_offered = |chosen: &String| self.subprotocols.contains(chosen);
        match &chosen[..] {
            [] => None,
            [one] if is_offered(one) => None,
            _ => Some("it chose a subprotocol that was not offered (Sec-WebSocket-Protocol)"),
        }
    }
}

fn wrong(what: &str) -> Answered {
    Answered::Refused {
        result: WEBSOCKET_ERROR,
        what: what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

    fn upgrade() -> Upgrade {
        let host = ("Host".to_owned(), "server.example.com".to_owned());
        Upgrade::new(
            "/chat",
            &[host],
            vec!["chat".to_owned(), "superchat".to_owned()],
        )
    }

    #[test]
    fn the_request_and_its_answer_are_those_of_the_rfc() {
        let (request, accept) = upgrade().request(*b"the sample nonce");
        let expected = "GET /chat HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: websocket\r\n\
            Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: chat, superchat\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        assert_eq!(String::from_utf8(request).unwrap(), expected);
        assert_eq!(accept, ACCEPT);
    }

    #[test]
    fn each_field_of_the_answer_matters() {
        let answered = |head: &str| upgrade().answered(head.as_bytes(), ACCEPT);
        let sound = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nconnection: keep-alive, upgrade\r\n\
            Sec-WebSocket-Accept: {ACCEPT}\r\nSec-WebSocket-Protocol: chat\r\n\r\n"
        );
        let used = sound.len();
        assert_eq!(answered(&sound), Answered::Accepted { used });
        assert_eq!(
            answered(&(sound.clone() + "\u{1}")),
            Answered::Accepted { used }
        );
        for cut in 0..used {
            assert_eq!(answered(&sound[..cut]), Answered::More, "{cut}");
        }
        let early = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
        let both = early.len() + used;
        assert_eq!(
            answered(&(early.to_owned() + &sound)),
            Answered::Accepted { used: both }
        );
        for (from, to) in [
            ("WebSocket", "h2c"),
            ("upgrade\r\n", "close\r\n"),
            ("s3pP", "s4pP"),
            ("Protocol: chat", "Protocol: other"),
            (
                "connection",
                "Sec-WebSocket-Extensions: permessage-deflate\r\nconnection",
            ),
            ("HTTP/1.1 101", "ICY 101"),
        ] {
            let Answered::Refused { result, .. } = answered(&sound.replace(from, to)) else {
                panic!("{from}");
            };
            assert_eq!(result, WEBSOCKET_ERROR);
        }
        let refused = Answered::Refused {
            result: websocket_refused(403),
            what: "upgrade refused 403 Forbidden".to_owned(),
        };
        assert_eq!(answered("HTTP/1.1 403 Forbidden\r\n\r\n"), refused);
        let long = format!("HTTP/1.1 101 x\r\nX: {}", "x".repeat(HEAD_BYTES));
        assert!(matches!(answered(&long), Answered::Refused { .. }));
    }
}
