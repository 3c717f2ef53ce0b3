//! Sequences of operations in the worker: recorded when their last operation ends, also after the end of the run, and
//! unfinished otherwise. In virtual time.

#![allow(clippy::unwrap_used)]

use bw_load::null::NullSpec;
use bw_load::worker::WorkerFilament;
use bw_model::Nanos;
use bw_schedule::file_counts::RunFiles;
use bw_schedule::file_set::FileSet;
use bw_schedule::workload::build::Extent;
use bw_schedule::workload::{Placement, WorkloadSpec};
use serde_json::json;
use std::sync::Arc;
use support::{MS, plan, simulate, stalled};

mod support;

/// Chains of two operations, one each ms from 0 on.
fn filaments() -> Vec<WorkerFilament> {
    let constant = |value: u64| json!({"type": "constant", "value": value});
    let steps = json!([{"kind": "lookup"}, {"kind": "getattr", "object": "same"}]);
    let workload: WorkloadSpec = serde_json::from_value(json!({
        "seed": 1,
        "file_set": {"seed": 1, "max_depth": 1, "directories": constant(0), "files": constant(10),
            "file_size": constant(1)},
        "filaments": [{"type": "files", "arrival": {"type": "constant"}, "rate": {"micro_per_s": 1_000_000_000},
            "chains": [{"name": "c", "weight": 1, "steps": steps}]}],
    }))
    .unwrap();
    let set = FileSet::new(workload.file_set.as_ref().unwrap()).unwrap();
    let files = RunFiles::new(&workload, Arc::new(set)).unwrap();
    let extent = Extent {
        files: Some(&files),
        ..Extent::from(0)
    };
    let built = workload.build(Placement::ALONE, extent, &mut |_| unreachable!());
    let filaments = built.unwrap().filaments.into_iter();
    filaments
        .map(|(id, filament)| WorkerFilament { id, filament })
        .collect()
}

#[test]
fn a_chain_whose_last_operation_ends_in_the_drain_is_complete() {
    // Each operation takes 3 ms: the chains of 0 to 4 ms end in the run of 10.5 ms, and those of 5 to 7 ms, whose second
    // operation starts in it, in the drain. Those of 8, 9 and 10 ms have no second operation any more.
    let plan = bw_load::worker::WorkerPlan {
        end: Nanos(10 * MS + MS / 2),
        ..plan(0)
    };
    let service = NullSpec {
        service_ns: Nanos(3 * MS),
        stalls: vec![],
    };
    let done = simulate(plan, service, filaments());
    let recorder = done.record.recorder();
    let record = &recorder.sequences()[0];
    assert_eq!(
        (record.completed, record.errors, record.unfinished),
        (8, 0, 3)
    );
    assert_eq!(record.operations, 8 * 2 + 3);
    assert_eq!(done.counts.completed, 8 + 11);
    let within = |at: Option<u64>| at.unwrap().abs_diff(6 * MS) < MS / 10;
    assert!(within(record.response.max()) && within(record.response.min()));
}

#[test]
fn a_chain_that_a_stalled_target_never_answers_is_unfinished() {
    let plan = bw_load::worker::WorkerPlan {
        drain: Nanos(50 * MS),
        ..plan(20)
    };
    let done = simulate(plan, stalled(MS / 10, 10, 100_000), filaments());
    let recorder = done.record.recorder();
    let record = &recorder.sequences()[0];
    assert_eq!(
        (record.completed, record.errors, record.unfinished),
        (10, 0, 10)
    );
    assert_eq!((done.counts.completed, done.counts.unfinished), (20, 10));
}

#[test]
fn a_dropped_operation_ends_its_chain_as_failed() {
    let plan = bw_load::worker::WorkerPlan {
        depth: 1,
        full: bw_load::policy::Full::Drop,
        ..plan(20)
    };
    // One at a time, of 1.5 ms: chains that arrive while one is under way are dropped.
    let service = NullSpec {
        service_ns: Nanos(MS * 3 / 2),
        stalls: vec![],
    };
    let done = simulate(plan, service, filaments());
    let recorder = done.record.recorder();
    let record = &recorder.sequences()[0];
    assert!(record.errors >= 10 && record.completed > 0, "{record:?}");
    assert_eq!(record.completed + record.errors + record.unfinished, 20);
    assert_eq!(done.counts.dropped, record.errors);
}
