//! Reads rows from any source of bytes, a block at a time, in bounded memory.
//!
//! Decision: a block is accepted only with a valid checksum. A lenient reader looks for the next block
//! after a damaged one, and reports how many bytes and blocks it skipped; a strict one stops.

use crate::segment::columns::{BLOCK_ROWS, part};
use crate::segment::{
    BLOCK_HEAD, BLOCK_MAGIC, HEAD, Header, PLAIN_VERSION, ROW_BYTES, SegmentError, checksum,
    columns, decode_row,
};
use bw_model::Row;
use std::io::{ErrorKind, Read};

/// Size of a read from the source [bytes].
const CHUNK: usize = 256 << 10;

/// What a lenient reader skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Number of damaged places.
    pub places: u64,
    /// Their total length [bytes].
    pub bytes: u64,
    /// Rows of unknown kind in valid blocks.
    pub rows: u64,
    /// The first damage, with its position.
    pub first: Option<String>,
}

/// Reads the rows of one file.
#[derive(Debug)]
pub struct SegmentReader<R: Read> {
    from: R,
    header: Header,
    is_plain: bool,
    lenient: bool,
    bytes: Vec<u8>,
    start: usize,
    offset: u64,
    ended: bool,
    finished: bool,
    damaged: bool,
    skipped: Skipped,
}

impl<R: Read> SegmentReader<R> {
    /// Opens a file by reading its header. `lenient`: damaged blocks are skipped and counted.
    ///
    /// # Errors
    /// The file is not in this format, has another version, or has a damaged header, which is never skipped.
    pub fn new(mut from: R, lenient: bool) -> Result<Self, SegmentError> {
        let mut head = [0; HEAD];
        read_exact(&mut from, &mut head, 0)?;
        let (version, length, checksum) = Header::decode_head(&head)?;
        let json = read_some(&mut from, length)?;
        Ok(Self {
            from,
            header: Header::decode_json(&json, checksum)?,
            is_plain: version == PLAIN_VERSION,
            lenient,
            bytes: Vec::new(),
            start: 0,
            offset: (HEAD + length) as u64,
            ended: false,
            finished: false,
            damaged: false,
            skipped: Skipped::default(),
        })
    }

    /// Returns the description of the rows.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the start of the next block [bytes from the start].
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns what was skipped so far.
    #[must_use]
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// Returns whether the last block read is the mark of an orderly end; without it the writer
    /// was stopped, and rows may be missing.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// Replaces `rows` by those of the next block. Returns false at the end of the file.
    ///
    /// # Errors
    /// Strict reader: the block is damaged or cut short. Both: reading fails.
    pub fn next_block(&mut self, rows: &mut Vec<Row>) -> Result<bool, SegmentError> {
        rows.clear();
        loop {
            let length = match self.block()? {
                Found::End => return Ok(false),
                Found::Damage(message) => {
                    self.pass_over(message)?;
                    continue;
                }
                Found::Block(length) => length,
            };
            self.damaged = false;
            let read = self.rows(length, rows);
            self.finished = length == BLOCK_HEAD;
            self.advance(length);
            read?;
            if !rows.is_empty() {
                return Ok(true);
            }
        }
    }

    /// Examines the block at `offset`.
    fn block(&mut self) -> Result<Found, SegmentError> {
        match self.fill(BLOCK_HEAD)? {
            0 => return Ok(Found::End),
            BLOCK_HEAD.. => {}
            left => return Ok(cut(BLOCK_HEAD, left)),
        }
        let head = &self.bytes[self.start..];
        let length = u32::from_le_bytes(part(head, 4)) as usize;
        let count = u32::from_le_bytes(part(head, 8)) as usize;
        if head[..4] != BLOCK_MAGIC {
            return Ok(Found::Damage("no block begins here".to_owned()));
        }
        let is_possible = if self.is_plain {
            length == count * ROW_BYTES
        } else {
            length <= columns::LONGEST_BLOCK && (length == 0) == (count == 0)
        };
        if count > BLOCK_ROWS || !is_possible {
            let message = format!("a block of {count} rows in {length} bytes cannot be");
            return Ok(Found::Damage(message));
        }
        let whole = BLOCK_HEAD + length;
        let left = self.fill(whole)?;
        if left < whole {
            return Ok(cut(whole, left));
        }
        let block = &self.bytes[self.start..self.start + whole];
        if u32::from_le_bytes(part(block, 12)) != checksum(block) {
            let message = "the block does not have its checksum".to_owned();
            return Ok(Found::Damage(message));
        }
        Ok(Found::Block(whole))
    }

    /// Appends the rows of the whole block of this length.
    fn rows(&mut self, length: usize, rows: &mut Vec<Row>) -> Result<(), SegmentError> {
        let block = &self.bytes[self.start..self.start + length];
        let count = u32::from_le_bytes(part(block, 8)) as usize;
        let (content, lenient, skipped) = (&block[BLOCK_HEAD..], self.lenient, &mut self.skipped);
        let mut unknown = |kind: u64| {
            skipped.rows += 1;
            let message = || format!("no kind of operation has the number {kind}");
            if lenient { Ok(()) } else { Err(message()) }
        };
        let decoded = if self.is_plain {
            content.chunks_exact(ROW_BYTES).try_for_each(|bytes| {
                let row = decode_row(&part(bytes, 0)).map(|row| rows.push(row));
                row.or_else(|kind| unknown(kind.into()))
            })
        } else if count > 0 {
            columns::decode(content, count, rows, unknown)
        } else {
            Ok(())
        };
        let offset = self.offset;
        decoded.or_else(|message| {
            if !lenient {
                return Err(SegmentError::Damaged { offset, message });
            }
            rows.clear();
            self.skipped.places += 1;
            self.skipped.bytes += length as u64;
            let damage = format!("byte {offset}: {message}");
            self.skipped.first.get_or_insert(damage);
            Ok(())
        })
    }

    /// Moves to the next position at which a block may start, or returns the error.
    fn pass_over(&mut self, message: String) -> Result<(), SegmentError> {
        let offset = self.offset;
        if !self.lenient {
            return Err(SegmentError::Damaged { offset, message });
        }
        if !self.damaged {
            self.skipped.places += 1;
            let damage = format!("byte {offset}: {message}");
            self.skipped.first.get_or_insert(damage);
        }
        (self.damaged, self.finished) = (true, false);
        let passed = self.distance();
        self.skipped.bytes += passed as u64;
        self.advance(passed);
        Ok(())
    }

    /// Returns the distance to the next mark of a block in the buffer; without a mark the whole
    /// buffer, minus what may be the start of a mark.
    fn distance(&self) -> usize {
        let ahead = &self.bytes[self.start..];
        let mut windows = ahead.windows(BLOCK_MAGIC.len()).skip(1);
        let found = windows.position(|window| window == BLOCK_MAGIC);
        let kept = if self.ended { 0 } else { BLOCK_MAGIC.len() - 1 };
        found.map_or_else(
            || ahead.len().saturating_sub(kept).max(1),
            |place| place + 1,
        )
    }

    fn advance(&mut self, by: usize) {
        self.start += by;
        self.offset += by as u64;
    }

    /// Fills the buffer to at least `wanted` bytes, if the source still has them. Returns the
    /// number of bytes available.
    fn fill(&mut self, wanted: usize) -> Result<usize, SegmentError> {
        while self.bytes.len() - self.start < wanted && !self.ended {
            self.bytes.drain(..self.start);
            self.start = 0;
            let before = self.bytes.len();
            self.bytes.resize(before + CHUNK, 0);
            let read = self.from.read(&mut self.bytes[before..]);
            self.bytes.truncate(before + *read.as_ref().unwrap_or(&0));
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => self.ended = read? == 0,
            }
        }
        Ok(self.bytes.len() - self.start)
    }
}

/// What is at a position where a block should start.
enum Found {
    End,
    Block(usize),
    Damage(String),
}

fn cut(whole: usize, left: usize) -> Found {
    Found::Damage(format!(
        "a block of {whole} bytes is cut short after {left}"
    ))
}

fn read_exact(from: &mut impl Read, bytes: &mut [u8], offset: u64) -> Result<(), SegmentError> {
    from.read_exact(bytes).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => {
            let message = "the header is cut short".to_owned();
            SegmentError::Damaged { offset, message }
        }
        _ => error.into(),
    })
}

/// Reads `length` bytes, without allocating for all of them beforehand.
fn read_some(from: &mut impl Read, length: usize) -> Result<Vec<u8>, SegmentError> {
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() == length {
        return Ok(bytes);
    }
    let message = "the header is cut short".to_owned();
    let offset = HEAD as u64;
    Err(SegmentError::Damaged { offset, message })
}
