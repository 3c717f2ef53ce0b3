//! The library of filaments, and how to write a new one.
//!
//! A filament is a type that implements [`Filament`](crate::filament::Filament): it is woken by an
//! event and emits events for the future. It has no clock: an event says when it was meant to be. It
//! keeps what it needs to know in itself; a million of them are a million small values.
//!
//! This one writes a page, flushes, and rests for a millisecond, a hundred times:
//!
//! ```
//! use bw_schedule::filament::{Emissions, Event, Filament};
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

/// Returns the mark of an operation for its key in a slab.
///
/// # Panics
/// There are 2^32 operations in flight: more than fit any memory.
fn tag_of(key: usize) -> u32 {
    u32::try_from(key).expect("fewer than 2^32 operations in flight")
}
