//! The streams of one worker: a reader for each slot, and what they have in common.
//!
//! Decision: readers belong to slots, so that what a stream was can be asked for after its operation has left its
//! connection, and HTTP/1.1 and HTTP/2 have the same code. The time is passed in once for each read, by who reads.

use crate::events::{EventReader, EventSpec, StreamOutcome};
use bw_model::Nanos;
use bw_record::errno::{RESPONSE_CUT, STREAM_CUT, STREAM_ENCODED, STREAM_ERROR, STREAM_STALLED};
use bw_record::histogram::Histogram;
use std::cell::RefCell;
use std::ops::Range;

/// The time limits of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamLimits {
    /// Until its first event with content, as the limit of an operation counts; None: no limit.
    pub first: Option<Nanos>,
    /// From one event with content to the next, or to the end; None: no limit.
    pub gap: Option<Nanos>,
}

impl StreamLimits {
    /// Returns whether there is one.
    #[must_use]
    pub fn are_any(&self) -> bool {
        self.first.is_some() || self.gap.is_some()
    }
}

/// The streams of one worker.
#[derive(Debug)]
pub struct Streams {
    spec: EventSpec,
    limits: StreamLimits,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    /// By slot.
    readers: Vec<EventReader>,
    /// Arrival of what is being read [ns].
    at: u64,
    /// How long ago that was when it was read [ns]; None: unknown.
    unseen: Option<u64>,
    /// Whether this read has had an event with content.
    has_content: bool,
    /// The measured part of the run, by the clock of `at` [ns].
    measured: Range<u64>,
    /// With limits: slots whose streams had such an event, or their end mark, in it; each is in it once.
    heard: Vec<u32>,
    is_heard: Vec<bool>,
    gaps: Histogram,
    read_lateness: Histogram,
}

impl Streams {
    /// Returns the record of streams that are read like this.
    #[must_use]
    pub fn new(spec: EventSpec, limits: StreamLimits) -> Self {
        Self {
            spec,
            limits,
            state: RefCell::new(State {
                readers: Vec::new(),
                at: 0,
                unseen: None,
                has_content: false,
                measured: 0..u64::MAX,
                heard: Vec::new(),
                is_heard: Vec::new(),
                gaps: Histogram::new(),
                read_lateness: Histogram::new(),
            }),
        }
    }

    /// Returns the time limits.
    #[must_use]
    pub fn limits(&self) -> StreamLimits {
        self.limits
    }

    /// Makes room for so many more slots.
    pub(crate) fn grow(&self, slots: u32) {
        let mut state = self.state.borrow_mut();
        let all = state.readers.len() + slots as usize;
        state.readers.resize_with(all, EventReader::new);
        state.heard.reserve(all);
        state.is_heard.resize(all, false);
    }

    /// Sets the measured part of the run, by the clock of [`arrives`](Self::arrives) [ns].
    pub fn measure(&self, part: Range<u64>) {
        self.state.borrow_mut().measured = part;
    }

    /// Sets the time of what is read next: it arrived at `at` [ns], `unseen` before it was read [ns]; None: that is unknown,
    /// and `at` is when it was read.
    pub fn arrives(&self, at: u64, unseen: Option<u64>) {
        let mut state = self.state.borrow_mut();
        (state.at, state.unseen, state.has_content) = (at, unseen, false);
    }

    /// Begins the stream of an operation.
    pub(crate) fn begin(&self, slot: u32) {
        let mut state = self.state.borrow_mut();
        if let Some(reader) = state.readers.get_mut(slot as usize) {
            reader.begin();
        }
    }

    /// Reads a piece of an answer.
    pub(crate) fn read(&self, slot: u32, piece: &[u8], is_measured: bool) {
        self.step(slot, is_measured, |reader, spec, at, gap| {
            reader.read(spec, piece, at, gap);
        });
    }

    /// Takes a piece of an answer with a content coding.
    pub(crate) fn refuse(&self, slot: u32) {
        let mut state = self.state.borrow_mut();
        if let Some(reader) = state.readers.get_mut(slot as usize) {
            reader.refuse();
        }
    }

    /// Reads a boundary of the transfer.
    pub(crate) fn boundary(&self, slot: u32, is_measured: bool) {
        self.step(slot, is_measured, |reader, spec, _, gap| {
            reader.boundary(spec, gap);
        });
    }

    /// Takes a whole message of this length; `is_end`: it is the end mark.
    pub(crate) fn message(&self, slot: u32, length: u64, is_end: bool, is_measured: bool) {
        self.step(slot, is_measured, |reader, spec, at, gap| {
            reader.message(spec, length, is_end, at, gap);
        });
    }

    /// Returns the length of the answer so far.
    pub(crate) fn bytes(&self, slot: u32) -> i64 {
        i64::try_from(self.outcome(slot).bytes).unwrap_or(i64::MAX)
    }

    /// Ends the stream of a complete answer; returns the result of its operation, which was `result` so far.
    pub(crate) fn complete(&self, slot: u32, is_measured: bool, result: i64) -> i64 {
        self.step(slot, is_measured, |reader, spec, _, gap| {
            reader.finish(spec, gap);
        });
        if result < 0 {
            result
        } else {
            self.judge(slot, result)
        }
    }

    /// Returns the result of an operation that failed before its answer was complete. A stream with its end mark has
    /// succeeded, whatever happens to its connection afterwards; without an event that has arrived it is `result`.
    #[must_use]
    pub fn broken(&self, slot: u32, result: i64) -> i64 {
        const LOST: [i32; 2] = [-libc::ECONNRESET, RESPONSE_CUT];
        const LATE: [i32; 4] = [
            -libc::ETIMEDOUT,
            -libc::ECONNABORTED,
            -libc::EPIPE,
            STREAM_STALLED,
        ];
        let outcome = self.outcome(slot);
        let is = |results: &[i32]| results.iter().any(|one| i64::from(*one) == result);
        let (is_lost, is_late) = (is(&LOST), is(&LATE));
        if outcome.encoded && (is_lost || is_late) {
            STREAM_ENCODED.into()
        } else if outcome.ended && (is_lost || is_late) {
            // At most the length of what was read.
            self.judge(slot, outcome.bytes as i64)
        } else if outcome.events > 0 && is_lost {
            self.judge(slot, result)
        } else {
            result
        }
    }

    fn judge(&self, slot: u32, result: i64) -> i64 {
        let outcome = self.outcome(slot);
        if outcome.encoded {
            STREAM_ENCODED.into()
        } else if outcome.failed {
            STREAM_ERROR.into()
        } else if self.spec.is_cut(&outcome) {
            STREAM_CUT.into()
        } else {
            result
        }
    }

    fn step(
        &self,
        slot: u32,
        is_measured: bool,
        step: impl FnOnce(&mut EventReader, &EventSpec, u64, &mut dyn FnMut(u64)),
    ) {
        let State {
            readers,
            at,
            unseen,
            has_content,
            measured,
            heard,
            is_heard,
            gaps,
            read_lateness,
        } = &mut *self.state.borrow_mut();
        let Some(reader) = readers.get_mut(slot as usize) else {
            return;
        };
        let before = reader.outcome();
        step(reader, &self.spec, *at, &mut |gap| {
            if is_measured {
                gaps.record(gap);
            }
        });
        let outcome = reader.outcome();
        let content = outcome.content - before.content;
        if content == 0 && outcome.ended == before.ended {
            return;
        }
        // All of this step arrived at once.
        if outcome.last_ns.is_some_and(|last| measured.contains(&last)) {
            reader.count_in_time(content);
        }
        if is_measured && content > 0 && !std::mem::replace(has_content, true) {
            unseen
                .iter()
                .for_each(|unseen| read_lateness.record(*unseen));
        }
        let is_heard = is_heard.get_mut(slot as usize);
        if self.limits.are_any() && is_heard.is_some_and(|is| !std::mem::replace(is, true)) {
            heard.push(slot);
        }
    }

    /// Returns a slot whose stream has had an event with content, or its end mark, since it was asked for last, and whether
    /// it has its end mark; with limits only.
    #[must_use]
    pub fn take_heard(&self) -> Option<(u32, bool)> {
        let state = &mut *self.state.borrow_mut();
        let slot = state.heard.pop()?;
        state.is_heard[slot as usize] = false;
        Some((slot, state.readers[slot as usize].outcome().ended))
    }

    /// Returns what the stream of the last operation that began in this slot was so far.
    #[must_use]
    pub fn outcome(&self, slot: u32) -> StreamOutcome {
        let state = self.state.borrow();
        let reader = state.readers.get(slot as usize);
        reader.map(EventReader::outcome).unwrap_or_default()
    }

    /// Adds the gaps between events with content, and how late each read with one was.
    pub fn add_reads(&self, gaps: &mut Histogram, read_lateness: &mut Histogram) {
        let state = self.state.borrow();
        gaps.merge(&state.gaps);
        read_lateness.merge(&state.read_lateness);
    }
}
