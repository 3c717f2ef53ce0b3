//! A trace of requests, read whole: a server needs all requests before the run.

use crate::error::TraceCode;
use crate::input::{TraceInput, TraceReport};
use crate::requests::RecordedRequest;
use crate::trace;
use bw_model::{EngineError, Nanos};
use std::sync::Arc;

/// A whole trace of requests.
#[derive(Clone, Debug)]
pub struct RecordedTrace {
    /// When which request is due: times since the start, and indexes.
    pub arrivals: Arc<[(Nanos, u32)]>,
    /// The different requests.
    pub requests: Vec<Arc<RecordedRequest>>,
    /// The report of the reading.
    pub report: TraceReport,
}

/// Reads a trace of requests whole; None if it is a trace of another kind. The format of a pipe is not determined: one
/// without a given format is not a trace of requests.
///
/// # Errors
/// Those of reading it; most of its lines are malformed.
pub fn read(input: &TraceInput) -> Result<Option<RecordedTrace>, EngineError> {
    let is_pipe = input.path.list().iter().any(|path| trace::is_stream(path));
    if input
        .format
        .map_or(is_pipe, |format| !format.has_requests())
    {
        return Ok(None);
    }
    let mut trace = trace::open(input)?;
    if !trace.format().has_requests() {
        return Ok(None);
    }
    let mut arrivals = Vec::new();
    for row in trace.by_ref() {
        let row = row?;
        // Below 2^24.
        #[allow(clippy::cast_possible_truncation)]
        arrivals.push((row.intended, row.offset as u32));
    }
    let report = trace.report();
    let counts = report.requests.clone().unwrap_or_default();
    let skipped = counts.unsafe_methods + counts.unreplayable + counts.lost_bodies;
    let read = report.operations + report.left_out + skipped;
    if report.skipped_lines > read {
        let first = report.skipped_first.first().cloned().unwrap_or_default();
        let message = format!(
            "most lines are malformed ({} of {}), the first one: {first}",
            report.skipped_lines,
            report.skipped_lines + read
        );
        let remedy = "give the right --format, or fix the lines";
        return Err(TraceCode::TraceFormat.error(&report.path, message, remedy));
    }
    let requests = trace.into_requests();
    Ok(Some(RecordedTrace {
        arrivals: arrivals.into(),
        requests,
        report,
    }))
}
