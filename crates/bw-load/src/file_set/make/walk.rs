//! A pass over the tree of a file set, by several threads: each takes a directory, or files to make, and adds what follows.

use super::contents::contents;
use super::manifest::is_own;
use super::queue::Queue;
use super::shape::{Name, Shape};
use super::tally::{Failure, Tally};
use super::trouble::Trouble;
use crate::file_set::store::{Entry, EntryKind, Store};
use bw_model::EngineError;
use bw_schedule::file_set::{FileSet, Object};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Files that one thread makes at a time, so that a single large directory keeps all threads busy.
pub(super) const PIECE_FILES: usize = 64;

/// Bytes of these files; one larger file is a piece of its own.
pub(super) const PIECE_BYTES: u64 = 16 << 20;

/// Bytes of one write.
pub(super) const WRITE_BYTES: usize = 1 << 20;

/// Time between two reports of a pass; a shorter pass has none.
pub(super) const REPORTED_EVERY: Duration = Duration::from_secs(1);

/// A part of the work.
pub(super) enum Task<S: Store> {
    /// An open directory of the set.
    Root(S::Open),
    /// A directory of the set, in its open parent: its entry there; None: it is missing.
    Directory {
        object: u32,
        parent: S::Open,
        entry: Option<Entry<S::Mark>>,
    },
    /// Files that are missing in an open directory, by their indices.
    Files {
        directory: S::Open,
        files: Vec<usize>,
    },
}

/// One pass over the tree.
pub(super) struct Walk<'a, S: Store> {
    pub(super) set: &'a FileSet,
    /// Whether differences are removed, or only counted.
    pub(super) repair: bool,
    /// Objects that were examined; of the pass that repairs, those that were made, repaired or removed.
    pub(super) done: AtomicU64,
    pub(super) queue: Queue<Task<S>>,
}

impl<S: Store> Walk<'_, S> {
    /// Returns what was counted, and what ended the pass early. Calls `report` every second with what is done.
    pub(super) fn run(
        self,
        stores: &mut [S],
        folder: &S::Open,
        report: &mut dyn FnMut(u64),
    ) -> (Tally, Option<Failure>) {
        self.queue.lock().tasks.push(Task::Root(folder.clone()));
        let mut total = Tally::default();
        std::thread::scope(|scope| {
            let walk = &self;
            // Nothing is sent: the last thread that ends closes the channel.
            let (running, ended) = mpsc::channel::<()>();
            let start = |store| {
                let running = running.clone();
                scope.spawn(move || {
                    let _running = running;
                    walk.serve(store)
                })
            };
            let threads: Vec<_> = stores.iter_mut().map(start).collect();
            drop(running);
            while ended.recv_timeout(REPORTED_EVERY) == Err(RecvTimeoutError::Timeout) {
                report(walk.done.load(Ordering::Relaxed));
            }
            for thread in threads {
                // A panic ends the process: see `environment::on_panic`.
                total += thread.join().unwrap_or_default();
            }
        });
        (total, self.queue.lock().failure.take())
    }

    pub(super) fn count(&self, objects: usize) {
        self.done.fetch_add(objects as u64, Ordering::Relaxed);
    }

    /// Does tasks until there are no more; returns what was counted.
    fn serve(&self, store: &mut S) -> Tally {
        let mut tally = Tally::default();
        while let Some(task) = self.queue.take() {
            self.queue.done(self.work(store, task, &mut tally));
        }
        tally
    }

    /// Does one task; returns the tasks that follow from it.
    fn work(
        &self,
        store: &mut S,
        task: Task<S>,
        tally: &mut Tally,
    ) -> Result<Vec<Task<S>>, Failure> {
        match task {
            Task::Root(folder) => self.directory(store, 0, folder, tally),
            Task::Files { directory, files } => {
                for file in files {
                    self.make_file(store, &directory, file, tally)?;
                }
                Ok(Vec::new())
            }
            Task::Directory {
                object,
                parent,
                entry: Some(entry),
            } => {
                let open = store.open(&parent, &entry);
                // A mount point is refused here.
                match open.map_err(|error| self.at(object, error)) {
                    Err(failure) if is_foreign(&failure.error) => {
                        tally.found_foreign(failure.path);
                        Ok(Vec::new())
                    }
                    open => self.directory(store, object, open?, tally),
                }
            }
            Task::Directory {
                object,
                parent,
                entry: None,
            } => {
                let mut name = String::new();
                self.set.write_name(object, false, &mut name);
                let made = store.make_directory(&parent, &name);
                let open = made.map_err(|error| self.at(object, error))?;
                self.count(1);
                self.directory(store, object, open, tally)
            }
        }
    }

    fn at(&self, object: u32, error: io::Error) -> Failure {
        let path = self.set.path(object, false);
        Failure { path, error }
    }

    /// Examines one directory of the set; the pass that repairs makes it what it must be.
    fn directory(
        &self,
        store: &mut S,
        object: u32,
        open: S::Open,
        tally: &mut Tally,
    ) -> Result<Vec<Task<S>>, Failure> {
        let failed = |error| self.at(object, error);
        refuse_interrupted().map_err(failed)?;
        store.keep_open(object, &open).map_err(failed)?;
        let entries = store.list(&open).map_err(failed)?;
        if !self.repair {
            self.count(entries.len());
        }
        let mut visit = Visit::of(self, object, open);
        let mut renamed = Vec::new();
        for entry in entries {
            match Name::of(&entry) {
                Some(Name::Renamed(number)) => renamed.push((number, entry)),
                name => visit.entry(store, name, entry, tally)?,
            }
        }
        for (number, entry) in renamed {
            visit.renamed(store, number, entry, tally)?;
        }
        visit.missing(store, tally)?;
        Ok(visit.more)
    }

    /// Makes the file of this index.
    fn make_file(
        &self,
        store: &mut S,
        directory: &S::Open,
        index: usize,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let object = self.set.number(Object::File(index));
        let mut name = String::new();
        self.set.write_name(object, false, &mut name);
        let size = self.set.files()[index].size;
        let created = refuse_interrupted().and_then(|()| store.create(directory, &name));
        let made = created.and_then(|file| {
            self.write(store, &file, index, 0..size)?;
            store.keep_open(object, &file)
        });
        made.map_err(|error| self.at(object, error))?;
        tally.made += 1;
        tally.made_bytes += size;
        self.count(1);
        Ok(())
    }

    /// Writes a part of a file's contents.
    pub(super) fn write(
        &self,
        store: &mut S,
        file: &S::Open,
        index: usize,
        part: Range<u64>,
    ) -> io::Result<()> {
        let about = self.set.files()[index];
        let mut data = vec![0; (part.end - part.start).min(WRITE_BYTES as u64) as usize];
        let mut at = part.start;
        while at < part.end {
            refuse_interrupted()?;
            let length = (part.end - at).min(WRITE_BYTES as u64) as usize;
            let data = &mut data[..length];
            contents(
                self.set.spec().seed,
                about.directory,
                about.number,
                at,
                data,
            );
            store.write(file, at, data)?;
            at += length as u64;
        }
        store.finish(file)
    }

    /// Counts a directory that is missing, with everything in it.
    pub(super) fn lacks_directory(&self, object: u32, tally: &mut Tally) {
        let (set, shape) = (self.set, Shape::of(self.set, object));
        tally.lacks(0);
        for index in shape.files {
            if set.is_present(set.number(Object::File(index))) {
                tally.lacks(set.files()[index].size);
            }
        }
        let entries = shape.symlinks.len() + shape.empty_directories.len();
        (0..entries).for_each(|_| tally.lacks(0));
        for index in shape.directories {
            self.lacks_directory(index as u32, tally);
        }
    }
}

/// A directory that is being examined.
struct Visit<'a, S: Store> {
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

/// Returns parts of the files, each for one thread at a time.
fn pieces<'a>(set: &'a FileSet, files: &'a [usize]) -> impl Iterator<Item = &'a [usize]> {
    let mut rest = files;
    std::iter::from_fn(move || {
        let (mut bytes, mut length) = (0, 0);
        while length < rest.len().min(PIECE_FILES) && (length == 0 || bytes < PIECE_BYTES) {
            bytes += set.files()[rest[length]].size;
            length += 1;
        }
        let (piece, behind) = rest.split_at(length);
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Returns whether an entry could not be opened because it is a mount point, or became a symbolic link.
fn is_foreign(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EXDEV | libc::ELOOP))
}

/// Making a set can take hours: a signal ends it.
fn refuse_interrupted() -> io::Result<()> {
    match bw_sys::signals::caught() {
        0 => Ok(()),
        _ => Err(io::ErrorKind::Interrupted.into()),
    }
}

/// Removes the set of other tables from the folder, except its manifest: an interrupted removal can be repeated.
pub(super) fn clear<S: Store>(
    store: &mut S,
    folder: &S::Open,
    trouble: &Trouble,
) -> Result<(), EngineError> {
    for remove in [false, true] {
        let mut tally = Tally::default();
        let cleared = clear_directory(store, folder, String::new(), remove, &mut tally);
        cleared.map_err(|failure| trouble.of(&failure.path, &failure.error))?;
        if tally.foreign > 0 {
            return Err(trouble.foreign_objects(&tally));
        }
    }
    Ok(())
}

/// Examines a directory of any file set, and everything in it; removes it all on request.
fn clear_directory<S: Store>(
    store: &mut S,
    directory: &S::Open,
    path: String,
    remove: bool,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let failed = |error| Failure {
        path: path.clone(),
        error,
    };
    refuse_interrupted().map_err(failed)?;
    for entry in store.list(directory).map_err(failed)? {
        if path.is_empty() && is_own(&entry) {
            continue;
        }
        let name = entry.name.clone().unwrap_or_default();
        let inner = format!("{path}{}{name}", if path.is_empty() { "" } else { "/" });
        let known = match (Name::of(&entry), entry.kind) {
            (None, _) => false,
            (Some(_), EntryKind::Directory) => match store.open(directory, &entry) {
                Err(error) if is_foreign(&error) => false,
                open => {
                    let open = open.map_err(failed)?;
                    clear_directory(store, &open, inner.clone(), remove, tally)?;
                    true
                }
            },
            (Some(_), EntryKind::Symlink) => store
                .read_link(directory, &entry)
                .map_err(failed)?
                .starts_with(b"f"),
            (Some(_), _) => true,
        };
        if !known {
            tally.found_foreign(inner);
        } else if remove {
            store.remove(directory, &name, entry.kind).map_err(failed)?;
        }
    }
    Ok(())
}
