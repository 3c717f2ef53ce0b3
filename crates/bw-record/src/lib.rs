//! Records the outcome of every operation. Pure: rows and histograms in, summaries and bytes out.

pub mod errno;
pub mod histogram;
pub mod interval;
pub mod recorder;
pub mod segment;
pub mod streams;
pub mod summary;
