//! What became of every operation. Pure: rows and histograms in, summaries and bytes out.

pub mod distribution;
pub mod errors;
pub mod interval;
pub mod recorder;
pub mod row;
