//! blktrace's binary files: `struct blk_io_trace` of 48 bytes, each followed by `pdu_len` bytes.
//!
//! The magic 0x65617400 plus the version tells the byte order. Version 7 is read; newer kernels can write
//! a second version with a 64-bit action, which is refused. There is one file per CPU; they
//! are merged by time before completions are matched. Source: linux/blktrace_api.h.

use super::SECTOR_BYTES;
use crate::entry::{Devices, LARGEST_END_BYTES};
use crate::events::{Action, BlockEvent, errno};
use crate::fault::{Fault, Place};
use crate::source::{Account, Source};
use crate::text::Bytes;
use bw_model::Kind;
use std::io::{self, Read};

/// The size of a record without its payload [bytes].
const RECORD_BYTES: usize = 48;

/// The magic without the version.
pub(crate) const MAGIC: u32 = 0x6561_7400;

/// The version that is read.
const VERSION: u32 = 7;

const READ: u32 = 1;
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const PACKET: u32 = 1 << 9;
const NOTIFY: u32 = 1 << 10;
const DISCARD: u32 = 1 << 13;

/// The events of one file.
pub(crate) struct Blktrace {
    stream: Bytes,
    byte: u64,
    other: u64,
    broken: bool,
    name: Vec<u8>,
}

impl Blktrace {
    /// Returns the events of `stream`.
    pub fn new(stream: Bytes) -> Self {
        Self {
            stream,
            byte: 0,
            other: 0,
            broken: false,
            name: Vec::new(),
        }
    }

    fn record(&mut self) -> Result<Option<(u64, Record)>, Fault> {
        let start = self.byte;
        let mut bytes = [0; RECORD_BYTES];
        let length = super::read_up_to(&mut self.stream, &mut bytes)
            .map_err(|error| Fault::read(&error, Place::Byte(start)))?;
        self.byte += length as u64;
        if length == 0 {
            return Ok(None);
        }
        if length < RECORD_BYTES {
            let text = format!("the last record has {length} of its 48 bytes");
            return Err(Fault::byte(start, text));
        }
        let record = Record::decode(&bytes).map_err(|what| self.lost(start, what))?;
        self.pass_payload(start, record.payload_bytes)?;
        Ok(Some((start, record)))
    }

    /// Returns the fault after which the start of the next record is unknown.
    fn lost(&mut self, start: u64, what: String) -> Fault {
        self.broken = true;
        Fault::byte(start, what).fatal("record with blktrace 1.2 or convert with blkparse")
    }

    fn pass_payload(&mut self, start: u64, length: u16) -> Result<(), Fault> {
        let length = u64::from(length);
        let passed = io::copy(&mut (&mut self.stream).take(length), &mut io::sink())
            .map_err(|error| Fault::read(&error, Place::Byte(start)))?;
        self.byte += passed;
        if passed < length {
            let text = format!("the last record's payload has {passed} of its {length} bytes");
            return Err(Fault::byte(start, text));
        }
        Ok(())
    }
}

impl Source<BlockEvent> for Blktrace {
    fn next(&mut self, devices: &mut Devices) -> Result<Option<BlockEvent>, Fault> {
        while !self.broken {
            let Some((byte, record)) = self.record()? else {
                break;
            };
            match record.event() {
                Some(mut event) => {
                    if end(&event).is_none() {
                        return Err(Fault::byte(byte, "the operation lies beyond 8 EiB"));
                    }
                    record.write_name(&mut self.name);
                    event.device = devices.number(&self.name, 0)?;
                    event.place = Place::Byte(byte);
                    return Ok(Some(event));
                }
                None => self.other += 1,
            }
        }
        Ok(None)
    }

    fn account(&self) -> Account {
        Account {
            other_events: self.other,
            ..Account::default()
        }
    }
}

fn end(event: &BlockEvent) -> Option<u64> {
    let end = event.sector.checked_mul(SECTOR_BYTES)?;
    end.checked_add(event.bytes)
        .filter(|end| *end <= LARGEST_END_BYTES)
}

/// The fields of a record that matter.
struct Record {
    at: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    device: u32,
    error: u16,
    payload_bytes: u16,
}

impl Record {
    fn decode(bytes: &[u8; RECORD_BYTES]) -> Result<Self, String> {
        let swapped = is_big_endian(bytes)?;
        let u16_at = |at: usize| number(&bytes[at..at + 2], swapped) as u16;
        let u32_at = |at: usize| number(&bytes[at..at + 4], swapped) as u32;
        let u64_at = |at: usize| number(&bytes[at..at + 8], swapped);
        Ok(Self {
            at: u64_at(8),
            sector: u64_at(16),
            bytes: u32_at(24),
            action: u32_at(28),
            pid: u32_at(32),
            device: u32_at(36),
            error: u16_at(44),
            payload_bytes: u16_at(46),
        })
    }

    /// Returns the event; None if it is none of Q, D, C, or moves nothing.
    fn event(&self) -> Option<BlockEvent> {
        let categories = self.action >> 16;
        if categories & (NOTIFY | PACKET) != 0 {
            return None;
        }
        let action = match self.action & 0xffff {
            1 => Action::Queue,
            7 => Action::Issue,
            8 => Action::Complete,
            _ => return None,
        };
        Some(BlockEvent {
            at: self.at,
            action,
            kind: kind(categories, self.bytes)?,
            device: 0,
            sector: self.sector,
            bytes: u64::from(self.bytes),
            pid: self.pid,
            error: errno(self.error),
            place: Place::Whole,
            file: 0,
        })
    }

    fn write_name(&self, name: &mut Vec<u8>) {
        use std::io::Write;
        name.clear();
        let (major, minor) = (self.device >> 20, self.device & 0xf_ffff);
        // Writing into a Vec cannot fail.
        let _ = write!(name, "{major},{minor}");
    }
}

fn kind(categories: u32, bytes: u32) -> Option<Kind> {
    let has = |bit: u32| categories & bit != 0;
    if has(DISCARD) {
        return Some(Kind::Discard);
    }
    match bytes {
        0 => has(FLUSH).then_some(Kind::Flush),
        _ if has(READ) => Some(Kind::Read),
        _ => has(WRITE).then_some(Kind::Write),
    }
}

fn number(bytes: &[u8], big_endian: bool) -> u64 {
    let shift = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    if big_endian {
        bytes.iter().fold(0, shift)
    } else {
        bytes.iter().rev().fold(0, shift)
    }
}

fn is_big_endian(bytes: &[u8; RECORD_BYTES]) -> Result<bool, String> {
    for big_endian in [false, true] {
        let magic = number(&bytes[..4], big_endian) as u32;
        if magic & 0xffff_ff00 == MAGIC {
            return match magic & 0xff {
                VERSION => Ok(big_endian),
                other => Err(format!(
                    "the record is of version {other} of blktrace's format; only version 7 is read"
                )),
            };
        }
    }
    Err("the magic of a blktrace record is missing".to_owned())
}
