//! The end of a reply of Redis and the length of its values, read from bytes that arrive in any pieces.
//!
//! All types of RESP2 and RESP3 are known, streamed ones included. Values are counted and dropped as they arrive, so a
//! reply of any size needs no memory; of a line only the beginning is stored, for the first word of an error. Lengths
//! and nesting are bounded: a reply beyond a bound is malformed. Sources: the specifications of RESP
//! (redis.io/docs/latest/develop/reference/protocol-spec) and of RESP3 (github.com/redis/redis-specifications).

/// How many aggregates can be inside each other. A reply of Redis has at most a few.
const NESTING: usize = 32;
/// Maximum length of a value [bytes], and of an aggregate [elements].
const LENGTH: u64 = 1 << 40;
/// Maximum length of a line: a simple string, an error or a number [bytes].
const LINE: usize = 64 * 1024;
/// How much of a line or an error is stored [bytes].
const STORED_BYTES: usize = 256;

/// How far a reply is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyProgress {
    /// All bytes belong to the reply, and it goes on.
    More,
    /// The reply ended after `used` bytes.
    Complete {
        /// How many bytes belong to it.
        used: usize,
        /// What it was.
        value: Value,
    },
    /// These bytes are no reply.
    Malformed,
}

/// A complete reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Values that have so many bytes together: those of strings, numbers and nested errors, without their types and
    /// lengths.
    Bytes(u64),
    /// No value.
    Nil,
    /// An error; [`Reply::stored`] has its text.
    Error,
    /// A message that is the answer to no command.
    Push,
}

/// What a line begins with: the type of a value.
type Type = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The next byte is the type of a value.
    Type,
    /// In the line of this type.
    Line(Type),
    /// Behind the carriage return of a line.
    LineFeed(Type),
    /// In a value of which so many bytes are missing; `stored`: of a top-level error.
    Body {
        left: u64,
        stored: bool,
    },
    /// Behind the last byte of a value, and behind its carriage return.
    BodyReturn,
    BodyFeed,
}

/// An aggregate whose end has not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    /// So many elements are missing, at least one.
    Elements(u64),
    /// So many elements of an attribute are missing, which belongs to the value behind it.
    Attribute(u64),
    /// Elements until `.`.
    Streamed,
    /// A string in pieces.
    Pieces,
}

/// A reply that is being read.
#[derive(Clone, Debug)]
pub struct Reply {
    state: State,
    frames: [Frame; NESTING],
    depth: usize,
    /// How many of the frames are attributes: their bytes are no values.
    attributes: u32,
    bytes: u64,
    stored: [u8; STORED_BYTES],
    stored_bytes: usize,
    line_length: usize,
    /// What the reply will be when it is complete.
    value: Value,
}

impl Default for Reply {
    fn default() -> Self {
        Self::new()
    }
}

impl Reply {
    /// Returns the state before the first byte of a reply.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: State::Type,
            frames: [Frame::Streamed; NESTING],
            depth: 0,
            attributes: 0,
            bytes: 0,
            stored: [0; STORED_BYTES],
            stored_bytes: 0,
            line_length: 0,
            value: Value::Bytes(0),
        }
    }

    /// Returns whether a part of it has been read.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.depth > 0 || !matches!(self.state, State::Type)
    }

    /// Starts anew with the next reply.
    pub fn begin(&mut self) {
        self.state = State::Type;
        self.depth = 0;
        self.attributes = 0;
        self.bytes = 0;
        self.value = Value::Bytes(0);
    }

    /// Returns the beginning of the last line, without its type: of an error reply its text.
    #[must_use]
    pub fn stored(&self) -> &[u8] {
        &self.stored[..self.stored_bytes]
    }

    /// Returns the first word of [`stored`](Self::stored).
    #[must_use]
    pub fn word(&self) -> &[u8] {
        let word = self.stored().split(|byte| *byte == b' ').next();
        word.unwrap_or_default()
    }

    /// Reads bytes that were received; after [`ReplyProgress::Complete`], call [`begin`](Self::begin).
    pub fn receive(&mut self, bytes: &[u8]) -> ReplyProgress {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            let read = match self.state {
                State::Type => {
                    rest = after;
                    self.begin_value(byte)
                }
                State::Line(kind) => self.read_line(kind, &mut rest),
                State::LineFeed(kind) => {
                    rest = after;
                    if byte == b'\n' {
                        self.end_line(kind)
                    } else {
                        None
                    }
                }
                State::Body { left, stored } => {
                    let taken = usize::try_from(left).map_or(rest.len(), |one| one.min(rest.len()));
                    if stored {
                        self.keep(&rest[..taken]);
                    }
                    rest = &rest[taken..];
                    let left = left - taken as u64;
                    self.state = if left == 0 {
                        State::BodyReturn
                    } else {
                        State::Body { left, stored }
                    };
                    Some(false)
                }
                State::BodyReturn => {
                    rest = after;
                    self.state = State::BodyFeed;
                    (byte == b'\r').then_some(false)
                }
                State::BodyFeed => {
                    rest = after;
                    if byte == b'\n' {
                        Some(self.end_value())
                    } else {
                        None
                    }
                }
            };
            match read {
                None => return ReplyProgress::Malformed,
                Some(false) => {}
                Some(true) => {
                    let value = match self.value {
                        Value::Bytes(_) => Value::Bytes(self.bytes),
                        other => other,
                    };
                    let used = bytes.len() - rest.len();
                    return ReplyProgress::Complete { used, value };
                }
            }
        }
        ReplyProgress::More
    }

    /// Begins the line of a type. This and the following return whether the reply is complete; None: it is malformed.
    fn begin_value(&mut self, kind: Type) -> Option<bool> {
        let fits = match self.innermost() {
            Some(Frame::Pieces) => kind == b';',
            Some(Frame::Streamed) => kind != b';' && kind != b'>',
            Some(_) => !matches!(kind, b';' | b'>' | b'.'),
            None => !matches!(kind, b';' | b'.'),
        };
        self.stored_bytes = 0;
        self.line_length = 0;
        self.state = State::Line(kind);
        let known = b"+-:$*_#,(!=%~>|;.".contains(&kind);
        (fits && known).then_some(false)
    }

    fn innermost(&self) -> Option<Frame> {
        let place = self.depth.checked_sub(1)?;
        Some(self.frames[place])
    }

    fn read_line(&mut self, kind: Type, rest: &mut &[u8]) -> Option<bool> {
        let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
        self.keep(piece);
        self.line_length += piece.len();
        *rest = after;
        if let Some((&end, after)) = after.split_first() {
            *rest = after;
            self.state = State::LineFeed(kind);
            if end == b'\n' {
                return None;
            }
        }
        (self.line_length <= LINE).then_some(false)
    }

    fn keep(&mut self, bytes: &[u8]) {
        let length = bytes.len().min(STORED_BYTES - self.stored_bytes);
        let end = self.stored_bytes + length;
        self.stored[self.stored_bytes..end].copy_from_slice(&bytes[..length]);
        self.stored_bytes = end;
    }

    fn end_line(&mut self, kind: Type) -> Option<bool> {
        // Numbers may be longer than what is stored.
        let line = &self.stored[..self.stored_bytes];
        match kind {
            b'+' => Some(self.end_scalar()),
            b'-' => {
                if self.depth == 0 {
                    self.value = Value::Error;
                }
                Some(self.end_scalar())
            }
            b':' | b'(' => is_integer(line).then(|| self.end_scalar()),
            b',' => is_double(line).then(|| self.end_scalar()),
            b'#' => matches!(line, b"t" | b"f").then(|| self.end_scalar()),
            b'_' => line.is_empty().then(|| self.end_nil()),
            b'.' => {
                if !line.is_empty() {
                    return None;
                }
                self.depth -= 1;
                Some(self.end_value())
            }
            b'$' if line == b"?" => self.enter(Frame::Pieces),
            b'*' | b'~' | b'%' if line == b"?" => self.enter(Frame::Streamed),
            b'$' | b'*' if line == b"-1" => Some(self.end_nil()),
            b'$' | b'=' | b'!' | b';' => self.begin_body(kind, length(line)?),
            _ => self.begin_aggregate(kind, length(line)?),
        }
    }

    fn begin_body(&mut self, kind: Type, length: u64) -> Option<bool> {
        let error = kind == b'!' && self.depth == 0;
        if error {
            self.value = Value::Error;
        }
        if kind == b';' && length == 0 {
            self.depth -= 1;
            return Some(self.end_value());
        }
        // That of a verbatim string begins with three letters and a colon.
        if kind == b'=' && length < 4 {
            return None;
        }
        self.count(length);
        self.stored_bytes = 0;
        self.state = if length == 0 {
            State::BodyReturn
        } else {
            State::Body {
                left: length,
                stored: error,
            }
        };
        Some(false)
    }

    fn begin_aggregate(&mut self, kind: Type, length: u64) -> Option<bool> {
        let pairs = matches!(kind, b'%' | b'|');
        let elements = length * if pairs { 2 } else { 1 };
        if kind == b'>' {
            self.value = Value::Push;
        }
        match (kind, elements) {
            (b'|', 0) => {
                self.state = State::Type;
                Some(false)
            }
            (b'|', _) => {
                self.attributes += 1;
                self.enter(Frame::Attribute(elements))
            }
            (_, 0) => Some(self.end_value()),
            _ => self.enter(Frame::Elements(elements)),
        }
    }

    fn enter(&mut self, frame: Frame) -> Option<bool> {
        *self.frames.get_mut(self.depth)? = frame;
        self.depth += 1;
        self.state = State::Type;
        Some(false)
    }

    fn count(&mut self, bytes: u64) {
        if self.attributes == 0 {
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }

    fn end_scalar(&mut self) -> bool {
        self.count(self.line_length as u64);
        self.end_value()
    }

    fn end_nil(&mut self) -> bool {
        if self.depth == 0 {
            self.value = Value::Nil;
        }
        self.end_value()
    }

    /// Ends a value, and the aggregates whose last one it was; returns whether the reply is complete.
    fn end_value(&mut self) -> bool {
        self.state = State::Type;
        while let Some(place) = self.depth.checked_sub(1) {
            let frame = &mut self.frames[place];
            match frame {
                Frame::Streamed | Frame::Pieces => return false,
                Frame::Elements(left) | Frame::Attribute(left) if *left > 1 => {
                    *left -= 1;
                    return false;
                }
                Frame::Elements(_) => self.depth -= 1,
                Frame::Attribute(_) => {
                    self.depth -= 1;
                    self.attributes -= 1;
                    // The value that it belongs to follows.
                    return false;
                }
            }
        }
        true
    }
}

/// Returns the length that a line has; None: it has none, or one beyond the bound.
fn length(line: &[u8]) -> Option<u64> {
    if line.is_empty() || line.len() > 20 || !line.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let text = std::str::from_utf8(line).ok()?;
    text.parse().ok().filter(|length| *length <= LENGTH)
}

fn is_integer(line: &[u8]) -> bool {
    let digits = line.strip_prefix(b"-").or(line.strip_prefix(b"+"));
    let digits = digits.unwrap_or(line);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

fn is_double(line: &[u8]) -> bool {
    // Also inf, -inf and nan.
    let known = |byte: &u8| byte.is_ascii_digit() || b"+-.eEinfa".contains(byte);
    !line.is_empty() && line.iter().all(known)
}
