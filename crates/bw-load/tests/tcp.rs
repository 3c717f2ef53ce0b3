//! The TCP target against servers in threads, on the loopback.

#![allow(clippy::unwrap_used)]

use bw_load::PlanOptions;
use bw_load::target::Target;
use bw_load::tcp::{TcpSpec, TcpTarget};
use bw_model::{Kind, Nanos, Operation};
use bw_record::errno::RESPONSE_CUT;
use network::{Server, be_silent, drive, exchange, look_late, reset};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

mod network;

fn spec(server: &Server, connections: u32) -> TcpSpec {
    spec_of(server.address.port(), connections)
}

fn spec_of(port: u16, connections: u32) -> TcpSpec {
    TcpSpec {
        host: "127.0.0.1".into(),
        port,
        connections,
        unix_socket: None,
        outstanding: 1,
        requests_per_connection: None,
        receive_bytes: None,
        timeout_ns: None,
        tls: None,
    }
}

fn open(server: &Server, connections: u32) -> TcpTarget {
    let plan = spec(server, connections)
        .plan(PlanOptions::default())
        .unwrap();
    plan.open(connections).unwrap()
}

/// Sends back what comes, in reads of at most `piece`.
fn echo(mut stream: TcpStream, piece: usize) {
    let mut buffer = vec![0; piece];
    while let Ok(length) = stream.read(&mut buffer)
        && length > 0
        && stream.write_all(&buffer[..length]).is_ok()
    {}
}

#[test]
fn thousands_of_exchanges_come_back_whole() {
    let server = Server::start(|_, stream| echo(stream, 4096));
    let mut target = open(&server, 64);
    let operations: Vec<_> = (0..5000).map(|i| exchange(0, i % 3000)).collect();
    let results = drive(&mut target, &operations);
    for (operation, result) in operations.iter().zip(&results) {
        assert_eq!(i64::from(*result), i64::from(operation.size));
    }
    let done = target.describe();
    let bytes: u64 = operations.iter().map(|one| u64::from(one.size)).sum();
    assert_eq!((done.sent_bytes, done.received_bytes), (bytes, bytes));
    assert_eq!((done.reconnects, server.accepted()), (0, 64));
}

#[test]
fn an_end_that_nobody_looked_for_has_the_time_since_it_arrived() {
    let (answers, answered) = mpsc::channel();
    let server = Server::start(move |_, mut stream| {
        let mut buffer = [0; 100];
        while stream.read_exact(&mut buffer).is_ok() && stream.write_all(&buffer).is_ok() {
            let _ = answers.send(());
        }
    });
    let mut target = open(&server, 1);
    for _ in 0..2 {
        let end = look_late(&mut target, &exchange(0, 100), &answered);
        assert_eq!(end.result, 100);
    }
    assert_eq!(drive(&mut target, &[exchange(0, 100); 20]), [100; 20]);
}

#[test]
fn a_message_larger_than_all_buffers_goes_through_while_its_echo_comes() {
    // Echoing a byte count that neither side can buffer needs reading and writing at once.
    let server = Server::start(|_, stream| echo(stream, 100_000));
    let mut target = open(&server, 2);
    let size = 48 << 20;
    let results = drive(
        &mut target,
        &[exchange(0, size), exchange(0, 1), exchange(0, size)],
    );
    assert_eq!(results, [size as i32, 1, size as i32]);
    assert_eq!(target.describe().reconnects, 0);
}

#[test]
fn an_echo_byte_by_byte_is_whole() {
    let server = Server::start(|_, stream| {
        stream.set_nodelay(true).unwrap();
        echo(stream, 1);
    });
    let results = drive(&mut open(&server, 3), &[exchange(0, 500); 9]);
    assert_eq!(results, [500; 9]);
}

#[test]
fn connections_take_turns() {
    static BY_CONNECTION: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];
    let server = Server::start(|number, mut stream| {
        let mut byte = [0];
        while matches!(stream.read(&mut byte), Ok(1)) && stream.write_all(&byte).is_ok() {
            BY_CONNECTION[number].fetch_add(1, Ordering::SeqCst);
        }
    });
    let mut target = open(&server, 4);
    for _ in 0..40 {
        assert_eq!(drive(&mut target, &[exchange(0, 1)]), [1]);
    }
    // The last count of each thread may still be missing, but no thread counts more than its turns.
    let most = BY_CONNECTION
        .each_ref()
        .map(|one| one.load(Ordering::SeqCst));
    assert!(most.iter().all(|&count| count <= 10), "{most:?}");
    assert!(most.iter().sum::<usize>() >= 36, "{most:?}");
}

#[test]
fn a_reset_and_an_early_end_cost_one_operation_each_and_the_connection_is_made_again() {
    let server = Server::start(|number, mut stream| {
        let mut buffer = [0; 100];
        match number {
            // One complete exchange, then the end in the middle of the second.
            0 | 1 => {
                stream.read_exact(&mut buffer).unwrap();
                stream.write_all(&buffer).unwrap();
                stream.read_exact(&mut buffer).unwrap();
                stream.write_all(&buffer[..50]).unwrap();
                if number == 0 {
                    reset(stream);
                }
            }
            _ => echo(stream, 4096),
        }
    });
    let mut target = open(&server, 2);
    // Two at a time, so that each connection has its second operation in the second turn.
    let mut results = Vec::new();
    while results.len() < 50 || target.describe().reconnects < 2 {
        results.extend(drive(&mut target, &[exchange(0, 100); 2]));
    }
    assert_eq!(results[..2], [100; 2]);
    let mut ends = results[2..4].to_vec();
    ends.sort_unstable();
    assert_eq!(ends, [RESPONSE_CUT, -libc::ECONNRESET]);
    assert!(
        results[4..].iter().all(|&result| result == 100),
        "{results:?}"
    );
    assert_eq!(target.describe().reconnects, 2);
}

#[test]
fn a_server_that_goes_away_gives_errors_and_not_a_hang() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let accepting = std::thread::spawn(move || (listener.accept().unwrap(), listener));
    let spec = TcpSpec {
        host: "localhost".into(),
        ..spec_of(port, 1)
    };
    let mut target = spec.plan(PlanOptions::default()).unwrap().open(1).unwrap();
    drop(accepting.join().unwrap());
    let results = drive(&mut target, &[exchange(0, 10); 3]);
    for result in results {
        assert!([-libc::ECONNRESET, -libc::ECONNREFUSED, -libc::EPIPE].contains(&result));
    }
    assert!(target.describe().failed_connects > 0);
}

#[test]
fn a_server_s_own_answer_is_counted_and_not_compared() {
    let server = Server::start(|_, mut stream| {
        let mut buffer = [0; 10];
        while stream.read_exact(&mut buffer).is_ok() {
            stream.write_all(b"as you wish").unwrap();
        }
    });
    let mut spec = spec(&server, 2);
    spec.receive_bytes = Some(11);
    let mut target = spec.plan(PlanOptions::default()).unwrap().open(2).unwrap();
    assert_eq!(drive(&mut target, &[exchange(0, 10); 20]), [11; 20]);
}

#[test]
fn what_a_network_cannot_do_is_refused_without_harm() {
    let server = Server::start(|_, stream| echo(stream, 64));
    let mut target = open(&server, 1);
    let read = Operation {
        kind: Kind::Read,
        ..exchange(0, 8)
    };
    let results = drive(&mut target, &[read, exchange(0, 8), exchange(0, 0)]);
    assert_eq!(results, [-libc::EOPNOTSUPP, 8, 0]);
    assert_eq!(target.capacity(), 1);
}

#[test]
fn refused_connections_and_unknown_hosts_are_reported_clearly() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let mut spec = spec_of(port, 1);
    let refused = spec
        .plan(PlanOptions::default())
        .unwrap()
        .open(1)
        .unwrap_err();
    assert_eq!(refused.code, "connect");
    assert!(refused.message.contains("refused"), "{refused}");
    assert!(refused.remedy.contains("start the server"), "{refused}");
    spec.host = "no-such-host.invalid".into();
    assert_eq!(
        spec.plan(PlanOptions::default()).unwrap_err().code,
        "host-unknown"
    );
    spec.host = "127.0.0.1".into();
    assert_eq!(
        spec.plan(PlanOptions::default())
            .unwrap()
            .open(0)
            .unwrap_err()
            .code,
        "connections"
    );
}

#[test]
fn a_server_that_stays_silent_costs_each_operation_its_limit_and_no_more() {
    let server = Server::start(|_, mut stream| be_silent(&mut stream));
    let spec = TcpSpec {
        timeout_ns: Some(Nanos(20_000_000)),
        ..spec(&server, 2)
    };
    let mut target = spec.plan(PlanOptions::default()).unwrap().open(2).unwrap();
    assert_eq!(
        drive(&mut target, &[exchange(0, 8); 6]),
        [-libc::ETIMEDOUT; 6]
    );
    let described = target.describe();
    assert_eq!(
        (described.timeouts, described.reconnects > 0),
        (6, true),
        "{described:?}"
    );
}

#[test]
fn an_operation_without_a_connection_has_the_same_limit() {
    // A connection that failed is not used for 50 ms: the second operation waits for it until its timeout.
    let server = Server::start(|number, mut stream| {
        let mut bytes = [0; 64];
        if number == 0 {
            let _ = stream.read(&mut bytes);
            reset(stream);
            return;
        }
        be_silent(&mut stream);
    });
    let spec = TcpSpec {
        timeout_ns: Some(Nanos(20_000_000)),
        ..spec(&server, 1)
    };
    let mut target = spec.plan(PlanOptions::default()).unwrap().open(1).unwrap();
    let results = drive(&mut target, &[exchange(0, 8); 2]);
    // On a busy machine the reset may come too late for the first.
    assert!([-libc::ECONNRESET, -libc::ETIMEDOUT].contains(&results[0]));
    assert_eq!(results[1], -libc::ETIMEDOUT);
}
