//! Chains of operations on files: the same schedule for any number of workers, the tables' shares, and no chain that
//! takes a file away from another.

#![allow(
    clippy::unwrap_used,
    reason = "a test may unwrap, in its own functions too"
)]

use bw_model::{FileAddress, Kind, Nanos, Operation};
use bw_schedule::filaments::{SequenceEnd, SequenceOutcome};
use bw_schedule::file_counts::{FileSetReport, RunFiles};
use bw_schedule::file_set::{FileSet, Object};
use bw_schedule::replay::{Placed, Replayed, replay};
use bw_schedule::workload::build::Extent;
use bw_schedule::workload::{NoTrace, Placement, WorkloadSpec};
use goodness::{chi_square, chi_square_critical};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

mod goodness;

const KIB: u64 = 1024;
const ENOENT: i32 = -2;

fn constant(value: u64) -> Value {
    json!({"type": "constant", "value": value})
}

fn weighted(values: &[(u64, u64)]) -> Value {
    json!({"type": "weighted", "values": values})
}

/// A small set: 3 directories of 20 files of 20 KiB.
fn small_set() -> Value {
    json!({"seed": 5, "max_depth": 2, "directories": constant(2), "files": constant(20), "symlinks": constant(1),
           "empty_directories": constant(4), "file_size": constant(20 * KIB), "present_micro": 500_000})
}

fn chain(name: &str, weight: u64, steps: &Value) -> Value {
    json!({"name": name, "weight": weight, "steps": steps})
}

fn open(rate: u64, chains: &[Value]) -> Value {
    json!({"type": "files", "arrival": {"type": "poisson"}, "rate": {"micro_per_s": rate * 1_000_000},
           "chains": chains})
}

fn closed(users: u64, think: u64, chains: &[Value]) -> Value {
    json!({"type": "files", "users": users, "think": {"type": "constant", "value": think}, "chains": chains})
}

struct Load {
    workload: WorkloadSpec<NoTrace>,
    set: Arc<FileSet>,
}

impl Load {
    fn new(set: &Value, filaments: &[Value]) -> Self {
        let workload = json!({"seed": 4, "file_set": set, "filaments": filaments});
        let workload: WorkloadSpec = serde_json::from_value(workload).unwrap();
        let set = FileSet::new(workload.file_set.as_ref().unwrap()).unwrap();
        Self {
            workload,
            set: Arc::new(set),
        }
    }

    fn shared(&self) -> RunFiles {
        RunFiles::new(&self.workload, Arc::clone(&self.set)).unwrap()
    }

    fn build(&self, files: &RunFiles, placement: Placement) -> Result<Vec<Placed>, String> {
        let extent = Extent {
            files: Some(files),
            ..Extent::from(0)
        };
        let built = self
            .workload
            .build(placement, extent, &mut |_| unreachable!());
        built
            .map(|built| built.filaments)
            .map_err(|error| error.to_string())
    }

    /// Runs the load in virtual time on this many workers that know nothing of one another's time.
    fn on(&self, workers: u32, until: Nanos) -> (Vec<Replayed>, FileSetReport) {
        let files = self.shared();
        let parts: Vec<_> = (0..workers)
            .map(|worker| self.build(&files, Placement { worker, workers }).unwrap())
            .collect();
        let parts = parts.into_iter().map(|part| replay(part, succeed, until));
        (parts.collect(), files.report())
    }

    /// Runs the load in virtual time.
    fn alone(&self, until: Nanos) -> (Replayed, FileSetReport) {
        let (mut parts, report) = self.on(1, until);
        (parts.remove(0), report)
    }

    fn refused(&self) -> String {
        match RunFiles::new(&self.workload, Arc::clone(&self.set)) {
            Err(error) => error.to_string(),
            Ok(files) => self
                .build(&files, Placement::ALONE)
                .map(|_| ())
                .unwrap_err(),
        }
    }
}

/// Every operation takes 100 us and 1 us for each KiB.
fn succeed(operation: &Operation) -> (Nanos, i32) {
    let length = Nanos(100_000 + u64::from(operation.size) / KIB * 1_000);
    (length, operation.size as i32)
}

fn address(operation: &Operation) -> FileAddress {
    FileAddress::unpack(operation.offset)
}

/// Returns kind, offset and size of each operation, and the time since the one before [us].
fn steps(replayed: &Replayed) -> Vec<(&'static str, u64, u32, u64)> {
    let mut before = 0;
    let issued = replayed.issued.iter().map(|(_, operation)| {
        let since = operation.at.0 - before;
        before = operation.at.0;
        let offset = address(operation).offset;
        (operation.kind.name(), offset, operation.size, since / 1000)
    });
    issued.collect()
}

#[test]
fn a_chain_reads_a_file_in_pieces_one_after_the_other() {
    let steps_of = json!([{"kind": "open"}, {"kind": "read", "object": "same"}, {"kind": "close", "object": "same"}]);
    let load = Load::new(
        &small_set(),
        &[closed(1, 1_000_000, &[chain("read", 1, &steps_of)])],
    );
    let (replayed, _) = load.alone(Nanos(700_000));
    let piece = 8192;
    let expected = [
        ("open", 0, 0, 0),
        ("read", 0, piece, 100),
        ("read", 8192, piece, 108),
        ("read", 16384, 4096, 108),
        ("close", 0, 0, 104),
    ];
    assert_eq!(steps(&replayed), expected);
    let objects: Vec<_> = replayed
        .issued
        .iter()
        .map(|(_, o)| address(o).object)
        .collect();
    assert!(objects.iter().all(|object| object == &objects[0]));
    let end = SequenceEnd {
        chain: 0,
        outcome: SequenceOutcome::Completed,
        operations: 5,
        intended: Nanos::ZERO,
        ended: Nanos(520_000),
    };
    assert_eq!(replayed.sequences, [end]);
}

#[test]
fn a_user_thinks_between_chains_and_what_is_open_at_the_end_is_unfinished() {
    let steps_of = json!([{"kind": "getattr"}, {"kind": "access", "object": "same"}]);
    let load = Load::new(
        &small_set(),
        &[closed(2, 1_000_000, &[chain("stat", 1, &steps_of)])],
    );
    let (replayed, report) = load.alone(Nanos(1_350_000));
    let starts: Vec<_> = replayed.issued.iter().map(|(_, o)| o.at.0 / 1000).collect();
    assert_eq!(starts, [0, 0, 100, 100, 1200, 1200, 1300, 1300]);
    let outcomes: Vec<_> = replayed
        .sequences
        .iter()
        .map(|s| (s.outcome, s.operations))
        .collect();
    let (completed, unfinished) = (SequenceOutcome::Completed, SequenceOutcome::Unfinished);
    assert_eq!(
        outcomes,
        [
            (completed, 2),
            (completed, 2),
            (unfinished, 1),
            (unfinished, 1)
        ]
    );
    assert_eq!(report.mix[0].drawn, 4);
    let ids: Vec<_> = replayed.issued.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [0, 1, 0, 1, 0, 1, 0, 1]);
}

#[test]
fn as_many_chains_arrive_as_requested() {
    let mut filament = open(1000, &[chain("look", 1, &json!([{"kind": "lookup"}]))]);
    filament["count"] = json!(77);
    let load = Load::new(&small_set(), &[filament]);
    assert_eq!(load.alone(Nanos::SECOND).0.issued.len(), 77);
    let (parts, _) = load.on(3, Nanos::SECOND);
    let lengths: Vec<_> = parts.iter().map(|part| part.issued.len()).collect();
    assert_eq!(lengths, [26, 26, 25]);
}

#[test]
fn a_failed_operation_ends_the_chain_and_what_was_opened_is_closed() {
    let steps_of = json!([
        {"kind": "open"}, {"kind": "read", "object": "same"}, {"kind": "flush", "object": "same"},
        {"kind": "close", "object": "same"}, {"kind": "lookup"},
    ]);
    let mut filament = closed(1, 0, &[chain("c", 1, &steps_of)]);
    filament["piece_bytes"] = json!(1 << 20);
    let load = Load::new(&small_set(), &[filament]);
    for (failing, expected) in [
        (Kind::Open, vec!["open", "open", "open"]),
        (
            Kind::Read,
            vec!["open", "read", "close", "open", "read", "close"],
        ),
        (Kind::Flush, vec!["open", "read", "flush", "close", "open"]),
        (Kind::Close, vec!["open", "read", "flush", "close", "open"]),
        (
            Kind::Lookup,
            vec!["open", "read", "flush", "close", "lookup", "open"],
        ),
    ] {
        let files = load.shared();
        let service = |operation: &Operation| {
            let failed = operation.kind == failing;
            (Nanos(100), if failed { ENOENT } else { 0 })
        };
        let filaments = load.build(&files, Placement::ALONE).unwrap();
        let replayed = replay(filaments, service, Nanos(900));
        let kinds: Vec<_> = replayed.issued.iter().map(|(_, o)| o.kind.name()).collect();
        assert_eq!(kinds[..expected.len()], expected, "{failing:?}");
        assert_eq!(
            replayed.sequences[0].outcome,
            SequenceOutcome::Failed,
            "{failing:?}"
        );
        let starts = kinds.iter().filter(|kind| **kind == "open").count();
        let wrong = |s: &SequenceEnd| s.outcome == SequenceOutcome::Completed;
        assert_eq!(
            (
                replayed.sequences.len(),
                replayed.sequences.iter().any(wrong)
            ),
            (starts, false)
        );
    }
}

#[test]
fn a_renamed_file_has_its_other_name_from_then_on() {
    let mut set = small_set();
    (set["files"], set["max_depth"], set["present_micro"]) =
        (constant(1), json!(1), json!(1_000_000));
    let steps_of = json!([{"kind": "getattr"}, {"kind": "rename", "object": "same"}, {"kind": "lookup", "object": "same"}]);
    let load = Load::new(&set, &[closed(1, 0, &[chain("c", 1, &steps_of)])]);
    let (replayed, _) = load.alone(Nanos(600_000));
    let names: Vec<_> = replayed
        .issued
        .iter()
        .map(|(_, o)| address(o).renamed)
        .collect();
    assert_eq!(names, [false, false, true, true, true, false]);
}

#[test]
fn appends_follow_one_another_and_a_new_file_is_empty() {
    let mut set = small_set();
    (set["files"], set["max_depth"]) = (constant(1), json!(1));
    set["present_micro"] = json!(0);
    let size = constant(10_000);
    let steps_of = json!([
        {"kind": "create"}, {"kind": "append", "size": size, "object": "same"},
        {"kind": "append", "size": size, "object": "same"}, {"kind": "read", "object": "same"},
        {"kind": "write", "object": "same"}, {"kind": "remove", "object": "same"},
    ]);
    let load = Load::new(&set, &[closed(1, 0, &[chain("c", 1, &steps_of)])]);
    let (replayed, report) = load.alone(Nanos(3_000_000));
    let once = [
        ("create", 0, 0),
        ("append", 0, 8192),
        ("append", 8192, 1808),
        ("append", 10_000, 8192),
        ("append", 18_192, 1808),
        ("read", 0, 8192),
        ("read", 8192, 8192),
        ("read", 16_384, 3616),
        ("write", 0, 8192),
        ("write", 8192, 8192),
        ("write", 16_384, 4096),
        ("remove", 0, 0),
    ];
    let done: Vec<_> = steps(&replayed)
        .into_iter()
        .map(|(kind, o, size, _)| (kind, o, size))
        .collect();
    assert_eq!((&done[..12], &done[12..24]), (&once[..], &once[..]));
    assert_eq!(report.unavailable, 0);
}

#[test]
fn a_read_of_more_than_the_file_has_begins_again_at_its_start() {
    let size = constant(30 * KIB);
    let steps_of = json!([{"kind": "read", "size": size, "location": "random"}]);
    let load = Load::new(&small_set(), &[closed(1, 0, &[chain("c", 1, &steps_of)])]);
    let (replayed, _) = load.alone(Nanos(400_000));
    let offsets: Vec<_> = steps(&replayed)
        .into_iter()
        .map(|(_, o, size, _)| (o, size))
        .collect();
    assert_eq!(
        offsets,
        [(0, 8192), (8192, 8192), (16_384, 8192), (0, 6144)]
    );
}

#[test]
fn random_transfers_end_inside_the_file_and_cover_it() {
    let steps_of = json!([{"kind": "write", "size": constant(4096), "location": "random"}]);
    let mut filament = closed(1, 0, &[chain("c", 1, &steps_of)]);
    filament["piece_bytes"] = json!(4096);
    let load = Load::new(&small_set(), &[filament]);
    let (replayed, report) = load.alone(Nanos(100_000_000));
    let mut counts = [0; 5];
    for (_, offset, size, _) in steps(&replayed) {
        assert_eq!(size, 4096);
        counts[(offset / 4096) as usize] += 1;
    }
    let expected = [counts.iter().sum::<u64>() as f64 / 5.0; 5];
    assert!(
        chi_square(&counts, &expected) < chi_square_critical(4),
        "{counts:?}"
    );
    assert_eq!(report.bytes_at_end, report.bytes, "no file has grown");
}

#[test]
fn directories_links_and_empty_directories_are_used_by_their_kinds() {
    let one = |kind: &str| chain(kind, 1, &json!([{"kind": kind}]));
    let kinds = [
        "readdir",
        "readdirplus",
        "fsstat",
        "readlink",
        "mkdir",
        "rmdir",
        "lookup",
    ];
    let load = Load::new(&small_set(), &[open(10_000, &kinds.map(one))]);
    let (replayed, report) = load.alone(Nanos::SECOND);
    let mut seen = BTreeMap::new();
    for (_, operation) in &replayed.issued {
        let sort = match load.set.object(address(operation).object) {
            Object::Directory(0) if operation.kind == Kind::Fsstat => "root",
            Object::Directory(_) => "directory",
            Object::File(_) => "file",
            Object::Symlink(_) => "symlink",
            Object::EmptyDirectory(_) => "empty directory",
        };
        assert_eq!(*seen.entry(operation.kind.name()).or_insert(sort), sort);
    }
    let expected = [
        ("fsstat", "root"),
        ("lookup", "file"),
        ("mkdir", "empty directory"),
        ("readdir", "directory"),
        ("readdirplus", "directory"),
        ("readlink", "symlink"),
        ("rmdir", "empty directory"),
    ];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
    assert!(report.directory_popularity[0].drawn > 2000);
}

#[test]
fn without_any_absent_file_a_create_is_sent_all_the_same_and_counted() {
    let mut set = small_set();
    set["present_micro"] = json!(1_000_000);
    let load = Load::new(
        &set,
        &[closed(1, 0, &[chain("c", 1, &json!([{"kind": "create"}]))])],
    );
    let (replayed, report) = load.alone(Nanos(10_000_000));
    assert_eq!((replayed.issued.len(), report.unavailable), (100, 100));
    set["present_micro"] = json!(0);
    let chains = [
        chain("r", 1, &json!([{"kind": "remove"}])),
        chain("g", 1, &json!([{"kind": "getattr"}])),
    ];
    let load = Load::new(&set, &[closed(1, 0, &chains)]);
    let (replayed, report) = load.alone(Nanos(10_000_000));
    assert_eq!((replayed.issued.len(), report.unavailable), (100, 100));
    assert_eq!(report.files_at_end, 0);
}

/// Fstress's SPECsfs97 at a load of 50 operations per second.
fn specsfs97() -> (Value, Vec<Value>) {
    let sizes = [33, 21, 13, 10, 8, 5, 4, 3, 2].iter().enumerate();
    let mut sizes: Vec<_> = sizes.map(|(power, &w)| (KIB << power, w)).collect();
    sizes.push((1 << 20, 1));
    let set = json!({"seed": 7, "max_depth": 2, "directories": constant(20), "files": constant(100),
        "symlinks": constant(1), "file_size": weighted(&sizes), "file_popularity": weighted(&[(1000, 10), (1, 90)]),
        "present_micro": 900_000});
    let kib = |values: [(u64, u64); 5]| weighted(&values.map(|(kib, w)| (kib * KIB, w)));
    let read = json!([{"kind": "read", "location": "random",
        "size": kib([(8, 85), (16, 8), (32, 4), (64, 2), (128, 1)])}]);
    let write = json!([{"kind": "write", "location": "random",
        "size": kib([(4, 49), (8, 36), (16, 8), (32, 4), (64, 3)])}]);
    let mut chains = vec![chain("read", 18, &read), chain("write", 9, &write)];
    for (kind, weight) in [
        ("lookup", 27),
        ("getattr", 11),
        ("readlink", 7),
        ("readdir", 2),
        ("readdirplus", 9),
        ("create", 1),
        ("remove", 1),
        ("fsstat", 1),
        ("setattr", 1),
        ("access", 7),
        ("flush", 5),
    ] {
        chains.push(chain(kind, weight, &json!([{"kind": kind}])));
    }
    (set, chains)
}

/// Returns whether counts fit expected shares, of which those below 5 expected counts are one cell.
fn fits(rows: &[(u64, f64)]) -> bool {
    let drawn: u64 = rows.iter().map(|(count, _)| count).sum();
    let shares: f64 = rows.iter().map(|(_, share)| share).sum();
    let (mut counts, mut expected) = (vec![0], vec![0.0]);
    for (count, share) in rows {
        let expectation = share / shares * drawn as f64;
        if expectation >= 5.0 {
            counts.push(*count);
            expected.push(expectation);
        } else {
            counts[0] += count;
            expected[0] += expectation;
        }
    }
    if expected[0] < 5.0 {
        let (count, expectation) = (counts.remove(0), expected.remove(0));
        counts[0] += count;
        expected[0] += expectation;
    }
    assert!(expected.len() > 1, "nothing to test: {rows:?}");
    chi_square(&counts, &expected) < chi_square_critical(counts.len() - 1)
}

#[test]
fn a_hundred_thousand_chains_fit_their_tables_and_no_others() {
    let (set, chains) = specsfs97();
    let load = Load::new(&set, &[open(10_000, &chains)]);
    let (replayed, report) = load.alone(Nanos(10 * Nanos::SECOND.0));
    assert!(replayed.sequences.len() > 99_000);
    assert_eq!((report.unavailable, report.searched), (0, 0));
    let mix = |weights: &dyn Fn(usize, u64) -> u64| -> Vec<_> {
        let rows = report.mix.iter().enumerate();
        rows.map(|(place, row)| (row.drawn, weights(place, row.weight) as f64))
            .collect()
    };
    assert!(fits(&mix(&|_, weight| weight)));
    let wrong = |place, weight| if place == 0 { weight + 1 } else { weight };
    assert!(!fits(&mix(&wrong)), "19 instead of 18 reads");

    let popularity = |weight: &dyn Fn(usize, u64) -> u64| -> Vec<_> {
        let rows = report.file_popularity.iter().enumerate();
        rows.map(|(place, row)| (row.drawn, weight(place, row.weight) as f64))
            .collect()
    };
    assert!(fits(&popularity(&|_, weight| weight)));
    assert!(
        !fits(&popularity(
            &|place, weight| weight * (8 + 2 * (1 - place as u64))
        )),
        "800:1 instead of 1000:1"
    );

    let sizes = |by: &dyn Fn(u64, u64) -> f64| -> Vec<_> {
        let rows = report.file_sizes.iter();
        rows.map(|row| (row.drawn, by(row.files, row.weight)))
            .collect()
    };
    assert!(fits(&sizes(&|_, weight| weight as f64)));
    assert!(!fits(&sizes(&|files, _| files as f64)), "all files alike");
    let files: Vec<_> = report
        .file_sizes
        .iter()
        .map(|row| (row.files, row.expected_share))
        .collect();
    assert!(fits(&files), "the files of the set");

    assert_eq!(report.transfer_sizes.len(), 2);
    for table in &report.transfer_sizes {
        let rows: Vec<_> = table
            .sizes
            .iter()
            .map(|row| (row.drawn, row.expected_share))
            .collect();
        assert!(fits(&rows), "{}", table.chain);
        let total: f64 = rows.iter().map(|(_, share)| share).sum();
        assert!((total - 1.0).abs() < 1e-9, "{total}");
        let wrong: Vec<_> = rows
            .iter()
            .enumerate()
            .map(|(place, (n, s))| (*n, s + 0.02 * place as f64))
            .collect();
        assert!(!fits(&wrong), "{}", table.chain);
    }
    // The mean number of operations of a chain follows from the sizes alone.
    let reads = replayed
        .issued
        .iter()
        .filter(|(_, o)| o.kind == Kind::Read)
        .count();
    let chains = report.mix[0].drawn;
    let mean = reads as f64 / chains as f64;
    assert!(
        (1.43..1.55).contains(&mean),
        "{mean}: 0.85 + 0.16 + 0.16 + 0.16 + 0.16 = 1.49"
    );
}

#[test]
fn files_that_are_drawn_but_absent_are_drawn_again() {
    let (set, chains) = specsfs97();
    let load = Load::new(&set, &[open(10_000, &chains)]);
    let (_, report) = load.alone(Nanos::SECOND);
    let drawn: u64 = report.file_popularity.iter().map(|row| row.drawn).sum();
    let chosen: u64 = report.file_popularity.iter().map(|row| row.chosen).sum();
    assert_eq!(drawn, chosen + report.repeated_draws);
    // One of ten is absent: a binomial of 9,000 has a standard deviation of 28; the weights of absent files vary more.
    let share = report.repeated_draws as f64 / drawn as f64;
    assert!((0.05..0.15).contains(&share), "{share}");
}

/// What must not change with the number of workers, of an operation.
type Issued = (Nanos, Kind, u32, u64);

fn schedule(parts: &[Replayed], with_objects: bool) -> (Vec<Issued>, Vec<(Nanos, u16)>) {
    let operations = parts
        .iter()
        .flat_map(|part| &part.issued)
        .map(|(_, operation)| {
            let offset = if with_objects { operation.offset } else { 0 };
            (operation.at, operation.kind, operation.size, offset)
        });
    let chains = parts
        .iter()
        .flat_map(|part| &part.sequences)
        .map(|s| (s.intended, s.chain));
    let (mut operations, mut chains): (Vec<_>, Vec<_>) = (operations.collect(), chains.collect());
    operations.sort_unstable();
    chains.sort_unstable();
    (operations, chains)
}

/// Chains that change nothing.
fn reading_chain(name: &'static str) -> impl Strategy<Value = Value> {
    let size = prop_oneof![
        Just(Value::Null),
        (1..100_000_u64).prop_map(constant),
        Just(weighted(&[(8192, 3), (65_536, 1)])),
        Just(json!({"type": "gamma", "mean": 16_384, "shape_micro": 1_500_000}))
    ];
    let steps = (size, any::<bool>(), any::<bool>()).prop_map(|(size, random, same)| {
        let location = if random && !size.is_null() { "random" } else { "start" };
        let object = if same { "same" } else { "choose" };
        json!([{"kind": "lookup"}, {"kind": "read", "size": size, "location": location, "object": object},
               {"kind": "readdir"}, {"kind": "readlink"}])
    });
    (steps, 1..9_u64).prop_map(move |(steps, weight)| chain(name, weight, &steps))
}

fn filament(chains: Vec<Value>) -> impl Strategy<Value = Value> {
    let others = chains.clone();
    prop_oneof![
        (1_000..20_000_u64).prop_map(move |rate| open(rate, &chains)),
        (1..9_u64, 0..1_000_000_u64).prop_map(move |(users, think)| closed(users, think, &others)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_schedule_is_the_same_for_any_number_of_workers(
        filament in (reading_chain("a"), reading_chain("b")).prop_flat_map(|(a, b)| filament(vec![a, b])),
        present_micro in 300_000..=1_000_000_u32,
    ) {
        let mut set = small_set();
        set["file_size"] = json!({"type": "lognormal", "mean": 20_000, "cv_micro": 2_000_000});
        set["present_micro"] = json!(present_micro);
        let load = Load::new(&set, &[filament]);
        let until = Nanos(30_000_000);
        let alone = schedule(&load.on(1, until).0, true);
        prop_assert!(!alone.0.is_empty());
        for workers in [2, 3] {
            prop_assert_eq!(&schedule(&load.on(workers, until).0, true), &alone);
        }
    }
}

#[test]
fn creates_and_removes_do_not_change_the_schedule_of_others() {
    let size = weighted(&[(4096, 3), (40_000, 1)]);
    let chains = [
        chain(
            "read",
            5,
            &json!([{"kind": "lookup"}, {"kind": "read", "size": size, "location": "random"}]),
        ),
        chain(
            "new",
            1,
            &json!([{"kind": "create"}, {"kind": "append", "size": size, "object": "same"}]),
        ),
        chain("old", 1, &json!([{"kind": "remove"}])),
    ];
    let load = Load::new(&small_set(), &[open(5_000, &chains)]);
    let until = Nanos::SECOND;
    let alone = schedule(&load.on(1, until).0, false);
    assert!(alone.0.len() > 5_000);
    for workers in [2, 3] {
        assert_eq!(schedule(&load.on(workers, until).0, false), alone);
    }
}

/// The same seed gives the same chains on any machine: compares a sum over all operations, computed on x86-64.
#[test]
fn a_seed_is_a_schedule() {
    let (mut set, chains) = specsfs97();
    set["file_size"] = json!({"type": "gamma", "mean": 16_384, "shape_micro": 1_500_000});
    let load = Load::new(&set, &[open(10_000, &chains)]);
    let (operations, chains) = schedule(&load.on(1, Nanos::SECOND).0, true);
    let numbers = operations
        .iter()
        .flat_map(|&(at, kind, size, offset)| [at.0, kind as u64, u64::from(size), offset]);
    let sum = numbers.fold(0_u64, |sum, part| {
        (sum ^ part).wrapping_mul(0x0100_0000_01b3).rotate_left(7)
    });
    let expected = (11_296, 10_119, 181_988_286_454_715_269);
    assert_eq!((operations.len(), chains.len(), sum), expected);
}

/// Checks what each file goes through: it exists when it is used, and nothing else uses it while it is created,
/// removed or renamed. `service` gives the length of each operation.
fn check_lives(load: &Load, replayed: &Replayed) {
    let mut uses: HashMap<u32, Vec<(u64, u64, Kind, bool)>> = HashMap::new();
    for (_, operation) in &replayed.issued {
        let at = address(operation);
        let end = operation.at + succeed(operation).0;
        let one = (operation.at.0, end.0, operation.kind, at.renamed);
        uses.entry(at.object).or_default().push(one);
    }
    for (object, uses) in uses {
        let (mut present, mut renamed) = (load.set.is_present(object), false);
        let mut busy_until = 0;
        let mut alone_until = 0;
        for (start, end, kind, name) in uses {
            let creates = matches!(kind, Kind::Create | Kind::Mkdir);
            let removes = matches!(kind, Kind::Remove | Kind::Rmdir);
            assert_eq!(present, !creates, "{kind:?} of {object} at {start}");
            assert_eq!(name, renamed, "{kind:?} of {object} at {start}");
            assert!(start >= alone_until, "{kind:?} of {object} at {start}");
            if creates || removes || kind == Kind::Rename {
                assert!(start >= busy_until, "{kind:?} of {object} at {start}");
                alone_until = end;
            }
            busy_until = busy_until.max(end);
            present = (present || creates) && !removes;
            renamed = (renamed ^ (kind == Kind::Rename)) && !removes;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn no_chain_takes_a_file_away_from_another(
        weights in prop::array::uniform5(1..9_u64), rate in 5_000..100_000_u64, users in 1..40_u64,
        seed in any::<u32>(),
    ) {
        let size = constant(20_000);
        // At most 6,000 chains, up to 64 % of which remove a file: 6,000 of 12,000 files and 750 of 1,500 empty directories are enough for all.
        let [using, changing, renaming, both, directories] = weights;
        let weights = [using, changing, changing, renaming, both, directories, directories];
        let steps = [
            json!([{"kind": "open"}, {"kind": "read", "object": "same"}, {"kind": "close", "object": "same"}]),
            json!([{"kind": "create"}, {"kind": "write", "object": "same"}, {"kind": "flush", "object": "same"}]),
            json!([{"kind": "remove"}]),
            json!([{"kind": "lookup"}, {"kind": "rename", "object": "same"}, {"kind": "getattr"}]),
            json!([{"kind": "append", "size": size}, {"kind": "remove", "object": "same"}]),
            json!([{"kind": "mkdir"}]),
            json!([{"kind": "rmdir"}]),
        ];
        let chains: Vec<_> = weights.iter().zip(&steps).enumerate()
            .map(|(place, (weight, steps))| chain(&format!("c{place}"), *weight, steps)).collect();
        let users_chains: Vec<_> = chains.iter().map(|one| {
            let mut one = one.clone();
            one["name"] = json!(format!("u{}", one["name"]));
            one
        }).collect();
        let mut set = small_set();
        set["seed"] = json!(seed);
        set["file_popularity"] = weighted(&[(1_000_000, 1), (1, 99)]);
        (set["files"], set["empty_directories"]) = (constant(4_000), constant(500));
        let load = Load::new(&set, &[open(rate, &chains), closed(users, 50_000, &users_chains)]);
        let (replayed, report) = load.alone(Nanos(50_000_000));
        prop_assert_eq!(report.unavailable, 0);
        check_lives(&load, &replayed);
        let sequences = replayed.sequences.iter().map(|s| u64::from(s.operations)).sum::<u64>();
        prop_assert!(sequences <= replayed.issued.len() as u64);
        let drawn: u64 = report.file_popularity.iter().map(|row| row.drawn).sum();
        prop_assert!(drawn >= report.repeated_draws);
    }
}

#[test]
fn what_cannot_be_run_is_refused_where_it_is_written() {
    let look = || chain("c", 1, &json!([{"kind": "lookup"}]));
    let refused = |filament: Value| Load::new(&small_set(), &[filament]).refused();
    let steps = |steps: Value| refused(closed(1, 0, &[chain("c", 1, &steps)]));
    for (message, filament) in [
        (
            "give arrival and rate",
            json!({"type": "files", "chains": [look()]}),
        ),
        ("users is 0", closed(0, 0, &[look()])),
        ("chains is empty", closed(1, 0, &[])),
        (
            "all weights are 0",
            closed(1, 0, &[chain("c", 0, &json!([{"kind": "lookup"}]))]),
        ),
        ("names must differ", closed(1, 0, &[look(), look()])),
    ] {
        let error = refused(filament);
        assert!(
            error.contains(message) && error.starts_with("filaments[0]"),
            "{error}"
        );
    }
    let mut both = open(1, &[look()]);
    both["users"] = json!(3);
    assert!(refused(both).contains("give arrival and rate"));
    let mut pieces = closed(1, 0, &[look()]);
    pieces["piece_bytes"] = json!(0);
    assert!(refused(pieces).contains("piece_bytes is 0"));
    for (message, wrong) in [
        ("it has no steps", json!([])),
        (
            "step 1 (exchange): file sets have no such operation",
            json!([{"kind": "exchange"}]),
        ),
        (
            "step 1 (lookup): it transfers nothing",
            json!([{"kind": "lookup", "size": constant(1)}]),
        ),
        (
            "step 1 (read): object: there is no step before",
            json!([{"kind": "read", "object": "same"}]),
        ),
        (
            "step 2 (readdir): object: the step before",
            json!([{"kind": "lookup"}, {"kind": "readdir", "object": "same"}]),
        ),
        (
            "step 1 (read): location: the whole file",
            json!([{"kind": "read", "location": "random"}]),
        ),
        (
            "step 1 (append): location",
            json!([{"kind": "append", "size": constant(1), "location": "random"}]),
        ),
        (
            "size: weighted",
            json!([{"kind": "read", "size": weighted(&[])}]),
        ),
        (
            "64 GiB",
            json!([{"kind": "read", "size": constant(1 << 36)}]),
        ),
    ] {
        let error = steps(wrong);
        assert!(
            error.contains(message) && error.contains("chain \"c\""),
            "{error}"
        );
    }
    let mut bare = small_set();
    for (part, kind) in [
        ("files", "lookup"),
        ("symlinks", "readlink"),
        ("empty_directories", "mkdir"),
        ("file_popularity", "read"),
        ("directory_popularity", "readdir"),
    ] {
        bare[part] = constant(0);
        let chain = chain("c", 1, &json!([{"kind": kind}]));
        let error = Load::new(&bare, &[closed(1, 0, &[chain])]).refused();
        assert!(error.contains(part), "{error}");
        bare = small_set();
    }
    let load = Load::new(&small_set(), &[closed(1, 0, &[look()])]);
    let built = load
        .workload
        .build(Placement::ALONE, 0, &mut |_| unreachable!());
    assert!(
        built
            .map(|_| ())
            .unwrap_err()
            .to_string()
            .contains("no file_set")
    );
}
