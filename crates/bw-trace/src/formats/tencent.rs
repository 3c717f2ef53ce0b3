//! Tencent CBS (SNIA 27917): `Timestamp,Offset,Size,IOType,VolumeID`.
//!
//! Timestamp in whole seconds, Offset and Size in sectors of 512 bytes, IOType 0 read, 1 write.
//! All operations of a second have one stamp, so the reader must be told what that means.

use super::{SECTOR_BYTES, csv};
use crate::entry::{Devices, Entry};
use crate::fault::Fault;
use crate::text::{Fields, LineFormat};
use bw_model::Kind;

/// The parser.
#[derive(Debug, Default)]
pub(crate) struct Tencent;

impl LineFormat for Tencent {
    fn parse(&mut self, line: &[u8], devices: &mut Devices) -> Result<Option<Entry>, Fault> {
        if csv::is_heading(line, "timestamp", "offset") {
            return Ok(None);
        }
        let mut fields = Fields::new(line, b',');
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
        Ok(Some(Entry::new(at, kind, offset, bytes).on(device)))
    }
}
