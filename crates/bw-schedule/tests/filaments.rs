//! What each filament of the library emits, exactly, in virtual time.

#![allow(
    clippy::unwrap_used,
    reason = "a test may unwrap, in its own functions too"
)]

use bw_model::{DROPPED, Kind, Nanos, Operation};
use bw_schedule::filaments::closed::{Follower, Leader};
use bw_schedule::filaments::open::{ASK_AGAIN, BLOCK_OPERATIONS, Operations, Stride};
use bw_schedule::filaments::{Completion, Emissions, Event, Filament};
use bw_schedule::replay::drive;
use bw_schedule::workload::Placement;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use workloads::*;

mod workloads;

fn ended(at: u64, tag: u32, result: i32) -> Event {
    Event::Completed(Completion {
        at: Nanos(at),
        intended: Nanos::ZERO,
        kind: Kind::Read,
        tag,
        result,
    })
}

fn only(filaments: &str) -> Box<dyn Filament> {
    let mut built = build(&workload(filaments), Placement::ALONE).unwrap();
    assert_eq!(built.len(), 1);
    built.remove(0).1
}

#[test]
fn an_open_loop_is_half_a_block_ahead() {
    let (mut filament, mut emit) = (only(&open("a", 1_000)), Emissions::default());
    filament.wake(Event::Start, &mut emit);
    assert_eq!(emit.operations.len(), BLOCK_OPERATIONS);
    assert!(emit.operations.iter().all(|o| !o.notify));
    let middle = emit.operations[BLOCK_OPERATIONS / 2].at;
    assert_eq!(emit.timers, [(middle, 0)]);
}

#[test]
fn count_ends_an_open_loop() {
    let counted = open("a", 1_000).replace(r#""arrival""#, r#""count":100,"arrival""#);
    assert_eq!(issued(&counted, 1, 1_000 * MS).len(), 100);
}

#[test]
fn users_think_after_each_answer() {
    let issued = issued(&closed("u", 2, 3 * MS), 2 * MS, 21 * MS);
    for user in 0..2 {
        let expected = [0, 5, 10, 15, 20].map(|at| at * MS);
        assert_eq!(starts(&issued, user), expected);
    }
}

#[test]
fn a_dropped_operation_has_ended_too() {
    let (mut user, mut emit) = (only(&closed("u", 1, 5)), Emissions::default());
    user.wake(Event::Start, &mut emit);
    emit.operations.clear();
    user.wake(ended(100, 0, DROPPED), &mut emit);
    assert_eq!(emit.operations[0].at, Nanos(105));
}

fn sessions(requests: u64) -> String {
    let (requests, think) = (constant(requests), constant(MS));
    open("s", 100)
        .replace(r#""open""#, r#""partly-open""#)
        .replace(
            r#""arrival""#,
            &format!(r#""requests":{requests},"think":{think},"arrival""#),
        )
}

#[test]
fn a_session_makes_its_requests_one_after_the_other() {
    let issued = issued(&sessions(3), 2 * MS, 1_000 * MS);
    let expected = (0..100).flat_map(|session| [0, 3, 6].map(|at| (10 * session + at) * MS));
    assert_eq!(starts(&issued, 0), expected.collect::<Vec<_>>());
}

#[test]
fn sessions_arrive_while_the_target_answers_none() {
    // Each session is still at its first request after 10 s: 1,000 are active.
    let issued = issued(&sessions(3), 60_000 * MS, 10_000 * MS);
    assert_eq!(issued.len(), 1_000);
}

#[test]
fn a_session_without_requests_makes_one() {
    assert_eq!(issued(&sessions(0), MS, 1_000 * MS).len(), 100);
}

#[test]
fn a_follower_waits_for_every_tenth_end() {
    let two = format!("{},{}", follow("f", "a", 10, 5 * MS), open("a", 1_000));
    let issued = issued(&two, 2 * MS, 100 * MS);
    // Operation 9 starts at 9 ms and ends at 11 ms; the tenth after it 10 ms later.
    let expected: Vec<u64> = (0..9).map(|k| (10 * k + 9 + 2 + 5) * MS).collect();
    assert_eq!(
        starts(&issued, 0),
        expected[..expected.len() - usize::from(expected[8] >= 100 * MS)]
    );
    assert_eq!(starts(&issued, 1).len(), 100);
}

#[test]
fn followers_can_be_followed_and_each_user_leads() {
    let users = closed("u", 2, 8 * MS);
    let (first, second) = (follow("f", "u", 1, 0), follow("g", "f", 2, MS));
    let issued = issued(&format!("{users},{first},{second}"), 2 * MS, 40 * MS);
    // Two users end at 2, 12, 22 and 32 ms; f follows each end, g the second of each pair, 2 ms and 1 ms later.
    assert_eq!(
        starts(&issued, 2),
        [2, 2, 12, 12, 22, 22, 32, 32].map(|at| at * MS)
    );
    assert_eq!(starts(&issued, 3), [5, 15, 25, 35].map(|at| at * MS));
    // Followers change nothing for the users themselves.
    assert_eq!(starts(&issued, 0), [0, 10, 20, 30].map(|at| at * MS));
}

#[test]
fn a_leader_gives_a_session_its_own_mark_back() {
    let two = format!("{},{}", sessions(3), follow("f", "s", 1, 0));
    let issued = issued(&two, 25 * MS, 500 * MS);
    // With sessions that overlap, a lost or swapped mark would end or double requests.
    let expected = |session: u64| [0, 26, 52].map(|at| (10 * session + at) * MS);
    let mut all: Vec<u64> = (0..50)
        .flat_map(expected)
        .filter(|&at| at < 500 * MS)
        .collect();
    all.sort_unstable();
    assert_eq!(starts(&issued, 0), all);
    let ends: Vec<u64> = all
        .iter()
        .map(|at| at + 25 * MS)
        .filter(|&at| at < 500 * MS)
        .collect();
    assert_eq!(starts(&issued, 1), ends);
}

/// Emits an operation that it waits for, marked 7, and one that it does not; accepts no mark but its own.
struct Marked;

impl Filament for Marked {
    fn wake(&mut self, event: Event, emit: &mut Emissions) {
        match event {
            Event::Completed(ended) => emit.timers.push((ended.at, ended.tag)),
            _ => emit
                .operations
                .extend([true, false].map(|notify| Operation {
                    at: Nanos::ZERO,
                    offset: 0,
                    size: 1,
                    kind: Kind::Read,
                    notify,
                    tag: 7,
                })),
        }
    }
}

#[test]
fn a_leader_wakes_its_filament_only_for_what_it_waits_for_and_with_its_mark() {
    let follower = Follower { id: 5, every: 2 };
    let mut leader = Leader::new(Box::new(Marked), vec![follower]);
    let mut emit = Emissions::default();
    leader.wake(Event::Start, &mut emit);
    let tags: Vec<u32> = emit.operations.iter().map(|o| o.tag).collect();
    assert!(emit.operations.iter().all(|o| o.notify));
    leader.wake(ended(10, tags[1], 1), &mut emit);
    assert_eq!(
        (&emit.timers[..], &emit.messages[..]),
        (&[][..], &[(Nanos(10), 5, 1)][..])
    );
    leader.wake(ended(20, tags[0], 1), &mut emit);
    assert_eq!(
        (&emit.timers[..], emit.messages.len()),
        (&[(Nanos(20), 7)][..], 1)
    );
}

#[test]
fn a_trace_whose_reader_is_behind_is_asked_again_and_counted() {
    let trace = MadeUp {
        rows: 20,
        gap_ns: 1_000_000,
        block: None,
    };
    let starved = Arc::new(AtomicU64::new(0));
    let reader = Reader::new(&trace);
    let mut filament = Operations::new(reader, Stride::WHOLE, Arc::clone(&starved));
    let mut emit = Emissions::default();
    filament.wake(Event::Start, &mut emit);
    assert_eq!(
        (emit.operations.len(), starved.load(Ordering::Relaxed)),
        (0, 1)
    );
    assert_eq!(emit.timers, [(ASK_AGAIN, 0)]);
    let timer = |at| Event::Timer { at, tag: 0 };
    filament.wake(timer(ASK_AGAIN), &mut emit);
    assert_eq!(emit.operations.len(), 10);
    // In the middle of the block the reader is behind again, but nothing is late yet.
    filament.wake(timer(Nanos(5 * MS)), &mut emit);
    assert_eq!(starved.load(Ordering::Relaxed), 1);
    filament.wake(timer(Nanos(6 * MS)), &mut emit);
    assert_eq!(emit.operations.len(), 20);
    let timers = emit.timers.len();
    assert_eq!(timers, 3, "none after the end");
}

#[test]
fn a_trace_is_issued_whole() {
    let rows = r#"{"type":"trace","rows":1000,"gap_ns":1000}"#;
    let expected: Vec<u64> = (0..1000).map(|row| row * 1000).collect();
    let mut found = starts(&issued(rows, 1, 1_000 * MS), 0);
    found.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn a_trace_is_issued_later_and_at_ticks() {
    let rows = r#"{"type":"trace","rows":100,"gap_ns":1000,"delay":{"type":"constant","value":500},"quantize_ns":10000}"#;
    let found = starts(&issued(rows, 1, 1_000 * MS), 0);
    // Operation n, meant for n us, starts at the first tick of 10 us from n us and a half on.
    let expected: Vec<u64> = (0..100).map(|n| (n / 10 + 1) * 10_000).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_seed_and_the_filament_determine_the_delays() {
    let drawn = |seed: u64, before: &str| {
        let row = r#"{"type":"trace","rows":50,"gap_ns":1000,"delay":{"type":"exponential","mean":9000}}"#;
        let mut workload = workload(&format!("{before}{row}"));
        workload.seed = seed;
        let last = workload.filaments.len() as u32 - 1;
        let filaments = build(&workload, Placement::ALONE).unwrap();
        starts(&drive(filaments, |_| Nanos(1), Nanos::SECOND), last)
    };
    let other = r#"{"type":"trace","rows":3,"gap_ns":7,"quantize_ns":10},"#;
    assert_eq!(drawn(1, ""), drawn(1, ""));
    assert_ne!(drawn(1, ""), drawn(2, ""));
    assert_ne!(drawn(1, ""), drawn(1, other));
}

#[test]
fn ticks_of_no_length_are_refused() {
    let rows = r#"{"type":"trace","rows":1,"gap_ns":1,"quantize_ns":0}"#;
    let error = build(&workload(rows), Placement::ALONE).err().unwrap();
    assert!(error.to_string().contains("quantize_ns is 0"), "{error}");
}
