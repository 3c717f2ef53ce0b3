//! Hidden data of other programs: behind our own mark, a link that changes, or a second loop device.

#![allow(clippy::unwrap_used)]

use bw_load::file::{Engine, FileSpec, open};
use bw_load::target::Target;
use bw_model::Kind;
use files::*;
use std::io::Write as _;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

// A test may unwrap: its panic is the report.

#[allow(dead_code)]
mod files;

fn code(spec: &FileSpec) -> Option<&'static str> {
    open(spec, WRITES).err().map(|refusal| refusal.code)
}

/// Returns a place whose files can be marked, and the spec of a file that bw made there.
fn marked() -> Option<(Place, FileSpec)> {
    let place = Place::in_directory(Path::new(env!("CARGO_MANIFEST_DIR")));
    let spec = made(&place.file("ours"), Engine::Threads, 4 << 20);
    drop(open(&spec, WRITES).unwrap());
    match code(&spec) {
        None => Some((place, spec)),
        Some(_) => {
            writeln!(
                std::io::stderr(),
                "skipped: this file system keeps no user attributes"
            )
            .unwrap();
            None
        }
    }
}

#[test]
fn a_file_of_ours_in_which_others_keep_data_is_not_written_to() {
    let Some((_place, mut spec)) = marked() else {
        return;
    };
    let file = std::fs::File::options()
        .write(true)
        .open(&spec.path)
        .unwrap();
    file.write_all_at(b"XFSB", 0).unwrap();
    assert_eq!(code(&spec), Some("target-has-data"));
    spec.overwrite = true;
    assert_eq!(code(&spec), None);
}

#[test]
fn the_image_of_a_loop_device_is_held_by_it() {
    let place = Place::new();
    let image = place.file("image");
    let Some(device) = LoopDevice::over(&image, 4 << 20) else {
        return;
    };
    let mut spec = FileSpec::at(&image);
    spec.overwrite = true;
    let refused = open(&spec, WRITES).map(drop).unwrap_err();
    assert_eq!(refused.code, "target-held");
    assert!(refused.message.contains(&device.0), "{refused}");
    assert!(open(&spec, READS).is_ok());
    spec.allow_writes_to_mounted = true;
    assert_eq!(code(&spec), None);
}

#[test]
fn a_loop_device_over_the_image_of_another_one_is_held() {
    let place = Place::new();
    let image = place.file("image");
    let Some(first) = LoopDevice::over(&image, 4 << 20) else {
        return;
    };
    let mut spec = FileSpec::at(&first.0);
    spec.overwrite = true;
    assert_eq!(code(&spec), None, "alone it may be written to");
    let Some(second) = LoopDevice::over(&image, 4 << 20) else {
        return;
    };
    let refused = open(&spec, WRITES).map(drop).unwrap_err();
    assert!(refused.message.contains(&second.0), "{refused}");
}

#[test]
fn raid_metadata_at_the_end_of_a_device_is_found() {
    let place = Place::new();
    let image = place.file("image");
    let Some(device) = LoopDevice::over(&image, 4 << 20) else {
        return;
    };
    let disk = std::fs::File::options().write(true).open(&device.0);
    let at = (4 << 20) - 8192;
    disk.and_then(|disk| disk.write_all_at(&[0xfc, 0x4e, 0x2b, 0xa9], at))
        .unwrap();
    assert_eq!(code(&FileSpec::at(&device.0)), Some("target-has-data"));
}

#[test]
fn a_link_that_changes_while_it_is_opened_never_leads_to_others_data() {
    let Some((place, ours)) = marked() else {
        return;
    };
    let (link, fresh, victim) = (place.file("l"), place.file("n"), place.file("victim"));
    let thesis = vec![7; 8192];
    std::fs::write(&victim, &thesis).unwrap();
    symlink(&ours.path, &link).unwrap();
    let done = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        scope.spawn(|| {
            for target in [&victim, &ours.path].iter().cycle().take(1 << 20) {
                symlink(target, &fresh).unwrap();
                std::fs::rename(&fresh, &link).unwrap();
                if done.load(Relaxed) {
                    break;
                }
            }
        });
        let mut spec = FileSpec::at(&link);
        (spec.engine, spec.threads) = (Engine::Threads, 1);
        let mut written = 0;
        for _ in 0..2000 {
            let Ok(file) = open(&spec, WRITES) else {
                continue;
            };
            let mut target = file.worker(1, 4096).unwrap();
            written += u32::from(alone(&mut target, Kind::Write, 0, 4096) == 4096);
            if written == 20 {
                break;
            }
        }
        done.store(true, Relaxed);
        written
    });
    println!("{written} writes to our own file");
    assert!(std::fs::read(&victim).unwrap() == thesis);
}

fn submit_twice(engine: Engine) {
    let place = Place::new();
    let spec = made(&place.file("f"), engine, 1 << 20);
    let (_file, mut target) = target(&spec, READS, 2, 4096);
    target.submit(0, &operation(Kind::Read, 0, 4096));
    target.submit(0, &operation(Kind::Read, 0, 1 << 20));
}

#[test]
fn a_slot_in_flight_is_not_used_again() {
    for engine in engines() {
        let panicked = std::panic::catch_unwind(|| submit_twice(engine)).unwrap_err();
        let said = panicked.downcast_ref::<&str>().copied();
        assert_eq!(said, Some("a slot in flight is used again"));
    }
}
