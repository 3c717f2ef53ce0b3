//! `bw-launcher measure`, hooks, and the command line.

#![allow(clippy::unwrap_used)]

use serde_json::json;
use std::process::{Command, Output, Stdio};
use support::{Folder, LAUNCHER, Session, kill, statuses, wait_until};

mod support;

const HOOK: &str = "case $1 in
    start) echo seen > $BW_HOOK_STATE/seen;;
    end) echo \"free_bytes = 12\"; echo \"state = $(cat $BW_HOOK_STATE/seen)\";;
    final) echo ignored = 1; echo '[disk]'; echo name = sda; echo requests = 3;;
esac";

fn launcher(words: &[&str]) -> Command {
    let mut command = Command::new(LAUNCHER);
    command.args(words);
    for name in ["APLOG", "APTHREAD", "APEPOCH", "BW_HOOKS"] {
        command.env_remove(name);
    }
    command
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

#[test]
fn a_block_goes_to_aplog_and_output_through() {
    let folder = Folder::new();
    let aplog = folder.path("aplog");
    let output = launcher(&["measure", "--", "sh", "-c", "cat; exit 3"])
        .env("APLOG", &aplog)
        .env("APTHREAD", "2")
        .env("APEPOCH", "9")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!((code(&output), output.stdout.len()), (3, 0));
    let text = folder.text("aplog");
    assert!(text.starts_with(
        "[measurement]\nthread = 2\nepoch = 9\ncommand = sh -c cat; exit 3\nstart_ns = "
    ));
    assert!(text.ends_with("\n\n"));
    let names: Vec<_> = text
        .lines()
        .filter_map(|line| Some(line.split_once(" = ")?.0))
        .collect();
    let expected = "thread epoch command start_ns user sys elapsed status rss_bytes minor_faults major_faults \
                    in_blocks out_blocks voluntary_switches involuntary_switches";
    assert_eq!(names.join(" "), expected);
    assert!(text.contains("\nstatus = 3\n"));
}

#[test]
fn a_script_without_an_interpreter_has_any_number_of_arguments() {
    let folder = Folder::new();
    let script = folder.script("words", "");
    std::fs::write(&script, "exit $#\n").unwrap();
    for words in [0, 61, 62, 63, 200] {
        let mut command = launcher(&["measure", &script]);
        command.args(vec!["x"; words]).stdout(Stdio::null());
        assert_eq!(code(&command.output().unwrap()), words as i32);
    }
}

#[test]
fn without_aplog_the_block_goes_to_stdout() {
    let output = launcher(&["measure", "echo", "hello"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("hello\n[measurement]\n"), "{text}");
}

#[test]
fn statuses_are_the_commands() {
    for (words, status) in [
        (&["measure", "no-such-program"][..], 127),
        (&["measure", "/etc/passwd"], 126),
        (&["measure", "sh", "-c", "kill -9 $$"], 137),
        (&["measure", "true"], 0),
        (&["measure"], 2),
        (&["frobnicate"], 2),
        (&[], 2),
        (&["--help"], 0),
        (&["--version"], 0),
    ] {
        assert_eq!(
            code(&launcher(words).output().unwrap()),
            status,
            "{words:?}"
        );
    }
}

#[test]
fn its_own_size_does_not_show() {
    let output = launcher(&["measure", "/bin/true"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("rss_bytes = "));
    let limit = if cfg!(debug_assertions) {
        4 << 20
    } else {
        2 << 20
    };
    assert!(line.unwrap().parse::<u64>().unwrap() < limit, "{text}");
}

#[test]
fn a_signal_is_passed_on_to_the_command() {
    let folder = Folder::new();
    let ready = folder.path("ready");
    let text = format!(
        "trap 'kill $!; exit 9' TERM; sleep 1000 & touch {}; wait",
        ready.display()
    );
    let mut command = launcher(&["measure", "sh", "-c", &text]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    wait_until("the command is ready", || ready.exists());
    kill(child.id() as i32, libc::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

#[test]
fn hooks_add_values_and_blocks() {
    let folder = Folder::new();
    let hook = folder.script("hooks-one", HOOK);
    let output = launcher(&["measure", "--hooks", &hook, "true"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("\nfree_bytes = 12\nstate = seen\n\n[disk]\nname = sda\nrequests = 3\n\n"),
        "{text}"
    );
    assert!(!text.contains("ignored"));
}

#[test]
fn a_directory_stands_for_its_executables_and_failure_is_reported() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("hooks")).unwrap();
    folder.script("hooks/b", "[ $1 = end ] && echo b = 2; exit 0");
    folder.script("hooks/a", "[ $1 = end ] && echo a = 1; exit 5");
    std::fs::write(folder.path("hooks/README"), "not a hook").unwrap();
    let path = folder.path("hooks");
    let output = launcher(&["measure", "true"])
        .env("BW_HOOKS", path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("\na = 1\nb = 2\n\n"), "{text}");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        message.contains("exit status 5") && code(&output) == 0,
        "{message}"
    );
}

#[test]
fn hooks_of_a_run_speak_in_its_records() {
    let mut session = Session::new();
    let good = session.folder.script("good", "echo $1 = $APEPOCH; pwd > where; stat -c %a $BW_HOOK_STATE > mode; echo $BW_HOOK_STATE > state");
    let bad = session
        .folder
        .script("bad", "[ $1 = start ] || exit 0; echo partial = 1; exit 6");
    let mut request = session.request(&[("SETUP", "true"), ("EXEC", "echo $BW_HOOKS")]);
    request["hooks"] = json!([good, bad, "/no/such/hook"]);
    request["epochs"] = json!(2);
    let (epochs, _) = session.run(&request);
    let missing = "# error: cannot execute /no/such/hook: No such file or directory (os error 2)\n";
    for (place, epoch) in epochs.iter().enumerate() {
        assert_eq!(epoch["ending"], "ok");
        let events = ["premeasure", "start", "end", "final"];
        let mut expected = Vec::new();
        for event in events {
            expected.push(json!(["good", event, format!("{event} = {}\n", place + 1)]));
            if event == "start" {
                expected.push(json!([
                    "bad",
                    event,
                    "partial = 1\n# error: exit status 6\n"
                ]));
            }
            expected.push(json!(["hook", event, missing]));
        }
        assert_eq!(epoch["hooks"], json!(expected));
    }
    assert_eq!(
        session.folder.text("exec-1.out"),
        format!("{good}:{bad}:/no/such/hook\n").repeat(2)
    );
    assert_eq!(session.folder.text("mode"), "700\n");
    assert_eq!(
        session.folder.text("where").trim(),
        session.folder.0.path().to_str().unwrap()
    );
    assert!(!std::path::Path::new(session.folder.text("state").trim()).exists());
}

#[test]
fn blocks_reach_the_record_of_a_trial() {
    let mut session = Session::new();
    let mut request = session.request(&[(
        "EXEC",
        "$LAUNCHER measure -- true; $LAUNCHER measure -- false",
    )]);
    request["threads"] = json!(2);
    let (epochs, _) = session.run(&request);
    assert_eq!(statuses(&epochs[0], "EXEC"), [1, 1]);
    for (thread, text) in [1, 2]
        .into_iter()
        .zip(epochs[0]["aplog"].as_array().unwrap())
    {
        let text = text[1].as_str().unwrap();
        let blocks: Vec<_> = text
            .split("\n\n")
            .filter(|block| !block.is_empty())
            .collect();
        assert_eq!(blocks.len(), 2);
        assert!(blocks[0].contains("command = true\n") && blocks[1].contains("command = false\n"));
        assert!(text.contains(&format!("thread = {thread}\n")));
    }
}

#[test]
fn a_caller_that_ignores_the_ends_of_children_changes_nothing() {
    let output = Command::new("env")
        .args(["--ignore-signal=CHLD", LAUNCHER, "measure", "--"])
        .args(["sh", "-c", "sleep 0.05; exit 3"])
        .env_remove("APLOG")
        .output()
        .unwrap();
    assert_eq!(code(&output), 3);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\nstatus = 3\n"), "{text}");
}
