//! Block-layer events that do not come one by one: split, several at one place, failed without a size; and a
//! comparison of the binary reader with blktrace's own tool.

#![allow(clippy::unwrap_used)]

use bw_model::{Nanos, Row};
use bw_trace::input::{Format, TraceInput, TraceReport};
use bw_trace::trace;
use std::io::{Cursor, Write as _};
use std::process::Command;

fn read(format: Format, bytes: Vec<u8>) -> (Vec<Row>, TraceReport) {
    let input = TraceInput {
        format: Some(format),
        ..TraceInput::new("events")
    };
    let mut trace = trace::read(Box::new(Cursor::new(bytes)), &input).unwrap();
    let rows = trace.by_ref().map(Result::unwrap).collect();
    (rows, trace.report())
}

/// Returns the rows of lines of blkparse, each given from its time on.
fn of_lines(lines: &[&str]) -> (Vec<Row>, TraceReport) {
    let line = |(number, line): (usize, &&str)| format!("  8,16   0 {number:8} {line}\n");
    let text: String = lines.iter().enumerate().map(line).collect();
    read(Format::Blkparse, text.into_bytes())
}

#[test]
fn a_split_operation_ends_with_its_last_part() {
    for (first, second) in [("100 + 2560", "2660 + 1536"), ("2660 + 1536", "100 + 2560")] {
        let (rows, report) = of_lines(&[
            "0.000000000 77  Q   R 100 + 4096 [dd]",
            "0.000000005 77  X   R 100 / 2660 [dd]",
            &format!("0.000000100 77  D   R {first} [dd]"),
            &format!("0.000000200 77  D   R {second} [dd]"),
            &format!("0.000050000  0  C   R {first} [0]"),
            &format!("0.000090000  0  C   R {second} [0]"),
        ]);
        assert_eq!(rows.len(), 1);
        assert_eq!(
            (rows[0].issued, rows[0].completed),
            (Nanos(100), Nanos(90_000))
        );
        assert_eq!(rows[0].result, 4096 * 512);
        assert_eq!(report.unmatched_completions, 0);
    }
}

#[test]
fn a_failed_part_fails_the_whole_and_a_missing_part_leaves_the_end_unknown() {
    let (rows, _) = of_lines(&[
        "0.000000000 77  Q   R 100 + 16 [dd]",
        "0.000000010 77  Q   R 900 + 16 [dd]",
        "0.000000100  0  C   R 100 + 8 [65531]",
        "0.000000200  0  C   R 108 + 8 [0]",
        "0.000000300  0  C   R 900 + 8 [0]",
    ]);
    assert_eq!((rows[0].completed, rows[0].result), (Nanos(200), -5));
    assert_eq!((rows[1].completed, rows[1].result), (Nanos::NEVER, 0));
}

#[test]
fn of_two_at_one_place_each_is_issued() {
    let (rows, _) = of_lines(&[
        "0.000000000 77  Q   W 800 + 8 [dd]",
        "0.000000010 77  D   W 800 + 8 [dd]",
        "0.000000020 77  Q   W 800 + 8 [dd]",
        "0.000000030 77  D   W 800 + 8 [dd]",
        "0.000005000  0  C   W 800 + 8 [0]",
        "0.000009000  0  C   W 800 + 8 [0]",
    ]);
    let times = [&rows[0], &rows[1]].map(|row| (row.issued.0, row.completed.0));
    assert_eq!(times, [(10, 5000), (30, 9000)]);
}

#[test]
fn the_error_of_a_flush_is_not_lost() {
    let (rows, _) = of_lines(&[
        "0.000000000 77  Q FWS [dd]",
        "0.000000100  0  C FWS 0 [65531]",
    ]);
    assert_eq!((rows[0].completed, rows[0].result), (Nanos(100), -5));
}

/// Returns a record of blktrace with this sequence number.
fn record(sequence: u32, at: u64, action: u32, (sector, bytes): (u64, u32), error: u16) -> Vec<u8> {
    let mut record = 0x6561_7407_u32.to_le_bytes().to_vec();
    record.extend(sequence.to_le_bytes());
    record.extend(at.to_le_bytes());
    record.extend(sector.to_le_bytes());
    for word in [bytes, action, 77, 8 << 20 | 16, 0] {
        record.extend(word.to_le_bytes());
    }
    record.extend(error.to_le_bytes());
    record.extend(0_u16.to_le_bytes());
    record
}

/// Returns a file of blktrace with operations of every kind, in flight together, some failed.
fn binary() -> Vec<u8> {
    const KINDS: [u32; 6] = [1, 2, 2 | 8, 1 | 1 << 11, 2 | 1 << 13, 2 | 4];
    let mut events = Vec::new();
    for number in 0..300_u64 {
        let at = 1000 + number * 40_000;
        let kind = KINDS[(number % 6) as usize] << 16;
        let flush = number % 6 == 5;
        let extent = if flush {
            (0, 0)
        } else {
            (number * 7919 % 4096 * 128, 512 << (number % 8))
        };
        let error = if number % 11 == 0 { 0xfffb } else { 0 };
        events.push((at, kind | 1, extent, 0));
        events.push((at + 3000, kind | 7, extent, 0));
        events.push((at + 60_000 + number % 13 * 9000, kind | 8, extent, error));
    }
    events.sort_by_key(|event| event.0);
    let numbered = (1..).zip(events);
    numbered
        .flat_map(|(number, (at, action, extent, error))| record(number, at, action, extent, error))
        .collect()
}

#[test]
fn the_binary_says_what_blkparse_prints_of_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.blktrace.0"), binary()).unwrap();
    let printed = Command::new("blkparse")
        .args(["-q", "-i", "t"])
        .current_dir(&folder)
        .output();
    let Ok(printed) = printed else {
        writeln!(std::io::stderr(), "skipped: blkparse is not installed").unwrap();
        return;
    };
    let (ours, report) = read(Format::Blktrace, binary());
    let (theirs, _) = read(Format::Blkparse, printed.stdout);
    assert_eq!((ours.len(), report.unmatched_completions), (300, 0));
    assert_eq!(ours.iter().filter(|row| row.result == -5).count(), 28);
    assert_eq!(ours, theirs);
}
