//! One operation as it is meant to happen.

use bw_units::Nanos;
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
