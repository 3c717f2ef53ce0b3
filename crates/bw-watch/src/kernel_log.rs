//! The messages of the kernel's log (/dev/kmsg) that arrive during a watch.
//! Source: the kernel's ABI/testing/dev-kmsg.

use crate::output;
use crate::text::number;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// One record.
#[derive(Debug, PartialEq, Eq)]
pub struct KernelMessage<'a> {
    /// 0 emergency to 7 debug.
    pub level: i64,
    /// Time after boot, by the log's clock [us].
    pub at_us: i64,
    /// The message, with the log's escapes.
    pub text: &'a [u8],
}

/// Parses `LEVEL,NUMBER,MICROSECONDS,FLAGS[,...];TEXT`, the first line of a record. The lines
/// after it start with a blank and hold keys.
pub fn record(line: &[u8]) -> Option<KernelMessage<'_>> {
    let end = line.iter().position(|&byte| byte == b';')?;
    let mut head = line[..end].split(|&byte| byte == b',');
    let level = number(head.next()?)? & 7;
    let at_us = number(head.nth(1)?)?;
    let text = &line[end + 1..];
    Some(KernelMessage { level, at_us, text })
}

/// The log, read from its end at the time of opening.
#[derive(Debug)]
pub(crate) struct KernelLog {
    file: File,
    buffer: Vec<u8>,
    /// How often the log reported that messages were overwritten before they were read.
    pub lost: u64,
}

impl KernelLog {
    /// Opens the log at its end. Errors: no such file, not permitted.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)?;
        // A pipe, as in tests, has no end to seek to.
        let _ = file.seek(SeekFrom::End(0));
        Ok(Self {
            file,
            buffer: vec![0; 16384],
            lost: 0,
        })
    }

    /// Writes a line `kernel` for each message since the last call. The log's clock differs slightly
    /// from CLOCK_MONOTONIC, so times are clamped to `since_ns..=t`.
    pub(crate) fn write(&mut self, since_ns: i64, t: i64, out: &mut Vec<u8>) {
        loop {
            match self.file.read(&mut self.buffer) {
                Ok(0) => return,
                Ok(length) => write_records(&self.buffer[..length], since_ns, t, out),
                Err(error) if error.kind() == ErrorKind::BrokenPipe => self.lost += 1,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }
}

fn write_records(text: &[u8], since_ns: i64, t: i64, out: &mut Vec<u8>) {
    for line in text.split(|&byte| byte == b'\n') {
        let Some(found) = record(line) else { continue };
        let at_ns = found.at_us.saturating_mul(1000);
        output::begin(out, "kernel", at_ns.max(since_ns).min(t));
        out.extend_from_slice(b",\"level\":");
        output::integer(out, found.level);
        out.extend_from_slice(b",\"text\":");
        output::string(out, found.text);
        out.extend_from_slice(b"}\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_a_level_a_time_and_a_text() {
        let line = b"12,16504,56554021769,-,caller=T1;EXT4-fs (loop1): bad; really";
        let found = record(line).unwrap();
        assert_eq!((found.level, found.at_us), (4, 56_554_021_769));
        assert_eq!(found.text, b"EXT4-fs (loop1): bad; really");
        assert_eq!(record(b" SUBSYSTEM=block"), None);
        assert_eq!(record(b"x,1,2,-;t"), None);
    }

    #[test]
    fn a_time_outside_the_interval_is_brought_into_it() {
        let mut out = Vec::new();
        write_records(
            b"3,1,1,-;early\n KEY=v\n3,2,99,-;late\n",
            5_000,
            9_000,
            &mut out,
        );
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert!(
            text.starts_with("{\"type\":\"kernel\",\"t\":5000,\"level\":3,\"text\":\"early\"}")
        );
        assert!(text.contains("\"t\":9000"));
    }
}
