//! What is asked and answered, and the lines of a series that are written once or seldom: docs/watch-format.md.

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
    /// Watch.
    Watch(WatchRequest),
    /// End.
    End {
        /// Of the watch.
        id: i64,
    },
}

/// What is to be watched.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchRequest {
    /// The replies repeat it.
    pub id: i64,
    /// The file to write; it must not exist.
    pub out: PathBuf,
    /// The root of the own tree.
    pub root_pid: i32,
    /// Between samples [ns].
    pub interval_ns: i64,
    /// Whether the statistic files are copied before and after.
    #[serde(default)]
    pub copies: bool,
    /// Processes that measure.
    #[serde(default)]
    pub watcher_pids: Vec<i32>,
    /// Roots of the targets' trees.
    #[serde(default)]
    pub extra_pids: Vec<i32>,
}

/// An answer.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum SamplerReply<'a> {
    /// The first line.
    Hello {
        /// `PROTOCOL`.
        protocol: u32,
        /// Of the sampler.
        pid: u32,
        /// Of the sampler.
        version: &'a str,
    },
    /// A watch has started.
    Watching {
        /// Of the request.
        id: i64,
        /// Time of the first sample.
        begin_ns: i64,
    },
    /// A watch has ended.
    Watched {
        /// Of the watch.
        id: i64,
        /// What was done.
        #[serde(flatten)]
        done: &'a WatchSummary,
    },
    /// A request could not be done.
    Error {
        /// Of the request; 0 if it has none that can be read.
        id: i64,
        /// Why.
        message: &'a str,
    },
}

/// What a watch did.
#[derive(Debug, Clone, Serialize)]
pub struct WatchSummary {
    /// Rows.
    pub samples: u64,
    /// Time of the first row.
    pub begin_ns: i64,
    /// Time of the last row.
    pub end_ns: i64,
    /// Processor time of the sampler meanwhile.
    pub cost_ns: i64,
    /// Length of the file; in the file itself, where it is not known yet, 0.
    pub bytes: u64,
    /// Sum of what samples were late by more than an interval.
    pub lost_ns: i64,
    /// Why the file is not whole, else empty.
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
    /// Takes what was done, and what was found missing since the first line.
    pub(crate) fn new(done: &'a WatchSummary, absent: &'a [(String, String)]) -> Self {
        Self {
            kind: "end",
            done,
            absent,
        }
    }
}

impl<'a> SeriesLine<'a> {
    /// Returns the line of a watch that begins now.
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
    // Writing into memory cannot fail, and these types have no map with keys but strings.
    let written: Result<(), io::Error> = serde_json::to_writer(&mut *out, line).map_err(Into::into);
    debug_assert!(written.is_ok());
    out.push(b'\n');
}
