//! The `load` request of docs/engine-protocol.md, and the requirements of its workload on a target.

use crate::clock::ClockChoice;
use crate::file::FileSpec;
use crate::file_set::dir::{DirSpec, SetUse};
use crate::http::request::HttpSpec;
use crate::nfs::NfsSpec;
use crate::null::NullSpec;
use crate::policy::{Full, Late};
use crate::postgres::PostgresSpec;
use crate::redis::RedisSpec;
use crate::tcp::TcpSpec;
use crate::udp::UdpSpec;
use crate::websocket::WebSocketSpec;
use bw_model::EngineError;
use bw_model::{Kind, Nanos};
use bw_record::streams::StreamLimit;
use bw_schedule::access::AccessSpec;
use bw_schedule::distribution::{Distribution, DistributionSpec};
use bw_schedule::workload::{FilamentSpec, Placement, SchedulePart, WorkloadSpec};
use bw_trace::input::TraceInput;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Maximum number of workers: as many as a CPU set of the kernel has bits.
const WORKERS: usize = 1024;
/// Maximum number of engines that share a schedule.
const PARTS: u32 = 1024;
/// Maximum number of targets of a load.
const TARGETS: usize = 1024;
/// Maximum number of operations in flight per worker.
const DEPTH: u32 = 1 << 20;

/// What operations are executed on.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TargetSpec {
    /// Nothing: the engine alone.
    Null(NullSpec),
    /// A file or a block device.
    File(FileSpec),
    /// A TCP server that echoes.
    Tcp(TcpSpec),
    /// A UDP server.
    Udp(UdpSpec),
    /// An HTTP server.
    Http(HttpSpec),
    /// A server of WebSocket.
    WebSocket(WebSocketSpec),
    /// A Redis server.
    Redis(RedisSpec),
    /// A PostgreSQL server.
    Postgres(PostgresSpec),
    /// A file set in a mounted directory.
    Dir(DirSpec),
    /// A file set on an NFS server.
    Nfs(NfsSpec),
    /// Several targets, each for some of the filaments.
    Several(SeveralSpec),
}

/// Several targets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeveralSpec {
    /// The targets; their names differ.
    pub targets: Vec<NamedTarget>,
}

/// One of several targets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedTarget {
    /// Its name in the result.
    pub name: String,
    /// The filaments that use it, by their indexes in the list. Each filament uses one target.
    pub filaments: Vec<usize>,
    /// The target.
    pub target: TargetSpec,
}

/// What is expected of streams.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamsSpec {
    /// Limits that a good stream is below, all of them.
    #[serde(default)]
    pub good: Vec<StreamLimit>,
}

/// How operations are issued at their intended start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pacer {
    /// Sleep until just before the time, then spin: the worker's own loop.
    #[default]
    Spin,
    /// The paper's SELECT: threads wait for their operation's time by select().
    Select,
    /// The paper's SLEEP: threads wait for their operation's time by usleep().
    Sleep,
    /// The paper's DED-CLOCK: one thread spins, and wakes others to issue.
    DedClock,
}

impl Pacer {
    /// Returns its name in requests and results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Select => "select",
            Self::Sleep => "sleep",
            Self::DedClock => "ded-clock",
        }
    }
}

/// How far behind other threads the workers are on their CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LowPriority {
    /// Nice 19: a small share of a busy CPU.
    Nice,
    /// `SCHED_IDLE`: a busy CPU only when others leave it, and almost no share of it otherwise.
    Idle,
}

/// The request. Every field has the protocol's name and meaning.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadRequest {
    /// What operations are executed on.
    pub target: TargetSpec,
    /// What good streams are; None, and no target has streams: nothing.
    #[serde(default)]
    pub streams: Option<StreamsSpec>,
    /// The filaments and their seed.
    pub workload: WorkloadSpec<TraceInput>,
    /// The length of the measured part; None: until the filaments have no more operations.
    #[serde(default)]
    pub duration_ns: Option<Nanos>,
    /// How long operations in flight are waited for after the end.
    #[serde(default = "default_drain")]
    pub drain_ns: Nanos,
    /// Number of workers.
    #[serde(default = "one")]
    pub workers: usize,
    /// The CPUs that they are bound to, one each.
    #[serde(default)]
    pub cpus: Option<Vec<usize>>,
    /// Maximum number of operations in flight, per worker.
    #[serde(default = "default_depth")]
    pub depth: u32,
    /// How many operations of all workers may wait for a free slot; one more ends the run.
    #[serde(default = "default_backlog")]
    pub backlog: usize,
    /// What happens to an operation that finds no free slot.
    #[serde(default)]
    pub full: Full,
    /// What happens to a late operation.
    #[serde(default)]
    pub late: Late,
    /// How operations are issued at their intended start.
    #[serde(default)]
    pub pacer: Pacer,
    /// Where the time comes from.
    #[serde(default)]
    pub clock: ClockChoice,
    /// A `SCHED_FIFO` priority, 1 to 99.
    #[serde(default)]
    pub fifo: Option<u8>,
    /// Whether other threads go before the workers.
    #[serde(default)]
    pub low_priority: Option<LowPriority>,
    /// Whether memory is locked.
    #[serde(default = "yes")]
    pub lock_memory: bool,
    /// The length of the intervals of the series.
    #[serde(default = "default_interval")]
    pub interval_ns: Nanos,
    /// Whether each interval carries the buckets of its response times, and each progress its interval.
    #[serde(default)]
    pub interval_histograms: bool,
    /// The length of the part before the measured one.
    #[serde(default)]
    pub warm_up_ns: Nanos,
    /// The file that every operation is written to.
    #[serde(default)]
    pub samples: Option<PathBuf>,
    /// The file that what each worker did is written to.
    #[serde(default)]
    pub actions: Option<PathBuf>,
    /// Whether the load, once its target is open and its file set is made, waits to be started.
    #[serde(default)]
    pub wait_for_start: bool,
    /// The part of the schedule that this engine issues; None: all of it.
    #[serde(default)]
    pub part: Option<SchedulePart>,
    /// Whether lines on stdin start and end the load, and the end of stdin ends the engine.
    #[serde(default)]
    pub controlled: bool,
}

fn default_drain() -> Nanos {
    Nanos(30_000_000_000)
}

fn default_interval() -> Nanos {
    Nanos::SECOND
}

fn default_depth() -> u32 {
    128
}

/// About 500 MB of memory: a larger backlog would endanger the machine.
fn default_backlog() -> usize {
    10_000_000
}

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

impl LoadRequest {
    /// Returns when the run ends: the warm-up and the measured part; [`Nanos::NEVER`] without a duration.
    #[must_use]
    pub fn end(&self) -> Nanos {
        let end = |duration| self.warm_up_ns + duration;
        self.duration_ns.map_or(Nanos::NEVER, end)
    }

    /// Returns of each target whether it has streams.
    #[must_use]
    pub(crate) fn streamed_targets(&self) -> Vec<bool> {
        let has_streams = |target: &TargetSpec| match target {
            TargetSpec::Http(spec) => spec.events.is_some(),
            TargetSpec::WebSocket(spec) => spec.events.is_some(),
            _ => false,
        };
        match &self.target {
            TargetSpec::Several(several) => several
                .targets
                .iter()
                .map(|named| has_streams(&named.target))
                .collect(),
            target => vec![has_streams(target)],
        }
    }

    /// Returns the limits of good streams; None: no target has streams.
    #[must_use]
    pub(crate) fn stream_limits(&self) -> Option<Vec<StreamLimit>> {
        let any = self.streamed_targets().contains(&true);
        let good = || self.streams.clone().unwrap_or_default().good;
        any.then(good)
    }

    /// Checks the request without access to the system.
    ///
    /// # Errors
    /// `bad-request`: the first error, and what to do about it.
    pub fn check(&self) -> Result<(), EngineError> {
        let wrong = [self.wrong_number(), self.wrong_placement()];
        let wrong = wrong.map(|wrong| wrong.map(|(field, what)| (field.to_owned(), what)));
        let wrong = wrong.into_iter().flatten();
        let wrong = wrong.chain(self.wrong_target()).chain(self.wrong_part());
        let wrong = wrong.chain(self.wrong_process());
        match wrong.into_iter().next() {
            Some((field, what)) => Err(EngineError::request(
                "bad-request",
                format!("{field}: {what}"),
                "correct this field of the request",
            )
            .about(field)),
            None => Ok(()),
        }
    }

    /// Returns why the targets do not fit the filaments.
    fn wrong_target(&self) -> Option<(String, String)> {
        let all: Vec<usize> = (0..self.workload.filaments.len()).collect();
        let TargetSpec::Several(several) = &self.target else {
            return self.wrong_filament(&self.target, &all);
        };
        let field = |part: usize, field: &str| format!("target.targets[{part}].{field}");
        let mut used: Vec<Option<&str>> = vec![None; all.len()];
        for (part, named) in several.targets.iter().enumerate() {
            let before = &several.targets[..part];
            if named.name.is_empty() || before.iter().any(|other| other.name == named.name) {
                return Some((
                    field(part, "name"),
                    "each target needs a name of its own".to_owned(),
                ));
            }
            if let TargetSpec::Several(_) | TargetSpec::Dir(_) | TargetSpec::Nfs(_) = named.target {
                let what = "a target with a file set is the only target of its load, and several are not nested";
                return Some((field(part, "target"), what.to_owned()));
            }
            for place in &named.filaments {
                let Some(user) = used.get_mut(*place) else {
                    let what = format!("there is no filament {place}");
                    return Some((field(part, "filaments"), what));
                };
                if let Some(other) = user {
                    let what = format!("filament {place} uses the target {other} too");
                    return Some((field(part, "filaments"), what));
                }
                *user = Some(named.name.as_str());
            }
            let wrong = self.wrong_filament(&named.target, &named.filaments);
            if wrong.is_some() {
                return wrong;
            }
        }
        if several.targets.len() > TARGETS {
            return Some(("target.targets".to_owned(), format!("at most {TARGETS}")));
        }
        if self.pacer != Pacer::Spin {
            let what = "only the pacer spin issues operations to several targets";
            return Some(("pacer".to_owned(), what.to_owned()));
        }
        let place = used.iter().position(Option::is_none)?;
        let what = "it uses none of the targets".to_owned();
        Some((format!("workload.filaments[{place}]"), what))
    }

    /// Returns the first of these filaments that the target cannot execute: only targets with files execute filaments of
    /// type `files`, and they execute no others. The null target executes all.
    fn wrong_filament(&self, target: &TargetSpec, places: &[usize]) -> Option<(String, String)> {
        let has_files = match target {
            TargetSpec::Null(_) | TargetSpec::Several(_) => return None,
            TargetSpec::Dir(_) | TargetSpec::Nfs(_) => true,
            _ => false,
        };
        if has_files && self.pacer != Pacer::Spin {
            let what = "only the pacer spin issues operations on files";
            return Some(("pacer".to_owned(), what.to_owned()));
        }
        let filaments = &self.workload.filaments;
        let of_files = |place: &&usize| matches!(filaments[**place], FilamentSpec::Files(_));
        let place = places.iter().find(|place| of_files(place) != has_files)?;
        let what = if has_files {
            "a target with files executes only filaments of type files"
        } else {
            "a filament of type files needs a target with files"
        };
        let field = format!("workload.filaments[{place}]");
        Some((field, what.to_owned()))
    }

    /// Returns the placement of a worker among the workers of all engines.
    #[must_use]
    pub(crate) fn placement(&self, worker: usize) -> Placement {
        let part = self.part.unwrap_or(SchedulePart::WHOLE);
        // Both numbers of workers are bounded. Neighbours in the schedule are on different engines, so every engine has
        // as much as the others, however many workers there are.
        Placement {
            worker: worker as u32 * part.of + part.index,
            workers: self.workers as u32 * part.of,
        }
    }

    /// Returns why a process cannot be a filament.
    fn wrong_process(&self) -> Option<(String, String)> {
        let mut filaments = self.workload.filaments.iter().enumerate();
        let (place, what) = filaments.find_map(|(place, filament)| match filament {
            FilamentSpec::Process(spec) if spec.command.is_empty() => {
                Some((place, "command: it names no program"))
            }
            FilamentSpec::Process(_) if self.pacer != Pacer::Spin => {
                Some((place, "only the pacer spin passes events to a process"))
            }
            _ => None,
        })?;
        Some((format!("workload.filaments[{place}]"), what.to_owned()))
    }

    /// Returns why this engine cannot issue a part of the schedule: some filaments need what another engine knows.
    fn wrong_part(&self) -> Option<(String, String)> {
        let controlled = |what: &str| Some(("controlled".to_owned(), what.to_owned()));
        if self.controlled && self.wait_for_start {
            return controlled("not with wait_for_start: a line starts the load");
        }
        if self.controlled && self.pacer != Pacer::Spin {
            return controlled("only the pacer spin starts at a given time");
        }
        let part = self.part?;
        if !(1..=PARTS).contains(&part.of) || part.index >= part.of {
            let what = format!("of: 1 to {PARTS}, and index below it");
            return Some(("part".to_owned(), what));
        }
        let mut filaments = self.workload.filaments.iter().enumerate();
        let (place, what) = filaments.find_map(|(place, filament)| match filament {
            _ if part.of == 1 => None,
            FilamentSpec::Follow(_) => Some((place, "a filament that follows another one waits for operations that another engine issues")),
            FilamentSpec::Files(_) if !matches!(self.target, TargetSpec::Nfs(_)) => {
                Some((place, "several engines have a file set each on an NFS server only"))
            }
            FilamentSpec::Process(_) => Some((place, "its process is on one machine only")),
            _ => None,
        })?;
        Some((format!("workload.filaments[{place}]"), what.to_owned()))
    }

    fn wrong_number(&self) -> Option<(&'static str, String)> {
        if !(1..=WORKERS).contains(&self.workers) {
            return Some(("workers", format!("1 to {WORKERS}, not {}", self.workers)));
        }
        if !(1..=DEPTH).contains(&self.depth) {
            return Some(("depth", format!("1 to {DEPTH}, not {}", self.depth)));
        }
        if self.interval_ns < Nanos(1_000_000) {
            return Some(("interval_ns", "at least a millisecond".to_owned()));
        }
        if self.streams.is_some() && self.stream_limits().is_none() {
            return Some(("streams", "no target has events".to_owned()));
        }
        let none = self.duration_ns == Some(Nanos::ZERO);
        none.then(|| ("duration_ns", "more than zero".to_owned()))
    }

    fn wrong_placement(&self) -> Option<(&'static str, String)> {
        let (cpus, workers) = (self.cpus.as_ref().map(Vec::len), self.workers);
        if let Some(cpus) = cpus.filter(|cpus| *cpus != workers) {
            let message = format!("one for each of {workers} workers, not {cpus}");
            return Some(("cpus", message));
        }
        if self.fifo.is_some_and(|fifo| !(1..=99).contains(&fifo)) {
            return Some(("fifo", "priorities are 1 to 99".to_owned()));
        }
        if self.actions.is_some() && self.pacer != Pacer::Spin {
            return Some(("actions", "only the pacer spin has them".to_owned()));
        }
        let both = self.fifo.is_some() && self.low_priority.is_some();
        both.then(|| ("low_priority", "not with a real-time priority".to_owned()))
    }
}

/// Returns what the workload does to its file set.
#[must_use]
pub(crate) fn set_use<T>(workload: &WorkloadSpec<T>) -> SetUse {
    let chains = workload
        .filaments
        .iter()
        .flat_map(|filament| match filament {
            FilamentSpec::Files(spec) => &spec.chains[..],
            _ => &[],
        });
    let mut found = SetUse::default();
    for step in chains.flat_map(|chain| &chain.steps) {
        found.opens |= matches!(step.kind, Kind::Open | Kind::Close);
        found.changes |= matches!(
            step.kind,
            Kind::Write
                | Kind::Append
                | Kind::Setattr
                | Kind::Create
                | Kind::Remove
                | Kind::Rename
                | Kind::Mkdir
                | Kind::Rmdir
        );
    }
    found
}

/// Initial size of buffers if sizes are unlimited or unknown, as for a trace.
const UNKNOWN_BYTES: u64 = 256 << 10;

fn access<T>(filament: &FilamentSpec<T>) -> Option<&AccessSpec> {
    match filament {
        FilamentSpec::Open(spec) => Some(&spec.access),
        FilamentSpec::Closed(spec) => Some(&spec.access),
        FilamentSpec::PartlyOpen(spec) => Some(&spec.access),
        FilamentSpec::Follow(spec) => Some(&spec.access),
        FilamentSpec::Tpcb(_)
        | FilamentSpec::Spc1(_)
        | FilamentSpec::Files(_)
        | FilamentSpec::Trace(_)
        | FilamentSpec::Process(_) => None,
    }
}

/// Returns whether the workload may change data. A trace counts as writing: it is not read twice to find out.
#[must_use]
pub fn writes<T>(workload: &WorkloadSpec<T>) -> bool {
    let changes = |kind: &Kind| matches!(kind, Kind::Write | Kind::Discard);
    workload.filaments.iter().any(|filament| {
        access(filament).is_none_or(|access| access.kinds.iter().any(|(kind, _)| changes(kind)))
    })
}

/// Returns the size of the largest operation on files [bytes].
#[must_use]
pub(crate) fn largest_piece<T>(workload: &WorkloadSpec<T>) -> u32 {
    let pieces = workload.filaments.iter().map(|filament| match filament {
        FilamentSpec::Files(spec) => spec.piece_bytes,
        _ => 0,
    });
    pieces.max().unwrap_or_default()
}

/// Returns the initial size of operations' buffers [bytes]; larger operations may come.
#[must_use]
pub(crate) fn largest_bytes<T>(workload: &WorkloadSpec<T>) -> u32 {
    let largest = |filament: &FilamentSpec<T>| {
        if let FilamentSpec::Files(spec) = filament {
            return spec.piece_bytes.into();
        }
        let size = access(filament).and_then(|access| Distribution::new(&access.size).ok());
        size.map_or(UNKNOWN_BYTES, |size| size.range().1)
    };
    let most = workload.filaments.iter().map(largest).max();
    // A quarter of a megabyte fits any common size.
    let bounded = most.unwrap_or_default().min(UNKNOWN_BYTES);
    u32::try_from(bounded).unwrap_or(u32::MAX)
}

/// Returns what must be a multiple of the target's block: a name for messages, and the bytes.
pub fn multiples<T>(workload: &WorkloadSpec<T>) -> impl Iterator<Item = (String, u64)> {
    let each = workload.filaments.iter().enumerate();
    each.filter_map(|(place, filament)| access(filament).map(|access| (place, access)))
        .flat_map(|(place, access)| {
            let named = |what| format!("filaments[{place}].access.{what}");
            let align = Some((named("align_bytes"), access.align_bytes));
            let size = match access.size {
                DistributionSpec::Constant { value } => Some((named("size"), value)),
                _ => None,
            };
            // Requested sizes come before the alignment, which may follow from them.
            size.into_iter().chain(align)
        })
}

/// Returns the inputs of the workload's traces, in order.
pub fn traces<T>(workload: &WorkloadSpec<T>) -> impl Iterator<Item = &T> {
    workload
        .filaments
        .iter()
        .filter_map(|filament| match filament {
            FilamentSpec::Trace(trace) => Some(&trace.input),
            _ => None,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn workload(kinds: serde_json::Value, size: serde_json::Value) -> WorkloadSpec {
        let access = json!({"kinds": kinds, "size": size, "location": {"type": "uniform"}, "align_bytes": 512});
        let think = json!({"type": "constant", "value": 0});
        let user = json!({"type": "closed", "users": 1, "think": think, "access": access});
        serde_json::from_value(json!({"seed": 1, "filaments": [user]})).unwrap()
    }

    #[test]
    fn reads_and_flushes_change_nothing() {
        let size = json!({"type": "constant", "value": 4096});
        assert!(!writes(&workload(
            json!([["read", 1], ["flush", 1]]),
            size.clone()
        )));
        assert!(writes(&workload(
            json!([["read", 1], ["discard", 1]]),
            size.clone()
        )));
        let found: Vec<_> = multiples(&workload(json!([["read", 1]]), size)).collect();
        assert_eq!(found[0], ("filaments[0].access.size".to_owned(), 4096));
    }

    #[test]
    fn buffers_are_as_large_as_the_largest_size_up_to_a_bound() {
        let uniform = json!({"type": "uniform", "low": 512, "high": 8192});
        let endless = json!({"type": "exponential", "mean": 4096});
        assert_eq!(
            largest_bytes(&workload(json!([["read", 1]]), uniform)),
            8192
        );
        assert_eq!(
            largest_bytes(&workload(json!([["read", 1]]), endless)),
            256 << 10
        );
    }
}
