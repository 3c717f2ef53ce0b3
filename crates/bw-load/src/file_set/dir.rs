//! A file set in a mounted directory as a target, by system calls.
//!
//! [`open`] makes the set and opens it once for the whole run; [`OpenDirectory::worker`] makes each worker its own
//! target on it, by the engines of the file target.

use crate::file::Engine;
use crate::file::engines::{Engines, FileTarget};
use crate::file::operand::Operand;
use crate::file_set::claim::Claim;
use crate::file_set::directory::DirectoryStore;
use crate::file_set::make::{MakeOptions, MakeProgress, MakeReport, make};
use crate::file_set::open_set::{OpenOptions, OpenSet};
use bw_model::EngineError;
use bw_schedule::file_set::FileSet;
use bw_sys::cpus::Affinity;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// The specification: the `dir` target of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirSpec {
    /// The directory in which the set's own folder is.
    pub path: PathBuf,
    /// How operations reach the kernel.
    #[serde(default)]
    pub engine: Engine,
    /// Number of threads per worker: all operations of the threads engine, those without a counterpart in a ring of
    /// io_uring; 1 to 1024.
    #[serde(default = "default_threads")]
    pub threads: u16,
    /// Maximum number of files that are open at a time; None: what the limits of the process permit, at most 65,536.
    #[serde(default)]
    pub open_files: Option<u32>,
    /// Whether each write is durable when it ends (`O_DSYNC`).
    #[serde(default)]
    pub synchronous: bool,
    /// Whether the set of another description is replaced.
    #[serde(default)]
    pub replace: bool,
    /// Whether writes repeat the same blocks, which a target may store once.
    #[serde(default)]
    pub repeat_data: bool,
}

fn default_threads() -> u16 {
    16
}

/// What the workload will do to the set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetUse {
    /// Whether any operation changes it.
    pub changes: bool,
    /// Whether operations open and close files.
    pub opens: bool,
}

/// A set that was made and opened. Workers share it.
#[derive(Debug)]
pub struct OpenDirectory {
    set: Arc<FileSet>,
    engines: Engines,
    report: MakeReport,
    _claim: Claim,
}

/// Makes the set in the directory of `spec`, or takes the one that is there, and opens it; calls `report` every second
/// meanwhile. Call it before threads are pinned: the threads of the target run where the caller may run.
///
/// # Errors
/// `target-spec`; those of [`make`]; `file-set-descriptors`.
pub fn open(
    spec: &DirSpec,
    set: Arc<FileSet>,
    purpose: SetUse,
    report: &mut dyn FnMut(&MakeProgress),
) -> Result<OpenDirectory, EngineError> {
    if !(1..=1024).contains(&spec.threads) {
        let message = format!("threads: {}: must be 1 to 1024", spec.threads);
        return Err(EngineError::request("target-spec", message, "take 16").about("target.threads"));
    }
    let options = MakeOptions {
        replace: spec.replace,
        changes: purpose.changes,
        part: None,
    };
    let made = make(
        &set,
        options,
        &|| Ok(DirectoryStore::new(&spec.path)),
        report,
    )?;
    let options = OpenOptions {
        most: spec.open_files,
        beforehand: !purpose.opens,
        synchronous: spec.synchronous,
    };
    let open = OpenSet::open(Arc::clone(&set), made.folder, options)?;
    let files = made.report.files;
    let features = match (purpose.opens, open.opened() as u64) {
        (true, _) => "files are opened by the workload".to_owned(),
        (false, 0) => "each operation opens its file".to_owned(),
        (false, opened) if opened < files => {
            format!("{opened} of {files} files are open, operations on others open them")
        }
        _ => "all files are open".to_owned(),
    };
    Ok(OpenDirectory {
        engines: Engines {
            operand: Operand::Set(Arc::new(open)),
            engine: spec.engine,
            threads: spec.threads,
            unique_data: purpose.changes && !spec.repeat_data,
            affinity: Affinity::current(),
            features: vec![features],
            absent: Vec::new(),
        },
        set,
        report: made.report,
        _claim: made.claim,
    })
}

impl OpenDirectory {
    /// Returns the set.
    #[must_use]
    pub fn set(&self) -> &Arc<FileSet> {
        &self.set
    }

    /// Returns what making the set found and did.
    #[must_use]
    pub fn report(&self) -> MakeReport {
        self.report
    }

    /// Makes a worker's own target for `depth` operations in flight of up to `largest_bytes` each. Call it in the
    /// worker's thread: a ring belongs to the thread that made it.
    ///
    /// # Errors
    /// `target-engine`: the requested engine is not available.
    pub fn worker(&self, depth: u32, largest_bytes: u32) -> Result<FileTarget, EngineError> {
        self.engines.worker(depth, largest_bytes)
    }
}
