//! Prints what it costs to make one operation [ns], for each kind of filament, on one core:
//! `cargo run --release -p bw-schedule --example filament_cost`.

use bw_model::{Nanos, Operation};
use bw_schedule::filaments::{Completion, Emissions, Event};
use bw_schedule::file_counts::RunFiles;
use bw_schedule::file_set::FileSet;
use bw_schedule::replay::Placed;
use bw_schedule::workload::build::Extent;
use bw_schedule::workload::{NoTrace, Placement, WorkloadSpec};
use std::sync::Arc;
use std::time::Instant;

const OPERATIONS: u64 = 20_000_000;

fn main() {
    let access = r#""access":{"kinds":[["read",70],["write",30]],"size":{"type":"constant","value":4096},
        "location":{"type":"uniform"},"align_bytes":4096}"#;
    let rate = r#""rate":{"micro_per_s":1000000000000}"#;
    let cases = [
        (
            "open, constant",
            format!(r#"{{"type":"open","arrival":{{"type":"constant"}},{rate},{access}}}"#),
        ),
        (
            "open, Poisson",
            format!(r#"{{"type":"open","arrival":{{"type":"poisson"}},{rate},{access}}}"#),
        ),
        (
            "closed, a user",
            format!(
                r#"{{"type":"closed","users":1,"think":{{"type":"constant","value":0}},{access}}}"#
            ),
        ),
        (
            "SPC-1-like, a BSU",
            r#"{"type":"spc1","bsus":1}"#.to_owned(),
        ),
        (
            "TPC-B-like, a client",
            r#"{"type":"tpcb","scale":100,"clients":1}"#.to_owned(),
        ),
        (
            "files, a user",
            r#"{"type":"files","users":1,"chains":[
                {"name":"a","weight":3,"steps":[{"kind":"getattr"}]},
                {"name":"b","weight":1,"steps":[{"kind":"read"}]}]}"#
                .to_owned(),
        ),
    ];
    // 100,000 files, of which 10 % have almost all of the weight.
    let set = r#"{"seed":1,"max_depth":2,"directories":{"type":"constant","value":20},
        "files":{"type":"constant","value":5000},"file_size":{"type":"gamma","mean":16384,"shape_micro":1500000},
        "file_popularity":{"type":"weighted","values":[[1000,10],[1,90]]}}"#;
    for (name, filament) in cases {
        let text = format!(r#"{{"seed":1,"file_set":{set},"filaments":[{filament}]}}"#);
        match filaments(&text) {
            Ok(filaments) => println!("{name}: {:.1} ns per operation", cost(filaments)),
            Err(error) => println!("{name}: {error}"),
        }
    }
}

fn filaments(text: &str) -> Result<Vec<Placed>, Box<dyn std::error::Error>> {
    let workload: WorkloadSpec<NoTrace> = serde_json::from_str(text)?;
    let mut sources = |none: &NoTrace| match *none {};
    let set = workload.file_set.as_ref().map(FileSet::new).transpose()?;
    let set = set.ok_or("no file set")?;
    let files = RunFiles::new(&workload, Arc::new(set))?;
    let extent = Extent {
        files: Some(&files),
        ..Extent::from(1 << 40)
    };
    let built = workload.build(Placement::ALONE, extent, &mut sources)?;
    Ok(built.filaments)
}

/// Returns the mean time to make an operation [ns]: its filament is woken by its timers and completions in turn.
fn cost(mut filaments: Vec<Placed>) -> f64 {
    let (mut emit, mut made, mut event) = (Emissions::default(), 0_u64, Event::Start);
    let begun = Instant::now();
    while made < OPERATIONS {
        filaments[0].1.wake(event, &mut emit);
        made += emit.operations.len() as u64;
        let last = emit.operations.last().copied();
        event = next(last, emit.timers.pop());
        emit.operations.clear();
        emit.sequences.clear();
    }
    begun.elapsed().as_secs_f64() * 1e9 / made as f64
}

fn next(last: Option<Operation>, timer: Option<(Nanos, u32)>) -> Event {
    match (last, timer) {
        (Some(operation), None) => Event::Completed(Completion {
            at: operation.at + Nanos(1_000),
            intended: operation.at,
            kind: operation.kind,
            tag: operation.tag,
            result: 4096,
        }),
        (_, timer) => {
            let (at, tag) = timer.unwrap_or((Nanos::ZERO, 0));
            Event::Timer { at, tag }
        }
    }
}
