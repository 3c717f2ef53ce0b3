//! The requests of HTTP/2: their fields and bodies, encoded before the run as far as they are the same for each operation.

use super::frame::{self, FrameHead, put_frame};
use super::hpack;
use crate::check::Check;
use crate::http1::Body;
use crate::values::put_integer;
use crate::{Outgoing, Template, Values};
use std::sync::Arc;

/// The byte that bodies consist of.
const FILLER: u8 = b'x';

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
pub(super) struct EncodedRequest {
    block: Box<[BlockPiece]>,
    /// The size of its fields as SETTINGS_MAX_HEADER_LIST_SIZE counts, without the values that differ [bytes].
    list_bytes: u64,
    body: Body,
    pub(super) is_head: bool,
    pub(super) check: Check,
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

    /// Returns the length of the body of the operation with this number [bytes]; makes that of a template.
    pub(super) fn body_bytes(
        &self,
        stream: u32,
        values: &Values,
        number: u64,
        filled: &mut FilledBody,
    ) -> u64 {
        match &self.body {
            Body::Filler(bytes) => *bytes,
            Body::Bytes(bytes) => bytes.len() as u64,
            Body::Template(template) => {
                filled.fill(stream, template, values, number);
                filled.bytes.len() as u64
            }
        }
    }

    /// Returns the header block of an operation and the size of its fields [bytes]; `body_bytes`: the length of its body.
    pub(super) fn block<'a>(
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
    pub(super) values: Values,
    filler: Arc<[u8]>,
    /// Whether a text is searched for in a response.
    pub(super) searches: bool,
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

    /// Returns the request with this index.
    pub(super) fn get(&self, index: u32) -> Option<&EncodedRequest> {
        self.requests.get(index as usize)
    }

    /// Returns the request that is sent.
    pub(super) fn sent(&self, sending: &Sending) -> &EncodedRequest {
        &self.requests[sending.request as usize]
    }

    /// Puts the next `length` bytes of the body of what is sent.
    pub(super) fn put_body(
        &self,
        sending: &Sending,
        length: u32,
        filled: &mut FilledBody,
        out: &mut Outgoing,
    ) {
        // What is unsent is at its end.
        let begin = |bytes: usize| bytes - sending.unsent as usize;
        match &self.sent(sending).body {
            Body::Filler(_) => out.put_pattern(&self.filler, 0, length.into()),
            Body::Bytes(bytes) => out.put_pattern(bytes, begin(bytes.len()) as u64, length.into()),
            Body::Template(template) => {
                if filled.stream != sending.stream {
                    filled.fill(sending.stream, template, &self.values, sending.number);
                }
                let rest = &filled.bytes[begin(filled.bytes.len())..];
                out.put(&rest[..length as usize]);
            }
        }
    }
}

/// A request that a stream sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    /// The id of the stream.
    pub(super) stream: u32,
    /// The index of the request, and the number that its values have.
    pub(super) request: u32,
    pub(super) number: u64,
    /// The part of its body that was not put [bytes].
    pub(super) unsent: u64,
}

/// The bytes of the last body that was made of a template.
#[derive(Debug, Default)]
pub(super) struct FilledBody {
    /// The stream that it belongs to.
    stream: u32,
    bytes: Vec<u8>,
}

impl FilledBody {
    /// Returns it without a stream, with the memory that it has.
    pub(super) fn emptied(self) -> Self {
        Self { stream: 0, ..self }
    }

    fn fill(&mut self, stream: u32, template: &Template, values: &Values, number: u64) {
        self.stream = stream;
        self.bytes.clear();
        template.fill(values, number, &mut self.bytes);
    }
}

/// Where a header block with values is made.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    block: Vec<u8>,
    /// One value of it.
    text: Vec<u8>,
}
/// Puts a header block as the frames of a new stream; `resize`: after the statement that no dynamic table is used.
pub(super) fn put_block(
    stream: u32,
    block: &[u8],
    resize: bool,
    ends_stream: bool,
    out: &mut Outgoing,
) {
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
