//! A session with the launcher, as in Python: writes requests, reads records.

#![allow(dead_code, clippy::unwrap_used)]

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const LAUNCHER: &str = env!("CARGO_BIN_EXE_bw-launcher");
/// After this time a condition counts as failed; generous, never a measurement.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Folder(pub TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Writes an executable script.
    pub(crate) fn script(&self, name: &str, body: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

pub(crate) struct Session {
    pub child: Child,
    pub input: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
    pub folder: Folder,
    pub hello: Value,
}

impl Session {
    pub(crate) fn new() -> Self {
        let mut command = Command::new(LAUNCHER);
        command.arg("serve");
        Self::start(command)
    }

    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let folder = Folder::new();
        let hello = Value::Null;
        let mut session = Self {
            child,
            input,
            lines,
            folder,
            hello,
        };
        session.hello = session.read().unwrap();
        session
    }

    pub(crate) fn runner(&self) -> i32 {
        self.hello["pid"].as_i64().unwrap() as i32
    }

    /// Returns a mark in the environment of all processes of this session.
    pub(crate) fn tag(&self) -> String {
        format!("BW_TEST_TAG={}", self.folder.0.path().display())
    }

    /// Returns a request for one epoch of shell commands: (mode, text).
    pub(crate) fn request(&self, commands: &[(&str, &str)]) -> Value {
        let commands: Vec<Value> = commands
            .iter()
            .map(|(mode, text)| json!({"mode": mode, "argv": ["/bin/sh", "-c", text]}))
            .collect();
        let tag = self.folder.0.path().to_str().unwrap();
        json!({"type": "run", "id": 7, "first_epoch": 1, "epochs": 1, "threads": 1,
               "commands": commands, "directory": tag, "logs": tag,
               "environment": [["BW_TEST_TAG", tag], ["LAUNCHER", LAUNCHER]],
               "grace_ns": 300_000_000})
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string());
    }

    pub(crate) fn send_text(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
    }

    /// Returns the next reply; none at the end of output.
    pub(crate) fn read(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap())
    }

    /// Returns the records of a request in progress, and its `done` or `error`.
    pub(crate) fn collect(&mut self) -> (Vec<Value>, Value) {
        let mut epochs = Vec::new();
        loop {
            let reply = self.read().expect("the launcher has ended");
            if reply["type"] != "epoch" {
                return (epochs, reply);
            }
            epochs.push(reply);
        }
    }

    pub(crate) fn run(&mut self, request: &Value) -> (Vec<Value>, Value) {
        self.send(request);
        self.collect()
    }

    /// Runs one epoch of shell commands and returns its record.
    pub(crate) fn epoch(&mut self, commands: &[(&str, &str)]) -> Value {
        let request = self.request(commands);
        let (mut epochs, done) = self.run(&request);
        assert_eq!(done["reason"], "complete", "{done}");
        epochs.remove(0)
    }

    pub(crate) fn tagged(&self) -> Vec<i32> {
        tagged(&self.tag())
    }

    pub(crate) fn wait_for_file(&self, name: &str) {
        let path = self.folder.path(name);
        wait_until(&format!("{} exists", path.display()), || path.exists());
    }

    pub(crate) fn wait_until_nothing_is_left(&self) {
        wait_until("nothing is left running", || self.tagged().is_empty());
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}

pub(crate) fn tagged(tag: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| carries(*pid, tag)).collect()
}

fn carries(pid: i32, tag: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment
        .split(|&byte| byte == 0)
        .any(|text| text == tag.as_bytes())
}

pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "still not true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or("").trim().chars().next();
    !matches!(state, None | Some('Z' | 'X'))
}

pub(crate) fn kill(pid: i32, signal: i32) {
    // SAFETY: integer arguments only; the pid is of a process that the test started.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

pub(crate) fn number_in(path: &Path) -> i32 {
    fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

/// Returns the statuses of an epoch's processes of one mode, in order.
pub(crate) fn statuses(epoch: &Value, mode: &str) -> Vec<i64> {
    let processes = epoch["processes"].as_array().unwrap().iter();
    let of_mode = processes.filter(|process| process["mode"] == mode);
    of_mode
        .map(|process| process["status"].as_i64().unwrap())
        .collect()
}
