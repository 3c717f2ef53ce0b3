//! Targets over TLS: against nginx, against rustls' own server side, and against servers that behave badly.

#![allow(clippy::unwrap_used)]

use bw_load::PlanOptions;
use bw_load::http::HttpTarget;
use bw_load::http::request::HttpSpec;
use bw_load::tcp::{TcpSpec, TcpTarget};
use bw_model::EngineError;
use bw_record::errno::RESPONSE_CUT;
use network::certificates::{Authority, Validity};
use network::nginx::Nginx;
use network::{Server, drive, exchange, look_late, reset};
use rustls::{ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

mod network;

type TlsSocket = StreamOwned<ServerConnection, TcpStream>;

/// An authority with a certificate for localhost.
fn authority(test: &str) -> Option<Authority> {
    let authority = Authority::make(test)?;
    authority.issue("server", "DNS:localhost,IP:127.0.0.1", Validity::Now);
    Some(authority)
}

fn trusting(authority: &Authority) -> Value {
    json!({"ca": authority.file("ca.pem")})
}

fn open_http(url: &str, tls: &Value, connections: u32) -> Result<HttpTarget, EngineError> {
    let json = json!({"url": url, "tls": tls, "connections": connections});
    let spec: HttpSpec = serde_json::from_value(json).unwrap();
    spec.plan(PlanOptions::default())?.open(connections)
}

fn open_echo(
    server: &Server,
    tls: &Value,
    connections: u32,
    timeout_ns: Option<u64>,
) -> Result<TcpTarget, EngineError> {
    let json = json!({"host": "127.0.0.1", "port": server.address.port(), "tls": tls,
        "connections": connections, "timeout_ns": timeout_ns});
    let spec: TcpSpec = serde_json::from_value(json).unwrap();
    spec.plan(PlanOptions::default())?.open(connections)
}

/// A server of TLS whose connections `serve` handles after their handshakes.
fn tls_server(
    authority: &Authority,
    serve: impl Fn(usize, TlsSocket) + Send + Sync + 'static,
) -> Server {
    let config = authority.server_config("server");
    Server::start(move |number, mut stream| {
        let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        while connection.is_handshaking() {
            if connection.complete_io(&mut stream).is_err() {
                return;
            }
        }
        serve(number, StreamOwned::new(connection, stream));
    })
}

/// Sends back what comes, `times` times.
fn echo(stream: &mut TlsSocket, bytes: usize, times: usize) -> bool {
    let mut buffer = vec![0; bytes];
    for _ in 0..times {
        if stream.read_exact(&mut buffer).is_err()
            || stream.write_all(&buffer).is_err()
            || stream.flush().is_err()
        {
            return false;
        }
    }
    true
}

#[test]
fn thousands_of_exchanges_with_nginx() {
    let Some(authority) = authority("nginx") else {
        return;
    };
    for version in ["TLSv1.2", "TLSv1.3"] {
        let name = (&*format!("tls-{version}"), version);
        let Some(nginx) = Nginx::start_tls(name, 50_000, 1_000_000, &authority) else {
            return;
        };
        let url = format!("https://localhost:{}/", nginx.port);
        let mut target = open_http(&url, &trusting(&authority), 16).unwrap();
        let results = drive(&mut target, &[exchange(0, 0); 2000]);
        assert_eq!(results, [50_000; 2000]);
        let described = target.describe();
        assert_eq!((described.reconnects, described.failed_connects), (0, 0));
        assert_eq!(described.handshake_ns.unwrap().count, 16);
        assert!(described.received_bytes > 2000 * 50_000);
        let tls = described.tls.unwrap();
        assert_eq!((tls.version, tls.verified), (version, true));
        assert_eq!(tls.alpn.as_deref(), Some("http/1.1"));
        assert!(tls.cipher.starts_with("TLS_"), "{tls:?}");
    }
}

#[test]
fn connections_that_nginx_ends_cost_no_operation() {
    let Some(authority) = authority("nginx-ends") else {
        return;
    };
    let name = ("tls-ends", "TLSv1.3");
    let Some(nginx) = Nginx::start_tls(name, 100, 7, &authority) else {
        return;
    };
    let url = format!("https://localhost:{}/", nginx.port);
    let mut target = open_http(&url, &trusting(&authority), 8).unwrap();
    assert_eq!(drive(&mut target, &[exchange(0, 0); 560]), [100; 560]);
    let again = target.describe().reconnects;
    assert!((72..=80).contains(&again), "{again}");
}

#[test]
fn servers_that_cannot_be_trusted_are_refused_before_the_run() {
    let Some(authority) = authority("nginx-refused") else {
        return;
    };
    let name = ("tls-refused", "TLSv1.3");
    let Some(nginx) = Nginx::start_tls(name, 100, 100, &authority) else {
        return;
    };
    let refused = |host: &str, tls: Value| {
        let url = format!("https://{host}:{}/", nginx.port);
        open_http(&url, &tls, 4).err()
    };
    let Some(stranger) = Authority::make("nginx-stranger") else {
        return;
    };
    let trust = authority.file("ca.pem");
    let unknown = refused("localhost", trusting(&stranger)).unwrap();
    assert_eq!((unknown.code, unknown.status), ("tls-certificate", 2));
    assert!(unknown.remedy.contains("--ca"), "{unknown}");
    let named = refused(
        "localhost",
        json!({"ca": trust, "server_name": "other.example"}),
    );
    assert!(named.unwrap().message.contains("other.example"));
    assert_eq!(refused("127.0.0.1", json!({"ca": trust})), None);
    assert_eq!(refused("localhost", json!({"insecure": true})), None);

    let url = format!("https://localhost:{}/", nginx.port);
    let mut any = open_http(&url, &json!({"insecure": true}), 1).unwrap();
    assert_eq!(drive(&mut any, &[exchange(0, 0); 5]), [100; 5]);
    assert!(!any.describe().tls.unwrap().verified);
}

#[test]
fn a_port_without_tls_is_named_so() {
    let Some(nginx) = Nginx::start("no-tls", 100, 100) else {
        return;
    };
    let url = format!("https://localhost:{}/", nginx.port);
    let refused = open_http(&url, &json!({"insecure": true}), 1).unwrap_err();
    assert_eq!((refused.code, refused.status), ("tls", 2));
    // A server that resets the connection may take its answer with it, so the end is all that is known.
    assert!(refused.to_string().contains("leave TLS out"), "{refused}");
}

#[test]
fn an_end_that_nobody_looked_for_has_the_time_since_it_arrived() {
    let Some(authority) = authority("unseen") else {
        return;
    };
    let (answers, answered) = mpsc::channel();
    let server = tls_server(&authority, move |_, mut stream| {
        while echo(&mut stream, 100, 1) {
            let _ = answers.send(());
        }
    });
    let mut target = open_echo(&server, &trusting(&authority), 1, None).unwrap();
    let end = look_late(&mut target, &exchange(0, 100), &answered);
    assert_eq!(end.result, 100);
}

#[test]
fn the_end_of_a_connection_is_announced() {
    let Some(authority) = authority("goodbye") else {
        return;
    };
    let (sender, ends) = mpsc::channel();
    let server = tls_server(&authority, move |_, mut stream| {
        assert!(echo(&mut stream, 100, 1));
        // Without the announcement it is an error: more could have followed.
        sender.send(stream.read(&mut [0]).ok()).unwrap();
    });
    let mut target = open_echo(&server, &trusting(&authority), 1, None).unwrap();
    assert_eq!(drive(&mut target, &[exchange(0, 100)]), [100]);
    drop(target);
    assert_eq!(ends.recv().unwrap(), Some(0));
}

#[test]
fn a_message_larger_than_all_buffers_goes_through_while_its_echo_comes() {
    let Some(authority) = authority("large") else {
        return;
    };
    let server = tls_server(&authority, |_, mut stream| {
        echo(&mut stream, 5_000, usize::MAX);
    });
    let mut target = open_echo(&server, &trusting(&authority), 2, None).unwrap();
    let operations = [20_000_000, 5_000, 20_000_000].map(|size| exchange(0, size));
    let results = drive(&mut target, &operations);
    assert_eq!(results, [20_000_000, 5_000, 20_000_000]);
    let described = target.describe();
    assert_eq!(described.sent_bytes, 40_005_000);
    assert_eq!(described.received_bytes, 40_005_000);
    assert_eq!(described.reconnects, 0);
}

#[test]
fn each_bad_end_costs_the_operation_and_no_other() {
    let Some(authority) = authority("ends") else {
        return;
    };
    // Three good exchanges on each connection, and a bad end in the fourth.
    let server = tls_server(&authority, |number, mut stream| {
        if !echo(&mut stream, 100, 3) {
            return;
        }
        let mut request = [0; 100];
        let _ = stream.read_exact(&mut request);
        match number % 5 {
            0 => reset(stream.sock),
            // Half an answer, and an announced end.
            1 => {
                let _ = stream.write_all(&request[..50]);
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
            // The same without notice.
            2 => {
                let _ = stream.write_all(&request[..50]);
                let _ = stream.flush();
            }
            // Bytes that nobody encrypted, with the head of a record and without.
            3 => {
                let _ = stream.sock.write_all(&[0x17, 3, 3, 0, 40]);
                let _ = stream.sock.write_all(&[7; 40]);
            }
            _ => {
                let _ = stream.sock.write_all(b"HTTP/1.1 500 No\r\n\r\n");
            }
        }
    });
    let mut target = open_echo(&server, &trusting(&authority), 5, None).unwrap();
    let results = drive(&mut target, &[exchange(0, 100); 400]);
    let count = |wanted: i32| results.iter().filter(|&&result| result == wanted).count();
    let (cut, lost) = (count(RESPONSE_CUT), count(-libc::ECONNRESET));
    let (good, lost, wrong) = (count(100), cut + lost, count(-libc::EPROTO));
    assert!(cut > 10, "{cut}");
    assert_eq!(good + lost + wrong, 400, "{results:?}");
    // Each connection has three good ones and a bad one.
    assert!((95..=105).contains(&(lost + wrong)), "{lost} {wrong}");
    assert!(lost > 30 && wrong > 20, "{lost} {wrong}");
    assert_eq!(target.describe().failed_connects, 0);
}

/// A server of TLS that serves one exchange of 10 bytes on its first connection; `then` has all others.
fn once(authority: &Authority, then: impl Fn(TcpStream) + Send + Sync + 'static) -> Server {
    let real = tls_server(authority, |_, mut stream| {
        echo(&mut stream, 10, 1);
    });
    let address = real.address;
    Server::start(move |number, mut stream| {
        if number > 0 {
            return then(stream);
        }
        let mut real = TcpStream::connect(address).unwrap();
        let (mut from, mut to) = (stream.try_clone().unwrap(), real.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        let _ = std::io::copy(&mut real, &mut stream);
        let _ = stream.shutdown(Shutdown::Both);
    })
}

/// Reads until the client closes the connection.
fn stay_silent(mut stream: TcpStream) {
    while stream.read(&mut [0; 1000]).is_ok_and(|length| length > 0) {}
}

#[test]
fn a_server_that_refuses_later_handshakes_gives_errors_and_not_a_hang() {
    let Some(authority) = authority("later") else {
        return;
    };
    let server = once(&authority, |mut stream| {
        let _ = stream.write_all(b"garbage, which no one could take for TLS");
        stay_silent(stream);
    });
    let mut target = open_echo(&server, &trusting(&authority), 1, None).unwrap();
    let results = drive(&mut target, &[exchange(0, 10); 4]);
    assert_eq!(results[0], 10);
    assert!(results[1..].iter().all(|&result| result < 0), "{results:?}");
    assert!(results[1..].contains(&-libc::EPROTO), "{results:?}");
    assert!(target.describe().failed_connects > 0);
}

#[test]
fn silence_and_one_byte_a_second_are_bounded_before_the_run_and_in_it() {
    let Some(authority) = authority("slow") else {
        return;
    };
    let tls = &trusting(&authority);
    let silent = Server::start(|_, stream| stay_silent(stream));
    let slow = Server::start(|_, mut stream| {
        let record = [0x16, 3, 3, 0x20, 0, 2, 0, 0x1f, 0xfc];
        for byte in record.into_iter().chain(std::iter::repeat(0)) {
            if stream.write_all(&[byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    let (later, limited) = (once(&authority, stay_silent), once(&authority, stay_silent));
    std::thread::scope(|scope| {
        for server in [&silent, &slow] {
            scope.spawn(move || {
                let refused = open_echo(server, tls, 3, None).unwrap_err();
                assert_eq!((refused.code, refused.status), ("tls", 2));
                assert!(refused.message.contains("no answer"), "{refused}");
            });
        }
        scope.spawn(|| {
            let mut target = open_echo(&later, tls, 1, None).unwrap();
            let results = drive(&mut target, &[exchange(0, 10); 3]);
            // The end of the first connection may come when the second operation has begun.
            assert_eq!(results[0], 10);
            assert!(
                [-libc::ETIMEDOUT, -libc::ECONNRESET].contains(&results[1]),
                "{results:?}"
            );
            assert_eq!(results[2], -libc::ETIMEDOUT);
            let failed = results[1..]
                .iter()
                .filter(|&&result| result == -libc::ETIMEDOUT);
            assert_eq!(target.describe().failed_connects, failed.count() as u64);
        });
        scope.spawn(|| {
            // The limit of an operation holds while its connection has a handshake.
            let mut target = open_echo(&limited, tls, 1, Some(50_000_000)).unwrap();
            let results = drive(&mut target, &[exchange(0, 10); 3]);
            assert_eq!(
                (results[0], results[2]),
                (10, -libc::ETIMEDOUT),
                "{results:?}"
            );
            assert_eq!(target.describe().failed_connects, 0);
        });
    });
}

#[test]
fn a_request_for_renegotiation_is_refused_and_nothing_hangs() {
    let Some(authority) = authority("renegotiation") else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let mut server = Command::new("/usr/bin/openssl")
        .args([
            "s_server",
            "-tls1_2",
            "-accept",
            &format!("127.0.0.1:{port}"),
        ])
        .args(["-cert", "server.pem", "-key", "server.key"])
        .current_dir(authority.file(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut input, mut output) = (server.stdin.take().unwrap(), server.stdout.take().unwrap());
    // It prints what it receives, and sends the lines that it reads; R is a command.
    let wait_for = |output: &mut ChildStdout, wanted: &[u8]| {
        let (mut seen, mut byte) = (Vec::new(), [0]);
        while !seen.ends_with(wanted) && matches!(output.read(&mut byte), Ok(1)) {
            seen.push(byte[0]);
        }
        seen.ends_with(wanted)
    };
    assert!(wait_for(&mut output, b"ACCEPT\n"));
    let spec = json!({"host": "127.0.0.1", "port": port, "connections": 1, "receive_bytes": 5,
        "timeout_ns": 20_000_000_000_u64, "tls": trusting(&authority)});
    let spec: TcpSpec = serde_json::from_value(spec).unwrap();
    let mut target = spec.plan(PlanOptions::default()).unwrap().open(1).unwrap();
    assert_eq!(target.describe().tls.unwrap().version, "TLSv1.2");
    let commands = std::thread::spawn(move || {
        assert!(wait_for(&mut output, &[0, 1, 2, 3, 4, 5, 6, 7]));
        input.write_all(b"R\n").unwrap();
        assert!(wait_for(&mut output, b"SSL_do_handshake"));
        // If the connection has survived, this is the answer.
        let _ = input.write_all(b"abcd\n");
        input
    });
    let results = drive(&mut target, &[exchange(0, 8)]);
    let possible = [5, -libc::EPROTO, -libc::ECONNRESET];
    assert!(possible.contains(&results[0]), "{results:?}");
    drop(commands.join().unwrap());
    server.kill().unwrap();
    server.wait().unwrap();
}
