//! Signals before a run has started. This test has its own program, because signals concern the whole process.

#![allow(clippy::unwrap_used)]

use bw_load::environment;
use bw_load::file::{Engine, open};
use files::*;

// A test may unwrap: its panic is the report.

#[allow(dead_code)]
mod files;

#[test]
fn they_are_counted_and_end_the_making_of_a_file() {
    environment::catch_signals();
    assert_eq!(bw_sys::signals::caught(), 0);
    for _ in 0..2 {
        // SAFETY: the signal is caught, by a handler of ours.
        unsafe { libc::raise(libc::SIGTERM) };
    }
    assert_eq!(bw_sys::signals::caught(), 2);
    let place = Place::new();
    let spec = made(&place.file("large"), Engine::Threads, 1 << 20);
    let refused = open(&spec, READS).map(drop).unwrap_err();
    assert_eq!(refused.code, "target-interrupted");
    assert!(!spec.path.exists(), "what is not whole is not left behind");
}
