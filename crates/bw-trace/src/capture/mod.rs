//! Records the I/O of a block device, or of a process tree, as a trace of our own.
//!
//! Decision: a private tracefs instance with the block layer's issue and complete events, read as
//! text: it needs no debugfs, no kprobes and no other program, and clashes with nobody's tracing.
//! blktrace lost: it wants debugfs, allows one user per device, and is refused in many guests.
//! The kernel prints whole microseconds. Writes that the page cache sends later are issued by
//! kernel threads: a capture of a process tree sees a tree's direct and synchronous I/O only.

pub mod devices;
pub mod event;
mod instance;
mod output;
pub mod pairing;
pub mod session;
mod tree;

use crate::error::{TraceCode, TraceError};
use bw_model::Row;
use devices::{Devices, filter};
use instance::{Instance, Tracefs};
use output::Output;
use serde::{Deserialize, Serialize};
use session::Session;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, Instant};
use tree::Tree;

const EVENTS: [&str; 3] = ["block_rq_issue", "block_rq_complete", "block_rq_requeue"];

/// How long to sleep when no event has come: the kernel's buffer holds seconds of them.
const PAUSE: Duration = Duration::from_millis(5);

/// What to record, and where to.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureRequest {
    /// Path of a block device; null: every device.
    pub device: Option<String>,
    /// Root of a process tree; null: every process.
    pub pid: Option<u32>,
    /// How long; null: until interrupted [ns].
    pub for_ns: Option<u64>,
    /// The new trace; an existing file is refused.
    pub output: String,
    /// The kernel's buffer for each processor [KiB].
    #[serde(default = "default_buffer_kib")]
    pub buffer_kib: u32,
}

fn default_buffer_kib() -> u32 {
    16 * 1024
}

/// What was recorded.
#[derive(Clone, Debug, Default, Serialize, PartialEq, Eq)]
pub struct CaptureResult {
    /// Operations in the trace.
    pub operations: u64,
    /// Those among them whose end was not seen.
    pub unfinished: u64,
    /// Events that the kernel's buffer could not hold: the trace has gaps.
    pub lost_events: u64,
    /// Ends of requests that were issued before the capture, or by processes outside the tree.
    pub strangers: u64,
    /// Operations on devices that appeared during the capture: not in the trace.
    pub new_devices: u64,
    /// Lines that this reader did not understand.
    pub unread_lines: u64,
    /// How long was recorded [ns].
    pub elapsed_ns: u64,
    /// The first operation's stamp, the trace's zero: CLOCK_MONOTONIC [ns]; null without operations.
    pub zero_monotonic_ns: Option<u64>,
    /// The devices' names, by index.
    pub devices: Vec<String>,
}

/// Records until the time is over or `stop` says so; `ready` is called when events flow.
///
/// # Errors
/// No permission, no such device or process, an output that exists or cannot be written.
pub fn capture(
    request: &CaptureRequest,
    stop: impl Fn() -> bool,
    ready: impl FnOnce(),
) -> Result<CaptureResult, TraceError> {
    let filter = request.device.as_deref().map(filter).transpose()?;
    request.pid.map_or(Ok(()), check_process)?;
    let devices = Devices::listed();
    let mut output = Output::create(&request.output, &devices.names)?;
    let instance = Tracefs::open()?.instance(request.buffer_kib)?;
    enable(
        &instance,
        filter.as_deref().unwrap_or(""),
        request.pid.is_some(),
    )?;
    let lines = instance.lines()?;
    instance.switch(true)?;
    let session = Session::new(devices, request.pid.map(Tree::of));
    ready();
    let end = request.for_ns.map(Duration::from_nanos);
    let result = record(session, (&instance, lines), (end, stop), &mut |row| {
        output.write(row)
    })?;
    output.finish()?;
    Ok(result)
}

/// Refuses a process that is not there: a capture of it would be empty, and say nothing of why.
fn check_process(pid: u32) -> Result<(), TraceError> {
    let path = format!("/proc/{pid}");
    if Path::new(&path).exists() {
        return Ok(());
    }
    let message = format!("there is no process {pid}");
    let remedy = "name one that runs (pgrep NAME finds its number)";
    Err(TraceError::new(
        TraceCode::TraceCapture,
        &path,
        message,
        remedy,
    ))
}

fn enable(instance: &Instance, filter: &str, forks: bool) -> Result<(), TraceError> {
    for event in EVENTS {
        instance.record(&format!("block/{event}"), filter)?;
    }
    if forks {
        instance.record("sched/sched_process_fork", "")?;
    }
    Ok(())
}

fn record(
    mut session: Session,
    (instance, mut lines): (&Instance, File),
    (length, stop): (Option<Duration>, impl Fn() -> bool),
    write: &mut impl FnMut(&Row) -> Result<(), TraceError>,
) -> Result<CaptureResult, TraceError> {
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

fn unreadable(error: &std::io::Error) -> TraceError {
    let remedy = "capture again; if it stays, tell us the kernel's version";
    let message = format!("the kernel's events cannot be read: {error}");
    TraceError::new(TraceCode::TraceCapture, "trace_pipe", message, remedy)
}
