//! The output of processes: log files, APLOG, and the stored part of a trial's stdout and stderr.
//!
//! Decision: one pair of log files per mode and thread with O_APPEND, not a file per process: creating a file costs
//! more than /bin/true. To store only the two ends, a process writes to a file in memory, not to a disk, and nothing
//! reads the file meanwhile; excess output is removed from the middle while the process runs, so memory is bounded.
//! Rejected: a pipe. Its reader competes with the process for a CPU, and the process stops if the reader is late, and
//! gets SIGPIPE if the reader is gone.
//!
//! APLOG is the file of each thread to which measurement blocks are appended. It is emptied before each epoch (unless
//! it is empty) and read after it. Its text goes to Python within the record. A text that would increase this process's
//! size (and so the lowest measurable peak RSS) is cut at the end of a line, and a note says so. Sources:
//! memfd_create(2), fallocate(2), open(2), docs/launcher-protocol.md "Output".

use crate::protocol::{Keep, OutputPolicy};
use bw_sys::memory::memory_file;
use bw_sys::poll::{Interrupts, poll, writable};
use rustix::fs::{FallocateFlags, OFlags, fallocate, fcntl_setfl};
use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// How much of each end is stored [bytes].
pub(crate) const END_BYTES: u64 = 64 * 1024;
/// Approximate limit of all files in memory of a run together [bytes].
const MEMORY_BYTES: u64 = 64 << 20;
/// Amount removed at a time: the process waits for this, and so does the stamp of its end [bytes].
const SLICE_BYTES: u64 = 8 << 20;
const PAGE_BYTES: u64 = 4096;
const CHUNK_BYTES: usize = 4096;

/// The result of checking a running process's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OutputState {
    /// Nothing to do now.
    Quiet,
    /// More must be removed at once.
    More,
    /// The output exceeds its limit.
    Full,
}

/// The position of one piece of output, and its full length.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OutputRange {
    /// Offset and length in the log [bytes].
    pub range: [u64; 2],
    /// Written by the process [bytes].
    pub written: u64,
}

/// A standard stream of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// The destination of one stream of a slot's processes.
#[derive(Debug)]
pub(crate) enum Sink {
    /// Discarded.
    Null(Rc<File>),
    /// The first and last `END_BYTES` are stored.
    Ends(Ends),
    /// As `Ends` if the process failed, else discarded.
    OnFailure(Ends),
    /// Everything is stored.
    Whole(Whole),
}

impl Sink {
    /// Opens the sink of a stream of one of `threads` threads. Errors: as open(2).
    pub(crate) fn open(
        output: &OutputPolicy,
        stream: Stream,
        path: PathBuf,
        null: &Rc<File>,
        threads: u32,
    ) -> io::Result<Self> {
        let share = (MEMORY_BYTES / u64::from(threads)).max(4 * END_BYTES);
        Ok(match output.keep {
            Keep::Null if stream == Stream::Err => Self::OnFailure(Ends::new(path, share)?),
            Keep::Null => Self::Null(Rc::clone(null)),
            Keep::Ends => Self::Ends(Ends::new(path, share)?),
            Keep::Whole => Self::Whole(Whole {
                log: Log::open(path)?,
                begun: Cell::new(0),
                relayed: Cell::new(0),
                limit_bytes: output.limit_bytes.unwrap_or(u64::MAX),
                relay: output.relay,
            }),
        })
    }

    /// Returns the descriptor that a process writes to.
    pub(crate) fn fd(&self) -> i32 {
        match self {
            Self::Null(file) => file.as_raw_fd(),
            Self::Ends(ends) | Self::OnFailure(ends) => ends.memory.as_raw_fd(),
            Self::Whole(whole) => whole.log.fd(),
        }
    }

    /// Notes where the output of a new process starts.
    pub(crate) fn begin(&self) {
        if let Self::Whole(whole) = self {
            whole.begun.set(whole.log.size());
            whole.relayed.set(whole.begun.get());
        }
    }

    /// Checks the output of a running process and trims it.
    pub(crate) fn check(&self) -> OutputState {
        match self {
            Self::Null(_) => OutputState::Quiet,
            Self::Ends(ends) | Self::OnFailure(ends) => ends.trim(),
            Self::Whole(whole) => whole.check(),
        }
    }

    /// Returns what was written since `begin`; `failed`: whether the process failed. Errors: the
    /// log cannot be written.
    pub(crate) fn take(&self, failed: bool) -> io::Result<OutputRange> {
        match self {
            Self::Null(_) => Ok(OutputRange::default()),
            Self::OnFailure(ends) if !failed => ends.discard(),
            Self::Ends(ends) | Self::OnFailure(ends) => ends.take(),
            Self::Whole(whole) => Ok(whole.take()),
        }
    }

    /// Returns whether more was written since `begin` than is permitted.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Whole(whole) if whole.written() > whole.limit_bytes)
    }
}

/// A file in memory whose ends are copied to a log.
#[derive(Debug)]
pub(crate) struct Ends {
    memory: File,
    path: PathBuf,
    most_bytes: u64,
    trimmed_to: Cell<u64>,
    last: Cell<Option<OutputRange>>,
}

impl Ends {
    fn new(path: PathBuf, most_bytes: u64) -> io::Result<Self> {
        let memory = File::from(memory_file(c"bw-output", 0)?);
        fcntl_setfl(&memory, OFlags::APPEND)?;
        Ok(Self {
            memory,
            path,
            most_bytes,
            trimmed_to: Cell::new(END_BYTES),
            last: Cell::new(None),
        })
    }

    fn size(&self) -> u64 {
        self.memory.metadata().map_or(0, |data| data.size())
    }

    /// Removes a slice from the middle if the output is too long.
    fn trim(&self) -> OutputState {
        let from = self.trimmed_to.get();
        let size = self.size();
        let end = size.saturating_sub(END_BYTES) / PAGE_BYTES * PAGE_BYTES;
        if size.saturating_sub(from) < self.most_bytes || end <= from {
            return OutputState::Quiet;
        }
        let length = SLICE_BYTES.min(end - from);
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if fallocate(&self.memory, punch, from, length).is_err() {
            return OutputState::Quiet;
        }
        self.trimmed_to.set(from + length);
        OutputState::More
    }

    fn take(&self) -> io::Result<OutputRange> {
        let written = self.size();
        if written == 0 {
            return Ok(OutputRange::default());
        }
        let piece = self.stored(written);
        self.memory.set_len(0)?;
        self.trimmed_to.set(END_BYTES);
        if piece.is_err() {
            self.last.set(None);
        }
        piece
    }

    /// Empties the file in memory; the log has nothing of it.
    fn discard(&self) -> io::Result<OutputRange> {
        let written = self.size();
        if written > 0 {
            self.memory.set_len(0)?;
            self.trimmed_to.set(END_BYTES);
        }
        Ok(OutputRange {
            range: [0, 0],
            written,
        })
    }

    /// Returns the place of the ends in the log; reuses the previous piece if it is equal.
    fn stored(&self, written: u64) -> io::Result<OutputRange> {
        let log = Log::open(self.path.clone())?;
        if let Some(last) = self.last.get()
            && last.written == written
            && self.is_in(&log, last)?
        {
            return Ok(last);
        }
        let begun = log.size();
        let mut buffer = [0; CHUNK_BYTES];
        for (offset, length) in self.chunks(written) {
            self.memory.read_exact_at(&mut buffer[..length], offset)?;
            log.file().write_all(&buffer[..length])?;
        }
        let range = [begun, kept(written)];
        let piece = OutputRange { range, written };
        self.last.set(Some(piece));
        Ok(piece)
    }

    fn is_in(&self, log: &Log, piece: OutputRange) -> io::Result<bool> {
        let [mut at, length] = piece.range;
        if at + length > log.size() {
            return Ok(false);
        }
        let (mut ours, mut theirs) = ([0; CHUNK_BYTES], [0; CHUNK_BYTES]);
        for (offset, length) in self.chunks(piece.written) {
            self.memory.read_exact_at(&mut ours[..length], offset)?;
            log.file().read_exact_at(&mut theirs[..length], at)?;
            if ours[..length] != theirs[..length] {
                return Ok(false);
            }
            at += length as u64;
        }
        Ok(true)
    }

    /// Returns offsets and lengths of the stored parts of `written` bytes.
    fn chunks(&self, written: u64) -> impl Iterator<Item = (u64, usize)> + use<> {
        let head = written.min(END_BYTES);
        let tail = written - (kept(written) - head);
        let step = CHUNK_BYTES as u64;
        let ends = [(0, head), (tail, written)];
        ends.into_iter().flat_map(move |(from, to)| {
            let starts = (from..to).step_by(CHUNK_BYTES);
            starts.map(move |at| (at, step.min(to - at) as usize))
        })
    }
}

/// Returns how many of `written` bytes are stored.
fn kept(written: u64) -> u64 {
    written.min(2 * END_BYTES)
}

/// A log that stores everything, up to a limit.
#[derive(Debug)]
pub(crate) struct Whole {
    log: Log,
    begun: Cell<u64>,
    relayed: Cell<u64>,
    limit_bytes: u64,
    relay: bool,
}

impl Whole {
    fn written(&self) -> u64 {
        self.log.size().saturating_sub(self.begun.get())
    }

    fn check(&self) -> OutputState {
        if self.written() > self.limit_bytes {
            return OutputState::Full;
        }
        if self.relay && stderr_takes_more() && self.pass_on() {
            return OutputState::More;
        }
        OutputState::Quiet
    }

    fn take(&self) -> OutputRange {
        while self.relay && self.pass_on() {}
        let written = self.written();
        let range = [self.begun.get(), written];
        OutputRange { range, written }
    }

    /// Copies a chunk to our stderr. Returns whether there was one.
    fn pass_on(&self) -> bool {
        let mut buffer = [0; CHUNK_BYTES];
        let at = self.relayed.get();
        let length = self.log.file().read_at(&mut buffer, at).unwrap_or(0);
        self.relayed.set(at + length as u64);
        // A closed stderr is no reason to end a trial.
        length > 0 && io::stderr().write_all(&buffer[..length]).is_ok()
    }
}

fn stderr_takes_more() -> bool {
    let mut fds = [writable(io::stderr().as_raw_fd())];
    let ready = poll(&mut fds, Some(0), Interrupts::AsBefore);
    ready.is_ok_and(|ready| ready > 0) && fds[0].revents & libc::POLLOUT != 0
}

/// A file that processes append to.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    path: PathBuf,
}

impl Log {
    /// Opens or creates the file. Errors: the system's, with the path.
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        let file = open_append(&path)?;
        Ok(Self { file, path })
    }

    /// Returns the descriptor that a child writes to.
    pub(crate) fn fd(&self) -> i32 {
        self.file.as_raw_fd()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the open file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Returns the file's size [bytes]; 0 if it is unknown.
    pub(crate) fn size(&self) -> u64 {
        self.file.metadata().map_or(0, |data| data.size())
    }

    /// Reopens the file if a script has replaced it. Errors: as `open`.
    pub(crate) fn refresh(&mut self) -> io::Result<()> {
        if self.file.metadata()?.nlink() == 0 {
            self.file = open_append(&self.path)?;
        }
        Ok(())
    }
}

fn open_append(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(path)
        .map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot open {}: {error}", path.display()),
            )
        })
}

/// Text of one thread and epoch beyond this size is cut [bytes].
pub(crate) const MOST_BYTES: u64 = 256 * 1024;

/// The APLOG of one thread.
#[derive(Debug)]
pub(crate) struct Aplog {
    /// 1..N; 0 for commands that run once.
    pub thread: u32,
    log: Log,
}

impl Aplog {
    /// Opens `<logs>/aplog-<thread>`. Errors: as open(2).
    pub(crate) fn open(logs: &Path, thread: u32) -> io::Result<Self> {
        let log = Log::open(logs.join(format!("aplog-{thread}")))?;
        Ok(Self { thread, log })
    }

    /// Returns its path, the value of APLOG.
    pub(crate) fn path(&self) -> &Path {
        self.log.path()
    }

    /// Empties the file. Errors: as ftruncate(2).
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.log.refresh()?;
        if self.log.size() > 0 {
            self.log.file().set_len(0)?;
        }
        Ok(())
    }

    /// Returns the text that was written to it, if there is any.
    pub(crate) fn text(&mut self) -> Option<String> {
        self.log.refresh().ok()?;
        let size = self.log.size();
        if size == 0 {
            return None;
        }
        let mut bytes = vec![0; size.min(MOST_BYTES) as usize];
        let length = self.log.file().read_at(&mut bytes, 0).ok()?;
        bytes.truncate(length);
        if size > MOST_BYTES {
            let whole = bytes.iter().rposition(|&byte| byte == b'\n');
            bytes.truncate(whole.map_or(0, |end| end + 1));
            bytes.extend(format!("# cut: APLOG had {size} bytes\n").bytes());
        }
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}
