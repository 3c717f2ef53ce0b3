//! A regular file or a block device as a target.
//!
//! [`open`] examines the path once for the whole run: it refuses what would destroy data, makes
//! the file as large as requested, and determines sizes and alignments. [`OpenFile::worker`] then
//! makes each worker its own target on the one open file.
//!
//! Decision: two engines behind one enum, io_uring and a pool of threads around pread and
//! pwrite. The choice depends on whether a ring can be made, not on the kernel's version, because
//! seccomp, `io_uring_disabled` and memory limits refuse rings on kernels that have them. Rejected:
//! libaio, which offers nothing beyond the two and blocks in submission on ext4.
//! Non-goals: files on network file systems, character devices.
//!
//! Source: docs/engine-protocol.md (targets).

pub(crate) mod blocking;
pub(crate) mod buffers;
pub(crate) mod engines;
pub(crate) mod handover;
pub mod open;
pub(crate) mod operand;
pub(crate) mod overwrite;
pub(crate) mod ring;
pub(crate) mod spec;
pub(crate) mod threads;
pub(crate) mod transfer;
pub(crate) mod uring;

pub use crate::file::buffers::{Buffers, payload_position};
pub use crate::file::engines::FileTarget;
pub(crate) use crate::file::open::direct_io;
pub use crate::file::open::{OpenFile, TargetUse, open};
pub use crate::file::spec::{Engine, FileSpec};
