//! Operations by system calls that block their caller: pread, pwrite, fsync, discard.
//!
//! Short transfers are completed; results are those of the io_uring engine, so that both
//! engines tell the same of the same operation.

use super::buffers::{Buffers, Place};
use crate::synchronous::Synchronous;
use bw_model::{Kind, Operation};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Executes operations on a file while the caller waits. One for each thread: it has one buffer.
#[derive(Debug)]
pub struct FileCalls {
    file: Arc<File>,
    buffers: RefCell<Buffers>,
}

impl FileCalls {
    pub(super) fn new(file: Arc<File>, buffers: Buffers) -> Self {
        Self {
            file,
            buffers: RefCell::new(buffers),
        }
    }
}

impl Synchronous for FileCalls {
    fn execute(&self, operation: &Operation) -> i32 {
        let place = place(&mut self.buffers.borrow_mut(), 0, operation);
        match place {
            Ok(place) => execute(&self.file, operation, place.address),
            Err(error) => negative(&error),
        }
    }
}

/// Returns where the bytes of `operation` under `slot` are.
///
/// # Errors
/// `EINVAL`: no operation for a file; `ENOMEM`.
pub(super) fn place(buffers: &mut Buffers, slot: u32, operation: &Operation) -> io::Result<Place> {
    match operation.kind {
        Kind::Read => buffers.for_read(slot, operation.size),
        Kind::Write => buffers.for_write(slot, operation.size),
        Kind::Flush | Kind::Discard => Ok(Place::NONE),
        Kind::Exchange => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

/// Returns the error as the result of an operation: a negative errno.
pub(super) fn negative(error: &io::Error) -> i32 {
    -error.raw_os_error().unwrap_or(libc::EIO)
}

/// Executes `operation` with its bytes at `address`, and returns bytes or a negative errno. The
/// caller has the memory from [`place`], and keeps it meanwhile.
pub(super) fn execute(file: &File, operation: &Operation, address: *mut u8) -> i32 {
    match operation.kind {
        Kind::Read | Kind::Write => transfer(file, operation, address),
        Kind::Flush => file
            .sync_all()
            .map_or_else(|error| negative(&error), |()| 0),
        Kind::Discard => punch(file, operation),
        Kind::Exchange => -libc::EINVAL,
    }
}

/// Reads or writes until everything is done, the file ends, or there is an error.
fn transfer(file: &File, operation: &Operation, address: *mut u8) -> i32 {
    let mut done = 0;
    loop {
        let bytes = result(|| once(file, operation, address, done));
        match u32::try_from(bytes) {
            Err(_) => return bytes,
            Ok(0) if done < operation.size && operation.kind == Kind::Read => {
                return -libc::ENODATA;
            }
            Ok(0) if done < operation.size => return -libc::ENOSPC,
            Ok(bytes) => done += bytes,
        }
        if done >= operation.size {
            return i32::try_from(done).unwrap_or(i32::MAX);
        }
    }
}

/// One call for what is left after `done` bytes.
fn once(file: &File, operation: &Operation, address: *mut u8, done: u32) -> i64 {
    let Ok(offset) = libc::off_t::try_from(operation.offset + u64::from(done)) else {
        return -i64::from(libc::EINVAL);
    };
    let (address, length) = (
        address.wrapping_add(done as usize),
        (operation.size - done) as usize,
    );
    let number = file.as_raw_fd();
    // SAFETY: the buffer holds the whole operation, of which `done` bytes are behind us, and
    // nobody else touches it, or (the payload) everybody only reads it.
    let bytes = unsafe {
        match operation.kind {
            Kind::Read => libc::pread(number, address.cast(), length, offset),
            _ => libc::pwrite(number, address.cast_const().cast(), length, offset),
        }
    };
    bytes as i64
}

/// Calls until it is not interrupted; returns its value, or the negative errno.
fn result(mut call: impl FnMut() -> i64) -> i32 {
    loop {
        let status = call();
        if status >= 0 {
            return i32::try_from(status).unwrap_or(i32::MAX);
        }
        if status < -1 {
            return i32::try_from(status).unwrap_or(-libc::EIO);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return negative(&error);
        }
    }
}

/// Of a block device too, as the io_uring engine does.
fn punch(file: &File, operation: &Operation) -> i32 {
    let Ok(offset) = libc::off_t::try_from(operation.offset) else {
        return -libc::EINVAL;
    };
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let (number, length) = (file.as_raw_fd(), libc::off_t::from(operation.size));
    // SAFETY: no memory is involved.
    result(|| unsafe { i64::from(libc::fallocate(number, mode, offset, length)) })
}
