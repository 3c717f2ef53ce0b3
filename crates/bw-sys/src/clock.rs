//! The kernel's clocks, and sleeping with them.
//!
//! Decision: CLOCK_MONOTONIC for durations, CLOCK_REALTIME for dates. Rejected: CLOCK_MONOTONIC_RAW. It is not slewed,
//! but Python and /proc use CLOCK_MONOTONIC, and a slew of at most 500 ppm is far below what spawning adds.
//! Source: clock_gettime(2).

use rustix::thread::{clock_nanosleep_relative, nanosleep as sleep_by_default_clock};
use rustix::time::{ClockId, Timespec, clock_gettime};

const SECOND_NS: u64 = 1_000_000_000;

/// Returns CLOCK_MONOTONIC [ns]. Async-signal-safe.
#[inline]
#[must_use]
pub fn monotonic_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// Returns CLOCK_REALTIME [ns since 1970].
#[must_use]
pub fn realtime_ns() -> u64 {
    read(ClockId::Realtime)
}

/// Returns the CPU time of this process [ns].
#[must_use]
pub fn process_cpu_ns() -> u64 {
    read(ClockId::ProcessCPUTime)
}

#[inline]
fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.unsigned_abs() * SECOND_NS + time.tv_nsec.unsigned_abs()
}

/// Returns a duration in the kernel's form.
#[must_use]
pub fn timespec(length_ns: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(length_ns / SECOND_NS).unwrap_or(i64::MAX),
        tv_nsec: (length_ns % SECOND_NS).cast_signed(),
    }
}

/// Sleeps for about `length_ns` by `clock_nanosleep` on CLOCK_MONOTONIC; a signal may end the sleep early.
pub fn sleep(length_ns: u64) {
    // An early end needs no report: the caller reads the clock afterwards.
    let _ = clock_nanosleep_relative(ClockId::Monotonic, &timespec(length_ns));
}

/// Sleeps as usleep(3) does: by `nanosleep`.
pub fn nanosleep(length_ns: u64) {
    let _ = sleep_by_default_clock(&timespec(length_ns));
}
