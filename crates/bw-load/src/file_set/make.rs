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
//! The contents of a file follow from the set's seed, its directory and its number, and cannot be compressed.

mod manifest;
mod trouble;
mod visit;
mod walk;

pub use manifest::MANIFEST;

use crate::file_set::claim::{self, Claim, LOCK, Pace, Refusal};
use crate::file_set::store::{EntryKind, Store};
use bw_model::EngineError;
use bw_schedule::file_set::FileSet;
use manifest::{Manifest, State, manifest, tables};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use serde::Serialize;
use std::io;
use std::sync::atomic::AtomicU64;
use std::time::Instant;
use trouble::{Trouble, is_full};
use walk::{Queue, Tally, Walk, clear};

/// The folder of a file set, below the directory that the user named.
pub const FOLDER: &str = "benchwright-files";

/// Threads that make a set.
const THREADS: usize = 8;
/// Bytes of contents that follow from one seed.
const CHUNK_BYTES: usize = 64 << 10;

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

fn nanoseconds(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Returns how many objects exist at the start of the run.
fn present(set: &FileSet) -> u64 {
    let present = (0..set.objects()).filter(|object| set.is_present(*object));
    present.count() as u64
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
}
