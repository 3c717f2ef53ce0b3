//! One operation: as it is intended (`Operation`), and as it happened (`Row`).
//!
//! Decision: `Row` is the one format for the engine's samples, for traces and for captures, so that each can be
//! replayed, measured and compared with the others.

use crate::quantity::Nanos;
use serde::{Deserialize, Serialize};

/// What an operation does to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Kind {
    /// Read `size` bytes at `offset`; not used with network targets.
    Read = 0,
    /// Write `size` bytes at `offset`.
    Write = 1,
    /// Make everything written durable (fsync); `offset` and `size` have no meaning.
    Flush = 2,
    /// Inform the device that `size` bytes at `offset` are no longer needed.
    Discard = 3,
    /// Send a request to a server and receive its whole answer.
    Exchange = 4,
}

impl Kind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Read,
        Self::Write,
        Self::Flush,
        Self::Discard,
        Self::Exchange,
    ];

    /// Returns the kind with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns its name in reports and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["read", "write", "flush", "discard", "exchange"][self as usize]
    }
}

/// One operation: what to do, and its intended start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The intended start, since the start of the run.
    pub at: Nanos,
    /// Offset [bytes]; for a network target the index of its path.
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
