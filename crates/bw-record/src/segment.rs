//! The project's own format of traces and samples: docs/trace-format.md.
//!
//! A file is a header and then blocks of rows; each block is compressed (`columns`) and has its own checksum. This file
//! contains the header, the heads of blocks and the writer; `reader` reads. Decision: blocks that can be skipped, so a
//! damaged block costs only its own rows. In version 1, which is read too, the rows of a block are not compressed.

mod columns;
pub mod reader;

use crate::segment::columns::{BLOCK_ROWS, part};
use bw_model::{Kind, Nanos, Row};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use std::io::{self, Write};

/// The first eight bytes of a file.
pub const MAGIC: [u8; 8] = *b"bwtrace\n";
/// The version that is written, and the newest that can be read.
pub const VERSION: u16 = 2;
/// The version whose rows have a fixed length.
pub(crate) const PLAIN_VERSION: u16 = 1;
/// The first four bytes of a block.
pub(crate) const BLOCK_MAGIC: [u8; 4] = *b"BLK\n";
/// The length of a block's head [bytes].
pub(crate) const BLOCK_HEAD: usize = 16;

/// An error in a file of rows.
#[derive(Debug)]
pub enum SegmentError {
    /// Reading or writing failed.
    Io(io::Error),
    /// The bytes are not in this format, or in an unknown version of it.
    Format {
        /// What was found instead.
        message: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A block or a row is damaged or cut short.
    Damaged {
        /// Its start [bytes from the start of the file].
        offset: u64,
        /// What is wrong with it.
        message: String,
    },
}

impl SegmentError {
    fn format(message: impl Into<String>, remedy: &'static str) -> Self {
        let message = message.into();
        Self::Format { message, remedy }
    }
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Format { message, remedy } => write!(f, "{message}; {remedy}"),
            Self::Damaged { offset, message } => write!(f, "byte {offset}: {message}"),
        }
    }
}

impl std::error::Error for SegmentError {}

impl From<io::Error> for SegmentError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The length of the part before the JSON [bytes].
pub const HEAD: usize = 24;
/// Maximum length of the JSON [bytes]: 65,536 devices with names of 200 letters.
pub(crate) const LONGEST_JSON: usize = 16 << 20;

/// The description of the rows. An earlier version ignores fields that a later version adds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// "samples" of a run, or a "trace".
    pub content: Content,
    /// The unit of all stamps: "ns". Any other is refused.
    pub time_unit: String,
    /// The order of the rows.
    pub order: Order,
    /// The name for each number in `Row::device`; for samples: "worker 0" and so on.
    #[serde(default)]
    pub devices: Vec<String>,
    /// The wall clock at time zero (CLOCK_REALTIME) [ns]; null if unknown.
    #[serde(default)]
    pub started_ns: Option<u64>,
    /// The origin of the rows, for people: a program with its version, a file.
    #[serde(default)]
    pub source: String,
    /// The changes to the rows (reordering, spreading, wrapping), as the converter reports them.
    #[serde(default)]
    pub policies: Map<String, Value>,
}

/// The kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// Operations as an engine executed them.
    Samples,
    /// Operations as recorded by another program.
    Trace,
}

/// The order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// By intended start.
    Intended,
    /// By end, for each device (for samples: each worker).
    Completed,
    /// Unsorted.
    None,
}

impl Header {
    /// Returns the header of such rows; the other fields are empty.
    #[must_use]
    pub fn new(content: Content, order: Order) -> Self {
        Self {
            content,
            time_unit: "ns".to_owned(),
            order,
            devices: Vec::new(),
            started_ns: None,
            source: String::new(),
            policies: Map::new(),
        }
    }

    /// Returns the bytes at the start of a file: the head, then the JSON, padded with blanks
    /// to a multiple of 16 bytes in total.
    ///
    /// # Errors
    /// The JSON is longer than [`LONGEST_JSON`].
    pub fn encode(&self) -> Result<Vec<u8>, SegmentError> {
        let json = serde_json::to_vec(self).map_err(|error| bad_json(&error))?;
        let padded = (HEAD + json.len()).next_multiple_of(16) - HEAD;
        if padded > LONGEST_JSON {
            let message = format!("the header is {padded} bytes long");
            return Err(SegmentError::format(message, "name fewer devices"));
        }
        let mut json = json;
        json.resize(padded, b' ');
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&(padded as u32).to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&json).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&json);
        Ok(bytes)
    }

    /// Returns the version, the length of the JSON and its checksum from the part before it.
    pub(super) fn decode_head(head: &[u8; HEAD]) -> Result<(u16, usize, u32), SegmentError> {
        if head[..8] != MAGIC {
            let message = "the file does not begin with \"bwtrace\"";
            return Err(SegmentError::format(message, "give its format"));
        }
        let version = u16::from_le_bytes(part(head, 8));
        let row_bytes = usize::from(u16::from_le_bytes(part(head, 10)));
        let length = u32::from_le_bytes(part(head, 12)) as usize;
        if (version, row_bytes) != (VERSION, 0)
            && (version, row_bytes) != (PLAIN_VERSION, ROW_BYTES)
        {
            let message = format!("version {version} with rows of {row_bytes} bytes is not known");
            return Err(SegmentError::format(message, "read it with a newer bw"));
        }
        if length > LONGEST_JSON {
            let message = format!("the header claims to be {length} bytes long");
            return Err(SegmentError::Damaged {
                offset: 12,
                message,
            });
        }
        Ok((version, length, u32::from_le_bytes(part(head, 16))))
    }

    /// Returns the header in this JSON, after verifying the checksum.
    pub(super) fn decode_json(json: &[u8], checksum: u32) -> Result<Self, SegmentError> {
        if crc32fast::hash(json) != checksum {
            let message = "the header does not have its checksum".to_owned();
            let offset = HEAD as u64;
            return Err(SegmentError::Damaged { offset, message });
        }
        let header: Self = serde_json::from_slice(json).map_err(|error| bad_json(&error))?;
        if header.time_unit == "ns" {
            return Ok(header);
        }
        let message = format!("stamps in {:?} are not known", header.time_unit);
        Err(SegmentError::format(message, "convert them to \"ns\""))
    }
}

fn bad_json(error: &serde_json::Error) -> SegmentError {
    let message = format!("the header is not valid: {error}");
    SegmentError::format(message, "compare it with docs/trace-format.md")
}

/// The length of a row of version 1 [bytes].
pub const ROW_BYTES: usize = 48;

/// Returns the row of these bytes; the error is the number of an unknown kind.
pub(crate) fn decode_row(bytes: &[u8; ROW_BYTES]) -> Result<Row, u8> {
    Ok(Row {
        intended: Nanos(u64::from_le_bytes(part(bytes, 0))),
        issued: Nanos(u64::from_le_bytes(part(bytes, 8))),
        completed: Nanos(u64::from_le_bytes(part(bytes, 16))),
        offset: u64::from_le_bytes(part(bytes, 24)),
        size: u32::from_le_bytes(part(bytes, 32)),
        result: i32::from_le_bytes(part(bytes, 36)),
        stream: u32::from_le_bytes(part(bytes, 40)),
        device: u16::from_le_bytes(part(bytes, 44)),
        kind: Kind::from_number(bytes[46]).ok_or(bytes[46])?,
    })
}

/// Appends a block of these rows to `bytes`; a block without rows marks an orderly end.
///
/// Panics if there are more than [`BLOCK_ROWS`].
pub fn encode_block(rows: &[Row], bytes: &mut Vec<u8>) {
    assert!(rows.len() <= BLOCK_ROWS, "a block has a largest size");
    let start = bytes.len();
    bytes.extend_from_slice(&BLOCK_MAGIC);
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&(rows.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    if !rows.is_empty() {
        columns::encode(rows, bytes);
    }
    let length = (bytes.len() - start - BLOCK_HEAD) as u32;
    bytes[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    let checksum = checksum(&bytes[start..]);
    bytes[start + 12..start + BLOCK_HEAD].copy_from_slice(&checksum.to_le_bytes());
}

/// Returns the checksum that a whole block should carry: of its length, its row count and what follows its head.
pub(super) fn checksum(block: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&block[4..12]);
    crc.update(&block[BLOCK_HEAD..]);
    crc.finalize()
}

/// Default number of rows in a block: some 50 KB.
const ROWS: usize = 4096;

/// Writes rows in blocks. If dropped without [`SegmentWriter::finish`], it loses rows that are not yet in a block.
#[derive(Debug)]
pub struct SegmentWriter<W: Write> {
    into: W,
    rows: Vec<Row>,
    bytes: Vec<u8>,
    written: u64,
}

impl<W: Write> SegmentWriter<W> {
    /// Starts a file with `header`.
    ///
    /// # Errors
    /// The header is too long; the write fails.
    pub fn new(mut into: W, header: &Header) -> Result<Self, SegmentError> {
        into.write_all(&header.encode()?)?;
        Ok(Self::append(into))
    }

    /// Continues a file that has a header and blocks already. The caller has read the header,
    /// and `into` is positioned after the last whole block (the `offset` of its reader).
    #[must_use]
    pub fn append(into: W) -> Self {
        Self {
            into,
            rows: Vec::with_capacity(ROWS),
            bytes: Vec::new(),
            written: 0,
        }
    }

    /// Writes a row, with the next block.
    ///
    /// # Errors
    /// The write fails.
    pub fn write(&mut self, row: &Row) -> Result<(), SegmentError> {
        self.rows.push(*row);
        self.written += 1;
        if self.rows.len() == ROWS {
            self.block()?;
        }
        Ok(())
    }

    /// Writes rows, with the next blocks.
    ///
    /// # Errors
    /// The write fails.
    pub fn write_all(&mut self, rows: &[Row]) -> Result<(), SegmentError> {
        rows.iter().try_for_each(|row| self.write(row))
    }

    /// Writes everything now, so that a reader at the other end of a pipe gets it.
    ///
    /// # Errors
    /// The write fails.
    pub fn flush(&mut self) -> Result<(), SegmentError> {
        if !self.rows.is_empty() {
            self.block()?;
        }
        Ok(self.into.flush()?)
    }

    /// Returns the number of rows given to the writer.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Writes the rest and the mark of an orderly end; returns the underlying writer.
    ///
    /// # Errors
    /// The write fails.
    pub fn finish(mut self) -> Result<W, SegmentError> {
        self.flush()?;
        self.block()?;
        self.into.flush()?;
        Ok(self.into)
    }

    fn block(&mut self) -> Result<(), SegmentError> {
        self.bytes.clear();
        encode_block(&self.rows, &mut self.bytes);
        self.rows.clear();
        Ok(self.into.write_all(&self.bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            intended: Nanos(0x0102_0304_0506_0708),
            issued: Nanos(0x1112),
            completed: Nanos::NEVER,
            offset: 0x2000,
            size: 4096,
            result: -5,
            stream: 7,
            device: 0x0102,
            kind: Kind::Write,
        }
    }

    /// Every byte of version 1, as in docs/trace-format.md.
    #[test]
    fn a_plain_row_has_these_bytes() {
        #[rustfmt::skip]
        let bytes = [
            8, 7, 6, 5, 4, 3, 2, 1,
            0x12, 0x11, 0, 0, 0, 0, 0, 0,
            255, 255, 255, 255, 255, 255, 255, 255,
            0, 0x20, 0, 0, 0, 0, 0, 0,
            0, 16, 0, 0,
            0xfb, 255, 255, 255,
            7, 0, 0, 0,
            2, 1,
            1, 0,
        ];
        assert_eq!(decode_row(&bytes), Ok(row()));
    }

    /// Every byte of a block, as in docs/trace-format.md.
    #[test]
    fn a_block_has_these_bytes() {
        let first = Row {
            intended: Nanos(1_000),
            issued: Nanos(1_064),
            completed: Nanos(1_063),
            result: 4096,
            stream: 0,
            device: 0,
            ..row()
        };
        let second = Row {
            intended: Nanos(999),
            issued: Nanos(999),
            completed: Nanos::NEVER,
            ..first
        };
        let mut bytes = Vec::new();
        encode_block(&[first, second], &mut bytes);
        #[rustfmt::skip]
        let expected = [
            b'B', b'L', b'K', b'\n', 54, 0, 0, 0, 2, 0, 0, 0, 0x7c, 0x80, 0xdc, 0x92,
            // The lengths of the columns.
            3, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0,
            0xd0, 0x0f, 0x01,
            0x80, 1, 0,
            1, 0xcf, 0x0f,
            0x80, 0x80, 1, 0,
            0x80, 0x40, 0,
            2, 0,
        ];
        assert_eq!(bytes, expected);
    }

    #[test]
    fn a_kind_that_does_not_exist_is_reported() {
        let mut bytes = [0; ROW_BYTES];
        bytes[46] = 21;
        assert_eq!(decode_row(&bytes), Err(21));
    }
}
