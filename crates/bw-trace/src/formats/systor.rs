//! Systor'17 (SNIA 4964): a heading `Timestamp,Response,IOType,LUN,Offset,Size`, then the rows.
//!
//! Timestamp is in epoch seconds with nine decimals, Response in seconds, Offset and Size in
//! bytes. Rows are not sorted within a file. An empty Response is absent, not zero.

use super::csv;
use crate::entry::{Devices, Entry};
use crate::fault::Fault;
use crate::text::{Field, Fields, LineFormat};

/// The parser.
#[derive(Debug, Default)]
pub(crate) struct Systor;

impl LineFormat for Systor {
    fn parse(&mut self, line: &[u8], devices: &mut Devices) -> Result<Option<Entry>, Fault> {
        if csv::is_heading(line, "timestamp", "response") {
            return Ok(None);
        }
        let mut fields = Fields::new(line, b',');
        let at = fields.next("timestamp")?.seconds()?;
        let end = end(at, fields.optional("response time"))?;
        let kind = csv::kind(&fields.next("type")?)?;
        let unit = fields.next("LUN")?;
        let offset = fields.next("offset")?;
        let bytes = fields.next("size")?.number()?;
        fields.end()?;
        let device = devices.number(unit.bytes, unit.column)?;
        let entry = Entry::new(at, kind, offset.offset(1, bytes)?, bytes).on(device);
        Ok(Some(entry.ended(end)))
    }
}

fn end(at: u64, response: Option<Field<'_>>) -> Result<Option<u64>, Fault> {
    let Some(response) = response else {
        return Ok(None);
    };
    let end = at.checked_add(response.seconds()?);
    end.map(Some).ok_or_else(|| response.fault("is too large"))
}
