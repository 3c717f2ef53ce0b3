//! The target for PostgreSQL against servers that behave badly, and one that keeps to the protocol; tests/e2e has the
//! real server.

#![allow(clippy::unwrap_used)]

use bw_load::PlanOptions;
use bw_load::postgres::{PostgresSpec, PostgresTarget};
use bw_load::target::Target;
use bw_model::EngineError;
use bw_record::errno::{RESPONSE_CUT, of_sqlstate};
use network::postgres::{
    accept, answer, error, long_error, message, read_message, read_operation, serve,
};
use network::{
    LONG, SHORT, Server, answer_with_garbage, be_silent, check_limits, drive, exchange, never_end,
    only, reset, write_in_pieces,
};
use serde_json::{Value, json};
use std::io::Write;
use std::net::Shutdown;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

mod network;

fn open(server: &Server, more: &Value) -> Result<PostgresTarget, EngineError> {
    let mut spec = json!({"host": "127.0.0.1", "port": server.address.port(), "user": "bench", "connections": 1});
    let fields = more.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(fields);
    let spec: PostgresSpec = serde_json::from_value(spec).unwrap();
    spec.plan(PlanOptions::default())?.open(spec.connections)
}

/// Runs 24 operations with this time limit; returns their results.
fn against(server: &Server, outstanding: u32, limit: Duration) -> Vec<i32> {
    network::against(|fields| open(server, &fields).unwrap(), outstanding, limit)
}

#[test]
fn the_operations_of_a_flush_are_on_the_wire_before_any_answer() {
    // Without pipelining this server would never answer.
    let server = Server::start(|_, mut stream| {
        accept(&mut stream);
        loop {
            for _ in 0..8 {
                if read_operation(&mut stream).is_none() {
                    return;
                }
            }
            stream.write_all(&answer(3).repeat(8)).unwrap();
        }
    });
    let mut target = open(&server, &json!({"outstanding": 8})).unwrap();
    assert_eq!(drive(&mut target, &[exchange(0, 0); 800]), [3; 800]);
    let described = target.describe();
    assert_eq!((described.reconnects, described.outstanding), (0, 8));
    assert_eq!(described.handshake_ns.unwrap().count, 1);
}

#[test]
fn answers_of_one_byte_a_packet_and_of_many_megabytes() {
    let server = Server::start(|_, mut stream| {
        accept(&mut stream);
        read_operation(&mut stream);
        write_in_pieces(&mut stream, &answer(90), 1);
        read_operation(&mut stream);
        let _ = stream.write_all(&answer(32 << 20));
        be_silent(&mut stream);
    });
    let mut target = open(&server, &json!({})).unwrap();
    let results = drive(&mut target, &[exchange(0, 0); 2]);
    assert_eq!(results, [90, 32 << 20]);
}

#[test]
fn garbage_ends_its_operation_and_the_connection_is_made_again() {
    let garbage = [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        &[0xff; 4096],
        b"Z\0\0\0\x01",
        b"D\xff\xff\xff\xff",
    ];
    for bytes in garbage {
        let server = Server::start(move |number, mut stream| {
            if accept(&mut stream).is_none() {
                return;
            }
            let right = answer(1);
            serve(&mut stream, if number == 0 { bytes } else { &right });
        });
        let mut target = open(&server, &json!({})).unwrap();
        let results = drive(&mut target, &[exchange(0, 0); 3]);
        assert_eq!(results, [-libc::EPROTO, 1, 1]);
        assert_eq!(target.describe().reconnects, 1);
    }
}

#[test]
fn connections_that_close_at_random_lose_only_their_own_operations() {
    let server = Server::start(|number, mut stream| {
        if accept(&mut stream).is_none() {
            return;
        }
        // Any number of whole answers, then a part of one.
        for _ in 0..number * 7 % 23 {
            if read_operation(&mut stream).is_none() || stream.write_all(&answer(5)).is_err() {
                return;
            }
        }
        if read_operation(&mut stream).is_some() {
            let whole = answer(5);
            let _ = stream.write_all(&whole[..number * 5 % whole.len()]);
        }
        if number % 2 == 0 {
            reset(stream);
        } else {
            let _ = stream.shutdown(Shutdown::Both);
        }
    });
    let fields = json!({"connections": 3, "outstanding": 4});
    let mut target = open(&server, &fields).unwrap();
    let results = drive(&mut target, &[exchange(0, 0); 600]);
    let gone = [5, -libc::ECONNRESET, -libc::EPIPE, RESPONSE_CUT];
    assert!(only(&results, &gone), "{results:?}");
    assert!(results.iter().filter(|result| **result == 5).count() > 100);
    assert!(target.describe().reconnects > 10);
}

#[test]
fn an_error_is_its_sqlstate_and_a_fatal_one_ends_the_connection() {
    let server = Server::start(|number, mut stream| {
        if accept(&mut stream).is_none() {
            return;
        }
        if number == 0 {
            read_operation(&mut stream);
            let failed = [error("ERROR", "23505"), message(b'Z', b"I")].concat();
            stream.write_all(&failed).unwrap();
            read_operation(&mut stream);
            stream.write_all(&error("FATAL", "57P01")).unwrap();
            return;
        }
        serve(&mut stream, &answer(2));
    });
    let mut target = open(&server, &json!({})).unwrap();
    let results = drive(&mut target, &[exchange(0, 0); 4]);
    let code = |code: &[u8]| of_sqlstate(code).unwrap();
    assert_eq!(results, [code(b"23505"), code(b"57P01"), 2, 2]);
    let described = target.describe();
    assert_eq!((described.reconnects, described.unrequested), (1, 0));
}

#[test]
fn an_idle_connection_that_the_server_ends_costs_no_operation() {
    // Before the target is open, this would be a refused handshake.
    let opened = Arc::new(Barrier::new(2));
    let is_open = Arc::clone(&opened);
    let server = Server::start(move |number, mut stream| {
        if accept(&mut stream).is_none() {
            return;
        }
        if number == 0 {
            is_open.wait();
            stream.write_all(&error("FATAL", "57P05")).unwrap();
            return;
        }
        serve(&mut stream, &answer(2));
    });
    let mut target = open(&server, &json!({})).unwrap();
    opened.wait();
    while server.accepted() < 2 {
        let mut ends = Vec::with_capacity(1);
        target.reap(&mut ends).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(drive(&mut target, &[exchange(0, 0); 3]), [2; 3]);
    assert_eq!(target.describe().unrequested, 0);
}

#[test]
fn a_silent_server_costs_each_operation_its_limit() {
    let server = Server::start(|_, mut stream| {
        accept(&mut stream);
        be_silent(&mut stream);
    });
    for outstanding in [1, 4] {
        check_limits(&against(&server, outstanding, SHORT), outstanding);
    }
}

#[test]
fn any_garbage_fails_every_operation_on_its_connection() {
    // No kind of message has the highest bit.
    let server = Server::start(|number, mut stream| {
        accept(&mut stream);
        answer_with_garbage(&mut stream, number, 0x80);
    });
    for outstanding in [1, 4] {
        assert_eq!(against(&server, outstanding, LONG), [-libc::EPROTO; 24]);
    }
}

#[test]
fn an_answer_that_never_ends_costs_its_operation_the_limit() {
    // A row of two gigabytes a byte at a time, and notices without end.
    let row = [&message(b'2', b"")[..], b"D\x7f\xff\xff\xff"].concat();
    let cases = [
        (row, b"x".to_vec()),
        (vec![], message(b'N', b"SWARNING\0\0")),
    ];
    for (head, piece) in cases {
        let server = Server::start(move |_, mut stream| {
            if accept(&mut stream)
                .and_then(|()| read_operation(&mut stream))
                .is_some()
            {
                never_end(&mut stream, &head, &piece);
            }
        });
        check_limits(&against(&server, 2, SHORT), 2);
    }
}

#[test]
fn an_error_of_many_megabytes_is_its_sqlstate() {
    let server = Server::start(|_, mut stream| {
        accept(&mut stream);
        let failed = [long_error("ERROR", "22P02", 8 << 20), message(b'Z', b"I")];
        serve(&mut stream, &failed.concat());
    });
    let mut target = open(&server, &json!({})).unwrap();
    let result = of_sqlstate(b"22P02").unwrap();
    assert_eq!(drive(&mut target, &[exchange(0, 0); 3]), [result; 3]);
}

#[test]
fn servers_that_cannot_be_used_are_refused_before_the_run() {
    let cases: [(Vec<u8>, &str); 6] = [
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            "does not follow PostgreSQL's protocol",
        ),
        (error("FATAL", "28000"), "FATAL 28000: what happened"),
        (
            message(b'R', &[0, 0, 0, 5, 1, 2, 3, 4]),
            "asks for the password",
        ),
        (message(b'R', &[0, 0, 0, 7]), "asks for the password"),
        (vec![], "ECONNRESET"),
        (message(b'R', &[1; 5000]), "does not follow"),
    ];
    for (bytes, text) in cases {
        let server = Server::start(move |_, mut stream| {
            read_message(&mut stream, false);
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(Shutdown::Write);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        });
        let error = open(&server, &json!({})).unwrap_err();
        assert_eq!((error.code, error.status), ("handshake", 2));
        assert!(error.message.contains(text), "{error}");
    }
}

#[test]
fn a_server_without_tls_is_refused_and_bytes_before_tls_are_no_content() {
    let answers: [(&[u8], &str); 3] = [
        (b"N", "does not use TLS"),
        (b"E", "does not use TLS"),
        // An attacker's bytes behind the agreement are read as TLS, which they are not.
        (b"SR\0\0\0\x08\0\0\0\0", "not TLS"),
    ];
    for (bytes, text) in answers {
        let server = Server::start(move |_, mut stream| {
            let asked = read_message(&mut stream, false).unwrap();
            assert_eq!(asked.1, [0x04, 0xd2, 0x16, 0x2f]);
            stream.write_all(bytes).unwrap();
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        });
        let error = open(&server, &json!({"tls": {"insecure": true}})).unwrap_err();
        assert_eq!((error.code, error.status), ("tls", 2));
        assert!(error.message.contains(text), "{error}");
    }
}
