//! The policies over whole traces: time, devices, speed, addresses, compression.

#![allow(clippy::unwrap_used)]

use bw_model::Row;
use bw_trace::error::TraceCode;
use bw_trace::input::{Duplicates, Offsets, TraceInput};
use bw_trace::trace;
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::io::{Cursor, Write};

const TEXT: &[u8] = b"0,0,512,r,10.0\n1,8,4096,w,10.5\n0,16,512,r,11.0\n1,800,512,r,12.0\n";

fn rows(input: &TraceInput, bytes: &[u8]) -> Vec<Row> {
    let trace = trace::read(Box::new(Cursor::new(bytes.to_vec())), input).unwrap();
    trace.map(Result::unwrap).collect()
}

fn starts(rows: &[Row]) -> Vec<u64> {
    rows.iter().map(|row| row.intended.0 / 1_000_000).collect()
}

#[test]
fn time_is_cut_and_counts_from_the_cut() {
    let input = TraceInput {
        from_ns: 400_000_000,
        for_ns: Some(700_000_000),
        ..TraceInput::new("t")
    };
    assert_eq!(starts(&rows(&input, TEXT)), [100, 600]);
}

#[test]
fn spreading_stays_before_the_end_asked_for() {
    let input = TraceInput {
        duplicates: Some(Duplicates::Spread),
        for_ns: Some(700_000_000),
        ..TraceInput::new("t")
    };
    let text = b"0,0,512,r,10.0\n1,8,4096,w,10.5\n0,16,512,r,10.5\n1,800,512,r,12.0\n";
    assert_eq!(starts(&rows(&input, text)), [0, 500, 600]);
}

#[test]
fn what_is_wrong_behind_the_end_asked_for_does_not_matter() {
    let text = [TEXT, b"0,0,512,r,x\n"].concat();
    let until = |for_ns| TraceInput {
        for_ns: Some(for_ns),
        ..TraceInput::new("t")
    };
    assert_eq!(starts(&rows(&until(1_500_000_000), &text)), [0, 500, 1000]);
    let mut whole = trace::read(Box::new(Cursor::new(text)), &until(9_000_000_000)).unwrap();
    assert!(whole.any(|row| row.is_err()));
}

#[test]
fn devices_are_chosen_and_keep_the_common_time() {
    let input = TraceInput {
        devices: Some(vec!["1".to_owned()]),
        ..TraceInput::new("t")
    };
    let mut trace = trace::read(Box::new(TEXT), &input).unwrap();
    let rows: Vec<Row> = trace.by_ref().map(Result::unwrap).collect();
    assert_eq!(starts(&rows), [500, 2000]);
    let report = trace.report();
    assert_eq!((report.left_out, report.devices), (2, vec!["1".to_owned()]));
}

#[test]
fn devices_are_those_of_the_chosen_part() {
    let devices_of = |from_ns, for_ns| {
        let input = TraceInput {
            from_ns,
            for_ns,
            ..TraceInput::new("t")
        };
        let mut trace = trace::read(Box::new(TEXT), &input).unwrap();
        assert!(trace.by_ref().all(|row| row.is_ok()));
        assert_eq!(trace.devices(), ["0", "1"]);
        trace.report().devices
    };
    assert_eq!(devices_of(0, None), ["0", "1"]);
    assert_eq!(devices_of(0, Some(400_000_000)), ["0"]);
    assert_eq!(devices_of(1_500_000_000, None), ["1"]);
}

#[test]
fn speed_moves_arrivals_and_not_response_times() {
    let text = b"100000000,hm,0,Read,0,512,3000\n140000000,hm,0,Read,0,512,5000\n";
    let input = TraceInput {
        speed_micro: 4_000_000,
        ..TraceInput::new("t")
    };
    let rows = rows(&input, text);
    assert_eq!(starts(&rows), [0, 1000]);
    assert_eq!(rows[1].completed.0 - rows[1].intended.0, 500_000);
}

#[test]
fn addresses_beyond_the_target_are_refused_or_mapped_and_counted() {
    let exact = TraceInput {
        target_bytes: Some(65_536),
        ..TraceInput::new("t")
    };
    let error = trace::read(Box::new(TEXT), &exact)
        .unwrap()
        .find_map(Result::err)
        .unwrap();
    assert_eq!(
        (error.code, error.line()),
        (TraceCode::TraceOption.name(), Some(4))
    );
    assert!(error.remedy.contains("--offsets wrap"), "{error}");
    let wrap = TraceInput {
        offsets: Offsets::Wrap,
        align_bytes: Some(4096),
        ..exact
    };
    let mut trace = trace::read(Box::new(TEXT), &wrap).unwrap();
    let rows: Vec<(u64, u32)> = trace
        .by_ref()
        .map(|row| row.map(|row| (row.offset, row.size)).unwrap())
        .collect();
    assert_eq!(
        rows,
        [(0, 4096), (4096, 4096), (8192, 4096), (16_384, 4096)]
    );
    let report = trace.report();
    assert_eq!((report.wrapped, report.aligned), (1, 3));
}

#[test]
fn scaling_reads_a_file_beforehand_and_refuses_a_pipe() {
    let file = tempfile::NamedTempFile::with_suffix(".spc").unwrap();
    std::fs::write(file.path(), TEXT).unwrap();
    let scale = TraceInput {
        offsets: Offsets::Scale,
        target_bytes: Some(51_264),
        ..TraceInput::new(&file.path().to_string_lossy())
    };
    let mut trace = trace::open(&scale).unwrap();
    let offsets: Vec<u64> = trace.by_ref().map(|row| row.unwrap().offset).collect();
    assert_eq!(trace.report().source_bytes, Some(801 * 512));
    assert!(trace.report().scaled);
    // An eighth: 4,096 becomes 512; the last would be at 51,200 and is moved back to fit.
    assert_eq!(offsets, [0, 512, 1024, 50_752]);
    assert!(trace::read(Box::new(TEXT), &scale).is_err());
}

#[test]
fn sizes_beyond_4_gib_are_clipped_and_counted() {
    let text = b"0,0,8589934592,r,1.0\n";
    let mut trace = trace::read(Box::new(&text[..]), &TraceInput::new("t")).unwrap();
    assert_eq!(trace.next().unwrap().unwrap().size, 0xffff_f000);
    assert_eq!(trace.report().clipped, 1);
}

#[test]
fn options_are_read_from_json_and_unknown_ones_refused() {
    let input: TraceInput = serde_json::from_str(
        r#"{"path":"a","format":"fio-iolog","duplicates":"spread","offsets":"wrap","from_ns":5,"v2_wait":"ms"}"#,
    )
    .unwrap();
    assert_eq!((input.from_ns, input.speed_micro), (5, 1_000_000));
    assert!(serde_json::from_str::<TraceInput>(r#"{"path":"a","ofsets":"wrap"}"#).is_err());
    let two: TraceInput = serde_json::from_str(r#"{"path":["a","b"]}"#).unwrap();
    assert_eq!(two.path.list().len(), 2);
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

#[test]
fn compressed_data_that_is_cut_or_damaged_is_an_error() {
    for whole in [gz(TEXT), zstd(TEXT)] {
        for cut in [whole.len() - 1, whole.len() / 2] {
            let stream = Box::new(Cursor::new(whole[..cut].to_vec()));
            let result: Result<Vec<Row>, _> =
                trace::read(stream, &TraceInput::new("t")).and_then(Iterator::collect);
            let error = result.unwrap_err();
            assert_eq!(
                (error.code, error.status),
                (TraceCode::TraceRead.name(), 1),
                "{error}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn compression_changes_nothing(
        lines in proptest::collection::vec((0_u64..1 << 40, 0_u64..1 << 20, 0_u64..999), 1..200),
        cut in 0.0_f64..1.0,
    ) {
        let mut text = String::new();
        for (block, size, gap) in &lines {
            text += &format!("0,{block},{size},r,1.{gap:03}\n");
        }
        let bytes = text.as_bytes();
        let input = TraceInput::new("t");
        let plain = rows(&input, bytes);
        prop_assert_eq!(plain.len(), lines.len());
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let (first, second) = bytes.split_at((bytes.len() as f64 * cut) as usize);
        let skippable = [0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9];
        prop_assert_eq!(&rows(&input, &gz(bytes)), &plain);
        prop_assert_eq!(&rows(&input, &[gz(first), gz(second)].concat()), &plain);
        prop_assert_eq!(&rows(&input, &zstd(bytes)), &plain);
        let frames = [zstd(first), skippable.to_vec(), zstd(second)].concat();
        prop_assert_eq!(&rows(&input, &frames), &plain);
    }
}
