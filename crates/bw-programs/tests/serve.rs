//! Requests and records: docs/launcher-protocol.md for an undisturbed run.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use support::{Session, statuses};

mod support;

#[test]
fn hello_names_protocol_and_floor() {
    let session = Session::new();
    assert_eq!(session.hello["type"], "hello");
    assert_eq!(session.hello["protocol"], 1);
    assert!(session.hello["rss_floor_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn phases_run_in_order_and_done_says_what_is_next() {
    let mut session = Session::new();
    let mut request = session.request(&[
        ("SETUP", "echo setup $APEPOCH >> order"),
        ("EXEC", "echo exec $APEPOCH >> order"),
        ("EXEC", "echo second $APEPOCH >> order"),
        ("CLEANUP", "echo cleanup $APEPOCH >> order"),
    ]);
    request["first_epoch"] = json!(5);
    request["epochs"] = json!(2);
    let (epochs, done) = session.run(&request);
    let order = "setup 5 exec 5 second 5 cleanup 5 setup 6 exec 6 second 6 cleanup 6";
    let seen = session.folder.text("order").replace('\n', " ");
    assert_eq!(seen.trim(), order);
    assert_eq!(
        epochs
            .iter()
            .map(|e| e["epoch"].as_u64().unwrap())
            .collect::<Vec<_>>(),
        [5, 6]
    );
    assert!(
        epochs
            .iter()
            .all(|e| e["ending"] == "ok" && e["left_running"] == 0)
    );
    assert_eq!(
        (&done["next_epoch"], &done["reason"], &done["id"]),
        (&json!(7), &json!("complete"), &json!(7))
    );
    let indices: Vec<_> = epochs[0]["processes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["index"].clone())
        .collect();
    assert_eq!(indices, [0, 0, 1, 0]);
}

#[test]
fn a_record_has_plausible_usage() {
    let mut session = Session::new();
    let epoch = session.epoch(&[("EXEC", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")]);
    let process = &epoch["processes"][0];
    let elapsed_us = process["elapsed_ns"].as_u64().unwrap() / 1000;
    assert!(elapsed_us > 0 && process["start_ns"].as_u64().unwrap() > 0);
    assert!(process["user_us"].as_u64().unwrap() + process["system_us"].as_u64().unwrap() > 0);
    assert!(process["minor_faults"].as_u64().unwrap() > 0);
    assert!(epoch["duration_ns"].as_u64().unwrap() / 1000 >= elapsed_us);
}

#[test]
fn threads_have_numbers_logs_and_aplogs_of_their_own() {
    let mut session = Session::new();
    let text = "echo out-$APTHREAD-$APEPOCH; echo err-$APTHREAD >&2; [ $APTHREAD = 2 ] || echo t = $APTHREAD >> $APLOG";
    let mut request = session.request(&[("SETUP", "echo s = $THREADS > $APLOG"), ("EXEC", text)]);
    request["threads"] = json!(5);
    request["epochs"] = json!(3);
    let (epochs, _) = session.run(&request);
    for (place, epoch) in epochs.iter().enumerate() {
        let aplog = json!([
            [0, "s = 5\n"],
            [1, "t = 1\n"],
            [3, "t = 3\n"],
            [4, "t = 4\n"],
            [5, "t = 5\n"]
        ]);
        assert_eq!(epoch["aplog"], aplog);
        for process in &epoch["processes"].as_array().unwrap()[1..] {
            let thread = process["thread"].as_u64().unwrap();
            let log = session.folder.text(&format!("exec-{thread}.out"));
            assert_eq!(
                part(&log, &process["out"]),
                format!("out-{thread}-{}\n", place + 1)
            );
            let log = session.folder.text(&format!("exec-{thread}.err"));
            assert_eq!(part(&log, &process["err"]), format!("err-{thread}\n"));
        }
    }
    assert_eq!(statuses(&epochs[0], "EXEC"), [0; 5]);
}

fn part<'a>(log: &'a str, range: &Value) -> &'a str {
    let [offset, length] = [0, 1].map(|place| range[place].as_u64().unwrap() as usize);
    &log[offset..offset + length]
}

#[test]
fn the_environment_is_the_launchers_then_the_requests_then_ours() {
    let mut session = Session::new();
    let mut request = session.request(&[
        (
            "EXEC",
            "echo \"$APMODE|$APEPOCH|$THREADS|$APTHREAD|$FS|$PATH|${BW_HOOKS-none}\"",
        ),
        (
            "CLEANUP",
            "echo \"$APMODE|$APTHREAD|${APIPCKEY-none}|${BW_BARRIER-none}\"",
        ),
    ]);
    request["environment"] = json!([
        ["FS", "ext2"],
        ["APMODE", "wrong"],
        ["PATH", "/usr/bin:/bin"]
    ]);
    session.run(&request);
    assert_eq!(
        session.folder.text("exec-1.out"),
        "EXEC|1|1|1|ext2|/usr/bin:/bin|none\n"
    );
    assert_eq!(
        session.folder.text("cleanup-0.out"),
        "CLEANUP|0|none|none\n"
    );
}

#[test]
fn a_program_is_searched_in_path_then_in_the_directory() {
    let mut session = Session::new();
    session.folder.script("only-here", "echo here");
    session.folder.script("true", "echo not me");
    let mut request = session.request(&[]);
    request["commands"] =
        json!([{"mode": "EXEC", "argv": ["true"]}, {"mode": "EXEC", "argv": ["only-here"]}]);
    let (epochs, _) = session.run(&request);
    assert_eq!(epochs[0]["ending"], "ok", "{}", epochs[0]);
    assert_eq!(session.folder.text("exec-1.out"), "here\n");
}

#[test]
fn a_script_without_interpreter_line_is_the_shells() {
    let mut session = Session::new();
    let script = session.folder.script("plain", "");
    std::fs::write(&script, "echo from the shell $1\n").unwrap();
    let mut request = session.request(&[]);
    request["commands"] = json!([{"mode": "EXEC", "argv": [script, "x"]}]);
    let (epochs, _) = session.run(&request);
    assert_eq!(epochs[0]["ending"], "ok", "{}", epochs[0]);
    assert_eq!(session.folder.text("exec-1.out"), "from the shell x\n");
}

#[test]
fn what_cannot_be_started_is_127_with_the_reason() {
    let mut session = Session::new();
    for threads in [1, 3] {
        let mut request = session.request(&[]);
        request["commands"] = json!([{"mode": "EXEC", "argv": ["no-such-program"]}]);
        request["threads"] = json!(threads);
        let (epochs, _) = session.run(&request);
        assert_eq!(statuses(&epochs[0], "EXEC"), vec![127; threads]);
        let error = epochs[0]["processes"][0]["error"].as_str().unwrap();
        assert!(
            error.contains("no-such-program") && error.contains("No such file"),
            "{error}"
        );
    }
}

#[test]
fn a_signal_is_128_plus_its_number() {
    let mut session = Session::new();
    let epoch = session.epoch(&[("EXEC", "kill -9 $$")]);
    assert_eq!(statuses(&epoch, "EXEC"), [137]);
    assert_eq!(epoch["ending"], "failed");
}

#[test]
fn children_start_with_default_signals_and_no_stray_descriptors() {
    let mut session = Session::new();
    session.epoch(&[("EXEC", "grep -E 'Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd | wc -l; readlink /proc/self/fd/0")]);
    let seen = session.folder.text("exec-1.out");
    let zero = "0000000000000000";
    assert_eq!(
        seen,
        format!("SigBlk:\t{zero}\nSigIgn:\t{zero}\n4\n/dev/null\n")
    );
}

#[test]
fn cleanup_runs_after_a_failed_setup_and_a_failed_exec() {
    let mut session = Session::new();
    let epoch = session.epoch(&[
        ("SETUP", "exit 3"),
        ("EXEC", "touch ran"),
        ("CLEANUP", "true"),
        ("CLEANUP", "true"),
    ]);
    assert_eq!(epoch["ending"], "failed");
    assert_eq!(
        (statuses(&epoch, "SETUP"), statuses(&epoch, "EXEC")),
        (vec![3], vec![])
    );
    assert_eq!(statuses(&epoch, "CLEANUP"), [0, 0]);
    assert!(!session.folder.path("ran").exists());
    let epoch = session.epoch(&[
        ("EXEC", "exit 4"),
        ("EXEC", "true"),
        ("CLEANUP", "exit 1"),
        ("CLEANUP", "true"),
    ]);
    assert_eq!(
        (statuses(&epoch, "EXEC"), statuses(&epoch, "CLEANUP")),
        (vec![4], vec![1, 0])
    );
}

#[test]
fn exec_succeeds_with_the_statuses_of_the_request_and_nothing_else_does() {
    let mut session = Session::new();
    let mut ending = |mode: &str, command: &str| {
        let mut request = session.request(&[(mode, command), ("EXEC", "exit 1")]);
        request["ok_status"] = json!([1, 127]);
        session.run(&request).0[0]["ending"].clone()
    };
    assert_eq!(ending("EXEC", "exit 127"), "ok");
    assert_eq!(ending("EXEC", "exit 0"), "failed");
    assert_eq!(ending("EXEC", "kill -9 $$"), "failed");
    assert_eq!(ending("SETUP", "exit 1"), "failed");
    assert_eq!(ending("CLEANUP", "exit 1"), "failed");
    let mut request = session.request(&[]);
    request["commands"] = json!([{"mode": "EXEC", "argv": ["/no/such/program"]}]);
    request["ok_status"] = json!([127]);
    assert_eq!(session.run(&request).0[0]["ending"], "failed");
}

#[test]
fn batches_end_at_the_budget_and_on_failure() {
    let mut session = Session::new();
    let mut request = session.request(&[("EXEC", "true")]);
    request["epochs"] = json!(50);
    request["budget_ns"] = json!(1);
    let (epochs, done) = session.run(&request);
    assert_eq!(
        (epochs.len(), &done["reason"], &done["next_epoch"]),
        (1, &json!("budget"), &json!(2))
    );
    let mut request = session.request(&[("EXEC", "[ $APEPOCH -lt 3 ]")]);
    request["epochs"] = json!(50);
    request["stop_on_failure"] = json!(true);
    let (epochs, done) = session.run(&request);
    assert_eq!(
        (epochs.len(), &done["reason"], &done["next_epoch"]),
        (3, &json!("failed"), &json!(4))
    );
}

#[test]
fn peak_rss_of_a_small_program_is_not_ours_to_inflate() {
    let mut session = Session::new();
    for threads in [1, 4] {
        let mut request = session.request(&[]);
        request["commands"] = json!([{"mode": "EXEC", "argv": ["/bin/true"]}]);
        request["threads"] = json!(threads);
        request["epochs"] = json!(200);
        let (epochs, done) = session.run(&request);
        let floor = done["rss_floor_bytes"].as_u64().unwrap();
        for process in epochs
            .iter()
            .flat_map(|e| e["processes"].as_array().unwrap())
        {
            let rss = process["rss_bytes"].as_u64().unwrap();
            // The unoptimised build for tests is larger than the shipped one.
            let limit = if cfg!(debug_assertions) {
                4 << 20
            } else {
                2 << 20
            };
            assert!(rss < limit, "{rss} bytes, floor {floor}");
        }
    }
}

#[test]
fn malformed_requests_are_answered_and_survived() {
    let mut session = Session::new();
    let good = session.request(&[("EXEC", "true")]);
    let broken = |name: &str, value: Value| {
        let mut request = good.clone();
        request[name] = value;
        request.to_string()
    };
    let lines = [
        "{".to_owned(),
        "[]".to_owned(),
        "\"run\"".to_owned(),
        "{\"type\":\"dance\",\"id\":7}".to_owned(),
        "{\"type\":\"interrupt\",\"id\":7}".to_owned(),
        "{\"type\":\"run\",\"id\":7}".to_owned(),
        "\u{0}\u{1}".to_owned(),
        broken("surprise", json!(1)),
        broken("threads", json!(0)),
        broken("threads", json!(1_000_000)),
        broken("threads", json!("two")),
        broken("epochs", json!(-1)),
        broken("commands", json!([{"mode": "EXEC", "argv": []}])),
        broken("commands", json!([{"mode": "../x", "argv": ["true"]}])),
        broken("commands", json!([{"mode": "EXEC", "argv": ["a\0b"]}])),
        broken("environment", json!([["A=B", "c"]])),
        broken("environment", json!([["A", "c\0d"]])),
        broken("directory", json!("/no/such/directory")),
        broken("logs", json!("/no/such/directory")),
    ];
    for line in lines {
        session.send_text(&line);
        let reply = session.read().unwrap();
        assert_eq!(reply["type"], "error", "{line}: {reply}");
        assert!(!reply["message"].as_str().unwrap().is_empty());
        let id = if line.contains("\"id\":7") { 7 } else { 0 };
        assert_eq!(reply["id"], id, "{line}");
    }
    assert_eq!(session.run(&good).0[0]["ending"], "ok");
}

#[test]
fn a_large_batch_arrives_whole() {
    let mut session = Session::new();
    let mut request = session.request(&[]);
    request["commands"] = json!([{"mode": "EXEC", "argv": ["/bin/true"]}]);
    request["epochs"] = json!(600);
    let (epochs, done) = session.run(&request);
    let numbers: Vec<_> = epochs
        .iter()
        .map(|epoch| epoch["epoch"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (1..=600).collect::<Vec<_>>());
    assert_eq!(done["reason"], "complete");
}

#[test]
fn an_aplog_that_a_script_replaces_is_found_again() {
    let mut session = Session::new();
    let mut request =
        session.request(&[("EXEC", "echo a > new; echo $APEPOCH >> new; mv new $APLOG")]);
    request["epochs"] = json!(2);
    let (epochs, _) = session.run(&request);
    assert_eq!(epochs[0]["aplog"], json!([[1, "a\n1\n"]]));
    assert_eq!(epochs[1]["aplog"], json!([[1, "a\n2\n"]]));
}

#[test]
fn an_enormous_aplog_is_cut_and_says_so() {
    let mut session = Session::new();
    let epoch = session.epoch(&[("EXEC", "yes 'x = 1' | head -c 1000000 >> $APLOG")]);
    let text = epoch["aplog"][0][1].as_str().unwrap();
    assert!(text.len() < 300_000);
    assert!(text.ends_with("x = 1\n# cut: APLOG had 1000000 bytes\n"));
}

const END: u64 = 64 * 1024;

/// Returns stdout of the first process, its range and the bytes written.
fn kept(session: &Session, epoch: &Value) -> (Vec<u8>, u64, u64) {
    let process = &epoch["processes"][0];
    let [offset, length] = [0, 1].map(|at| process["out"][at].as_u64().unwrap() as usize);
    let log = std::fs::read(session.folder.path("exec-1.out")).unwrap_or_default();
    let written = process["out_bytes"].as_u64().unwrap();
    (
        log[offset..offset + length].to_vec(),
        offset as u64,
        written,
    )
}

fn with_output(session: &Session, text: &str, output: &Value) -> Value {
    let mut request = session.request(&[("EXEC", text)]);
    request["output"] = output.clone();
    request
}

#[test]
fn the_ends_of_a_long_output_are_kept() {
    let mut session = Session::new();
    for bytes in [0, 1, 2 * END - 1, 2 * END, 2 * END + 1, 3_000_000] {
        let text = format!("seq 1000000 | head -c {bytes}");
        let request = with_output(&session, &text, &json!({"keep": "ends"}));
        let (epochs, _) = session.run(&request);
        let (data, _, written) = kept(&session, &epochs[0]);
        let whole: String = (1..=1_000_000).map(|n| format!("{n}\n")).collect();
        let whole = &whole.as_bytes()[..bytes as usize];
        assert_eq!(written, bytes);
        if bytes <= 2 * END {
            assert_eq!(data, whole);
        } else {
            let end = END as usize;
            assert_eq!(&data[..end], &whole[..end]);
            assert_eq!(&data[end..], &whole[whole.len() - end..]);
        }
    }
}

#[test]
fn the_same_output_is_kept_once() {
    let mut session = Session::new();
    let text = "if [ $APEPOCH = 3 ]; then echo other; else seq 100000; fi";
    let mut request = with_output(&session, text, &json!({"keep": "ends"}));
    request["epochs"] = json!(4);
    let (epochs, _) = session.run(&request);
    let offsets: Vec<_> = epochs.iter().map(|e| kept(&session, e).1).collect();
    assert_eq!(offsets, [0, 0, 2 * END, 2 * END + 6]);
}

#[test]
fn a_gigabyte_is_written_to_bounded_memory() {
    let mut session = Session::new();
    let text = "head -c 1G /dev/zero; stat -L -c ' blocks %b' /proc/self/fd/1";
    let request = with_output(&session, text, &json!({"keep": "ends"}));
    let (epochs, _) = session.run(&request);
    let (data, _, written) = kept(&session, &epochs[0]);
    let end = String::from_utf8_lossy(&data[data.len() - 40..]).into_owned();
    let blocks = end.split_whitespace().last().unwrap();
    assert!(written > 1 << 30);
    assert!(blocks.parse::<u64>().unwrap() * 512 < 700 << 20, "{end}");
    let log = std::fs::metadata(session.folder.path("exec-1.out")).unwrap();
    assert_eq!(log.len(), 2 * END);
}

#[test]
fn an_output_that_passes_its_limit_ends_the_epoch() {
    let mut session = Session::new();
    let output = json!({"keep": "whole", "limit_bytes": 1_000_000});
    let request = with_output(&session, "yes; echo survived >&2", &output);
    let (epochs, _) = session.run(&request);
    assert_eq!(
        (&epochs[0]["ending"], &epochs[0]["output_full"]),
        (&json!("failed"), &json!(true))
    );
    assert_eq!(epochs[0]["processes"][0]["err_bytes"], 0);
}

#[test]
fn discarded_output_is_nowhere() {
    let mut session = Session::new();
    let request = with_output(&session, "echo a; echo b >&2", &json!({"keep": "null"}));
    let (epochs, _) = session.run(&request);
    let process = &epochs[0]["processes"][0];
    assert_eq!(
        (&process["out_bytes"], &process["err_bytes"]),
        (&json!(0), &json!(2))
    );
    assert_eq!(process["err"], json!([0, 0]));
    assert!(!session.folder.path("exec-1.out").exists());
    assert!(!session.folder.path("exec-1.err").exists());
}

#[test]
fn the_errors_of_a_failed_command_are_kept_when_output_is_discarded() {
    let mut session = Session::new();
    let command = "echo a; echo b >&2; exit 3";
    let request = with_output(&session, command, &json!({"keep": "null"}));
    let (epochs, _) = session.run(&request);
    assert_eq!(epochs[0]["processes"][0]["err"], json!([0, 2]));
    assert!(!session.folder.path("exec-1.out").exists());
    let kept = std::fs::read_to_string(session.folder.path("exec-1.err")).unwrap();
    assert_eq!(kept, "b\n");
}
