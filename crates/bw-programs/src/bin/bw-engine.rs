//! `bw-engine`: see docs/engine-protocol.md.

use bw_load::clock_offset::{self, EchoRequest};
use bw_load::file_set::make::MakeProgress;
use bw_load::floor::{self, FloorRequest};
use bw_load::merge::{self, MergeRequest};
use bw_load::request::LoadRequest;
use bw_load::run::{self, Progress, RunListener};
use bw_load::{environment, kernel_probe};
use bw_model::{EngineError, ErrorLocation};
use bw_proto::CallRequest;
use bw_sys::clock::monotonic_ns;
use bw_sys::process::{die_with_parent, exit_now, parent_id};
use bw_trace::capture::{CaptureRequest, capture};
use bw_trace::compare::{CompareRequest, compare};
use bw_trace::convert::{ConvertRequest, convert};
use bw_trace::stat::{StatRequest, stat};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// Exit status of a load that a signal ended early.
const INTERRUPTED: i32 = 130;
/// How often a load that waits for its start looks for signals.
const LOOK: Duration = Duration::from_millis(20);

/// A request to the engine.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Request {
    Load(Box<LoadRequest>),
    Merge(MergeRequest),
    ClockEcho(EchoRequest),
    ClockProbe(clock_offset::ProbeRequest),
    Floor(FloorRequest),
    Probe(ProbeRequest),
    GrpcCall(CallRequest),
    TraceConvert(Box<ConvertRequest>),
    TraceStat(Box<StatRequest>),
    TraceCompare(Box<CompareRequest>),
    TraceCapture(CaptureRequest),
}

/// What the kernel and the machine support; direct I/O is tried on each of the paths.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProbeRequest {
    #[serde(default)]
    paths: Vec<PathBuf>,
}

/// The engine's answers, one per line.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Answer<T: Serialize> {
    Making(T),
    Progress(T),
    Ready(T),
    Armed(T),
    Clock(T),
    Result(T),
    Error(T),
}

/// An answer that consists of its type only.
#[derive(Serialize)]
struct Nothing {}

/// The port of an echo that is ready.
#[derive(Serialize)]
struct EchoPort {
    port: u16,
}

/// When a line arrived, and when its answer left, in CLOCK_MONOTONIC.
#[derive(Serialize)]
struct ClockReading {
    received_ns: u64,
    answered_ns: u64,
}

/// A line that controls a load.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ControlLine {
    /// Time zero in CLOCK_MONOTONIC.
    StartAtNs(u64),
    /// As a signal.
    Stop,
}

pub(crate) fn main() {
    environment::on_panic(say_panic);
    if std::env::args().nth(1).as_deref() == Some("--version") {
        println!("bw-engine {}", env!("CARGO_PKG_VERSION"));
        return;
    }
    if !die_with_parent(parent_id(), libc::SIGKILL) {
        // The parent has ended: nothing reads an answer.
        eprintln!("bw-engine: the parent has ended");
        std::process::exit(1);
    }
    let status = read().and_then(answer).unwrap_or_else(|error| {
        say(&Answer::Error(&error));
        error.status
    });
    std::process::exit(status);
}

/// Reads one document, which ends with stdin; one after which stdin has more ends with its last brace.
fn read() -> Result<Request, EngineError> {
    let mut input = serde_json::Deserializer::from_reader(std::io::stdin().lock());
    let request = Request::deserialize(&mut input).map_err(|error| misunderstood(&error))?;
    let more = match &request {
        Request::Load(load) => load.wait_for_start || load.controlled,
        Request::ClockEcho(_) => true,
        _ => false,
    };
    if !more {
        input.end().map_err(|error| misunderstood(&error))?;
    }
    Ok(request)
}

fn misunderstood(error: &serde_json::Error) -> EngineError {
    if error.is_io() {
        return EngineError::request(
            "bad-request",
            format!("the request cannot be read: {error}"),
            "send one JSON document in UTF-8",
        );
    }
    EngineError {
        location: Some(Box::new(ErrorLocation {
            line: Some(error.line() as u64).filter(|line| *line > 0),
            column: Some(error.column() as u64).filter(|column| *column > 0),
            ..ErrorLocation::default()
        })),
        ..EngineError::request(
            "bad-request",
            format!("the request is not understood: {error}"),
            "if bw wrote it, bw and bw-engine are of different builds: install both again; else see docs/engine-protocol.md",
        )
    }
}

/// Writes what happens during a load to stdout, and waits for its start.
#[derive(Default)]
struct Caller {
    /// The times to start at, from the lines of a controlled load.
    starts: Option<Receiver<u64>>,
}

impl Caller {
    /// Obeys the lines on stdin from now on. Their end ends the process: the caller, or the connection to it, is gone.
    fn controlled() -> Self {
        let (sender, starts) = mpsc::channel();
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                let Ok(line) = line else { break };
                match serde_json::from_str(line.trim()) {
                    Ok(ControlLine::StartAtNs(at)) => drop(sender.send(at)),
                    Ok(ControlLine::Stop) => bw_sys::signals::count_one(),
                    Err(_) if line.trim().is_empty() => {}
                    Err(error) => {
                        eprintln!("bw-engine: a line is not understood: {error}");
                        exit_now(1);
                    }
                }
            }
            exit_now(1);
        });
        Self {
            starts: Some(starts),
        }
    }
}

impl RunListener for Caller {
    fn making(&mut self, progress: &MakeProgress) {
        say(&Answer::Making(progress));
    }

    fn ready(&mut self) -> Result<(), EngineError> {
        say(&Answer::Ready(Nothing {}));
        // A thread reads: a signal does not end a read, and ends this wait. The run then reports that it was interrupted.
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let mut rest = Vec::new();
            let read = std::io::stdin().read_to_end(&mut rest);
            drop(sender.send(read.map(|_| rest.trim_ascii().is_empty())));
        });
        while bw_sys::signals::caught() == 0 {
            match ended.recv_timeout(LOOK) {
                Ok(Ok(true)) => break,
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Ok(false) | Err(_)) | Err(RecvTimeoutError::Disconnected) => {
                    let message =
                        "the start of the load cannot be read: stdin has more than the request";
                    let remedy = "send one JSON document, and close stdin to start the load";
                    return Err(EngineError::request("bad-request", message, remedy));
                }
            }
        }
        Ok(())
    }

    fn armed(&mut self) -> Result<Option<u64>, EngineError> {
        let Some(starts) = &self.starts else {
            return Ok(None);
        };
        say(&Answer::Armed(Nothing {}));
        while bw_sys::signals::caught() == 0 {
            if let Ok(at) = starts.recv_timeout(LOOK) {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    fn progress(&mut self, progress: &Progress) {
        // A controlled load sends nothing while it measures.
        if self.starts.is_none() {
            say(&Answer::Progress(progress));
        }
    }
}

/// Answers packets, and lines on stdin until it ends: where packets do not pass, the lines measure the clock.
fn echo(request: EchoRequest) -> Result<i32, EngineError> {
    let socket = clock_offset::echo_socket()?;
    let port = socket.local_addr().map_or(0, |address| address.port());
    std::thread::spawn(move || clock_offset::echo(&socket, request.token));
    say(&Answer::Ready(EchoPort { port }));
    let mut lines = 0;
    // The first one is the rest of the request's line.
    for line in std::io::stdin().lock().lines().skip(1) {
        let received_ns = monotonic_ns();
        if line.is_err() {
            break;
        }
        lines += 1;
        let answered_ns = monotonic_ns();
        say(&Answer::Clock(ClockReading {
            received_ns,
            answered_ns,
        }));
    }
    say(&Answer::Result(serde_json::json!({ "lines": lines })));
    Ok(0)
}

fn answer(request: Request) -> Result<i32, EngineError> {
    match request {
        Request::Load(request) => {
            environment::catch_signals();
            let mut caller = if request.controlled {
                Caller::controlled()
            } else {
                Caller::default()
            };
            let result = run::run(&request, &mut caller)?;
            say(&Answer::Result(&result));
            Ok(if result.interrupted { INTERRUPTED } else { 0 })
        }
        Request::Merge(request) => {
            say(&Answer::Result(merge::merge(&request)?));
            Ok(0)
        }
        Request::ClockEcho(request) => echo(request),
        Request::ClockProbe(request) => {
            say(&Answer::Result(clock_offset::probe(&request)?));
            Ok(0)
        }
        Request::Floor(request) => {
            environment::catch_signals();
            let result = floor::run(&request)?;
            say(&Answer::Result(&result));
            Ok(if result.interrupted { INTERRUPTED } else { 0 })
        }
        Request::Probe(request) => {
            say(&Answer::Result(&kernel_probe::probe(&request.paths)));
            Ok(0)
        }
        Request::GrpcCall(request) => {
            say(&Answer::Result(&bw_proto::call(&request)?));
            Ok(0)
        }
        Request::TraceConvert(request) => {
            say(&Answer::Result(&convert(&request)?));
            Ok(0)
        }
        Request::TraceStat(request) => {
            say(&Answer::Result(&stat(&request)?));
            Ok(0)
        }
        Request::TraceCompare(request) => {
            say(&Answer::Result(&compare(&request)?));
            Ok(0)
        }
        Request::TraceCapture(request) => {
            environment::catch_signals();
            let ready = || say(&Answer::Ready(Nothing {}));
            let result = capture(&request, || bw_sys::signals::caught() > 0, ready)?;
            say(&Answer::Result(&result));
            Ok(0) // a signal is how a capture is meant to end
        }
    }
}

/// Whether the single `result` or `error` has been written.
static ANSWERED: AtomicBool = AtomicBool::new(false);

fn say_panic(error: &EngineError) {
    if !ANSWERED.load(Ordering::SeqCst) {
        say(&Answer::Error(error));
    }
}

/// Writes one line. A closed stdout is not an error: the run continues to its end.
fn say<T: Serialize>(answer: &Answer<T>) {
    match serde_json::to_string(answer) {
        Ok(line) => {
            drop(writeln!(std::io::stdout().lock(), "{line}"));
            let last = matches!(answer, Answer::Result(_) | Answer::Error(_));
            ANSWERED.fetch_or(last, Ordering::SeqCst);
        }
        Err(error) => eprintln!("bw-engine: an answer cannot be written: {error}"),
    }
}
