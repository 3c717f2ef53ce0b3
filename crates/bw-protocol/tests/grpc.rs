//! Calls of gRPC: what the answers of a server, also of one that breaks the rules, mean as statuses.

#![allow(clippy::unwrap_used)]

use bw_protocol::events::{EventFormat, EventSpec, Meaning};
use bw_protocol::grpc::{Calls, TEXT_BYTES};
use bw_protocol::http2::{Http2, Requests};
use bw_protocol::streams::{StreamLimits, Streams};
use bw_protocol::{Protocol, SessionState};
use bw_record::errno;
use connection::Connection;
use http2_frames::*;
use proptest::prelude::*;
use std::sync::Arc;

mod connection;
mod http2_frames;

/// Returns a connection with a call in the slot 0, on the stream 1.
fn calling(is_stream: bool) -> Connection<Http2> {
    let fields = [(":method", "POST"), (":path", "/demo.Greeter/Hello")];
    let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let streams = is_stream.then(|| {
        let spec = EventSpec::new(EventFormat::Grpc, Meaning::Plain, None);
        Streams::new(spec, StreamLimits::default())
    });
    let http = Http2::new(Arc::new(Requests::new(&[fields.to_vec()], 5, false)), 8);
    let http = http.with_streams(streams);
    let (mut connection, _) =
        Connection::open(http.with_calls(Some(Calls::new(is_stream, true, &[5]))));
    assert_eq!(connection.receive(settings(&[])), SessionState::Ready);
    assert_eq!(connection.room(), 8);
    connection.begin(0, 0).unwrap();
    connection.write();
    connection
}

/// Returns a header block with a status of HTTP and fields, without tables.
fn block(status: Option<u16>, fields: &[(&str, &str)]) -> Vec<u8> {
    let status = status.map(|status| [&b"\x08\x03"[..], status.to_string().as_bytes()].concat());
    let mut bytes = status.unwrap_or_default();
    for (name, value) in fields {
        bytes.push(0);
        for text in [name, value] {
            // One more byte is enough for the lengths here.
            match u8::try_from(text.len()).ok().filter(|length| *length < 127) {
                Some(length) => bytes.push(length),
                None => {
                    let rest = text.len() - 127;
                    bytes.extend([127, (rest % 128) as u8 | 128, (rest / 128) as u8]);
                }
            }
            bytes.extend(text.as_bytes());
        }
    }
    bytes
}

fn head() -> Vec<u8> {
    frame(HEADERS, END_HEADERS, 1, OK)
}

fn message(flag: u8, text: &[u8]) -> Vec<u8> {
    [&[flag], &(text.len() as u32).to_be_bytes()[..], text].concat()
}

fn data(bytes: &[u8]) -> Vec<u8> {
    frame(DATA, 0, 1, bytes)
}

fn trailers(fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END, 1, &block(None, fields))
}

fn only(status: u16, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END, 1, &block(Some(status), fields))
}

/// Returns the result of a call with this answer as a name, or its length, and the texts of errors.
fn ended(is_stream: bool, answer: &[u8]) -> (String, Vec<String>) {
    let mut connection = calling(is_stream);
    connection.receive(answer);
    let texts = connection.protocol.calls().unwrap().texts();
    let texts = texts
        .into_iter()
        .map(|(name, text)| format!("{name}: {text}"));
    let name = match connection.results()[..] {
        [(0, length @ 0..)] => length.to_string(),
        [(0, error)] => errno::name(error),
        _ => "none".to_owned(),
    };
    (name, texts.collect())
}

const DONE: &[(&str, &str)] = &[("grpc-status", "0")];

#[test]
fn a_status_is_that_of_the_trailers_or_of_what_stands_for_it() {
    let hello = data(&message(0, b"hello"));
    let half = data(&message(0, b"hello")[..7]);
    let refused = [
        ("grpc-status", "14"),
        ("grpc-message", "no%20%22room%22 %C3%A9%2"),
    ];
    let cases: &[(&str, bool, &[Vec<u8>])] = &[
        ("10", false, &[head(), hello.clone(), trailers(DONE)]),
        (
            "5",
            false,
            &[head(), data(&message(0, b"")), trailers(DONE)],
        ),
        (
            "20",
            true,
            &[head(), hello.clone(), hello.clone(), trailers(DONE)],
        ),
        ("0", true, &[head(), trailers(DONE)]),
        ("grpc UNAVAILABLE", false, &[only(200, &refused)]),
        ("grpc UNAVAILABLE", true, &[only(200, &refused)]),
        (
            "grpc UNAVAILABLE",
            true,
            &[head(), hello.clone(), trailers(&refused)],
        ),
        (
            "grpc UNKNOWN",
            false,
            &[head(), hello.clone(), trailers(&[("grpc-status", "x")])],
        ),
        (
            "grpc UNKNOWN",
            false,
            &[head(), hello.clone(), trailers(&[("grpc-status", "99")])],
        ),
        // One that is accepted.
        ("0", false, &[only(200, &[("grpc-status", "5")])]),
        (
            "10",
            true,
            &[head(), hello.clone(), trailers(&[("grpc-status", "5")])],
        ),
        // Without trailers, or without the status in them.
        (
            "grpc UNKNOWN",
            false,
            &[head(), hello.clone(), frame(DATA, END, 1, b"")],
        ),
        (
            "grpc UNKNOWN",
            true,
            &[head(), hello.clone(), trailers(&[("a", "b")])],
        ),
        // Not one message.
        ("grpc INTERNAL", false, &[head(), trailers(DONE)]),
        ("grpc INTERNAL", false, &[only(200, DONE)]),
        (
            "grpc INTERNAL",
            false,
            &[head(), hello.clone(), hello.clone(), trailers(DONE)],
        ),
        (
            "grpc INTERNAL",
            false,
            &[head(), half.clone(), trailers(DONE)],
        ),
        (
            "grpc INTERNAL",
            true,
            &[head(), hello.clone(), half, trailers(DONE)],
        ),
        (
            "grpc INTERNAL",
            false,
            &[head(), data(&message(1, b"hello")), trailers(DONE)],
        ),
        // What stands between client and server answers in HTTP.
        ("grpc INTERNAL", false, &[only(400, &[])]),
        ("grpc UNAUTHENTICATED", true, &[only(401, &[])]),
        ("grpc PERMISSION_DENIED", false, &[only(403, &[])]),
        ("grpc UNIMPLEMENTED", false, &[only(404, &[])]),
        ("grpc UNAVAILABLE", false, &[only(429, &[])]),
        ("grpc UNAVAILABLE", true, &[only(503, &[])]),
        ("grpc UNKNOWN", false, &[only(500, &[])]),
        ("grpc UNKNOWN", true, &[only(302, &[])]),
        (
            "grpc ABORTED",
            false,
            &[only(503, &[("grpc-status", "10")])],
        ),
        // Resets.
        ("grpc UNAVAILABLE", false, &[rst_stream(1, 7)]),
        ("grpc CANCELLED", false, &[head(), rst_stream(1, 8)]),
        (
            "grpc RESOURCE_EXHAUSTED",
            true,
            &[head(), hello.clone(), rst_stream(1, 11)],
        ),
        ("grpc PERMISSION_DENIED", false, &[rst_stream(1, 12)]),
        ("grpc INTERNAL", false, &[rst_stream(1, 2)]),
        ("grpc INTERNAL", true, &[head(), hello, rst_stream(1, 0)]),
    ];
    for (number, (expected, is_stream, answer)) in cases.iter().enumerate() {
        let (name, texts) = ended(*is_stream, &answer.concat());
        assert_eq!(&name, expected, "case {number}");
        assert!(texts.len() <= 1, "case {number}");
    }
}

#[test]
fn the_text_of_an_error_is_decoded_and_bounded() {
    let of = |text: &str| {
        let fields = [("grpc-status", "14"), ("grpc-message", text)];
        ended(false, &only(200, &fields)).1.concat()
    };
    assert_eq!(
        of("no%20%22room%22 %C3%A9%2"),
        "grpc UNAVAILABLE: no \"room\" é%2"
    );
    let long = "%61".repeat(5 * TEXT_BYTES);
    assert_eq!(
        of(&long),
        format!("grpc UNAVAILABLE: {}", "a".repeat(TEXT_BYTES))
    );
}

#[test]
fn what_stands_for_a_status_says_so() {
    let hello = data(&message(0, b"hello"));
    let text = |answer: &[Vec<u8>]| ended(false, &answer.concat()).1.concat();
    let cut = [head(), hello.clone(), frame(DATA, END, 1, b"")];
    let expected = "grpc UNKNOWN: HTTP status 200 without grpc-status";
    assert_eq!(text(&cut), expected);
    assert_eq!(
        text(&[rst_stream(1, 8)]),
        "grpc CANCELLED: RST_STREAM, CANCEL"
    );
    let packed = [head(), data(&message(1, b"hello")), trailers(DONE)];
    assert!(text(&packed).contains("compressed"));
}

#[test]
fn a_lost_connection_is_no_status() {
    let mut connection = calling(false);
    connection.close();
    assert_eq!(connection.results(), [(0, -libc::ECONNRESET)]);
    let mut connection = calling(false);
    connection.receive([head(), data(&message(0, b"hello"))].concat());
    connection.close();
    assert_eq!(connection.results(), [(0, errno::RESPONSE_CUT)]);
}

#[test]
fn only_the_first_text_of_a_status_is_stored() {
    let mut connection = calling(false);
    connection.begin(1, 0).unwrap();
    connection.write();
    let said = |stream: u32, text| {
        let fields = [("grpc-status", "10"), ("grpc-message", text)];
        frame(
            HEADERS,
            END_HEADERS | END,
            stream,
            &block(Some(200), &fields),
        )
    };
    connection.receive([said(1, "one"), said(3, "two")].concat());
    let texts = connection.protocol.calls().unwrap().texts();
    assert_eq!(Vec::from_iter(texts.into_values()), ["one"]);
}

#[test]
fn the_time_limit_is_the_deadline() {
    let connection = calling(false);
    let late = (-libc::ETIMEDOUT).into();
    let name = |result: i64| errno::name(result.try_into().unwrap());
    for begun in [false, true] {
        let result = connection.protocol.broken(0, late, begun);
        assert_eq!(name(result), "grpc DEADLINE_EXCEEDED");
    }
    let lost = (-libc::ECONNRESET).into();
    assert_eq!(connection.protocol.broken(0, lost, true), lost);
    assert_eq!(Calls::new(false, false, &[]).texts().len(), 0);
}

proptest! {
    #[test]
    fn any_split_of_the_bytes_and_of_the_frames_is_the_same_call(
        lengths in prop::collection::vec(0..70_000_usize, 1..4),
        frames in prop::collection::vec(1..16_385_usize, 1..6),
        reads in prop::collection::vec(1..5000_usize, 1..6),
    ) {
        let body: Vec<u8> = lengths.iter().flat_map(|length| message(0, &vec![b'b'; *length])).collect();
        let mut answer = head();
        let mut rest = &body[..];
        for length in frames.iter().cycle() {
            let (piece, after) = rest.split_at(rest.len().min(*length));
            answer.extend(data(piece));
            rest = after;
            if rest.is_empty() { break }
        }
        answer.extend(trailers(DONE));
        let mut connection = calling(true);
        let mut rest = &answer[..];
        for length in reads.iter().cycle() {
            let (piece, after) = rest.split_at(rest.len().min(*length));
            connection.receive(piece);
            rest = after;
            if rest.is_empty() { break }
        }
        prop_assert_eq!(connection.results(), vec![(0, body.len() as i32)]);
        let outcome = connection.protocol.streams().unwrap().outcome(0);
        prop_assert_eq!(outcome.content as usize, lengths.len());
        prop_assert!(outcome.ended);
    }
}
