//! File sets in a mounted directory, requested from `bw-engine` as a process: made, loaded, used again, interrupted.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

const FOLDER: &str = "benchwright-files";

/// A directory that is removed on drop.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn manifest(&self) -> Value {
        let text = fs::read_to_string(self.0.path().join(FOLDER).join("manifest.json"));
        serde_json::from_str(&text.unwrap()).unwrap()
    }
}

fn start(request: &Value) -> Child {
    let mut child = start_with_open_stdin(request);
    drop(child.stdin.take());
    child
}

fn start_with_open_stdin(request: &Value) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bw-engine"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let stdin = child.stdin.as_mut().unwrap();
    writeln!(stdin, "{request}").unwrap();
    child
}

/// Returns the last line, and the exit status.
fn answer(mut child: Child) -> (Value, Option<i32>) {
    let mut text = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    let last = text
        .lines()
        .last()
        .map(|line| serde_json::from_str(line).unwrap());
    (last.unwrap_or_default(), child.wait().unwrap().code())
}

fn ask(request: &Value) -> (Value, Option<i32>) {
    answer(start(request))
}

fn constant(value: u64) -> Value {
    json!({"type": "constant", "value": value})
}

fn set(files: u64) -> Value {
    json!({"seed": 3, "max_depth": 2, "directories": constant(4), "files": constant(files),
        "symlinks": constant(2), "empty_directories": constant(6), "present_micro": 800_000,
        "file_size": {"type": "weighted", "values": [[1000, 3], [20_000, 1]]}})
}

/// Users who execute chains of all kinds.
fn load(place: &Place, files: u64, more: &Value) -> Value {
    let step = |kind: &str| json!({"kind": kind});
    let same = |kind: &str| json!({"kind": kind, "object": "same"});
    let sized =
        |kind: &str, bytes| json!({"kind": kind, "size": constant(bytes), "object": "same"});
    let chains = [
        (
            "whole",
            vec![
                step("lookup"),
                same("access"),
                same("read"),
                same("getattr"),
            ],
        ),
        (
            "life",
            vec![
                step("create"),
                sized("append", 10_000),
                same("flush"),
                same("remove"),
            ],
        ),
        (
            "write",
            vec![step("read"), sized("write", 3000), same("setattr")],
        ),
        ("name", vec![step("rename"), same("lookup"), same("read")]),
        (
            "list",
            vec![
                step("readdir"),
                step("readdirplus"),
                step("fsstat"),
                step("readlink"),
            ],
        ),
        ("empty", vec![step("mkdir"), same("rmdir")]),
    ];
    let chain = |(name, steps)| json!({"name": name, "weight": 1, "steps": steps});
    let chains = chains.map(chain);
    let users = json!({"type": "files", "users": 6, "chains": chains});
    let mut request = json!({"type": "load", "target": {"kind": "dir", "path": place.0.path(), "threads": 3},
        "workload": {"seed": 1, "file_set": set(files), "filaments": [users]},
        "duration_ns": 300_000_000, "workers": 2, "lock_memory": false});
    for (name, value) in more.as_object().unwrap() {
        let slot = request.pointer_mut(name);
        match (slot, name.rsplit_once('/')) {
            (Some(slot), _) => *slot = value.clone(),
            (None, Some((parent, name))) => {
                request.pointer_mut(parent).unwrap()[name] = value.clone();
            }
            (None, None) => panic!("{name} is no pointer"),
        }
    }
    request
}

/// Everything below a directory, with its size; of directories 0.
fn tree(top: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(top).unwrap() {
        let path = entry.unwrap().path();
        let about = fs::symlink_metadata(&path).unwrap();
        if about.is_dir() {
            found.extend(tree(&path));
        }
        let size = if about.is_dir() { 0 } else { about.len() };
        found.insert(path, size);
    }
    found
}

#[test]
fn all_kinds_run_without_errors_and_the_next_run_has_the_same_set() {
    let mut removed = 0;
    for engine in ["io_uring", "threads"] {
        for more in [
            json!({}),
            json!({"/target/open_files": 0, "/target/synchronous": true}),
        ] {
            let place = Place::new();
            let mut request = load(&place, 40, &more);
            request["target"]["engine"] = json!(engine);
            let (result, status) = ask(&request);
            if engine == "io_uring" && result["code"] == "target-engine" {
                eprintln!("skipped: {}", result["message"]);
                continue;
            }
            assert_eq!(status, Some(0), "{result}");
            assert_eq!(result["target"]["kind"], "dir");
            assert_eq!(result["target"]["engine"], engine);
            let errors = &result["kinds"]["all"]["errors"];
            assert_eq!(result["counts"]["errors"], 0, "{errors}");
            assert_eq!(
                result["file_set"]["unavailable"], 0,
                "{}",
                result["file_set"]
            );
            let kinds = result["kinds"].as_object().unwrap();
            assert_eq!(kinds.len(), 18, "17 kinds and all: {:?}", kinds.keys());
            assert!(
                kinds
                    .values()
                    .all(|kind| kind["operations"].as_u64() > Some(0))
            );
            let made = &result["file_set"]["made"];
            assert_eq!(
                (&made["made"], &made["reused"]),
                (&made["files"], &json!(0))
            );
            assert_eq!(place.manifest()["state"], "used");

            // What the engine expects is there, apart from chains that the end of the run cut short.
            let there = tree(&place.0.path().join(FOLDER));
            let is_file = |path: &Path| {
                let name = path.file_name().unwrap().to_str().unwrap();
                name.starts_with(['f', 'r'])
            };
            let files = there.keys().filter(|path| is_file(path)).count() as u64;
            let expected = result["file_set"]["files_at_end"].as_u64().unwrap();
            assert!(files.abs_diff(expected) <= 12, "{files}, not {expected}");

            request["duration_ns"] = json!(1_000_000);
            let (again, _) = ask(&request);
            let again = &again["file_set"]["made"];
            assert_eq!(
                (&again["files"], &again["bytes"]),
                (&made["files"], &made["bytes"])
            );
            let number = |member: &str| again[member].as_u64().unwrap();
            assert_eq!(
                number("made") + number("repaired") + number("reused"),
                number("files")
            );
            assert!(number("repaired") > 0, "{again}");
            removed += number("removed");
            request["workload"]["filaments"][0]["chains"] =
                json!([{"name": "look", "weight": 1, "steps": [{"kind": "getattr"}]}]);
            ask(&request);
            let (last, _) = ask(&request);
            let last = &last["file_set"]["made"];
            assert_eq!(
                (&last["reused"], &last["removed"]),
                (&made["files"], &json!(0)),
                "{last}"
            );
        }
    }
    // A single run may happen to end without a file too many.
    assert!(removed > 0);
}

/// Starts the making of a large set, and returns the engine as soon as some files are there.
fn making(place: &Place, request: &Value) -> Child {
    let child = start(request);
    let folder = place.0.path().join(FOLDER);
    let files = || fs::read_dir(&folder).map_or(0, Iterator::count);
    while files() < 100 {
        std::thread::sleep(Duration::from_millis(1));
    }
    child
}

#[test]
fn a_maker_that_is_ended_by_a_signal_or_killed_is_continued() {
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let place = Place::new();
        fs::write(place.0.path().join("mine"), b"precious").unwrap();
        let request = load(&place, 1_000, &json!({"/duration_ns": 1_000_000}));
        let child = making(&place, &request);
        // SAFETY: the child is ours and is not waited for yet.
        unsafe { libc::kill(i32::try_from(child.id()).unwrap(), signal) };
        let (answer, status) = answer(child);
        if signal == libc::SIGTERM {
            assert_eq!(
                (status, &answer["code"]),
                (Some(2), &json!("file-set-interrupted")),
                "{answer}"
            );
        }
        assert_eq!(place.manifest()["state"], "making");
        let part = tree(place.0.path()).len();
        let (result, status) = ask(&request);
        assert_eq!(status, Some(0), "{result}");
        let made = &result["file_set"]["made"];
        let number = |member: &str| made[member].as_u64().unwrap();
        assert_eq!(
            number("made") + number("repaired") + number("reused"),
            number("files"),
            "{made}"
        );
        assert!(
            number("reused") > 0 && number("made") > 0,
            "{made} after {part} objects"
        );
        assert_eq!(fs::read(place.0.path().join("mine")).unwrap(), b"precious");
    }
}

/// Starts an engine whose load waits, and reads its line that says so.
fn waiting(request: &Value) -> (Child, BufReader<ChildStdout>) {
    let mut child = start_with_open_stdin(request);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "{\"type\":\"ready\"}\n");
    (child, out)
}

#[test]
fn a_load_waits_until_it_is_started_once_its_set_is_made() {
    let place = Place::new();
    let request = load(&place, 10, &json!({"/wait_for_start": true}));
    let end = |(mut child, mut out): (Child, BufReader<ChildStdout>)| {
        let mut text = String::new();
        out.read_to_string(&mut text).unwrap();
        let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        (last, child.wait().unwrap().code())
    };
    // The set is there before the start, and time zero is after it.
    let engine = waiting(&request);
    assert_eq!(place.manifest()["state"], "used");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let (mut child, out) = engine;
    drop(child.stdin.take());
    let (result, status) = end((child, out));
    assert_eq!(status, Some(0), "{result}");
    let started = result["started_ns"].as_u64().unwrap();
    assert!(u128::from(started) >= now.as_nanos());
    assert!(result["counts"]["completed"].as_u64() > Some(0));
    // A signal ends the wait, and the result reports that it was interrupted.
    let (child, out) = waiting(&request);
    // SAFETY: it has not been waited for, so the number is its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let (result, status) = end((child, out));
    assert_eq!((&result["interrupted"], status), (&json!(true), Some(130)));
    // More than the end of stdin is no start.
    let (mut child, out) = waiting(&request);
    writeln!(child.stdin.take().unwrap(), "go").unwrap();
    let (error, status) = end((child, out));
    assert_eq!((&error["code"], status), (&json!("bad-request"), Some(2)));
}

#[test]
fn what_cannot_be_is_refused_at_its_field_and_changes_nothing() {
    let place = Place::new();
    let missing = place.0.path().join("missing");
    let other = json!({"type": "open", "arrival": {"type": "constant"}, "rate": {"micro_per_s": 1},
        "access": {"kinds": [["read", 1]], "size": constant(1), "location": {"type": "uniform"}, "align_bytes": 1}});
    for (field, changes) in [
        ("workload.file_set", json!({"/workload/file_set": null})),
        (
            "workload.file_set",
            json!({"/workload/file_set/max_depth": 0}),
        ),
        (
            "workload.filaments[0]",
            json!({"/workload/filaments": [other]}),
        ),
        (
            "workload.filaments[0]",
            json!({"/target": {"kind": "http", "url": "http://h/", "connections": 1}}),
        ),
        ("pacer", json!({"/pacer": "select"})),
        ("target.threads", json!({"/target/threads": 0})),
        ("target", json!({"/target/path": missing})),
    ] {
        let (answer, status) = ask(&load(&place, 4, &changes));
        assert_eq!(
            (status, &answer["field"]),
            (Some(2), &json!(field)),
            "{changes}: {answer}"
        );
        assert!(!answer["remedy"].as_str().unwrap().is_empty());
    }
    let (answer, status) = ask(&load(&place, 4, &json!({"/target/no_such_field": 1})));
    assert!(
        status == Some(2)
            && answer["message"]
                .as_str()
                .unwrap()
                .contains("no_such_field")
    );
    assert_eq!(tree(place.0.path()).len(), 0);
}

#[test]
fn a_folder_with_foreign_files_is_refused_and_nothing_is_touched() {
    let place = Place::new();
    let folder = place.0.path().join(FOLDER);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("letter.txt"), b"precious").unwrap();
    let before = tree(place.0.path());
    let (answer, status) = ask(&load(&place, 4, &json!({"/target/replace": true})));
    assert_eq!(
        (status, &answer["code"]),
        (Some(2), &json!("file-set-foreign")),
        "{answer}"
    );
    assert_eq!(tree(place.0.path()), before);
    fs::remove_file(folder.join("letter.txt")).unwrap();
    assert_eq!(ask(&load(&place, 4, &json!({}))).1, Some(0));
    fs::write(folder.join("d0/letter.txt"), b"precious").unwrap();
    let before = tree(place.0.path());
    let (answer, status) = ask(&load(&place, 9, &json!({})));
    assert_eq!(status, Some(2));
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("d0/letter.txt"), "{answer}");
    assert_eq!(tree(place.0.path()), before);
}

#[test]
fn another_description_is_refused_unless_it_may_replace_the_set() {
    let place = Place::new();
    assert_eq!(ask(&load(&place, 4, &json!({}))).1, Some(0));
    let before = tree(place.0.path());
    let other = json!({"/workload/file_set/seed": 4});
    let (answer, status) = ask(&load(&place, 4, &other));
    assert_eq!(
        (status, &answer["code"]),
        (Some(2), &json!("file-set-differs")),
        "{answer}"
    );
    assert_eq!(tree(place.0.path()), before);
    let other = json!({"/workload/file_set/seed": 4, "/target/replace": true});
    let (result, status) = ask(&load(&place, 4, &other));
    assert_eq!(status, Some(0), "{result}");
    assert_eq!(result["file_set"]["made"]["reused"], 0);
    assert_eq!(place.manifest()["seed"], 4);
}
