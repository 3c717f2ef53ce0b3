//! Replies, kept in memory until the batch is done: nothing is written while a trial runs.
//!
//! A full buffer is written between two epochs: it must not grow, since our own resident
//! size is the floor of every peak RSS.

use std::io::{self, Write};

use crate::protocol::Reply;

const ENOUGH_BYTES: usize = 32 * 1024;

/// The worker's mouth.
#[derive(Debug, Default)]
pub struct Replies(Vec<u8>);

impl Replies {
    /// Adds a line.
    pub fn add(&mut self, reply: &Reply<'_>) {
        // Writing to memory cannot fail, and our types have no key that JSON cannot hold.
        if serde_json::to_writer(&mut self.0, reply).is_ok() {
            self.0.push(b'\n');
        }
    }

    /// Writes all lines if they have become many. Errors: as write(2).
    pub fn flush_if_many(&mut self) -> io::Result<()> {
        if self.0.len() < ENOUGH_BYTES {
            return Ok(());
        }
        self.flush()
    }

    /// Writes all lines. Errors: as write(2), EPIPE when `bw` is gone.
    pub fn flush(&mut self) -> io::Result<()> {
        let mut output = io::stdout().lock();
        output.write_all(&self.0)?;
        output.flush()?;
        self.0.clear();
        Ok(())
    }
}
