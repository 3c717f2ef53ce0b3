//! Some numbers that are written and read together.
//!
//! Decision: a sequence lock. Readers write nothing, so any number of them share the numbers without waiting for each other;
//! no writer ever waits. A reader that comes while the numbers change either has nothing, and looks again later ([`read`]), or
//! waits for the stores ([`latest`]). Rejected: a mutex, because everybody would wait for a thread that was preempted with it.
//! Source: H.-J. Boehm, Can seqlocks get along with programming language memory models? MSPC 2012. loom checks it
//! (`make soundness`).
//!
//! [`read`]: SequenceLock::read
//! [`latest`]: SequenceLock::latest

use crate::sync::{AtomicU64, Ordering, fence, yield_now};

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

    /// Stores the numbers, unless another thread stores its own at the same time: those stay, as if they came later.
    pub(crate) fn write(&self, numbers: [u64; N]) {
        use Ordering::{Acquire, Relaxed};
        let version = self.version.load(Relaxed);
        let (even, odd) = (version & !1, version | 1);
        let begun = self.version.compare_exchange(even, odd, Acquire, Relaxed);
        if begun.is_err() {
            return;
        }
        fence(Ordering::Release);
        for (cell, number) in self.numbers.iter().zip(numbers) {
            cell.store(number, Ordering::Relaxed);
        }
        self.version.store(even + 2, Ordering::Release);
    }

    /// Returns the numbers; None if none were written. Waits while they change.
    pub(crate) fn latest(&self) -> Option<[u64; N]> {
        loop {
            if let Some((_, numbers)) = self.read(0) {
                return Some(numbers);
            }
            if self.version.load(Ordering::Relaxed) == 0 {
                return None;
            }
            yield_now();
        }
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
