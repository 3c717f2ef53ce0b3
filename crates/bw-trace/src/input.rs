//! The options of every request that reads a trace, and the report of what reading did.
//!
//! Decision: an absent option means the format's own default (a reorder window, how equal stamps are treated).
//! Nothing is assumed silently: `TraceReport` states what was in force and how often each policy acted.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A trace to read, with policies for what the trace leaves open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceInput {
    /// The file, or several that are merged by time; `-` is standard input. For a blktrace
    /// binary the common prefix of its per-CPU files is enough.
    pub path: Paths,
    /// The format; None: determined from the content.
    #[serde(default)]
    pub format: Option<Format>,
    /// Skip and count malformed lines instead of refusing the trace.
    #[serde(default)]
    pub lenient: bool,
    /// How far back in time a stamp may lie and still be sorted [ns]; None: the format's default.
    #[serde(default)]
    pub window_ns: Option<u64>,
    /// How many operations the reorder window may hold; None: 65,536.
    #[serde(default)]
    pub window_rows: Option<usize>,
    /// How operations with equal stamps are treated; None: the format's default.
    #[serde(default)]
    pub duplicates: Option<Duplicates>,
    /// Omit what arrives before this point of the trace, which becomes the new start [ns].
    #[serde(default)]
    pub from_ns: u64,
    /// Omit what arrives this long after the start or later [ns]; None: nothing.
    #[serde(default)]
    pub for_ns: Option<u64>,
    /// Only these devices, by name; None: all.
    #[serde(default)]
    pub devices: Option<Vec<String>>,
    /// How the trace's addresses are mapped to the target.
    #[serde(default)]
    pub offsets: Offsets,
    /// The size of the target [bytes]; None: addresses are not limited.
    #[serde(default)]
    pub target_bytes: Option<u64>,
    /// The size of the device that the trace was taken from, for `scale` [bytes]; None: the trace is read once
    /// beforehand to determine it.
    #[serde(default)]
    pub source_bytes: Option<u64>,
    /// The alignment of offsets and sizes that the target requires [bytes]; None: as in the trace.
    #[serde(default)]
    pub align_bytes: Option<u64>,
    /// Speed relative to the trace, in millionths: 4,000,000 is four times as fast.
    #[serde(default = "original_speed")]
    pub speed_micro: u64,
    /// The meaning of the number in a `wait` line of fio's iolog version 2.
    #[serde(default)]
    pub v2_wait: V2Wait,
    /// Which event of blktrace is the arrival; None: Q if the trace contains it, otherwise D.
    #[serde(default)]
    pub arrivals: Option<ArrivalEvent>,
    /// The unit of MQSim's stamps, which is not in the file [ns]; None: 1.
    #[serde(default)]
    pub stamp_unit_ns: Option<u64>,
    /// Whether recorded requests with other methods than GET, HEAD and OPTIONS are replayed too.
    #[serde(default)]
    pub unsafe_methods: bool,
    /// Whether recorded requests are sent with their credentials.
    #[serde(default)]
    pub credentials: bool,
}

fn original_speed() -> u64 {
    1_000_000
}

impl TraceInput {
    /// Returns the input that reads `path` with every option at its default.
    #[must_use]
    pub fn new(path: &str) -> Self {
        Self {
            path: Paths::One(path.to_owned()),
            format: None,
            lenient: false,
            window_ns: None,
            window_rows: None,
            duplicates: None,
            from_ns: 0,
            for_ns: None,
            devices: None,
            offsets: Offsets::Exact,
            target_bytes: None,
            source_bytes: None,
            align_bytes: None,
            speed_micro: original_speed(),
            v2_wait: V2Wait::Us,
            arrivals: None,
            stamp_unit_ns: None,
            unsafe_methods: false,
            credentials: false,
        }
    }
}

/// One file or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Paths {
    /// One file.
    One(String),
    /// Several, merged by time.
    Several(Vec<String>),
}

impl Paths {
    /// Returns the files in the order given.
    #[must_use]
    pub fn list(&self) -> &[String] {
        match self {
            Self::One(path) => std::slice::from_ref(path),
            Self::Several(paths) => paths,
        }
    }
}

/// A trace's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Our own: docs/trace-format.md.
    Bw,
    /// blkreplay's `.load`.
    Load,
    /// fio's iolog, version 2 or 3.
    FioIolog,
    /// The text that blkparse prints by default.
    Blkparse,
    /// blktrace's binary files.
    Blktrace,
    /// MSR Cambridge CSV.
    Msr,
    /// Systor'17 CSV.
    Systor,
    /// SPC, in the variant of the UMass repository.
    Spc,
    /// CloudPhysics virtual disks, versions 1 and 2.
    Vscsi,
    /// Alibaba block traces of 2020.
    Alibaba,
    /// Tencent CBS.
    Tencent,
    /// MQSim's ASCII.
    Mqsim,
    /// What strace prints.
    Strace,
    /// An access log of nginx or Apache.
    AccessLog,
    /// An HTTP archive, version 1.2.
    Har,
    /// Requests as JSON objects, one on each line.
    Jsonl,
}

impl Format {
    /// Every format that can be read.
    pub const ALL: [Self; 16] = [
        Self::Bw,
        Self::Load,
        Self::FioIolog,
        Self::Blkparse,
        Self::Blktrace,
        Self::Msr,
        Self::Systor,
        Self::Spc,
        Self::Vscsi,
        Self::Alibaba,
        Self::Tencent,
        Self::Mqsim,
        Self::Strace,
        Self::AccessLog,
        Self::Har,
        Self::Jsonl,
    ];

    /// Returns whether its operations are HTTP requests.
    #[must_use]
    pub fn has_requests(self) -> bool {
        matches!(self, Self::AccessLog | Self::Har | Self::Jsonl)
    }

    /// Returns its name in options and results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bw => "bw",
            Self::Load => "load",
            Self::FioIolog => "fio-iolog",
            Self::Blkparse => "blkparse",
            Self::Blktrace => "blktrace",
            Self::Msr => "msr",
            Self::Systor => "systor",
            Self::Spc => "spc",
            Self::Vscsi => "vscsi",
            Self::Alibaba => "alibaba",
            Self::Tencent => "tencent",
            Self::Mqsim => "mqsim",
            Self::Strace => "strace",
            Self::AccessLog => "access-log",
            Self::Har => "har",
            Self::Jsonl => "jsonl",
        }
    }
}

/// How operations with equal stamps are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Duplicates {
    /// They arrive together.
    Burst,
    /// They are spread evenly until the next stamp, over one second at most.
    Spread,
}

/// How the trace's addresses are mapped to the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offsets {
    /// As they are; one beyond the target is an error.
    #[default]
    Exact,
    /// Modulo the target's size: locality is preserved, distant addresses may coincide.
    Wrap,
    /// In proportion to the sizes: the overall distribution is preserved, neighbours may overlap.
    Scale,
}

/// The meaning of the number in a `wait` line of fio's iolog version 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum V2Wait {
    /// Microseconds after the line before: fio's manual.
    #[default]
    Us,
    /// Milliseconds since the start: fio's code (iolog.c, `mtime_since_genesis`).
    Ms,
}

/// Which event of blktrace is the arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalEvent {
    /// Q: the request enters the block layer's queue.
    Queue,
    /// D: the request is issued to the driver.
    Issue,
}

/// How many skipped lines are stored with their reason.
pub(crate) const REMEMBERED: usize = 10;

/// The report of one reading: it counts everything that was dropped or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceReport {
    /// The file, or the first of several.
    pub path: String,
    /// All files that were read.
    pub paths: Vec<String>,
    /// The format, given or determined.
    pub format: Format,
    /// Operations returned.
    pub operations: u64,
    /// Malformed lines or records that were skipped (lenient).
    pub skipped_lines: u64,
    /// The first of them, with position and reason.
    pub skipped_first: Vec<String>,
    /// Lines or records that are not an operation's arrival: other events, summaries, other commands.
    pub other_events: u64,
    /// Completions that no arrival matched.
    pub unmatched_completions: u64,
    /// Operations omitted by `devices`, `from_ns` and `for_ns`. Of those after the end set by `for_ns` only the
    /// first counts, because reading ends there.
    pub left_out: u64,
    /// Operations whose stamp was before that of the previous line.
    pub reordered: u64,
    /// The reorder window [ns].
    pub window_ns: u64,
    /// How equal stamps were treated.
    pub duplicates: Duplicates,
    /// Operations moved in time from a stamp that they shared with another.
    pub spread: u64,
    /// How addresses were mapped.
    pub offsets: Offsets,
    /// Operations whose address was changed by `wrap`.
    pub wrapped: u64,
    /// Whether addresses were scaled.
    pub scaled: bool,
    /// The size that `scale` used as the trace's own [bytes].
    pub source_bytes: Option<u64>,
    /// Operations whose offset or size was changed to be aligned.
    pub aligned: u64,
    /// Operations made smaller because 4 GiB or the target's size is the limit.
    pub clipped: u64,
    /// Speed relative to the trace, in millionths.
    pub speed_micro: u64,
    /// The names of the devices of the operations that `devices`, `from_ns` and `for_ns` chose, in the order of
    /// their first appearance in the trace.
    pub devices: Vec<String>,
    /// Counts of recorded requests; None: the trace has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestCounts>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// The counts of recorded requests, before `devices`, `from_ns` and `for_ns`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestCounts {
    /// Different requests.
    pub distinct: u64,
    /// Requests that were skipped because their method is not safe.
    pub unsafe_methods: u64,
    /// Records that were skipped because they have no request that can be sent: none, CONNECT, an invalid one.
    pub unreplayable: u64,
    /// Those records by what they have instead: `data:`, `CONNECT`, `no request`, `an invalid request`.
    pub unsendable: BTreeMap<String, u64>,
    /// Requests that were skipped because their body is described (`multipart/form-data`), but not recorded.
    pub lost_bodies: u64,
    /// Requests whose method usually has a body, and none was recorded.
    pub without_body: u64,
    /// Requests whose body does not have the length that the trace states.
    pub other_lengths: u64,
    /// Requests that are sent without their credentials.
    pub credentials: u64,
    /// Requests whose stamp is a whole second.
    pub whole_seconds: u64,
}
