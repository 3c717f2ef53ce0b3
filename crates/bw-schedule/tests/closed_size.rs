//! The memory of a million users of a closed loop, counted by the allocator.

#![allow(
    clippy::unwrap_used,
    reason = "a test may unwrap, in its own functions too"
)]

use bw_schedule::workload::Placement;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use workloads::{build, workload};

mod workloads;

/// The system's allocator, with a count of the bytes that are allocated and not freed.
struct Counting;

static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: both calls are the system's, with the arguments unchanged; `realloc` and `alloc_zeroed`
// are the trait's own, made of these two.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `dealloc`'s contract, and the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn bytes_per_user(location: &str) -> usize {
    const USERS: usize = 1_000_000;
    let access = workloads::access(r#"["read",70],["write",30]"#, location);
    let text = format!(
        r#"{{"type":"closed","users":{USERS},"think":{{"type":"exponential","mean":1000000000}},{access}}}"#
    );
    let workload = workload(&text);
    let before = HELD_BYTES.load(Ordering::Relaxed);
    let filaments = build(&workload, Placement::ALONE).unwrap();
    let held = HELD_BYTES.load(Ordering::Relaxed) - before;
    assert_eq!(filaments.len(), USERS);
    held / USERS
}

#[test]
fn a_million_users_fit_in_200_bytes_each() {
    for location in ["uniform", "sequential"] {
        let bytes = bytes_per_user(location);
        println!("{location}: {bytes} bytes per user");
        assert!(bytes < 200, "{location}: {bytes}");
    }
}
