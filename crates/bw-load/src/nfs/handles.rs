//! The file handles of a file set, by object number: filled when the set is made, changed by CREATE, MKDIR and LOOKUP.
//!
//! Decision: one table for all workers, because a file that one creates is read by others. Each entry has its own
//! lock; readers do not wait for each other, and an entry is written only when an object is created or removed.

use bw_nfs::value::Handle;
use std::sync::{PoisonError, RwLock};

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
