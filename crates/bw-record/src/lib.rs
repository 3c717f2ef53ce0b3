//! What became of every operation. Pure: rows and histograms in, summaries and bytes out.

#![warn(unreachable_pub)]

pub mod errno;
pub mod histogram;
pub mod interval;
pub mod recorder;
pub mod segment;
pub mod summary;
