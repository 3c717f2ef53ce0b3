//! Records the I/O of a block device, or of a process tree, as a trace in the project's own format.
//!
//! Decision: a private tracefs instance with the block layer's issue and complete events, read as text. It needs no
//! debugfs, no kprobes and no other program, and does not conflict with other tracers. Rejected: blktrace, which needs
//! debugfs, allows one user per device, and is refused in many guests. The kernel prints whole microseconds. Kernel
//! threads issue the writes that the page cache delays, so a capture of a process tree contains only the direct and
//! synchronous I/O of the tree. The output gets its name only when it is complete, and never replaces a file.

pub(crate) mod events;
pub(crate) mod pairing;
pub(crate) mod tracefs;

use crate::capture::events::{BlockRequest, ProcessTree, TraceEvent, parse};
use crate::capture::pairing::Pairing;
use crate::capture::tracefs::{BlockDevices, Instance, Tracefs, filter};
use crate::error::TraceCode;
use crate::new_file::NewFile;
use bw_model::EngineError;
use bw_model::{Nanos, Row};
use bw_record::segment::{Content, Header, Order, SegmentError, SegmentWriter};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, Instant};

const EVENTS: [&str; 3] = ["block_rq_issue", "block_rq_complete", "block_rq_requeue"];

/// How long to sleep when there is no event: the kernel's buffer holds seconds of them.
const PAUSE: Duration = Duration::from_millis(5);

/// What to record, and the output.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureRequest {
    /// Path of a block device; null: every device.
    pub device: Option<String>,
    /// Root of a process tree; null: every process.
    pub pid: Option<u32>,
    /// Duration; null: until interrupted [ns].
    pub for_ns: Option<u64>,
    /// The new trace; an existing file is refused.
    pub output: String,
    /// The kernel's buffer for each CPU [KiB].
    #[serde(default = "default_buffer_kib")]
    pub buffer_kib: u32,
}

fn default_buffer_kib() -> u32 {
    16 * 1024
}

/// The result of a capture.
#[derive(Clone, Debug, Default, Serialize, PartialEq, Eq)]
pub struct CaptureResult {
    /// Operations in the trace.
    pub operations: u64,
    /// Operations in the trace without a completion.
    pub unfinished: u64,
    /// Events that the kernel's buffer could not hold: the trace has gaps.
    pub lost_events: u64,
    /// Completions of requests that were issued before the capture, or by processes outside the tree.
    pub strangers: u64,
    /// Operations on devices that appeared during the capture: not in the trace.
    pub new_devices: u64,
    /// Lines that could not be parsed.
    pub unread_lines: u64,
    /// Duration of the recording [ns].
    pub elapsed_ns: u64,
    /// The first operation's stamp, the trace's zero: CLOCK_MONOTONIC [ns]; null without operations.
    pub zero_monotonic_ns: Option<u64>,
    /// The devices' names, by index.
    pub devices: Vec<String>,
}

/// Records until the time is over or `stop` is set; calls `ready` when events flow.
///
/// # Errors
/// No permission, no such device or process, an output that exists or cannot be written.
pub fn capture(
    request: &CaptureRequest,
    stop: impl Fn() -> bool,
    ready: impl FnOnce(),
) -> Result<CaptureResult, EngineError> {
    let filter = request.device.as_deref().map(filter).transpose()?;
    request.pid.map_or(Ok(()), check_process)?;
    let devices = BlockDevices::listed();
    let mut output = CaptureOutput::create(&request.output, &devices.names)?;
    let instance = Tracefs::open()?.instance(request.buffer_kib)?;
    enable(
        &instance,
        filter.as_deref().unwrap_or(""),
        request.pid.is_some(),
    )?;
    let lines = instance.lines()?;
    instance.switch(true)?;
    let session = CaptureState::new(devices, request.pid.map(ProcessTree::of));
    ready();
    let end = request.for_ns.map(Duration::from_nanos);
    let result = record(session, (&instance, lines), (end, stop), &mut |row| {
        output.write(row)
    })?;
    output.finish()?;
    Ok(result)
}

/// Refuses a process that does not exist: its capture would be empty without a reason.
fn check_process(pid: u32) -> Result<(), EngineError> {
    let path = format!("/proc/{pid}");
    if Path::new(&path).exists() {
        return Ok(());
    }
    let message = format!("there is no process {pid}");
    let remedy = "name one that runs (pgrep NAME finds its number)";
    Err(TraceCode::TraceCapture.error(&path, message, remedy))
}

fn enable(instance: &Instance, filter: &str, forks: bool) -> Result<(), EngineError> {
    for event in EVENTS {
        instance.record(&format!("block/{event}"), filter)?;
    }
    if forks {
        instance.record("sched/sched_process_fork", "")?;
    }
    Ok(())
}

fn record(
    mut session: CaptureState,
    (instance, mut lines): (&Instance, File),
    (length, stop): (Option<Duration>, impl Fn() -> bool),
    write: &mut impl FnMut(&Row) -> Result<(), EngineError>,
) -> Result<CaptureResult, EngineError> {
    let begin = Instant::now();
    let mut text = vec![0; 1 << 18];
    let mut flowing = true;
    let mut elapsed = Duration::ZERO;
    loop {
        if flowing && (stop() || length.is_some_and(|l| begin.elapsed() >= l)) {
            instance.switch(false)?;
            elapsed = begin.elapsed();
            flowing = false;
        }
        match lines.read(&mut text) {
            Ok(0) => {}
            Ok(count) => {
                session.take(&text[..count], write)?;
                continue;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(unreadable(&error)),
        }
        if !flowing {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    let mut result = session.finish(write)?;
    result.elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    Ok(result)
}

fn unreadable(error: &std::io::Error) -> EngineError {
    let remedy = "capture again; if the error persists, report it with the version of the kernel";
    let message = format!("the kernel's events cannot be read: {error}");
    TraceCode::TraceCapture.error("trace_pipe", message, remedy)
}

/// A trace that is being written.
pub(crate) struct CaptureOutput {
    path: String,
    writer: SegmentWriter<NewFile>,
}

impl CaptureOutput {
    /// Creates a trace at `path` of operations on these devices.
    ///
    /// # Errors
    /// The file exists already, or cannot be made.
    pub(crate) fn create(path: &str, devices: &[String]) -> Result<Self, EngineError> {
        let mut header = Header::new(Content::Trace, Order::Intended);
        header.devices = devices.to_vec();
        header.source = "capture of block_rq_issue and block_rq_complete".to_owned();
        let writer = SegmentWriter::new(NewFile::create(path, "capture")?, &header);
        Ok(Self {
            path: path.to_owned(),
            writer: writer.map_err(|error| refused(path, &error))?,
        })
    }

    /// Writes an operation.
    ///
    /// # Errors
    /// The disk is full, or failed.
    pub(crate) fn write(&mut self, row: &Row) -> Result<(), EngineError> {
        let written = self.writer.write(row);
        written.map_err(|error| refused(&self.path, &error))
    }

    /// Completes the trace and gives it its name.
    ///
    /// # Errors
    /// The disk is full, or a file of that name was created meanwhile.
    pub(crate) fn finish(self) -> Result<(), EngineError> {
        let ended = self.writer.finish();
        ended
            .map_err(|error| refused(&self.path, &error))?
            .finish()?;
        Ok(())
    }
}

fn refused(path: &str, error: &SegmentError) -> EngineError {
    let message = format!("the trace cannot be written: {error}");
    let remedy = "choose a directory with free space";
    TraceCode::TraceWrite.error(path, message, remedy)
}

/// Maximum number of requests in flight; beyond it the oldest are written without a completion.
const PENDING: usize = 1 << 16;

/// The state of a capture. Pure: its inputs are lines, its output rows.
#[derive(Debug)]
pub(crate) struct CaptureState {
    devices: BlockDevices,
    tree: Option<ProcessTree>,
    pairing: Pairing,
    /// The incomplete last line of the text so far.
    part: Vec<u8>,
    /// The stamp of the first operation: the trace's zero.
    zero: Option<Nanos>,
    result: CaptureResult,
}

impl CaptureState {
    /// Returns a capture without events.
    #[must_use]
    pub(crate) fn new(devices: BlockDevices, tree: Option<ProcessTree>) -> Self {
        let result = CaptureResult {
            devices: devices.names.clone(),
            ..CaptureResult::default()
        };
        let (pairing, part, zero) = (Pairing::default(), Vec::new(), None);
        Self {
            devices,
            tree,
            pairing,
            part,
            zero,
            result,
        }
    }

    /// Takes text cut at any point; passes finished rows to `write`.
    ///
    /// # Errors
    /// Those of `write`.
    pub(crate) fn take(
        &mut self,
        text: &[u8],
        write: &mut impl FnMut(&Row) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let mut rest = text;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.part.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.part);
            self.line(&line);
            self.part = line;
            self.part.clear();
        }
        self.part.extend_from_slice(rest);
        self.leave(PENDING, write)
    }

    /// Passes the remaining rows to `write`, completed or not, and returns the result.
    ///
    /// # Errors
    /// Those of `write`.
    pub(crate) fn finish(
        mut self,
        write: &mut impl FnMut(&Row) -> Result<(), EngineError>,
    ) -> Result<CaptureResult, EngineError> {
        self.leave(0, write)?;
        self.result.strangers = self.pairing.strangers;
        self.result.zero_monotonic_ns = self.zero.map(|zero| zero.0);
        Ok(self.result)
    }

    fn line(&mut self, line: &[u8]) {
        match parse(line) {
            None => self.result.unread_lines += 1,
            Some(TraceEvent::Issue { at, pid, request }) => self.issue(at, pid, request),
            Some(TraceEvent::Complete { at, request, error }) => {
                self.pairing.complete(at, request, error);
            }
            Some(TraceEvent::Requeue(request)) => self.pairing.requeue(request),
            Some(TraceEvent::Lost(events)) => {
                self.result.lost_events += events;
                self.pairing.doubt();
            }
            Some(fork @ TraceEvent::Fork { .. }) => {
                if let Some(tree) = &mut self.tree {
                    tree.follow(&fork);
                }
            }
            Some(TraceEvent::Other) => {}
        }
    }

    fn issue(&mut self, at: Nanos, pid: u32, request: BlockRequest) {
        if self.tree.as_ref().is_some_and(|tree| !tree.has(pid)) {
            return;
        }
        let Some(device) = self.devices.index(request.device) else {
            self.result.new_devices += 1;
            return;
        };
        self.zero.get_or_insert(at);
        self.pairing.issue(at, request, (device, pid));
    }

    fn leave(
        &mut self,
        limit: usize,
        write: &mut impl FnMut(&Row) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let (zero, result) = (self.zero.unwrap_or_default(), &mut self.result);
        self.pairing.leave(limit, |row| {
            let mut row = *row;
            row.intended = row.intended - zero;
            row.issued = row.issued - zero;
            if row.completed == Nanos::NEVER {
                result.unfinished += 1;
            } else {
                row.completed = row.completed - zero;
            }
            result.operations += 1;
            write(&row)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
           <...>-50 [000] 10.000000: sched_process_fork: comm=a pid=50 child_comm=a child_pid=51
           <...>-51 [000] 10.000010: block_rq_issue: 7,1 R 4096 () 8 + 8 none,0,0 [a]
           <...>-99 [000] 10.000011: block_rq_issue: 7,1 R 4096 () 96 + 8 none,0,0 [b]
CPU:0 [LOST 3 EVENTS]
           <...>-51 [000] 10.000020: block_rq_issue: 7,1 WS 8192 () 16 + 16 none,0,0 [a]
garbage
           <...>-2 [001] 10.000110: block_rq_complete: 7,1 WS () 16 + 16 none,0,0 [0]
           <...>-2 [001] 10.000120: block_rq_complete: 7,1 R () 96 + 8 none,0,0 [0]
           <...>-51 [000] 10.000200: block_rq_issue: 9,9 R 4096 () 8 + 8 none,0,0 [a]
";

    fn session() -> CaptureState {
        let devices = BlockDevices::of(&[("loop1", (7, 1))]);
        let mut tree = ProcessTree::of(u32::MAX);
        tree.follow(&TraceEvent::Fork {
            parent: u32::MAX,
            child: 50,
        });
        CaptureState::new(devices, Some(tree))
    }

    #[test]
    fn a_tree_is_distinguished_from_the_others_however_the_text_is_cut() {
        for cut in 1..TEXT.len() {
            let mut rows = Vec::new();
            let mut write = |row: &Row| {
                rows.push((row.intended.0, row.offset, row.completed.0, row.stream));
                Ok(())
            };
            let mut session = session();
            for piece in TEXT.as_bytes().chunks(cut) {
                session.take(piece, &mut write).unwrap();
            }
            let result = session.finish(&mut write).unwrap();
            assert_eq!(
                rows,
                [(0, 4096, u64::MAX, 51), (10_000, 8192, 100_000, 51)],
                "{cut}"
            );
            let counts = (
                result.operations,
                result.unfinished,
                result.lost_events,
                result.strangers,
            );
            assert_eq!(counts, (2, 1, 3, 1));
            assert_eq!((result.unread_lines, result.new_devices), (1, 1));
            assert_eq!(result.zero_monotonic_ns, Some(10_000_010_000));
        }
    }
}
