//! A worker's records are allocated by its own thread: on a machine with several memory nodes they are near its CPU.

#![allow(clippy::unwrap_used)]

use bw_load::request::LoadRequest;
use bw_load::run::{RunListener, run};
use bw_model::EngineError;
use serde_json::json;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, with the number of bytes that this thread requested.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; the count is the thread's own and needs no
// allocation, since its initial value is a constant.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: as the trait demands of the caller.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size());
        // SAFETY: the caller's layout.
        unsafe { System.alloc(layout) }
    }
    // SAFETY: as the trait demands of the caller.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size());
        // SAFETY: the caller's layout.
        unsafe { System.alloc_zeroed(layout) }
    }
    // SAFETY: as the trait demands of the caller.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's pointer and layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Notes how much the thread that starts the workers has allocated when they are ready.
struct Armed(usize);

impl RunListener for Armed {
    fn armed(&mut self) -> Result<Option<u64>, EngineError> {
        self.0 = BYTES.get();
        Ok(None)
    }
}

#[test]
fn the_thread_that_starts_workers_allocates_no_records() {
    let access = json!({"kinds": [["read", 1], ["write", 1]], "size": {"type": "constant", "value": 512},
        "location": {"type": "uniform"}, "align_bytes": 512});
    let filament = json!({"type": "closed", "name": "users", "users": 4, "think": {"type": "constant", "value": 0}, "access": access});
    let folder = tempfile::tempdir().unwrap();
    let samples = folder.path().join("samples");
    let request = json!({"target": {"kind": "null"}, "lock_memory": false, "workers": 4, "duration_ns": 10_000_000,
        "samples": samples, "workload": {"seed": 1, "filaments": [filament]}});
    let request: LoadRequest = serde_json::from_value(request).unwrap();
    let mut armed = Armed(0);
    let before = BYTES.get();
    run(&request, &mut armed).unwrap();
    // The rings of messages have 1.6 MB. One kind of one worker has as much in histograms, and its blocks of rows have 14.
    let allocated = armed.0 - before;
    assert!(allocated < 4 << 20, "{allocated} bytes");
}
