//! A workload: a seed and filaments, as data. What a run is meant to do follows from this alone.
//!
//! Decision: what a trace's reader needs to know is a type parameter, because readers live in a crate
//! above this one; a program without traces needs none ([`NoTrace`]). What lost: the reader's options
//! repeated here, field by field.
//!
//! Ids are given in the order of the list: one for each user of a closed loop, client of a closed TPC-B-like
//! and BSU of an SPC-1-like load, one for everything else. Filament n lives on worker n mod W. Open
//! loops, sessions and traces that nobody follows are split: each worker has a part with the
//! same id. Neither changes what is issued when (tests/split.rs).

mod build;
mod followers;
mod spec;

use crate::filament::FilamentId;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::ops::Range;

pub use build::{Built, Placement};
pub use spec::*;

/// How many filaments a workload may have: at 137 bytes for a user (tests/closed_size.rs), 14 GB.
pub const MOST_FILAMENTS: FilamentId = 100_000_000;

/// A workload, as the engine's protocol has it. `T` is what a trace's reader needs to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec<T = NoTrace> {
    /// All randomness comes from it.
    pub seed: u64,
    /// The filaments.
    pub filaments: Vec<FilamentSpec<T>>,
}

/// The input of a reader of traces where there is none: a workload with a trace is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum NoTrace {}

impl<'de> Deserialize<'de> for NoTrace {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom("no traces can be read here"))
    }
}

/// Everything that is wrong with a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadError(pub Vec<Problem>);

/// One thing that is wrong, and with which filament.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its place in the list, from 0; None: the workload as a whole.
    pub place: Option<usize>,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.0.iter().enumerate() {
            let separator = if number > 0 { "\n" } else { "" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.place, &self.name) {
            (Some(place), Some(name)) => write!(f, "filaments[{place}] ({name}): ")?,
            (Some(place), None) => write!(f, "filaments[{place}]: ")?,
            (None, _) => write!(f, "workload: ")?,
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for WorkloadError {}

impl<T> WorkloadSpec<T> {
    /// Returns the ids of each entry of the list.
    ///
    /// # Errors
    /// There are more than [`MOST_FILAMENTS`].
    pub fn ids(&self) -> Result<Vec<Range<FilamentId>>, WorkloadError> {
        let mut next: u64 = 0;
        let mut ranges = Vec::with_capacity(self.filaments.len());
        for filament in &self.filaments {
            let first = next;
            next += u64::from(filament.ids());
            if next > u64::from(MOST_FILAMENTS) {
                let message = format!("more than {MOST_FILAMENTS} filaments: use fewer users");
                return Err(whole(message));
            }
            ranges.push(first as FilamentId..next as FilamentId);
        }
        Ok(ranges)
    }
}

/// Returns the error about the workload as a whole.
fn whole(message: String) -> WorkloadError {
    WorkloadError(vec![Problem {
        place: None,
        name: None,
        message,
    }])
}
