//! What became of every operation. Pure: rows and histograms in, summaries and bytes out.

pub mod row;
