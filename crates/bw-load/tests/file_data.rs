//! Written data are read back, on both engines, for every kind of operation.

#![allow(clippy::unwrap_used)]

use bw_load::file::{Buffers, FileSpec, open, payload_position};
use bw_model::{Kind, Operation};
use files::*;
use proptest::prelude::*;
use std::io::Write as _;
use std::path::Path;

// A test may unwrap: its panic is the report.

#[allow(dead_code)]
mod files;

const BLOCK: u32 = 4096;
const BLOCKS: u64 = 64;

/// Returns the data of write number `sequence`, of `size` bytes.
fn written(payload: &[u8], sequence: u64, size: u32) -> &[u8] {
    let position = payload_position(sequence, size as usize, payload.len());
    &payload[position..position + size as usize]
}

fn block(kind: Kind, index: u64) -> Operation {
    operation(kind, index * u64::from(BLOCK), BLOCK)
}

/// Writes every block in a mixed order, reads every block, makes everything durable, discards two.
fn writes_are_read_back(spec: &FileSpec, depth: u32) {
    // Repeated data can be predicted.
    let spec = &FileSpec {
        repeat_data: true,
        ..spec.clone()
    };
    let (_file, mut target) = target(spec, WRITES, depth, BLOCK);
    let order: Vec<u64> = (0..BLOCKS).map(|index| index * 29 % BLOCKS).collect();
    let writes: Vec<_> = order
        .iter()
        .map(|index| block(Kind::Write, *index))
        .collect();
    let outcomes = execute(&mut target, &writes);
    assert!(
        outcomes.iter().all(|(result, _)| *result == BLOCK as i32),
        "{outcomes:?}"
    );
    assert_eq!(alone(&mut target, Kind::Flush, 0, 0), 0);

    let reads: Vec<_> = order
        .iter()
        .map(|index| block(Kind::Read, *index))
        .collect();
    let outcomes = execute(&mut target, &reads);
    let held = std::fs::read(&spec.path).unwrap();
    let buffers = Buffers::new(1, BLOCK, false).unwrap();
    for (sequence, (index, (result, data))) in order.iter().zip(&outcomes).enumerate() {
        assert_eq!(*result, BLOCK as i32);
        let expected = written(buffers.payload(), sequence as u64, BLOCK);
        assert!(data == expected, "block {index} as the engine reads it");
        let from = *index as usize * BLOCK as usize;
        assert!(
            held[from..from + BLOCK as usize] == *expected,
            "block {index} in the file"
        );
    }
}

fn discarded_blocks_are_zeros(spec: &FileSpec) {
    let (_file, mut target) = target(spec, WRITES, 2, 2 * BLOCK);
    let result = alone(&mut target, Kind::Discard, 8192, 2 * BLOCK);
    if result == -libc::EOPNOTSUPP {
        return writeln!(
            std::io::stderr(),
            "skipped: discard: {} has none",
            spec.path.display()
        )
        .unwrap();
    }
    assert_eq!(result, 0);
    let (result, data) = execute(&mut target, &[operation(Kind::Read, 8192, 2 * BLOCK)]).remove(0);
    assert_eq!(result, 2 * BLOCK as i32);
    assert!(data.iter().all(|byte| *byte == 0));
}

#[test]
fn files_on_disk_and_in_memory() {
    for parent in [
        std::env::temp_dir(),
        "/dev/shm".into(),
        env!("CARGO_MANIFEST_DIR").into(),
    ] {
        if !Path::new(&parent).is_dir() {
            writeln!(
                std::io::stderr(),
                "skipped: {}: not there",
                parent.display()
            )
            .unwrap();
            continue;
        }
        let place = Place::in_directory(&parent);
        for engine in engines() {
            for direct in [false, true] {
                let name = format!("{engine:?}-{direct}");
                let mut spec = made(&place.file(&name), engine, BLOCKS * u64::from(BLOCK));
                spec.direct = direct;
                if let Err(refusal) = open(&spec, WRITES) {
                    assert_eq!(refusal.code, "target-no-direct-io", "{refusal}");
                    writeln!(std::io::stderr(), "skipped: {refusal}").unwrap();
                    continue;
                }
                writes_are_read_back(&spec, 1);
                writes_are_read_back(&spec, 16);
                discarded_blocks_are_zeros(&spec);
            }
        }
    }
}

#[test]
fn a_loop_device() {
    let place = Place::new();
    let bytes = BLOCKS * u64::from(BLOCK);
    let Some(device) = LoopDevice::over(&place.file("image"), bytes) else {
        return;
    };
    for engine in engines() {
        for direct in [false, true] {
            let mut spec = FileSpec::at(&device.0);
            (spec.engine, spec.direct) = (engine, direct);
            let file = open(&spec, WRITES).unwrap();
            assert_eq!(file.size_bytes(), bytes);
            drop(file);
            writes_are_read_back(&spec, 8);
            discarded_blocks_are_zeros(&spec);
        }
    }
}

#[test]
fn of_very_many_operations_each_ends_once() {
    let place = Place::in_directory(Path::new("/dev/shm"));
    for engine in engines() {
        let spec = made(&place.file(&format!("{engine:?}")), engine, BLOCKS * 512);
        let (_file, mut target) = target(&spec, WRITES, 48, 512);
        let many: Vec<_> = (0..20_000_u64)
            .map(|index| {
                operation(
                    [Kind::Read, Kind::Write][index as usize % 3 / 2],
                    index % BLOCKS * 512,
                    512,
                )
            })
            .collect();
        let outcomes = execute(&mut target, &many);
        assert!(outcomes.iter().all(|(result, _)| *result == 512));
    }
}

#[test]
fn no_written_block_is_equal_to_another() {
    let place = Place::in_directory(Path::new("/dev/shm"));
    let blocks: u64 = 2048;
    for engine in engines() {
        let spec = made(&place.file(&format!("{engine:?}")), engine, blocks * 4096);
        let (_file, mut target) = target(&spec, WRITES, 32, BLOCK);
        let writes: Vec<_> = (0..blocks).map(|index| block(Kind::Write, index)).collect();
        let outcomes = execute(&mut target, &writes);
        assert!(outcomes.iter().all(|(result, _)| *result == BLOCK as i32));
        let held = std::fs::read(&spec.path).unwrap();
        let distinct: std::collections::HashSet<_> = held.chunks(512).collect();
        assert_eq!(distinct.len() as u64, blocks * 8);
    }
}

#[test]
fn an_operation_larger_than_announced_is_carried_out() {
    let place = Place::new();
    for engine in engines() {
        let spec = made(&place.file(&format!("{engine:?}")), engine, 16 << 20);
        let (_file, mut target) = target(&spec, WRITES, 2, BLOCK);
        let size = 6 << 20;
        assert_eq!(alone(&mut target, Kind::Write, 1 << 20, size), size as i32);
        let (result, data) =
            execute(&mut target, &[operation(Kind::Read, 1 << 20, size)]).remove(0);
        assert_eq!(result, size as i32);
        let held = std::fs::read(&spec.path).unwrap();
        assert!(data == held[1 << 20..(1 << 20) + size as usize]);
    }
}

#[test]
fn a_file_that_bw_makes_holds_data_and_no_holes() {
    let place = Place::new();
    let spec = made(&place.file("new"), engines()[0], (3 << 20) + 512);
    let (file, target) = target(&spec, READS, 1, BLOCK);
    assert_eq!(file.size_bytes(), (3 << 20) + 512);
    let absent = &target.description().absent;
    assert!(
        !absent.iter().any(|line| line.contains("never written")),
        "{absent:?}"
    );
    let held = std::fs::read(&spec.path).unwrap();
    for part in held.chunks(512) {
        assert!(
            part.iter().any(|byte| *byte != part[0]),
            "a part is all the same"
        );
    }
}

#[test]
fn a_hole_is_reported() {
    let place = Place::new();
    let path = place.file("sparse");
    std::fs::File::create(&path)
        .unwrap()
        .set_len(1 << 20)
        .unwrap();
    let (_file, target) = target(&FileSpec::at(&path), READS, 1, BLOCK);
    let absent = &target.description().absent;
    assert!(
        absent
            .iter()
            .any(|line| line.contains("from byte 0 on: never written")),
        "{absent:?}"
    );
}

/// Returns workloads of a few operations on a small file: kind, offset, size.
fn workload() -> impl Strategy<Value = Vec<(Kind, u64, u32)>> {
    let kind = prop_oneof![
        Just(Kind::Read),
        Just(Kind::Write),
        Just(Kind::Discard),
        Just(Kind::Flush)
    ];
    prop::collection::vec((kind, 0_u64..60_000, 1_u32..9_000), 1..24)
}

/// Applies the operation to `model`, and returns the expected result.
fn apply(model: &mut [u8], operation: &Operation, payload: &[u8], sequence: &mut u64) -> i32 {
    let from = operation.offset as usize;
    let to = from + operation.size as usize;
    match operation.kind {
        Kind::Write => {
            model[from..to].copy_from_slice(written(payload, *sequence, operation.size));
            *sequence += 1;
            operation.size as i32
        }
        Kind::Discard => {
            model[from..to].fill(0);
            0
        }
        Kind::Read => operation.size as i32,
        _ => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, rng_seed: prop::test_runner::RngSeed::Fixed(4), failure_persistence: None, ..ProptestConfig::default() })]

    /// A sequence of operations leaves the same bytes in the file as in memory, on both engines.
    #[test]
    fn any_sequence_does_to_the_file_what_it_does_in_memory(steps in workload()) {
        let place = Place::in_directory(Path::new("/dev/shm"));
        let largest = 9_000;
        let buffers = Buffers::new(1, largest, false).unwrap();
        for engine in engines() {
            let path = place.file(&format!("{engine:?}"));
            let mut spec = made(&path, engine, 70_000);
            spec.repeat_data = true;
            let (_file, mut target) = target(&spec, WRITES, 1, largest);
            let (mut model, mut sequence) = (std::fs::read(&path).unwrap(), 0);
            for (kind, offset, size) in &steps {
                let operation = operation(*kind, *offset, *size);
                let expected = apply(&mut model, &operation, buffers.payload(), &mut sequence);
                let (result, data) = execute(&mut target, &[operation]).remove(0);
                prop_assert_eq!(result, expected);
                let from = *offset as usize;
                prop_assert!(data.is_empty() || data == model[from..from + *size as usize]);
            }
            prop_assert!(std::fs::read(&path).unwrap() == model);
        }
    }
}
