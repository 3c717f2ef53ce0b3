//! The messages of gRPC: a flag for compression, the length, and so many bytes, without regard to the frames of HTTP/2.
//!
//! Source: gRPC over HTTP2, "Length-Prefixed-Message". Whether a message is compressed does not matter here.

use super::sink::EventSink;

/// Bytes before a message: the flag, and the length, big endian.
const HEAD: usize = 5;

/// The state between two pieces.
#[derive(Debug, Default)]
pub(super) struct Grpc {
    /// Bytes of the head that were read; in a message, all.
    head: usize,
    /// The length as far as it was read; in a message, what is still to come of it.
    rest: u32,
}

impl Grpc {
    pub(super) fn read(&mut self, mut piece: &[u8], sink: &mut impl EventSink) {
        while let Some((&byte, after)) = piece.split_first() {
            if self.head < HEAD {
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

    /// Returns whether no message has begun that has not ended; one without its end is no event.
    pub(super) fn is_between_messages(&self) -> bool {
        self.head == 0
    }
}
