//! The labels of requests. What a worker records of each is in `groups`.

use bw_model::EngineError;
use std::collections::BTreeSet;

/// Maximum number of labels of a target.
pub(crate) const MOST: usize = 100;

/// Checks the labels of the commands or statements of a target: none, or one for each.
///
/// # Errors
/// `labels`: there are others, or too many different ones.
pub(crate) fn check(labels: &[String], requests: usize) -> Result<(), EngineError> {
    let refused = |message, remedy: &str| {
        Err(EngineError::request("labels", message, remedy).about("target.labels"))
    };
    if !labels.is_empty() && labels.len() != requests {
        let message = format!("{} labels for {requests} operations", labels.len());
        return refused(message, "give each operation a label, or none");
    }
    match too_many(labels) {
        Some(message) => refused(message, "give similar requests the same label"),
        None => Ok(()),
    }
}

/// Returns the message about labels of which too many are different; None if they are not.
pub(crate) fn too_many<'a>(labels: impl IntoIterator<Item = &'a String>) -> Option<String> {
    let different: BTreeSet<&String> = labels.into_iter().collect();
    let count = different.len();
    (count > MOST).then(|| format!("{count} labels: at most {MOST}"))
}
