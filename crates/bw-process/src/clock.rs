//! The two clocks: CLOCK_MONOTONIC for durations, CLOCK_REALTIME for dates.
//!
//! CLOCK_MONOTONIC_RAW lost: it is not slewed, but Python and /proc speak CLOCK_MONOTONIC,
//! and a slew of at most 500 ppm is far below what spawning adds. Source: clock_gettime(2).

/// Returns CLOCK_MONOTONIC [ns]. Async-signal-safe.
pub fn monotonic_ns() -> u64 {
    now_ns(libc::CLOCK_MONOTONIC)
}

/// Returns CLOCK_REALTIME [ns since 1970].
pub fn realtime_ns() -> u64 {
    now_ns(libc::CLOCK_REALTIME)
}

fn now_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec to write to; both clocks always exist.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
