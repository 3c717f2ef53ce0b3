//! Filaments: patterns of operations that know nothing of threads or clocks; the library of them, and how to write a
//! new one.
//!
//! A filament is woken by an event and emits events for the future: timers for itself,
//! operations, and messages to other filaments. The same filament therefore runs in real
//! time, in virtual time, and in a test that only looks at what it emits. Source: Anderson et
//! al., Buttress (FAST '04), section 4.1; there completions and timers are events too.
//!
//! Rules: an event is never emitted for a time before the event that woke the filament, except
//! operations that were due earlier already (a late generator catching up); a filament
//! is never woken by two threads at once; all its randomness comes from the seed it was built with.
//!
//! A filament is a type that implements [`Filament`]. It has no clock: an event says when it was meant to be. It
//! keeps what it needs to know in itself; a million of them are a million small values.
//!
//! This one writes a page, flushes, and rests for a millisecond, a hundred times:
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
//! then does the work ahead of time. If it is many sessions that begin on a schedule, write a
//! `SessionPattern` (in `sessions`). To let a workload file name it, add a variant to
//! [`FilamentSpec`](crate::workload::FilamentSpec).

pub mod closed;
pub mod open;
pub(crate) mod sessions;
pub mod spc1;
pub(crate) mod tpcb;

use bw_model::{Kind, Nanos, Operation};

/// Which filament: its index among the workload's filaments, the same for any number of workers.
pub type FilamentId = u32;

/// Why a filament is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The run begins; at time zero, once.
    Start,
    /// A timer that it emitted is due.
    Timer {
        /// When it was meant to be due: not the present time, which it does not know.
        at: Nanos,
        /// The mark it was emitted with.
        tag: u32,
    },
    /// An operation with `notify` has ended.
    Completed(Completion),
    /// Another filament, or itself, sent a message.
    Message {
        /// When it was meant to arrive.
        at: Nanos,
        /// Who sent it.
        from: FilamentId,
        /// What it says.
        payload: u64,
    },
}

/// The end of an operation, as its filament sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// When it ended.
    pub at: Nanos,
    /// When it was meant to start.
    pub intended: Nanos,
    /// What it was.
    pub kind: Kind,
    /// The filament's own mark.
    pub tag: u32,
    /// Bytes transferred, or a negative errno; [`bw_model::DROPPED`] if it was never issued.
    pub result: i32,
}

/// What a filament emits while it is awake. The buffers are the worker's, and are reused.
#[derive(Debug, Default)]
pub struct Emissions {
    /// Timers for the filament itself: when, and its own mark.
    pub timers: Vec<(Nanos, u32)>,
    /// Operations to be issued at their `at`.
    pub operations: Vec<Operation>,
    /// Messages: when they arrive, to whom, what they say.
    pub messages: Vec<(Nanos, FilamentId, u64)>,
}

/// A pattern of operations. See the module for the rules.
pub trait Filament: Send {
    /// Reacts to `event` by emitting events for the future. Must not block, and must emit a
    /// bounded number of events: a filament with more to come sets a timer.
    fn wake(&mut self, event: Event, emit: &mut Emissions);
}

/// Returns the mark of an operation for its key in a slab.
///
/// # Panics
/// There are 2^32 operations in flight: more than fit any memory.
fn tag_of(key: usize) -> u32 {
    u32::try_from(key).expect("fewer than 2^32 operations in flight")
}
