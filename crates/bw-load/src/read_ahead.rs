//! Traces read ahead of time: a thread reads and prepares blocks of operations, and the workers take them.
//!
//! Decision: one reader thread for each trace, whatever the number of workers, and one ring to each
//! worker that plays it: a FIFO can be read only once, and parsing is paid once. Every worker gets
//! the whole sequence and keeps its part ([`bw_schedule::filaments::open::Operations`]): copying 32 bytes
//! costs less than agreeing on who takes what. Rejected: a reader in each worker, parsing W times.
//! A thread that is not pinned must call [`Readers::open`], since a thread inherits its
//! CPUs. The rings are filled before the run starts: errors near a trace's start are reported then.
//!
//! The reader's thread turns rows into operations and copies their blocks into every ring. It waits for a full ring
//! by sleeping, because the workers must not pay for a system call to wake it. The
//! pause is a quarter of the time span in the ring, so the ring does not run empty meanwhile.

use crate::channels::{BlockReceiver, BlockSender, exchange};
use crate::recorded::RecordedSource;
use bw_model::EngineError;
use bw_model::{Operation, Row};
use bw_schedule::filaments::open::{OperationSource, SourceState};
use bw_trace::error::TraceCode;
use bw_trace::input::{TraceInput, TraceReport};
use bw_trace::trace::{self, Trace};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Operations in a block.
const BLOCK: usize = 256;

/// Blocks read ahead for one worker: 131,072 operations, 4 MiB.
const BLOCKS: usize = 512;

/// How long the start waits for a slow trace, and the end for a reader's outcome.
const PATIENCE: Duration = Duration::from_secs(2);

/// The limits that the traces of a run are fitted to, unless their own options say otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fit {
    /// The size of the target [bytes]; None: no limit.
    pub target_bytes: Option<u64>,
    /// The alignment that the target requires [bytes]; None: no constraint.
    pub align_bytes: Option<u64>,
    /// Whether the target takes the operations of a trace of requests, without the requests.
    pub requests: bool,
}

/// The traces of one run, being read.
pub(crate) struct Readers {
    readers: Vec<TraceReader>,
}

/// The outcome of reading one trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadOutcome {
    /// What the reader did with the trace.
    pub report: TraceReport,
    /// Why it ended early, if it did: the operations before that were issued.
    pub error: Option<EngineError>,
}

/// The operations of a trace for one worker.
type WorkerSource = Box<dyn OperationSource + Send>;

struct TraceReader {
    input: TraceInput,
    /// One for each worker, until the worker takes or releases it.
    sources: Mutex<Vec<Option<WorkerSource>>>,
    /// The lock only makes it shareable with the workers, which never use it.
    events: Mutex<Receiver<ReaderEvent>>,
    stop: Arc<AtomicBool>,
    opened: TraceReport,
    outcome: Option<ReadOutcome>,
}

impl Readers {
    /// Opens the traces of the run's trace filaments, in order, and starts to read them, except those that `recorded`
    /// has already. Returns when each has full rings, is at its end, or two seconds have passed.
    ///
    /// # Errors
    /// A trace cannot be opened, or its start is malformed.
    pub(crate) fn open(
        inputs: &[&TraceInput],
        workers: usize,
        fit: Fit,
        recorded: &[RecordedSource],
    ) -> Result<Self, EngineError> {
        let started: Result<Vec<TraceReader>, EngineError> = inputs
            .iter()
            .map(|input| {
                let read = recorded.iter().find(|read| read.is_of(input));
                match read {
                    Some(read) => Ok(TraceReader::of_read(input, read, workers)),
                    None => TraceReader::start(input, workers, fit),
                }
            })
            .collect();
        let mut readers = started?;
        for reader in &mut readers {
            reader.wait_until_full()?;
        }
        Ok(Self { readers })
    }

    /// Returns the operations of the first trace with this input that `worker` has not taken yet.
    ///
    /// # Errors
    /// There is no such trace.
    pub(crate) fn source(
        &self,
        worker: usize,
        input: &TraceInput,
    ) -> Result<Box<dyn OperationSource>, String> {
        self.readers
            .iter()
            .filter(|reader| reader.input == *input)
            .find_map(|reader| reader.take(worker))
            .map(|source| source as Box<dyn OperationSource>)
            .ok_or_else(|| "the trace was not opened before the run".to_owned())
    }

    /// Releases what `worker` has not taken, so that no reader waits for it. Call this when the
    /// worker's filaments are made.
    pub(crate) fn release(&self, worker: usize) {
        for reader in &self.readers {
            drop(reader.take(worker));
        }
    }

    /// Ends the reading and returns the outcome of each trace, in order.
    #[must_use]
    pub(crate) fn finish(self) -> Vec<ReadOutcome> {
        for reader in &self.readers {
            reader.stop.store(true, Ordering::Relaxed);
        }
        self.readers.into_iter().map(TraceReader::outcome).collect()
    }
}

impl Drop for TraceReader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl TraceReader {
    fn start(input: &TraceInput, workers: usize, fit: Fit) -> Result<Self, EngineError> {
        let fitted = TraceInput {
            target_bytes: input.target_bytes.or(fit.target_bytes),
            align_bytes: input.align_bytes.or(fit.align_bytes),
            ..input.clone()
        };
        let trace = trace::open(&fitted)?;
        if trace.format().has_requests() && !fit.requests {
            return Err(no_requests(&trace.report()));
        }
        let opened = trace.report();
        let ended = Arc::new(AtomicBool::new(false));
        let stop = Arc::new(AtomicBool::new(false));
        let (senders, sources) = (0..workers).map(|_| ring(&ended)).unzip();
        let (sender, events) = channel();
        let reading = TraceReading::new(trace, senders, Arc::clone(&stop), sender);
        thread::Builder::new()
            .name("bw-trace-reader".to_owned())
            .spawn(move || reading.run(&ended))
            .map_err(|error| not_started(&opened.path, &error))?;
        Ok(Self {
            input: input.clone(),
            sources: Mutex::new(sources),
            events: Mutex::new(events),
            stop,
            opened,
            outcome: None,
        })
    }

    /// Returns the reader of a trace that has been read.
    fn of_read(input: &TraceInput, read: &RecordedSource, workers: usize) -> Self {
        let source = |_| Some(Box::new(read.operations()) as WorkerSource);
        Self {
            input: input.clone(),
            sources: Mutex::new((0..workers).map(source).collect()),
            events: Mutex::new(channel().1),
            stop: Arc::default(),
            opened: read.report.clone(),
            outcome: Some(ReadOutcome {
                report: read.report.clone(),
                error: None,
            }),
        }
    }

    fn wait_until_full(&mut self) -> Result<(), EngineError> {
        if self.outcome.is_some() {
            return Ok(());
        }
        match self.next_event() {
            Ok(ReaderEvent::Done(outcome)) => match outcome.error {
                Some(error) => Err(error),
                None => {
                    self.outcome = Some(*outcome);
                    Ok(())
                }
            },
            Ok(ReaderEvent::Filled) | Err(_) => Ok(()),
        }
    }

    fn next_event(&mut self) -> Result<ReaderEvent, RecvTimeoutError> {
        let events = self
            .events
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        events.recv_timeout(PATIENCE)
    }

    fn take(&self, worker: usize) -> Option<WorkerSource> {
        let lock: Result<MutexGuard<'_, _>, _> = self.sources.lock();
        let mut sources = lock.unwrap_or_else(PoisonError::into_inner);
        sources.get_mut(worker).and_then(Option::take)
    }

    fn outcome(mut self) -> ReadOutcome {
        if let Some(outcome) = self.outcome.take() {
            return outcome;
        }
        loop {
            match self.next_event() {
                Ok(ReaderEvent::Filled) => {}
                Ok(ReaderEvent::Done(outcome)) => return *outcome,
                Err(why) => return self.without_account(why),
            }
        }
    }

    /// Returns the outcome of a reader that reported none: it waits for a FIFO, or has ended.
    fn without_account(&self, why: RecvTimeoutError) -> ReadOutcome {
        let mut report = self.opened.clone();
        let error = match why {
            RecvTimeoutError::Timeout => {
                let note = "the writer at the other end still had it open at the end of the run";
                report.notes.push(note.to_owned());
                None
            }
            RecvTimeoutError::Disconnected => Some(TraceCode::TraceRead.error(
                &report.path,
                "its reader ended without a report",
                "report this as a defect",
            )),
        };
        ReadOutcome { report, error }
    }
}

/// Returns the error of a trace of requests whose requests the target cannot have.
fn no_requests(report: &TraceReport) -> EngineError {
    let format = report.format.name();
    let (message, remedy) = if report.path == "-" {
        (
            "its format must be known before it is read".to_owned(),
            format!("give --format {format}, or a file"),
        )
    } else {
        (
            format!("a trace of requests ({format}) is replayed to an HTTP server"),
            "give --target http://HOST:PORT/, or --target null".to_owned(),
        )
    };
    TraceCode::TraceOption.error(&report.path, message, remedy)
}

fn not_started(path: &str, error: &std::io::Error) -> EngineError {
    TraceCode::TraceRead.error(
        path,
        format!("its reader could not be started: {error}"),
        "use fewer traces or workers",
    )
}

type OperationBlock = Vec<Operation>;

fn ring(ended: &Arc<AtomicBool>) -> (Option<BlockSender<OperationBlock>>, Option<WorkerSource>) {
    let empties = (0..BLOCKS).map(|_| Vec::with_capacity(BLOCK)).collect();
    let (sender, receiver) = exchange(BLOCKS, empties);
    let source = ReadAhead {
        receiver,
        ended: Arc::clone(ended),
    };
    (Some(sender), Some(Box::new(source)))
}

/// The operations of a trace for one worker: whole blocks that are ready.
struct ReadAhead {
    receiver: BlockReceiver<OperationBlock>,
    ended: Arc<AtomicBool>,
}

impl OperationSource for ReadAhead {
    fn next_block(&mut self, block: &mut OperationBlock) -> SourceState {
        // Read before the ring: blocks handed over before the end are then in the ring.
        // A reader that has ended without an event has ended too: its outcome describes the defect.
        let ended = self.ended.load(Ordering::Acquire) || self.receiver.is_abandoned();
        match self.receiver.take() {
            Some(mut full) => {
                std::mem::swap(block, &mut full);
                full.clear();
                self.receiver.give(full);
                SourceState::Ready
            }
            None if ended => SourceState::Ended,
            None => SourceState::NotYet,
        }
    }
}

/// The shortest and the longest pause while the rings are full [ns].
const REST_NS: (u64, u64) = (200_000, 20_000_000);

/// A reader's report.
pub(super) enum ReaderEvent {
    /// The rings are full.
    Filled,
    /// There is nothing more to read.
    Done(Box<ReadOutcome>),
}

/// A trace being read.
pub(super) struct TraceReading {
    trace: Trace,
    /// None: its worker has ended, or did not need it.
    rings: Vec<Option<BlockSender<OperationBlock>>>,
    stop: Arc<AtomicBool>,
    events: Sender<ReaderEvent>,
    block: OperationBlock,
    /// The start times of the blocks that may still be in a ring [ns].
    starts: VecDeque<u64>,
    filled: bool,
}

/// Why a block is complete.
enum BlockEnd {
    Full,
    OfTrace(Option<EngineError>),
}

impl TraceReading {
    pub(super) fn new(
        trace: Trace,
        rings: Vec<Option<BlockSender<OperationBlock>>>,
        stop: Arc<AtomicBool>,
        events: Sender<ReaderEvent>,
    ) -> Self {
        Self {
            trace,
            rings,
            stop,
            events,
            block: Vec::with_capacity(BLOCK),
            starts: VecDeque::with_capacity(BLOCKS + 1),
            filled: false,
        }
    }

    /// Reads to the end, or until no worker needs more; then reports the outcome.
    pub(super) fn run(mut self, ended: &AtomicBool) {
        let error = loop {
            let end = self.read_block();
            let wanted = self.hand_over();
            match end {
                BlockEnd::OfTrace(error) => break error,
                BlockEnd::Full if wanted => {}
                BlockEnd::Full => break None,
            }
        };
        // Published after the last blocks: a worker that sees it finds them in its ring.
        ended.store(true, Ordering::Release);
        let report = self.trace.report();
        // The receiver is closed if the run ended first.
        drop(
            self.events
                .send(ReaderEvent::Done(Box::new(ReadOutcome { report, error }))),
        );
    }

    /// Fills the block; stops early if the next row is not available yet.
    fn read_block(&mut self) -> BlockEnd {
        self.block.clear();
        while self.block.len() < BLOCK {
            match self.trace.next() {
                Some(Ok(row)) => self.block.push(operation(&row)),
                Some(Err(error)) => return BlockEnd::OfTrace(Some(error)),
                None => return BlockEnd::OfTrace(None),
            }
            if !self.trace.at_hand() {
                break;
            }
        }
        BlockEnd::Full
    }

    /// Copies the block into every ring. Returns false when every ring has been abandoned.
    fn hand_over(&mut self) -> bool {
        let Some(first) = self.block.first() else {
            return true;
        };
        self.starts.push_back(first.at.0);
        if self.starts.len() > BLOCKS {
            self.starts.pop_front();
        }
        for place in 0..self.rings.len() {
            while !self.offer(place) {
                if self.stop.load(Ordering::Relaxed) {
                    return false;
                }
                self.rest();
            }
        }
        self.rings.iter().any(Option::is_some)
    }

    /// Copies the block into one ring; returns false if the ring has no room now.
    fn offer(&mut self, place: usize) -> bool {
        let Some(ring) = &mut self.rings[place] else {
            return true;
        };
        if ring.is_abandoned() {
            self.rings[place] = None;
            return true;
        }
        if ring.is_full() {
            return false;
        }
        let Some(mut copy) = ring.take() else {
            return false;
        };
        copy.clear();
        copy.extend_from_slice(&self.block);
        // There is room, and only this thread fills it.
        ring.give(copy).is_ok()
    }

    fn rest(&mut self) {
        if !self.filled {
            self.filled = true;
            drop(self.events.send(ReaderEvent::Filled));
        }
        let newest = self.block.last().map_or(0, |operation| operation.at.0);
        let oldest = self.starts.front().copied().unwrap_or(newest);
        let span = newest.saturating_sub(oldest);
        thread::sleep(Duration::from_nanos((span / 4).clamp(REST_NS.0, REST_NS.1)));
    }
}

fn operation(row: &Row) -> Operation {
    Operation {
        at: row.intended,
        ..Operation::new(row.kind, row.offset, row.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bw_model::{Kind, Nanos, Row};
    use bw_record::segment::{Content, Header, Order, SegmentWriter};
    use std::fmt::Write;
    use std::path::Path;
    use tempfile::NamedTempFile;

    /// Returns a file with this text, removed on drop.
    fn written(text: &str) -> NamedTempFile {
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    fn input(file: &Path) -> TraceInput {
        TraceInput::new(&file.to_string_lossy())
    }

    /// Returns an SPC trace of `operations` reads, a microsecond apart.
    fn text(operations: u64) -> String {
        let mut text = String::new();
        for number in 0..operations {
            let (seconds, part) = (number / 1_000_000, number % 1_000_000);
            writeln!(text, "0,{number},512,r,{seconds}.{part:06}").unwrap();
        }
        text
    }

    /// Takes everything, as a worker does; returns the arrivals.
    fn drain(mut source: Box<dyn OperationSource>) -> Vec<u64> {
        let (mut block, mut starts) = (Vec::new(), Vec::new());
        loop {
            block.clear();
            let state = source.next_block(&mut block);
            assert_eq!(state == SourceState::Ready, !block.is_empty());
            starts.extend(block.iter().map(|operation| operation.at.0));
            match state {
                SourceState::Ended => return starts,
                SourceState::NotYet => thread::yield_now(),
                SourceState::Ready => {}
            }
        }
    }

    #[test]
    fn every_worker_gets_the_whole_sequence_more_than_the_rings_hold() {
        let count = (BLOCK * BLOCKS * 2) as u64;
        let file = written(&text(count));
        let input = input(file.path());
        let readers = Readers::open(&[&input], 2, Fit::default(), &[]).unwrap();
        let drains: Vec<Vec<u64>> = thread::scope(|scope| {
            let readers = &readers;
            let input = &input;
            let one = |worker| scope.spawn(move || drain(readers.source(worker, input).unwrap()));
            let handles: Vec<_> = (0..2).map(one).collect();
            handles
                .into_iter()
                .map(|handle| handle.join().unwrap())
                .collect()
        });
        let expected: Vec<u64> = (0..count).map(|number| number * 1000).collect();
        assert!(drains.iter().all(|starts| *starts == expected));
        let outcome = readers.finish().remove(0);
        assert_eq!((outcome.report.operations, outcome.error), (count, None));
    }

    #[test]
    fn a_worker_without_a_part_is_not_waited_for() {
        let count = (BLOCK * (BLOCKS + 10)) as u64;
        let file = written(&text(count));
        let input = input(file.path());
        let readers = Readers::open(&[&input], 2, Fit::default(), &[]).unwrap();
        let source = readers.source(0, &input).unwrap();
        (0..2).for_each(|worker| readers.release(worker));
        assert_eq!(drain(source).len() as u64, count);
        assert!(readers.source(1, &input).is_err());
    }

    #[test]
    fn what_is_wrong_at_the_start_is_reported_before_the_run_and_later_after_it() {
        let early = written(&(text(10) + "0,1,512,r\n"));
        let error = Readers::open(&[&input(early.path())], 1, Fit::default(), &[])
            .err()
            .unwrap();
        assert_eq!(error.line(), Some(11));
        let count = (BLOCK * (BLOCKS + 300)) as u64;
        let late = written(&(text(count) + "0,1,512,r\n"));
        let input = input(late.path());
        let readers = Readers::open(&[&input], 1, Fit::default(), &[]).unwrap();
        let played = drain(readers.source(0, &input).unwrap()).len() as u64;
        assert_eq!(played, count, "everything before the wrong line");
        let outcome = readers.finish().remove(0);
        assert_eq!(
            outcome.error.and_then(|error| error.line()),
            Some(count + 1)
        );
    }

    #[test]
    fn traces_fit_the_target() {
        let file = written(&text(100));
        let fit = Fit {
            target_bytes: Some(8192),
            ..Fit::default()
        };
        let error = Readers::open(&[&input(file.path())], 1, fit, &[])
            .err()
            .unwrap();
        assert_eq!(
            (error.code, error.line()),
            (TraceCode::TraceOption.name(), Some(17))
        );
    }

    #[test]
    fn rows_written_into_a_fifo_are_ready_before_the_next_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        let (go, wait) = channel::<()>();
        let path = fifo.clone();
        let writer = thread::spawn(move || {
            let header = Header::new(Content::Trace, Order::Intended);
            let mut writer =
                SegmentWriter::new(std::fs::File::create(path).unwrap(), &header).unwrap();
            for at in [10, 20, 30] {
                writer.write(&row(at)).unwrap();
                writer.flush().unwrap();
                wait.recv().unwrap();
            }
            writer.finish().unwrap();
        });
        let input = input(&fifo);
        let readers = Readers::open(&[&input], 1, Fit::default(), &[]).unwrap();
        let mut source = readers.source(0, &input).unwrap();
        for at in [10, 20, 30] {
            let mut block = Vec::new();
            while source.next_block(&mut block) == SourceState::NotYet {
                thread::yield_now();
            }
            assert_eq!(
                block
                    .iter()
                    .map(|operation| operation.at.0)
                    .collect::<Vec<_>>(),
                [at]
            );
            go.send(()).unwrap();
        }
        writer.join().unwrap();
        assert!(drain(source).is_empty());
    }

    fn row(at: u64) -> Row {
        Row {
            intended: Nanos(at),
            issued: Nanos::NEVER,
            completed: Nanos::NEVER,
            offset: 0,
            size: 512,
            result: 0,
            stream: 0,
            device: 0,
            kind: Kind::Read,
        }
    }

    #[test]
    fn a_trace_filament_of_the_protocol_is_an_input() {
        use bw_schedule::workload::FilamentSpec;
        let text = r#"{"type":"trace","name":"a","path":"x","window_ns":5,"offsets":"wrap","for_ns":null}"#;
        let FilamentSpec::Trace(spec) =
            serde_json::from_str::<FilamentSpec<TraceInput>>(text).unwrap()
        else {
            unreachable!("the type says so");
        };
        assert_eq!(spec.input.window_ns, Some(5));
        assert_eq!(spec.input.path.list(), ["x"]);
        let unknown = r#"{"type":"trace","path":"x","ofsets":"wrap"}"#;
        assert!(serde_json::from_str::<FilamentSpec<TraceInput>>(unknown).is_err());
    }

    #[test]
    fn a_reader_that_is_gone_without_a_word_is_at_its_end() {
        let (sender, source) = ring(&Arc::default());
        let (mut sender, mut source) = (sender.unwrap(), source.unwrap());
        let mut block = sender.take().unwrap();
        block.push(Operation {
            at: Nanos(5),
            ..Operation::new(Kind::Read, 0, 1)
        });
        sender.give(block).unwrap();
        let mut taken = Vec::new();
        drop(sender);
        assert_eq!(source.next_block(&mut taken), SourceState::Ready);
        assert_eq!(taken.len(), 1);
        assert_eq!(source.next_block(&mut taken), SourceState::Ended);
    }
}
