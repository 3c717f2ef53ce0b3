//! What becomes of a trial's output: discarded, its ends kept, or all of it.
//!
//! Decision: for the ends a process writes to a file in memory, never to a disk, and nothing
//! reads beside it; what is too much is taken out of the middle while the process runs
//! (`tend`), so memory is bounded. A pipe lost: its reader competes with the process for a
//! CPU, the process stops where the reader is late, and gets SIGPIPE where it is gone.
//! Sources: memfd_create(2), fallocate(2), docs/launcher-protocol.md "Output".

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::rc::Rc;

use crate::logs::Log;
use crate::protocol::{Keep, Output};
use crate::shared::memory_file;

/// What is kept of each end [bytes].
pub const END_BYTES: u64 = 64 * 1024;
/// All files in memory of a run together may hold about this much [bytes].
const MEMORY_BYTES: u64 = 64 << 20;
/// Taken out at a time: the process waits for it, and so does the stamp of its end [bytes].
const SLICE_BYTES: u64 = 8 << 20;
const PAGE_BYTES: u64 = 4096;
const CHUNK_BYTES: usize = 4096;

/// What a look at a running process's output found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tended {
    /// Nothing more to do for now.
    Quiet,
    /// There is more to do at once.
    More,
    /// It passed the limit.
    Full,
}

/// Where one piece of output is, and how long it was.
#[derive(Debug, Clone, Copy, Default)]
pub struct Piece {
    /// Offset and length in the log [bytes].
    pub range: [u64; 2],
    /// Written by the process [bytes].
    pub written: u64,
}

/// Where one stream of the processes of a seat goes.
#[derive(Debug)]
pub enum Sink {
    /// Discarded.
    Null(Rc<File>),
    /// The first and last `END_BYTES` are kept.
    Ends(Ends),
    /// All of it is kept.
    Whole(Whole),
}

impl Sink {
    /// Opens the sink of one of `threads` threads. Errors: as open(2).
    pub fn open(output: &Output, path: PathBuf, null: &Rc<File>, threads: u32) -> io::Result<Self> {
        let share = (MEMORY_BYTES / u64::from(threads)).max(4 * END_BYTES);
        Ok(match output.keep {
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

    /// The descriptor that a process writes to.
    pub fn fd(&self) -> i32 {
        match self {
            Self::Null(file) => file.as_raw_fd(),
            Self::Ends(ends) => ends.memory.as_raw_fd(),
            Self::Whole(whole) => whole.log.fd(),
        }
    }

    /// Notes that a process begins to write.
    pub fn begin(&self) {
        if let Self::Whole(whole) = self {
            whole.begun.set(whole.log.size());
            whole.relayed.set(whole.begun.get());
        }
    }

    /// Looks after the output of a process that runs.
    pub fn tend(&self) -> Tended {
        match self {
            Self::Null(_) => Tended::Quiet,
            Self::Ends(ends) => ends.trim(),
            Self::Whole(whole) => whole.tend(),
        }
    }

    /// Returns what was written since `begin`. Errors: the log cannot be written.
    pub fn take(&self) -> io::Result<Piece> {
        match self {
            Self::Null(_) => Ok(Piece::default()),
            Self::Ends(ends) => ends.take(),
            Self::Whole(whole) => Ok(whole.take()),
        }
    }

    /// Whether more was written since `begin` than is allowed.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Whole(whole) if whole.written() > whole.limit_bytes)
    }
}

/// A file in memory whose ends go to a log.
#[derive(Debug)]
pub struct Ends {
    memory: File,
    path: PathBuf,
    most_bytes: u64,
    trimmed_to: Cell<u64>,
    last: Cell<Option<Piece>>,
}

impl Ends {
    fn new(path: PathBuf, most_bytes: u64) -> io::Result<Self> {
        let memory = File::from(memory_file(c"bw-output", 0)?);
        // SAFETY: a plain system call on an open descriptor.
        if unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_SETFL, libc::O_APPEND) } < 0 {
            return Err(io::Error::last_os_error());
        }
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

    /// Takes a slice out of the middle where there is too much.
    fn trim(&self) -> Tended {
        let from = self.trimmed_to.get();
        let size = self.size();
        let end = size.saturating_sub(END_BYTES) / PAGE_BYTES * PAGE_BYTES;
        if size.saturating_sub(from) < self.most_bytes || end <= from {
            return Tended::Quiet;
        }
        let length = SLICE_BYTES.min(end - from);
        // SAFETY: a plain system call on an open descriptor.
        let trimmed = unsafe {
            libc::fallocate(
                self.memory.as_raw_fd(),
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                from as libc::off_t,
                length as libc::off_t,
            )
        };
        if trimmed < 0 {
            return Tended::Quiet;
        }
        self.trimmed_to.set(from + length);
        Tended::More
    }

    fn take(&self) -> io::Result<Piece> {
        let written = self.size();
        if written == 0 {
            return Ok(Piece::default());
        }
        let piece = self.stored(written);
        self.memory.set_len(0)?;
        self.trimmed_to.set(END_BYTES);
        if piece.is_err() {
            self.last.set(None);
        }
        piece
    }

    /// The ends in the log: where the piece before is the same, that one.
    fn stored(&self, written: u64) -> io::Result<Piece> {
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
        let piece = Piece { range, written };
        self.last.set(Some(piece));
        Ok(piece)
    }

    fn is_in(&self, log: &Log, piece: Piece) -> io::Result<bool> {
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

    /// Offsets and lengths of what is kept of `written` bytes.
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

/// How much is kept of `written` bytes.
fn kept(written: u64) -> u64 {
    written.min(2 * END_BYTES)
}

/// A log that has everything, up to a limit.
#[derive(Debug)]
pub struct Whole {
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

    fn tend(&self) -> Tended {
        if self.written() > self.limit_bytes {
            return Tended::Full;
        }
        if self.relay && stderr_takes_more() && self.pass_on() {
            return Tended::More;
        }
        Tended::Quiet
    }

    fn take(&self) -> Piece {
        while self.relay && self.pass_on() {}
        let written = self.written();
        let range = [self.begun.get(), written];
        Piece { range, written }
    }

    /// Copies a chunk to our stderr. Returns whether there was one.
    fn pass_on(&self) -> bool {
        let mut buffer = [0; CHUNK_BYTES];
        let at = self.relayed.get();
        let length = self.log.file().read_at(&mut buffer, at).unwrap_or(0);
        self.relayed.set(at + length as u64);
        // Nobody to show it to is no reason to end a trial.
        length > 0 && io::stderr().write_all(&buffer[..length]).is_ok()
    }
}

fn stderr_takes_more() -> bool {
    let mut fd = libc::pollfd {
        fd: libc::STDERR_FILENO,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: `fd` is one valid pollfd.
    unsafe { libc::poll(&mut fd, 1, 0) > 0 && fd.revents & libc::POLLOUT != 0 }
}
