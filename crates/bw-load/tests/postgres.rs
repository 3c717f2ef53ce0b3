//! The target for PostgreSQL against servers that behave badly, and one that keeps to the protocol; tests/e2e has the
//! real server.

#![allow(clippy::unwrap_used)]

use bw_load::postgres::{PostgresSpec, PostgresTarget};
use bw_load::target::{Reaped, Target};
use bw_model::{EngineError, Nanos};
use bw_record::errno::of_sqlstate;
use counting::allocations;
use network::{Server, drive, exchange, reset, write_in_pieces};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

#[path = "../../bw-sys/tests/counting/mod.rs"]
mod counting;
mod network;

fn open(server: &Server, more: &Value) -> Result<PostgresTarget, EngineError> {
    let mut spec = json!({"host": "127.0.0.1", "port": server.address.port(), "user": "bench", "connections": 1});
    let fields = more.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(fields);
    let spec: PostgresSpec = serde_json::from_value(spec).unwrap();
    spec.plan()?.open(spec.connections)
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[kind][..], &length, body].concat()
}

fn error(severity: &str, code: &str) -> Vec<u8> {
    let body = format!("S{severity}\0V{severity}\0C{code}\0Mwhat happened\0\0");
    message(b'E', body.as_bytes())
}

/// The answer to one operation: a row of `bytes`.
fn answer(bytes: usize) -> Vec<u8> {
    let parts = [
        message(b'2', b""),
        message(b'D', &vec![b'x'; bytes]),
        message(b'C', b"SELECT 1\0"),
        message(b'Z', b"I"),
    ];
    parts.concat()
}

/// Reads one message of the client; `kind` is absent in the first. None at the end.
fn read_message(stream: &mut TcpStream, has_kind: bool) -> Option<(u8, Vec<u8>)> {
    let mut kind = [0];
    if has_kind {
        stream.read_exact(&mut kind).ok()?;
    }
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut body).ok()?;
    Some((kind[0], body))
}

/// Reads until the Sync of a request; returns how many statements it executes.
fn read_request(stream: &mut TcpStream) -> Option<usize> {
    let mut executed = 0;
    loop {
        match read_message(stream, true)?.0 {
            b'S' => return Some(executed),
            b'E' => executed += 1,
            _ => {}
        }
    }
}

/// What a server says while one statement is prepared.
fn greeting() -> [Vec<u8>; 2] {
    let accepted = [
        message(b'R', &[0; 4]),
        message(b'K', &[0; 8]),
        message(b'Z', b"I"),
    ];
    let prepared = [
        message(b'1', b""),
        message(b't', &[0, 0]),
        message(b'n', b""),
        message(b'Z', b"I"),
    ];
    [accepted.concat(), prepared.concat()]
}

/// Accepts a client, which prepares one statement; None if it leaves.
fn accept(stream: &mut TcpStream) -> Option<()> {
    read_message(stream, false)?;
    let [accepted, prepared] = greeting();
    stream.write_all(&accepted).ok()?;
    read_request(stream)?;
    stream.write_all(&prepared).ok()
}

/// A server that answers each operation with a row.
fn honest() -> Server {
    Server::start(|_, mut stream| {
        if accept(&mut stream).is_none() {
            return;
        }
        while let Some(executed) = read_request(&mut stream) {
            assert_eq!(executed, 1);
            if stream.write_all(&answer(7)).is_err() {
                return;
            }
        }
    })
}

#[test]
fn the_operations_of_a_flush_are_on_the_wire_before_any_answer() {
    // Without pipelining this server would never answer.
    let server = Server::start(|_, mut stream| {
        accept(&mut stream);
        loop {
            for _ in 0..8 {
                if read_request(&mut stream).is_none() {
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
        read_request(&mut stream);
        write_in_pieces(&mut stream, &answer(90), 1);
        read_request(&mut stream);
        let _ = stream.write_all(&answer(32 << 20));
        while read_request(&mut stream).is_some() {}
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
            while read_request(&mut stream).is_some() {
                let right = answer(1);
                let sent = if number == 0 { bytes } else { &right };
                if stream.write_all(sent).is_err() {
                    return;
                }
            }
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
            if read_request(&mut stream).is_none() || stream.write_all(&answer(5)).is_err() {
                return;
            }
        }
        if read_request(&mut stream).is_some() {
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
    let gone = [-libc::ECONNRESET, -libc::EPIPE];
    assert!(
        results
            .iter()
            .all(|result| *result == 5 || gone.contains(result)),
        "{results:?}"
    );
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
            read_request(&mut stream);
            let failed = [error("ERROR", "23505"), message(b'Z', b"I")].concat();
            stream.write_all(&failed).unwrap();
            read_request(&mut stream);
            stream.write_all(&error("FATAL", "57P01")).unwrap();
            return;
        }
        while read_request(&mut stream).is_some() {
            stream.write_all(&answer(2)).unwrap();
        }
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
    let server = Server::start(|number, mut stream| {
        if accept(&mut stream).is_none() {
            return;
        }
        if number == 0 {
            stream.write_all(&error("FATAL", "57P05")).unwrap();
            return;
        }
        while read_request(&mut stream).is_some() {
            stream.write_all(&answer(2)).unwrap();
        }
    });
    let mut target = open(&server, &json!({})).unwrap();
    while server.accepted() < 2 {
        let mut ends = Vec::with_capacity(1);
        target.reap(&mut ends).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(drive(&mut target, &[exchange(0, 0); 3]), [2; 3]);
    assert_eq!(target.describe().unrequested, 0);
}

#[test]
fn a_silent_server_is_given_up_at_the_time_limit() {
    let server = Server::start(|number, mut stream| {
        accept(&mut stream);
        while read_request(&mut stream).is_some() {
            if number > 0 {
                stream.write_all(&answer(2)).unwrap();
            }
        }
    });
    let fields = json!({"outstanding": 2, "timeout_ns": 50_000_000});
    let mut target = open(&server, &fields).unwrap();
    let results = drive(&mut target, &[exchange(0, 0); 4]);
    assert_eq!(results[..2], [-libc::ETIMEDOUT, -libc::ECONNABORTED]);
    assert_eq!(results[2..], [2, 2]);
    assert_eq!(target.describe().timeouts, 1);
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

#[test]
fn operations_allocate_nothing() {
    const COUNT: u32 = 10_000;
    let server = honest();
    for outstanding in [1, 8] {
        let fields = json!({"connections": 2, "outstanding": outstanding});
        let mut target = open(&server, &fields).unwrap();
        let mut ends: Vec<Reaped> = Vec::with_capacity(16);
        let mut idle: Vec<u32> = (0..target.capacity()).collect();
        let (mut begun, mut ended, mut before) = (0, 0, None);
        while ended < COUNT {
            if ended >= 1000 {
                before.get_or_insert_with(allocations);
            }
            while begun < COUNT
                && let Some(slot) = idle.pop()
            {
                target.submit(slot, &exchange(0, 0));
                begun += 1;
            }
            target.flush().unwrap();
            target.reap(&mut ends).unwrap();
            if ends.is_empty() {
                target.wait(Nanos::SECOND).unwrap();
            }
            for end in ends.drain(..) {
                assert_eq!(end.result, 7);
                idle.push(end.slot);
                ended += 1;
            }
        }
        assert!(before.unwrap() > 0, "the allocator counts");
        assert_eq!(allocations() - before.unwrap(), 0, "{outstanding}");
    }
}
