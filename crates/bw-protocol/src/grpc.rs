//! Calls of gRPC: what an exchange of HTTP/2 means as a call.
//!
//! A call's result is its status, which the trailers have, or the head of an answer without a body (Trailers-Only). An
//! answer without one has that which the status of HTTP, or the code of a reset, stands for.
//! Decision: messages are delimited and counted, never read or stored, so their size has no limit. Compressed ones are not
//! asked for, and one that comes nevertheless is the error that it is for every client without its algorithm.
//! Sources: gRPC over HTTP2; HTTP to gRPC Status Code Mapping; Compression (grpc/grpc, doc/).

use crate::events::grpc::Messages;
use bw_record::errno::{self, RESPONSE_CUT, grpc_error};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

const OK: u32 = 0;
const CANCELLED: u32 = 1;
const UNKNOWN: u32 = 2;
const DEADLINE_EXCEEDED: u32 = 4;
const PERMISSION_DENIED: u32 = 7;
const RESOURCE_EXHAUSTED: u32 = 8;
const UNIMPLEMENTED: u32 = 12;
const INTERNAL: u32 = 13;
const UNAVAILABLE: u32 = 14;
const UNAUTHENTICATED: u32 = 16;

/// Maximum length of a text of an error that is stored [bytes].
pub const TEXT_BYTES: usize = 200;

/// The calls of one worker.
#[derive(Debug)]
pub struct Calls {
    /// Whether an answer may have any number of messages, and not just one.
    is_stream: bool,
    /// Whether the time limit of an operation is the deadline that its call has.
    has_deadline: bool,
    /// The statuses that are no errors beside OK, as bits.
    accepted: u32,
    /// The first text that came with each result that is an error.
    texts: RefCell<BTreeMap<i32, String>>,
}

impl Calls {
    /// Returns the calls of a method whose answers are streams or not, with a deadline or not; `accepted`: the statuses
    /// that are no errors beside OK.
    #[must_use]
    pub fn new(is_stream: bool, has_deadline: bool, accepted: &[u8]) -> Self {
        let bits = accepted
            .iter()
            .map(|status| 1_u32.unbounded_shl((*status).into()));
        Self {
            is_stream,
            has_deadline,
            accepted: bits.fold(0, |all, bit| all | bit),
            texts: RefCell::default(),
        }
    }

    /// Returns the first text that came with each status that is an error, by the status's name.
    pub fn texts(&self) -> BTreeMap<String, String> {
        let texts = self.texts.borrow();
        let texts = texts.iter();
        texts
            .map(|(result, text)| (errno::name(*result), text.clone()))
            .collect()
    }

    /// Returns the result of a complete answer with this status of HTTP, which was `result` without gRPC; `text`: what the
    /// server said, as its field has it.
    pub(crate) fn complete(&self, answer: &Answer, http: u16, text: &[u8], result: i64) -> i64 {
        if result == i64::from(RESPONSE_CUT) || result == i64::from(-libc::EPROTO) {
            // Its length is not what it said.
            return result;
        }
        match answer.status {
            Some(OK) => {}
            Some(status) if self.accepts(status) => return result,
            Some(status) => return self.fail(status, || percent_decoded(text)),
            None => {
                return self.fail(of_http(http), || {
                    format!("HTTP status {http} without grpc-status")
                });
            }
        }
        let messages = answer.messages;
        let what = if answer.framer.has_compressed() {
            "a message is compressed, which was not asked for"
        } else if !answer.framer.is_between_messages() {
            "the last message is shorter than its length"
        } else if messages == 0 && !self.is_stream {
            "the answer has no message"
        } else if messages > 1 && !self.is_stream {
            "the answer has more than one message"
        } else {
            return result;
        };
        self.fail(INTERNAL, || what.to_owned())
    }

    fn accepts(&self, status: u32) -> bool {
        self.accepted.unbounded_shr(status) & 1 == 1
    }

    /// Returns the result of a call whose stream the server reset with this code, named so.
    pub(crate) fn reset(&self, code: u32, name: &str) -> i64 {
        let status = match code {
            7 => UNAVAILABLE,
            8 => CANCELLED,
            11 => RESOURCE_EXHAUSTED,
            12 => PERMISSION_DENIED,
            _ => INTERNAL,
        };
        self.fail(status, || format!("RST_STREAM, {name}"))
    }

    /// Returns the result of an operation that ended without an answer, which was `result` without gRPC.
    pub(crate) fn broken(&self, result: i64) -> i64 {
        if self.has_deadline && result == i64::from(-libc::ETIMEDOUT) {
            grpc_error(DEADLINE_EXCEEDED).into()
        } else {
            result
        }
    }

    /// Returns the result of a status that is an error; its text is made only if it is the first one.
    fn fail(&self, status: u32, text: impl FnOnce() -> String) -> i64 {
        let result = grpc_error(status);
        let mut texts = self.texts.borrow_mut();
        if let Entry::Vacant(first) = texts.entry(result) {
            let text = text();
            if !text.is_empty() {
                first.insert(text);
            }
        }
        result.into()
    }
}

/// What is known of an answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answer {
    framer: Messages,
    messages: u32,
    /// None: no field has said it.
    status: Option<u32>,
}

impl Answer {
    /// Reads a piece of the body.
    pub(crate) fn read(&mut self, piece: &[u8]) {
        self.framer.count(piece, &mut self.messages);
    }

    /// Takes the status of a block of fields, if it has one.
    pub(crate) fn take_status(&mut self, status: Option<u32>) {
        self.status = status.or(self.status);
    }
}

/// Returns the status of a field `grpc-status`.
pub(crate) fn status_of(value: &[u8]) -> u32 {
    let text = std::str::from_utf8(value).unwrap_or_default();
    text.parse().unwrap_or(UNKNOWN)
}

fn of_http(status: u16) -> u32 {
    match status {
        400 => INTERNAL,
        401 => UNAUTHENTICATED,
        403 => PERMISSION_DENIED,
        404 => UNIMPLEMENTED,
        429 | 502..=504 => UNAVAILABLE,
        _ => UNKNOWN,
    }
}

/// Returns the text of a field `grpc-message`, at most [`TEXT_BYTES`] of it; what is not encoded as it should be is kept.
fn percent_decoded(value: &[u8]) -> String {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut bytes = Vec::new();
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%'
            && let (Some(high), Some(low)) = (digit(after.first()), digit(after.get(1)))
        {
            bytes.push((high * 16 + low) as u8);
            rest = &after[2..];
        } else {
            bytes.push(byte);
        }
    }
    bytes.truncate(TEXT_BYTES);
    String::from_utf8_lossy(&bytes).into_owned()
}
