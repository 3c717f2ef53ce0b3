//! The allocator of tests that count allocations; a test of any crate includes this file by its path.

// Each test uses some of it.
#![allow(dead_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static HELD_BYTES: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator, with counts of this thread's requests.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; the counts are the thread's own and need no
// allocation, since their initial values are constants.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: as the trait demands of the caller.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        HELD_BYTES.set(HELD_BYTES.get() + layout.size() as i64);
        // SAFETY: the caller's layout.
        unsafe { System.alloc(layout) }
    }
    // SAFETY: as the trait demands of the caller.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD_BYTES.set(HELD_BYTES.get() - layout.size() as i64);
        // SAFETY: the caller's pointer and layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns how often this thread has asked for memory.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Returns how much memory this thread holds [bytes], less what others have freed for it.
pub(crate) fn held_bytes() -> i64 {
    HELD_BYTES.get()
}
