//! What a directory of a file set must contain, and what an entry of it is by its name.

use crate::file_set::store::{Entry, EntryKind};
use bw_schedule::file_set::FileSet;
use std::ops::Range;

/// The objects of one directory: ranges of indices among their like. They are numbered from 0 in each directory.
pub(super) struct Shape {
    pub(super) directories: Range<usize>,
    pub(super) files: Range<usize>,
    pub(super) symlinks: Range<usize>,
    pub(super) empty_directories: Range<usize>,
}

impl Shape {
    pub(super) fn of(set: &FileSet, directory: u32) -> Self {
        fn among<T>(all: &[T], directory: u32, of: impl Fn(&T) -> u32) -> Range<usize> {
            let from = all.partition_point(|one| of(one) < directory);
            from..from + all[from..].partition_point(|one| of(one) == directory)
        }
        // The root is its own parent, but not in itself.
        let below = among(&set.directories()[1..], directory, |one| one.parent);
        let (files, symlinks) = (set.files(), set.symlinks());
        Self {
            directories: below.start + 1..below.end + 1,
            files: among(files, directory, |one| one.directory),
            symlinks: among(symlinks, directory, |one| one.directory),
            empty_directories: among(set.empty_directories(), directory, |one| one.directory),
        }
    }
}

/// What one entry of a directory is, by its name and type: a class of objects and the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Directory(usize),
    EmptyDirectory(usize),
    File(usize),
    /// A file with its second name.
    Renamed(usize),
    Symlink(usize),
}

impl Name {
    /// Returns None for what no file set contains.
    pub(super) fn of<M>(entry: &Entry<M>) -> Option<Self> {
        let name = entry.name.as_deref()?;
        let (letter, digits) = name.split_at_checked(1)?;
        let number: usize = digits.parse().ok()?;
        if number.to_string() != digits {
            return None; // a sign, or zeros in front
        }
        match (letter, entry.kind) {
            ("d", EntryKind::Directory) => Some(Self::Directory(number)),
            ("e", EntryKind::Directory) => Some(Self::EmptyDirectory(number)),
            // A second name may be outside the set.
            ("f", EntryKind::File) if entry.hard_links <= 1 => Some(Self::File(number)),
            ("r", EntryKind::File) if entry.hard_links <= 1 => Some(Self::Renamed(number)),
            ("l", EntryKind::Symlink) => Some(Self::Symlink(number)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_ours_only_in_its_one_form_and_with_its_type() {
        let name = |name: &str, kind, hard_links| {
            Name::of(&Entry {
                name: Some(name.to_owned()),
                kind,
                size: 0,
                hard_links,
                mark: (),
            })
        };
        assert_eq!(name("f17", EntryKind::File, 1), Some(Name::File(17)));
        assert_eq!(name("r0", EntryKind::File, 1), Some(Name::Renamed(0)));
        assert_eq!(
            name("d3", EntryKind::Directory, 5),
            Some(Name::Directory(3))
        );
        for (text, kind, links) in [
            ("f17", EntryKind::File, 2),
            ("f17", EntryKind::Symlink, 1),
            ("d3", EntryKind::File, 1),
            ("f017", EntryKind::File, 1),
            ("f+1", EntryKind::File, 1),
            ("f", EntryKind::File, 1),
            ("é1", EntryKind::File, 1),
            ("", EntryKind::File, 1),
            ("x1", EntryKind::File, 1),
        ] {
            assert_eq!(name(text, kind, links), None, "{text}");
        }
    }
}
