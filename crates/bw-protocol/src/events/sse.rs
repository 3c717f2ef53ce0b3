//! Server-sent events.
//!
//! Source: WHATWG HTML, section "Server-sent events", "Parsing an event stream". One exception: an event that the stream
//! ends without an empty line counts, because servers end so.

use super::meaning::Name;
use super::sink::EventSink;
use memchr::{memchr2, memchr3};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// What a line's field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Data,
    Event,
    /// A comment, or a field that says nothing about where an event ends or what it has.
    Other,
}

/// The position in a stream.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// After this many bytes of a byte order mark at the start of the stream.
    Bom(usize),
    /// At the start of a line.
    Start,
    /// In a field's name.
    Name,
    /// After the colon, where one blank is dropped.
    Blank(Field),
    /// In the value.
    Value(Field),
}

/// The state between two pieces.
#[derive(Debug)]
pub(super) struct Sse {
    place: Place,
    name: Name,
    /// The last byte was a CR that ended a line: an LF after it belongs to the same end.
    has_cr: bool,
    /// The event has a line of data.
    has_data: bool,
}

impl Default for Sse {
    fn default() -> Self {
        Self {
            place: Place::Bom(0),
            name: Name::default(),
            has_cr: false,
            has_data: false,
        }
    }
}

impl Sse {
    pub(super) fn read(&mut self, mut piece: &[u8], sink: &mut impl EventSink) {
        while let Some((&byte, rest)) = piece.split_first() {
            match self.place {
                Place::Bom(read) if byte == BOM[read] => {
                    let has_whole = read + 1 == BOM.len();
                    self.place = if has_whole {
                        Place::Start
                    } else {
                        Place::Bom(read + 1)
                    };
                    piece = rest;
                }
                Place::Bom(0) => self.place = Place::Start,
                Place::Bom(read) => {
                    self.place = Place::Name;
                    self.name.push(&BOM[..read]);
                }
                Place::Start => {
                    if std::mem::take(&mut self.has_cr) && byte == b'\n' {
                        piece = rest;
                    } else if let Some(value) = piece.strip_prefix(b"data:") {
                        self.field(Field::Data, sink);
                        piece = value;
                    } else {
                        piece = self.start(piece, sink);
                    }
                }
                Place::Name => {
                    let end = memchr3(b':', b'\n', b'\r', piece);
                    self.name.push(&piece[..end.unwrap_or(piece.len())]);
                    let Some(end) = end else { return };
                    self.field(self.named(), sink);
                    if is_line_end(piece[end]) {
                        self.end_line(piece[end]);
                    }
                    piece = &piece[end + 1..];
                }
                Place::Blank(field) => {
                    self.place = Place::Value(field);
                    if byte == b' ' {
                        piece = rest;
                    }
                }
                Place::Value(field) => {
                    let end = memchr2(b'\n', b'\r', piece);
                    let part = &piece[..end.unwrap_or(piece.len())];
                    match field {
                        Field::Data => sink.data(part),
                        Field::Event => sink.kind(part),
                        Field::Other => {}
                    }
                    let Some(end) = end else { return };
                    self.end_line(piece[end]);
                    piece = &piece[end + 1..];
                }
            }
        }
    }

    pub(super) fn finish(&mut self, sink: &mut impl EventSink) {
        if matches!(self.place, Place::Name) {
            self.field(self.named(), sink);
        }
        sink.end();
    }

    /// Reads the first byte of a line; returns what is to be read after it.
    fn start<'a>(&mut self, piece: &'a [u8], sink: &mut impl EventSink) -> &'a [u8] {
        match piece[0] {
            end if is_line_end(end) => {
                self.has_data = false;
                sink.end();
                self.end_line(end);
                &piece[1..]
            }
            b':' => {
                self.place = Place::Value(Field::Other);
                &piece[1..]
            }
            _ => {
                self.place = Place::Name;
                self.name.clear();
                piece
            }
        }
    }

    fn named(&self) -> Field {
        match self.name.as_bytes() {
            b"data" => Field::Data,
            b"event" => Field::Event,
            _ => Field::Other,
        }
    }

    /// Begins a field's value.
    fn field(&mut self, field: Field, sink: &mut impl EventSink) {
        match field {
            Field::Data if std::mem::replace(&mut self.has_data, true) => sink.data(b"\n"),
            Field::Data => sink.data(b""),
            Field::Event => sink.begin_kind(),
            Field::Other => {}
        }
        self.place = Place::Blank(field);
    }

    fn end_line(&mut self, end: u8) {
        self.has_cr = end == b'\r';
        self.place = Place::Start;
    }
}

fn is_line_end(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
}
