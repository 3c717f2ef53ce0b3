//! WebSocket: an operation is one message and what answers it: one message, several until an end mark, or none.
//!
//! A connection begins with the HTTP/1.1 upgrade. An operation's `offset` selects a message and has its number
//! ([`ExchangeAddress`]); messages are templates. Without any, an operation sends a binary message of `size` bytes, which
//! must come back. The result is the length of the answer. Which messages are answers, [`Answers`] says; all others are
//! what the server sent by itself: they are counted, and no operation ends with them. Nor does one end with a message
//! that began before its own was written. A close frame ends the operations in progress with its code.
//!
//! Decisions. Messages are read as they arrive and never stored, but for the beginning that an answer is compared with, so
//! fragments without an end need no memory; a limit of their length ends them. Each frame that is sent has a key of its
//! own (RFC 6455, section 5.3), from a generator that each connection seeds at random. An operation that is given up
//! costs its connection, unless answers are matched by a member of theirs. Extensions are not offered: compression would
//! measure the client. After the server's close frame the client answers it and closes; it does not wait for the server,
//! since the next connection is wanted at once.
//! Rejected: the crate tungstenite, which stores each message in memory of its own. Source: RFC 6455.

mod frame;
mod member;
mod upgrade;
mod utf8;

pub use crate::websocket::member::Pointer;
pub use crate::websocket::upgrade::Upgrade;

use crate::echo::Filler;
use crate::payload::{Payload, Prefix};
use crate::streams::Streams;
use crate::websocket::frame::{Arrival, FRAME_BYTES, Frames, Keys, Opcode, put_frame};
use crate::websocket::member::{Search, Value};
use crate::websocket::upgrade::Answered;
use crate::{End, MeasuredPart, Outgoing, Protocol, SessionState, Values};
use bw_model::{ExchangeAddress, Nanos, Operation};
use bw_record::errno::{CHECK_FAILED, RESPONSE_CUT, WEBSOCKET_ERROR, websocket_closed};
use ring::rand::{SecureRandom, SystemRandom};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

/// The code of a connection that ends as intended, and of a close frame without a code.
const NORMAL: u16 = 1000;
const NO_CODE: u16 = 1005;

/// What operations send.
#[derive(Clone, Debug)]
pub struct Messages {
    payloads: Vec<Payload>,
    values: Values,
}

impl Messages {
    /// Returns these messages; their templates have places for these values.
    #[must_use]
    pub fn new(payloads: Vec<Payload>, values: Values) -> Self {
        Self { payloads, values }
    }

    /// Returns how many there are; at least the one of `size` bytes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.payloads.len().max(1)
    }

    /// Returns the index of a message without this member in its first operation.
    #[must_use]
    pub fn without(&self, pointer: &Pointer) -> Option<usize> {
        let mut filled = Vec::new();
        let lacks = |payload: &Payload| {
            let sound = payload.fill(&self.values, 0, &mut filled);
            sound.is_none() || pointer.value_in(&filled).is_none()
        };
        self.payloads.iter().position(lacks)
    }
}

/// Which messages of the server answer an operation.
#[derive(Clone, Debug, Default)]
pub enum Answers {
    /// The next one answers the operation that has waited longest.
    #[default]
    Next,
    /// The next one that begins so.
    Prefix(Prefix),
    /// The one whose member is that of the operation's message.
    Member(Pointer),
    /// None: an operation ends when its message is written.
    None,
}

/// The end mark of an answer of several messages.
#[derive(Clone, Debug)]
pub enum EndMark {
    /// A message that is this text.
    Text(Box<[u8]>),
    /// A message with a member whose text is this.
    Member(Pointer, Box<[u8]>),
}

/// What is expected of answers.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// Which messages they are.
    pub answers: Answers,
    /// What an answer begins with; any other fails.
    pub prefix: Prefix,
    /// The most bytes of a message.
    pub most_bytes: u64,
    /// The end mark, if an answer has several messages.
    pub end: Option<EndMark>,
}

/// The protocol.
#[derive(Debug)]
pub struct WebSocket {
    upgrade: Arc<Upgrade>,
    messages: Arc<Messages>,
    expected: Arc<Expected>,
    filler: Filler,
    outstanding: u32,
    streams: Option<Streams>,
    measured: MeasuredPart,
    /// Whether a measured operation has begun.
    counts: Cell<bool>,
    pushes: Cell<u64>,
}

impl WebSocket {
    /// Returns the protocol with at most `outstanding` operations in progress on a connection.
    #[must_use]
    pub fn new(
        upgrade: Arc<Upgrade>,
        messages: Arc<Messages>,
        expected: Arc<Expected>,
        outstanding: u32,
    ) -> Self {
        Self {
            upgrade,
            messages,
            expected,
            filler: Filler::new(),
            outstanding,
            streams: None,
            measured: MeasuredPart::default(),
            counts: Cell::new(false),
            pushes: Cell::new(0),
        }
    }

    /// Reads answers of several messages as streams, if there are any.
    #[must_use]
    pub fn with_streams(self, streams: Option<Streams>) -> Self {
        Self { streams, ..self }
    }
}

/// An operation whose answer has not ended.
#[derive(Clone, Copy, Debug)]
struct Pending {
    slot: u32,
    /// How many bytes were put with it and before it.
    end: u64,
    /// The member that its answer repeats, if that is how answers are found.
    member: Option<Value>,
    size: u32,
    is_measured: bool,
}

/// What is known of the server's message that has begun and not ended.
#[derive(Debug, Default)]
struct Incoming {
    /// Whether the operation that had waited longest had been written when it began.
    for_first: bool,
    length: u64,
    /// Its beginning, as much as an answer is compared with.
    head: Vec<u8>,
    member: Search,
    end: Search,
    /// How much of the end mark it is so far; above its length: it is none.
    of_end_mark: usize,
    /// Whether it is what was sent so far.
    is_echo: bool,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Upgrade,
    Ready,
    /// The server has closed it, with this code.
    Closed(Option<u16>),
}

/// The state of one connection.
#[derive(Debug)]
pub struct WebSocketSession {
    phase: Phase,
    /// The response to the upgrade so far.
    head: Vec<u8>,
    /// What it must have.
    accept: String,
    refused: Option<String>,
    frames: Frames,
    keys: Keys,
    /// The operations in progress, in order.
    pending: VecDeque<Pending>,
    incoming: Incoming,
    scratch: Vec<u8>,
}

impl WebSocketSession {
    fn state(&self) -> SessionState {
        match self.phase {
            Phase::Upgrade => SessionState::Handshake,
            Phase::Ready => SessionState::Ready,
            Phase::Closed(_) => SessionState::Closing,
        }
    }

    fn refuse(&mut self, result: i32, what: String) -> SessionState {
        self.refused = Some(what);
        SessionState::Failed(result)
    }

    fn put(&mut self, opcode: Opcode, payload: &[u8], out: &mut Outgoing) {
        let keys = &mut self.keys;
        out.put_with(payload.len() + FRAME_BYTES, |frame| {
            put_frame(opcode, payload, keys, frame);
        });
    }

    /// Ends all operations in progress.
    fn end_all(&mut self, result: i32, ends: &mut Vec<End>) {
        let (result, pending) = (i64::from(result), self.pending.drain(..));
        ends.extend(pending.map(|Pending { slot, .. }| End { slot, result }));
    }
}

/// What the server sends.
impl WebSocket {
    fn begin_message(&self, session: &mut WebSocketSession, written: u64) {
        let first = session.pending.front();
        let incoming = &mut session.incoming;
        incoming.for_first = first.is_some_and(|first| first.end <= written);
        incoming.length = 0;
        incoming.head.clear();
        incoming.member = Search::default();
        incoming.end = Search::default();
        incoming.of_end_mark = 0;
        incoming.is_echo = true;
    }

    /// Takes a part of a message.
    fn read_part(&self, incoming: &mut Incoming, part: &[u8]) {
        let compared = self.compared();
        let more = compared.saturating_sub(incoming.head.len());
        incoming
            .head
            .extend_from_slice(&part[..more.min(part.len())]);
        if let Answers::Member(pointer) = &self.expected.answers {
            incoming.member.read(pointer, part);
        }
        match &self.expected.end {
            Some(EndMark::Member(pointer, _)) => incoming.end.read(pointer, part),
            Some(EndMark::Text(mark)) => {
                let rest = mark.get(incoming.of_end_mark..);
                incoming.of_end_mark = match rest {
                    Some(rest) if rest.starts_with(part) => incoming.of_end_mark + part.len(),
                    _ => usize::MAX,
                };
            }
            None => {}
        }
        if self.messages.payloads.is_empty() && incoming.is_echo {
            incoming.is_echo = self.filler.is_echo(incoming.length, part);
        }
        incoming.length += part.len() as u64;
    }

    /// Returns how many bytes of an answer are compared.
    fn compared(&self) -> usize {
        let own = match &self.expected.answers {
            Answers::Prefix(prefix) => prefix.length(),
            _ => 0,
        };
        own.max(self.expected.prefix.length())
    }

    /// Returns the place of the operation that a whole message answers.
    fn answered(&self, session: &mut WebSocketSession, written: u64) -> Option<usize> {
        let incoming = &mut session.incoming;
        match &self.expected.answers {
            Answers::None => None,
            Answers::Next => incoming.for_first.then_some(0),
            Answers::Prefix(prefix) => {
                let is_answer = incoming.for_first && prefix.fits(&incoming.head);
                is_answer.then_some(0)
            }
            Answers::Member(_) => {
                let member = incoming.member.finish()?;
                let mut pending = session.pending.iter();
                pending.position(|one| one.member == Some(member) && one.end <= written)
            }
        }
    }

    /// Takes the end of a message.
    fn end_message(&self, session: &mut WebSocketSession, written: u64, ends: &mut Vec<End>) {
        let answered = self.answered(session, written);
        let Some(place) = answered.filter(|place| *place < session.pending.len()) else {
            let count = self.pushes.get() + u64::from(self.counts.get());
            return self.pushes.set(count);
        };
        let Pending {
            slot,
            size,
            is_measured,
            ..
        } = session.pending[place];
        let incoming = &mut session.incoming;
        let length = i64::try_from(incoming.length).unwrap_or(i64::MAX);
        let result = match &self.streams {
            Some(streams) => {
                let is_end = match &self.expected.end {
                    Some(EndMark::Text(mark)) => incoming.of_end_mark == mark.len(),
                    Some(EndMark::Member(_, text)) => {
                        incoming.end.finish() == Some(Value::of(text))
                    }
                    None => true,
                };
                streams.message(slot, incoming.length, is_end, is_measured);
                if !is_end {
                    return;
                }
                streams.complete(slot, is_measured, streams.bytes(slot))
            }
            None if self.messages.payloads.is_empty()
                && (!incoming.is_echo || incoming.length != u64::from(size)) =>
            {
                CHECK_FAILED.into()
            }
            None if !self.expected.prefix.fits(&incoming.head) => CHECK_FAILED.into(),
            None => length,
        };
        session.pending.remove(place);
        ends.push(End { slot, result });
    }

    /// Reads frames.
    fn read_frames(
        &self,
        session: &mut WebSocketSession,
        mut bytes: &[u8],
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) -> SessionState {
        while let Some(arrival) = session.frames.next(&mut bytes) {
            match arrival {
                Arrival::Begin => self.begin_message(session, out.written_bytes()),
                Arrival::Part(part) => self.read_part(&mut session.incoming, part),
                Arrival::End => self.end_message(session, out.written_bytes(), ends),
                Arrival::Ping => {
                    let keys = &mut session.keys;
                    let payload = session.frames.control();
                    out.put_with(payload.len() + FRAME_BYTES, |frame| {
                        put_frame(Opcode::Pong, payload, keys, frame);
                    });
                }
                Arrival::Close(code) => {
                    session.end_all(websocket_closed(code.unwrap_or(NO_CODE)), ends);
                    session.phase = Phase::Closed(code);
                    break;
                }
                Arrival::Wrong => return SessionState::Failed(WEBSOCKET_ERROR),
                Arrival::TooLong => return SessionState::Failed(-libc::EMSGSIZE),
            }
        }
        session.state()
    }

    /// Reads the response to the upgrade, and the frames behind it.
    fn read_upgrade(
        &self,
        session: &mut WebSocketSession,
        bytes: &[u8],
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) -> SessionState {
        session.head.extend_from_slice(bytes);
        let used = match self.upgrade.answered(&session.head, &session.accept) {
            Answered::More => return SessionState::Handshake,
            Answered::Accepted { used } => used,
            Answered::Refused { result, what } => return session.refuse(result, what),
        };
        session.phase = Phase::Ready;
        let head = std::mem::take(&mut session.head);
        match self.read_frames(session, &head[used..], out, ends) {
            SessionState::Closing => {
                let Phase::Closed(code) = session.phase else {
                    return SessionState::Closing;
                };
                let code = code.unwrap_or(NO_CODE);
                let what = format!("it closed the connection at once, with code {code}");
                session.refuse(websocket_closed(code), what)
            }
            state => state,
        }
    }
}

impl Protocol for WebSocket {
    type Session = WebSocketSession;

    fn session(&self) -> WebSocketSession {
        if let Some(streams) = &self.streams {
            streams.grow(self.outstanding);
        }
        let payloads = self.messages.payloads.iter();
        let most = payloads.map(|payload| payload.most_bytes(&self.messages.values));
        WebSocketSession {
            phase: Phase::Upgrade,
            head: Vec::new(),
            accept: String::new(),
            refused: None,
            frames: Frames::new(self.expected.most_bytes),
            keys: Keys::default(),
            pending: VecDeque::with_capacity(self.outstanding as usize),
            incoming: Incoming {
                head: Vec::with_capacity(self.compared()),
                ..Incoming::default()
            },
            scratch: Vec::with_capacity(most.max().unwrap_or_default()),
        }
    }

    fn open(&self, session: &mut WebSocketSession, out: &mut Outgoing) -> SessionState {
        session.phase = Phase::Upgrade;
        session.pending.clear();
        session.frames.begin();
        session.head.clear();
        session.refused = None;
        let (mut key, mut seed) = ([0; 16], [0; 8]);
        let random = SystemRandom::new();
        if random.fill(&mut key).and(random.fill(&mut seed)).is_err() {
            let what = "the system has no random numbers".to_owned();
            return session.refuse(-libc::EIO, what);
        }
        session.keys = Keys::new(u64::from_ne_bytes(seed));
        let (request, accept) = self.upgrade.request(key);
        session.accept = accept;
        out.put(&request);
        SessionState::Handshake
    }

    fn room(&self, session: &WebSocketSession) -> u32 {
        match session.phase {
            // At most `outstanding` are pending.
            Phase::Ready => self
                .outstanding
                .saturating_sub(session.pending.len() as u32),
            _ => 0,
        }
    }

    fn begin(
        &self,
        session: &mut WebSocketSession,
        slot: u32,
        operation: &Operation,
        out: &mut Outgoing,
    ) -> Result<(), i32> {
        let address = ExchangeAddress::unpack(operation.offset);
        let messages = &*self.messages;
        let mut opcode = Opcode::Binary;
        let mut payload = std::mem::take(&mut session.scratch);
        let mut filled = Ok(());
        if messages.payloads.is_empty() {
            self.filler.copy(operation.size as usize, &mut payload);
        } else if let Some(one) = messages.payloads.get(address.request as usize) {
            if one.is_text() {
                opcode = Opcode::Text;
            }
            let decoded = one.fill(&messages.values, address.number, &mut payload);
            filled = decoded.ok_or(-libc::EINVAL);
        } else {
            filled = Err(-libc::EINVAL);
        }
        let mut member = None;
        if let Answers::Member(pointer) = &self.expected.answers {
            member = pointer.value_in(&payload);
            if member.is_none() {
                filled = Err(-libc::EINVAL);
            }
        }
        if filled.is_ok() {
            session.put(opcode, &payload, out);
        }
        session.scratch = payload;
        filled?;
        if let Some(streams) = &self.streams {
            streams.begin(slot);
        }
        let is_measured = self.measured.has(operation);
        self.counts.set(self.counts.get() || is_measured);
        session.pending.push_back(Pending {
            slot,
            end: out.put_bytes(),
            member,
            size: operation.size,
            is_measured,
        });
        Ok(())
    }

    fn sent(&self, session: &mut WebSocketSession, ends: &mut Vec<End>) -> SessionState {
        if matches!(self.expected.answers, Answers::None) {
            session.end_all(0, ends);
        }
        session.state()
    }

    fn receive(
        &self,
        session: &mut WebSocketSession,
        bytes: &[u8],
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) -> SessionState {
        match session.phase {
            Phase::Upgrade => self.read_upgrade(session, bytes, out, ends),
            Phase::Ready => self.read_frames(session, bytes, out, ends),
            Phase::Closed(_) => SessionState::Closing,
        }
    }

    fn closed(&self, session: &mut WebSocketSession, ends: &mut Vec<End>) {
        if session.frames.is_begun()
            && let Some(Pending { slot, .. }) = session.pending.pop_front()
        {
            let result = RESPONSE_CUT.into();
            ends.push(End { slot, result });
        }
        session.end_all(-libc::ECONNRESET, ends);
    }

    fn cancel(&self, session: &mut WebSocketSession, slot: u32, _out: &mut Outgoing) -> bool {
        session.pending.retain(|one| one.slot != slot);
        matches!(self.expected.answers, Answers::Member(_))
    }

    fn goodbye(&self, session: &mut WebSocketSession, out: &mut Outgoing) {
        match session.phase {
            Phase::Upgrade => {}
            Phase::Ready => session.put(Opcode::Close, &NORMAL.to_be_bytes(), out),
            Phase::Closed(None) => session.put(Opcode::Close, &[], out),
            Phase::Closed(Some(code)) => session.put(Opcode::Close, &code.to_be_bytes(), out),
        }
    }

    fn refusal(&self, session: &WebSocketSession) -> Option<String> {
        session.refused.clone()
    }

    fn remedy(&self, session: &WebSocketSession) -> Option<&'static str> {
        let refused = session.refused.as_ref();
        refused
            .map(|_| "check the path, the headers and the subprotocols, and read the server's log")
    }

    fn streams(&self) -> Option<&Streams> {
        self.streams.as_ref()
    }

    fn measure_from(&mut self, from: Nanos) {
        self.measured.set_start(from);
    }

    fn pushes(&self) -> Option<u64> {
        Some(self.pushes.get())
    }
}
