//! Traces read ahead of time: a thread reads and prepares blocks of operations, the workers take them.
//!
//! Decision: one reader thread for each trace, whatever the number of workers, and one ring to each
//! worker that plays it: a FIFO can be read only once, and parsing is paid once. Every worker gets
//! the whole sequence and keeps its part ([`bw_schedule::filaments::operations`]): copying 32 bytes
//! costs less than agreeing on who takes what. What lost: a reader in each worker, parsing W times.
//! [`Readers::open`] is to be called by a thread that is not pinned, since a thread inherits its
//! processors. The rings are filled before the run begins: what is wrong near a trace's start is told then.

use crate::exchange::{Emptier, Filler, exchange};
use bw_schedule::filaments::operations::{OperationSource, SourceState};
use bw_model::Operation;
use bw_trace::error::{TraceCode, TraceError};
use bw_trace::input::TraceInput;
use bw_trace::report::TraceReport;
use bw_trace::trace;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

mod reading;

use reading::{News, Reading};

/// Operations in a block.
const BLOCK: usize = 256;

/// Blocks that are ready ahead for one worker: 131,072 operations, 4 MiB.
const BLOCKS: usize = 512;

/// How long the start waits for a trace that comes slowly, and the end for a reader's account.
const PATIENCE: Duration = Duration::from_secs(2);

/// What all traces of a run are fitted to, where their own options do not say otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// The size of the target [bytes]; None: addresses are not limited.
    pub target_bytes: Option<u64>,
    /// The alignment that it asks for [bytes]; None: none.
    pub align_bytes: Option<u64>,
}

/// The traces of one run, being read.
pub struct Readers {
    readers: Vec<Reader>,
}

/// The account of one trace, with what was wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What reading did to it.
    pub report: TraceReport,
    /// Why it ended early, if it did: the operations before that were played.
    pub error: Option<TraceError>,
}

struct Reader {
    input: TraceInput,
    /// One for each worker, until it takes it or lets it go.
    sources: Mutex<Vec<Option<ReadAhead>>>,
    /// Behind a lock only to be shared with the workers, who never ask.
    news: Mutex<Receiver<News>>,
    stop: Arc<AtomicBool>,
    opened: TraceReport,
    outcome: Option<Outcome>,
}

impl Readers {
    /// Opens the traces of the run's trace filaments, in their order, and starts to read them. Returns when
    /// each has its rings full, is at its end, or has had two seconds.
    ///
    /// # Errors
    /// A trace cannot be opened, or something is wrong in its beginning.
    pub fn open(inputs: &[&TraceInput], workers: usize, fit: Fit) -> Result<Self, TraceError> {
        let started: Result<Vec<Reader>, TraceError> = inputs
            .iter()
            .map(|input| Reader::start(input, workers, fit))
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
    /// There is none.
    pub fn source(
        &self,
        worker: usize,
        input: &TraceInput,
    ) -> Result<Box<dyn OperationSource>, String> {
        self.readers
            .iter()
            .filter(|reader| reader.input == *input)
            .find_map(|reader| reader.take(worker))
            .map(|source| Box::new(source) as Box<dyn OperationSource>)
            .ok_or_else(|| "the trace was not opened before the run".to_owned())
    }

    /// Lets go what `worker` has not taken, so that no reader waits for it. To be called when the
    /// worker's filaments are made.
    pub fn release(&self, worker: usize) {
        for reader in &self.readers {
            drop(reader.take(worker));
        }
    }

    /// Ends the reading and returns what became of each trace, in order.
    #[must_use]
    pub fn finish(self) -> Vec<Outcome> {
        for reader in &self.readers {
            reader.stop.store(true, Ordering::Relaxed);
        }
        self.readers.into_iter().map(Reader::outcome).collect()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Reader {
    fn start(input: &TraceInput, workers: usize, fit: Fit) -> Result<Self, TraceError> {
        let fitted = TraceInput {
            target_bytes: input.target_bytes.or(fit.target_bytes),
            align_bytes: input.align_bytes.or(fit.align_bytes),
            ..input.clone()
        };
        let trace = trace::open(&fitted)?;
        let opened = trace.report();
        let ended = Arc::new(AtomicBool::new(false));
        let stop = Arc::new(AtomicBool::new(false));
        let (fillers, sources) = (0..workers).map(|_| ring(&ended)).unzip();
        let (tell, news) = channel();
        let reading = Reading::new(trace, fillers, Arc::clone(&stop), tell);
        thread::Builder::new()
            .name("bw-trace-reader".to_owned())
            .spawn(move || reading.run(&ended))
            .map_err(|error| not_started(&opened.path, &error))?;
        Ok(Self {
            input: input.clone(),
            sources: Mutex::new(sources),
            news: Mutex::new(news),
            stop,
            opened,
            outcome: None,
        })
    }

    fn wait_until_full(&mut self) -> Result<(), TraceError> {
        match self.hear() {
            Ok(News::Done(outcome)) => match outcome.error {
                Some(error) => Err(error),
                None => {
                    self.outcome = Some(*outcome);
                    Ok(())
                }
            },
            Ok(News::Filled) | Err(_) => Ok(()),
        }
    }

    fn hear(&mut self) -> Result<News, RecvTimeoutError> {
        let news = self.news.get_mut().unwrap_or_else(PoisonError::into_inner);
        news.recv_timeout(PATIENCE)
    }

    fn take(&self, worker: usize) -> Option<ReadAhead> {
        let lock: Result<MutexGuard<'_, _>, _> = self.sources.lock();
        let mut sources = lock.unwrap_or_else(PoisonError::into_inner);
        sources.get_mut(worker).and_then(Option::take)
    }

    fn outcome(mut self) -> Outcome {
        if let Some(outcome) = self.outcome.take() {
            return outcome;
        }
        loop {
            match self.hear() {
                Ok(News::Filled) => {}
                Ok(News::Done(outcome)) => return *outcome,
                Err(why) => return self.without_account(why),
            }
        }
    }

    /// Returns the outcome of a reader that gave none: it waits for a FIFO, or it is gone.
    fn without_account(&self, why: RecvTimeoutError) -> Outcome {
        let mut report = self.opened.clone();
        let error = match why {
            RecvTimeoutError::Timeout => {
                let note = "the writer at the other end still had it open at the end of the run";
                report.notes.push(note.to_owned());
                None
            }
            RecvTimeoutError::Disconnected => Some(TraceError::new(
                TraceCode::TraceRead,
                &report.path,
                "its reader ended without an account",
                "report this as a defect",
            )),
        };
        Outcome { report, error }
    }
}

fn not_started(path: &str, error: &std::io::Error) -> TraceError {
    TraceError::new(
        TraceCode::TraceRead,
        path,
        format!("its reader could not be started: {error}"),
        "ask for fewer traces or workers",
    )
}

type Block = Vec<Operation>;

fn ring(ended: &Arc<AtomicBool>) -> (Option<Filler<Block>>, Option<ReadAhead>) {
    let empties = (0..BLOCKS).map(|_| Vec::with_capacity(BLOCK)).collect();
    let (filler, emptier) = exchange(BLOCKS, empties);
    let source = ReadAhead {
        emptier,
        ended: Arc::clone(ended),
    };
    (Some(filler), Some(source))
}

/// The operations of a trace as one worker sees them: whole blocks that are ready.
struct ReadAhead {
    emptier: Emptier<Block>,
    ended: Arc<AtomicBool>,
}

impl OperationSource for ReadAhead {
    fn next_block(&mut self, block: &mut Block) -> SourceState {
        // Looked at before the ring: what was handed over before the end is then in it.
        // A reader that is gone without a word has ended too: its outcome tells of the defect.
        let ended = self.ended.load(Ordering::Acquire) || self.emptier.is_abandoned();
        match self.emptier.take() {
            Some(mut full) => {
                std::mem::swap(block, &mut full);
                full.clear();
                self.emptier.give(full);
                SourceState::Ready
            }
            None if ended => SourceState::Ended,
            None => SourceState::NotYet,
        }
    }
}

#[cfg(test)]
mod tests;
