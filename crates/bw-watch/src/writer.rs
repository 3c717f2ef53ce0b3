//! The file: lines through gzip, flushed about once a second.
//!
//! A flush ends a block of the compressed stream, so all lines before it can be read though
//! the file was never finished. Decision: level 1; higher ones cost more time than the bytes
//! are worth while a trial runs. Source: RFC 1952, zlib's manual on Z_SYNC_FLUSH.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::system::reason;

/// A file that is written until something goes wrong.
#[derive(Debug)]
pub struct Writer {
    encoder: Option<GzEncoder<File>>,
    error: String,
    bytes: u64,
}

impl Writer {
    /// Makes the file, for its owner alone. Errors: it exists, its directory does not.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        Ok(Self {
            encoder: Some(GzEncoder::new(file, Compression::fast())),
            error: String::new(),
            bytes: 0,
        })
    }

    /// Adds bytes.
    pub fn write(&mut self, bytes: &[u8]) {
        self.act(|encoder| encoder.write_all(bytes));
    }

    /// Makes all that was written readable.
    pub fn flush(&mut self) {
        self.act(Write::flush);
    }

    /// Ends the file; returns its length [bytes] and why it is not whole, else nothing.
    pub fn finish(mut self) -> (u64, String) {
        if let Some(encoder) = self.encoder.take() {
            let length = encoder.finish().and_then(|file| file.metadata());
            match length {
                Ok(length) => self.bytes = length.len(),
                Err(error) => self.error = reason(&error),
            }
        }
        (self.bytes, self.error)
    }

    fn act(&mut self, action: impl FnOnce(&mut GzEncoder<File>) -> io::Result<()>) {
        let Some(encoder) = &mut self.encoder else {
            return;
        };
        if let Err(error) = action(encoder) {
            self.error = reason(&error);
            self.bytes = encoder.get_ref().metadata().map_or(0, |file| file.len());
            self.encoder = None;
        }
    }
}
