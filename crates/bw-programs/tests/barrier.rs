//! The barrier and the semaphore, as benchmark scripts use them.

#![allow(clippy::unwrap_used)]

use serde_json::json;
use std::io::Write as _;
use std::process::Command;
use support::{LAUNCHER, Session, statuses};

mod support;

#[test]
fn nobody_passes_before_all_have_arrived_time_and_again() {
    let mut session = Session::new();
    for threads in [1, 2, 3, 5, 8, 16] {
        // Each notes its arrival and then, after the barrier, counts the arrivals.
        let text = "for round in 1 2 3; do
            touch in-$APEPOCH-$round-$APTHREAD; $LAUNCHER barrier || exit 1
            [ $(ls | grep -c \"^in-$APEPOCH-$round-\") = $THREADS ] || exit 2
        done; $LAUNCHER barrier -- sh -c 'exit 0'";
        let mut request = session.request(&[("EXEC", text), ("CLEANUP", "rm -f in-*")]);
        request["threads"] = json!(threads);
        request["epochs"] = json!(4);
        let (epochs, _) = session.run(&request);
        assert_eq!(epochs.len(), 4);
        for epoch in epochs {
            assert_eq!(statuses(&epoch, "EXEC"), vec![0; threads], "{threads}");
        }
    }
}

#[test]
fn it_breaks_when_a_participant_ends_without_arriving() {
    let mut session = Session::new();
    let text =
        "[ $APTHREAD = 2 ] && { sleep 0.1; exit 0; }; exec $LAUNCHER barrier -- touch passed";
    let mut request = session.request(&[("EXEC", text)]);
    request["threads"] = json!(4);
    request["epochs"] = json!(2);
    let (epochs, _) = session.run(&request);
    for epoch in epochs {
        assert_eq!(statuses(&epoch, "EXEC"), [71, 0, 71, 71]);
    }
    assert!(!session.folder.path("passed").exists());
    let message = session.folder.text("exec-1.err");
    assert!(message.contains("ended without arriving"), "{message}");
}

#[test]
fn one_that_comes_after_it_broke_does_not_wait() {
    let mut session = Session::new();
    let text = "[ $APTHREAD = 1 ] && exit 0; sleep 0.2; $LAUNCHER barrier";
    let mut request = session.request(&[("EXEC", text)]);
    request["threads"] = json!(2);
    let (epochs, _) = session.run(&request);
    assert_eq!(statuses(&epochs[0], "EXEC"), [0, 71]);
}

#[test]
fn outside_a_trial_it_goes_straight_through() {
    let run = |words: &[&str]| {
        let mut command = Command::new(LAUNCHER);
        command.arg("barrier").args(words).env_remove("BW_BARRIER");
        command.output().unwrap()
    };
    assert!(run(&[]).status.success());
    assert_eq!(run(&["--", "echo", "through"]).stdout, b"through\n");
    assert_eq!(run(&["no-such-program"]).status.code(), Some(127));
    assert_eq!(run(&["/etc/passwd"]).status.code(), Some(126));
}

#[test]
fn a_barrier_that_is_none_is_reported() {
    let mut command = Command::new(LAUNCHER);
    let output = command
        .arg("barrier")
        .env("BW_BARRIER", "/no/such")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(71));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such"));
}

#[test]
fn the_semaphore_has_the_value_n_for_any_program() {
    if Command::new("perl").arg("-e1").output().is_err() {
        writeln!(
            std::io::stderr(),
            "skipped: there is no perl to use the semaphore with"
        )
        .unwrap();
        return;
    }
    let mut session = Session::new();
    // As Auto-pilot's utility: decrement, then wait for zero.
    let program = "my $s = semget($ENV{APIPCKEY}, 1, 0); defined $s or die $!;
        semop($s, pack(q(s!3), 0, -1, 0)) or die $!; semop($s, pack(q(s!3), 0, 0, 0)) or die $!;";
    let text = format!("exec perl -e '{program}'");
    let mut request = session.request(&[("EXEC", &text)]);
    request["threads"] = json!(3);
    request["epochs"] = json!(5);
    let (epochs, _) = session.run(&request);
    for epoch in epochs {
        assert_eq!(
            statuses(&epoch, "EXEC"),
            [0; 3],
            "{}",
            session.folder.text("exec-1.err")
        );
    }
}

#[test]
fn the_barrier_is_private() {
    let mut session = Session::new();
    session.epoch(&[("EXEC", "stat -L -c %a $BW_BARRIER")]);
    assert_eq!(session.folder.text("exec-1.out"), "600\n");
}
