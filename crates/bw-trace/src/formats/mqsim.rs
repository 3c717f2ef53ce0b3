//! MQSim's ASCII: `arrival device lba size type` between blanks.
//!
//! Arrival in a unit that stands in the simulator's XML, not in the trace (nanoseconds by default),
//! address and size in sectors of 512 bytes, type 0 write, 1 read.

use super::SECTOR_BYTES;
use crate::entry::{Devices, Entry};
use crate::fault::Fault;
use crate::text::{Fields, LineFormat};
use bw_model::Kind;

/// The parser.
#[derive(Debug)]
pub(crate) struct Mqsim {
    unit_ns: Option<u64>,
}

impl Mqsim {
    /// Returns the parser of stamps in this unit; None: nanoseconds, with a remark.
    pub fn new(unit_ns: Option<u64>) -> Self {
        Self { unit_ns }
    }
}

impl LineFormat for Mqsim {
    fn parse(&mut self, line: &[u8], devices: &mut Devices) -> Result<Option<Entry>, Fault> {
        let mut fields = Fields::new(line, b' ');
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
        Ok(Some(Entry::new(at, kind, offset, bytes).on(number)))
    }

    fn notes(&self) -> Vec<String> {
        let text = "mqsim: the file does not say the unit of its stamps; nanoseconds are taken";
        self.unit_ns
            .is_none()
            .then(|| text.into())
            .into_iter()
            .collect()
    }
}
