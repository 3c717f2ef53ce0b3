//! A target that stalls for a second: an open loop shows the stall in full, a closed loop hides it.

#![allow(
    clippy::unwrap_used,
    reason = "a test may unwrap, in its own functions too"
)]

use bw_model::{Nanos, Operation};
use bw_schedule::replay::drive;
use bw_schedule::workload::Placement;
use workloads::{MS, build, closed, open, workload};

mod workloads;

const SERVICE: u64 = 100_000;
const STALL_FROM: u64 = 1_000 * MS;
const STALL_TO: u64 = 2_000 * MS;

/// A server with a queue; between the two times it starts nothing.
#[derive(Default)]
struct Server {
    free: u64,
    responses: Vec<u64>,
}

impl Server {
    fn serve(&mut self, operation: &Operation) -> Nanos {
        let mut begin = self.free.max(operation.at.0);
        if (STALL_FROM..STALL_TO).contains(&begin) {
            begin = STALL_TO;
        }
        self.free = begin + SERVICE;
        let response = self.free - operation.at.0;
        self.responses.push(response);
        Nanos(response)
    }
}

fn responses(filament: &str) -> Vec<u64> {
    let mut server = Server::default();
    let filaments = build(&workload(filament), Placement::ALONE).unwrap();
    let issued = drive(filaments, |o| server.serve(o), Nanos(4_000 * MS));
    assert_eq!(issued.len(), server.responses.len());
    server.responses
}

#[test]
fn an_open_loop_shows_the_stall_in_full() {
    let responses = responses(&open("load", 1_000));
    // Arrival k after the stall began waits for the stall's end and for the k before it: 1 s - k 1 ms + (k + 1) 0.1 ms,
    // until the queue is empty. 1 ms apart, 0.1 ms each.
    let expected = (0..4_000_u64).map(|i| {
        let waited = (1_000 * MS + SERVICE).saturating_sub(i.saturating_sub(1_000) * 900_000);
        if i < 1_000 {
            SERVICE
        } else {
            waited.max(SERVICE)
        }
    });
    assert_eq!(responses, expected.collect::<Vec<_>>());
    assert_eq!(responses.iter().max(), Some(&(1_000 * MS + SERVICE)));
    let slow = responses.iter().filter(|&&r| r > 500 * MS).count();
    assert_eq!(slow, 556);
    let late = responses.iter().filter(|&&r| r > SERVICE).count();
    assert_eq!(late, 1_112);
}

#[test]
fn a_closed_loop_hides_it() {
    let responses = responses(&closed("user", 1, 900_000));
    let slow: Vec<&u64> = responses.iter().filter(|&&r| r > SERVICE).collect();
    assert_eq!(slow, [&(1_000 * MS + SERVICE)]);
    // One of 3,000 operations: it affects no percentile up to p99.96.
    assert_eq!(responses.len(), 3_000);
}
