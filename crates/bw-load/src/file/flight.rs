//! An operation in flight on a ring: what is left of it, and the entry that asks for that.

use super::buffers::{Place, Region};
use bw_model::{Kind, Operation};
use io_uring::{opcode, squeue, types};
use std::fs::File;
use std::os::fd::AsRawFd;

/// One operation on its way.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    kind: Kind,
    /// Whether it is on its way.
    pub busy: bool,
    region: Region,
    size: u32,
    done: u32,
    offset: u64,
    address: *mut u8,
}

/// No operation.
pub const LANDED: Flight = Flight {
    kind: Kind::Flush,
    busy: false,
    region: Region::Large,
    size: 0,
    done: 0,
    offset: 0,
    address: std::ptr::null_mut(),
};

/// What the kernel knows by its index.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registered {
    /// The file, as 0.
    pub file: bool,
    /// The slots, as 0, and the payload, as 1.
    pub buffers: bool,
}

impl Flight {
    /// Returns the flight of `operation` with its bytes at `place`.
    pub fn of(operation: &Operation, place: Place) -> Self {
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

    /// Returns address, length and offset of what is still to be transferred.
    fn rest(&self) -> (*mut u8, u32, u64) {
        let done = self.done;
        // Inside the buffer: no more is ever done than its size.
        let address = self.address.wrapping_add(done as usize);
        (address, self.size - done, self.offset + u64::from(done))
    }

    /// Takes note of what the kernel says; returns the whole operation's result, or None if a
    /// rest is to be done.
    pub fn advance(&mut self, result: i32) -> Option<i32> {
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
pub fn entry(flight: &Flight, registered: Registered, file: &File) -> squeue::Entry {
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
        Kind::Flush | Kind::Exchange => opcode::Fsync::new(file).build(),
        Kind::Discard => opcode::Fallocate::new(file, u64::from(flight.size))
            .offset(flight.offset)
            .mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
            .build(),
    };
    entry.flags(flags)
}

fn read(flight: &Flight, registered: bool, file: types::Fd) -> squeue::Entry {
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

fn write(flight: &Flight, registered: bool, file: types::Fd) -> squeue::Entry {
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
