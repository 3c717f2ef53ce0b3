//! The compression of header fields: what a client of HTTP/2 needs of it.
//!
//! The decoder finds the status, the content length and whether there is a content coding of a response. Of all other fields it needs only how long they
//! are, for the dynamic table, so it stores no text: an entry is its two lengths, and the meaning of its value if it has
//! one. A table of 4 KiB has at most 128 entries, whatever the server sends, and nothing is allocated for a response.
//! A string that nobody needs is not even decoded.
//!
//! The encoder does not use the dynamic table and no Huffman code: a request is encoded once, and its bytes are the same
//! on every connection and cost the server the least.
//! Rejected: the crates hpack (not maintained since 2016), httlib-hpack (2020), fluke-hpack and loona-hpack (forks of
//! hpack): all of them allocate a name and a value for each field, of which a load needs one number in a response.
//! Source: RFC 7541.

pub(super) mod huffman;

use crate::grpc;
use huffman::CompressionError;
use std::collections::VecDeque;

/// Size of the dynamic table [bytes], each entry counted with [`ENTRY_BYTES`] more: the default of the protocol.
const TABLE_BYTES: u32 = 4096;
/// What an entry counts besides its name and its value [bytes].
pub(super) const ENTRY_BYTES: u32 = 32;
/// The length of the longest text that has a meaning here is below this [bytes].
const TEXT_BYTES: usize = 24;
/// How much of a `grpc-message` is stored [bytes]: three for each byte of its text, as it is encoded.
const MESSAGE_BYTES: usize = 3 * grpc::TEXT_BYTES;

/// What a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Status,
    ContentLength,
    ContentEncoding,
    GrpcStatus,
    /// Its value is stored when it comes as a text.
    GrpcMessage,
    /// A pseudo-header field that no response has.
    Pseudo,
    Other,
}

impl Name {
    fn of(name: &[u8]) -> Self {
        match name {
            b":status" => Self::Status,
            b"content-length" => Self::ContentLength,
            b"content-encoding" => Self::ContentEncoding,
            b"grpc-status" => Self::GrpcStatus,
            b"grpc-message" => Self::GrpcMessage,
            [b':', ..] => Self::Pseudo,
            _ => Self::Other,
        }
    }

    /// Returns the number that a value of such a field means, of a coding 0 if it is none; None if it means none.
    fn number(self, value: &[u8]) -> Option<u64> {
        let length = match self {
            Self::Status => 3..=3,
            Self::ContentLength => 1..=18,
            Self::ContentEncoding => {
                let none = value.is_empty() || value.eq_ignore_ascii_case(b"identity");
                return Some(u64::from(!none));
            }
            Self::GrpcStatus => return Some(grpc::status_of(value).into()),
            Self::GrpcMessage | Self::Pseudo | Self::Other => return None,
        };
        if !length.contains(&value.len()) || !value.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let digits = value.iter().map(|digit| u64::from(digit - b'0'));
        Some(digits.fold(0, |number, digit| number * 10 + digit))
    }
}

/// A name, with its length [bytes].
#[derive(Clone, Copy, Debug)]
struct MeasuredName {
    name: Name,
    bytes: u32,
}

/// A field, as far as it matters.
#[derive(Clone, Copy, Debug)]
struct Field {
    name: MeasuredName,
    value_bytes: u32,
    number: Option<u64>,
}

impl Field {
    /// Returns its size in the dynamic table [bytes].
    fn table_bytes(&self) -> u32 {
        // The lengths are below that of a header block.
        self.name.bytes + self.value_bytes + ENTRY_BYTES
    }
}

/// What the fields of a header block mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) status: Option<u16>,
    pub(super) content_length: Option<u64>,
    /// Whether the body has a content coding.
    pub(super) is_encoded: bool,
    /// The status of a call of gRPC.
    pub(super) grpc_status: Option<u32>,
    /// Whether the fields do not follow the rules of HTTP/2: a number is none, or a pseudo-header field is unknown,
    /// repeated, or behind an ordinary one.
    pub(super) malformed: bool,
    /// Whether an ordinary field was found.
    ordinary: bool,
}

impl Fields {
    fn add(&mut self, field: Field) {
        let known = match field.name.name {
            Name::Status => {
                let first = self.status.is_none() && !self.ordinary;
                self.status = field.number.and_then(|status| u16::try_from(status).ok());
                first && self.status.is_some()
            }
            Name::ContentLength => {
                self.ordinary = true;
                let same = self.content_length.is_none() || self.content_length == field.number;
                self.content_length = field.number;
                same && field.number.is_some()
            }
            Name::ContentEncoding => {
                self.ordinary = true;
                self.is_encoded |= field.number != Some(0);
                true
            }
            Name::GrpcStatus => {
                self.ordinary = true;
                self.grpc_status = field.number.and_then(|status| u32::try_from(status).ok());
                true
            }
            Name::Pseudo => false,
            Name::GrpcMessage | Name::Other => {
                self.ordinary = true;
                true
            }
        };
        self.malformed |= !known;
    }
}

/// The decoder of one connection.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The dynamic table, the newest entry first.
    entries: VecDeque<Field>,
    table_bytes: u32,
    limit_bytes: u32,
    /// The beginning of the `grpc-message` of the last block that had it as a text.
    message: Vec<u8>,
}

impl Decoder {
    pub(super) fn new() -> Self {
        Self {
            entries: VecDeque::with_capacity((TABLE_BYTES / ENTRY_BYTES) as usize),
            table_bytes: 0,
            limit_bytes: TABLE_BYTES,
            message: Vec::new(),
        }
    }

    /// Returns the beginning of the `grpc-message` of the last block, empty if it came without a text.
    pub(super) fn message(&self) -> &[u8] {
        &self.message
    }

    /// Begins anew, for a new connection.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.table_bytes = 0;
        self.limit_bytes = TABLE_BYTES;
    }

    /// Returns what the fields of a whole header block mean.
    ///
    /// # Errors
    /// It cannot be decoded.
    pub(super) fn decode(&mut self, block: &[u8]) -> Result<Fields, CompressionError> {
        let mut fields = Fields::default();
        self.message.clear();
        let mut rest = block;
        let mut may_resize = true;
        while let Some(&first) = rest.first() {
            if first & 0x80 != 0 {
                let index = integer(&mut rest, 7)?;
                fields.add(self.field(index)?);
            } else if first & 0x40 != 0 {
                let field = self.literal(&mut rest, 6, true)?;
                fields.add(field);
                self.insert(field);
            } else if first & 0x20 != 0 {
                let limit = integer(&mut rest, 5)?;
                if !may_resize || limit > TABLE_BYTES {
                    return Err(CompressionError);
                }
                self.limit_bytes = limit;
                self.evict(limit);
                continue;
            } else {
                fields.add(self.literal(&mut rest, 4, false)?);
            }
            may_resize = false;
        }
        Ok(fields)
    }

    /// Reads a field that is not in a table, after an integer of `prefix` bits about its name. Its value is not
    /// measured unless it is `stored` or has a meaning.
    fn literal(
        &mut self,
        rest: &mut &[u8],
        prefix: u32,
        stored: bool,
    ) -> Result<Field, CompressionError> {
        let name = match integer(rest, prefix)? {
            0 => {
                let text = Text::decode(string(rest)?)?;
                MeasuredName {
                    name: Name::of(text.start()),
                    bytes: text.bytes,
                }
            }
            index => self.field(index)?.name,
        };
        let value = string(rest)?;
        if !stored && name.name == Name::Other {
            return Ok(Field {
                name,
                value_bytes: 0,
                number: None,
            });
        }
        if name.name == Name::GrpcMessage {
            let message = &mut self.message;
            if value.is_huffman {
                huffman::decode(value.bytes, |byte| message.push(byte))?;
            } else {
                message.extend_from_slice(value.bytes);
            }
            message.truncate(MESSAGE_BYTES);
        }
        let text = Text::decode(value)?;
        Ok(Field {
            name,
            value_bytes: text.bytes,
            number: name.name.number(text.start()),
        })
    }

    /// Returns the field at an index of both tables.
    fn field(&self, index: u32) -> Result<Field, CompressionError> {
        let place = (index as usize).checked_sub(1).ok_or(CompressionError)?;
        let Some((name, value)) = STATIC.get(place) else {
            let entry = self.entries.get(place - STATIC.len());
            return entry.copied().ok_or(CompressionError);
        };
        let (name, bytes) = (Name::of(name.as_bytes()), name.len() as u32);
        Ok(Field {
            name: MeasuredName { name, bytes },
            value_bytes: value.len() as u32,
            number: name.number(value.as_bytes()),
        })
    }

    fn insert(&mut self, field: Field) {
        let bytes = field.table_bytes();
        // An entry that is larger than the table empties it, and is not stored.
        self.evict(self.limit_bytes.saturating_sub(bytes));
        if bytes <= self.limit_bytes {
            self.table_bytes += bytes;
            self.entries.push_front(field);
        }
    }

    /// Removes the oldest entries until the table has at most `bytes`.
    fn evict(&mut self, bytes: u32) {
        while self.table_bytes > bytes
            && let Some(oldest) = self.entries.pop_back()
        {
            self.table_bytes -= oldest.table_bytes();
        }
    }
}

/// Reads an integer with a prefix of so many bits.
fn integer(rest: &mut &[u8], prefix: u32) -> Result<u32, CompressionError> {
    let (&first, mut bytes) = rest.split_first().ok_or(CompressionError)?;
    let most = (1 << prefix) - 1;
    let mut number = u32::from(first) & most;
    if number == most {
        // Four more bytes are enough for every index and length that fits into a header block.
        for place in 0.. {
            let (&byte, after) = bytes.split_first().ok_or(CompressionError)?;
            bytes = after;
            if place == 4 {
                return Err(CompressionError);
            }
            number += u32::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *rest = bytes;
    Ok(number)
}

/// A string of a header block.
#[derive(Clone, Copy, Debug)]
struct EncodedText<'a> {
    is_huffman: bool,
    bytes: &'a [u8],
}

/// Reads a string.
fn string<'a>(rest: &mut &'a [u8]) -> Result<EncodedText<'a>, CompressionError> {
    let is_huffman = rest.first().is_some_and(|byte| byte & 0x80 != 0);
    let length = integer(rest, 7)? as usize;
    let (bytes, after) = rest.split_at_checked(length).ok_or(CompressionError)?;
    *rest = after;
    Ok(EncodedText { is_huffman, bytes })
}

/// The length of a text, and its beginning, or all of it.
struct Text {
    bytes: u32,
    kept: [u8; TEXT_BYTES],
}

impl Text {
    fn decode(text: EncodedText<'_>) -> Result<Self, CompressionError> {
        let mut kept = [0; TEXT_BYTES];
        let mut bytes = 0;
        if text.is_huffman {
            huffman::decode(text.bytes, |byte| {
                if let Some(place) = kept.get_mut(bytes) {
                    *place = byte;
                }
                bytes += 1;
            })?;
        } else {
            bytes = text.bytes.len();
            let length = bytes.min(TEXT_BYTES);
            kept[..length].copy_from_slice(&text.bytes[..length]);
        }
        // At most 8/5 of the bytes of a header block.
        let bytes = bytes as u32;
        Ok(Self { bytes, kept })
    }

    /// Returns the text, if it is short enough to have a meaning, and otherwise its beginning, which has none.
    fn start(&self) -> &[u8] {
        &self.kept[..TEXT_BYTES.min(self.bytes as usize)]
    }
}

/// Appends a field, whose name has no capital letters, to a header block.
pub(super) fn put_field(name: &str, value: &[u8], block: &mut Vec<u8>) {
    let same =
        |(its_name, its_value): &(&str, &str)| *its_name == name && its_value.as_bytes() == value;
    if let Some(place) = STATIC.iter().position(same) {
        return put_integer(0x80, 7, place + 1, block);
    }
    put_name(name, block);
    put_text(value, block);
}

/// Appends the name of a field, whose value follows as a text.
pub(super) fn put_name(name: &str, block: &mut Vec<u8>) {
    match STATIC.iter().position(|entry| entry.0 == name) {
        Some(place) => put_integer(0, 4, place + 1, block),
        None => {
            block.push(0);
            put_text(name.as_bytes(), block);
        }
    }
}

/// Appends a text.
pub(super) fn put_text(text: &[u8], block: &mut Vec<u8>) {
    put_integer(0, 7, text.len(), block);
    block.extend_from_slice(text);
}

/// Appends an integer with a prefix of so many bits; `first` has the other bits of the first byte.
fn put_integer(first: u8, prefix: u32, number: usize, block: &mut Vec<u8>) {
    let most = (1_usize << prefix) - 1;
    if number < most {
        return block.push(first | number as u8);
    }
    block.push(first | most as u8);
    let mut left = number - most;
    while left >= 0x80 {
        block.push(left as u8 | 0x80);
        left >>= 7;
    }
    block.push(left as u8);
}

/// The static table (RFC 7541, appendix A).
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
mod tests;
