//! CloudPhysics virtual disks: binary records of SCSI commands, little endian.
//!
//! Version 1 (32 bytes): u32 serial, u32 length, u32 scatter-gather count, u16 command, u16 version,
//! u64 block, u64 stamp. Version 2 (40 bytes): u16 command, u16 version, u32 serial, u32 length, u32
//! scatter-gather count, u64 block, u64 stamp, u64 response time. Length in bytes, block in 512 bytes,
//! times in microseconds; the version is the high byte. Commands that are neither reads, writes, cache flushes nor
//! unmaps are counted as other events. Source: libCacheSim aa0fc40, vscsi.h; SBC-3 for the codes.

use crate::entry::{DeviceNames, LARGEST_END_BYTES, ParseError, Position, TraceEntry};
use crate::entry::{MICROSECOND_NS, SECTOR_BYTES};
use crate::source::{Account, TraceSource};
use crate::text::{Bytes, read_up_to};
use bw_model::Kind;

/// The sizes of the records of versions 1 and 2 [bytes].
const RECORD_BYTES: [usize; 2] = [32, 40];

/// The operations of one file.
pub(crate) struct Vscsi {
    stream: Bytes,
    version: Option<u8>,
    byte: u64,
    other: u64,
}

/// Returns the version of the records at the start of `bytes`; all complete ones must have it.
pub(crate) fn version(bytes: &[u8]) -> Option<u8> {
    [1, 2].into_iter().find(|version| {
        let mut records = bytes.chunks_exact(RECORD_BYTES[usize::from(*version - 1)]);
        records.len() > 0
            && records
                .by_ref()
                .take(16)
                .all(|record| is_of(record, *version))
    })
}

fn is_of(record: &[u8], version: u8) -> bool {
    record[if version == 1 { 15 } else { 3 }] == version
}

impl Vscsi {
    /// Returns the operations of `stream`.
    pub(crate) fn new(stream: Bytes) -> Self {
        Self {
            stream,
            version: None,
            byte: 0,
            other: 0,
        }
    }

    /// Returns the version, from the first record.
    fn version(&mut self) -> Result<u8, ParseError> {
        use std::io::BufRead;
        if let Some(version) = self.version {
            return Ok(version);
        }
        let head = self
            .stream
            .fill_buf()
            .map_err(|error| ParseError::read(&error, Position::Byte(0)))?;
        let version = version(&head[..head.len().min(40)]).ok_or_else(|| {
            ParseError::byte(0, "the first record is of neither version 1 nor version 2")
                .fatal("give the right --format")
        })?;
        self.version = Some(version);
        Ok(version)
    }

    fn entry(
        &mut self,
        record: &[u8],
        version: u8,
        start: u64,
    ) -> Result<Option<TraceEntry>, ParseError> {
        let fault = |what: &str| ParseError::byte(start, what);
        if !is_of(record, version) {
            return Err(fault("the record is of another version than the first one"));
        }
        let u32_at = |at: usize| little_endian(&record[at..at + 4]);
        let u64_at = |at: usize| little_endian(&record[at..at + 8]);
        let (command, bytes) = match version {
            1 => (record[12], u32_at(4)),
            _ => (record[0], u32_at(8)),
        };
        let Some(kind) = kind(command) else {
            self.other += 1;
            return Ok(None);
        };
        let offset = u64_at(16).checked_mul(SECTOR_BYTES);
        let offset = offset
            .filter(|offset| {
                offset
                    .checked_add(bytes)
                    .is_some_and(|end| end <= LARGEST_END_BYTES)
            })
            .ok_or_else(|| fault("the operation lies beyond 8 EiB"))?;
        let at = u64_at(24).checked_mul(MICROSECOND_NS);
        let at = at.ok_or_else(|| fault("the timestamp is too large"))?;
        let end = match version {
            1 => None,
            _ => {
                let response = u64_at(32).checked_mul(MICROSECOND_NS);
                let end = response.and_then(|response| at.checked_add(response));
                Some(end.ok_or_else(|| fault("the response time is too large"))?)
            }
        };
        let mut entry = TraceEntry::new(at, kind, offset, bytes).ended(end);
        entry.place = Position::Byte(start);
        Ok(Some(entry))
    }
}

impl TraceSource<TraceEntry> for Vscsi {
    fn next(&mut self, devices: &mut DeviceNames) -> Result<Option<TraceEntry>, ParseError> {
        loop {
            let version = self.version()?;
            let mut record = [0; 40];
            let record = &mut record[..RECORD_BYTES[usize::from(version - 1)]];
            let start = self.byte;
            let length = read_up_to(&mut self.stream, record)
                .map_err(|error| ParseError::read(&error, Position::Byte(start)))?;
            self.byte += length as u64;
            if length == 0 {
                return Ok(None);
            }
            if length < record.len() {
                let whole = record.len();
                let text = format!("the last record has {length} of its {whole} bytes");
                return Err(ParseError::byte(start, text));
            }
            if let Some(entry) = self.entry(record, version, start)? {
                return Ok(Some(entry.on(devices.number(b"0", 0)?)));
            }
        }
    }

    fn account(&self) -> Account {
        Account {
            other_events: self.other,
            ..Account::default()
        }
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Returns the operation of a SCSI command; None if it moves no data of the disk.
fn kind(command: u8) -> Option<Kind> {
    match command {
        0x08 | 0x28 | 0x88 | 0xa8 => Some(Kind::Read),
        0x0a | 0x2a | 0x8a | 0xaa => Some(Kind::Write),
        0x35 | 0x91 => Some(Kind::Flush),
        0x42 => Some(Kind::Discard),
        _ => None,
    }
}
