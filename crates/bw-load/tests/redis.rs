//! Redis as a target: pipelining, logins, and servers that do not keep to the rules. tests/e2e/test_load_redis.py runs
//! the real server.

#![allow(clippy::unwrap_used)]

use bw_load::PlanOptions;
use bw_load::redis::{RedisSpec, RedisTarget};
use bw_load::target::Target;
use bw_model::EngineError;
use bw_record::errno::{RESPONSE_CUT, redis_error};
use network::{
    LONG, SHORT, Server, WARM_UP, answer_with_garbage, be_silent, check_limits, drive, exchange,
    never_end, only, reset, with_warm_up, write_in_pieces,
};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use tempfile::NamedTempFile;

mod network;

fn spec(address: SocketAddr, more: Value) -> RedisSpec {
    let (host, port) = (address.ip().to_string(), address.port());
    let mut spec = json!({"host": host, "port": port, "connections": 1});
    let fields = more.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(fields);
    serde_json::from_value(spec).unwrap()
}

fn open(spec: &RedisSpec) -> Result<RedisTarget, EngineError> {
    spec.plan(PlanOptions::default())?.open(spec.connections)
}

/// Reads a line without its end.
fn read_line(stream: &mut TcpStream) -> Option<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => line.push(byte[0]),
            _ => return None,
        }
    }
    line.truncate(line.len() - 2);
    Some(String::from_utf8(line).unwrap())
}

/// Reads one command: its words.
fn read_command(stream: &mut TcpStream) -> Option<Vec<String>> {
    let count: usize = read_line(stream)?.strip_prefix('*')?.parse().unwrap();
    let mut words = Vec::new();
    for _ in 0..count {
        let length: usize = read_line(stream)?.strip_prefix('$')?.parse().unwrap();
        let word = read_line(stream)?;
        assert_eq!(word.len(), length);
        words.push(word);
    }
    Some(words)
}

/// Answers every command with what `answer` returns for its words.
fn serve(stream: &mut TcpStream, answer: impl Fn(&[String]) -> String) {
    while let Some(words) = read_command(stream) {
        if stream.write_all(answer(&words).as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn the_offset_selects_the_command_and_each_reply_belongs_to_its_own() {
    let server = Server::start(|_, mut stream| {
        serve(&mut stream, |words| match &words[0][..] {
            "GET" => format!("${}\r\n{}\r\n", words[1].len(), words[1]),
            "LLEN" => "-WRONGTYPE Operation against a key\r\n".to_owned(),
            _ => "$-1\r\n".to_owned(),
        });
    });
    let commands = json!([["GET", "abcde"], ["LLEN", "k"], ["HGET", "k", "a b"]]);
    for outstanding in [1, 16] {
        let fields = json!({"commands": commands, "connections": 3, "outstanding": outstanding});
        let mut target = open(&spec(server.address, fields)).unwrap();
        let operations: Vec<_> = (0..3000).map(|number| exchange(number % 3, 0)).collect();
        let results = drive(&mut target, &operations);
        let expected = [5, redis_error(b"WRONGTYPE"), 0];
        for (operation, result) in operations.iter().zip(results) {
            assert_eq!(result, expected[operation.offset as usize]);
        }
        let described = target.describe();
        assert_eq!(
            (described.nil_replies, described.reconnects),
            (Some(1000), 0)
        );
        assert_eq!(described.handshake_ns, None);
        assert_eq!(drive(&mut target, &[exchange(3, 0)]), [-libc::EINVAL]);
    }
}

#[test]
fn two_replies_in_one_segment_are_one_that_nobody_asked_for() {
    let server = Server::start(|_, mut stream| {
        serve(&mut stream, |_| "+PONG\r\n+PONG\r\n".to_owned());
    });
    let mut target = open(&spec(server.address, json!({}))).unwrap();
    assert_eq!(drive(&mut target, &[exchange(0, 0); 10]), [4; 10]);
    assert_eq!(target.describe().unrequested, 10);
}

#[test]
fn the_commands_of_a_flush_are_on_the_wire_before_any_reply() {
    // A server that answers sixteen commands at once: without pipelining it would never answer.
    let server = Server::start(|_, mut stream| {
        loop {
            for _ in 0..16 {
                if read_command(&mut stream).is_none() {
                    return;
                }
            }
            if stream.write_all(&b"+PONG\r\n".repeat(16)).is_err() {
                return;
            }
        }
    });
    let mut target = open(&spec(server.address, json!({"outstanding": 16}))).unwrap();
    assert_eq!(target.describe().outstanding, 16);
    assert_eq!(drive(&mut target, &[exchange(0, 0); 800]), [4; 800]);
}

/// Returns a file with this text, removed on drop.
fn password_file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[test]
fn every_connection_logs_in_before_its_first_command_and_after_it_was_lost() {
    static LOGINS: AtomicUsize = AtomicUsize::new(0);
    let server = Server::start(|number, mut stream| {
        let expected = [
            &["AUTH", "me", "s3cret word"][..],
            &["HELLO", "3"],
            &["SELECT", "7"],
        ];
        for words in expected {
            match read_command(&mut stream) {
                Some(read) => assert_eq!(read, words),
                None => return,
            }
        }
        LOGINS.fetch_add(1, Ordering::SeqCst);
        write_in_pieces(&mut stream, b"+OK\r\n%1\r\n+proto\r\n:3\r\n+OK\r\n", 3);
        // The first two connections end after ten commands.
        for _ in 0..if number < 2 { 10 } else { usize::MAX } {
            if read_command(&mut stream).is_none() || stream.write_all(b"+PONG\r\n").is_err() {
                return;
            }
        }
    });
    let file = password_file("s3cret word\n");
    let fields = json!({"connections": 2, "user": "me", "database": 7, "resp": 3, "password_file": file.path()});
    let mut target = open(&spec(server.address, fields)).unwrap();
    let results = drive(&mut target, &[exchange(0, 0); 500]);
    let lost = [-libc::ECONNRESET, -libc::EPIPE];
    assert!(results.iter().all(|one| *one == 4 || lost.contains(one)));
    assert!(
        results.iter().filter(|one| **one == 4).count() >= 498,
        "{results:?}"
    );
    let described = target.describe();
    assert_eq!(described.reconnects, 2);
    assert_eq!(described.handshake_ns.clone().unwrap().count, 4);
    assert_eq!(LOGINS.load(Ordering::SeqCst), 4);
    assert!(!format!("{target:?}").contains("s3cret"));
}

#[test]
fn a_refused_login_is_an_error_without_the_password() {
    let server = Server::start(|_, mut stream| {
        let words = read_command(&mut stream).unwrap_or_default();
        let text = format!(
            "-ERR unknown command 'AUTH', with args beginning with: '{}'\r\n",
            words[1]
        );
        let _ = stream.write_all(text.as_bytes());
        let _ = stream.read(&mut [0; 100]);
    });
    let file = password_file("s3cret");
    let spec = spec(server.address, json!({"password_file": file.path()}));
    let shown = format!("{spec:?} {:?}", spec.plan(PlanOptions::default()).unwrap());
    assert!(!shown.contains("s3cret"), "{shown}");
    let error = open(&spec).unwrap_err();
    assert_eq!(error.code, "handshake");
    assert!(
        error
            .message
            .ends_with("the server refused AUTH: ERR unknown command"),
        "{error}"
    );
    assert!(!format!("{error} {error:?}").contains("s3cret"));
}

#[test]
fn each_command_has_a_label_or_none_has() {
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let many: Vec<_> = (0..101).map(|number| number.to_string()).collect();
    for (commands, labels) in [(2, json!(["a"])), (0, json!(["a"])), (101, json!(many))] {
        let commands = vec![["PING"]; commands];
        let error = spec(address, json!({"commands": commands, "labels": labels}))
            .plan(PlanOptions::default());
        let error = error.unwrap_err();
        assert_eq!((error.code, error.status), ("labels", 2));
    }
    let labels = json!({"commands": [["PING"], ["TIME"]], "labels": ["a", "a"]});
    assert!(spec(address, labels).plan(PlanOptions::default()).is_ok());
}

#[test]
fn what_cannot_be_sent_is_refused_before_the_run() {
    let nowhere: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let refused = |more: Value, code: &str| {
        let error = spec(nowhere, more)
            .plan(PlanOptions::default())
            .unwrap_err();
        assert_eq!(error.code, code, "{error}");
        assert!(!error.message.contains("s3cret"), "{error}");
    };
    for words in [
        json!([]),
        json!([""]),
        json!(["subscribe", "c"]),
        json!(["MONITOR"]),
        json!(["client", "reply", "off"]),
        json!(["AUTH", "s3cret"]),
        json!(["HELLO", "3", "AUTH", "me", "s3cret"]),
    ] {
        refused(json!({"commands": [["GET", "k"], words]}), "command");
    }
    refused(json!({"commands": [["GET", "${id}"]]}), "command");
    let counter = json!({"id": {"type": "counter"}});
    refused(
        json!({"commands": [["${id}", "k"]], "values": counter}),
        "command",
    );
    refused(json!({"values": {"a b": {"type": "counter"}}}), "values");
    refused(json!({"resp": 4}), "resp");
    refused(json!({"outstanding": 0}), "bad-request");
    refused(json!({"password_file": "/nonexistent"}), "password-file");
    let (empty, long) = (password_file("\n"), password_file(&"x".repeat(70_000)));
    refused(json!({"password_file": empty.path()}), "password-file");
    refused(json!({"password_file": long.path()}), "password-file");
}

/// Runs 24 operations with this time limit; returns their results.
fn against(server: &Server, outstanding: u32, limit: Duration) -> Vec<i32> {
    network::against(
        |fields| open(&spec(server.address, fields)).unwrap(),
        outstanding,
        limit,
    )
}

#[test]
fn a_silent_server_costs_each_operation_its_limit() {
    let server = Server::start(|_, mut stream| be_silent(&mut stream));
    for outstanding in [1, 4] {
        check_limits(&against(&server, outstanding, SHORT), outstanding);
    }
}

#[test]
fn garbage_fails_every_operation_on_its_connection() {
    // None of RESP's types has the highest bit.
    let server = Server::start(|number, mut stream| answer_with_garbage(&mut stream, number, 0x80));
    for outstanding in [1, 4] {
        let results = against(&server, outstanding, LONG);
        assert_eq!(results, [-libc::EPROTO; 24]);
    }
}

#[test]
fn a_byte_at_a_time_is_slow_and_right() {
    let server = Server::start(|_, mut stream| {
        stream.set_nodelay(true).unwrap();
        while read_command(&mut stream).is_some() {
            for byte in b"*2\r\n$3\r\na\r\n\r\n:12\r\n" {
                if stream.write_all(&[*byte]).is_err() {
                    return;
                }
                thread::sleep(Duration::from_micros(50));
            }
        }
    });
    let mut target = open(&spec(
        server.address,
        json!({"connections": 2, "outstanding": 4}),
    ))
    .unwrap();
    assert_eq!(drive(&mut target, &[exchange(0, 0); 40]), [5; 40]);
}

#[test]
fn a_reply_that_never_ends_costs_its_operation_the_limit() {
    // A value of a terabyte, and an array that goes on for ever, both a byte every 10 ms.
    for head in [&b"$1000000000000\r\n"[..], b"*1000000000\r\n", b"*?\r\n"] {
        let server = Server::start(move |_, mut stream| {
            if read_command(&mut stream).is_some() {
                let piece: &[u8] = if head[0] == b'$' { b"x" } else { b":1\r\n" };
                never_end(&mut stream, head, piece);
            }
        });
        let results = against(&server, 2, SHORT);
        let known = [-libc::ETIMEDOUT, -libc::ECONNABORTED];
        assert!(only(&results, &known), "{results:?}");
    }
}

#[test]
fn lines_and_nesting_without_end_are_bounded() {
    for piece in [
        &b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"[..],
        b"\r\n*1\r\n*1\r\n*1",
    ] {
        let server = Server::start(move |_, mut stream| {
            if read_command(&mut stream).is_some() {
                let first: &[u8] = if piece[0] == b'x' { b"+" } else { b"*1" };
                let mut sent = stream.write_all(first);
                // Without a bound of the reader this goes on for ever.
                while sent.is_ok() {
                    sent = stream.write_all(piece);
                }
            }
        });
        for outstanding in [1, 4] {
            let results = against(&server, outstanding, LONG);
            assert_eq!(results, [-libc::EPROTO; 24]);
        }
    }
}

#[test]
fn connections_that_close_at_random_places_lose_only_what_they_carried() {
    static PLACE: AtomicUsize = AtomicUsize::new(1);
    let server = Server::start(|_, mut stream| {
        while read_command(&mut stream).is_some() {
            // Pseudo-random, the same in each run: a multiplicative sequence modulo a prime.
            let place = PLACE.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |place| {
                Some(place * 75 % 65_537)
            });
            match place.unwrap() % 16 {
                0 => return reset(stream),
                1 => {
                    let _ = stream.write_all(b"$7\r\nab");
                    return;
                }
                _ => {
                    if stream.write_all(b"$2\r\nab\r\n").is_err() {
                        return;
                    }
                }
            }
        }
    });
    for outstanding in [1, 8] {
        let fields = json!({"connections": 4, "outstanding": outstanding});
        let mut target = open(&spec(server.address, fields)).unwrap();
        let results = drive(&mut target, &[exchange(0, 0); 2000]);
        let known = [2, -libc::ECONNRESET, -libc::EPIPE, RESPONSE_CUT];
        assert!(only(&results, &known), "{results:?}");
        let good = results.iter().filter(|result| **result == 2).count();
        assert!((200..2000).contains(&good), "{good}");
    }
}

#[test]
fn nil_replies_of_the_warm_up_are_not_counted() {
    let server = Server::start(|_, mut stream| serve(&mut stream, |_| "$-1\r\n".to_owned()));
    for outstanding in [1, 16] {
        let fields = json!({"connections": 2, "outstanding": outstanding});
        let mut target = open(&spec(server.address, fields)).unwrap();
        target.measure_from(WARM_UP);
        let warm = with_warm_up(exchange(0, 0), 300, 0);
        assert_eq!(drive(&mut target, &warm), [0; 300]);
        let described = target.describe();
        assert_eq!((described.nil_replies, described.sent_bytes), (Some(0), 0));
        // The last of the warm-up are in flight when the first measured one begins.
        let operations = with_warm_up(exchange(0, 0), 300, 100);
        assert_eq!(drive(&mut target, &operations), [0; 400]);
        let described = target.describe();
        assert_eq!(described.nil_replies, Some(100));
        // `*1`, `$4` and `PING`, at least of the measured ones.
        let bytes = described.sent_bytes;
        assert!((1400..1400 + 32 * 14).contains(&bytes), "{bytes}");
    }
}
