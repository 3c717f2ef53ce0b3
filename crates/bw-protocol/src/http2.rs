//! HTTP/2: an operation is one request and its whole response, on a stream of its own.
//!
//! An operation's `offset` selects a request, and results are those of HTTP/1.1 (see [`crate::http1`]). A stream that
//! the server resets ends with `-ECONNRESET`, with `-ECONNREFUSED` if the server refused it (REFUSED_STREAM), and with
//! `-EPROTO` if the response breaks the rules. Streams above the last one of GOAWAY are sent again. A request in which
//! the server takes no interest any more (its response is complete) is not sent to its end.
//!
//! Decisions. A connection is ready when the server's SETTINGS have arrived, so the number of streams that the server
//! allows is known before the first request, and a server without HTTP/2 is noticed before the run. A stream takes
//! part in a list that is ordered by id; nothing is allocated for it. Header fields are read for the status and the
//! length of the body (see `hpack`). A request is encoded before the run as far as it is the same for each operation; a body
//! with values of its own is put together again for each part of it that the windows allow. The windows of what is received are so large that no server waits for us; bodies
//! are dropped as they arrive. Those of what is sent are the server's: bodies are put in the order of their requests,
//! and no more than [`UNSENT_BYTES`] at a time, so their memory is bounded and a stream that is given up costs no
//! bytes behind it. A refused stream is an error, although it could be sent again: a server that refuses streams is
//! overloaded, and that must be seen.
//! Rejected: the crate h2. It is a state machine of futures: it needs a task and a waker for each connection and each
//! stream, allocates for each stream, and decodes all header fields into a map; here the pool has the sockets, the time
//! limits and the slots already. A request behind REFUSED_STREAM that is sent again at once, which a server that refuses
//! everything would make endless.
//! Not done: priorities (they are deprecated), server push (refused by SETTINGS), the upgrade from HTTP/1.1.
//! Sources: RFC 9113, RFC 7541.

mod frame;
mod hpack;

use crate::check::{Check, Matched, StatusClasses};
use crate::http1::Body;
use crate::http2::frame::{FrameHead, put_frame};
use crate::http2::hpack::{Decoder, Fields};
use crate::values::put_integer;
use crate::{End, MeasuredPart, Outgoing, Protocol, RESEND, SessionState, Template, Values};
use bw_model::{ExchangeAddress, Nanos, Operation};
use std::collections::VecDeque;
use std::sync::Arc;

/// The byte that bodies consist of.
const FILLER: u8 = b'x';
/// How much of bodies is put before what was put is written [bytes].
const UNSENT_BYTES: u64 = 64 * 1024;
/// The window of each connection and of each stream for what is received [bytes]: that of h2load. It is opened again
/// when half of it is used.
const WINDOW: u32 = (1 << 30) - 1;
/// The window of a connection before anything is said about it [bytes].
const FIRST_WINDOW: u32 = 65_535;
/// Maximum size of a response's header block [bytes], encoded or not.
const BLOCK_BYTES: u32 = 64 * 1024;
/// Maximum number of frames that continue a header block; four are enough for the largest one.
const CONTINUATIONS: u32 = 64;
/// Maximum number of answers (PING, SETTINGS) that wait to be written: a server that demands answers and reads none is
/// given up.
const ANSWERS: u32 = 8192;
/// Size of the dynamic table that the server has for our requests, unless it says otherwise [bytes].
const TABLE_BYTES: u32 = 4096;
/// Result of an operation whose header list is larger than the server allows.
const TOO_LONG: i32 = -libc::EMSGSIZE;

/// A request: its fields, its body, and what is expected of its response.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its fields, those with a colon first, names in small letters; without Content-Length if it has a
    /// [`Body::Template`].
    pub fields: Vec<(String, Template)>,
    /// The body.
    pub body: Body,
    /// Whether the response has no body (HEAD).
    pub is_head: bool,
    /// What is expected of the response.
    pub check: Check,
}

/// A request whose header block is encoded as far as it is the same for each operation.
#[derive(Clone, Debug)]
struct EncodedRequest {
    block: Box<[BlockPiece]>,
    /// The size of its fields as SETTINGS_MAX_HEADER_LIST_SIZE counts, without the values that differ [bytes].
    list_bytes: u64,
    body: Body,
    is_head: bool,
    check: Check,
}

#[derive(Clone, Debug)]
enum BlockPiece {
    Encoded(Box<[u8]>),
    /// The value of the field whose name is before it.
    Value(Template),
}

impl EncodedRequest {
    fn new(request: Request) -> Self {
        let mut block = Vec::new();
        let mut encoded = Vec::new();
        let mut list_bytes = 0;
        for (name, value) in request.fields {
            list_bytes += name.len() as u64 + u64::from(hpack::ENTRY_BYTES);
            if let Some(value) = value.as_literal() {
                list_bytes += value.len() as u64;
                hpack::put_field(&name, value, &mut encoded);
            } else {
                hpack::put_name(&name, &mut encoded);
                block.push(BlockPiece::Encoded(std::mem::take(&mut encoded).into()));
                block.push(BlockPiece::Value(value));
            }
        }
        if matches!(request.body, Body::Template(_)) {
            list_bytes += CONTENT_LENGTH.len() as u64 + u64::from(hpack::ENTRY_BYTES);
            hpack::put_name(CONTENT_LENGTH, &mut encoded);
        }
        block.push(BlockPiece::Encoded(encoded.into()));
        Self {
            block: block.into(),
            list_bytes,
            body: request.body,
            is_head: request.is_head,
            check: request.check,
        }
    }

    /// Returns the header block of an operation and the size of its fields [bytes]; `body_bytes`: the length of its body.
    fn block<'a>(
        &'a self,
        values: &Values,
        number: u64,
        body_bytes: u64,
        scratch: &'a mut Scratch,
    ) -> (&'a [u8], u64) {
        let has_length = matches!(self.body, Body::Template(_));
        if let ([BlockPiece::Encoded(block)], false) = (&*self.block, has_length) {
            return (block, self.list_bytes);
        }
        let Scratch { block, text } = scratch;
        let mut list_bytes = self.list_bytes;
        block.clear();
        for piece in &self.block {
            match piece {
                BlockPiece::Encoded(bytes) => block.extend_from_slice(bytes),
                BlockPiece::Value(template) => {
                    text.clear();
                    template.fill(values, number, text);
                    list_bytes += text.len() as u64;
                    hpack::put_text(text, block);
                }
            }
        }
        if has_length {
            text.clear();
            // A length fits.
            put_integer(body_bytes as i64, 0, text);
            list_bytes += text.len() as u64;
            hpack::put_text(text, block);
        }
        (block, list_bytes)
    }
}

/// The name of the field with the length of a body.
const CONTENT_LENGTH: &str = "content-length";

/// All requests, and the values of their templates.
#[derive(Clone, Debug)]
pub struct Requests {
    requests: Vec<EncodedRequest>,
    values: Values,
    filler: Box<[u8]>,
    /// Whether a text is searched for in a response.
    searches: bool,
}

impl Requests {
    /// Returns requests without values, with these fields, those with a colon first, names in small letters, and a body
    /// of `body_bytes`; `is_head`: the responses have no bodies (HEAD).
    #[must_use]
    pub fn new(requests: &[Vec<(String, String)>], body_bytes: u64, is_head: bool) -> Self {
        let field =
            |(name, value): &(String, String)| (name.clone(), Template::literal(value.as_bytes()));
        let request = |fields: &Vec<(String, String)>| Request {
            fields: fields.iter().map(field).collect(),
            body: Body::Filler(body_bytes),
            is_head,
            check: Check::default(),
        };
        Self::of(requests.iter().map(request), Values::default())
    }

    /// Returns these requests; their templates have places for these values.
    #[must_use]
    pub fn of(requests: impl IntoIterator<Item = Request>, values: Values) -> Self {
        let requests = requests.into_iter().map(EncodedRequest::new);
        let requests: Vec<EncodedRequest> = requests.collect();
        Self {
            searches: requests.iter().any(|one| one.check.contains.is_some()),
            requests,
            values,
            filler: vec![FILLER; frame::FRAME_BYTES as usize].into(),
        }
    }

    /// Returns how many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.requests.len()
    }

    fn of_stream(&self, stream: &Stream) -> &EncodedRequest {
        &self.requests[stream.request as usize]
    }

    /// Returns the next `length` bytes of the body of a stream.
    fn body<'a>(&'a self, stream: &Stream, length: usize, filled: &'a mut FilledBody) -> &'a [u8] {
        let bytes: &[u8] = match &self.of_stream(stream).body {
            Body::Filler(_) => return &self.filler[..length],
            Body::Bytes(bytes) => bytes,
            Body::Template(template) => {
                if filled.stream != stream.id {
                    filled.fill(stream.id, template, &self.values, stream.number);
                }
                &filled.bytes
            }
        };
        // What is unsent is at its end.
        let begin = bytes.len() - stream.unsent as usize;
        &bytes[begin..begin + length]
    }
}

/// The bytes of the last body that was made of a template.
#[derive(Debug, Default)]
struct FilledBody {
    /// The stream that it belongs to.
    stream: u32,
    bytes: Vec<u8>,
}

impl FilledBody {
    fn fill(&mut self, stream: u32, template: &Template, values: &Values, number: u64) {
        self.stream = stream;
        self.bytes.clear();
        template.fill(values, number, &mut self.bytes);
    }
}

/// Where a header block with values is made.
#[derive(Debug, Default)]
struct Scratch {
    block: Vec<u8>,
    /// One value of it.
    text: Vec<u8>,
}

/// The protocol.
#[derive(Clone, Debug)]
pub struct Http2 {
    requests: Arc<Requests>,
    outstanding: u32,
    measured: MeasuredPart,
    statuses: StatusClasses,
}

impl Http2 {
    /// Returns the protocol with at most `outstanding` streams at a time on a connection.
    #[must_use]
    pub fn new(requests: Arc<Requests>, outstanding: u32) -> Self {
        Self {
            requests,
            outstanding,
            measured: MeasuredPart::default(),
            statuses: StatusClasses::default(),
        }
    }
}

/// A stream whose response is not whole.
#[derive(Clone, Copy, Debug)]
struct Stream {
    id: u32,
    slot: u32,
    /// The index of its request, and the number that its values have.
    request: u32,
    number: u64,
    /// How many bytes were put with its head and before it.
    head_end: u64,
    /// The part of its body that was not put [bytes].
    unsent: u64,
    /// How much of it the server accepts now [bytes]; a change of its settings can make it negative.
    window: i64,
    /// The status of the final response; 0: it has not arrived.
    status: u16,
    /// The length of the body that the response announced.
    expected: Option<u64>,
    /// How much of it has arrived [bytes].
    body_bytes: u64,
    /// The search for the text that it must contain.
    matched: Matched,
    /// How much of our window it has used since the last WINDOW_UPDATE [bytes].
    used: u32,
    is_measured: bool,
}

impl Stream {
    /// Returns the result of a complete response.
    fn result(&self, request: &EncodedRequest) -> i32 {
        let bodiless = request.is_head || self.status == 204 || self.status == 304;
        if !bodiless && self.expected.is_some_and(|bytes| bytes != self.body_bytes) {
            return -libc::EPROTO;
        }
        let check = &request.check;
        check.result(self.status, self.body_bytes, self.matched)
    }
}

/// A header block of which the next frame is the continuation.
#[derive(Clone, Copy, Debug)]
struct BegunBlock {
    stream: u32,
    ends_stream: bool,
    continuations: u32,
}

/// What the server's settings say.
#[derive(Clone, Copy, Debug)]
struct ServerSettings {
    /// Maximum number of streams.
    streams: u32,
    /// The window of a new stream.
    window: i64,
    /// Maximum size of a header list.
    list_bytes: u64,
}

impl ServerSettings {
    /// Before the server has said anything.
    const FIRST: Self = Self {
        streams: u32::MAX,
        window: FIRST_WINDOW as i64,
        list_bytes: u64::MAX,
    };
}

/// The server's bytes break the rules in a way that ends the connection.
#[derive(Clone, Copy, Debug)]
struct Broken;

/// The state of one connection.
#[derive(Debug)]
pub struct Http2Session {
    decoder: Decoder,
    /// The streams in the order of their ids.
    streams: VecDeque<Stream>,
    /// How many of them have an unsent part of a body.
    sending: u32,
    next_id: u32,
    settings: ServerSettings,
    /// Whether the server's settings have arrived.
    settled: bool,
    /// Whether the server takes no more streams.
    closing: bool,
    /// Whether the next header block must say that it uses no dynamic table, because the server has reduced it.
    resize: bool,
    /// How much of all bodies the server accepts now [bytes].
    window: i64,
    /// How much of our window was used since the last WINDOW_UPDATE [bytes].
    used: u32,
    /// How many answers were put since everything was written.
    answers: u32,
    /// The head of the frame that is being read, as far as it has arrived.
    head: [u8; frame::HEAD_BYTES],
    head_bytes: usize,
    /// The frame whose payload is being read, and how much of it has not arrived [bytes].
    frame: Option<FrameHead>,
    left: u32,
    /// The part of its payload that came with earlier reads; of DATA and unknown frames nothing.
    payload: Vec<u8>,
    /// The first byte of a payload that is not stored: the length of the padding of DATA.
    first_byte: u8,
    block: Vec<u8>,
    begun_block: Option<BegunBlock>,
    scratch: Scratch,
    filled: FilledBody,
    refusal: Option<String>,
}

impl Http2Session {
    fn state(&self) -> SessionState {
        if self.closing || self.next_id > frame::LARGEST {
            SessionState::Closing
        } else if self.settled {
            SessionState::Ready
        } else {
            SessionState::Handshake
        }
    }

    fn find(&self, id: u32) -> Option<usize> {
        // Most responses come in the order of their requests.
        match self.streams.front() {
            Some(first) if first.id == id => Some(0),
            _ => self.streams.binary_search_by_key(&id, |one| one.id).ok(),
        }
    }

    /// Returns whether there was such a stream, or there is.
    ///
    /// # Errors
    /// The id is none of a stream that we began.
    fn known(&self, id: u32) -> Result<Option<usize>, Broken> {
        if id.is_multiple_of(2) || id >= self.next_id {
            return Err(Broken);
        }
        Ok(self.find(id))
    }

    /// Removes a stream that is over.
    fn remove(&mut self, place: usize) -> Option<Stream> {
        let stream = self.streams.remove(place)?;
        self.sending -= u32::from(stream.unsent > 0);
        Some(stream)
    }

    /// Ends a stream whose response is complete.
    fn complete(&mut self, place: usize, http: &Http2, out: &mut Outgoing, ends: &mut Vec<End>) {
        let Some(stream) = self.remove(place) else {
            return;
        };
        if stream.unsent > 0 {
            put_reset(stream.id, frame::CANCEL, out);
        }
        if stream.is_measured {
            http.statuses.count(stream.status);
        }
        ends.push(End {
            slot: stream.slot,
            result: stream.result(http.requests.of_stream(&stream)),
        });
    }

    /// Resets a stream whose frames break the rules.
    fn fail(&mut self, place: usize, code: u32, out: &mut Outgoing, ends: &mut Vec<End>) {
        if let Some(Stream { id, slot, .. }) = self.remove(place) {
            put_reset(id, code, out);
            let result = -libc::EPROTO;
            ends.push(End { slot, result });
        }
    }

    /// Checks a frame before its payload is read.
    fn check(&mut self, head: FrameHead) -> Result<(), Broken> {
        let expected = match self.begun_block {
            Some(begun) => head.kind == frame::CONTINUATION && head.stream == begun.stream,
            None => head.kind != frame::CONTINUATION,
        };
        let first = self.settled || head.kind == frame::SETTINGS && !head.has(frame::ACK);
        // A server may end a connection before it has said anything else.
        let first = first || head.kind == frame::GOAWAY;
        if first && expected && head.length <= frame::FRAME_BYTES {
            return Ok(());
        }
        if !self.settled {
            let answer = if self.head.starts_with(b"HTTP/") {
                "its answer is HTTP/1, not HTTP/2"
            } else {
                "its answer is not HTTP/2"
            };
            self.refusal = Some(answer.to_owned());
        }
        Err(Broken)
    }

    /// Reads the rest of a frame's payload, which has arrived whole.
    fn take_frame(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        http: &Http2,
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) -> Result<(), Broken> {
        match head.kind {
            frame::DATA => self.take_data(head, http, out, ends),
            frame::HEADERS => {
                let fragment = unpadded(head, payload).ok_or(Broken)?;
                let priority = if head.has(frame::PRIORITY) { 5 } else { 0 };
                let fragment = fragment.get(priority..).ok_or(Broken)?;
                let begun = BegunBlock {
                    stream: head.stream,
                    ends_stream: head.has(frame::END_STREAM),
                    continuations: 0,
                };
                if head.has(frame::END_HEADERS) {
                    return self.take_block(begun, fragment, http, out, ends);
                }
                self.block.clear();
                self.block.extend_from_slice(fragment);
                self.begun_block = Some(begun);
                Ok(())
            }
            frame::CONTINUATION => {
                let mut begun = self.begun_block.take().ok_or(Broken)?;
                begun.continuations += 1;
                let length = self.block.len() + payload.len();
                if begun.continuations > CONTINUATIONS || length > BLOCK_BYTES as usize {
                    return Err(Broken);
                }
                self.block.extend_from_slice(payload);
                if !head.has(frame::END_HEADERS) {
                    self.begun_block = Some(begun);
                    return Ok(());
                }
                let block = std::mem::take(&mut self.block);
                let taken = self.take_block(begun, &block, http, out, ends);
                self.block = block;
                taken
            }
            frame::RST_STREAM => {
                let code = frame::number(payload).ok_or(Broken)?;
                if let Some(place) = self.known(head.stream)?
                    && let Some(Stream { slot, .. }) = self.remove(place)
                {
                    let result = match code {
                        frame::REFUSED_STREAM => -libc::ECONNREFUSED,
                        _ => -libc::ECONNRESET,
                    };
                    ends.push(End { slot, result });
                }
                Ok(())
            }
            frame::SETTINGS => self.take_settings(head, payload, out),
            frame::PUSH_PROMISE => Err(Broken),
            frame::PING => {
                if head.stream != 0 || payload.len() != 8 {
                    return Err(Broken);
                }
                if head.has(frame::ACK) {
                    return Ok(());
                }
                put_frame(frame::PING, frame::ACK, 0, payload, out);
                self.answer()
            }
            frame::GOAWAY => {
                let last = frame::number(payload).ok_or(Broken)? & frame::LARGEST;
                let code = payload.get(4..).and_then(frame::number).ok_or(Broken)?;
                self.closing = true;
                if !self.settled {
                    let name = frame::error_name(code);
                    self.refusal = Some(format!("it ended the connection (GOAWAY, {name})"));
                }
                let first = self.streams.partition_point(|stream| stream.id <= last);
                while let Some(Stream { slot, .. }) = self.remove(first) {
                    let result = RESEND;
                    ends.push(End { slot, result });
                }
                Ok(())
            }
            frame::WINDOW_UPDATE => self.take_window_update(head, payload, out, ends),
            // PRIORITY, and frames of extensions.
            _ => Ok(()),
        }
    }

    /// Continues the search for the text that a response must contain, in a piece of the payload of DATA.
    fn search(&mut self, head: FrameHead, piece: &[u8], requests: &Requests) {
        let Some(place) = self.find(head.stream) else {
            return;
        };
        let stream = &mut self.streams[place];
        let Some(needle) = &requests.of_stream(stream).check.contains else {
            return;
        };
        // The length of the padding is before the content, and the padding behind it.
        let (before, padding) = if head.has(frame::PADDED) {
            (1, u32::from(self.first_byte))
        } else {
            (0, 0)
        };
        let read = head.length - self.left;
        let begin = u32::saturating_sub(before, read) as usize;
        let end = (head.length.saturating_sub(padding)).saturating_sub(read) as usize;
        if let Some(content) = piece.get(begin..end.min(piece.len())) {
            needle.read(&mut stream.matched, content);
        }
    }

    fn take_data(
        &mut self,
        head: FrameHead,
        http: &Http2,
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) -> Result<(), Broken> {
        let padding = if head.has(frame::PADDED) {
            1 + u32::from(self.first_byte)
        } else {
            0
        };
        let content = head.length.checked_sub(padding).ok_or(Broken)?;
        self.used += head.length;
        if self.used > WINDOW / 2 {
            put_window_update(0, std::mem::take(&mut self.used), out);
        }
        // Of a stream that was given up, data may still arrive.
        let Some(place) = self.known(head.stream)? else {
            return Ok(());
        };
        let stream = &mut self.streams[place];
        if stream.status == 0 {
            self.fail(place, frame::PROTOCOL_ERROR, out, ends);
            return Ok(());
        }
        stream.body_bytes += u64::from(content);
        if head.has(frame::END_STREAM) {
            self.complete(place, http, out, ends);
            return Ok(());
        }
        stream.used += head.length;
        if stream.used > WINDOW / 2 {
            put_window_update(stream.id, std::mem::take(&mut stream.used), out);
        }
        Ok(())
    }

    /// Reads a whole header block; a stream's first without the status 1xx is its response, the next its trailers.
    fn take_block(
        &mut self,
        begun: BegunBlock,
        block: &[u8],
        http: &Http2,
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) -> Result<(), Broken> {
        let place = self.known(begun.stream)?;
        // Always: what follows on this connection refers to it.
        let fields = self.decoder.decode(block).map_err(|_| Broken)?;
        let Some(place) = place else { return Ok(()) };
        let stream = &mut self.streams[place];
        let valid = match fields {
            Fields {
                malformed: true, ..
            } => false,
            Fields {
                status: Some(status),
                content_length,
                ..
            } if stream.status == 0 => match status {
                100..=199 if status != 101 && !begun.ends_stream => return Ok(()),
                200..=999 => {
                    stream.status = status;
                    stream.expected = content_length;
                    true
                }
                _ => false,
            },
            Fields { status: None, .. } => stream.status != 0 && begun.ends_stream,
            _ => false,
        };
        if !valid {
            self.fail(place, frame::PROTOCOL_ERROR, out, ends);
        } else if begun.ends_stream {
            self.complete(place, http, out, ends);
        }
        Ok(())
    }

    fn take_settings(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        out: &mut Outgoing,
    ) -> Result<(), Broken> {
        if head.stream != 0 || !payload.len().is_multiple_of(6) {
            return Err(Broken);
        }
        if head.has(frame::ACK) {
            return if payload.is_empty() {
                Ok(())
            } else {
                Err(Broken)
            };
        }
        for setting in payload.chunks_exact(6) {
            let name = u16::from_be_bytes([setting[0], setting[1]]);
            let value = frame::number(&setting[2..]).ok_or(Broken)?;
            match name {
                frame::SETTING_TABLE_BYTES => self.resize |= value < TABLE_BYTES,
                frame::SETTING_PUSH if value != 0 => return Err(Broken),
                frame::SETTING_STREAMS => self.settings.streams = value,
                frame::SETTING_WINDOW => {
                    if value > frame::LARGEST {
                        return Err(Broken);
                    }
                    let change = i64::from(value) - self.settings.window;
                    self.settings.window = i64::from(value);
                    for stream in &mut self.streams {
                        stream.window += change;
                        if stream.window > i64::from(frame::LARGEST) {
                            return Err(Broken);
                        }
                    }
                }
                // We never send a longer one than every server accepts.
                frame::SETTING_FRAME_BYTES if !(16_384..1 << 24).contains(&value) => {
                    return Err(Broken);
                }
                frame::SETTING_LIST_BYTES => self.settings.list_bytes = u64::from(value),
                _ => {}
            }
        }
        self.settled = true;
        put_frame(frame::SETTINGS, frame::ACK, 0, &[], out);
        self.answer()
    }

    fn take_window_update(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) -> Result<(), Broken> {
        let more = frame::number(payload).ok_or(Broken)? & frame::LARGEST;
        if head.stream == 0 {
            self.window += i64::from(more);
            let valid = more > 0 && self.window <= i64::from(frame::LARGEST);
            return if valid { Ok(()) } else { Err(Broken) };
        }
        let Some(place) = self.known(head.stream)? else {
            return Ok(());
        };
        let stream = &mut self.streams[place];
        stream.window += i64::from(more);
        if more == 0 {
            self.fail(place, frame::PROTOCOL_ERROR, out, ends);
        } else if stream.window > i64::from(frame::LARGEST) {
            self.fail(place, frame::FLOW_CONTROL_ERROR, out, ends);
        }
        Ok(())
    }

    /// Counts an answer.
    fn answer(&mut self) -> Result<(), Broken> {
        self.answers += 1;
        if self.answers > ANSWERS {
            return Err(Broken);
        }
        Ok(())
    }

    /// Puts as much of the bodies as the windows and [`UNSENT_BYTES`] allow.
    fn put_bodies(&mut self, requests: &Requests, out: &mut Outgoing) {
        if self.sending == 0 {
            return;
        }
        for stream in &mut self.streams {
            while stream.unsent > 0 {
                if self.window <= 0 || out.put_bytes() - out.written_bytes() >= UNSENT_BYTES {
                    return;
                }
                let accepted = stream
                    .window
                    .min(self.window)
                    .min(frame::FRAME_BYTES.into());
                let Ok(accepted @ 1..) = u64::try_from(accepted) else {
                    break;
                };
                // At most FRAME_BYTES.
                let length = accepted.min(stream.unsent) as u32;
                let body = requests.body(stream, length as usize, &mut self.filled);
                stream.unsent -= u64::from(length);
                stream.window -= i64::from(length);
                self.window -= i64::from(length);
                let last = stream.unsent == 0;
                self.sending -= u32::from(last);
                let head = FrameHead {
                    length,
                    kind: frame::DATA,
                    flags: if last { frame::END_STREAM } else { 0 },
                    stream: stream.id,
                };
                head.put(out);
                out.put(body);
            }
        }
    }
}

/// Returns a payload without its padding; None if that is longer than the payload.
fn unpadded(head: FrameHead, payload: &[u8]) -> Option<&[u8]> {
    if !head.has(frame::PADDED) {
        return Some(payload);
    }
    let (&padding, rest) = payload.split_first()?;
    rest.get(..rest.len().checked_sub(padding.into())?)
}

fn put_reset(stream: u32, code: u32, out: &mut Outgoing) {
    put_frame(frame::RST_STREAM, 0, stream, &code.to_be_bytes(), out);
}

fn put_window_update(stream: u32, bytes: u32, out: &mut Outgoing) {
    put_frame(frame::WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes(), out);
}

/// Puts a header block as the frames of a new stream; `resize`: after the statement that no dynamic table is used.
fn put_block(stream: u32, block: &[u8], resize: bool, ends_stream: bool, out: &mut Outgoing) {
    let prefix: &[u8] = if resize { &[0x20] } else { &[] };
    let first = block.len().min(frame::FRAME_BYTES as usize - prefix.len());
    let (piece, mut rest) = block.split_at(first);
    let ends = |rest: &[u8]| {
        if rest.is_empty() {
            frame::END_HEADERS
        } else {
            0
        }
    };
    let head = FrameHead {
        length: (prefix.len() + piece.len()) as u32,
        kind: frame::HEADERS,
        flags: ends(rest) | if ends_stream { frame::END_STREAM } else { 0 },
        stream,
    };
    head.put(out);
    out.put(prefix);
    out.put(piece);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.len().min(frame::FRAME_BYTES as usize));
        put_frame(frame::CONTINUATION, ends(after), stream, piece, out);
        rest = after;
    }
}

/// Returns whether the payload of such a frame is not stored.
fn is_dropped(kind: u8) -> bool {
    kind == frame::DATA || kind == 2 || kind > frame::CONTINUATION
}

impl Protocol for Http2 {
    type Session = Http2Session;

    fn session(&self) -> Http2Session {
        Http2Session {
            decoder: Decoder::new(),
            streams: VecDeque::with_capacity(self.outstanding as usize),
            sending: 0,
            next_id: 1,
            settings: ServerSettings::FIRST,
            settled: false,
            closing: false,
            resize: false,
            window: FIRST_WINDOW.into(),
            used: 0,
            answers: 0,
            head: [0; frame::HEAD_BYTES],
            head_bytes: 0,
            frame: None,
            left: 0,
            payload: Vec::new(),
            first_byte: 0,
            block: Vec::new(),
            begun_block: None,
            scratch: Scratch::default(),
            filled: FilledBody::default(),
            refusal: None,
        }
    }

    fn open(&self, session: &mut Http2Session, out: &mut Outgoing) -> SessionState {
        session.decoder.clear();
        session.streams.clear();
        session.block.clear();
        session.payload.clear();
        let old = std::mem::replace(session, self.session());
        session.decoder = old.decoder;
        session.streams = old.streams;
        session.block = old.block;
        session.payload = old.payload;
        session.scratch = old.scratch;
        session.filled.bytes = old.filled.bytes;
        out.put(frame::PREFACE);
        let mut settings = [0; 18];
        let values = [
            (frame::SETTING_PUSH, 0),
            (frame::SETTING_WINDOW, WINDOW),
            (frame::SETTING_LIST_BYTES, BLOCK_BYTES),
        ];
        for (place, (name, value)) in settings.chunks_exact_mut(6).zip(values) {
            place[..2].copy_from_slice(&name.to_be_bytes());
            place[2..].copy_from_slice(&value.to_be_bytes());
        }
        put_frame(frame::SETTINGS, 0, 0, &settings, out);
        put_window_update(0, WINDOW - FIRST_WINDOW, out);
        session.state()
    }

    fn room(&self, session: &Http2Session) -> u32 {
        if session.state() != SessionState::Ready {
            return 0;
        }
        let most = self.outstanding.min(session.settings.streams);
        // At most `outstanding` are in progress.
        most.saturating_sub(session.streams.len() as u32)
    }

    fn begin(
        &self,
        session: &mut Http2Session,
        slot: u32,
        operation: &Operation,
        out: &mut Outgoing,
    ) -> Result<(), i32> {
        let ExchangeAddress { request, number } = ExchangeAddress::unpack(operation.offset);
        let Requests {
            requests, values, ..
        } = &*self.requests;
        let encoded = requests.get(request as usize).ok_or(-libc::EINVAL)?;
        let id = session.next_id;
        let unsent = match &encoded.body {
            Body::Filler(bytes) => *bytes,
            Body::Bytes(bytes) => bytes.len() as u64,
            Body::Template(template) => {
                session.filled.fill(id, template, values, number);
                session.filled.bytes.len() as u64
            }
        };
        let (block, list_bytes) = encoded.block(values, number, unsent, &mut session.scratch);
        if list_bytes > session.settings.list_bytes {
            return Err(TOO_LONG);
        }
        session.next_id += 2;
        let resize = std::mem::take(&mut session.resize);
        put_block(id, block, resize, unsent == 0, out);
        session.sending += u32::from(unsent > 0);
        session.streams.push_back(Stream {
            id,
            slot,
            request,
            number,
            head_end: out.put_bytes(),
            unsent,
            window: session.settings.window,
            status: 0,
            expected: None,
            body_bytes: 0,
            matched: Matched::default(),
            used: 0,
            is_measured: self.measured.has(operation),
        });
        session.put_bodies(&self.requests, out);
        Ok(())
    }

    fn more(&self, session: &mut Http2Session, out: &mut Outgoing) {
        session.put_bodies(&self.requests, out);
    }

    fn sent(&self, session: &mut Http2Session, _ends: &mut Vec<End>) -> SessionState {
        session.answers = 0;
        session.state()
    }

    fn receive(
        &self,
        session: &mut Http2Session,
        mut bytes: &[u8],
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) -> SessionState {
        let broken = SessionState::Failed(-libc::EPROTO);
        loop {
            let head = if let Some(head) = session.frame {
                head
            } else {
                let begun = session.head_bytes;
                let taken = bytes.len().min(frame::HEAD_BYTES - begun);
                session.head[begun..begun + taken].copy_from_slice(&bytes[..taken]);
                session.head_bytes += taken;
                bytes = &bytes[taken..];
                if session.head_bytes < frame::HEAD_BYTES {
                    break;
                }
                session.head_bytes = 0;
                let head = FrameHead::of(session.head);
                if session.check(head).is_err() {
                    return broken;
                }
                session.frame = Some(head);
                session.left = head.length;
                session.payload.clear();
                head
            };
            // At most FRAME_BYTES are left.
            let taken = bytes.len().min(session.left as usize);
            let (piece, rest) = bytes.split_at(taken);
            if is_dropped(head.kind) {
                if session.left == head.length {
                    session.first_byte = piece.first().copied().unwrap_or_default();
                }
                if head.kind == frame::DATA && self.requests.searches {
                    session.search(head, piece, &self.requests);
                }
            } else if taken < session.left as usize || !session.payload.is_empty() {
                session.payload.extend_from_slice(piece);
            }
            session.left -= taken as u32;
            bytes = rest;
            if session.left > 0 {
                break;
            }
            session.frame = None;
            let payload = std::mem::take(&mut session.payload);
            let whole = if payload.is_empty() { piece } else { &payload };
            let read = session.take_frame(head, whole, self, out, ends);
            session.payload = payload;
            if read.is_err() {
                return broken;
            }
        }
        session.put_bodies(&self.requests, out);
        session.state()
    }

    fn closed(&self, session: &mut Http2Session, ends: &mut Vec<End>) {
        session.sending = 0;
        let result = -libc::ECONNRESET;
        let streams = session.streams.drain(..);
        ends.extend(streams.map(|Stream { slot, .. }| End { slot, result }));
    }

    fn cancel(&self, session: &mut Http2Session, slot: u32, out: &mut Outgoing) -> bool {
        let place = session.streams.iter().position(|one| one.slot == slot);
        let Some(stream) = place.and_then(|place| session.remove(place)) else {
            return true;
        };
        if out.written_bytes() < stream.head_end {
            // The server takes nothing any more: what would be put behind it would only grow.
            return false;
        }
        put_reset(stream.id, frame::CANCEL, out);
        true
    }

    fn refusal(&self, session: &Http2Session) -> Option<String> {
        session.refusal.clone()
    }

    fn remedy(&self, _session: &Http2Session) -> Option<&'static str> {
        Some("enable HTTP/2 on this port of the server, or use HTTP/1.1 (--http 1.1)")
    }

    fn measure_from(&mut self, from: Nanos) {
        self.measured.set_start(from);
    }

    fn statuses(&self) -> Option<[u64; 4]> {
        Some(self.statuses.counts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bw_model::Kind;

    #[test]
    fn a_connection_whose_ids_are_used_up_closes() {
        let fields = vec![(":method".to_owned(), "GET".to_owned())];
        let http = Http2::new(Arc::new(Requests::new(&[fields], 0, false)), 8);
        let (mut session, mut out, mut ends) = (http.session(), Outgoing::default(), Vec::new());
        http.open(&mut session, &mut out);
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let state = http.receive(&mut session, &settings, &mut out, &mut ends);
        assert_eq!((state, http.room(&session)), (SessionState::Ready, 8));
        session.next_id = frame::LARGEST;
        let operation = Operation {
            at: Nanos::ZERO,
            offset: 0,
            size: 0,
            kind: Kind::Exchange,
            notify: false,
            tag: 0,
        };
        http.begin(&mut session, 3, &operation, &mut out).unwrap();
        assert_eq!(http.room(&session), 0);
        assert_eq!(http.sent(&mut session, &mut ends), SessionState::Closing);
        // HEADERS of the last stream, with END_HEADERS, END_STREAM and the status 200.
        let answer = [0, 0, 1, 1, 5, 0x7f, 0xff, 0xff, 0xff, 0x88];
        let state = http.receive(&mut session, &answer, &mut out, &mut ends);
        let end = End { slot: 3, result: 0 };
        assert_eq!((state, ends), (SessionState::Closing, vec![end]));
        assert_eq!(http.statuses(), Some([1, 0, 0, 0]));
        http.open(&mut session, &mut out);
        assert_eq!(session.next_id, 1);
    }
}
