//! The `result` of docs/engine-protocol.md.

use crate::clock::ClockReport;
use crate::environment::EnvironmentReport;
use crate::file_set::make::MakeReport;
use crate::groups::GroupRecords;
use crate::output_file::FileReport;
use crate::pool::WorkerOutcome;
use crate::processes::ProcessReport;
use crate::record::{FlowCounts, OperationCounts};
use crate::reporter::per_s;
use crate::request::{LoadRequest, Pacer};
use bw_model::Nanos;
use bw_record::recorder::Recorder;
use bw_record::streams::StreamSummary;
use bw_record::summary::{
    GroupSummary, HistogramSummary, IntervalSummary, KindSummary, SequenceSummary,
};
use bw_schedule::file_counts::{FileSetReport, RunFiles};
use bw_trace::input::TraceReport;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a worker spent its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WorkerReport {
    /// The CPU it was bound to.
    pub cpu: Option<usize>,
    /// Time spent waiting by spinning.
    pub spun_ns: Nanos,
    /// Time spent waiting by sleeping.
    pub slept_ns: Nanos,
    /// Time spent on everything else.
    pub busy_ns: Nanos,
    /// Its spin margin at the end.
    pub guard_ns: Nanos,
    /// How the kernel scheduled it; None for the pacers without a worker.
    pub scheduling: Option<SchedulingReport>,
}

/// How the kernel scheduled a worker's thread, as the thread itself read it before time zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SchedulingReport {
    /// Its policy: `SCHED_OTHER`, `SCHED_IDLE` or `SCHED_FIFO`, or what it inherited.
    pub policy: &'static str,
    /// Its nice value; without effect under `SCHED_IDLE` and `SCHED_FIFO`.
    pub nice: i32,
}

/// The three figures of Little's law, of the measured operations until the last of them has ended: the first is the
/// product of the other two.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LittleLaw {
    /// Mean number of operations in flight: the time integral of their number, divided by the time from the start of the
    /// measured part to the last end.
    pub in_flight_mean: f64,
    /// Operations that ended per second of this time.
    pub rate_per_s: f64,
    /// Mean time from actual start to end, of all that ended, from the histograms.
    pub time_ns_mean: f64,
}

impl LittleLaw {
    /// Returns the figures from the records of all workers; None if nothing was measured, or if the pacer records an
    /// operation only when it has ended.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    fn of(
        reports: &[WorkerOutcome],
        recorder: &Recorder,
        pacer: Pacer,
        length: Nanos,
    ) -> Option<Self> {
        let ended = reports
            .iter()
            .map(|report| report.record.counts().completed);
        let rate_per_s = per_s(ended.sum(), length).filter(|_| pacer == Pacer::Spin)?;
        let area: u128 = reports.iter().map(|one| one.record.in_flight_area()).sum();
        let failed_ns: u128 = reports.iter().map(|one| one.record.failed_ns()).sum();
        let all = recorder.all();
        let whole_ns = (all.service.sum() + failed_ns) as f64;
        Some(Self {
            in_flight_mean: area as f64 / length.0 as f64,
            rate_per_s,
            time_ns_mean: whole_ns / all.operations.max(1) as f64,
        })
    }

    /// Returns the figures of several engines together.
    pub(crate) fn merged(parts: &[Self]) -> Option<Self> {
        let sum = |of: fn(&Self) -> f64| parts.iter().map(of).sum::<f64>();
        let rate_per_s = sum(|one| one.rate_per_s);
        let weighted = sum(|one| one.rate_per_s * one.time_ns_mean);
        (!parts.is_empty()).then(|| Self {
            in_flight_mean: sum(|one| one.in_flight_mean),
            rate_per_s,
            time_ns_mean: if rate_per_s > 0.0 {
                weighted / rate_per_s
            } else {
                0.0
            },
        })
    }
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct LoadResult {
    /// `load/1`.
    pub schema: &'static str,
    /// Whether a signal ended it.
    pub interrupted: bool,
    /// Why the engine ended the run early: `backlog`.
    pub stopped: Option<&'static str>,
    /// `CLOCK_REALTIME` at time zero.
    pub started_ns: u64,
    /// From time zero to the last completion.
    pub elapsed_ns: Nanos,
    /// The target's description.
    pub target: serde_json::Value,
    /// The clock.
    pub clock: ClockReport,
    /// How operations were issued at their intended start.
    pub pacer: Pacer,
    /// The counts.
    pub counts: OperationCounts,
    /// The counts of the measured part, whatever the intended start.
    pub flow: FlowCounts,
    /// Length of the measured part; None if it is empty.
    pub measured_ns: Option<Nanos>,
    /// Intended starts per second of the measured part.
    pub intended_rate_per_s: Option<f64>,
    /// Actual starts per second of the measured part.
    pub offered_rate_per_s: Option<f64>,
    /// Ends per second of the measured part.
    pub achieved_rate_per_s: Option<f64>,
    /// Little's law.
    pub little_law: Option<LittleLaw>,
    /// The lateness that the generator caused.
    pub lateness_ns: HistogramSummary,
    /// Summaries by kind, and of all operations.
    pub kinds: BTreeMap<String, KindSummary>,
    /// Summaries by label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, KindSummary>>,
    /// Summaries of the operations of each filament and of each target, where there are several filaments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupSummary>,
    /// The streams; None: no target has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<StreamSummary>,
    /// Summaries of sequences by chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequences: Option<BTreeMap<String, SequenceSummary>>,
    /// The file set, and what was drawn from its tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_set: Option<FileSetResult>,
    /// The series.
    pub intervals: Vec<IntervalSummary>,
    /// The workers.
    pub workers: Vec<WorkerReport>,
    /// The process's environment.
    pub environment: EnvironmentReport,
    /// The traces that were replayed.
    pub traces: Vec<TraceReport>,
    /// The processes of filaments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessReport>,
    /// The file of rows.
    pub samples: Option<FileReport>,
    /// The file of the workers' actions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actions: Option<FileReport>,
}

/// The file set: what was drawn from its tables, and how it was made.
#[derive(Clone, Debug, Serialize)]
pub struct FileSetResult {
    #[serde(flatten)]
    drawn: FileSetReport,
    /// None: the target has no files.
    made: Option<MakeReport>,
}

/// The parts of a result.
pub(crate) struct ResultParts<'a> {
    /// The request.
    pub request: &'a LoadRequest,
    /// The outcome of each worker.
    pub reports: Vec<WorkerOutcome>,
    /// `CLOCK_REALTIME` at time zero.
    pub started_ns: u64,
    /// Whether a signal ended the run.
    pub interrupted: bool,
    pub clock: ClockReport,
    /// The process's environment.
    pub environment: EnvironmentReport,
    /// The series.
    pub intervals: Vec<IntervalSummary>,
    /// The file of rows.
    pub samples: Option<FileReport>,
    /// The file of the workers' actions.
    pub actions: Option<FileReport>,
    /// The counts of all workers.
    pub counts: OperationCounts,
    /// The file set.
    pub files: Option<&'a RunFiles>,
    /// How it was made.
    pub made: Option<MakeReport>,
    /// The traces that were replayed.
    pub traces: Vec<TraceReport>,
    /// The processes of filaments.
    pub processes: Vec<ProcessReport>,
}

/// Assembles a result.
#[must_use]
pub(crate) fn assemble(parts: ResultParts<'_>) -> LoadResult {
    let groups = GroupRecords::merged(parts.reports.iter().map(|report| report.record.groups()));
    let recorder = groups.whole();
    let counts = parts.counts;
    let mut flow = FlowCounts::default();
    for report in &parts.reports {
        flow += report.record.flow();
    }
    let measured = measured_length(parts.request, &parts.reports);
    LoadResult {
        schema: "load/1",
        interrupted: parts.interrupted,
        stopped: (counts.backlogs > 0).then_some("backlog"),
        started_ns: parts.started_ns,
        elapsed_ns: last_end(&parts.reports),
        target: target(&parts.reports),
        clock: parts.clock,
        pacer: parts.request.pacer,
        intended_rate_per_s: per_s(counts.intended, measured),
        offered_rate_per_s: per_s(flow.issued, measured),
        achieved_rate_per_s: per_s(flow.completed, measured),
        counts,
        flow,
        measured_ns: (measured > Nanos::ZERO).then_some(measured),
        little_law: LittleLaw::of(
            &parts.reports,
            &recorder,
            parts.request.pacer,
            last_end(&parts.reports) - parts.request.warm_up_ns,
        ),
        lateness_ns: bw_record::summary::lateness(&recorder),
        kinds: bw_record::summary::kinds(&recorder),
        labels: groups.labels(),
        groups: groups.summaries(),
        streams: streams(&parts.reports, measured),
        sequences: parts.files.map(|files| sequences(files, &recorder)),
        file_set: parts.files.map(|files| FileSetResult {
            drawn: files.report(),
            made: parts.made,
        }),
        intervals: parts.intervals,
        workers: parts
            .reports
            .iter()
            .map(|report| worker(parts.request, report))
            .collect(),
        environment: parts.environment,
        traces: parts.traces,
        processes: parts.processes,
        samples: parts.samples,
        actions: parts.actions,
    }
}

/// Members of the target's description that are counted per worker.
const COUNTED: [&str; 21] = [
    "connections",
    "reconnects",
    "failed_connects",
    "sent_bytes",
    "received_bytes",
    "unrequested",
    "nil_replies",
    "status_2xx",
    "status_3xx",
    "status_4xx",
    "status_5xx",
    "timeouts",
    "late_replies",
    "late_errors",
    "unknown_replies",
    "malformed_replies",
    "jukebox",
    "resent",
    "lost",
    "lookups",
    "verifier_changes",
];

/// Returns the target's description by the first worker, with the counts summed over all.
fn target(reports: &[WorkerOutcome]) -> serde_json::Value {
    merged_target(reports.iter().map(|report| &report.target))
}

/// Members of the target's description that are figures of a histogram of each worker.
const MEASURED: [&str; 2] = ["connect_ns", "handshake_ns"];

/// Returns the first description with the counts summed over all, and the histograms merged.
pub(crate) fn merged_target<'a>(
    targets: impl Iterator<Item = &'a serde_json::Value>,
) -> serde_json::Value {
    let targets: Vec<_> = targets.collect();
    let mut all = targets.first().copied().cloned().unwrap_or_default();
    for more in targets.iter().skip(1) {
        for name in COUNTED {
            if let (Some(one), Some(other)) = (all[name].as_u64(), more[name].as_u64()) {
                all[name] = (one + other).into();
            }
        }
    }
    for name in MEASURED {
        if let Some(merged) = merged_histogram(&targets, name) {
            all[name] = merged;
        }
    }
    // The first text that came with each.
    for texts in targets
        .iter()
        .skip(1)
        .map(|target| &target["grpc_messages"])
    {
        for (status, text) in texts.as_object().into_iter().flatten() {
            all["grpc_messages"]
                .as_object_mut()
                .map(|known| known.entry(status).or_insert_with(|| text.clone()));
        }
    }
    // Of several targets, each.
    let names: Vec<String> = match all["targets"].as_object() {
        Some(several) => several.keys().cloned().collect(),
        None => Vec::new(),
    };
    for name in names {
        let own: Vec<_> = targets
            .iter()
            .map(|target| &target["targets"][&name])
            .collect();
        all["targets"][&name] = merged_target(own.into_iter());
    }
    all
}

/// Returns this member of all descriptions as one; None if there is one description, or none has the member.
fn merged_histogram(targets: &[&serde_json::Value], name: &str) -> Option<serde_json::Value> {
    let parts = targets.iter().filter_map(|target| target.get(name));
    let parts = parts.map(|part| serde_json::from_value::<HistogramSummary>(part.clone()));
    let parts: Vec<_> = parts.collect::<Result<_, _>>().ok()?;
    if targets.len() < 2 || parts.is_empty() {
        return None;
    }
    let merged = HistogramSummary::merged(parts.iter()).ok()?;
    serde_json::to_value(merged).ok()
}

/// Returns the streams of all workers; None: no target has any.
fn streams(reports: &[WorkerOutcome], measured: Nanos) -> Option<StreamSummary> {
    let records = reports.iter().filter_map(|one| one.record.streams());
    let merged = records.cloned().reduce(|mut all, one| {
        all.merge(one);
        all
    });
    merged.map(|all| all.summary(measured))
}

/// Returns the sequences of each chain by its name.
fn sequences(files: &RunFiles, recorder: &Recorder) -> BTreeMap<String, SequenceSummary> {
    let records = recorder.sequences().iter().map(SequenceSummary::from);
    files.chain_names().into_iter().zip(records).collect()
}

/// Returns when the last operation completed.
#[must_use]
pub(crate) fn last_end(reports: &[WorkerOutcome]) -> Nanos {
    let ends = reports.iter().map(|report| report.record.last_end());
    ends.max().unwrap_or_default()
}

/// Returns the length of the measured part: as requested, shortened if the run was ended early;
/// without a duration, until the last completion.
fn measured_length(request: &LoadRequest, reports: &[WorkerOutcome]) -> Nanos {
    let stopped = reports
        .iter()
        .map(|report| report.end)
        .max()
        .unwrap_or_default();
    let end = stopped.min(request.end());
    let end = if end == Nanos::NEVER {
        last_end(reports)
    } else {
        end
    };
    end - request.warm_up_ns
}

fn worker(request: &LoadRequest, report: &WorkerOutcome) -> WorkerReport {
    WorkerReport {
        cpu: request
            .cpus
            .as_ref()
            .and_then(|cpus| cpus.get(report.worker))
            .copied(),
        spun_ns: report.times.spun,
        slept_ns: report.times.slept,
        busy_ns: report.times.busy,
        guard_ns: report.spin_margin,
        scheduling: report.scheduling.map(|found| SchedulingReport {
            policy: found.policy,
            nice: found.nice,
        }),
    }
}
