//! After warming up, the worker's loop allocates nothing: allocations are counted, in virtual time.

#![allow(clippy::unwrap_used)]

use bw_load::clock::VirtualClock;
use bw_load::null::{Null, NullSpec};
use bw_load::target::{Reaped, Target};
use bw_load::worker::{Stop, WorkerFilament, WorkerPlan};
use bw_model::{Nanos, Operation};
use bw_schedule::file_counts::RunFiles;
use bw_schedule::file_set::FileSet;
use bw_schedule::workload::build::Extent;
use bw_schedule::workload::{Placement, WorkloadSpec};
use counting::allocations;
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use support::{Every, entry, finish, plan};

#[path = "../../bw-sys/tests/counting/mod.rs"]
mod counting;
mod support;

/// A null target that reads the count when a given number of operations have been submitted.
struct Looking {
    target: Null<VirtualClock>,
    submitted: u64,
    looks: Vec<(u64, u64)>,
}

impl Target for Looking {
    fn batch(&self) -> usize {
        self.target.batch()
    }
    fn capacity(&self) -> u32 {
        self.target.capacity()
    }
    fn submit(&mut self, slot: u32, operation: &Operation) {
        self.submitted += 1;
        if self.submitted.is_multiple_of(1000) {
            self.looks.push((self.submitted, allocations()));
        }
        self.target.submit(slot, operation);
    }
    fn flush(&mut self) -> io::Result<()> {
        self.target.flush()
    }
    fn reap(&mut self, ends: &mut Vec<Reaped>) -> io::Result<()> {
        self.target.reap(ends)
    }
    fn wait(&mut self, at_most: Nanos) -> io::Result<()> {
        self.target.wait(at_most)
    }
}

/// Returns, at each thousandth operation of these filaments, the number of operations and of allocations so far.
fn looks(depth: u32, filaments: Vec<WorkerFilament>) -> Vec<(u64, u64)> {
    let clock = VirtualClock::default();
    // Long intervals, because no reporter returns empty ones.
    let plan = WorkerPlan {
        depth,
        interval: Nanos::SECOND,
        ..plan(900)
    };
    let spec = NullSpec {
        service_ns: Nanos(1_000_000),
        stalls: vec![],
    };
    let target = Looking {
        target: Null::new(spec, clock.clone(), depth),
        submitted: 0,
        looks: Vec::with_capacity(100),
    };
    let (finished, _rows) = finish(plan, target, clock, filaments, Stop::default());
    finished.target.looks
}

#[test]
fn the_loop_allocates_nothing_once_it_is_warm() {
    let looks = looks(64, entry(vec![Every::second(50_000), Every::second(7_000)]));
    let (first, last) = (looks[0], looks[looks.len() - 1]);
    assert!(first.1 > 0, "the allocator counts");
    assert_eq!((first.0, last.0), (1000, 51_000));
    assert_eq!(last.1 - first.1, 0, "allocations in 50,000 operations");
}

#[test]
fn chains_on_files_allocate_nothing_once_they_are_warm() {
    let constant = |value: u64| json!({"type": "constant", "value": value});
    let chain = |name: &str, steps: Value| json!({"name": name, "weight": 1, "steps": steps});
    let chains = json!([
        chain(
            "read",
            json!([{"kind": "open"}, {"kind": "read", "object": "same"}, {"kind": "close", "object": "same"}])
        ),
        chain(
            "new",
            json!([{"kind": "create"}, {"kind": "append", "size": constant(20_000), "object": "same"}])
        ),
        chain("old", json!([{"kind": "remove"}])),
        chain("list", json!([{"kind": "readdir"}, {"kind": "fsstat"}])),
    ]);
    let mut users_chains = chains.clone();
    for chain in users_chains.as_array_mut().unwrap() {
        chain["name"] = json!(format!("{} by a user", chain["name"]));
    }
    let workload: WorkloadSpec = serde_json::from_value(json!({
        "seed": 1,
        "file_set": {"seed": 1, "max_depth": 2, "directories": constant(5), "files": constant(1000),
            "file_size": constant(30_000), "present_micro": 500_000},
        "filaments": [
            {"type": "files", "arrival": {"type": "constant"}, "rate": {"micro_per_s": 10_000_000_000_u64},
             "chains": chains},
            {"type": "files", "users": 20, "chains": users_chains},
        ],
    }))
    .unwrap();
    let set = FileSet::new(workload.file_set.as_ref().unwrap()).unwrap();
    let files = RunFiles::new(&workload, Arc::new(set)).unwrap();
    let extent = Extent {
        files: Some(&files),
        ..Extent::from(0)
    };
    let built = workload
        .build(Placement::ALONE, extent, &mut |_| unreachable!())
        .unwrap();
    let filaments = built.filaments.into_iter();
    let filaments = filaments.map(|(id, filament)| WorkerFilament { id, filament });
    let looks = looks(4096, filaments.collect());
    let warm = looks
        .iter()
        .find(|(submitted, _)| *submitted >= 15_000)
        .unwrap();
    let last = looks.last().unwrap();
    assert!(last.0 >= 40_000, "{last:?}");
    assert_eq!(
        last.1 - warm.1,
        0,
        "allocations from {} to {} operations",
        warm.0,
        last.0
    );
    assert_eq!(files.report().unavailable, 0);
}
