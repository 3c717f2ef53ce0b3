//! An HTTP/1.x response, read a few bytes at a time: pure.
//!
//! Decision: `httparse` parses the head once, when its end has arrived. A head that arrives in pieces is stored in a
//! buffer allocated then: most heads arrive whole, and a buffer of the maximum size for each of 10,000 connections is
//! 160 MB of locked memory. A body is never stored, whatever its length: its bytes are counted. How a body ends and
//! whether the connection outlives it follows RFC 9112, sections 6.3 and 9.3; what a load generator cannot decide
//! safely (two lengths that differ, an unknown coding) is malformed.

pub use crate::http1::chunked::BodyPart;
use crate::http1::chunked::Chunked;
use httparse::{Header, ParserConfig, Status};
use memchr::memchr_iter;
use std::mem::MaybeUninit;

/// The maximum length of a head [bytes]; a longer one is malformed. As in curl.
pub const HEAD_LIMIT: usize = 300 * 1024;
/// Capacity for heads that a reader retains for the next response [bytes]: enough for ordinary ones.
const RETAINED_HEAD: usize = 1024;
/// The maximum number of header fields in a head; more are malformed. As in curl.
pub const FIELDS_LIMIT: usize = 5000;
/// Fields that are parsed on the stack. A head with more allocates.
const FIELDS_ON_STACK: usize = 128;

const PROTOCOL: &[u8] = b"HTTP/1.";

/// The result of reading a piece of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseProgress {
    /// The response is not complete.
    More,
    /// The response is complete.
    Complete {
        /// How many bytes of the piece belong to it.
        used: usize,
    },
    /// This is not an HTTP/1.x response.
    Malformed,
}

/// What the head says of a body.
#[derive(Clone, Copy, Debug, Default)]
pub struct BodyHead {
    /// The status of the response.
    pub status: u16,
    /// Whether the body has a content coding.
    pub is_encoded: bool,
}

#[derive(Clone, Copy, Debug)]
enum ResponseState {
    Head,
    Body(Framing),
    Complete,
    Malformed,
}

/// A reader of one response at a time.
#[derive(Debug)]
pub struct Response {
    place: ResponseState,
    head: Vec<u8>,
    without_body: bool,
    about: BodyHead,
    body_bytes: u64,
    persistent: bool,
}

impl Response {
    /// Returns a reader. It allocates only if a head arrives in pieces.
    #[must_use]
    pub fn new() -> Self {
        Self {
            place: ResponseState::Head,
            head: Vec::new(),
            without_body: false,
            about: BodyHead::default(),
            body_bytes: 0,
            persistent: false,
        }
    }

    /// Prepares for the response to a new request; `without_body`: the request is HEAD.
    pub fn begin(&mut self, without_body: bool) {
        self.place = ResponseState::Head;
        self.head.clear();
        self.head.shrink_to(RETAINED_HEAD);
        self.without_body = without_body;
        self.about = BodyHead::default();
        self.body_bytes = 0;
        self.persistent = false;
    }

    /// Returns the status once the head has been read; 0 before.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.about.status
    }

    /// Returns the number of body bytes so far, without the transfer coding.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Returns whether the connection may be used again.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        self.persistent
    }

    /// Returns whether a part of it has been read.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        !self.head.is_empty() || !matches!(self.place, ResponseState::Head)
    }

    /// Reads the next piece; does not consume what follows a complete response.
    pub fn receive(&mut self, bytes: &[u8]) -> ParseProgress {
        self.receive_with(bytes, |_, _| ())
    }

    /// As [`receive`](Self::receive); `body` gets the parts of the body, with what the head says of it.
    pub fn receive_with(
        &mut self,
        bytes: &[u8],
        mut body: impl FnMut(BodyHead, BodyPart<'_>),
    ) -> ParseProgress {
        let mut used = 0;
        loop {
            let progress = match self.place {
                ResponseState::Head => self.receive_head(&bytes[used..]),
                ResponseState::Body(framing) => {
                    let head = self.about;
                    self.receive_body(framing, &bytes[used..], &mut |part| body(head, part))
                }
                ResponseState::Complete => return ParseProgress::Complete { used },
                ResponseState::Malformed => return ParseProgress::Malformed,
            };
            match progress {
                Some(more) => used += more,
                None => return ParseProgress::More,
            }
        }
    }

    /// Returns whether the response is complete now that the server has closed the connection.
    pub fn close(&mut self) -> bool {
        if matches!(self.place, ResponseState::Body(Framing::Close)) {
            self.place = ResponseState::Complete;
        }
        matches!(self.place, ResponseState::Complete)
    }

    /// Reads bytes of the head; returns the bytes used, or None when more are needed.
    fn receive_head(&mut self, bytes: &[u8]) -> Option<usize> {
        let stored = self.head.len();
        if stored == 0 {
            // Most heads arrive whole, and the parser finds the end itself.
            return match self.parse_head(bytes) {
                Some(Status::Complete(length)) => Some(length),
                None if head_end(bytes).is_some() => self.refuse(),
                _ => {
                    let room = self.store(bytes);
                    self.await_more(bytes.len() - room)
                }
            };
        }
        let room = self.store(bytes);
        // The end may straddle stored and new bytes: at most 3 stored bytes belong to it.
        let from = stored.saturating_sub(3);
        let Some(end) = head_end(&self.head[from..]).map(|end| from + end) else {
            return self.await_more(bytes.len() - room);
        };
        let head = std::mem::take(&mut self.head);
        let parsed = self.parse_head(&head[..end]);
        self.head = head;
        self.head.clear();
        self.head.shrink_to(RETAINED_HEAD);
        if parsed != Some(Status::Complete(end)) {
            return self.refuse();
        }
        Some(end - stored)
    }

    fn refuse(&mut self) -> Option<usize> {
        self.place = ResponseState::Malformed;
        Some(0)
    }

    /// Stores a piece of a head; returns how many bytes found room.
    fn store(&mut self, bytes: &[u8]) -> usize {
        let room = (HEAD_LIMIT - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        room
    }

    /// Refuses at once a head that can never be valid: `left_over` bytes found no room.
    fn await_more(&mut self, left_over: usize) -> Option<usize> {
        let start = self.head.len().min(PROTOCOL.len());
        if left_over > 0 || self.head[..start] != PROTOCOL[..start] {
            return self.refuse();
        }
        None
    }

    /// Parses a head at the start of these bytes; if it is whole, next comes the body, the end, or (after 1xx) another
    /// head. None: it is malformed.
    fn parse_head(&mut self, bytes: &[u8]) -> Option<Status<usize>> {
        match self.parse_fields(bytes, &mut [MaybeUninit::uninit(); FIELDS_ON_STACK]) {
            Err(httparse::Error::TooManyHeaders) => {
                let mut fields = vec![MaybeUninit::uninit(); FIELDS_LIMIT];
                self.parse_fields(bytes, &mut fields).ok().flatten()
            }
            status => status.ok().flatten(),
        }
    }

    /// As [`parse_head`](Self::parse_head), with room for so many fields.
    fn parse_fields<'a>(
        &mut self,
        bytes: &'a [u8],
        fields: &mut [MaybeUninit<Header<'a>>],
    ) -> Result<Option<Status<usize>>, httparse::Error> {
        let mut parsed = httparse::Response::new(&mut []);
        let config = ParserConfig::default();
        let status = config.parse_response_with_uninit_headers(&mut parsed, bytes, fields)?;
        if let (Status::Complete(length), Some(code)) = (status, parsed.code) {
            self.about.status = code;
            let next = self.frame(parsed.version == Some(1), parsed.headers);
            let (true, Some(next)) = (length <= HEAD_LIMIT && bytes.starts_with(PROTOCOL), next)
            else {
                return Ok(None);
            };
            self.place = next;
        }
        Ok(Some(status))
    }

    /// Returns what follows the head; None if the head contradicts itself.
    fn frame(&mut self, version_1_1: bool, fields: &[Header<'_>]) -> Option<ResponseState> {
        // 101 switches the connection to another protocol, which was not requested.
        let status = self.about.status;
        if status < 100 || status == 101 {
            return None;
        }
        if status < 200 {
            return Some(ResponseState::Head);
        }
        let framing = Framing::of(fields)?;
        self.about.is_encoded = is_encoded(fields);
        self.persistent = is_persistent(version_1_1, fields);
        if self.without_body || matches!(status, 204 | 304) {
            return Some(ResponseState::Complete);
        }
        self.persistent &= !is_doubtful(fields) && !matches!(framing, Framing::Close);
        Some(match framing {
            Framing::Length(0) => ResponseState::Complete,
            _ => ResponseState::Body(framing),
        })
    }

    /// Reads bytes of the body; returns the bytes used, or None when more are needed.
    fn receive_body(
        &mut self,
        framing: Framing,
        bytes: &[u8],
        body: &mut impl FnMut(BodyPart<'_>),
    ) -> Option<usize> {
        if bytes.is_empty() {
            return None;
        }
        match framing {
            Framing::Length(left) => Some(self.receive_length(left, bytes, body)),
            Framing::Chunked(chunked) => Some(self.receive_chunked(chunked, bytes, body)),
            Framing::Close => {
                self.count(bytes.len() as u64);
                body(BodyPart::Bytes(bytes));
                Some(bytes.len())
            }
        }
    }

    fn receive_length(
        &mut self,
        left: u64,
        bytes: &[u8],
        body: &mut impl FnMut(BodyPart<'_>),
    ) -> usize {
        let taken = left.min(bytes.len() as u64);
        self.count(taken);
        // No more than the length of a slice.
        body(BodyPart::Bytes(&bytes[..taken as usize]));
        self.place = match left - taken {
            0 => ResponseState::Complete,
            left => ResponseState::Body(Framing::Length(left)),
        };
        // No more than the length of a slice.
        taken as usize
    }

    fn receive_chunked(
        &mut self,
        mut chunked: Chunked,
        bytes: &[u8],
        body: &mut impl FnMut(BodyPart<'_>),
    ) -> usize {
        let Ok(read) = chunked.read(bytes, body) else {
            self.place = ResponseState::Malformed;
            return 0;
        };
        self.count(read.data);
        self.place = if read.complete {
            ResponseState::Complete
        } else {
            ResponseState::Body(Framing::Chunked(chunked))
        };
        read.used
    }

    fn count(&mut self, bytes: u64) {
        self.body_bytes = self.body_bytes.saturating_add(bytes);
    }
}

impl Default for Response {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns where the first empty line ends.
fn head_end(bytes: &[u8]) -> Option<usize> {
    memchr_iter(b'\n', bytes).find_map(|at| match bytes[at + 1..] {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}

/// How the body ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Framing {
    /// After this number of bytes.
    Length(u64),
    /// With the last chunk.
    Chunked(Chunked),
    /// With the connection.
    Close,
}

impl Framing {
    /// Returns how the body of a message with these fields ends; None if that cannot be determined.
    pub(crate) fn of(fields: &[Header<'_>]) -> Option<Self> {
        if has_field(fields, "transfer-encoding") {
            return Self::of_codings(fields);
        }
        if has_field(fields, "content-length") {
            return length(fields).map(Self::Length);
        }
        Some(Self::Close)
    }

    /// The same by the transfer codings: `chunked` ends the body if it is the last one and occurs once.
    fn of_codings(fields: &[Header<'_>]) -> Option<Self> {
        let mut times = 0;
        let mut last = false;
        for coding in list(fields, "transfer-encoding") {
            last = coding.eq_ignore_ascii_case(b"chunked");
            times += u32::from(last);
        }
        match (last, times) {
            (true, 1) => Some(Self::Chunked(Chunked::new())),
            (false, 0) => Some(Self::Close),
            _ => None,
        }
    }
}

/// Returns whether two fields contradict each other about the end of the body: then nothing after it can be trusted.
pub(crate) fn is_doubtful(fields: &[Header<'_>]) -> bool {
    has_field(fields, "content-length") && has_field(fields, "transfer-encoding")
}

/// Returns the one length that all Content-Length fields agree on.
fn length(fields: &[Header<'_>]) -> Option<u64> {
    let mut agreed = None;
    for value in list(fields, "content-length") {
        let length = decimal(value)?;
        if agreed.is_some_and(|agreed| agreed != length) {
            return None;
        }
        agreed = Some(length);
    }
    agreed
}

/// Returns the number that consists of digits alone; None for anything else.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, &digit| {
        if !digit.is_ascii_digit() {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

/// Returns whether the connection stays open after this message (RFC 9112, section 9.3).
pub fn is_persistent(version_1_1: bool, fields: &[Header<'_>]) -> bool {
    let has_token =
        |word: &[u8]| list(fields, "connection").any(|option| option.eq_ignore_ascii_case(word));
    !has_token(b"close") && (version_1_1 || has_token(b"keep-alive"))
}

/// Returns whether the body has a content coding.
fn is_encoded(fields: &[Header<'_>]) -> bool {
    list(fields, "content-encoding").any(|coding| !coding.eq_ignore_ascii_case(b"identity"))
}

/// Returns the elements of a field that is a list, over all its lines, without empty ones (RFC 9110, section 5.6.1).
fn list<'a>(fields: &'a [Header<'_>], name: &'static str) -> impl Iterator<Item = &'a [u8]> {
    values(fields, name)
        .flat_map(|value| value.split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|element| !element.is_empty())
}

fn has_field(fields: &[Header<'_>], name: &'static str) -> bool {
    values(fields, name).next().is_some()
}

fn values<'a>(fields: &'a [Header<'_>], name: &'static str) -> impl Iterator<Item = &'a [u8]> {
    fields
        .iter()
        .filter(move |field| field.name.eq_ignore_ascii_case(name))
        .map(|field| field.value)
}
