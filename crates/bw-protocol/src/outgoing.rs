//! The bytes that a connection has to send, in the order in which they were put.
//!
//! Decision: requests are copied into one buffer, and what is not copied is written together with it by one call
//! ([`Outgoing::gather`]). A long body is a pattern that repeats: it is not copied, so that a body of gigabytes needs no
//! memory. A transport that encrypts piece by piece sets the length up to which patterns are copied.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

/// Patterns up to this length are copied unless the transport sets another [bytes].
const COPIED: u64 = 4096;
/// The number of pieces that need no allocation.
const PIECES: usize = 16;

/// A piece of what is to be sent.
#[derive(Clone, Debug)]
enum Piece {
    /// This many bytes of the buffer, after those of earlier pieces.
    Buffered(usize),
    /// This many bytes of a pattern that repeats, from `start` in it, which is below its length.
    Pattern {
        pattern: Arc<[u8]>,
        start: usize,
        left: u64,
    },
}

/// Bytes to send: what was put, in order; long patterns are not copied.
///
/// Its memory grows to the most that was ever waiting to be sent; after that nothing allocates.
#[derive(Clone, Debug)]
pub struct Outgoing {
    buffer: Vec<u8>,
    /// How many bytes of the buffer were written already.
    gone: usize,
    /// None of them is empty.
    pieces: VecDeque<Piece>,
    put_bytes: u64,
    written_bytes: u64,
    /// Patterns up to this length are copied [bytes].
    copied: u64,
}

impl Outgoing {
    /// Returns an empty one with room for `bytes` before anything is allocated.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            buffer: Vec::with_capacity(bytes),
            gone: 0,
            pieces: VecDeque::with_capacity(PIECES),
            put_bytes: 0,
            written_bytes: 0,
            copied: COPIED,
        }
    }

    /// Copies patterns of up to this length from now on [bytes].
    #[must_use]
    pub fn copying(self, copied: u64) -> Self {
        Self { copied, ..self }
    }

    /// Appends bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.put_bytes += bytes.len() as u64;
        self.make_room(bytes.len());
        self.buffer.extend_from_slice(bytes);
        self.lengthen(bytes.len());
    }

    /// Appends what `write` appends to the buffer, at most about `most` bytes.
    pub fn put_with<R>(&mut self, most: usize, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        self.make_room(most);
        let before = self.buffer.len();
        let result = write(&mut self.buffer);
        let bytes = self.buffer.len() - before;
        if bytes > 0 {
            self.put_bytes += bytes as u64;
            self.lengthen(bytes);
        }
        result
    }

    /// Appends `length` bytes of a pattern that repeats, beginning at `start` in it.
    ///
    /// # Panics
    /// The pattern is empty, and `length` is not 0.
    pub fn put_pattern(&mut self, pattern: &Arc<[u8]>, start: u64, length: u64) {
        if length == 0 {
            return;
        }
        self.put_bytes += length;
        // Below the pattern's length.
        let start = (start % pattern.len() as u64) as usize;
        if length > self.copied {
            let pattern = Arc::clone(pattern);
            let left = length;
            self.pieces.push_back(Piece::Pattern {
                pattern,
                start,
                left,
            });
            return;
        }
        // At most what is copied.
        let length = length as usize;
        self.make_room(length);
        let mut left = length;
        let mut from = start;
        while left > 0 {
            let taken = left.min(pattern.len() - from);
            self.buffer.extend_from_slice(&pattern[from..from + taken]);
            left -= taken;
            from = 0;
        }
        self.lengthen(length);
    }

    /// Returns the first piece to write now; empty only when all is written.
    #[must_use]
    pub fn next(&self) -> &[u8] {
        let first = self.pieces.front();
        first.map_or(&[], |piece| self.bytes(piece, self.gone))
    }

    /// Sets the first of `slices` to what to write now, in order; returns those.
    pub fn gather<'s, 'a>(&'a self, slices: &'s mut [IoSlice<'a>]) -> &'s [IoSlice<'a>] {
        let (mut from, mut count) = (self.gone, 0);
        for (piece, slice) in self.pieces.iter().zip(&mut *slices) {
            let bytes = self.bytes(piece, from);
            *slice = IoSlice::new(bytes);
            count += 1;
            match piece {
                Piece::Buffered(length) => from += length,
                // It goes on with its beginning.
                Piece::Pattern { left, .. } if *left > bytes.len() as u64 => break,
                Piece::Pattern { .. } => {}
            }
        }
        &slices[..count]
    }

    /// Returns the bytes of a piece that are next to each other; those of the buffer begin at `from`.
    fn bytes<'a>(&'a self, piece: &'a Piece, from: usize) -> &'a [u8] {
        match piece {
            Piece::Buffered(length) => &self.buffer[from..from + length],
            Piece::Pattern {
                pattern,
                start,
                left,
            } => {
                let rest = &pattern[*start..];
                let length = usize::try_from(*left).map_or(rest.len(), |left| left.min(rest.len()));
                &rest[..length]
            }
        }
    }

    /// Removes the first `bytes` of what was put: they were written.
    pub fn written(&mut self, mut bytes: usize) {
        while bytes > 0 && !self.is_empty() {
            let first = bytes.min(self.next().len());
            self.remove(first);
            bytes -= first;
        }
        debug_assert!(bytes == 0);
    }

    /// Removes `bytes` of the first piece.
    fn remove(&mut self, bytes: usize) {
        self.written_bytes += bytes as u64;
        let done = match self.pieces.front_mut() {
            None => return,
            Some(Piece::Buffered(length)) => {
                self.gone += bytes;
                *length -= bytes;
                *length == 0
            }
            Some(Piece::Pattern {
                pattern,
                start,
                left,
            }) => {
                *left -= bytes as u64;
                *start += bytes;
                if *start == pattern.len() {
                    *start = 0;
                }
                *left == 0
            }
        };
        if done {
            self.pieces.pop_front();
            if self.pieces.is_empty() {
                self.buffer.clear();
                self.gone = 0;
            }
        }
    }

    /// Returns whether all is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns how many bytes were put since it was made or cleared.
    #[must_use]
    pub fn put_bytes(&self) -> u64 {
        self.put_bytes
    }

    /// Returns how many of them were not written yet.
    #[must_use]
    pub fn unsent_bytes(&self) -> u64 {
        self.put_bytes - self.written_bytes
    }

    /// Returns how many of them were written: a request is written when this reaches the [`put_bytes`](Self::put_bytes)
    /// behind it.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Drops everything that is not written, and counts from zero again: for a new connection.
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.buffer.clear();
        self.gone = 0;
        (self.put_bytes, self.written_bytes) = (0, 0);
    }

    /// Counts appended bytes as part of the last piece.
    fn lengthen(&mut self, bytes: usize) {
        match self.pieces.back_mut() {
            Some(Piece::Buffered(length)) => *length += bytes,
            _ => self.pieces.push_back(Piece::Buffered(bytes)),
        }
    }

    /// Drops the written bytes of a full buffer, if they are at least half of it: a connection that always has
    /// something to send must not grow for ever, and the copies stay fewer than the bytes sent.
    fn make_room(&mut self, bytes: usize) {
        let is_full = self.buffer.len() + bytes > self.buffer.capacity();
        if is_full && self.gone > 0 && self.gone >= self.buffer.len() / 2 {
            self.buffer.drain(..self.gone);
            self.gone = 0;
        }
    }
}

impl Default for Outgoing {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern(length: usize) -> Arc<[u8]> {
        (0..length).map(|place| (place % 251) as u8).collect()
    }

    /// Returns the bytes of the next write.
    fn gathered(out: &Outgoing) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 3];
        let slices = out.gather(&mut slices);
        assert!(slices.iter().all(|slice| !slice.is_empty()));
        let first = slices.first().map_or(&[][..], |slice| slice);
        assert_eq!(out.next(), first);
        slices.iter().flat_map(|slice| slice.to_vec()).collect()
    }

    /// Writes everything, `at_once` bytes at most with each write.
    fn drain(out: &mut Outgoing, at_once: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while !out.is_empty() {
            let next = gathered(out);
            let length = next.len().min(at_once);
            assert!(length > 0, "something is left, but nothing is written");
            all.extend_from_slice(&next[..length]);
            out.written(length);
        }
        assert!(out.next().is_empty());
        assert_eq!(out.put_bytes(), out.written_bytes());
        all
    }

    #[test]
    fn puts_in_a_row_are_one_piece() {
        let mut out = Outgoing::default();
        out.put(b"one ");
        out.put(b"");
        out.put_pattern(&pattern(3), 2, 4);
        out.put(b" two");
        assert_eq!(out.next(), b"one \x02\x00\x01\x02 two");
    }

    #[test]
    fn a_long_pattern_is_not_copied() {
        let mut out = Outgoing::default();
        let source = pattern(1000);
        out.put(b"head");
        out.put_pattern(&source, 1998, 1 << 40);
        out.put(b"tail");
        assert_eq!(out.next(), b"head");
        out.written(4);
        assert_eq!(out.next(), &source[998..]);
        out.written(1);
        assert_eq!(out.next(), &source[999..]);
        out.written(1);
        assert_eq!(out.next(), &source[..]);
        assert!(out.buffer.capacity() < 1000);
        out.clear();
        assert!(out.is_empty());
    }

    #[test]
    fn pieces_are_gathered_for_one_write_and_copied_for_a_transport_that_wants_it() {
        let source = pattern(16_384);
        let put = |mut out: Outgoing| {
            for head in [b"head", b"more"] {
                out.put(head);
                out.put_pattern(&source, 0, 16_384);
            }
            out
        };
        let out = put(Outgoing::default());
        let mut slices = [IoSlice::new(&[]); 3];
        let lengths = out.gather(&mut slices).iter().map(|slice| slice.len());
        assert_eq!(lengths.collect::<Vec<_>>(), [4, 16_384, 4]);
        assert!(out.buffer.len() == 8);
        let out = put(Outgoing::default().copying(16_384));
        assert_eq!(out.next().len(), 2 * (4 + 16_384));
    }

    #[test]
    fn a_connection_that_is_never_empty_does_not_grow_for_ever() {
        let mut out = Outgoing::with_capacity(64);
        out.put(&[0; 16]);
        for number in 1..=255_u8 {
            out.put(&[number; 16]);
            assert_eq!(out.next()[..16], [number - 1; 16]);
            out.written(16);
        }
        assert_eq!(out.buffer.capacity(), 64);
    }

    proptest! {
        #[test]
        fn what_is_put_is_what_is_written(
            puts in prop::collection::vec((any::<bool>(), 0usize..9000, 0u64..5000, 0usize..6000), 0..12),
            at_once in 1usize..7000,
        ) {
            let source = pattern(1009);
            let mut out = Outgoing::default();
            let mut expected = Vec::new();
            let mut written = Vec::new();
            for (copied, length, start, take) in puts {
                let bytes: Vec<u8> = (start..).take(length).map(|place| source[(place % 1009) as usize]).collect();
                if copied {
                    out.put(&bytes);
                } else {
                    out.put_pattern(&source, start, length as u64);
                }
                expected.extend_from_slice(&bytes);
                let next = gathered(&out);
                let take = take.min(next.len());
                written.extend_from_slice(&next[..take]);
                out.written(take);
            }
            written.extend(drain(&mut out, at_once));
            prop_assert_eq!(written, expected);
        }
    }
}
