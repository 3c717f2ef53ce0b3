//! The accuracy of stamps, in virtual time: on a target whose hand-over takes time, each operation
//! is stamped just before its own hand-over, and operations that become due meanwhile are seen after it.

#![allow(clippy::unwrap_used)]

use bw_load::clock::{Clock, VirtualClock};
use bw_load::target::{Reaped, Target};
use bw_load::worker::{Stop, WorkerPlan};
use bw_model::{Nanos, Operation};
use bw_schedule::filaments::{Emissions, Event, Filament};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use support::{entry, finish, plan, read_at};

mod support;

/// A call of the target, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Handed { which: u64, at: Nanos },
    Reap { at: Nanos },
}

/// A target that hands over `batch` operations with each call; a call takes `cost`, and taking ends `reap_cost`.
/// Operations end at once.
struct Costly {
    batch: usize,
    cost: Nanos,
    reap_cost: Nanos,
    clock: VirtualClock,
    prepared: Vec<(u32, u64)>,
    ended: Vec<Reaped>,
    log: Rc<RefCell<Vec<Asked>>>,
}

impl Target for Costly {
    fn batch(&self) -> usize {
        self.batch
    }
    fn capacity(&self) -> u32 {
        64
    }
    fn submit(&mut self, slot: u32, operation: &Operation) {
        self.prepared.push((slot, operation.offset));
    }
    fn flush(&mut self) -> io::Result<()> {
        for call in self.prepared.chunks(self.batch) {
            let at = self.clock.now();
            for &(slot, which) in call {
                self.log.borrow_mut().push(Asked::Handed { which, at });
                self.ended.push(Reaped {
                    slot,
                    result: 0,
                    unseen: Nanos::ZERO,
                });
            }
            self.clock.advance(self.cost);
        }
        self.prepared.clear();
        Ok(())
    }
    fn reap(&mut self, ends: &mut Vec<Reaped>) -> io::Result<()> {
        let at = self.clock.now();
        self.log.borrow_mut().push(Asked::Reap { at });
        let most = (ends.capacity() - ends.len()).min(self.ended.len());
        if most > 0 {
            self.clock.advance(self.reap_cost);
        }
        ends.extend(self.ended.drain(..most));
        Ok(())
    }
    fn wait(&mut self, at_most: Nanos) -> io::Result<()> {
        self.clock.advance(at_most);
        Ok(())
    }
}

/// Operations at these times [ns]; each one's offset is its index.
struct At(&'static [u64]);

impl Filament for At {
    fn wake(&mut self, event: Event, emit: &mut Emissions) {
        if let Event::Start = event {
            emit.operations
                .extend((0..).zip(self.0).map(|(offset, at)| Operation {
                    offset,
                    ..read_at(Nanos(*at))
                }));
        }
    }
}

/// Runs operations at `times` and returns the stamp of each, in order, and the calls of the target.
fn run(times: &'static [u64], batch: usize, cost: Nanos) -> (Vec<Nanos>, Vec<Asked>) {
    run_with(times, batch, cost, Nanos::ZERO)
}

fn run_with(
    times: &'static [u64],
    batch: usize,
    cost: Nanos,
    reap_cost: Nanos,
) -> (Vec<Nanos>, Vec<Asked>) {
    let clock = VirtualClock::default();
    let log = Rc::default();
    let target = Costly {
        batch,
        cost,
        reap_cost,
        clock: clock.clone(),
        prepared: Vec::new(),
        ended: Vec::new(),
        log: Rc::clone(&log),
    };
    let plan = WorkerPlan {
        depth: 64,
        near: Nanos(1000),
        ..plan(10)
    };
    let filaments = entry(vec![Box::new(At(times))]);
    let (_, mut rows) = finish(plan, target, clock, filaments, Stop::default());
    let mut rows: Vec<_> = std::iter::from_fn(|| rows.take()).flatten().collect();
    rows.sort_by_key(|row| row.offset);
    let stamps = rows.iter().map(|row| row.issued).collect();
    (stamps, log.take())
}

#[test]
fn each_operation_of_a_burst_is_stamped_just_before_its_own_hand_over() {
    for batch in [1, 2, 16] {
        let (stamps, asked) = run(&[0; 40], batch, Nanos(5000));
        let mut handed = 0;
        for one in asked {
            let Asked::Handed { which, at } = one else {
                continue;
            };
            assert_eq!(stamps[which as usize], at, "number {which} of {batch}");
            handed += 1;
        }
        assert_eq!(handed, 40);
    }
}

#[test]
fn what_becomes_due_during_a_hand_over_comes_before_everything_else() {
    // Due: the second while the first is being handed over, the third just after the second was.
    let (_, asked) = run(&[0, 1000, 4500], 1, Nanos(2000));
    let handed = |which, at| Asked::Handed { which, at };
    assert_eq!(
        asked[..3],
        [
            handed(0, Nanos(0)),
            handed(1, Nanos(2000)),
            handed(2, Nanos(4500))
        ],
        "{asked:?}"
    );
}

#[test]
fn no_completion_is_taken_just_before_an_operation_once_it_is_known_how_long_that_takes() {
    // The second of each pair is due while ends of the first would be taken.
    const PAIRS: &[u64] = &[
        0, 3000, 100_000, 103_000, 200_000, 203_000, 300_000, 303_000,
    ];
    let (stamps, _) = run_with(PAIRS, 1, Nanos::ZERO, Nanos(5000));
    let late: Vec<_> = stamps
        .iter()
        .zip(PAIRS)
        .map(|(at, due)| at.0 - due)
        .collect();
    assert_eq!(late, [0, 2000, 0, 0, 0, 0, 0, 0]);
}
