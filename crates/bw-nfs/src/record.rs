//! Record marking: a stream of bytes as records, each of one or more fragments.
//!
//! Decision: the start of a record is kept, up to a bound; what follows is counted and discarded. A load generator needs
//! the head of a READ reply, not its data, and no length in a reply makes the buffer grow. A record that lies in one
//! piece of received bytes, which is the ordinary case, is not copied at all.

use crate::xdr::Malformed;

/// A fragment with this bit is the last of its record.
const LAST: u32 = 1 << 31;
/// Maximum number of fragments in a record. Servers send one; the bound ends a stream of empty ones.
const FRAGMENTS: u32 = 4096;

/// A record: its length, and its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The start of its bytes, at most as many as are kept.
    pub bytes: &'a [u8],
    /// Its whole length [bytes].
    pub length: usize,
}

/// Assembles the records of one connection.
#[derive(Debug)]
pub struct Records {
    kept: Vec<u8>,
    most_kept: usize,
    most: usize,
    marker: [u8; 4],
    marker_bytes: usize,
    /// Bytes of the current fragment that are still to come.
    left: usize,
    fragments: u32,
    last: bool,
    length: usize,
    /// The record in `kept` was returned, so the next one may overwrite it.
    returned: bool,
}

impl Records {
    /// Returns an assembler that keeps at most `most_kept` bytes of a record, and takes a record of more than `most`
    /// bytes for malformed. All its memory is allocated here.
    #[must_use]
    pub fn new(most_kept: usize, most: usize) -> Self {
        Self {
            kept: Vec::with_capacity(most_kept),
            most_kept,
            most,
            marker: [0; 4],
            marker_bytes: 0,
            left: 0,
            fragments: 0,
            last: false,
            length: 0,
            returned: false,
        }
    }

    /// Discards an unfinished record, for a new connection.
    pub fn clear(&mut self) {
        self.kept.clear();
        self.marker_bytes = 0;
        self.returned = false;
        self.end();
    }

    /// Returns the next record that ends within `bytes`, and takes its bytes from their front; None if all were
    /// taken and no record has ended.
    ///
    /// # Errors
    /// The stream does not consist of records of at most the allowed length; it cannot be continued.
    pub fn next<'r, 'b: 'r>(
        &'r mut self,
        bytes: &mut &'b [u8],
    ) -> Result<Option<Record<'r>>, Malformed> {
        if std::mem::take(&mut self.returned) {
            self.kept.clear();
        }
        loop {
            if self.left == 0 && !self.last {
                if !self.read_marker(bytes)? {
                    return Ok(None);
                }
                if self.fragments == 1 && self.last && bytes.len() >= self.left {
                    let (whole, rest) = bytes.split_at(self.left);
                    *bytes = rest;
                    let length = self.end();
                    let kept = &whole[..length.min(self.most_kept)];
                    return Ok(Some(Record {
                        bytes: kept,
                        length,
                    }));
                }
            }
            let (piece, rest) = bytes.split_at(self.left.min(bytes.len()));
            *bytes = rest;
            self.left -= piece.len();
            let room = self.most_kept - self.kept.len();
            self.kept.extend_from_slice(&piece[..piece.len().min(room)]);
            if self.left == 0 && self.last {
                let length = self.end();
                self.returned = true;
                return Ok(Some(Record {
                    bytes: &self.kept,
                    length,
                }));
            }
            if bytes.is_empty() {
                return Ok(None);
            }
        }
    }

    /// Reads the marker of the next fragment; returns whether it is complete.
    fn read_marker(&mut self, bytes: &mut &[u8]) -> Result<bool, Malformed> {
        let missing = 4 - self.marker_bytes;
        let (piece, rest) = bytes.split_at(missing.min(bytes.len()));
        *bytes = rest;
        self.marker[self.marker_bytes..][..piece.len()].copy_from_slice(piece);
        self.marker_bytes += piece.len();
        if self.marker_bytes < 4 {
            return Ok(false);
        }
        let marker = u32::from_be_bytes(self.marker);
        self.marker_bytes = 0;
        self.left = (marker & !LAST) as usize;
        self.last = marker & LAST != 0;
        self.length += self.left;
        self.fragments += 1;
        if self.length > self.most || self.fragments > FRAGMENTS {
            return Err(Malformed("record of an allowed length"));
        }
        Ok(true)
    }

    /// Ends the current record; returns its length.
    fn end(&mut self) -> usize {
        self.left = 0;
        self.last = false;
        self.fragments = 0;
        std::mem::take(&mut self.length)
    }
}
