//! A whole session of HTTP/2 against a server that follows a script, of which a part breaks the rules.
//!
//! Whatever the server sends, each operation ends at most once, a success is a whole response, and what the client writes
//! follows RFC 9113: streams in order, no more of them and no more data than the server allows, acknowledgements in order.

#![allow(clippy::unwrap_used)]

use bw_model::ExchangeAddress;
use bw_protocol::http2::{Http2, Requests};
use bw_protocol::{Protocol, RESEND, SessionState};
use connection::Connection;
use http2_frames::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

#[allow(dead_code)]
mod connection;
mod http2_frames;

/// Most streams of the client.
const OUTSTANDING: u32 = 8;
/// Names of settings.
const STREAMS: u16 = 3;
const WINDOW: u16 = 4;
const FRAME_BYTES: u16 = 5;
const LIST_BYTES: u16 = 6;
/// Of the places from the last stream on, the one that selects none.
const NONE: usize = 11;
/// Flags of a frame.
const PADDED: u8 = 8;

/// A step of the client or of the server. `stream` selects one of those that were opened, or none.
#[derive(Clone, Debug)]
enum Step {
    /// Begins operations while there is room.
    Begin(u32),
    /// Gives up an operation in progress.
    Cancel(usize),
    /// The socket takes this many bytes.
    Write(usize),
    Head {
        stream: usize,
        status: u16,
        last: bool,
    },
    Data {
        stream: usize,
        bytes: usize,
        padding: Option<u8>,
        last: bool,
    },
    Reset {
        stream: usize,
        code: u32,
    },
    Settings(Vec<(u16, u32)>),
    WindowUpdate {
        stream: Option<usize>,
        bytes: u32,
    },
    Ping(u64),
    GoAway {
        stream: usize,
        code: u32,
    },
    /// Any frame, with any flags, on any stream.
    Frame {
        kind: u8,
        flags: u8,
        stream: u32,
        payload: Vec<u8>,
    },
    /// Any bytes.
    Bytes(Vec<u8>),
}

/// A setting that a server may send, and some that it may not.
fn setting() -> impl Strategy<Value = (u16, u32)> {
    prop_oneof![
        4 => (0_u32..12).prop_map(|streams| (STREAMS, streams)),
        4 => (0_u32..200_000).prop_map(|bytes| (WINDOW, bytes)),
        2 => (16_384_u32..40_000).prop_map(|bytes| (FRAME_BYTES, bytes)),
        2 => (0_u32..4096).prop_map(|bytes| (LIST_BYTES, bytes)),
        2 => (0_u32..9000).prop_map(|bytes| (1, bytes)),
        1 => (any::<u16>(), any::<u32>()),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let stream = prop_oneof![30 => 0_usize..4, 10 => 4_usize..NONE, 1 => Just(NONE)];
    let legal = prop_oneof![
        6 => (1_u32..4).prop_map(Step::Begin),
        1 => stream.clone().prop_map(Step::Cancel),
        8 => prop_oneof![1_usize..60, 1_usize..100_000].prop_map(Step::Write),
        8 => (stream.clone(), prop_oneof![Just(200), Just(404), Just(103), Just(204)], any::<bool>())
            .prop_map(|(stream, status, last)| Step::Head { stream, status, last }),
        8 => (stream.clone(), 0_usize..20_000, prop::option::of(any::<u8>()), any::<bool>())
            .prop_map(|(stream, bytes, padding, last)| Step::Data { stream, bytes, padding, last }),
        2 => (stream.clone(), 0_u32..14).prop_map(|(stream, code)| Step::Reset { stream, code }),
        2 => prop::collection::vec(setting(), 0..4).prop_map(Step::Settings),
        6 => (prop::option::of(stream.clone()), prop_oneof![1_u32..70_000, 0_u32..1 << 31])
            .prop_map(|(stream, bytes)| Step::WindowUpdate { stream, bytes }),
        1 => any::<u64>().prop_map(Step::Ping),
        1 => (stream, 0_u32..14).prop_map(|(stream, code)| Step::GoAway { stream, code }),
    ];
    let payload = prop::collection::vec(any::<u8>(), 0..40);
    let hostile = prop_oneof![
        4 => (0_u8..12, any::<u8>(), 0_u32..30, payload.clone())
            .prop_map(|(kind, flags, stream, payload)| Step::Frame { kind, flags, stream, payload }),
        1 => payload.prop_map(Step::Bytes),
    ];
    prop_oneof![40 => legal, 1 => hostile]
}

/// A stream as the server sees it.
#[derive(Debug, Default)]
struct Seen {
    slot: u32,
    /// How much more data the client may send.
    window: i64,
    sent_all: bool,
    response_bytes: u64,
    responded: bool,
    /// RST_STREAM of the server, and of the client. What the client had put before may cross the server's.
    reset: bool,
    given_up: bool,
}

impl Seen {
    fn is_open(&self) -> bool {
        !(self.reset || self.given_up || self.sent_all && self.responded)
    }
}

/// What the server knows of the client, by what it has read; it panics if the client breaks the rules.
#[derive(Debug)]
struct Witness {
    unread: Vec<u8>,
    greeted: bool,
    streams: BTreeMap<u32, Seen>,
    /// Stream of a header block that is not complete.
    block: Option<u32>,
    window: i64,
    most_streams: u32,
    first_window: i64,
    frame_bytes: usize,
    /// What was sent and not acknowledged.
    settings: VecDeque<Vec<(u16, u32)>>,
    pings: VecDeque<u64>,
    /// Whether all that was sent is in this state; a frame of any kind is not.
    exact: bool,
}

impl Witness {
    fn new() -> Self {
        Self {
            unread: Vec::new(),
            greeted: false,
            streams: BTreeMap::new(),
            block: None,
            window: 65_535,
            most_streams: u32::MAX,
            first_window: 65_535,
            frame_bytes: 16_384,
            settings: VecDeque::new(),
            pings: VecDeque::new(),
            exact: true,
        }
    }

    /// Reads what the client wrote; the slots of new streams come from `begun`, in order.
    fn read(&mut self, bytes: &[u8], begun: &mut VecDeque<u32>) {
        self.unread.extend_from_slice(bytes);
        if !self.greeted {
            let most = PREFACE.len().min(self.unread.len());
            assert_eq!(self.unread[..most], PREFACE[..most]);
            if most < PREFACE.len() {
                return;
            }
            self.unread.drain(..most);
            self.greeted = true;
        }
        let unread = std::mem::take(&mut self.unread);
        let mut rest = &unread[..];
        loop {
            let before = rest;
            let Ok(frame) = Frame::read(&mut rest) else {
                self.unread = before.to_vec();
                return;
            };
            self.frame(&frame, begun);
        }
    }

    fn frame(&mut self, frame: &Frame, begun: &mut VecDeque<u32>) {
        let length = frame.payload.len();
        assert!(!self.exact || length <= self.frame_bytes, "{length} bytes");
        if let Some(stream) = self.block {
            assert_eq!((frame.kind, frame.stream), (CONTINUATION, stream));
        }
        match frame.kind {
            HEADERS => {
                let next = 1 + 2 * self.streams.len() as u32;
                assert_eq!(frame.stream, next, "streams are opened in order");
                let open = self.streams.values().filter(|seen| seen.is_open());
                assert!(
                    !self.exact || (open.count() as u32) < self.most_streams,
                    "too many streams"
                );
                let seen = Seen {
                    slot: begun.pop_front().unwrap(),
                    window: self.first_window,
                    sent_all: frame.flags & END != 0,
                    ..Seen::default()
                };
                self.streams.insert(next, seen);
                self.block = (frame.flags & END_HEADERS == 0).then_some(next);
            }
            CONTINUATION => {
                assert_eq!(self.block, Some(frame.stream));
                self.block = (frame.flags & END_HEADERS == 0).then_some(frame.stream);
            }
            DATA => {
                let seen = self.streams.get_mut(&frame.stream).unwrap();
                assert!(!seen.sent_all && !seen.given_up, "{frame:?} on {seen:?}");
                seen.window -= length as i64;
                self.window -= length as i64;
                let fits = seen.window >= 0 && self.window >= 0;
                assert!(length == 0 || !self.exact || fits, "{seen:?}");
                seen.sent_all = frame.flags & END != 0;
            }
            RST_STREAM => {
                let seen = self.streams.get_mut(&frame.stream).unwrap();
                assert!(!std::mem::replace(&mut seen.given_up, true), "{seen:?}");
            }
            SETTINGS if frame.flags & END != 0 => {
                let acknowledged = self.settings.pop_front();
                assert!(!self.exact || acknowledged.is_some());
                for (name, value) in acknowledged.unwrap_or_default() {
                    self.set(name, value);
                }
            }
            SETTINGS => assert_eq!(frame.stream, 0),
            PING => {
                assert_eq!(frame.flags & END, END, "only answers");
                let number = u64::from_be_bytes(frame.payload[..].try_into().unwrap());
                assert!(!self.exact || self.pings.pop_front() == Some(number));
            }
            WINDOW_UPDATE => {
                let bytes = u32::from_be_bytes(frame.payload[..].try_into().unwrap());
                assert!(bytes > 0 && bytes < 1 << 31);
                assert!(frame.stream == 0 || self.streams.contains_key(&frame.stream));
            }
            GOAWAY => assert_eq!(frame.stream, 0),
            kind => panic!("a frame of kind {kind}"),
        }
    }

    /// Applies a setting that the client has acknowledged.
    fn set(&mut self, name: u16, value: u32) {
        match name {
            STREAMS => self.most_streams = value,
            WINDOW => {
                let change = i64::from(value) - self.first_window;
                self.first_window += change;
                self.streams
                    .values_mut()
                    .for_each(|seen| seen.window += change);
            }
            FRAME_BYTES => self.frame_bytes = value as usize,
            _ => {}
        }
    }
}

/// A session with its server.
struct Session {
    connection: Connection<Http2>,
    state: SessionState,
    /// Whether the client has given the connection up.
    dropped: bool,
    in_progress: Vec<u32>,
    /// Slots whose HEADERS the server has not read yet.
    begun: VecDeque<u32>,
    next_slot: u32,
    witness: Witness,
    /// The last stream of the last GOAWAY.
    goaway: Option<u32>,
    checked_ends: usize,
    cuts: Vec<usize>,
}

impl Session {
    fn open(body_bytes: u64, cuts: &[usize]) -> Self {
        let fields = [(":method", "PUT"), (":path", "/a")];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let requests = Requests::new(&[fields.to_vec()], body_bytes, false);
        let (connection, state) = Connection::open(Http2::new(Arc::new(requests), OUTSTANDING));
        Self {
            connection,
            state,
            dropped: false,
            in_progress: Vec::new(),
            begun: VecDeque::new(),
            next_slot: 0,
            witness: Witness::new(),
            goaway: None,
            checked_ends: 0,
            cuts: cuts.to_vec(),
        }
    }

    /// Returns the stream that a step selects: one that the server has seen, or seldom one that it has not.
    fn stream(&mut self, place: usize) -> u32 {
        let count = self.witness.streams.len();
        let place = match place {
            NONE => count,
            _ => count.saturating_sub(1 + place),
        };
        self.witness.exact &= place < count;
        1 + 2 * place as u32
    }

    fn is_over(&self) -> bool {
        self.dropped || matches!(self.state, SessionState::Failed(_))
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Begin(count) => {
                for _ in 0..*count {
                    if self.connection.room() == 0 {
                        break;
                    }
                    let slot = self.next_slot;
                    self.next_slot += 1;
                    let address = ExchangeAddress {
                        request: 0,
                        number: u64::from(slot),
                    };
                    match self.connection.begin(slot, address.pack()) {
                        Ok(()) => {
                            self.in_progress.push(slot);
                            self.begun.push_back(slot);
                        }
                        // The server allows shorter lists of fields only.
                        Err(result) => assert_eq!(result, -libc::EMSGSIZE),
                    }
                }
                assert!(self.in_progress.len() <= OUTSTANDING as usize);
            }
            Step::Cancel(place) => {
                if self.in_progress.is_empty() {
                    return;
                }
                let slot = self.in_progress.remove(place % self.in_progress.len());
                let Connection {
                    protocol,
                    session,
                    out,
                    ..
                } = &mut self.connection;
                // A request that the socket has not taken ends with the connection.
                self.dropped = !protocol.cancel(session, slot, out);
            }
            Step::Write(bytes) => self.write(*bytes),
            _ => self.serve(step),
        }
    }

    /// The socket takes bytes; the server reads them.
    fn write(&mut self, bytes: usize) {
        let Connection {
            protocol,
            session,
            out,
            ends,
        } = &mut self.connection;
        let mut left = bytes;
        while left > 0 && !out.is_empty() {
            let piece = out.next();
            let length = piece.len().min(left);
            let written = piece[..length].to_vec();
            out.written(length);
            left -= length;
            self.witness.read(&written, &mut self.begun);
            if out.is_empty() {
                protocol.more(session, out);
            }
        }
        if out.is_empty() {
            self.state = protocol.sent(session, ends);
        }
        self.check_ends();
    }

    /// The server sends something.
    fn serve(&mut self, step: &Step) {
        let bytes = match step {
            Step::Head {
                stream,
                status,
                last,
            } => {
                let stream = self.stream(*stream);
                let last = *last && *status != 103;
                let flags = if last { END | END_HEADERS } else { END_HEADERS };
                let head = [b"\x08\x03", status.to_string().as_bytes()].concat();
                if let Some(seen) = self.witness.streams.get_mut(&stream) {
                    seen.responded |= last;
                }
                frame(HEADERS, flags, stream, &head)
            }
            Step::Data {
                stream,
                bytes,
                padding,
                last,
            } => {
                let stream = self.stream(*stream);
                let bytes = (*bytes).min(16_000);
                if let Some(seen) = self.witness.streams.get_mut(&stream)
                    && !seen.responded
                {
                    seen.response_bytes += bytes as u64;
                    seen.responded = *last;
                }
                let end = if *last { END } else { 0 };
                let data = vec![b'd'; bytes];
                match padding {
                    None => frame(DATA, end, stream, &data),
                    Some(padding) => {
                        let payload =
                            [&[*padding], &data[..], &vec![0; usize::from(*padding)]].concat();
                        frame(DATA, end | PADDED, stream, &payload)
                    }
                }
            }
            Step::Reset { stream, code } => {
                let stream = self.stream(*stream);
                if let Some(seen) = self.witness.streams.get_mut(&stream) {
                    seen.reset = true;
                }
                rst_stream(stream, *code)
            }
            Step::Settings(values) => {
                self.witness.settings.push_back(values.clone());
                settings(values)
            }
            Step::WindowUpdate { stream, bytes } => {
                let stream = stream.map_or(0, |place| self.stream(place));
                match self.witness.streams.get_mut(&stream) {
                    Some(seen) => seen.window += i64::from(*bytes),
                    None if stream == 0 => self.witness.window += i64::from(*bytes),
                    None => {}
                }
                window_update(stream, *bytes)
            }
            Step::Ping(number) => {
                self.witness.pings.push_back(*number);
                frame(PING, 0, 0, &number.to_be_bytes())
            }
            Step::GoAway { stream, code } => {
                let last = self.stream(*stream);
                self.goaway = Some(self.goaway.map_or(last, |former| former.min(last)));
                goaway(last, *code)
            }
            Step::Frame {
                kind,
                flags,
                stream,
                payload,
            } => {
                self.witness.exact = false;
                frame(*kind, *flags, *stream, payload)
            }
            Step::Bytes(bytes) => {
                self.witness.exact = false;
                bytes.clone()
            }
            Step::Begin(_) | Step::Cancel(_) | Step::Write(_) => return,
        };
        let mut rest = &bytes[..];
        let cuts = self.cuts.clone();
        let mut cuts = cuts.iter().cycle();
        while !rest.is_empty() && !self.is_over() {
            let length = cuts.next().map_or(rest.len(), |cut| (*cut).min(rest.len()));
            let (piece, more) = rest.split_at(length);
            self.state = self.connection.receive(piece);
            rest = more;
            self.check_ends();
        }
    }

    /// Examines the new ends.
    fn check_ends(&mut self) {
        let results = self.connection.results();
        for (slot, result) in &results[self.checked_ends..] {
            let place = self.in_progress.iter().position(|one| one == slot);
            self.in_progress
                .remove(place.expect("an operation ends once, while it is in progress"));
            let seen = self
                .witness
                .streams
                .iter()
                .find(|(_, seen)| seen.slot == *slot);
            if !self.witness.exact {
                continue;
            }
            if *result >= 0 {
                let (stream, seen) =
                    seen.expect("a response to a request that the server has read");
                assert!(seen.responded, "stream {stream}: {result} without an end");
                assert_eq!(*result as u64, seen.response_bytes, "stream {stream}");
            }
            if *result == RESEND {
                let last = self.goaway.expect("RESEND without GOAWAY");
                assert!(seen.is_none_or(|(stream, _)| *stream > last), "{seen:?}");
            }
        }
        self.checked_ends = results.len();
    }

    /// The server closes the connection: everything in progress ends.
    fn close(&mut self) {
        self.connection.close();
        self.check_ends();
        assert!(self.in_progress.is_empty(), "{:?}", self.in_progress);
    }
}

/// Plays a script until the session fails; returns the ends and how it ended.
fn play(steps: &[Step], body_bytes: u64, cuts: &[usize]) -> (Vec<(u32, i32)>, SessionState) {
    let mut session = Session::open(body_bytes, cuts);
    for step in steps {
        session.take(step);
        if session.is_over() {
            break;
        }
    }
    if !session.is_over() {
        session.close();
    }
    (session.connection.results(), session.state)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_script_of_a_server_upsets_a_session(
        first in prop::collection::vec(setting(), 0..3),
        steps in prop::collection::vec(step(), 0..120),
        body_bytes in prop_oneof![Just(0_u64), Just(7), Just(150_000)],
        cuts in prop::collection::vec(1_usize..30, 1..20),
    ) {
        let steps = [vec![Step::Settings(first), Step::Begin(2), Step::Write(usize::MAX)], steps].concat();
        play(&steps, body_bytes, &cuts);
        // What the server selects depends on what it has read, so only a socket that takes everything repeats a session.
        let everything = |step| match step {
            Step::Write(_) => Step::Write(usize::MAX),
            step => step,
        };
        let steps: Vec<Step> = steps.into_iter().map(everything).collect();
        let whole = play(&steps, body_bytes, &[]);
        let cut = play(&steps, body_bytes, &cuts);
        prop_assert_eq!(whole, cut, "any split of the bytes gives the same");
    }
}
