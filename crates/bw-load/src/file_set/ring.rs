//! What a ring needs beyond its entries for operations on a file set: the calls in progress with their names and
//! attributes, and a pool of threads for what no ring has (access, readlink, readdir, setattr, fsstat).
//!
//! The pool rings a bell, an eventfd on which the ring waits, so that the worker sleeps in one place.

use crate::file::threads::ThreadsTarget;
use crate::file::transfer::{self, Registered, Transfer};
use crate::file_set::call::{CREATE, Call, SetCall};
use crate::file_set::directory::{DIRECTORY_MODE, FILE_MODE};
use crate::file_set::open_set::OpenSet;
use crate::file_set::slots::{NAME_BYTES, Slots};
use crate::target::Target as _;
use bw_model::{FileAddress, Kind, Operation};
use io_uring::{opcode, squeue, types};
use rustix::fd::AsRawFd;
use rustix::fs::OFlags;
use std::sync::Arc;

/// The set's part of a ring.
pub(crate) struct SetRing {
    set: Arc<OpenSet>,
    pool: ThreadsTarget,
    /// Whether an entry waits for the bell.
    armed: bool,
    slots: Slots,
    name: String,
}

/// Where an operation begins.
pub(crate) enum Begun {
    /// Its first call is to be submitted to the ring; the operation as a transfer on one file.
    InRing(Operation),
    /// The pool has it.
    InPool,
    /// There was nothing to do: the result.
    Ended(i32),
}

impl SetRing {
    /// Returns the part for `depth` operations in flight; `pool` has a bell.
    pub(crate) fn new(set: Arc<OpenSet>, pool: ThreadsTarget, depth: u32) -> Self {
        Self {
            set,
            pool,
            armed: false,
            slots: Slots::new(depth),
            name: String::with_capacity(NAME_BYTES),
        }
    }

    /// Returns the pool.
    pub(crate) fn pool(&mut self) -> &mut ThreadsTarget {
        &mut self.pool
    }

    /// Begins an operation under a slot that is free.
    pub(crate) fn begin(&mut self, slot: u32, operation: &Operation) -> Begun {
        let call = match SetCall::begin(&self.set, operation) {
            Ok(call) if call.call == Call::Blocking => {
                self.pool.submit(slot, operation);
                return Begun::InPool;
            }
            Ok(call) => call,
            Err(result) => return Begun::Ended(result),
        };
        *self.slots.call_mut(slot) = call;
        // An open file needs no name.
        if call.descriptor < 0 {
            for other in [false, true] {
                call.name(&self.set, other, &mut self.name);
                self.slots.set_name(slot, other, &self.name);
            }
        }
        let offset = FileAddress::unpack(operation.offset).offset;
        let kind = match operation.kind {
            Kind::Append => Kind::Write,
            kind => kind,
        };
        Begun::InRing(Operation {
            kind,
            offset,
            ..*operation
        })
    }

    /// Continues the operation of a slot with the result of its call; returns its result, None if another entry is to be
    /// submitted.
    pub(crate) fn advance(&mut self, slot: u32, flight: &mut Transfer, result: i32) -> Option<i32> {
        let call = self.slots.call_mut(slot);
        let mut result = result;
        if call.call == Call::Transfer {
            let at_end = result == 0 && flight.reads();
            let ended = flight.advance(result)?;
            result = if at_end { flight.done() } else { ended };
        }
        call.advance(&self.set, result)
    }

    /// Returns the entry of the present call of a slot.
    pub(crate) fn entry(
        &self,
        slot: u32,
        flight: &Transfer,
        registered: Registered,
    ) -> squeue::Entry {
        let call = self.slots.call(slot);
        let names = [false, true].map(|other| self.slots.name(slot, other));
        let directory = || types::Fd(call.directory(&self.set).as_raw_fd());
        let file = types::Fd(call.descriptor);
        let statx = |file, name, flags| {
            opcode::Statx::new(file, name, self.slots.attributes(slot))
                .flags(flags)
                .mask(libc::STATX_BASIC_STATS)
                .build()
        };
        let open = |flags: OFlags, mode| {
            opcode::OpenAt::new(directory(), names[0])
                .flags(flags.bits().cast_signed())
                .mode(mode)
                .build()
        };
        match call.call {
            Call::Open => open(self.set.flags(), 0),
            Call::Create => open(self.set.flags() | CREATE, FILE_MODE.bits()),
            Call::Transfer => transfer::open_file(flight, registered, file),
            Call::Sync => opcode::Fsync::new(file).build(),
            Call::StatOpen => statx(file, c"".as_ptr(), libc::AT_EMPTY_PATH),
            Call::Stat => statx(directory(), names[0], libc::AT_SYMLINK_NOFOLLOW),
            Call::Unlink => opcode::UnlinkAt::new(directory(), names[0]).build(),
            Call::RemoveDirectory => opcode::UnlinkAt::new(directory(), names[0])
                .flags(libc::AT_REMOVEDIR)
                .build(),
            Call::MakeDirectory => opcode::MkDirAt::new(directory(), names[0])
                .mode(DIRECTORY_MODE.bits())
                .build(),
            Call::Rename => {
                opcode::RenameAt::new(directory(), names[0], directory(), names[1]).build()
            }
            // No ring has the other: the pool took it.
            Call::Close | Call::Blocking => opcode::Close::new(file).build(),
        }
    }

    /// Returns the entry that waits for the bell, if the pool is at work and no entry waits yet.
    pub(crate) fn arm(&mut self) -> Option<squeue::Entry> {
        if self.armed || self.pool.is_idle() {
            return None;
        }
        let bell = types::Fd(self.pool.bell()?.as_raw_fd());
        self.armed = true;
        let readable = u32::from(libc::POLLIN.cast_unsigned());
        Some(opcode::PollAdd::new(bell, readable).build())
    }

    /// Returns whether an entry waits for the bell.
    pub(crate) fn is_armed(&self) -> bool {
        self.armed
    }

    /// Notes that the bell rang.
    pub(crate) fn rang(&mut self) {
        self.armed = false;
        if let Some(bell) = self.pool.bell() {
            // It is at zero already if nothing rang since.
            let _ = rustix::io::read(bell, &mut [0; 8]);
        }
    }

    /// Frees what the kernel no longer uses.
    ///
    /// # Safety
    /// No operation is in flight, and no more will be submitted.
    pub(crate) unsafe fn free(&mut self) {
        // SAFETY: the contract is the same.
        unsafe { self.slots.free() };
    }
}
