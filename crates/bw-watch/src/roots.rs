//! Where the kernel's trees are; tests put made-up ones there.

use std::path::{Path, PathBuf};

/// The roots of what is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
    /// `/dev/kmsg`.
    pub kmsg: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self {
            proc: PathBuf::from("/proc"),
            sys: PathBuf::from("/sys"),
            kmsg: PathBuf::from("/dev/kmsg"),
        }
    }
}

impl Roots {
    /// Returns where a path that the kernel names lies: `/sys/...` is below our root of it.
    pub fn place(&self, path: &Path) -> PathBuf {
        match path.strip_prefix("/sys") {
            Ok(rest) => self.sys.join(rest),
            Err(_) => path.to_owned(),
        }
    }
}
