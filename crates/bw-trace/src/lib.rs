//! Reads, writes, measures, compares and captures I/O traces.

pub mod capture;
pub mod compare;
pub mod convert;
mod entry;
pub mod error;
mod events;
mod formats;
pub mod input;
mod new_file;
mod offsets;
mod open;
mod order;
pub mod recorded;
pub mod requests;
mod source;
pub mod stat;
mod text;
pub mod trace;
