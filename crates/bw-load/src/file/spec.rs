//! The file target's specification and description, and the errors of its path.

use bw_model::EngineError;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The specification: the `file` target of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSpec {
    /// A regular file or a block device; a missing file is made if `size_bytes` is given.
    pub path: PathBuf,
    /// Whether to bypass the page cache (`O_DIRECT`).
    #[serde(default)]
    pub direct: bool,
    /// How operations reach the kernel.
    #[serde(default)]
    pub engine: Engine,
    /// Number of threads of the threads engine, per worker; 1 to 1024.
    #[serde(default = "default_threads")]
    pub threads: u16,
    /// Size of the target [bytes]; None: as it is. A smaller regular file is
    /// enlarged; of a larger file or device only the first `size_bytes` are used.
    #[serde(default)]
    pub size_bytes: Option<u64>,
    /// What offsets and sizes are multiples of [bytes]; None: determined from the device.
    #[serde(default)]
    pub block_bytes: Option<u32>,
    /// Whether existing data may be overwritten.
    #[serde(default)]
    pub overwrite: bool,
    /// Whether a block device that is mounted, or held by others, may be written to.
    #[serde(default)]
    pub allow_writes_to_mounted: bool,
    /// Whether writes repeat the same blocks, which a target may store once.
    #[serde(default)]
    pub repeat_data: bool,
}

fn default_threads() -> u16 {
    16
}

impl FileSpec {
    /// Returns the spec of `path`, with the default of every other field.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            direct: false,
            engine: Engine::Auto,
            threads: default_threads(),
            size_bytes: None,
            block_bytes: None,
            overwrite: false,
            allow_writes_to_mounted: false,
            repeat_data: false,
        }
    }
}

/// How operations reach the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// io_uring if this kernel permits a ring, otherwise threads.
    #[default]
    Auto,
    /// io_uring, or an error.
    IoUring,
    /// A pool of threads around pread and pwrite.
    Threads,
}

/// What a worker's target uses, for the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileDescription {
    /// `io_uring` or `threads`.
    pub engine: &'static str,
    /// Features in use.
    pub features: Vec<String>,
    /// Unavailable features, each with its reason.
    pub absent: Vec<String>,
}

/// Returns the error for a path that cannot be opened.
pub(crate) fn not_opened(path: &Path, error: &io::Error) -> EngineError {
    if let Some(folder) = missing_folder(path, error) {
        return EngineError::request(
            "target-open",
            format!(
                "{}: there is no folder {}",
                path.display(),
                folder.display()
            ),
            "make the folder, or correct the path",
        );
    }
    let remedy = match error.raw_os_error() {
        Some(libc::ENOENT) => "name a file that exists, or give a size (--size): then it is made",
        Some(libc::EACCES | libc::EPERM) => {
            "take a file that this user may use, or run as its owner"
        }
        Some(libc::EROFS) => "take a file system that is mounted for writing, or only read",
        Some(libc::ENOTDIR) => "name a file in a directory",
        Some(libc::ENXIO | libc::ENOMEDIUM) => "attach the device first",
        _ => "name another file or device",
    };
    EngineError::request(
        "target-open",
        format!("{}: {error}", path.display()),
        remedy,
    )
}

/// Returns the first missing folder on the way to a path, if that is the reason why
/// the path cannot be opened.
fn missing_folder<'a>(path: &'a Path, error: &io::Error) -> Option<&'a Path> {
    let folders = path.ancestors().skip(1);
    let named = folders.filter(|folder| *folder != Path::new(""));
    (error.kind() == io::ErrorKind::NotFound)
        .then(|| named.take_while(|folder| is_missing(folder)).last())
        .flatten()
}

/// Returns whether nothing has this path; a dangling link exists.
fn is_missing(folder: &Path) -> bool {
    let about = fs::symlink_metadata(folder);
    about.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
