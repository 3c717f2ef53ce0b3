//! Files of rows: written rows are read back, damage is reported with its position, nothing ever panics.

#![allow(clippy::unwrap_used)]

use bw_model::{Kind, Nanos, Row};
use bw_record::segment::reader::SegmentReader;
use bw_record::segment::{
    Content, Header, Order, ROW_BYTES, SegmentError, SegmentWriter, encode_block,
};
use proptest::prelude::*;
use std::io::{self, Read};

fn header() -> Header {
    let mut header = Header::new(Content::Trace, Order::Intended);
    header.devices = vec!["sda".to_owned(), "nvme0n1".to_owned()];
    header
}

fn row(at: u64) -> Row {
    Row {
        intended: Nanos(at),
        issued: Nanos::NEVER,
        completed: Nanos(at + 100),
        offset: at * 4096,
        size: 4096,
        result: 4096,
        stream: 0,
        device: 1,
        kind: Kind::Read,
    }
}

fn file(blocks: &[Vec<Row>]) -> Vec<u8> {
    let mut bytes = header().encode().unwrap();
    blocks
        .iter()
        .for_each(|rows| encode_block(rows, &mut bytes));
    bytes
}

/// Returns the length of a block of these rows.
fn length(rows: &[Row]) -> usize {
    let mut bytes = Vec::new();
    encode_block(rows, &mut bytes);
    bytes.len()
}

fn read(bytes: &[u8], lenient: bool) -> Result<Vec<Row>, SegmentError> {
    let mut reader = SegmentReader::new(bytes, lenient)?;
    let (mut all, mut rows) = (Vec::new(), Vec::new());
    while reader.next_block(&mut rows)? {
        all.append(&mut rows);
    }
    Ok(all)
}

/// Returns the position of the damage that a strict reader reports, and its message.
fn damage(bytes: &[u8]) -> (u64, String) {
    match read(bytes, false) {
        Err(SegmentError::Damaged { offset, message }) => (offset, message),
        other => panic!("not damage: {other:?}"),
    }
}

#[test]
fn the_head_of_a_file_has_these_bytes() {
    let bytes = Header::new(Content::Samples, Order::None).encode().unwrap();
    let json = br#"{"content":"samples","time_unit":"ns","order":"none","devices":[],"started_ns":null,"source":"","policies":{}}"#;
    assert_eq!(&bytes[..12], b"bwtrace\n\x02\x00\x00\x00");
    assert_eq!(&bytes[12..16], [120, 0, 0, 0]);
    assert_eq!(&bytes[16..20], [0x63, 0xd4, 0x24, 0x50]);
    assert_eq!(&bytes[20..24], [0; 4]);
    assert_eq!(bytes[24..].trim_ascii_end(), json);
    assert_eq!(bytes.len() % 16, 0);
}

#[test]
fn a_file_may_be_appended_to_and_says_whether_its_writer_ended() {
    let mut writer = SegmentWriter::new(Vec::new(), &header()).unwrap();
    writer.write_all(&[row(1), row(2)]).unwrap();
    let bytes = writer.finish().unwrap();
    let mut reader = SegmentReader::new(bytes.as_slice(), false).unwrap();
    let mut rows = Vec::new();
    assert!(reader.next_block(&mut rows).unwrap());
    assert!(!reader.finished());
    assert!(!reader.next_block(&mut rows).unwrap());
    assert!(reader.finished());
    assert_eq!(reader.header(), &header());
    assert_eq!(reader.offset(), bytes.len() as u64);

    let mut more = SegmentWriter::append(bytes);
    more.write(&row(3)).unwrap();
    assert_eq!(more.written(), 1);
    let bytes = more.finish().unwrap();
    assert_eq!(read(&bytes, false).unwrap(), [row(1), row(2), row(3)]);
}

#[test]
fn damage_is_reported_with_its_place_or_passed_over_and_counted() {
    let blocks = [vec![row(1)], vec![row(2), row(3)], vec![row(4)]];
    let start = header().encode().unwrap().len();
    let second = start + length(&blocks[0]);
    let mut bytes = file(&blocks);
    bytes[second + 60] ^= 1;
    let (offset, message) = damage(&bytes);
    assert_eq!(offset, second as u64);
    assert_eq!(message, "the block does not have its checksum");
    let mut reader = SegmentReader::new(bytes.as_slice(), true).unwrap();
    let mut rows = Vec::new();
    let mut all = Vec::new();
    while reader.next_block(&mut rows).unwrap() {
        all.append(&mut rows);
    }
    assert_eq!(all, [row(1), row(4)]);
    let skipped = reader.skipped();
    assert_eq!(
        (skipped.places, skipped.bytes),
        (1, length(&blocks[1]) as u64)
    );
    assert!(
        skipped
            .first
            .as_ref()
            .unwrap()
            .starts_with(&format!("byte {second}:"))
    );
}

#[test]
fn a_file_that_was_cut_short_keeps_its_whole_blocks() {
    let bytes = file(&[vec![row(1)], vec![row(2)]]);
    let last = length(&[row(2)]);
    for cut in 1..last {
        let short = &bytes[..bytes.len() - cut];
        let (offset, message) = damage(short);
        assert_eq!(offset, (bytes.len() - last) as u64);
        assert!(message.contains("cut short"), "{message}");
        assert_eq!(read(short, true).unwrap(), [row(1)]);
    }
}

#[test]
fn a_block_cannot_claim_what_it_cannot_have() {
    let mut bytes = file(&[]);
    let start = bytes.len() as u64;
    bytes.extend_from_slice(b"BLK\n\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0");
    let (offset, message) = damage(&bytes);
    assert_eq!(offset, start);
    assert!(message.contains("cannot be"), "{message}");
}

#[test]
fn a_kind_that_is_not_known_is_reported_with_its_row() {
    let write = Row {
        kind: Kind::Write,
        ..row(2)
    };
    let mut bytes = file(&[vec![row(1), write]]);
    let start = header().encode().unwrap().len();
    // The last number of the last column is twice the difference, seven bits a byte.
    *bytes.last_mut().unwrap() = 77 * 2;
    bytes.push(1);
    grow_block(&mut bytes, start, 8, 1);
    let (offset, message) = damage(&bytes);
    assert_eq!(
        (offset, message.ends_with("number 77")),
        (start as u64, true),
        "{message}"
    );
    assert_eq!(read(&bytes, true).unwrap(), [row(1)]);
}

/// Makes a block, and its column of this number, longer by `more` bytes that were appended, and corrects its checksum.
fn grow_block(bytes: &mut [u8], start: usize, column: usize, more: u8) {
    bytes[start + 4] += more;
    bytes[start + 16 + 4 * column] += more;
    let crc = crc32fast::hash(&[&bytes[start + 4..start + 12], &bytes[start + 16..]].concat());
    bytes[start + 12..start + 16].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn columns_that_do_not_fit_their_rows_are_damage_although_the_checksum_is_right() {
    let start = header().encode().unwrap().len();
    let whole = file(&[vec![row(1), row(2)]]);
    // One number more; a number without an end; one of more than ten bytes.
    for tail in [vec![0], vec![0x80], vec![0x80; 12]] {
        let mut bytes = whole.clone();
        bytes.extend_from_slice(&tail);
        // The last column, of the kinds, had no bytes.
        grow_block(&mut bytes, start, 8, tail.len() as u8);
        let (offset, message) = damage(&bytes);
        assert_eq!(offset, start as u64, "{message}");
        assert!(message.contains("column"), "{message}");
        assert_eq!(read(&bytes, true).unwrap(), []);
    }
    // A column that is longer than its block.
    let mut bytes = whole;
    bytes[start + 16] += 1;
    grow_block(&mut bytes, start, 0, 0);
    assert!(
        damage(&bytes).1.contains("longer than its columns") || damage(&bytes).1.contains("column")
    );
}

/// The bytes of a file of version 1, as it was written before blocks were compressed.
fn plain_file(rows: &[Row]) -> Vec<u8> {
    let mut bytes = header().encode().unwrap();
    bytes[8..12].copy_from_slice(&[1, 0, ROW_BYTES as u8, 0]);
    for rows in [rows, &[]] {
        let mut block = Vec::new();
        for row in rows {
            for time in [row.intended, row.issued, row.completed] {
                block.extend_from_slice(&time.0.to_le_bytes());
            }
            block.extend_from_slice(&row.offset.to_le_bytes());
            block.extend_from_slice(&row.size.to_le_bytes());
            block.extend_from_slice(&row.result.to_le_bytes());
            block.extend_from_slice(&row.stream.to_le_bytes());
            block.extend_from_slice(&row.device.to_le_bytes());
            block.extend_from_slice(&[row.kind as u8, 0]);
        }
        let mut head = (block.len() as u32).to_le_bytes().to_vec();
        head.extend_from_slice(&(rows.len() as u32).to_le_bytes());
        let crc = crc32fast::hash(&[head.as_slice(), &block].concat());
        bytes.extend_from_slice(b"BLK\n");
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(&block);
    }
    bytes
}

#[test]
fn rows_as_a_null_target_has_them_take_at_most_sixteen_bytes() {
    // 200,000 operations a second of random 4 KiB blocks of a terabyte, each some microseconds late and long.
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let mut at = 0;
    let rows: Vec<Row> = (0..4096)
        .map(|_| {
            at += random(10_000);
            let issued = at + random(8_000);
            Row {
                intended: Nanos(at),
                issued: Nanos(issued),
                completed: Nanos(issued + random(8_000)),
                offset: random(1 << 28) * 4096,
                ..row(0)
            }
        })
        .collect();
    let bytes = length(&rows) as f64 / 4096.0;
    assert!(bytes <= 16.0, "{bytes} bytes a row");
}

#[test]
fn what_is_not_such_a_file_is_refused() {
    let good = file(&[vec![row(1)]]);
    let mut other = good.clone();
    other[0] = b'B';
    let mut newer = good.clone();
    newer[8] = 3;
    let mut damaged = good.clone();
    damaged[30] ^= 0x20;
    let cases = [
        (other, "does not begin with"),
        (newer, "version 3"),
        (damaged, "checksum"),
    ];
    for (bytes, expected) in cases {
        let message = read(&bytes, true).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    let message = read(&good[..40], true).unwrap_err().to_string();
    assert!(message.contains("header is cut short"), "{message}");
}

/// Gives one byte at a time, as a slow pipe does.
struct Trickle<'a>(&'a [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let one = into.len().min(1);
        self.0.read(&mut into[..one])
    }
}

#[test]
fn a_slow_pipe_gives_the_same_rows() {
    let bytes = file(&[vec![row(1)], vec![row(2)]]);
    let mut reader = SegmentReader::new(Trickle(&bytes), false).unwrap();
    let mut rows = Vec::new();
    assert!(reader.next_block(&mut rows).unwrap());
    assert_eq!(rows, [row(1)]);
    assert!(reader.next_block(&mut rows).unwrap());
    assert_eq!(rows, [row(2)]);
    assert!(!reader.next_block(&mut rows).unwrap());
}

fn rows(most: usize) -> impl Strategy<Value = Vec<Row>> {
    let times = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
    let rest = (
        any::<u32>(),
        any::<i32>(),
        any::<u32>(),
        any::<u16>(),
        0..5u8,
    );
    let row = (times, rest).prop_map(|(times, rest)| Row {
        intended: Nanos(times.0),
        issued: Nanos(times.1),
        completed: Nanos(times.2),
        offset: times.3,
        size: rest.0,
        result: rest.1,
        stream: rest.2,
        device: rest.3,
        kind: Kind::from_number(rest.4).unwrap(),
    });
    prop::collection::vec(row, 0..most)
}

proptest! {
    #[test]
    fn what_was_written_is_read(blocks in prop::collection::vec(rows(20), 0..5)) {
        let expected: Vec<Row> = blocks.iter().flatten().copied().collect();
        prop_assert_eq!(read(&file(&blocks), false).unwrap(), expected);
    }

    #[test]
    fn what_an_earlier_version_wrote_is_read(rows in rows(20)) {
        prop_assert_eq!(read(&plain_file(&rows), false).unwrap(), rows);
    }

    #[test]
    fn columns_of_arbitrary_bytes_never_panic(columns in prop::collection::vec(any::<u8>(), 0..120), count in 0..9u8) {
        let mut bytes = file(&[]);
        let start = bytes.len();
        bytes.extend_from_slice(b"BLK\n\0\0\0\0\0\0\0\0\0\0\0\0");
        (bytes[start + 4], bytes[start + 8]) = (columns.len() as u8, count);
        bytes.extend_from_slice(&columns);
        let crc = crc32fast::hash(&[&bytes[start + 4..start + 12], &bytes[start + 16..]].concat());
        bytes[start + 12..start + 16].copy_from_slice(&crc.to_le_bytes());
        let _ = read(&bytes, false);
        let _ = read(&bytes, true);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), lenient: bool) {
        let mut whole = file(&[]);
        whole.extend_from_slice(&bytes);
        let _ = read(&bytes, lenient);
        let _ = read(&whole, lenient);
    }

    #[test]
    fn a_changed_byte_costs_one_block_at_most(place in any::<prop::sample::Index>(), to: u8) {
        let blocks: Vec<Vec<Row>> = (0..8).map(|block| vec![row(block), row(block + 100)]).collect();
        let mut bytes = file(&blocks);
        let start = header().encode().unwrap().len();
        let place = start + place.index(bytes.len() - start);
        bytes[place] = to;
        let back = read(&bytes, true).unwrap();
        prop_assert!(back.len() >= 14);
        prop_assert!(back.iter().all(|row| blocks.iter().flatten().any(|known| known == row)));
    }
}
