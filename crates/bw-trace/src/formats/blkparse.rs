//! The text that blkparse prints by default: `%D %2c %8s %5T.%9t %5p %2a %3d `, then
//! `sector + sectors [process]` or what else the action has.
//!
//! Q, D and C are used; other actions, messages and the summary at the end are counted as other
//! events. Source: blktrace 1.2.0, blkparse(1).

use super::SECTOR_BYTES;
use crate::entry::Devices;
use crate::events::{Action, BlockEvent};
use crate::fault::{Fault, Place};
use crate::source::{Account, Source};
use crate::text::{Bytes, Field, Fields, Lines};
use bw_model::Kind;

/// The events of one text.
pub(crate) struct Blkparse {
    lines: Lines,
    other: u64,
    summary: bool,
}

impl Blkparse {
    /// Returns the events of `stream`.
    pub fn new(stream: Bytes) -> Self {
        Self {
            lines: Lines::new(stream),
            other: 0,
            summary: false,
        }
    }
}

impl Source<BlockEvent> for Blkparse {
    fn next(&mut self, devices: &mut Devices) -> Result<Option<BlockEvent>, Fault> {
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
                    event.place = Place::Text(number, 1);
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
fn event(line: &[u8], devices: &mut Devices) -> Result<Option<BlockEvent>, Fault> {
    let mut fields = Fields::new(line, b' ');
    let device = fields.next("device")?;
    check_device(&device)?;
    fields.next("CPU")?.number()?;
    fields.next("sequence number")?.number()?;
    let at = fields.next("time")?.seconds()?;
    let pid = fields.next("process")?;
    let pid = u32::try_from(pid.number()?).map_err(|_| pid.fault("is too large"))?;
    let action = match fields.next("action")?.bytes {
        b"Q" => Action::Queue,
        b"D" => Action::Issue,
        b"C" => Action::Complete,
        _ => return Ok(None),
    };
    let flags = fields.next("kind")?;
    // Where an event has no size, the errno stands in the size's place.
    let behind_kind = fields.rest();
    let Some((sector, bytes)) = extent(&mut fields)? else {
        return Ok(None);
    };
    let Some(kind) = kind(&flags, bytes) else {
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
        error: if action == Action::Complete {
            error(behind_kind)
        } else {
            0
        },
        place: Place::Whole,
        file: 0,
    }))
}

fn check_device(field: &Field<'_>) -> Result<(), Fault> {
    let comma = field.bytes.iter().filter(|byte| **byte == b',').count();
    let digits = |byte: &u8| byte.is_ascii_digit() || *byte == b',';
    if comma == 1 && field.bytes.iter().all(digits) {
        return Ok(());
    }
    Err(field.fault("is not MAJOR,MINOR"))
}

/// Returns sector and bytes; None for a packet command, which has neither.
fn extent(fields: &mut Fields<'_>) -> Result<Option<(u64, u64)>, Fault> {
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

/// Returns what the letters of the kind mean; None for what moves nothing and flushes nothing.
fn kind(flags: &Field<'_>, bytes: u64) -> Option<Kind> {
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
fn error(rest: &[u8]) -> i32 {
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
