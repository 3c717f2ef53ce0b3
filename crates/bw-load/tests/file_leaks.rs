//! Targets leave no resources behind, whatever is in flight when they are dropped. This test has its own
//! program, because it counts the resources of the whole process.

#![allow(clippy::unwrap_used)]

use bw_load::target::Target;
use bw_model::Kind;
use files::*;

// A test may unwrap: its panic is the report.

#[allow(dead_code)]
mod files;

/// Returns the number of descriptors, pool threads and mappings of the process. The kernel's own
/// threads for io_uring exist for a while longer, and are not counted.
fn possessions() -> (usize, usize, usize) {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    let pool = names.filter(|name| name.starts_with("bw-file-")).count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    (descriptors, pool, maps.lines().count())
}

#[test]
fn dropping_with_operations_in_flight_is_safe_and_leaves_nothing() {
    let place = Place::new();
    for engine in engines() {
        let spec = made(&place.file(&format!("{engine:?}")), engine, 8 << 20);
        let mut before = None;
        for round in 0..40_u32 {
            let (_file, mut target) = target(&spec, WRITES, 32, 65_536);
            for slot in 0..32 {
                let kind = [Kind::Read, Kind::Write, Kind::Flush, Kind::Discard][slot as usize % 4];
                target.submit(slot, &operation(kind, u64::from(slot) * 65_536, 65_536));
            }
            if round % 2 == 0 {
                target.flush().unwrap();
            }
            drop(target);
            drop(_file);
            if round == 9 {
                before = Some(possessions()); // the allocator and the stacks' cache have grown
            }
        }
        let (descriptors, threads, mappings) = possessions();
        let before = before.unwrap();
        assert_eq!((descriptors, threads), (before.0, 0));
        assert!(
            mappings <= before.2 + 4,
            "{mappings} mappings, {} before",
            before.2
        );
    }
}
