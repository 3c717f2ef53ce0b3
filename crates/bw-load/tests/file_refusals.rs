//! What is refused before the run, and how errors during it are reported.

#![allow(clippy::unwrap_used)]

use bw_load::file::{Engine, FileSpec, TargetUse, open};
use bw_model::EngineError;
use bw_model::Kind;
use files::*;
use std::io::Write as _;
use std::path::Path;

// A test may unwrap: its panic is the report.

#[allow(dead_code)]
mod files;

fn refusal(spec: &FileSpec, purpose: TargetUse) -> EngineError {
    open(spec, purpose).map(|_| ()).unwrap_err()
}

fn code_of(path: &Path, purpose: TargetUse) -> &'static str {
    let refusal = refusal(&FileSpec::at(path), purpose);
    assert!(
        refusal.message.contains(path.to_str().unwrap()),
        "{refusal}"
    );
    assert!(!refusal.remedy.is_empty());
    refusal.code
}

#[test]
fn what_is_no_file_or_device_is_refused() {
    let place = Place::new();
    assert_eq!(code_of(place.0.path(), READS), "target-kind");
    assert_eq!(code_of(Path::new("/dev/null"), WRITES), "target-kind");
    assert_eq!(code_of(&place.file("missing"), READS), "target-open");
    std::fs::write(place.file("empty"), "").unwrap();
    assert_eq!(code_of(&place.file("empty"), READS), "target-size");
    let below_a_file = place.file("empty").join("x");
    assert_eq!(code_of(&below_a_file, READS), "target-open");
}

#[test]
fn a_missing_folder_is_named_with_and_without_a_size() {
    let place = Place::new();
    let mut spec = FileSpec::at(place.file("no folder").join("nor this").join("x"));
    for size_bytes in [None, Some(4096)] {
        spec.size_bytes = size_bytes;
        let refusal = refusal(&spec, READS);
        let described = format!("there is no folder {}", place.file("no folder").display());
        assert!(refusal.message.ends_with(&described), "{refusal}");
        assert_eq!(refusal.remedy, "make the folder, or correct the path");
    }
}

#[test]
fn a_missing_file_says_that_a_size_makes_it() {
    let place = Place::new();
    let refusal = refusal(&FileSpec::at(place.file("missing")), READS);
    assert!(refusal.remedy.contains("give a size"), "{refusal}");
}

#[test]
fn data_of_others_is_not_written_over() {
    let place = Place::new();
    let path = place.file("thesis");
    std::fs::write(&path, "years of work").unwrap();
    let mut spec = FileSpec::at(&path);
    assert!(refusal(&spec, WRITES).remedy.contains("--overwrite"));
    spec.size_bytes = Some(8192);
    assert_eq!(
        refusal(&spec, READS).code,
        "target-has-data",
        "growing it writes too"
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"years of work");
    spec.overwrite = true;
    assert_eq!(open(&spec, WRITES).unwrap().size_bytes(), 8192);
    assert_eq!(&std::fs::read(&path).unwrap()[..13], b"years of work");
}

#[test]
fn a_file_that_bw_made_may_be_written_to_again() {
    let place = Place::in_directory(Path::new(env!("CARGO_MANIFEST_DIR")));
    let mut spec = made(&place.file("ours"), Engine::Threads, 8192);
    let first = open(&spec, WRITES).unwrap().worker(1, 4096).unwrap();
    if first
        .description()
        .absent
        .iter()
        .any(|line| line.contains("the mark"))
    {
        return writeln!(
            std::io::stderr(),
            "skipped: this file system keeps no user attributes"
        )
        .unwrap();
    }
    spec.size_bytes = Some(16_384);
    assert_eq!(open(&spec, WRITES).unwrap().size_bytes(), 16_384);
}

#[test]
fn what_is_not_aligned_is_refused_before_the_run() {
    let place = Place::new();
    let mut spec = made(&place.file("aligned"), Engine::Threads, 1 << 20);
    spec.direct = true;
    let file = match open(&spec, READS) {
        Ok(file) => file,
        Err(refusal) => return writeln!(std::io::stderr(), "skipped: {refusal}").unwrap(),
    };
    let block = u64::from(file.block_bytes());
    assert!(block >= 512, "direct I/O is never finer than a sector");
    assert!(file.check_multiple("size", 3 * block).is_ok());
    let refused = file.check_multiple("size", block + 1).unwrap_err();
    assert_eq!(refused.code, "target-unaligned");
    assert!(refused.message.contains("size is"), "{refused}");
    let near = format!("take {block} or {}, ", 2 * block);
    assert!(refused.remedy.starts_with(&near), "{refused}");
    let refused = file.check_multiple("size", block - 1).unwrap_err();
    let only = format!("take {block}, ");
    assert!(refused.remedy.starts_with(&only), "{refused}");
    spec.block_bytes = Some(file.block_bytes() / 2);
    assert_eq!(refusal(&spec, READS).code, "target-unaligned");
    spec.direct = false;
    assert_eq!(
        u64::from(open(&spec, READS).unwrap().block_bytes()),
        block / 2
    );
}

#[test]
fn specs_that_make_no_sense_are_refused() {
    let place = Place::new();
    let good = made(&place.file("f"), Engine::Auto, 8192);
    for change in [
        |spec: &mut FileSpec| spec.threads = 0,
        |spec: &mut FileSpec| spec.size_bytes = Some(0),
        |spec: &mut FileSpec| spec.block_bytes = Some(1000),
    ] {
        let mut spec = good.clone();
        change(&mut spec);
        assert_eq!(refusal(&spec, READS).code, "target-spec");
    }
    let unknown = r#"{"path":"/x","dirct":true}"#;
    let error = serde_json::from_str::<FileSpec>(unknown).unwrap_err();
    assert!(error.to_string().contains("dirct"));
}

#[test]
fn errors_of_operations_are_reported_by_number() {
    let place = Place::new();
    for engine in engines() {
        let path = place.file(&format!("{engine:?}"));
        std::fs::write(&path, vec![7; 6000]).unwrap();
        let mut spec = FileSpec::at(&path);
        spec.engine = engine;
        let (_file, mut target) = target(&spec, READS, 4, 4096);
        assert_eq!(alone(&mut target, Kind::Write, 0, 100), -libc::EBADF);
        assert_eq!(alone(&mut target, Kind::Read, 8192, 100), -libc::ENODATA);
        assert_eq!(
            alone(&mut target, Kind::Read, 4096, 4096),
            -libc::ENODATA,
            "only 1904 there"
        );
        assert_eq!(alone(&mut target, Kind::Read, 4096, 1904), 1904);
        assert_eq!(
            alone(&mut target, Kind::Read, u64::MAX - 5, 4),
            -libc::EINVAL
        );
        assert_eq!(alone(&mut target, Kind::Exchange, 0, 1), -libc::EINVAL);
    }
}

#[test]
fn an_unaligned_operation_is_an_error_of_its_own() {
    let place = Place::new();
    for engine in engines() {
        let mut spec = made(&place.file(&format!("{engine:?}")), engine, 1 << 20);
        spec.direct = true;
        match open(&spec, READS) {
            Ok(_) => {}
            Err(refusal) => return writeln!(std::io::stderr(), "skipped: {refusal}").unwrap(),
        }
        let (_file, mut target) = target(&spec, READS, 2, 4096);
        assert_eq!(alone(&mut target, Kind::Read, 100, 512), -libc::EINVAL);
        assert_eq!(alone(&mut target, Kind::Read, 4096, 4096), 4096);
    }
}

/// A small file system in memory, removed on drop.
struct Small(Place);

impl Small {
    fn mount() -> Option<Self> {
        let place = Place::new();
        let path = place.0.path().to_str().unwrap();
        tool(&["mount", "-t", "tmpfs", "-o", "size=1m", "none", path])?;
        Some(Self(place))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        tool(&["umount", self.0.0.path().to_str().unwrap()]);
    }
}

#[test]
fn a_full_disk_is_reported_before_and_during_the_run() {
    let Some(small) = Small::mount() else { return };
    let path = small.0.file("large");
    let refused = refusal(&made(&path, Engine::Auto, 4 << 20), WRITES);
    assert_eq!(refused.code, "target-size");
    assert!(!path.exists(), "what could not be made is not left behind");
    for engine in engines() {
        let spec = made(&small.0.file(&format!("{engine:?}")), engine, 65_536);
        let (_file, mut target) = target(&spec, WRITES, 2, 2 << 20);
        let result = alone(&mut target, Kind::Write, 0, 2 << 20);
        assert_eq!(result, -libc::ENOSPC, "short at first, then refused");
        std::fs::remove_file(&spec.path).unwrap();
    }
}

#[test]
fn a_file_system_mounted_for_reading_is_refused() {
    let Some(small) = Small::mount() else { return };
    let path = small.0.file("there");
    std::fs::write(&path, [1; 8192]).unwrap();
    let mount = small.0.0.path().to_str().unwrap();
    let Some(_) = tool(&["mount", "-o", "remount,ro", mount]) else {
        return;
    };
    let mut spec = FileSpec::at(&path);
    spec.overwrite = true;
    let refused = refusal(&spec, WRITES);
    assert_eq!(refused.code, "target-open");
    assert!(refused.remedy.contains("mounted for writing"), "{refused}");
    assert!(open(&spec, READS).is_ok());
}

#[test]
fn a_device_with_a_file_system_or_in_use_is_not_written_to() {
    let place = Place::new();
    let Some(device) = LoopDevice::over(&place.file("image"), 4 << 20) else {
        return;
    };
    let mount = place.file("mount");
    std::fs::create_dir(&mount).unwrap();
    let mut spec = FileSpec::at(&device.0);
    let blank = open(&spec, WRITES).map(|_| ());
    let exclusive = open(&spec, WRITES).unwrap();
    let held = refusal(&spec, WRITES);
    drop(exclusive);
    let formatted = tool(&["mkfs.ext4", "-q", &device.0]).is_some();
    let contents = open(&spec, WRITES).map(|_| ());
    let mounted = tool(&["mount", &device.0, mount.to_str().unwrap()]);
    let in_use = open(&spec, WRITES).map(|_| ());
    let to_read = open(&spec, READS).map(|_| ());
    spec.allow_writes_to_mounted = true;
    let without_loss = open(&spec, WRITES).map(|_| ());
    spec.overwrite = true;
    let allowed = open(&spec, WRITES).map(|_| ());
    if mounted.is_some() {
        tool(&["umount", mount.to_str().unwrap()]);
    }
    assert_eq!(blank, Ok(()));
    assert_eq!(held.code, "target-held", "{held}");
    if !formatted || mounted.is_none() {
        return;
    }
    let contents = contents.unwrap_err();
    assert!(
        contents.message.contains("an ext2/3/4 file system"),
        "{contents}"
    );
    let in_use = in_use.unwrap_err();
    assert!(
        in_use
            .message
            .contains(&format!("mounted on {}", mount.display())),
        "{in_use}"
    );
    assert_eq!((to_read, allowed), (Ok(()), Ok(())));
    let without_loss = without_loss.unwrap_err();
    assert_eq!(
        without_loss.code, "target-has-data",
        "a mounted device has data"
    );
}

#[test]
fn an_engine_that_is_asked_for_is_the_one_that_is_used() {
    let place = Place::new();
    for engine in engines() {
        let spec = made(&place.file(&format!("{engine:?}")), engine, 8192);
        let (_file, target) = target(&spec, READS, 3, 4096);
        let expected = if engine == Engine::Threads {
            "threads"
        } else {
            "io_uring"
        };
        assert_eq!(target.description().engine, expected);
        assert!(!target.description().features.is_empty());
    }
}
