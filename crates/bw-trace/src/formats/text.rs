//! The text formats with one operation per line; each parser names the source of its layout.

use crate::entry::{DeviceNames, ParseError, TraceEntry};
use crate::entry::{MICROSECOND_NS, SECTOR_BYTES};
use crate::input::V2Wait;
use crate::source::Timing;
use crate::text::{Field, FieldReader, LineFormat};
use bw_model::{Kind, Nanos};

/// Returns the kind that a letter or word stands for, in any case: R, W, Read, Write.
pub(crate) fn kind(field: &Field<'_>) -> Result<Kind, ParseError> {
    let is = |word: &[u8]| field.bytes.eq_ignore_ascii_case(word);
    if is(b"r") || is(b"read") {
        Ok(Kind::Read)
    } else if is(b"w") || is(b"write") {
        Ok(Kind::Write)
    } else {
        Err(field.fault("is neither a read nor a write"))
    }
}

/// Returns whether `line` is a heading that starts with these two names, in any case.
pub(crate) fn is_heading(line: &[u8], first: &str, second: &str) -> bool {
    let mut names = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let mut is = |name: &str| {
        names
            .next()
            .is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
    };
    is(first) && is(second)
}

/// The parser.
#[derive(Debug, Default)]
pub(crate) struct Alibaba;

impl LineFormat for Alibaba {
    fn parse(
        &mut self,
        line: &[u8],
        devices: &mut DeviceNames,
    ) -> Result<Option<TraceEntry>, ParseError> {
        if is_heading(line, "device_id", "opcode") {
            return Ok(None);
        }
        let mut fields = FieldReader::new(line, b',');
        let volume = fields.next("device")?;
        volume.number()?;
        let kind = kind(&fields.next("opcode")?)?;
        let offset = fields.next("offset")?;
        let bytes = fields.next("length")?.number()?;
        let at = fields.next("timestamp")?.times(MICROSECOND_NS)?;
        fields.end()?;
        let device = devices.number(volume.bytes, volume.column)?;
        let offset = offset.offset(1, bytes)?;
        Ok(Some(TraceEntry::new(at, kind, offset, bytes).on(device)))
    }
}

/// A FILETIME's unit [ns].
const FILETIME_TICK_NS: u64 = 100;

/// The parser.
#[derive(Debug, Default)]
pub(crate) struct Msr {
    name: Vec<u8>,
}

impl LineFormat for Msr {
    fn parse(
        &mut self,
        line: &[u8],
        devices: &mut DeviceNames,
    ) -> Result<Option<TraceEntry>, ParseError> {
        if is_heading(line, "timestamp", "hostname") {
            return Ok(None);
        }
        let mut fields = FieldReader::new(line, b',');
        let stamp = fields.next("timestamp")?;
        let at = stamp.times(FILETIME_TICK_NS)?;
        let host = fields.next("host name")?;
        let disk = fields.next("disk number")?;
        disk.number()?;
        let kind = kind(&fields.next("type")?)?;
        let offset = fields.next("offset")?;
        let bytes = fields.next("size")?.number()?;
        let response = fields.next("response time")?;
        fields.end()?;
        let end = at
            .checked_add(response.times(FILETIME_TICK_NS)?)
            .ok_or_else(|| response.fault("is too large"))?;
        self.name.clear();
        self.name.extend_from_slice(host.bytes);
        self.name.push(b'_');
        self.name.extend_from_slice(disk.bytes);
        let device = devices.number(&self.name, host.column)?;
        let entry = TraceEntry::new(at, kind, offset.offset(1, bytes)?, bytes).on(device);
        Ok(Some(entry.ended(Some(end))))
    }
}

/// The parser.
#[derive(Debug, Default)]
pub(crate) struct Systor;

impl LineFormat for Systor {
    fn parse(
        &mut self,
        line: &[u8],
        devices: &mut DeviceNames,
    ) -> Result<Option<TraceEntry>, ParseError> {
        if is_heading(line, "timestamp", "response") {
            return Ok(None);
        }
        let mut fields = FieldReader::new(line, b',');
        let at = fields.next("timestamp")?.seconds()?;
        let end = response_end(at, fields.optional("response time"))?;
        let kind = kind(&fields.next("type")?)?;
        let unit = fields.next("LUN")?;
        let offset = fields.next("offset")?;
        let bytes = fields.next("size")?.number()?;
        fields.end()?;
        let device = devices.number(unit.bytes, unit.column)?;
        let entry = TraceEntry::new(at, kind, offset.offset(1, bytes)?, bytes).on(device);
        Ok(Some(entry.ended(end)))
    }
}

fn response_end(at: u64, response: Option<Field<'_>>) -> Result<Option<u64>, ParseError> {
    let Some(response) = response else {
        return Ok(None);
    };
    let end = at.checked_add(response.seconds()?);
    end.map(Some).ok_or_else(|| response.fault("is too large"))
}

/// The parser.
#[derive(Debug, Default)]
pub(crate) struct Tencent;

impl LineFormat for Tencent {
    fn parse(
        &mut self,
        line: &[u8],
        devices: &mut DeviceNames,
    ) -> Result<Option<TraceEntry>, ParseError> {
        if is_heading(line, "timestamp", "offset") {
            return Ok(None);
        }
        let mut fields = FieldReader::new(line, b',');
        let at = fields.next("timestamp")?.times(1_000_000_000)?;
        let offset = fields.next("offset")?;
        let bytes = fields.next("size")?.times(SECTOR_BYTES)?;
        let code = fields.next("type")?;
        let kind = match code.bytes {
            b"0" => Kind::Read,
            b"1" => Kind::Write,
            _ => return Err(code.fault("is neither 0 (read) nor 1 (write)")),
        };
        let volume = fields.next("volume")?;
        fields.end()?;
        volume.number()?;
        let device = devices.number(volume.bytes, volume.column)?;
        let offset = offset.offset(SECTOR_BYTES, bytes)?;
        Ok(Some(TraceEntry::new(at, kind, offset, bytes).on(device)))
    }
}

/// The parser.
#[derive(Debug, Default)]
pub(crate) struct Spc {
    optional_fields: bool,
}

impl LineFormat for Spc {
    fn parse(
        &mut self,
        line: &[u8],
        devices: &mut DeviceNames,
    ) -> Result<Option<TraceEntry>, ParseError> {
        let mut fields = FieldReader::new(line, b',');
        let unit = fields.next("ASU")?;
        unit.number()?;
        let block = fields.next("LBA")?;
        let bytes = fields.next("size")?.number()?;
        let kind = kind(&fields.next("opcode")?)?;
        let at = fields.next("timestamp")?.seconds()?;
        self.optional_fields |= !fields.rest().is_empty();
        let offset = block.offset(SECTOR_BYTES, bytes)?;
        let device = devices.number(unit.bytes, unit.column)?;
        Ok(Some(TraceEntry::new(at, kind, offset, bytes).on(device)))
    }

    fn notes(&self) -> Vec<String> {
        let text = "spc: the optional fields after the timestamp are not used";
        self.optional_fields
            .then(|| text.into())
            .into_iter()
            .collect()
    }
}

/// The parser.
#[derive(Debug)]
pub(crate) struct Mqsim {
    unit_ns: Option<u64>,
}

impl Mqsim {
    /// Returns the parser of stamps in this unit; None: nanoseconds, with a note.
    pub(crate) fn new(unit_ns: Option<u64>) -> Self {
        Self { unit_ns }
    }
}

impl LineFormat for Mqsim {
    fn parse(
        &mut self,
        line: &[u8],
        devices: &mut DeviceNames,
    ) -> Result<Option<TraceEntry>, ParseError> {
        let mut fields = FieldReader::new(line, b' ');
        let at = fields.next("arrival")?.times(self.unit_ns.unwrap_or(1))?;
        let device = fields.next("device")?;
        device.number()?;
        let offset = fields.next("address")?;
        let bytes = fields.next("size")?.times(SECTOR_BYTES)?;
        let code = fields.next("type")?;
        let kind = match code.bytes {
            b"0" => Kind::Write,
            b"1" => Kind::Read,
            _ => return Err(code.fault("is neither 0 (write) nor 1 (read)")),
        };
        fields.end()?;
        let number = devices.number(device.bytes, device.column)?;
        let offset = offset.offset(SECTOR_BYTES, bytes)?;
        Ok(Some(TraceEntry::new(at, kind, offset, bytes).on(number)))
    }

    fn notes(&self) -> Vec<String> {
        let text = "mqsim: the file does not say the unit of its stamps; nanoseconds are assumed";
        self.unit_ns
            .is_none()
            .then(|| text.into())
            .into_iter()
            .collect()
    }
}

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
    fn parse(
        &mut self,
        line: &[u8],
        devices: &mut DeviceNames,
    ) -> Result<Option<TraceEntry>, ParseError> {
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
        let mut fields = FieldReader::new(line, b';');
        let at = fields.next("start")?.seconds()?;
        let sector = fields.next("sector")?;
        let bytes = fields.next("length")?.times(SECTOR_BYTES)?;
        let kind = load_kind(&fields.next("operation")?)?;
        let delay = seconds_if_there(fields.optional("replay delay"))?;
        let duration = seconds_if_there(fields.optional("replay duration"))?;
        fields.end()?;
        let offset = sector.offset(SECTOR_BYTES, bytes)?;
        let mut entry = TraceEntry::new(at, kind, offset, bytes).on(devices.number(b"0", 0)?);
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

/// Returns whether the line consists only of dashes, with which blkreplay starts and ends its table.
fn is_rule(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.len() >= 8 && line.iter().all(|byte| *byte == b'-')
}

fn seconds_if_there(field: Option<Field<'_>>) -> Result<u64, ParseError> {
    field.map_or(Ok(0), |field| field.seconds())
}

fn load_kind(field: &Field<'_>) -> Result<Kind, ParseError> {
    match field.bytes {
        b"R" | b"RA" | b"RS" | b"r" => Ok(Kind::Read),
        b"W" | b"WS" | b"WA" | b"w" => Ok(Kind::Write),
        b"D" => Ok(Kind::Discard),
        b"F" => Ok(Kind::Flush),
        _ => Err(field.fault("must be R, W, D or F")),
    }
}

/// The parser.
#[derive(Debug)]
pub(crate) struct Iolog {
    version: u8,
    wait: V2Wait,
    at: u64,
    waits: bool,
}

impl Iolog {
    /// Returns the parser that interprets `wait` lines as given.
    pub(crate) fn new(wait: V2Wait) -> Self {
        Self {
            version: 0,
            wait,
            at: 0,
            waits: false,
        }
    }

    fn heading(&mut self, line: &[u8]) -> Result<(), ParseError> {
        let remedy = "write the iolog with fio 2 or newer, or give --format";
        let version = line
            .strip_prefix(b"fio version ")
            .and_then(|rest| rest.trim_ascii_end().strip_suffix(b" iolog"))
            .ok_or_else(|| {
                ParseError::column(0, "the first line is not 'fio version N iolog'").fatal(remedy)
            })?;
        self.version = match version {
            b"2" => 2,
            b"3" => 3,
            other => {
                let text = format!("iolog version {} is not known", other.escape_ascii());
                return Err(ParseError::column(12, text).fatal(remedy));
            }
        };
        Ok(())
    }

    fn wait(&mut self, field: &Field<'_>) -> Result<Option<TraceEntry>, ParseError> {
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
        fields: &mut FieldReader<'_>,
        devices: &mut DeviceNames,
    ) -> Result<Option<TraceEntry>, ParseError> {
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
            _ => return Err(action.fault("is not an action of an iolog")),
        };
        let (offset, bytes) = iolog_extent(kind, fields)?;
        fields.end()?;
        let device = devices.number(file.bytes, file.column)?;
        Ok(Some(
            TraceEntry::new(self.at, kind, offset, bytes).on(device),
        ))
    }
}

fn iolog_extent(kind: Kind, fields: &mut FieldReader<'_>) -> Result<(u64, u64), ParseError> {
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
    fn parse(
        &mut self,
        line: &[u8],
        devices: &mut DeviceNames,
    ) -> Result<Option<TraceEntry>, ParseError> {
        if self.version == 0 {
            return self.heading(line).map(|()| None);
        }
        let mut fields = FieldReader::new(line, b' ');
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
