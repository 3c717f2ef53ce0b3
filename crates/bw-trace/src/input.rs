//! What is to be read, and by which policies: the options of every request that reads a trace.
//!
//! Decision: an absent option means the format's own default (a reorder window, how equal stamps
//! are treated), never a silent guess; what was in force is in the [`crate::report::TraceReport`].

use serde::{Deserialize, Serialize};

/// A trace to be read, with the policies for what it leaves open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceInput {
    /// The file, or several that are merged by time; `-` is the standard input. For a blktrace
    /// binary the common prefix of its per-CPU files is enough.
    pub path: Paths,
    /// The format; None: found from the content.
    #[serde(default)]
    pub format: Option<Format>,
    /// Skip and count malformed lines instead of refusing the trace.
    #[serde(default)]
    pub lenient: bool,
    /// How far back in time a stamp may lie to be put in order [ns]; None: the format's default.
    #[serde(default)]
    pub window_ns: Option<u64>,
    /// How many operations the reorder window may hold; None: 65,536.
    #[serde(default)]
    pub window_rows: Option<usize>,
    /// What becomes of operations with equal stamps; None: the format's default.
    #[serde(default)]
    pub duplicates: Option<Duplicates>,
    /// Leave out what arrives before this point of the trace, which becomes the new start [ns].
    #[serde(default)]
    pub from_ns: u64,
    /// Leave out what arrives this long after the start or later [ns]; None: nothing.
    #[serde(default)]
    pub for_ns: Option<u64>,
    /// Only these devices, by name; None: all.
    #[serde(default)]
    pub devices: Option<Vec<String>>,
    /// How the trace's addresses become the target's.
    #[serde(default)]
    pub offsets: Offsets,
    /// The size of the target [bytes]; None: addresses are not limited.
    #[serde(default)]
    pub target_bytes: Option<u64>,
    /// The size of what the trace was taken from, for `scale` [bytes]; None: the trace is read once
    /// beforehand to find it.
    #[serde(default)]
    pub source_bytes: Option<u64>,
    /// The alignment of offsets and sizes that the target asks for [bytes]; None: as in the trace.
    #[serde(default)]
    pub align_bytes: Option<u64>,
    /// How much faster than the trace, in millionths: 4,000,000 is four times as fast.
    #[serde(default = "original_speed")]
    pub speed_micro: u64,
    /// What the number in a `wait` line of fio's iolog version 2 means.
    #[serde(default)]
    pub v2_wait: V2Wait,
    /// Which event of blktrace is the arrival; None: Q where the trace has it, else D.
    #[serde(default)]
    pub arrivals: Option<Arrivals>,
    /// The unit of MQSim's stamps, which is not in the file [ns]; None: 1.
    #[serde(default)]
    pub stamp_unit_ns: Option<u64>,
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
    /// SPC, as the UMass repository has it.
    Spc,
    /// CloudPhysics virtual disks, versions 1 and 2.
    Vscsi,
    /// Alibaba block traces of 2020.
    Alibaba,
    /// Tencent CBS.
    Tencent,
    /// MQSim's ASCII.
    Mqsim,
}

impl Format {
    /// Every format that can be read.
    pub const ALL: [Self; 12] = [
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
    ];

    /// Returns the word for it in options and results.
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
        }
    }
}

/// What becomes of operations with equal stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Duplicates {
    /// They arrive together.
    Burst,
    /// They are spread evenly until the next stamp, over one second at most.
    Spread,
}

/// How the trace's addresses become the target's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offsets {
    /// As they are; one beyond the target is an error.
    #[default]
    Exact,
    /// Modulo the target's size: locality stays, distant places may fall together.
    Wrap,
    /// In proportion to the sizes: the picture of the whole stays, neighbours may overlap.
    Scale,
}

/// What the number in a `wait` line of fio's iolog version 2 means.
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
pub enum Arrivals {
    /// Q: the request enters the block layer's queue.
    Queue,
    /// D: the request is issued to the driver.
    Issue,
}
