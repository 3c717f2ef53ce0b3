//! Writes rows to anything that takes bytes, a block at a time.

use super::SegmentError;
use super::header::Header;
use super::rows::encode_block;
use bw_model::Row;
use std::io::Write;

/// Rows of a block by default: 192 KiB.
const ROWS: usize = 4096;

/// Writes rows in blocks. Dropped without [`Writer::finish`], it loses what is not yet in a block.
#[derive(Debug)]
pub struct Writer<W: Write> {
    into: W,
    rows: Vec<Row>,
    bytes: Vec<u8>,
    written: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a file with `header`.
    ///
    /// # Errors
    /// The header is too long; the write fails.
    pub fn new(mut into: W, header: &Header) -> Result<Self, SegmentError> {
        into.write_all(&header.encode()?)?;
        Ok(Self::append(into))
    }

    /// Goes on with a file whose header and blocks are there already. The caller has read the header
    /// and stands behind the last whole block ([`super::reader::Reader::offset`]).
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

    /// Hands everything on now: a reader at the other end of a pipe gets it.
    ///
    /// # Errors
    /// The write fails.
    pub fn flush(&mut self) -> Result<(), SegmentError> {
        if !self.rows.is_empty() {
            self.block()?;
        }
        Ok(self.into.flush()?)
    }

    /// Returns how many rows were given to it.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Writes what is left and the mark of a good end; gives back what was written to.
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
