//! Reads, writes, measures, compares and captures I/O traces.

mod entry;
pub mod error;
mod events;
mod fault;
mod formats;
pub mod input;
mod offsets;
mod open;
mod order;
pub mod report;
mod settings;
mod source;
mod stamps;
mod text;
pub mod trace;
mod zstd;
