//! Sleeping on a number in memory until another thread or process changes it. Source: futex(2).

use crate::clock::timespec;
use rustix::thread::futex::{Flags, wait as futex_wait, wake as futex_wake};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Which processes may wait on the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Threads of this process only.
    Private,
    /// All processes that have the memory mapped.
    Shared,
}

impl Scope {
    fn flags(self) -> Flags {
        match self {
            Self::Private => Flags::PRIVATE,
            Self::Shared => Flags::empty(),
        }
    }
}

/// Sleeps while `word` is `expected`, at most for `limit`; may return early. Async-signal-safe.
pub fn wait(word: &AtomicU32, expected: u32, limit: Option<Duration>, scope: Scope) {
    let limit = limit.map(|limit| timespec(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)));
    // Whatever it returns, the caller reads the word again.
    let _ = futex_wait(word, scope.flags(), expected, limit.as_ref());
}

/// Wakes at most `count` threads that sleep on `word`. Async-signal-safe.
pub fn wake(word: &AtomicU32, count: u32, scope: Scope) {
    // The kernel takes the count as a signed number.
    let _ = futex_wake(word, scope.flags(), count.min(i32::MAX.cast_unsigned()));
}
