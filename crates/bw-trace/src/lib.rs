//! Reads, writes, measures, compares and captures I/O traces.

pub mod capture;
pub mod compare;
pub mod convert;
mod entry;
pub mod error;
mod events;
mod fault;
mod formats;
pub mod input;
mod new_file;
mod offsets;
mod open;
mod order;
mod ordered;
pub mod report;
mod settings;
mod source;
mod stamps;
pub mod stat;
mod text;
pub mod trace;
mod zstd;
