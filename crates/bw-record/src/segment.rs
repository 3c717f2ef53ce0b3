//! The project's own format of rows: samples of a run, and traces. Byte for byte in
//! docs/trace-format.md.
//!
//! Decision: rows of a fixed 48 bytes in blocks that each carry their length and a checksum, behind a
//! header in JSON. It can be appended to, read while it is written, read in ten years with
//! numpy alone, and damage costs one block. Parquet lost (a library of 107 s of build, and its
//! footer makes a file that was cut short unreadable), CSV too (ten times slower, twice as large).
//! Non-goal: compression; gzip and zstd around it are read transparently by bw-trace.

pub mod header;
pub mod reader;
pub mod rows;
pub mod writer;

use std::fmt;
use std::io;

/// The first eight bytes of a file.
pub const MAGIC: [u8; 8] = *b"bwtrace\n";
/// The version of the format that is written, and the newest that is read.
pub const VERSION: u16 = 1;
/// The first four bytes of a block.
pub const BLOCK_MAGIC: [u8; 4] = *b"BLK\n";
/// The length of a block's head [bytes].
pub const BLOCK_HEAD: usize = 16;
/// The most rows of one block: 3 MiB, what a reader must hold at a time.
pub const BLOCK_ROWS: usize = 65_536;

/// What is wrong with a file of rows.
#[derive(Debug)]
pub enum SegmentError {
    /// Reading or writing failed.
    Io(io::Error),
    /// The bytes are not of this format, or of a version that is not known.
    Format {
        /// What is there instead.
        message: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A block or a row is damaged or cut short.
    Damaged {
        /// Where it begins [bytes from the start].
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
