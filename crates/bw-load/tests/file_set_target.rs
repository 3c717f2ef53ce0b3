//! Each kind of operation on a file set does what it says, by both engines, checked by the standard library.

#![allow(clippy::unwrap_used)]

use bw_load::file::{Engine, FileTarget};
use bw_load::file_set::dir::{DirSpec, OpenDirectory, SetUse, open};
use bw_load::file_set::make::{FOLDER, contents};
use bw_model::{FileAddress, Kind, Operation};
use bw_schedule::file_set::{FileSet, Object};
use files::{Place, engines, execute, operation};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

#[allow(dead_code)]
mod files;

const CHANGES: SetUse = SetUse {
    changes: true,
    opens: false,
};
const SEED: u64 = 9;

fn set() -> Arc<FileSet> {
    let constant = |value| json!({"type": "constant", "value": value});
    let spec = json!({"seed": SEED, "max_depth": 2, "directories": constant(2), "files": constant(6),
        "symlinks": constant(1), "empty_directories": constant(2), "present_micro": 700_000,
        "file_size": {"type": "uniform", "low": 1, "high": 50_000}});
    Arc::new(FileSet::new(&serde_json::from_value(spec).unwrap()).unwrap())
}

fn spec(top: &Path, engine: Engine, more: Value) -> DirSpec {
    let mut spec = json!({"path": top, "engine": engine, "threads": 4});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    serde_json::from_value(spec).unwrap()
}

/// A set in a directory, with one target on it.
struct Bench {
    set: Arc<FileSet>,
    directory: OpenDirectory,
    target: FileTarget,
    folder: PathBuf,
}

impl Bench {
    fn new(place: &Place, engine: Engine, purpose: SetUse, more: Value) -> Self {
        let spec = spec(place.0.path(), engine, more);
        let directory = open(&spec, set(), purpose, &mut |_| ()).unwrap();
        Self {
            set: set(),
            target: directory.worker(8, 8192).unwrap(),
            directory,
            folder: place.0.path().join(FOLDER),
        }
    }

    fn files(&self, present: bool) -> Vec<u32> {
        let all = (0..self.set.files().len()).map(|index| self.set.number(Object::File(index)));
        all.filter(|file| self.set.is_present(*file) == present)
            .collect()
    }

    fn path(&self, object: u32) -> PathBuf {
        self.folder.join(self.set.path(object, false))
    }

    /// Executes one operation; returns its result and what it read.
    fn execute(&mut self, kind: Kind, object: u32, offset: u64, size: u32) -> (i32, Vec<u8>) {
        self.with_name(kind, object, false, (offset, size))
    }

    fn with_name(
        &mut self,
        kind: Kind,
        object: u32,
        renamed: bool,
        (offset, size): (u64, u32),
    ) -> (i32, Vec<u8>) {
        let mut outcomes = execute(&mut self.target, &[at(kind, object, renamed, offset, size)]);
        outcomes.remove(0)
    }

    fn result(&mut self, kind: Kind, object: u32) -> i32 {
        self.execute(kind, object, 0, 0).0
    }

    /// Returns how many files of the set this process has open.
    fn open_files(&self) -> usize {
        let own = fs::read_dir("/proc/self/fd").unwrap();
        own.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
            .filter(|path| path.starts_with(&self.folder))
            .filter(|path| {
                let name = path.file_name().unwrap().to_str().unwrap();
                name.starts_with(['f', 'r'])
            })
            .count()
    }
}

fn at(kind: Kind, object: u32, renamed: bool, offset: u64, size: u32) -> Operation {
    let address = FileAddress {
        object,
        renamed,
        offset,
    };
    operation(kind, address.pack(), size)
}

/// Runs a test with each engine, with files that are open beforehand and files that each operation opens, on the file
/// system of temporary files and in memory.
fn with_each(test: impl Fn(&mut Bench)) {
    for engine in engines() {
        for more in [
            json!({}),
            json!({"open_files": 0}),
            json!({"open_files": 3}),
        ] {
            for place in [Place::new(), Place::in_directory(Path::new("/dev/shm"))] {
                test(&mut Bench::new(&place, engine, CHANGES, more.clone()));
            }
        }
    }
}

#[test]
fn reads_return_what_the_maker_wrote_up_to_the_end_of_the_file() {
    with_each(|bench| {
        for object in bench.files(true) {
            let Object::File(index) = bench.set.object(object) else {
                panic!("{object} is no file");
            };
            let file = bench.set.files()[index];
            let mut whole = vec![0; file.size as usize];
            contents(SEED, file.directory, file.number, 0, &mut whole);
            for offset in (0..=file.size).step_by(8192) {
                let wanted = &whole[offset as usize..(offset as usize + 8192).min(whole.len())];
                let (result, data) = bench.execute(Kind::Read, object, offset, 8192);
                assert_eq!(result as usize, wanted.len(), "{object} at {offset}");
                assert!(data == wanted);
            }
        }
        let absent = bench.files(false)[0];
        assert_eq!(bench.execute(Kind::Read, absent, 0, 10).0, -libc::ENOENT);
    });
}

#[test]
fn writes_appends_and_flushes_change_their_file_alone() {
    with_each(|bench| {
        let files = bench.files(true);
        let (object, other) = (files[0], files[1]);
        let (path, before) = (bench.path(object), fs::read(bench.path(other)).unwrap());
        let size = fs::metadata(&path).unwrap().len();
        assert_eq!(bench.execute(Kind::Append, object, size, 5000).0, 5000);
        assert_eq!(bench.execute(Kind::Write, object, 0, 8192).0, 8192);
        assert_eq!(bench.result(Kind::Flush, object), 0);
        assert_eq!(fs::metadata(&path).unwrap().len(), (size + 5000).max(8192));
        let (_, data) = bench.execute(Kind::Read, object, 0, 8192);
        assert!(data == fs::read(&path).unwrap()[..8192]);
        assert_eq!(fs::read(bench.path(other)).unwrap(), before);
        let absent = bench.files(false)[0];
        for kind in [Kind::Write, Kind::Append, Kind::Flush] {
            assert_eq!(bench.execute(kind, absent, 0, 10).0, -libc::ENOENT);
        }
        assert!(!bench.path(absent).exists());
    });
}

#[test]
fn attributes_are_read_and_set() {
    with_each(|bench| {
        let (object, absent) = (bench.files(true)[2], bench.files(false)[0]);
        let path = bench.path(object);
        let old = SystemTime::now() - Duration::from_secs(1_000_000);
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_times(fs::FileTimes::new().set_modified(old))
            .unwrap();
        for kind in [Kind::Lookup, Kind::Getattr, Kind::Access, Kind::Setattr] {
            assert_eq!(bench.result(kind, object), 0, "{kind:?}");
            assert_eq!(bench.result(kind, absent), -libc::ENOENT, "{kind:?}");
        }
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        assert!(modified > old + Duration::from_secs(900_000));
    });
}

#[test]
fn files_are_created_emptied_renamed_and_removed() {
    with_each(|bench| {
        let (object, absent) = (bench.files(true)[0], bench.files(false)[0]);
        assert_eq!(bench.result(Kind::Create, absent), 0);
        assert_eq!(fs::metadata(bench.path(absent)).unwrap().len(), 0);
        assert_eq!(bench.execute(Kind::Append, absent, 0, 100).0, 100);
        assert_eq!(fs::metadata(bench.path(absent)).unwrap().len(), 100);
        assert_eq!(bench.result(Kind::Create, absent), 0);
        assert_eq!(fs::metadata(bench.path(absent)).unwrap().len(), 0);

        let second = bench.folder.join(bench.set.path(object, true));
        let before = fs::read(bench.path(object)).unwrap();
        assert_eq!(bench.result(Kind::Rename, object), 0);
        assert!(!bench.path(object).exists() && fs::read(&second).unwrap() == before);
        let (result, data) = bench.with_name(Kind::Read, object, true, (0, 100));
        assert_eq!(
            (result as usize, &data[..]),
            (before.len().min(100), &before[..before.len().min(100)])
        );
        assert_eq!(bench.with_name(Kind::Lookup, object, true, (0, 0)).0, 0);
        assert_eq!(bench.with_name(Kind::Rename, object, true, (0, 0)).0, 0);
        assert!(fs::read(bench.path(object)).unwrap() == before && !second.exists());

        for removed in [object, absent] {
            assert_eq!(bench.result(Kind::Remove, removed), 0);
            assert!(!bench.path(removed).exists());
            for kind in [Kind::Remove, Kind::Rename, Kind::Getattr] {
                assert_eq!(bench.result(kind, removed), -libc::ENOENT, "{kind:?}");
            }
            assert_eq!(bench.execute(Kind::Read, removed, 0, 1).0, -libc::ENOENT);
        }
        assert_eq!(bench.result(Kind::Create, object), 0);
        assert_eq!(bench.execute(Kind::Write, object, 0, 7).0, 7);
        assert_eq!(fs::read(bench.path(object)).unwrap().len(), 7);
    });
}

#[test]
fn directories_and_links_are_made_listed_read_and_removed() {
    with_each(|bench| {
        let set = Arc::clone(&bench.set);
        let empty = |present| {
            (0..set.objects()).find(|object| {
                matches!(set.object(*object), Object::EmptyDirectory(_))
                    && set.is_present(*object) == present
            })
        };
        let (there, absent) = (empty(true).unwrap(), empty(false).unwrap());
        assert_eq!(bench.result(Kind::Mkdir, there), -libc::EEXIST);
        assert_eq!(bench.result(Kind::Rmdir, absent), -libc::ENOENT);
        assert_eq!(
            (
                bench.result(Kind::Rmdir, there),
                bench.result(Kind::Mkdir, absent)
            ),
            (0, 0)
        );
        assert!(!bench.path(there).exists() && bench.path(absent).is_dir());

        for (object, _) in (0..).zip(set.directories()) {
            let inside = fs::read_dir(bench.path(object)).unwrap().count() as i32;
            for kind in [Kind::Readdir, Kind::Readdirplus] {
                assert_eq!(bench.result(kind, object), inside + 2, "with . and ..");
            }
        }
        assert_eq!(bench.result(Kind::Fsstat, 0), 0);
        for index in 0..set.symlinks().len() {
            assert_eq!(
                bench.result(Kind::Readlink, set.number(Object::Symlink(index))),
                0
            );
        }
        fs::remove_file(bench.folder.join("l0")).unwrap();
        let gone = set.number(Object::Symlink(0));
        assert_eq!(bench.result(Kind::Readlink, gone), -libc::ENOENT);
        for kind in [Kind::Discard, Kind::Exchange] {
            assert_eq!(bench.result(kind, 5), -libc::EINVAL);
        }
    });
}

#[test]
fn no_more_files_are_open_than_permitted_and_a_removed_file_is_closed() {
    for engine in engines() {
        for (most, expected) in [(None, usize::MAX), (Some(3), 3), (Some(0), 0)] {
            let place = Place::new();
            let more = json!({"open_files": most});
            let mut bench = Bench::new(&place, engine, CHANGES, more);
            let (present, absent) = (bench.files(true), bench.files(false));
            assert_eq!(
                bench.open_files(),
                expected.min(present.len()),
                "{engine:?}"
            );
            let described = bench.target.description().features.join(", ");
            let words = [
                "all files are open",
                "3 of",
                "each operation opens its file",
            ];
            let index = most.map_or(0, |most| if most == 3 { 1 } else { 2 });
            assert!(described.contains(words[index]), "{described}");
            for object in &absent {
                assert_eq!(bench.result(Kind::Create, *object), 0);
                assert_eq!(bench.execute(Kind::Read, *object, 0, 1).0, 0);
            }
            let all = present.len() + absent.len();
            assert_eq!(bench.open_files(), expected.min(all), "{engine:?}");
            for object in present.iter().chain(&absent) {
                assert_eq!(bench.result(Kind::Remove, *object), 0);
            }
            assert_eq!(bench.open_files(), 0, "{engine:?}");
        }
    }
}

#[test]
fn a_workload_that_opens_files_has_only_those_open() {
    for engine in engines() {
        let place = Place::new();
        let opens = SetUse {
            opens: true,
            ..CHANGES
        };
        let mut bench = Bench::new(&place, engine, opens, json!({}));
        let (object, other) = (bench.files(true)[0], bench.files(true)[1]);
        assert_eq!(bench.open_files(), 0);
        assert_eq!(
            (
                bench.result(Kind::Open, object),
                bench.result(Kind::Open, object)
            ),
            (0, 0)
        );
        assert_eq!(bench.open_files(), 1);
        assert!(
            bench.execute(Kind::Read, object, 0, 1).0 == 1
                && bench.execute(Kind::Read, other, 0, 1).0 == 1
        );
        assert_eq!(
            (bench.result(Kind::Close, object), bench.open_files()),
            (0, 1)
        );
        assert_eq!(
            (bench.result(Kind::Close, object), bench.open_files()),
            (0, 0)
        );
        assert_eq!(bench.result(Kind::Close, object), 0);
        assert_eq!(
            bench.result(Kind::Open, bench.files(false)[0]),
            -libc::ENOENT
        );
    }
}

/// Operations of many kinds in flight at a time end exactly once each, and change nothing outside their files.
#[test]
fn many_operations_of_all_kinds_at_a_time_end_once_each() {
    with_each(|bench| {
        let kinds = [
            Kind::Read,
            Kind::Getattr,
            Kind::Readdirplus,
            Kind::Lookup,
            Kind::Write,
            Kind::Access,
            Kind::Flush,
            Kind::Fsstat,
            Kind::Setattr,
            Kind::Readlink,
        ];
        let files = bench.files(true);
        let links = bench.set.symlinks().len();
        let operations: Vec<_> = (0..3000_usize)
            .map(|number| {
                let kind = kinds[number % kinds.len()];
                let object = match kind {
                    Kind::Readdirplus | Kind::Fsstat => number as u32 % 3,
                    Kind::Readlink => bench.set.number(Object::Symlink(number % links)),
                    _ => files[number * 7 % files.len()],
                };
                at(kind, object, false, 0, 1)
            })
            .collect();
        let outcomes = execute(&mut bench.target, &operations);
        for (operation, (result, _)) in operations.iter().zip(&outcomes) {
            let transfers = matches!(operation.kind, Kind::Read | Kind::Write);
            match operation.kind {
                Kind::Readdirplus => assert!(*result > 2),
                kind => assert_eq!(*result, i32::from(transfers), "{kind:?}"),
            }
        }
        assert_eq!(bench.directory.report().files as usize, files.len());
    });
}

#[test]
fn a_removed_file_is_read_by_those_who_use_it_and_never_another_one() {
    for engine in engines() {
        let place = Place::new();
        let mut bench = Bench::new(&place, engine, CHANGES, json!({}));
        let files = bench.files(true);
        let wanted: Vec<_> = files
            .iter()
            .map(|file| fs::read(bench.path(*file)).unwrap())
            .collect();
        for round in 0..200 {
            let index = round % files.len();
            let object = files[index];
            let mut operations = vec![at(Kind::Read, object, false, 0, 8192); 5];
            operations.insert(round % 5, at(Kind::Remove, object, false, 0, 0));
            operations.push(at(Kind::Create, object, false, 0, 0));
            for (operation, (result, data)) in operations
                .iter()
                .zip(execute(&mut bench.target, &operations))
            {
                if operation.kind == Kind::Read && result > 0 {
                    let expected = &wanted[index][..result as usize];
                    assert!(data == expected, "{engine:?}: the data of another file");
                }
            }
            fs::write(bench.path(object), &wanted[index]).unwrap();
        }
        assert!(bench.open_files() <= files.len());
    }
}

#[test]
fn synchronous_writes_open_files_with_the_flag() {
    for engine in engines() {
        let place = Place::new();
        let bench = Bench::new(
            &place,
            engine,
            CHANGES,
            json!({"synchronous": true, "open_files": 1}),
        );
        let mut flags = Vec::new();
        for entry in fs::read_dir("/proc/self/fd").unwrap() {
            let path = entry.unwrap().path();
            let Ok(file) = fs::read_link(&path) else {
                continue;
            };
            let name = file
                .file_name()
                .unwrap_or_default()
                .to_str()
                .unwrap_or_default();
            if file.starts_with(&bench.folder) && name.starts_with('f') {
                let number = path.file_name().unwrap().to_str().unwrap();
                let about = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap();
                let text = about
                    .lines()
                    .find_map(|line| line.strip_prefix("flags:"))
                    .unwrap();
                flags.push(i32::from_str_radix(text.trim(), 8).unwrap());
            }
        }
        assert_eq!(flags.len(), 1);
        assert_eq!(flags[0] & libc::O_DSYNC, libc::O_DSYNC);
        assert!(fs::metadata(&bench.folder).unwrap().nlink() > 0);
    }
}

#[test]
fn a_number_of_threads_out_of_range_is_refused_at_its_field() {
    let place = Place::new();
    let error = open(
        &spec(place.0.path(), Engine::Auto, json!({"threads": 0})),
        set(),
        CHANGES,
        &mut |_| (),
    )
    .unwrap_err();
    assert_eq!((error.status, error.code), (2, "target-spec"));
    assert_eq!(
        error.location.unwrap().field.as_deref(),
        Some("target.threads")
    );
    assert!(!place.0.path().join(FOLDER).exists());
}
