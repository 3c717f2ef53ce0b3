//! Workloads in the protocol's form: what is read, and what is refused with which message.

#![allow(
    clippy::unwrap_used,
    reason = "a test may unwrap, in its own functions too"
)]

use bw_schedule::workload::{Placement, WorkloadSpec};
use workloads::*;

mod workloads;

const ALL: &str = r#"{"seed":7,"filaments":[
 {"type":"open","arrival":{"type":"poisson"},"rate":{"micro_per_s":1000000},"access":{"kinds":[["read",70],["write",30]],
  "size":{"type":"constant","value":4096},"location":{"type":"zipf","exponent_micro":1200000,"objects":1000},
  "region":{"offset_bytes":0,"length_bytes":null},"align_bytes":4096}},
 {"type":"closed","name":"users","users":64,"think":{"type":"exponential","mean":1000},"access":{"kinds":[["flush",1]],
  "size":{"type":"constant","value":1},"location":{"type":"uniform"},"align_bytes":512}},
 {"type":"partly-open","arrival":{"type":"constant"},"rate":{"micro_per_s":1000000},"requests":{"type":"constant","value":3},
  "think":{"type":"constant","value":0},"access":{"kinds":[["read",1]],"size":{"type":"constant","value":512},
  "location":{"type":"sequential"},"align_bytes":512}},
 {"type":"follow","leader":"users","every":3,"delay":{"type":"constant","value":0},"access":{"kinds":[["read",1]],
  "size":{"type":"constant","value":512},"location":{"type":"uniform"},"align_bytes":512}},
 {"type":"tpcb","scale":10,"clients":8,"rate":null,"region":{"offset_bytes":0,"length_bytes":null}},
 {"type":"tpcb","scale":10,"clients":8,"rate":{"micro_per_s":5000000}},
 {"type":"spc1","bsus":10,"region":{}},
 {"type":"trace","name":"t","delay":{"type":"constant","value":3},"quantize_ns":4,"rows":5,"gap_ns":10}]}"#;

#[test]
fn everything_in_the_protocol_is_read_and_has_its_ids() {
    let workload: Workload = serde_json::from_str(ALL).unwrap();
    let ids = workload.ids().unwrap();
    assert_eq!(
        ids,
        [0..1, 1..65, 65..66, 66..67, 67..75, 75..76, 76..86, 86..87]
    );
    let built = build(&workload, Placement::ALONE).unwrap();
    let built: Vec<u32> = built.iter().map(|(id, _)| *id).collect();
    assert_eq!(built, (0..87).collect::<Vec<_>>());
    let again = serde_json::to_string(&workload).unwrap();
    assert_eq!(serde_json::from_str::<Workload>(&again).unwrap(), workload);
}

#[test]
fn an_unknown_field_is_refused_everywhere() {
    for (known, unknown) in [
        (r#""seed":7"#, r#""seed":7,"more":1"#),
        (r#""users":64"#, r#""users":64,"more":1"#),
        (r#""rows":5"#, r#""rows":5,"more":1"#),
        (r#""bsus":10"#, r#""bsus":10,"more":1"#),
    ] {
        let text = ALL.replace(known, unknown);
        let error = serde_json::from_str::<Workload>(&text)
            .unwrap_err()
            .to_string();
        assert!(error.contains("unknown field `more`"), "{error}");
    }
}

#[test]
fn a_program_without_a_reader_refuses_a_trace() {
    let error = serde_json::from_str::<WorkloadSpec>(ALL).unwrap_err();
    assert!(
        error.to_string().contains("no traces can be read here"),
        "{error}"
    );
}

/// Returns the errors of these filaments.
fn refused(filaments: &str) -> String {
    match build(&workload(filaments), Placement::ALONE) {
        Ok(_) => panic!("not refused: {filaments}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_mistake_is_reported_with_its_filament_and_what_to_do() {
    let cases = [
        (String::new(), "workload: no filament: give at least one"),
        (
            closed("u", 0, 1),
            "filaments[0] (u): users is 0: give at least 1",
        ),
        (
            format!("{},{}", open("a", 1), follow("f", "b", 1, 0)),
            r#"filaments[1] (f): leader "b" is not the name of a filament: name one"#,
        ),
        (
            format!("{},{}", open("a", 1), follow("f", "a", 0, 0)),
            "filaments[1] (f): every is 0: give at least 1",
        ),
        (
            format!("{},{}", open("a", 1), open("a", 2)),
            "filaments[1] (a): filaments[0] has the same name: names must differ",
        ),
        (
            follow("f", "f", 1, 0),
            "filaments[0] (f): it waits for itself, through its leaders: nothing would ever start",
        ),
        (
            r#"{"type":"spc1","bsus":1,"region":{"length_bytes":40960}}"#.to_owned(),
            "filaments[0]: spc1: the region has 40960 bytes: make it at least 4194304",
        ),
        (
            r#"{"type":"tpcb","scale":10000,"clients":1}"#.to_owned(),
            "filaments[0]: tpcb: a scale of 10000 needs a region of at least 102411280384 bytes, and it has \
             68719476736: lower the scale or make the region larger",
        ),
        (
            r#"{"type":"tpcb","scale":0,"clients":1}"#.to_owned(),
            "filaments[0]: tpcb: scale is 0: give 1 to 4294967296",
        ),
        (
            format!("{},{}", closed("a", 99_999_999, 1), closed("b", 2, 1)),
            "workload: more than 100000000 filaments: use fewer users",
        ),
    ];
    for (filaments, expected) in cases {
        assert_eq!(refused(&filaments), expected);
    }
}

#[test]
fn a_circle_of_followers_is_refused_and_all_mistakes_are_reported_at_once() {
    let circle = format!("{},{}", follow("f", "g", 1, 0), follow("g", "f", 1, 0));
    assert_eq!(refused(&circle).lines().count(), 2);
    let two = format!("{},{}", closed("u", 0, 1), closed("v", 0, 1));
    assert_eq!(refused(&two).lines().count(), 2);
}

#[test]
fn a_trace_that_cannot_be_opened_is_its_filament_s_problem() {
    let rows = workload(r#"{"type":"trace","rows":1,"gap_ns":1}"#);
    let mut sources = |_: &MadeUp| Err("day.load: no such file".to_owned());
    let built = rows.build(Placement::ALONE, TARGET_BYTES, &mut sources);
    let Err(error) = built else {
        panic!("not refused")
    };
    assert_eq!(error.to_string(), "filaments[0]: day.load: no such file");
}
