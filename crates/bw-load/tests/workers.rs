//! Splitting a workload over workers changes nothing; messages cross workers; a real second has exact counts.

#![allow(clippy::unwrap_used)]

use bw_load::null::NullSpec;
use bw_load::request::LoadRequest;
use bw_load::run::{Progress, RunListener, run};
use bw_load::worker::WorkerFilament;
use bw_model::{Nanos, Row};
use bw_schedule::workload::{NoTrace, Placement, WorkloadSpec};
use serde_json::{Value, json};
use support::{plan, simulate};

mod support;

fn access() -> Value {
    json!({"kinds": [["read", 70], ["write", 30]], "size": {"type": "uniform", "low": 512, "high": 8192},
        "location": {"type": "uniform"}, "align_bytes": 512})
}

fn filaments() -> Value {
    let poisson = json!({"type": "poisson"});
    let think = json!({"type": "exponential", "mean": 3_000_000});
    json!([
        {"type": "open", "name": "open", "arrival": poisson, "rate": {"micro_per_s": 3_000_000_000_u64}, "access": access()},
        {"type": "closed", "name": "users", "users": 5, "think": think, "access": access()},
        {"type": "partly-open", "arrival": poisson, "rate": {"micro_per_s": 50_000_000},
         "requests": {"type": "constant", "value": 4}, "think": think, "access": access()},
        {"type": "spc1", "bsus": 2},
    ])
}

type Figures = (u64, u64, u32, u32);

/// Returns what the workers of a split issue, in a common order.
fn schedule(workers: u32) -> Vec<Figures> {
    let workload: WorkloadSpec<NoTrace> =
        serde_json::from_value(json!({"seed": 7, "filaments": filaments()})).unwrap();
    let spec = NullSpec {
        service_ns: Nanos(50_000),
        stalls: vec![],
    };
    let mut all: Vec<Figures> = (0..workers)
        .flat_map(|worker| {
            let placement = Placement { worker, workers };
            let built = workload
                .build(placement, 1 << 40, &mut |_| unreachable!())
                .unwrap();
            let entry = |(id, filament)| WorkerFilament { id, filament };
            let filaments = built.filaments.into_iter().map(entry).collect();
            simulate(plan(1500), spec.clone(), filaments).rows
        })
        .map(|row: Row| (row.intended.0, row.offset, row.size, row.stream))
        .collect();
    all.sort_unstable();
    all
}

#[test]
fn any_number_of_workers_issues_the_same_operations() {
    let alone = schedule(1);
    assert!(alone.len() > 5000, "{}", alone.len());
    for workers in [2, 3, 5] {
        assert!(schedule(workers) == alone, "{workers} workers");
    }
}

fn request(more: Value) -> LoadRequest {
    let mut request = json!({"target": {"kind": "null"}, "lock_memory": false});
    for (name, value) in more.as_object().unwrap() {
        request[name] = value.clone();
    }
    serde_json::from_value(request).unwrap()
}

fn constant(per_s: u64) -> Value {
    json!({"type": "open", "name": "leader", "arrival": {"type": "constant"},
        "rate": {"micro_per_s": per_s * 1_000_000}, "access": access()})
}

/// Counts the reports of progress.
struct Described<'a>(&'a mut u32);

impl RunListener for Described<'_> {
    fn progress(&mut self, _: &Progress) {
        *self.0 += 1;
    }
}

#[test]
fn a_real_second_has_exact_counts() {
    let workload = json!({"seed": 1, "filaments": [constant(1000)]});
    let request = request(
        json!({"workload": workload, "duration_ns": 1_000_000_000, "workers": 2, "interval_ns": 100_000_000}),
    );
    let mut described = 0;
    let result = run(&request, &mut Described(&mut described)).unwrap();
    let counts = result.counts;
    assert_eq!(
        (counts.intended, counts.issued, counts.completed),
        (1000, 1000, 1000)
    );
    assert_eq!(
        (
            counts.early,
            counts.dropped,
            counts.skipped,
            counts.unfinished
        ),
        (0, 0, 0, 0)
    );
    assert_eq!(
        result.intervals.iter().map(|one| one.intended).sum::<u64>(),
        1000
    );
    assert_eq!(result.intended_rate_per_s, Some(1000.0));
    assert!(described >= 9, "{described} intervals reported");
}

#[test]
fn a_real_stall_of_a_second_shows_in_full_whatever_the_machine_does() {
    let workload = json!({"seed": 1, "filaments": [constant(1000)]});
    let stalls = json!([{"at_ns": 200_000_000, "for_ns": 1_000_000_000}]);
    let target = json!({"kind": "null", "stalls": stalls});
    let request = request(
        json!({"workload": workload, "target": target, "duration_ns": 1_400_000_000, "depth": 2000}),
    );
    let response = run(&request, &mut ()).unwrap().kinds["all"]
        .response_ns
        .clone();
    // No operation intended for 200, 201, ... 1199 ms ends before 1200 ms: lower bounds, exact to the histogram's
    // thousandth.
    assert_eq!(response.count, 1400);
    assert!(response.max >= Some(1_000_000_000), "{response:?}");
    assert!(response.p50 >= Some(299_000_000), "{response:?}");
}

#[test]
fn the_warm_up_is_not_in_the_counts_and_is_in_the_intervals() {
    let workload = json!({"seed": 1, "filaments": [constant(1000)]});
    let request = request(
        json!({"workload": workload, "duration_ns": 200_000_000, "warm_up_ns": 300_000_000,
        "interval_ns": 100_000_000}),
    );
    let result = run(&request, &mut ()).unwrap();
    assert_eq!(
        (result.counts.intended, result.counts.completed),
        (200, 200)
    );
    assert_eq!(result.kinds["all"].operations, 200);
    assert_eq!(
        result.intervals.iter().map(|one| one.intended).sum::<u64>(),
        500
    );
}

#[test]
fn letters_reach_a_filament_on_another_worker_and_the_run_ends_when_nothing_is_left() {
    let mut leader = constant(2000);
    leader["count"] = json!(100);
    let follower = json!({"type": "follow", "leader": "leader", "every": 10,
        "delay": {"type": "constant", "value": 1_000_000}, "access": access()});
    let workload = json!({"seed": 1, "filaments": [leader, follower]});
    let request = request(json!({"workload": workload, "workers": 2}));
    let result = run(&request, &mut ()).unwrap();
    assert_eq!(
        (result.counts.intended, result.counts.completed),
        (110, 110)
    );
}
