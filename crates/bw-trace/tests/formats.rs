//! Every format: a small file made by the documented layout, and its expected rows.

#![allow(clippy::unwrap_used)]

use bw_model::{Nanos, Row};
use bw_trace::input::{ArrivalEvent, Duplicates, Format, Paths, TraceInput, TraceReport, V2Wait};
use bw_trace::trace;

fn data(name: &str) -> TraceInput {
    TraceInput::new(&format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR")))
}

/// Returns a row as text: arrival, kind, offset, size, device, then start, end,
/// result and stream where they are known.
fn shown(row: &Row) -> String {
    let mut text = format!(
        "{} {} {} {} d{}",
        row.intended.0,
        row.kind.name(),
        row.offset,
        row.size,
        row.device
    );
    if row.issued != Nanos::NEVER {
        text += &format!(" issued {}", row.issued.0);
    }
    if row.completed != Nanos::NEVER {
        text += &format!(" completed {} = {}", row.completed.0, row.result);
    }
    if row.stream != 0 {
        text += &format!(" by {}", row.stream);
    }
    text
}

fn rows(input: &TraceInput) -> (Vec<String>, TraceReport) {
    let mut trace = trace::open(input).unwrap();
    let rows = trace.by_ref().map(|row| shown(&row.unwrap())).collect();
    (rows, trace.report())
}

fn check(input: &TraceInput, format: Format, expected: &[&str]) -> TraceReport {
    let (rows, report) = rows(input);
    assert_eq!(rows, expected);
    assert_eq!(report.format, format);
    assert_eq!(report.operations, expected.len() as u64);
    let input = TraceInput {
        format: Some(format),
        ..input.clone()
    };
    assert_eq!(self::rows(&input).0, expected, "with the format given");
    report
}

#[test]
fn blkreplay_load() {
    let expected = [
        "0 read 246783623168 8192 d0",
        "23288 write 0 4096 d0",
        "2499999999 read 4096 512 d0 issued 2500000099 completed 2500250099 = 512",
    ];
    let report = check(&data("small.load"), Format::Load, &expected);
    assert_eq!(report.devices, ["0"]);
}

/// The file is the output of Debian's blkreplay 1.0 for five operations on a loop device.
#[test]
fn blkreplay_prints_what_it_did() {
    let expected = [
        "0 read 409600 4096 d0 issued 108238 completed 183341 = 4096",
        "1000000 write 819200 8192 d0 issued 1090831 completed 1137698 = 8192",
        "2500000 read 1228800 4096 d0 issued 2588622 completed 2643279 = 4096",
        "10000000 read 40960000 65536 d0 issued 10092435 completed 10193878 = 65536",
        "1250000000 write 409600 4096 d0 issued 1250084831 completed 1253894316 = 4096",
    ];
    let report = check(&data("replayed.load"), Format::Load, &expected);
    assert_eq!(report.skipped_lines, 0);
}

#[test]
fn fio_iolog_2_with_waits_as_the_manual_says() {
    let expected = [
        "0 read 4096 8192 d0",
        "100000 write 0 512 d0",
        "150000 flush 0 0 d0",
        "150000 discard 1048576 65536 d0",
    ];
    let report = check(&data("v2.iolog"), Format::FioIolog, &expected);
    assert_eq!(report.devices, ["/dev/sda"]);
    assert!(
        report.notes[0].contains("--v2-wait ms"),
        "{:?}",
        report.notes
    );
}

#[test]
fn fio_iolog_2_with_waits_as_the_code_writes_them() {
    let input = TraceInput {
        v2_wait: V2Wait::Ms,
        window_ns: Some(60_000_000_000),
        ..data("v2.iolog")
    };
    let expected = [
        "0 read 4096 8192 d0",
        "50000000 flush 0 0 d0",
        "50000000 discard 1048576 65536 d0",
        "100000000 write 0 512 d0",
    ];
    let report = check(&input, Format::FioIolog, &expected);
    assert_eq!((report.reordered, report.notes.len()), (2, 0));
}

#[test]
fn fio_iolog_3() {
    let expected = [
        "0 read 4096 8192 d0",
        "3000 write 0 512 d0",
        "10000 flush 0 0 d0",
    ];
    check(&data("v3.iolog"), Format::FioIolog, &expected);
}

#[test]
fn blkparse_text_by_queue() {
    let expected = [
        "0 write 114426880 4096 d0 issued 34071 completed 1002671 = -5 by 697",
        "1171 read 512000 4096 d0 issued 38171 completed 498171 = 4096 by 700",
        "1671 read 516096 4096 d0 issued 38171 completed 498171 = 4096 by 700",
        "1998171 flush 0 0 d0 completed 2098171 = 0 by 701",
        "3998171 discard 1048576 2097152 d1 by 702",
    ];
    let report = check(&data("small.blkparse"), Format::Blkparse, &expected);
    assert_eq!(report.devices, ["8,0", "8,16"]);
    assert_eq!(report.other_events, 4, "G, m and two lines of the summary");
    assert_eq!(report.unmatched_completions, 1);
}

#[test]
fn blkparse_text_by_issue() {
    let input = TraceInput {
        arrivals: Some(ArrivalEvent::Issue),
        ..data("small.blkparse")
    };
    let expected = [
        "0 write 114426880 4096 d0 issued 0 completed 968600 = -5 by 697",
        "4100 read 512000 8192 d0 issued 4100 completed 464100 = 8192 by 700",
    ];
    check(&input, Format::Blkparse, &expected);
}

#[test]
fn blktrace_of_both_byte_orders_and_several_cpus() {
    for name in ["le", "be"] {
        let expected = [
            "0 read 51200 4096 d0 issued 1000 completed 3000 = 4096 by 77",
            "500 write 102400 512 d0 issued 2000 completed 4000 = -5 by 78",
            "7000 flush 0 0 d0 by 77",
        ];
        let report = check(&data(name), Format::Blktrace, &expected);
        assert_eq!(report.devices, ["8,0"]);
        assert_eq!(report.other_events, 1, "the notice");
        assert_eq!(report.paths.len(), 2);
        let both = TraceInput {
            path: Paths::Several(report.paths),
            ..data(name)
        };
        check(&both, Format::Blktrace, &expected);
    }
}

#[test]
fn msr_cambridge() {
    let expected = [
        "0 read 2449018880 4096 d0 completed 100100 = 4096",
        "1000 write 0 512 d1 completed 3000 = 512",
    ];
    let report = check(&data("small.msr.csv"), Format::Msr, &expected);
    assert_eq!(report.devices, ["hm_0", "hm_1"]);
}

#[test]
fn systor_is_put_in_order_to_the_nanosecond() {
    let expected = [
        "0 read 0 4096 d0",
        "1 write 8192 4096 d0 completed 250002 = 4096",
        "500000000 read 4096 512 d1 completed 1000000000 = 512",
    ];
    let report = check(&data("small.systor.csv"), Format::Systor, &expected);
    assert_eq!(report.reordered, 1);
    assert_eq!(report.devices, ["5", "6"]);
}

#[test]
fn spc() {
    let expected = [
        "0 write 10721927168 8192 d0",
        "2335000 write 10721198080 8192 d0",
        "460026000 read 1759379456 15872 d1",
    ];
    let report = check(&data("small.spc"), Format::Spc, &expected);
    assert_eq!(report.notes.len(), 1, "the optional field is reported");
}

#[test]
fn cloudphysics_1_and_2() {
    let first = ["0 read 8192 4096 d0", "100000 write 0 8192 d0"];
    let report = check(&data("v1.vscsi"), Format::Vscsi, &first);
    assert_eq!(report.other_events, 1, "TEST UNIT READY");
    let second = [
        "0 read 8192 4096 d0 completed 250000 = 4096",
        "100000 write 0 8192 d0 completed 101000 = 8192",
        "200000 flush 0 0 d0 completed 209000 = 0",
    ];
    check(&data("v2.vscsi"), Format::Vscsi, &second);
}

#[test]
fn alibaba() {
    let expected = [
        "0 write 8792731648 16384 d0",
        "46000 read 59110326272 360448 d1",
    ];
    let report = check(&data("small.alibaba.csv"), Format::Alibaba, &expected);
    assert_eq!(report.devices, ["419", "725"]);
}

#[test]
fn tencent_asks_what_one_second_stamps_mean() {
    let error = trace::open(&data("small.tencent.csv")).err().unwrap();
    assert!(error.remedy.contains("--duplicates spread"), "{error}");
    let input = TraceInput {
        duplicates: Some(Duplicates::Spread),
        ..data("small.tencent.csv")
    };
    let expected = [
        "0 read 6610407424 65536 d0",
        "333333333 write 3208032256 4096 d1",
        "666666666 write 0 4096 d0",
        "1000000000 read 4096 4096 d0",
    ];
    let report = check(&input, Format::Tencent, &expected);
    assert_eq!(report.spread, 2);
}

#[test]
fn strace_with_the_positions_of_open_files() {
    // By hand: a thread shares the descriptors, a process the open files; a closed descriptor is another file's.
    let expected = [
        "0 read 0 100 d0 completed 20000 = 100",
        "1000000 read 100 50 d0 completed 1030000 = 50",
        "3000000 read 150 10 d0 completed 5000000 = 10",
        "4000000 write 4096 8 d0 completed 4010000 = 8",
        "8000000 write 1000 3 d0 completed 8010000 = 3",
        "9000000 read 512 1 d0 completed 9010000 = 1",
        "11000000 write 1003 1 d0 completed 11010000 = 1",
        "14000000 write 0 5 d1 completed 14010000 = 5",
        "15000000 write 5 5 d1 completed 15010000 = 5",
        "16000000 flush 0 0 d1 completed 17000000 = 0",
        "17000000 read 1004 1 d0 completed 17010000 = 1",
        "22000000 read 7 1 d2",
        "23000000 read 0 2 d3 completed 23010000 = 2",
    ];
    let report = check(&data("small.strace"), Format::Strace, &expected);
    assert_eq!(report.devices, ["/w/a) = b", "/w/log", "/w/gone", "/w/old"]);
    assert_eq!(report.notes.len(), 2, "{:?}", report.notes);
}

#[test]
fn mqsim_in_its_unit() {
    let expected = ["0 write 512000 8192 d0", "10000 read 0 4096 d1"];
    let report = check(&data("small.mqsim"), Format::Mqsim, &expected);
    assert!(
        report.notes[0].contains("nanoseconds"),
        "{:?}",
        report.notes
    );
    let input = TraceInput {
        stamp_unit_ns: Some(1000),
        ..data("small.mqsim")
    };
    let micro = ["0 write 512000 8192 d0", "10000000 read 0 4096 d1"];
    assert!(check(&input, Format::Mqsim, &micro).notes.is_empty());
}
