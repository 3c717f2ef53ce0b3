//! The formats: recognition by content, and the parsers.
//!
//! Decision: the content decides, not the name. A text has a format if the parser of exactly that
//! format can read most of the first lines. If two parsers can, the format is ambiguous, which is an error. If none can,
//! the error names the one that read the first line farthest, and where it stopped.
//! Source of the layouts: the producers' documents, named in each parser.

pub(crate) mod blktrace;
pub(crate) mod own;
pub(crate) mod requests;
pub(crate) mod strace;
pub(crate) mod text;
pub(crate) mod vscsi;

use crate::entry::{DeviceNames, ParseError, Position, TraceEntry};
use crate::events::{BlockEvent, Matcher};
use crate::input::{Format, TraceInput};
use crate::requests::SharedRequests;
use crate::source::{Merge, TraceSource};
use crate::text::{Bytes, LineFormat, TextSource};
use std::io::{self, Cursor, Read};

/// A parser of block-layer events.
type EventParser = fn(Bytes) -> Box<dyn TraceSource<BlockEvent>>;

/// Returns the operations of the `streams`, which are all of one format, merged by time; recorded requests go into the
/// table `requests`.
pub(crate) fn parser(
    format: Format,
    streams: Vec<Bytes>,
    input: &TraceInput,
    requests: &SharedRequests,
) -> Result<Box<dyn TraceSource<TraceEntry>>, ParseError> {
    let events: Option<EventParser> = match format {
        Format::Blkparse => Some(|stream| Box::new(blktrace::Blkparse::new(stream))),
        Format::Blktrace => Some(|stream| Box::new(blktrace::Blktrace::new(stream))),
        _ => None,
    };
    match events {
        Some(events) => {
            let merged = Merge::new(streams.into_iter().map(events).collect());
            Ok(Box::new(Matcher::new(Box::new(merged), input.arrivals)))
        }
        None => {
            let of_one = |(file, stream)| {
                of_one(format, stream, input, requests)
                    .map_err(|fault| ParseError { file, ..fault })
            };
            let sources: Result<_, ParseError> = (0..).zip(streams).map(of_one).collect();
            sources.map(merged)
        }
    }
}

fn merged(mut sources: Vec<Box<dyn TraceSource<TraceEntry>>>) -> Box<dyn TraceSource<TraceEntry>> {
    match sources.pop() {
        Some(only) if sources.is_empty() => only,
        last => {
            sources.extend(last);
            Box::new(Merge::new(sources))
        }
    }
}

fn of_one(
    format: Format,
    stream: Bytes,
    input: &TraceInput,
    requests: &SharedRequests,
) -> Result<Box<dyn TraceSource<TraceEntry>>, ParseError> {
    Ok(match format {
        Format::Bw => Box::new(own::Own::new(stream, input.lenient)?),
        Format::Load => text(stream, text::Load::default()),
        Format::FioIolog => text(stream, text::Iolog::new(input.v2_wait)),
        Format::Msr => text(stream, text::Msr::default()),
        Format::Systor => text(stream, text::Systor),
        Format::Spc => text(stream, text::Spc::default()),
        Format::Vscsi => Box::new(vscsi::Vscsi::new(stream)),
        Format::Alibaba => text(stream, text::Alibaba),
        Format::Tencent => text(stream, text::Tencent),
        Format::Mqsim => text(stream, text::Mqsim::new(input.stamp_unit_ns)),
        Format::Strace => text(stream, strace::Strace::default()),
        Format::AccessLog => text(stream, requests::AccessLog::new(requests.clone())),
        Format::Har => Box::new(requests::Har::new(stream, requests.clone())?),
        Format::Jsonl => text(stream, requests::JsonLines::new(requests.clone())),
        Format::Blkparse | Format::Blktrace => {
            return parser(format, vec![stream], input, requests);
        }
    })
}

fn text<F: LineFormat + 'static>(stream: Bytes, format: F) -> Box<dyn TraceSource<TraceEntry>> {
    Box::new(TextSource::new(stream, format))
}

/// The text formats without a heading of their own.
const BY_LINES: [Format; 11] = [
    Format::Load,
    Format::Blkparse,
    Format::Msr,
    Format::Systor,
    Format::Spc,
    Format::Alibaba,
    Format::Tencent,
    Format::Mqsim,
    Format::Strace,
    Format::AccessLog,
    Format::Jsonl,
];

/// Returns the formats that a file starting with `head` may be; binary formats first, by their magic.
pub(crate) fn candidates(head: &[u8], input: &TraceInput) -> Vec<Format> {
    if head.starts_with(own::MAGIC) {
        return vec![Format::Bw];
    }
    if head.starts_with(b"fio version ") {
        return vec![Format::FioIolog];
    }
    if let Some(magic) = head.first_chunk::<4>() {
        let is_magic = |number: u32| number & 0xffff_ff00 == blktrace::MAGIC;
        if is_magic(u32::from_le_bytes(*magic)) || is_magic(u32::from_be_bytes(*magic)) {
            return vec![Format::Blktrace];
        }
    }
    if head.contains(&0) && vscsi::version(head).is_some() {
        return vec![Format::Vscsi];
    }
    if requests::is_har(head) {
        return vec![Format::Har];
    }
    let reads = |format: &Format| reads_most(*format, head, input);
    BY_LINES.into_iter().filter(reads).collect()
}

/// Maximum length of a line of any text [bytes].
pub(crate) const LONGEST_LINE_BYTES: usize =
    <requests::JsonLines as LineFormat>::LONGEST_LINE_BYTES as usize;
/// How many lines of a text decide its format.
const LINES_TRIED: usize = 64;

/// What a parser makes of the start of a text.
#[derive(Default)]
struct Attempt {
    read: usize,
    refused: usize,
    first_error: Option<ParseError>,
}

/// Returns whether the parser of `format` reads more of the first operations than it refuses.
fn reads_most(format: Format, head: &[u8], input: &TraceInput) -> bool {
    let attempt = attempt(format, head, input);
    attempt.read > attempt.refused
}

/// Returns the format whose parser reads farthest into a line of a text that no format can be, beyond its first field; and
/// its error.
pub(crate) fn closest(head: &[u8], input: &TraceInput) -> Option<(Format, ParseError)> {
    let error = |format: Format| Some((format, attempt(format, head, input).first_error?));
    let column = |error: &ParseError| match error.place {
        Position::Text(_, column) => column,
        _ => 1,
    };
    // A word is no beginning of JSON, although its first letter may be that of `null`.
    let is_json = head.trim_ascii_start().starts_with(b"{");
    let formats = BY_LINES
        .into_iter()
        .filter(|format| *format != Format::Jsonl || is_json);
    let errors = formats.filter_map(error);
    let started = errors.filter(|(_, error)| column(error) > 1);
    started.max_by_key(|(_, error)| column(error))
}

/// Lets the parser of `format` read the first operations.
fn attempt(format: Format, head: &[u8], input: &TraceInput) -> Attempt {
    let complete = match head.iter().rposition(|byte| *byte == b'\n') {
        Some(last) => &head[..=last],
        None => head,
    };
    let stream: Box<dyn Read + Send> = Box::new(Cursor::new(complete.to_vec()));
    // A log of POST requests alone is one too.
    let all = SharedRequests::new(&TraceInput {
        unsafe_methods: true,
        ..input.clone()
    });
    let mut attempt = Attempt::default();
    let Ok(mut source) = of_one(format, io::BufReader::new(stream), input, &all) else {
        return attempt;
    };
    let mut devices = DeviceNames::default();
    while attempt.read + attempt.refused < LINES_TRIED {
        match source.next(&mut devices) {
            Ok(Some(_)) => attempt.read += 1,
            Ok(None) => break,
            Err(error) => {
                attempt.refused += 1;
                attempt.first_error.get_or_insert(error);
            }
        }
    }
    attempt
}
