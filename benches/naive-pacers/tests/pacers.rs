//! Runs of the naive pacers.

#![allow(clippy::unwrap_used)]

use bw_load::record::OperationCounts;
use bw_load::request::LoadRequest;
use bw_load::run::run;
use bw_model::EngineError;
use serde_json::{Value, json};

fn access(kind: &str) -> Value {
    json!({"kinds": [[kind, 1]], "size": {"type": "constant", "value": 4096},
        "location": {"type": "sequential"}, "align_bytes": 4096})
}

/// Runs 500 operations a second for 200 ms, or what `more` says.
fn load(pacer: &str, more: Value) -> Result<OperationCounts, EngineError> {
    naive_pacers::install();
    let open = json!({"type": "open", "arrival": {"type": "constant"},
        "rate": {"micro_per_s": 500_000_000}, "access": access("write")});
    let mut request = json!({"target": {"kind": "null"}, "lock_memory": false, "depth": 4,
        "workload": {"seed": 1, "filaments": [open]}, "duration_ns": 200_000_000, "pacer": pacer});
    for (name, value) in more.as_object().unwrap() {
        request[name] = value.clone();
    }
    let request: LoadRequest = serde_json::from_value(request).unwrap();
    run(&request, &mut ()).map(|result| result.counts)
}

#[test]
fn they_issue_everything_and_nothing_early() {
    for pacer in ["select", "sleep", "ded-clock"] {
        let counts = load(pacer, json!({})).unwrap();
        let counts = (counts.intended, counts.completed, counts.early);
        assert_eq!(counts, (100, 100, 0), "{pacer}");
    }
}

#[test]
fn they_write_to_a_file_what_a_run_asks_for() {
    let path = std::env::temp_dir().join(format!("bw-naive-{}", std::process::id()));
    let file = json!({"kind": "file", "path": path, "size_bytes": 1 << 20, "direct": false});
    let result = load("sleep", json!({"target": file}));
    let held = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let counts = result.unwrap();
    assert_eq!((counts.completed, counts.errors), (100, 0));
    assert_eq!(held[..4096], held[99 * 4096..100 * 4096]);
}

#[test]
fn a_closed_loop_is_refused() {
    let user = json!({"type": "closed", "users": 1, "think": {"type": "constant", "value": 0},
        "access": access("read")});
    let workload = json!({"seed": 1, "filaments": [user]});
    let error = load("sleep", json!({"workload": workload})).err().unwrap();
    assert_eq!((error.status, error.code), (2, "pacer-closed"));
}
