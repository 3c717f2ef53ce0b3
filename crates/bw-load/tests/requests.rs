//! Requests with labels against servers in threads, on the loopback: what is sent, and what each answer counts as.

#![allow(clippy::unwrap_used)]

use bw_load::PlanOptions;
use bw_load::http::HttpTarget;
use bw_load::http::request::HttpSpec;
use bw_model::{ExchangeAddress, Operation};
use bw_record::errno::{CHECK_FAILED, RESPONSE_CUT};
use network::{Server, drive, exchange, write_in_pieces};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

mod network;

fn spec(address: &str, fields: Value) -> HttpSpec {
    let mut spec = json!({"url": format!("http://{address}/"), "connections": 1});
    spec.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    serde_json::from_value(spec).unwrap()
}

fn open(server: &Server, seed: u64, fields: Value) -> HttpTarget {
    let spec = spec(&server.address.to_string(), fields);
    spec.plan(PlanOptions::with_seed(seed))
        .unwrap()
        .open(1)
        .unwrap()
}

fn numbered(request: u32, number: u64) -> Operation {
    exchange(ExchangeAddress { request, number }.pack(), 0)
}

/// Reads a request: its head and its body.
fn request(stream: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// Returns a server that answers each request with what `answer` makes of it, in pieces, and what it received.
fn server(
    piece: usize,
    answer: impl Fn(&str) -> String + Send + Sync + 'static,
) -> (Server, Arc<Mutex<Vec<String>>>) {
    let received = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&received);
    let server = Server::start(move |_, stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        while let Some((head, body)) = request(&mut reader) {
            let answer = answer(&head);
            let text = format!("{head}{}", String::from_utf8_lossy(&body));
            all.lock().unwrap().push(text);
            write_in_pieces(&mut stream, answer.as_bytes(), piece);
        }
    });
    (server, received)
}

fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn requests() -> Value {
    json!({
        "headers": [["Host", "h"], ["X-All", "${not a place}"], ["X-Own", "of the target"]],
        "values": {
            "n": {"type": "counter"},
            "word": {"type": "line", "lines": ["a", "bc"], "location": {"type": "sequential"}},
            "token": {"type": "text", "length": 8},
        },
        "requests": [
            {"label": "get", "path": "/${word}/${n}"},
            {"label": "put", "method": "PUT", "path": "/", "headers": [["x-own", "${token}"]], "body": "${token} $${n}"},
            {"label": "bytes", "method": "POST", "path": "/b", "body_base64": "/wD/"},
        ],
    })
}

#[test]
fn what_is_sent_follows_from_the_seed_and_the_number() {
    let sent = |seed| {
        let (server, received) = server(1000, |_| ok("x"));
        let mut target = open(&server, seed, requests());
        let operations = [(0, 0), (0, 11), (1, 7), (2, 0), (1, 7), (1, 8)];
        let operations = operations.map(|(request, number)| numbered(request, number));
        assert_eq!(drive(&mut target, &operations), [1; 6]);
        received.lock().unwrap().clone()
    };
    let received = sent(5);
    assert!(received[0].starts_with("GET /a/0 HTTP/1.1\r\n"));
    assert!(received[1].starts_with("GET /bc/11 HTTP/1.1\r\n"));
    for text in &received[..2] {
        assert!(
            text.contains("\r\nX-All: ${not a place}\r\nX-Own: of the target\r\n"),
            "{text}"
        );
        assert!(!text.contains("Content-Length"));
    }
    let (head, body) = received[2].split_once("\r\n\r\n").unwrap();
    let (token, rest) = body.split_at(8);
    assert_eq!(rest, " ${n}");
    assert!(head.contains(&format!("\r\nx-own: {token}\r\n")), "{head}");
    assert!(!head.contains("X-Own"));
    assert!(head.ends_with("\r\nContent-Length: 13"), "{head}");
    assert!(received[3].ends_with("Content-Length: 3\r\n\r\n\u{fffd}\0\u{fffd}"));
    assert_eq!(received[2], received[4]);
    assert_ne!(received[2], received[5]);
    assert_eq!(received, sent(5));
    assert_ne!(received, sent(6));
}

#[test]
fn a_server_that_sends_one_byte_at_a_time_is_checked_as_any_other() {
    let (server, _) = server(1, |head| match &head[5..6] {
        "0" => ok("a long text with the word in it"),
        "1" => ok("a long text with the wor d in it"),
        "2" => {
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nwo\r\n2\r\nrd\r\n0\r\n\r\n"
                .to_owned()
        }
        "3" => "HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nword".to_owned(),
        _ => "HTTP/1.1 302 No\r\nContent-Length: 4\r\n\r\nword".to_owned(),
    });
    let expect = json!({"status": 200, "contains": "word", "min_bytes": 4});
    let one =
        |path: usize| json!({"label": "l", "path": format!("/{path}"), "expect": expect.clone()});
    let requests: Vec<Value> = (0..5).map(one).collect();
    let mut target = open(&server, 1, json!({"requests": requests}));
    let operations: Vec<_> = (0..5).map(|request| numbered(request, 0)).collect();
    let results = drive(&mut target, &operations);
    assert_eq!(results, [31, CHECK_FAILED, 4, -10_503, CHECK_FAILED]);
    assert_eq!(target.describe().reconnects, 0);
}

#[test]
fn an_answer_that_is_cut_off_or_garbage_is_no_failed_check() {
    for (answer, result) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\nword",
            RESPONSE_CUT,
        ),
        ("word word word word\r\n\r\n", -libc::EPROTO),
    ] {
        let server = Server::start(move |_, stream| {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut stream = stream;
            if request(&mut reader).is_some() {
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let expect = json!({"contains": "word"});
        let requests = json!({"requests": [{"label": "l", "path": "/", "expect": expect}]});
        let mut target = open(&server, 1, requests);
        assert_eq!(drive(&mut target, &[numbered(0, 0)]), [result]);
    }
}

#[test]
fn what_cannot_be_sent_is_refused_before_the_run() {
    let line = |line: &str| json!({"v": {"type": "line", "lines": ["good", line]}});
    let one = |request: Value| json!({"requests": [request]});
    let with = |request: Value, values: Value| json!({"requests": [request], "values": values});
    let many: Vec<Value> = (0..101)
        .map(|label| json!({"label": label.to_string(), "path": "/"}))
        .collect();
    let cases = [
        (
            one(json!({"label": "l", "path": "/${v}"})),
            "no value \"v\"",
        ),
        (
            one(json!({"label": "l", "path": "x"})),
            "cannot be requested",
        ),
        (
            with(json!({"label": "l", "path": "/${v}"}), line("a b")),
            "line 2 of value v",
        ),
        (
            with(json!({"label": "l", "path": "/${v}"}), line("a#b")),
            "line 2 of value v",
        ),
        (
            with(
                json!({"label": "l", "path": "/", "headers": [["X", "${v}"]]}),
                line("a\r\nb: c"),
            ),
            "line 2 of value v",
        ),
        (
            one(json!({"label": "l", "path": "/", "headers": [["Content-Length", "7"]]})),
            "bw sets it",
        ),
        (
            one(json!({"label": "l", "path": "/", "body": "a", "body_base64": "YQ=="})),
            "leave one out",
        ),
        (
            one(json!({"label": "l", "path": "/", "body_base64": "?"})),
            "base64",
        ),
        (
            one(json!({"label": "l", "path": "/", "expect": {"status": 99}})),
            "no such status",
        ),
        (
            one(json!({"label": "l", "path": "/", "method": "HEAD", "expect": {"min_bytes": 1}})),
            "HEAD",
        ),
        (
            with(
                json!({"label": "l", "path": "/"}),
                json!({"v": {"type": "line", "lines": []}}),
            ),
            "value v",
        ),
        (
            json!({"requests": [{"label": "l", "path": "/"}], "paths": ["/a", "/b"]}),
            "paths too",
        ),
        (
            json!({"requests": [{"label": "l", "path": "/"}], "body_bytes": 1}),
            "a body too",
        ),
        (json!({"requests": many}), "at most 100"),
    ];
    for (fields, word) in cases {
        let error = spec("127.0.0.1:9", fields.clone())
            .plan(PlanOptions::with_seed(1))
            .unwrap_err();
        let text = format!("{} {}", error.message, error.remedy);
        assert!(text.contains(word), "{fields}: {text}");
    }
}
