//! blkreplay's `.load`: free text, a line of column names, then
//! `start ; sector ; length ; op ; replay_delay ; replay_duration`.
//!
//! Start in seconds with nanoseconds, sector and length in units of 512 bytes. The free text ends with
//! the first line that has operations; the notice and the column names may come again before it
//! (they do in windows-mssql.load). What blkreplay itself prints calls the first column `orig_start`, and behind the
//! operations comes a rule of dashes and free text again. A duration of zero means that nothing was measured: the
//! converter writes `replay_duration=0`. Source: blkreplay d1726a6, blkreplay.c.

use super::SECTOR_BYTES;
use crate::entry::{Devices, Entry};
use crate::fault::Fault;
use crate::source::Timing;
use crate::text::{Field, Fields, LineFormat};
use bw_model::Kind;
use bw_model::Nanos;

/// The parser.
#[derive(Debug, Default)]
pub(crate) struct Load {
    named: bool,
    begun: bool,
}

impl Load {
    fn is_operation(&self, line: &[u8]) -> bool {
        let looks_like_one = line.contains(&b';');
        self.begun
            || looks_like_one
                && (self.named
                    || line
                        .trim_ascii_start()
                        .first()
                        .is_some_and(u8::is_ascii_digit))
    }
}

impl LineFormat for Load {
    fn parse(&mut self, line: &[u8], devices: &mut Devices) -> Result<Option<Entry>, Fault> {
        if is_column_names(line) {
            self.named = true;
            return Ok(None);
        }
        if is_rule(line) {
            *self = Self::default();
            return Ok(None);
        }
        if !self.is_operation(line) {
            return Ok(None);
        }
        self.begun = true;
        let mut fields = Fields::new(line, b';');
        let at = fields.next("start")?.seconds()?;
        let sector = fields.next("sector")?;
        let bytes = fields.next("length")?.times(SECTOR_BYTES)?;
        let kind = kind(&fields.next("operation")?)?;
        let delay = seconds_if_there(fields.optional("replay delay"))?;
        let duration = seconds_if_there(fields.optional("replay duration"))?;
        fields.end()?;
        let offset = sector.offset(SECTOR_BYTES, bytes)?;
        let mut entry = Entry::new(at, kind, offset, bytes).on(devices.number(b"0", 0)?);
        if duration > 0 {
            let issued = at.saturating_add(delay);
            entry.row.issued = Nanos(issued);
            entry = entry.ended(Some(issued.saturating_add(duration)));
        }
        Ok(Some(entry))
    }

    fn timing(&self) -> Timing {
        Timing {
            intended: true,
            ..Timing::default()
        }
    }
}

fn is_column_names(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    (line.starts_with(b"start") || line.starts_with(b"orig_start")) && line.contains(&b';')
}

/// Returns whether the line is one of dashes alone: blkreplay begins and ends its table with it.
fn is_rule(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.len() >= 8 && line.iter().all(|byte| *byte == b'-')
}

fn seconds_if_there(field: Option<Field<'_>>) -> Result<u64, Fault> {
    field.map_or(Ok(0), |field| field.seconds())
}

fn kind(field: &Field<'_>) -> Result<Kind, Fault> {
    match field.bytes {
        b"R" | b"RA" | b"RS" | b"r" => Ok(Kind::Read),
        b"W" | b"WS" | b"WA" | b"w" => Ok(Kind::Write),
        b"D" => Ok(Kind::Discard),
        b"F" => Ok(Kind::Flush),
        _ => Err(field.fault("is none of R, W, D, F")),
    }
}
