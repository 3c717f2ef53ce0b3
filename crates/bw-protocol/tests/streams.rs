//! Answers that are read as streams, in both versions of HTTP: which time each event gets, and what a stream's end is.

#![allow(clippy::unwrap_used)]

use bw_protocol::events::{EventFormat, EventSpec, Meaning, StreamOutcome};
use bw_protocol::http1::{self, Http1};
use bw_protocol::http2::{self, Http2};
use bw_protocol::streams::{StreamLimits, Streams};
use bw_protocol::{Protocol, SessionState};
use bw_record::errno::{STREAM_CUT, STREAM_ENCODED, STREAM_ERROR};
use bw_record::histogram::Histogram;
use connection::Connection;
use http2_frames::*;
use proptest::prelude::*;
use std::sync::Arc;

mod connection;
mod http2_frames;

fn lines(end: Option<&str>) -> Option<Streams> {
    let spec = EventSpec::new(EventFormat::Lines, Meaning::Plain, end);
    Some(Streams::new(spec, StreamLimits::default()))
}

fn of(format: EventFormat) -> Option<Streams> {
    let spec = EventSpec::new(format, Meaning::Plain, None);
    Some(Streams::new(spec, StreamLimits::default()))
}

/// A connection whose answers are streams, with requests in the slots 0, 1, and so on.
struct Streaming<P: Protocol>(Connection<P>);

impl<P: Protocol> Streaming<P> {
    /// Receives bytes that arrived at `at`, and were read 7 later.
    fn receive(&mut self, at: u64, bytes: impl AsRef<[u8]>) -> SessionState {
        self.0.protocol.streams().unwrap().arrives(at, Some(7));
        self.0.receive(bytes)
    }

    fn outcome(&self, slot: u32) -> StreamOutcome {
        self.0.protocol.streams().unwrap().outcome(slot)
    }

    /// Returns how many gaps there were and their sum, and how many reads had content.
    fn reads(&self) -> (u64, u128, u64) {
        let (mut gaps, mut lateness) = (Histogram::new(), Histogram::new());
        let streams = self.0.protocol.streams().unwrap();
        streams.add_reads(&mut gaps, &mut lateness);
        assert!(lateness.count() == 0 || lateness.min() == Some(7) && lateness.max() == Some(7));
        (gaps.count(), gaps.sum(), lateness.count())
    }
}

fn begin<P: Protocol>(streaming: &mut Streaming<P>, requests: u32) {
    assert!(streaming.0.room() >= requests);
    (0..requests).for_each(|slot| streaming.0.begin(slot, 0).unwrap());
    streaming.0.write();
}

fn one(streams: Option<Streams>, requests: u32) -> Streaming<Http1> {
    let head = b"GET / HTTP/1.1\r\n\r\n"[..].into();
    let all = Arc::new(http1::Requests::new(vec![head], 0, false));
    let (connection, _) = Connection::open(Http1::new(all, 8).with_streams(streams));
    let mut streaming = Streaming(connection);
    begin(&mut streaming, requests);
    streaming
}

fn two(streams: Option<Streams>, requests: u32) -> Streaming<Http2> {
    let fields = [(":method", "GET"), (":path", "/a")];
    let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let all = Arc::new(http2::Requests::new(&[fields.to_vec()], 0, false));
    let (connection, _) = Connection::open(Http2::new(all, 8).with_streams(streams));
    let mut streaming = Streaming(connection);
    streaming.receive(1, settings(&[]));
    begin(&mut streaming, requests);
    streaming
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fn chunk(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

fn head(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, OK)
}

fn data(stream: u32, text: &str) -> Vec<u8> {
    frame(DATA, 0, stream, text.as_bytes())
}

#[test]
fn an_event_arrives_with_the_read_that_ends_it() {
    let mut http = one(lines(Some("end")), 1);
    http.receive(100, CHUNKED);
    http.receive(200, chunk("a\nb"));
    // Two events in one read: the second has no gap.
    http.receive(250, chunk("b\nc\n"));
    http.receive(400, chunk("d\n"));
    http.receive(500, chunk("end\n") + "0\r\n\r\n");
    assert_eq!(http.0.results(), [(0, 13)]);
    let expected = StreamOutcome {
        first_event_ns: Some(200),
        first_ns: Some(200),
        first_visible_ns: Some(200),
        last_ns: Some(400),
        events: 5,
        content: 4,
        shared: 1,
        in_time: 4,
        bytes: 13,
        largest_gap_ns: Some(150),
        ended: true,
        ..StreamOutcome::default()
    };
    assert_eq!(http.outcome(0), expected);
    assert_eq!(http.reads(), (2, 50 + 150, 3));
}

#[test]
fn a_stream_without_its_end_mark_is_cut() {
    let body = chunk("a\n") + &chunk("b\n");
    let mut http = one(lines(Some("end")), 1);
    http.receive(1, CHUNKED.to_owned() + &body + "0\r\n\r\n");
    assert_eq!(http.0.results(), [(0, STREAM_CUT)]);
    assert_eq!(http.outcome(0).content, 2);
    // As the user has it, no mark is needed.
    let mut http = one(lines(None), 1);
    http.receive(1, CHUNKED.to_owned() + &body + "0\r\n\r\n");
    assert_eq!(http.0.results(), [(0, 4)]);
    // The connection ends the body.
    let mut http = one(lines(Some("end")), 1);
    http.receive(1, "HTTP/1.1 200 OK\r\n\r\na\nb\n");
    http.0.close();
    assert_eq!(http.0.results(), [(0, STREAM_CUT)]);
}

#[test]
fn a_lost_connection_cuts_a_stream_that_has_begun() {
    let mut http = one(lines(Some("end")), 1);
    http.receive(1, CHUNKED);
    let reset = i64::from(-libc::ECONNRESET);
    let broken = |http: &Streaming<Http1>| http.0.protocol.streams().unwrap().broken(0, reset);
    assert_eq!(broken(&http), reset);
    http.receive(2, chunk("a\n"));
    assert_eq!(broken(&http), i64::from(STREAM_CUT));
    // After its end mark it has succeeded.
    http.receive(3, chunk("end\n"));
    assert_eq!(broken(&http), 6);
}

#[test]
fn an_error_status_is_no_stream() {
    let mut http = one(lines(Some("end")), 1);
    http.receive(5, "HTTP/1.1 503 Busy\r\nContent-Length: 6\r\n\r\nno\nno\n");
    assert_eq!(http.0.results(), [(0, -10_503)]);
    assert_eq!(http.outcome(0), StreamOutcome::default());
    assert_eq!(http.reads(), (0, 0, 0));
    let mut http = two(lines(Some("end")), 1);
    // `:status 404` of the static table.
    http.receive(5, frame(HEADERS, END_HEADERS, 1, b"\x8d"));
    http.receive(6, frame(DATA, END, 1, b"no\nno\n"));
    assert_eq!(http.0.results(), [(0, -10_404)]);
    assert_eq!(http.outcome(0), StreamOutcome::default());
}

#[test]
fn chunks_are_events_whatever_the_reads() {
    let mut http = one(of(EventFormat::Chunks), 1);
    http.receive(10, CHUNKED.to_owned() + &chunk("abc") + "4\r\nde");
    http.receive(20, "fg\r");
    http.receive(30, "\n".to_owned() + &chunk("h") + "0\r\n\r\n");
    assert_eq!(http.0.results(), [(0, 8)]);
    let outcome = http.outcome(0);
    assert_eq!((outcome.content, outcome.shared), (3, 0));
    assert_eq!(
        (outcome.first_ns, outcome.last_ns, outcome.largest_gap_ns),
        (Some(10), Some(30), Some(10))
    );
    let mut http = two(of(EventFormat::Chunks), 1);
    http.receive(10, [head(1), data(1, "abc"), data(1, "")].concat());
    let rest = frame(DATA, END, 1, b"defg");
    http.receive(20, &rest[..11]);
    http.receive(30, &rest[11..]);
    assert_eq!(http.0.results(), [(0, 7)]);
    let outcome = http.outcome(0);
    assert_eq!((outcome.content, outcome.last_ns), (2, Some(30)));
}

#[test]
fn pipelined_answers_are_streams_of_their_own() {
    let mut http = one(lines(Some("end")), 2);
    let answer = CHUNKED.to_owned() + &chunk("a\nend\n") + "0\r\n\r\n";
    http.receive(10, CHUNKED.to_owned() + &chunk("a\n"));
    http.receive(20, chunk("end\n") + "0\r\n\r\n" + &answer);
    assert_eq!(http.0.results(), [(0, 6), (1, 6)]);
    let firsts = [0, 1].map(|slot| http.outcome(slot).first_ns);
    assert_eq!(firsts, [Some(10), Some(20)]);
    // A slot's next operation has nothing of the one before.
    http.0.begin(0, 0).unwrap();
    assert_eq!(http.outcome(0), StreamOutcome::default());
    assert_eq!(http.reads(), (0, 0, 2));
}

#[test]
fn streams_of_one_connection_are_interleaved() {
    let mut http = two(lines(Some("end")), 2);
    http.receive(10, [head(1), head(3), data(1, "a\n")].concat());
    http.receive(20, [data(3, "x\n"), data(1, "b\n")].concat());
    // With padding: its length, the content, the padding.
    let padded = frame(DATA, 8, 3, b"\x02y\n\0\0");
    http.receive(50, &padded[..11]);
    http.receive(60, &padded[11..]);
    http.receive(70, [data(1, "end\n"), frame(DATA, END, 1, b"")].concat());
    http.receive(80, frame(DATA, END, 3, b"z\n"));
    assert_eq!(http.0.results(), [(0, 8), (1, STREAM_CUT)]);
    let (one, other) = (http.outcome(0), http.outcome(1));
    assert_eq!((one.first_ns, one.last_ns), (Some(10), Some(20)));
    assert_eq!((other.first_ns, other.last_ns), (Some(20), Some(80)));
    assert_eq!((other.content, other.largest_gap_ns), (3, Some(40)));
    assert_eq!(http.reads(), (3, 10 + 40 + 20, 4));
}

#[test]
fn an_error_event_fails_a_stream_of_a_language_model() {
    let spec = EventSpec::new(EventFormat::Sse, Meaning::Chat, None);
    let streams = Streams::new(spec, StreamLimits::default());
    let mut http = two(Some(streams), 1);
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    http.receive(10, [head(1), data(1, text)].concat());
    let error = "data: {\"error\":{\"message\":\"out of memory\"}}\n\ndata: [DONE]\n\n";
    http.receive(20, frame(DATA, END, 1, error.as_bytes()));
    assert_eq!(http.0.results(), [(0, STREAM_ERROR)]);
    assert_eq!(http.outcome(0).first_ns, Some(10));
}

#[test]
fn with_limits_the_slots_with_content_are_reported() {
    let limits = StreamLimits {
        gap: Some(bw_model::Nanos(1)),
        ..StreamLimits::default()
    };
    let spec = EventSpec::new(EventFormat::Lines, Meaning::Plain, Some("end"));
    let mut http = two(Some(Streams::new(spec, limits)), 2);
    http.receive(10, [head(1), head(3), data(1, "a")].concat());
    let heard = |http: &Streaming<Http2>| {
        let streams = http.0.protocol.streams().unwrap();
        let mut heard: Vec<(u32, bool)> = std::iter::from_fn(|| streams.take_heard()).collect();
        heard.sort_unstable();
        heard
    };
    assert!(heard(&http).is_empty());
    http.receive(20, [data(1, "\nb\n"), data(3, "x\n")].concat());
    assert_eq!(heard(&http), [(0, false), (1, false)]);
    assert!(heard(&http).is_empty());
    // Each slot once, however often the streams alternate.
    let frames = [data(1, "c\n"), data(3, "y\n")].concat().repeat(100);
    http.receive(30, frames);
    assert_eq!(heard(&http), [(0, false), (1, false)]);
    http.receive(40, data(1, "end\n"));
    assert_eq!(heard(&http), [(0, true)]);
}

#[test]
fn the_bytes_of_a_content_coding_are_no_events() {
    let answer = |coding: &str| {
        let coded = format!("chunked\r\nContent-Encoding: {coding}\r\n\r\n");
        let head = CHUNKED.replace("chunked\r\n\r\n", &coded);
        head + &chunk("a\n") + &chunk("end\n") + "0\r\n\r\n"
    };
    for (coding, result, events) in [
        ("gzip", STREAM_ENCODED, 0),
        ("identity, br", STREAM_ENCODED, 0),
        ("Identity", 6, 2),
    ] {
        let mut http = one(lines(Some("end")), 1);
        http.receive(10, answer(coding));
        assert_eq!(http.0.results(), [(0, result)], "{coding}");
        assert_eq!(http.outcome(0).events, events);
    }
    // `content-encoding` of the static table, with a new entry in the dynamic table that the next response refers to.
    for (coding, result) in [("gzip", STREAM_ENCODED), ("identity", 6)] {
        let mut http = two(lines(Some("end")), 2);
        let field = [&[0x5a, coding.len() as u8], coding.as_bytes()].concat();
        http.receive(10, frame(HEADERS, END_HEADERS, 1, &[OK, &field].concat()));
        http.receive(
            10,
            frame(HEADERS, END_HEADERS, 3, &[OK, &[0x80 | 62]].concat()),
        );
        for stream in [1, 3] {
            http.receive(20, data(stream, "a\n"));
            http.receive(30, frame(DATA, END, stream, b"end\n"));
        }
        assert_eq!(http.0.results(), [(0, result), (1, result)], "{coding}");
    }
}

#[test]
fn a_redirect_is_no_stream() {
    let redirect = "HTTP/1.1 302 Found\r\nContent-Length: 4\r\n\r\nend\n";
    let mut http = one(lines(Some("end")), 1);
    http.receive(10, redirect);
    assert_eq!(http.0.results(), [(0, -10_302)]);
    assert_eq!(http.outcome(0).events, 0);
    // As ever without streams.
    let mut http = one(None, 1);
    http.0.receive(redirect);
    assert_eq!(http.0.results(), [(0, 4)]);
}

#[test]
fn events_in_the_measured_part_are_counted() {
    let mut http = one(lines(Some("end")), 1);
    http.0.protocol.streams().unwrap().measure(200..400);
    http.receive(100, CHUNKED.to_owned() + &chunk("a\n"));
    for at in [200, 399, 400] {
        http.receive(at, chunk("b\n"));
    }
    http.receive(500, chunk("end\n") + "0\r\n\r\n");
    assert_eq!((http.outcome(0).content, http.outcome(0).in_time), (4, 2));
}

proptest! {
    #[test]
    fn any_split_gives_the_same_stream_but_for_its_times(
        cuts in prop::collection::vec(1_usize..40, 1..40),
        sizes in prop::collection::vec(1_usize..9, 1..20),
    ) {
        let body = "a\nbc\n\nd\r\nend\n";
        let (mut chunks, mut rest) = (String::new(), body);
        for size in sizes.iter().cycle() {
            let (piece, more) = rest.split_at((*size).min(rest.len()));
            rest = more;
            if piece.is_empty() {
                break;
            }
            chunks += &chunk(piece);
        }
        let answer = format!("{CHUNKED}{chunks}0\r\n\r\n").into_bytes();
        let mut http = one(lines(Some("end")), 1);
        let (mut at, mut left) = (0, &answer[..]);
        for cut in cuts.iter().cycle() {
            if left.is_empty() {
                break;
            }
            let (piece, more) = left.split_at((*cut).min(left.len()));
            (at, left) = (at + 10, more);
            http.receive(at, piece);
        }
        prop_assert_eq!(http.0.results(), [(0, 13)]);
        let outcome = http.outcome(0);
        prop_assert_eq!((outcome.events, outcome.content, outcome.ended), (4, 3, true));
        let (gaps, sum, reads) = http.reads();
        prop_assert_eq!(gaps + u64::from(outcome.shared), 2);
        prop_assert_eq!(gaps + 1, reads);
        prop_assert_eq!(Some(outcome.first_ns.unwrap() + sum as u64), outcome.last_ns);
    }
}
