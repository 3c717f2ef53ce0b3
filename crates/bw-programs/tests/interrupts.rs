//! Timeouts and interrupts: which processes they end, and which still run.

#![allow(clippy::unwrap_used)]

use serde_json::json;
use support::{Session, statuses};

mod support;

const WAIT: &str = "touch begun; sleep 1000 & wait";

#[test]
fn a_timeout_ends_exec_and_cleanup_runs() {
    let mut session = Session::new();
    let mut request = session.request(&[
        ("EXEC", "sleep 1000 & sleep 1000"),
        ("CLEANUP", "touch cleaned"),
    ]);
    request["timeout_ns"] = json!(50_000_000);
    request["threads"] = json!(3);
    request["epochs"] = json!(2);
    let (epochs, done) = session.run(&request);
    assert_eq!(done["reason"], "complete");
    for epoch in epochs {
        assert_eq!(epoch["ending"], "timeout");
        assert_eq!(statuses(&epoch, "EXEC"), [143; 3]);
        assert_eq!(statuses(&epoch, "CLEANUP"), [0]);
        assert_eq!(epoch["left_running"], 0);
    }
    assert!(session.folder.path("cleaned").exists());
    assert!(session.tagged().is_empty());
}

#[test]
fn who_ignores_sigterm_is_killed() {
    let mut session = Session::new();
    let text = "trap '' TERM; while :; do sleep 0.01; done";
    let mut request = session.request(&[("EXEC", text)]);
    request["timeout_ns"] = json!(50_000_000);
    request["grace_ns"] = json!(50_000_000);
    let (epochs, _) = session.run(&request);
    assert_eq!(
        (&epochs[0]["ending"], statuses(&epochs[0], "EXEC")),
        (&json!("timeout"), vec![137])
    );
}

#[test]
fn a_timeout_spares_the_server_that_setup_started() {
    let mut session = Session::new();
    let setup = "sleep 1000 & echo $! > server";
    let cleanup = "kill $(cat server) && touch server-was-there";
    let mut request = session.request(&[
        ("SETUP", setup),
        ("EXEC", "sleep 1000"),
        ("CLEANUP", cleanup),
    ]);
    request["timeout_ns"] = json!(50_000_000);
    let (epochs, _) = session.run(&request);
    assert_eq!(epochs[0]["ending"], "timeout");
    assert_eq!(statuses(&epochs[0], "CLEANUP"), [0]);
    assert!(session.folder.path("server-was-there").exists());
    assert!(session.tagged().is_empty());
}

#[test]
fn an_interrupt_with_cleanup_ends_exec_and_runs_cleanup() {
    let mut session = Session::new();
    let mut request = session.request(&[
        ("EXEC", WAIT),
        ("EXEC", "touch second"),
        ("CLEANUP", "touch cleaned"),
    ]);
    request["epochs"] = json!(5);
    session.send(&request);
    session.wait_for_file("begun");
    session.send(&json!({"type": "interrupt", "cleanup": true}));
    let (epochs, done) = session.collect();
    assert_eq!(
        (epochs.len(), &epochs[0]["ending"]),
        (1, &json!("interrupted"))
    );
    assert_eq!(
        (
            statuses(&epochs[0], "EXEC"),
            statuses(&epochs[0], "CLEANUP")
        ),
        (vec![143], vec![0])
    );
    assert_eq!(
        (&done["reason"], &done["next_epoch"]),
        (&json!("interrupted"), &json!(2))
    );
    assert!(session.folder.path("cleaned").exists() && !session.folder.path("second").exists());
    assert!(session.tagged().is_empty());
}

#[test]
fn an_interrupt_without_cleanup_runs_none() {
    let mut session = Session::new();
    session.send(&session.request(&[
        ("SETUP", WAIT),
        ("EXEC", "true"),
        ("CLEANUP", "touch cleaned"),
    ]));
    session.wait_for_file("begun");
    session.send(&json!({"type": "interrupt", "cleanup": false}));
    let (epochs, done) = session.collect();
    assert_eq!(
        (&epochs[0]["ending"], &done["reason"]),
        (&json!("interrupted"), &json!("interrupted"))
    );
    assert!(statuses(&epochs[0], "EXEC").is_empty() && statuses(&epochs[0], "CLEANUP").is_empty());
    assert!(!session.folder.path("cleaned").exists());
}

#[test]
fn a_second_interrupt_ends_the_cleanup_too() {
    let mut session = Session::new();
    session.send(&session.request(&[("EXEC", WAIT), ("CLEANUP", "touch cleaning; sleep 1000")]));
    session.wait_for_file("begun");
    session.send(&json!({"type": "interrupt", "cleanup": true}));
    session.wait_for_file("cleaning");
    session.send(&json!({"type": "interrupt", "cleanup": true}));
    session.send(&json!({"type": "interrupt", "cleanup": false}));
    let (epochs, _) = session.collect();
    assert_eq!(statuses(&epochs[0], "CLEANUP"), [143]);
    assert!(session.tagged().is_empty());
}

#[test]
fn an_interrupt_sent_with_the_request_is_not_lost() {
    let mut session = Session::new();
    let request = session.request(&[("EXEC", "sleep 1000")]);
    let interrupt = json!({"type": "interrupt", "cleanup": true});
    session.send_text(&format!("{request}\n{interrupt}"));
    let (epochs, done) = session.collect();
    assert_eq!(done["reason"], "interrupted");
    assert!(epochs.iter().all(|epoch| epoch["ending"] == "interrupted"));
}

#[test]
fn an_interrupt_that_comes_too_late_is_no_error() {
    let mut session = Session::new();
    session.epoch(&[("EXEC", "true")]);
    session.send(&json!({"type": "interrupt", "cleanup": true}));
    let epoch = session.epoch(&[("EXEC", "true")]);
    assert_eq!(epoch["ending"], "ok");
}

#[test]
fn requests_may_wait_in_line() {
    let mut session = Session::new();
    let first = session.request(&[("EXEC", "sleep 0.2")]);
    let mut second = session.request(&[("EXEC", "true")]);
    second["id"] = json!(8);
    session.send_text(&format!("{first}\n{second}"));
    assert_eq!(session.collect().1["id"], 7);
    assert_eq!(session.collect().1["id"], 8);
}
