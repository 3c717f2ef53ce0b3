//! Once they are warm, the network targets allocate nothing, with and without pipelining: allocations of the thread are
//! counted.

#![allow(clippy::unwrap_used)]

use bw_load::PlanOptions;
use bw_load::http::request::HttpSpec;
use bw_load::postgres::PostgresSpec;
use bw_load::redis::RedisSpec;
use bw_load::target::{Reaped, Target};
use bw_load::tcp::TcpSpec;
use bw_load::udp::UdpSpec;
use bw_load::websocket::WebSocketSpec;
use bw_model::Nanos;
use counting::allocations;
use network::postgres::{accept_with, answer, serve};
use network::websocket::{accept, read_frame, write_frame};
use network::{Server, exchange, read_request, serve_datagrams};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;

#[path = "../../bw-sys/tests/counting/mod.rs"]
mod counting;
mod network;

/// Executes operations, as many at a time as fit; returns the allocations of those after the first thousand.
fn allocations_of<T: Target>(target: &mut T, size: u32) -> u64 {
    const COUNT: u32 = 20_000;
    let mut ends: Vec<Reaped> = Vec::with_capacity(16);
    let mut idle: Vec<u32> = (0..target.capacity()).collect();
    let (mut begun, mut ended) = (0, 0);
    let mut before = None;
    while ended < COUNT {
        if ended >= 1000 {
            before.get_or_insert_with(allocations);
        }
        for _ in 0..target.batch() {
            if begun == COUNT {
                break;
            }
            let Some(slot) = idle.pop() else { break };
            target.submit(slot, &exchange(0, size));
            begun += 1;
        }
        target.flush().unwrap();
        target.reap(&mut ends).unwrap();
        if ends.is_empty() && (idle.is_empty() || begun == COUNT) {
            target.wait(Nanos::SECOND).unwrap();
        }
        for end in ends.drain(..) {
            assert!(end.result >= 0, "{end:?}");
            idle.push(end.slot);
            ended += 1;
        }
    }
    assert!(before.unwrap() > 0, "the allocator counts");
    allocations() - before.unwrap()
}

#[test]
fn requests_allocate_nothing() {
    let server = Server::start(|_, mut stream| {
        while read_request(&mut stream).is_some() {
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            stream.write_all(answer).unwrap();
        }
    });
    let url = format!("http://{}/", server.address);
    for outstanding in [1, 8] {
        let spec =
            json!({"url": url, "connections": 4, "outstanding": outstanding, "body_bytes": 100});
        let spec: HttpSpec = serde_json::from_value(spec).unwrap();
        let mut target = spec.plan(PlanOptions::default()).unwrap().open(4).unwrap();
        assert_eq!(allocations_of(&mut target, 0), 0, "{outstanding}");
    }
}

#[test]
fn events_allocate_nothing() {
    let server = Server::start(|_, mut stream| {
        let event = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
        let chunk = |data: &str| format!("{:x}\r\n{data}\r\n", data.len());
        let (first, rest) = event.split_at(20);
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let end = chunk("data: [DONE]\n\n") + "0\r\n\r\n";
        stream.set_nodelay(true).unwrap();
        // The event may arrive in two pieces.
        let pieces = [head.to_owned() + &chunk(first), chunk(rest) + &end];
        while read_request(&mut stream).is_some() {
            for piece in &pieces {
                stream.write_all(piece.as_bytes()).unwrap();
            }
        }
    });
    let url = format!("http://{}/", server.address);
    for outstanding in [1, 8] {
        let events =
            json!({"format": "sse", "meaning": "chat", "gap_timeout_ns": 100_000_000_000_u64});
        let spec =
            json!({"url": url, "connections": 4, "outstanding": outstanding, "events": events});
        let spec: HttpSpec = serde_json::from_value(spec).unwrap();
        let mut target = spec.plan(PlanOptions::default()).unwrap().open(4).unwrap();
        assert_eq!(allocations_of(&mut target, 0), 0, "{outstanding}");
        assert_eq!(target.stream(0).unwrap().outcome.content, 1);
    }
}

/// Answers requests of HTTP/2 with a field that goes into the table of header fields, and a body.
fn serve_http2(mut stream: TcpStream) -> std::io::Result<()> {
    stream.read_exact(&mut [0; 24])?;
    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0])?;
    let mut payload = [0; 16_384];
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = usize::from(head[1]) << 8 | usize::from(head[2]);
        stream.read_exact(&mut payload[..length])?;
        // DATA, with END_STREAM.
        if (head[3], head[4]) == (0, 1) {
            let id = &head[5..];
            let fields = [&[0, 0, 6, 1, 4][..], id, b"\x88\x40\x01a\x01b"].concat();
            let body = [&[0, 0, 2, 0, 1][..], id, b"ok"].concat();
            // The windows of what it has received.
            let window = [0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, length as u8];
            stream.write_all(&[&fields[..], &body, &window].concat())?;
        }
    }
}

#[test]
fn streams_allocate_nothing() {
    let server = Server::start(|_, stream| {
        let _ = serve_http2(stream);
    });
    let url = format!("http://{}/", server.address);
    let labelled = json!({
        "values": {"v": {"type": "text", "length": 70}},
        "requests": [{"label": "l", "method": "PUT", "path": "/${v}", "body": "<${v}>", "expect": {"contains": "k"}}],
    });
    for fields in [json!({"body_bytes": 100}), labelled] {
        for outstanding in [1, 8] {
            let mut spec =
                json!({"url": url, "connections": 4, "outstanding": outstanding, "http": "2"});
            let fields = fields.as_object().unwrap().clone();
            spec.as_object_mut().unwrap().extend(fields);
            let spec: HttpSpec = serde_json::from_value(spec).unwrap();
            let mut target = spec
                .plan_http2(PlanOptions::default())
                .unwrap()
                .open(4)
                .unwrap();
            assert_eq!(allocations_of(&mut target, 0), 0, "{outstanding}");
        }
    }
}

#[test]
fn echoes_allocate_nothing_while_connections_are_made_again() {
    let server = Server::start(|_, mut stream| {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            if stream.write_all(&buffer[..length]).is_err() {
                return;
            }
        }
    });
    let spec = json!({"host": "127.0.0.1", "port": server.address.port(), "connections": 4, "outstanding": 4,
        "requests_per_connection": 100});
    let spec: TcpSpec = serde_json::from_value(spec).unwrap();
    let mut target = spec.plan(PlanOptions::default()).unwrap().open(4).unwrap();
    assert_eq!(allocations_of(&mut target, 64), 0);
    assert!(target.describe().reconnects > 100);
}

#[test]
fn datagrams_allocate_nothing_while_sockets_are_replaced() {
    let server = serve_datagrams("127.0.0.1:0", |socket, _, bytes, from| {
        socket.send_to(bytes, from).unwrap();
    });
    let payload = json!([{"hex": "${id}0102"}]);
    let spec = json!({"host": "127.0.0.1", "port": server.port(), "connections": 4, "payloads": payload, "match_bytes": 2,
        "values": {"id": {"type": "text", "length": 4}}, "requests_per_connection": 100});
    let spec: UdpSpec = serde_json::from_value(spec).unwrap();
    let mut target = spec
        .plan(PlanOptions::with_seed(1))
        .unwrap()
        .open(4)
        .unwrap();
    assert_eq!(allocations_of(&mut target, 0), 0);
    assert!(target.describe().reconnects > 100);
}

#[test]
fn redis_commands_allocate_nothing() {
    let server = Server::start(|_, mut stream| {
        let mut byte = [0];
        let mut lines = 0;
        // A command of two words has five lines.
        while let Ok(1) = stream.read(&mut byte) {
            lines += u32::from(byte[0] == b'\n');
            if lines == 5 {
                lines = 0;
                let reply = b"*3\r\n$2\r\nab\r\n$-1\r\n%1\r\n+a\r\n:1\r\n";
                if stream.write_all(reply).is_err() {
                    return;
                }
            }
        }
    });
    for outstanding in [1, 8] {
        let spec = json!({"host": "127.0.0.1", "port": server.address.port(), "connections": 4,
            "outstanding": outstanding, "commands": [["GET", "key"]]});
        let spec: RedisSpec = serde_json::from_value(spec).unwrap();
        let mut target = spec.plan(PlanOptions::default()).unwrap().open(4).unwrap();
        assert_eq!(allocations_of(&mut target, 0), 0, "{outstanding}");
    }
}

#[test]
fn messages_of_websocket_allocate_nothing() {
    let server = Server::start(|_, mut stream| {
        accept(&mut stream);
        let mut payload = Vec::with_capacity(125);
        while let Some(first) = read_frame(&mut stream, &mut payload) {
            // Not the pong.
            let is_sent = first != 0x81
                || write_frame(&mut stream, 0x89, b"ping")
                    .and_then(|()| write_frame(&mut stream, 0x81, &payload))
                    .and_then(|()| write_frame(&mut stream, 0x81, b"END"))
                    .is_some();
            if !is_sent {
                return;
            }
        }
    });
    let url = format!("ws://{}/", server.address);
    let events = json!({"format": "websocket", "end": "END"});
    let cases = [
        json!({"answer": "/id"}),
        json!({"answer": "hex:7b"}),
        json!({"events": events}),
    ];
    for (case, outstanding) in cases.iter().flat_map(|case| [(case, 1), (case, 8)]) {
        let mut spec = json!({"url": url, "connections": 4, "outstanding": outstanding,
            "payloads": [{"text": "{\"id\": ${id}}"}], "values": {"id": {"type": "counter", "digits": 9}}});
        let fields = case.as_object().unwrap().clone();
        spec.as_object_mut().unwrap().extend(fields);
        let spec: WebSocketSpec = serde_json::from_value(spec).unwrap();
        let mut target = spec.plan(PlanOptions::default()).unwrap().open(4).unwrap();
        assert_eq!(allocations_of(&mut target, 0), 0, "{case} {outstanding}");
    }
}

#[test]
fn statements_of_postgres_allocate_nothing() {
    let server = Server::start(|_, mut stream| {
        accept_with(&mut stream, 1);
        serve(&mut stream, &answer(7));
    });
    for parameter in ["a text", "${id} ${text}"] {
        for outstanding in [1, 8] {
            let statement = json!({"sql": "SELECT $1", "parameters": [parameter]});
            let values = json!({"id": {"type": "counter", "digits": 9}, "text": {"type": "text", "length": 20}});
            let spec = json!({"host": "127.0.0.1", "port": server.address.port(), "user": "u", "connections": 4,
                "outstanding": outstanding, "statements": [[statement]], "values": values});
            let spec: PostgresSpec = serde_json::from_value(spec).unwrap();
            let mut target = spec.plan(PlanOptions::default()).unwrap().open(4).unwrap();
            assert_eq!(
                allocations_of(&mut target, 0),
                0,
                "{parameter} {outstanding}"
            );
        }
    }
}
