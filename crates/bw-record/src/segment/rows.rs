//! Rows and blocks of rows as bytes.

use super::{BLOCK_HEAD, BLOCK_MAGIC, BLOCK_ROWS};
use bw_model::Row;
use bw_model::Kind;
use bw_model::Nanos;

/// The length of a row [bytes].
pub const ROW_BYTES: usize = 48;

/// Returns the bytes of a row.
#[must_use]
pub fn encode_row(row: &Row) -> [u8; ROW_BYTES] {
    let mut bytes = [0; ROW_BYTES];
    bytes[0..8].copy_from_slice(&row.intended.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&row.issued.0.to_le_bytes());
    bytes[16..24].copy_from_slice(&row.completed.0.to_le_bytes());
    bytes[24..32].copy_from_slice(&row.offset.to_le_bytes());
    bytes[32..36].copy_from_slice(&row.size.to_le_bytes());
    bytes[36..40].copy_from_slice(&row.result.to_le_bytes());
    bytes[40..44].copy_from_slice(&row.stream.to_le_bytes());
    bytes[44..46].copy_from_slice(&row.device.to_le_bytes());
    bytes[46] = row.kind as u8;
    bytes
}

/// Returns the row of these bytes; as the error, the number of a kind that does not exist.
pub fn decode_row(bytes: &[u8; ROW_BYTES]) -> Result<Row, u8> {
    Ok(Row {
        intended: Nanos(u64::from_le_bytes(part(bytes, 0))),
        issued: Nanos(u64::from_le_bytes(part(bytes, 8))),
        completed: Nanos(u64::from_le_bytes(part(bytes, 16))),
        offset: u64::from_le_bytes(part(bytes, 24)),
        size: u32::from_le_bytes(part(bytes, 32)),
        result: i32::from_le_bytes(part(bytes, 36)),
        stream: u32::from_le_bytes(part(bytes, 40)),
        device: u16::from_le_bytes(part(bytes, 44)),
        kind: Kind::from_number(bytes[46]).ok_or(bytes[46])?,
    })
}

/// Returns the `N` bytes from `start`, which are there.
pub(super) fn part<const N: usize>(bytes: &[u8], start: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[start..start + N]);
    part
}

/// Appends a block of these rows to `bytes`; of none: the mark that the writer ended in good order.
///
/// Panics if they are more than [`BLOCK_ROWS`].
pub fn encode_block(rows: &[Row], bytes: &mut Vec<u8>) {
    assert!(rows.len() <= BLOCK_ROWS, "a block has a largest size");
    let start = bytes.len();
    bytes.extend_from_slice(&BLOCK_MAGIC);
    bytes.extend_from_slice(&((rows.len() * ROW_BYTES) as u32).to_le_bytes());
    bytes.extend_from_slice(&(rows.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    for row in rows {
        bytes.extend_from_slice(&encode_row(row));
    }
    let checksum = checksum(&bytes[start..]);
    bytes[start + 12..start + BLOCK_HEAD].copy_from_slice(&checksum.to_le_bytes());
}

/// Returns the checksum that a whole block should carry: of its length, its row count and its rows.
pub(super) fn checksum(block: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&block[4..12]);
    crc.update(&block[BLOCK_HEAD..]);
    crc.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte of the format, as docs/trace-format.md shows it.
    #[test]
    fn a_block_has_these_bytes() {
        let row = Row {
            intended: Nanos(0x0102_0304_0506_0708),
            issued: Nanos(0x1112),
            completed: Nanos::NEVER,
            offset: 0x2000,
            size: 4096,
            result: -5,
            stream: 7,
            device: 0x0102,
            kind: Kind::Write,
        };
        let mut bytes = Vec::new();
        encode_block(&[row], &mut bytes);
        #[rustfmt::skip]
        let expected = [
            b'B', b'L', b'K', b'\n', 48, 0, 0, 0, 1, 0, 0, 0, 0xf7, 0x57, 0x78, 0x28,
            8, 7, 6, 5, 4, 3, 2, 1,
            0x12, 0x11, 0, 0, 0, 0, 0, 0,
            255, 255, 255, 255, 255, 255, 255, 255,
            0, 0x20, 0, 0, 0, 0, 0, 0,
            0, 16, 0, 0,
            0xfb, 255, 255, 255,
            7, 0, 0, 0,
            2, 1,
            1, 0,
        ];
        assert_eq!(bytes, expected);
        assert_eq!(decode_row(&part(&bytes, BLOCK_HEAD)), Ok(row));
    }

    #[test]
    fn a_kind_that_does_not_exist_is_told() {
        let mut bytes = [0; ROW_BYTES];
        bytes[46] = 9;
        assert_eq!(decode_row(&bytes), Err(9));
    }
}
