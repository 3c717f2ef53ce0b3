//! What is looked at of a process that belongs to a trial, at every sample.

use std::io;
use std::path::PathBuf;

use crate::columns::ABSENT;
use crate::kept::{Kept, Text};
use crate::process_text;
use crate::system::reason;
use crate::threads::Threads;

/// After these samples of its life a process's cgroups are looked at: it may be moved right
/// after its start. Then once a second.
const EARLY: [u32; 4] = [0, 1, 2, 4];

/// A process of the own tree, of a target, or a watcher.
#[derive(Debug)]
pub struct Member {
    /// `/proc/PID`.
    pub directory: PathBuf,
    /// Its threads.
    pub threads: Threads,
    /// As `process_text::io`; ABSENT where it cannot be read.
    pub io: [i64; 6],
    io_file: Result<Kept, io::Error>,
    cgroup_file: Option<Kept>,
    cgroups: Vec<u8>,
    samples: u32,
}

impl Member {
    /// Opens its files.
    pub fn new(directory: PathBuf) -> Self {
        Self {
            threads: Threads::default(),
            io: [ABSENT; 6],
            io_file: Kept::open(directory.join("io")),
            cgroup_file: Kept::open(directory.join("cgroup")).ok(),
            cgroups: Vec::new(),
            samples: 0,
            directory,
        }
    }

    /// Reads what it has read and written; of a process that is ending the last is kept.
    /// False: it has ended.
    pub fn refresh_io(&mut self, text: &mut Text) -> bool {
        let Ok(file) = &self.io_file else {
            return true;
        };
        match file.read_record(text) {
            Ok(()) => {
                self.io = process_text::io(text.bytes()).unwrap_or(self.io);
                true
            }
            Err(error) => {
                let ended = error.raw_os_error() == Some(libc::ESRCH);
                if !ended {
                    self.io_file = Err(error);
                }
                !ended
            }
        }
    }

    /// Returns why its `io` cannot be read; None: it can.
    pub fn io_reason(&self) -> Option<String> {
        let error = self.io_file.as_ref().err()?;
        let path = self.directory.join("io");
        Some(format!("{}: {}", path.display(), reason(error)))
    }

    /// Returns the text of its cgroups if it is time to look and they are not those of before.
    pub fn new_cgroups(&mut self, each_second: bool, text: &mut Text) -> Option<&[u8]> {
        let samples = self.samples;
        self.samples = samples.saturating_add(1);
        if !each_second && !EARLY.contains(&samples) {
            return None;
        }
        self.cgroup_file.as_ref()?.read(text).ok()?;
        if text.bytes() == self.cgroups {
            return None;
        }
        self.cgroups.clear();
        self.cgroups.extend_from_slice(text.bytes());
        Some(&self.cgroups)
    }
}
