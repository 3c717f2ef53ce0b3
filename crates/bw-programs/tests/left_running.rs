//! No process that a trial started outlives it, whichever process is killed.

#![allow(clippy::unwrap_used)]

use serde_json::json;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use support::{Folder, LAUNCHER, Session, alive, kill, number_in, statuses, wait_until};

mod support;

/// A daemon in a session of its own, re-parented, that ignores SIGTERM.
const DAEMON: &str =
    "(setsid sh -c 'trap \"\" TERM; echo $$ > daemon; while :; do sleep 1; done' &)
    while ! [ -s daemon ]; do sleep 0.01; done";

#[test]
fn a_double_forked_daemon_is_ended_and_counted() {
    let mut session = Session::new();
    let mut request = session.request(&[("EXEC", DAEMON)]);
    request["grace_ns"] = json!(50_000_000);
    let (epochs, _) = session.run(&request);
    assert_eq!(
        (&epochs[0]["ending"], statuses(&epochs[0], "EXEC")),
        (&json!("ok"), vec![0])
    );
    assert!(epochs[0]["left_running"].as_u64().unwrap() >= 1);
    assert!(!alive(number_in(&session.folder.path("daemon"))));
    assert!(session.tagged().is_empty());
}

#[test]
fn a_stopped_child_and_a_storm_of_forks_are_ended() {
    let mut session = Session::new();
    let storm = "s() { s & s & sleep 0.02; }; n=0; while [ $n -lt 8 ]; do
        (sh -c 'i=0; while [ $i -lt 300 ]; do (sleep 1000 &); i=$((i+1)); done' &); n=$((n+1)); done
        (kill -STOP $(sh -c 'echo $PPID') &) ; sleep 0.05";
    let mut request = session.request(&[("EXEC", storm)]);
    request["grace_ns"] = json!(10_000_000);
    let (epochs, _) = session.run(&request);
    assert!(epochs[0]["left_running"].as_u64().unwrap() >= 1);
    assert!(session.tagged().is_empty());
}

#[test]
fn a_daemon_of_presetup_lives_through_epochs_and_ends_with_the_runner() {
    let mut session = Session::new();
    let epoch = session.epoch(&[("PRESETUP", DAEMON)]);
    assert_eq!(epoch["left_running"], 0);
    let daemon = number_in(&session.folder.path("daemon"));
    for _ in 0..2 {
        let epoch = session.epoch(&[
            ("SETUP", "true"),
            ("EXEC", "sleep 1000 &"),
            ("CLEANUP", "true"),
        ]);
        assert_eq!(epoch["left_running"], 1);
        assert!(alive(daemon));
    }
    session.epoch(&[("POSTCLEANUP", "true")]);
    assert!(alive(daemon));
    session.input = None;
    session.child.wait().unwrap();
    assert!(!alive(daemon));
    assert!(session.tagged().is_empty());
}

/// Starts a trial with a daemon in this session, and returns in the middle of it.
fn in_the_middle(session: &mut Session) {
    let exec = format!("{DAEMON}; touch begun-$APTHREAD; sleep 1000 & wait");
    let mut request = session.request(&[("EXEC", &exec), ("CLEANUP", "touch cleaned")]);
    request["threads"] = json!(2);
    session.send(&request);
    session.wait_for_file("begun-1");
    session.wait_for_file("begun-2");
    assert!(session.tagged().len() >= 4);
}

#[test]
fn end_of_input_ends_everything() {
    let mut session = Session::new();
    in_the_middle(&mut session);
    session.input = None;
    session.child.wait().unwrap();
    assert!(session.tagged().is_empty());
    assert!(!session.folder.path("cleaned").exists());
}

#[test]
fn the_supervisor_outlives_a_killed_runner_and_ends_everything() {
    let mut session = Session::new();
    in_the_middle(&mut session);
    kill(session.runner(), libc::SIGKILL);
    assert_eq!(session.child.wait().unwrap().code(), Some(137));
    assert!(session.tagged().is_empty());
}

#[test]
fn the_runner_outlives_a_killed_supervisor_and_ends_everything() {
    let mut session = Session::new();
    in_the_middle(&mut session);
    session.child.kill().unwrap();
    let runner = session.runner();
    wait_until("the runner is gone", || !alive(runner));
    session.wait_until_nothing_is_left();
}

#[test]
fn sigterm_to_the_supervisor_ends_everything() {
    let mut session = Session::new();
    in_the_middle(&mut session);
    kill(session.child.id() as i32, libc::SIGTERM);
    session.child.wait().unwrap();
    assert!(session.tagged().is_empty());
}

#[test]
fn the_death_of_the_parent_ends_everything_even_with_input_open() {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "\"$0\" serve; true", LAUNCHER]);
    let mut session = Session::start(command);
    in_the_middle(&mut session);
    session.child.kill().unwrap();
    let runner = session.runner();
    wait_until("the runner is gone", || !alive(runner));
    session.wait_until_nothing_is_left();
}

#[test]
fn ctrl_c_to_the_supervisor_is_ignored() {
    // Many times: the first moment after hello is critical.
    for _ in 0..30 {
        let mut session = Session::new();
        kill(session.child.id() as i32, libc::SIGINT);
        assert_eq!(session.epoch(&[("EXEC", "true")])["ending"], "ok");
    }
}

#[test]
fn the_semaphore_is_removed_even_if_the_runner_is_killed() {
    let (mut session, key) = with_semaphore();
    assert!(semaphore_exists(key));
    kill(session.runner(), libc::SIGKILL);
    session.child.wait().unwrap();
    assert!(!semaphore_exists(key));
}

#[test]
fn the_next_launcher_removes_the_semaphore_of_one_that_was_killed_with_its_supervisor() {
    let (mut session, key) = with_semaphore();
    let runner = session.runner();
    kill(session.child.id() as i32, libc::SIGSTOP);
    kill(runner, libc::SIGKILL);
    session.child.kill().unwrap();
    session.child.wait().unwrap();
    wait_until("the runner is gone", || !alive(runner));
    session.wait_until_nothing_is_left();
    let _next = Session::new();
    assert!(!semaphore_exists(key));
}

/// Returns a session with an EXEC that runs, and the key of its semaphore.
fn with_semaphore() -> (Session, i32) {
    let mut session = Session::new();
    let request = session.request(&[(
        "EXEC",
        "echo $APIPCKEY > key.new; mv key.new key; exec sleep 1000",
    )]);
    session.send(&request);
    session.wait_for_file("key");
    let key = number_in(&session.folder.path("key"));
    (session, key)
}

fn semaphore_exists(key: i32) -> bool {
    // SAFETY: integer arguments only.
    unsafe { libc::semget(key, 1, 0) >= 0 }
}

/// An ordinary user cannot signal a process of root: here a copy of setpriv with the set-user-ID bit starts it.
#[test]
fn a_process_of_another_user_is_counted_and_does_not_hold_the_launcher_up() {
    // SAFETY: no arguments.
    let root = unsafe { libc::geteuid() } == 0;
    let folder = Folder::new();
    let privileged = folder.path("setpriv");
    if !root || std::fs::copy("/usr/bin/setpriv", &privileged).is_err() {
        eprintln!("skipped: needs root and setpriv");
        return;
    }
    std::fs::set_permissions(folder.0.path(), Permissions::from_mode(0o777)).unwrap();
    std::fs::set_permissions(&privileged, Permissions::from_mode(0o4755)).unwrap();
    let copy = folder.path("bw-launcher");
    std::fs::copy(LAUNCHER, &copy).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command.arg(&copy).arg("serve");
    let mut session = Session::start(command);
    std::fs::set_permissions(session.folder.0.path(), Permissions::from_mode(0o777)).unwrap();
    let sleeper = folder.path("sleeper");
    let start = format!(
        "{} --reuid 0 sh -c 'echo $$ > {}; exec sleep 1000' & sleep 0.1; while ! [ -s {1} ]; do sleep 0.01; done",
        privileged.display(),
        sleeper.display()
    );
    let mut request = session.request(&[("EXEC", &start)]);
    request["grace_ns"] = json!(50_000_000);
    let (epochs, _) = session.run(&request);
    let pid = number_in(&sleeper);
    assert_eq!(epochs[0]["not_permitted"], 1, "{}", epochs[0]);
    assert!(alive(pid));
    kill(pid, libc::SIGKILL);
    session.input = None;
    session.child.wait().unwrap();
}
