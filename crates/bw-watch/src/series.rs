//! Requests and replies, and the lines of a series that are not rows: docs/watch-format.md.

use crate::arguments::Roots;
use crate::columns::{ColumnKind, Columns};
use crate::machine;
use crate::system::{monotonic_ns, realtime_ns, units};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{fs, io};

/// The protocol's version.
pub const PROTOCOL: u32 = 1;

/// A request.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum SamplerRequest {
    /// Start a watch.
    Watch(WatchRequest),
    /// End a watch.
    End {
        /// The watch's id.
        id: i64,
    },
}

/// The parameters of a watch.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchRequest {
    /// The id, which the replies repeat.
    pub id: i64,
    /// The file to write; it must not exist.
    pub out: PathBuf,
    /// The root of the own tree.
    pub root_pid: i32,
    /// Interval between samples [ns].
    pub interval_ns: i64,
    /// Whether the statistics files are copied before and after.
    #[serde(default)]
    pub copies: bool,
    /// Processes that measure.
    #[serde(default)]
    pub watcher_pids: Vec<i32>,
    /// Roots of the targets' trees.
    #[serde(default)]
    pub extra_pids: Vec<i32>,
}

/// A reply.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum SamplerReply<'a> {
    /// The first line.
    Hello {
        /// `PROTOCOL`.
        protocol: u32,
        /// Process id of the sampler.
        pid: u32,
        /// Version of the sampler.
        version: &'a str,
    },
    /// A watch has started.
    Watching {
        /// The request's id.
        id: i64,
        /// Time of the first sample.
        begin_ns: i64,
    },
    /// A watch has ended.
    Watched {
        /// The watch's id.
        id: i64,
        /// The summary.
        #[serde(flatten)]
        done: &'a WatchSummary,
    },
    /// A request could not be executed.
    Error {
        /// The request's id; 0 if it cannot be read.
        id: i64,
        /// The reason.
        message: &'a str,
    },
}

/// The summary of a watch.
#[derive(Debug, Clone, Serialize)]
pub struct WatchSummary {
    /// Number of rows.
    pub samples: u64,
    /// Time of the first row.
    pub begin_ns: i64,
    /// Time of the last row.
    pub end_ns: i64,
    /// CPU time of the sampler during the watch.
    pub cost_ns: i64,
    /// Length of the file; 0 in the file itself, which is not complete then.
    pub bytes: u64,
    /// Sum of the delays of samples that were late by more than an interval.
    pub lost_ns: i64,
    /// Why the file is incomplete, else empty.
    pub error: String,
}

/// The file's version.
const VERSION: u32 = 1;

/// The line `series`.
#[derive(Serialize)]
pub(crate) struct SeriesLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    version: u32,
    interval_ns: i64,
    begin_ns: i64,
    realtime_ns: i64,
    boot_id: String,
    page_size: i64,
    ticks_per_s: i64,
    cpus: usize,
    root_pid: i32,
    absent: &'a [(String, String)],
    limits: BTreeMap<String, i64>,
}

/// The line `columns`.
#[derive(Serialize)]
pub(crate) struct ColumnsLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    names: Vec<&'a str>,
    kinds: Vec<&'static str>,
}

/// The line `end`.
#[derive(Serialize)]
pub(crate) struct EndLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    done: &'a WatchSummary,
    absent: &'a [(String, String)],
}

impl<'a> EndLine<'a> {
    /// Returns the line of this summary and of the data found unavailable since the first line.
    pub(crate) fn new(done: &'a WatchSummary, absent: &'a [(String, String)]) -> Self {
        Self {
            kind: "end",
            done,
            absent,
        }
    }
}

impl<'a> SeriesLine<'a> {
    /// Returns the line of a watch that starts now.
    pub(crate) fn now(request: &WatchRequest, roots: &Roots, columns: &'a Columns) -> Self {
        let (page_size, ticks_per_s) = units();
        let boot_id = fs::read_to_string(roots.proc.join("sys/kernel/random/boot_id"));
        let names = columns.named.iter();
        Self {
            kind: "series",
            version: VERSION,
            interval_ns: request.interval_ns,
            begin_ns: monotonic_ns(),
            realtime_ns: realtime_ns(),
            boot_id: boot_id.unwrap_or_default().trim().to_owned(),
            page_size,
            ticks_per_s,
            cpus: names.filter(|(name, _)| is_processor(name)).count(),
            root_pid: request.root_pid,
            absent: &columns.absent,
            limits: machine::of_machine(roots),
        }
    }
}

impl<'a> ColumnsLine<'a> {
    /// Returns the line of these columns.
    pub(crate) fn of(columns: &'a Columns) -> Self {
        Self {
            kind: "columns",
            names: columns.named.iter().map(|(name, _)| &name[..]).collect(),
            kinds: columns.named.iter().map(|(_, kind)| word(*kind)).collect(),
        }
    }
}

fn word(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Counter => "counter",
        ColumnKind::Gauge => "gauge",
    }
}

fn is_processor(name: &str) -> bool {
    name.starts_with("cpu/") && name.ends_with("/idle")
}

/// Writes a line.
pub(crate) fn write_line(out: &mut Vec<u8>, line: &impl Serialize) {
    // Writing to memory cannot fail, and the keys of all maps in these types are strings.
    let written: Result<(), io::Error> = serde_json::to_writer(&mut *out, line).map_err(Into::into);
    debug_assert!(written.is_ok());
    out.push(b'\n');
}
