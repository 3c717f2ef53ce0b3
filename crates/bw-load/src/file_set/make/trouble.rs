//! The errors of a place that holds, or cannot hold, a file set.

use super::tally::{Failure, Tally};
use crate::file_set::claim;
use crate::file_set::store::Space;
use bw_model::EngineError;
use bw_schedule::file_set::FileSet;
use bw_schedule::workload::SchedulePart;
use std::io;

/// The folder of a file set, below the directory that the user named.
pub const FOLDER: &str = "benchwright-files";

/// Returns the folder of the set of one of several engines, which have a set each; None: of the only one.
#[must_use]
pub fn folder(part: Option<SchedulePart>) -> String {
    match part {
        Some(SchedulePart { index, of }) if of > 1 => format!("{FOLDER}-{}-of-{of}", index + 1),
        _ => FOLDER.to_owned(),
    }
}

/// The errors of a place.
pub(super) struct Trouble {
    top: String,
    pub(super) folder: String,
}

impl Trouble {
    pub(super) fn at(top: &str, folder: String) -> Self {
        let top = top.to_owned();
        Self { top, folder }
    }

    fn path(&self, inner: &str) -> String {
        let slash = if inner.is_empty() { "" } else { "/" };
        let (top, folder) = (self.top.trim_end_matches('/'), &self.folder);
        format!("{top}/{folder}{slash}{inner}")
    }

    fn request(code: &'static str, message: String, remedy: impl Into<String>) -> EngineError {
        EngineError::request(code, message, remedy).about("target")
    }

    pub(super) fn at_top(&self, error: &io::Error) -> EngineError {
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => {
                let remedy = "name a directory that exists";
                Self::request("file-set-open", format!("{}: {error}", self.top), remedy)
            }
            _ => Self::failure(&self.top, error),
        }
    }

    pub(super) fn foreign(&self, what: &str) -> EngineError {
        Self::request(
            "file-set-foreign",
            format!("{}: {what}: bw did not make it", self.path("")),
            "move it away, or name another directory; nothing was changed",
        )
    }

    pub(super) fn foreign_objects(&self, tally: &Tally) -> EngineError {
        let paths: Vec<_> = tally
            .foreign_paths
            .iter()
            .map(|path| self.path(path))
            .collect();
        let more = tally.foreign - paths.len() as u64;
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Self::request(
            "file-set-foreign",
            format!(
                "{}{more}: in the folder of the file set, but not made by bw",
                paths.join(", ")
            ),
            "move them away, or name another directory; nothing was changed",
        )
    }

    pub(super) fn in_use(&self, holder: Option<&claim::Holder>) -> EngineError {
        let holder = holder.map_or_else(String::new, |holder| format!(": {holder}"));
        let message = format!("{}: another run uses this file set{holder}", self.path(""));
        let remedy = "wait for its end, or name another directory";
        Self::request("file-set-in-use", message, remedy)
    }

    pub(super) fn other_tables(&self) -> EngineError {
        Self::request(
            "file-set-differs",
            format!(
                "{}: it holds the file set of another workload or seed",
                self.path("")
            ),
            "name another directory, remove that folder, or replace it with --replace",
        )
    }

    pub(super) fn refuse_without_space(
        &self,
        space: Option<Space>,
        tally: &Tally,
    ) -> Result<(), EngineError> {
        let Some(space) = space else { return Ok(()) };
        let short = |what, missing, free| {
            Err(Self::request(
                "file-set-space",
                format!(
                    "{}: the file set needs {missing} more {what}, and the file system has {free} left; \
                     nothing was made",
                    self.path("")
                ),
                "free space, use a smaller file set, or name a directory of another file system",
            ))
        };
        match space.files {
            _ if tally.missing_bytes > space.bytes => {
                short("bytes", tally.missing_bytes, space.bytes)
            }
            Some(files) if tally.missing > files => {
                short("files and directories", tally.missing, files)
            }
            _ => Ok(()),
        }
    }

    /// Returns the error of what failed at a path in the folder.
    pub(super) fn of(&self, path: &str, error: &io::Error) -> EngineError {
        Self::failure(&self.path(path), error)
    }

    /// Returns the error of what failed at a place.
    fn failure(place: &str, error: &io::Error) -> EngineError {
        let message = format!("{place}: {error}");
        let (code, remedy) = match error.raw_os_error() {
            _ if error.kind() == io::ErrorKind::Interrupted => {
                let message = format!("{place}: a signal interrupted the creation of the file set");
                let remedy = "run it again: it continues where it stopped";
                return Self::request("file-set-interrupted", message, remedy);
            }
            Some(libc::ENOSPC | libc::EDQUOT) => (
                "file-set-space",
                "free space, use a smaller file set, or name a directory of another file system",
            ),
            Some(libc::EFBIG) => (
                "file-set-space",
                "use smaller files, or raise the limit (ulimit -f)",
            ),
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => (
                "file-set-denied",
                "name a directory that this user may write to",
            ),
            Some(libc::EXDEV | libc::ELOOP) => (
                "file-set-foreign",
                "it is a mount point or a symbolic link: name another directory",
            ),
            Some(libc::EMFILE | libc::ENFILE) => (
                "file-set-descriptors",
                "raise the limit of open files (ulimit -n)",
            ),
            number => {
                let remedy = match (number, error.kind()) {
                    (_, io::ErrorKind::InvalidData)
                    | (
                        Some(libc::ETIMEDOUT | libc::ECONNRESET | libc::ECONNREFUSED | libc::EPIPE),
                        _,
                    ) => "check the server, its log and the network",
                    _ => "check the file system, and read the kernel's log",
                };
                return EngineError::operating("file-set-failed", message, remedy).about("target");
            }
        };
        Self::request(code, message, remedy)
    }

    /// Returns the error of what ended a pass, with what had been made.
    pub(super) fn of_walk(&self, failure: &Failure, tally: &Tally, set: &FileSet) -> EngineError {
        let mut error = self.of(&failure.path, &failure.error);
        if tally.made > 0 {
            error.message += &format!(
                "; {} files ({} bytes) of {} ({} bytes) were made and stay in {}",
                tally.made,
                tally.made_bytes,
                set.files().len(),
                set.bytes(),
                self.path("")
            );
        }
        error
    }
}

/// Returns whether a file system, or the user's part of it, is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}
