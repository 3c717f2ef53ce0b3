//! What happens beside the workers while they run: progress is told, rows are written, the
//! clock's slope is refined, signals are passed on.
//!
//! Decision: the thread that started the workers does it, and looks 50 times a second; it touches
//! nothing that a worker reads but the stop flag and the slope. An interval is told when every worker
//! that still runs has handed it over; only its figures are kept then, so that a run of a day
//! needs no more memory than its series.

use crate::exchange::Emptier;
use crate::result::Progress;
use crate::samples::Samples;
use crate::signals;
use crate::timekeeper::Timekeeper;
use crate::worker::Stop;
use bw_record::interval::Interval;
use bw_model::Row;
use bw_record::summary::IntervalSummary;
use bw_model::Nanos;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// How long it sleeps between two looks.
pub const LOOK: Nanos = Nanos(20_000_000);

/// One worker, as the reporter sees it.
pub struct Desk {
    /// Its finished intervals.
    pub intervals: Emptier<Box<Interval>>,
    /// Its blocks of rows, on request.
    pub rows: Option<Emptier<Vec<Row>>>,
}

/// The reporter.
pub struct Reporter<'a> {
    desks: Vec<Desk>,
    /// How many intervals each worker has handed over; [`ALL`] once it has finished.
    handed: Vec<u64>,
    length: Nanos,
    histograms: bool,
    open: BTreeMap<u64, Interval>,
    series: Vec<IntervalSummary>,
    samples: Option<Samples>,
    progress: Progress,
    tell: &'a mut dyn FnMut(&Progress),
}

/// More intervals than there are.
const ALL: u64 = u64::MAX;

/// What the reporter leaves behind.
pub struct Reported {
    /// The intervals in order.
    pub series: Vec<IntervalSummary>,
    /// The file of rows, on request.
    pub samples: Option<Samples>,
}

impl<'a> Reporter<'a> {
    /// Returns a reporter of these workers; `tell` is called for every interval.
    pub fn new(
        desks: Vec<Desk>,
        length: Nanos,
        samples: Option<Samples>,
        tell: &'a mut dyn FnMut(&Progress),
    ) -> Self {
        Self {
            handed: vec![0; desks.len()],
            desks,
            length,
            histograms: false,
            open: BTreeMap::new(),
            series: Vec::new(),
            samples,
            progress: Progress::default(),
            tell,
        }
    }

    /// Returns a reporter whose intervals carry the buckets of their response times, if `told` so.
    #[must_use]
    pub fn with_histograms(self, told: bool) -> Self {
        Self {
            histograms: told,
            ..self
        }
    }

    /// Hears that time zero is set: `started_ns` of the wall clock.
    pub fn begin(&mut self, started_ns: u64) {
        if let Some(samples) = &mut self.samples {
            samples.begin(started_ns);
        }
    }

    /// Looks after everything once.
    pub fn look(&mut self, timekeeper: &Timekeeper, stop: &Stop) {
        let asked = signals::caught().min(2);
        stop.fetch_max(asked, Ordering::Relaxed);
        let told = self.series.len();
        self.collect_intervals();
        self.tell_complete();
        if self.series.len() > told {
            timekeeper.refine();
        }
        self.collect_rows();
    }

    /// Notes that a worker has finished: nothing more will come from it, and it is not waited for.
    pub fn finished(&mut self, worker: usize) {
        self.collect_intervals();
        self.handed[worker] = ALL;
    }

    fn collect_intervals(&mut self) {
        for (desk, handed) in self.desks.iter_mut().zip(&mut self.handed) {
            while let Some(interval) = desk.intervals.take() {
                let index = interval.index;
                let merged = (self.open.entry(index)).or_insert_with(|| Interval::new(index));
                merged.merge(&interval);
                *handed = (index + 1).max(*handed);
                desk.intervals.give(interval);
            }
        }
    }

    /// Tells the intervals that every worker has handed over.
    fn tell_complete(&mut self) {
        while let Some(summary) = self.complete() {
            self.progress.advance(&summary);
            (self.tell)(&self.progress);
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
        for rows in self.desks.iter_mut().filter_map(|desk| desk.rows.as_mut()) {
            while let Some(block) = rows.take() {
                samples.write(&block);
                rows.give(block);
            }
        }
    }

    /// Takes what is left, once all workers are done; the last interval is cut where the run `ended`.
    #[must_use]
    pub fn close(mut self, ended: Nanos) -> Reported {
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
