//! A [`Transfer`] is an operation in flight on a ring: it knows what is left to transfer, and makes the ring's entries.

use crate::file::buffers::{IoBuffer, Region};
use bw_model::{Kind, Operation};
use io_uring::{opcode, squeue, types};
use std::fs::File;
use std::os::fd::AsRawFd;

/// An operation in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    kind: Kind,
    /// Whether it is in flight.
    pub busy: bool,
    region: Region,
    size: u32,
    done: u32,
    offset: u64,
    address: *mut u8,
}

/// No operation.
pub(crate) const IDLE: Transfer = Transfer {
    kind: Kind::Flush,
    busy: false,
    region: Region::Large,
    size: 0,
    done: 0,
    offset: 0,
    address: std::ptr::null_mut(),
};

/// What is registered with the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registered {
    /// The file, at index 0.
    pub file: bool,
    /// The slots, at index 0, and the payload, at index 1.
    pub buffers: bool,
}

impl Transfer {
    /// Returns the transfer of `operation` with its bytes at `place`.
    pub(crate) fn of(operation: &Operation, place: IoBuffer) -> Self {
        Self {
            kind: operation.kind,
            busy: true,
            region: place.region,
            size: operation.size,
            done: 0,
            offset: operation.offset,
            address: place.address,
        }
    }

    /// Returns whether it is a read.
    pub(crate) fn reads(&self) -> bool {
        self.kind == Kind::Read
    }

    /// Returns how many bytes were transferred.
    pub(crate) fn done(&self) -> i32 {
        i32::try_from(self.done).unwrap_or(i32::MAX)
    }

    /// Returns address, length and offset of what is still to be transferred.
    fn rest(&self) -> (*mut u8, u32, u64) {
        let done = self.done;
        // Inside the buffer: `done` never exceeds its size.
        let address = self.address.wrapping_add(done as usize);
        (address, self.size - done, self.offset + u64::from(done))
    }

    /// Adds the kernel's result; returns the result of the whole operation, or None if part of it
    /// is still to be transferred.
    pub(crate) fn advance(&mut self, result: i32) -> Option<i32> {
        match (self.kind, u32::try_from(result)) {
            (_, Err(_)) => Some(result),
            (Kind::Read, Ok(0)) if self.done < self.size => Some(-libc::ENODATA),
            (Kind::Write, Ok(0)) if self.done < self.size => Some(-libc::ENOSPC),
            (Kind::Read | Kind::Write, Ok(bytes)) => {
                self.done += bytes;
                (self.done >= self.size).then(|| i32::try_from(self.done).unwrap_or(i32::MAX))
            }
            (_, Ok(_)) => Some(result),
        }
    }
}

/// Returns the entry for what is left of `flight`.
pub(crate) fn entry(flight: &Transfer, registered: Registered, file: &File) -> squeue::Entry {
    // With the flag, a descriptor is an index among the registered files: ours is 0.
    let (number, flags) = if registered.file {
        (0, squeue::Flags::FIXED_FILE)
    } else {
        (file.as_raw_fd(), squeue::Flags::empty())
    };
    let file = types::Fd(number);
    let entry = match flight.kind {
        Kind::Read => read(flight, registered.buffers, file),
        Kind::Write => write(flight, registered.buffers, file),
        Kind::Discard => opcode::Fallocate::new(file, u64::from(flight.size))
            .offset(flight.offset)
            .mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
            .build(),
        // Others than a flush were refused at their submission.
        _ => opcode::Fsync::new(file).build(),
    };
    entry.flags(flags)
}

/// Returns the entry for the bytes that are left of a transfer on an open file.
pub(crate) fn open_file(
    flight: &Transfer,
    registered: Registered,
    file: types::Fd,
) -> squeue::Entry {
    match flight.kind {
        Kind::Read => read(flight, registered.buffers, file),
        _ => write(flight, registered.buffers, file),
    }
}

fn read(flight: &Transfer, registered: bool, file: types::Fd) -> squeue::Entry {
    let (address, length, offset) = flight.rest();
    if registered && flight.region == Region::Slots {
        let index = 0;
        return opcode::ReadFixed::new(file, address, length, index)
            .offset(offset)
            .build();
    }
    opcode::Read::new(file, address, length)
        .offset(offset)
        .build()
}

fn write(flight: &Transfer, registered: bool, file: types::Fd) -> squeue::Entry {
    let (address, length, offset) = flight.rest();
    if registered && flight.region == Region::Payload {
        let index = 1;
        return opcode::WriteFixed::new(file, address, length, index)
            .offset(offset)
            .build();
    }
    opcode::Write::new(file, address, length)
        .offset(offset)
        .build()
}
