//! Block-layer events: blktrace's binary files, and blkparse's text.
//!
//! A binary record is a `struct blk_io_trace` of 48 bytes, followed by `pdu_len` bytes. The magic 0x65617400 plus the
//! version gives the byte order. Version 7 is read; newer kernels can write a second version with a 64-bit action,
//! which is refused. There is one file per CPU; they are merged by time before completions are matched.
//! Source: linux/blktrace_api.h.
//!
//! blkparse's default format is `%D %2c %8s %5T.%9t %5p %2a %3d `, then `sector + sectors [process]` or other fields,
//! depending on the action. Q, D and C are used; other actions, messages and the summary count as other events.
//! Source: blktrace 1.2.0, blkparse(1).

use crate::entry::SECTOR_BYTES;
use crate::entry::{DeviceNames, LARGEST_END_BYTES, ParseError, Position};
use crate::events::{BlockAction, BlockEvent, errno};
use crate::source::{Account, TraceSource};
use crate::text::{Bytes, Field, FieldReader, LineReader, read_up_to};
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
    pub(crate) fn new(stream: Bytes) -> Self {
        Self {
            stream,
            byte: 0,
            other: 0,
            broken: false,
            name: Vec::new(),
        }
    }

    fn record(&mut self) -> Result<Option<(u64, BlktraceRecord)>, ParseError> {
        let start = self.byte;
        let mut bytes = [0; RECORD_BYTES];
        let length = read_up_to(&mut self.stream, &mut bytes)
            .map_err(|error| ParseError::read(&error, Position::Byte(start)))?;
        self.byte += length as u64;
        if length == 0 {
            return Ok(None);
        }
        if length < RECORD_BYTES {
            let text = format!("the last record has {length} of its 48 bytes");
            return Err(ParseError::byte(start, text));
        }
        let record = BlktraceRecord::decode(&bytes).map_err(|what| self.lost(start, what))?;
        self.pass_payload(start, record.payload_bytes)?;
        Ok(Some((start, record)))
    }

    /// Returns an error after which the start of the next record is unknown.
    fn lost(&mut self, start: u64, what: String) -> ParseError {
        self.broken = true;
        ParseError::byte(start, what).fatal("record with blktrace 1.2 or convert with blkparse")
    }

    fn pass_payload(&mut self, start: u64, length: u16) -> Result<(), ParseError> {
        let length = u64::from(length);
        let passed = io::copy(&mut (&mut self.stream).take(length), &mut io::sink())
            .map_err(|error| ParseError::read(&error, Position::Byte(start)))?;
        self.byte += passed;
        if passed < length {
            let text = format!("the last record's payload has {passed} of its {length} bytes");
            return Err(ParseError::byte(start, text));
        }
        Ok(())
    }
}

impl TraceSource<BlockEvent> for Blktrace {
    fn next(&mut self, devices: &mut DeviceNames) -> Result<Option<BlockEvent>, ParseError> {
        while !self.broken {
            let Some((byte, record)) = self.record()? else {
                break;
            };
            match record.event() {
                Some(mut event) => {
                    if request_end(&event).is_none() {
                        return Err(ParseError::byte(byte, "the operation lies beyond 8 EiB"));
                    }
                    record.write_name(&mut self.name);
                    event.device = devices.number(&self.name, 0)?;
                    event.place = Position::Byte(byte);
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

fn request_end(event: &BlockEvent) -> Option<u64> {
    let end = event.sector.checked_mul(SECTOR_BYTES)?;
    end.checked_add(event.bytes)
        .filter(|end| *end <= LARGEST_END_BYTES)
}

/// The needed fields of a record.
struct BlktraceRecord {
    at: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    device: u32,
    error: u16,
    payload_bytes: u16,
}

impl BlktraceRecord {
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

    /// Returns the event; None if it is not Q, D or C, or moves no data.
    fn event(&self) -> Option<BlockEvent> {
        let categories = self.action >> 16;
        if categories & (NOTIFY | PACKET) != 0 {
            return None;
        }
        let action = match self.action & 0xffff {
            1 => BlockAction::Queue,
            7 => BlockAction::Issue,
            8 => BlockAction::Complete,
            _ => return None,
        };
        Some(BlockEvent {
            at: self.at,
            action,
            kind: binary_kind(categories, self.bytes)?,
            device: 0,
            sector: self.sector,
            bytes: u64::from(self.bytes),
            pid: self.pid,
            error: errno(self.error),
            place: Position::Whole,
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

fn binary_kind(categories: u32, bytes: u32) -> Option<Kind> {
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

/// The events of one text.
pub(crate) struct Blkparse {
    lines: LineReader,
    other: u64,
    summary: bool,
}

impl Blkparse {
    /// Returns the events of `stream`.
    pub(crate) fn new(stream: Bytes) -> Self {
        Self {
            lines: LineReader::new(stream),
            other: 0,
            summary: false,
        }
    }
}

impl TraceSource<BlockEvent> for Blkparse {
    fn next(&mut self, devices: &mut DeviceNames) -> Result<Option<BlockEvent>, ParseError> {
        while let Some((number, line)) = self.lines.next()? {
            if line.trim_ascii().is_empty() {
                continue;
            }
            self.summary |= line.starts_with(b"CPU") || line.starts_with(b"Total (");
            if self.summary || line.starts_with(b"Input file ") {
                self.other += 1;
                continue;
            }
            match event(line, devices).map_err(|fault| fault.on_line(number))? {
                Some(mut event) => {
                    event.place = Position::Text(number, 1);
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

/// Returns the event of a line; None if its action is not one of Q, D, C.
fn event(line: &[u8], devices: &mut DeviceNames) -> Result<Option<BlockEvent>, ParseError> {
    let mut fields = FieldReader::new(line, b' ');
    let device = fields.next("device")?;
    check_device(&device)?;
    fields.next("CPU")?.number()?;
    fields.next("sequence number")?.number()?;
    let at = fields.next("time")?.seconds()?;
    let pid = fields.next("process")?;
    let pid = u32::try_from(pid.number()?).map_err(|_| pid.fault("is too large"))?;
    let action = match fields.next("action")?.bytes {
        b"Q" => BlockAction::Queue,
        b"D" => BlockAction::Issue,
        b"C" => BlockAction::Complete,
        _ => return Ok(None),
    };
    let flags = fields.next("kind")?;
    // An event without a size has the errno in its place.
    let behind_kind = fields.rest();
    let Some((sector, bytes)) = extent(&mut fields)? else {
        return Ok(None);
    };
    let Some(kind) = text_kind(&flags, bytes) else {
        return Ok(None);
    };
    Ok(Some(BlockEvent {
        at,
        action,
        kind,
        device: devices.number(device.bytes, device.column)?,
        sector,
        bytes,
        pid,
        error: if action == BlockAction::Complete {
            text_error(behind_kind)
        } else {
            0
        },
        place: Position::Whole,
        file: 0,
    }))
}

fn check_device(field: &Field<'_>) -> Result<(), ParseError> {
    let comma = field.bytes.iter().filter(|byte| **byte == b',').count();
    let digits = |byte: &u8| byte.is_ascii_digit() || *byte == b',';
    if comma == 1 && field.bytes.iter().all(digits) {
        return Ok(());
    }
    Err(field.fault("is not MAJOR,MINOR"))
}

/// Returns sector and bytes; None for a packet command, which has neither.
fn extent(fields: &mut FieldReader<'_>) -> Result<Option<(u64, u64)>, ParseError> {
    let Some(sector) = fields.optional("sector") else {
        return Ok(Some((0, 0)));
    };
    match sector.bytes {
        [b'0'..=b'9', ..] => {}
        [b'(', ..] => return Ok(None),
        [b'[', ..] => return Ok(Some((0, 0))),
        _ => return Err(sector.fault("is not a number in decimal digits")),
    }
    let sign = fields.next("'+'")?;
    match sign.bytes {
        b"+" => {
            let bytes = fields.next("number of sectors")?.times(SECTOR_BYTES)?;
            sector.offset(SECTOR_BYTES, bytes)?;
            Ok(Some((sector.number()?, bytes)))
        }
        [b'[' | b'(', ..] => Ok(Some((sector.number()?, 0))),
        _ => Err(sign.fault("should be '+'")),
    }
}

/// Returns the operation of the kind's letters; None if it neither moves data nor flushes.
fn text_kind(flags: &Field<'_>, bytes: u64) -> Option<Kind> {
    let has = |letter: u8| flags.bytes.contains(&letter);
    if has(b'D') {
        return Some(Kind::Discard);
    }
    match (has(b'R'), has(b'W'), has(b'F')) {
        (_, _, true) if bytes == 0 => Some(Kind::Flush),
        _ if bytes == 0 => None,
        (true, _, _) => Some(Kind::Read),
        (_, true, _) => Some(Kind::Write),
        _ => None,
    }
}

/// Returns the errno of a completion's `[N]`, negative; 0 if there is none.
fn text_error(rest: &[u8]) -> i32 {
    let number = rest
        .rsplit(|byte| *byte == b'[')
        .next()
        .and_then(|text| text.strip_suffix(b"]"))
        .and_then(|text| std::str::from_utf8(text).ok())
        .and_then(|text| text.trim().parse::<i32>().ok());
    match number {
        Some(number) if (0..65_536).contains(&number) => {
            crate::events::errno(u16::try_from(number).unwrap_or(0))
        }
        Some(number) => -number.saturating_abs(),
        None => 0,
    }
}
