//! The NFS target against a server in threads, on the loopback: every kind of operation, and every fault.

#![allow(clippy::unwrap_used)]

use bw_load::file_set::make::{self, MakeOptions};
use bw_load::file_set::store::Store;
use bw_load::nfs::{CallCounts, NfsFiles, NfsPlan, NfsSpec, NfsTarget};
use bw_load::target::{Reaped, Target};
use bw_model::{Kind, Nanos, Operation};
use bw_schedule::file_set::FileSet;
use network::{WARM_UP, drive, on, with_warm_up};
use nfs_server::{Action, Called, NfsServer, VERIFIER};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod network;
mod nfs_server;

/// The root, 100 files, a symbolic link, an empty directory: objects 0, 1 to 100, 101 and 102.
fn set() -> Arc<FileSet> {
    let constant = |value: u64| json!({"type": "constant", "value": value});
    let spec = json!({
        "seed": 1, "max_depth": 1, "directories": constant(0), "files": constant(100),
        "symlinks": constant(1), "empty_directories": constant(1), "file_size": constant(65_536),
    });
    Arc::new(FileSet::new(&serde_json::from_value(spec).unwrap()).unwrap())
}

fn spec(server: &NfsServer) -> NfsSpec {
    let port = server.address.port();
    serde_json::from_value(json!({
        "host": "127.0.0.1", "port": port, "mount_port": port, "export": "/x",
        "timeout_ns": 60_000_000_000_u64, "jukebox_retry_ns": 1_000_000,
    }))
    .unwrap()
}

/// Returns a target on all of whose objects the handles are known.
fn open(spec: &NfsSpec) -> NfsTarget {
    let plan = spec.plan(1 << 20).unwrap();
    plan.open(spec.connections, &known(&plan)).unwrap()
}

fn known(plan: &NfsPlan) -> NfsFiles {
    let set = set();
    let files = NfsFiles::new(Arc::clone(&set));
    let mut store = plan.store(&files).unwrap();
    let root = store.top().unwrap();
    (0..set.objects()).for_each(|object| store.keep_open(object, &root).unwrap());
    files
}

fn read(size: u32) -> Operation {
    on(1 + size % 100, Kind::Read, u64::from(size) * 512, size)
}

/// Returns a server that does this with the call of this number, and answers all others.
fn at(number: u64, action: Action) -> NfsServer {
    NfsServer::start(move |called| match called.number == number {
        true => action.clone(),
        false => Action::Answer,
    })
}

#[test]
fn every_kind_of_operation_is_answered() {
    let server = NfsServer::start(|_| Action::Answer);
    let mut target = open(&spec(&server));
    let operations = [
        (on(1, Kind::Read, 8192, 4096), 4096, Some(6)),
        (on(1, Kind::Write, 8192, 5000), 5000, Some(7)),
        (on(2, Kind::Append, 65_536, 100), 100, Some(7)),
        (on(2, Kind::Flush, 0, 0), 0, Some(21)),
        (on(3, Kind::Lookup, 0, 0), 0, Some(3)),
        (on(3, Kind::Open, 0, 0), 0, Some(3)),
        (on(3, Kind::Close, 0, 0), 0, None),
        (on(3, Kind::Getattr, 0, 0), 0, Some(1)),
        (on(3, Kind::Setattr, 0, 0), 0, Some(2)),
        (on(3, Kind::Access, 0, 0), 0, Some(4)),
        (on(101, Kind::Readlink, 0, 0), 0, Some(5)),
        (on(0, Kind::Readdir, 0, 0), 0, Some(16)),
        (on(0, Kind::Readdirplus, 0, 0), 0, Some(17)),
        (on(4, Kind::Remove, 0, 0), 0, Some(12)),
        (on(4, Kind::Create, 0, 0), 0, Some(8)),
        (on(5, Kind::Rename, 0, 0), 0, Some(14)),
        (on(102, Kind::Rmdir, 0, 0), 0, Some(13)),
        (on(102, Kind::Mkdir, 0, 0), 0, Some(9)),
        (on(0, Kind::Fsstat, 0, 0), 0, Some(18)),
        (on(0, Kind::Remove, 0, 0), -libc::EINVAL, None),
        (on(1, Kind::Exchange, 0, 1), -libc::EOPNOTSUPP, None),
        (on(1, Kind::Discard, 0, 1), -libc::EOPNOTSUPP, None),
        (on(1, Kind::Write, 0, (1 << 20) + 1), -libc::EMSGSIZE, None),
        (on(1, Kind::Read, 0, (1 << 20) + 1), -libc::EMSGSIZE, None),
    ];
    for (operation, result, _) in operations {
        assert_eq!(
            drive(&mut target, &[operation]),
            [result],
            "{:?}",
            operation.kind
        );
    }
    let calls = operations
        .iter()
        .filter(|(.., procedure)| procedure.is_some());
    // FSINFO, and GETATTR of the root for the test's own store.
    assert_eq!(server.calls(), calls.count() as u64 + 1);
    let done = target.describe();
    assert_eq!(
        (
            done.counts.reconnects,
            done.counts.malformed_replies,
            done.counts.lookups
        ),
        (0, 0, 0)
    );
    assert_eq!((done.read_bytes, done.write_bytes), (1 << 20, 1 << 20));
}

#[test]
fn thousands_of_calls_on_several_connections_find_their_operations() {
    let server = NfsServer::start(|called: &Called| match called.number % 97 {
        0 => Action::Late(Duration::from_millis(1)),
        1 => Action::Slowly,
        _ => Action::Answer,
    });
    for connections in [1, 3] {
        let mut target = open(&NfsSpec {
            connections,
            outstanding: 40,
            ..spec(&server)
        });
        assert_eq!(target.capacity(), connections * 40);
        let operations: Vec<_> = (0..5000).map(|i| read(i % 3000)).collect();
        let results = drive(&mut target, &operations);
        for (operation, result) in operations.iter().zip(&results) {
            assert_eq!(i64::from(*result), i64::from(operation.size));
        }
        let done = target.describe().counts;
        assert_eq!(
            (done.timeouts, done.late_replies, done.unknown_replies),
            (0, 0, 0)
        );
    }
}

#[test]
fn more_bytes_than_all_buffers_hold_go_out_and_come_in() {
    let server = NfsServer::start(|_| Action::Answer);
    let mut target = open(&NfsSpec {
        connections: 2,
        ..spec(&server)
    });
    let kinds = [Kind::Write, Kind::Read];
    let operations: Vec<_> = (0..256).map(|i| on(1, kinds[i % 2], 77, 1 << 20)).collect();
    assert_eq!(drive(&mut target, &operations), vec![1 << 20; 256]);
    assert!(target.describe().counts.sent_bytes > 128 << 20);
}

#[test]
fn a_postponed_call_is_sent_again_under_another_xid() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let xids = Arc::clone(&seen);
    let server = NfsServer::start(move |called| {
        xids.lock().unwrap().push(called.xid);
        match called.number {
            1 | 2 => Action::Status(10_008),
            _ => Action::Answer,
        }
    });
    let mut target = open(&spec(&server));
    assert_eq!(drive(&mut target, &[read(100)]), [100]);
    assert_eq!(target.describe().counts.jukebox, 2);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 4);
    assert!(seen[1] != seen[2] && seen[2] != seen[3] && seen[1] != seen[3]);
}

#[test]
fn a_status_is_the_result_of_its_operation() {
    for (status, result) in [(70, -libc::ESTALE), (28, -libc::ENOSPC), (10_006, -10_006)] {
        let server = at(2, Action::Status(status));
        let mut target = open(&spec(&server));
        let results = drive(&mut target, &[read(10), read(11), read(12)]);
        let failed: Vec<_> = results.iter().filter(|result| **result < 0).collect();
        assert_eq!(failed, [&result]);
    }
    let server = at(1, Action::Refuse);
    assert_eq!(
        drive(&mut open(&spec(&server)), &[read(10)]),
        [-libc::EOPNOTSUPP]
    );
}

#[test]
fn what_a_server_reads_or_writes_in_parts_is_one_operation() {
    let server = NfsServer::start(|_| Action::Short(1000));
    let mut target = open(&spec(&server));
    let before = server.calls();
    for kind in [Kind::Read, Kind::Write] {
        assert_eq!(drive(&mut target, &[on(1, kind, 8192, 4096)]), [4096]);
    }
    assert_eq!(server.calls() - before, 10);

    // Parts that a lost connection separates, and a server that makes no progress.
    let server = NfsServer::start(|called| match called.number {
        0..=1 => Action::Short(1000),
        2 => Action::Close,
        3..=5 => Action::Short(1000),
        _ => Action::Short(0),
    });
    let mut target = open(&spec(&server));
    assert_eq!(drive(&mut target, &[read(2500)]), [2500]);
    assert_eq!(drive(&mut target, &[read(2500)]), [-libc::EIO]);
    let done = target.describe().counts;
    assert_eq!((done.resent, done.malformed_replies, done.lost), (1, 0, 0));
}

#[test]
fn a_malformed_reply_ends_its_operation_and_noise_the_connection() {
    let server = at(2, Action::Malformed);
    let mut target = open(&spec(&server));
    let mut results = drive(&mut target, &[read(10), read(10), read(10)]);
    results.sort_unstable();
    assert_eq!(results, [-libc::EBADMSG, 10, 10]);
    let done = target.describe().counts;
    assert_eq!((done.malformed_replies, done.reconnects), (1, 0));

    let server = at(2, Action::Noise);
    let mut target = open(&spec(&server));
    let results = drive(&mut target, &[read(10); 30]);
    assert!(
        results
            .iter()
            .all(|result| [10, -libc::EBADMSG].contains(result))
    );
    assert!(results.contains(&-libc::EBADMSG));
    assert_eq!(drive(&mut target, &[read(10); 5]), [10; 5]);
    let done = target.describe().counts;
    assert_eq!((done.malformed_replies, done.reconnects), (1, 1));
    assert_eq!(
        done.lost,
        results.iter().filter(|result| **result < 0).count() as u64
    );
}

#[test]
fn after_a_lost_connection_calls_are_sent_again_unless_a_repetition_is_wrong() {
    for action in [Action::Close, Action::Truncate] {
        let server = at(2, action.clone());
        let mut target = open(&NfsSpec {
            outstanding: 1,
            ..spec(&server)
        });
        assert_eq!(drive(&mut target, &[read(10)]), [10]);
        assert_eq!(drive(&mut target, &[read(10)]), [10]);
        let done = target.describe().counts;
        assert_eq!(
            (done.resent, done.lost, done.reconnects),
            (1, 0, 1),
            "{action:?}"
        );

        let server = at(2, action.clone());
        let mut target = open(&NfsSpec {
            outstanding: 1,
            ..spec(&server)
        });
        assert_eq!(drive(&mut target, &[read(10)]), [10]);
        let removed = drive(&mut target, &[on(1, Kind::Remove, 0, 0)]);
        assert_eq!(removed, [-libc::ECONNRESET]);
        assert_eq!(drive(&mut target, &[read(10)]), [10]);
        let done = target.describe().counts;
        assert_eq!(
            (done.resent, done.lost, done.reconnects),
            (0, 1, 1),
            "{action:?}"
        );
    }
}

#[test]
fn a_server_that_always_closes_ends_each_operation() {
    let server = NfsServer::start(|called| match called.number {
        0 => Action::Answer,
        _ => Action::Close,
    });
    let mut target = open(&spec(&server));
    assert_eq!(drive(&mut target, &[read(10); 3]), [-libc::ECONNRESET; 3]);
    let done = target.describe().counts;
    assert_eq!((done.resent, done.lost), (9, 3));
}

#[test]
fn an_answer_to_another_call_ends_nothing() {
    let server = at(1, Action::WrongXid);
    let limit = Nanos(100_000_000);
    let mut target = open(&NfsSpec {
        timeout_ns: Some(limit),
        ..spec(&server)
    });
    assert_eq!(drive(&mut target, &[read(10)]), [-libc::ETIMEDOUT]);
    assert_eq!(drive(&mut target, &[read(10)]), [10]);
    let done = target.describe().counts;
    assert_eq!(
        (done.timeouts, done.unknown_replies, done.reconnects),
        (1, 1, 0)
    );
}

#[test]
fn a_call_without_an_answer_ends_in_time_and_a_late_answer_is_counted() {
    let server = at(2, Action::Ignore);
    let limit = Nanos(100_000_000);
    let mut target = open(&NfsSpec {
        timeout_ns: Some(limit),
        ..spec(&server)
    });
    let mut results = drive(&mut target, &[read(10); 4]);
    results.sort_unstable();
    assert_eq!(results, [-libc::ETIMEDOUT, 10, 10, 10]);

    let server = at(1, Action::Late(Duration::from_millis(300)));
    let mut target = open(&NfsSpec {
        timeout_ns: Some(limit),
        ..spec(&server)
    });
    assert_eq!(drive(&mut target, &[read(10)]), [-libc::ETIMEDOUT]);
    let mut ends: Vec<Reaped> = Vec::with_capacity(1);
    let patience = Instant::now() + Duration::from_secs(20);
    while target.describe().counts.late_replies == 0 && Instant::now() < patience {
        target.wait(Nanos(10_000_000)).unwrap();
        target.reap(&mut ends).unwrap();
    }
    assert_eq!((ends.len(), target.describe().counts.late_replies), (0, 1));
    assert_eq!(drive(&mut target, &[read(10)]), [10]);
    assert_eq!(target.describe().counts.reconnects, 0);
}

#[test]
fn a_changed_write_verifier_is_counted_once() {
    let server = NfsServer::start(|called| match called.number {
        0..=3 => Action::Answer,
        // The reply of another connection to a write before the restart.
        6 => Action::Verifier(VERIFIER),
        _ if matches!(called.procedure, 7 | 21) => Action::Verifier(*b"restart!"),
        _ => Action::Answer,
    });
    let mut target = open(&spec(&server));
    let write = on(1, Kind::Write, 0, 10);
    for operation in [write, write, write] {
        assert_eq!(drive(&mut target, &[operation]), [10]);
    }
    assert_eq!(target.describe().counts.verifier_changes, 0);
    for _ in 0..3 {
        assert_eq!(drive(&mut target, &[write]), [10]);
    }
    assert_eq!(drive(&mut target, &[on(1, Kind::Flush, 0, 0)]), [0]);
    assert_eq!(target.describe().counts.verifier_changes, 1);
}

#[test]
fn a_handle_that_is_not_known_is_looked_up_first() {
    let server = NfsServer::start(|_| Action::Answer);
    let spec = spec(&server);
    let plan = spec.plan(1 << 20).unwrap();
    let files = NfsFiles::new(set());
    let mut store = plan.store(&files).unwrap();
    let root = store.top().unwrap();
    let mut target = plan.open(1, &files).unwrap();
    // Not even that of the root is known: nothing can be sent.
    assert_eq!(drive(&mut target, &[read(10)]), [-libc::ESTALE]);
    store.keep_open(0, &root).unwrap();
    let results = drive(&mut target, &[read(10)]);
    assert_eq!((results, target.describe().counts.lookups), (vec![10], 1));
    // Now it is known, and after a removal it is not.
    let steps = [
        (read(10), 10, 1),
        (on(11, Kind::Remove, 0, 0), 0, 1),
        (read(10), 10, 2),
    ];
    for (operation, result, lookups) in steps {
        assert_eq!(drive(&mut target, &[operation]), [result]);
        assert_eq!(target.describe().counts.lookups, lookups);
    }
}

#[test]
fn a_file_set_that_is_only_read_is_made_on_a_server_without_files() {
    let server = NfsServer::start(|_| Action::Answer);
    let plan = spec(&server).plan(1 << 20).unwrap();
    let set = set();
    // Every run makes it: the folder never exists.
    for _ in 0..2 {
        let files = NfsFiles::new(Arc::clone(&set));
        let store = || plan.store(&files);
        let report = make::make(&set, MakeOptions::default(), &store, &mut |_| ())
            .unwrap()
            .report;
        assert_eq!((report.made, report.reused), (100, 0));
        let mut target = plan.open(1, &files).unwrap();
        assert_eq!(drive(&mut target, &[read(10)]), [10]);
        // The handle came from the maker.
        assert_eq!(target.describe().counts.lookups, 0);
    }
    // A run that changes the set needs its claim, which the server denies.
    let files = NfsFiles::new(Arc::clone(&set));
    let changing = MakeOptions {
        changes: true,
        ..MakeOptions::default()
    };
    let store = || plan.store(&files);
    let error = make::make(&set, changing, &store, &mut |_| ()).unwrap_err();
    assert!(error.message.contains("lock.json"), "{error:?}");
}

#[test]
fn a_wrong_request_or_server_is_an_error_with_its_field() {
    let server = NfsServer::start(|_| Action::Answer);
    let good = spec(&server);
    let many = NfsSpec {
        connections: 0,
        ..good.clone()
    };
    let handle = NfsSpec {
        root_handle: Some("xyz".into()),
        ..good.clone()
    };
    let export = NfsSpec {
        export: String::new(),
        ..good.clone()
    };
    for (spec, field) in [
        (many, "connections"),
        (handle, "root_handle"),
        (export, "export"),
    ] {
        let error = spec.plan(1 << 20).unwrap_err();
        assert_eq!((error.status, error.code), (2, "bad-request"));
        assert_eq!(
            error.location.unwrap().field.unwrap(),
            format!("target.{field}")
        );
    }
    let many = NfsSpec {
        connections: 4096,
        outstanding: 65_536,
        ..good.clone()
    };
    let plan = many.plan(1 << 20).unwrap();
    let refused = plan.open(4096, &NfsFiles::new(set())).unwrap_err();
    assert_eq!((refused.status, refused.code), (2, "connections"));
    // More than the server states to accept.
    let error = good.plan((1 << 20) + 1).unwrap_err();
    assert_eq!((error.status, error.code), (2, "nfs-size"));
    // Nothing listens there: the listener is closed at once.
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let nobody = NfsSpec {
        mount_port: Some(closed.port()),
        ..good.clone()
    };
    assert_eq!(nobody.plan(1 << 20).unwrap_err().code, "connect");
    // The handle is given: MOUNT is not needed.
    let root_handle = Some("726f6f74".to_owned());
    assert!(
        NfsSpec {
            mount_port: None,
            root_handle,
            ..good
        }
        .plan(1 << 20)
        .is_ok()
    );
}

#[test]
fn calls_of_the_warm_up_are_not_counted() {
    // Once the target is open, the first call of each operation is postponed.
    let postponed = Arc::new(std::sync::Mutex::new(None::<bool>));
    let next = Arc::clone(&postponed);
    let server = NfsServer::start(move |_| match next.lock().unwrap().as_mut() {
        Some(postponed) => {
            *postponed = !*postponed;
            if *postponed {
                Action::Status(10_008)
            } else {
                Action::Answer
            }
        }
        None => Action::Answer,
    });
    let mut target = open(&NfsSpec {
        connections: 1,
        outstanding: 1,
        ..spec(&server)
    });
    *postponed.lock().unwrap() = Some(false);
    target.measure_from(WARM_UP);
    assert_eq!(drive(&mut target, &with_warm_up(read(100), 5, 0)), [100; 5]);
    assert_eq!(target.describe().counts, CallCounts::default());
    assert_eq!(drive(&mut target, &with_warm_up(read(100), 5, 3)), [100; 8]);
    let counts = target.describe().counts;
    assert_eq!(counts.jukebox, 3);
    assert!(counts.sent_bytes > 0, "{counts:?}");
}
