//! fio's iolog, versions 2 and 3.
//!
//! Version 2: `file action [offset length]`, with `wait` lines; version 3: `timestamp file action
//! [offset length]`, stamps in microseconds from the start. The number in a `wait` line is microseconds
//! after the line before in fio's manual, but milliseconds since the start in its code
//! (iolog.c, `mtime_since_genesis`): both can be read, the manual's meaning is the default and
//! a remark says so.

use super::MICROSECOND_NS;
use crate::entry::{Devices, Entry};
use crate::fault::Fault;
use crate::input::V2Wait;
use crate::text::{Field, Fields, LineFormat};
use bw_model::Kind;

/// The parser.
#[derive(Debug)]
pub(crate) struct Iolog {
    version: u8,
    wait: V2Wait,
    at: u64,
    waits: bool,
}

impl Iolog {
    /// Returns the parser that takes `wait` lines as said.
    pub fn new(wait: V2Wait) -> Self {
        Self {
            version: 0,
            wait,
            at: 0,
            waits: false,
        }
    }

    fn heading(&mut self, line: &[u8]) -> Result<(), Fault> {
        let remedy = "write the iolog with fio 2 or newer, or give --format";
        let version = line
            .strip_prefix(b"fio version ")
            .and_then(|rest| rest.trim_ascii_end().strip_suffix(b" iolog"))
            .ok_or_else(|| {
                Fault::column(0, "the first line is not 'fio version N iolog'").fatal(remedy)
            })?;
        self.version = match version {
            b"2" => 2,
            b"3" => 3,
            other => {
                let text = format!("iolog version {} is not known", other.escape_ascii());
                return Err(Fault::column(12, text).fatal(remedy));
            }
        };
        Ok(())
    }

    fn wait(&mut self, field: &Field<'_>) -> Result<Option<Entry>, Fault> {
        let too_late = || field.fault("is too large");
        self.waits = true;
        self.at = match self.wait {
            V2Wait::Us => {
                let length = field.times(MICROSECOND_NS)?;
                self.at.checked_add(length).ok_or_else(too_late)?
            }
            V2Wait::Ms => field.times(1000 * MICROSECOND_NS)?,
        };
        Ok(None)
    }

    fn action(
        &mut self,
        file: Field<'_>,
        fields: &mut Fields<'_>,
        devices: &mut Devices,
    ) -> Result<Option<Entry>, Fault> {
        let action = fields.next("action")?;
        let kind = match action.bytes {
            b"add" | b"open" | b"close" => return fields.end().map(|()| None),
            b"wait" if self.version == 2 => {
                let line = self.wait(&fields.next("wait")?)?;
                fields.optional("second number");
                return fields.end().map(|()| line);
            }
            b"read" => Kind::Read,
            b"write" => Kind::Write,
            b"trim" => Kind::Discard,
            b"sync" | b"datasync" | b"sync_file_range" => Kind::Flush,
            _ => return Err(action.fault("is no action of an iolog")),
        };
        let (offset, bytes) = extent(kind, fields)?;
        fields.end()?;
        let device = devices.number(file.bytes, file.column)?;
        Ok(Some(Entry::new(self.at, kind, offset, bytes).on(device)))
    }
}

fn extent(kind: Kind, fields: &mut Fields<'_>) -> Result<(u64, u64), Fault> {
    if kind == Kind::Flush {
        for name in ["offset", "length"] {
            fields
                .optional(name)
                .map_or(Ok(0), |field| field.number())?;
        }
        return Ok((0, 0));
    }
    let offset = fields.next("offset")?;
    let bytes = fields.next("length")?.number()?;
    Ok((offset.offset(1, bytes)?, bytes))
}

impl LineFormat for Iolog {
    fn parse(&mut self, line: &[u8], devices: &mut Devices) -> Result<Option<Entry>, Fault> {
        if self.version == 0 {
            return self.heading(line).map(|()| None);
        }
        let mut fields = Fields::new(line, b' ');
        if self.version == 3 {
            self.at = fields.next("timestamp")?.times(MICROSECOND_NS)?;
        }
        let file = fields.next("file")?;
        self.action(file, &mut fields, devices)
    }

    fn notes(&self) -> Vec<String> {
        let text = match (self.version, self.waits, self.wait) {
            (2, true, V2Wait::Us) => {
                "fio-iolog: wait lines are taken as microseconds after the line before, as fio's manual says; \
                 fio's code writes milliseconds since the start: then give --v2-wait ms"
            }
            (2, false, _) => {
                "fio-iolog: version 2 without wait lines has no time: all arrives at once"
            }
            _ => return Vec::new(),
        };
        vec![text.to_owned()]
    }
}
