//! If no ring is available, `auto` uses threads and reports why. This test has its own program, because
//! it leaves the whole process without free file descriptors.

#![allow(clippy::unwrap_used)]

use bw_load::file::{Engine, open};
use bw_load::kernel_probe::probe;
use bw_model::Kind;
use files::*;
use std::os::fd::AsRawFd;

// A test may unwrap: its panic is the report.

#[allow(dead_code)]
mod files;

/// Prevents the process from opening more descriptors.
fn leave_no_descriptor() {
    let next = std::fs::File::open("/dev/null").unwrap().as_raw_fd();
    let limit = libc::rlimit {
        rlim_cur: u64::try_from(next).unwrap(),
        rlim_max: 4096,
    };
    // SAFETY: the kernel reads one structure, which is ours.
    let status = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!(status, 0);
}

#[test]
fn without_a_ring_threads_do_the_work_and_the_reason_is_reported() {
    let place = Place::new();
    let mut spec = made(&place.file("f"), Engine::Auto, 65_536);
    let auto = open(&spec, WRITES).unwrap();
    spec.engine = Engine::IoUring;
    let demanded = open(&spec, WRITES).unwrap();
    leave_no_descriptor();

    let found = probe(&[]).io_uring;
    assert!(!found.available && !found.absent.is_empty(), "{found:?}");
    let mut target = auto.worker(4, 4096).unwrap();
    let description = target.description().clone();
    assert_eq!(description.engine, "threads");
    let why = description.absent.join("; ");
    assert!(
        why.contains("io_uring: no file descriptor is left"),
        "{why}"
    );
    assert_eq!(alone(&mut target, Kind::Write, 4096, 4096), 4096);

    let refused = demanded.worker(4, 4096).map(|_| ()).unwrap_err();
    assert_eq!(refused.code, "target-engine");
}
