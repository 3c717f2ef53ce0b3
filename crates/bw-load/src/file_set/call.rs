//! An operation on an open file set as a sequence of system calls: open, do it, close.
//!
//! The sequence is the same for both engines. A ring submits the next call when the one before has ended; a thread makes
//! them one after the other. Where the file is open already the operation is one call.
//!
//! Decisions. `lookup` is a statx(2) of the name, `getattr` one of the open file; `setattr` sets both times to now;
//! `readdir` opens the directory again, because the position in a listing belongs to the open file.

use crate::file::blocking::{negative, retry_interrupted, transfer};
use crate::file_set::directory::{DIRECTORY_MODE, FILE_MODE, LISTING_BYTES, open_directory};
use crate::file_set::open_set::OpenSet;
use bw_model::{FileAddress, Kind, Operation};
use rustix::fd::{BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use rustix::fs::{
    Access, AtFlags, Mode, OFlags, RawDir, StatxFlags, Timespec, Timestamps, UTIME_NOW, accessat,
    fstatfs, fsync, mkdirat, openat, readlinkat_raw, renameat, statx, unlinkat, utimensat,
};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;

/// One system call of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Opens the file.
    Open,
    /// Creates and opens the file, or empties it.
    Create,
    /// Reads or writes the open file.
    Transfer,
    /// Makes the open file durable.
    Sync,
    /// Gets the attributes of the open file.
    StatOpen,
    /// Gets the attributes of the name.
    Stat,
    /// Removes the name of a file.
    Unlink,
    /// Removes a directory.
    RemoveDirectory,
    /// Makes a directory.
    MakeDirectory,
    /// Gives the file its other name.
    Rename,
    /// Closes the file.
    Close,
    /// What only a thread can do.
    Blocking,
}

/// An operation in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetCall {
    /// The present call.
    pub call: Call,
    /// The open file of the call; -1: none.
    pub descriptor: RawFd,
    kind: Kind,
    object: u32,
    renamed: bool,
    /// Whether the descriptor is the set's.
    shared: bool,
    /// The result of the operation while the file is closed.
    result: i32,
}

/// No operation.
pub(crate) const NONE: SetCall = SetCall {
    call: Call::Blocking,
    descriptor: -1,
    kind: Kind::Close,
    object: 0,
    renamed: false,
    shared: false,
    result: 0,
};

impl SetCall {
    /// Returns the first call of an operation; its result if there is nothing to do.
    pub(crate) fn begin(set: &OpenSet, operation: &Operation) -> Result<Self, i32> {
        let address = FileAddress::unpack(operation.offset);
        let mut begun = Self {
            kind: operation.kind,
            object: address.object,
            renamed: address.renamed,
            ..NONE
        };
        begun.call = match operation.kind {
            Kind::Read | Kind::Write | Kind::Append => {
                begun.on_open(set, Call::Transfer, Call::Open)
            }
            Kind::Flush => begun.on_open(set, Call::Sync, Call::Open),
            Kind::Getattr => begun.on_open(set, Call::StatOpen, Call::Stat),
            Kind::Lookup => Call::Stat,
            Kind::Create => Call::Create,
            Kind::Remove => Call::Unlink,
            Kind::Mkdir => Call::MakeDirectory,
            Kind::Rmdir => Call::RemoveDirectory,
            Kind::Rename => Call::Rename,
            Kind::Open => Call::Open,
            Kind::Close => {
                begun.descriptor = set.close(address.object).ok_or(0)?;
                Call::Close
            }
            Kind::Setattr
            | Kind::Access
            | Kind::Readlink
            | Kind::Readdir
            | Kind::Readdirplus
            | Kind::Fsstat => Call::Blocking,
            Kind::Discard | Kind::Exchange => return Err(-libc::EINVAL),
        };
        Ok(begun)
    }

    /// Returns the call for a file that is open, or for one that is not.
    fn on_open(&mut self, set: &OpenSet, open: Call, closed: Call) -> Call {
        match set.acquire(self.object) {
            Some(descriptor) => {
                (self.descriptor, self.shared) = (descriptor, true);
                open
            }
            None => closed,
        }
    }

    /// Continues with the result of the call; returns the result of the operation, None if another call follows.
    pub(crate) fn advance(&mut self, set: &OpenSet, result: i32) -> Option<i32> {
        match self.call {
            Call::Open | Call::Create if result < 0 => Some(result),
            Call::Open if self.kind != Kind::Open => {
                self.descriptor = result;
                self.call = match self.kind {
                    Kind::Flush => Call::Sync,
                    _ => Call::Transfer,
                };
                None
            }
            Call::Open | Call::Create => self.then_close(set.share(self.object, result), 0),
            Call::Transfer | Call::Sync | Call::StatOpen => {
                let result = if self.call == Call::Transfer {
                    result
                } else {
                    result.min(0)
                };
                let closing = match self.shared {
                    true => set.release(self.object),
                    false => Some(self.descriptor),
                };
                self.then_close(closing, result)
            }
            Call::Unlink if result == 0 => self.then_close(set.forget(self.object), 0),
            Call::Close if result < 0 && self.result >= 0 => Some(result),
            Call::Close => Some(self.result),
            Call::Blocking => Some(result),
            _ => Some(result.min(0)),
        }
    }

    /// Ends the operation with a result, after closing a file if there is one to close.
    fn then_close(&mut self, closing: Option<RawFd>, result: i32) -> Option<i32> {
        let Some(descriptor) = closing else {
            return Some(result);
        };
        (self.call, self.descriptor, self.result) = (Call::Close, descriptor, result);
        None
    }

    /// Returns the directory of the object's name.
    pub(crate) fn directory<'a>(&self, set: &'a OpenSet) -> BorrowedFd<'a> {
        set.directory(set.set().parent(self.object))
    }

    /// Writes the object's name into `text`; `other`: the one that it has not.
    pub(crate) fn name(&self, set: &OpenSet, other: bool, text: &mut String) {
        text.clear();
        set.set()
            .write_name(self.object, self.renamed != other, text);
    }

    /// Carries an operation out by blocking calls; returns bytes or a negative errno. `address` is valid for its bytes.
    pub(crate) fn run(
        set: &OpenSet,
        operation: &Operation,
        address: *mut u8,
        name: &mut String,
    ) -> i32 {
        let mut call = match Self::begin(set, operation) {
            Ok(call) => call,
            Err(result) => return result,
        };
        loop {
            let result = call.blocking(set, operation, address, name);
            if let Some(result) = call.advance(set, result) {
                return result;
            }
        }
    }

    /// Makes the present call.
    fn blocking(
        &self,
        set: &OpenSet,
        operation: &Operation,
        address: *mut u8,
        name: &mut String,
    ) -> i32 {
        let none = |outcome: rustix::io::Result<()>| outcome.map(|()| 0);
        let opened = |outcome: rustix::io::Result<OwnedFd>| outcome.map(IntoRawFd::into_raw_fd);
        // SAFETY: the descriptor is open until this operation ends: its own, or the set's with this operation as a user.
        let file = || unsafe { BorrowedFd::borrow_raw(self.descriptor) };
        if self.descriptor < 0 {
            self.name(set, false, name);
        }
        match self.call {
            Call::Open => retry_interrupted(|| {
                opened(openat(
                    self.directory(set),
                    name.as_str(),
                    set.flags(),
                    Mode::empty(),
                ))
            }),
            Call::Create => retry_interrupted(|| {
                let flags = set.flags() | CREATE;
                opened(openat(self.directory(set), name.as_str(), flags, FILE_MODE))
            }),
            Call::Transfer => {
                let operation = Operation {
                    offset: FileAddress::unpack(operation.offset).offset,
                    ..*operation
                };
                transfer(file(), &operation, address)
            }
            Call::Sync => retry_interrupted(|| none(fsync(file()))),
            Call::StatOpen => retry_interrupted(|| {
                statx(file(), "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS).map(|_| 0)
            }),
            Call::Stat => retry_interrupted(|| {
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                let (directory, wanted) = (self.directory(set), StatxFlags::BASIC_STATS);
                statx(directory, name.as_str(), flags, wanted).map(|_| 0)
            }),
            Call::Unlink => retry_interrupted(|| {
                none(unlinkat(
                    self.directory(set),
                    name.as_str(),
                    AtFlags::empty(),
                ))
            }),
            Call::RemoveDirectory => retry_interrupted(|| {
                none(unlinkat(
                    self.directory(set),
                    name.as_str(),
                    AtFlags::REMOVEDIR,
                ))
            }),
            Call::MakeDirectory => retry_interrupted(|| {
                none(mkdirat(self.directory(set), name.as_str(), DIRECTORY_MODE))
            }),
            Call::Rename => {
                let first = name.len();
                set.set().write_name(self.object, !self.renamed, name);
                let (from, to) = name.split_at(first);
                let directory = self.directory(set);
                retry_interrupted(|| none(renameat(directory, from, directory, to)))
            }
            // SAFETY: the descriptor is this operation's to close. Unlike a drop, the call returns errors, which a network
            // file system reports here.
            Call::Close => match unsafe { libc::close(self.descriptor) } {
                0 => 0,
                _ => negative(&io::Error::last_os_error()),
            },
            Call::Blocking => retry_interrupted(|| self.only_blocking(set, name)),
        }
    }

    /// Makes a call that no ring has.
    fn only_blocking(&self, set: &OpenSet, name: &str) -> rustix::io::Result<i32> {
        match self.kind {
            Kind::Setattr => {
                let now = Timespec {
                    tv_sec: 0,
                    tv_nsec: UTIME_NOW,
                };
                let times = Timestamps {
                    last_access: now,
                    last_modification: now,
                };
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                utimensat(self.directory(set), name, &times, flags).map(|()| 0)
            }
            Kind::Access => {
                let wanted = Access::READ_OK | Access::WRITE_OK;
                accessat(self.directory(set), name, wanted, AtFlags::empty()).map(|()| 0)
            }
            Kind::Readlink => {
                let mut text = [MaybeUninit::<u8>::uninit(); 256];
                readlinkat_raw(self.directory(set), name, &mut text[..]).map(|_| 0)
            }
            Kind::Readdir => list(set.directory(self.object), false),
            Kind::Readdirplus => list(set.directory(self.object), true),
            Kind::Fsstat => fstatfs(set.directory(self.object)).map(|_| 0),
            _ => Err(Errno::INVAL),
        }
    }
}

/// The flags of a creation, besides those of every opening.
pub(crate) const CREATE: OFlags = OFlags::CREATE.union(OFlags::TRUNC);

/// Reads all entries of a directory, with their attributes on request; returns their number.
fn list(directory: BorrowedFd<'_>, attributes: bool) -> rustix::io::Result<i32> {
    let listed = open_directory(directory, ".")?;
    let mut buffer = [MaybeUninit::uninit(); LISTING_BYTES];
    let mut raw = RawDir::new(&listed, &mut buffer);
    let mut count = 0;
    while let Some(entry) = raw.next() {
        let entry = entry?;
        count += 1;
        if attributes {
            let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
            match statx(directory, entry.file_name(), flags, StatxFlags::BASIC_STATS) {
                // Another operation removed or renamed it.
                Ok(_) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(count)
}
