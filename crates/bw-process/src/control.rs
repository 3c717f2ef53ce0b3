//! Communication with `bw` while something runs: requests, interrupts, the end of input and signals; and replies.
//!
//! Single-threaded: the two descriptors are in every poll, so no request is missed and no poll is wasted. Replies stay
//! in memory until the batch is done, since nothing is written while a trial runs. A large buffer is written between
//! two epochs, because our own resident size is the lowest peak RSS that can be measured. Source: poll(2),
//! docs/launcher-protocol.md.

use crate::protocol::{Interrupt, LauncherReply, LauncherRequest, Mode, Run};
use bw_sys::poll::{Interrupts, PollEntry, poll, readable};
use bw_sys::signals::{CONTINUE, SignalFd, TERMINATION};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::{self, Write};

const STDIN: i32 = 0;
const CHUNK_BYTES: usize = 4096;

/// A line that is not a valid request.
#[derive(Debug)]
pub(crate) struct RequestError {
    /// The request's id, 0 if it cannot be read.
    pub id: i64,
    /// What is wrong.
    pub message: String,
}

/// The runner's input: requests and signals.
#[derive(Debug)]
pub(crate) struct Control {
    input: Vec<u8>,
    requests: VecDeque<Result<Box<Run>, RequestError>>,
    interrupt: Option<Interrupt>,
    busy: bool,
    over: bool,
    continued: bool,
    signals: SignalFd,
}

impl Control {
    /// Watches stdin, termination signals and the one of continuing. Errors: signalfd(2).
    pub(crate) fn new() -> io::Result<Self> {
        let signals: Vec<i32> = TERMINATION.into_iter().chain([CONTINUE]).collect();
        Ok(Self {
            input: Vec::new(),
            requests: VecDeque::new(),
            interrupt: None,
            busy: false,
            over: false,
            continued: false,
            signals: SignalFd::block(&signals)?,
        })
    }

    /// Waits for the next request and returns it; none at the end of input.
    pub(crate) fn next_request(&mut self) -> Option<Result<Box<Run>, RequestError>> {
        self.busy = false;
        self.interrupt = self.interrupt.filter(|_| !self.requests.is_empty());
        loop {
            if self.over {
                return None;
            }
            if let Some(request) = self.requests.pop_front() {
                self.busy = true;
                return Some(request);
            }
            let mut fds = self.fds();
            // A signal ends the poll with nothing ready; then the loop polls again.
            let _ = poll(&mut fds, None, Interrupts::AsBefore);
            self.take(&fds);
        }
    }

    /// Returns the descriptors to poll.
    pub(crate) fn fds(&self) -> [PollEntry; 2] {
        let input = if self.over { -1 } else { STDIN };
        [input, self.signals.fd()].map(readable)
    }

    /// Reads from the descriptors that the poll found ready.
    pub(crate) fn take(&mut self, fds: &[PollEntry]) {
        if fds[1].revents != 0 {
            self.read_signals();
        }
        if fds[0].revents != 0 {
            self.read();
        }
    }

    fn read_signals(&mut self) {
        while let Some(received) = self.signals.next() {
            if received.signal == CONTINUE {
                self.continued = true;
            } else {
                self.over = true;
            }
        }
    }

    /// Returns whether this process was continued, so that it had been stopped, since the last call.
    pub(crate) fn was_continued(&mut self) -> bool {
        self.read_signals();
        std::mem::take(&mut self.continued)
    }

    /// Returns whether the run in progress is to stop after the current command.
    pub(crate) fn interrupted(&self) -> bool {
        self.over || self.interrupt.is_some()
    }

    /// Returns whether commands of `mode` must not start or continue.
    pub(crate) fn stops(&self, mode: &Mode) -> bool {
        let spared = *mode == Mode::Cleanup && self.interrupt.is_none_or(|i| i.cleanup);
        self.over || (self.interrupt.is_some() && !spared)
    }

    fn read(&mut self) {
        let mut chunk = [0u8; CHUNK_BYTES];
        match rustix::io::read(rustix::stdio::stdin(), &mut chunk[..]) {
            Ok(0) => self.over = true,
            Ok(length) => self.accept(&chunk[..length]),
            Err(error) => self.over |= error != Errno::INTR,
        }
    }

    fn accept(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let Some(end) = self.input.iter().rposition(|&byte| byte == b'\n') else {
            return;
        };
        let rest = self.input.split_off(end + 1);
        let lines = std::mem::replace(&mut self.input, rest);
        for line in lines.split(|&byte| byte == b'\n') {
            if !line.trim_ascii().is_empty() {
                self.line(line);
            }
        }
    }

    fn line(&mut self, line: &[u8]) {
        match serde_json::from_slice(line) {
            Ok(LauncherRequest::Run(run)) => self.requests.push_back(Ok(run)),
            Ok(LauncherRequest::Interrupt(new)) => self.interrupt_with(new),
            Err(error) => {
                let message = format!("cannot read the request: {error}");
                let id = id_of(line);
                self.requests.push_back(Err(RequestError { id, message }));
            }
        }
    }

    /// Applies an interrupt. Without a run in progress it is ignored: `done` was sent before it arrived.
    fn interrupt_with(&mut self, new: Interrupt) {
        if self.busy || !self.requests.is_empty() {
            let cleanup = new.cleanup && self.interrupt.is_none_or(|old| old.cleanup);
            self.interrupt = Some(Interrupt { cleanup });
        }
    }
}

fn id_of(line: &[u8]) -> i64 {
    serde_json::from_slice::<serde_json::Value>(line)
        .ok()
        .and_then(|value| value.get("id")?.as_i64())
        .unwrap_or(0)
}

const ENOUGH_BYTES: usize = 32 * 1024;

/// The runner's output: buffered replies.
#[derive(Debug, Default)]
pub(crate) struct Replies(Vec<u8>);

impl Replies {
    /// Adds a reply.
    pub(crate) fn add(&mut self, reply: &LauncherReply<'_>) {
        // Writing to memory cannot fail, and no reply type has a key that JSON cannot represent.
        if serde_json::to_writer(&mut self.0, reply).is_ok() {
            self.0.push(b'\n');
        }
    }

    /// Writes all replies if the buffer is large. Errors: as write(2).
    pub(crate) fn flush_if_many(&mut self) -> io::Result<()> {
        if self.0.len() < ENOUGH_BYTES {
            return Ok(());
        }
        self.flush()
    }

    /// Writes all replies. Errors: as write(2), EPIPE when `bw` is gone.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let mut output = io::stdout().lock();
        output.write_all(&self.0)?;
        output.flush()?;
        self.0.clear();
        Ok(())
    }
}
