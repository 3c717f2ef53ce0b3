//! The target: what operations are executed on.
//!
//! A target belongs to one worker (each worker makes its own from a shared description) and is
//! asynchronous: `submit` starts operations, `reap` returns completions. A target must not allocate, lock or
//! log after the run has started.

use bw_model::{Nanos, Operation};
use bw_protocol::events::StreamOutcome;
use bw_record::histogram::Histogram;
use bw_schedule::filaments::FilamentId;
use std::any::Any;
use std::io;
use std::ops::Range;

/// How many completions are taken from a target at a time, unless it says otherwise.
pub(crate) const SLICE: usize = 16;

/// The completion of an operation on a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reaped {
    /// The operation's slot.
    pub slot: u32,
    /// Bytes transferred, or a negative errno.
    pub result: i64,
    /// How long it had ended before the target looked; zero where the target does not know.
    pub unseen: Nanos,
}

/// A stream as the target has seen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenStream {
    /// What it was, with times of the target's clock.
    pub outcome: StreamOutcome,
    /// The time of this clock [ns].
    pub now_ns: u64,
}

/// What a target does while none of its operations is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Background {
    /// Nothing.
    Nothing,
    /// It may receive something: the worker waits with [`Target::wait`].
    Arrivals,
    /// It has work to do (a connection that is being made, bytes to read): the worker also calls [`Target::reap`].
    Work,
}

/// How a target is waited for together with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// A descriptor that becomes readable.
    pub descriptor: Option<i32>,
    /// When [`Target::reap`] may have something to do although the descriptor is not readable; zero: now.
    pub at_most: Nanos,
}

/// How long a target is waited for that does not say when it has something to do.
const UNKNOWN: Nanos = Nanos(50_000);

/// Something that executes operations.
pub trait Target: Any {
    /// Returns whether `flush` makes system calls. The worker then reads its clock again after each flush, to
    /// see what became due meanwhile.
    #[inline]
    fn flush_calls_kernel(&self) -> bool {
        true
    }

    /// Returns whether it has several parts, each with room of its own ([`Several`](crate::several::Several)).
    #[inline]
    fn has_parts(&self) -> bool {
        false
    }

    /// Returns how many operations one call to the kernel takes, at least 1. The worker submits at most this
    /// number before a flush, so that each is stamped just before its own call.
    fn batch(&self) -> usize;

    /// Returns how many completions the worker takes at a time, at least 1. The more it takes, the longer the target has
    /// less to do, until the worker has issued what follows them.
    fn slice(&self) -> usize {
        SLICE
    }

    /// Returns the maximum number of operations in flight: slots are below it.
    fn capacity(&self) -> u32;

    /// Leaves the warm-up out of the counts that the target's description has: operations with an intended start before
    /// `from`. Called once, before time zero.
    fn measure_from(&mut self, _from: Nanos) {}

    /// Sets the measured part of the run, in which events of streams are counted; `now`: the time, by the clock of `part`.
    fn measure_streams(&self, _now: Nanos, _part: Range<Nanos>) {}

    /// Prepares an operation under `slot`, which is free. It may start now, or with `flush`.
    fn submit(&mut self, slot: u32, operation: &Operation);

    /// Starts all prepared operations: at most [`batch`](Target::batch). The worker reads
    /// the clock just before; that time is the actual start of all of them.
    ///
    /// # Errors
    /// The kernel refuses the whole submission, which ends the run.
    fn flush(&mut self) -> io::Result<()>;

    /// Starts all prepared operations like [`flush`](Target::flush), shortly before others are due: the call leaves
    /// completions for later.
    ///
    /// # Errors
    /// As [`flush`](Target::flush).
    fn flush_only(&mut self) -> io::Result<()> {
        self.flush()
    }

    /// Appends completions to `ends`, at most its spare capacity, and does a slice of its other work. Returns at once.
    ///
    /// # Errors
    /// The kernel refuses to report completions, which ends the run.
    fn reap(&mut self, ends: &mut Vec<Reaped>) -> io::Result<()>;

    /// Sleeps until an operation completes, or for about `at_most`; may return early. The worker
    /// spins for the last part before a deadline.
    ///
    /// # Errors
    /// The kernel refuses to wait, which ends the run.
    fn wait(&mut self, at_most: Nanos) -> io::Result<()>;

    /// Returns how it is waited for together with others.
    fn awaited(&mut self) -> Awaited {
        Awaited {
            descriptor: None,
            at_most: UNKNOWN,
        }
    }

    /// Returns what it does while none of its operations is in flight.
    #[inline]
    fn background(&self) -> Background {
        Background::Nothing
    }

    /// Returns the stream of the operation of a slot whose completion was just taken; None: its answer is no stream. The
    /// worker asks only where a target has streams.
    fn stream(&self, _slot: u32) -> Option<SeenStream> {
        None
    }

    /// Adds the gaps between the events of streams, and how late the reads with events were.
    fn add_reads(&self, _gaps: &mut Histogram, _read_lateness: &mut Histogram) {}

    /// Returns the number of parts.
    fn parts(&self) -> usize {
        1
    }

    /// Returns the part that executes the operations of a filament.
    #[inline]
    fn part_of(&self, _filament: FilamentId) -> usize {
        0
    }

    /// Returns whether a part has room for one more operation; the worker asks only a target with parts.
    #[inline]
    fn has_room(&self, _part: usize) -> bool {
        true
    }

    /// Prepares an operation on a part that has room. See [`submit`](Target::submit).
    #[inline]
    fn submit_to(&mut self, _part: usize, slot: u32, operation: &Operation) {
        self.submit(slot, operation);
    }
}
