//! After it was opened, the NFS target allocates nothing, whatever the operations: allocations of its thread are counted.

#![allow(clippy::unwrap_used)]

use bw_load::file_set::store::Store;
use bw_load::nfs::{NfsFiles, NfsSpec};
use bw_load::target::{Reaped, Target};
use bw_model::{FileAddress, Kind, Nanos, Operation};
use bw_schedule::file_set::FileSet;
use counting::allocations;
use nfs_server::{Action, NfsServer};
use serde_json::json;
use std::sync::Arc;

#[path = "../../bw-sys/tests/counting/mod.rs"]
mod counting;
mod nfs_server;

/// Every kind that sends a call on a file, with its size.
const KINDS: [(Kind, u32); 14] = [
    (Kind::Read, 8192),
    (Kind::Write, 8192),
    (Kind::Append, 100),
    (Kind::Flush, 0),
    (Kind::Lookup, 0),
    (Kind::Open, 0),
    (Kind::Getattr, 0),
    (Kind::Setattr, 0),
    (Kind::Access, 0),
    (Kind::Fsstat, 0),
    (Kind::Rename, 0),
    (Kind::Remove, 0),
    (Kind::Create, 0),
    (Kind::Close, 0),
];

#[test]
fn operations_allocate_nothing() {
    let server = NfsServer::start(|called| match called.number % 1000 {
        500 => Action::Status(10_008),
        700 => Action::Status(70),
        _ => Action::Answer,
    });
    let constant = |value: u64| json!({"type": "constant", "value": value});
    let set = json!({"seed": 1, "max_depth": 1, "directories": constant(0), "files": constant(50), "file_size": constant(0)});
    let set = Arc::new(FileSet::new(&serde_json::from_value(set).unwrap()).unwrap());
    let port = server.address.port();
    let spec = json!({"host": "127.0.0.1", "port": port, "mount_port": port, "export": "/x", "connections": 2,
        "outstanding": 32, "jukebox_retry_ns": 1_000_000});
    let spec: NfsSpec = serde_json::from_value(spec).unwrap();
    let plan = spec.plan(1 << 20).unwrap();
    let files = NfsFiles::new(Arc::clone(&set));
    let mut store = plan.store(&files).unwrap();
    let root = store.top().unwrap();
    (0..set.objects()).for_each(|object| store.keep_open(object, &root).unwrap());
    let mut target = plan.open(2, &files).unwrap();

    let mut ends: Vec<Reaped> = Vec::with_capacity(16);
    let mut idle: Vec<u32> = (0..target.capacity()).collect();
    let (mut begun, mut ended) = (0_u32, 0_u32);
    let before = allocations();
    while ended < 50_000 {
        while begun < 50_000
            && let Some(slot) = idle.pop()
        {
            let (kind, size) = KINDS[begun as usize % KINDS.len()];
            let address = FileAddress {
                object: 1 + begun % 50,
                renamed: false,
                offset: u64::from(begun) * 512,
            };
            let operation = Operation::new(kind, address.pack(), size);
            target.submit(slot, &operation);
            begun += 1;
        }
        target.flush().unwrap();
        target.reap(&mut ends).unwrap();
        if ends.is_empty() {
            target.wait(Nanos::SECOND).unwrap();
        }
        for end in ends.drain(..) {
            idle.push(end.slot);
            ended += 1;
        }
    }
    assert_eq!(
        allocations() - before,
        0,
        "allocations in 50,000 operations"
    );
    assert!(before > 0, "the allocator counts");
    let done = target.describe().counts;
    assert!(done.jukebox > 0 && done.malformed_replies == 0, "{done:?}");
}
