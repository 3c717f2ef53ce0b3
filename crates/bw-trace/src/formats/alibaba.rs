//! Alibaba block traces (2020): `device_id,opcode,offset,length,timestamp`.
//!
//! Opcode R or W, Offset and Length in bytes, Timestamp in microseconds.

use super::{MICROSECOND_NS, csv};
use crate::entry::{Devices, Entry};
use crate::fault::Fault;
use crate::text::{Fields, LineFormat};

/// The parser.
#[derive(Debug, Default)]
pub(crate) struct Alibaba;

impl LineFormat for Alibaba {
    fn parse(&mut self, line: &[u8], devices: &mut Devices) -> Result<Option<Entry>, Fault> {
        if csv::is_heading(line, "device_id", "opcode") {
            return Ok(None);
        }
        let mut fields = Fields::new(line, b',');
        let volume = fields.next("device")?;
        volume.number()?;
        let kind = csv::kind(&fields.next("opcode")?)?;
        let offset = fields.next("offset")?;
        let bytes = fields.next("length")?.number()?;
        let at = fields.next("timestamp")?.times(MICROSECOND_NS)?;
        fields.end()?;
        let device = devices.number(volume.bytes, volume.column)?;
        let offset = offset.offset(1, bytes)?;
        Ok(Some(Entry::new(at, kind, offset, bytes).on(device)))
    }
}
