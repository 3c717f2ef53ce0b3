//! One operation: as it is intended (`Operation`), and as it happened (`Row`).
//!
//! Decision: `Row` is the one format for the engine's samples, for traces and for captures, so that each can be
//! replayed, measured and compared with the others.

use crate::quantity::Nanos;
use serde::{Deserialize, Serialize};

/// What an operation does to its target.
///
/// The kinds from `Lookup` on are of targets with files; they use `Read`, `Write` and `Flush` too, and the
/// `offset` of each is a [`FileAddress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Kind {
    /// Read `size` bytes at `offset`; not used with network targets.
    Read = 0,
    /// Write `size` bytes at `offset`.
    Write = 1,
    /// Make everything written durable (fsync, COMMIT); `offset` and `size` have no meaning for a single file or device.
    Flush = 2,
    /// Inform the device that `size` bytes at `offset` are no longer needed.
    Discard = 3,
    /// Send a request to a server and receive its whole answer.
    Exchange = 4,
    /// Look a file up by its name (LOOKUP; stat by path).
    Lookup = 5,
    /// Get the attributes of a file.
    Getattr = 6,
    /// Set the attributes of a file: its mode and times, not its size.
    Setattr = 7,
    /// Check the access rights to a file.
    Access = 8,
    /// Read the text of a symbolic link.
    Readlink = 9,
    /// Read the entries of a directory, from the start.
    Readdir = 10,
    /// Read the entries of a directory with their attributes, from the start.
    Readdirplus = 11,
    /// Create an empty file; a file that exists is emptied.
    Create = 12,
    /// Remove a file.
    Remove = 13,
    /// Create a directory.
    Mkdir = 14,
    /// Remove a directory.
    Rmdir = 15,
    /// Give a file its other name: see [`FileAddress::renamed`].
    Rename = 16,
    /// Write `size` bytes at `offset`, the end of the file.
    Append = 17,
    /// Get the figures of the file system.
    Fsstat = 18,
    /// Open a file.
    Open = 19,
    /// Close a file.
    Close = 20,
}

impl Kind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; 21] = [
        Self::Read,
        Self::Write,
        Self::Flush,
        Self::Discard,
        Self::Exchange,
        Self::Lookup,
        Self::Getattr,
        Self::Setattr,
        Self::Access,
        Self::Readlink,
        Self::Readdir,
        Self::Readdirplus,
        Self::Create,
        Self::Remove,
        Self::Mkdir,
        Self::Rmdir,
        Self::Rename,
        Self::Append,
        Self::Fsstat,
        Self::Open,
        Self::Close,
    ];

    /// Returns the kind with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns its name in reports and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::Exchange => "exchange",
            Self::Lookup => "lookup",
            Self::Getattr => "getattr",
            Self::Setattr => "setattr",
            Self::Access => "access",
            Self::Readlink => "readlink",
            Self::Readdir => "readdir",
            Self::Readdirplus => "readdirplus",
            Self::Create => "create",
            Self::Remove => "remove",
            Self::Mkdir => "mkdir",
            Self::Rmdir => "rmdir",
            Self::Rename => "rename",
            Self::Append => "append",
            Self::Fsstat => "fsstat",
            Self::Open => "open",
            Self::Close => "close",
        }
    }

    /// Returns whether a target with files is needed: no other target knows such an operation.
    #[must_use]
    pub fn needs_files(self) -> bool {
        self as u8 >= Self::Lookup as u8
    }

    /// Returns whether the `result` of a successful operation counts as bytes transferred.
    #[must_use]
    pub fn transfers(self) -> bool {
        !self.needs_files() || self == Self::Append
    }
}

/// The place that an operation on a file set concerns, in the 64 bits of [`Operation::offset`]: from the highest bit
/// 27 bits of object number, one bit of name, 36 bits of offset (files of up to 64 GiB).
///
/// Decision: which of its two names a file has belongs to the operation, so that a target needs no state to name it. An
/// object is never renamed while another operation uses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileAddress {
    /// The number of the object in its file set, below [`FileAddress::OBJECTS`].
    pub object: u32,
    /// Whether it has its second name; for `Rename`, whether it has it before.
    pub renamed: bool,
    /// Offset [bytes], below [`FileAddress::BYTES`].
    pub offset: u64,
}

impl FileAddress {
    /// The number of object numbers.
    pub const OBJECTS: u32 = 1 << 27;
    /// The greatest size of a file [bytes].
    pub const BYTES: u64 = 1 << 36;

    /// Returns it as the offset of an operation.
    #[must_use]
    pub fn pack(self) -> u64 {
        debug_assert!(self.object < Self::OBJECTS && self.offset < Self::BYTES);
        (u64::from(self.object) << 37) | (u64::from(self.renamed) << 36) | self.offset
    }

    /// Returns the address in the offset of an operation.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)]
    pub fn unpack(offset: u64) -> Self {
        Self {
            object: (offset >> 37) as u32,
            renamed: offset & Self::BYTES != 0,
            offset: offset & (Self::BYTES - 1),
        }
    }
}

/// What an exchange with a server sends, in the 64 bits of [`Operation::offset`]: from the highest bit 40 bits of the
/// operation's number, 24 bits of its request. An address with the number 0 is the request alone.
///
/// Decision: the number belongs to the operation, so that what a request contains depends on nothing else: not on the
/// worker that issues it, nor on the connection. Operation n of filament f of F has the number n F + f, which no other
/// operation of the workload has; request j of session s of an entry that is filament f has s F + f, and j in the
/// highest 8 bits. Rejected: a field of its own, by which every operation in every queue grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeAddress {
    /// The index of the request (or path), below [`ExchangeAddress::REQUESTS`].
    pub request: u32,
    /// The operation's number, modulo [`ExchangeAddress::NUMBERS`].
    pub number: u64,
}

impl ExchangeAddress {
    /// The number of requests that can be distinguished.
    pub const REQUESTS: u64 = 1 << 24;
    /// The number of operations after which the numbers begin again: a million per second for twelve days.
    pub const NUMBERS: u64 = 1 << 40;
    /// The numbers of a session's requests differ by this.
    pub const SESSION_STEP: u64 = 1 << 32;

    /// Returns it as the offset of an operation.
    #[inline]
    #[must_use]
    pub fn pack(self) -> u64 {
        (self.number << 24) | (u64::from(self.request) % Self::REQUESTS)
    }

    /// Returns the address in the offset of an operation.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation)]
    pub fn unpack(offset: u64) -> Self {
        Self {
            request: (offset % Self::REQUESTS) as u32,
            number: offset >> 24,
        }
    }
}

/// One operation: what to do, and its intended start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The intended start, since the start of the run.
    pub at: Nanos,
    /// Offset [bytes]; for an exchange an [`ExchangeAddress`], for a file set a [`FileAddress`].
    pub offset: u64,
    /// Size [bytes].
    pub size: u32,
    /// Kind.
    pub kind: Kind,
    /// Whether the completion wakes the filament (closed loops need this).
    pub notify: bool,
    /// The filament's own mark, returned with the completion.
    pub tag: u32,
}

impl Operation {
    /// Returns an operation with an intended start of zero, of whose end no filament is notified.
    #[inline]
    #[must_use]
    pub fn new(kind: Kind, offset: u64, size: u32) -> Self {
        Self {
            at: Nanos::ZERO,
            offset,
            size,
            kind,
            notify: false,
            tag: 0,
        }
    }

    /// Returns the offset that a row has: of an exchange the request alone.
    #[must_use]
    pub fn row_offset(&self) -> u64 {
        match self.kind {
            Kind::Exchange => self.offset % ExchangeAddress::REQUESTS,
            _ => self.offset,
        }
    }
}

/// The `result` of an operation that was never issued, because there was no capacity for it.
pub const DROPPED: i32 = i32::MIN;

/// One operation as it happened, or as a trace reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The intended start; in a trace, the arrival.
    pub intended: Nanos,
    /// The actual start; [`Nanos::NEVER`] if it was never issued, or the trace does not contain it.
    pub issued: Nanos,
    /// The completion; [`Nanos::NEVER`] if it did not complete, or the trace does not contain it.
    pub completed: Nanos,
    /// Offset [bytes].
    pub offset: u64,
    /// Size [bytes].
    pub size: u32,
    /// Bytes transferred, a negative errno, or [`DROPPED`].
    pub result: i32,
    /// The filament; in a trace, the process or stream; 0 if unknown.
    pub stream: u32,
    /// The worker; in a trace, the device (its index in the header's list).
    pub device: u16,
    /// Kind.
    pub kind: Kind,
}

impl Row {
    /// A row of zeros.
    pub const ZERO: Self = Self {
        intended: Nanos::ZERO,
        issued: Nanos::ZERO,
        completed: Nanos::ZERO,
        offset: 0,
        size: 0,
        result: 0,
        stream: 0,
        device: 0,
        kind: Kind::Read,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kinds_number_is_its_place_among_all() {
        for (number, kind) in (0..).zip(Kind::ALL) {
            assert_eq!(
                (kind as u8, Kind::from_number(number)),
                (number, Some(kind))
            );
        }
        assert_eq!(Kind::from_number(21), None);
    }

    #[test]
    fn only_data_of_files_counts_as_transferred() {
        let transferring = Kind::ALL.into_iter().filter(|kind| kind.transfers());
        let names: Vec<_> = transferring.map(Kind::name).collect();
        assert_eq!(
            names,
            ["read", "write", "flush", "discard", "exchange", "append"]
        );
    }

    #[test]
    fn the_address_of_an_exchange_survives_its_packing() {
        for request in [0, 1, (1 << 24) - 1] {
            for number in [0, 1, (1 << 40) - 1] {
                let address = ExchangeAddress { request, number };
                assert_eq!(ExchangeAddress::unpack(address.pack()), address);
                let operation = Operation::new(Kind::Exchange, address.pack(), 0);
                assert_eq!(operation.row_offset(), u64::from(request));
            }
        }
        let number = 1 << 40;
        let wrapped = ExchangeAddress { request: 5, number };
        assert_eq!(wrapped.pack(), 5);
    }

    #[test]
    fn an_address_survives_its_packing() {
        for object in [0, 1, 99_999_999, FileAddress::OBJECTS - 1] {
            for renamed in [false, true] {
                for offset in [0, 8192, FileAddress::BYTES - 1] {
                    let address = FileAddress {
                        object,
                        renamed,
                        offset,
                    };
                    assert_eq!(FileAddress::unpack(address.pack()), address);
                }
            }
        }
    }
}
