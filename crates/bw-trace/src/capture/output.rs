//! The new trace: it has its name only when it is whole, and never takes another file's place.

use crate::error::{TraceCode, TraceError};
use crate::new_file::NewFile;
use bw_model::Row;
use bw_record::segment::SegmentError;
use bw_record::segment::header::{Content, Header, Order};
use bw_record::segment::writer::Writer;

/// A trace while it is written.
pub struct Output {
    path: String,
    writer: Writer<NewFile>,
}

impl Output {
    /// Begins a trace at `path` of operations on these devices.
    ///
    /// # Errors
    /// There is a file already, or none can be made.
    pub fn create(path: &str, devices: &[String]) -> Result<Self, TraceError> {
        let mut header = Header::new(Content::Trace, Order::Intended);
        header.devices = devices.to_vec();
        header.source = "capture of block_rq_issue and block_rq_complete".to_owned();
        let writer = Writer::new(NewFile::create(path, "capture")?, &header);
        Ok(Self {
            path: path.to_owned(),
            writer: writer.map_err(|error| refused(path, &error))?,
        })
    }

    /// Writes an operation.
    ///
    /// # Errors
    /// The disk is full, or failed.
    pub fn write(&mut self, row: &Row) -> Result<(), TraceError> {
        let written = self.writer.write(row);
        written.map_err(|error| refused(&self.path, &error))
    }

    /// Ends the trace and gives it its name.
    ///
    /// # Errors
    /// The disk is full, or somebody made a file of that name meanwhile.
    pub fn finish(self) -> Result<(), TraceError> {
        let ended = self.writer.finish();
        ended
            .map_err(|error| refused(&self.path, &error))?
            .finish()?;
        Ok(())
    }
}

fn refused(path: &str, error: &SegmentError) -> TraceError {
    let message = format!("the trace cannot be written: {error}");
    let remedy = "choose a directory that has room";
    TraceError::new(TraceCode::TraceWrite, path, message, remedy)
}
