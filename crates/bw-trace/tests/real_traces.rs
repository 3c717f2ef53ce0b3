//! Three production traces, compared with the facts of their README.
//!
//! Skipped with a printed line if their folder is absent (a user's clone); `BW_TRACES` names another folder.

#![allow(clippy::unwrap_used)]

use bw_model::Kind;
use bw_trace::input::TraceInput;
use bw_trace::trace;
use std::io::Write as _;
use std::path::PathBuf;

struct Facts {
    operations: u64,
    reads: u64,
    seconds: u64,
    most_in_a_second: u64,
}

fn check(name: &str, facts: &Facts) {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces");
    let folder = std::env::var_os("BW_TRACES").map_or(PathBuf::from(beside), PathBuf::from);
    let path = folder.join(name);
    if !path.exists() {
        writeln!(std::io::stderr(), "skipped: {} is absent", path.display()).unwrap();
        return;
    }
    let mut trace = trace::open(&TraceInput::new(&path.to_string_lossy())).unwrap();
    let (mut reads, mut last) = (0, 0);
    let mut counts = vec![0_u64; 10_000];
    for row in trace.by_ref() {
        let row = row.unwrap();
        reads += u64::from(row.kind == Kind::Read);
        last = row.intended.0;
        counts[usize::try_from(last / 1_000_000_000).unwrap()] += 1;
    }
    let report = trace.report();
    assert_eq!((report.operations, reads), (facts.operations, facts.reads));
    assert_eq!(report.skipped_lines + report.other_events, 0);
    let rounded = (last + 500_000_000) / 1_000_000_000;
    assert_eq!(rounded, facts.seconds);
    assert_eq!(counts.into_iter().max(), Some(facts.most_in_a_second));
}

#[test]
fn linux_webserver_2() {
    let facts = Facts {
        operations: 269_007,
        reads: 149_018,
        seconds: 3601,
        most_in_a_second: 1393,
    };
    check("linux-webserver-2.load.gz", &facts);
}

#[test]
fn windows_mssql() {
    let facts = Facts {
        operations: 42_976,
        reads: 2528,
        seconds: 3062,
        most_in_a_second: 3112,
    };
    check("windows-mssql.load.gz", &facts);
}

#[test]
fn cloudphysics() {
    let facts = Facts {
        operations: 113_872,
        reads: 46_974,
        seconds: 7200,
        most_in_a_second: 2204,
    };
    check("cloudphysics.vscsi", &facts);
}
