//! The filament: a pattern of operations that knows nothing of threads or clocks.
//!
//! A filament is woken by an event and emits events for the future: timers for itself,
//! operations, and messages to other filaments. The same filament therefore runs in real
//! time, in virtual time, and in a test that only looks at what it emits. Source: Anderson et
//! al., Buttress (FAST '04), section 4.1; there completions and timers are events too.
//!
//! Rules: an event is never emitted for a time before the event that woke the filament, except
//! operations that were due earlier already (a late generator catching up); a filament
//! is never woken by two threads at once; all its randomness comes from the seed it was built with.

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
        /// When it was meant to be due: not the present time, which is none of its business.
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
