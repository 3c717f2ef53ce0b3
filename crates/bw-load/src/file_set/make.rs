//! Makes a file set on a [`Store`], or completes and repairs the one that is there.
//!
//! The set lives in a folder of its own, `benchwright-files` (of one of several engines `benchwright-files-1-of-3`),
//! below the directory that the user named; nothing outside of it is touched. The folder has a manifest from the
//! beginning. A folder without a manifest of ours, or with anything in it that no file set contains (another name, a
//! link with another text, a file with a second name, a mount), is refused before anything is changed. A set of other
//! tables is replaced only on request.
//!
//! Two passes over the tree, each by eight threads: the first one only reads, and counts what is missing, extra or of
//! another size; it is the only one where the set is as it must be. The second one changes what differs. So an
//! interrupted maker continues, a set grows by what is new, and what a run has removed, renamed or resized is restored.
//! Files beyond the set (numbers that a larger set of the same tables has) stay: a search that tries a lower load after
//! a higher one would otherwise make them again and again.
//!
//! The contents of a file follow from the set's seed, its directory and its number, and cannot be compressed.

mod contents;
mod manifest;
mod queue;
mod shape;
mod tally;
mod trouble;
mod walk;

pub use contents::contents;
pub use manifest::MANIFEST;
pub use tally::MakeReport;
pub use trouble::{FOLDER, folder};

use crate::file_set::claim::{self, Claim, LOCK, Pace, Refusal};
use crate::file_set::store::{EntryKind, Store};
use bw_model::EngineError;
use bw_schedule::file_set::FileSet;
use bw_schedule::workload::SchedulePart;
use manifest::{Manifest, State, manifest, tables};
use queue::Queue;
use serde::Serialize;
use std::io;
use std::sync::atomic::AtomicU64;
use std::time::Instant;
use tally::{Tally, nanoseconds, present};
use trouble::{Trouble, is_full};
use walk::{Walk, clear};

/// Threads that make a set.
const THREADS: usize = 8;

/// What the user permits and the run will do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MakeOptions {
    /// Whether a set of other tables may be replaced.
    pub replace: bool,
    /// Whether the run changes the set.
    pub changes: bool,
    /// Which of several engines this is: each has a set, in a folder of its own.
    pub part: Option<SchedulePart>,
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
    let trouble = Trouble::at(&stores[0].name(), folder(options.part));
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
    let folder = match store.entry(&top, &trouble.folder).map_err(at_top)? {
        Some(entry) if entry.kind != EntryKind::Directory => {
            return Err(trouble.foreign("it is no directory"));
        }
        Some(entry) => store.open(&top, &entry).map_err(in_folder)?,
        None => match store.make_directory(&top, &trouble.folder) {
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
