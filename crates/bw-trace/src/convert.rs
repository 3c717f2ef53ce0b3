//! Writes a trace in the project's own format or as fio's iolog version 3.
//!
//! Decision: rows are written as they are read, so memory stays bounded. Our header contains the devices and the
//! changes to the rows, which are known only at the end, so the rows wait in a hidden file beside the output. The
//! output appears when it is complete, and never replaces a file.
//!
//! An iolog has `timestamp file action [offset length]`, with stamps in microseconds. The first stamp is one
//! microsecond: while stamps are zero, fio 3.33 ignores the next gap (it replays reads at 0, 1 s, 1.5 s at 0, 0 and 0.5
//! s; reads at 1 us, 1.000001 s, 1.500001 s at 0, 1 and 1.5 s). A device becomes a file of its name; fio opens it, or
//! the file that `--replay_redirect` names. Version 2 is not written: manual and code disagree on its waits.

use crate::error::TraceCode;
use crate::input::{TraceInput, TraceReport};
use crate::new_file::{NewFile, refused};
use crate::trace::{self, Trace};
use bw_model::EngineError;
use bw_model::{Kind, Row};
use bw_record::segment::{Content, Header, Order, SegmentError, SegmentWriter};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::io::{self, Seek, Write};

/// The request: input and output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvertRequest {
    /// The trace, with the policies of reading it.
    pub input: TraceInput,
    /// The file to write.
    pub output: ConvertOutput,
}

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvertOutput {
    /// Path; no file may exist there.
    pub path: String,
    /// Format.
    pub format: OutputFormat,
}

/// A format that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputFormat {
    /// Our own: loses nothing.
    Bw,
    /// fio's iolog, version 3: arrivals in microseconds, no response times.
    FioIolog,
}

/// The result of a conversion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConvertResult {
    /// The file.
    pub output: ConvertOutput,
    /// Number of operations in it.
    pub rows: u64,
    /// Its length [bytes].
    pub bytes: u64,
    /// Information that the output's format cannot store.
    pub lost: Vec<String>,
    /// The report of reading the input.
    pub trace: TraceReport,
}

/// Converts a trace.
///
/// Errors: those of reading the input; the output exists or cannot be written; the output's
/// format does not support an operation. No file remains then.
pub fn convert(request: &ConvertRequest) -> Result<ConvertResult, EngineError> {
    let place = &request.output.path;
    let file = NewFile::create(place, "part")?;
    let mut trace = trace::open(&request.input)?;
    let (rows, bytes, lost) = match request.output.format {
        OutputFormat::Bw => own(&mut trace, file, place)?,
        OutputFormat::FioIolog => write(&mut trace, file, place)?,
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

fn own(trace: &mut Trace, mut file: NewFile, place: &str) -> Result<Written, EngineError> {
    let failed = |error: SegmentError| segment_refused(place, error);
    let mut writer = SegmentWriter::append(NewFile::create(place, "rows")?);
    for row in trace.by_ref() {
        writer.write(&row?).map_err(failed)?;
    }
    let rows = writer.written();
    let blocks = writer.finish().map_err(failed)?;
    let header = header(trace).encode().map_err(failed)?;
    let unwritten = |error: io::Error| refused(place, &error);
    io::Write::write_all(&mut file, &header).map_err(unwritten)?;
    let mut blocks = blocks.into_file().map_err(unwritten)?;
    blocks.rewind().map_err(unwritten)?;
    io::copy(&mut blocks, &mut file).map_err(unwritten)?;
    let requests = trace.format().has_requests().then(|| {
        "methods, paths, headers and bodies of requests: a row has the number of its request"
            .to_owned()
    });
    Ok((rows, file.finish()?, requests.into_iter().collect()))
}

fn header(trace: &Trace) -> Header {
    let report = trace.report();
    let mut policies = match serde_json::to_value(&report) {
        Ok(Value::Object(policies)) => policies,
        _ => Map::new(),
    };
    policies.remove("devices");
    Header {
        devices: trace.devices().to_vec(),
        source: format!("{} ({})", report.path, report.format.name()),
        policies,
        ..Header::new(Content::Trace, Order::Intended)
    }
}

fn segment_refused(place: &str, error: SegmentError) -> EngineError {
    match error {
        SegmentError::Io(error) => refused(place, &error),
        other => TraceCode::TraceWrite.error(
            place,
            other.to_string(),
            "choose fewer devices (--devices)",
        ),
    }
}

/// A microsecond [ns].
const MICROSECOND_NS: u64 = 1000;

/// The stamp of an arrival at time zero.
const FIRST_US: u64 = 1;

/// Writes the rows of `trace`; returns how many, the file's length, and what was lost.
pub(super) fn write(
    trace: &mut Trace,
    mut file: NewFile,
    place: &str,
) -> Result<(u64, u64, Vec<String>), EngineError> {
    let unwritten = |error: std::io::Error| refused(place, &error);
    let mut files = Files::default();
    let (mut rows, mut cut, mut last_us) = (0, 0, 0);
    file.write_all(b"fio version 3 iolog\n")
        .map_err(unwritten)?;
    while let Some(row) = trace.next() {
        let row = row?;
        last_us = FIRST_US + row.intended.0 / MICROSECOND_NS;
        cut += u64::from(row.intended.0 % MICROSECOND_NS != 0);
        let action = action(row.kind).ok_or_else(|| unknown(place, row.kind))?;
        let name = files.name(&row, trace.devices());
        if name.is_new {
            writeln!(file, "{last_us} {0} add\n{last_us} {0} open", name.text)
                .map_err(unwritten)?;
        }
        let (offset, size) = (row.offset, row.size);
        writeln!(file, "{last_us} {} {action} {offset} {size}", name.text).map_err(unwritten)?;
        rows += 1;
    }
    for name in files.names.iter().flatten() {
        writeln!(file, "{last_us} {name} close").map_err(unwritten)?;
    }
    let lost = lost(cut, files.renamed);
    Ok((rows, file.finish()?, lost))
}

fn lost(cut: u64, renamed: u64) -> Vec<String> {
    let mut lost = vec!["starts, ends and processes of operations".to_owned()];
    if cut > 0 {
        lost.push(format!("parts of a microsecond of {cut} arrivals"));
    }
    if renamed > 0 {
        lost.push(format!("blanks in the names of {renamed} devices"));
    }
    lost
}

fn action(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Read => Some("read"),
        Kind::Write => Some("write"),
        Kind::Flush => Some("sync"),
        Kind::Discard => Some("trim"),
        _ => None,
    }
}

fn unknown(place: &str, kind: Kind) -> EngineError {
    TraceCode::TraceOption.error(
        place,
        format!("an iolog has no action for the operation '{}'", kind.name()),
        "write our own format (bw)",
    )
}

/// The files' names by the devices' numbers.
#[derive(Default)]
struct Files {
    names: Vec<Option<String>>,
    renamed: u64,
}

struct Name<'a> {
    text: &'a str,
    is_new: bool,
}

impl Files {
    fn name(&mut self, row: &Row, devices: &[String]) -> Name<'_> {
        let number = usize::from(row.device);
        if number >= self.names.len() {
            self.names.resize(number + 1, None);
        }
        let renamed = &mut self.renamed;
        let mut is_new = false;
        let text = self.names[number].get_or_insert_with(|| {
            is_new = true;
            let device = devices.get(number).filter(|name| !name.is_empty());
            let device = device.map_or("device", String::as_str);
            let blank = |letter: char| letter.is_whitespace() || letter.is_control();
            *renamed += u64::from(device.contains(blank));
            device.replace(blank, "_")
        });
        Name { text, is_new }
    }
}
