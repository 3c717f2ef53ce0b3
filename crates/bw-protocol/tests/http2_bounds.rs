//! What a hostile server can make a session of HTTP/2 do: memory and answers are bounded whatever it sends, floods and
//! endless header blocks among it, each operation ends once, and the next connection starts anew. That the client itself
//! keeps to the rules is in `http2_hostile.rs`.

#![allow(clippy::unwrap_used)]

use bw_model::ExchangeAddress;
use bw_protocol::check::Check;
use bw_protocol::http1::Body;
use bw_protocol::http2::{Http2, Request, Requests};
use bw_protocol::{Protocol, RESEND, SessionState, Template, Values};
use bw_record::errno::RESPONSE_CUT;
use connection::Connection;
use counting::held_bytes;
use http2_frames::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

mod connection;
#[path = "../../bw-sys/tests/counting/mod.rs"]
mod counting;
mod http2_frames;

const FAILED: SessionState = SessionState::Failed(-libc::EPROTO);
/// Maximum number of streams at a time.
const OUTSTANDING: u32 = 8;
/// The bodies of the requests [bytes].
const BODIES: [u64; 3] = [0, 100, 200_000];
/// What a request consists of beside its body, DATA and resets included [bytes].
const HEAD_BYTES: u64 = 200;
/// What a connection may hold beside what waits to be written [bytes]: a frame, a header block, the table of HPACK,
/// and what their buffers grow ahead.
const HELD_BYTES: i64 = 300_000;
/// What may wait to be written beside the heads of requests [bytes]: a part of the bodies, and answers.
const WAITING_BYTES: u64 = 230_000;
/// What a flood consists of [bytes].
const FLOOD_BYTES: usize = 400_000;

/// A stream in a script.
#[derive(Clone, Copy, Debug)]
enum Choice {
    /// One that was begun: so many before the last one.
    Begun(u32),
    This(u32),
}

/// A frame of a script.
#[derive(Clone, Debug)]
struct Draft {
    kind: u8,
    flags: u8,
    stream: Choice,
    payload: Vec<u8>,
}

fn draft(kind: u8, flags: u8, stream: Choice, payload: &[u8]) -> Draft {
    Draft {
        kind,
        flags,
        stream,
        payload: payload.to_vec(),
    }
}

/// A step of a script.
#[derive(Clone, Debug)]
enum Step {
    /// The server sends frames.
    Send(Vec<Draft>),
    /// It sends the first, and the last again and again until it has sent so many bytes.
    Flood(Vec<Draft>, usize),
    /// It sends the first bytes of a frame.
    Truncated(Draft, usize),
    /// It sends bytes.
    Raw(&'static [u8]),
    /// The client begins an operation with this request, if there is room.
    Begin(u32),
    /// The kernel accepts so many bytes of the client.
    Write(usize),
    /// The time limit of the operation that was begun so many operations ago is over.
    Cancel(u32),
}

fn protocol() -> Http2 {
    let request = |body: u64| Request {
        fields: vec![
            (":method".to_owned(), Template::literal(b"POST")),
            (":path".to_owned(), Template::literal(b"/a")),
        ],
        body: Body::Filler(body),
        is_head: false,
        check: Check::default(),
    };
    let requests = Requests::of(BODIES.map(request), Values::default());
    Http2::new(Arc::new(requests), OUTSTANDING)
}

fn stream() -> impl Strategy<Value = Choice> {
    prop_oneof![
        40 => (0_u32..12).prop_map(Choice::Begun),
        1 => prop::sample::select(vec![0, 2, 99, 0x7fff_ffff, u32::MAX]).prop_map(Choice::This),
    ]
}

/// What a server may send.
fn valid() -> impl Strategy<Value = Vec<Draft>> {
    let block = prop::sample::select(vec![
        OK.to_vec(),
        b"\x08\x03404".to_vec(),
        b"\x08\x03100".to_vec(),
        // With a length of 5, and trailers alone.
        b"\x88\x0f\x0d\x015".to_vec(),
        b"\x40\x01t\x01v".to_vec(),
    ]);
    let response = (stream(), block, 0_usize..40, 0_u8..4);
    let response = response.prop_map(|(stream, block, length, form)| {
        let data = vec![b'd'; length];
        let (first, rest) = block.split_at(1);
        match form {
            0 => vec![draft(HEADERS, END | END_HEADERS, stream, &block)],
            1 => vec![
                draft(HEADERS, END_HEADERS, stream, &block),
                draft(DATA, END, stream, &data),
            ],
            2 => vec![
                draft(HEADERS, 0, stream, first),
                draft(CONTINUATION, END_HEADERS, stream, rest),
            ],
            _ => vec![draft(DATA, 0, stream, &data)],
        }
    });
    let others = [
        settings(&[(3, 100)]),
        settings(&[(3, 1), (6, 10)]),
        settings(&[(1, 0), (4, 0), (6, 100_000)]),
        settings(&[(4, 10_000_000), (5, 16_384)]),
        settings(&[(4, 0x7fff_ffff)]),
        window_update(0, 1),
        window_update(0, 10_000_000),
        frame(PING, 0, 0, b"12345678"),
        goaway(5, 0),
    ];
    let others = others.map(|bytes| draft(bytes[3], 0, Choice::This(0), &bytes[9..]));
    let of_streams = prop::sample::select(vec![
        (WINDOW_UPDATE, 1_u32),
        (WINDOW_UPDATE, 100_000),
        (RST_STREAM, 2),
        (RST_STREAM, 7),
    ]);
    let of_streams = (stream(), of_streams);
    prop_oneof![
        6 => response,
        3 => prop::sample::select(others.to_vec()).prop_map(|one| vec![one]),
        2 => of_streams.prop_map(|(stream, (kind, number))| vec![draft(kind, 0, stream, &number.to_be_bytes())]),
    ]
}

/// What a server must not send, or what it sends to keep a client busy.
fn hostile() -> impl Strategy<Value = Step> {
    let payload = prop::collection::vec(any::<u8>(), 0..60);
    let random = (0_u8..13, any::<u8>(), stream(), payload);
    let random =
        random.prop_map(|(kind, flags, stream, payload)| draft(kind, flags, stream, &payload));
    let flooded = (
        stream(),
        0_u8..6,
        prop::sample::select(vec![200, FLOOD_BYTES]),
    );
    let flooded = flooded.prop_map(|(stream, which, bytes)| {
        // A block of header fields that does not end.
        let first = draft(HEADERS, 0, stream, OK);
        let rest = if which == 2 { 0 } else { 4096 };
        let one = match which {
            0 => draft(PING, 0, Choice::This(0), b"12345678"),
            1 => draft(SETTINGS, 0, Choice::This(0), b""),
            2 | 3 => draft(CONTINUATION, 0, stream, &[0x88; 4096][..rest]),
            4 => draft(DATA, 0, stream, b""),
            _ => draft(HEADERS, END_HEADERS, stream, OK),
        };
        let is_block = one.kind == CONTINUATION;
        let frames = if is_block {
            vec![first, one]
        } else {
            vec![one]
        };
        Step::Flood(frames, bytes)
    });
    let large = (0_u8..11, any::<u8>(), stream(), 16_000_usize..16_500);
    let large = large
        .prop_map(|(kind, flags, stream, length)| draft(kind, flags, stream, &vec![0; length]));
    prop_oneof![
        4 => random.prop_map(|one| Step::Send(vec![one])),
        3 => flooded,
        1 => large.prop_map(|one| Step::Send(vec![one])),
        1 => (valid(), 1_usize..20).prop_map(|(frames, length)| Step::Truncated(frames[0].clone(), length)),
        1 => Just(Step::Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n")),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => valid().prop_map(Step::Send),
        2 => hostile(),
        14 => (0..BODIES.len() as u32).prop_map(Step::Begin),
        10 => prop::sample::select(vec![1, 50, 5000, usize::MAX]).prop_map(Step::Write),
        2 => (0_u32..4).prop_map(Step::Cancel),
    ]
}

/// A connection, and what has happened on it.
struct Trial {
    connection: Connection<Http2>,
    in_progress: BTreeSet<u32>,
    begun: u32,
    /// How many of them have a stream.
    streams: u32,
    requested_bytes: u64,
    received_bytes: u64,
    is_over: bool,
}

impl Trial {
    fn new() -> Self {
        let (connection, _) = Connection::open(protocol());
        Self {
            connection,
            in_progress: BTreeSet::new(),
            begun: 0,
            streams: 0,
            requested_bytes: 0,
            received_bytes: 0,
            is_over: false,
        }
    }

    fn take(&mut self, step: Step, cut: usize) {
        match step {
            Step::Send(drafts) => {
                let bytes: Vec<u8> = drafts.iter().flat_map(|one| self.frame(one)).collect();
                self.receive_in_pieces(&bytes, cut);
            }
            Step::Flood(drafts, bytes) => {
                let frames: Vec<_> = drafts.iter().map(|one| self.frame(one)).collect();
                let last = &frames[frames.len() - 1];
                let sent = [frames.concat(), last.repeat(bytes / last.len())].concat();
                self.receive_in_pieces(&sent, cut.max(100));
            }
            Step::Truncated(one, length) => {
                let bytes = self.frame(&one);
                self.receive_in_pieces(&bytes[..length.min(bytes.len())], cut);
            }
            Step::Raw(bytes) => self.receive_in_pieces(bytes, cut),
            Step::Begin(request) => self.begin(request),
            Step::Write(bytes) => self.write(bytes),
            Step::Cancel(ago) => {
                let slot = self.begun.wrapping_sub(ago + 1);
                if self.in_progress.remove(&slot) {
                    let Connection {
                        protocol,
                        session,
                        out,
                        ..
                    } = &mut self.connection;
                    self.is_over = !protocol.cancel(session, slot, out);
                }
            }
        }
    }

    /// Returns the bytes of a frame.
    fn frame(&self, draft: &Draft) -> Vec<u8> {
        let stream = match draft.stream {
            Choice::This(id) => id,
            Choice::Begun(before) => 1 + 2 * self.streams.saturating_sub(1 + before),
        };
        frame(draft.kind, draft.flags, stream, &draft.payload)
    }

    fn receive_in_pieces(&mut self, bytes: &[u8], cut: usize) {
        bytes.chunks(cut).for_each(|piece| self.receive(piece));
    }

    fn receive(&mut self, piece: &[u8]) {
        if self.is_over {
            return;
        }
        self.received_bytes += piece.len() as u64;
        let state = self.connection.receive(piece);
        self.check_ends();
        self.is_over = matches!(state, SessionState::Failed(_));
        assert!(!self.is_over || state == FAILED, "{state:?}");
    }

    fn begin(&mut self, request: u32) {
        let room = self.connection.room();
        assert!(room + self.in_progress.len() as u32 <= OUTSTANDING);
        if self.is_over || room == 0 {
            return;
        }
        let address = ExchangeAddress { request, number: 0 };
        match self.connection.begin(self.begun, address.pack()) {
            Ok(()) => {
                self.in_progress.insert(self.begun);
                self.streams += 1;
                self.requested_bytes += HEAD_BYTES + BODIES[request as usize] * 2;
            }
            // The server allows no header list of this size.
            Err(result) => assert_eq!(result, -libc::EMSGSIZE),
        }
        self.begun += 1;
    }

    fn write(&mut self, mut bytes: usize) {
        if self.is_over {
            return;
        }
        let Connection {
            protocol,
            session,
            out,
            ends,
        } = &mut self.connection;
        while bytes > 0 && !out.is_empty() {
            let piece = bytes.min(out.next().len());
            out.written(piece);
            bytes -= piece;
            if out.is_empty() {
                protocol.more(session, out);
            }
        }
        if out.is_empty() {
            let state = protocol.sent(session, ends);
            assert!(!matches!(state, SessionState::Failed(_)));
        }
        self.check_ends();
    }

    /// Removes what has ended from what is in progress.
    fn check_ends(&mut self) {
        for end in self.connection.ends.drain(..) {
            assert!(
                self.in_progress.remove(&end.slot),
                "{end:?} ends twice, or was not begun"
            );
            let errors = [
                -libc::EPROTO,
                -libc::ECONNRESET,
                -libc::ECONNREFUSED,
                RESPONSE_CUT,
                RESEND,
            ];
            let is_status = (-10_999..=-10_400).contains(&end.result);
            let is_error = errors.iter().any(|error| end.result == i64::from(*error));
            assert!(end.result >= 0 || is_status || is_error, "{end:?}");
        }
    }

    /// Checks what the client has put and what it holds.
    fn check_bounds(&self, held: i64) {
        let out = &self.connection.out;
        let first = 1000;
        // No answer is longer than twice the frame that demands it.
        let most = first + self.requested_bytes + 2 * self.received_bytes;
        assert!(out.put_bytes() <= most, "{} of {most}", out.put_bytes());
        let waiting = out.put_bytes() - out.written_bytes();
        // A flood of answers is given up; of bodies a part is put at a time.
        let heads = u64::from(self.begun) * HEAD_BYTES;
        assert!(
            waiting <= WAITING_BYTES + heads,
            "{waiting} bytes wait to be written"
        );
        // The buffer of what waits doubles as it grows.
        let most = WAITING_BYTES.min(out.put_bytes()) + heads;
        assert!(held <= HELD_BYTES + 2 * most as i64, "{held} bytes");
    }

    /// Ends the connection: what is in progress ends with it, and the next one starts anew.
    fn end(mut self) {
        if !self.is_over {
            self.connection.close();
            self.check_ends();
            assert!(self.in_progress.is_empty());
        }
        let Connection {
            protocol,
            session,
            out,
            ..
        } = &mut self.connection;
        out.clear();
        assert_eq!(protocol.open(session, out), SessionState::Handshake);
        self.connection.ends.clear();
        assert_eq!(self.connection.receive(settings(&[])), SessionState::Ready);
        assert_eq!(self.connection.room(), OUTSTANDING);
        self.connection.begin(7, 0).unwrap();
        self.connection.write();
        let answer = frame(HEADERS, END | END_HEADERS, 1, OK);
        assert_eq!(self.connection.receive(answer), SessionState::Ready);
        assert_eq!(self.connection.results(), [(7, 0)]);
        // Its table of HPACK is empty.
        self.connection.begin(8, 0).unwrap();
        self.connection.write();
        let answer = frame(HEADERS, END | END_HEADERS, 3, &[0x80 | 62]);
        assert_eq!(self.connection.receive(answer), FAILED);
    }
}

/// Returns how many scripts are tried: as many as of any property, or more in the wide form.
fn config() -> ProptestConfig {
    let is_wide = std::env::var("BW_CALIBRATION").is_ok_and(|how| how == "full");
    if is_wide {
        ProptestConfig::with_cases(20_000)
    } else {
        ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_script_of_a_server_upsets_a_session(
        greets in prop::bool::weighted(0.95),
        steps in prop::collection::vec(step(), 0..60),
        cut in prop::sample::select(vec![1_usize, 2, 7, 100, 20_000, usize::MAX]),
    ) {
        let mut trial = Trial::new();
        trial.connection.ends.reserve(OUTSTANDING as usize);
        if greets {
            trial.receive(&settings(&[]));
            trial.write(usize::MAX);
        }
        let before = held_bytes();
        for step in steps.iter().cloned() {
            trial.take(step, cut);
            trial.check_bounds(held_bytes() - before);
        }
        trial.end();
    }
}
