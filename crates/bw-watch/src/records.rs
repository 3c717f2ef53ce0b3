//! Lines of the file that are written once, or seldom: `series`, `columns`, `end`.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use serde::Serialize;

use crate::columns::{Columns, Kind};
use crate::limits;
use crate::protocol::{Begin, Done};
use crate::roots::Roots;
use crate::system::{monotonic_ns, realtime_ns, units};

/// The file's version.
const VERSION: u32 = 1;

/// The line `series`.
#[derive(Serialize)]
pub struct Series<'a> {
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
pub struct Names<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    names: Vec<&'a str>,
    kinds: Vec<&'static str>,
}

/// The line `end`.
#[derive(Serialize)]
pub struct End<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    done: &'a Done,
    absent: &'a [(String, String)],
}

impl<'a> End<'a> {
    /// Takes what was done, and what was found missing since the first line.
    pub fn new(done: &'a Done, absent: &'a [(String, String)]) -> Self {
        Self {
            kind: "end",
            done,
            absent,
        }
    }
}

impl<'a> Series<'a> {
    /// Returns the line of a watch that begins now.
    pub fn now(request: &Begin, roots: &Roots, columns: &'a Columns) -> Self {
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
            limits: limits::of_machine(roots),
        }
    }
}

impl<'a> Names<'a> {
    /// Returns the line of these columns.
    pub fn of(columns: &'a Columns) -> Self {
        Self {
            kind: "columns",
            names: columns.named.iter().map(|(name, _)| &name[..]).collect(),
            kinds: columns.named.iter().map(|(_, kind)| word(*kind)).collect(),
        }
    }
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
    }
}

fn is_processor(name: &str) -> bool {
    name.starts_with("cpu/") && name.ends_with("/idle")
}

/// Writes a line.
pub fn write_line(out: &mut Vec<u8>, line: &impl Serialize) {
    // Writing into memory cannot fail, and these types have no map with keys but strings.
    let written: Result<(), io::Error> = serde_json::to_writer(&mut *out, line).map_err(Into::into);
    debug_assert!(written.is_ok());
    out.push(b'\n');
}
