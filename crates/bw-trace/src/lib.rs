//! Reads, writes, measures, compares and captures I/O traces.

pub mod error;
pub mod input;
pub mod report;
