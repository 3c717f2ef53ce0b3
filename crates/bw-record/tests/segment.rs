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
    assert_eq!(&bytes[..12], b"bwtrace\n\x01\x00\x30\x00");
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
    let second = start + 16 + ROW_BYTES;
    let mut bytes = file(&blocks);
    bytes[second + 20] ^= 1;
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
        (1, 16 + 2 * ROW_BYTES as u64)
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
    for cut in 1..16 + ROW_BYTES {
        let short = &bytes[..bytes.len() - cut];
        let (offset, message) = damage(short);
        assert_eq!(offset, (bytes.len() - 16 - ROW_BYTES) as u64);
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
    let mut bytes = file(&[vec![row(1), row(2)]]);
    let start = header().encode().unwrap().len();
    let second = start + 16 + ROW_BYTES;
    bytes[second + 46] = 77;
    let crc = crc32fast::hash(&[&bytes[start + 4..start + 12], &bytes[start + 16..]].concat());
    bytes[start + 12..start + 16].copy_from_slice(&crc.to_le_bytes());
    let (offset, message) = damage(&bytes);
    assert_eq!(
        (offset, message.ends_with("number 77")),
        (second as u64, true)
    );
    assert_eq!(read(&bytes, true).unwrap(), [row(1)]);
}

#[test]
fn what_is_not_such_a_file_is_refused() {
    let good = file(&[vec![row(1)]]);
    let mut other = good.clone();
    other[0] = b'B';
    let mut newer = good.clone();
    newer[8] = 2;
    let mut damaged = good.clone();
    damaged[30] ^= 0x20;
    let cases = [
        (other, "does not begin with"),
        (newer, "version 2"),
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
