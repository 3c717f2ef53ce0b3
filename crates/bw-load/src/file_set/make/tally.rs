//! What a pass over a file set counts, and what the result says of it.

use bw_schedule::file_set::{FileSet, Object};
use serde::Serialize;
use std::io;
use std::ops::AddAssign;
use std::time::Instant;

/// How many foreign objects an error names.
pub(super) const NAMED: usize = 3;

/// What a set contains, and what was found and done, for the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MakeReport {
    /// Directories that exist at the start of the run, the root of the set and empty ones included.
    pub directories: u64,
    /// Files that exist at the start of the run.
    pub files: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Bytes in the files.
    pub bytes: u64,
    /// Files that were made.
    pub made: u64,
    /// Files that had another size, or their second name.
    pub repaired: u64,
    /// Files that were as they must be.
    pub reused: u64,
    /// Files, links and directories that were removed.
    pub removed: u64,
    /// Files of a larger set of the same tables, which stay.
    pub beyond: u64,
    /// Length of all this [ns].
    pub making_ns: u64,
}

pub(super) fn nanoseconds(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Returns how many objects exist at the start of the run.
pub(super) fn present(set: &FileSet) -> u64 {
    let present = (0..set.objects()).filter(|object| set.is_present(*object));
    present.count() as u64
}

/// What a pass over the tree counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) made: u64,
    pub(super) made_bytes: u64,
    pub(super) repaired: u64,
    pub(super) reused: u64,
    pub(super) removed: u64,
    pub(super) beyond: u64,
    /// Objects that are missing, extra or of another size.
    pub(super) differences: u64,
    /// Objects that are missing.
    pub(super) missing: u64,
    /// Bytes that are missing.
    pub(super) missing_bytes: u64,
    /// What no file set contains: how much, and the first paths.
    pub(super) foreign: u64,
    pub(super) foreign_paths: Vec<String>,
}

impl Tally {
    /// Returns the tally of a folder in which everything is missing.
    pub(super) fn of_nothing(set: &FileSet) -> Self {
        Self {
            missing: present(set),
            missing_bytes: set.bytes(),
            differences: 1,
            ..Self::default()
        }
    }

    pub(super) fn found_foreign(&mut self, path: String) {
        self.foreign += 1;
        self.foreign_paths.push(path);
        self.foreign_paths.truncate(NAMED);
    }

    pub(super) fn lacks(&mut self, bytes: u64) {
        self.differences += 1;
        self.missing += 1;
        self.missing_bytes += bytes;
    }

    pub(super) fn report(&self, set: &FileSet, begun: Instant) -> MakeReport {
        let mut report = MakeReport {
            symlinks: set.symlinks().len() as u64,
            bytes: set.bytes(),
            made: self.made,
            repaired: self.repaired,
            reused: self.reused,
            removed: self.removed,
            beyond: self.beyond,
            making_ns: nanoseconds(begun),
            ..MakeReport::default()
        };
        for object in (0..set.objects()).filter(|object| set.is_present(*object)) {
            match set.object(object) {
                Object::Directory(_) | Object::EmptyDirectory(_) => report.directories += 1,
                Object::File(_) => report.files += 1,
                Object::Symlink(_) => {}
            }
        }
        report
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.made += other.made;
        self.made_bytes += other.made_bytes;
        self.repaired += other.repaired;
        self.reused += other.reused;
        self.removed += other.removed;
        self.beyond += other.beyond;
        self.differences += other.differences;
        self.missing += other.missing;
        self.missing_bytes += other.missing_bytes;
        self.foreign += other.foreign;
        self.foreign_paths.extend(other.foreign_paths);
        self.foreign_paths.truncate(NAMED);
    }
}

/// What failed, and where in the folder.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) path: String,
    pub(super) error: io::Error,
}
