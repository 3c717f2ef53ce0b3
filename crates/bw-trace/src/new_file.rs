//! A file that appears complete or not at all, and never replaces another one.
//!
//! Decision: the file is written under a hidden name in the same folder and then linked to its name. link(2) fails
//! in one step if a file exists already. Rejected: rename(2), because it replaces. An interrupted
//! conversion must not leave a partial trace that looks complete.

use crate::error::TraceCode;
use bw_model::EngineError;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file that has not got its name yet.
pub(crate) struct NewFile {
    place: PathBuf,
    hidden: PathBuf,
    /// None once the file has its name.
    writer: Option<BufWriter<File>>,
}

impl NewFile {
    /// Creates a file for `place`. `mark` distinguishes several of one process.
    ///
    /// Errors: the file exists already, or the folder cannot be written to.
    pub(crate) fn create(place: &str, mark: &str) -> Result<Self, EngineError> {
        let path = Path::new(place);
        if path.symlink_metadata().is_ok() {
            return Err(exists(place));
        }
        let Some(name) = path.file_name() else {
            let error = io::Error::from(io::ErrorKind::InvalidInput);
            return Err(refused(place, &error));
        };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.{mark}", std::process::id()));
        let hidden = path.with_file_name(hidden);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let file = options
            .open(&hidden)
            .map_err(|error| refused(place, &error))?;
        Ok(Self {
            place: path.to_owned(),
            hidden,
            writer: Some(BufWriter::with_capacity(1 << 20, file)),
        })
    }

    /// Returns the file after writing all buffered data, for reading it again; its hidden name is removed.
    pub(crate) fn into_file(mut self) -> io::Result<File> {
        match self.writer.take() {
            Some(writer) => Ok(writer.into_inner()?),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Makes the file durable and gives it its name. Returns its length [bytes].
    ///
    /// Errors: another file has this name now, or the disk is full.
    pub(crate) fn finish(mut self) -> Result<u64, EngineError> {
        let place = self.place.to_string_lossy().into_owned();
        self.settle().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(&place),
            _ => refused(&place, &error),
        })
    }

    fn settle(&mut self) -> io::Result<u64> {
        let Some(writer) = self.writer.take() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let file = writer.into_inner()?;
        file.sync_all()?;
        let length = file.metadata()?.len();
        match fs::hard_link(&self.hidden, &self.place) {
            // Some file systems (vfat) have no links: there the check and the renaming are two steps.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                if self.place.symlink_metadata().is_ok() {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                fs::rename(&self.hidden, &self.place)?;
            }
            other => other?,
        }
        Ok(length)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.writer {
            Some(writer) => writer.write(bytes),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), BufWriter::flush)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // It does not exist any more if it was renamed; a failure to remove it cannot be handled.
        drop(fs::remove_file(&self.hidden));
    }
}

fn exists(place: &str) -> EngineError {
    TraceCode::TraceOption.error(
        place,
        "the file already exists",
        "give another name, or remove it",
    )
}

/// Returns the error of a failed write to `place`.
pub(crate) fn refused(place: &str, error: &io::Error) -> EngineError {
    TraceCode::TraceWrite.error(
        place,
        format!("cannot be written: {error}"),
        "name a writable place with free space",
    )
}
