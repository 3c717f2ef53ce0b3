//! HTTP/2 on one connection: streams, flow control, the end of a connection, and servers that break the rules.

#![allow(clippy::unwrap_used)]

use bw_model::ExchangeAddress;
use bw_protocol::check::{Check, Needle};
use bw_protocol::http1::Body;
use bw_protocol::http2::{Http2, Request, Requests};
use bw_protocol::values::ValueSpec;
use bw_protocol::{Protocol, RESEND, SessionState, Template, Values};
use bw_record::errno::{CHECK_FAILED, RESPONSE_CUT};
use connection::Connection;
use http2_frames::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

mod connection;
mod http2_frames;

const FAILED: SessionState = SessionState::Failed(-libc::EPROTO);

/// A whole response: its head, and a body unless that is empty.
fn response(stream: u32, status: u16, body_bytes: usize) -> Vec<u8> {
    let head = [b"\x08\x03", status.to_string().as_bytes()].concat();
    let last = if body_bytes == 0 { END } else { 0 };
    let mut bytes = frame(HEADERS, END_HEADERS | last, stream, &head);
    if body_bytes > 0 {
        bytes.extend(frame(DATA, END, stream, &vec![b'b'; body_bytes]));
    }
    bytes
}

/// A connection whose client may have sent its preface.
struct Greeting {
    connection: Connection<Http2>,
    greeted: bool,
}

impl Deref for Greeting {
    type Target = Connection<Http2>;

    fn deref(&self) -> &Self::Target {
        &self.connection
    }
}

impl DerefMut for Greeting {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.connection
    }
}

impl Greeting {
    /// Returns a connection whose server has sent nothing.
    fn silent(body_bytes: u64, is_head: bool) -> Self {
        let fields = [(":method", "GET"), (":path", "/a")];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let requests = Requests::new(&[fields.to_vec()], body_bytes, is_head);
        let (connection, opened) = Connection::open(Http2::new(Arc::new(requests), 8));
        assert_eq!(opened, SessionState::Handshake);
        assert_eq!(connection.room(), 0);
        Self {
            connection,
            greeted: false,
        }
    }

    /// Returns a connection with these settings of its server and `count` requests in progress, in slots 10, 11, and so
    /// on, on the streams 1, 3, and so on.
    fn with_requests(count: u32, body_bytes: u64, values: &[(u16, u32)]) -> Self {
        let mut connection = Self::silent(body_bytes, false);
        assert_eq!(connection.receive(settings(values)), SessionState::Ready);
        for slot in 10..10 + count {
            connection.begin(slot).unwrap();
        }
        connection
    }

    /// Returns a connection with these requests and these settings of its server.
    fn of(requests: Vec<Request>, values: Values, settings: &[(u16, u32)]) -> Self {
        let mut connection = Self::with_requests(0, 0, settings);
        let requests = Requests::of(requests, values);
        connection.protocol = Http2::new(Arc::new(requests), 8);
        connection.write();
        connection
    }

    fn begin(&mut self, slot: u32) -> Result<(), i32> {
        assert!(self.room() > 0);
        self.begin_number(slot, 0, 0)
    }

    /// Begins the operation with this number of a request.
    fn begin_number(&mut self, slot: u32, request: u32, number: u64) -> Result<(), i32> {
        let address = ExchangeAddress { request, number };
        self.connection.begin(slot, address.pack())
    }

    /// Writes everything; returns its frames, without the client's preface.
    fn write(&mut self) -> Vec<Frame> {
        let written = self.connection.write();
        let mut rest = &written[..];
        if !std::mem::replace(&mut self.greeted, true) {
            rest = rest.strip_prefix(PREFACE).unwrap();
        }
        let mut frames = Vec::new();
        while !rest.is_empty() {
            frames.push(Frame::read(&mut rest).unwrap());
        }
        frames
    }

    /// Writes everything; returns the lengths of the frames of bodies, with their streams.
    fn write_bodies(&mut self) -> Vec<(u32, usize)> {
        let frames = self.write();
        let bodies = frames.iter().filter(|frame| frame.kind == DATA);
        assert!(
            bodies
                .clone()
                .all(|frame| frame.payload.iter().all(|byte| *byte == b'x'))
        );
        bodies
            .map(|frame| (frame.stream, frame.payload.len()))
            .collect()
    }
}

#[test]
fn a_connection_is_ready_with_the_server_s_settings_which_are_acknowledged() {
    let mut connection = Greeting::silent(0, false);
    let sent = connection.write();
    let kinds: Vec<_> = sent.iter().map(|frame| (frame.kind, frame.flags)).collect();
    assert_eq!(kinds, [(SETTINGS, 0), (WINDOW_UPDATE, 0)]);
    // No push, a window of a gigabyte, header lists of 64 KiB.
    let values: Vec<u32> = sent[0]
        .payload
        .chunks(6)
        .map(|setting| u32::from_be_bytes(setting[2..].try_into().unwrap()))
        .collect();
    assert_eq!(values, [0, (1 << 30) - 1, 65_536]);
    assert_eq!(connection.receive(settings(&[])), SessionState::Ready);
    assert_eq!(connection.room(), 8);
    let sent = connection.write();
    assert_eq!(
        (sent[0].kind, sent[0].flags, sent.len()),
        (SETTINGS, END, 1)
    );
    assert_eq!(
        connection.receive(frame(SETTINGS, END, 0, b"")),
        SessionState::Ready
    );
    assert_eq!(connection.write(), []);
}

#[test]
fn requests_share_a_write_and_their_answers_come_in_any_order() {
    let mut connection = Greeting::with_requests(3, 0, &[]);
    let sent = connection.write();
    let requests = &sent[sent.len() - 3..];
    let streams: Vec<_> = requests.iter().map(|frame| frame.stream).collect();
    assert_eq!(streams, [1, 3, 5]);
    for request in requests {
        assert_eq!((request.kind, request.flags), (HEADERS, END | END_HEADERS));
        assert_eq!(request.payload, b"\x82\x04\x02/a");
    }
    assert_eq!(connection.room(), 5);
    let answers = [
        response(5, 200, 3),
        response(1, 404, 2),
        response(3, 302, 0),
    ]
    .concat();
    assert_eq!(connection.receive(&answers), SessionState::Ready);
    assert_eq!(connection.results(), [(12, 3), (10, -10_404), (11, 0)]);
    assert_eq!(connection.protocol.statuses(), Some([1, 1, 1, 0]));
    assert_eq!(connection.room(), 8);
}

#[test]
fn the_server_s_number_of_streams_is_the_room() {
    let mut connection = Greeting::with_requests(1, 0, &[(3, 1)]);
    assert_eq!(connection.room(), 0);
    connection.receive(settings(&[(3, 3)]));
    assert_eq!(connection.room(), 2);
    connection.receive(settings(&[(3, 0)]));
    assert_eq!(connection.room(), 0);
    assert_eq!(connection.receive(response(1, 200, 0)), SessionState::Ready);
    assert_eq!(connection.room(), 0);
    connection.receive(settings(&[(3, 100)]));
    assert_eq!(connection.room(), 8);
}

#[test]
fn interim_answers_and_trailers_belong_to_their_response() {
    let mut connection = Greeting::with_requests(1, 0, &[]);
    let mut answer = frame(HEADERS, END_HEADERS, 1, b"\x08\x03103");
    answer.extend(frame(HEADERS, END_HEADERS, 1, b"\x88\x0f\x0d\x015"));
    // With padding: of the eleven bytes five are the body.
    answer.extend(frame(DATA, 0x8, 1, b"\x05hello\0\0\0\0\0"));
    answer.extend(frame(2, 0, 1, b"\0\0\0\0\0"));
    answer.extend(frame(0xee, 0xff, 7, b"an extension"));
    answer.extend(frame(HEADERS, END | END_HEADERS, 1, b"\x00\x01a\x01b"));
    assert_eq!(connection.receive(&answer), SessionState::Ready);
    assert_eq!(connection.results(), [(10, 5)]);
}

#[test]
fn a_block_in_pieces_with_padding_and_priority_is_whole() {
    let mut connection = Greeting::with_requests(2, 0, &[]);
    let mut answer = frame(HEADERS, END | 0x8 | 0x20, 1, b"\x02\0\0\0\0\0\x08\0\0");
    answer.extend(frame(CONTINUATION, 0, 1, b"\x03"));
    answer.extend(frame(CONTINUATION, 0, 1, b""));
    answer.extend(frame(CONTINUATION, END_HEADERS, 1, b"204"));
    assert_eq!(connection.receive(&answer), SessionState::Ready);
    assert_eq!(connection.results(), [(10, 0)]);
    // Nothing may come between the pieces.
    connection.receive(frame(HEADERS, END, 3, b"\x08"));
    assert_eq!(connection.receive(frame(PING, 0, 0, b"12345678")), FAILED);
}

#[test]
fn a_length_that_the_body_does_not_have_is_an_error_of_its_operation() {
    let mut connection = Greeting::with_requests(2, 0, &[]);
    let mut answer = frame(HEADERS, END_HEADERS, 1, b"\x88\x0f\x0d\x019");
    answer.extend(frame(DATA, END, 1, b"short"));
    answer.extend(frame(
        HEADERS,
        END_HEADERS | END,
        3,
        b"\x08\x03304\x0f\x0d\x019",
    ));
    assert_eq!(connection.receive(&answer), SessionState::Ready);
    assert_eq!(connection.results(), [(10, RESPONSE_CUT), (11, 0)]);

    let mut connection = Greeting::silent(0, true);
    connection.receive(settings(&[]));
    connection.begin(10).unwrap();
    connection.receive(frame(HEADERS, END_HEADERS | END, 1, b"\x88\x0f\x0d\x019"));
    assert_eq!(connection.results(), [(10, 0)], "the answer to HEAD");
}

#[test]
fn a_response_that_breaks_the_rules_is_reset_and_the_others_go_on() {
    for wrong in [
        frame(HEADERS, END_HEADERS | END, 1, b"\x0f\x0d\x010"),
        frame(HEADERS, END_HEADERS | END, 1, b"\x82"),
        frame(HEADERS, END_HEADERS | END, 1, b"\x08\x03100"),
        frame(HEADERS, END_HEADERS, 1, b"\x08\x03101"),
        frame(DATA, END, 1, b"a body without a head"),
        window_update(1, 0),
        [window_update(1, 0x7fff_ffff), window_update(1, 0x7fff_ffff)].concat(),
        [
            frame(HEADERS, END_HEADERS, 1, OK),
            frame(HEADERS, END_HEADERS, 1, OK),
        ]
        .concat(),
    ] {
        let mut connection = Greeting::with_requests(2, 0, &[]);
        connection.write();
        assert_eq!(connection.receive(&wrong), SessionState::Ready, "{wrong:?}");
        assert_eq!(connection.results(), [(10, -libc::EPROTO)], "{wrong:?}");
        let sent = connection.write();
        assert_eq!(
            (sent.len(), sent[0].kind, sent[0].stream),
            (1, RST_STREAM, 1)
        );
        connection.receive(response(3, 200, 1));
        assert_eq!(connection.results()[1..], [(11, 1)]);
    }
}

#[test]
fn frames_that_break_the_rules_end_the_connection() {
    for wrong in [
        frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\x02\x82"),
        frame(HEADERS, END_HEADERS, 2, OK),
        frame(HEADERS, END_HEADERS, 5, OK),
        frame(DATA, 0, 0, b"x"),
        frame(DATA, 0x8, 1, b"\x05abc"),
        frame(DATA, 0x8, 1, b""),
        frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff"),
        frame(HEADERS, END_HEADERS | 0x8, 1, b"\x09abc"),
        frame(HEADERS, END_HEADERS | 0x20, 1, b"\0\0\0"),
        frame(CONTINUATION, END_HEADERS, 1, OK),
        frame(RST_STREAM, 0, 0, &[0; 4]),
        frame(RST_STREAM, 0, 7, &[0; 4]),
        frame(RST_STREAM, 0, 1, b"123"),
        frame(PING, 0, 0, b"1234567"),
        frame(PING, 0, 1, b"12345678"),
        frame(GOAWAY, 0, 0, b"1234567"),
        frame(SETTINGS, 0, 1, b""),
        frame(SETTINGS, 0, 0, b"12345"),
        frame(SETTINGS, END, 0, b"123456"),
        settings(&[(2, 1)]),
        settings(&[(4, 1 << 31)]),
        settings(&[(5, 16_383)]),
        settings(&[(5, 1 << 24)]),
        window_update(0, 0),
        window_update(0, 0x7fff_ffff),
        [window_update(1, 0x7fff_0000), settings(&[(4, 0x7fff_ffff)])].concat(),
        vec![0, 0x40, 1, DATA, 0, 0, 0, 0, 1],
    ] {
        let mut connection = Greeting::with_requests(2, 0, &[]);
        connection.write();
        assert_eq!(connection.receive(&wrong), FAILED, "{wrong:?}");
        assert_eq!(connection.results(), []);
    }
}

#[test]
fn a_server_without_http_2_is_recognised() {
    for (answer, refusal) in [
        (
            b"HTTP/1.1 400 Bad Request\r\n".to_vec(),
            "its answer is HTTP/1, not HTTP/2",
        ),
        (
            b"220 mail.example ESMTP\r\n".to_vec(),
            "its answer is not HTTP/2",
        ),
        (frame(SETTINGS, END, 0, b""), "its answer is not HTTP/2"),
        (frame(PING, 0, 0, b"12345678"), "its answer is not HTTP/2"),
    ] {
        let mut connection = Greeting::silent(0, false);
        assert_eq!(connection.receive(&answer), FAILED);
        let found = connection.protocol.refusal(&connection.session);
        assert_eq!(found.as_deref(), Some(refusal));
    }
    let mut connection = Greeting::silent(0, false);
    assert_eq!(connection.receive(goaway(0, 11)), SessionState::Closing);
    let found = connection.protocol.refusal(&connection.session).unwrap();
    assert!(found.contains("ENHANCE_YOUR_CALM"), "{found}");
    let remedy = connection.protocol.remedy(&connection.session).unwrap();
    assert!(remedy.contains("--http 1.1"));
}

#[test]
fn streams_above_the_last_one_of_goaway_are_sent_again() {
    let mut connection = Greeting::with_requests(4, 0, &[]);
    connection.write();
    // nginx and others announce the end before they say which stream is the last.
    assert_eq!(
        connection.receive(goaway(0x7fff_ffff, 0)),
        SessionState::Closing
    );
    assert_eq!((connection.results(), connection.room()), (vec![], 0));
    connection.receive(goaway(3, 0));
    assert_eq!(connection.results(), [(12, RESEND), (13, RESEND)]);
    connection.receive(response(3, 200, 1));
    connection.close();
    assert_eq!(
        connection.results()[2..],
        [(11, 1), (10, -libc::ECONNRESET)]
    );
}

#[test]
fn the_end_of_a_connection_is_that_of_its_streams_with_a_part_of_their_answers_or_none() {
    let mut connection = Greeting::with_requests(2, 0, &[]);
    connection.receive(frame(HEADERS, END_HEADERS, 1, b"\x88"));
    connection.close();
    let results = [(10, RESPONSE_CUT), (11, -libc::ECONNRESET)];
    assert_eq!(connection.results(), results);
}

#[test]
fn a_stream_that_the_server_resets_is_an_error_of_its_operation() {
    let mut connection = Greeting::with_requests(3, 100_000, &[(4, 10)]);
    connection.write();
    let resets = [rst_stream(1, 7), rst_stream(5, 2), rst_stream(1, 7)].concat();
    assert_eq!(connection.receive(&resets), SessionState::Ready);
    let results = [(10, -libc::ECONNREFUSED), (12, -libc::ECONNRESET)];
    assert_eq!(connection.results(), results);
    // No more of their bodies is sent.
    let more = [
        window_update(3, 10),
        window_update(5, 10),
        window_update(1, 10),
    ]
    .concat();
    connection.receive(&more);
    assert_eq!(connection.write_bodies(), [(3, 10)]);
}

#[test]
fn an_operation_that_is_given_up_resets_its_stream() {
    let mut connection = Greeting::with_requests(2, 0, &[]);
    connection.write();
    let Connection {
        protocol: http,
        session,
        out,
        ..
    } = &mut *connection;
    assert!(http.cancel(session, 10, out));
    let sent = connection.write();
    let cancelled = Frame {
        kind: RST_STREAM,
        flags: 0,
        stream: 1,
        payload: vec![0, 0, 0, 8],
    };
    assert_eq!((sent, connection.room()), (vec![cancelled], 7));
    // Its answer, which still arrives, is nobody's; its fields are decoded, since others refer to them.
    let mut late = frame(HEADERS, END_HEADERS, 1, b"\x48\x03503");
    late.extend(frame(DATA, END, 1, b"late"));
    late.extend(rst_stream(1, 0));
    late.extend(frame(HEADERS, END_HEADERS | END, 3, b"\xbe"));
    assert_eq!(connection.receive(&late), SessionState::Ready);
    assert_eq!(connection.results(), [(11, -10_503)]);
}

#[test]
fn a_request_that_could_not_be_written_makes_its_connection_useless() {
    let mut connection = Greeting::with_requests(1, 0, &[]);
    let Connection {
        protocol: http,
        session,
        out,
        ..
    } = &mut *connection;
    assert!(!http.cancel(session, 10, out));
}

#[test]
fn bodies_obey_the_windows_of_the_server() {
    // 65,535 bytes of the connection, in frames of 16 KiB at most.
    let mut connection = Greeting::with_requests(2, 50_000, &[]);
    let sent = connection.write_bodies();
    let whole = [(1, 16_384), (1, 16_384), (1, 16_384), (1, 848), (3, 15_535)];
    assert_eq!(sent, whole);
    connection.receive(window_update(3, 1_000_000));
    assert_eq!(connection.write_bodies(), []);
    connection.receive(window_update(0, 1_000_000));
    let sent = connection.write();
    let last = sent.last().unwrap();
    assert_eq!(
        (last.stream, last.flags, last.payload.len()),
        (3, END, 50_000 - 15_535 - 2 * 16_384)
    );
    connection.receive([response(1, 200, 0), response(3, 200, 0)].concat());
    assert_eq!(connection.results(), [(10, 0), (11, 0)]);
}

#[test]
fn settings_change_the_windows_of_streams_that_are_open() {
    let mut connection = Greeting::with_requests(1, 1000, &[(4, 100)]);
    assert_eq!(connection.write_bodies(), [(1, 100)]);
    // 100 bytes less than nothing are left.
    connection.receive(settings(&[(4, 0)]));
    connection.receive(window_update(1, 100));
    assert_eq!(connection.write_bodies(), []);
    connection.receive(settings(&[(4, 30)]));
    assert_eq!(connection.write_bodies(), [(1, 30)]);
    connection.begin(11).unwrap();
    assert_eq!(connection.write_bodies(), [(3, 30)]);
}

#[test]
fn a_long_body_is_put_in_parts_that_need_little_memory() {
    let mut connection = Greeting::with_requests(1, 1 << 40, &[(4, 0x7fff_ffff)]);
    connection.receive(window_update(0, 0x7fff_ffff - 65_535));
    let put = connection.out.put_bytes() - connection.out.written_bytes();
    assert!((64 * 1024..100 * 1024).contains(&put), "{put}");
    // What is behind it stays small too, once the operation is given up.
    connection.out.written(put as usize);
    connection.greeted = true;
    let Connection {
        protocol: http,
        session,
        out,
        ..
    } = &mut *connection;
    http.more(session, out);
    assert!(!out.is_empty());
    assert!(http.cancel(session, 10, out));
    let sent = connection.write_bodies().len();
    assert!(sent <= 5, "{sent}");
}

#[test]
fn a_response_before_the_whole_request_stops_the_request() {
    let mut connection = Greeting::with_requests(1, 100_000, &[]);
    connection.write();
    connection.receive(response(1, 413, 0));
    assert_eq!(connection.results(), [(10, -10_413)]);
    let sent = connection.write();
    assert_eq!((sent.len(), sent[0].kind), (1, RST_STREAM));
    connection.receive(window_update(0, 1_000_000));
    assert_eq!(connection.write(), []);
}

#[test]
fn our_window_is_opened_again_when_half_of_it_is_used() {
    let mut connection = Greeting::with_requests(1, 0, &[]);
    connection.write();
    connection.receive(frame(HEADERS, END_HEADERS, 1, OK));
    let data = frame(DATA, 0, 1, &[0; 16_384]);
    let mut sent = Vec::new();
    for _ in 0..(1 << 30) / 16_384 {
        connection.receive(&data);
        sent.extend(connection.write());
    }
    let streams: Vec<_> = sent
        .iter()
        .map(|frame| (frame.kind, frame.stream))
        .collect();
    assert_eq!(
        streams,
        [
            (WINDOW_UPDATE, 0),
            (WINDOW_UPDATE, 1),
            (WINDOW_UPDATE, 0),
            (WINDOW_UPDATE, 1)
        ]
    );
    connection.receive(frame(DATA, END, 1, b""));
    assert_eq!(connection.results(), [(10, 1 << 30)]);
}

#[test]
fn a_flood_of_pings_is_answered_as_long_as_the_answers_are_read() {
    let ping = frame(PING, 0, 0, b"12345678");
    let mut connection = Greeting::with_requests(1, 0, &[]);
    connection.write();
    for _ in 0..20 {
        assert_eq!(connection.receive(ping.repeat(1000)), SessionState::Ready);
        let sent = connection.write();
        assert_eq!(sent.len(), 1000);
        assert!(
            sent.iter()
                .all(|frame| (frame.kind, frame.flags) == (PING, END))
        );
        assert!(sent.iter().all(|frame| frame.payload == b"12345678"));
    }
    // Also while there is always more to write, as during a long upload.
    for _ in 0..20 {
        assert_eq!(connection.receive(ping.repeat(1000)), SessionState::Ready);
        while connection.out.unsent_bytes() > 1 {
            let most = connection.out.unsent_bytes() - 1;
            let length = most.min(connection.out.next().len() as u64);
            connection.out.written(length as usize);
        }
    }
    let mut state = SessionState::Ready;
    for _ in 0..10 {
        state = connection.receive(ping.repeat(1000));
    }
    assert_eq!(state, FAILED);
    assert!(connection.out.put_bytes() - connection.out.written_bytes() < 200_000);
}

#[test]
fn header_blocks_are_bounded() {
    let mut connection = Greeting::with_requests(1, 0, &[]);
    let mut state = connection.receive(frame(HEADERS, 0, 1, &[0; 16_384]));
    let mut frames = 0;
    while state == SessionState::Ready {
        state = connection.receive(frame(CONTINUATION, 0, 1, &[0; 16_384]));
        frames += 1;
    }
    assert_eq!((state, frames), (FAILED, 4));

    let mut connection = Greeting::with_requests(1, 0, &[]);
    connection.receive(frame(HEADERS, 0, 1, b""));
    let flood = frame(CONTINUATION, 0, 1, b"").repeat(64);
    assert_eq!(connection.receive(&flood), SessionState::Ready);
    assert_eq!(connection.receive(frame(CONTINUATION, 0, 1, b"")), FAILED);
}

#[test]
fn a_long_request_head_is_continued_and_one_that_the_server_refuses_is_not_sent() {
    let field = ("x-long".to_owned(), "y".repeat(40_000));
    let requests = Requests::new(&[vec![field]], 5, false);
    let mut connection = Greeting::with_requests(0, 0, &[]);
    connection.protocol = Http2::new(Arc::new(requests), 8);
    connection.write();
    connection.begin(10).unwrap();
    let sent = connection.write();
    let frames: Vec<_> = sent.iter().map(|frame| (frame.kind, frame.flags)).collect();
    let expected = [
        (HEADERS, 0),
        (CONTINUATION, 0),
        (CONTINUATION, END_HEADERS),
        (DATA, END),
    ];
    assert_eq!(frames, expected);
    assert!(sent.iter().all(|frame| frame.payload.len() <= 16_384));
    connection.receive(settings(&[(6, 40_000)]));
    assert_eq!(connection.begin(11), Err(-libc::EMSGSIZE));
    assert_eq!(connection.room(), 7);
}

#[test]
fn a_server_that_reduces_its_table_is_told_that_none_is_used() {
    let mut connection = Greeting::with_requests(0, 0, &[(1, 0)]);
    connection.write();
    connection.begin(10).unwrap();
    connection.begin(11).unwrap();
    let sent = connection.write();
    assert_eq!(sent[0].payload, b"\x20\x82\x04\x02/a");
    assert_eq!(sent[1].payload, b"\x82\x04\x02/a");
}

#[test]
fn a_new_connection_starts_anew() {
    let mut connection = Greeting::with_requests(2, 100_000, &[(3, 1000), (4, 10), (6, 10_000)]);
    connection.write();
    connection.receive(frame(HEADERS, 0, 1, b"\x48\x03503"));
    connection.receive([0, 0, 9, DATA]);
    connection.out.clear();
    let Connection {
        protocol: http,
        session,
        out,
        ..
    } = &mut *connection;
    assert_eq!(http.open(session, out), SessionState::Handshake);
    connection.greeted = false;
    connection.receive(settings(&[]));
    assert_eq!(connection.room(), 8);
    connection.begin(20).unwrap();
    let sent: usize = connection
        .write_bodies()
        .iter()
        .map(|(_, bytes)| bytes)
        .sum();
    assert_eq!(sent, 65_535);
    connection.receive(response(1, 200, 3));
    assert_eq!(connection.results(), [(20, 3)]);
}

fn values() -> Values {
    let specs = r#"{"n": {"type": "counter"}, "long": {"type": "text", "length": 3000}}"#;
    let specs: BTreeMap<String, ValueSpec> = serde_json::from_str(specs).unwrap();
    Values::new(&specs, 1).unwrap()
}

/// A request whose path, one of whose fields, and whose body have values.
fn filled(body: &str, check: Check) -> Request {
    let template = |text| Template::parse(text, &values()).unwrap();
    Request {
        fields: vec![
            (":method".to_owned(), template("PUT")),
            (":path".to_owned(), template("/${n}")),
            ("x-own".to_owned(), template("<${n}>")),
            ("accept".to_owned(), template("a")),
        ],
        body: Body::Template(template(body)),
        is_head: false,
        check,
    }
}

#[test]
fn each_operation_has_its_values_in_its_fields_and_its_body() {
    let requests = vec![filled("n=${n}", Check::default())];
    let mut connection = Greeting::of(requests, values(), &[]);
    for (number, n) in [(7, "7"), (11, "11"), (7, "7")] {
        connection.begin_number(10, 0, number).unwrap();
        let sent = connection.write();
        let length = n.len() as u8;
        let (own, content_length) = (format!("<{n}>"), (n.len() + 2).to_string());
        // content-length is the field 28 of the static table.
        let block = [
            b"\x02\x03PUT\x04",
            &[length + 1][..],
            b"/",
            n.as_bytes(),
            b"\x00\x05x-own",
            &[length + 2],
            own.as_bytes(),
            b"\x0f\x04\x01a\x0f\x0d\x01",
            content_length.as_bytes(),
        ];
        assert_eq!(
            (sent[0].flags, &sent[0].payload),
            (END_HEADERS, &block.concat())
        );
        let body = format!("n={n}").into_bytes();
        assert_eq!(
            (sent[1].kind, sent[1].flags, &sent[1].payload),
            (DATA, END, &body)
        );
        assert_eq!(sent.len(), 2);
        connection.receive(response(sent[0].stream, 200, 1));
    }
    assert_eq!(connection.results(), [(10, 1); 3]);
}

#[test]
fn bodies_with_values_and_bytes_are_whole_through_small_windows() {
    let bytes: Vec<u8> = (0..2000_u32).map(|byte| byte as u8).collect();
    let literal = Request {
        body: Body::Bytes(bytes.clone().into()),
        ..filled("", Check::default())
    };
    let requests = vec![filled("${n}${long}${n}", Check::default()), literal];
    let mut connection = Greeting::of(requests, values(), &[(4, 7)]);
    for (slot, request, number) in [(10, 0, 1), (11, 0, 2), (12, 1, 3)] {
        connection.begin_number(slot, request, number).unwrap();
    }
    let mut bodies: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    let mut ended = Vec::new();
    while ended.len() < 3 {
        // All three get on by turns.
        for sent in connection.write() {
            if sent.kind == DATA {
                assert!(sent.payload.len() <= 7);
                bodies.entry(sent.stream).or_default().extend(sent.payload);
            }
            if sent.flags & END != 0 && sent.kind != SETTINGS {
                ended.push(sent.stream);
            }
        }
        for stream in [5, 1, 3] {
            connection.receive(window_update(stream, 7));
        }
    }
    let text = |number| {
        let mut text = Vec::new();
        let template = Template::parse("${n}${long}${n}", &values()).unwrap();
        template.fill(&values(), number, &mut text);
        text
    };
    assert_eq!(bodies[&1], text(1));
    assert_eq!(bodies[&3], text(2));
    assert_eq!(bodies[&5], bytes);
    assert_eq!(text(1).len(), 3002);
}

#[test]
fn a_request_without_a_body_ends_with_its_fields() {
    let mut connection = Greeting::of(vec![filled("", Check::default())], values(), &[]);
    connection.begin_number(10, 0, 0).unwrap();
    let sent = connection.write();
    assert_eq!((sent.len(), sent[0].flags), (1, END | END_HEADERS));
    assert!(sent[0].payload.ends_with(b"\x0f\x0d\x010"));
    // With their values the fields are 42, 39, 40, 39 and 47 bytes long, as the setting counts.
    connection.receive(settings(&[(6, 207)]));
    connection.begin_number(11, 0, 9).unwrap();
    assert_eq!(connection.begin_number(12, 0, 10), Err(-libc::EMSGSIZE));
    assert_eq!(connection.begin_number(12, 1, 0), Err(-libc::EINVAL));
}

fn expect(status: Option<u16>, contains: &str, min_bytes: u64) -> Check {
    Check {
        status,
        contains: Needle::new(contains.as_bytes()),
        min_bytes,
        recorded: None,
    }
}

#[test]
fn a_response_that_is_not_as_expected_is_a_failed_check() {
    let checks = [
        expect(Some(404), "bb", 2),
        expect(Some(200), "bb", 3),
        expect(None, "b", 4),
        expect(None, "c", 0),
        expect(None, "", 0),
        expect(None, "b", 0),
    ];
    let requests = checks.map(|check| filled("", check)).to_vec();
    let mut connection = Greeting::of(requests, values(), &[]);
    let expected = [
        (404, 3),
        (404, -10_404),
        (201, CHECK_FAILED),
        (302, CHECK_FAILED),
        (200, 3),
        (503, -10_503),
    ];
    for (request, (status, result)) in (0..).zip(expected) {
        connection.begin_number(10, request, 0).unwrap();
        connection.receive(response(1 + 2 * request, status, 3));
        assert_eq!(
            connection.results().last(),
            Some(&(10, result)),
            "{request}"
        );
    }
}

/// One answer on a stream: what it is made of, and the result of its operation.
fn answer(stream: u32) -> impl Strategy<Value = (Vec<u8>, i32)> {
    let sized = (
        prop::sample::select(vec![200_u16, 302, 404, 503]),
        0_usize..300,
    );
    let sized = sized.prop_map(move |(status, length)| {
        let result = if status < 400 {
            length as i32
        } else {
            -10_000 - i32::from(status)
        };
        (response(stream, status, length), result)
    });
    let pieces = prop::collection::vec((0_usize..50, 0_u8..20), 0..4).prop_map(move |pieces| {
        let mut bytes = frame(HEADERS, 0, stream, b"\x08\x03");
        bytes.extend(frame(CONTINUATION, END_HEADERS, stream, b"201"));
        for (length, padding) in &pieces {
            let payload = [vec![*padding], vec![b'd'; length + usize::from(*padding)]].concat();
            bytes.extend(frame(DATA, 0x8, stream, &payload));
            bytes.extend(frame(PING, 0, 0, b"12345678"));
        }
        bytes.extend(frame(HEADERS, END | END_HEADERS, stream, b"\x40\x01t\x01v"));
        let length: usize = pieces.iter().map(|(length, _)| length).sum();
        (bytes, length as i32)
    });
    let broken = Just((rst_stream(stream, 2), -libc::ECONNRESET));
    prop_oneof![3 => sized, 2 => pieces, 1 => broken]
}

fn answers() -> impl Strategy<Value = Vec<(Vec<u8>, i32)>> {
    (1_u32..9).prop_flat_map(|count| {
        (0..count)
            .map(|number| answer(1 + 2 * number))
            .collect::<Vec<_>>()
    })
}

proptest! {
    #[test]
    fn any_split_of_the_answers_gives_the_same_ends(
        answers in answers(),
        cuts in prop::collection::vec(1_usize..200, 1..60),
    ) {
        let mut connection = Greeting::with_requests(answers.len() as u32, 0, &[]);
        connection.write();
        let all: Vec<u8> = answers.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        let mut rest = &all[..];
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, more) = rest.split_at((*cut).min(rest.len()));
            prop_assert_eq!(connection.receive(piece), SessionState::Ready);
            rest = more;
        }
        let expected: Vec<_> = (10..).zip(answers).map(|(slot, (_, result))| (slot, result)).collect();
        prop_assert_eq!(connection.results(), expected);
        prop_assert_eq!(connection.room(), 8);
    }

    #[test]
    fn a_text_is_found_in_the_bodies_alone_whatever_their_frames(
        bodies in prop::collection::vec(prop::collection::vec(("[ab]{0,4}", 0_usize..6), 1..5), 1..4),
        cut in 1_usize..40,
    ) {
        let request = filled("", expect(None, "aab", 0));
        let mut connection = Greeting::of(vec![request], values(), &[]);
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for (number, body) in (0..).zip(&bodies) {
            connection.begin_number(10 + number, 0, 0).unwrap();
            bytes.extend(frame(HEADERS, END_HEADERS, 1 + 2 * number, OK));
            let text: String = body.iter().map(|(text, _)| text.as_str()).collect();
            let result = if text.contains("aab") { text.len() as i32 } else { CHECK_FAILED };
            expected.push((10 + number, result));
        }
        // A piece of each in turn; the padding would be found.
        for place in 0..5 {
            for (number, body) in (0..).zip(&bodies) {
                if let Some((text, padding)) = body.get(place) {
                    let filler = &b"aabaab"[..*padding];
                    let payload = [&[*padding as u8], text.as_bytes(), filler].concat();
                    bytes.extend(frame(DATA, 0x8, 1 + 2 * number, &payload));
                }
            }
        }
        for number in 0..bodies.len() as u32 {
            bytes.extend(frame(DATA, END, 1 + 2 * number, b""));
        }
        for piece in bytes.chunks(cut) {
            prop_assert_eq!(connection.receive(piece), SessionState::Ready);
        }
        prop_assert_eq!(connection.results(), expected);
    }

    #[test]
    fn garbage_never_panics_and_ends_each_operation_once(
        greeting in any::<bool>(),
        frames in prop::collection::vec(
            (0_u8..11, any::<u8>(), 0_u32..12, prop::collection::vec(any::<u8>(), 0..40)), 0..30),
        rest in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut connection = Greeting::with_requests(5, 1000, &[]);
        connection.write();
        if !greeting {
            // From the middle of a frame on.
            connection.receive([0, 0]);
        }
        let mut bytes: Vec<u8> = Vec::new();
        for (kind, flags, stream, payload) in frames {
            bytes.extend(frame(kind, flags, stream, &payload));
        }
        bytes.extend(rest);
        for piece in bytes.chunks(37) {
            if let SessionState::Failed(result) = connection.receive(piece) {
                prop_assert_eq!(result, -libc::EPROTO);
                break;
            }
        }
        connection.close();
        let mut slots: Vec<u32> = connection.ends.iter().map(|end| end.slot).collect();
        slots.sort_unstable();
        prop_assert_eq!(slots, (10..15).collect::<Vec<_>>());
    }
}
