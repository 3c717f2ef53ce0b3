//! The file of a series: JSON in reused buffers, compressed by gzip, flushed about once a second.
//!
//! A flush ends a block of the compressed stream, so all lines before it can be read even if the file was never
//! finished. Decision: level 1; higher levels cost more time during a trial than the saved bytes are worth.
//! Source: RFC 1952, zlib's manual on Z_SYNC_FLUSH.

use crate::columns::ABSENT;
use bw_sys::reason;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes a number; `null` if it is absent.
pub fn value(out: &mut Vec<u8>, value: i64) {
    if value == ABSENT {
        out.extend_from_slice(b"null");
    } else {
        integer(out, value);
    }
}

/// Writes an integer with code of our own: rows consist mostly of numbers with few digits.
pub fn integer(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0_u8; 20];
    let mut place = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        place -= 1;
        digits[place] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[place..]);
}

/// Writes a string; invalid UTF-8 becomes the replacement character.
pub fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        for byte in chunk.valid().bytes() {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                b'\n' => out.extend_from_slice(b"\\n"),
                0..0x20 | 0x7f => drop(write!(out, "\\u{byte:04x}")),
                _ => out.push(byte),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    out.push(b'"');
}

/// Writes an array in brackets; `each` writes one item.
pub fn array<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut each: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (place, item) in items.into_iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        each(out, item);
    }
    out.push(b']');
}

/// Starts a line: `{"type":"row","t":12`.
pub fn begin(out: &mut Vec<u8>, kind: &str, t: i64) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"t\":");
    integer(out, t);
}

/// A file that is written until the first error.
#[derive(Debug)]
pub(crate) struct SeriesWriter {
    encoder: Option<GzEncoder<File>>,
    error: String,
    bytes: u64,
}

impl SeriesWriter {
    /// Makes the file, readable only by its owner. Errors: it exists, its directory does not.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
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
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.act(|encoder| encoder.write_all(bytes));
    }

    /// Makes everything written so far readable.
    pub(crate) fn flush(&mut self) {
        self.act(Write::flush);
    }

    /// Ends the file; returns its length [bytes], and why it is incomplete or an empty text.
    pub(crate) fn finish(mut self) -> (u64, String) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_json() {
        let mut out = Vec::new();
        array(&mut out, [0, -7, i64::MAX, ABSENT], value);
        assert_eq!(out, b"[0,-7,9223372036854775807,null]");
        for text in [&b"a\"b\\c\n\x01\x7f"[..], b"caf\xc3\xa9", b"bad\xff!"] {
            let mut out = Vec::new();
            string(&mut out, text);
            let read: String = serde_json::from_slice(&out).unwrap();
            assert_eq!(read, String::from_utf8_lossy(text));
        }
    }
}
