//! One operation: as it is intended (`Operation`), and as it happened (`Row`).
//!
//! Decision: `Row` is one format for the samples of an engine, for a trace and for a capture, so that each can be
//! replayed, measured and compared with the others.

use crate::quantity::Nanos;
use serde::{Deserialize, Serialize};

/// What an operation does to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Kind {
    /// Read `size` bytes at `offset`; of a network target: nothing.
    Read = 0,
    /// Write `size` bytes at `offset`.
    Write = 1,
    /// Make everything written durable (fsync); `offset` and `size` mean nothing.
    Flush = 2,
    /// Tell the device that `size` bytes at `offset` are not needed any more.
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

    /// Returns the word for it that reports and files use.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["read", "write", "flush", "discard", "exchange"][self as usize]
    }
}

/// One operation: what is meant to be done, and when it is meant to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The intended start, since the start of the run.
    pub at: Nanos,
    /// Where, in bytes; of a network target: which of its paths.
    pub offset: u64,
    /// How much, in bytes.
    pub size: u32,
    /// What.
    pub kind: Kind,
    /// Whether the filament wants to be woken by the completion (closed loops do).
    pub notify: bool,
    /// The filament's own mark, given back with the completion.
    pub tag: u32,
}

/// The `result` of an operation that was never issued, because there was no capacity for it.
pub const DROPPED: i32 = i32::MIN;

/// One operation as it happened, or as a trace reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The intended start; in a trace, the arrival.
    pub intended: Nanos,
    /// The actual start; [`Nanos::NEVER`] if it was never issued, or the trace does not say.
    pub issued: Nanos,
    /// The end; [`Nanos::NEVER`] if it did not end, or the trace does not say.
    pub completed: Nanos,
    /// Where, in bytes.
    pub offset: u64,
    /// How much, in bytes.
    pub size: u32,
    /// Bytes transferred, a negative errno, or [`DROPPED`].
    pub result: i32,
    /// Which filament; in a trace, which process or stream; 0 if unknown.
    pub stream: u32,
    /// Which worker; in a trace, which device (its index in the header's list).
    pub device: u16,
    /// What.
    pub kind: Kind,
}
