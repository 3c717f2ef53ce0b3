//! The file of every operation: rows in the project's own trace format (docs/trace-format.md), on request.

use crate::trouble::Trouble;
use bw_record::row::Row;
use bw_record::segment::SegmentError;
use bw_record::segment::header::{Content, Header, Order};
use bw_record::segment::writer::Writer;
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The file while it is written.
pub struct Samples {
    path: PathBuf,
    state: State,
}

enum State {
    /// Made, and empty: time zero is not known yet.
    Made(File, Box<Header>),
    Begun(Writer<BufWriter<File>>),
    /// Writing failed: that was told.
    Failed,
}

/// What the result says about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SamplesReport {
    /// Where it is.
    pub path: PathBuf,
    /// How many rows it has.
    pub rows: u64,
    /// How many are missing in it: the disk was too slow for them.
    pub lost: u64,
}

impl Samples {
    /// Makes the file, before anything runs.
    ///
    /// # Errors
    /// `samples-file`: it is there already, or cannot be made.
    pub fn create(path: &Path, workers: usize) -> Result<Self, Trouble> {
        let file = File::create_new(path).map_err(|error| {
            let message = format!(
                "{}: samples cannot be written there: {error}",
                path.display()
            );
            Trouble::request(
                "samples-file",
                message,
                "name a file that does not exist, in a folder that does",
            )
        })?;
        let mut header = Header::new(Content::Samples, Order::None);
        header.devices = (0..workers)
            .map(|worker| format!("worker {worker}"))
            .collect();
        header.source = concat!("bw-engine ", env!("CARGO_PKG_VERSION")).to_owned();
        Ok(Self {
            path: path.to_owned(),
            state: State::Made(file, Box::new(header)),
        })
    }

    /// Begins the file: time zero is `started_ns` of the wall clock.
    ///
    /// # Errors
    /// `samples-file`: the disk is full, or failed.
    pub fn begin(&mut self, started_ns: u64) -> Result<(), Trouble> {
        if let State::Made(file, mut header) = std::mem::replace(&mut self.state, State::Failed) {
            header.started_ns = Some(started_ns);
            let writer = Writer::new(BufWriter::new(file), &header);
            self.state = State::Begun(writer.map_err(|error| self.failed(&error))?);
        }
        Ok(())
    }

    /// Writes rows.
    ///
    /// # Errors
    /// `samples-file`: the disk is full, or failed.
    pub fn write(&mut self, rows: &[Row]) -> Result<(), Trouble> {
        let State::Begun(writer) = &mut self.state else {
            return Ok(());
        };
        let written = writer.write_all(rows);
        written.map_err(|error| {
            self.state = State::Failed;
            self.failed(&error)
        })
    }

    /// Ends the file; `lost` rows are missing in it.
    ///
    /// # Errors
    /// `samples-file`: the disk is full, or failed.
    pub fn finish(mut self, lost: u64) -> Result<SamplesReport, Trouble> {
        let mut rows = 0;
        if let State::Begun(writer) = std::mem::replace(&mut self.state, State::Failed) {
            rows = writer.written();
            let mut file = writer.finish().map_err(|error| self.failed(&error))?;
            file.flush().map_err(|error| self.failed(&error.into()))?;
        }
        let path = self.path;
        Ok(SamplesReport { path, rows, lost })
    }

    fn failed(&self, error: &SegmentError) -> Trouble {
        let message = format!(
            "{}: samples cannot be written: {error}",
            self.path.display()
        );
        Trouble::operating(
            "samples-file",
            message,
            "name a file on a disk with room for 48 bytes an operation",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bw_record::segment::reader::Reader;
    use bw_schedule::operation::Kind;
    use bw_units::Nanos;

    #[test]
    fn what_is_written_is_read_again_and_no_file_is_written_over() {
        let path = std::env::temp_dir().join(format!("bw-samples-{}", std::process::id()));
        let row = Row {
            intended: Nanos(5),
            issued: Nanos(6),
            completed: Nanos(7),
            offset: 8,
            size: 9,
            result: 9,
            stream: 1,
            device: 0,
            kind: Kind::Write,
        };
        let mut samples = Samples::create(&path, 2).unwrap();
        samples.begin(77).unwrap();
        samples.write(&[row; 3]).unwrap();
        assert_eq!(samples.finish(4).unwrap().rows, 3);
        let mut reader = Reader::new(File::open(&path).unwrap(), false).unwrap();
        let mut rows = Vec::new();
        while reader.next_block(&mut rows).unwrap() && rows.is_empty() {}
        assert_eq!(rows, [row; 3]);
        assert_eq!(
            (reader.header().started_ns, reader.header().devices.len()),
            (Some(77), 2)
        );
        assert!(Samples::create(&path, 2).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
