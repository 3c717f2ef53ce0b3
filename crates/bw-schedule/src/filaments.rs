//! Filaments: patterns of operations that are independent of threads and clocks. This module holds the library of
//! filaments, and explains how to write a new one.
//!
//! A filament is woken by an event and emits events for the future: timers for itself,
//! operations, and messages to other filaments. The same filament therefore runs in real
//! time, in virtual time, and in a test that only examines what it emits. Source: Anderson et
//! al., Buttress (FAST '04), section 4.1; there completions and timers are events too.
//!
//! Rules: an event is never emitted for a time before the event that woke the filament, except
//! operations that were due earlier (a late generator catching up); a filament
//! is never woken by two threads at the same time; all its randomness comes from the seed it was built with.
//!
//! A filament is a type that implements [`Filament`]. It has no clock: an event carries its intended time. A filament
//! stores its state in itself; a million filaments are a million small values.
//!
//! This filament writes a page, flushes, and rests for a millisecond, a hundred times:
//!
//! ```
//! use bw_schedule::filaments::{Emissions, Event, Filament};
//! use bw_model::{Kind, Operation};
//! use bw_schedule::replay::drive;
//! use bw_model::Nanos;
//!
//! struct WriteThenFlush {
//!     writes: u64,
//! }
//!
//! impl WriteThenFlush {
//!     fn emit(&self, at: Nanos, kind: Kind, emit: &mut Emissions) {
//!         let size = if kind == Kind::Write { 4096 } else { 0 };
//!         let offset = self.writes * 4096;
//!         // `notify`: wake me at the end of it. `tag` comes back with the completion.
//!         let operation = Operation { at, offset, size, kind, notify: true, tag: 0 };
//!         emit.operations.push(operation);
//!     }
//! }
//!
//! impl Filament for WriteThenFlush {
//!     fn wake(&mut self, event: Event, emit: &mut Emissions) {
//!         match event {
//!             Event::Start => self.emit(Nanos::ZERO, Kind::Write, emit),
//!             // An operation that was dropped has ended too: a loop that ignored it would stand still.
//!             Event::Completed(ended) if ended.kind == Kind::Write => {
//!                 self.emit(ended.at, Kind::Flush, emit);
//!             }
//!             Event::Completed(ended) => {
//!                 self.writes += 1;
//!                 if self.writes < 100 {
//!                     self.emit(ended.at + Nanos(1_000_000), Kind::Write, emit);
//!                 }
//!             }
//!             Event::Timer { .. } | Event::Message { .. } => {}
//!         }
//!     }
//! }
//!
//! let filament = Box::new(WriteThenFlush { writes: 0 });
//! let issued = drive(vec![(0, filament)], |_| Nanos(10_000), Nanos::SECOND);
//! assert_eq!(issued.len(), 200);
//! assert_eq!(issued[2].1.at, Nanos(1_020_000)); // write, flush, rest: the second write
//! ```
//!
//! If its operations do not depend on completions, write an
//! [`OperationSource`](open::OperationSource) instead: [`Operations`](open::Operations)
//! then emits them ahead of time. If it consists of many sessions that start on a schedule, write a
//! `SessionPattern` (in `sessions`). To make it available in workload files, add a variant to
//! [`FilamentSpec`](crate::workload::FilamentSpec).

pub(crate) mod altered;
pub mod closed;
pub mod files;
pub mod open;
pub mod process;
pub(crate) mod sessions;
pub mod spc1;
pub(crate) mod tpcb;

use bw_model::{Kind, Nanos, Operation};

/// A filament's index among the workload's filaments, the same for any number of workers.
pub type FilamentId = u32;

/// Why a filament is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The run starts; at time zero, once.
    Start,
    /// A timer that it emitted is due.
    Timer {
        /// When it was intended to be due: not the current time, which a filament does not know.
        at: Nanos,
        /// The mark it was emitted with.
        tag: u32,
    },
    /// An operation with `notify` has ended.
    Completed(Completion),
    /// Another filament, or itself, sent a message.
    Message {
        /// When it was intended to arrive.
        at: Nanos,
        /// The sender.
        from: FilamentId,
        /// The content.
        payload: u64,
    },
}

/// The end of an operation, as its filament sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The time of the end.
    pub at: Nanos,
    /// The intended start.
    pub intended: Nanos,
    /// The kind.
    pub kind: Kind,
    /// The filament's own mark.
    pub tag: u32,
    /// Bytes transferred, or a negative errno; [`bw_model::DROPPED`] if it was never issued.
    pub result: i32,
}

/// What a filament emits while it is awake. The buffers are the worker's, and are reused.
#[derive(Debug, Default)]
pub struct Emissions {
    /// Timers for the filament itself: time, and its own mark.
    pub timers: Vec<(Nanos, u32)>,
    /// Operations to be issued at their `at`.
    pub operations: Vec<Operation>,
    /// Messages: time of arrival, receiver, content.
    pub messages: Vec<(Nanos, FilamentId, u64)>,
    /// Sequences of operations that have ended.
    pub sequences: Vec<SequenceEnd>,
}

/// The end of a sequence: operations that followed one another, and count together too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceEnd {
    /// The index of its chain among the chains of the workload.
    pub chain: u16,
    /// How it ended.
    pub outcome: SequenceOutcome,
    /// Number of its operations that ended.
    pub operations: u32,
    /// The intended start of its first operation.
    pub intended: Nanos,
    /// The end of its last operation; of an unfinished one the end of the run.
    pub ended: Nanos,
}

impl SequenceEnd {
    /// Returns a sequence that has not ended as one that the end of the run cut short; None if it was to start later.
    #[must_use]
    fn cut_short(self, end: Nanos) -> Option<Self> {
        (self.intended < end).then_some(Self { ended: end, ..self })
    }
}

/// How a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceOutcome {
    /// All its operations succeeded.
    Completed,
    /// One of them failed.
    Failed,
    /// The run ended before.
    Unfinished,
}

/// A pattern of operations. See the module's description for the rules.
pub trait Filament: Send {
    /// Reacts to `event` by emitting events for the future. Must not block, and must emit a
    /// bounded number of events: a filament with more to come sets a timer.
    fn wake(&mut self, event: Event, emit: &mut Emissions);

    /// Appends the sequences that were to start before `end`, the end of the run, and have not ended. Called once, after
    /// the last event. A filament without sequences has none.
    fn unfinished(&self, end: Nanos, sequences: &mut Vec<SequenceEnd>) {
        let _ = (end, sequences);
    }
}

/// Returns the mark of an operation by its key in a slab.
///
/// # Panics
/// There are 2^32 operations in flight: more than fit any memory.
fn tag_of(key: usize) -> u32 {
    u32::try_from(key).expect("fewer than 2^32 operations in flight")
}
