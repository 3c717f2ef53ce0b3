//! What all workers of a run know of the server's files: the handles of a file set by object number (filled when the set
//! is made, changed by CREATE, MKDIR and LOOKUP), and the server's write verifier.
//!
//! Decision: one table for all workers, because a file that one creates is read by others. Each entry has its own
//! lock; readers do not wait for each other, and an entry is written only when an object is created or removed.

use bw_nfs::value::{Handle, WriteVerifier};
use bw_schedule::file_set::FileSet;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// The handles. See the module's description.
#[derive(Debug)]
pub(crate) struct HandleTable(Box<[RwLock<Option<Handle>>]>);

impl HandleTable {
    /// Returns a table for `objects` objects, all without a handle.
    pub(crate) fn new(objects: u32) -> Self {
        Self((0..objects).map(|_| RwLock::new(None)).collect())
    }

    /// Returns the handle of an object; None if it has none, or there is no such object.
    pub(crate) fn get(&self, object: u32) -> Option<Handle> {
        let entry = self.0.get(object as usize)?;
        // A panic ends the process, so no lock is ever poisoned.
        *entry.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the handle of an object; None: it does not exist, or its handle is unknown.
    pub(crate) fn set(&self, object: u32, handle: Option<Handle>) {
        if let Some(entry) = self.0.get(object as usize) {
            *entry.write().unwrap_or_else(PoisonError::into_inner) = handle;
        }
    }
}

/// The verifier of the server's life, as the replies to WRITE and COMMIT contain it.
#[derive(Debug, Default)]
struct Life {
    current: Option<WriteVerifier>,
    former: Option<WriteVerifier>,
}

/// What all workers of a run share.
#[derive(Debug)]
pub(crate) struct ServerFiles {
    pub set: Arc<FileSet>,
    pub handles: HandleTable,
    life: Mutex<Life>,
}

impl ServerFiles {
    /// Returns the shared state of a set none of whose handles is known.
    pub(crate) fn new(set: Arc<FileSet>) -> Self {
        Self {
            handles: HandleTable::new(set.objects()),
            set,
            life: Mutex::default(),
        }
    }

    /// Compares a verifier with the one before; returns whether the server has begun another life. Late replies of the
    /// former life do not count a second time.
    pub(crate) fn begins_life(&self, verifier: WriteVerifier) -> bool {
        let mut life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        if life.current == Some(verifier) || life.former == Some(verifier) {
            return false;
        }
        life.former = life.current.replace(verifier);
        life.former.is_some()
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
