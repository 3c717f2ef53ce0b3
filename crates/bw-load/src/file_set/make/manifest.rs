//! The manifest of a file set: of which tables the folder is, and in which state.
//!
//! Decision: it describes the tables, it is no list of the files. Rejected: a list, which is as large as a listing, must be
//! durable with each change, and is wrong after a run anyway.

use super::trouble::Trouble;
use crate::file_set::claim::{LOCK, TAKEOVER};
use crate::file_set::store::{Entry, EntryKind, Store};
use bw_model::EngineError;
use bw_schedule::file_set::FileSet;
use serde::{Deserialize, Serialize};
use std::io;

/// The manifest, in the folder.
pub const MANIFEST: &str = "manifest.json";

/// The manifest while it is written.
pub(super) const NEW_MANIFEST: &str = "manifest.json.new";

/// A longer file is no manifest of ours [bytes].
pub(super) const MANIFEST_BYTES: u64 = 64 << 10;

/// The form of the manifest, and of the names and contents of a set.
pub(super) const SCHEMA: &str = "benchwright-file-set/1";

/// The manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) schema: String,
    /// The hash of the tables, without the number of files.
    pub(super) tables: String,
    pub(super) seed: u64,
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) state: State,
}

/// The state of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// A maker is at work, or did not finish.
    Making,
    /// Complete, and no run has changed it.
    Clean,
    /// A run that changes it has started.
    Used,
}

pub(super) fn tables(set: &FileSet) -> String {
    format!("{:016x}", set.hash())
}

impl Manifest {
    pub(super) fn of(set: &FileSet, state: State) -> Self {
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
    pub(super) fn write<S: Store>(&self, store: &mut S, folder: &S::Open) -> io::Result<()> {
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

/// Returns the manifest of a folder; None if the folder is new.
pub(super) fn manifest<S: Store>(
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

pub(super) fn named<'a, M>(entries: &'a [Entry<M>], name: &str) -> Option<&'a Entry<M>> {
    let mut entries = entries.iter();
    entries.find(|entry| entry.name.as_deref() == Some(name))
}

/// Returns whether an entry of the folder is a file of the maker itself.
pub(super) fn is_own<M>(entry: &Entry<M>) -> bool {
    let own = [MANIFEST, NEW_MANIFEST, LOCK, TAKEOVER];
    let name = entry.name.as_deref().unwrap_or_default();
    own.contains(&name) && entry.kind == EntryKind::File
}
