//! Makes a file set on a [`Store`], or completes and repairs the one that is there.
//!
//! The set lives in a folder of its own, `benchwright-files`, below the directory that the user named; nothing outside
//! of it is touched. The folder has a manifest from the beginning. A folder without a manifest of ours, or with anything
//! in it that no file set contains (another name, a link with another text, a file with a second name, a mount), is
//! refused before anything is changed. A set of other tables is replaced only on request.
//!
//! Two passes over the tree, each by eight threads: the first one only reads, and counts what is missing, extra or of
//! another size; it is the only one where the set is as it must be. The second one changes what differs. So an
//! interrupted maker continues, a set grows by what is new, and what a run has removed, renamed or resized is restored.
//! Files beyond the set (numbers that a larger set of the same tables has) stay: a search that tries a lower load after
//! a higher one would otherwise make them again and again.
//!
//! Decision: the manifest describes the tables, it is no list of the files. Rejected: a list, which is as large as a
//! listing, must be durable with each change, and is wrong after a run anyway.
//!
//! The contents of a file follow from the set's seed, its directory and its number, and cannot be compressed.

use crate::file_set::claim::{self, Claim, LOCK, Pace, Refusal, TAKEOVER};
use crate::file_set::store::{Entry, EntryKind, Space, Store};
use bw_model::EngineError;
use bw_schedule::file_set::{FileSet, Object};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};
use std::io;
use std::ops::{AddAssign, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The folder of a file set, below the directory that the user named.
pub const FOLDER: &str = "benchwright-files";
/// The manifest, in the folder.
pub const MANIFEST: &str = "manifest.json";
/// The manifest while it is written.
const NEW_MANIFEST: &str = "manifest.json.new";
/// A longer file is no manifest of ours [bytes].
const MANIFEST_BYTES: u64 = 64 << 10;
/// The form of the manifest, and of the names and contents of a set.
const SCHEMA: &str = "benchwright-file-set/1";

/// Threads that make a set.
const THREADS: usize = 8;
/// Files that one thread makes at a time, so that a single large directory keeps all threads busy.
const PIECE_FILES: usize = 64;
/// Bytes of these files; one larger file is a piece of its own.
const PIECE_BYTES: u64 = 16 << 20;
/// Bytes of one write.
const WRITE_BYTES: usize = 1 << 20;
/// Bytes of contents that follow from one seed.
const CHUNK_BYTES: usize = 64 << 10;
/// How many foreign objects an error names.
const NAMED: usize = 3;
/// Time between two reports of a pass; a shorter pass has none.
const REPORTED_EVERY: Duration = Duration::from_secs(1);

/// What the user permits and the run will do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MakeOptions {
    /// Whether a set of other tables may be replaced.
    pub replace: bool,
    /// Whether the run changes the set.
    pub changes: bool,
}

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

/// The two passes over a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Reads what is there.
    Examine,
    /// Makes what is missing, and repairs what differs.
    Make,
}

/// How far the making of a set is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MakeProgress {
    /// The pass.
    pub phase: Phase,
    /// Files, links and directories that it has examined, or made and repaired.
    pub done: u64,
    /// How many there are.
    pub total: u64,
    /// Time since the pass began [ns].
    pub elapsed_ns: u64,
}

/// A set that is ready for a run.
#[derive(Debug)]
pub struct Made<O> {
    /// The folder.
    pub folder: O,
    /// The claim on it.
    pub claim: Claim,
    /// What was done.
    pub report: MakeReport,
}

/// Makes the set, or brings the one that is there into its state at the start of a run. `store` makes the store of one
/// thread; `report` is called every second with the progress.
///
/// # Errors
/// `file-set-*`: the folder is not ours, no space, a signal, the file system fails.
pub fn make<S: Store>(
    set: &FileSet,
    options: MakeOptions,
    store: &dyn Fn() -> Result<S, EngineError>,
    report: &mut dyn FnMut(&MakeProgress),
) -> Result<Made<S::Open>, EngineError> {
    let begun = Instant::now();
    let stores: Result<Vec<S>, _> = (0..THREADS).map(|_| store()).collect();
    let mut stores = stores?;
    let trouble = Trouble::at(&stores[0].name());
    let (folder, claim, found) =
        open_folder(store()?, &mut stores[0], options, &trouble, |found| {
            options.replace || found.tables == tables(set)
        })?;
    let found = match found {
        Some(found) if found.tables != tables(set) => {
            clear(&mut stores[0], &folder, &trouble)?;
            None
        }
        found => found,
    };
    let mut walk = |stores: &mut [S], phase, total| {
        let walk = Walk {
            set,
            repair: phase == Phase::Make,
            done: AtomicU64::new(0),
            queue: Queue::default(),
        };
        let begun = Instant::now();
        let (tally, failure) = walk.run(stores, &folder, &mut |done| {
            report(&MakeProgress {
                phase,
                // The folder also has the manifest, and files beyond the set.
                done: done.min(total),
                total,
                elapsed_ns: nanoseconds(begun),
            });
        });
        match failure {
            Some(failure) => Err(trouble.of_walk(&failure, &tally, set)),
            None if tally.foreign > 0 => Err(trouble.foreign_objects(&tally)),
            None => Ok(tally),
        }
    };
    let examined = match &found {
        None => Tally::of_nothing(set),
        Some(_) => walk(&mut stores, Phase::Examine, present(set))?,
    };
    let unchanged = found
        .as_ref()
        .filter(|found| found.state != State::Making && examined.differences == 0);
    // What an earlier run has written stays.
    let used = options.changes || unchanged.is_some_and(|found| found.state == State::Used);
    let ready = Manifest::of(set, if used { State::Used } else { State::Clean });
    let tally = if unchanged.is_some() {
        examined
    } else {
        let space = stores[0].space(&folder).unwrap_or_default();
        trouble.refuse_without_space(space, &examined)?;
        match Manifest::of(set, State::Making).write(&mut stores[0], &folder) {
            // What the repair takes back of the growth of files makes room.
            Err(error) if found.is_some() && is_full(&error) => {}
            written => written.map_err(|error| trouble.of(MANIFEST, &error))?,
        }
        let total = examined.differences.max(examined.missing);
        let repaired = walk(&mut stores, Phase::Make, total)?;
        let settled = stores[0].settle(&folder);
        settled.map_err(|error| trouble.of("", &error))?;
        repaired
    };
    if unchanged != Some(&ready) {
        let written = ready.write(&mut stores[0], &folder);
        written.map_err(|error| trouble.of(MANIFEST, &error))?;
    }
    let report = tally.report(set, begun);
    Ok(Made {
        folder,
        claim,
        report,
    })
}

/// Fills `data` with the contents of file `number` of a directory, from `offset` on.
pub fn contents(seed: u64, directory: u32, number: u32, offset: u64, data: &mut [u8]) {
    let file = u64::from(directory) << 32 | u64::from(number);
    let file = (seed ^ file.wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(17);
    let mut at = 0;
    while at < data.len() {
        let position = offset + at as u64;
        let (index, skip) = (
            position / CHUNK_BYTES as u64,
            (position % CHUNK_BYTES as u64) as usize,
        );
        let mixed = file ^ index.wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(mixed);
        let length = (CHUNK_BYTES - skip).min(data.len() - at);
        let piece = &mut data[at..at + length];
        if skip == 0 {
            random.fill_bytes(piece);
        } else {
            let mut chunk = [0; CHUNK_BYTES];
            random.fill_bytes(&mut chunk);
            piece.copy_from_slice(&chunk[skip..skip + length]);
        }
        at += length;
    }
}

/// The manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    schema: String,
    /// The hash of the tables, without the number of files.
    tables: String,
    seed: u64,
    files: u64,
    bytes: u64,
    state: State,
}

/// The state of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// A maker is at work, or did not finish.
    Making,
    /// Complete, and no run has changed it.
    Clean,
    /// A run that changes it has started.
    Used,
}

fn nanoseconds(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Returns how many objects exist at the start of the run.
fn present(set: &FileSet) -> u64 {
    let present = (0..set.objects()).filter(|object| set.is_present(*object));
    present.count() as u64
}

fn tables(set: &FileSet) -> String {
    format!("{:016x}", set.hash())
}

impl Manifest {
    fn of(set: &FileSet, state: State) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            tables: tables(set),
            seed: set.spec().seed,
            files: set.files().len() as u64,
            bytes: set.bytes(),
            state,
        }
    }

    /// Replaces the manifest by this one.
    fn write<S: Store>(&self, store: &mut S, folder: &S::Open) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        match store.remove(folder, NEW_MANIFEST, EntryKind::File) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = store.create(folder, NEW_MANIFEST)?;
        store.write(&file, 0, &text)?;
        store.finish(&file)?;
        store.rename(folder, NEW_MANIFEST, MANIFEST)
    }

    /// Reads the manifest; None if it is none of ours.
    fn read<S: Store>(
        store: &mut S,
        folder: &S::Open,
        entry: &Entry<S::Mark>,
    ) -> io::Result<Option<Self>> {
        if entry.kind != EntryKind::File || entry.size > MANIFEST_BYTES || entry.hard_links > 1 {
            return Ok(None);
        }
        let mut text = vec![0; entry.size as usize];
        let file = store.open(folder, entry)?;
        let length = store.read(&file, 0, &mut text)?;
        let manifest: Option<Self> = serde_json::from_slice(&text[..length]).ok();
        Ok(manifest.filter(|manifest| manifest.schema == SCHEMA))
    }
}

/// Returns the folder, opened and claimed by `claimer`, and its manifest; None if the folder is new. Nothing is written into
/// a folder that is not ours, or whose manifest is not `usable`, not even the claim.
fn open_folder<S: Store>(
    claimer: S,
    store: &mut S,
    options: MakeOptions,
    trouble: &Trouble,
    usable: impl Fn(&Manifest) -> bool,
) -> Result<(S::Open, Claim, Option<Manifest>), EngineError> {
    let at_top = |error: io::Error| trouble.at_top(&error);
    let in_folder = |error: io::Error| trouble.of("", &error);
    let top = store.top().map_err(at_top)?;
    let folder = match store.entry(&top, FOLDER).map_err(at_top)? {
        Some(entry) if entry.kind != EntryKind::Directory => {
            return Err(trouble.foreign("it is no directory"));
        }
        Some(entry) => store.open(&top, &entry).map_err(in_folder)?,
        None => match store.make_directory(&top, FOLDER) {
            // Another run made it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(trouble.in_use(None));
            }
            made => made.map_err(at_top)?,
        },
    };
    let examine = |store: &mut S| match manifest(store, &folder, trouble)? {
        Some(found) if !usable(&found) => Err(trouble.other_tables()),
        found => Ok(found),
    };
    examine(store)?;
    match store.claim(&folder) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Err(trouble.in_use(claim::holder(store, &folder).as_ref()));
        }
        locked => locked.map_err(in_folder)?,
    }
    let claim = match claim::take(claimer, &folder, options.changes, Pace::REAL) {
        Err(Refusal::InUse(holder)) => return Err(trouble.in_use(holder.as_deref())),
        Err(Refusal::Failed(error)) => return Err(trouble.of(LOCK, &error)),
        Ok(claim) => claim,
    };
    // Another run may have changed it before the claim.
    let found = examine(store)?;
    Ok((folder, claim, found))
}

/// Returns the manifest of a folder; None if the folder is new.
fn manifest<S: Store>(
    store: &mut S,
    folder: &S::Open,
    trouble: &Trouble,
) -> Result<Option<Manifest>, EngineError> {
    let in_folder = |error: io::Error| trouble.of("", &error);
    let entries = store.list(folder).map_err(in_folder)?;
    let Some(entry) = named(&entries, MANIFEST) else {
        // A maker that is killed before its manifest is complete leaves at most its own files.
        return match entries.iter().all(is_own) {
            true => Ok(None),
            false => Err(trouble.foreign("it is not empty and has no manifest")),
        };
    };
    match Manifest::read(store, folder, entry).map_err(in_folder)? {
        Some(manifest) => Ok(Some(manifest)),
        None => Err(trouble.foreign("its manifest.json is not the manifest of a file set")),
    }
}

fn named<'a, M>(entries: &'a [Entry<M>], name: &str) -> Option<&'a Entry<M>> {
    let mut entries = entries.iter();
    entries.find(|entry| entry.name.as_deref() == Some(name))
}

/// What a pass over the tree counted.
#[derive(Clone, Debug, Default)]
struct Tally {
    made: u64,
    made_bytes: u64,
    repaired: u64,
    reused: u64,
    removed: u64,
    beyond: u64,
    /// Objects that are missing, extra or of another size.
    differences: u64,
    /// Objects that are missing.
    missing: u64,
    /// Bytes that are missing.
    missing_bytes: u64,
    /// What no file set contains: how much, and the first paths.
    foreign: u64,
    foreign_paths: Vec<String>,
}

impl Tally {
    /// Returns the tally of a folder in which everything is missing.
    fn of_nothing(set: &FileSet) -> Self {
        Self {
            missing: present(set),
            missing_bytes: set.bytes(),
            differences: 1,
            ..Self::default()
        }
    }

    fn found_foreign(&mut self, path: String) {
        self.foreign += 1;
        self.foreign_paths.push(path);
        self.foreign_paths.truncate(NAMED);
    }

    fn lacks(&mut self, bytes: u64) {
        self.differences += 1;
        self.missing += 1;
        self.missing_bytes += bytes;
    }

    fn report(&self, set: &FileSet, begun: Instant) -> MakeReport {
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

/// The objects of one directory: ranges of indices among their like. They are numbered from 0 in each directory.
struct Shape {
    directories: Range<usize>,
    files: Range<usize>,
    symlinks: Range<usize>,
    empty_directories: Range<usize>,
}

impl Shape {
    fn of(set: &FileSet, directory: u32) -> Self {
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
enum Name {
    Directory(usize),
    EmptyDirectory(usize),
    File(usize),
    /// A file with its second name.
    Renamed(usize),
    Symlink(usize),
}

impl Name {
    /// Returns None for what no file set contains.
    fn of<M>(entry: &Entry<M>) -> Option<Self> {
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

/// What failed, and where in the folder.
#[derive(Debug)]
struct Failure {
    path: String,
    error: io::Error,
}

/// A part of the work.
enum Task<S: Store> {
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
struct Queue<T> {
    state: Mutex<QueueState<T>>,
    changed: Condvar,
}

struct QueueState<T> {
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
struct Walk<'a, S: Store> {
    set: &'a FileSet,
    /// Whether differences are removed, or only counted.
    repair: bool,
    /// Objects that were examined; of the pass that repairs, those that were made, repaired or removed.
    done: AtomicU64,
    queue: Queue<Task<S>>,
}

impl<S: Store> Walk<'_, S> {
    /// Returns what was counted, and what ended the pass early. Calls `report` every second with what is done.
    fn run(
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

    fn count(&self, objects: usize) {
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
    fn write(
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
    fn lacks_directory(&self, object: u32, tally: &mut Tally) {
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
    more: Vec<Task<S>>,
}

impl<'a, S: Store> Visit<'a, S> {
    fn of(walk: &'a Walk<'a, S>, object: u32, open: S::Open) -> Self {
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
    fn entry(
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
    fn renamed(
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
    fn missing(&mut self, store: &mut S, tally: &mut Tally) -> Result<(), Failure> {
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

/// Returns whether an entry of the folder is a file of the maker itself.
fn is_own<M>(entry: &Entry<M>) -> bool {
    let own = [MANIFEST, NEW_MANIFEST, LOCK, TAKEOVER];
    let name = entry.name.as_deref().unwrap_or_default();
    own.contains(&name) && entry.kind == EntryKind::File
}

/// Returns whether an entry could not be opened because it is a mount point, or became a symbolic link.
fn is_foreign(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EXDEV | libc::ELOOP))
}

/// Returns whether a file system, or the user's part of it, is full.
fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

/// Making a set can take hours: a signal ends it.
fn refuse_interrupted() -> io::Result<()> {
    match bw_sys::signals::caught() {
        0 => Ok(()),
        _ => Err(io::ErrorKind::Interrupted.into()),
    }
}

/// Removes the set of other tables from the folder, except its manifest: an interrupted removal can be repeated.
fn clear<S: Store>(store: &mut S, folder: &S::Open, trouble: &Trouble) -> Result<(), EngineError> {
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

/// The errors of a place.
struct Trouble {
    top: String,
}

impl Trouble {
    fn at(top: &str) -> Self {
        let top = top.to_owned();
        Self { top }
    }

    fn path(&self, inner: &str) -> String {
        let slash = if inner.is_empty() { "" } else { "/" };
        format!("{}/{FOLDER}{slash}{inner}", self.top.trim_end_matches('/'))
    }

    fn request(code: &'static str, message: String, remedy: impl Into<String>) -> EngineError {
        EngineError::request(code, message, remedy).about("target")
    }

    fn at_top(&self, error: &io::Error) -> EngineError {
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => {
                let remedy = "name a directory that exists";
                Self::request("file-set-open", format!("{}: {error}", self.top), remedy)
            }
            _ => Self::failure(&self.top, error),
        }
    }

    fn foreign(&self, what: &str) -> EngineError {
        Self::request(
            "file-set-foreign",
            format!("{}: {what}: bw did not make it", self.path("")),
            "move it away, or name another directory; nothing was changed",
        )
    }

    fn foreign_objects(&self, tally: &Tally) -> EngineError {
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

    fn in_use(&self, holder: Option<&claim::Holder>) -> EngineError {
        let holder = holder.map_or_else(String::new, |holder| format!(": {holder}"));
        let message = format!("{}: another run uses this file set{holder}", self.path(""));
        let remedy = "wait for its end, or name another directory";
        Self::request("file-set-in-use", message, remedy)
    }

    fn other_tables(&self) -> EngineError {
        Self::request(
            "file-set-differs",
            format!(
                "{}: it holds the file set of another workload or seed",
                self.path("")
            ),
            "name another directory, remove that folder, or replace it with --replace",
        )
    }

    fn refuse_without_space(&self, space: Option<Space>, tally: &Tally) -> Result<(), EngineError> {
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
    fn of(&self, path: &str, error: &io::Error) -> EngineError {
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
    fn of_walk(&self, failure: &Failure, tally: &Tally, set: &FileSet) -> EngineError {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_do_not_depend_on_where_they_are_cut() {
        let mut whole = vec![0; 3 * CHUNK_BYTES + 77];
        contents(7, 1, 2, 0, &mut whole);
        for (from, length) in [
            (0, 1),
            (5, CHUNK_BYTES),
            (CHUNK_BYTES - 3, 9),
            (CHUNK_BYTES, 70_001),
        ] {
            let mut part = vec![0; length];
            contents(7, 1, 2, from as u64, &mut part);
            assert_eq!(
                part,
                whole[from..from + length],
                "{length} bytes from {from}"
            );
        }
        let mut other = vec![0; 64];
        contents(7, 2, 1, 0, &mut other);
        assert_ne!(other, whole[..64]);
    }

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
