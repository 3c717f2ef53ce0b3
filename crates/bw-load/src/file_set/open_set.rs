//! The open file set of a run: descriptors of all its directories and of as many files as permitted, for all workers.
//!
//! Every directory is open, so an operation names a single component below a descriptor that was checked: no path is
//! resolved during the run, and no link in it can lead out of the set. Files are opened beforehand, unless the workload
//! opens and closes them itself. A file without a descriptor is opened for each operation.
//!
//! A descriptor is shared by all operations on its file. A word per file counts them: a removed file is closed by the
//! last operation that uses it, never under one that is in flight, whose number the kernel could have given to another
//! file by then.

use crate::file_set::directory::{open_beneath, open_directory};
use crate::file_set::make::FOLDER;
use bw_model::EngineError;
use bw_schedule::file_set::{FileSet, Object};
use rustix::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicI64, AtomicU64};

/// Descriptors that the engine itself needs: rings, sockets, samples, traces.
const RESERVE: u64 = 256;
/// Most files that are open unless the request says otherwise: more cost seconds at the start and kernel memory.
const MOST: u64 = 65_536;

/// How files of a set are opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenOptions {
    /// Most files that are open at a time; None: as the limits of the process permit, at most 65,536.
    pub most: Option<u32>,
    /// Whether files are opened before the run: the workload does not open them itself.
    pub beforehand: bool,
    /// Whether each write is durable when it ends (`O_DSYNC`).
    pub synchronous: bool,
}

/// The open set.
#[derive(Debug)]
pub(crate) struct OpenSet {
    set: Arc<FileSet>,
    /// The folder as the maker opened it: holds the claim on the set.
    _claim: Arc<OwnedFd>,
    /// By object number.
    directories: Box<[OwnedFd]>,
    /// By index.
    files: Box<[SharedDescriptor]>,
    /// How many more files may be open.
    room: AtomicI64,
    flags: OFlags,
    /// How many files were opened beforehand.
    opened: usize,
}

impl OpenSet {
    /// Opens the set in its folder.
    ///
    /// # Errors
    /// `file-set-descriptors`: there are more directories than the process may open; `file-set-failed`.
    pub(crate) fn open(
        set: Arc<FileSet>,
        folder: Arc<OwnedFd>,
        options: OpenOptions,
    ) -> Result<Self, EngineError> {
        let limit = raise_limit().saturating_sub(RESERVE);
        let directories = set.directories().len() as u64;
        if directories > limit {
            return Err(EngineError::request(
                "file-set-descriptors",
                format!(
                    "the file set has {directories} directories, and this process may open {limit}"
                ),
                "raise the limit of open files (ulimit -n), or use fewer directories",
            )
            .about("workload.file_set"));
        }
        // A tenth stays free: a process near its limit is a finding about the program that was measured.
        let room = (limit - directories).saturating_sub(limit / 10);
        let room = room.min(options.most.map_or(MOST, u64::from));
        let mut flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY;
        flags.set(OFlags::DSYNC, options.synchronous);
        let mut open = Self {
            files: set
                .files()
                .iter()
                .map(|_| SharedDescriptor::default())
                .collect(),
            directories: open_directories(&set, &folder)?,
            room: AtomicI64::new(i64::try_from(room).unwrap_or(i64::MAX)),
            set,
            _claim: folder,
            flags,
            opened: 0,
        };
        if options.beforehand {
            open.open_files()?;
        }
        Ok(open)
    }

    /// Opens the files that exist, as far as there is room.
    fn open_files(&mut self) -> Result<(), EngineError> {
        let mut name = String::new();
        for index in 0..self.files.len() {
            let object = self.set.number(Object::File(index));
            if self.room.load(Relaxed) <= 0 || !self.set.is_present(object) {
                continue;
            }
            name.clear();
            self.set.write_name(object, false, &mut name);
            let directory = self.directory(self.set.parent(object));
            let file = open_beneath(directory, &name, self.flags, Mode::empty())
                .map_err(|error| not_opened(&self.set, object, error))?;
            // Nobody else has the set yet.
            let _ = self.share(object, file.into_raw_fd());
            self.opened += 1;
        }
        Ok(())
    }

    /// Returns the set.
    pub(crate) fn set(&self) -> &Arc<FileSet> {
        &self.set
    }

    /// Returns the flags with which files are opened.
    pub(crate) fn flags(&self) -> OFlags {
        self.flags
    }

    /// Returns how many files were opened beforehand.
    pub(crate) fn opened(&self) -> usize {
        self.opened
    }

    /// Returns a directory of the set.
    pub(crate) fn directory(&self, object: u32) -> BorrowedFd<'_> {
        self.directories[object as usize].as_fd()
    }

    fn file(&self, object: u32) -> Option<&SharedDescriptor> {
        match self.set.object(object) {
            Object::File(index) => Some(&self.files[index]),
            _ => None,
        }
    }

    /// Returns the descriptor of a file for an operation, which must [`release`](OpenSet::release) it; None if the file
    /// is not open.
    pub(crate) fn acquire(&self, object: u32) -> Option<RawFd> {
        self.file(object)?.acquire()
    }

    /// Ends the use of a descriptor that [`acquire`](OpenSet::acquire) returned; returns it if it must be closed now.
    pub(crate) fn release(&self, object: u32) -> Option<RawFd> {
        self.made_room(self.file(object)?.release())
    }

    /// Shares a descriptor that an operation opened with the operations that follow, until the file is closed or
    /// removed; returns it if it must be closed at once, as the file is open already or too many are.
    pub(crate) fn share(&self, object: u32, descriptor: RawFd) -> Option<RawFd> {
        let room = self.room.fetch_sub(1, AcqRel) > 0;
        let shared = |file: &SharedDescriptor| file.share(descriptor, room);
        if self.file(object).is_some_and(shared) {
            return None;
        }
        self.room.fetch_add(1, AcqRel);
        Some(descriptor)
    }

    /// Ends one opening of a file; returns the descriptor if it must be closed now.
    pub(crate) fn close(&self, object: u32) -> Option<RawFd> {
        self.made_room(self.file(object)?.close(1))
    }

    /// Ends every opening of a file, which was removed; returns the descriptor if it must be closed now.
    pub(crate) fn forget(&self, object: u32) -> Option<RawFd> {
        self.made_room(self.file(object)?.close(u64::MAX))
    }

    fn made_room(&self, closing: Option<RawFd>) -> Option<RawFd> {
        if closing.is_some() {
            self.room.fetch_add(1, AcqRel);
        }
        closing
    }
}

impl Drop for OpenSet {
    fn drop(&mut self) {
        for file in &self.files {
            if let Some(descriptor) = file.close(u64::MAX) {
                // SAFETY: the descriptor is open, and this was its last user.
                drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
            }
        }
    }
}

/// Opens all directories; each comes after its parent.
fn open_directories(set: &FileSet, folder: &OwnedFd) -> Result<Box<[OwnedFd]>, EngineError> {
    let mut directories: Vec<OwnedFd> = Vec::with_capacity(set.directories().len());
    let mut name = String::new();
    for (object, directory) in (0..).zip(set.directories()) {
        name.clear();
        set.write_name(object, false, &mut name);
        let opened = match directories.get(directory.parent as usize) {
            Some(parent) => open_directory(parent.as_fd(), &name),
            None => open_directory(folder.as_fd(), "."),
        };
        directories.push(opened.map_err(|error| not_opened(set, object, error))?);
    }
    Ok(directories.into_boxed_slice())
}

fn not_opened(set: &FileSet, object: u32, error: rustix::io::Errno) -> EngineError {
    EngineError::operating(
        "file-set-failed",
        format!("{FOLDER}/{}: {error}", set.path(object, false)),
        "let no other program change the file set, and check the file system",
    )
    .about("target")
}

/// Raises the limit of open files as far as this user may, and returns it.
fn raise_limit() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without the permission it stays as it was.
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// A descriptor with the number of its users in one word: descriptor + 1 (0: not open) in 32 bits, operations in flight
/// in 15, openings in 16, and one bit: to be closed by the last operation.
#[derive(Debug, Default)]
struct SharedDescriptor(AtomicU64);

const DESCRIPTOR: u64 = 0xffff_ffff;
const ONE_USER: u64 = 1 << 32;
const USERS: u64 = 0x7fff << 32;
const ONE_OPENING: u64 = 1 << 47;
const OPENINGS: u64 = 0xffff << 47;
const CLOSING: u64 = 1 << 63;

/// Returns the descriptor in a word.
fn descriptor(word: u64) -> RawFd {
    ((word & DESCRIPTOR) as u32).cast_signed() - 1
}

impl SharedDescriptor {
    /// Changes the word; `change` returns the new one, None for no change. Returns the old and the new one.
    fn change(&self, change: impl Fn(u64) -> Option<u64>) -> Option<(u64, u64)> {
        let old = self.0.fetch_update(AcqRel, Acquire, &change).ok()?;
        Some((old, change(old).unwrap_or_default()))
    }

    /// Returns the descriptor for one more user; None if it is not open, or about to be closed.
    fn acquire(&self) -> Option<RawFd> {
        let (old, _) = self.change(|word| {
            let usable = word & DESCRIPTOR != 0 && word & CLOSING == 0 && word & USERS != USERS;
            usable.then_some(word + ONE_USER)
        })?;
        Some(descriptor(old))
    }

    /// Ends a use; returns the descriptor if it must be closed.
    fn release(&self) -> Option<RawFd> {
        let (old, new) = self.change(|word| {
            let word = word - ONE_USER;
            let last = word & CLOSING != 0 && word & USERS == 0;
            Some(if last { 0 } else { word })
        })?;
        (new == 0).then(|| descriptor(old))
    }

    /// Counts an opening, and takes the descriptor if there is none and there is room; returns whether it did.
    fn share(&self, new: RawFd, room: bool) -> bool {
        let changed = self.change(|word| match word {
            0 => room.then(|| u64::from((new + 1).cast_unsigned()) | ONE_OPENING),
            word if word & CLOSING != 0 || word & OPENINGS == OPENINGS => None,
            word => Some(word + ONE_OPENING),
        });
        changed.is_some_and(|(old, _)| old == 0)
    }

    /// Ends this many openings; returns the descriptor if it must be closed.
    fn close(&self, openings: u64) -> Option<RawFd> {
        let (old, new) = self.change(|word| {
            let open = (word & OPENINGS) / ONE_OPENING;
            if word == 0 || word & CLOSING != 0 {
                return None;
            }
            let left = open.saturating_sub(openings);
            Some(match word & !OPENINGS {
                word if left > 0 => word | (left * ONE_OPENING),
                word if word & USERS != 0 => word | CLOSING,
                _ => 0,
            })
        })?;
        (new == 0).then(|| descriptor(old))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_file_is_closed_by_its_last_user() {
        let file = SharedDescriptor::default();
        assert_eq!((file.acquire(), file.close(1)), (None, None));
        assert!(!file.share(7, false) && file.share(7, true));
        assert_eq!((file.acquire(), file.acquire()), (Some(7), Some(7)));
        assert_eq!(file.close(u64::MAX), None);
        assert_eq!(file.acquire(), None);
        assert!(!file.share(8, true), "the old one is still open");
        assert_eq!((file.release(), file.release()), (None, Some(7)));
        assert!(file.share(0, true));
        assert_eq!(file.close(u64::MAX), Some(0));
        assert_eq!(file.close(u64::MAX), None);
    }

    #[test]
    fn a_file_that_is_opened_twice_is_closed_at_the_second_close() {
        let file = SharedDescriptor::default();
        assert!(file.share(3, true) && !file.share(4, true));
        assert_eq!((file.close(1), file.acquire()), (None, Some(3)));
        assert_eq!(file.close(1), None);
        assert_eq!(file.release(), Some(3));
    }

    #[test]
    fn every_descriptor_is_closed_once_whatever_threads_do() {
        let file = SharedDescriptor::default();
        let closed: Vec<Vec<RawFd>> = std::thread::scope(|scope| {
            let work = |thread: i32| {
                let file = &file;
                move || {
                    let mut closed = Vec::new();
                    for round in 0..20_000 {
                        let mine = thread * 20_000 + round;
                        if !file.share(mine, true) {
                            closed.push(mine);
                        }
                        if file.acquire().is_some() {
                            closed.extend(file.release());
                        }
                        closed.extend(file.close(if round % 3 == 0 { u64::MAX } else { 1 }));
                    }
                    closed
                }
            };
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(work(thread))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let mut closed: Vec<_> = closed.into_iter().flatten().collect();
        closed.extend(file.close(u64::MAX));
        closed.sort_unstable();
        assert_eq!(closed, (0..4 * 20_000).collect::<Vec<_>>());
    }
}
