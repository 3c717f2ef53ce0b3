//! MSR Cambridge (SNIA 388): `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//!
//! Timestamp is a Windows FILETIME and ResponseTime a length, both in units of 100 ns; Offset and Size
//! are in bytes. A device is called as the files are: `hm_0` for disk 0 of host hm.

use super::csv;
use crate::entry::{Devices, Entry};
use crate::fault::Fault;
use crate::text::{Fields, LineFormat};

/// A FILETIME's unit [ns].
const TICK_NS: u64 = 100;

/// The parser.
#[derive(Debug, Default)]
pub(crate) struct Msr {
    name: Vec<u8>,
}

impl LineFormat for Msr {
    fn parse(&mut self, line: &[u8], devices: &mut Devices) -> Result<Option<Entry>, Fault> {
        if csv::is_heading(line, "timestamp", "hostname") {
            return Ok(None);
        }
        let mut fields = Fields::new(line, b',');
        let stamp = fields.next("timestamp")?;
        let at = stamp.times(TICK_NS)?;
        let host = fields.next("host name")?;
        let disk = fields.next("disk number")?;
        disk.number()?;
        let kind = csv::kind(&fields.next("type")?)?;
        let offset = fields.next("offset")?;
        let bytes = fields.next("size")?.number()?;
        let response = fields.next("response time")?;
        fields.end()?;
        let end = at
            .checked_add(response.times(TICK_NS)?)
            .ok_or_else(|| response.fault("is too large"))?;
        self.name.clear();
        self.name.extend_from_slice(host.bytes);
        self.name.push(b'_');
        self.name.extend_from_slice(disk.bytes);
        let device = devices.number(&self.name, host.column)?;
        let entry = Entry::new(at, kind, offset.offset(1, bytes)?, bytes).on(device);
        Ok(Some(entry.ended(Some(end))))
    }
}
