//! A worker on a CPU that others compete for, in virtual time: one that is preempted while it spins sleeps instead, and one
//! that is held up by something else spins on.

#![allow(clippy::unwrap_used)]

use bw_load::clock::{Clock, VirtualClock};
use bw_load::null::{Null, NullSpec};
use bw_load::policy::SpinMargin;
use bw_load::worker::{Stop, WorkerPlan};
use bw_model::Nanos;
use std::cell::Cell;
use std::rc::Rc;
use support::{Every, entry, finish, plan};

mod support;

/// What one reading of the clock takes.
const READING: Nanos = Nanos(100);
/// The time slice of the neighbour, and how long the worker may run without a sleep before the neighbour gets it.
const SLICE: Nanos = Nanos(3_000_000);

/// By how much a sleep is too long: enough to spin all the time, at 10,000 operations a second.
const OVERSLEEP: Nanos = Nanos(100_000);

/// A clock on a shared CPU: whoever has run for a slice without a sleep waits for one.
#[derive(Clone)]
struct SharedCpu {
    clock: VirtualClock,
    ran: Rc<Cell<u64>>,
    waits: Rc<Cell<u64>>,
    /// How often its time slices were changed.
    changes: Rc<Cell<u64>>,
    /// Whether the waits are preemptions of the thread, or pauses of the whole machine.
    preempts: bool,
}

impl Clock for SharedCpu {
    fn now(&mut self) -> Nanos {
        self.clock.advance(READING);
        self.ran.set(self.ran.get() + READING.0);
        if self.ran.get() >= SLICE.0 {
            self.clock.advance(SLICE);
            self.ran.set(0);
            self.waits.set(self.waits.get() + 1);
        }
        self.clock.now()
    }

    fn sleep(&mut self, length: Nanos) {
        self.clock.advance(length + OVERSLEEP);
        self.ran.set(0);
    }

    fn preemptions(&self) -> u64 {
        if self.preempts { self.waits.get() } else { 0 }
    }

    fn want_short_slices(&self, short: bool) {
        assert_eq!(short, self.changes.get().is_multiple_of(2));
        self.changes.set(self.changes.get() + 1);
    }
}

/// Returns how often the worker waited for the CPU and changed its time slices in four seconds at 10,000 operations a second, and which share of them was
/// issued more than 1 ms late.
fn waits_and_late_share(preempts: bool) -> (u64, u64, f64) {
    let clock = VirtualClock::default();
    let cpu = SharedCpu {
        clock: clock.clone(),
        ran: Rc::default(),
        waits: Rc::default(),
        changes: Rc::default(),
        preempts,
    };
    let plan = WorkerPlan {
        spin_margin: SpinMargin::REAL,
        ..plan(4000)
    };
    let target = Null::new(NullSpec::default(), clock, plan.depth);
    let filaments = entry(vec![Every::second(10_000)]);
    let (_, mut rows) = finish(plan, target, cpu.clone(), filaments, Stop::default());
    let rows: Vec<_> = std::iter::from_fn(|| rows.take()).flatten().collect();
    assert_eq!(rows.len(), 40_000);
    let late = rows
        .iter()
        .filter(|row| row.issued.since(row.intended).0 > 1_000_000);
    (
        cpu.waits.get(),
        cpu.changes.get(),
        late.count() as f64 / 40_000.0,
    )
}

#[test]
fn a_worker_that_was_preempted_while_it_spun_sleeps_instead() {
    let (waits, changes, late) = waits_and_late_share(true);
    // At the start, after one second, and after two more: 7 slices each are 2 % of a second.
    assert_eq!((waits, changes), (21, 5));
    assert!(late < 0.015, "{late}");
}

#[test]
fn a_worker_that_the_whole_machine_holds_up_spins_on() {
    let (waits, changes, late) = waits_and_late_share(false);
    assert!(waits > 500 && changes == 0, "{waits}, {changes}");
    assert!(late > 0.2, "{late}");
}
