//! The messages of gRPC: a flag for compression, the length, and so many bytes, without regard to the frames of HTTP/2.
//!
//! Source: gRPC over HTTP2, "Length-Prefixed-Message".

use super::sink::EventSink;

/// Bytes before a message: the flag, and the length, big endian.
const HEAD: usize = 5;

/// The state between two pieces.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Messages {
    /// Bytes of the head that were read; in a message, all.
    head: usize,
    /// The length as far as it was read; in a message, what is still to come of it.
    rest: u32,
    /// All flags so far.
    flags: u8,
}

impl Messages {
    pub(super) fn read(&mut self, mut piece: &[u8], sink: &mut impl EventSink) {
        while let Some((&byte, after)) = piece.split_first() {
            if self.head < HEAD {
                if self.head == 0 {
                    self.flags |= byte;
                }
                // The flag is shifted out.
                self.rest = self.rest << 8 | u32::from(byte);
                self.head += 1;
                piece = after;
            }
            if self.head == HEAD {
                let length = usize::try_from(self.rest).unwrap_or(usize::MAX);
                let (part, after) = piece.split_at(length.min(piece.len()));
                sink.data(part);
                self.rest -= part.len() as u32;
                piece = after;
                if self.rest == 0 {
                    self.head = 0;
                    sink.end();
                }
            }
        }
    }

    /// Reads a piece, and counts the messages that end in it.
    pub(crate) fn count(&mut self, piece: &[u8], messages: &mut u32) {
        self.read(piece, messages);
    }

    /// Returns whether no message has begun that has not ended; one without its end is no event.
    pub(crate) fn is_between_messages(&self) -> bool {
        self.head == 0
    }

    /// Returns whether a message was compressed.
    pub(crate) fn has_compressed(&self) -> bool {
        self.flags != 0
    }
}

/// Counts events.
impl EventSink for u32 {
    fn data(&mut self, _part: &[u8]) {}

    fn begin_kind(&mut self) {}

    fn kind(&mut self, _part: &[u8]) {}

    fn end(&mut self) {
        *self = self.saturating_add(1);
    }
}
