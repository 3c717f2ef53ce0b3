//! Events that are lines.

use super::sink::EventSink;
use memchr::memchr;

/// The state between two pieces.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The last piece ended with a CR, which belongs to the line only if no LF follows.
    has_cr: bool,
}

impl Lines {
    pub(super) fn read(&mut self, mut piece: &[u8], sink: &mut impl EventSink) {
        while let Some(end) = memchr(b'\n', piece) {
            self.part(&piece[..end], sink);
            self.has_cr = false;
            sink.end();
            piece = &piece[end + 1..];
        }
        self.part(piece, sink);
    }

    pub(super) fn finish(&mut self, sink: &mut impl EventSink) {
        self.has_cr = false;
        sink.end();
    }

    /// Takes a part of a line, without its last CR if it has one there.
    fn part(&mut self, part: &[u8], sink: &mut impl EventSink) {
        if part.is_empty() {
            return;
        }
        if std::mem::take(&mut self.has_cr) {
            sink.data(b"\r");
        }
        let text = part.strip_suffix(b"\r").unwrap_or(part);
        self.has_cr = text.len() < part.len();
        if !text.is_empty() {
            sink.data(text);
        }
    }
}
