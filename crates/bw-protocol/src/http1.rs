//! HTTP/1.1: an operation is one request and its whole response.
//!
//! An operation's `offset` selects a request, its `size` has no meaning. Bodies are counted and dropped as they arrive,
//! whatever their length. A status of 400 or more is an error, reported as `-(10000 + status)`; an invalid response
//! is `-EPROTO`; one that ends too early is `-ECONNRESET`. Redirects (3xx) are answers, and are not followed.
//!
//! Decision: one request at a time on a connection unless the user wants more. Pipelining lets a slow response delay
//! those behind it, and servers and proxies differ in how they support it. A request on a connection that the server
//! is closing at that moment is an error and is not sent again: only the user knows whether repeating it is safe. The
//! exception is a request behind a response with `Connection: close`: the server must not process it (RFC 9112,
//! section 9.6), so it is sent again.
//! Not done: proxies, cookies. Sources: RFC 9110, RFC 9112 (section 9.3.2 for pipelining).

mod chunked;
pub mod response;

use crate::http1::response::{ParseProgress, Response};
use crate::{End, Outgoing, Protocol, RESEND, SessionState};
use bw_model::Operation;
use bw_record::errno::HTTP_STATUS;
use std::collections::VecDeque;
use std::sync::Arc;

/// The lowest status that is an error.
const FIRST_ERROR: u16 = 400;
/// Maximum part of a body that is written together with its head [bytes].
const BODY_WITH_HEAD: u64 = 4096;
/// The byte that bodies consist of.
const FILLER: u8 = b'x';
/// Maximum piece of a body that is written at once [bytes].
const FILLER_BYTES: usize = 64 * 1024;

/// Returns the HTTP status that a result encodes; None for bytes and for an errno.
#[must_use]
pub fn status_of(result: i32) -> Option<u16> {
    let status = result.checked_neg()?.checked_sub(HTTP_STATUS)?;
    u16::try_from(status)
        .ok()
        .filter(|status| (FIRST_ERROR..1000).contains(status))
}

/// The bytes of every request.
#[derive(Clone, Debug)]
pub struct Requests {
    heads: Vec<Box<[u8]>>,
    body_bytes: u64,
    body: Arc<[u8]>,
    is_head: bool,
}

impl Requests {
    /// Returns requests with these heads, each up to and with the empty line, and a body of `body_bytes`; `is_head`: the
    /// responses have no bodies (HEAD).
    #[must_use]
    pub fn new(heads: Vec<Box<[u8]>>, body_bytes: u64, is_head: bool) -> Self {
        Self {
            heads,
            body_bytes,
            body: vec![FILLER; FILLER_BYTES].into(),
            is_head,
        }
    }

    /// Returns how many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.heads.len()
    }

    fn put(&self, head: &[u8], out: &mut Outgoing) {
        out.put(head);
        let with_head = self.body_bytes.min(BODY_WITH_HEAD);
        out.put_pattern(&self.body, 0, with_head);
        out.put_pattern(&self.body, with_head, self.body_bytes - with_head);
    }
}

/// The protocol.
#[derive(Clone, Debug)]
pub struct Http1 {
    requests: Arc<Requests>,
    outstanding: u32,
}

impl Http1 {
    /// Returns the protocol with at most `outstanding` requests in progress on a connection.
    #[must_use]
    pub fn new(requests: Arc<Requests>, outstanding: u32) -> Self {
        Self {
            requests,
            outstanding,
        }
    }
}

/// A request that was put.
#[derive(Clone, Copy, Debug)]
struct Pending {
    slot: u32,
    /// How many bytes were put with it and before it.
    end: u64,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Http1Session {
    /// The requests without a whole response, in order.
    pending: VecDeque<Pending>,
    response: Response,
    closing: bool,
}

impl Http1Session {
    /// Returns the result of a complete response.
    fn result(&self) -> i32 {
        let status = self.response.status();
        if status >= FIRST_ERROR {
            return -(HTTP_STATUS + i32::from(status));
        }
        i32::try_from(self.response.body_bytes()).unwrap_or(i32::MAX)
    }

    /// Ends all requests in progress.
    fn end_all(&mut self, result: i32, ends: &mut Vec<End>) {
        let pending = self.pending.drain(..);
        ends.extend(pending.map(|Pending { slot, .. }| End { slot, result }));
    }

    fn state(&self) -> SessionState {
        if self.closing {
            SessionState::Closing
        } else {
            SessionState::Ready
        }
    }
}

impl Protocol for Http1 {
    type Session = Http1Session;

    fn session(&self) -> Http1Session {
        Http1Session {
            pending: VecDeque::with_capacity(self.outstanding as usize),
            response: Response::new(),
            closing: false,
        }
    }

    fn open(&self, session: &mut Http1Session, _out: &mut Outgoing) -> SessionState {
        session.pending.clear();
        session.response.begin(self.requests.is_head);
        session.closing = false;
        SessionState::Ready
    }

    fn room(&self, session: &Http1Session) -> u32 {
        if session.closing {
            return 0;
        }
        // At most `outstanding` are pending.
        self.outstanding
            .saturating_sub(session.pending.len() as u32)
    }

    fn begin(
        &self,
        session: &mut Http1Session,
        slot: u32,
        operation: &Operation,
        out: &mut Outgoing,
    ) -> Result<(), i32> {
        let request = usize::try_from(operation.offset).ok();
        let head = request.and_then(|request| self.requests.heads.get(request));
        self.requests.put(head.ok_or(-libc::EINVAL)?, out);
        let end = out.put_bytes();
        session.pending.push_back(Pending { slot, end });
        Ok(())
    }

    fn sent(&self, session: &mut Http1Session, _ends: &mut Vec<End>) -> SessionState {
        session.state()
    }

    fn receive(
        &self,
        session: &mut Http1Session,
        mut bytes: &[u8],
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) -> SessionState {
        while !bytes.is_empty() {
            let Some(&Pending { slot, end }) = session.pending.front() else {
                // Nobody asked for these bytes: they could not be distinguished from an answer to the next request.
                return SessionState::Failed(-libc::EPROTO);
            };
            let used = match session.response.receive(bytes) {
                ParseProgress::More => break,
                ParseProgress::Complete { used } => used,
                ParseProgress::Malformed => return SessionState::Failed(-libc::EPROTO),
            };
            session.pending.pop_front();
            let result = session.result();
            ends.push(End { slot, result });
            // A response that comes before the whole request was written makes the connection unusable.
            if out.written_bytes() < end || !session.response.is_persistent() {
                session.closing = true;
                session.end_all(RESEND, ends);
                break;
            }
            session.response.begin(self.requests.is_head);
            bytes = &bytes[used..];
        }
        session.state()
    }

    fn closed(&self, session: &mut Http1Session, ends: &mut Vec<End>) {
        if session.response.close()
            && let Some(Pending { slot, .. }) = session.pending.pop_front()
        {
            let result = session.result();
            ends.push(End { slot, result });
            session.end_all(RESEND, ends);
        }
        session.end_all(-libc::ECONNRESET, ends);
    }

    fn cancel(&self, _session: &mut Http1Session, _slot: u32, _out: &mut Outgoing) -> bool {
        false
    }
}
