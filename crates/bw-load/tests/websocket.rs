//! WebSocket as a target: what the pool does between and after operations. tests/e2e/test_websocket.py runs real servers.

#![allow(clippy::unwrap_used)]

use bw_load::PlanOptions;
use bw_load::target::Target;
use bw_load::websocket::{WebSocketSpec, WebSocketTarget};
use bw_model::{EngineError, ExchangeAddress, Nanos, Operation};
use bw_record::errno::{WEBSOCKET_ERROR, websocket_closed, websocket_refused};
use network::websocket::{accept, read_frame, write_frame};
use network::{LONG, SHORT, Server, answer_with_garbage, drive, exchange, only};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

mod network;

const TEXT: u8 = 0x81;
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;
const CLOSE: u8 = 0x88;

fn open(server: &Server, more: Value) -> Result<WebSocketTarget, EngineError> {
    let mut spec = json!({"url": format!("ws://{}/", server.address), "connections": 1});
    let fields = more.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(fields);
    let spec: WebSocketSpec = serde_json::from_value(spec).unwrap();
    spec.plan(PlanOptions::default())?.open(spec.connections)
}

fn by_id() -> Value {
    json!({"payloads": [{"text": "{\"id\": ${id}}"}], "values": {"id": {"type": "counter"}}, "answer": "/id"})
}

fn numbered(number: u64) -> Operation {
    exchange(ExchangeAddress { request: 0, number }.pack(), 0)
}

#[test]
fn a_ping_on_an_idle_connection_is_answered_at_once() {
    let (pinged, pings) = mpsc::channel();
    let (ponged, pongs) = mpsc::channel();
    let server = Server::start(move |_, mut stream| {
        accept(&mut stream);
        let mut payload = Vec::new();
        while read_frame(&mut stream, &mut payload) == Some(TEXT) {
            write_frame(&mut stream, TEXT, &payload).unwrap();
            write_frame(&mut stream, PING, b"there?").unwrap();
            pinged.send(()).unwrap();
            assert_eq!(read_frame(&mut stream, &mut payload), Some(PONG));
            assert_eq!(payload, b"there?");
            ponged.send(()).unwrap();
        }
    });
    let mut target = open(&server, json!({"payloads": [{"text": "x"}]})).unwrap();
    for _ in 0..10 {
        assert_eq!(drive(&mut target, &[exchange(0, 0)]), [1]);
        pings.recv().unwrap();
        // An idle worker calls these.
        while pongs.try_recv().is_err() {
            target.wait(Nanos(1_000_000)).unwrap();
            target.reap(&mut Vec::with_capacity(1)).unwrap();
        }
    }
    assert_eq!(target.describe().reconnects, 0);
}

#[test]
fn a_late_answer_with_an_identifier_ends_nothing_and_costs_no_connection() {
    let server = Server::start(|_, mut stream| {
        accept(&mut stream);
        let mut payload = Vec::new();
        let mut number = 0;
        while read_frame(&mut stream, &mut payload) == Some(TEXT) {
            if number == 0 {
                thread::sleep(3 * SHORT);
            }
            number += 1;
            if write_frame(&mut stream, TEXT, &payload).is_none() {
                return;
            }
        }
    });
    let limit = u64::try_from(SHORT.as_nanos()).unwrap();
    let mut fields = by_id();
    fields["timeout_ns"] = json!(limit);
    let mut target = open(&server, fields).unwrap();
    assert_eq!(drive(&mut target, &[numbered(0)]), [-libc::ETIMEDOUT]);
    thread::sleep(3 * SHORT);
    assert_eq!(drive(&mut target, &[numbered(1), numbered(2)]), [9, 9]);
    let described = target.describe();
    assert_eq!((described.reconnects, described.pushes), (0, Some(1)));
}

#[test]
fn a_connection_that_the_server_closes_while_it_is_idle_fails_no_operation() {
    let (closed, closes) = mpsc::channel();
    let server = Server::start(move |_, mut stream| {
        accept(&mut stream);
        let mut payload = Vec::new();
        if read_frame(&mut stream, &mut payload) != Some(TEXT) {
            return;
        }
        write_frame(&mut stream, TEXT, &payload).unwrap();
        write_frame(&mut stream, CLOSE, &1001_u16.to_be_bytes()).unwrap();
        closed.send(()).unwrap();
        // The client answers it.
        assert_eq!(read_frame(&mut stream, &mut payload), Some(CLOSE));
        assert_eq!(payload, 1001_u16.to_be_bytes());
    });
    let mut target = open(&server, json!({"payloads": [{"text": "x"}]})).unwrap();
    for _ in 0..5 {
        assert_eq!(drive(&mut target, &[exchange(0, 0)]), [1]);
        closes.recv().unwrap();
        thread::sleep(Duration::from_millis(20));
    }
    assert!(target.describe().reconnects >= 4);
}

#[test]
fn a_close_ends_all_that_wait_with_its_code() {
    let server = Server::start(|_, mut stream| {
        accept(&mut stream);
        let mut payload = Vec::new();
        for _ in 0..4 {
            read_frame(&mut stream, &mut payload);
        }
        write_frame(&mut stream, CLOSE, &4000_u16.to_be_bytes());
    });
    let mut fields = by_id();
    fields["outstanding"] = json!(4);
    let mut target = open(&server, fields).unwrap();
    let operations: Vec<_> = (0..4).map(numbered).collect();
    assert_eq!(drive(&mut target, &operations), [websocket_closed(4000); 4]);
}

#[test]
fn garbage_fails_operations_and_nothing_else() {
    let server = Server::start(|number, mut stream| {
        accept(&mut stream);
        answer_with_garbage(&mut stream, number, 0x70);
    });
    let limit = u64::try_from(LONG.as_nanos()).unwrap();
    let fields = json!({"connections": 3, "outstanding": 2, "timeout_ns": limit});
    let mut target = open(&server, fields).unwrap();
    let results = drive(&mut target, &[exchange(0, 10); 24]);
    assert!(
        only(
            &results,
            &[WEBSOCKET_ERROR, -libc::ECONNRESET, -libc::EPIPE]
        ),
        "{results:?}"
    );
    assert!(results.contains(&WEBSOCKET_ERROR));
}

#[test]
fn an_upgrade_that_is_refused_is_an_error_before_the_run_and_the_end_of_an_operation_later() {
    let refuse = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    let server = Server::start(|number, mut stream| {
        if number > 0 {
            let _ = stream.write_all(refuse);
            return;
        }
        accept(&mut stream);
        read_frame(&mut stream, &mut Vec::new());
        write_frame(&mut stream, TEXT, b"x");
    });
    let mut target = open(&server, json!({"payloads": [{"text": "x"}]})).unwrap();
    assert_eq!(drive(&mut target, &[exchange(0, 0)]), [1]);
    thread::sleep(Duration::from_millis(20));
    assert_eq!(
        drive(&mut target, &[exchange(0, 0)]),
        [websocket_refused(503)]
    );
    let Err(error) = open(&server, json!({})) else {
        panic!("it was accepted");
    };
    assert_eq!(error.code, "handshake");
    assert!(
        error.message.contains("upgrade refused 503"),
        "{}",
        error.message
    );
}
