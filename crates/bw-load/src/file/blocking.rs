//! Operations on one file as blocking system calls.

use crate::file::buffers::{Buffers, IoBuffer};
use bw_model::{Kind, Operation};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, pread, pwrite};
use std::fs::File;
use std::io;

/// Returns the buffer of `operation` under `slot`.
///
/// # Errors
/// `EINVAL`: not an operation on files; `ENOMEM`.
pub(crate) fn place(
    buffers: &mut Buffers,
    slot: u32,
    operation: &Operation,
) -> io::Result<IoBuffer> {
    match operation.kind {
        Kind::Read => buffers.for_read(slot, operation.size),
        Kind::Write => buffers.for_write(slot, operation.size),
        Kind::Flush | Kind::Discard => Ok(IoBuffer::NONE),
        _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

/// Returns the error as the result of an operation: a negative errno.
pub(crate) fn negative(error: &io::Error) -> i32 {
    -error.raw_os_error().unwrap_or(libc::EIO)
}

/// Executes `operation` with its bytes at `address`, and returns bytes or a negative errno. `address` is
/// the caller's buffer from [`place`] and stays valid during the call.
pub(crate) fn execute(file: &File, operation: &Operation, address: *mut u8) -> i32 {
    match operation.kind {
        Kind::Read | Kind::Write => match transfer(file.as_fd(), operation, address) {
            // The file was shortened.
            bytes if bytes >= 0 && bytes.cast_unsigned() < operation.size => -libc::ENODATA,
            result => result,
        },
        Kind::Flush => file
            .sync_all()
            .map_or_else(|error| negative(&error), |()| 0),
        Kind::Discard => punch(file, operation),
        _ => -libc::EINVAL,
    }
}

/// Reads or writes until everything is transferred, the file ends, or an error occurs. A read that the file's end cuts
/// short returns fewer bytes.
pub(crate) fn transfer(file: BorrowedFd<'_>, operation: &Operation, address: *mut u8) -> i32 {
    let mut done = 0;
    loop {
        let bytes = retry_interrupted(|| once(file, operation, address, done));
        match u32::try_from(bytes) {
            Err(_) => return bytes,
            Ok(0) if operation.kind == Kind::Read => {
                return i32::try_from(done).unwrap_or(i32::MAX);
            }
            Ok(0) if done < operation.size => return -libc::ENOSPC,
            Ok(bytes) => done += bytes,
        }
        if done >= operation.size {
            return i32::try_from(done).unwrap_or(i32::MAX);
        }
    }
}

/// Makes one call for the part that is left after `done` bytes.
fn once(
    file: BorrowedFd<'_>,
    operation: &Operation,
    address: *mut u8,
    done: u32,
) -> rustix::io::Result<i32> {
    let address = address.wrapping_add(done as usize);
    let length = (operation.size - done) as usize;
    let offset = operation.offset + u64::from(done);
    let moved = if operation.kind == Kind::Read {
        // SAFETY: the buffer holds the whole operation, of which `done` bytes are behind us, and nothing else accesses it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(address, length) };
        pread(file, bytes, offset)
    } else {
        // SAFETY: as above; the payload, which other writes share, is only read.
        let bytes = unsafe { std::slice::from_raw_parts(address.cast_const(), length) };
        pwrite(file, bytes, offset)
    };
    moved.map(|bytes| i32::try_from(bytes).unwrap_or(i32::MAX))
}

/// Calls until it is not interrupted; returns its value, or the negative errno.
pub(crate) fn retry_interrupted(mut call: impl FnMut() -> rustix::io::Result<i32>) -> i32 {
    loop {
        match call() {
            Ok(value) => return value,
            Err(Errno::INTR) => {}
            Err(errno) => return -errno.raw_os_error(),
        }
    }
}

/// Punches a hole; also on a block device, as the io_uring engine does.
fn punch(file: &File, operation: &Operation) -> i32 {
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let length = u64::from(operation.size);
    retry_interrupted(|| fallocate(file, mode, operation.offset, length).map(|()| 0))
}
