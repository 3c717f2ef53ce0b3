//! The worker's own loop in virtual time: which operations are issued, when, and with which outcome.

#![allow(clippy::unwrap_used)]

use bw_load::clock::{Clock, VirtualClock};
use bw_load::null::{Null, NullSpec};
use bw_load::policy::{Full, Late};
use bw_load::routes::Routes;
use bw_load::several::Several;
use bw_load::target::{Reaped, Target};
use bw_load::worker::{Stop, WorkerFilament, WorkerPlan};
use bw_model::{DROPPED, Nanos, Operation, Rate, Row};
use bw_record::histogram::Histogram;
use bw_schedule::filaments::open::{OperationSource, SourceState};
use bw_schedule::filaments::{Emissions, Event, Filament};
use bw_schedule::workload::{Placement, WorkloadSpec};
use bw_trace::input::TraceInput;
use proptest::prelude::*;
use std::io;
use support::{
    Every, MS, Simulated, entry, finish, plan, read_at, simulate, simulate_from, simulate_on,
    stalled,
};

mod support;

#[test]
fn every_operation_is_issued_at_its_very_time() {
    let done = simulate(
        plan(2000),
        NullSpec::default(),
        entry(vec![Every::second(3000)]),
    );
    let rate = Rate::from_micro_per_s(3_000_000_000).unwrap();
    assert_eq!(done.rows.len(), 6000);
    for (index, row) in (0..).zip(&done.rows) {
        assert_eq!(
            (row.intended, row.issued),
            (rate.arrival(index), rate.arrival(index))
        );
    }
    assert_eq!((done.counts.intended, done.counts.early), (6000, 0));
}

#[test]
fn a_stall_of_a_second_shows_in_full_in_the_open_loop() {
    let service = 100_000;
    let done = simulate(
        plan(3000),
        stalled(service, 1000, 1000),
        entry(vec![Every::second(1000)]),
    );
    let responses = done.responses();
    assert_eq!(responses.len(), 3000);
    // The operation that would have ended just as the stall began.
    assert_eq!(responses.iter().max(), Some(&(1000 * MS)));
    // Arrivals at 1000, 1001, ... ms end at 2000 ms: this number of them wait longer than `longer_ms`.
    for longer_ms in [1, 10, 250, 500, 999] {
        let share = responses.iter().filter(|ns| **ns > longer_ms * MS).count() as u64;
        assert_eq!(share, 1000 - longer_ms, "longer than {longer_ms} ms");
    }
}

#[test]
fn a_closed_loop_hides_the_same_stall() {
    let user = Box::new(User);
    let done = simulate(plan(3000), stalled(MS, 1000, 1000), entry(vec![user]));
    let slow = done.responses().into_iter().filter(|ns| *ns > MS).count();
    assert_eq!((slow, done.rows.len()), (1, 2000));
}

/// A user who never thinks.
struct User;

impl Filament for User {
    fn wake(&mut self, event: Event, emit: &mut Emissions) {
        let at = match event {
            Event::Start => Nanos::ZERO,
            Event::Completed(ended) => ended.at,
            _ => return,
        };
        emit.operations.push(Operation {
            notify: true,
            ..read_at(at)
        });
    }
}

fn narrow(full: Full) -> WorkerPlan {
    WorkerPlan {
        depth: 10,
        full,
        ..plan(3000)
    }
}

#[test]
fn what_finds_no_room_waits_and_is_counted_from_its_intended_start() {
    let done = simulate(
        narrow(Full::Queue),
        stalled(1000, 1000, 1000),
        entry(vec![Every::second(1000)]),
    );
    // Ten are in flight; those at 1010, 1011, ... 1999 ms wait, and the one at 2000 ms behind them.
    assert_eq!((done.counts.held, done.counts.issued), (991, 3000));
    let over: Vec<_> = done
        .responses()
        .into_iter()
        .filter(|ns| *ns > 500 * MS)
        .collect();
    // Those of 1000 to 1500 ms, the last by the 50 us that the queue before it takes.
    assert_eq!(over.len(), 501);
    let order: Vec<_> = done.rows.iter().map(|row| row.issued).collect();
    assert!(order.is_sorted());
}

#[test]
fn what_waits_when_the_run_ends_is_issued_in_the_drain_and_has_the_longest_waits() {
    // The target stands still from 1,000 ms until 400 ms after the end: ten are in flight, and 490 wait.
    let done = simulate(
        WorkerPlan {
            depth: 10,
            ..plan(1500)
        },
        stalled(1000, 1000, 900),
        entry(vec![Every::second(1000)]),
    );
    let counts = done.counts;
    assert_eq!((counts.issued, counts.completed), (1500, 1500));
    assert_eq!((counts.drained, done.flow.drained), (490, 490));
    let at_end = (done.flow.waiting_at_end, done.flow.in_flight_at_end);
    assert_eq!((done.flow.completed, at_end), (1000, (490, 10)));
    assert_eq!((counts.waiting, counts.unfinished), (0, 0));
    let responses = done.responses();
    assert_eq!(responses.len(), 1500);
    // The one of 1,500 ms less an operation waits until 1,900 ms; none of those before it waited less.
    assert_eq!(responses.iter().filter(|ns| **ns > 400 * MS).count(), 500);
}

#[test]
fn what_waits_when_the_drain_ends_or_the_run_is_stopped_is_not_issued() {
    let narrow = |drain: Nanos| WorkerPlan {
        depth: 10,
        drain,
        ..plan(1500)
    };
    for (drain_ms, drained) in [(0, 0), (100, 0), (401, 10)] {
        let done = simulate(
            narrow(Nanos(drain_ms * MS)),
            stalled(10 * MS, 1000, 900),
            entry(vec![Every::second(1000)]),
        );
        let counts = done.counts;
        assert_eq!(counts.drained, drained, "{drain_ms} ms");
        assert_eq!(counts.intended, counts.issued + counts.waiting);
        assert!(counts.waiting > 0);
    }
}

#[test]
fn what_finds_no_room_is_dropped_by_choice() {
    let done = simulate(
        narrow(Full::Drop),
        stalled(1000, 1000, 1000),
        entry(vec![Every::second(1000)]),
    );
    assert_eq!(
        (done.counts.dropped, done.counts.issued, done.counts.held),
        (990, 2010, 0)
    );
    let dropped = done.rows.iter().filter(|row| row.result == DROPPED).count();
    assert_eq!(dropped, 990);
}

/// A target whose hundredth start takes the generator 10.5 ms.
struct Hiccup {
    target: Null<VirtualClock>,
    clock: VirtualClock,
    starts: u64,
}

impl Target for Hiccup {
    fn batch(&self) -> usize {
        self.target.batch()
    }
    fn capacity(&self) -> u32 {
        self.target.capacity()
    }
    fn submit(&mut self, slot: u32, operation: &Operation) {
        self.starts += 1;
        self.target.submit(slot, operation);
    }
    fn flush(&mut self) -> io::Result<()> {
        if self.starts == 101 {
            self.clock.sleep(Nanos(10_500_000));
        }
        self.target.flush()
    }
    fn reap(&mut self, ends: &mut Vec<Reaped>) -> io::Result<()> {
        self.target.reap(ends)
    }
    fn wait(&mut self, at_most: Nanos) -> io::Result<()> {
        self.target.wait(at_most)
    }
}

fn with_hiccup(late: Late) -> Simulated {
    hiccup_with(WorkerPlan { late, ..plan(1000) }, 64, NullSpec::default())
}

fn hiccup_with(plan: WorkerPlan, capacity: u32, spec: NullSpec) -> Simulated {
    let clock = VirtualClock::default();
    let target = Hiccup {
        target: Null::new(spec, clock.clone(), capacity),
        clock: clock.clone(),
        starts: 0,
    };
    simulate_on(plan, target, clock, entry(vec![Every::second(1000)]))
}

#[test]
fn operations_without_a_slot_after_a_pause_of_the_generator_are_told_from_those_of_a_slow_target() {
    let narrow = |depth: u32| WorkerPlan {
        depth,
        ..plan(1000)
    };
    let spec = NullSpec {
        service_ns: Nanos(100_000),
        stalls: vec![],
    };
    // After 10.5 ms in the flush of one operation, ten are due, and two find a slot.
    let paused = hiccup_with(narrow(2), 2, spec).counts;
    assert_eq!((paused.held, paused.held_late), (8, 8));
    let slow = stalled(100_000, 100, 10);
    let stalled = simulate(narrow(2), slow, entry(vec![Every::second(1000)])).counts;
    assert!(stalled.held >= 7, "{stalled:?}");
    assert_eq!(stalled.held_late, 0);
}

/// Returns the responses and the target's parts of them that are above 100 us, the longest first, and both means.
fn responses_and_targets(done: &Simulated) -> ([Vec<u64>; 2], [f64; 2]) {
    let all = done.record.recorder().all();
    let above = |histogram: &Histogram| {
        let longest = |n: u64| histogram.quantile(1.0 - n as f64 / histogram.count() as f64);
        let found = (0..histogram.count()).map_while(|n| longest(n).filter(|ns| *ns > 100_100));
        found.collect()
    };
    let means = [&all.response, &all.target].map(|times| times.mean().unwrap());
    ([above(&all.response), above(&all.target)], means)
}

#[test]
fn a_pause_of_the_generator_is_not_in_the_targets_part_and_a_wait_for_a_slow_target_is() {
    let spec = || NullSpec {
        service_ns: Nanos(100_000),
        stalls: vec![],
    };
    let narrow = WorkerPlan {
        depth: 2,
        ..plan(1000)
    };
    // Ten operations are up to 9.5 ms late, and with enough slots they all start at once.
    let ([responses, targets], _) = responses_and_targets(&hiccup_with(plan(1000), 64, spec()));
    assert_eq!(responses.len(), 11);
    // The one that was being started when the generator paused ended in time, although nobody looked.
    assert!(targets.is_empty(), "{targets:?}");
    // With two slots eight of them wait for the others: 100 us for each pair.
    let ([responses, targets], _) = responses_and_targets(&hiccup_with(narrow, 2, spec()));
    assert_eq!(responses.len(), 11);
    let waited: Vec<_> = targets.iter().map(|ns| ns.div_ceil(100_500)).collect();
    assert_eq!(waited, [5, 5, 4, 4, 3, 3, 2, 2], "{targets:?}");
    // A target that stands still for 10 ms is responsible for every wait.
    let slow = simulate(
        narrow,
        stalled(100_000, 100, 10),
        entry(vec![Every::second(1000)]),
    );
    let (longest, means) = responses_and_targets(&slow);
    assert_eq!(longest[0], longest[1]);
    assert!(longest[0].len() >= 10);
    assert!((means[0] - means[1]).abs() < 1.0, "{means:?}");
}

#[test]
fn a_late_generator_catches_up_and_tells_by_how_much_it_was_late() {
    let done = with_hiccup(Late::CatchUp);
    assert_eq!((done.counts.issued, done.counts.skipped), (1000, 0));
    let late: Vec<_> = done
        .rows
        .iter()
        .map(|row| row.issued.since(row.intended).0)
        .filter(|ns| *ns > 0)
        .collect();
    let expected: Vec<_> = (0..10).map(|n| 9_500_000 - n * MS).collect();
    assert_eq!(late, expected);
    let lateness = bw_record::summary::lateness(&done.record.recorder());
    assert_eq!((lateness.count, lateness.max), (1000, Some(9_500_000)));
}

#[test]
fn a_late_generator_skips_what_is_too_late() {
    let done = with_hiccup(Late::Skip {
        after_ns: Nanos(5 * MS),
    });
    assert_eq!((done.counts.issued, done.counts.skipped), (995, 5));
}

#[test]
fn a_late_generator_issues_a_bounded_burst() {
    let done = with_hiccup(Late::Burst { operations: 3 });
    assert_eq!((done.counts.issued, done.counts.skipped), (993, 7));
}

#[test]
fn a_run_that_is_stopped_begins_nothing_new_and_waits_for_what_is_in_flight() {
    let stop = Stop::default();
    stop.store(1, std::sync::atomic::Ordering::Relaxed);
    let clock = VirtualClock::default();
    let target = Null::new(
        NullSpec {
            service_ns: Nanos(7 * MS),
            stalls: vec![],
        },
        clock.clone(),
        8,
    );
    let (finished, _) = finish(
        plan(1000),
        target,
        clock,
        entry(vec![Every::second(1000)]),
        stop,
    );
    let counts = finished.record.counts();
    assert_eq!((counts.intended, counts.completed), (1, 1));
    assert_eq!(finished.record.last_end(), Nanos(7 * MS));
}

#[test]
fn what_never_ends_is_reported_as_unfinished() {
    let mut given_up = plan(1500);
    given_up.drain = Nanos(100 * MS);
    let done = simulate(
        given_up,
        stalled(0, 1000, 60_000),
        entry(vec![Every::second(1000)]),
    );
    assert_eq!(
        (
            done.counts.issued,
            done.counts.completed,
            done.counts.unfinished
        ),
        (1500, 1000, 500)
    );
    assert_eq!(done.record.recorder().unfinished(), 500);
}

fn late() -> impl Strategy<Value = Late> {
    prop_oneof![
        Just(Late::CatchUp),
        (0..MS).prop_map(|ns| Late::Skip {
            after_ns: Nanos(ns)
        }),
        (0..5u64).prop_map(|operations| Late::Burst { operations }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_intended_operation_is_accounted_for(
        depth in 1u32..20, drops: bool, late in late(), service in 0u64..5_000_000,
        stall in (0u64..300, 0u64..300), cost in 0u64..200_000, rate in 1u64..5000,
    ) {
        let clock = VirtualClock::with_cost(Nanos(cost));
        let full = if drops { Full::Drop } else { Full::Queue };
        let plan = WorkerPlan { depth, full, late, ..plan(200) };
        let target = Null::new(stalled(service, stall.0, stall.1), clock.clone(), depth);
        let done = simulate_on(plan, target, clock, entry(vec![Every::second(rate), Every::second(1)]));
        let counts = done.counts;
        let expected = (rate * 200).div_ceil(1000) + 1;
        prop_assert_eq!(counts.intended, expected);
        prop_assert_eq!(counts.intended, counts.issued + counts.dropped + counts.skipped + counts.waiting);
        prop_assert_eq!(counts.issued, counts.completed + counts.unfinished);
        prop_assert_eq!((counts.early, counts.stray), (0, 0));
        prop_assert_eq!(done.rows.len() as u64, expected);
    }
}

/// Ends the run at a time.
struct Stopper(Nanos, Stop);

impl Filament for Stopper {
    fn wake(&mut self, event: Event, emit: &mut Emissions) {
        match event {
            Event::Start => emit.timers.push((self.0, 0)),
            _ => self.1.store(1, std::sync::atomic::Ordering::Relaxed),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_there_at_the_start_and_comes_is_what_goes_and_is_there_at_the_end(
        depth in 1u32..40, drops: bool, late in late(), service in 50_000u64..30_000_000, users in 0usize..20,
        stall in (0u64..300, 0u64..300), cost in 0u64..200_000, rate in 1u64..5000, warm_up in 0u64..150,
        (drain, stopped) in (0u64..400, prop::option::of(0u64..250)),
    ) {
        let clock = VirtualClock::with_cost(Nanos(cost));
        let full = if drops { Full::Drop } else { Full::Queue };
        let drain = Nanos(drain * MS);
        let plan = WorkerPlan { depth, full, late, drain, ..plan(200) };
        let target = Null::new(stalled(service, stall.0, stall.1), clock.clone(), depth);
        let stop = Stop::default();
        let mut filaments: Vec<Box<dyn Filament>> = vec![Every::second(rate)];
        // Without room, a user whose operation is dropped issues the next one at once.
        let users = if drops { 0 } else { users };
        filaments.extend((0..users).map(|_| -> Box<dyn Filament> { Box::new(User) }));
        if let Some(at) = stopped {
            filaments.push(Box::new(Stopper(Nanos(at * MS), Stop::clone(&stop))));
        }
        let from = Nanos(warm_up * MS);
        let done = simulate_from(from, plan, target, clock, entry(filaments), stop);
        let (counts, flow) = (done.counts, done.flow);
        prop_assert_eq!(
            flow.waiting_at_start + counts.intended,
            flow.issued + counts.dropped + counts.skipped + flow.waiting_at_end
        );
        prop_assert_eq!(
            flow.in_flight_at_start + flow.issued,
            flow.completed + flow.in_flight_at_end
        );
        prop_assert!(flow.drained <= flow.waiting_at_end && counts.drained <= flow.drained);
        if stopped.is_none() {
            // The same from the rows, of a run whose end is known.
            let until = Nanos(200 * MS);
            let count = |of: &dyn Fn(&Row) -> bool| done.rows.iter().filter(|row| of(row)).count() as u64;
            let within = |at: Nanos| at >= from && at < until;
            prop_assert_eq!(flow.issued, count(&|row| within(row.issued)));
            prop_assert_eq!(flow.completed, count(&|row| within(row.completed)));
            prop_assert_eq!(flow.of_warm_up, count(&|row| within(row.completed) && row.intended < from));
            let across = |row: &Row, at: Nanos| row.issued < at && row.completed >= at;
            prop_assert_eq!(flow.in_flight_at_start, count(&|row| across(row, from)));
            prop_assert_eq!(flow.in_flight_at_end, count(&|row| across(row, until)));
            prop_assert_eq!(flow.drained, count(&|row| row.issued != Nanos::NEVER && row.issued >= until));
        }
        let all = done.record.recorder().all();
        prop_assert_eq!(all.in_time, flow.completed);
        prop_assert_eq!(all.in_time_bytes, 512 * flow.completed);
    }
}

#[test]
fn an_overloaded_target_has_its_capacity_however_long_the_warm_up_was() {
    // Twice the capacity: the measured second serves what was due in the warm-up.
    let spec = || NullSpec {
        service_ns: Nanos(MS),
        stalls: vec![],
    };
    for warm_up_ms in [0, 500, 1000, 1900] {
        let clock = VirtualClock::default();
        let plan = WorkerPlan {
            depth: 1,
            ..plan(warm_up_ms + 1000)
        };
        let target = Null::new(spec(), clock.clone(), 1);
        let done = simulate_from(
            Nanos(warm_up_ms * MS),
            plan,
            target,
            clock,
            entry(vec![Every::second(2000)]),
            Stop::default(),
        );
        let flow = done.flow;
        assert!((999..=1000).contains(&flow.completed), "{flow:?}");
        assert!((999..=1001).contains(&flow.issued), "{flow:?}");
        // All of the first two seconds' operations were due in the first second.
        let of_warm_up = (2 * warm_up_ms).saturating_sub(warm_up_ms).min(1000);
        assert!(flow.of_warm_up.abs_diff(of_warm_up) <= 1, "{flow:?}");
    }
}

#[test]
fn a_closed_loop_of_one_and_a_half_responses_has_its_rate_between_ends_and_issues() {
    let users = (0..1000).map(|_| -> Box<dyn Filament> { Box::new(User) });
    let spec = NullSpec {
        service_ns: Nanos::SECOND,
        stalls: vec![],
    };
    let done = simulate(plan(1500), spec, entry(users.collect()));
    let flow = done.flow;
    assert_eq!(
        (flow.issued, flow.completed, flow.in_flight_at_end),
        (2000, 1000, 1000)
    );
    assert_eq!(done.counts.completed, 2000);
}

/// Counts how often a slope is adopted.
struct CountingClock(VirtualClock, std::rc::Rc<std::cell::Cell<u32>>);

impl Clock for CountingClock {
    fn now(&mut self) -> Nanos {
        self.0.now()
    }
    fn sleep(&mut self, length: Nanos) {
        self.0.sleep(length);
    }
    fn refine(&mut self) {
        self.1.set(self.1.get() + 1);
    }
}

#[test]
fn the_clock_is_followed_however_long_an_interval_is() {
    let (clock, refined) = (VirtualClock::default(), std::rc::Rc::default());
    let target = Null::new(NullSpec::default(), clock.clone(), 8);
    let plan = WorkerPlan {
        interval: Nanos(3_600_000_000_000),
        ..plan(3000)
    };
    let filaments = entry(vec![Every::second(1000)]);
    let clock = CountingClock(clock, std::rc::Rc::clone(&refined));
    finish(plan, target, clock, filaments, Stop::default());
    assert!((100..=150).contains(&refined.get()), "{}", refined.get());
}

#[test]
fn a_backlog_that_grows_too_long_ends_the_run() {
    let plan = WorkerPlan {
        depth: 10,
        backlog: 100,
        ..plan(3000)
    };
    let stalled = stalled(1000, 1000, 60_000);
    let done = simulate(plan, stalled, entry(vec![Every::second(1000)]));
    let counts = done.counts;
    assert_eq!((counts.backlogs, counts.waiting), (1, 101));
    assert_eq!(counts.intended, counts.issued + counts.waiting);
    assert!(counts.intended < 1200, "{counts:?}");
}

/// A null target that fails some operations, and never reports the end of others.
struct Faulty {
    target: Null<VirtualClock>,
    ended: u64,
    fails_every: u64,
    loses_every: u64,
}

impl Target for Faulty {
    fn flush_calls_kernel(&self) -> bool {
        false
    }
    fn batch(&self) -> usize {
        self.target.batch()
    }
    fn capacity(&self) -> u32 {
        self.target.capacity()
    }
    fn submit(&mut self, slot: u32, operation: &Operation) {
        self.target.submit(slot, operation);
    }
    fn flush(&mut self) -> io::Result<()> {
        self.target.flush()
    }
    fn reap(&mut self, ends: &mut Vec<Reaped>) -> io::Result<()> {
        self.target.reap(ends)?;
        ends.retain_mut(|end| {
            self.ended += 1;
            if self.ended.is_multiple_of(self.fails_every) {
                end.result = -5;
            }
            !self.ended.is_multiple_of(self.loses_every)
        });
        Ok(())
    }
    fn wait(&mut self, at_most: Nanos) -> io::Result<()> {
        self.target.wait(at_most)
    }
}

/// Returns the integral of the number in flight, and the sum of all times in flight that were recorded [ns].
fn areas(service: u64, rate: u64, fails_every: u64, loses_every: u64) -> (u128, u128) {
    let clock = VirtualClock::default();
    let spec = stalled(service, 300, 150);
    let target = Faulty {
        target: Null::new(spec, clock.clone(), 100_000),
        ended: 0,
        fails_every,
        loses_every,
    };
    let filaments = entry(vec![Every::second(rate), Box::new(User)]);
    let done = simulate_on(plan(1000), target, clock, filaments);
    let all = done.record.recorder().all();
    assert!(all.operations > 100);
    let recorded = all.service.sum() + done.record.failed_ns();
    (done.record.in_flight_area(), recorded)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn the_number_in_flight_agrees_with_the_times_in_flight(
        service in 50_000u64..20_000_000, rate in 150u64..2000, fails_every in 1u64..9,
    ) {
        let (counted, recorded) = areas(service, rate, fails_every, u64::MAX);
        prop_assert_eq!(counted, recorded);
    }
}

#[test]
fn a_target_that_loses_operations_breaks_the_law() {
    let (counted, recorded) = areas(MS, 1000, u64::MAX, 10);
    assert!(counted > 5 * recorded, "{counted} {recorded}");
}

/// The operations of a trace, one each millisecond.
struct Recorded(std::ops::Range<u64>);

impl OperationSource for Recorded {
    fn next_block(&mut self, block: &mut Vec<Operation>) -> SourceState {
        block.extend(self.0.by_ref().take(10).map(|n| read_at(Nanos(n * MS))));
        if self.0.is_empty() {
            SourceState::Ended
        } else {
            SourceState::Ready
        }
    }
}

/// Replays a trace with `more` fields to a target that executes one operation at a time, in 800 us.
fn replayed(more: &str) -> Simulated {
    let text = format!(r#"{{"seed":1,"filaments":[{{"type":"trace","path":"x"{more}}}]}}"#);
    let workload: WorkloadSpec<TraceInput> = serde_json::from_str(&text).unwrap();
    let mut sources = |_: &TraceInput| -> Result<Box<dyn OperationSource>, String> {
        Ok(Box::new(Recorded(0..1000)))
    };
    let built = workload.build(Placement::ALONE, 1 << 30, &mut sources);
    let filaments = built.unwrap().filaments.into_iter();
    let filaments = filaments.map(|(id, filament)| WorkerFilament { id, filament });
    let plan = WorkerPlan {
        depth: 1,
        ..plan(2000)
    };
    let spec = NullSpec {
        service_ns: Nanos(800_000),
        stalls: Vec::new(),
    };
    simulate(plan, spec, filaments.collect())
}

fn mean_response_us(done: &Simulated) -> u64 {
    let responses = done.responses();
    responses.iter().sum::<u64>() / responses.len() as u64 / 1000
}

/// Figure 9 of the Buttress paper: the same operations, issued in bursts, wait for each other.
#[test]
fn issue_times_at_ticks_make_a_queue_and_a_constant_delay_does_not() {
    let (as_recorded, later) = (
        replayed(""),
        replayed(r#","delay":{"type":"constant","value":7300000}"#),
    );
    let bursts = replayed(r#","quantize_ns":10000000"#);
    for done in [&as_recorded, &later, &bursts] {
        assert_eq!(done.rows.len(), 1000);
    }
    assert_eq!(mean_response_us(&as_recorded), 800);
    assert_eq!(mean_response_us(&later), 800);
    // Ten come together, and the n-th of them ends after n service times: 5.5 on average. The first tick has one.
    assert!((4390..=4400).contains(&mean_response_us(&bursts)));
    let intended = later.rows.iter().map(|row| row.intended.0);
    assert!(intended.eq((0..1000).map(|n| n * MS + 7_300_000)));
}

#[test]
fn delays_at_random_change_the_responses_too() {
    let done = replayed(r#","delay":{"type":"exponential","mean":5000000}"#);
    assert_eq!(done.rows.len(), 1000);
    assert!(mean_response_us(&done) > 1000);
    assert!(done.rows.is_sorted_by_key(|row| row.issued));
}

/// Loads two targets with 1,000 operations a second each, of which the first stands still from 1 to 2 seconds.
fn on_two_targets(full: Full) -> Simulated {
    let clock = VirtualClock::default();
    let null = |spec| -> Box<dyn Target> { Box::new(Null::new(spec, clock.clone(), 10)) };
    let targets = vec![null(stalled(MS, 1000, 1000)), null(stalled(MS, 0, 0))];
    let routes = Routes::new(&[0..1, 1..2], &[0, 1]);
    let several = Several::new(targets, routes, 10);
    let plan = WorkerPlan { full, ..plan(3000) };
    let filaments = entry(vec![Every::second(1000), Every::second(1000)]);
    simulate_on(plan, several, clock.clone(), filaments)
}

fn responses_of(done: &Simulated, stream: u32) -> Vec<u64> {
    let ended = done.rows.iter().filter(|row| row.completed != Nanos::NEVER);
    let own = ended.filter(|row| row.stream == stream);
    own.map(|row| row.completed.since(row.intended).0).collect()
}

#[test]
fn a_target_that_stands_still_holds_up_only_its_own_operations() {
    let done = on_two_targets(Full::Queue);
    let (first, second) = (responses_of(&done, 0), responses_of(&done, 1));
    assert_eq!((first.len(), second.len()), (3000, 3000));
    assert!(first.iter().filter(|ns| **ns > 500 * MS).count() >= 500);
    assert!(second.iter().all(|ns| *ns == MS));
    // The thousand of the stall, and what arrives while they are worked off at 10,000 a second.
    assert!(
        (1050..=1150).contains(&done.counts.held),
        "{:?}",
        done.counts
    );
    let late = done
        .rows
        .iter()
        .filter(|row| row.stream == 1 && row.issued != row.intended);
    assert_eq!(late.count(), 0);
    assert_eq!((done.counts.early, done.counts.stray), (0, 0));
}

#[test]
fn what_finds_no_room_in_its_own_target_is_dropped_by_choice() {
    let done = on_two_targets(Full::Drop);
    let dropped = done.rows.iter().filter(|row| row.result == DROPPED);
    assert!(dropped.clone().all(|row| row.stream == 0));
    assert_eq!(dropped.count() as u64, done.counts.dropped);
    assert!((980..=1000).contains(&done.counts.dropped));
    assert_eq!(responses_of(&done, 1).len(), 3000);
    assert_eq!(done.counts.issued + done.counts.dropped, 6000);
}
