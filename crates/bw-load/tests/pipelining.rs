//! Many operations on each connection: pipelining, Unix sockets, connections with a number of requests, and servers that
//! do not keep to the rules.

#![allow(clippy::unwrap_used)]

use bw_load::PlanOptions;
use bw_load::http::HttpTarget;
use bw_load::http::request::HttpSpec;
use bw_load::target::{Reaped, Target};
use bw_load::tcp::{TcpSpec, TcpTarget};
use bw_record::errno::RESPONSE_CUT;
use network::nginx::Nginx;
use network::{
    LONG, SHORT, Server, answer_with_garbage, be_silent, check_limits, drive, exchange, never_end,
    only, read_request, reset,
};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

mod network;

fn with(mut spec: Value, more: Value) -> Value {
    let fields = more.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(fields);
    spec
}

/// Returns a target with these fields of its specification besides the address.
fn http(address: SocketAddr, more: Value) -> HttpTarget {
    let url = format!("http://{address}/");
    let spec = with(json!({"url": url, "connections": 1}), more);
    let spec: HttpSpec = serde_json::from_value(spec).unwrap();
    spec.plan(PlanOptions::default())
        .unwrap()
        .open(spec.connections)
        .unwrap()
}

fn tcp(address: SocketAddr, more: Value) -> TcpTarget {
    let (host, port) = (address.ip().to_string(), address.port());
    let spec = with(json!({"host": host, "port": port, "connections": 1}), more);
    let spec: TcpSpec = serde_json::from_value(spec).unwrap();
    spec.plan(PlanOptions::default())
        .unwrap()
        .open(spec.connections)
        .unwrap()
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn the_requests_of_a_flush_are_on_the_wire_before_any_answer() {
    // A server that answers eight requests at once: without pipelining it would never answer.
    let server = Server::start(|_, mut stream| {
        loop {
            for _ in 0..8 {
                if read_request(&mut stream).is_none() {
                    return;
                }
            }
            stream.write_all(&OK.repeat(8)).unwrap();
        }
    });
    let mut target = http(server.address, json!({"outstanding": 8}));
    assert_eq!(target.capacity(), 8);
    assert_eq!(drive(&mut target, &[exchange(0, 0); 800]), [2; 800]);
    assert_eq!(target.describe().reconnects, 0);
}

#[test]
fn the_requests_of_a_flush_share_a_write_and_the_next_flush_another_connection() {
    static READS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());
    let server = Server::start(|number, mut stream| {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            READS.lock().unwrap().push((number, length));
            if stream.write_all(&buffer[..length]).is_err() {
                return;
            }
        }
    });
    let fields = json!({"connections": 2, "outstanding": 4});
    let mut target = tcp(server.address, fields);
    let mut ends: Vec<Reaped> = Vec::with_capacity(8);
    for first in [0, 4] {
        assert_eq!(target.batch(), 4);
        for slot in first..first + 4 {
            target.submit(slot, &exchange(0, 100));
        }
        target.flush().unwrap();
    }
    while ends.len() < 8 {
        target.reap(&mut ends).unwrap();
    }
    let mut reads = READS.lock().unwrap().clone();
    reads.sort_unstable();
    // Four requests of one flush arrive together, each flush on its own connection.
    assert_eq!(reads, [(0, 400), (1, 400)]);
}

#[test]
fn without_pipelining_a_batch_is_one_request() {
    let server = Server::start(|_, mut stream| while read_request(&mut stream).is_some() {});
    let target = http(server.address, json!({"connections": 3}));
    assert_eq!((target.batch(), target.capacity()), (1, 3));
}

#[test]
fn requests_behind_the_last_answer_of_a_connection_succeed_on_another_one() {
    let server = Server::start(|_, mut stream| {
        for _ in 0..9 {
            if read_request(&mut stream).is_none() {
                return;
            }
            stream.write_all(OK).unwrap();
        }
        if read_request(&mut stream).is_some() {
            stream.write_all(LAST).unwrap();
            // The close must not become a reset before the answer is read.
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    let fields = json!({"connections": 2, "outstanding": 4});
    let mut target = http(server.address, fields);
    assert_eq!(drive(&mut target, &[exchange(0, 0); 1000]), [2; 1000]);
    let described = target.describe();
    assert!(described.resent > 0, "{described:?}");
    assert!((98..=101).contains(&described.reconnects), "{described:?}");
}

#[test]
fn a_connection_carries_the_requested_number_of_requests() {
    static REQUESTS: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    for outstanding in [1, 4] {
        REQUESTS.lock().unwrap().clear();
        let server = Server::start(|_, mut stream| {
            let mut count = 0;
            while read_request(&mut stream).is_some() {
                count += 1;
                stream.write_all(OK).unwrap();
            }
            REQUESTS.lock().unwrap().push(count);
        });
        let fields =
            json!({"connections": 2, "outstanding": outstanding, "requests_per_connection": 10});
        let mut target = http(server.address, fields);
        assert_eq!(drive(&mut target, &[exchange(0, 0); 500]), [2; 500]);
        let described = target.describe();
        assert!((48..=50).contains(&described.reconnects), "{described:?}");
        assert!(described.connect_ns.count >= 50, "{described:?}");
        drop(target);
        while REQUESTS.lock().unwrap().iter().sum::<usize>() < 500 {
            thread::yield_now();
        }
        let requests = REQUESTS.lock().unwrap();
        assert!(requests.iter().all(|count| *count <= 10), "{requests:?}");
    }
}

#[test]
fn a_unix_socket_carries_http_and_echo() {
    let folder = std::env::temp_dir().join(format!("bw-unix-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("server");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..length]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let nowhere: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let fields = json!({"connections": 3, "outstanding": 2, "unix_socket": path});
    let mut target = tcp(nowhere, fields);
    assert_eq!(drive(&mut target, &[exchange(0, 700); 300]), [700; 300]);
    let described = target.describe();
    assert_eq!(described.address, format!("unix:{}", path.display()));
    assert_eq!((described.reconnects, described.connect_ns.count), (0, 3));
    std::fs::remove_dir_all(&folder).unwrap();

    let spec = json!({"url": "http://x/", "connections": 1, "unix_socket": path});
    let spec: HttpSpec = serde_json::from_value(spec).unwrap();
    let refused = spec
        .plan(PlanOptions::default())
        .unwrap()
        .open(1)
        .unwrap_err();
    assert_eq!(refused.code, "connect");
    assert!(refused.remedy.contains("correct the path"), "{refused}");
    let spec = json!({"url": "http://x/", "connections": 1, "unix_socket": "x".repeat(200)});
    let spec: HttpSpec = serde_json::from_value(spec).unwrap();
    assert_eq!(
        spec.plan(PlanOptions::default()).unwrap_err().code,
        "unix-socket"
    );
}

#[test]
fn nginx_answers_pipelined_requests_and_those_over_its_unix_socket() {
    let Some(nginx) = Nginx::start("pipelined", 1000, 100) else {
        return;
    };
    let address = SocketAddr::from(([127, 0, 0, 1], nginx.port));
    let operations: Vec<_> = (0..20_000)
        .map(|number| exchange(u64::from(number % 10 == 0), 0))
        .collect();
    let unix = nginx.unix_socket();
    for more in [json!({}), json!({"unix_socket": unix})] {
        let fields = json!({"paths": ["/", "/none"], "connections": 8, "outstanding": 16});
        let mut target = http(address, with(fields, more));
        for (operation, result) in operations.iter().zip(drive(&mut target, &operations)) {
            assert_eq!(result, [1000, -10_404][operation.offset as usize]);
        }
        // nginx ends a connection after 100 requests, whatever is behind the last one.
        let described = target.describe();
        assert!((190..=210).contains(&described.reconnects), "{described:?}");
        assert!(described.resent > 0, "{described:?}");
    }
}

#[test]
fn impossible_numbers_are_refused() {
    let refused = |more: Value, field: &str| {
        let spec = with(
            json!({"url": "http://127.0.0.1:1/", "connections": 1}),
            more,
        );
        let spec: HttpSpec = serde_json::from_value(spec).unwrap();
        let error = spec.plan(PlanOptions::default()).unwrap_err();
        let place = error.location.clone().and_then(|place| place.field);
        assert_eq!(place.as_deref(), Some(field), "{error}");
    };
    refused(json!({"outstanding": 0}), "target.outstanding");
    refused(json!({"outstanding": 65_537}), "target.outstanding");
    refused(
        json!({"requests_per_connection": 0}),
        "target.requests_per_connection",
    );
    let server = Server::start(|_, _| {});
    let url = format!("http://{}/", server.address);
    let spec = json!({"url": url, "connections": 17, "outstanding": 65_536});
    let spec: HttpSpec = serde_json::from_value(spec).unwrap();
    assert_eq!(
        spec.plan(PlanOptions::default())
            .unwrap()
            .open(17)
            .unwrap_err()
            .code,
        "connections"
    );
}

/// Runs 24 operations with this time limit; returns their results.
fn against(server: &Server, outstanding: u32, limit: Duration) -> Vec<i32> {
    network::against(|fields| http(server.address, fields), outstanding, limit)
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
    let server = Server::start(|number, mut stream| answer_with_garbage(&mut stream, number, 0));
    for outstanding in [1, 4] {
        let results = against(&server, outstanding, LONG);
        assert_eq!(results, [-libc::EPROTO; 24]);
    }
}

#[test]
fn a_byte_at_a_time_is_slow_and_right() {
    let server = Server::start(|_, mut stream| {
        stream.set_nodelay(true).unwrap();
        while read_request(&mut stream).is_some() {
            for byte in OK {
                if stream.write_all(&[*byte]).is_err() {
                    return;
                }
                thread::sleep(Duration::from_micros(50));
            }
        }
    });
    let fields = json!({"connections": 2, "outstanding": 4});
    let mut target = http(server.address, fields);
    assert_eq!(drive(&mut target, &[exchange(0, 0); 40]), [2; 40]);
}

#[test]
fn an_answer_that_never_ends_costs_its_operation_the_limit() {
    // One byte of a body of a gigabyte every 10 ms.
    let server = Server::start(|_, mut stream| {
        if read_request(&mut stream).is_some() {
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n";
            never_end(&mut stream, head, b"x");
        }
    });
    let results = against(&server, 2, SHORT);
    let known = [-libc::ETIMEDOUT, -libc::ECONNABORTED];
    assert!(only(&results, &known), "{results:?}");
}

#[test]
fn connections_that_close_at_random_places_lose_only_what_they_carried() {
    static PLACE: AtomicUsize = AtomicUsize::new(1);
    let server = Server::start(|_, mut stream| {
        while read_request(&mut stream).is_some() {
            // Pseudo-random, the same in each run: a multiplicative sequence modulo a prime.
            let place = PLACE.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |place| {
                Some(place * 75 % 65_537)
            });
            match place.unwrap() % 16 {
                0 => return reset(stream),
                1 => {
                    let _ = stream.write_all(&OK[..20]);
                    return;
                }
                _ => {
                    if stream.write_all(OK).is_err() {
                        return;
                    }
                }
            }
        }
    });
    for outstanding in [1, 8] {
        let fields = json!({"connections": 4, "outstanding": outstanding});
        let mut target = http(server.address, fields);
        let results = drive(&mut target, &[exchange(0, 0); 2000]);
        let known = [2, -libc::ECONNRESET, -libc::EPIPE, RESPONSE_CUT];
        assert!(only(&results, &known), "{results:?}");
        let good = results.iter().filter(|result| **result == 2).count();
        assert!((200..2000).contains(&good), "{good}");
    }
}

#[test]
fn huge_headers_are_bounded() {
    let server = Server::start(|_, mut stream| {
        if read_request(&mut stream).is_some() {
            let field = format!("X-Long: {}\r\n", "y".repeat(1000));
            let mut sent = stream.write_all(b"HTTP/1.1 200 OK\r\n");
            // Without a limit of the reader this goes on for ever.
            while sent.is_ok() {
                sent = stream.write_all(field.as_bytes());
            }
        }
    });
    for outstanding in [1, 4] {
        let results = against(&server, outstanding, LONG);
        assert_eq!(results, [-libc::EPROTO; 24]);
    }
}
