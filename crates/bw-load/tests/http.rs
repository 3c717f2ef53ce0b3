//! The HTTP target against servers in threads, on the loopback.

#![allow(clippy::unwrap_used)]

use bw_load::PlanOptions;
use bw_load::http::request::HttpSpec;
use bw_load::http::{HttpTarget, status_of};
use bw_load::target::Target;
use bw_record::errno::RESPONSE_CUT;
use network::{
    Server, WARM_UP, drive, exchange, read_request, reset, with_warm_up, write_in_pieces,
};
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;

mod network;

fn spec(server: &Server) -> HttpSpec {
    let url = format!("http://{}/", server.address);
    serde_json::from_value(serde_json::json!({"url": url, "connections": 1})).unwrap()
}

fn open(server: &Server, connections: u32) -> HttpTarget {
    spec(server)
        .plan(PlanOptions::default())
        .unwrap()
        .open(connections)
        .unwrap()
}

/// Answers every request on a connection with the same bytes, in pieces.
fn answer(mut stream: TcpStream, response: &[u8], piece: usize) {
    while read_request(&mut stream).is_some() {
        write_in_pieces(&mut stream, response, piece);
    }
}

/// Answers the first request on each connection, and closes it.
fn answer_once(response: &'static [u8]) -> Server {
    Server::start(move |_, mut stream| {
        if read_request(&mut stream).is_some() {
            stream.write_all(response).unwrap();
        }
    })
}

const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
    5;name=value\r\nhello\r\n6;q=\"a;b\"\r\n world\r\n0\r\nExpires: never\r\nA: b\r\n\r\n";

#[test]
fn thousands_of_exchanges_on_64_connections() {
    let server = Server::start(|_, mut stream| {
        while let Some((head, _)) = read_request(&mut stream) {
            let length: usize = head.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
            let body = "b".repeat(length);
            let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
            stream.write_all(response.as_bytes()).unwrap();
        }
    });
    let mut spec = spec(&server);
    spec.paths = (0..300).map(|length| format!("/{length}")).collect();
    let mut target = spec.plan(PlanOptions::default()).unwrap().open(64).unwrap();
    let operations: Vec<_> = (0..6000).map(|i| exchange(i % 300, 0)).collect();
    for (operation, result) in operations.iter().zip(drive(&mut target, &operations)) {
        assert_eq!(u64::try_from(result), Ok(operation.offset));
    }
    assert_eq!((target.describe().reconnects, server.accepted()), (0, 64));
}

#[test]
fn a_response_byte_by_byte_is_whole() {
    let server = Server::start(|_, stream| answer(stream, CHUNKED, 1));
    let mut target = open(&server, 2);
    assert_eq!(drive(&mut target, &[exchange(0, 0); 20]), [11; 20]);
    assert_eq!(target.describe().reconnects, 0);
    assert_eq!(target.describe().received_bytes, 20 * CHUNKED.len() as u64);
}

#[test]
fn a_large_body_is_read_and_dropped() {
    let server = Server::start(|_, mut stream| {
        while read_request(&mut stream).is_some() {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 30000000\r\n\r\n";
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&vec![0; 30_000_000]).unwrap();
        }
    });
    assert_eq!(
        drive(&mut open(&server, 2), &[exchange(0, 0); 4]),
        [30_000_000; 4]
    );
}

#[test]
fn a_body_is_sent_whole_and_a_slow_reader_does_not_block() {
    let server = Server::start(|_, mut stream| {
        // The buffers fill, and the target must continue when there is room.
        std::thread::sleep(std::time::Duration::from_millis(50));
        while let Some((_, length)) = read_request(&mut stream) {
            let body = length.to_string();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).unwrap();
        }
    });
    let mut spec = spec(&server);
    spec.method = "POST".into();
    spec.body_bytes = 20_000_000;
    let mut target = spec.plan(PlanOptions::default()).unwrap().open(3).unwrap();
    assert_eq!(drive(&mut target, &[exchange(0, 0); 6]), [8; 6]);
    assert_eq!(target.describe().reconnects, 0);
}

#[test]
fn a_server_that_closes_after_each_answer_is_reconnected_and_counted() {
    let server =
        answer_once(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
    let mut target = open(&server, 4);
    assert_eq!(drive(&mut target, &[exchange(0, 0); 200]), [2; 200]);
    let again = target.describe().reconnects;
    assert!((196..=200).contains(&again), "{again}");
    assert_eq!(target.describe().failed_connects, 0);
}

#[test]
fn a_body_until_close_is_whole() {
    let server = answer_once(b"HTTP/1.0 200 OK\r\n\r\nall of it");
    assert_eq!(drive(&mut open(&server, 2), &[exchange(0, 0); 20]), [9; 20]);
}

#[test]
fn statuses_above_400_are_errors_of_their_own() {
    let server = Server::start(|_, mut stream| {
        while let Some((head, _)) = read_request(&mut stream) {
            let status = &head[5..8];
            let response = format!("HTTP/1.1 {status} Reason\r\nContent-Length: 3\r\n\r\nabc");
            stream.write_all(response.as_bytes()).unwrap();
        }
    });
    let mut spec = spec(&server);
    spec.paths = ["/500", "/404", "/302", "/200"].map(String::from).into();
    let mut target = spec.plan(PlanOptions::default()).unwrap().open(1).unwrap();
    let operations = [0, 1, 2, 3].map(|path| exchange(path, 0));
    let results = drive(&mut target, &operations);
    assert_eq!(results, [-10_500, -10_404, 3, 3]);
    assert_eq!(status_of(results[0]), Some(500));
    assert_eq!(status_of(-libc::EPROTO), None);
    assert_eq!(target.describe().reconnects, 0);
    assert_eq!(drive(&mut target, &[exchange(4, 0)]), [-libc::EINVAL]);
}

#[test]
fn interim_answers_and_those_without_body_leave_the_connection_in_step() {
    let mixed = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n\
        HTTP/1.1 204 No Content\r\n\r\n";
    let server = Server::start(|_, stream| answer(stream, mixed, 7));
    let mut target = open(&server, 1);
    assert_eq!(drive(&mut target, &[exchange(0, 0); 10]), [0; 10]);
    assert_eq!(target.describe().reconnects, 0);

    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
    let server = Server::start(|_, stream| answer(stream, head, 1000));
    let mut spec = spec(&server);
    spec.method = "HEAD".into();
    let mut target = spec.plan(PlanOptions::default()).unwrap().open(1).unwrap();
    assert_eq!(drive(&mut target, &[exchange(0, 0); 10]), [0; 10]);
    assert_eq!(target.describe().reconnects, 0);
}

#[test]
fn garbage_is_a_protocol_error_and_halves_are_cut() {
    let wrong: [(&'static [u8], i32); 6] = [
        (b"220 links.example ESMTP\r\n", libc::EPROTO),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            libc::EPROTO,
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            libc::EPROTO,
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
            -RESPONSE_CUT,
        ),
        (b"HTTP/1.1 20", -RESPONSE_CUT),
        (b"", libc::ECONNRESET),
    ];
    for (response, errno) in wrong {
        let server = answer_once(response);
        let results = drive(&mut open(&server, 2), &[exchange(0, 0); 4]);
        assert_eq!(results, [-errno; 4], "{}", response.escape_ascii());
    }
}

#[test]
fn bytes_that_nobody_asked_for_cost_the_connection_and_no_operation() {
    let twice = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\n";
    let server = Server::start(|_, stream| answer(stream, twice, twice.len()));
    let mut target = open(&server, 1);
    assert_eq!(drive(&mut target, &[exchange(0, 0); 10]), [1; 10]);
    assert!(target.describe().reconnects >= 9);
}

#[test]
fn an_answer_before_the_request_is_whole_ends_the_exchange() {
    let server = Server::start(|_, mut stream| {
        stream
            .write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
            .unwrap();
        // Reads on, but slowly, until the other side gives up.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let mut spec = spec(&server);
    spec.method = "PUT".into();
    spec.body_bytes = 1 << 32;
    let mut target = spec.plan(PlanOptions::default()).unwrap().open(1).unwrap();
    let results = drive(&mut target, &[exchange(0, 0); 3]);
    assert!(results.contains(&-10_413), "{results:?}");
}

#[test]
fn resets_are_reported_and_the_rest_goes_on() {
    let server = Server::start(|number, mut stream| {
        for _ in 0..10 {
            if read_request(&mut stream).is_none() {
                return;
            }
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                .unwrap();
        }
        read_request(&mut stream);
        if number % 2 == 0 {
            reset(stream);
        } else {
            stream.shutdown(Shutdown::Both).unwrap();
        }
    });
    let mut target = open(&server, 4);
    let results = drive(&mut target, &[exchange(0, 0); 440]);
    let lost = results
        .iter()
        .filter(|&&result| result == -libc::ECONNRESET)
        .count();
    let good = results.iter().filter(|&&result| result == 0).count();
    assert_eq!(lost + good, 440);
    // Each connection carries ten valid responses and then an invalid one: 40 in total if all are used evenly.
    assert!((36..=40).contains(&lost), "{lost}");
}

#[test]
fn the_request_is_what_was_described() {
    static HEADS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let server = Server::start(|_, mut stream| {
        while let Some((head, _)) = read_request(&mut stream) {
            HEADS.lock().unwrap().push(head);
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                .unwrap();
        }
    });
    let mut spec = spec(&server);
    spec.method = "POST".into();
    spec.paths = vec!["/a?b=c".into(), "/d".into()];
    spec.headers = vec![("X-Own".into(), "yes".into())];
    spec.body_bytes = 5;
    let mut target = spec.plan(PlanOptions::default()).unwrap().open(1).unwrap();
    assert_eq!(
        drive(&mut target, &[exchange(0, 0), exchange(1, 0)]),
        [0, 0]
    );
    let host = server.address;
    let expected = ["/a?b=c", "/d"].map(|path| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: benchwright\r\n\
             Content-Length: 5\r\nX-Own: yes\r\n\r\n"
        )
    });
    // The driver takes slots from one connection, which determines the order.
    assert_eq!(*HEADS.lock().unwrap(), expected);
}

#[test]
fn bad_descriptions_are_refused_with_what_to_do() {
    let check = |change: &dyn Fn(&mut HttpSpec), code: &str, word: &str| {
        let json = serde_json::json!({"url": "http://127.0.0.1:1/", "connections": 1});
        let mut spec: HttpSpec = serde_json::from_value(json).unwrap();
        change(&mut spec);
        let refused = spec.plan(PlanOptions::default()).unwrap_err();
        assert_eq!(refused.code, code, "{refused}");
        assert!(refused.to_string().contains(word), "{refused}");
    };
    check(&|spec| spec.tls = Some(Default::default()), "url", "https");
    check(
        &|spec| spec.url = "ftp://a/".into(),
        "url",
        "not an http URL",
    );
    check(
        &|spec| spec.url = "/only/a/path".into(),
        "url",
        "not an http URL",
    );
    check(
        &|spec| spec.url = "http://u:p@a/".into(),
        "url",
        "Authorization",
    );
    check(&|spec| spec.url = "http://a:99999/".into(), "url", "");
    check(&|spec| spec.url = "http://a/#b".into(), "url", "fragment");
    check(&|spec| spec.method = "GE T".into(), "method", "GE T");
    check(&|spec| spec.method = "CONNECT".into(), "method", "tunnel");
    check(
        &|spec| spec.paths = vec!["a".into()],
        "path",
        "start it with /",
    );
    check(&|spec| spec.paths = vec!["/a b".into()], "path", "%20");
    check(&|spec| spec.paths = vec!["/a#b".into()], "path", "#");
    check(
        &|spec| {
            spec.url = "http://a/b".into();
            spec.paths = vec!["/".into(), "/c".into()];
        },
        "url",
        "paths",
    );
    let with = |name: &str, value: &str| vec![(name.to_string(), value.to_string())];
    check(&|spec| spec.headers = with("A B", "c"), "header", "letters");
    check(
        &|spec| spec.headers = with("A", "b\r\nC: d"),
        "header",
        "visible",
    );
    check(
        &|spec| spec.headers = with("content-length", "3"),
        "header",
        "body_bytes",
    );
}

#[test]
fn an_answer_that_nobody_asked_for_is_never_that_of_the_next_request() {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    const LATE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate";
    let (sent, was_sent) = std::sync::mpsc::channel();
    let sent = Mutex::new(sent);
    let server = Server::start(move |number, mut stream| {
        while read_request(&mut stream).is_some() {
            stream.write_all(ANSWER).unwrap();
            if number == 0 {
                std::thread::sleep(std::time::Duration::from_millis(20));
                stream.write_all(LATE).unwrap();
                sent.lock().unwrap().send(()).unwrap();
            }
        }
    });
    let mut target = open(&server, 1);
    assert_eq!(drive(&mut target, &[exchange(0, 0)]), [2]);
    was_sent.recv().unwrap();
    assert_eq!(drive(&mut target, &[exchange(0, 0); 3]), [2; 3]);
    let described = target.describe();
    assert_eq!(
        (described.unrequested, described.reconnects),
        (1, 1),
        "{described:?}"
    );
}

#[test]
fn an_idle_connection_that_the_server_has_closed_costs_no_operation() {
    let (closed, was_closed) = std::sync::mpsc::channel();
    let closed = Mutex::new(closed);
    let server = Server::start(move |number, mut stream| {
        while read_request(&mut stream).is_some() {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                .unwrap();
            if number == 0 {
                drop(stream);
                closed.lock().unwrap().send(()).unwrap();
                return;
            }
        }
    });
    let mut target = open(&server, 1);
    assert_eq!(drive(&mut target, &[exchange(0, 0)]), [2]);
    was_closed.recv().unwrap();
    assert_eq!(drive(&mut target, &[exchange(0, 0); 2]), [2; 2]);
    assert_eq!(target.describe().unrequested, 0);
}

#[test]
fn statuses_and_reconnections_of_the_warm_up_are_not_counted() {
    let head = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno";
    let server = Server::start(|_, stream| answer(stream, head, 1000));
    let mut target = open(&server, 2);
    target.measure_from(WARM_UP);
    drive(&mut target, &with_warm_up(exchange(0, 0), 30, 10));
    assert_eq!(target.describe().statuses.unwrap().status_4xx, 10);

    // Also those that end with the connection.
    let server = answer_once(b"HTTP/1.0 200 OK\r\n\r\nall of it");
    let mut target = open(&server, 1);
    target.measure_from(WARM_UP);
    let operations = with_warm_up(exchange(0, 0), 30, 10);
    assert_eq!(drive(&mut target, &operations), [9; 40]);
    let described = target.describe();
    assert_eq!(described.statuses.unwrap().status_2xx, 10);
    assert!((9..=11).contains(&described.reconnects), "{described:?}");
}
