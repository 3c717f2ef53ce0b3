//! A series file as a stream of lines in a valid order: docs/watch-format.md as types.
//!
//! A killed session leaves a file without its end, and all of its complete lines are valid: a missing end is no error.
//! No line is stored, so memory does not grow with the length of the series.

use super::resource_use::{IoLimit, Owner};
use bw_sys::reason;
use bw_sys::regular::open_regular;
use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, from_slice};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// The version of the files that are read.
const VERSION: i64 = 1;
/// Size of one read [bytes].
const PIECE: usize = 1 << 18;

/// Why a series cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SeriesError {
    /// Number of the line, from 1.
    pub(super) line: u64,
    /// The reason.
    pub(super) message: String,
}

/// A time or a duration [ns], not negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "i64")]
pub(super) struct Ns(pub(super) i64);

impl TryFrom<i64> for Ns {
    type Error = &'static str;

    fn try_from(value: i64) -> Result<Self, Self::Error> {
        if value < 0 {
            return Err("a time is below 0");
        }
        Ok(Self(value))
    }
}

/// The first line: describes the series and the machine.
#[derive(Debug, Deserialize)]
pub(super) struct Header {
    version: i64,
    pub(super) interval_ns: Ns,
    pub(super) root_pid: i64,
    #[serde(default = "page_size")]
    pub(super) page_size: i64,
    #[serde(default = "ticks_per_s")]
    pub(super) ticks_per_s: i64,
    #[serde(default)]
    pub(super) cpus: i64,
    #[serde(default)]
    pub(super) absent: Vec<(String, String)>,
    /// Limits that the machine reports: `net/eth0/speed_mbit`.
    #[serde(default)]
    pub(super) limits: HashMap<String, Value>,
}

fn page_size() -> i64 {
    4096
}

fn ticks_per_s() -> i64 {
    100
}

/// The meaning of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ColumnKind {
    Counter,
    Gauge,
}

/// The columns of the rows that follow.
#[derive(Debug, Deserialize)]
pub(super) struct ColumnsLine {
    pub(super) names: Vec<String>,
    pub(super) kinds: Vec<ColumnKind>,
}

/// One sample: differences from the row before.
#[derive(Debug, Deserialize)]
pub(super) struct RowLine {
    pub(super) t: Ns,
    pub(super) v: Vec<Option<i64>>,
}

/// Where a thread waits: a system call, the kernel's function, and what the call waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
pub(super) struct PlaceRow {
    pub(super) call: String,
    #[serde(default)]
    pub(super) channel: String,
    #[serde(default)]
    pub(super) objects: Vec<String>,
    /// Whether the call has a time limit; None: it cannot have one, or that is not known.
    #[serde(default)]
    pub(super) limited: Option<bool>,
}

/// One thread at one sample; times are totals since its start.
#[derive(Debug, Deserialize)]
pub(super) struct ThreadRow {
    pub(super) pid: i64,
    pub(super) tid: i64,
    pub(super) name: String,
    pub(super) state: String,
    pub(super) run_ns: Option<Ns>,
    pub(super) wait_ns: Option<Ns>,
    /// How often it was put on a CPU; nothing is computed from it.
    #[serde(default, rename = "turns")]
    _turns: Option<i64>,
    #[serde(default)]
    pub(super) parent: i64,
    /// None: it ran or wanted to, or its place is not known.
    #[serde(default)]
    pub(super) place: Option<PlaceRow>,
}

/// The threads of a tree at one sample: those that ran most.
#[derive(Debug, Deserialize)]
pub(super) struct ThreadsLine {
    pub(super) t: Ns,
    pub(super) rows: Vec<ThreadRow>,
    /// Number of other threads.
    #[serde(default)]
    pub(super) more: i64,
    /// CPUs, and the threads that may run only on these.
    #[serde(default)]
    pub(super) affinities: Vec<(String, Vec<i64>)>,
}

/// One process.
#[derive(Debug, Deserialize)]
pub(super) struct ProcessRow {
    pub(super) pid: i64,
    pub(super) ppid: i64,
    pub(super) name: String,
    pub(super) run_ticks: i64,
    /// Distinguishes two processes with the same number.
    pub(super) start_ticks: i64,
}

/// All processes of the machine at one moment.
#[derive(Debug, Deserialize)]
pub(super) struct Processes {
    pub(super) t: Ns,
    pub(super) rows: Vec<ProcessRow>,
}

/// The open files of one process.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct FilesRow {
    pub(super) pid: i64,
    pub(super) name: String,
    pub(super) open: i64,
    pub(super) limit: Option<i64>,
    /// Disks of its working directory and open files; None: recorded by a version that did not look.
    #[serde(default)]
    pub(super) devices: Option<Vec<String>>,
}

/// The open files of the own and target trees at one moment.
#[derive(Debug, Deserialize)]
pub(super) struct FilesOpenTable {
    pub(super) t: Ns,
    pub(super) rows: Vec<FilesRow>,
}

/// The limits of a cgroup; None: no limit.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct CgroupLimits {
    #[serde(default)]
    pub(super) cpu_cores: Option<f64>,
    #[serde(default)]
    pub(super) memory_bytes: Option<i64>,
    #[serde(default)]
    pub(super) pids: Option<i64>,
    #[serde(default)]
    pub(super) cpus: Option<String>,
    #[serde(default)]
    pub(super) io: Vec<IoLimit>,
}

/// A cgroup when it was first seen.
#[derive(Debug, Deserialize)]
pub(super) struct Cgroup {
    pub(super) t: Ns,
    pub(super) number: i64,
    pub(super) version: i64,
    pub(super) path: String,
    #[serde(default)]
    pub(super) controller: String,
    #[serde(default)]
    pub(super) of: Owner,
    #[serde(default)]
    pub(super) limits: CgroupLimits,
}

/// A message of the kernel's log.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct KernelLine {
    pub(super) t: Ns,
    pub(super) level: i64,
    pub(super) text: String,
}

/// The last line: the sampler's summary.
#[derive(Debug, Deserialize)]
pub(super) struct SeriesEnd {
    pub(super) begin_ns: Ns,
    pub(super) end_ns: Ns,
    /// CPU time that the sampler used.
    pub(super) cost_ns: Ns,
    #[serde(default)]
    pub(super) absent: Vec<(String, String)>,
}

/// A tree of which threads are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tree {
    Own,
    Target,
    Watcher,
}

/// A line after the first.
#[derive(Debug)]
pub(super) enum Line {
    Columns(ColumnsLine),
    Row(RowLine),
    Threads(Tree, ThreadsLine),
    Processes(Processes),
    FilesOpen(FilesOpenTable),
    Cgroup(Cgroup),
    Kernel(KernelLine),
    End(SeriesEnd),
    /// A copy of a statistic file, from which nothing is computed.
    File,
}

/// A series: its header, and the lines after it.
pub(super) struct Series {
    pub(super) header: Header,
    pub(super) lines: Lines,
}

impl Series {
    /// Opens a series and reads its header. Errors: it is missing, damaged, or of a newer version.
    pub(super) fn open(path: &Path) -> Result<Self, SeriesError> {
        let file = open_regular(path).map_err(|error| SeriesError {
            line: 1,
            message: format!("cannot read it: {}", reason(&error)),
        })?;
        let data = MultiGzDecoder::new(BufReader::with_capacity(PIECE, file));
        let mut texts = Texts {
            data: BufReader::with_capacity(PIECE, data),
            text: Vec::new(),
            number: 0,
        };
        let Some(text) = texts.next()? else {
            let message = "it has no complete line".to_owned();
            return Err(SeriesError { line: 1, message });
        };
        let header = header(text).map_err(|message| SeriesError { line: 1, message })?;
        let order = Order::default();
        Ok(Self {
            header,
            lines: Lines { texts, order },
        })
    }
}

/// The complete lines of a series, after its header.
pub(super) struct Lines {
    texts: Texts<BufReader<MultiGzDecoder<BufReader<File>>>>,
    order: Order,
}

impl Lines {
    /// Returns the next complete line; None at the end. Errors: it is damaged, or not allowed at this place.
    pub(super) fn next(&mut self) -> Result<Option<Line>, SeriesError> {
        let Some(text) = self.texts.next()? else {
            return Ok(None);
        };
        let line = decoded(text).and_then(|line| self.order.check(line));
        line.map(Some).map_err(|message| SeriesError {
            line: self.texts.number,
            message,
        })
    }
}

/// The complete lines of a compressed file.
struct Texts<R> {
    data: R,
    text: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Texts<R> {
    fn next(&mut self) -> Result<Option<&[u8]>, SeriesError> {
        self.text.clear();
        self.number += 1;
        match self.data.read_until(b'\n', &mut self.text) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => {
                let why = match error.kind() {
                    io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                        "its compressed data are damaged"
                    }
                    _ => "cannot read it",
                };
                return Err(SeriesError {
                    line: self.number,
                    message: format!("{why}: {}", reason(&error)),
                });
            }
        }
        Ok(self.text.strip_suffix(b"\n"))
    }
}

fn parsed<T: DeserializeOwned>(text: &[u8]) -> Result<T, String> {
    from_slice(text).map_err(|error| format!("this is not a line of a series: {error}"))
}

/// The kind of a line.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

/// Returns the kind of a line; the sampler writes it first, so the rest need not be read.
fn kind_of(text: &[u8]) -> Result<Cow<'_, str>, String> {
    if let Some(rest) = text.strip_prefix(b"{\"type\":\"")
        && let Some(end) = memchr::memchr(b'"', rest)
        && let Ok(kind) = str::from_utf8(&rest[..end])
        && !kind.contains('\\')
    {
        return Ok(Cow::Borrowed(kind));
    }
    from_slice::<Kind<'_>>(text)
        .map(|found| found.kind)
        .map_err(|error| format!("this is not a line of a series: {error}"))
}

const ONE_HEADER: &str = "a series starts with exactly one line `series`";

fn header(text: &[u8]) -> Result<Header, String> {
    if kind_of(text)? != "series" {
        // A line that cannot be read is reported as such.
        decoded(text)?;
        return Err(ONE_HEADER.to_owned());
    }
    let header: Header = parsed(text)?;
    if header.version != VERSION {
        return Err(format!(
            "its version is {}; this bw reads version {VERSION}",
            header.version
        ));
    }
    if header.interval_ns.0 <= 0 || header.ticks_per_s <= 0 || header.page_size <= 0 {
        return Err("interval, ticks and page size must be above 0".to_owned());
    }
    Ok(header)
}

fn decoded(text: &[u8]) -> Result<Line, String> {
    let kind = kind_of(text)?;
    Ok(match &*kind {
        "row" => Line::Row(parsed(text)?),
        "own" => Line::Threads(Tree::Own, parsed(text)?),
        "target" => Line::Threads(Tree::Target, parsed(text)?),
        "watcher" => Line::Threads(Tree::Watcher, parsed(text)?),
        "processes" => Line::Processes(parsed(text)?),
        "files_open" => Line::FilesOpen(parsed(text)?),
        "columns" => Line::Columns(parsed(text)?),
        "cgroup" => Line::Cgroup(parsed(text)?),
        "kernel" => Line::Kernel(parsed(text)?),
        "end" => Line::End(parsed(text)?),
        "file" => {
            parsed::<IgnoredAny>(text)?;
            Line::File
        }
        "series" => return Err(ONE_HEADER.to_owned()),
        other => {
            return Err(format!(
                "this is not a line of a series: it has the type {other:?}"
            ));
        }
    })
}

/// The state needed to check the next line of a series: rows match their columns, and times increase.
#[derive(Debug, Default)]
struct Order {
    is_over: bool,
    columns: Option<usize>,
    last: Option<Ns>,
}

impl Order {
    fn check(&mut self, line: Line) -> Result<Line, String> {
        if self.is_over {
            return Err("there is a line after the end line".to_owned());
        }
        match &line {
            Line::Row(row) => self.check_row(row)?,
            Line::Columns(columns) => self.check_columns(columns)?,
            Line::End(_) => self.is_over = true,
            _ => {}
        }
        Ok(line)
    }

    fn check_columns(&mut self, line: &ColumnsLine) -> Result<(), String> {
        let different: HashSet<&String> = line.names.iter().collect();
        if line.names.len() != line.kinds.len() || different.len() != line.names.len() {
            return Err("column names must differ, and each column needs a kind".to_owned());
        }
        self.columns = Some(line.names.len());
        Ok(())
    }

    fn check_row(&mut self, row: &RowLine) -> Result<(), String> {
        let Some(columns) = self.columns else {
            return Err("a row comes before its columns".to_owned());
        };
        if row.v.len() != columns {
            return Err(format!(
                "the row has {} values for {columns} columns",
                row.v.len()
            ));
        }
        if self.last.is_some_and(|last| row.t.0 <= last.0) {
            return Err("the row's time must be after that of the row before".to_owned());
        }
        self.last = Some(row.t);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_of_lines_are_read() {
        let own = r#"{"type":"own","t":1,"rows":[[100,101,"postmark","R",5,null]],"more":3}"#;
        let Ok(Line::Threads(Tree::Own, table)) = decoded(own.as_bytes()) else {
            panic!("these are threads")
        };
        let row = &table.rows[0];
        assert_eq!(
            (row.tid, row.name.as_str(), row.wait_ns),
            (101, "postmark", None)
        );
        assert_eq!((row.parent, row.place.is_none(), table.more), (0, true, 3));

        let place = r#"{"t":1,"type":"target","rows":[[1,1,"a","S",5,6,7,8,["poll","",["own pipe"],true]]]}"#;
        let Ok(Line::Threads(Tree::Target, table)) = decoded(place.as_bytes()) else {
            panic!("the kind may come later")
        };
        let place = table.rows[0].place.as_ref().unwrap();
        assert_eq!((table.rows[0].parent, place.limited), (8, Some(true)));

        let cgroup = r#"{"type": "cgroup", "t": 4, "number": 0, "version": 1, "controller": "cpu", "path": "/b",
            "of": "target", "limits": {"cpu_cores": 0.5, "io": [{"device": "8:0", "write_bytes_per_s": 1048576}]}}"#;
        let Ok(Line::Cgroup(cgroup)) = decoded(cgroup.as_bytes()) else {
            panic!("this is a cgroup")
        };
        assert_eq!(
            (cgroup.of, cgroup.limits.cpu_cores),
            (Owner::Target, Some(0.5))
        );
        assert_eq!(cgroup.limits.io[0].write_bytes_per_s, Some(1_048_576.0));
        assert_eq!(cgroup.limits.memory_bytes, None);

        let files = r#"{"type":"files_open","t":3,"rows":[[100,"a",7,null],[1,"b",7,9,["vda"]]]}"#;
        let Ok(Line::FilesOpen(files)) = decoded(files.as_bytes()) else {
            panic!("these are files")
        };
        assert_eq!((files.rows[0].limit, &files.rows[0].devices), (None, &None));
        assert_eq!(files.rows[1].devices.as_ref().unwrap(), &["vda"]);

        let file = r#"{"type":"file","at":"before","path":"/proc/vmstat","text":"a 1\n"}"#;
        assert!(matches!(decoded(file.as_bytes()), Ok(Line::File)));
    }

    #[test]
    fn a_line_of_another_form_is_refused() {
        for line in [
            "",
            "[]",
            "{}",
            r#"{"type":"cat"}"#,
            r#"{"type":"row","t":-1,"v":[]}"#,
            r#"{"type":"row","t":1,"v":[9223372036854775808]}"#,
            r#"{"type":"own","t":1,"rows":[[1,2]]}"#,
            r#"{"type":"file","text":}"#,
        ] {
            let error = decoded(line.as_bytes()).unwrap_err();
            assert!(
                error.starts_with("this is not a line of a series: "),
                "{line}: {error}"
            );
        }
    }
}
