//! Files that the engine writes besides its result.

use bw_model::EngineError;
use serde::Serialize;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The result's report of a file of rows: of samples, or of actions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileReport {
    /// Its path.
    pub path: PathBuf,
    /// Number of rows in it.
    pub rows: u64,
    /// Number of missing rows: the disk was too slow for them, or failed; of actions, those that were overwritten.
    pub lost: u64,
    /// Why writing ended before the run did; None if it did not.
    pub failed: Option<String>,
}

/// Makes a file for `what` the engine writes besides its result.
///
/// # Errors
/// `code`: it exists already, or cannot be made.
pub(crate) fn create_output(
    path: &Path,
    what: &str,
    code: &'static str,
) -> Result<File, EngineError> {
    File::create_new(path).map_err(|error| {
        let path = path.display();
        let message = format!("{path}: {what} cannot be written there: {error}");
        let remedy = "name a file that does not exist, in a folder that does";
        EngineError::request(code, message, remedy)
    })
}
