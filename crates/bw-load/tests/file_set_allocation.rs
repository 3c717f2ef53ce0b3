//! Operations on a file set allocate nothing, in the worker and in its pool of threads: all allocations are counted.

#![allow(clippy::unwrap_used)]

use bw_load::file_set::dir::{DirSpec, SetUse, open};
use bw_load::target::{Reaped, Target};
use bw_model::{FileAddress, Kind, Nanos, Operation};
use bw_schedule::file_set::{FileSet, Object};
use files::{Place, engines, operation};
use serde_json::json;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[allow(dead_code)]
mod files;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// The system's allocator, with a count of requests.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: as the trait demands of the caller.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
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

/// Returns one operation of each kind, in an order in which all succeed.
fn operations(set: &FileSet) -> Vec<Operation> {
    let (file, link) = (set.number(Object::File(0)), set.number(Object::Symlink(0)));
    let empty = set.number(Object::EmptyDirectory(0));
    let at = |kind, object, renamed, size| {
        let address = FileAddress {
            object,
            renamed,
            offset: 0,
        };
        operation(kind, address.pack(), size)
    };
    let mut operations = vec![
        at(Kind::Rmdir, empty, false, 0),
        at(Kind::Mkdir, empty, false, 0),
        at(Kind::Readlink, link, false, 0),
        at(Kind::Readdir, 0, false, 0),
        at(Kind::Readdirplus, 0, false, 0),
        at(Kind::Fsstat, 0, false, 0),
        at(Kind::Rename, file, false, 0),
        at(Kind::Rename, file, true, 0),
        at(Kind::Remove, file, false, 0),
        at(Kind::Create, file, false, 0),
        at(Kind::Append, file, false, 4096),
    ];
    let others = [
        Kind::Open,
        Kind::Read,
        Kind::Write,
        Kind::Flush,
        Kind::Lookup,
        Kind::Getattr,
        Kind::Setattr,
        Kind::Access,
        Kind::Close,
    ];
    operations.extend(others.map(|kind| at(kind, file, false, 4096)));
    operations
}

#[test]
fn operations_on_a_file_set_allocate_nothing() {
    let constant = |value| json!({"type": "constant", "value": value});
    let spec = json!({"seed": 1, "max_depth": 1, "directories": constant(0), "files": constant(3),
        "symlinks": constant(1), "empty_directories": constant(1), "file_size": constant(5000)});
    let set = Arc::new(FileSet::new(&serde_json::from_value(spec).unwrap()).unwrap());
    let operations = operations(&set);
    for engine in engines() {
        for open_files in [0, 100] {
            let place = Place::new();
            let spec = json!({"path": place.0.path(), "engine": engine, "threads": 2, "open_files": open_files});
            let spec: DirSpec = serde_json::from_value(spec).unwrap();
            let uses = SetUse {
                changes: true,
                opens: true,
            };
            let directory = open(&spec, Arc::clone(&set), uses, &mut |_| ()).unwrap();
            let mut target = directory.worker(2, 8192).unwrap();
            let mut ends: Vec<Reaped> = Vec::with_capacity(2);
            let mut round = || {
                for operation in &operations {
                    target.submit(0, operation);
                    target.flush().unwrap();
                    while ends.is_empty() {
                        target.wait(Nanos::SECOND).unwrap();
                        target.reap(&mut ends).unwrap();
                    }
                    let result = ends.drain(..).next().unwrap().result;
                    assert!(result >= 0, "{operation:?}: {result}");
                }
            };
            round();
            // A thread of the pool that begins late allocates what it needs: then the next rounds are counted.
            let mut allocated = || {
                let before = ALLOCATIONS.load(Ordering::Relaxed);
                assert!(before > 0, "the allocator counts");
                (0..20).for_each(|_| round());
                ALLOCATIONS.load(Ordering::Relaxed) - before
            };
            let counts: Vec<u64> = (0..3).map(|_| allocated()).collect();
            assert!(
                counts.contains(&0),
                "{engine:?}, {open_files} open files: {counts:?}"
            );
        }
    }
}
