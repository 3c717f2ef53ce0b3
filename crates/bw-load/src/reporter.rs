//! The reporter: progress, rows, the clock's slope and signals, while the workers run.
//!
//! Decision: the thread that started the workers is the reporter and works 50 times a second. It writes nothing that a
//! worker reads except the stop flag and the slope. An interval is reported when every running worker has handed it
//! over; after that only its figures are stored, so a run of a day needs no more memory than its series.
//!
//! Samples are rows of every operation in the project's own trace format (docs/trace-format.md), on request. If the
//! disk fills up or fails during the run, the remaining rows are lost, not the run: the histograms cover all
//! operations. The file is truncated after its last whole block, so that it can be read, and the result reports what is
//! missing and why. Rejected: ending the run, which would lose hours of measurement for a by-product.

use crate::channels::BlockReceiver;
use crate::clock::ClockSource;
use crate::file_set::claim;
use crate::file_set::make::MakeProgress;
use crate::output_file::{FileReport, create_output};
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
    /// The end of the interval described.
    pub at_ns: Nanos,
    /// Operations issued so far.
    pub issued: u64,
    /// Operations completed so far.
    pub completed: u64,
    /// Operations in flight at the end of the interval.
    pub in_flight: u64,
    /// Operations waiting for a free slot at the end of the interval.
    pub waiting: u64,
    /// Completions per second in the interval.
    pub rate_per_s: f64,
    /// Median response time of the operations that completed in the interval.
    pub response_ns_p50: Option<u64>,
    /// 99th percentile of the response time of the same operations.
    pub response_ns_p99: Option<u64>,
    /// The interval itself, if its buckets were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<IntervalSummary>,
}

impl Progress {
    /// Advances by one interval.
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

/// Returns `count` per second; None if `length` is zero.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn per_s(count: u64, length: Nanos) -> Option<f64> {
    (length > Nanos::ZERO).then(|| count as f64 / length.as_seconds())
}

/// The reporter's sleep between two turns.
pub(crate) const TURN: Nanos = Nanos(20_000_000);

/// One worker's data, as the reporter receives them.
pub(crate) struct WorkerStreams {
    /// Its finished intervals.
    pub intervals: BlockReceiver<Box<Interval>>,
    /// Its blocks of rows, on request.
    pub rows: Option<BlockReceiver<Vec<Row>>>,
}

/// Receives what happens before the result.
pub trait RunListener {
    /// The file set is being made: called every second.
    fn making(&mut self, _progress: &MakeProgress) {}

    /// The target is open and its file set is made: the load starts when this returns.
    ///
    /// # Errors
    /// Those of the listener; they end the run.
    fn ready(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Every worker is connected and has its first operations. Returns when time zero is to be, in CLOCK_MONOTONIC [ns];
    /// None: at once.
    ///
    /// # Errors
    /// Those of the listener; they end the run.
    fn armed(&mut self) -> Result<Option<u64>, EngineError> {
        Ok(None)
    }

    /// An interval of the load has ended.
    fn progress(&mut self, _progress: &Progress) {}
}

/// Listens to nothing.
impl RunListener for () {}

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
    listener: &'a mut dyn RunListener,
}

/// A count of intervals that is never reached.
const ALL: u64 = u64::MAX;

/// What the reporter returns at the end.
pub(crate) struct Reported {
    /// The intervals in order.
    pub series: Vec<IntervalSummary>,
    /// The file of rows, on request.
    pub samples: Option<Samples>,
}

impl<'a> Reporter<'a> {
    /// Returns a reporter for these workers; calls `listener` for every interval.
    pub(crate) fn new(
        streams: Vec<WorkerStreams>,
        length: Nanos,
        samples: Option<Samples>,
        listener: &'a mut dyn RunListener,
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
            listener,
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

    /// Every worker is ready. Returns when time zero is to be, in CLOCK_MONOTONIC [ns]; None: at once.
    ///
    /// # Errors
    /// Those of the listener.
    pub(crate) fn armed(&mut self) -> Result<Option<u64>, EngineError> {
        self.listener.armed()
    }

    /// Sets time zero: `started_ns` of the wall clock.
    pub(crate) fn begin(&mut self, started_ns: u64) {
        if let Some(samples) = &mut self.samples {
            samples.begin(started_ns);
        }
    }

    /// Does everything that is due, once.
    pub(crate) fn serve(&mut self, clock_source: &ClockSource, stop: &Stop) {
        let lost = u8::from(claim::is_lost()) * 2;
        let asked = bw_sys::signals::caught().min(2).max(lost);
        stop.fetch_max(asked, Ordering::Relaxed);
        clock_source.refine();
        self.collect_intervals();
        self.report_intervals();
        self.collect_rows();
    }

    /// Notes that a worker has finished and will hand over nothing more.
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
    fn report_intervals(&mut self) {
        while let Some(summary) = self.complete() {
            self.progress.advance(&summary);
            self.listener.progress(&self.progress);
            self.series.push(summary);
        }
    }

    /// Takes the first open interval, if every worker has handed it over.
    fn complete(&mut self) -> Option<IntervalSummary> {
        let until = self.handed.iter().min().copied().unwrap_or(ALL);
        let first = self.open.first_entry()?;
        let interval = (*first.key() < until).then(|| first.remove())?;
        let start = Nanos(interval.index.saturating_mul(self.length.0));
        let mut summary = interval.summary(start, self.length);
        if self.histograms {
            summary.response_hdr = Some(interval.response_hdr());
            summary.first_hdr = interval.first_hdr();
        }
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

    /// Takes the rest, once all workers have finished; the last interval is cut where the run `ended`.
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

/// The file of rows while it is written.
pub(crate) struct Samples {
    path: PathBuf,
    file: File,
    header: Header,
    /// None before the start, and after a write error.
    writer: Option<SegmentWriter<File>>,
    given: u64,
    whole: WrittenPart,
    failed: Option<String>,
}

/// The part of the file that can be read again.
#[derive(Clone, Copy, Default)]
struct WrittenPart {
    rows: u64,
    bytes: u64,
}

impl Samples {
    /// Makes the file, before the workers start; `devices` are the names of the rows' devices.
    ///
    /// # Errors
    /// `samples-file`: it exists already, or cannot be made.
    pub(crate) fn create(path: &Path, devices: Vec<String>) -> Result<Self, EngineError> {
        let file = create_output(path, "samples", "samples-file")?;
        let mut header = Header::new(Content::Samples, Order::None);
        header.devices = devices;
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

    /// Starts the file: time zero is `started_ns` of the wall clock.
    pub(crate) fn begin(&mut self, started_ns: u64) {
        self.header.started_ns = Some(started_ns);
        let file = self.file.try_clone().map_err(SegmentError::from);
        let writer = file.and_then(|file| SegmentWriter::new(file, &self.header));
        let begun = writer.map(|writer| self.writer = Some(writer));
        self.settle(begun);
    }

    /// Writes rows. After a write error they are counted as lost.
    pub(crate) fn write(&mut self, rows: &[Row]) {
        self.given += rows.len() as u64;
        if let Some(writer) = &mut self.writer {
            // The workers' blocks are as large as the writer's, so flushing each one adds no write.
            let written = writer.write_all(rows).and_then(|()| writer.flush());
            self.settle(written);
        }
    }

    /// Ends the file; `lost` is the number of rows that the workers lost.
    #[must_use]
    pub(crate) fn finish(mut self, lost: u64) -> FileReport {
        if let Some(writer) = self.writer.take() {
            let finished = writer.finish().map(drop);
            self.settle(finished);
        }
        FileReport {
            path: self.path,
            rows: self.whole.rows,
            lost: lost + (self.given - self.whole.rows),
            failed: self.failed,
        }
    }

    /// Records the part of the file that is written; after an error also the reason, and truncates the file to whole
    /// blocks.
    fn settle(&mut self, written: Result<(), SegmentError>) {
        // `self.file` shares the position of the writer's file.
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
                // If truncating fails too, a reader finds and reports an incomplete last block.
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
    fn the_clock_is_followed_however_long_an_interval_is() {
        let source = ClockSource::read_seconds_ago(2);
        let hour = Nanos(3_600_000_000_000);
        let mut listener = ();
        let mut reporter = Reporter::new(Vec::new(), hour, None, &mut listener);
        reporter.serve(&source, &Stop::default());
        assert!(source.has_offer());
    }

    #[test]
    fn what_is_written_is_read_again_and_no_file_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples");
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
        let devices = || vec!["a".to_owned(), "b".to_owned()];
        let mut samples = Samples::create(&path, devices()).unwrap();
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
        assert!(Samples::create(&path, devices()).is_err());
    }
}
