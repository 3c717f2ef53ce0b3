//! The two engines behind one enum: io_uring, or a pool of threads.
//!
//! [`Engines`] has what they need; each worker makes its own [`FileTarget`] from it.

use crate::file::buffers::Buffers;
use crate::file::operand::Operand;
use crate::file::ring;
use crate::file::spec::{Engine, FileDescription};
use crate::file::threads::ThreadsTarget;
use crate::file::uring::UringTarget;
use crate::target::{Awaited, Reaped, Target};
use bw_model::{EngineError, Nanos, Operation};
use bw_sys::cpus::Affinity;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::io;
use std::sync::Arc;

/// What every worker makes its target from.
#[derive(Debug)]
pub(crate) struct Engines {
    /// What operations act on.
    pub operand: Operand,
    /// How they reach the kernel.
    pub engine: Engine,
    /// Number of threads per worker.
    pub threads: u16,
    /// Whether written data are marked, so that no two blocks are equal.
    pub unique_data: bool,
    /// The CPUs on which they run.
    pub affinity: Affinity,
    /// Features of the operand.
    pub features: Vec<String>,
    /// What the operand does not have, with the reasons.
    pub absent: Vec<String>,
}

/// Returns buffers for `depth` operations in flight of up to `largest_bytes` each; see [`Buffers::new`].
///
/// # Errors
/// `target-engine`: there is no memory for buffers.
pub(crate) fn buffers(
    depth: u32,
    largest_bytes: u32,
    unique: bool,
) -> Result<Buffers, EngineError> {
    Buffers::new(depth, largest_bytes, unique).map_err(|error| {
        EngineError::request(
            "target-engine",
            format!("no memory for the buffers of the target: {error}"),
            "use a smaller depth or smaller operations, or raise the limit (ulimit -l)",
        )
    })
}

impl Engines {
    /// Makes a worker's own target for `depth` operations in flight of up to `largest_bytes`
    /// each. Call it in the worker's thread: a ring belongs to the thread that made it.
    ///
    /// # Errors
    /// `target-engine`: the requested engine is not available.
    pub(crate) fn worker(&self, depth: u32, largest_bytes: u32) -> Result<FileTarget, EngineError> {
        let uring = match self.engine {
            Engine::Threads => Err("io_uring: the request selects threads".to_owned()),
            _ => self.uring(depth, largest_bytes),
        };
        match (uring, self.engine) {
            (Ok(target), _) => Ok(FileTarget::Uring(Box::new(target))),
            (Err(why), Engine::IoUring) => Err(EngineError::request(
                "target-engine",
                why,
                "leave out the engine, or request threads",
            )),
            (Err(why), _) => {
                let mut target = self.pool(depth, largest_bytes, None)?;
                target.note(&self.features, &self.absent);
                target.note(&[], &[why]);
                Ok(FileTarget::Threads(Box::new(target)))
            }
        }
    }

    fn uring(&self, depth: u32, largest_bytes: u32) -> Result<UringTarget, String> {
        let buffers = Buffers::new(depth, largest_bytes, self.unique_data)
            .map_err(|error| format!("io_uring: no memory for buffers: {error}"))?;
        let pool = match self.operand {
            Operand::File(_) => None,
            // Some operations on a set have no counterpart in a ring.
            Operand::Set(_) => {
                let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
                let bell = bell.map_err(|error| format!("no eventfd: {error}"))?;
                // It has no operation that transfers bytes.
                let pool = self.pool(depth, 1, Some(Arc::new(bell)));
                Some(pool.map_err(|error| error.message)?)
            }
        };
        let target = UringTarget::new(self.operand.clone(), pool, buffers, depth);
        let mut target = target.map_err(|error| format!("io_uring: {}", ring::refused(&error)))?;
        target.note(&self.features, &self.absent);
        Ok(target)
    }

    fn pool(
        &self,
        depth: u32,
        largest_bytes: u32,
        bell: Option<Arc<OwnedFd>>,
    ) -> Result<ThreadsTarget, EngineError> {
        let (operand, count) = (self.operand.clone(), u32::from(self.threads).min(depth));
        let buffers = buffers(depth, largest_bytes, self.unique_data)?;
        ThreadsTarget::new(operand, buffers, (depth, count), &self.affinity, bell).map_err(
            |error| {
                EngineError::request(
                    "target-engine",
                    format!("{count} threads cannot be started: {error}"),
                    "use fewer threads",
                )
            },
        )
    }
}

/// A file, a block device or a file set as one worker's target.
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

    fn slice(&self) -> usize {
        match self {
            Self::Uring(target) => target.slice(),
            Self::Threads(target) => target.slice(),
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
    fn flush_only(&mut self) -> io::Result<()> {
        match self {
            Self::Uring(target) => target.flush_only(),
            Self::Threads(target) => target.flush_only(),
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

    fn awaited(&mut self) -> Awaited {
        match self {
            Self::Uring(target) => target.awaited(),
            Self::Threads(target) => target.awaited(),
        }
    }
}
