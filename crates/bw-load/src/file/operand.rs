//! What operations act on: one file or device, or the objects of a file set.

use crate::file::blocking::{execute, place};
use crate::file::buffers::{Buffers, IoBuffer};
use crate::file_set::call::SetCall;
use crate::file_set::open_set::OpenSet;
use bw_model::{Kind, Operation};
use std::fs::File;
use std::io;
use std::sync::Arc;

/// What operations act on.
#[derive(Clone, Debug)]
pub(crate) enum Operand {
    /// A regular file or a block device.
    File(Arc<File>),
    /// The objects of a file set.
    Set(Arc<OpenSet>),
}

/// Memory of one thread for names, so that operations allocate nothing.
#[derive(Debug)]
pub(crate) struct Scratch(pub String);

impl Default for Scratch {
    fn default() -> Self {
        Self(String::with_capacity(64))
    }
}

impl Operand {
    /// Returns the buffer of `operation` under `slot`.
    ///
    /// # Errors
    /// `EINVAL`: not an operation on this; `ENOMEM`.
    pub(crate) fn place(
        &self,
        buffers: &mut Buffers,
        slot: u32,
        operation: &Operation,
    ) -> io::Result<IoBuffer> {
        match (self, operation.kind) {
            (Self::File(_), _) => place(buffers, slot, operation),
            (Self::Set(_), Kind::Append) => buffers.for_write(slot, operation.size),
            (Self::Set(_), kind) if kind.needs_files() => Ok(IoBuffer::NONE),
            (Self::Set(_), Kind::Discard) => Err(io::Error::from_raw_os_error(libc::EINVAL)),
            (Self::Set(_), _) => place(buffers, slot, operation),
        }
    }

    /// Executes `operation` with its bytes at `address`, which is its buffer from [`place`](Operand::place) and stays
    /// valid during the call. Returns bytes or a negative errno.
    pub(crate) fn execute(
        &self,
        operation: &Operation,
        address: *mut u8,
        scratch: &mut Scratch,
    ) -> i32 {
        match self {
            Self::File(file) => execute(file, operation, address),
            Self::Set(set) => SetCall::run(set, operation, address, &mut scratch.0),
        }
    }
}
