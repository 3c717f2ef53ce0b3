//! One directory of a file set: what it must contain, what its entries are, and what is missing or extra.

use super::manifest::is_own;
use super::walk::{Failure, Tally, Task, Walk, is_foreign, pieces};
use crate::file_set::store::{Entry, EntryKind, Store};
use bw_schedule::file_set::{FileSet, Object};
use std::io;
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

/// A directory that is being examined.
pub(super) struct Visit<'a, S: Store> {
    walk: &'a Walk<'a, S>,
    object: u32,
    open: S::Open,
    shape: Shape,
    /// Which of its directories, files, symbolic links and empty directories were found, or must not exist.
    settled: [Vec<bool>; 4],
    pub(super) more: Vec<Task<S>>,
}

impl<'a, S: Store> Visit<'a, S> {
    pub(super) fn of(walk: &'a Walk<'a, S>, object: u32, open: S::Open) -> Self {
        let shape = Shape::of(walk.set, object);
        let Shape {
            directories,
            files,
            symlinks,
            empty_directories,
        } = &shape;
        let settled =
            [directories, files, symlinks, empty_directories].map(|range| vec![false; range.len()]);
        Self {
            walk,
            object,
            open,
            shape,
            settled,
            more: Vec::new(),
        }
    }

    fn path(&self, name: &str) -> String {
        let mut path = self.walk.set.path(self.object, false);
        if !path.is_empty() {
            path.push('/');
        }
        path + name
    }

    fn at(&self, name: Option<&str>, error: io::Error) -> Failure {
        let path = self.path(name.unwrap_or_default());
        Failure { path, error }
    }

    fn foreign(&self, entry: &Entry<S::Mark>, tally: &mut Tally) {
        tally.found_foreign(
            self.path(
                entry
                    .name
                    .as_deref()
                    .unwrap_or("(a name that is not UTF-8)"),
            ),
        );
    }

    /// Examines an entry that is no file with its second name.
    pub(super) fn entry(
        &mut self,
        store: &mut S,
        name: Option<Name>,
        entry: Entry<S::Mark>,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let set = self.walk.set;
        match name {
            Some(Name::Directory(number)) if number < self.shape.directories.len() => {
                self.settled[0][number] = true;
                self.more.push(Task::Directory {
                    object: (self.shape.directories.start + number) as u32,
                    parent: self.open.clone(),
                    entry: Some(entry),
                });
                Ok(())
            }
            Some(Name::File(number)) if number < self.shape.files.len() => {
                let index = self.shape.files.start + number;
                if !set.is_present(set.number(Object::File(index))) {
                    return self.extra(store, &entry, tally);
                }
                self.settled[1][number] = true;
                self.file(store, index, &entry, tally)
            }
            Some(Name::File(_)) => {
                tally.beyond += 1;
                Ok(())
            }
            Some(Name::Symlink(number)) if number < self.shape.symlinks.len() => {
                let index = self.shape.symlinks.start + number;
                let text = store.read_link(&self.open, &entry);
                let text = text.map_err(|error| self.at(entry.name.as_deref(), error))?;
                if text != set.symlink_text(index).as_bytes() {
                    self.foreign(&entry, tally);
                    return Ok(());
                }
                self.settled[2][number] = true;
                let object = set.number(Object::Symlink(index));
                let kept = store.keep_listed(object, &entry.mark);
                kept.map_err(|error| self.at(entry.name.as_deref(), error))
            }
            Some(Name::EmptyDirectory(number)) if number < self.shape.empty_directories.len() => {
                let index = self.shape.empty_directories.start + number;
                let opened = store.open(&self.open, &entry);
                let listed = opened.and_then(|open| store.list(&open));
                match listed {
                    Ok(entries) if entries.is_empty() => {}
                    Err(error) if !is_foreign(&error) => {
                        return Err(self.at(entry.name.as_deref(), error));
                    }
                    _ => {
                        self.foreign(&entry, tally);
                        return Ok(());
                    }
                }
                let object = set.number(Object::EmptyDirectory(index));
                if !set.is_present(object) {
                    return self.extra(store, &entry, tally);
                }
                self.settled[3][number] = true;
                let kept = store.keep_listed(object, &entry.mark);
                kept.map_err(|error| self.at(entry.name.as_deref(), error))
            }
            None if self.object == 0 && is_own(&entry) => Ok(()),
            _ => {
                self.foreign(&entry, tally);
                Ok(())
            }
        }
    }

    /// Examines a file with its second name: gives it its first one, or removes it.
    pub(super) fn renamed(
        &mut self,
        store: &mut S,
        number: usize,
        mut entry: Entry<S::Mark>,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let set = self.walk.set;
        if number >= self.shape.files.len() {
            tally.beyond += 1;
            return Ok(());
        }
        let index = self.shape.files.start + number;
        let present = set.is_present(set.number(Object::File(index)));
        if self.settled[1][number] || !present {
            return self.extra(store, &entry, tally);
        }
        self.settled[1][number] = true;
        tally.differences += 1;
        if !self.walk.repair {
            return Ok(());
        }
        let (from, to) = (format!("r{number}"), format!("f{number}"));
        let renamed = store.rename(&self.open, &from, &to);
        renamed.map_err(|error| self.at(Some(&from), error))?;
        entry.name = Some(to);
        if entry.size != set.files()[index].size {
            return self.file(store, index, &entry, tally);
        }
        tally.repaired += 1;
        self.walk.count(1);
        let kept = store.keep_listed(set.number(Object::File(index)), &entry.mark);
        kept.map_err(|error| self.at(entry.name.as_deref(), error))
    }

    /// Examines a file that must exist and does; restores its size.
    fn file(
        &mut self,
        store: &mut S,
        index: usize,
        entry: &Entry<S::Mark>,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let (set, name) = (self.walk.set, entry.name.as_deref());
        let (size, object) = (set.files()[index].size, set.number(Object::File(index)));
        if entry.size == size {
            tally.reused += 1;
            let kept = store.keep_listed(object, &entry.mark);
            return kept.map_err(|error| self.at(name, error));
        }
        tally.differences += 1;
        if !self.walk.repair {
            tally.missing_bytes += size.saturating_sub(entry.size);
            return Ok(());
        }
        let restored = store.open(&self.open, entry).and_then(|file| {
            if entry.size > size {
                store.set_size(&file, size)?;
            }
            self.walk
                .write(store, &file, index, entry.size.min(size)..size)?;
            store.keep_open(object, &file)
        });
        restored.map_err(|error| self.at(name, error))?;
        tally.repaired += 1;
        self.walk.count(1);
        Ok(())
    }

    /// Removes what must not exist.
    fn extra(
        &mut self,
        store: &mut S,
        entry: &Entry<S::Mark>,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        tally.differences += 1;
        if self.walk.repair {
            let name = entry.name.as_deref();
            let removed = store.remove(&self.open, name.unwrap_or_default(), entry.kind);
            removed.map_err(|error| self.at(name, error))?;
            tally.removed += 1;
            self.walk.count(1);
        }
        Ok(())
    }

    /// Makes what was not found: links and empty directories at once, files and directories as further tasks.
    pub(super) fn missing(&mut self, store: &mut S, tally: &mut Tally) -> Result<(), Failure> {
        let set = self.walk.set;
        let of = |settled: &[bool], range: &Range<usize>| -> Vec<usize> {
            let missing = range.clone().zip(settled).filter(|(_, settled)| !**settled);
            missing.map(|(index, _)| index).collect()
        };
        let directories = of(&self.settled[0], &self.shape.directories);
        let mut files = of(&self.settled[1], &self.shape.files);
        files.retain(|index| set.is_present(set.number(Object::File(*index))));
        let symlinks = of(&self.settled[2], &self.shape.symlinks);
        let symlinks = symlinks.into_iter().map(Object::Symlink);
        let empty = of(&self.settled[3], &self.shape.empty_directories);
        let empty = empty.into_iter().map(Object::EmptyDirectory);
        let entries = symlinks.chain(empty).map(|entry| set.number(entry));
        let entries: Vec<u32> = entries.filter(|entry| set.is_present(*entry)).collect();
        if !self.walk.repair {
            for index in directories {
                self.walk.lacks_directory(index as u32, tally);
            }
            (files.iter()).for_each(|index| tally.lacks(set.files()[*index].size));
            entries.iter().for_each(|_| tally.lacks(0));
            return Ok(());
        }
        let mut name = String::new();
        for object in entries {
            name.clear();
            set.write_name(object, false, &mut name);
            let made = match set.object(object) {
                Object::Symlink(index) => store
                    .symlink(&self.open, &name, &set.symlink_text(index))
                    .and_then(|mark| store.keep_listed(object, &mark)),
                _ => store
                    .make_directory(&self.open, &name)
                    .and_then(|open| store.keep_open(object, &open)),
            };
            made.map_err(|error| self.at(Some(&name), error))?;
            self.walk.count(1);
        }
        for index in directories {
            self.more.push(Task::Directory {
                object: index as u32,
                parent: self.open.clone(),
                entry: None,
            });
        }
        // The last task is the next: a directory's files are made before its directories are opened.
        for piece in pieces(set, &files) {
            self.more.push(Task::Files {
                directory: self.open.clone(),
                files: piece.to_vec(),
            });
        }
        Ok(())
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
