//! SPC trace format, revision 1.0.1, as in the UMass repository:
//! `ASU,LBA,Size,Opcode,Timestamp` and optional fields.
//!
//! LBA in blocks of 512 bytes, Size in bytes, Opcode r or w, Timestamp in seconds from the start.
//! Blanks are allowed. What stands behind the stamp is the producer's own and has no meaning here.

use super::{SECTOR_BYTES, csv};
use crate::entry::{Devices, Entry};
use crate::fault::Fault;
use crate::text::{Fields, LineFormat};

/// The parser.
#[derive(Debug, Default)]
pub(crate) struct Spc {
    optional_fields: bool,
}

impl LineFormat for Spc {
    fn parse(&mut self, line: &[u8], devices: &mut Devices) -> Result<Option<Entry>, Fault> {
        let mut fields = Fields::new(line, b',');
        let unit = fields.next("ASU")?;
        unit.number()?;
        let block = fields.next("LBA")?;
        let bytes = fields.next("size")?.number()?;
        let kind = csv::kind(&fields.next("opcode")?)?;
        let at = fields.next("timestamp")?.seconds()?;
        self.optional_fields |= !fields.rest().is_empty();
        let offset = block.offset(SECTOR_BYTES, bytes)?;
        let device = devices.number(unit.bytes, unit.column)?;
        Ok(Some(Entry::new(at, kind, offset, bytes).on(device)))
    }

    fn notes(&self) -> Vec<String> {
        let text = "spc: the optional fields behind the timestamp are not used";
        self.optional_fields
            .then(|| text.into())
            .into_iter()
            .collect()
    }
}
