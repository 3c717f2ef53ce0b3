//! A regular file or a block device as a target.
//!
//! [`open`] looks at the path once for the whole run: it refuses what would destroy data, makes
//! the file as large as asked, and asks for sizes and alignments. [`OpenFile::worker`] then
//! makes each worker its own target on the one open file.
//!
//! Decision: two engines behind one enum, io_uring and a pool of threads around pread and
//! pwrite; which is used is decided by making a real ring, not by the kernel's version, because
//! seccomp, `io_uring_disabled` and memory limits refuse rings on kernels that have them. Rival:
//! libaio, which adds nothing over the two and blocks in submission on ext4.
//! Non-goals: files on network file systems (a target of their own), character devices.
//!
//! Source: docs/engine-protocol.md (targets).

pub(crate) mod buffers;
pub(crate) mod limits;
pub mod open;
pub(crate) mod overwrite;
pub(crate) mod ring;
pub(crate) mod threads;
pub(crate) mod uring;

pub use crate::file::buffers::{Buffers, payload_position};
pub use crate::file::limits::{DirectIoLimits, direct_io};
pub use crate::file::open::{OpenFile, TargetUse, open};
pub use crate::file::threads::{FileCalls, ThreadsTarget};
pub use crate::file::uring::UringTarget;
use crate::target::{Reaped, Target};
use bw_model::{Nanos, Operation};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::{fmt, io};

/// What the user asks for: the `file` target of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSpec {
    /// A regular file or a block device; a missing file is made if `size_bytes` is given.
    pub path: PathBuf,
    /// Past the page cache (`O_DIRECT`).
    #[serde(default)]
    pub direct: bool,
    /// How operations reach the kernel.
    #[serde(default)]
    pub engine: Engine,
    /// How many threads the threads engine has, per worker; 1 to 1024.
    #[serde(default = "default_threads")]
    pub threads: u16,
    /// How large the target is [bytes]; None: as it is. A regular file that is smaller is made
    /// larger; of a larger file or device only the first so many bytes are used.
    #[serde(default)]
    pub size_bytes: Option<u64>,
    /// What offsets and sizes are multiples of [bytes]; None: the device is asked.
    #[serde(default)]
    pub block_bytes: Option<u32>,
    /// Whether existing data may be written over.
    #[serde(default)]
    pub overwrite: bool,
    /// Whether a block device that is mounted, or held by others, may be written to.
    #[serde(default)]
    pub allow_writes_to_mounted: bool,
}

fn default_threads() -> u16 {
    16
}

impl FileSpec {
    /// Returns the spec of `path` with everything else as it is when nothing is said.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            direct: false,
            engine: Engine::Auto,
            threads: default_threads(),
            size_bytes: None,
            block_bytes: None,
            overwrite: false,
            allow_writes_to_mounted: false,
        }
    }
}

/// How operations reach the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// io_uring if this kernel lets us have a ring, else threads.
    #[default]
    Auto,
    /// io_uring, or an error.
    IoUring,
    /// A pool of threads around pread and pwrite.
    Threads,
}

/// Why a target cannot be used: a typed operating error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// A stable word for programs, as `target-missing`.
    pub code: &'static str,
    /// What is wrong, and where.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

impl Refusal {
    pub(crate) fn new(code: &'static str, message: String, remedy: impl Into<String>) -> Self {
        Self {
            code,
            message,
            remedy: remedy.into(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}; {}", self.message, self.remedy)
    }
}

impl std::error::Error for Refusal {}

/// What a worker's target turned out to be, for the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileDescription {
    /// `io_uring` or `threads`.
    pub engine: &'static str,
    /// What is used.
    pub features: Vec<String>,
    /// What is not there, each with its reason.
    pub absent: Vec<String>,
}

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
