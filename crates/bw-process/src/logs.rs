//! Log files of processes: opened once a run, appended to, records say whose range is whose.
//!
//! Decision: one pair of files per mode and thread with O_APPEND, not a file per process:
//! creating a file costs more than /bin/true. Source: open(2).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that processes append to.
#[derive(Debug)]
pub struct Log {
    file: File,
    path: PathBuf,
}

impl Log {
    /// Opens or creates it. Errors: the system's, with the path.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        let file = open_append(&path)?;
        Ok(Self { file, path })
    }

    /// The descriptor that a child writes to.
    pub fn fd(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its size [bytes]; 0 if that cannot be told.
    pub fn size(&self) -> u64 {
        self.file.metadata().map_or(0, |data| data.size())
    }

    /// Opens it anew if a script has replaced it. Errors: as `open`.
    pub fn refresh(&mut self) -> io::Result<()> {
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
