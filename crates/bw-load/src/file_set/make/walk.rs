//! A pass over the tree of a file set, by several threads: each takes a directory, or files to make, and adds what follows.

use super::manifest::is_own;
use super::trouble::Trouble;
use super::visit::{Name, Shape, Visit};
use super::{MakeReport, contents, nanoseconds, present};
use crate::file_set::store::{Entry, EntryKind, Store};
use bw_model::EngineError;
use bw_schedule::file_set::{FileSet, Object};
use std::io;
use std::ops::{AddAssign, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Files that one thread makes at a time, so that a single large directory keeps all threads busy.
pub(super) const PIECE_FILES: usize = 64;

/// Bytes of these files; one larger file is a piece of its own.
pub(super) const PIECE_BYTES: u64 = 16 << 20;

/// Bytes of one write.
pub(super) const WRITE_BYTES: usize = 1 << 20;

/// How many foreign objects an error names.
pub(super) const NAMED: usize = 3;

/// Time between two reports of a pass; a shorter pass has none.
pub(super) const REPORTED_EVERY: Duration = Duration::from_secs(1);

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

/// The tasks of all threads. The last one that was added is the next, so that few directories are open at a time.
pub(super) struct Queue<T> {
    state: Mutex<QueueState<T>>,
    changed: Condvar,
}

pub(super) struct QueueState<T> {
    tasks: Vec<T>,
    /// Threads that work on a task, and may add more.
    working: usize,
    /// The first failure ends the work.
    failure: Option<Failure>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let state = QueueState {
            tasks: Vec::new(),
            working: 0,
            failure: None,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        // A thread that panics while it holds the lock ends the process.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next task; None if no task is left and none will come, or after a failure.
    fn take(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if state.failure.is_some() {
                return None;
            }
            if let Some(task) = state.tasks.pop() {
                state.working += 1;
                return Some(task);
            }
            if state.working == 0 {
                return None;
            }
            state = (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends a task that [`take`](Queue::take) returned.
    fn done(&self, outcome: Result<Vec<T>, Failure>) {
        let mut state = self.lock();
        state.working -= 1;
        match outcome {
            Ok(more) => state.tasks.extend(more),
            Err(failure) => drop(state.failure.get_or_insert(failure)),
        }
        self.changed.notify_all();
    }
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

/// Returns parts of the files, each for one thread at a time.
pub(super) fn pieces<'a>(
    set: &'a FileSet,
    files: &'a [usize],
) -> impl Iterator<Item = &'a [usize]> {
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
pub(super) fn is_foreign(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EXDEV | libc::ELOOP))
}

/// Making a set can take hours: a signal ends it.
pub(super) fn refuse_interrupted() -> io::Result<()> {
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
pub(super) fn clear_directory<S: Store>(
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
