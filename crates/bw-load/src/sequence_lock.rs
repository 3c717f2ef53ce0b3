//! Some numbers that one thread writes, and others read, together.
//!
//! Decision: a sequence lock. Neither side waits: a reader that comes while the numbers change has nothing, and looks again
//! later. Rejected: a mutex, because a reader would wait for a writer that was preempted. Source: H.-J. Boehm, Can seqlocks
//! get along with programming language memory models? MSPC 2012. loom checks it (`make soundness`).

use crate::sync::{AtomicU64, Ordering, fence};

/// `N` numbers and their version.
#[derive(Debug)]
pub(crate) struct SequenceLock<const N: usize> {
    /// 0: nothing was written; odd: they change.
    version: AtomicU64,
    numbers: [AtomicU64; N],
}

impl<const N: usize> SequenceLock<N> {
    /// Returns a lock to which nothing was written.
    pub(crate) fn new() -> Self {
        Self {
            version: AtomicU64::new(0),
            numbers: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Stores the numbers; only one thread may do so.
    pub(crate) fn write(&self, numbers: [u64; N]) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for (cell, number) in self.numbers.iter().zip(numbers) {
            cell.store(number, Ordering::Relaxed);
        }
        self.version.store(version + 2, Ordering::Release);
    }

    /// Returns the numbers and their version, unless that is `seen` (0: none was), or they change now.
    pub(crate) fn read(&self, seen: u64) -> Option<(u64, [u64; N])> {
        let version = self.version.load(Ordering::Acquire);
        if version == seen || version % 2 == 1 {
            return None;
        }
        let numbers = std::array::from_fn(|place| self.numbers[place].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        (self.version.load(Ordering::Relaxed) == version).then_some((version, numbers))
    }
}
