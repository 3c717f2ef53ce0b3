//! What reading a trace did to it: the policies in force and how often each one acted.

use crate::input::{Duplicates, Format, Offsets};
use serde::Serialize;

/// How many skipped lines are remembered with their reason.
pub const REMEMBERED: usize = 10;

/// The account of one reading: nothing is dropped or changed without being counted here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceReport {
    /// The file, or the first of several.
    pub path: String,
    /// Every file that was read.
    pub paths: Vec<String>,
    /// The format, given or found.
    pub format: Format,
    /// Operations handed on.
    pub operations: u64,
    /// Malformed lines or records that were skipped (lenient).
    pub skipped_lines: u64,
    /// The first of them, with place and reason.
    pub skipped_first: Vec<String>,
    /// Lines or records that are no operation's arrival: other events, summaries, other commands.
    pub other_events: u64,
    /// Completions that no arrival matched.
    pub unmatched_completions: u64,
    /// Operations left out by `devices`, `from_ns` and `for_ns`; of those behind the end that `for_ns` sets only the
    /// first, because reading ends there.
    pub left_out: u64,
    /// Operations whose stamp was before that of the line before.
    pub reordered: u64,
    /// The reorder window [ns].
    pub window_ns: u64,
    /// What equal stamps mean.
    pub duplicates: Duplicates,
    /// Operations moved in time from the stamp that they shared with another.
    pub spread: u64,
    /// How addresses were mapped.
    pub offsets: Offsets,
    /// Operations whose address was changed by `wrap`.
    pub wrapped: u64,
    /// Whether addresses were scaled.
    pub scaled: bool,
    /// The size that `scale` took as the trace's own [bytes].
    pub source_bytes: Option<u64>,
    /// Operations whose offset or size was changed to be aligned.
    pub aligned: u64,
    /// Operations made smaller because 4 GiB or the target's size is the limit.
    pub clipped: u64,
    /// How much faster than the trace, in millionths.
    pub speed_micro: u64,
    /// The devices' names, in the order of their first appearance: `Row::device` is the index.
    pub devices: Vec<String>,
    /// What else the reader of the result should know.
    pub notes: Vec<String>,
}
