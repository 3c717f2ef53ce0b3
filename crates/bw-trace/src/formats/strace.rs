//! What strace prints: the reads and writes of a program's files.
//!
//! Written by `strace -f -ttt -T -y -o FILE`: each line has a process, a time since 1970, a call, its result and how long
//! it took; `-y` adds to each descriptor the path that it is open on, which is the device of the operation. A read or a
//! write without an offset begins where the one before it ended: the parser follows the positions of open files through
//! open, lseek, dup, fork and clone. What it cannot see is a file that was open before strace began (taken as at its
//! begin), and the end of a file that is appended to (taken as the largest end so far). Sockets, pipes and files of /dev,
//! /proc and /sys are left out, and so are calls that failed, transferred nothing or move no data of a file (mmap, stat).
//! Source of the layout: strace(1), and what strace 6.1 prints.

use crate::entry::{DeviceNames, ParseError, TraceEntry};
use crate::text::{Field, LineFormat};
use bw_model::Kind;
use std::collections::HashMap;

/// Paths of these are no data on a disk.
const NO_FILES: [&[u8]; 3] = [b"/dev/", b"/proc/", b"/sys/"];
const UNFINISHED: &[u8] = b"<unfinished ...>";
const RESUMED: &[u8] = b" resumed>";

/// Where an open file is.
#[derive(Clone, Copy, Debug, Default)]
struct OpenFile {
    position: u64,
    /// Each write goes to the end.
    appends: bool,
}

/// The parser.
#[derive(Debug, Default)]
pub(crate) struct Strace {
    /// The table of descriptors of each process or thread.
    tables: HashMap<u64, usize>,
    /// Of each table the open file of each descriptor.
    descriptors: Vec<HashMap<u64, usize>>,
    open: Vec<OpenFile>,
    /// The largest end of each device [bytes].
    ends: HashMap<u16, u64>,
    /// The begin of the call that a process is in, and its time.
    unfinished: HashMap<u64, (Vec<u8>, u64)>,
    /// Whether a file was open before the trace began.
    has_earlier: bool,
    has_appends: bool,
}

/// A call that has ended.
struct Call<'a> {
    process: u64,
    at: u64,
    name: &'a [u8],
    arguments: &'a [u8],
    result: &'a [u8],
    /// How long it took [ns]; None: without `-T`.
    took: Option<u64>,
}

impl Call<'_> {
    /// Returns the number that it returned; None: an error, or none.
    fn returned(&self) -> Option<u64> {
        number(self.result).map(|(number, _)| number)
    }

    /// Returns the argument at this place from the end.
    fn argument(&self, place: usize) -> Option<&[u8]> {
        self.arguments
            .rsplit(|byte| *byte == b',')
            .nth(place)
            .map(<[u8]>::trim_ascii)
    }

    fn has(&self, flag: &[u8]) -> bool {
        find(self.arguments, flag).is_some()
    }
}

impl LineFormat for Strace {
    fn parse(
        &mut self,
        line: &[u8],
        devices: &mut DeviceNames,
    ) -> Result<Option<TraceEntry>, ParseError> {
        if line.starts_with(b"strace: ") {
            return Ok(None);
        }
        let (process, rest) = process(line);
        let column = line.len() - rest.len();
        let length = rest.iter().position(|byte| *byte == b' ');
        let (time, rest) = rest.split_at(length.unwrap_or(rest.len()));
        let time = Field {
            bytes: time,
            column,
            name: "time",
        };
        if !time.bytes.contains(&b'.') {
            return Err(time.fault("is no time since 1970: record with strace -f -ttt -T -y"));
        }
        let at = time.seconds()?;
        let text = rest.trim_ascii();
        if text.starts_with(b"+++ ") || text.starts_with(b"--- ") {
            return Ok(None);
        }
        if let Some(begun) = text.strip_suffix(UNFINISHED) {
            self.unfinished.insert(process, (begun.to_vec(), at));
            return Ok(None);
        }
        if text.starts_with(b"<... ")
            && let Some(end) = find(text, RESUMED)
        {
            // The begin of a call may lie before the trace's.
            let Some((mut whole, at)) = self.unfinished.remove(&process) else {
                return Ok(None);
            };
            whole.extend_from_slice(&text[end + RESUMED.len()..]);
            return match call(process, at, &whole) {
                Some(call) => self.ended(&call, devices),
                None => Ok(None),
            };
        }
        match call(process, at, text) {
            Some(call) => self.ended(&call, devices),
            None => Err(ParseError::column(
                line.len() - text.len(),
                "no call with its result, as strace prints it",
            )),
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.has_earlier {
            notes.push(
                "strace: files that were open before the trace began are taken as at their begin"
                    .to_owned(),
            );
        }
        if self.has_appends {
            notes.push(
                "strace: appended data is taken as behind the largest end of its file so far"
                    .to_owned(),
            );
        }
        notes
    }
}

impl Strace {
    /// Follows a call; returns its operation, if it is one.
    fn ended(
        &mut self,
        call: &Call<'_>,
        devices: &mut DeviceNames,
    ) -> Result<Option<TraceEntry>, ParseError> {
        match call.name {
            b"open" | b"openat" | b"openat2" | b"creat" => self.opened(call, devices)?,
            b"close" => self.closed(call),
            b"dup" | b"dup2" | b"dup3" | b"fcntl" => self.copied(call),
            b"clone" | b"clone3" | b"fork" | b"vfork" => self.forked(call),
            b"lseek" => self.moved(call),
            b"read" | b"readv" => return self.transferred(call, Kind::Read, None, devices),
            b"write" | b"writev" => return self.transferred(call, Kind::Write, None, devices),
            b"pread64" | b"preadv" => return self.transferred(call, Kind::Read, Some(0), devices),
            b"pwrite64" | b"pwritev" => {
                return self.transferred(call, Kind::Write, Some(0), devices);
            }
            b"preadv2" => return self.transferred(call, Kind::Read, Some(1), devices),
            b"pwritev2" => return self.transferred(call, Kind::Write, Some(1), devices),
            b"fsync" | b"fdatasync" | b"sync_file_range" => return flushed(call, devices),
            _ => {}
        }
        Ok(None)
    }

    fn table(&mut self, process: u64) -> &mut HashMap<u64, usize> {
        let new = self.descriptors.len();
        let table = *self.tables.entry(process).or_insert(new);
        if table == new {
            self.descriptors.push(HashMap::new());
        }
        &mut self.descriptors[table]
    }

    /// Returns the open file of a descriptor.
    fn file(&mut self, process: u64, descriptor: u64) -> &mut OpenFile {
        let new = self.open.len();
        let file = *self.table(process).entry(descriptor).or_insert(new);
        if file == new {
            self.open.push(OpenFile::default());
        }
        &mut self.open[file]
    }

    fn opened(&mut self, call: &Call<'_>, devices: &mut DeviceNames) -> Result<(), ParseError> {
        let Some((descriptor, path)) = descriptor(call.result) else {
            return Ok(());
        };
        let file = self.open.len();
        self.open.push(OpenFile {
            position: 0,
            appends: call.has(b"O_APPEND"),
        });
        self.table(call.process).insert(descriptor, file);
        if call.has(b"O_TRUNC") && is_file(path) {
            self.ends.insert(devices.number(path, 0)?, 0);
        }
        Ok(())
    }

    fn closed(&mut self, call: &Call<'_>) {
        if let (Some((descriptor, _)), Some(0)) = (number(call.arguments), call.returned()) {
            self.table(call.process).remove(&descriptor);
        }
    }

    /// A descriptor that a copy is returned of: both share the position.
    fn copied(&mut self, call: &Call<'_>) {
        if call.name == b"fcntl" && !call.has(b"F_DUPFD") {
            return;
        }
        if let (Some((from, _)), Some(to)) = (number(call.arguments), call.returned()) {
            let table = self.table(call.process);
            if let Some(file) = table.get(&from).copied() {
                table.insert(to, file);
            }
        }
    }

    /// A child: a thread has the descriptors of its parent, a process a copy of them; open files are shared.
    fn forked(&mut self, call: &Call<'_>) {
        let Some(child) = call.returned().filter(|child| *child > 0) else {
            return;
        };
        let own = self.table(call.process);
        let table = if call.has(b"CLONE_FILES") {
            self.tables[&call.process]
        } else {
            let copy = own.clone();
            self.descriptors.push(copy);
            self.descriptors.len() - 1
        };
        self.tables.insert(child, table);
    }

    fn moved(&mut self, call: &Call<'_>) {
        if let (Some((descriptor, _)), Some(position)) = (number(call.arguments), call.returned()) {
            self.file(call.process, descriptor).position = position;
        }
    }

    /// Returns the operation of a call that moves data; `offset`: the place from the end of the argument that says where
    /// to. Without one, or with -1, it is where the file is.
    fn transferred(
        &mut self,
        call: &Call<'_>,
        kind: Kind,
        offset: Option<usize>,
        devices: &mut DeviceNames,
    ) -> Result<Option<TraceEntry>, ParseError> {
        let Some((descriptor, path)) = descriptor(call.arguments) else {
            return Ok(None);
        };
        let Some(bytes) = call.returned().filter(|bytes| *bytes > 0 && is_file(path)) else {
            return Ok(None);
        };
        let device = devices.number(path, 0)?;
        let end = self.ends.get(&device).copied().unwrap_or_default();
        let stated = offset
            .and_then(|place| call.argument(place))
            .and_then(|text| number(text))
            .map(|(offset, _)| offset);
        let begin = match stated {
            Some(begin) => begin,
            None => {
                self.has_earlier |= !self.table(call.process).contains_key(&descriptor);
                let file = self.file(call.process, descriptor);
                let appends = file.appends && kind == Kind::Write;
                let begin = if appends { end } else { file.position };
                file.position = begin.saturating_add(bytes);
                self.has_appends |= appends;
                begin
            }
        };
        if begin.saturating_add(bytes) > crate::entry::LARGEST_END_BYTES {
            return Err(ParseError::column(0, "the operation lies beyond 8 EiB"));
        }
        if kind == Kind::Write {
            self.ends.insert(device, end.max(begin + bytes));
        }
        Ok(Some(entry(call, kind, (begin, bytes), device)))
    }
}

fn flushed(call: &Call<'_>, devices: &mut DeviceNames) -> Result<Option<TraceEntry>, ParseError> {
    match descriptor(call.arguments) {
        Some((_, path)) if is_file(path) && call.returned().is_some() => {
            let device = devices.number(path, 0)?;
            Ok(Some(entry(call, Kind::Flush, (0, 0), device)))
        }
        _ => Ok(None),
    }
}

fn entry(call: &Call<'_>, kind: Kind, (begin, bytes): (u64, u64), device: u16) -> TraceEntry {
    let ended = call.took.and_then(|took| call.at.checked_add(took));
    TraceEntry::new(call.at, kind, begin, bytes)
        .on(device)
        .ended(ended)
}

/// Returns the process or thread of a line, 0 without one, and the rest: `1234 TIME ...` or `[pid  1234] TIME ...`.
fn process(line: &[u8]) -> (u64, &[u8]) {
    let inner = line.strip_prefix(b"[pid ").map(<[u8]>::trim_ascii_start);
    let end: &[u8] = if inner.is_some() { b"]" } else { b" " };
    let found = number(inner.unwrap_or(line));
    match found.and_then(|(process, rest)| Some((process, rest.strip_prefix(end)?))) {
        Some((process, rest)) => (process, rest.trim_ascii_start()),
        None => (0, line),
    }
}

/// Returns the call of a text like `read(3</data>, "a"..., 10) = 10 <0.000012>`.
fn call(process: u64, at: u64, text: &[u8]) -> Option<Call<'_>> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let (name, rest) = (&text[..open], &text[open + 1..]);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    if name.is_empty() || !name.iter().all(is_name) {
        return None;
    }
    let end = end_of_arguments(rest)?;
    let result = rest[end + 1..].trim_ascii_start().strip_prefix(b"= ")?;
    let (result, took) = with_length(result.trim_ascii());
    let arguments = &rest[..end];
    Some(Call {
        process,
        at,
        name,
        arguments,
        result,
        took,
    })
}

/// Returns where the parenthesis is that ends the arguments of a call. Texts and paths among them may have any.
fn end_of_arguments(rest: &[u8]) -> Option<usize> {
    let (mut depth, mut place) = (0_usize, 0);
    while let Some(byte) = rest.get(place) {
        match byte {
            b'"' => place += end_of_text(&rest[place + 1..])? + 1,
            b'<' if place > 0 && rest[place - 1].is_ascii_alphanumeric() => {
                place += rest[place..].iter().position(|byte| *byte == b'>')?;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => return Some(place),
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        place += 1;
    }
    None
}

/// Returns where the quotation mark is that ends a text.
fn end_of_text(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    text.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    })
}

/// Returns the result of a call, and how long it took [ns].
fn with_length(result: &[u8]) -> (&[u8], Option<u64>) {
    let found = result.strip_suffix(b">").and_then(|text| {
        let open = text.iter().rposition(|byte| *byte == b'<')?;
        let bytes = &text[open + 1..];
        let field = Field {
            bytes,
            column: 0,
            name: "length",
        };
        Some((&result[..open], field.seconds().ok()?))
    });
    match found {
        Some((result, took)) => (result.trim_ascii_end(), Some(took)),
        None => (result, None),
    }
}

/// Returns a descriptor with its path: `3</data/x>...`.
fn descriptor(text: &[u8]) -> Option<(u64, &[u8])> {
    let (descriptor, rest) = number(text)?;
    let path = rest.strip_prefix(b"<")?;
    // strace writes this character of a path as \76.
    let end = path.iter().position(|byte| *byte == b'>')?;
    let path = &path[..end];
    Some((descriptor, path.strip_suffix(b" (deleted)").unwrap_or(path)))
}

fn is_file(path: &[u8]) -> bool {
    path.starts_with(b"/") && !NO_FILES.iter().any(|other| path.starts_with(other))
}

/// Returns the number that a text begins with, and the rest.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let digits = std::str::from_utf8(&text[..length]).ok()?;
    Some((digits.parse().ok()?, &text[length..]))
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|part| part == what)
}
