//! A trace as an iterator of rows: parsed, in order, from time zero, on the target's addresses.
//!
//! The steps of an operation: parser, reorder window, stamps since the first arrival, selection of time and
//! devices, equal stamps, speed, addresses. Decision: the order comes first, so that time zero
//! is the earliest arrival and not the first line (Systor's files are not sorted). Devices are selected
//! afterwards, so that two replays of different devices of one trace have the same time zero.
//! Memory is bounded by the windows, whatever the length of the trace.

use crate::entry::{RecordedResponse, TraceEntry};
use crate::error::TraceCode;
use crate::formats;
use crate::input::{Duplicates, Format, Offsets, TraceInput, TraceReport};
use crate::offsets::{AddressMapping, Changes};
use crate::open::{self, OpenTrace};
use crate::order::{MOST_EQUAL, OrderWindow, Ordered, Spread, WINDOW_ROWS, hasten, rebase};
use crate::requests::{RecordedRequest, SharedRequests};
use crate::source::Timing;
use bw_model::{EngineError, Nanos, Row};
use std::io::Read;
use std::sync::Arc;

/// An open trace. Iterate to get its rows in the order of arrival; an error ends it.
pub struct Trace {
    input: TraceInput,
    format: Format,
    duplicates: Duplicates,
    ordered: Ordered,
    origin: Option<u64>,
    intended: bool,
    chosen: Vec<bool>,
    /// Whether each device has an operation that was chosen.
    used: Vec<bool>,
    spread: Spread,
    settled: bool,
    mapping: AddressMapping,
    requests: SharedRequests,
    response: RecordedResponse,
    changes: Changes,
    operations: u64,
    left_out: u64,
    over: bool,
}

/// Opens the trace that `input` describes.
///
/// Errors: a file cannot be opened, the format is unknown or ambiguous, the options contradict each
/// other; with `scale` and no `source_bytes` the whole trace is read beforehand, with its errors.
///
/// ```
/// let path = std::env::temp_dir().join(format!("bw-doc-{}.csv", std::process::id()));
/// std::fs::write(&path, "0,8,4096,r,0.5\n0,16,4096,w,0.75\n")?;
/// let input = bw_trace::input::TraceInput::new(&path.to_string_lossy());
/// let trace = bw_trace::trace::open(&input)?;
/// assert_eq!(trace.format().name(), "spc");
/// let starts: Result<Vec<u64>, _> = trace.map(|row| row.map(|row| row.intended.0)).collect();
/// assert_eq!(starts?, [0, 250_000_000]);
/// std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open(input: &TraceInput) -> Result<Trace, EngineError> {
    let mut input = input.clone();
    if input.offsets == Offsets::Scale && input.source_bytes.is_none() {
        input.source_bytes = Some(source_bytes(&input)?);
    }
    Trace::open(input)
}

/// Opens the trace whose content comes from `stream` instead of the file; `input.path` is its name in
/// errors.
///
/// Errors: as [`open`]; `scale` without `source_bytes` is refused.
pub fn read(stream: Box<dyn Read + Send>, input: &TraceInput) -> Result<Trace, EngineError> {
    if input.offsets == Offsets::Scale && input.source_bytes.is_none() {
        return Err(size_unknown(first_path(input)));
    }
    check(input)?;
    let opened = open::open_stream(first_path(input), stream, input)?;
    Trace::of(vec![opened], input.clone())
}

/// Returns where the last of the trace's operations ends, by reading all of it [bytes].
fn source_bytes(input: &TraceInput) -> Result<u64, EngineError> {
    let path = first_path(input);
    if input.path.list().iter().any(|path| is_stream(path)) {
        return Err(size_unknown(path));
    }
    let beforehand = TraceInput {
        offsets: Offsets::Exact,
        target_bytes: None,
        align_bytes: None,
        duplicates: Some(Duplicates::Burst),
        ..input.clone()
    };
    Trace::open(beforehand)?.try_fold(0, |end, row| {
        row.map(|row| end.max(row.offset + u64::from(row.size)))
    })
}

impl Trace {
    fn open(input: TraceInput) -> Result<Self, EngineError> {
        check(&input)?;
        let paths = input.path.list().iter().flat_map(|path| open::files(path));
        let opened: Result<Vec<OpenTrace>, EngineError> =
            paths.map(|path| open::open(path, &input)).collect();
        Self::of(opened?, input)
    }

    fn of(files: Vec<OpenTrace>, input: TraceInput) -> Result<Self, EngineError> {
        let format = same_format(&files)?;
        let (paths, streams): (Vec<_>, Vec<_>) = files
            .into_iter()
            .map(|file| (file.path, file.stream))
            .unzip();
        let requests = SharedRequests::new(&input);
        let source = formats::parser(format, streams, &input, &requests)
            .map_err(|fault| fault.into_error(&paths))?;
        let timing = source.timing();
        let order = window(format, timing, &input);
        Ok(Self {
            duplicates: duplicates(format, &input)?,
            ordered: Ordered::new(paths, source, order, input.lenient),
            origin: timing.from_zero.then_some(0),
            intended: timing.intended,
            chosen: Vec::new(),
            used: Vec::new(),
            spread: Spread::default(),
            settled: false,
            mapping: if format.has_requests() {
                of_requests(&input)?
            } else {
                mapping(&input)?
            },
            requests,
            response: RecordedResponse::default(),
            changes: Changes::default(),
            operations: 0,
            left_out: 0,
            over: false,
            input,
            format,
        })
    }

    /// Returns the format, given or determined.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the names of the devices found so far: `Row::device` is the index.
    #[must_use]
    pub fn devices(&self) -> &[String] {
        self.ordered.device_names()
    }

    /// Returns whether its arrivals are an engine's intended starts and its starts the actual ones; an observer's
    /// starts, as in blktrace and captures, are events of the block layer.
    #[must_use]
    pub(crate) fn tells_intentions(&self) -> bool {
        self.intended
    }

    /// Returns the recorded request of a row of this trace; None if it has none.
    pub(crate) fn request(&self, row: &Row) -> Option<Arc<RecordedRequest>> {
        self.requests.lock().get(row.offset)
    }

    /// Returns what the recorded request of the last row was answered with.
    pub(crate) fn response(&self) -> RecordedResponse {
        self.response
    }

    /// Returns the recorded requests: an operation's offset is an index into them.
    pub(crate) fn into_requests(self) -> Vec<Arc<RecordedRequest>> {
        self.requests.take()
    }

    /// Returns the account of the reading so far; complete after the last row.
    #[must_use]
    pub fn report(&self) -> TraceReport {
        let (account, skipped_first) = self.ordered.account();
        TraceReport {
            path: first_path(&self.input).to_owned(),
            paths: self.ordered.paths.clone(),
            format: self.format,
            operations: self.operations,
            skipped_lines: account.skipped,
            skipped_first,
            other_events: account.other_events,
            unmatched_completions: account.unmatched_completions,
            left_out: self.left_out,
            reordered: self.ordered.window().reordered(),
            window_ns: self.ordered.window().window_ns(),
            duplicates: self.duplicates,
            spread: self.spread.moved(),
            offsets: self.input.offsets,
            wrapped: self.changes.wrapped,
            scaled: self.input.offsets == Offsets::Scale,
            source_bytes: self.input.source_bytes,
            aligned: self.changes.aligned,
            clipped: self.changes.clipped,
            speed_micro: self.input.speed_micro,
            devices: self.used_devices(),
            requests: self
                .format
                .has_requests()
                .then(|| self.requests.lock().counts()),
            notes: account.notes,
        }
    }

    /// Returns whether the next row is available without waiting for the file: false when all rows
    /// read so far have been returned, and the writer of a FIFO may be slow.
    #[must_use]
    pub fn at_hand(&self) -> bool {
        self.ordered.at_hand()
    }

    /// Returns the next operation of the selected devices and time, since time zero.
    fn chosen(&mut self) -> Option<TraceEntry> {
        while let Some(mut entry) = self.ordered.next() {
            let origin = *self.origin.get_or_insert(entry.at());
            let since = entry.at() - origin;
            let end = self
                .input
                .for_ns
                .map(|length| self.input.from_ns.saturating_add(length));
            if end.is_some_and(|end| since >= end) {
                self.left_out += 1;
                // Errors after the requested end do not matter.
                self.ordered.take_failure();
                break;
            }
            if since < self.input.from_ns || !self.is_chosen(entry.row.device) {
                self.left_out += 1;
                continue;
            }
            rebase(&mut entry.row, origin + self.input.from_ns);
            let device = usize::from(entry.row.device);
            if device >= self.used.len() {
                self.used.resize(device + 1, false);
            }
            self.used[device] = true;
            return Some(entry);
        }
        None
    }

    fn used_devices(&self) -> Vec<String> {
        let names = self.ordered.device_names().iter().zip(&self.used);
        let used = names.filter(|(_, used)| **used);
        used.map(|(name, _)| name.clone()).collect()
    }

    fn is_chosen(&mut self, device: u16) -> bool {
        let Some(wanted) = &self.input.devices else {
            return true;
        };
        let names = self.ordered.device_names();
        for name in &names[self.chosen.len()..] {
            self.chosen.push(wanted.contains(name));
        }
        self.chosen
            .get(usize::from(device))
            .copied()
            .unwrap_or(false)
    }

    /// Checks that every requested device exists, once the trace is read.
    fn check_devices(&self) -> Result<(), EngineError> {
        let names = self.ordered.device_names();
        let wanted = self.input.devices.iter().flatten();
        let missing = wanted.into_iter().find(|name| !names.contains(name));
        match missing {
            Some(name) if self.ordered.is_read() && !names.is_empty() => Err(option_error(
                first_path(&self.input),
                &format!("the trace has no device '{name}'"),
                &format!("its devices are: {}", listed(names)),
            )),
            _ => Ok(()),
        }
    }

    /// Returns the next operation with its own stamp.
    fn stamped(&mut self) -> Result<Option<TraceEntry>, EngineError> {
        if self.duplicates == Duplicates::Burst {
            return Ok(self.chosen());
        }
        loop {
            if let Some(entry) = self.spread.pop() {
                return Ok(Some(entry));
            }
            if self.settled {
                return Ok(None);
            }
            match self.chosen() {
                Some(entry) => {
                    let pushed = self.spread.push(entry);
                    pushed.map_err(|entry| self.too_many_equal(&entry))?;
                }
                None => {
                    self.spread.end(self.input.for_ns.unwrap_or(u64::MAX));
                    self.settled = true;
                }
            }
        }
    }

    fn too_many_equal(&self, entry: &TraceEntry) -> EngineError {
        let message = format!("more than {MOST_EQUAL} operations have one stamp");
        self.ordered.at_entry(
            TraceCode::TraceOption,
            entry,
            &message,
            "let them arrive together (--duplicates burst)",
        )
    }

    fn next_row(&mut self) -> Result<Option<Row>, EngineError> {
        let Some(mut entry) = self.stamped()? else {
            return self
                .ordered
                .take_failure()
                .map_or_else(|| self.check_devices(), Err)
                .map(|()| None);
        };
        hasten(&mut entry.row, self.input.speed_micro);
        self.mapping.apply(&mut entry, &mut self.changes).map_err(|what| {
            let remedy = "wrap or scale the addresses (--offsets wrap, --offsets scale), or take a larger target";
            self.ordered.at_entry(TraceCode::TraceOption, &entry, what, remedy)
        })?;
        self.operations += 1;
        self.response = entry.response;
        Ok(Some(entry.row))
    }
}

fn same_format(files: &[OpenTrace]) -> Result<Format, EngineError> {
    let Some(first) = files.first() else {
        return Err(option_error("", "no file is given", "give a path"));
    };
    match files.iter().find(|file| file.format != first.format) {
        None => Ok(first.format),
        Some(other) => Err(option_error(
            &other.path,
            &format!(
                "the file's format is {}, that of {} is {}",
                other.format.name(),
                first.path,
                first.format.name()
            ),
            "give files of one format, or the right --format",
        )),
    }
}

impl Iterator for Trace {
    type Item = Result<Row, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.next_row();
        self.over = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

/// Returns whether `path` can be read only once.
pub(crate) fn is_stream(path: &str) -> bool {
    path == "-" || std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file())
}

/// Returns the first of the paths, which errors about the whole trace name.
pub(crate) fn first_path(input: &TraceInput) -> &str {
    input.path.list().first().map_or("", String::as_str)
}

/// Returns the error of options that contradict each other or the trace.
pub(crate) fn option_error(path: &str, message: &str, remedy: &str) -> EngineError {
    TraceCode::TraceOption.error(path, message, remedy)
}

/// Returns the error of scaling an input that cannot be read twice.
pub(crate) fn size_unknown(path: &str) -> EngineError {
    option_error(
        path,
        "a trace that comes through a pipe cannot be read beforehand to find its size",
        "give source_bytes, or wrap the addresses (--offsets wrap)",
    )
}

/// Returns the first names of devices as one line.
pub(crate) fn listed(names: &[String]) -> String {
    const SHOWN: usize = 20;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}

/// Checks the options that can be checked without the trace.
pub(crate) fn check(input: &TraceInput) -> Result<(), EngineError> {
    let path = first_path(input);
    if input.speed_micro == 0 {
        return Err(option_error(
            path,
            "the speed is zero",
            "give a speed above zero",
        ));
    }
    if input.stamp_unit_ns == Some(0) {
        return Err(option_error(
            path,
            "a unit of zero gives no time",
            "give stamp_unit_ns of 1 or more",
        ));
    }
    Ok(())
}

/// Returns the reorder window: the requested one, or that of the format.
///
/// Sorted files in our own format may come through a FIFO while they are replayed: a window would
/// delay rows. Samples are sorted by completion, a block of each worker at a time, so they
/// are held for as long as an operation may take.
pub(crate) fn window(format: Format, timing: Timing, input: &TraceInput) -> OrderWindow {
    let (window, rows) = match (format, timing.sorted) {
        (_, true) => (Nanos::ZERO, WINDOW_ROWS),
        // A server may write its log in the order of completion.
        (Format::Bw | Format::AccessLog | Format::Jsonl, false) => {
            (Nanos(60 * Nanos::SECOND.0), 16 * WINDOW_ROWS)
        }
        (_, false) => (Nanos::SECOND, WINDOW_ROWS),
    };
    let window_ns = input.window_ns.unwrap_or(window.0);
    OrderWindow::new(window_ns, input.window_rows.unwrap_or(rows))
}

/// Returns the requested mapping of addresses.
pub(crate) fn mapping(input: &TraceInput) -> Result<AddressMapping, EngineError> {
    let source = input.source_bytes.unwrap_or(0);
    AddressMapping::new(input.offsets, input.target_bytes, input.align_bytes, source).map_err(
        |what| {
            let remedy = "give a target with a known size, or keep the addresses (--offsets exact)";
            option_error(first_path(input), what, remedy)
        },
    )
}

/// Returns the mapping of requests, which have no addresses.
fn of_requests(input: &TraceInput) -> Result<AddressMapping, EngineError> {
    if input.offsets != Offsets::Exact {
        return Err(option_error(
            first_path(input),
            "recorded requests have no offsets that could be mapped",
            "leave --offsets out",
        ));
    }
    mapping(&TraceInput::new(first_path(input)))
}

/// Returns how equal stamps of this format are treated.
pub(crate) fn duplicates(format: Format, input: &TraceInput) -> Result<Duplicates, EngineError> {
    match (input.duplicates, format) {
        (Some(chosen), _) => Ok(chosen),
        (None, Format::Tencent) => Err(option_error(
            first_path(input),
            "the stamps are whole seconds: what that means must be chosen",
            "spread the operations over their second (--duplicates spread) or let them arrive together (--duplicates burst)",
        )),
        // Over the unit of the stamps: a burst at each full second would be one of the log alone.
        (None, format) if format.has_requests() => Ok(Duplicates::Spread),
        (None, _) => Ok(Duplicates::Burst),
    }
}
