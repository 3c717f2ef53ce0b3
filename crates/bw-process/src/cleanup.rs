//! Resources that outlive a process unless they are removed: the System V semaphore for scripts (APIPCKEY), and a
//! directory.
//!
//! Both are noted in memory shared with the supervisor, which removes them if the runner is killed. Each run has one
//! semaphore set; its value is set to N before each EXEC. If runner and supervisor are both killed, the next launcher
//! removes the set: the value of its second member and the process that set that value last identify the owner.
//! Scripts use only the first member. Sources: proc(5) sysvipc, semget(2), semctl(2); Auto-pilot paper, section 3.2.

use bw_sys::memory::Mapping;
use bw_sys::procfs::is_gone;
use bw_sys::semaphore::{self, Key};
use rustix::rand::{GetRandomFlags, getrandom};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

/// Value of the second member: marks a set of ours.
const MARK: u32 = 0x4257;
const MEMBERS: i32 = 2;

/// A semaphore set for scripts.
#[derive(Debug)]
pub(crate) struct Semaphore<'a> {
    key: Key,
    id: i32,
    /// The set's number plus one, for the supervisor.
    note: &'a AtomicU32,
}

impl<'a> Semaphore<'a> {
    /// Creates a set under a free key. Errors: semaphores are unavailable (ENOSYS, ENOSPC).
    pub(crate) fn create(note: &'a AtomicU32) -> io::Result<Self> {
        loop {
            let key = random_key()?;
            match create_marked(key) {
                Ok(id) => {
                    note.store(id as u32 + 1, Ordering::SeqCst);
                    return Ok(Self { key, id, note });
                }
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the value of APIPCKEY.
    pub(crate) fn key(&self) -> i32 {
        self.key
    }

    /// Sets the value to N; creates the set again if a script has removed it. Errors: semctl(2).
    pub(crate) fn set(&mut self, value: u32) -> io::Result<()> {
        if semaphore::set_value(self.id, 0, value) {
            return Ok(());
        }
        self.id = create_marked(self.key)?;
        self.note.store(self.id as u32 + 1, Ordering::SeqCst);
        if semaphore::set_value(self.id, 0, value) {
            return Ok(());
        }
        Err(io::Error::last_os_error())
    }
}

impl Drop for Semaphore<'_> {
    fn drop(&mut self) {
        remove_noted(self.note);
    }
}

/// Removes the noted set, if there is one.
pub(crate) fn remove_noted(note: &AtomicU32) {
    let noted = note.swap(0, Ordering::SeqCst);
    if noted > 0 {
        semaphore::remove(noted as i32 - 1);
    }
}

/// Removes the sets of launchers that were killed together with their supervisors.
pub(crate) fn remove_abandoned() {
    let list = std::fs::read_to_string("/proc/sysvipc/sem").unwrap_or_default();
    let ids = list
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().nth(1));
    for id in ids
        .filter_map(|id| id.parse().ok())
        .filter(|&id| is_abandoned(id))
    {
        semaphore::remove(id);
    }
}

/// Returns whether a launcher that has ended left this set. False if another user's set cannot be read.
fn is_abandoned(id: i32) -> bool {
    let (mark, owner) = (semaphore::value(id, 1), semaphore::last_process(id, 1));
    // Pid 0: an owner in another pid namespace, which may be alive.
    mark == Some(MARK as i32) && owner.is_some_and(|owner| owner > 0 && is_gone(owner))
}

fn create_marked(key: Key) -> io::Result<i32> {
    let id = semaphore::create(key, MEMBERS)?;
    // If it cannot be marked, the only effect is that the next launcher does not remove it.
    let _ = semaphore::set_value(id, 1, MARK);
    Ok(id)
}

/// Returns a positive key: scripts parse it with atoi.
fn random_key() -> io::Result<Key> {
    let mut bytes = [0u8; 4];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok((i32::from_ne_bytes(bytes) & 0x7fff_ffff).max(1))
}

const BYTES: usize = 4096;
const SEMAPHORE: usize = 0;
const PATH_LENGTH: usize = 1;
/// From this word on each word holds one byte of the path.
const PATH: usize = 2;
const MOST_PATH: usize = BYTES / 4 - PATH;

/// Memory shared by supervisor and runner.
#[derive(Debug)]
pub(crate) struct CleanupNotes(Mapping);

impl CleanupNotes {
    /// Returns empty notes. Errors: no memory.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Mapping::shared(BYTES)?))
    }

    /// Returns the semaphore set's number plus one; 0: there is none.
    pub(crate) fn semaphore(&self) -> &AtomicU32 {
        &self.0.words()[SEMAPHORE]
    }

    /// Notes a directory to remove; a path that is too long is not noted.
    pub(crate) fn directory(&self, path: &Path) {
        let bytes = path.as_os_str().as_bytes();
        if bytes.len() > MOST_PATH {
            return;
        }
        let words = self.0.words();
        for (word, byte) in words[PATH..].iter().zip(bytes) {
            word.store(u32::from(*byte), Ordering::Relaxed);
        }
        words[PATH_LENGTH].store(bytes.len() as u32, Ordering::SeqCst);
    }

    /// Removes what is noted.
    pub(crate) fn clear(&self) {
        remove_noted(self.semaphore());
        self.remove_directory();
    }

    /// Removes the noted directory, if there is one.
    pub(crate) fn remove_directory(&self) {
        let words = self.0.words();
        let length = words[PATH_LENGTH].swap(0, Ordering::SeqCst) as usize;
        if length == 0 {
            return;
        }
        let bytes = words[PATH..][..length].iter();
        let path: Vec<u8> = bytes
            .map(|word| word.load(Ordering::Relaxed) as u8)
            .collect();
        // Nothing can be done about a failure here; the directory stays in /tmp.
        let _ = fs::remove_dir_all(Path::new(std::ffi::OsStr::from_bytes(&path)));
    }
}

#[cfg(test)]
mod semaphore_tests {
    use super::*;

    #[test]
    fn is_usable_until_dropped_and_recreated_when_removed() {
        let note = AtomicU32::new(0);
        let mut semaphore = Semaphore::create(&note).unwrap();
        semaphore.set(3).unwrap();
        let id = semaphore.id;
        let value = |id| semaphore::value(id, 0);
        assert_eq!(value(id), Some(3));
        remove_noted(&AtomicU32::new(id as u32 + 1));
        semaphore.set(2).unwrap();
        let id = semaphore.id;
        assert_eq!(value(id), Some(2));
        remove_abandoned();
        assert_eq!(value(id), Some(2), "its owner lives");
        drop(semaphore);
        assert_eq!((value(id), note.load(Ordering::SeqCst)), (None, 0));
    }
}

#[cfg(test)]
mod notes_tests {
    use super::*;

    #[test]
    fn a_noted_directory_is_removed_once() {
        let notes = CleanupNotes::new().unwrap();
        let path = std::env::temp_dir().join(format!("bw-notes-{}", std::process::id()));
        fs::create_dir_all(path.join("inner")).unwrap();
        notes.directory(&path);
        notes.clear();
        assert!(!path.exists());
        notes.clear();
    }
}
