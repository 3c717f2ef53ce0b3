//! The tables of docs/engine-protocol.md agree with what the engine's types read.

// A test may unwrap: its panic is the report.
#![allow(clippy::unwrap_used)]

#[path = "support/field_tables.rs"]
mod field_tables;

use bw_load::clock_offset::{EchoRequest, ProbeRequest};
use bw_load::floor::FloorRequest;
use bw_load::http::request::{ExpectSpec, RequestSpec};
use bw_load::merge::MergeRequest;
use bw_load::request::{LoadRequest, NamedTarget};
use bw_protocol::values::ValueSpec;
use bw_schedule::arrival::ArrivalSpec;
use bw_schedule::distribution::DistributionSpec;
use bw_schedule::file_set::FileSetSpec;
use bw_schedule::location::LocationSpec;
use bw_schedule::rate::RateSpec;
use bw_schedule::workload::{ChainSpec, StepSpec};
use bw_trace::capture::CaptureRequest;
use bw_trace::compare::CompareRequest;
use bw_trace::convert::ConvertRequest;
use bw_trace::input::TraceInput;
use bw_trace::stat::StatRequest;
use field_tables::{check, examples, words};
use serde::de::DeserializeOwned;
use serde_json::{Value, from_value, json};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io::Write;
use std::process::{Command, Stdio};

const PAGE: &str = include_str!("../../../docs/engine-protocol.md");

fn read<T: DeserializeOwned + Debug>(document: Value) -> Result<String, String> {
    let read: Result<T, _> = from_value(document);
    read.map(|read| format!("{read:?}"))
        .map_err(|error| error.to_string())
}

fn constant() -> Value {
    json!({"type": "constant", "value": 1})
}

fn access() -> Value {
    json!({"kinds": [["read", 1]], "size": constant(), "location": {"type": "uniform"}, "align_bytes": 1})
}

fn load() -> Value {
    json!({"target": {"kind": "null"}, "workload": {"seed": 1, "filaments": []}})
}

fn read_load(document: Value) -> Result<String, String> {
    let read: LoadRequest = from_value(document).map_err(|error| error.to_string())?;
    // A list of CPUs, one for each worker, does not depend on the number of workers alone.
    read.check().map_err(|error| error.to_string())?;
    Ok(format!("{read:?}"))
}

/// Reads an object with a tag at this place of a load.
fn within(
    place: &'static str,
    tag: &'static str,
    word: &'static str,
) -> impl Fn(Value) -> Result<String, String> {
    move |mut fields: Value| {
        fields[tag] = json!(word);
        let mut document = load();
        match place {
            "filaments" => document["workload"]["filaments"] = json!([fields]),
            place => document[place] = fields,
        }
        read::<LoadRequest>(document)
    }
}

#[test]
fn the_tables_of_a_load_are_true() {
    check(PAGE, "load", &load(), &read_load);
    let target =
        |name: &str, word, example| check(PAGE, name, &example, &within("target", "kind", word));
    target("the null target", "null", json!({}));
    target("the file target", "file", json!({"path": "/x"}));
    target(
        "the tcp target",
        "tcp",
        json!({"host": "h", "port": 7, "connections": 1}),
    );
    target(
        "the udp target",
        "udp",
        json!({"host": "h", "port": 7, "connections": 1}),
    );
    target(
        "the http target",
        "http",
        json!({"url": "http://h/", "connections": 1}),
    );
    target(
        "the websocket target",
        "websocket",
        json!({"url": "ws://h/", "connections": 1}),
    );
    let events = |fields: Value| {
        let target = json!({"url": "http://h/", "connections": 1, "events": fields});
        within("target", "kind", "http")(target)
    };
    check(PAGE, "events", &json!({"format": "sse"}), &events);
    let request = json!({"label": "l", "path": "/"});
    check(PAGE, "a request", &request, &read::<RequestSpec>);
    check(PAGE, "expect", &json!({}), &read::<ExpectSpec>);
    target(
        "the redis target",
        "redis",
        json!({"host": "h", "port": 7, "connections": 1}),
    );
    target(
        "the postgres target",
        "postgres",
        json!({"host": "h", "user": "u", "connections": 1}),
    );
    let tls = |fields: Value| {
        let target = json!({"host": "h", "port": 7, "connections": 1, "tls": fields});
        within("target", "kind", "tcp")(target)
    };
    check(PAGE, "tls", &json!({}), &tls);
    target(
        "the nfs target",
        "nfs",
        json!({"host": "h", "export": "/x"}),
    );
    target("the dir target", "dir", json!({"path": "/x"}));
    target("the several target", "several", json!({"targets": []}));
    let named = json!({"name": "a", "filaments": [], "target": {"kind": "null"}});
    check(PAGE, "a named target", &named, &read::<NamedTarget>);
}

#[test]
fn the_tables_of_a_workload_are_true() {
    let workload = |fields| {
        let mut document = load();
        document["workload"] = fields;
        read::<LoadRequest>(document)
    };
    check(
        PAGE,
        "a workload",
        &json!({"seed": 1, "filaments": []}),
        &workload,
    );
    let filament =
        |name: &str, word, example| check(PAGE, name, &example, &within("filaments", "type", word));
    let (arrival, rate) = (json!({"type": "poisson"}), json!({"micro_per_s": 1}));
    let open = json!({"arrival": arrival, "rate": rate, "access": access()});
    filament("an open filament", "open", open.clone());
    let closed = json!({"users": 1, "think": constant(), "access": access()});
    filament("a closed filament", "closed", closed);
    let mut sessions = open;
    sessions["requests"] = constant();
    sessions["think"] = constant();
    filament("a partly-open filament", "partly-open", sessions);
    let follow = json!({"leader": "l", "every": 1, "delay": constant(), "access": access()});
    filament("a follow filament", "follow", follow);
    filament("a tpcb filament", "tpcb", json!({"scale": 1, "clients": 1}));
    filament("an spc1 filament", "spc1", json!({"bsus": 1}));
    filament("a process filament", "process", json!({"command": ["x"]}));
    let step = json!({"kind": "read"});
    let chain = json!({"name": "c", "weight": 1, "steps": [step]});
    filament("a files filament", "files", json!({"chains": [chain]}));
    check(PAGE, "a chain", &chain, &read::<ChainSpec>);
    check(PAGE, "a step", &step, &read::<StepSpec>);
    let set = json!({"seed": 1, "max_depth": 1, "directories": constant(), "files": constant(), "file_size": constant()});
    check(PAGE, "a file set", &set, &read::<FileSetSpec>);
    check(
        PAGE,
        "an access",
        &access(),
        &read::<bw_schedule::access::AccessSpec>,
    );
    check(
        PAGE,
        "a region",
        &json!({}),
        &read::<bw_schedule::access::RegionSpec>,
    );
}

/// Checks that every example can be read, and that there is one of each type.
fn check_examples<T: DeserializeOwned + Debug>(name: &str, tagged: bool) {
    let examples = examples(PAGE, name);
    for example in &examples {
        read::<T>(example.clone()).unwrap_or_else(|error| panic!("{name}: {example}: {error}"));
    }
    if tagged {
        let error = read::<T>(json!({"type": "no-such-type"})).unwrap_err();
        let types = examples
            .iter()
            .map(|example| example["type"].as_str().unwrap().to_owned());
        let known = words(&error, "expected")
            .into_iter()
            .collect::<BTreeSet<_>>();
        assert_eq!(types.collect::<BTreeSet<_>>(), known, "{name}");
    }
}

#[test]
fn the_examples_are_understood_and_none_is_missing() {
    check_examples::<ArrivalSpec>("Arrivals", true);
    check_examples::<DistributionSpec>("Distributions", true);
    check_examples::<LocationSpec>("Locations", true);
    check_examples::<RateSpec>("Rates", false);
    check_examples::<ValueSpec>("Values", true);
}

#[test]
fn the_tables_of_the_other_requests_are_true() {
    let trace = || json!({"path": "/x"});
    check(PAGE, "a trace input", &trace(), &read::<TraceInput>);
    let floor = json!({"micro_per_s": 1, "duration_ns": 1});
    check(PAGE, "floor", &floor, &read::<FloorRequest>);
    let merge = json!({"results": [], "interval_ns": 1});
    check(PAGE, "merge", &merge, &read::<MergeRequest>);
    let echo = json!({"token": 1});
    check(PAGE, "clock-echo", &echo, &read::<EchoRequest>);
    let clock = json!({"address": "127.0.0.1", "port": 7, "token": 1});
    check(PAGE, "clock-probe", &clock, &read::<ProbeRequest>);
    let output = json!({"path": "/x", "format": "bw"});
    let convert = json!({"input": trace(), "output": output});
    check(PAGE, "trace-convert", &convert, &read::<ConvertRequest>);
    check(
        PAGE,
        "trace-stat",
        &json!({"input": trace()}),
        &read::<StatRequest>,
    );
    let compare = json!({"a": trace(), "b": trace()});
    check(PAGE, "trace-compare", &compare, &read::<CompareRequest>);
    check(
        PAGE,
        "trace-capture",
        &json!({"output": "/x"}),
        &read::<CaptureRequest>,
    );
    check(PAGE, "probe", &json!({}), &probe);
}

/// The type of this request is the program's own.
fn probe(mut document: Value) -> Result<String, String> {
    document["type"] = json!("probe");
    let mut engine = Command::new(env!("CARGO_BIN_EXE_bw-engine"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let request = document.to_string();
    engine
        .stdin
        .take()
        .unwrap()
        .write_all(request.as_bytes())
        .unwrap();
    let output = engine.wait_with_output().unwrap();
    let mut answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    match answer["type"].as_str() {
        Some("error") => Err(answer["message"].as_str().unwrap().to_owned()),
        _ => Ok(answer["io_uring"].take().to_string()),
    }
}
