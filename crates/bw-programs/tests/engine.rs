//! `bw-engine` as a process: requests in, lines out, signals.

#![allow(clippy::unwrap_used)]

use bw_record::segment::reader::SegmentReader;
use bw_sys::cpus::Scheduling;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn start(request: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bw-engine"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(request.as_bytes())
        .unwrap();
    child
}

/// Returns all lines, and the exit status.
fn answers(mut child: Child) -> (Vec<Value>, Option<i32>) {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let values = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap());
    let values = values.collect();
    (values, child.wait().unwrap().code())
}

fn ask(request: &str) -> (Value, Option<i32>) {
    let (mut values, status) = answers(start(request));
    (values.pop().unwrap(), status)
}

fn load(more: &Value) -> Value {
    let access = json!({"kinds": [["read", 1]], "size": {"type": "constant", "value": 4096},
        "location": {"type": "uniform"}, "align_bytes": 4096});
    let open = json!({"type": "open", "arrival": {"type": "constant"}, "rate": {"micro_per_s": 1_000_000_000},
        "access": access});
    let mut request = json!({"type": "load", "target": {"kind": "null"},
        "workload": {"seed": 1, "filaments": [open]}, "interval_ns": 50_000_000});
    for (name, value) in more.as_object().unwrap() {
        request[name] = value.clone();
    }
    request
}

#[test]
fn a_load_gives_progress_and_one_result() {
    let request = load(&json!({"duration_ns": 300_000_000}));
    let (values, status) = answers(start(&request.to_string()));
    let (result, progress) = values.split_last().unwrap();
    assert_eq!(
        (status, &result["type"], &result["schema"]),
        (Some(0), &json!("result"), &json!("load/1"))
    );
    assert!(!progress.is_empty() && progress.iter().all(|line| line["type"] == "progress"));
    assert_eq!(result["counts"]["completed"], 300);
    assert_eq!(result["kinds"]["read"]["bytes"], 300 * 4096);
    assert_eq!(result["kinds"]["all"]["response_ns"]["count"], 300);
    assert_eq!(result["lateness_ns"]["count"], 300);
}

#[test]
fn intervals_carry_their_buckets_on_request() {
    let run_with = |more| {
        let (values, _) = answers(start(&load(&more).to_string()));
        let (result, progress) = values.split_last().unwrap();
        (result.clone(), progress.to_vec())
    };
    let (result, progress) =
        run_with(json!({"duration_ns": 300_000_000, "interval_histograms": true}));
    let intervals = result["intervals"].as_array().unwrap();
    let (last, whole) = intervals.split_last().unwrap();
    for (line, interval) in progress.iter().zip(whole) {
        assert_eq!(&line["interval"], interval);
    }
    assert!(!progress.is_empty() && last["response_hdr"].is_string());
    let mean = |of: &Value| of["response_ns_mean"].as_f64().unwrap_or_default();
    let count = |of: &Value| of["completed"].as_f64().unwrap();
    let sum: f64 = intervals.iter().map(|one| mean(one) * count(one)).sum();
    let whole = result["kinds"]["all"]["response_ns"]["mean"]
        .as_f64()
        .unwrap();
    assert!((sum / 300.0 - whole).abs() < 1e-6 * whole);
    let (result, progress) = run_with(json!({"duration_ns": 100_000_000}));
    assert!(progress.iter().all(|line| line.get("interval").is_none()));
    assert!(result["intervals"][0].get("response_hdr").is_none());
}

#[test]
fn a_signal_ends_a_load_early_with_its_result() {
    let mut child = start(&load(&json!({"duration_ns": null})).to_string());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(first["type"], "progress");
    // SAFETY: the child is ours and is not waited for yet.
    unsafe { libc::kill(i32::try_from(child.id()).unwrap(), libc::SIGINT) };
    let last: Value = serde_json::from_str(&lines.last().unwrap().unwrap()).unwrap();
    assert_eq!(
        (&last["type"], &last["interrupted"]),
        (&json!("result"), &json!(true))
    );
    let counts = &last["counts"];
    assert!(counts["completed"].as_u64().unwrap() > 0);
    assert_eq!(counts["intended"], counts["completed"]);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// Returns policy and nice value of a process's worker as the kernel has them: fields 41 and 19 of stat, proc(5).
fn worker_scheduling(pid: u32) -> (i32, i32) {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let stat = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("stat")).ok();
    let stats = tasks.filter_map(|task| stat(task.unwrap()));
    let worker = stats.filter_map(|stat| Some(stat.split_once("(bw-worker-0) ")?.1.to_owned()));
    let worker = worker.last().unwrap();
    let field = |number: usize| worker.split(' ').nth(number - 3).unwrap().parse().unwrap();
    (field(41), field(19))
}

#[test]
fn a_low_priority_is_what_the_kernel_has_and_the_result_reports() {
    let own = Scheduling::current().unwrap();
    let cases = [
        (json!(null), 0, own.nice, own.policy),
        (json!("nice"), 0, 19, own.policy),
        (json!("idle"), libc::SCHED_IDLE, own.nice, "SCHED_IDLE"),
    ];
    for (low, policy, nice, name) in cases {
        let mut request = load(&json!({"duration_ns": null}));
        if !low.is_null() {
            request["low_priority"] = low;
        }
        let mut child = start(&request.to_string());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(first["type"], "progress");
        assert_eq!(worker_scheduling(child.id()), (policy, nice), "{name}");
        // SAFETY: the child is ours and is not waited for yet.
        unsafe { libc::kill(i32::try_from(child.id()).unwrap(), libc::SIGINT) };
        let last: Value = serde_json::from_str(&lines.last().unwrap().unwrap()).unwrap();
        let reported = &last["workers"][0]["scheduling"];
        assert_eq!(*reported, json!({"policy": name, "nice": nice}));
        child.wait().unwrap();
    }
}

/// Chains on a file set: an open loop of two kinds and users who create, append and remove.
fn file_load() -> Value {
    let constant = |value: u64| json!({"type": "constant", "value": value});
    let stat = json!({"name": "stat", "weight": 3, "steps": [{"kind": "lookup"}, {"kind": "getattr", "object": "same"}]});
    let whole = json!({"name": "whole", "weight": 1, "steps": [{"kind": "read"}]});
    let life = json!({"name": "life", "weight": 1, "steps": [
        {"kind": "create"}, {"kind": "append", "size": constant(100), "object": "same"},
        {"kind": "remove", "object": "same"}]});
    let open = json!({"type": "files", "arrival": {"type": "metronome", "period_ns": 1_000_000},
        "rate": {"micro_per_s": 4_000_000_000_u64}, "chains": [stat, whole]});
    let users = json!({"type": "files", "users": 3, "chains": [life]});
    let set = json!({"seed": 1, "max_depth": 2, "directories": constant(3), "files": constant(50),
        "file_size": constant(20_000), "present_micro": 900_000});
    load(
        &json!({"target": {"kind": "null", "service_ns": 1_000_000}, "duration_ns": 300_000_000,
        "warm_up_ns": 100_000_000, "workload": {"seed": 1, "file_set": set, "filaments": [open, users]}}),
    )
}

#[test]
fn chains_on_files_are_counted_as_operations_and_as_sequences() {
    for workers in [1, 2] {
        let mut request = file_load();
        request["workers"] = json!(workers);
        let (result, status) = ask(&request.to_string());
        assert_eq!(status, Some(0), "{result}");
        let number = |value: &Value| value.as_u64().unwrap();
        let (kinds, chains) = (&result["kinds"], &result["sequences"]);
        let started = |name: &str| number(&chains[name]["started"]);
        // 4 each ms, from 100 to 399 ms.
        assert_eq!(started("stat") + started("whole"), 1200, "{chains}");
        for name in ["stat", "whole", "life"] {
            let of = |member: &str| number(&chains[name][member]);
            assert_eq!(
                of("started"),
                of("completed") + of("unfinished"),
                "{name}: {chains}"
            );
            assert_eq!(
                of("completed"),
                number(&chains[name]["response_ns"]["count"])
            );
            assert_eq!(of("errors"), 0);
        }
        // Chains that began in the warm-up have operations behind it, and no sequence.
        let operations = |kind: &str| number(&kinds[kind]["operations"]);
        let stats = operations("lookup") + operations("getattr");
        assert!(stats >= number(&chains["stat"]["operations"]), "{chains}");
        assert_eq!(
            operations("lookup"),
            started("stat"),
            "first operations are on time"
        );
        assert_eq!(
            number(&kinds["append"]["bytes"]),
            100 * operations("append")
        );
        assert_eq!(number(&kinds["create"]["bytes"]), 0);
        // Two operations of 1 ms each; one operation cannot be faster.
        assert!(number(&chains["stat"]["response_ns"]["min"]) >= 2_000_000);
        let set = &result["file_set"];
        assert_eq!(
            (&set["directories"], &set["files"], &set["unavailable"]),
            (&json!(4), &json!(200), &json!(0))
        );
        let drawn: u64 = set["mix"].as_array().unwrap()[..2]
            .iter()
            .map(|row| number(&row["drawn"]))
            .sum();
        assert!((1600..1600 + 128).contains(&drawn), "{set}");
    }
}

#[test]
fn a_load_without_files_has_neither_sequences_nor_a_file_set() {
    let (result, _) = ask(&load(&json!({"duration_ns": 1_000_000})).to_string());
    assert!(result.get("sequences").is_none() && result.get("file_set").is_none());
}

#[test]
fn files_are_refused_on_a_target_without_files_and_sets_that_cannot_be() {
    let wrong = |place: &str, value: Value| {
        let mut request = file_load();
        *request.pointer_mut(place).unwrap() = value;
        let (answer, status) = ask(&request.to_string());
        assert_eq!(status, Some(2), "{answer}");
        (
            answer["field"].clone(),
            answer["message"].as_str().unwrap().to_owned(),
        )
    };
    let (field, message) = wrong("/target", json!({"kind": "file", "path": "/tmp/none"}));
    assert_eq!(field, "workload.filaments[0]");
    assert!(message.contains("needs a target with files"), "{message}");
    let (field, message) = wrong("/workload/file_set/max_depth", json!(0));
    assert_eq!(field, "workload.file_set");
    assert!(message.contains("max_depth is 0"), "{message}");
    let (_, message) = wrong("/workload/file_set", Value::Null);
    assert!(message.contains("no file_set"), "{message}");
    let (_, message) = wrong("/workload/filaments/1/chains/0/name", json!("stat"));
    assert!(message.contains("names must differ"), "{message}");
}

#[test]
fn what_is_not_understood_is_reported_with_its_place() {
    let (answer, status) = ask("{\"type\": \"load\",\n \"target\": }");
    assert_eq!(
        (status, &answer["type"], &answer["code"]),
        (Some(2), &json!("error"), &json!("bad-request"))
    );
    assert_eq!((&answer["line"], &answer["status"]), (&json!(2), &json!(2)));
    let (answer, _) = ask(&load(&json!({"speed": 3})).to_string());
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .contains("unknown field `speed`"),
        "{answer}"
    );
    let (answer, _) = ask("");
    assert_eq!(answer["type"], "error");
}

#[test]
fn requests_that_cannot_be_carried_out_are_refused_one_by_one() {
    let wrong = [
        json!({"workers": 0}),
        json!({"depth": 0}),
        json!({"cpus": [0, 1]}),
        json!({"fifo": 100}),
        json!({"fifo": 1, "low_priority": "idle"}),
        json!({"low_priority": "idle", "pacer": "sleep"}),
        json!({"interval_ns": 1}),
        json!({"duration_ns": 0}),
        json!({"cpus": [1023]}),
        json!({"target": {"kind": "file", "path": "/nowhere/at/all"}}),
        json!({"samples": "/nowhere/at/all", "duration_ns": 1}),
        json!({"workload": {"seed": 1, "filaments": []}}),
    ];
    for more in wrong {
        let (answer, status) = ask(&load(&more).to_string());
        assert_eq!(
            (&answer["type"], status),
            (&json!("error"), Some(2)),
            "{more}: {answer}"
        );
        assert!(!answer["remedy"].as_str().unwrap().is_empty());
    }
}

#[test]
fn what_is_wrong_is_reported_with_its_field_in_the_request() {
    let field = |more| ask(&load(&more).to_string()).0["field"].clone();
    assert_eq!(field(json!({"cpus": [1023]})), "cpus");
    assert_eq!(field(json!({"cpus": [0, 1]})), "cpus");
    assert_eq!(field(json!({"fifo": 0})), "fifo");
    let both = json!({"fifo": 1, "low_priority": "nice"});
    assert_eq!(field(both), "low_priority");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let target = json!({"kind": "file", "path": path, "size_bytes": 65_536, "block_bytes": 512});
    let mut request = load(&json!({"target": target, "duration_ns": 1}));
    request["workload"]["filaments"][0]["access"]["size"]["value"] = json!(100);
    let (answer, _) = ask(&request.to_string());
    assert_eq!(answer["field"], "workload.filaments[0].access.size");
    assert!(answer["remedy"].as_str().unwrap().starts_with("take 512, "));
    let mut request = load(&json!({"duration_ns": 1}));
    let filaments = request["workload"]["filaments"].as_array_mut().unwrap();
    filaments.push(filaments[0].clone());
    filaments[1]["rate"] = json!({"micro_per_s": 0});
    let (answer, _) = ask(&request.to_string());
    assert_eq!(answer["problems"].as_array().unwrap().len(), 1);
    assert_eq!(answer["problems"][0]["field"], "workload.filaments[1]");
}

#[test]
fn the_floor_and_the_probe_answer() {
    let (floor, status) =
        ask(r#"{"type":"floor","micro_per_s":1000000000,"duration_ns":100000000}"#);
    assert_eq!((status, &floor["schema"]), (Some(0), &json!("floor/1")));
    assert_eq!(floor["overshoot_ns"]["count"], 100);
    let (probe, status) = ask(r#"{"type":"probe"}"#);
    assert_eq!((status, &probe["type"]), (Some(0), &json!("result")));
}

#[test]
fn memory_is_not_locked_under_a_limit_that_would_end_the_run_later() {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--clear-groups", "--bounding-set=-all"]);
    command.args(["--inh-caps=-all", "prlimit", "--memlock=4194304:4194304"]);
    command.arg(env!("CARGO_BIN_EXE_bw-engine"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        return writeln!(std::io::stderr(), "skipped: there is no setpriv here").unwrap();
    };
    let request = load(&json!({"duration_ns": 50_000_000})).to_string();
    let written = child.stdin.take().unwrap().write_all(request.as_bytes());
    let (values, status) = answers(child);
    if written.is_err() || matches!(status, Some(1 | 126 | 127)) {
        return writeln!(
            std::io::stderr(),
            "skipped: the engine cannot be run as another user here"
        )
        .unwrap();
    }
    let environment = &values.last().unwrap()["environment"];
    assert_eq!(
        (status, &environment["memory_locked"]),
        (Some(0), &json!(false))
    );
    let why = environment["absent"][0].as_str().unwrap();
    assert_eq!(
        why,
        "mlockall: no more than 4096 KiB may be locked (ulimit -l)"
    );
}

#[test]
fn a_disk_that_fills_up_costs_the_rest_of_the_samples_and_not_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples");
    let mut request = load(&json!({"duration_ns": 300_000_000, "samples": path}));
    request["workload"]["filaments"][0]["rate"] = json!({"micro_per_s": 100_000_000_000_u64});
    let mut command = Command::new("prlimit");
    command.args(["--fsize=120000", env!("CARGO_BIN_EXE_bw-engine")]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(request.to_string().as_bytes()).unwrap();
    drop(input);
    let (values, status) = answers(child);
    let rows = rows_of(&path);
    let (result, samples) = (values.last().unwrap(), &values.last().unwrap()["samples"]);
    assert_eq!((status, &result["type"]), (Some(0), &json!("result")));
    assert_eq!(result["kinds"]["all"]["response_ns"]["count"], 30_000);
    assert_eq!(samples["failed"], "File too large");
    // Some blocks of 4096 rows fit; the next was cut off, and the rest can be read.
    assert!(
        rows > 0 && rows < 30_000 && rows.is_multiple_of(4096),
        "{rows} rows"
    );
    assert_eq!(samples["rows"], rows);
    assert_eq!(samples["lost"], 30_000 - rows);
}

/// Returns how many rows a strict reader reads.
fn rows_of(path: &Path) -> usize {
    let mut reader = SegmentReader::new(File::open(path).unwrap(), false).unwrap();
    let (mut all, mut rows) = (0, Vec::new());
    while reader.next_block(&mut rows).unwrap() {
        all += rows.len();
    }
    all
}

/// Returns whether a process catches SIGINT now.
fn catches(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    u64::from_str_radix(caught.unwrap().trim(), 16).unwrap() & (1 << (libc::SIGINT - 1)) != 0
}

#[test]
fn a_third_signal_ends_an_engine_that_waits_for_the_writer_of_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let trace = json!({"type": "trace", "path": &fifo, "format": "bw"});
    let more = json!({"workload": {"seed": 1, "filaments": [trace]}, "duration_ns": 1_000_000});
    let mut child = start(&load(&more).to_string());
    let pid = child.id();
    while !catches(pid) {
        std::thread::yield_now();
    }
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        // SAFETY: the child is ours and is not waited for yet.
        unsafe { libc::kill(i32::try_from(pid).unwrap(), libc::SIGINT) };
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    std::fs::remove_file(fifo).unwrap();
    assert_eq!(status.code(), Some(130));
}

#[test]
fn an_engine_dies_with_its_parent() {
    let mut command = Command::new("sh");
    // A shell's background process does not get the shell's stdin.
    command.args(["-c", "exec 3<&0; \"$0\" <&3 & wait"]);
    command.arg(env!("CARGO_BIN_EXE_bw-engine"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut parent = command.spawn().unwrap();
    let request = load(&json!({"duration_ns": 20_000_000_000_u64})).to_string();
    let mut input = parent.stdin.take().unwrap();
    input.write_all(request.as_bytes()).unwrap();
    drop(input);
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("progress"));
    parent.kill().unwrap();
    parent.wait().unwrap();
    // The pipe ends when no process holds it open: without a result.
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(rest.iter().all(|line| line.contains("progress")));
}

#[test]
fn nothing_begins_or_ends_before_time_zero() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let access = json!({"kinds": [["read", 1]], "size": {"type": "constant", "value": 4096},
        "location": {"type": "uniform"}, "align_bytes": 4096});
    let closed = json!({"type": "closed", "users": 4, "think": {"type": "constant", "value": 0},
        "access": access});
    let request = load(&json!({"duration_ns": 20_000_000, "depth": 4,
        "workload": {"seed": 1, "filaments": [closed]},
        "target": {"kind": "file", "path": path, "size_bytes": 1 << 20}}));
    let (result, status) = ask(&request.to_string());
    assert_eq!(status, Some(0), "{result}");
    // A read without any service time was issued while the clock was still at zero.
    let service = &result["kinds"]["read"]["service_ns"];
    assert!(service["min"].as_u64().unwrap() > 0, "{service}");
}

/// An echo starts its thread with a call that panics if there is no memory for its stack.
#[test]
fn a_defect_of_the_engine_is_one_error() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bw-engine"));
    command.env("RUST_MIN_STACK", (1_u64 << 46).to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input
        .write_all(br#"{"type":"clock-echo","token":7}"#)
        .unwrap();
    drop(input);
    let (values, status) = answers(child);
    let (last, before) = values.split_last().unwrap();
    assert_eq!(
        (status, &last["code"]),
        (Some(1), &json!("engine-panic")),
        "{last}"
    );
    assert!(before.iter().all(|line| line["type"] == "ready"));
}

#[test]
fn a_backlog_that_grows_too_long_ends_the_run() {
    let stall = json!({"kind": "null", "stalls": [{"at_ns": 0, "for_ns": 60_000_000_000_u64}]});
    let request = load(&json!({"target": stall, "depth": 1, "backlog": 20, "drain_ns": 0}));
    let (result, status) = ask(&request.to_string());
    assert_eq!((status, &result["stopped"]), (Some(0), &json!("backlog")));
    // On a busy machine more operations become due before the worker notices the stop.
    let waiting = result["counts"]["waiting"].as_u64().unwrap();
    assert!((21..1000).contains(&waiting), "{waiting}");
}

/// Starts an engine whose stdin stays open.
fn start_open(
    request: &Value,
) -> (
    Child,
    std::process::ChildStdin,
    BufReader<std::process::ChildStdout>,
) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bw-engine"));
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{request}").unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    (child, stdin, lines)
}

fn line(lines: &mut impl BufRead) -> Value {
    let mut text = String::new();
    lines.read_line(&mut text).unwrap();
    serde_json::from_str(&text).unwrap_or(Value::Null)
}

fn part(index: u32, of: u32) -> Value {
    load(
        &json!({"duration_ns": 200_000_000, "controlled": true, "part": {"index": index, "of": of},
        "interval_histograms": true, "workers": 2}),
    )
}

#[test]
fn engines_that_start_at_a_given_time_issue_one_schedule_and_merge_into_one_result() {
    let mut engines: Vec<_> = (0..3).map(|index| start_open(&part(index, 3))).collect();
    for (_, _, lines) in &mut engines {
        assert_eq!(line(lines)["type"], "armed");
    }
    let zero = bw_sys::clock::monotonic_ns() + 300_000_000;
    for (_, stdin, _) in &mut engines {
        writeln!(stdin, "{}", json!({"start_at_ns": zero})).unwrap();
    }
    let mut results = Vec::new();
    for (mut child, stdin, mut lines) in engines {
        results.push(line(&mut lines));
        drop(stdin);
        child.wait().unwrap();
    }
    let counts: Vec<_> = results
        .iter()
        .map(|one| one["counts"]["intended"].as_u64().unwrap())
        .collect();
    assert_eq!(counts.iter().sum::<u64>(), 200);
    assert!(
        counts.iter().all(|count| (66..=67).contains(count)),
        "{counts:?}"
    );
    let request = json!({"type": "merge", "results": results, "interval_ns": 100_000_000});
    let (merged, status) = ask(&request.to_string());
    assert_eq!(
        (status, &merged["type"], &merged["schema"]),
        (Some(0), &json!("result"), &json!("load/1"))
    );
    assert_eq!(merged["counts"]["completed"], 200);
    assert_eq!(merged["kinds"]["all"]["response_ns"]["count"], 200);
    assert_eq!(merged["workers"].as_array().unwrap().len(), 6);
    let intervals = merged["intervals"].as_array().unwrap();
    let sum: u64 = intervals
        .iter()
        .map(|one| one["intended"].as_u64().unwrap())
        .sum();
    assert_eq!(sum, 200);
    for interval in intervals {
        assert_eq!(interval["start_ns"].as_u64().unwrap() % 100_000_000, 0);
        assert!(interval["response_hdr"].is_null());
    }
    let rate = merged["intended_rate_per_s"].as_f64().unwrap();
    assert!((rate - 1000.0).abs() < 1e-6, "{rate}");
}

#[test]
fn a_controlled_load_stops_on_a_line_misses_no_start_and_ends_with_stdin() {
    let (mut child, mut stdin, mut lines) = start_open(&part(0, 1));
    assert_eq!(line(&mut lines)["type"], "armed");
    writeln!(stdin, "{}", json!({"start_at_ns": 1})).unwrap();
    assert_eq!(line(&mut lines)["code"], "start-missed");
    assert_eq!(child.wait().unwrap().code(), Some(1));

    let (mut child, mut stdin, mut lines) = start_open(&part(0, 1));
    assert_eq!(line(&mut lines)["type"], "armed");
    writeln!(stdin, "\"stop\"").unwrap();
    assert_eq!(line(&mut lines)["interrupted"], true);
    assert_eq!(child.wait().unwrap().code(), Some(130));

    let (mut child, stdin, mut lines) = start_open(&part(0, 1));
    assert_eq!(line(&mut lines)["type"], "armed");
    drop(stdin);
    assert_eq!(line(&mut lines), Value::Null);
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_part_of_what_needs_other_engines_is_refused() {
    let access = json!({"kinds": [["read", 1]], "size": {"type": "constant", "value": 4096},
        "location": {"type": "uniform"}, "align_bytes": 4096});
    let follow = json!({"type": "follow", "leader": "a", "every": 1, "delay": {"type": "constant", "value": 0},
        "access": access});
    let mut request = part(1, 2);
    request["workload"]["filaments"][0]["name"] = json!("a");
    request["workload"]["filaments"]
        .as_array_mut()
        .unwrap()
        .push(follow);
    for (request, field) in [(request, "workload.filaments[1]"), (part(2, 2), "part")] {
        let (mut child, _stdin, mut lines) = start_open(&request);
        assert_eq!(line(&mut lines)["field"], field);
        assert_eq!(child.wait().unwrap().code(), Some(2));
    }
}

#[test]
fn an_echo_answers_packets_and_lines_until_stdin_ends() {
    let (mut child, mut stdin, mut lines) = start_open(&json!({"type": "clock-echo", "token": 9}));
    let port = line(&mut lines)["port"].clone();
    writeln!(stdin).unwrap();
    let sent = bw_sys::clock::monotonic_ns();
    writeln!(stdin).unwrap();
    let readings = [line(&mut lines), line(&mut lines)];
    assert_eq!(readings.each_ref().map(|one| &one["type"]), ["clock"; 2]);
    let times =
        |one: &Value| ["received_ns", "answered_ns"].map(|name| one[name].as_u64().unwrap());
    // The end of the request's own line has no answer.
    let [second, answered] = times(&readings[1]);
    assert!(sent <= second && second <= answered);
    assert!(answered <= bw_sys::clock::monotonic_ns());
    let request = json!({"type": "clock-probe", "address": "127.0.0.1", "port": port, "token": 9, "round_trips": 20});
    let (found, status) = ask(&request.to_string());
    assert_eq!(
        (status, &found["round_trips"], &found["lost"]),
        (Some(0), &json!(20), &json!(0))
    );
    drop(stdin);
    assert_eq!(line(&mut lines)["type"], "result");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
