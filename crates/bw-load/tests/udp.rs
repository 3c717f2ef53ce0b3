//! UDP as a target against servers that do not keep to the rules: each datagram is counted once, and as what it is.
//! tests/e2e/test_load_udp.py runs real servers.

#![allow(clippy::unwrap_used)]

use bw_load::PlanOptions;
use bw_load::target::Target;
use bw_load::udp::{UdpSpec, UdpTarget};
use bw_model::{ExchangeAddress, Nanos, Operation};
use bw_record::errno::CHECK_FAILED;
use network::{WARM_UP, drive, exchange, serve_datagrams, with_warm_up};
use serde_json::{Value, json};
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

mod network;

/// A limit that operations exceed on purpose [ns].
const SHORT_NS: u64 = 200_000_000;
/// A limit that no operation reaches, however busy the machine is [ns].
const LONG_NS: u64 = 120_000_000_000;

fn spec(address: SocketAddr, more: Value) -> UdpSpec {
    let (host, port) = (address.ip().to_string(), address.port());
    let mut spec = json!({"host": host, "port": port, "connections": 1, "timeout_ns": LONG_NS});
    let fields = more.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(fields);
    serde_json::from_value(spec).unwrap()
}

fn open(address: SocketAddr, more: Value) -> UdpTarget {
    let spec = spec(address, more);
    spec.plan(PlanOptions::with_seed(1))
        .unwrap()
        .open(spec.connections)
        .unwrap()
}

/// Returns the operations of the first payload, with the numbers from 0.
fn numbered(count: u64) -> Vec<Operation> {
    let address = |number| ExchangeAddress { request: 0, number };
    (0..count)
        .map(|number| exchange(address(number).pack(), 0))
        .collect()
}

/// Lets the target work until it has counted this much.
fn until(target: &mut UdpTarget, done: impl Fn(&UdpTarget) -> bool) {
    let patience = Instant::now() + Duration::from_nanos(LONG_NS);
    let mut ends = Vec::with_capacity(1);
    while !done(target) {
        assert!(Instant::now() < patience, "{target:?}");
        target.reap(&mut ends).unwrap();
        assert_eq!(ends, []);
        target.wait(Nanos(1_000_000)).unwrap();
    }
}

/// Returns the sending ports of datagrams, of which the server answers none.
fn silent() -> (SocketAddr, Arc<Mutex<Vec<u16>>>) {
    let ports = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&ports);
    let server = serve_datagrams("127.0.0.1:0", move |_, _, _, from| {
        seen.lock().unwrap().push(from.port());
    });
    (server, ports)
}

#[test]
fn datagrams_of_any_size_come_back_over_both_versions_of_ip() {
    for local in ["127.0.0.1:0", "[::1]:0"] {
        let server = serve_datagrams(local, |socket, _, bytes, from| {
            socket.send_to(bytes, from).unwrap();
        });
        let mut target = open(server, json!({"connections": 3}));
        let sizes = [1_u32, 2, 1000, 4097, 65_507];
        let operations: Vec<_> = sizes
            .iter()
            .cycle()
            .take(1000)
            .map(|size| exchange(0, *size))
            .collect();
        for (operation, result) in operations.iter().zip(drive(&mut target, &operations)) {
            assert_eq!(result, operation.size as i32);
        }
        let described = target.describe();
        let bytes: u64 = operations.iter().map(|one| u64::from(one.size)).sum();
        assert_eq!(
            (described.sent_bytes, described.received_bytes),
            (bytes, bytes)
        );
        assert_eq!(
            (
                described.reconnects,
                described.unrequested,
                described.timeouts
            ),
            (0, 0, 0)
        );
        assert_eq!((described.connections, described.connect_ns.count), (3, 0));
        assert_eq!(described.address, server.to_string());
        let impossible = [exchange(0, 0), exchange(0, 65_508)];
        let results = drive(&mut target, &impossible);
        assert_eq!(results, [-libc::EINVAL, -libc::EMSGSIZE]);
    }
}

#[test]
fn a_lost_answer_costs_its_operation_the_limit_and_the_next_comes_from_another_port() {
    let (server, ports) = silent();
    let mut target = open(server, json!({"timeout_ns": SHORT_NS / 10}));
    let results = drive(&mut target, &[exchange(0, 8); 6]);
    assert_eq!(results, [-libc::ETIMEDOUT; 6]);
    let described = target.describe();
    assert_eq!((described.timeouts, described.reconnects), (6, 6));
    assert_eq!((described.sent_bytes, described.received_bytes), (48, 0));
    while ports.lock().unwrap().len() < 6 {
        std::thread::yield_now();
    }
    let ports = ports.lock().unwrap();
    assert!(ports.windows(2).all(|pair| pair[0] != pair[1]), "{ports:?}");
}

#[test]
fn a_share_that_is_lost_is_exactly_the_share_of_timeouts() {
    let server = serve_datagrams("127.0.0.1:0", |socket, number, bytes, from| {
        if number % 5 != 0 {
            socket.send_to(bytes, from).unwrap();
        }
    });
    let mut target = open(
        server,
        json!({"connections": 4, "timeout_ns": 2 * SHORT_NS}),
    );
    let results = drive(&mut target, &[exchange(0, 9); 50]);
    let count = |result| results.iter().filter(|one| **one == result).count();
    assert_eq!((count(9), count(-libc::ETIMEDOUT)), (40, 10), "{results:?}");
    let described = target.describe();
    assert_eq!((described.timeouts, described.reconnects), (10, 10));
    assert_eq!((described.sent_bytes, described.received_bytes), (450, 360));
}

#[test]
fn a_late_answer_counts_for_no_other_operation() {
    // Each answer is sent when the next request has arrived, twice.
    let mut before = None;
    let server = serve_datagrams("127.0.0.1:0", move |socket, _, bytes, from| {
        if let Some((bytes, from)) = before.replace((bytes.to_vec(), from)) {
            for _ in 0..2 {
                socket.send_to(&bytes, from).unwrap();
            }
        }
    });
    let mut target = open(server, json!({"timeout_ns": SHORT_NS}));
    let results = drive(&mut target, &[exchange(0, 8); 5]);
    assert_eq!(results, [-libc::ETIMEDOUT; 5]);
    let described = target.describe();
    let late = described.late.unwrap();
    assert_eq!((described.timeouts, late.late_replies), (5, 4));
    // Of each late answer the second.
    assert_eq!((described.unrequested, late.late_errors), (4, 0));
}

#[test]
fn with_a_port_for_each_operation_a_second_answer_counts_for_none() {
    let server = serve_datagrams("127.0.0.1:0", |socket, _, bytes, from| {
        let answer = [bytes, &bytes[..1]].concat();
        socket.send_to(&answer, from).unwrap();
        socket.send_to(b"once more", from).unwrap();
    });
    let fields = json!({"connections": 3, "requests_per_connection": 1, "payloads": [{"text": "${n}"}],
        "values": {"n": {"type": "counter", "start": 1000}}});
    let mut target = open(server, fields);
    assert_eq!(drive(&mut target, &numbered(500)), [5; 500]);
    until(&mut target, |target| target.describe().unrequested == 500);
    let described = target.describe();
    assert_eq!((described.reconnects, described.timeouts), (500, 0));
    assert_eq!(described.late.unwrap().late_replies, 0);
}

#[test]
fn an_answer_that_does_not_repeat_the_beginning_of_its_request_is_dropped() {
    // Before each answer comes the one before it, and one that is too short.
    let mut before = vec![0, 0];
    let server = serve_datagrams("127.0.0.1:0", move |socket, _, bytes, from| {
        let answer = [&bytes[..2], b"answer"].concat();
        for one in [&before[..], &bytes[..1], &answer] {
            socket.send_to(one, from).unwrap();
        }
        before = answer;
    });
    let fields = json!({"connections": 1, "match_bytes": 2, "payloads": [{"hex": "${id} 00"}],
        "values": {"id": {"type": "integer", "min": 1000, "max": 9999, "location": {"type": "sequential"}}}});
    let mut target = open(server, fields);
    assert_eq!(drive(&mut target, &numbered(300)), [8; 300]);
    let described = target.describe();
    assert_eq!((described.unrequested, described.reconnects), (600, 0));
    assert_eq!(described.received_bytes, 300 * (8 + 1 + 8) - 8 + 2);
}

#[test]
fn a_datagram_on_an_idle_socket_is_counted_and_the_socket_replaced() {
    let server = serve_datagrams("127.0.0.1:0", |socket, _, bytes, from| {
        socket.send_to(bytes, from).unwrap();
        socket.send_to(b"more", from).unwrap();
    });
    let mut target = open(server, json!({}));
    for done in 1..=5 {
        assert_eq!(drive(&mut target, &[exchange(0, 3)]), [3]);
        until(&mut target, |target| target.describe().unrequested == done);
        assert_eq!(target.describe().reconnects, done);
    }
}

#[test]
fn an_answer_from_another_address_is_none() {
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = serve_datagrams("127.0.0.1:0", move |_, _, bytes, from| {
        other.send_to(bytes, from).unwrap();
    });
    let mut target = open(server, json!({"timeout_ns": SHORT_NS / 4}));
    let results = drive(&mut target, &[exchange(0, 3); 4]);
    assert_eq!(results, [-libc::ETIMEDOUT; 4]);
    let described = target.describe();
    assert_eq!((described.received_bytes, described.unrequested), (0, 0));
}

#[test]
fn a_closed_port_is_an_error_of_each_operation_until_a_server_is_there() {
    let address = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut target = open(address, json!({"connections": 2}));
    let results = drive(&mut target, &[exchange(0, 3); 200]);
    assert_eq!(results, [-libc::ECONNREFUSED; 200]);
    let described = target.describe();
    assert_eq!((described.reconnects, described.failed_connects), (200, 0));
    serve_datagrams(&address.to_string(), |socket, _, bytes, from| {
        socket.send_to(bytes, from).unwrap();
    });
    assert_eq!(drive(&mut target, &[exchange(0, 3); 200]), [3; 200]);
    assert_eq!(target.describe().reconnects, 200);
}

#[test]
fn other_answers_than_expected_are_errors_and_the_socket_goes_on() {
    let server = serve_datagrams("127.0.0.1:0", |socket, number, _, from| {
        let answer = [&b"\x12\x34\x81\x80ok"[..], b"\x12\x34\x81\x82no", b"", b"x"][number % 4];
        socket.send_to(answer, from).unwrap();
    });
    let payload = json!([{"base64": "EjQ="}]);
    let cases = [
        (json!({}), [6, 6, 0, 1]),
        (
            json!({"expect": "????8180"}),
            [6, CHECK_FAILED, CHECK_FAILED, CHECK_FAILED],
        ),
        (
            json!({"receive_bytes": 1}),
            [-libc::EPROTO, -libc::EPROTO, -libc::EPROTO, 1],
        ),
    ];
    for (mut fields, expected) in cases {
        fields["payloads"] = payload.clone();
        let mut target = open(server, fields);
        assert_eq!(drive(&mut target, &[exchange(0, 0); 4]), expected);
        assert_eq!(target.describe().reconnects, 0);
    }
    let mut echo = open(server, json!({}));
    assert_eq!(drive(&mut echo, &[exchange(0, 6); 4]), [-libc::EBADMSG; 4]);
    assert_eq!(echo.describe().unrequested, 0);
}

#[test]
fn without_answers_every_datagram_is_sent_and_errors_of_the_network_are_counted() {
    let (server, ports) = silent();
    let fields =
        json!({"receive_bytes": 0, "timeout_ns": null, "payloads": [{"text": "metric:1|c"}]});
    let mut target = open(server, fields.clone());
    // Fewer than the server's buffer has room for.
    assert_eq!(drive(&mut target, &[exchange(0, 0); 100]), [0; 100]);
    assert_eq!(target.describe().sent_bytes, 1000);
    while ports.lock().unwrap().len() < 100 {
        std::thread::yield_now();
    }
    let closed = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut target = open(closed, fields);
    assert_eq!(drive(&mut target, &[exchange(0, 0); 100]), [0; 100]);
    until(&mut target, |target| {
        target.describe().late.unwrap().late_errors == 100
    });
    assert_eq!(target.describe().sent_bytes, 1000);
}

#[test]
fn what_cannot_be_sent_or_awaited_is_refused_before_the_run() {
    let nowhere: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let refused = |more: Value, code: &str, field: &str| {
        let error = spec(nowhere, more)
            .plan(PlanOptions::with_seed(1))
            .unwrap_err();
        let place = error.location.clone().and_then(|location| location.field);
        assert_eq!(
            (error.code, place.as_deref()),
            (code, Some(field)),
            "{error}"
        );
    };
    for payload in [
        json!({"text": ""}),
        json!({"text": "${x}"}),
        json!({"hex": "0"}),
        json!({"base64": "?"}),
        json!({"text": "x".repeat(65_508)}),
    ] {
        let payloads = json!({"payloads": [{"text": "good"}, payload]});
        refused(payloads, "payload", "target.payloads");
    }
    refused(json!({"timeout_ns": null}), "timeout", "target.timeout_ns");
    refused(json!({"expect": "8"}), "expect", "target.expect");
    refused(
        json!({"match_bytes": 70_000}),
        "match",
        "target.match_bytes",
    );
    let value = json!({"values": {"n": {"type": "integer", "min": 2, "max": 1}}});
    refused(value, "values", "target.values");
    let unknown = UdpSpec {
        host: "no-such-host.invalid".into(),
        ..spec(nowhere, json!({}))
    };
    assert_eq!(
        unknown.plan(PlanOptions::with_seed(1)).unwrap_err().code,
        "host-unknown"
    );
    let default: UdpSpec =
        serde_json::from_value(json!({"host": "h", "port": 1, "connections": 1})).unwrap();
    assert_eq!(default.timeout_ns, Some(Nanos::SECOND));
}

#[test]
fn timeouts_and_late_answers_of_the_warm_up_are_not_counted() {
    // Each answer is sent when the next request has arrived.
    let mut before = None;
    let server = serve_datagrams("127.0.0.1:0", move |socket, _, bytes, from| {
        if let Some((bytes, from)) = before.replace((bytes.to_vec(), from)) {
            socket.send_to(&bytes, from).unwrap();
        }
    });
    let mut target = open(server, json!({"timeout_ns": SHORT_NS}));
    target.measure_from(WARM_UP);
    let operations = with_warm_up(exchange(0, 8), 3, 3);
    assert_eq!(drive(&mut target, &operations), [-libc::ETIMEDOUT; 6]);
    let described = target.describe();
    // The answer to the last one does not come.
    assert_eq!(
        (described.timeouts, described.late.unwrap().late_replies),
        (3, 2)
    );
    assert_eq!((described.sent_bytes, described.reconnects), (24, 3));
}
