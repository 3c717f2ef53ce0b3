//! The NFS target and its store against a real server, with libnfs as the witness of what was written.

#![allow(clippy::unwrap_used)]

use bw_load::file_set::make::{self, FOLDER, MakeOptions, contents};
use bw_load::nfs::{NfsFiles, NfsPlan, NfsSpec};
use bw_load::target::{Reaped, Target};
use bw_model::{FileAddress, Kind, Nanos, Operation};
use bw_schedule::file_set::{FileSet, Object};
use network::ganesha::{Ganesha, inside};
use network::{drive, on};
use serde_json::json;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod network;

/// Two levels of directories, 78 files of 0 to 300,000 bytes, links and empty directories.
fn set() -> Arc<FileSet> {
    let constant = |value: u64| json!({"type": "constant", "value": value});
    let spec = json!({
        "seed": 7, "max_depth": 2, "directories": constant(2), "files": constant(26),
        "symlinks": constant(1), "empty_directories": constant(1),
        "file_size": {"type": "uniform", "low": 0, "high": 300_000},
        "present_micro": 800_000,
    });
    Arc::new(FileSet::new(&serde_json::from_value(spec).unwrap()).unwrap())
}

fn spec() -> NfsSpec {
    serde_json::from_value(json!({
        "host": "127.0.0.1", "port": Ganesha::PORT, "mount_port": Ganesha::MOUNT_PORT, "export": "/e",
        "timeout_ns": 20_000_000_000_u64,
    }))
    .unwrap()
}

/// Makes the set; returns the plan and the handles.
fn made(spec: &NfsSpec, set: &Arc<FileSet>) -> (NfsPlan, NfsFiles) {
    let plan = spec.plan(1 << 20).unwrap();
    let files = NfsFiles::new(Arc::clone(set));
    let options = MakeOptions {
        replace: false,
        changes: true,
        part: None,
    };
    make::make(set, options, &|| plan.store(&files), &mut |_| ()).unwrap();
    (plan, files)
}

/// Returns the files that exist at the start, with their object numbers.
fn present(set: &FileSet) -> Vec<(u32, bw_schedule::file_set::File)> {
    let files = set.files().iter().enumerate();
    let numbered = files.map(|(index, file)| (set.number(Object::File(index)), *file));
    numbered
        .filter(|(object, _)| set.is_present(*object))
        .collect()
}

#[test]
fn a_made_set_is_what_libnfs_and_the_server_s_own_folder_contain() {
    inside(
        "a_made_set_is_what_libnfs_and_the_server_s_own_folder_contain",
        || {
            let ganesha = Ganesha::start("made");
            let set = set();
            made(&spec(), &set);
            let folder = ganesha.export().join(FOLDER);
            let files = present(&set);
            assert!(files.len() > 40);
            for (object, file) in &files {
                let path = set.path(*object, false);
                let mut expected = vec![0; file.size as usize];
                contents(
                    set.spec().seed,
                    file.directory,
                    file.number,
                    0,
                    &mut expected,
                );
                assert!(fs::read(folder.join(&path)).unwrap() == expected, "{path}");
                assert!(
                    Ganesha::libnfs("nfs-cat", &format!("{FOLDER}/{path}")) == expected,
                    "{path}"
                );
            }
            let listed =
                String::from_utf8(Ganesha::libnfs("nfs-ls", &format!("{FOLDER}/d0"))).unwrap();
            let named = listed
                .lines()
                .filter(|line| line.split_whitespace().last().unwrap().starts_with('f'));
            let first = set.number(Object::Directory(1));
            assert_eq!(
                named.count(),
                files
                    .iter()
                    .filter(|(_, file)| file.directory == first)
                    .count()
            );

            for object in 0..set.objects() {
                let there = folder.join(set.path(object, false)).symlink_metadata();
                assert_eq!(
                    there.is_ok(),
                    set.is_present(object),
                    "{}",
                    set.path(object, false)
                );
            }

            // Again: everything is reused. After damage: only that is repaired.
            let plan = spec().plan(1 << 20).unwrap();
            let handles = NfsFiles::new(Arc::clone(&set));
            let options = MakeOptions {
                replace: false,
                changes: true,
                part: None,
            };
            let again = make::make(&set, options, &|| plan.store(&handles), &mut |_| ())
                .unwrap()
                .report;
            assert_eq!(
                (again.made, again.repaired, again.reused),
                (0, 0, files.len() as u64)
            );
            // By calls, because the server caches what it knows of its folder. (It also caches the size of a file that a
            // CREATE has emptied, so that a listing has the former size for some time.)
            let (damaged, missing) = (&files[0], &files[1]);
            let mut target = plan.open(1, &handles).unwrap();
            let damage = [
                on(damaged.0, Kind::Append, damaged.1.size, 100),
                on(missing.0, Kind::Remove, 0, 0),
            ];
            assert_eq!(drive(&mut target, &damage), [100, 0]);
            let repaired = make::make(&set, options, &|| plan.store(&handles), &mut |_| ())
                .unwrap()
                .report;
            assert_eq!((repaired.made, repaired.repaired), (1, 1));
            let length = fs::metadata(folder.join(set.path(damaged.0, false)))
                .unwrap()
                .len();
            assert_eq!(length, damaged.1.size);
        },
    );
}

#[test]
fn operations_have_the_effect_that_the_server_s_folder_shows() {
    inside(
        "operations_have_the_effect_that_the_server_s_folder_shows",
        || {
            let ganesha = Ganesha::start("operations");
            let set = set();
            let (plan, files) = made(
                &NfsSpec {
                    connections: 2,
                    repeat_data: true,
                    ..spec()
                },
                &set,
            );
            let mut target = plan.open(2, &files).unwrap();
            let folder = ganesha.export().join(FOLDER);
            let all = present(&set);
            let path = |object: u32| folder.join(set.path(object, false));
            let (object, _) = all[0];

            // What is written, without marks, is a function of the offset: in pieces, in any order, from two connections.
            let pieces: Vec<_> = (0..40)
                .map(|i| on(object, Kind::Write, i * 9000, 9000))
                .collect();
            assert_eq!(drive(&mut target, &pieces), [9000; 40]);
            assert_eq!(drive(&mut target, &[on(object, Kind::Flush, 0, 0)]), [0]);
            let in_pieces = fs::read(path(object)).unwrap();
            assert_eq!(in_pieces.len(), 360_000);
            let (other, _) = all[1];
            assert_eq!(
                drive(&mut target, &[on(other, Kind::Write, 0, 360_000)]),
                [360_000]
            );
            let at_once = fs::read(path(other)).unwrap();
            assert!(in_pieces == at_once && in_pieces.iter().any(|byte| *byte != in_pieces[0]));
            let relative = format!("{FOLDER}/{}", set.path(object, false));
            assert!(Ganesha::libnfs("nfs-cat", &relative) == in_pieces);

            let end = [
                on(object, Kind::Read, 359_000, 8192),
                on(object, Kind::Read, 360_000, 8192),
            ];
            assert_eq!(drive(&mut target, &end), [1000, 0]);
            for kind in [
                Kind::Lookup,
                Kind::Open,
                Kind::Getattr,
                Kind::Setattr,
                Kind::Access,
                Kind::Close,
            ] {
                assert_eq!(
                    drive(&mut target, &[on(object, kind, 0, 0)]),
                    [0],
                    "{kind:?}"
                );
            }
            for kind in [Kind::Readdir, Kind::Readdirplus, Kind::Fsstat] {
                assert_eq!(drive(&mut target, &[on(0, kind, 0, 0)]), [0], "{kind:?}");
            }
            let link = set.number(Object::Symlink(0));
            assert_eq!(drive(&mut target, &[on(link, Kind::Readlink, 0, 0)]), [0]);

            let size = || fs::metadata(path(object)).unwrap().len();
            assert_eq!(
                drive(&mut target, &[on(object, Kind::Append, 360_000, 100)]),
                [100]
            );
            assert_eq!(size(), 360_100);
            assert_eq!(drive(&mut target, &[on(object, Kind::Create, 0, 0)]), [0]);
            assert_eq!(size(), 0);
            let other_name = folder.join(set.path(object, true));
            assert_eq!(drive(&mut target, &[on(object, Kind::Rename, 0, 0)]), [0]);
            assert!(other_name.exists() && !path(object).exists());
            let back = FileAddress {
                object,
                renamed: true,
                offset: 0,
            }
            .pack();
            let back = Operation {
                offset: back,
                ..on(object, Kind::Rename, 0, 0)
            };
            assert_eq!(drive(&mut target, &[back]), [0]);
            assert_eq!(drive(&mut target, &[on(object, Kind::Remove, 0, 0)]), [0]);
            assert!(!path(object).exists());
            assert_eq!(
                drive(&mut target, &[on(object, Kind::Remove, 0, 0)]),
                [-libc::ENOENT]
            );
            assert_eq!(
                drive(&mut target, &[on(object, Kind::Read, 0, 1)]),
                [-libc::ENOENT]
            );
            assert_eq!(drive(&mut target, &[on(object, Kind::Create, 0, 0)]), [0]);
            assert_eq!(drive(&mut target, &[on(object, Kind::Write, 0, 10)]), [10]);
            assert_eq!(size(), 10);
            let empty = set.number(Object::EmptyDirectory(0));
            let toggle = if set.is_present(empty) {
                [Kind::Rmdir, Kind::Mkdir]
            } else {
                [Kind::Mkdir, Kind::Rmdir]
            };
            for kind in toggle {
                assert_eq!(
                    drive(&mut target, &[on(empty, kind, 0, 0)]),
                    [0],
                    "{kind:?}"
                );
            }
            let done = target.describe().counts;
            assert_eq!(
                (done.malformed_replies, done.unknown_replies, done.timeouts),
                (0, 0, 0)
            );
            assert_eq!((done.reconnects, done.verifier_changes), (0, 0));
        },
    );
}

#[test]
fn wrong_exports_and_dead_or_restarted_servers_are_reported() {
    inside(
        "wrong_exports_and_dead_or_restarted_servers_are_reported",
        || {
            let mut ganesha = Ganesha::start("faults");
            let set = set();
            let wrong = NfsSpec {
                export: "/nowhere".into(),
                ..spec()
            };
            let error = wrong.plan(1 << 20).unwrap_err();
            assert_eq!((error.status, error.code), (2, "nfs-mount"));
            assert!(
                error
                    .message
                    .contains("/nowhere: not mounted: MNT3ERR_ACCES; the server exports /e"),
                "{error}"
            );
            let wrong = NfsSpec {
                root_handle: Some("00".repeat(32)),
                ..spec()
            };
            assert_eq!(wrong.plan(1 << 20).unwrap_err().code, "nfs");
            // The portmapper knows the ports; over IPv6 only its later versions do.
            for host in ["127.0.0.1", "::1"] {
                let registered = NfsSpec {
                    host: host.into(),
                    port: None,
                    mount_port: None,
                    ..spec()
                };
                registered.plan(1 << 20).unwrap();
            }
            // Another program than NFS.
            let wrong = NfsSpec {
                port: Some(111),
                ..spec()
            };
            assert_eq!(wrong.plan(1 << 20).unwrap_err().code, "nfs");

            let limit = Some(Nanos(300_000_000));
            let (plan, files) = made(&spec(), &set);
            let patient = plan.open(1, &files).unwrap();
            let hasty = NfsSpec {
                timeout_ns: limit,
                ..spec()
            }
            .plan(1 << 20)
            .unwrap();
            let mut target = hasty.open(1, &files).unwrap();
            let (object, _) = present(&set)[0];
            let write = on(object, Kind::Write, 0, 100);
            assert_eq!(drive(&mut target, &[write]), [100]);

            ganesha.pause();
            assert_eq!(drive(&mut target, &[write; 3]), [-libc::ETIMEDOUT; 3]);
            ganesha.signal(libc::SIGCONT);
            let mut ends: Vec<Reaped> = Vec::with_capacity(1);
            let patience = Instant::now() + Duration::from_secs(30);
            while target.describe().counts.late_replies < 3 && Instant::now() < patience {
                target.wait(Nanos(10_000_000)).unwrap();
                target.reap(&mut ends).unwrap();
            }
            let done = target.describe().counts;
            assert_eq!((ends.len(), done.timeouts, done.late_replies), (0, 3, 3));

            let mut target = patient;
            assert_eq!(drive(&mut target, &[write]), [100]);
            ganesha.restart();
            // The connection is lost: the first operation is sent again, on a new one.
            assert_eq!(drive(&mut target, &[write; 2]), [100; 2]);
            let done = target.describe().counts;
            assert_eq!(
                (done.reconnects, done.verifier_changes, done.lost),
                (1, 1, 0)
            );
        },
    );
}

#[test]
fn a_workload_of_every_kind_runs_over_workers_and_connections() {
    let name = "a_workload_of_every_kind_runs_over_workers_and_connections";
    inside(name, || {
        let _ganesha = Ganesha::start("workload");
        let constant = |value: u64| json!({"type": "constant", "value": value});
        let one = |kind: &str| {
            let mut step = json!({"kind": kind});
            if matches!(kind, "read" | "write" | "append") {
                step["size"] = constant(9000);
            }
            json!({"name": kind, "weight": 1, "steps": [step]})
        };
        let mut chains: Vec<_> = [
            "lookup",
            "getattr",
            "setattr",
            "access",
            "readlink",
            "readdir",
            "readdirplus",
            "create",
            "remove",
            "mkdir",
            "rmdir",
            "rename",
            "read",
            "write",
            "append",
            "flush",
            "fsstat",
        ]
        .map(one)
        .into();
        chains.push(json!({"name": "whole", "weight": 2, "steps": [
            {"kind": "open"}, {"kind": "read", "object": "same"}, {"kind": "close", "object": "same"}]}));
        let request = json!({
            "target": {"kind": "nfs", "host": "127.0.0.1", "port": Ganesha::PORT, "mount_port": Ganesha::MOUNT_PORT,
                "export": "/e", "connections": 3},
            "workload": {
                "seed": 3,
                "file_set": {"seed": 1, "max_depth": 2, "directories": constant(3), "files": constant(200),
                    "symlinks": constant(2), "empty_directories": constant(200), "file_size": constant(2_000),
                    "present_micro": 700_000},
                "filaments": [{"type": "files", "users": 12, "chains": chains}],
            },
            "duration_ns": 1_000_000_000, "workers": 2, "lock_memory": false,
        });
        let request = serde_json::from_value(request).unwrap();
        let result = bw_load::run::run(&request, &mut ()).unwrap();
        let result = serde_json::to_value(result).unwrap();
        let counts = &result["counts"];
        assert!(counts["completed"].as_u64().unwrap() > 1000, "{counts}");
        assert_eq!(counts["unfinished"], 0);
        assert_eq!(result["target"]["connections"], 3);
        assert_eq!(result["target"]["malformed_replies"], 0);
        // Every kind was executed, and every chain.
        let kinds = result["kinds"].as_object().unwrap();
        for (name, kind) in kinds {
            assert!(kind["operations"].as_u64().unwrap() > 0, "{name}");
            // Ganesha may fail to list a directory from which an entry is removed meanwhile.
            if !name.starts_with("readdir") && name != "all" {
                assert_eq!(kind["errors"], json!({}), "{name}");
            }
        }
        assert_eq!(kinds.len(), 20, "{:?}", kinds.keys());
        let sequences = result["sequences"].as_object().unwrap();
        assert_eq!(sequences.len(), 18);
        assert_eq!(result["file_set"]["made"]["reused"], 0);
    });
}
