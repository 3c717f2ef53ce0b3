//! A write beyond the process's file size limit is an error of its operation. This test has its own
//! program, because the limit applies to the whole process.

#![allow(clippy::unwrap_used)]

use bw_model::Kind;
use files::*;

// A test may unwrap: its panic is the report.

#[allow(dead_code)]
mod files;

#[test]
fn a_write_past_the_limit_is_an_error_or_short_and_then_an_error() {
    // SAFETY: ignoring a signal touches no memory of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let limit = libc::rlimit {
        rlim_cur: 65_536,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the kernel reads one structure, which is ours.
    let status = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
    assert_eq!(status, 0);
    let place = Place::new();
    for engine in engines() {
        let spec = made(&place.file(&format!("{engine:?}")), engine, 32_768);
        let (_file, mut target) = target(&spec, WRITES, 2, 16_384);
        assert_eq!(alone(&mut target, Kind::Write, 49_152, 16_384), 16_384);
        assert_eq!(
            alone(&mut target, Kind::Write, 57_344, 16_384),
            -libc::EFBIG,
            "half of it"
        );
        assert_eq!(alone(&mut target, Kind::Write, 65_536, 4096), -libc::EFBIG);
    }
    let spec = made(&place.file("too large"), engines()[0], 1 << 20);
    let refused = bw_load::file::open(&spec, WRITES).map(|_| ()).unwrap_err();
    assert_eq!(refused.code, "target-size");
    assert!(refused.remedy.contains("ulimit -f"));
}
