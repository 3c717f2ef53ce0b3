//! The rows of a block, column by column, as variable-length integers.
//!
//! Decision: columns instead of rows of integers. A column that always has the value that is predicted from its neighbours
//! (one size, one worker, all bytes transferred) has no bytes, and numpy decodes a column at once. Rejected: a general
//! compressor (zstd) behind the raw rows: it halves them again, and costs several times the CPU time of this.

use bw_model::{Kind, Nanos, Row};

/// Maximum number of rows in a block, which a reader must hold at a time: at most 6 MB.
pub(crate) const BLOCK_ROWS: usize = 65_536;
/// Number of columns.
const COLUMNS: usize = 9;
/// The lengths of the columns, before them [bytes].
const LENGTHS: usize = COLUMNS * 4;
/// The longest integer [bytes].
const LONGEST: usize = 10;
/// The greatest length of a block without its head [bytes].
pub(super) const LONGEST_BLOCK: usize = LENGTHS + COLUMNS * LONGEST * BLOCK_ROWS;

/// What is stored of a row after another in each column: the difference to what is predicted, as a number that wraps.
const DIFFERENCES: [fn(&Row, &Row) -> u64; COLUMNS] = [
    |row, before| row.intended.0.wrapping_sub(before.intended.0),
    |row, _| row.issued.0.wrapping_sub(row.intended.0),
    |row, _| row.completed.0.wrapping_sub(row.issued.0),
    |row, before| row.offset.wrapping_sub(before.offset),
    |row, before| u64::from(row.size).wrapping_sub(before.size.into()),
    |row, _| (i64::from(row.result) as u64).wrapping_sub(row.size.into()),
    |row, before| u64::from(row.stream).wrapping_sub(before.stream.into()),
    |row, before| u64::from(row.device).wrapping_sub(before.device.into()),
    |row, before| (row.kind as u64).wrapping_sub(before.kind as u64),
];

/// The row before the first.
const FIRST: Row = Row::ZERO;

/// Appends the rows to `bytes`.
pub(super) fn encode(rows: &[Row], bytes: &mut Vec<u8>) {
    let lengths = bytes.len();
    bytes.resize(lengths + LENGTHS, 0);
    for (column, difference) in DIFFERENCES.iter().enumerate() {
        let (start, mut before, mut any) = (bytes.len(), &FIRST, 0);
        for row in rows {
            let difference = difference(row, before);
            any |= difference;
            write(difference, bytes);
            before = row;
        }
        if any == 0 {
            bytes.truncate(start);
        }
        let length = (bytes.len() - start) as u32;
        let place = lengths + 4 * column;
        bytes[place..place + 4].copy_from_slice(&length.to_le_bytes());
    }
}

/// Appends a difference: the low seven bits first, negative ones as odd numbers (protocol buffers' sint64).
#[inline]
fn write(difference: u64, bytes: &mut Vec<u8>) {
    let sign = (difference as i64 >> 63) as u64;
    let mut left = (difference << 1) ^ sign;
    while left >= 0x80 {
        bytes.push(left as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
}

/// Appends the rows of a block; `unknown` gets the numbers of unknown kinds.
///
/// # Errors
/// The columns are not those of `count` rows: in words.
pub(super) fn decode(
    block: &[u8],
    count: usize,
    rows: &mut Vec<Row>,
    mut unknown: impl FnMut(u64) -> Result<(), String>,
) -> Result<(), String> {
    let mut columns = [const { Column::EMPTY }; COLUMNS];
    let mut rest = block.get(LENGTHS..).ok_or("the block has no columns")?;
    for (number, column) in columns.iter_mut().enumerate() {
        let length = u32::from_le_bytes(part(block, 4 * number)) as usize;
        let bytes = rest.split_at_checked(length);
        (column.left, rest) = bytes.ok_or("a column is longer than its block")?;
        column.is_constant = length == 0;
    }
    if !rest.is_empty() {
        return Err("the block is longer than its columns".to_owned());
    }
    let mut before = FIRST;
    let mut kind = 0_u64;
    for _ in 0..count {
        let mut next = [0; COLUMNS];
        for (value, column) in next.iter_mut().zip(&mut columns) {
            *value = column.next()?;
        }
        let [
            intended,
            issued,
            completed,
            offset,
            size,
            result,
            stream,
            device,
            kinds,
        ] = next;
        let narrow = || "a number is too large for its column".to_owned();
        let intended = before.intended.0.wrapping_add(intended);
        let issued = intended.wrapping_add(issued);
        let size = u64::from(before.size).wrapping_add(size);
        let result = size.wrapping_add(result) as i64;
        let stream = u64::from(before.stream).wrapping_add(stream);
        let device = u64::from(before.device).wrapping_add(device);
        kind = kind.wrapping_add(kinds);
        let known = u8::try_from(kind).ok().and_then(Kind::from_number);
        before = Row {
            intended: Nanos(intended),
            issued: Nanos(issued),
            completed: Nanos(issued.wrapping_add(completed)),
            offset: before.offset.wrapping_add(offset),
            size: u32::try_from(size).map_err(|_| narrow())?,
            result: i32::try_from(result).map_err(|_| narrow())?,
            stream: u32::try_from(stream).map_err(|_| narrow())?,
            device: u16::try_from(device).map_err(|_| narrow())?,
            kind: known.unwrap_or(Kind::Read),
        };
        match known {
            Some(_) => rows.push(before),
            None => unknown(kind)?,
        }
    }
    if columns.iter().all(|column| column.left.is_empty()) {
        return Ok(());
    }
    Err("a column has more numbers than the block has rows".to_owned())
}

/// The numbers of one column.
struct Column<'a> {
    left: &'a [u8],
    /// It has no bytes: all differences are 0.
    is_constant: bool,
}

impl Column<'_> {
    const EMPTY: Self = Self {
        left: &[],
        is_constant: true,
    };

    /// Returns the next difference.
    #[inline]
    fn next(&mut self) -> Result<u64, &'static str> {
        if self.is_constant {
            return Ok(0);
        }
        let mut value = 0_u64;
        for place in 0..LONGEST {
            let (byte, rest) = self.left.split_first().ok_or("a column is cut short")?;
            self.left = rest;
            value |= u64::from(byte & 0x7f) << (7 * place);
            if *byte < 0x80 {
                return Ok((value >> 1) ^ (value & 1).wrapping_neg());
            }
        }
        Err("a number in a column is too long")
    }
}

/// Returns the `N` bytes from `start`; they must exist.
pub(crate) fn part<const N: usize>(bytes: &[u8], start: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[start..start + N]);
    part
}
