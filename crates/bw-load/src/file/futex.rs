//! Sleeping on a number in memory until another thread changes it. Source: futex(2).

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` is `expected`, for `at_most` if given; may return early.
pub fn sleep(word: &AtomicU32, expected: u32, at_most: Option<Duration>) {
    let limit = at_most.map(|length| libc::timespec {
        tv_sec: i64::try_from(length.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(length.subsec_nanos()),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the limit outlive the call, which only reads them. Whatever it
    // returns, the caller looks at the word again.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, limit) };
}

/// Wakes at most `count` threads that sleep on `word`.
pub fn wake(word: &AtomicU32, count: u32) {
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: only the address is looked at.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, count) };
}
