//! HTTP/1.1 on one connection: pipelining, the end of a connection, and bytes that nobody asked for.

#![allow(clippy::unwrap_used)]

use bw_model::ExchangeAddress;
use bw_protocol::check::{Check, Needle};
use bw_protocol::http1::{Body, Http1, Request, Requests};
use bw_protocol::values::ValueSpec;
use bw_protocol::{Protocol, RESEND, SessionState, Template, Values};
use bw_record::errno::{CHECK_FAILED, RESPONSE_CUT};
use connection::Connection;
use proptest::prelude::*;
use std::sync::Arc;

mod connection;

/// Returns a connection with `count` requests in progress, in slots 10, 11, and so on.
fn with_requests(count: u32, body_bytes: u64, is_head: bool) -> Connection<Http1> {
    let heads = vec![b"GET / HTTP/1.1\r\n\r\n".to_vec().into_boxed_slice()];
    let requests = Requests::new(heads, body_bytes, is_head);
    let mut connection = connection_of(requests);
    for slot in 10..10 + count {
        connection.begin(slot, 0).unwrap();
    }
    connection
}

/// Returns a connection for these requests.
fn connection_of(requests: Requests) -> Connection<Http1> {
    let (connection, opened) = Connection::open(Http1::new(Arc::new(requests), 8));
    assert_eq!(opened, SessionState::Ready);
    connection
}

fn response(status: u16, body_bytes: usize) -> String {
    let body = "b".repeat(body_bytes);
    format!("HTTP/1.1 {status} X\r\nContent-Length: {body_bytes}\r\n\r\n{body}")
}

#[test]
fn requests_in_a_row_are_one_piece_and_answers_end_them_in_order() {
    let mut connection = with_requests(3, 0, false);
    assert_eq!(connection.out.next(), b"GET / HTTP/1.1\r\n\r\n".repeat(3));
    connection.write();
    assert_eq!(connection.room(), 5);
    let answers = response(200, 1) + &response(404, 2) + &response(200, 3);
    assert_eq!(connection.receive(answers.as_bytes()), SessionState::Ready);
    assert_eq!(connection.results(), [(10, 1), (11, -10_404), (12, 3)]);
    assert_eq!(connection.room(), 8);
}

#[test]
fn a_body_of_three_gigabytes_has_its_length() {
    let mut connection = with_requests(1, 0, false);
    connection.write();
    let (piece, pieces) = (vec![b'x'; 4 << 20], 768_u64);
    let bytes = piece.len() as u64 * pieces;
    connection.receive(format!("HTTP/1.1 200 X\r\nContent-Length: {bytes}\r\n\r\n"));
    for _ in 0..pieces {
        connection.receive(&piece);
    }
    let results: Vec<_> = connection.ends.iter().map(|end| end.result).collect();
    assert_eq!(results, [3 << 30]);
}

#[test]
fn requests_behind_the_last_answer_of_a_connection_are_sent_again() {
    let mut connection = with_requests(3, 0, false);
    connection.write();
    let last = "HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: 1\r\n\r\na";
    assert_eq!(connection.receive(last.as_bytes()), SessionState::Closing);
    assert_eq!(connection.results(), [(10, 1), (11, RESEND), (12, RESEND)]);
    assert_eq!(connection.room(), 0);
}

#[test]
fn a_body_that_ends_with_the_connection_is_whole_and_a_shorter_one_is_not() {
    let mut connection = with_requests(2, 0, false);
    connection.write();
    connection.receive(b"HTTP/1.1 200 X\r\n\r\nall of it");
    connection.close();
    assert_eq!(connection.results(), [(10, 9), (11, RESEND)]);

    let mut connection = with_requests(2, 0, false);
    connection.write();
    connection.receive(b"HTTP/1.1 200 X\r\nContent-Length: 10\r\n\r\nhalf");
    connection.close();
    let lost = -libc::ECONNRESET;
    assert_eq!(connection.results(), [(10, RESPONSE_CUT), (11, lost)]);
}

#[test]
fn an_answer_before_its_request_is_written_ends_the_connection() {
    let mut connection = with_requests(2, 1 << 20, false);
    let answer = response(413, 0);
    assert_eq!(connection.receive(answer.as_bytes()), SessionState::Closing);
    assert_eq!(connection.results(), [(10, -10_413), (11, RESEND)]);
}

#[test]
fn an_answer_to_a_written_request_is_good_while_the_next_one_is_being_written() {
    let mut connection = with_requests(1, 0, false);
    connection.write();
    connection.begin(11, 0).unwrap();
    let answer = response(200, 4);
    assert_eq!(connection.receive(answer.as_bytes()), SessionState::Ready);
    assert_eq!(connection.results(), [(10, 4)]);
}

#[test]
fn bytes_that_nobody_asked_for_and_garbage_fail_the_connection() {
    let failed = SessionState::Failed(-libc::EPROTO);
    let mut connection = with_requests(0, 0, false);
    assert_eq!(connection.receive(b"HTTP/1.1 200 X\r\n"), failed);

    let mut connection = with_requests(1, 0, false);
    connection.write();
    let surplus = response(200, 1) + "HTTP/1.1 200 X\r\n";
    assert_eq!(connection.receive(surplus.as_bytes()), failed);
    assert_eq!(connection.results(), [(10, 1)]);

    let mut connection = with_requests(2, 0, false);
    connection.write();
    assert_eq!(connection.receive(b"220 mail.example ESMTP\r\n"), failed);
    assert_eq!(connection.results(), []);
}

#[test]
fn answers_to_head_have_no_bodies() {
    let mut connection = with_requests(2, 0, true);
    connection.write();
    let head = "HTTP/1.1 200 X\r\nContent-Length: 1000\r\n\r\n".repeat(2);
    assert_eq!(connection.receive(head.as_bytes()), SessionState::Ready);
    assert_eq!(connection.results(), [(10, 0), (11, 0)]);
}

#[test]
fn a_new_connection_starts_anew() {
    let mut connection = with_requests(2, 0, false);
    connection.write();
    connection.receive(b"HTTP/1.1 200 X\r\nContent-Length: 5\r\n\r\nab");
    connection.out.clear();
    let Connection {
        protocol: http,
        session,
        out,
        ..
    } = &mut connection;
    http.open(session, out);
    assert_eq!(http.room(session), 8);
    connection.begin(20, 0).unwrap();
    connection.write();
    connection.receive(response(200, 3).as_bytes());
    assert_eq!(connection.results(), [(20, 3)]);
}

/// One answer: what it is made of, and the result of its operation.
fn answer() -> impl Strategy<Value = (String, i32)> {
    let sized = (
        prop::sample::select(vec![200_u16, 302, 404, 503]),
        0_usize..300,
    );
    let sized = sized.prop_map(|(status, length)| {
        let result = if status < 400 {
            length as i32
        } else {
            -10_000 - i32::from(status)
        };
        (response(status, length), result)
    });
    let chunked = prop::collection::vec(1_usize..50, 0..4).prop_map(|chunks| {
        let mut text = "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
        for length in &chunks {
            text += &format!("{length:x}\r\n{}\r\n", "c".repeat(*length));
        }
        let bytes: usize = chunks.iter().sum();
        (text + "0\r\n\r\n", bytes as i32)
    });
    let interim = Just(("HTTP/1.1 100 X\r\n\r\nHTTP/1.1 204 X\r\n\r\n".to_owned(), 0));
    prop_oneof![3 => sized, 2 => chunked, 1 => interim]
}

proptest! {
    #[test]
    fn any_split_of_the_answers_gives_the_same_ends(
        answers in prop::collection::vec(answer(), 1..9),
        cuts in prop::collection::vec(1_usize..200, 1..60),
    ) {
        let mut connection = with_requests(answers.len() as u32, 0, false);
        connection.write();
        let all: String = answers.iter().map(|(text, _)| text.as_str()).collect();
        let mut rest = all.as_bytes();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, more) = rest.split_at((*cut).min(rest.len()));
            prop_assert_eq!(connection.receive(piece), SessionState::Ready);
            rest = more;
        }
        let expected: Vec<_> = (10..).zip(answers.iter().map(|(_, result)| *result)).collect();
        prop_assert_eq!(connection.results(), expected);
    }

    #[test]
    fn arbitrary_bytes_end_each_operation_at_most_once(
        bytes in prop::collection::vec(prop_oneof![
            Just(b"HTTP/1.1 200 X\r\n".to_vec()),
            Just(b"Content-Length: 3\r\n\r\nabc".to_vec()),
            Just(b"Connection: close\r\n".to_vec()),
            Just(b"\r\n".to_vec()),
            prop::collection::vec(any::<u8>(), 1..20),
        ], 1..30),
    ) {
        let mut connection = with_requests(4, 0, false);
        connection.write();
        for piece in &bytes {
            if connection.receive(piece) != SessionState::Ready {
                break;
            }
        }
        connection.close();
        let mut slots: Vec<u32> = connection.ends.iter().map(|end| end.slot).collect();
        slots.sort_unstable();
        prop_assert_eq!(slots, vec![10, 11, 12, 13]);
    }
}

/// Returns the requests `GET /N` with a check, `POST /` with the body `n=N`, and `HEAD /`.
fn labelled() -> Requests {
    let specs: std::collections::BTreeMap<String, ValueSpec> =
        serde_json::from_str(r#"{"n": {"type": "counter", "start": 8}}"#).unwrap();
    let values = Values::new(&specs, 1).unwrap();
    let template = |text: &str| Template::parse(text, &values).unwrap();
    let get = Request {
        head: template("GET /${n} HTTP/1.1\r\n\r\n"),
        body: Body::Filler(0),
        is_head: false,
        check: Check {
            status: Some(200),
            contains: Needle::new(b"good"),
            min_bytes: 6,
            ..Check::default()
        },
    };
    let post = Request {
        head: template("POST / HTTP/1.1\r\n"),
        body: Body::Template(template("n=${n}")),
        check: Check::default(),
        ..get.clone()
    };
    let head = Request {
        head: template("HEAD / HTTP/1.1\r\n\r\n"),
        body: Body::Filler(0),
        is_head: true,
        check: Check {
            status: Some(404),
            ..Check::default()
        },
    };
    Requests::of(vec![get, post, head], values)
}

fn numbered(request: u32, number: u64) -> u64 {
    ExchangeAddress { request, number }.pack()
}

#[test]
fn a_request_has_the_values_of_its_operation_and_the_length_of_its_body() {
    let mut connection = connection_of(labelled());
    for (slot, (request, number)) in (0..).zip([(0, 1), (1, 92), (2, 0)]) {
        connection.begin(slot, numbered(request, number)).unwrap();
    }
    let expected = "GET /9 HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nn=100\
        HEAD / HTTP/1.1\r\n\r\n";
    assert_eq!(String::from_utf8(connection.write()).unwrap(), expected);
    let none = connection.begin(9, numbered(3, 0));
    assert_eq!(none, Err(-libc::EINVAL));
}

#[test]
fn each_answer_is_checked_as_its_own_request_says() {
    let chunked =
        "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nxxgo\r\n2\r\nod\r\n0\r\n\r\n";
    let cases = [
        (0, chunked.to_owned(), 6),
        (0, response(200, 9), CHECK_FAILED),
        (
            0,
            "HTTP/1.1 200 X\r\nContent-Length: 4\r\n\r\ngood".into(),
            CHECK_FAILED,
        ),
        (0, "HTTP/1.1 204 X\r\n\r\n".into(), CHECK_FAILED),
        (0, response(500, 9), -10_500),
        (1, response(302, 9), 9),
        (2, "HTTP/1.1 404 X\r\nContent-Length: 70\r\n\r\n".into(), 0),
        (
            2,
            "HTTP/1.1 200 X\r\nContent-Length: 70\r\n\r\n".into(),
            CHECK_FAILED,
        ),
        (
            2,
            "HTTP/1.1 500 X\r\nContent-Length: 70\r\n\r\n".into(),
            -10_500,
        ),
        (1, response(404, 9), -10_404),
    ];
    let results: Vec<i32> = cases.iter().map(|(_, _, result)| *result).collect();
    let answers: Vec<u8> = cases
        .iter()
        .flat_map(|(_, answer, _)| answer.bytes())
        .collect();
    // All at once, and byte by byte.
    for piece in [answers.len(), 1] {
        let mut connection = connection_of(labelled());
        // At most eight are in progress on a connection.
        connection.protocol = Http1::new(Arc::new(labelled()), 16);
        for (slot, (request, _, _)) in (0..).zip(&cases) {
            connection.begin(slot, numbered(*request, 0)).unwrap();
        }
        connection.write();
        for bytes in answers.chunks(piece) {
            assert_eq!(connection.receive(bytes), SessionState::Ready);
        }
        let found: Vec<i32> = connection
            .results()
            .into_iter()
            .map(|(_, result)| result)
            .collect();
        assert_eq!(found, results, "in pieces of {piece}");
        assert_eq!(connection.protocol.statuses(), Some([5, 1, 2, 2]));
    }
}

#[test]
fn a_body_that_ends_with_the_connection_is_checked_too() {
    for (body, result) in [("xx good", 7), ("xx goo", CHECK_FAILED)] {
        let mut connection = connection_of(labelled());
        connection.begin(10, numbered(0, 0)).unwrap();
        connection.write();
        connection.receive(b"HTTP/1.1 200 X\r\n\r\n");
        connection.receive(body.as_bytes());
        connection.close();
        assert_eq!(connection.results(), [(10, result)]);
    }
}
