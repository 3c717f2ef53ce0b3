//! The state of a connection of HTTP/2: the frames that the server sends, and what follows from each.
//!
//! A server can make a client work without end: header blocks in many frames, and frames that demand answers. Both are
//! bounded ([`CONTINUATIONS`], [`ANSWERS`]); one that exceeds them is given up.

use super::frame::{
    self, BLOCK_BYTES, Broken, FrameHead, WINDOW, put_frame, put_reset, put_window_update,
};
use super::hpack::{Decoder, Fields};
use super::request::{FilledBody, Requests, Scratch};
use super::stream::Streams;
use crate::exchanges::Exchanges;
use crate::{End, Outgoing, RESEND, SessionState};

/// Maximum number of frames that continue a header block; four are enough for the largest one.
const CONTINUATIONS: u32 = 64;
/// Maximum number of answers (PING, SETTINGS) behind one that was not written: a server that demands answers and reads none
/// is given up.
const ANSWERS: u32 = 8192;
/// Size of the dynamic table that the server has for our requests, unless it says otherwise [bytes].
const TABLE_BYTES: u32 = 4096;

/// A header block of which the next frame is the continuation.
#[derive(Clone, Copy, Debug)]
struct BegunBlock {
    stream: u32,
    ends_stream: bool,
    continuations: u32,
}
/// What the server's settings say.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerSettings {
    /// Maximum number of streams.
    pub(super) streams: u32,
    /// Maximum size of a header list.
    pub(super) list_bytes: u64,
}

impl ServerSettings {
    /// Before the server has said anything.
    const FIRST: Self = Self {
        streams: u32::MAX,
        list_bytes: u64::MAX,
    };
}
/// The state of one connection.
#[derive(Debug)]
pub struct Http2Session {
    decoder: Decoder,
    pub(super) streams: Streams,
    pub(super) settings: ServerSettings,
    /// Whether the server's settings have arrived.
    settled: bool,
    /// Whether the server takes no more streams.
    closing: bool,
    /// Whether the next header block must say that it uses no dynamic table, because the server has reduced it.
    pub(super) resize: bool,
    /// How much of our window was used since the last WINDOW_UPDATE [bytes].
    used: u32,
    /// How many answers were put since this many bytes were.
    answers: u32,
    answers_from: u64,
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
    pub(super) scratch: Scratch,
    pub(super) filled: FilledBody,
    pub(super) refusal: Option<String>,
}

impl Http2Session {
    pub(super) fn new(outstanding: u32) -> Self {
        Self {
            decoder: Decoder::new(),
            streams: Streams::new(outstanding),
            settings: ServerSettings::FIRST,
            settled: false,
            closing: false,
            resize: false,
            used: 0,
            answers: 0,
            answers_from: 0,
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

    /// Starts anew on another connection, with the memory that it has.
    pub(super) fn restart(&mut self) {
        let old = std::mem::replace(self, Self::new(0));
        self.decoder = old.decoder;
        self.decoder.clear();
        self.streams = old.streams;
        self.streams.restart();
        self.block = old.block;
        self.payload = old.payload;
        self.scratch = old.scratch;
        self.filled = old.filled.emptied();
    }

    pub(super) fn state(&self) -> SessionState {
        if self.closing || self.streams.are_used_up() {
            SessionState::Closing
        } else if self.settled {
            SessionState::Ready
        } else {
            SessionState::Handshake
        }
    }

    /// Ends a stream whose response is complete.
    fn complete(
        &mut self,
        id: u32,
        http: &Exchanges<Requests>,
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) {
        let Some(stream) = self.streams.remove(id) else {
            return;
        };
        if stream.sending.unsent > 0 {
            put_reset(stream.sending.stream, frame::CANCEL, out);
        }
        let request = http.requests.sent(&stream.sending);
        let (slot, is_measured) = (stream.slot, stream.is_measured);
        let (status, mut result) = (stream.status, stream.result(request));
        if let Some(calls) = &http.calls {
            let text = self.decoder.message();
            result = calls.complete(&stream.answer, status, text, result);
        }
        let result = http.complete(slot, status, &request.check, is_measured, result);
        ends.push(stream.end(result));
    }

    /// Resets a stream whose frames break the rules.
    fn fail(&mut self, id: u32, code: u32, out: &mut Outgoing, ends: &mut Vec<End>) {
        if let Some(stream) = self.streams.remove(id) {
            put_reset(id, code, out);
            ends.push(stream.end(-libc::EPROTO));
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
        http: &Exchanges<Requests>,
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) -> Result<(), Broken> {
        match head.kind {
            frame::DATA => self.take_data(head, http, out, ends),
            frame::HEADERS => self.take_headers(head, payload, http, out, ends),
            frame::CONTINUATION => self.take_continuation(head, payload, http, out, ends),
            frame::RST_STREAM => self.take_reset(head, payload, http, ends),
            frame::SETTINGS => self.take_settings(head, payload, out),
            frame::PUSH_PROMISE => Err(Broken),
            frame::PING => self.take_ping(head, payload, out),
            frame::GOAWAY => self.take_goaway(payload, ends),
            frame::WINDOW_UPDATE => self.take_window_update(head, payload, out, ends),
            // PRIORITY, and frames of extensions.
            _ => Ok(()),
        }
    }

    fn take_headers(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        http: &Exchanges<Requests>,
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) -> Result<(), Broken> {
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

    fn take_continuation(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        http: &Exchanges<Requests>,
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) -> Result<(), Broken> {
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

    fn take_reset(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        http: &Exchanges<Requests>,
        ends: &mut Vec<End>,
    ) -> Result<(), Broken> {
        let code = frame::number(payload).ok_or(Broken)?;
        self.streams.known(head.stream)?;
        if let Some(stream) = self.streams.remove(head.stream) {
            let result = match (&http.calls, code) {
                (Some(calls), _) => calls.reset(code, frame::error_name(code)),
                (None, frame::REFUSED_STREAM) => (-libc::ECONNREFUSED).into(),
                (None, _) => (-libc::ECONNRESET).into(),
            };
            ends.push(stream.end(result));
        }
        Ok(())
    }

    fn take_ping(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        out: &mut Outgoing,
    ) -> Result<(), Broken> {
        if head.stream != 0 || payload.len() != 8 {
            return Err(Broken);
        }
        if head.has(frame::ACK) {
            return Ok(());
        }
        put_frame(frame::PING, frame::ACK, 0, payload, out);
        self.answer(out)
    }

    fn take_goaway(&mut self, payload: &[u8], ends: &mut Vec<End>) -> Result<(), Broken> {
        let last = frame::number(payload).ok_or(Broken)? & frame::LARGEST;
        let code = payload.get(4..).and_then(frame::number).ok_or(Broken)?;
        self.closing = true;
        if !self.settled {
            let name = frame::error_name(code);
            self.refusal = Some(format!("it ended the connection (GOAWAY, {name})"));
        }
        while let Some(stream) = self.streams.remove_above(last) {
            ends.push(stream.end(RESEND));
        }
        Ok(())
    }

    /// Continues the search for the text that a response must contain, and reads the events of a stream, in a piece of the
    /// payload of DATA.
    fn read_body(&mut self, head: FrameHead, piece: &[u8], http: &Exchanges<Requests>) {
        let Some(stream) = self.streams.find(head.stream) else {
            return;
        };
        let check = &http.requests.sent(&stream.sending).check;
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
            check.read(&mut stream.matched, content);
            if http.calls.is_some() {
                stream.answer.read(content);
            }
            // Before the response's own head it is an error.
            if stream.status > 0
                && !content.is_empty()
                && let Some(streams) = http.streams_of(stream.status)
            {
                if stream.is_encoded {
                    streams.refuse(stream.slot);
                } else {
                    streams.read(stream.slot, content, stream.is_measured);
                }
            }
        }
    }

    fn take_data(
        &mut self,
        head: FrameHead,
        http: &Exchanges<Requests>,
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
        let Some(stream) = self.streams.known(head.stream)? else {
            return Ok(());
        };
        if stream.status == 0 {
            self.fail(head.stream, frame::PROTOCOL_ERROR, out, ends);
            return Ok(());
        }
        stream.body_bytes += u64::from(content);
        if content > 0
            && let Some(streams) = http.streams_of(stream.status)
        {
            streams.boundary(stream.slot, stream.is_measured);
        }
        if head.has(frame::END_STREAM) {
            self.complete(head.stream, http, out, ends);
            return Ok(());
        }
        stream.used += head.length;
        if stream.used > WINDOW / 2 {
            put_window_update(stream.sending.stream, std::mem::take(&mut stream.used), out);
        }
        Ok(())
    }

    /// Reads a whole header block; a stream's first without the status 1xx is its response, the next its trailers.
    fn take_block(
        &mut self,
        begun: BegunBlock,
        block: &[u8],
        http: &Exchanges<Requests>,
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) -> Result<(), Broken> {
        let stream = self.streams.known(begun.stream)?;
        // Always: what follows on this connection refers to it.
        let fields = self.decoder.decode(block).map_err(|_| Broken)?;
        let Some(stream) = stream else { return Ok(()) };
        stream.answer.take_status(fields.grpc_status);
        let valid = match fields {
            Fields {
                malformed: true, ..
            } => false,
            Fields {
                status: Some(status),
                content_length,
                is_encoded,
                ..
            } if stream.status == 0 => match status {
                100..=199 if status != 101 && !begun.ends_stream => return Ok(()),
                200..=999 => {
                    stream.status = status;
                    stream.expected = content_length;
                    stream.is_encoded = is_encoded;
                    true
                }
                _ => false,
            },
            Fields { status: None, .. } => stream.status != 0 && begun.ends_stream,
            _ => false,
        };
        if !valid {
            self.fail(begun.stream, frame::PROTOCOL_ERROR, out, ends);
        } else if begun.ends_stream {
            self.complete(begun.stream, http, out, ends);
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
                frame::SETTING_WINDOW => self.streams.set_first_window(value)?,
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
        self.answer(out)
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
            return self.streams.open_window(more);
        }
        let Some(stream) = self.streams.known(head.stream)? else {
            return Ok(());
        };
        stream.window += i64::from(more);
        if more == 0 {
            self.fail(head.stream, frame::PROTOCOL_ERROR, out, ends);
        } else if stream.window > i64::from(frame::LARGEST) {
            self.fail(head.stream, frame::FLOW_CONTROL_ERROR, out, ends);
        }
        Ok(())
    }

    /// Counts an answer that was put.
    fn answer(&mut self, out: &Outgoing) -> Result<(), Broken> {
        // The first of those that were counted has left, whatever is to be sent after it.
        if out.written_bytes() >= self.answers_from {
            self.answers = 0;
            self.answers_from = out.put_bytes();
        }
        self.answers += 1;
        if self.answers > ANSWERS {
            return Err(Broken);
        }
        Ok(())
    }

    /// Reads what has arrived, frame by frame.
    pub(super) fn read(
        &mut self,
        mut bytes: &[u8],
        http: &Exchanges<Requests>,
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) -> Result<(), Broken> {
        loop {
            let head = if let Some(head) = self.frame {
                head
            } else {
                let begun = self.head_bytes;
                let taken = bytes.len().min(frame::HEAD_BYTES - begun);
                self.head[begun..begun + taken].copy_from_slice(&bytes[..taken]);
                self.head_bytes += taken;
                bytes = &bytes[taken..];
                if self.head_bytes < frame::HEAD_BYTES {
                    return Ok(());
                }
                self.head_bytes = 0;
                let head = FrameHead::of(self.head);
                self.check(head)?;
                self.frame = Some(head);
                self.left = head.length;
                self.payload.clear();
                head
            };
            // At most FRAME_BYTES are left.
            let taken = bytes.len().min(self.left as usize);
            let (piece, rest) = bytes.split_at(taken);
            if is_dropped(head.kind) {
                if self.left == head.length {
                    self.first_byte = piece.first().copied().unwrap_or_default();
                }
                let is_read =
                    http.requests.searches || http.streams.is_some() || http.calls.is_some();
                if head.kind == frame::DATA && is_read {
                    self.read_body(head, piece, http);
                }
            } else if taken < self.left as usize || !self.payload.is_empty() {
                self.payload.extend_from_slice(piece);
            }
            self.left -= taken as u32;
            bytes = rest;
            if self.left > 0 {
                return Ok(());
            }
            self.frame = None;
            let payload = std::mem::take(&mut self.payload);
            let whole = if payload.is_empty() { piece } else { &payload };
            let read = self.take_frame(head, whole, http, out, ends);
            self.payload = payload;
            read?;
        }
    }

    /// Puts as much of the bodies as the server accepts now.
    pub(super) fn put_bodies(&mut self, requests: &Requests, out: &mut Outgoing) {
        self.streams.put_bodies(requests, &mut self.filled, out);
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

/// Returns whether the payload of such a frame is not stored.
fn is_dropped(kind: u8) -> bool {
    kind == frame::DATA || kind == 2 || kind > frame::CONTINUATION
}
