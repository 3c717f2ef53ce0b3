//! Prints what recording one operation costs on this machine. `cargo run --release -p bw-record
//! --example record_cost`. Nothing is asserted: a figure of a shared machine is a figure of that minute.

use bw_model::{Kind, Nanos, Operation};
use bw_record::interval::Interval;
use bw_record::recorder::{OperationOutcome, Recorder};
use std::hint::black_box;
use std::time::Instant;

const OPERATIONS: u64 = 10_000_000;

fn main() {
    let outcomes: Vec<OperationOutcome> = (0..4096).map(outcome).collect();
    for round in 1..=5 {
        let record = cost(&outcomes, &mut Recorder::new(), |recorder, outcome| {
            recorder.record(outcome);
        });
        let interval = cost(&outcomes, &mut Interval::new(0), |interval, outcome| {
            interval.issue(outcome.issue_error());
            interval.complete(outcome.response(), outcome.result < 0);
        });
        println!("round {round}: recorder {record:.1} ns, interval {interval:.1} ns per operation");
    }
}

/// Returns the mean time of one call [ns].
fn cost<T>(
    outcomes: &[OperationOutcome],
    into: &mut T,
    record: impl Fn(&mut T, &OperationOutcome),
) -> f64 {
    let start = Instant::now();
    for outcome in outcomes.iter().cycle().take(OPERATIONS as usize) {
        record(into, black_box(outcome));
    }
    black_box(into);
    start.elapsed().as_nanos() as f64 / OPERATIONS as f64
}

/// Returns an operation whose times are spread as a fast device's are: 10 to 100 us, tails to 1 ms.
fn outcome(index: u64) -> OperationOutcome {
    let scattered = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let at = Nanos(index * 10_000);
    let issued = at + Nanos(100 + scattered % 900);
    let service = 10_000
        + scattered % 90_000
        + if index.is_multiple_of(100) {
            900_000
        } else {
            0
        };
    let kind = if index.is_multiple_of(3) {
        Kind::Write
    } else {
        Kind::Read
    };
    let operation = Operation {
        at,
        ..Operation::new(kind, 0, 4096)
    };
    OperationOutcome {
        operation,
        issued,
        completed: issued + Nanos(service),
        arrived: issued + Nanos(service),
        result: 4096,
        held_since: None,
    }
}
