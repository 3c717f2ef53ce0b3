//! The file of every operation: rows in the project's own trace format (docs/trace-format.md), on request.
//!
//! Decision: a disk that fills up or fails in the middle costs the rest of the rows, not the run: the
//! histograms are of all operations. The file is cut after its last whole block, so that what is there
//! can be read; the result says what is missing and why. Ending the run lost: hours of measurement for
//! a by-product.

use crate::trouble::Trouble;
use bw_model::Row;
use bw_record::segment::SegmentError;
use bw_record::segment::header::{Content, Header, Order};
use bw_record::segment::writer::Writer;
use serde::Serialize;
use std::fs::File;
use std::io::Seek;
use std::path::{Path, PathBuf};

/// The file while it is written.
pub struct Samples {
    path: PathBuf,
    file: File,
    header: Header,
    /// None before the beginning, and after writing failed.
    writer: Option<Writer<File>>,
    given: u64,
    whole: Whole,
    failed: Option<String>,
}

/// What is in the file and can be read again.
#[derive(Clone, Copy, Default)]
struct Whole {
    rows: u64,
    bytes: u64,
}

/// What the result says about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SamplesReport {
    /// Where it is.
    pub path: PathBuf,
    /// How many rows it has.
    pub rows: u64,
    /// How many are missing in it: the disk was too slow for them, or failed.
    pub lost: u64,
    /// Why writing ended before the run did; None if it did not.
    pub failed: Option<String>,
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
            file,
            header,
            writer: None,
            given: 0,
            whole: Whole::default(),
            failed: None,
        })
    }

    /// Begins the file: time zero is `started_ns` of the wall clock.
    pub fn begin(&mut self, started_ns: u64) {
        self.header.started_ns = Some(started_ns);
        let file = self.file.try_clone().map_err(SegmentError::from);
        let writer = file.and_then(|file| Writer::new(file, &self.header));
        let begun = writer.map(|writer| self.writer = Some(writer));
        self.settle(begun);
    }

    /// Writes rows. Once writing has failed they are counted as lost.
    pub fn write(&mut self, rows: &[Row]) {
        self.given += rows.len() as u64;
        if let Some(writer) = &mut self.writer {
            // Workers hand over blocks as large as the writer's: to flush each is no write more.
            let written = writer.write_all(rows).and_then(|()| writer.flush());
            self.settle(written);
        }
    }

    /// Ends the file; `lost` more rows never came here.
    #[must_use]
    pub fn finish(mut self, lost: u64) -> SamplesReport {
        if let Some(writer) = self.writer.take() {
            let finished = writer.finish().map(drop);
            self.settle(finished);
        }
        SamplesReport {
            path: self.path,
            rows: self.whole.rows,
            lost: lost + (self.given - self.whole.rows),
            failed: self.failed,
        }
    }

    /// Notes what is in the file; or, where writing failed, why, and cuts off what is not whole.
    fn settle(&mut self, written: Result<(), SegmentError>) {
        // The writer's file is this one once more, with the same position.
        let place = written.and_then(|()| Ok(self.file.stream_position()?));
        match place {
            Ok(bytes) => {
                self.whole = Whole {
                    rows: self.given,
                    bytes,
                }
            }
            Err(error) => {
                self.writer = None;
                self.failed = Some(reason(&error));
                // If even that fails, a reader finds the last block cut short, and says so.
                drop(self.file.set_len(self.whole.bytes));
            }
        }
    }
}

/// Returns the system's words without its number.
fn reason(error: &SegmentError) -> String {
    let mut words = error.to_string();
    if let Some(end) = words.find(" (os error") {
        words.truncate(end);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use bw_record::segment::reader::Reader;
    use bw_model::Kind;
    use bw_model::Nanos;

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
        samples.begin(77);
        samples.write(&[row; 3]);
        let report = samples.finish(4);
        assert_eq!((report.rows, report.lost, report.failed), (3, 4, None));
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
