//! HTTP/1.1: an operation is one request and its whole response.
//!
//! An operation's `offset` selects a request and has its number ([`ExchangeAddress`]), its `size` has no meaning. Bodies
//! are counted and dropped as they arrive, whatever their length. A status of 400 or more is an error unless the request
//! expects it, reported as `-(10000 + status)`; a response that fails the check of its request is [`CHECK_FAILED`]; an
//! invalid response is `-EPROTO`; one that ends too early is [`RESPONSE_CUT`]. Redirects (3xx) are answers, and are not
//! followed.
//!
//! Decision: one request at a time on a connection unless the user wants more. Pipelining lets a slow response delay
//! those behind it, and servers and proxies differ in how they support it. A request on a connection that the server
//! is closing at that moment is an error and is not sent again: only the user knows whether repeating it is safe. The
//! exception is a request behind a response with `Connection: close`: the server must not process it (RFC 9112,
//! section 9.6), so it is sent again.
//! Not done: proxies, cookies. Sources: RFC 9110, RFC 9112 (section 9.3.2 for pipelining).

mod chunked;
pub mod response;

use crate::check::{Check, FIRST_ERROR, Matched};
use crate::exchanges::Exchanges;
use crate::http1::response::{BodyHead, BodyPart, ParseProgress, Response};
use crate::streams::Streams;
use crate::values::put_integer;
use crate::{End, Outgoing, Protocol, RESEND, SessionState, Template, Values};
use bw_model::{ExchangeAddress, Nanos, Operation};
use bw_record::errno::{HTTP_STATUS, RESPONSE_CUT};
use std::collections::VecDeque;
use std::sync::Arc;

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

/// A request: its bytes, and what is expected of its response.
#[derive(Clone, Debug)]
pub struct Request {
    /// Up to and with the empty line; with a [`Body::Template`] up to its last field.
    pub head: Template,
    /// The body.
    pub body: Body,
    /// Whether the response has no body (HEAD).
    pub is_head: bool,
    /// What is expected of the response.
    pub check: Check,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub enum Body {
    /// This number of the filler's bytes.
    Filler(u64),
    /// These bytes.
    Bytes(Arc<[u8]>),
    /// A text of its own for each operation: Content-Length and the empty line are put before it.
    Template(Template),
}

/// All requests, and the values of their templates.
#[derive(Clone, Debug)]
pub struct Requests {
    requests: Vec<Request>,
    values: Values,
    filler: Arc<[u8]>,
}

impl Requests {
    /// Returns requests without values, with these heads, each up to and with the empty line, and a body of
    /// `body_bytes`; `is_head`: the responses have no bodies (HEAD).
    #[must_use]
    pub fn new(heads: Vec<Box<[u8]>>, body_bytes: u64, is_head: bool) -> Self {
        let request = |head: Box<[u8]>| Request {
            head: Template::literal(&head),
            body: Body::Filler(body_bytes),
            is_head,
            check: Check::default(),
        };
        Self::of(heads.into_iter().map(request).collect(), Values::default())
    }

    /// Returns these requests; their templates have places for these values.
    #[must_use]
    pub fn of(requests: Vec<Request>, values: Values) -> Self {
        Self {
            requests,
            values,
            filler: vec![FILLER; FILLER_BYTES].into(),
        }
    }

    /// Returns how many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.requests.len()
    }

    /// Puts a request with the values of an operation; `scratch` is for a body whose length must be known first.
    fn put(&self, request: &Request, number: u64, scratch: &mut Vec<u8>, out: &mut Outgoing) {
        request.head.fill(&self.values, number, out);
        match &request.body {
            Body::Filler(bytes) => {
                let with_head = (*bytes).min(BODY_WITH_HEAD);
                out.put_pattern(&self.filler, 0, with_head);
                out.put_pattern(&self.filler, with_head, bytes - with_head);
            }
            Body::Bytes(bytes) => out.put_pattern(bytes, 0, bytes.len() as u64),
            Body::Template(body) => {
                scratch.clear();
                body.fill(&self.values, number, scratch);
                out.put(b"Content-Length: ");
                // A length fits.
                put_integer(scratch.len() as i64, 0, out);
                out.put(b"\r\n\r\n");
                out.put(scratch);
            }
        }
    }
}

/// The protocol.
#[derive(Debug)]
pub struct Http1(Exchanges<Requests>);

impl Http1 {
    /// Returns the protocol with at most `outstanding` requests in progress on a connection.
    #[must_use]
    pub fn new(requests: Arc<Requests>, outstanding: u32) -> Self {
        Self(Exchanges::new(requests, outstanding))
    }

    /// Returns the end of the operation whose response is complete.
    fn end(&self, session: &Http1Session, pending: Pending) -> End {
        let Pending {
            slot, is_measured, ..
        } = pending;
        let request = &self.0.requests.requests[pending.request as usize];
        let (status, result) = (session.response.status(), session.result(request));
        let check = &request.check;
        let result = self.0.complete(slot, status, check, is_measured, result);
        End { slot, result }
    }

    /// Reads the responses as streams, if there are any.
    #[must_use]
    pub fn with_streams(mut self, streams: Option<Streams>) -> Self {
        self.0.streams = streams;
        self
    }
}

/// A request that was put.
#[derive(Clone, Copy, Debug)]
struct Pending {
    slot: u32,
    /// Its index.
    request: u32,
    /// How many bytes were put with it and before it.
    end: u64,
    is_measured: bool,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Http1Session {
    /// The requests without a whole response, in order.
    pending: VecDeque<Pending>,
    response: Response,
    /// The search for the text that the response must contain.
    matched: Matched,
    scratch: Vec<u8>,
    closing: bool,
}

impl Http1Session {
    /// Returns the result of a complete response to this request.
    fn result(&self, request: &Request) -> i64 {
        let (status, body_bytes) = (self.response.status(), self.response.body_bytes());
        request.check.result(status, body_bytes, self.matched)
    }

    /// Prepares for the response to this request.
    fn expect(&mut self, request: &Request) {
        self.response.begin(request.is_head);
        self.matched = Matched::default();
    }

    /// Ends all requests in progress.
    fn end_all(&mut self, result: i32, ends: &mut Vec<End>) {
        let (result, pending) = (i64::from(result), self.pending.drain(..));
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
        self.0.grow();
        Http1Session {
            pending: VecDeque::with_capacity(self.0.outstanding as usize),
            response: Response::new(),
            matched: Matched::default(),
            scratch: Vec::new(),
            closing: false,
        }
    }

    fn open(&self, session: &mut Http1Session, _out: &mut Outgoing) -> SessionState {
        session.pending.clear();
        // That of a request is prepared when it becomes the first.
        session.response.begin(false);
        session.closing = false;
        SessionState::Ready
    }

    fn room(&self, session: &Http1Session) -> u32 {
        if session.closing {
            return 0;
        }
        // At most `outstanding` are pending.
        self.0
            .outstanding
            .saturating_sub(session.pending.len() as u32)
    }

    fn begin(
        &self,
        session: &mut Http1Session,
        slot: u32,
        operation: &Operation,
        out: &mut Outgoing,
    ) -> Result<(), i32> {
        let address = ExchangeAddress::unpack(operation.offset);
        let requests = &*self.0.requests;
        let request = requests.requests.get(address.request as usize);
        let request = request.ok_or(-libc::EINVAL)?;
        requests.put(request, address.number, &mut session.scratch, out);
        if session.pending.is_empty() {
            session.expect(request);
        }
        self.0.begin(slot);
        session.pending.push_back(Pending {
            slot,
            request: address.request,
            end: out.put_bytes(),
            is_measured: self.0.is_measured(operation),
        });
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
            let Some(&pending) = session.pending.front() else {
                // Nobody asked for these bytes: they could not be distinguished from an answer to the next request.
                return SessionState::Failed(-libc::EPROTO);
            };
            let Pending { slot, end, .. } = pending;
            let request = &self.0.requests.requests[pending.request as usize];
            let matched = &mut session.matched;
            let body = |head: BodyHead, part: BodyPart<'_>| {
                let streams = self.0.streams_of(head.status);
                match part {
                    BodyPart::Bytes(piece) => {
                        request.check.read(matched, piece);
                        match streams {
                            Some(streams) if head.is_encoded => streams.refuse(slot),
                            Some(streams) => streams.read(slot, piece, pending.is_measured),
                            None => {}
                        }
                    }
                    BodyPart::ChunkEnd => {
                        if let Some(streams) = streams {
                            streams.boundary(slot, pending.is_measured);
                        }
                    }
                }
            };
            let progress = session.response.receive_with(bytes, body);
            let used = match progress {
                ParseProgress::More => break,
                ParseProgress::Complete { used } => used,
                ParseProgress::Malformed => return SessionState::Failed(-libc::EPROTO),
            };
            session.pending.pop_front();
            ends.push(self.end(session, pending));
            // A response that comes before the whole request was written makes the connection unusable.
            if out.written_bytes() < end || !session.response.is_persistent() {
                session.closing = true;
                session.end_all(RESEND, ends);
                break;
            }
            if let Some(next) = session.pending.front() {
                let next = &self.0.requests.requests[next.request as usize];
                session.expect(next);
            }
            bytes = &bytes[used..];
        }
        session.state()
    }

    fn closed(&self, session: &mut Http1Session, ends: &mut Vec<End>) {
        let is_cut = session.response.is_begun();
        if session.response.close()
            && let Some(pending) = session.pending.pop_front()
        {
            ends.push(self.end(session, pending));
            session.end_all(RESEND, ends);
        }
        if is_cut && let Some(Pending { slot, .. }) = session.pending.pop_front() {
            let result = RESPONSE_CUT.into();
            ends.push(End { slot, result });
        }
        session.end_all(-libc::ECONNRESET, ends);
    }

    fn cancel(&self, _session: &mut Http1Session, _slot: u32, _out: &mut Outgoing) -> bool {
        false
    }

    fn measure_from(&mut self, from: Nanos) {
        self.0.measure_from(from);
    }

    fn streams(&self) -> Option<&Streams> {
        self.0.streams.as_ref()
    }

    fn statuses(&self) -> Option<[u64; 4]> {
        Some(self.0.statuses())
    }
}
