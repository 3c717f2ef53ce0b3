//! One operation as it happened: a row of samples, and of a trace.
//!
//! Decision: one format for what the engine did, for what a trace says and for what a capture
//! saw, so that each can be replayed, measured and compared with the others.

use bw_schedule::operation::Kind;
use bw_units::Nanos;

/// One operation as it happened, or as a trace tells it.
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
    /// Bytes transferred, a negative errno, or `bw_schedule::filament::DROPPED`.
    pub result: i32,
    /// Which filament; in a trace, which process or stream; 0 if unknown.
    pub stream: u32,
    /// Which worker; in a trace, which device (its index in the header's list).
    pub device: u16,
    /// What.
    pub kind: Kind,
}
