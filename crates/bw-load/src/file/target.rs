//! A file or a block device as the target of one worker, by one of the two engines.

use crate::file::spec::FileDescription;
use crate::file::threads::ThreadsTarget;
use crate::file::uring::UringTarget;
use crate::target::{Reaped, Target};
use bw_model::{Nanos, Operation};
use std::io;

/// A file or block device as one worker's target.
#[derive(Debug)]
pub enum FileTarget {
    /// By io_uring.
    Uring(Box<UringTarget>),
    /// By a pool of threads.
    Threads(Box<ThreadsTarget>),
}

impl FileTarget {
    /// Returns what it turned out to be.
    #[must_use]
    pub fn description(&self) -> &FileDescription {
        match self {
            Self::Uring(target) => target.description(),
            Self::Threads(target) => target.description(),
        }
    }

    /// Returns the first `size` bytes that the last read under `slot` brought; None while the
    /// slot is in flight, and of more bytes than the slot's buffer has.
    #[must_use]
    pub fn data(&self, slot: u32, size: u32) -> Option<&[u8]> {
        match self {
            Self::Uring(target) => target.data(slot, size),
            Self::Threads(target) => target.data(slot, size),
        }
    }
}

impl Target for FileTarget {
    #[inline]
    fn batch(&self) -> usize {
        match self {
            Self::Uring(target) => target.batch(),
            Self::Threads(target) => target.batch(),
        }
    }

    fn capacity(&self) -> u32 {
        match self {
            Self::Uring(target) => target.capacity(),
            Self::Threads(target) => target.capacity(),
        }
    }

    #[inline]
    fn submit(&mut self, slot: u32, operation: &Operation) {
        match self {
            Self::Uring(target) => target.submit(slot, operation),
            Self::Threads(target) => target.submit(slot, operation),
        }
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Uring(target) => target.flush(),
            Self::Threads(target) => target.flush(),
        }
    }

    #[inline]
    fn reap(&mut self, ends: &mut Vec<Reaped>) -> io::Result<()> {
        match self {
            Self::Uring(target) => target.reap(ends),
            Self::Threads(target) => target.reap(ends),
        }
    }

    fn wait(&mut self, at_most: Nanos) -> io::Result<()> {
        match self {
            Self::Uring(target) => target.wait(at_most),
            Self::Threads(target) => target.wait(at_most),
        }
    }
}
