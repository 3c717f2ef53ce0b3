//! What happens beside the workers while they run: progress, rows, the clock's slope, signals.
//!
//! Decision: the thread that started the workers does it, and looks 50 times a second; it touches nothing that a worker
//! reads except the stop flag and the slope. An interval is reported when every worker that still runs has handed it
//! over; only its figures are kept then, so a run of a day needs no more memory than its series.
//!
//! Samples are rows of every operation in the project's own trace format (docs/trace-format.md), on request. A disk that
//! fills up or fails in the middle costs the rest of the rows, not the run: the histograms are of all operations. The file
//! is cut after its last whole block, so that it can be read, and the result says what is missing and why. Rejected:
//! ending the run, which would lose hours of measurement for a by-product.

use crate::channels::BlockReceiver;
use crate::clock::ClockSource;
use crate::worker::Stop;
use bw_model::EngineError;
use bw_model::{Nanos, Row};
use bw_record::interval::Interval;
use bw_record::segment::{Content, Header, Order, SegmentError, SegmentWriter};
use bw_record::summary::IntervalSummary;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Seek;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// How far a run has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Progress {
    /// The end of the interval that this describes.
    pub at_ns: Nanos,
    /// Operations issued so far.
    pub issued: u64,
    /// Operations ended so far.
    pub completed: u64,
    /// In flight at the end of the interval.
    pub in_flight: u64,
    /// Waiting for a free place at the end of the interval.
    pub waiting: u64,
    /// Ends per second in the interval.
    pub rate_per_s: f64,
    /// Of the operations that ended in it.
    pub response_ns_p50: Option<u64>,
    /// Of the operations that ended in it.
    pub response_ns_p99: Option<u64>,
    /// The interval itself, where its buckets were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<IntervalSummary>,
}

impl Progress {
    /// Goes on by one interval.
    pub fn advance(&mut self, report: &IntervalSummary) {
        *self = Self {
            at_ns: Nanos(report.start_ns + report.length_ns),
            issued: self.issued + report.issued,
            completed: self.completed + report.completed,
            in_flight: report.in_flight,
            waiting: report.waiting,
            rate_per_s: per_s(report.completed, Nanos(report.length_ns)).unwrap_or_default(),
            response_ns_p50: report.response_ns_p50,
            response_ns_p99: report.response_ns_p99,
            interval: report.response_hdr.is_some().then(|| report.clone()),
        };
    }
}

/// Returns so many per second; None of no time.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn per_s(count: u64, length: Nanos) -> Option<f64> {
    (length > Nanos::ZERO).then(|| count as f64 / length.as_seconds())
}

/// How long it sleeps between two looks.
pub(crate) const LOOK: Nanos = Nanos(20_000_000);

/// One worker, as the reporter sees it.
pub(crate) struct WorkerStreams {
    /// Its finished intervals.
    pub intervals: BlockReceiver<Box<Interval>>,
    /// Its blocks of rows, on request.
    pub rows: Option<BlockReceiver<Vec<Row>>>,
}

pub(crate) struct Reporter<'a> {
    streams: Vec<WorkerStreams>,
    /// How many intervals each worker has handed over; [`ALL`] once it has finished.
    handed: Vec<u64>,
    length: Nanos,
    histograms: bool,
    open: BTreeMap<u64, Interval>,
    series: Vec<IntervalSummary>,
    samples: Option<Samples>,
    progress: Progress,
    report: &'a mut dyn FnMut(&Progress),
}

/// More intervals than there are.
const ALL: u64 = u64::MAX;

/// What the reporter leaves behind.
pub(crate) struct Reported {
    /// The intervals in order.
    pub series: Vec<IntervalSummary>,
    /// The file of rows, on request.
    pub samples: Option<Samples>,
}

impl<'a> Reporter<'a> {
    /// Returns a reporter of these workers; `report` is called for every interval.
    pub(crate) fn new(
        streams: Vec<WorkerStreams>,
        length: Nanos,
        samples: Option<Samples>,
        report: &'a mut dyn FnMut(&Progress),
    ) -> Self {
        Self {
            handed: vec![0; streams.len()],
            streams,
            length,
            histograms: false,
            open: BTreeMap::new(),
            series: Vec::new(),
            samples,
            progress: Progress::default(),
            report,
        }
    }

    /// Returns a reporter whose intervals carry the buckets of their response times, if `enabled`.
    #[must_use]
    pub(crate) fn with_histograms(self, enabled: bool) -> Self {
        Self {
            histograms: enabled,
            ..self
        }
    }

    /// Notes time zero: `started_ns` of the wall clock.
    pub(crate) fn begin(&mut self, started_ns: u64) {
        if let Some(samples) = &mut self.samples {
            samples.begin(started_ns);
        }
    }

    /// Does everything that is due, once.
    pub(crate) fn look(&mut self, clock_source: &ClockSource, stop: &Stop) {
        let asked = bw_sys::signals::caught().min(2);
        stop.fetch_max(asked, Ordering::Relaxed);
        let enabled = self.series.len();
        self.collect_intervals();
        self.tell_complete();
        if self.series.len() > enabled {
            clock_source.refine();
        }
        self.collect_rows();
    }

    /// Notes that a worker has finished: nothing more will come from it, and it is not waited for.
    pub(crate) fn finished(&mut self, worker: usize) {
        self.collect_intervals();
        self.handed[worker] = ALL;
    }

    fn collect_intervals(&mut self) {
        for (stream, handed) in self.streams.iter_mut().zip(&mut self.handed) {
            while let Some(interval) = stream.intervals.take() {
                let index = interval.index;
                let merged = (self.open.entry(index)).or_insert_with(|| Interval::new(index));
                merged.merge(&interval);
                *handed = (index + 1).max(*handed);
                stream.intervals.give(interval);
            }
        }
    }

    /// Reports the intervals that every worker has handed over.
    fn tell_complete(&mut self) {
        while let Some(summary) = self.complete() {
            self.progress.advance(&summary);
            (self.report)(&self.progress);
            self.series.push(summary);
        }
    }

    /// Takes the first interval that is still open, if every worker has handed it over.
    fn complete(&mut self) -> Option<IntervalSummary> {
        let until = self.handed.iter().min().copied().unwrap_or(ALL);
        let first = self.open.first_entry()?;
        let interval = (*first.key() < until).then(|| first.remove())?;
        let start = Nanos(interval.index.saturating_mul(self.length.0));
        let mut summary = interval.summary(start, self.length);
        summary.response_hdr = self.histograms.then(|| interval.response_hdr());
        Some(summary)
    }

    fn collect_rows(&mut self) {
        let Some(samples) = &mut self.samples else {
            return;
        };
        for rows in self
            .streams
            .iter_mut()
            .filter_map(|stream| stream.rows.as_mut())
        {
            while let Some(block) = rows.take() {
                samples.write(&block);
                rows.give(block);
            }
        }
    }

    /// Takes what is left, once all workers are done; the last interval is cut where the run `ended`.
    #[must_use]
    pub(crate) fn close(mut self, ended: Nanos) -> Reported {
        self.handed.fill(ALL);
        self.collect_intervals();
        while let Some(summary) = self.complete() {
            self.series.push(summary);
        }
        self.collect_rows();
        if let Some(last) = self.series.last_mut() {
            last.length_ns = ended
                .0
                .saturating_sub(last.start_ns)
                .clamp(1, self.length.0);
        }
        Reported {
            series: self.series,
            samples: self.samples,
        }
    }
}

/// The file while it is written.
pub(crate) struct Samples {
    path: PathBuf,
    file: File,
    header: Header,
    /// None before the beginning, and after writing failed.
    writer: Option<SegmentWriter<File>>,
    given: u64,
    whole: WrittenPart,
    failed: Option<String>,
}

/// What is in the file and can be read again.
#[derive(Clone, Copy, Default)]
struct WrittenPart {
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
    pub(crate) fn create(path: &Path, workers: usize) -> Result<Self, EngineError> {
        let file = File::create_new(path).map_err(|error| {
            let message = format!(
                "{}: samples cannot be written there: {error}",
                path.display()
            );
            EngineError::request(
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
            whole: WrittenPart::default(),
            failed: None,
        })
    }

    /// Begins the file: time zero is `started_ns` of the wall clock.
    pub(crate) fn begin(&mut self, started_ns: u64) {
        self.header.started_ns = Some(started_ns);
        let file = self.file.try_clone().map_err(SegmentError::from);
        let writer = file.and_then(|file| SegmentWriter::new(file, &self.header));
        let begun = writer.map(|writer| self.writer = Some(writer));
        self.settle(begun);
    }

    /// Writes rows. Once writing has failed they are counted as lost.
    pub(crate) fn write(&mut self, rows: &[Row]) {
        self.given += rows.len() as u64;
        if let Some(writer) = &mut self.writer {
            // Workers hand over blocks as large as the writer's: to flush each is no write more.
            let written = writer.write_all(rows).and_then(|()| writer.flush());
            self.settle(written);
        }
    }

    /// Ends the file; `lost` more rows never came here.
    #[must_use]
    pub(crate) fn finish(mut self, lost: u64) -> SamplesReport {
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
                self.whole = WrittenPart {
                    rows: self.given,
                    bytes,
                }
            }
            Err(error) => {
                self.writer = None;
                self.failed = Some(bw_sys::reason(&error));
                // If even that fails, a reader finds the last block cut short, and says so.
                drop(self.file.set_len(self.whole.bytes));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bw_model::Kind;
    use bw_model::Nanos;
    use bw_record::segment::reader::SegmentReader;

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
        let mut reader = SegmentReader::new(File::open(&path).unwrap(), false).unwrap();
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
