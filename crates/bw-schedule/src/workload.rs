//! A workload: a seed and filaments, as data. It alone determines what a run should do.
//!
//! Decision: the input of a trace's reader is a type parameter, because readers live in a crate
//! above this one; a program without traces needs none ([`NoTrace`]). Rejected: the reader's options
//! repeated here, field by field.
//!
//! Ids are assigned in the order of the list: one for each user of a closed loop, each client of a closed TPC-B-like
//! load and each BSU of an SPC-1-like load, one for everything else. Filament n lives on worker n mod W. Open
//! loops, sessions and traces without a follower are split: each worker has a part with the
//! same id. Neither changes the schedule (tests/split.rs).
//!
//! The entries of a workload's list have the form of the engine's protocol.

pub mod build;

use crate::access::{AccessSpec, RegionSpec};
use crate::arrival::ArrivalSpec;
use crate::distribution::DistributionSpec;
use crate::filaments::FilamentId;
use crate::filaments::open::Stride;
use crate::file_set::FileSetSpec;
use crate::rate::RateSpec;
use bw_model::{EngineError, FieldProblem, Kind};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::ops::Range;

/// Maximum number of filaments: at 137 bytes per user (tests/closed_size.rs), 14 GB.
pub(crate) const MOST_FILAMENTS: FilamentId = 100_000_000;

/// A worker's index, and the number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Below `workers`.
    pub worker: u32,
    /// At least 1.
    pub workers: u32,
}

/// The part of a schedule that one of several engines issues. All of them have the same number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulePart {
    /// Below `of`.
    pub index: u32,
    /// Number of engines.
    pub of: u32,
}

impl SchedulePart {
    /// The whole schedule.
    pub const WHOLE: Self = Self { index: 0, of: 1 };
}

impl Placement {
    /// The only worker.
    pub const ALONE: Self = Self {
        worker: 0,
        workers: 1,
    };

    /// Returns whether a filament that is not split lives on this worker.
    #[must_use]
    pub(crate) fn is_home(self, id: FilamentId) -> bool {
        id % self.workers == self.worker
    }

    pub(crate) fn stride(self) -> Stride {
        Stride {
            keep: u64::from(self.worker),
            of: u64::from(self.workers),
        }
    }
}

/// A workload, in the form of the engine's protocol. `T` is the input of a trace's reader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec<T = NoTrace> {
    /// The seed of all randomness.
    pub seed: u64,
    /// The files that filaments of type `files` use.
    #[serde(default)]
    pub file_set: Option<FileSetSpec>,
    /// The filaments.
    pub filaments: Vec<FilamentSpec<T>>,
}

/// The reader's input in a program without traces: a workload with a trace is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum NoTrace {}

impl<'de> Deserialize<'de> for NoTrace {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom("no traces can be read here"))
    }
}

/// All errors in a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadError(pub Vec<Problem>);

/// One error, and the filament that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The filament's index in the list, from 0; None: the workload as a whole.
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

impl From<WorkloadError> for EngineError {
    fn from(error: WorkloadError) -> Self {
        let message = error.to_string();
        let field = |place| match place {
            Some(place) => format!("workload.filaments[{place}]"),
            None => "workload".to_owned(),
        };
        let problems = error.0.into_iter().map(|problem| FieldProblem {
            field: field(problem.place),
            message: problem.message,
        });
        Self {
            problems: problems.collect(),
            ..Self::request("bad-workload", message, "correct the workload")
        }
    }
}

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

impl<T> WorkloadSpec<T> {
    /// Returns the number of chains of its filaments of type `files`.
    #[must_use]
    pub fn chains(&self) -> usize {
        let chains = self.filaments.iter().map(|filament| match filament {
            FilamentSpec::Files(spec) => spec.chains.len(),
            _ => 0,
        });
        chains.sum()
    }
}

/// Returns an error about the workload as a whole.
pub(crate) fn whole(message: String) -> WorkloadError {
    WorkloadError(vec![Problem {
        place: None,
        name: None,
        message,
    }])
}

/// A filament, or several of one kind. Names are for [`FollowSpec`] and for messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum FilamentSpec<T> {
    /// Operations at arrivals, whatever the target does.
    Open(OpenSpec),
    /// Users who wait, think and send the next request.
    Closed(ClosedSpec),
    /// Sessions that arrive, each making some requests as a closed loop.
    PartlyOpen(PartlyOpenSpec),
    /// An operation at the end of every N-th of another filament's.
    Follow(FollowSpec),
    /// Bank transactions ([`crate::filaments::tpcb`]).
    Tpcb(TpcbSpec),
    /// Business scaling units ([`crate::filaments::spc1`]).
    Spc1(Spc1Spec),
    /// Chains of operations on the files of a file set ([`crate::filaments::files`]).
    Files(FilesSpec),
    /// A recorded trace.
    Trace(TraceSpec<T>),
    /// A process of the user's that reacts to events ([`crate::filaments::process`]).
    Process(ProcessSpec),
}

/// An open loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenSpec {
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// The arrival process.
    pub arrival: ArrivalSpec,
    /// The rate of arrivals.
    pub rate: RateSpec,
    /// Number of arrivals; None: unlimited.
    #[serde(default)]
    pub count: Option<u64>,
    /// The operations.
    pub access: AccessSpec,
}

/// A closed loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedSpec {
    /// The users' name.
    #[serde(default)]
    pub name: Option<String>,
    /// Number of users.
    pub users: u32,
    /// Time from a completion to the next operation [ns].
    pub think: DistributionSpec,
    /// The operations; a sequential location starts at its beginning for each user.
    pub access: AccessSpec,
}

/// Sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartlyOpenSpec {
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// The arrival process of sessions.
    pub arrival: ArrivalSpec,
    /// The rate of sessions.
    pub rate: RateSpec,
    /// Number of requests in a session; 0 counts as 1.
    pub requests: DistributionSpec,
    /// Time from a completion to the next request [ns].
    pub think: DistributionSpec,
    /// The operations; a sequential location starts at its beginning for each session.
    pub access: AccessSpec,
}

/// A filament that waits for another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FollowSpec {
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// The name of the filament that it follows; if the leader is several filaments, it follows each.
    pub leader: String,
    /// Which operations of the leader it waits for: every `every`-th.
    pub every: u64,
    /// Time from the leader's completion to its operation [ns].
    pub delay: DistributionSpec,
    /// The operations.
    pub access: AccessSpec,
}

/// A TPC-B-like load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpcbSpec {
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// Number of branches.
    pub scale: u64,
    /// Number of clients, which have no think time; no meaning for an open load.
    pub clients: u32,
    /// The rate of transactions (Poisson); None: closed.
    #[serde(default)]
    pub rate: Option<RateSpec>,
    /// The location of the bank.
    #[serde(default)]
    pub region: RegionSpec,
}

/// An SPC-1-like load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spc1Spec {
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// Number of business scaling units, each of 50 operations per second.
    pub bsus: u32,
    /// The location of the storage units.
    #[serde(default)]
    pub region: RegionSpec,
}

/// Chains of operations on files: open with `arrival` and `rate`, or closed with `users` and `think`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesSpec {
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// The arrival process of chains; None: closed.
    #[serde(default)]
    pub arrival: Option<ArrivalSpec>,
    /// The rate of chains.
    #[serde(default)]
    pub rate: Option<RateSpec>,
    /// Number of chains that arrive; None: unlimited.
    #[serde(default)]
    pub count: Option<u64>,
    /// Number of users; None: open.
    #[serde(default)]
    pub users: Option<u32>,
    /// Time from the end of a chain to the user's next one [ns]; None: zero.
    #[serde(default)]
    pub think: Option<DistributionSpec>,
    /// Maximum size of one operation that reads or writes [bytes]: larger ones are several, one after the other.
    #[serde(default = "piece")]
    pub piece_bytes: u32,
    /// The chains, of which each arrival or turn of a user draws one by weight.
    pub chains: Vec<ChainSpec>,
}

fn piece() -> u32 {
    8192
}

/// Operations that follow one another, each at the end of the one before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainSpec {
    /// Its name, unique in the workload.
    pub name: String,
    /// Its weight among the chains of its filament.
    pub weight: u64,
    /// Its steps.
    pub steps: Vec<StepSpec>,
}

/// A step of a chain: one operation, or the pieces of a transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepSpec {
    /// What is done.
    pub kind: Kind,
    /// Size of a transfer [bytes], 0 counts as 1; None: the whole file.
    #[serde(default)]
    pub size: Option<DistributionSpec>,
    /// Where a transfer starts in the file; appends start at the end.
    #[serde(default)]
    pub location: StepLocation,
    /// Which object is used.
    #[serde(default)]
    pub object: StepObject,
}

/// Where a transfer starts in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepLocation {
    /// At the start.
    #[default]
    Start,
    /// At a multiple of `piece_bytes` so that the transfer ends inside the file; of a smaller file at the start.
    Random,
    /// At the end.
    End,
}

/// The object of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepObject {
    /// Another one, chosen by popularity; for `create`, `remove`, `mkdir` and `rmdir` one that is absent or present,
    /// all with the same probability.
    #[default]
    Choose,
    /// That of the step before.
    Same,
}

/// A trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceSpec<T> {
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// Added to the time of each operation [ns]: its intended start is later by a draw.
    #[serde(default)]
    pub delay: Option<DistributionSpec>,
    /// Intended starts are rounded up to multiples of this, after the delay.
    #[serde(default)]
    pub quantize_ns: Option<u64>,
    /// The input of its reader.
    #[serde(flatten)]
    pub input: T,
}

/// A process of the user's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessSpec {
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The directory in which it runs; None: that of the engine.
    #[serde(default)]
    pub directory: Option<String>,
}

impl<T> FilamentSpec<T> {
    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Open(spec) => spec.name.as_deref(),
            Self::Closed(spec) => spec.name.as_deref(),
            Self::PartlyOpen(spec) => spec.name.as_deref(),
            Self::Follow(spec) => spec.name.as_deref(),
            Self::Tpcb(spec) => spec.name.as_deref(),
            Self::Spc1(spec) => spec.name.as_deref(),
            Self::Files(spec) => spec.name.as_deref(),
            Self::Trace(spec) => spec.name.as_deref(),
            Self::Process(spec) => spec.name.as_deref(),
        }
    }

    /// Returns the kinds of operations that it is expected to issue: of a trace all that are not of file sets.
    #[must_use]
    pub fn kinds(&self) -> Vec<Kind> {
        let access = |access: &AccessSpec| access.kinds.iter().map(|&(kind, _)| kind).collect();
        let mut kinds: Vec<Kind> = match self {
            Self::Open(spec) => access(&spec.access),
            Self::Closed(spec) => access(&spec.access),
            Self::PartlyOpen(spec) => access(&spec.access),
            Self::Follow(spec) => access(&spec.access),
            Self::Files(spec) => {
                let steps = spec.chains.iter().flat_map(|chain| &chain.steps);
                steps.map(|step| step.kind).collect()
            }
            Self::Tpcb(_) => vec![Kind::Read, Kind::Write, Kind::Flush],
            Self::Spc1(_) => vec![Kind::Read, Kind::Write],
            Self::Trace(_) | Self::Process(_) => {
                let kinds = Kind::ALL.into_iter();
                kinds.filter(|kind| !kind.needs_files()).collect()
            }
        };
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// Returns how many ids it takes.
    pub(super) fn ids(&self) -> u32 {
        match self {
            Self::Closed(spec) => spec.users,
            Self::Tpcb(spec) if spec.rate.is_none() => spec.clients,
            Self::Spc1(spec) => spec.bsus,
            Self::Files(spec) => spec.users.unwrap_or(1),
            _ => 1,
        }
    }
}
