//! Spreading a workload over workers changes no operation.

#![allow(
    clippy::unwrap_used,
    reason = "a test may unwrap, in its own functions too"
)]

use bw_model::{ExchangeAddress, Kind, Nanos, Operation};
use bw_schedule::filaments::FilamentId;
use bw_schedule::replay::{Placed, drive};
use bw_schedule::workload::Placement;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use workloads::{MS, Workload, access, build, follow, workload};

mod workloads;

/// The properties that must not change: filament, time, offset, size, kind.
type Issued = (FilamentId, Nanos, u64, u32, Kind);

/// Returns a service time that depends on the operation alone, in 50 to 1,000 microseconds.
fn service(operation: &Operation) -> Nanos {
    let mixed = (operation.offset ^ operation.at.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Nanos(50_000 + (mixed >> 40) % 950_000)
}

fn played(filaments: Vec<Placed>) -> Vec<Issued> {
    let issued = drive(filaments, service, Nanos(60 * MS));
    let what = |(id, o): (_, Operation)| (id, o.at, o.offset, o.size, o.kind);
    issued.into_iter().map(what).collect()
}

fn sorted(mut issued: Vec<Issued>) -> Vec<Issued> {
    issued.sort_unstable();
    issued
}

fn parts(workload: &Workload, workers: u32) -> Vec<Vec<Placed>> {
    let part = |worker| build(workload, Placement { worker, workers }).unwrap();
    (0..workers).map(part).collect()
}

fn an_access() -> impl Strategy<Value = String> {
    let kinds = prop_oneof![
        Just(r#"["read",1]"#),
        Just(r#"["exchange",1]"#),
        Just(r#"["read",7],["write",2],["flush",1]"#)
    ];
    let location = prop_oneof![Just("uniform"), Just("sequential")];
    (kinds, location).prop_map(|(kinds, location)| access(kinds, location))
}

fn arrivals() -> impl Strategy<Value = String> {
    let arrival = prop_oneof![Just("constant"), Just("poisson"), Just("uniform")];
    (arrival, 100..30_000_u64).prop_map(|(arrival, rate)| {
        format!(r#""arrival":{{"type":"{arrival}"}},"rate":{{"micro_per_s":{rate}000000}}"#)
    })
}

fn pause() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(r#"{"type":"constant","value":0}"#.to_owned()),
        (1..2_000_000_u64).prop_map(|mean| format!(r#"{{"type":"exponential","mean":{mean}}}"#)),
    ]
}

/// Returns one filament of any type except follow, called `name`.
fn leader(name: &'static str) -> impl Strategy<Value = String> {
    let named = move |text: String| text.replace("NAME", name);
    prop_oneof![
        (arrivals(), an_access(), 1..900_u64).prop_map(|(arrivals, access, count)| format!(
            r#"{{"type":"open","name":"NAME","count":{count},{arrivals},{access}}}"#
        )),
        (1..9_u64, pause(), an_access()).prop_map(|(users, think, access)| format!(
            r#"{{"type":"closed","name":"NAME","users":{users},"think":{think},{access}}}"#
        )),
        (arrivals(), pause(), an_access()).prop_map(|(arrivals, think, access)| format!(
            r#"{{"type":"partly-open","name":"NAME",{arrivals},"think":{think},{access},
            "requests":{{"type":"uniform","low":0,"high":4}}}}"#
        )),
        (1..9_u64).prop_map(|clients| format!(
            r#"{{"type":"tpcb","name":"NAME","scale":3,"clients":{clients}}}"#
        )),
        (100..3_000_u64).prop_map(|rate| format!(
            r#"{{"type":"tpcb","name":"NAME","scale":3,"clients":1,"rate":{{"micro_per_s":{rate}000000}}}}"#
        )),
        (1..40_u64).prop_map(|bsus| format!(r#"{{"type":"spc1","name":"NAME","bsus":{bsus}}}"#)),
        (1..500_u64, 0..200_000_u64, 1..90_u64).prop_map(|(rows, gap, block)| format!(
            r#"{{"type":"trace","name":"NAME","rows":{rows},"gap_ns":{gap},"block":{block}}}"#
        )),
        (1..500_u64, 0..200_000_u64, 1..2_000_000_u64, 1..9_000_000_u64).prop_map(|(rows, gap, high, tick)| format!(
            r#"{{"type":"trace","name":"NAME","rows":{rows},"gap_ns":{gap},
            "delay":{{"type":"uniform","low":0,"high":{high}}},"quantize_ns":{tick}}}"#
        )),
    ]
    .prop_map(named)
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 96,
        rng_seed: RngSeed::Fixed(4),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Returns the numbers of all exchanges of a workload, which is issued by so many workers.
fn numbers(workload: &Workload, workers: u32) -> Vec<u64> {
    let issued = parts(workload, workers).into_iter().flat_map(played);
    let mut numbers: Vec<u64> = issued
        .map(|(_, _, offset, _, _)| ExchangeAddress::unpack(offset).number)
        .collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn the_numbers_of_an_open_loop_are_those_of_its_arrivals() {
    let access = access(r#"["exchange",1]"#, "uniform");
    let open = format!(
        r#"{{"type":"open","count":50,"arrival":{{"type":"poisson"}},"rate":{{"micro_per_s":1000000000000}},{access}}}"#
    );
    let one = workload(&open);
    for workers in [1, 2, 3] {
        assert_eq!(numbers(&one, workers), (0..50).collect::<Vec<_>>());
    }
    // Of two filaments, each has every second number.
    let two = workload(&format!("{open},{open}"));
    assert_eq!(numbers(&two, 2), (0..100).collect::<Vec<_>>());
}

#[test]
fn no_two_operations_of_users_and_sessions_have_the_same_number() {
    let access = access(r#"["exchange",1]"#, "uniform");
    let think = r#""think":{"type":"constant","value":0}"#;
    let workload = workload(&format!(
        r#"{{"type":"closed","users":7,{think},{access}}},
        {{"type":"partly-open","arrival":{{"type":"poisson"}},"rate":{{"micro_per_s":1000000000}},{think},
            "requests":{{"type":"constant","value":3}},{access}}}"#
    ));
    let mut numbers = numbers(&workload, 2);
    let all = numbers.len();
    assert!(all > 500, "{all}");
    numbers.dedup();
    assert_eq!(numbers.len(), all);
}

proptest! {
    #![proptest_config(config())]

    /// Each worker separately: no filament needs messages of another.
    #[test]
    fn workers_apart_issue_what_one_alone_issues(
        first in leader("a"), second in leader("b"), workers in 2..6_u32, seed: u64,
    ) {
        let mut workload = workload(&format!("{first},{second}"));
        workload.seed = seed;
        let alone = played(build(&workload, Placement::ALONE).unwrap());
        prop_assert!(!alone.is_empty());
        let apart = parts(&workload, workers).into_iter().flat_map(played);
        prop_assert_eq!(sorted(apart.collect()), sorted(alone));
    }

    /// With messages from worker to worker.
    #[test]
    fn followers_on_other_workers_hear_the_same(
        first in leader("a"), second in leader("b"), every in 1..5_u64, workers in 2..6_u32,
    ) {
        let (c, d) = (follow("c", "a", every, 1_000), follow("d", "c", 2, 0));
        let workload = workload(&format!("{d},{first},{c},{second}"));
        let alone = played(build(&workload, Placement::ALONE).unwrap());
        let together = parts(&workload, workers).into_iter().flatten().collect();
        prop_assert_eq!(sorted(played(together)), sorted(alone));
    }
}

#[test]
fn every_worker_has_a_part_of_an_open_loop() {
    let workload = workload(&workloads::open("a", 10_000));
    for part in parts(&workload, 3) {
        assert_eq!(played(part).len(), 200);
    }
}

/// The same seed gives the same operations on any machine: compares a sum over all of them, computed on x86-64.
#[test]
fn a_seed_is_a_schedule() {
    let poisson = workloads::open("a", 10_000).replace("constant\"},\"rate", "poisson\"},\"rate");
    let session = r#"{"type":"tpcb","scale":3,"clients":4},{"type":"spc1","bsus":9}"#;
    let closed = workloads::closed("b", 5, 70_000);
    let all = played(
        build(
            &workload(&format!("{poisson},{closed},{session}")),
            Placement::ALONE,
        )
        .unwrap(),
    );
    let sum = all
        .iter()
        .fold(0_u64, |sum, &(id, at, offset, size, kind)| {
            [u64::from(id), at.0, offset, u64::from(size), kind as u64]
                .iter()
                .fold(sum, |sum, part| {
                    (sum ^ part).wrapping_mul(0x0100_0000_01b3).rotate_left(7)
                })
        });
    assert_eq!((all.len(), sum), (1_592, 7_051_141_170_655_668_219));
}
