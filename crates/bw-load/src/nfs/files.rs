//! What all workers of a run know of the server's files: the handles of a file set by object number (filled when the set
//! is made, changed by CREATE, MKDIR and LOOKUP), and the server's write verifier.
//!
//! Decision: one table for all workers, because a file that one creates is read by others. Each entry is a sequence lock,
//! because workers read the handle of a directory with each operation in it: a lock with a count of readers is a line of
//! memory that they all write. The verifier is in each reply to a WRITE; only one that differs takes the lock.

use crate::sequence_lock::SequenceLock;
use bw_nfs::value::{Handle, WriteVerifier};
use bw_schedule::file_set::FileSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Words of a handle and its length.
const WORDS: usize = Handle::MOST / 8 + 1;
/// Length of a handle that is unknown.
const UNKNOWN: u64 = u64::MAX;

/// The handles. See the module's description.
#[derive(Debug)]
pub(crate) struct HandleTable(Box<[SequenceLock<WORDS>]>);

impl HandleTable {
    /// Returns a table for `objects` objects, all without a handle.
    pub(crate) fn new(objects: u32) -> Self {
        Self((0..objects).map(|_| SequenceLock::new()).collect())
    }

    /// Returns the handle of an object; None if it has none, or there is no such object.
    pub(crate) fn get(&self, object: u32) -> Option<Handle> {
        let [length, words @ ..] = self.0.get(object as usize)?.latest()?;
        let mut bytes = [0; Handle::MOST];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        // No handle has the length `UNKNOWN`.
        Handle::new(bytes.get(..usize::try_from(length).ok()?)?)
    }

    /// Sets the handle of an object; None: it does not exist, or its handle is unknown.
    pub(crate) fn set(&self, object: u32, handle: Option<Handle>) {
        let Some(entry) = self.0.get(object as usize) else {
            return;
        };
        let mut words = [UNKNOWN; WORDS];
        if let Some(handle) = handle {
            words[0] = handle.bytes().len() as u64;
            for (word, bytes) in words[1..].iter_mut().zip(handle.bytes().chunks(8)) {
                let mut whole = [0; 8];
                whole[..bytes.len()].copy_from_slice(bytes);
                *word = u64::from_ne_bytes(whole);
            }
        }
        entry.write(words);
    }
}

/// The verifier of the server's life, as the replies to WRITE and COMMIT contain it.
#[derive(Debug, Default)]
struct Life {
    /// Whether there is a verifier.
    begun: AtomicBool,
    current: AtomicU64,
    former: Mutex<Option<u64>>,
}

impl Life {
    /// See [`ServerFiles::begins_life`].
    fn is_another(&self, verifier: WriteVerifier) -> bool {
        let number = u64::from_ne_bytes(verifier.0);
        let current = || {
            let begun = self.begun.load(Ordering::Acquire);
            begun.then(|| self.current.load(Ordering::Relaxed))
        };
        if current() == Some(number) {
            return false;
        }
        // A panic ends the process, so no lock is ever poisoned.
        let mut former = self.former.lock().unwrap_or_else(PoisonError::into_inner);
        if [current(), *former].contains(&Some(number)) {
            return false;
        }
        *former = current();
        self.current.store(number, Ordering::Relaxed);
        self.begun.store(true, Ordering::Release);
        former.is_some()
    }
}

/// What all workers of a run share.
#[derive(Debug)]
pub(crate) struct ServerFiles {
    pub set: Arc<FileSet>,
    pub handles: HandleTable,
    life: Life,
}

impl ServerFiles {
    /// Returns the shared state of a set none of whose handles is known.
    pub(crate) fn new(set: Arc<FileSet>) -> Self {
        Self {
            handles: HandleTable::new(set.objects()),
            set,
            life: Life::default(),
        }
    }

    /// Compares a verifier with the one before; returns whether the server has begun another life. Late replies of the
    /// former life do not count a second time.
    pub(crate) fn begins_life(&self, verifier: WriteVerifier) -> bool {
        self.life.is_another(verifier)
    }
}

/// The state that the workers of a run share: the file set and its handles.
#[derive(Clone, Debug)]
pub struct NfsFiles(pub(crate) Arc<ServerFiles>);

impl NfsFiles {
    /// Returns the state of a set none of whose handles is known.
    #[must_use]
    pub fn new(set: Arc<FileSet>) -> Self {
        Self(Arc::new(ServerFiles::new(set)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_every_length_are_stored_and_forgotten() {
        let table = HandleTable::new(2);
        assert_eq!((table.get(0), table.get(2)), (None, None));
        for length in 0..=Handle::MOST {
            let bytes: Vec<u8> = (1..=length as u8).collect();
            let handle = Handle::new(&bytes);
            table.set(0, handle);
            assert_eq!(table.get(0), handle);
            table.set(0, None);
            assert_eq!(table.get(0), None);
        }
        assert_eq!(table.get(1), None);
    }

    #[test]
    fn readers_see_whole_handles_while_others_change_them() {
        let table = HandleTable::new(1);
        let handles = [3, 64].map(|length| Handle::new(&vec![length; usize::from(length)]));
        std::thread::scope(|scope| {
            for handle in handles {
                let table = &table;
                scope.spawn(move || (0..20_000).for_each(|_| table.set(0, handle)));
            }
            for _ in 0..20_000 {
                let seen = table.get(0);
                assert!(seen.is_none() || handles.contains(&seen), "{seen:?}");
            }
        });
        assert!(handles.contains(&table.get(0)));
    }

    #[test]
    fn a_life_of_the_server_counts_once() {
        let life = Life::default();
        let first = WriteVerifier([0; 8]);
        let [second, third] = [1, 2].map(|number| WriteVerifier([number; 8]));
        // Late replies of the former life do not count again.
        for (verifier, another) in [
            (first, false),
            (first, false),
            (second, true),
            (first, false),
            (second, false),
            (third, true),
            (second, false),
            (third, false),
            (first, true),
        ] {
            assert_eq!(life.is_another(verifier), another, "{verifier:?}");
        }
    }
}
