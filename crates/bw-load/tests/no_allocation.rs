//! After warming up, the worker's loop allocates nothing: allocations are counted, in virtual time.

#![allow(clippy::unwrap_used)]

use bw_load::clock::VirtualClock;
use bw_load::null::{Null, NullSpec};
use bw_load::target::{Reaped, Target};
use bw_load::worker::{Stop, WorkerPlan};
use bw_model::{Nanos, Operation};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io;
use support::{Every, entry, finish, plan};

mod support;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a count of this thread's requests.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; the count is the thread's own and needs no
// allocation, since its initial value is a constant.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: as the trait demands of the caller.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's layout.
        unsafe { System.alloc(layout) }
    }
    // SAFETY: as the trait demands of the caller.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's pointer and layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
            self.looks.push((self.submitted, ALLOCATIONS.get()));
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

#[test]
fn the_loop_allocates_nothing_once_it_is_warm() {
    let clock = VirtualClock::default();
    // Long intervals, because no reporter returns empty ones.
    let plan = WorkerPlan {
        depth: 64,
        interval: Nanos::SECOND,
        ..plan(900)
    };
    let spec = NullSpec {
        service_ns: Nanos(1_000_000),
        stalls: vec![],
    };
    let target = Looking {
        target: Null::new(spec, clock.clone(), 64),
        submitted: 0,
        looks: Vec::with_capacity(100),
    };
    let filaments = entry(vec![Every::second(50_000), Every::second(7_000)]);
    let (finished, _rows) = finish(plan, target, clock, filaments, Stop::default());
    let looks = finished.target.looks;
    let (first, last) = (looks[0], looks[looks.len() - 1]);
    assert!(first.1 > 0, "the allocator counts");
    assert_eq!((first.0, last.0), (1000, 51_000));
    assert_eq!(last.1 - first.1, 0, "allocations in 50,000 operations");
}
