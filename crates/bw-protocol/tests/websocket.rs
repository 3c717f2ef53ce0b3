//! WebSocket against servers that exist only as bytes. tests/e2e/test_websocket.py runs real ones.

#![allow(clippy::unwrap_used)]

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bw_model::ExchangeAddress;
use bw_protocol::events::{EventFormat, EventSpec, Meaning};
use bw_protocol::payload::{Payload, Prefix};
use bw_protocol::streams::{StreamLimits, Streams};
use bw_protocol::values::ValueSpec;
use bw_protocol::websocket::{Answers, EndMark, Expected, Messages, Pointer, Upgrade, WebSocket};
use bw_protocol::{SessionState, Values};
use bw_record::errno::{
    CHECK_FAILED, RESPONSE_CUT, WEBSOCKET_ERROR, websocket_closed, websocket_refused,
};
use connection::Connection;
use proptest::prelude::*;
use ring::digest;
use std::collections::BTreeMap;
use std::sync::Arc;

mod connection;

const MOST: u64 = 1 << 20;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const FIN: u8 = 0x80;

/// Returns a frame of a server.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..126 => frame.push(length as u8),
        length @ 126..0x1_0000 => {
            frame.push(126);
            frame.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            frame.push(127);
            frame.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    frame
}

fn text(text: &str) -> Vec<u8> {
    frame(FIN | TEXT, text.as_bytes())
}

/// Returns the first byte and the payload of each frame of a client; each has a mask.
fn read_frames(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while let [first, second, rest @ ..] = bytes {
        assert!(second & 0x80 != 0, "a frame without a mask");
        let extended = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let (long, rest) = rest.split_at(extended);
        let long = long
            .iter()
            .fold(0, |length, byte| length << 8 | usize::from(*byte));
        let length = if extended > 0 {
            long
        } else {
            usize::from(second & 0x7f)
        };
        let (key, rest) = rest.split_at(4);
        let (payload, rest) = rest.split_at(length);
        let plain = payload
            .iter()
            .zip(key.iter().cycle())
            .map(|(byte, key)| byte ^ key);
        frames.push((*first, plain.collect()));
        bytes = rest;
    }
    frames
}

fn messages(payloads: &[&str]) -> Messages {
    let specs = r#"{"id": {"type": "counter"}}"#;
    let specs: BTreeMap<String, ValueSpec> = serde_json::from_str(specs).unwrap();
    let values = Values::new(&specs, 1).unwrap();
    let payloads = payloads
        .iter()
        .map(|text| Payload::text(text, &values, 1 << 20).unwrap());
    Messages::new(payloads.collect(), values)
}

fn protocol(messages: Messages, expected: Expected) -> WebSocket {
    let host = ("Host".to_owned(), "h".to_owned());
    let upgrade = Upgrade::new("/", &[host], Vec::new());
    WebSocket::new(Arc::new(upgrade), Arc::new(messages), Arc::new(expected), 4)
}

fn expected(answers: Answers) -> Expected {
    Expected {
        answers,
        most_bytes: MOST,
        ..Expected::default()
    }
}

/// Returns what a server answers to this request of an upgrade.
fn accepted(request: &[u8]) -> Vec<u8> {
    let request = std::str::from_utf8(request).unwrap();
    let (_, key) = request.split_once("Sec-WebSocket-Key: ").unwrap();
    let keyed = key.trim_end().to_owned() + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, keyed.as_bytes());
    let accept = BASE64_STANDARD.encode(hash);
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Accept: {accept}\r\n\r\n"
    )
    .into_bytes()
}

fn upgraded(protocol: WebSocket) -> Connection<WebSocket> {
    let (mut connection, state) = Connection::open(protocol);
    assert_eq!((state, connection.room()), (SessionState::Handshake, 0));
    let request = connection.write();
    assert_eq!(connection.receive(accepted(&request)), SessionState::Ready);
    assert_eq!(connection.room(), 4);
    connection
}

fn number(request: u32, number: u64) -> u64 {
    ExchangeAddress { request, number }.pack()
}

#[test]
fn messages_are_masked_each_with_another_key() {
    let long = "x".repeat(70_000);
    let payloads = ["a", &long[..126], &long, "${id}"];
    let mut connection = upgraded(protocol(messages(&payloads), expected(Answers::Next)));
    let mut keys = Vec::new();
    for request in 0..4_u32 {
        connection.begin(request, number(request, 7)).unwrap();
        let written = connection.write();
        let head = 2 + [0, 2, 8, 0][request as usize];
        keys.push(written[head..head + 4].to_vec());
        let sent = payloads[request as usize].replace("${id}", "7");
        assert_eq!(read_frames(&written), [(FIN | TEXT, sent.into_bytes())]);
    }
    keys.dedup();
    assert_eq!(keys.len(), 4);
    assert_eq!(connection.begin(4, number(4, 0)), Err(-libc::EINVAL));
}

#[test]
fn answers_in_order_are_those_behind_the_messages_and_none_before() {
    let mut connection = upgraded(protocol(messages(&["a", "b"]), expected(Answers::Next)));
    assert_eq!(connection.receive(text("by itself")), SessionState::Ready);
    connection.begin(0, 0).unwrap();
    // The message has not been written.
    connection.receive(text("early"));
    connection.write();
    connection.begin(1, 1).unwrap();
    connection.write();
    connection.receive([text("one"), text("three")].concat());
    connection.receive(text("too many"));
    assert_eq!(connection.results(), [(0, 3), (1, 5)]);
    assert_eq!(bw_protocol::Protocol::pushes(&connection.protocol), Some(2));
}

#[test]
fn answers_by_a_member_may_come_in_any_order_and_late_ones_end_nothing() {
    let pointer = Pointer::parse("/id").unwrap();
    let all = messages(&["{\"id\": ${id}}"]);
    assert_eq!(all.without(&pointer), None);
    assert_eq!(messages(&["{\"id\": 1}", "{}"]).without(&pointer), Some(1));
    let mut connection = upgraded(protocol(all, expected(Answers::Member(pointer))));
    for slot in 0..4 {
        connection.begin(slot, number(0, slot.into())).unwrap();
    }
    connection.write();
    use bw_protocol::Protocol;
    let Connection {
        protocol,
        session,
        out,
        ..
    } = &mut connection;
    assert!(protocol.cancel(session, 2, out));
    for answer in [
        "{\"id\":3}",
        "{\"x\": {\"id\": 1}}",
        "{\"id\":2}",
        "[1]",
        "{\"a\": [], \"id\": \"1\"}",
        "{\"id\":0}",
    ] {
        assert_eq!(connection.receive(text(answer)), SessionState::Ready);
    }
    assert_eq!(connection.results(), [(3, 8), (1, 20), (0, 8)]);
    assert_eq!(connection.protocol.pushes(), Some(3));
}

#[test]
fn answers_by_their_beginning_and_what_is_expected_of_them() {
    let wanted = Expected {
        prefix: Prefix::parse("6f6b3a61").unwrap(),
        ..expected(Answers::Prefix(Prefix::parse("6f6b").unwrap()))
    };
    let mut connection = upgraded(protocol(messages(&["a"]), wanted));
    connection.begin(0, 0).unwrap();
    connection.begin(1, 0).unwrap();
    connection.write();
    connection.receive([text("news"), text("ok:a"), text("o"), text("ok:b")].concat());
    assert_eq!(connection.results(), [(0, 4), (1, CHECK_FAILED)]);
}

#[test]
fn without_answers_an_operation_ends_when_it_is_written() {
    let mut connection = upgraded(protocol(messages(&["a"]), expected(Answers::None)));
    connection.begin(0, 0).unwrap();
    assert_eq!(connection.results(), []);
    connection.write();
    connection.receive(text("a"));
    assert_eq!(connection.results(), [(0, 0)]);
}

#[test]
fn an_echo_is_what_was_sent() {
    for (back, result) in [(&[][..], 0), (b"x", CHECK_FAILED)] {
        let mut connection = upgraded(protocol(messages(&[]), expected(Answers::Next)));
        connection.begin(0, 0).unwrap();
        assert_eq!(
            read_frames(&connection.write()),
            [(FIN | BINARY, Vec::new())]
        );
        connection.receive(frame(FIN | BINARY, back));
        assert_eq!(connection.results(), [(0, result)]);
    }
}

#[test]
fn pings_between_fragments_are_answered_and_a_close_ends_what_waits() {
    let mut connection = upgraded(protocol(messages(&["a"]), expected(Answers::Next)));
    connection.begin(0, 0).unwrap();
    connection.begin(1, 0).unwrap();
    connection.write();
    let parts = [
        frame(TEXT, "\u{e4}".as_bytes().split_at(1).0),
        frame(FIN | 9, b"now"),
        frame(0, "\u{e4}".as_bytes().split_at(1).1),
        frame(FIN | 10, b"nobody asked"),
        frame(FIN, b""),
    ];
    assert_eq!(connection.receive(parts.concat()), SessionState::Ready);
    assert_eq!(
        read_frames(&connection.write()),
        [(FIN | 10, b"now".to_vec())]
    );
    let close = frame(FIN | 8, &[&1001_u16.to_be_bytes()[..], b"bye"].concat());
    assert_eq!(connection.receive(close), SessionState::Closing);
    assert_eq!(connection.results(), [(0, 2), (1, websocket_closed(1001))]);
    use bw_protocol::Protocol;
    let Connection {
        protocol,
        session,
        out,
        ..
    } = &mut connection;
    protocol.goodbye(session, out);
    assert_eq!(
        read_frames(&connection.write()),
        [(FIN | 8, 1001_u16.to_be_bytes().to_vec())]
    );
}

#[test]
fn what_breaks_the_rules_ends_everything() {
    let masked = [FIN | TEXT, 0x81, 1, 2, 3, 4, 5];
    let too_long = [&[FIN | BINARY, 127][..], &(MOST + 1).to_be_bytes()].concat();
    let endless = [frame(BINARY, &vec![0; MOST as usize]), frame(0, b"x")].concat();
    let cases: [(Vec<u8>, i32); 16] = [
        (masked.to_vec(), WEBSOCKET_ERROR),
        (frame(FIN | 0x40 | TEXT, b""), WEBSOCKET_ERROR),
        (frame(FIN | 0x10 | TEXT, b""), WEBSOCKET_ERROR),
        (frame(FIN | 3, b""), WEBSOCKET_ERROR),
        (frame(FIN | 11, b""), WEBSOCKET_ERROR),
        (frame(FIN, b""), WEBSOCKET_ERROR),
        ([frame(TEXT, b""), text("")].concat(), WEBSOCKET_ERROR),
        (frame(9, b""), WEBSOCKET_ERROR),
        (frame(FIN | 9, &[0; 126]), WEBSOCKET_ERROR),
        (frame(FIN | 8, &[3]), WEBSOCKET_ERROR),
        (frame(FIN | 8, &1005_u16.to_be_bytes()), WEBSOCKET_ERROR),
        (frame(FIN | 8, &[3, 232, 0xff]), WEBSOCKET_ERROR),
        (frame(FIN | TEXT, &[0xff]), WEBSOCKET_ERROR),
        (frame(FIN | TEXT, &[0xc3]), WEBSOCKET_ERROR),
        (too_long, -libc::EMSGSIZE),
        (endless, -libc::EMSGSIZE),
    ];
    for (place, (bytes, result)) in cases.into_iter().enumerate() {
        let mut connection = upgraded(protocol(messages(&["a"]), expected(Answers::Next)));
        assert_eq!(
            connection.receive(bytes),
            SessionState::Failed(result),
            "{place}"
        );
    }
}

#[test]
fn an_upgrade_is_refused_with_its_status_or_cut() {
    let open = || Connection::open(protocol(messages(&["a"]), expected(Answers::Next))).0;
    let mut connection = open();
    let state = connection.receive("HTTP/1.1 403 Forbidden\r\n\r\n");
    assert_eq!(state, SessionState::Failed(websocket_refused(403)));
    use bw_protocol::Protocol;
    let why = connection.protocol.refusal(&connection.session);
    assert_eq!(why.as_deref(), Some("upgrade refused 403 Forbidden"));
    let mut connection = open();
    let request = connection.write();
    let closed = [accepted(&request), frame(FIN | 8, &1013_u16.to_be_bytes())].concat();
    assert_eq!(
        connection.receive(closed),
        SessionState::Failed(websocket_closed(1013))
    );
    let mut connection = upgraded(protocol(messages(&["a"]), expected(Answers::Next)));
    connection.begin(0, 0).unwrap();
    connection.begin(1, 0).unwrap();
    connection.write();
    connection.receive(frame(TEXT, b"be"));
    connection.close();
    assert_eq!(
        connection.results(),
        [(0, RESPONSE_CUT), (1, -libc::ECONNRESET)]
    );
}

fn streamed(end: &str, answers: Answers) -> WebSocket {
    let mark = match end.strip_prefix('/').and_then(|rest| rest.split_once('=')) {
        Some((name, value)) => EndMark::Member(
            Pointer::parse(&format!("/{name}")).unwrap(),
            value.as_bytes().into(),
        ),
        None => EndMark::Text(end.as_bytes().into()),
    };
    let wanted = Expected {
        end: Some(mark),
        ..expected(answers)
    };
    let spec = EventSpec::new(EventFormat::WebSocket, Meaning::Plain, Some(end));
    let streams = Streams::new(spec, StreamLimits::default());
    protocol(messages(&["{\"id\": ${id}}"]), wanted).with_streams(Some(streams))
}

#[test]
fn an_answer_of_several_messages_ends_with_its_mark() {
    use bw_protocol::Protocol;
    let pointer = Pointer::parse("/id").unwrap();
    let mut connection = upgraded(streamed("/done=true", Answers::Member(pointer)));
    for slot in 0..2 {
        connection.begin(slot, number(0, slot.into())).unwrap();
    }
    connection.write();
    let arrives = |connection: &Connection<WebSocket>, at| {
        connection.protocol.streams().unwrap().arrives(at, Some(0));
    };
    arrives(&connection, 10);
    connection.receive([text("{\"id\":0}"), text("{\"id\":1,\"done\":false}")].concat());
    arrives(&connection, 30);
    connection.receive([text("{\"id\":0}"), text("{\"id\":0,\"done\":true}")].concat());
    let outcome = connection.protocol.streams().unwrap().outcome(0);
    assert_eq!(
        (outcome.events, outcome.content, outcome.ended),
        (3, 2, true)
    );
    assert_eq!((outcome.first_ns, outcome.last_ns), (Some(10), Some(30)));
    assert_eq!((outcome.largest_gap_ns, outcome.bytes), (Some(20), 36));
    assert_eq!(connection.results(), [(0, 36)]);
    let open = connection.protocol.streams().unwrap().outcome(1);
    assert_eq!((open.content, open.ended), (1, false));

    let mut connection = upgraded(streamed("END", Answers::Next));
    connection.begin(0, 0).unwrap();
    connection.write();
    connection.receive([text("E"), text("ENDX"), text("END"), text("END")].concat());
    assert_eq!(connection.results(), [(0, 8)]);
}

/// What a connection has come to.
#[derive(Debug, PartialEq)]
struct Seen {
    state: SessionState,
    results: Vec<(u32, i32)>,
    pushes: Option<u64>,
    /// The payloads of what it wrote.
    written: Vec<u8>,
}

/// Returns what a server leads to that sends these bytes in pieces.
fn run(bytes: &[u8], cuts: &[usize]) -> Seen {
    use bw_protocol::Protocol;
    let pointer = Pointer::parse("/id").unwrap();
    let mut connection = upgraded(streamed("/done=true", Answers::Member(pointer)));
    for slot in 0..4 {
        connection.begin(slot, number(0, slot.into())).unwrap();
    }
    connection.write();
    let mut state = SessionState::Ready;
    let mut from = 0;
    let mut written = Vec::new();
    for &to in cuts.iter().chain([&bytes.len()]) {
        let to = to.clamp(from, bytes.len());
        if from < to && state == SessionState::Ready {
            state = connection.receive(&bytes[from..to]);
            let frames = read_frames(&connection.write());
            written.extend(frames.into_iter().flat_map(|(_, payload)| payload));
        }
        from = to;
    }
    let pushes = connection.protocol.pushes();
    Seen {
        state,
        results: connection.results(),
        pushes,
        written,
    }
}

fn some_frames() -> impl Strategy<Value = Vec<u8>> {
    let answer = (0..5_u8, any::<bool>(), 0..300_usize).prop_map(|(id, done, more)| {
        let more = "x".repeat(more);
        text(&format!(
            "{{\"more\": \"{more}\", \"id\": {id}, \"done\": {done}}}"
        ))
    });
    let split = (0..4_u8, 0..20_usize).prop_map(|(id, cut)| {
        let whole = format!("{{\"id\": {id}, \"done\": true, \"x\": \"\u{e4}\"}}").into_bytes();
        let (one, other) = whole.split_at(cut);
        [frame(TEXT, one), frame(FIN | 9, b"p"), frame(FIN, other)].concat()
    });
    let other = prop_oneof![
        Just(frame(FIN | BINARY, b"\xff")),
        Just(frame(FIN | 9, b"ping")),
        Just(frame(FIN | 10, b"")),
        Just(frame(FIN | 8, &1000_u16.to_be_bytes())),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    let one = prop_oneof![4 => answer, 2 => split, 1 => other];
    prop::collection::vec(one, 0..8).prop_map(|all| all.concat())
}

proptest! {
    #[test]
    fn any_split_of_the_bytes_gives_the_same(
        bytes in some_frames(), mut cuts in prop::collection::vec(0..1500_usize, 0..40),
    ) {
        cuts.sort_unstable();
        let every: Vec<usize> = (0..bytes.len()).collect();
        let whole = run(&bytes, &[]);
        prop_assert_eq!(&run(&bytes, &cuts), &whole);
        prop_assert_eq!(&run(&bytes, &every), &whole);
    }

    #[test]
    fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..300), upgraded: bool) {
        if upgraded {
            run(&bytes, &[bytes.len() / 2]);
        } else {
            let (mut connection, _) = Connection::open(protocol(messages(&["a"]), expected(Answers::Next)));
            connection.receive([b"HTTP/1.1 ", &bytes[..]].concat());
        }
    }
}
