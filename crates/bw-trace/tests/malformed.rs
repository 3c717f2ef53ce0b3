//! Malformed input: the position in the error, and the counts of a lenient reader.

#![allow(clippy::unwrap_used)]

use bw_model::EngineError;
use bw_trace::error::TraceCode;
use bw_trace::input::{Duplicates, Format, TraceInput};
use bw_trace::trace;
use std::io::Cursor;

fn input(format: Format) -> TraceInput {
    TraceInput {
        format: Some(format),
        duplicates: Some(Duplicates::Burst),
        ..TraceInput::new("t")
    }
}

fn read(input: &TraceInput, bytes: &[u8]) -> Result<usize, EngineError> {
    let mut trace = trace::read(Box::new(Cursor::new(bytes.to_vec())), input)?;
    let count = trace.by_ref().collect::<Result<Vec<_>, _>>()?.len();
    Ok(count)
}

/// Checks that `bad`, after the line (or lines) `good`, is refused at `column` of its line with
/// `message`, and that a lenient reader skips it and reads what follows.
fn refused(format: Format, good: &str, bad: &[u8], (column, message): (u64, &str)) {
    let mut bytes = format!("{good}\n").into_bytes();
    let line = bytes.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
    bytes.extend_from_slice(bad);
    bytes.push(b'\n');
    let last = good.lines().next_back().unwrap();
    bytes.extend_from_slice(last.as_bytes());
    let error = read(&input(format), &bytes).unwrap_err();
    let place = (error.line(), error.column());
    assert_eq!(place, (Some(line), Some(column)), "{format:?}: {error}");
    assert!(error.message.contains(message), "{format:?}: {error}");
    assert_eq!((error.code, error.status), (TraceCode::TraceLine.name(), 2));
    assert!(error.remedy.contains("--lenient"), "{error}");
    let lenient = TraceInput {
        lenient: true,
        ..input(format)
    };
    let mut trace = trace::read(Box::new(Cursor::new(bytes)), &lenient).unwrap();
    let rows = trace.by_ref().map(Result::unwrap).count();
    let report = trace.report();
    assert_eq!((rows, report.skipped_lines), (2, 1), "{format:?}");
    assert!(report.skipped_first[0].starts_with(&format!("t:{line}:{column}: ")));
}

#[test]
fn load() {
    let good = "start ; sector; length ; op\n1.5 ; 8 ; 8 ; R ; 0.0 ; 0.0";
    refused(
        Format::Load,
        good,
        b"2.5 ; 8 ; 8",
        (12, "operation is missing"),
    );
    refused(
        Format::Load,
        good,
        b"2.5 ; x8 ; 8 ; R",
        (7, "sector 'x8' is not a number"),
    );
    refused(
        Format::Load,
        good,
        b"99999999999 ; 8 ; 8 ; R",
        (1, "too large"),
    );
    refused(Format::Load, good, b"2.5 ; 8 ; 8 ; Q", (15, "must be R, W"));
    refused(Format::Load, good, b"2.5 ; 8 ; 8 ; \xff", (15, "'\\xff'"));
    refused(
        Format::Load,
        good,
        b"2.5 ; 18014398509481983 ; 8 ; R",
        (7, "8 EiB"),
    );
    refused(
        Format::Load,
        good,
        b"2.5 ; 8 ; 8 ; R ; 0 ; 0 ; 1",
        (27, "after the last"),
    );
}

#[test]
fn iolog() {
    let good = "fio version 3 iolog\n7 /f read 0 512";
    refused(
        Format::FioIolog,
        good,
        b"8 /f read 0",
        (12, "length is missing"),
    );
    refused(
        Format::FioIolog,
        good,
        b"8 /f read z 512",
        (11, "offset 'z'"),
    );
    refused(
        Format::FioIolog,
        good,
        b"18446744073709551615 /f read 0 1",
        (1, "too large"),
    );
    refused(
        Format::FioIolog,
        good,
        b"8 /\xff read 0 1",
        (3, "not UTF-8"),
    );
    refused(
        Format::FioIolog,
        good,
        b"8 /f wait 0",
        (6, "'wait' is not an action"),
    );
    for head in ["fio version 4 iolog\n", "7 /f read 0 512\n"] {
        let error = read(&input(Format::FioIolog), head.as_bytes()).unwrap_err();
        assert_eq!(
            (error.code, error.line()),
            (TraceCode::TraceFormat.name(), Some(1))
        );
    }
}

#[test]
fn blkparse() {
    let good = "8,0 1 2 0.000000001 697 Q W 223490 + 8 [x]";
    refused(Format::Blkparse, good, b"8,0 1 2", (8, "time is missing"));
    refused(
        Format::Blkparse,
        good,
        b"8;0 1 2 0.1 697 Q W 1 + 8",
        (1, "MAJOR,MINOR"),
    );
    refused(
        Format::Blkparse,
        good,
        b"8,0 1 2 0.1 4294967296 Q W 1 + 8",
        (13, "too large"),
    );
    refused(
        Format::Blkparse,
        good,
        b"8,0 1 2 0.1 \xfe Q W 1 + 8",
        (13, "'\\xfe'"),
    );
    refused(
        Format::Blkparse,
        good,
        b"8,0 1 2 0.1 697 Q W 1 - 8",
        (23, "should be '+'"),
    );
}

#[test]
fn csv_formats() {
    let msr = "128166372003061629,hm,0,Read,0,512,1";
    refused(
        Format::Msr,
        msr,
        b"128166372003061629,hm,0,Read,0,512",
        (35, "response time is missing"),
    );
    refused(
        Format::Msr,
        msr,
        b"-5,hm,0,Read,0,512,1",
        (1, "is negative"),
    );
    refused(
        Format::Msr,
        msr,
        b"184467440737095517,hm,0,Read,0,512,1",
        (1, "too large"),
    );
    refused(
        Format::Msr,
        msr,
        b"128166372003061629,h\xff,0,Read,0,512,1",
        (20, "not UTF-8"),
    );
    refused(
        Format::Msr,
        msr,
        b"128166372003061629,hm,0,Trim,0,512,1",
        (25, "neither"),
    );
    let systor = "1455592200.1,0.1,R,5,0,512";
    refused(
        Format::Systor,
        systor,
        b"1455592200.1,0.1,,5,0,512",
        (18, "type is missing"),
    );
    refused(
        Format::Systor,
        systor,
        b"1455592200.1,zero,R,5,0,512",
        (14, "response time 'zero'"),
    );
    refused(
        Format::Systor,
        systor,
        b"1455592200.1,0.1,R,5,0,18446744073709551616",
        (24, "too large"),
    );
    let spc = "0,1,512,r,0.5";
    refused(Format::Spc, spc, b"0,1,512,r", (10, "timestamp is missing"));
    refused(Format::Spc, spc, b"0,1,512,r,0.5e3", (11, "not a number"));
    refused(Format::Spc, spc, b"\xff,1,512,r,0.5", (1, "'\\xff'"));
    let alibaba = "419,W,0,512,1577808144360767";
    refused(
        Format::Alibaba,
        alibaba,
        b"419,W,0,512",
        (12, "timestamp is missing"),
    );
    refused(
        Format::Alibaba,
        alibaba,
        b"419,W,0,512,18446744073709552",
        (13, "too large"),
    );
    refused(
        Format::Alibaba,
        alibaba,
        b"419,W,0,512,1,1",
        (15, "after the last"),
    );
    let tencent = "1538323200,8,8,0,1063";
    refused(
        Format::Tencent,
        tencent,
        b"1538323200,8,8,2,1063",
        (16, "neither 0"),
    );
    refused(
        Format::Tencent,
        tencent,
        b"1538323200.5,8,8,0,1063",
        (1, "not a number"),
    );
    refused(
        Format::Tencent,
        tencent,
        b"1538323200,8,8,0",
        (17, "volume is missing"),
    );
    let strace = "7 1785000000.000100 pread64(3</w/a>, \"x\", 1, 7) = 1 <0.000010>";
    refused(
        Format::Strace,
        strace,
        b"7 12:00:01.000100 fsync(3</w/a>) = 0",
        (3, "not a number"),
    );
    refused(
        Format::Strace,
        strace,
        b"7 1785000000 fsync(3</w/a>) = 0",
        (3, "strace -f -ttt"),
    );
    refused(
        Format::Strace,
        strace,
        b"7 1785000000.000100 pread64(3</w/a>, \"x, 1, 7) = 1",
        (21, "no call with its result"),
    );
    let mqsim = "3000 0 1000 16 0";
    refused(
        Format::Mqsim,
        mqsim,
        b"3000 0 1000 16",
        (15, "type is missing"),
    );
    refused(
        Format::Mqsim,
        mqsim,
        b"3000 0 10x0 16 0",
        (8, "address '10x0'"),
    );
    refused(
        Format::Mqsim,
        mqsim,
        b"3000 0 1000 16 0 9",
        (18, "after the last"),
    );
}

#[test]
fn a_line_without_end_is_refused_and_passed() {
    let long = vec![b'1'; 200_000];
    refused(Format::Spc, "0,1,512,r,0.5", &long, (65_537, "longer than"));
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn binary_records_that_are_cut_short_are_reported_with_their_byte() {
    for (name, format, record) in [
        ("v1.vscsi", Format::Vscsi, 64),
        ("v2.vscsi", Format::Vscsi, 80),
        ("le.blktrace.0", Format::Blktrace, 196),
    ] {
        let bytes = file(name);
        let cut = &bytes[..bytes.len() - 3];
        let error = read(&input(format), cut).unwrap_err();
        assert_eq!(
            (error.code, error.byte()),
            (TraceCode::TraceLine.name(), Some(record)),
            "{error}"
        );
        let lenient = TraceInput {
            lenient: true,
            ..input(format)
        };
        assert!(read(&lenient, cut).unwrap() >= 1);
    }
}

#[test]
fn another_version_is_refused_even_when_lenient() {
    let mut bytes = file("le.blktrace.0");
    bytes[0] = 8;
    let lenient = TraceInput {
        lenient: true,
        ..TraceInput::new("t")
    };
    let error = read(&lenient, &bytes).unwrap_err();
    assert_eq!(error.code, TraceCode::TraceFormat.name());
    assert!(error.message.contains("version 8"), "{error}");
    let mut mixed = file("v1.vscsi");
    mixed[32 + 15] = 2;
    let error = read(&input(Format::Vscsi), &mixed).unwrap_err();
    assert_eq!(error.byte(), Some(32), "{error}");
}

#[test]
fn a_stamp_beyond_the_window_is_refused_with_line_and_option() {
    let text = b"0,1,512,r,5.0\n0,1,512,r,9.0\n0,1,512,r,3.5\n";
    let error = read(&TraceInput::new("t"), text).unwrap_err();
    assert_eq!(
        (error.code, error.line()),
        (TraceCode::TraceOrder.name(), Some(3))
    );
    assert!(error.message.contains("3500000000 ns"), "{error}");
    assert!(error.remedy.contains("--window"), "{error}");
    let wide = TraceInput {
        window_ns: Some(6_000_000_000),
        ..TraceInput::new("t")
    };
    assert_eq!(read(&wide, text), Ok(3));
}

#[test]
fn what_cannot_be_known_is_not_guessed() {
    let error = read(&TraceInput::new("t"), b"hello\nworld\n").unwrap_err();
    assert_eq!(error.code, TraceCode::TraceFormat.name());
    assert!(error.remedy.contains("fio-iolog"), "{error}");
    let error = read(&TraceInput::new("t"), b"").unwrap_err();
    assert!(error.message.contains("empty"), "{error}");
    for path in ["/nowhere/at/all", "/"] {
        let error = trace::open(&TraceInput::new(path)).err().unwrap();
        assert_eq!(error.code, TraceCode::TraceOpen.name(), "{error}");
    }
    let unknown = TraceInput {
        devices: Some(vec!["sda".to_owned()]),
        ..TraceInput::new("t")
    };
    let error = read(&unknown, b"0,1,512,r,5.0\n").unwrap_err();
    assert!(error.message.contains("no device 'sda'"), "{error}");
}

#[test]
fn what_comes_before_the_wrong_line_is_handed_on_first() {
    let text = b"0,1,512,r,5.0\n0,1,512,r,4.5\n0,1,512,r,4.5\n0,1,512,r,x\n";
    for duplicates in [Duplicates::Burst, Duplicates::Spread] {
        let input = TraceInput {
            duplicates: Some(duplicates),
            ..TraceInput::new("t")
        };
        let mut trace = trace::read(Box::new(Cursor::new(text.to_vec())), &input).unwrap();
        let first: Vec<bool> = trace.by_ref().map(|row| row.is_ok()).collect();
        assert_eq!(first, [true, true, true, false]);
        assert!(trace.next().is_none());
    }
}
