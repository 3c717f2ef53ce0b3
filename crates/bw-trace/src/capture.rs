//! Records the I/O of a block device, or of a process tree, as a trace in the project's own format.
//!
//! Decision: a private tracefs instance with the block layer's issue and complete events, read as the pages of the
//! kernel's buffer, one buffer for each CPU. It needs no debugfs, no kprobes and no other program, and does not conflict
//! with other tracers. Rejected: blktrace, which needs debugfs, allows one user per device, and is refused in many
//! guests; the same events as text, which has whole microseconds and takes 1.9 us of CPU an event. Kernel threads issue the writes that the page cache delays, so a capture of a process tree contains only the direct and
//! synchronous I/O of the tree. The output gets its name only when it is complete, and never replaces a file.

pub(crate) mod events;
pub(crate) mod format;
pub(crate) mod pages;
pub(crate) mod pairing;
pub(crate) mod tracefs;

use crate::capture::events::{BLOCK, BlockRequest, EventFields, FORK, ProcessTree, TraceEvent};
use crate::capture::pages::{Malformed, Page, PageLayout};
use crate::capture::pairing::Pairing;
use crate::capture::tracefs::{BlockDevices, Instance, Tracefs, filter};
use crate::error::TraceCode;
use crate::new_file::NewFile;
use bw_model::EngineError;
use bw_model::{Nanos, Row};
use bw_record::segment::{Content, Header, Order, SegmentError, SegmentWriter};
use bw_sys::clock::monotonic_ns;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long to sleep between two passes over the buffers, unless they are small and fill up: the default ones hold
/// a quarter of a second of a million events a second.
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
    /// Records of the kernel that could not be read.
    #[serde(rename = "unread_lines")]
    pub unread_records: u64,
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
    let reader = enable(
        &instance,
        filter.as_deref().unwrap_or(""),
        request.pid.is_some(),
    )?;
    let pages = instance.pages()?;
    instance.switch(true)?;
    let session = CaptureState::new(devices, request.pid.map(ProcessTree::of), reader);
    ready();
    let end = request.for_ns.map(Duration::from_nanos);
    let buffer = usize::try_from(request.buffer_kib).unwrap_or(usize::MAX);
    let buffer = buffer.saturating_mul(1024);
    let result = record(
        session,
        (&instance, pages, buffer),
        (end, stop),
        &mut |row| output.write(row),
    )?;
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

fn enable(instance: &Instance, filter: &str, forks: bool) -> Result<RecordReader, EngineError> {
    let [issue, complete, requeue] = BLOCK.map(|event| instance.record(event, filter));
    let fork = forks.then(|| instance.record(FORK, "")).transpose()?;
    let fields = EventFields::of(&[issue?, complete?, requeue?], fork.as_ref());
    let layout = PageLayout::of(&instance.page_header()?);
    let reader = fields.zip(layout);
    let reader = reader.map(|(fields, layout)| RecordReader { fields, layout });
    reader.ok_or_else(|| {
        let message = "this kernel's block events have other fields";
        let remedy = "report it with the version of the kernel";
        TraceCode::TraceCapture.error("events", message, remedy)
    })
}

/// Reads the buffers in passes. What a pass has read is complete up to the beginning of the pass: each CPU's buffer has
/// been read until it was empty or its events were newer.
fn record(
    mut session: CaptureState,
    (instance, mut pipes, buffer): (&Instance, Vec<File>, usize),
    (length, stop): (Option<Duration>, impl Fn() -> bool),
    write: &mut impl FnMut(&Row) -> Result<(), EngineError>,
) -> Result<CaptureResult, EngineError> {
    let begin = Instant::now();
    let mut page = vec![0; PAGE_BYTES];
    let mut before = Nanos::ZERO;
    loop {
        let last = stop() || length.is_some_and(|l| begin.elapsed() >= l);
        if last {
            instance.switch(false)?;
        }
        let elapsed = begin.elapsed();
        let pass = if last {
            Nanos::NEVER
        } else {
            Nanos(monotonic_ns())
        };
        let mut most = 0;
        for pipe in &mut pipes {
            most = most.max(session.read(pipe, &mut page, pass)?);
        }
        if last {
            let mut result = session.finish(write)?;
            result.lost_events = instance.lost()?;
            result.elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
            return Ok(result);
        }
        // An event that began before a pass may become visible after it, so the events of a pass wait for the next one.
        session.release(before, write)?;
        before = pass;
        if most < buffer / 4 {
            std::thread::sleep(PAUSE);
        }
    }
}

fn unreadable(error: &std::io::Error) -> EngineError {
    let remedy = "capture again; if the error persists, report it with the version of the kernel";
    let message = format!("the kernel's events cannot be read: {error}");
    TraceCode::TraceCapture.error("trace_pipe_raw", message, remedy)
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

/// Length of what is read at once: at least a page of any architecture [bytes].
const PAGE_BYTES: usize = 1 << 16;

/// Where pages and records have their fields on this kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordReader {
    layout: PageLayout,
    fields: EventFields,
}

/// The state of a capture. Pure: its inputs are pages, its output rows.
#[derive(Debug)]
pub(crate) struct CaptureState {
    devices: BlockDevices,
    tree: Option<ProcessTree>,
    reader: RecordReader,
    /// Events that were read and may follow an event of another CPU that was not.
    events: Vec<(Nanos, TraceEvent)>,
    pairing: Pairing,
    /// The stamp of the first operation: the trace's zero.
    zero: Option<Nanos>,
    result: CaptureResult,
}

impl CaptureState {
    /// Returns a capture without events.
    #[must_use]
    pub(crate) fn new(
        devices: BlockDevices,
        tree: Option<ProcessTree>,
        reader: RecordReader,
    ) -> Self {
        let result = CaptureResult {
            devices: devices.names.clone(),
            ..CaptureResult::default()
        };
        Self {
            devices,
            tree,
            reader,
            events: Vec::new(),
            pairing: Pairing::default(),
            zero: None,
            result,
        }
    }

    /// Reads the pages of a CPU until there is none or an event is from `end` or later; returns their length [bytes].
    ///
    /// # Errors
    /// The kernel refuses.
    fn read(
        &mut self,
        pipe: &mut impl Read,
        page: &mut [u8],
        end: Nanos,
    ) -> Result<usize, EngineError> {
        let mut length = 0;
        loop {
            match pipe.read(page) {
                Ok(0) => return Ok(length),
                Ok(count) => {
                    length += count;
                    if self.page(&page[..count]) >= end {
                        return Ok(length);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(length),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(&error)),
            }
        }
    }

    /// Takes a page of a CPU's buffer; returns the stamp of its last record.
    pub(crate) fn page(&mut self, page: &[u8]) -> Nanos {
        let Some(mut records) = Page::of(page, &self.reader.layout) else {
            self.result.unread_records += 1;
            return Nanos::ZERO;
        };
        if records.lost {
            self.events.push((records.at(), TraceEvent::Lost));
        }
        for record in &mut records {
            let event = match record {
                Ok((at, data)) => self.reader.fields.event(data).map(|event| (at, event)),
                Err(Malformed) => Some((Nanos::ZERO, TraceEvent::Unread)),
            };
            self.events.extend(event);
        }
        records.at()
    }

    /// Handles the events before `end` in the order of their stamps; passes finished rows to `write`.
    ///
    /// # Errors
    /// Those of `write`.
    pub(crate) fn release(
        &mut self,
        end: Nanos,
        write: &mut impl FnMut(&Row) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let mut events = std::mem::take(&mut self.events);
        // Stable: events of one CPU with the same stamp stay in their order.
        events.sort_by_key(|(at, _)| *at);
        let ready = events.partition_point(|(at, _)| *at < end);
        for (at, event) in events.drain(..ready) {
            self.handle(at, event);
        }
        self.events = events;
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
        self.release(Nanos::NEVER, write)?;
        self.leave(0, write)?;
        self.result.strangers = self.pairing.strangers;
        self.result.zero_monotonic_ns = self.zero.map(|zero| zero.0);
        Ok(self.result)
    }

    fn handle(&mut self, at: Nanos, event: TraceEvent) {
        match event {
            TraceEvent::Unread => self.result.unread_records += 1,
            TraceEvent::Issue { pid, request } => self.issue(at, pid, request),
            TraceEvent::Complete { request, error } => self.pairing.complete(at, request, error),
            TraceEvent::Requeue(request) => self.pairing.requeue(request),
            TraceEvent::Lost => self.pairing.doubt(),
            TraceEvent::Fork { parent, child } => {
                if let Some(tree) = &mut self.tree {
                    tree.follow(parent, child);
                }
            }
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
    use crate::capture::events::event_tests::{fields, record};
    use crate::capture::pages::tests::{layout, page};
    use bw_model::Kind;
    use proptest::prelude::*;

    fn request(kind: Kind, sector: u64, sectors: u32) -> BlockRequest {
        let kind = Some(kind);
        BlockRequest {
            device: (7, 1),
            kind,
            sector,
            sectors,
        }
    }

    fn issue(pid: u32, request: BlockRequest) -> TraceEvent {
        TraceEvent::Issue { pid, request }
    }

    fn end(request: BlockRequest) -> TraceEvent {
        TraceEvent::Complete { request, error: 0 }
    }

    fn session(tree: Option<ProcessTree>) -> CaptureState {
        let devices = BlockDevices::of(&[("loop1", (7, 1))]);
        let (layout, fields) = (layout(), fields());
        CaptureState::new(devices, tree, RecordReader { layout, fields })
    }

    /// Returns the pages of one CPU, of `size` events each; events are lost before those that follow a `Lost`.
    fn pages(events: &[(u64, TraceEvent)], size: usize) -> Vec<Vec<u8>> {
        let lost = |(_, event): &(u64, TraceEvent)| *event == TraceEvent::Lost;
        let made = events.chunks(size).map(|events| {
            let records: Vec<_> = events.iter().filter(|event| !lost(event)).collect();
            let records: Vec<_> = records.iter().map(|(at, e)| (*at, record(*e))).collect();
            let records: Vec<_> = records.iter().map(|(at, r)| (*at, r.as_slice())).collect();
            page(events[0].0, events.iter().any(lost), &records)
        });
        made.collect()
    }

    #[test]
    fn a_tree_is_distinguished_from_the_others_whatever_was_read_first() {
        let (read, other) = (request(Kind::Read, 8, 8), request(Kind::Read, 96, 8));
        let write = request(Kind::Write, 16, 16);
        let new = BlockRequest {
            device: (9, 9),
            ..read
        };
        let cpus = [
            vec![
                (
                    10_000,
                    TraceEvent::Fork {
                        parent: 50,
                        child: 51,
                    },
                ),
                (10_010, issue(51, read)),
                (10_011, issue(99, other)),
                (10_015, TraceEvent::Lost),
                (10_020, issue(51, write)),
                (10_200, issue(51, new)),
            ],
            vec![
                (10_111, end(write)),
                (10_120, end(other)),
                (10_130, TraceEvent::Unread),
            ],
        ];
        for (size, first) in [(1, 0), (2, 1), (3, 0), (9, 1)] {
            let mut tree = ProcessTree::of(u32::MAX);
            tree.follow(u32::MAX, 50);
            let mut session = session(Some(tree));
            for cpu in [first, 1 - first] {
                for page in pages(&cpus[cpu], size) {
                    session.page(&page);
                }
            }
            let mut rows = Vec::new();
            let mut write = |row: &Row| {
                rows.push((row.intended.0, row.offset, row.completed.0, row.stream));
                Ok(())
            };
            session.release(Nanos(10_020), &mut write).unwrap();
            let result = session.finish(&mut write).unwrap();
            let expected = [(0, 4096, u64::MAX, 51), (10, 8192, 101, 51)];
            assert_eq!(rows, expected, "{size}");
            assert_eq!((result.operations, result.unfinished), (2, 1));
            let others = (result.strangers, result.unread_records, result.new_devices);
            assert_eq!(others, (1, 1, 1));
            assert_eq!(result.zero_monotonic_ns, Some(10_010));
        }
    }

    /// A buffer that gives its pages one by one, and then none.
    struct Buffer(std::vec::IntoIter<Vec<u8>>);

    impl Read for Buffer {
        fn read(&mut self, page: &mut [u8]) -> std::io::Result<usize> {
            let next = self.0.next().ok_or(ErrorKind::WouldBlock)?;
            page[..next.len()].copy_from_slice(&next);
            Ok(next.len())
        }
    }

    proptest! {
        /// Requests that begin on one CPU and end on another are paired, however passes divide the pages.
        #[test]
        fn events_of_several_cpus_are_paired_in_the_order_of_their_stamps(
            requests in prop::collection::vec((1..200_u64, 1..500_u64, 0..3_usize, 0..3_usize), 1..60),
            size in 1..9_usize,
            pass in 1..400_u64,
        ) {
            let (mut cpus, mut expected, mut at) = (vec![Vec::new(); 3], Vec::new(), 0);
            for (sector, (gap, length, from, to)) in (0_u64..).step_by(8).zip(requests) {
                at += gap;
                let request = request(Kind::Read, sector, 8);
                cpus[from].push((at, issue(1, request)));
                cpus[to].push((at + length, end(request)));
                expected.push((at, sector * 512, at + length));
            }
            let mut buffers = Vec::new();
            for cpu in &mut cpus {
                cpu.sort_by_key(|(at, _)| *at);
                buffers.push(Buffer(pages(cpu, size).into_iter()));
            }
            let zero = expected[0].0;
            let mut rows = Vec::new();
            let mut write = |row: &Row| {
                rows.push((row.issued.0 + zero, row.offset, row.completed.0 + zero));
                Ok(())
            };
            let (mut session, mut before) = (session(None), 0);
            for end in (0..at + 900).step_by(usize::try_from(pass).unwrap()) {
                for buffer in &mut buffers {
                    session.read(buffer, &mut [0; 4096], Nanos(end)).unwrap();
                }
                session.release(Nanos(before), &mut write).unwrap();
                before = end;
            }
            let result = session.finish(&mut write).unwrap();
            prop_assert_eq!((result.strangers, result.unfinished, result.unread_records), (0, 0, 0));
            prop_assert_eq!(rows, expected);
        }
    }
}
