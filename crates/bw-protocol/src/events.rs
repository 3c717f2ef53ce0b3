//! The events inside an answer that arrives piece by piece: where they begin and end, and which of them have content.
//!
//! Decision: a framer calls an [`Event`] with the parts of an event's data as they arrive, and a scanner follows them
//! from part to part. So nothing is buffered, whatever the split, and a line without an end needs no memory. Rejected: a
//! buffer for each event that arrives in several reads, which needs a limit and a rule for what is above it.
//!
//! An event arrives with the last byte that it needs. Events with the same time of arrival share a read: which gaps they
//! had is unknown, so they are counted instead.

pub(crate) mod grpc;
mod lines;
mod meaning;
mod sink;
mod sse;

use grpc::Messages;
use lines::Lines;
use meaning::{EventKind, Name, Scanner};
use serde::Deserialize;
use sink::EventSink;
use sse::Sse;

/// How events are delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventFormat {
    /// Server-sent events.
    Sse,
    /// Lines that end with LF or CRLF; an empty line is no event.
    Lines,
    /// Chunks of HTTP/1.1, DATA frames of HTTP/2.
    Chunks,
    /// Messages of gRPC.
    Grpc,
    /// Messages of WebSocket.
    WebSocket,
}

/// Whose events they are, which says what is content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Meaning {
    /// Nobody's in particular: every event but the end mark is content.
    #[default]
    Plain,
    /// A language model's, as of `/v1/chat/completions`.
    Chat,
    /// A language model's, as of `/v1/completions`.
    Completions,
    /// A language model's, as of `/v1/responses`.
    Responses,
}

/// How an answer is read as events.
#[derive(Clone, Debug)]
pub struct EventSpec {
    /// How they are delimited.
    pub format: EventFormat,
    /// Whose they are.
    pub meaning: Meaning,
    /// Data of the event that ends the stream; None: no such event, or one that the meaning knows.
    pub end: Option<Box<[u8]>>,
}

impl EventSpec {
    /// Returns the specification with the end mark of `meaning` if none is given.
    #[must_use]
    pub fn new(format: EventFormat, meaning: Meaning, end: Option<&str>) -> Self {
        let usual = match meaning {
            Meaning::Chat | Meaning::Completions => Some("[DONE]"),
            Meaning::Plain | Meaning::Responses => None,
        };
        let end = end.or(usual).map(|end| end.as_bytes().into());
        Self {
            format,
            meaning,
            end,
        }
    }

    /// Returns whether a part of an event's data is the rest of the end mark and blanks, which some servers of language
    /// models write behind it.
    fn ends_with_blanks(&self, rest: &[u8], part: &[u8]) -> bool {
        let blanks = part.strip_prefix(rest);
        let allowed = matches!(self.meaning, Meaning::Chat | Meaning::Completions);
        allowed && blanks.is_some_and(|blanks| blanks.iter().all(|byte| b" \t".contains(byte)))
    }

    /// Returns whether the stream was cut: it was over without the end mark that it should have, and without an error.
    #[must_use]
    pub fn is_cut(&self, outcome: &StreamOutcome) -> bool {
        let of_format = matches!(self.format, EventFormat::Grpc | EventFormat::WebSocket);
        let has_own = self.meaning == Meaning::Responses || of_format;
        let expects_end = self.end.is_some() || has_own;
        expects_end && !outcome.ended && !outcome.failed
    }
}

/// What one stream was; times are those passed to [`EventReader::read`] [ns].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamOutcome {
    /// Arrival of the first event of any kind.
    pub first_event_ns: Option<u64>,
    /// Arrival of the first event with content.
    pub first_ns: Option<u64>,
    /// Arrival of the first event with content other than reasoning.
    pub first_visible_ns: Option<u64>,
    /// Arrival of the last event with content.
    pub last_ns: Option<u64>,
    /// Number of events of any kind; comments are none.
    pub events: u32,
    /// Number of events with content.
    pub content: u32,
    /// Number of events with content that share a read with the one before, so have no gap of their own.
    pub shared: u32,
    /// Whether the second event with content shares the read of the first: the first arrived at this time at the latest.
    pub first_shared: bool,
    /// Number of events with content that arrived in the measured part of the run.
    pub in_time: u32,
    /// Number of bytes of the body.
    pub bytes: u64,
    /// Largest time between two events with content of different reads.
    pub largest_gap_ns: Option<u64>,
    /// Tokens of the output, by the server.
    pub tokens: Option<u32>,
    /// Tokens of the prompt, by the server.
    pub prompt_tokens: Option<u32>,
    /// Tokens of the prompt that the server had in its cache.
    pub cached_tokens: Option<u32>,
    /// Tokens of the output that were reasoning.
    pub reasoning_tokens: Option<u32>,
    /// Whether the end mark was read; of gRPC, whether the answer ended after a whole message.
    pub ended: bool,
    /// Whether an event reported an error.
    pub failed: bool,
    /// Whether the body has a content coding, so that its bytes are no events and are not read.
    pub encoded: bool,
    /// Whether the output reached its maximum length.
    pub stopped_by_length: bool,
}

/// Reads the events of one answer after another; allocates nothing.
#[derive(Debug, Default)]
pub struct EventReader {
    outcome: StreamOutcome,
    /// Arrival of the last piece [ns].
    at: u64,
    event: Event,
    framers: Framers,
}

impl EventReader {
    /// Returns a reader at the beginning of an answer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts anew with another answer.
    pub fn begin(&mut self) {
        *self = Self::default();
    }

    /// Reads a piece of the body that arrived at `at` [ns]; `gap` gets the gap before each event with content that has
    /// one [ns].
    pub fn read(&mut self, spec: &EventSpec, piece: &[u8], at: u64, gap: impl FnMut(u64)) {
        if piece.is_empty() {
            return;
        }
        self.at = at;
        self.outcome.bytes += piece.len() as u64;
        let (framer, mut stream) = self.parts(spec, gap);
        match spec.format {
            EventFormat::Sse => framer.sse.read(piece, &mut stream),
            EventFormat::Lines => framer.lines.read(piece, &mut stream),
            EventFormat::Chunks => stream.data(piece),
            EventFormat::Grpc => framer.grpc.read(piece, &mut stream),
            // Those arrive whole.
            EventFormat::WebSocket => {}
        }
    }

    /// Reads a boundary of the transfer itself, the end of an HTTP/1.1 chunk or of a DATA frame, after the last piece
    /// before it.
    pub fn boundary(&mut self, spec: &EventSpec, gap: impl FnMut(u64)) {
        if spec.format == EventFormat::Chunks {
            self.parts(spec, gap).1.end();
        }
    }

    /// Reads the end of the answer, which ends a last event that has no end of its own: it arrived with the last piece.
    pub fn finish(&mut self, spec: &EventSpec, gap: impl FnMut(u64)) -> StreamOutcome {
        let (framer, mut stream) = self.parts(spec, gap);
        match spec.format {
            EventFormat::Sse => framer.sse.finish(&mut stream),
            EventFormat::Lines => framer.lines.finish(&mut stream),
            EventFormat::Chunks => stream.end(),
            EventFormat::Grpc => stream.outcome.ended |= framer.grpc.is_between_messages(),
            EventFormat::WebSocket => {}
        }
        self.outcome
    }

    /// Takes a whole message of this length that arrived at `at` [ns]; `is_end`: it is the end mark.
    pub(crate) fn message(
        &mut self,
        spec: &EventSpec,
        length: u64,
        is_end: bool,
        at: u64,
        gap: impl FnMut(u64),
    ) {
        self.at = at;
        self.outcome.bytes += length;
        let (_, mut stream) = self.parts(spec, gap);
        stream.outcome.events = stream.outcome.events.saturating_add(1);
        stream.outcome.first_event_ns.get_or_insert(at);
        if is_end {
            stream.outcome.ended = true;
        } else {
            stream.content(true);
        }
    }

    /// Notes that the body has a content coding.
    pub(crate) fn refuse(&mut self) {
        self.outcome.encoded = true;
    }

    /// Counts events with content that arrived in the measured part of the run.
    pub(crate) fn count_in_time(&mut self, events: u32) {
        self.outcome.in_time = self.outcome.in_time.saturating_add(events);
    }

    /// Returns what the stream was so far.
    #[must_use]
    pub fn outcome(&self) -> StreamOutcome {
        self.outcome
    }

    /// Returns the arrival of the last event with content so far [ns].
    #[must_use]
    pub fn last_content_ns(&self) -> Option<u64> {
        self.outcome.last_ns
    }

    fn parts<'a, G: FnMut(u64)>(
        &'a mut self,
        spec: &'a EventSpec,
        gap: G,
    ) -> (&'a mut Framers, Stream<'a, G>) {
        let stream = Stream {
            spec,
            at: self.at,
            gap,
            event: &mut self.event,
            outcome: &mut self.outcome,
        };
        (&mut self.framers, stream)
    }
}

/// The framers of all formats, of which an answer has one.
#[derive(Debug, Default)]
struct Framers {
    sse: Sse,
    lines: Lines,
    grpc: Messages,
}

/// What is known of an event that has not ended.
#[derive(Debug, Default)]
struct Event {
    has_data: bool,
    /// Length of the data if they are the beginning of the end mark so far, else more than that.
    of_end_mark: usize,
    /// The type that the format gives it.
    kind: Name,
    scanner: Scanner,
}

impl Event {
    fn begin(&mut self) {
        self.has_data = false;
        self.of_end_mark = 0;
        self.kind.clear();
        self.scanner.begin();
    }
}

/// A stream in the step of reading a piece.
struct Stream<'a, G> {
    spec: &'a EventSpec,
    at: u64,
    gap: G,
    event: &'a mut Event,
    outcome: &'a mut StreamOutcome,
}

impl<G: FnMut(u64)> EventSink for Stream<'_, G> {
    fn data(&mut self, part: &[u8]) {
        let event = &mut *self.event;
        event.has_data = true;
        if let Some(mark) = &self.spec.end {
            event.of_end_mark = match mark.get(event.of_end_mark..) {
                Some(rest) if rest.starts_with(part) => event.of_end_mark + part.len(),
                Some(rest) if self.spec.ends_with_blanks(rest, part) => mark.len(),
                _ => usize::MAX,
            };
        }
        if self.spec.meaning != Meaning::Plain {
            event.scanner.read(part);
        }
    }

    fn begin_kind(&mut self) {
        self.event.kind.clear();
    }

    fn kind(&mut self, part: &[u8]) {
        self.event.kind.push(part);
    }

    fn end(&mut self) {
        if self.event.has_data && !self.outcome.ended {
            self.count();
        }
        self.event.begin();
    }
}

impl<G: FnMut(u64)> Stream<'_, G> {
    /// Counts an event.
    fn count(&mut self) {
        let event = &*self.event;
        let found = event.scanner.found;
        let given = EventKind::of(event.kind.as_bytes());
        let outcome = &mut *self.outcome;
        outcome.events = outcome.events.saturating_add(1);
        outcome.first_event_ns.get_or_insert(self.at);
        let mark = self.spec.end.as_ref();
        if mark.is_some_and(|mark| mark.len() == event.of_end_mark) {
            outcome.ended = true;
            return;
        }
        outcome.tokens = found.tokens.or(outcome.tokens);
        outcome.prompt_tokens = found.prompt_tokens.or(outcome.prompt_tokens);
        outcome.cached_tokens = found.cached_tokens.or(outcome.cached_tokens);
        outcome.reasoning_tokens = found.reasoning_tokens.or(outcome.reasoning_tokens);
        outcome.stopped_by_length |= found.by_length;
        let has_error = found.error || given == EventKind::Error;
        outcome.failed |= has_error;
        let (is_visible, is_reasoning) = match self.spec.meaning {
            Meaning::Plain => (!has_error, false),
            Meaning::Chat | Meaning::Completions => (found.visible, found.reasoning),
            Meaning::Responses => {
                let kind = found.kind.or(given);
                outcome.ended = kind == EventKind::End;
                outcome.failed |= kind == EventKind::Failure;
                let has = |wanted| found.delta && kind == wanted;
                (has(EventKind::Delta), has(EventKind::ReasoningDelta))
            }
        };
        if is_visible || is_reasoning {
            self.content(is_visible);
        }
    }

    /// Counts an event with content.
    fn content(&mut self, is_visible: bool) {
        let at = self.at;
        let outcome = &mut *self.outcome;
        outcome.content = outcome.content.saturating_add(1);
        outcome.first_ns.get_or_insert(at);
        if is_visible {
            outcome.first_visible_ns.get_or_insert(at);
        }
        match outcome.last_ns {
            Some(last) if last >= at => {
                outcome.shared = outcome.shared.saturating_add(1);
                outcome.first_shared |= outcome.content == 2;
            }
            Some(last) => {
                let gap = at - last;
                outcome.largest_gap_ns = outcome.largest_gap_ns.max(Some(gap));
                (self.gap)(gap);
            }
            None => {}
        }
        outcome.last_ns = outcome.last_ns.max(Some(at));
    }
}
