//! File sets on a mounted directory: made, re-used, grown, repaired, refused.

#![allow(clippy::unwrap_used)]

use bw_load::file_set::directory::DirectoryStore;
use bw_load::file_set::make::{FOLDER, MANIFEST, Made, MakeOptions, MakeReport, contents, make};
use bw_load::file_set::store::{Entry, EntryKind, Space, Store};
use bw_model::EngineError;
use bw_schedule::file_set::{FileSet, Object};
use files::{Place, tool};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

#[allow(dead_code)]
mod files;

const READS: MakeOptions = MakeOptions {
    replace: false,
    changes: false,
    part: None,
};
const CHANGES: MakeOptions = MakeOptions {
    replace: false,
    changes: true,
    part: None,
};

/// A set with all types of objects, of which a fifth does not exist at the start.
fn set_of(files: u64) -> FileSet {
    described(json!({"files": {"type": "constant", "value": files}}))
}

fn described(changes: Value) -> FileSet {
    let constant = |value| json!({"type": "constant", "value": value});
    let mut spec = json!({"seed": 5, "max_depth": 3, "directories": constant(2), "files": constant(4),
        "symlinks": constant(2), "empty_directories": constant(3), "present_micro": 800_000,
        "file_size": {"type": "weighted", "values": [[0, 1], [1, 2], [3000, 2], [70_000, 2], [1_100_000, 1]]}});
    for (field, value) in changes.as_object().unwrap() {
        spec[field] = value.clone();
    }
    FileSet::new(&serde_json::from_value(spec).unwrap()).unwrap()
}

fn at(top: &Path) -> impl Fn() -> Result<DirectoryStore, EngineError> {
    move || Ok(DirectoryStore::new(top))
}

fn made(set: &FileSet, options: MakeOptions, top: &Path) -> MakeReport {
    make(set, options, &at(top), &mut |_| ()).unwrap().report
}

fn refused(set: &FileSet, options: MakeOptions, top: &Path) -> EngineError {
    make(set, options, &at(top), &mut |_| ()).unwrap_err()
}

/// An object: type and mode, inode, time, contents.
type About = (u32, u64, [i64; 2], Vec<u8>);

/// Returns everything below a directory.
fn tree(top: &Path) -> BTreeMap<PathBuf, About> {
    let mut found = BTreeMap::new();
    let mut left = vec![top.to_owned()];
    while let Some(path) = left.pop() {
        let about = fs::symlink_metadata(&path).unwrap();
        let kind = about.file_type();
        let bytes = if kind.is_symlink() {
            fs::read_link(&path)
                .unwrap()
                .into_os_string()
                .into_encoded_bytes()
        } else if kind.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        if kind.is_dir() {
            left.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
        // The claim of a run is a file that comes and goes in the set's folder.
        let times = match path.ends_with(FOLDER) {
            true => [0; 2],
            false => [about.mtime(), about.mtime_nsec()],
        };
        let about = (about.mode(), about.ino(), times, bytes);
        found.insert(path, about);
    }
    found
}

/// Asserts that the folder contains the set, its files `beyond` it, and nothing else.
fn assert_is(set: &FileSet, top: &Path, beyond: usize) {
    let folder = top.join(FOLDER);
    let mut expected = 1; // the manifest
    for object in (0..set.objects()).filter(|object| set.is_present(*object)) {
        expected += 1;
        let path = folder.join(set.path(object, false));
        let about = fs::symlink_metadata(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        match set.object(object) {
            Object::Directory(_) | Object::EmptyDirectory(_) => assert!(about.is_dir()),
            Object::Symlink(index) => {
                let text = fs::read_link(&path).unwrap();
                assert_eq!(text.to_str(), Some(set.symlink_text(index).as_str()));
            }
            Object::File(index) => {
                let file = set.files()[index];
                let mut wanted = vec![0; file.size as usize];
                contents(5, file.directory, file.number, 0, &mut wanted);
                assert!(
                    about.is_file() && fs::read(&path).unwrap() == wanted,
                    "{path:?}"
                );
            }
        }
    }
    assert_eq!(tree(&folder).len(), expected + beyond);
}

fn state(top: &Path) -> String {
    let text = fs::read(top.join(FOLDER).join(MANIFEST)).unwrap();
    let manifest: Value = serde_json::from_slice(&text).unwrap();
    manifest["state"].as_str().unwrap().to_owned()
}

#[test]
fn a_set_is_made_whole_and_used_again_without_a_change() {
    let place = Place::new();
    let set = set_of(6);
    let report = made(&set, READS, place.0.path());
    assert_is(&set, place.0.path(), 0);
    assert_eq!(
        (report.made, report.reused, report.repaired),
        (report.files, 0, 0)
    );
    assert_eq!(report.bytes, set.bytes());
    assert_eq!(state(place.0.path()), "clean");
    let before = tree(place.0.path());
    let again = made(&set, READS, place.0.path());
    assert_eq!(
        (again.made, again.reused, again.removed),
        (0, report.files, 0)
    );
    assert_eq!(tree(place.0.path()), before);
    made(&set, CHANGES, place.0.path());
    assert_eq!(state(place.0.path()), "used");
    made(&set, READS, place.0.path());
    assert_eq!(
        state(place.0.path()),
        "used",
        "what a run has written is still there"
    );
}

#[test]
fn a_set_grows_by_what_is_new_and_a_smaller_one_leaves_the_rest() {
    let place = Place::new();
    let (small, large) = (set_of(3), set_of(9));
    made(&small, READS, place.0.path());
    let before = tree(place.0.path());
    let report = made(&large, READS, place.0.path());
    assert_is(&large, place.0.path(), 0);
    assert_eq!(report.made + report.reused, report.files);
    let after = tree(place.0.path());
    let files = before
        .iter()
        .filter(|(_, about)| about.0 & libc::S_IFMT == libc::S_IFREG);
    let mut kept = 0;
    for (path, about) in files.filter(|(path, _)| !path.ends_with(MANIFEST)) {
        assert_eq!(after.get(path), Some(about), "{path:?}");
        kept += 1;
    }
    assert_eq!(report.reused, kept);
    let report = made(&small, READS, place.0.path());
    assert_eq!((report.made, report.removed, report.reused), (0, 0, kept));
    let beyond = report.beyond as usize;
    assert!(beyond > 0);
    assert_is(&small, place.0.path(), beyond);
}

#[test]
fn what_a_run_changed_is_restored() {
    let place = Place::new();
    let set = set_of(40);
    made(&set, CHANGES, place.0.path());
    let folder = place.0.path().join(FOLDER);
    let paths = |present: bool| {
        let files = (0..set.files().len()).map(|index| set.number(Object::File(index)));
        files
            .filter(|object| set.is_present(*object) == present)
            .map(|object| folder.join(set.path(object, false)))
            .collect::<Vec<_>>()
    };
    let (present, absent) = (paths(true), paths(false));
    let second = |path: &Path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        path.with_file_name(name.replace('f', "r"))
    };
    fs::remove_file(&present[0]).unwrap();
    fs::write(&absent[0], b"created").unwrap();
    fs::rename(&present[1], second(&present[1])).unwrap();
    fs::copy(&present[2], second(&present[2])).unwrap();
    fs::write(second(&absent[1]), b"created and renamed").unwrap();
    for (path, size) in [(&present[3], 5_000_000), (&present[4], 0)] {
        fs::File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(size)
            .unwrap();
    }
    fs::remove_file(folder.join("d1/l0")).unwrap();
    let mut empty = (0..set.objects()).filter(|object| {
        set.is_present(*object) && matches!(set.object(*object), Object::EmptyDirectory(_))
    });
    fs::remove_dir(folder.join(set.path(empty.next().unwrap(), false))).unwrap();
    let report = made(&set, READS, place.0.path());
    assert_is(&set, place.0.path(), 0);
    assert_eq!((report.made, report.removed), (1, 3));
    let sizes = set.files().iter().map(|file| file.size);
    assert!(sizes.max() < Some(5_000_000));
    assert!((2..=3).contains(&report.repaired), "{report:?}");
    let counted = report.made + report.repaired + report.reused;
    assert_eq!(counted, report.files, "each file counts once: {report:?}");
    fs::remove_dir_all(folder.join("d1")).unwrap();
    made(&set, READS, place.0.path());
    assert_is(&set, place.0.path(), 0);
}

/// A store whose device fails after a number of changes.
#[derive(Clone)]
struct Failing {
    store: DirectoryStore,
    left: Arc<AtomicI64>,
}

impl Failing {
    fn count(&self) -> io::Result<()> {
        match self.left.fetch_sub(1, Ordering::Relaxed) {
            left if left > 0 => Ok(()),
            _ => Err(io::Error::from_raw_os_error(libc::EIO)),
        }
    }
}

type Open = <DirectoryStore as Store>::Open;

impl Store for Failing {
    type Open = Open;
    type Mark = ();

    fn name(&self) -> String {
        self.store.name()
    }
    fn top(&mut self) -> io::Result<Open> {
        self.store.top()
    }
    fn list(&mut self, directory: &Open) -> io::Result<Vec<Entry<()>>> {
        self.store.list(directory)
    }
    fn open(&mut self, directory: &Open, entry: &Entry<()>) -> io::Result<Open> {
        self.store.open(directory, entry)
    }
    fn make_directory(&mut self, directory: &Open, name: &str) -> io::Result<Open> {
        self.count()?;
        self.store.make_directory(directory, name)
    }
    fn create(&mut self, directory: &Open, name: &str) -> io::Result<Open> {
        self.count()?;
        self.store.create(directory, name)
    }
    fn symlink(&mut self, directory: &Open, name: &str, text: &str) -> io::Result<()> {
        self.count()?;
        self.store.symlink(directory, name, text)
    }
    fn read_link(&mut self, directory: &Open, entry: &Entry<()>) -> io::Result<Vec<u8>> {
        self.store.read_link(directory, entry)
    }
    fn read(&mut self, file: &Open, offset: u64, data: &mut [u8]) -> io::Result<usize> {
        self.store.read(file, offset, data)
    }
    fn write(&mut self, file: &Open, offset: u64, data: &[u8]) -> io::Result<()> {
        if let Err(error) = self.count() {
            // A part is written.
            self.store.write(file, offset, &data[..data.len() / 2])?;
            return Err(error);
        }
        self.store.write(file, offset, data)
    }
    fn set_size(&mut self, file: &Open, bytes: u64) -> io::Result<()> {
        self.count()?;
        self.store.set_size(file, bytes)
    }
    fn finish(&mut self, file: &Open) -> io::Result<()> {
        self.store.finish(file)
    }
    fn remove(&mut self, directory: &Open, name: &str, kind: EntryKind) -> io::Result<()> {
        self.count()?;
        self.store.remove(directory, name, kind)
    }
    fn rename(&mut self, directory: &Open, from: &str, to: &str) -> io::Result<()> {
        self.count()?;
        self.store.rename(directory, from, to)
    }
    fn space(&mut self, directory: &Open) -> io::Result<Option<Space>> {
        self.store.space(directory)
    }
    fn settle(&mut self, directory: &Open) -> io::Result<()> {
        self.count()?;
        self.store.settle(directory)
    }
}

fn failing(
    set: &FileSet,
    options: MakeOptions,
    top: &Path,
    changes: i64,
) -> Result<Made<Open>, EngineError> {
    let store = Failing {
        store: DirectoryStore::new(top),
        left: Arc::new(AtomicI64::new(changes)),
    };
    make(set, options, &|| Ok(store.clone()), &mut |_| ())
}

#[test]
fn a_maker_that_ends_anywhere_is_continued() {
    let set = set_of(3);
    let mut failures = 0;
    for changes in 0.. {
        // In memory: syncfs of a disk would wait for what others write.
        let place = Place::in_directory(Path::new("/dev/shm"));
        if failing(&set, READS, place.0.path(), changes).is_ok() {
            break;
        }
        failures += 1;
        let folder = place.0.path().join(FOLDER);
        if folder.join(MANIFEST).exists() {
            assert_eq!(state(place.0.path()), "making", "after {changes} changes");
        }
        // It ends a second time, a few changes later, and is complete at the third attempt.
        drop(failing(&set, READS, place.0.path(), 10));
        made(&set, READS, place.0.path());
        assert_is(&set, place.0.path(), 0);
        assert_eq!(state(place.0.path()), "clean");
    }
    assert!(failures > 50, "{failures}");
}

#[test]
fn another_set_is_replaced_only_on_request_and_an_interrupted_replacement_is_repeated() {
    let (other, set) = (described(json!({"seed": 6, "max_depth": 4})), set_of(3));
    let replace = MakeOptions {
        replace: true,
        ..READS
    };
    let place = Place::new();
    made(&other, READS, place.0.path());
    let before = tree(place.0.path());
    assert_eq!(
        refused(&set, READS, place.0.path()).code,
        "file-set-differs"
    );
    assert_eq!(tree(place.0.path()), before);
    assert!(failing(&set, replace, place.0.path(), 20).is_err());
    assert!(failing(&set, replace, place.0.path(), 60).is_err());
    let report = made(&set, replace, place.0.path());
    assert_eq!(report.reused + report.made, report.files);
    assert_is(&set, place.0.path(), 0);
    assert_eq!(made(&set, READS, place.0.path()).made, 0);
}

/// Asserts that a set in a folder that `plant` prepares is refused, and that nothing changes, inside or outside.
fn assert_refused(what: &str, plant: impl Fn(&Path, &Path)) {
    let set = set_of(3);
    let place = Place::new();
    let (top, outside) = (place.file("top"), place.file("outside"));
    fs::create_dir_all(outside.join("d0")).unwrap();
    fs::create_dir(&top).unwrap();
    fs::write(outside.join("f0"), b"precious").unwrap();
    fs::write(top.join("f0"), b"precious").unwrap();
    plant(&top.join(FOLDER), &outside);
    let before = tree(place.0.path());
    for replace in [false, true] {
        let options = MakeOptions {
            replace,
            changes: true,
            part: None,
        };
        let error = refused(&set, options, &top);
        assert_eq!(
            (error.status, error.code),
            (2, "file-set-foreign"),
            "{what}: {error}"
        );
        assert!(error.message.contains(FOLDER), "{what}: {error}");
        assert_eq!(tree(place.0.path()), before, "{what}");
    }
}

#[test]
fn a_folder_that_is_not_ours_is_refused_and_not_touched() {
    assert_refused("a file", |folder, _| fs::write(folder, b"mine").unwrap());
    assert_refused("a link to a directory", |folder, outside| {
        symlink(outside, folder).unwrap();
    });
    assert_refused("no manifest", |folder, _| {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("f0"), b"mine").unwrap();
    });
    assert_refused("no manifest but hidden files", |folder, _| {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join(".profile"), b"mine").unwrap();
    });
    for manifest in [
        &b"{"[..],
        b"\xff\xfe",
        b"",
        b"{}",
        b"[]",
        br#"{"schema":"benchwright-file-set/2","tables":"0","seed":1,"files":1,"bytes":1,"state":"clean"}"#,
        br#"{"schema":"benchwright-file-set/1","tables":"0","seed":1,"files":1,"bytes":1,"state":"odd"}"#,
    ] {
        assert_refused("a manifest that is garbage", |folder, _| {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join(MANIFEST), manifest).unwrap();
        });
    }
    assert_refused("a manifest that is very long", |folder, _| {
        fs::create_dir(folder).unwrap();
        fs::File::create(folder.join(MANIFEST))
            .unwrap()
            .set_len(10 << 20)
            .unwrap();
    });
    assert_refused("a manifest that is a link", |folder, outside| {
        fs::create_dir(folder).unwrap();
        symlink(outside.join("f0"), folder.join(MANIFEST)).unwrap();
    });
}

#[test]
fn a_set_with_foreign_objects_in_it_is_refused_and_not_touched() {
    type Plant = fn(&Path, &Path);
    let traps: [(&str, Plant); 9] = [
        ("a file", |folder, _| {
            fs::write(folder.join("d0/notes.txt"), b"mine").unwrap()
        }),
        ("a file in an empty directory", |folder, _| {
            fs::create_dir_all(folder.join("e0")).unwrap();
            fs::write(folder.join("e0/f0"), b"mine").unwrap();
        }),
        ("a file behind a link", |folder, outside| {
            drop(fs::remove_file(folder.join("f1")));
            symlink(outside.join("f0"), folder.join("f1")).unwrap();
        }),
        ("a directory behind a link", |folder, outside| {
            fs::remove_dir_all(folder.join("d1")).unwrap();
            symlink(outside, folder.join("d1")).unwrap();
        }),
        ("a file with a second name outside", |folder, outside| {
            drop(fs::remove_file(folder.join("f1")));
            fs::hard_link(outside.join("f0"), folder.join("f1")).unwrap();
        }),
        ("a link that leads out", |folder, _| {
            fs::remove_file(folder.join("l0")).unwrap();
            symlink("../../outside/f0", folder.join("l0")).unwrap();
        }),
        ("a socket", |folder, _| {
            drop(std::os::unix::net::UnixListener::bind(folder.join("f900")).unwrap());
        }),
        ("a name that is not UTF-8", |folder, _| {
            use std::os::unix::ffi::OsStrExt;
            fs::write(folder.join(std::ffi::OsStr::from_bytes(b"f\xff")), b"mine").unwrap();
        }),
        ("a directory of no set", |folder, _| {
            fs::create_dir(folder.join("d7")).unwrap()
        }),
    ];
    for (what, trap) in traps {
        assert_refused(what, |folder, outside| {
            made(&set_of(3), READS, folder.parent().unwrap());
            trap(folder, outside);
        });
    }
}

#[test]
fn a_mount_inside_the_set_is_refused() {
    let place = Place::new();
    let set = set_of(3);
    made(&set, READS, place.0.path());
    let (inner, outside) = (
        place.0.path().join(FOLDER).join("d0"),
        place.file("outside"),
    );
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("f0"), b"precious").unwrap();
    let mount = [
        "mount",
        "--bind",
        outside.to_str().unwrap(),
        inner.to_str().unwrap(),
    ];
    if tool(&mount).is_none() {
        return;
    }
    let before = tree(&outside);
    let outcome = make(&set, CHANGES, &at(place.0.path()), &mut |_| ());
    assert_eq!(tree(&outside), before);
    tool(&["umount", "--lazy", inner.to_str().unwrap()]).unwrap();
    assert_eq!(outcome.unwrap_err().code, "file-set-foreign");
}

#[test]
fn a_set_has_one_run_at_a_time() {
    let place = Place::new();
    let set = set_of(2);
    let first = make(&set, READS, &at(place.0.path()), &mut |_| ()).unwrap();
    let error = refused(&set, READS, place.0.path());
    assert_eq!((error.status, error.code), (2, "file-set-in-use"));
    drop(first);
    assert_eq!(made(&set, READS, place.0.path()).made, 0);
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let place = Place::new();
    fs::write(place.file("file"), b"mine").unwrap();
    for name in ["missing", "file"] {
        let error = refused(&set_of(1), READS, &place.file(name));
        assert_eq!((error.status, error.code), (2, "file-set-open"));
        assert!(error.message.contains(name), "{error}");
    }
    assert_eq!(tree(place.0.path()).len(), 2);
}

/// A tmpfs that is unmounted on drop.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn new(place: &Place, options: &str) -> Option<Self> {
        let path = place.file("small");
        fs::create_dir(&path).unwrap();
        let words = [
            "mount",
            "-t",
            "tmpfs",
            "-o",
            options,
            "none",
            path.to_str().unwrap(),
        ];
        tool(&words).map(|_| Self(path))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Lazily: a process that another test starts may hold a copy of a descriptor until its exec.
        tool(&["umount", "--lazy", self.0.to_str().unwrap()]);
    }
}

#[test]
fn a_file_system_that_is_too_small_is_refused_before_anything_is_made() {
    let place = Place::new();
    for (options, set) in [
        (
            "size=4m",
            described(json!({"file_size": {"type": "constant", "value": 1_000_000}})),
        ),
        ("size=64m,nr_inodes=20", set_of(3)),
    ] {
        let Some(small) = Tmpfs::new(&place, options) else {
            return;
        };
        let error = refused(&set, READS, &small.0);
        assert_eq!((error.status, error.code), (2, "file-set-space"), "{error}");
        assert_eq!(tree(&small.0).len(), 2, "the empty folder");
        drop(small);
        fs::remove_dir(place.file("small")).unwrap();
    }
}

#[test]
fn a_file_system_that_becomes_full_ends_the_making_with_what_was_made() {
    let place = Place::new();
    let Some(small) = Tmpfs::new(&place, "size=1m") else {
        return;
    };
    // A byte each, but a page of 4096 bytes in the file system.
    let bytes = described(
        json!({"files": {"type": "constant", "value": 500}, "present_micro": 1_000_000,
        "max_depth": 1, "file_size": {"type": "constant", "value": 1}}),
    );
    let error = refused(&bytes, READS, &small.0);
    assert_eq!((error.status, error.code), (2, "file-set-space"), "{error}");
    let files = tree(&small.0.join(FOLDER)).into_keys();
    let files = files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with('f'));
    let whole = files
        .filter(|path| fs::metadata(path).unwrap().len() == 1)
        .count();
    assert!(whole > 100);
    let message = format!("{whole} files ({whole} bytes) of 500 (500 bytes) were made");
    assert!(error.message.contains(&message), "{error}");
    tool(&["mount", "-o", "remount,size=4m", small.0.to_str().unwrap()]).unwrap();
    let report = made(&bytes, READS, &small.0);
    assert_eq!(report.made + report.reused + report.repaired, 500);
    assert!(report.reused as usize >= whole);
}
