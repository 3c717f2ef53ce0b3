//! Writes a trace in our own format or as fio's iolog version 3.
//!
//! Decision: rows are written as they are read, so memory stays bounded; our header names the devices and
//! what was done to the rows, which is known at the end only, so the rows wait in a hidden file beside the
//! output. The output appears when it is whole, and never replaces a file.

mod iolog;

use crate::error::{TraceCode, TraceError};
use crate::input::TraceInput;
use crate::new_file::{NewFile, refused};
use crate::report::TraceReport;
use crate::trace::{self, Trace};
use bw_record::segment::SegmentError;
use bw_record::segment::header::{Content, Header, Order};
use bw_record::segment::writer::Writer;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::io::{self, Seek};

/// What is to be converted into what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvertRequest {
    /// The trace, with the policies of reading it.
    pub input: TraceInput,
    /// The file to be written.
    pub output: Output,
}

/// A file to be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// Where; no file may be there.
    pub path: String,
    /// In which format.
    pub format: OutputFormat,
}

/// A format that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputFormat {
    /// Our own: nothing is lost.
    Bw,
    /// fio's iolog, version 3: arrivals in microseconds, no response times.
    FioIolog,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConvertResult {
    /// The file.
    pub output: Output,
    /// Its operations.
    pub rows: u64,
    /// Its length [bytes].
    pub bytes: u64,
    /// What the format could not take over.
    pub lost: Vec<String>,
    /// The account of reading the input.
    pub trace: TraceReport,
}

/// Converts a trace.
///
/// Errors: those of reading the input; the output exists or cannot be written; an operation that the
/// output's format does not know. Nothing is left behind then.
pub fn convert(request: &ConvertRequest) -> Result<ConvertResult, TraceError> {
    let place = &request.output.path;
    let file = NewFile::create(place, "part")?;
    let mut trace = trace::open(&request.input)?;
    let (rows, bytes, lost) = match request.output.format {
        OutputFormat::Bw => own(&mut trace, file, place)?,
        OutputFormat::FioIolog => iolog::write(&mut trace, file, place)?,
    };
    Ok(ConvertResult {
        output: request.output.clone(),
        rows,
        bytes,
        lost,
        trace: trace.report(),
    })
}

type Written = (u64, u64, Vec<String>);

fn own(trace: &mut Trace, mut file: NewFile, place: &str) -> Result<Written, TraceError> {
    let failed = |error: SegmentError| segment_refused(place, error);
    let mut writer = Writer::append(NewFile::create(place, "rows")?);
    for row in trace.by_ref() {
        writer.write(&row?).map_err(failed)?;
    }
    let rows = writer.written();
    let blocks = writer.finish().map_err(failed)?;
    let header = header(&trace.report()).encode().map_err(failed)?;
    let unwritten = |error: io::Error| refused(place, &error);
    io::Write::write_all(&mut file, &header).map_err(unwritten)?;
    let mut blocks = blocks.into_file().map_err(unwritten)?;
    blocks.rewind().map_err(unwritten)?;
    io::copy(&mut blocks, &mut file).map_err(unwritten)?;
    Ok((rows, file.finish()?, Vec::new()))
}

fn header(report: &TraceReport) -> Header {
    let mut policies = match serde_json::to_value(report) {
        Ok(Value::Object(policies)) => policies,
        _ => Map::new(),
    };
    policies.remove("devices");
    Header {
        devices: report.devices.clone(),
        source: format!("{} ({})", report.path, report.format.name()),
        policies,
        ..Header::new(Content::Trace, Order::Intended)
    }
}

fn segment_refused(place: &str, error: SegmentError) -> TraceError {
    match error {
        SegmentError::Io(error) => refused(place, &error),
        other => TraceError::new(
            TraceCode::TraceWrite,
            place,
            other.to_string(),
            "choose fewer devices (--devices)",
        ),
    }
}
