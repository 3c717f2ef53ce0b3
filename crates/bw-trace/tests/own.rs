//! Our own format, written, read and converted.

#![allow(clippy::unwrap_used)]

use bw_model::{Kind, Nanos, Row};
use bw_record::segment::{Content, Header, Order, SegmentWriter};
use bw_trace::convert::{ConvertOutput, ConvertRequest, OutputFormat, convert};
use bw_trace::error::TraceCode;
use bw_trace::input::{Format, TraceInput};
use bw_trace::trace;
use proptest::prelude::*;
use std::io::Cursor;
use std::path::Path;
use tempfile::TempDir;

fn written(rows: &[Row], order: Order) -> Vec<u8> {
    let mut header = Header::new(Content::Trace, order);
    header.devices = vec!["sda".to_owned(), "sdb".to_owned()];
    let mut writer = SegmentWriter::new(Vec::new(), &header).unwrap();
    writer.write_all(rows).unwrap();
    writer.finish().unwrap()
}

fn read(bytes: &[u8]) -> Vec<Row> {
    let stream = Box::new(Cursor::new(bytes.to_vec()));
    let trace = trace::read(stream, &TraceInput::new("t")).unwrap();
    assert_eq!(trace.format(), Format::Bw);
    trace.map(Result::unwrap).collect()
}

fn row(at: u64, device: u16) -> Row {
    Row {
        intended: Nanos(at),
        issued: Nanos(at + 5),
        completed: Nanos::NEVER,
        offset: 4096,
        size: 512,
        result: -5,
        stream: 9,
        device,
        kind: Kind::Write,
    }
}

/// A folder that is removed on drop.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_string_lossy().into_owned()
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

fn data(name: &str) -> TraceInput {
    TraceInput::new(&format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR")))
}

fn request(input: TraceInput, path: String, format: OutputFormat) -> ConvertRequest {
    ConvertRequest {
        input,
        output: ConvertOutput { path, format },
    }
}

#[test]
fn time_zero_is_the_files_own() {
    assert_eq!(
        read(&written(&[row(700, 1)], Order::Intended)),
        [row(700, 0)]
    );
}

#[test]
fn samples_sorted_by_their_end_are_put_in_order() {
    let second = 1_000_000_000;
    let rows = [row(30 * second, 0), row(0, 0), row(31 * second, 0)];
    let read = read(&written(&rows, Order::Completed));
    assert_eq!(read, [rows[1], rows[0], rows[2]]);
}

#[test]
fn a_damaged_block_is_reported_with_its_byte_or_skipped_and_counted() {
    let mut bytes = written(&[row(1, 0), row(2, 0)], Order::Intended);
    let last = bytes.len() - 17;
    bytes[last] ^= 0xff;
    let mut strict =
        trace::read(Box::new(Cursor::new(bytes.clone())), &TraceInput::new("t")).unwrap();
    let error = strict.find_map(Result::err).unwrap();
    assert_eq!(error.code, TraceCode::TraceLine.name());
    assert!(error.byte().is_some(), "{error}");
    let lenient = TraceInput {
        lenient: true,
        ..TraceInput::new("t")
    };
    let mut trace = trace::read(Box::new(Cursor::new(bytes)), &lenient).unwrap();
    assert_eq!(trace.by_ref().map(Result::unwrap).count(), 0);
    let report = trace.report();
    assert_eq!((report.skipped_lines, report.skipped_first.len()), (1, 1));
}

#[test]
fn a_writer_that_was_stopped_is_remarked() {
    let mut bytes = written(&[row(1, 0)], Order::Intended);
    bytes.truncate(bytes.len() - 16);
    let mut trace = trace::read(Box::new(Cursor::new(bytes)), &TraceInput::new("t")).unwrap();
    assert_eq!(trace.by_ref().map(Result::unwrap).count(), 1);
    assert!(trace.report().notes[0].contains("did not finish"));
}

#[test]
fn converting_to_our_own_loses_nothing() {
    let folder = Folder::new();
    for name in ["small.blkparse", "small.systor.csv", "v2.vscsi", "le"] {
        let path = folder.path(name);
        let result = convert(&request(data(name), path.clone(), OutputFormat::Bw)).unwrap();
        let before: Vec<Row> = trace::open(&data(name))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let mut after = trace::open(&TraceInput::new(&path)).unwrap();
        let rows: Vec<Row> = after.by_ref().map(Result::unwrap).collect();
        assert_eq!(rows, before, "{name}");
        assert_eq!(after.devices(), result.trace.devices);
        assert_eq!(result.rows, before.len() as u64);
        assert_eq!(result.bytes, std::fs::metadata(&path).unwrap().len());
        assert!(after.report().notes.is_empty());
    }
    assert_eq!(folder.names().len(), 4, "nothing hidden is left");
}

#[test]
fn converting_to_an_iolog_keeps_microseconds_and_says_what_is_lost() {
    let folder = Folder::new();
    let path = folder.path("out.iolog");
    let output = request(data("small.load"), path.clone(), OutputFormat::FioIolog);
    let result = convert(&output).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let expected = "fio version 3 iolog\n1 0 add\n1 0 open\n1 0 read 246783623168 8192\n\
                    24 0 write 0 4096\n2500000 0 read 4096 512\n2500000 0 close\n";
    assert_eq!(text, expected);
    assert_eq!(result.rows, 3);
    assert!(result.lost[1].contains("2 arrivals"), "{:?}", result.lost);
    let again: Vec<Row> = trace::open(&TraceInput::new(&path))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(again.len(), 3);
    assert_eq!(again[1].intended, Nanos(23_000));
}

#[test]
fn an_existing_file_is_never_touched_and_a_failure_leaves_nothing() {
    let folder = Folder::new();
    let path = folder.path("there");
    std::fs::write(&path, "precious").unwrap();
    let there = request(data("small.load"), path.clone(), OutputFormat::Bw);
    let error = convert(&there).unwrap_err();
    assert_eq!(
        (error.code, error.status),
        (TraceCode::TraceOption.name(), 2)
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    let bad = folder.path("bad.csv");
    std::fs::write(&bad, "0,1,512,r,0.5\n0,1,512,r,0.6\n0,1,512,r,x\n").unwrap();
    for format in [OutputFormat::Bw, OutputFormat::FioIolog] {
        let failing = request(TraceInput::new(&bad), folder.path("new"), format);
        assert_eq!(convert(&failing).unwrap_err().line(), Some(3));
    }
    assert_eq!(folder.names(), ["bad.csv", "there"]);
}

#[test]
fn a_fifo_is_read_as_it_comes() {
    let folder = Folder::new();
    let path = folder.path("fifo");
    let status = std::process::Command::new("mkfifo")
        .arg(&path)
        .status()
        .unwrap();
    assert!(status.success());
    let into = path.clone();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let writer = std::thread::spawn(move || {
        let header = Header::new(Content::Trace, Order::Intended);
        let fifo = std::fs::File::create(Path::new(&into)).unwrap();
        let mut writer = SegmentWriter::new(fifo, &header).unwrap();
        writer.write_all(&[row(1, 0), row(2, 0)]).unwrap();
        writer.flush().unwrap();
        // The next row is written only when the first two have been read.
        wait.recv().unwrap();
        writer.write_all(&[row(3, 0)]).unwrap();
        writer.finish().unwrap();
    });
    let mut trace = trace::open(&TraceInput::new(&path)).unwrap();
    assert_eq!(trace.next().unwrap().unwrap().intended, Nanos(1));
    assert!(trace.at_hand(), "the second row of the block");
    assert_eq!(trace.next().unwrap().unwrap().intended, Nanos(2));
    assert!(!trace.at_hand(), "the third is not written yet");
    go.send(()).unwrap();
    assert_eq!(trace.next().unwrap().unwrap().intended, Nanos(3));
    assert!(trace.next().is_none());
    writer.join().unwrap();
}

fn any_row() -> impl Strategy<Value = Row> {
    let stamps = (0_u64..1 << 40, any::<Option<u32>>(), any::<Option<u32>>());
    let what = (0..1_u64 << 50, any::<u32>(), any::<i32>(), any::<u32>());
    (stamps, what, 0_u16..2, 0_u8..5).prop_map(|(stamps, what, device, kind)| {
        let after =
            |length: Option<u32>| length.map_or(Nanos::NEVER, |l| Nanos(stamps.0 + u64::from(l)));
        Row {
            intended: Nanos(stamps.0),
            issued: after(stamps.1),
            completed: after(stamps.2),
            offset: what.0,
            size: what.1,
            result: what.2,
            stream: what.3,
            device,
            kind: Kind::from_number(kind).unwrap(),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(mut rows in proptest::collection::vec(any_row(), 1..300)) {
        rows.sort_by_key(|row| row.intended);
        let bytes = written(&rows, Order::Intended);
        let stream = Box::new(Cursor::new(bytes));
        let mut trace = trace::read(stream, &TraceInput::new("t")).unwrap();
        let names = ["sda", "sdb"];
        for row in &rows {
            let read = trace.next().unwrap().unwrap();
            // Devices are numbered by their first appearance; their names are preserved.
            prop_assert_eq!(&trace.devices()[usize::from(read.device)], names[usize::from(row.device)]);
            prop_assert_eq!(Row { device: row.device, ..read }, *row);
        }
        prop_assert!(trace.next().is_none());
    }
}
