//! The HTTP target with HTTP/2: against servers in threads that do what they should not, and against nginx.

#![allow(clippy::unwrap_used)]

use bw_load::PlanOptions;
use bw_load::http::Http2Target;
use bw_load::http::request::HttpSpec;
use bw_load::target::Target;
use bw_model::{EngineError, ExchangeAddress, Nanos};
use bw_record::errno::{CHECK_FAILED, RESPONSE_CUT};
use http2_frames::*;
use network::certificates::{Authority, Validity};
use network::nginx::Nginx;
use network::{Server, WARM_UP, drive, exchange, read_request, reset, with_warm_up};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

#[path = "../../bw-protocol/tests/http2_frames/mod.rs"]
mod http2_frames;
mod network;

/// A limit that no operation reaches, however busy the machine is.
const LONG: Duration = Duration::from_secs(120);

fn open(url: &str, more: Value) -> Result<Http2Target, EngineError> {
    let mut spec =
        json!({"url": url, "connections": 1, "http": "2", "timeout_ns": LONG.as_nanos() as u64});
    let fields = more.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(fields);
    let spec: HttpSpec = serde_json::from_value(spec).unwrap();
    spec.plan_http2(PlanOptions::default())?
        .open(spec.connections)
}

fn target(server: &Server, more: Value) -> Http2Target {
    open(&format!("http://{}/", server.address), more).unwrap()
}

/// A response of two bytes.
fn ok(stream: u32) -> Vec<u8> {
    let mut bytes = frame(HEADERS, END_HEADERS, stream, OK);
    bytes.extend(frame(DATA, END, stream, b"ok"));
    bytes
}

/// The server's side of a connection.
struct Peer {
    stream: TcpStream,
}

impl Peer {
    /// Reads the client's preface, and sends these settings; None if the client is gone.
    fn greet(mut stream: TcpStream, values: &[(u16, u32)]) -> Option<Self> {
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).ok()?;
        assert_eq!(&preface, PREFACE);
        stream.set_nodelay(true).unwrap();
        let mut peer = Self { stream };
        peer.send(&settings(values));
        Some(peer)
    }

    /// Sends bytes; returns whether the client is still there.
    fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    fn next(&mut self) -> Option<Frame> {
        Frame::read(&mut self.stream).ok()
    }

    /// Returns the stream of the next request; None at the end.
    fn request(&mut self) -> Option<u32> {
        loop {
            let frame = self.next()?;
            if frame.kind == HEADERS {
                assert_eq!(frame.flags & END_HEADERS, END_HEADERS);
                return Some(frame.stream);
            }
        }
    }

    /// Reads until the client closes.
    fn drain(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
        let _ = std::io::copy(&mut self.stream, &mut std::io::sink());
    }
}

/// A server that answers every request with `answer`.
fn answering(answer: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static) -> Server {
    Server::start(move |_, stream| {
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        while let Some(stream) = peer.request() {
            if !peer.send(&answer(stream)) {
                return;
            }
        }
    })
}

#[test]
fn thousands_of_streams_are_answered_in_any_order() {
    let server = Server::start(|_, stream| {
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        loop {
            // Without eight streams at once it would never answer; the last one first.
            let mut streams: Vec<u32> = (0..8).map_while(|_| peer.request()).collect();
            if streams.len() < 8 {
                return;
            }
            streams.reverse();
            let answers: Vec<u8> = streams.into_iter().flat_map(ok).collect();
            peer.send(&answers);
        }
    });
    let mut target = target(&server, json!({"connections": 4, "outstanding": 8}));
    assert_eq!(drive(&mut target, &[exchange(0, 0); 3200]), [2; 3200]);
    let described = target.describe();
    assert_eq!(
        (described.reconnects, described.timeouts, server.accepted()),
        (0, 0, 4)
    );
    assert_eq!(described.handshake_ns.unwrap().count, 4);
}

#[test]
fn each_request_has_its_path_its_fields_and_its_body() {
    static REQUESTS: Mutex<Vec<(Vec<u8>, usize)>> = Mutex::new(Vec::new());
    let server = Server::start(|_, stream| {
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        let (mut head, mut body) = (Vec::new(), 0);
        while let Some(frame) = peer.next() {
            match frame.kind {
                HEADERS => (head, body) = (frame.payload, 0),
                DATA => {
                    body += frame.payload.len();
                    let length = u32::try_from(frame.payload.len()).unwrap();
                    peer.send(&window_update(0, length));
                }
                _ => continue,
            }
            if frame.flags & END != 0 {
                REQUESTS
                    .lock()
                    .unwrap()
                    .push((std::mem::take(&mut head), body));
                peer.send(&ok(frame.stream));
            }
        }
    });
    let fields = json!({"paths": ["/a", "/"], "method": "PUT", "body_bytes": 50_000,
        "headers": [["Host", "named"], ["X-Own", "v"]]});
    let mut target = target(&server, fields);
    assert_eq!(
        drive(&mut target, &[exchange(0, 0), exchange(1, 0)]),
        [2, 2]
    );
    // Names of the static table by their indexes: method, scheme, authority, path, and of the fields user-agent and
    // content-length.
    let rest = b"\x0f\x2b\x0bbenchwright\x0f\x0d\x0550000\x00\x05x-own\x01v";
    let expected = [&b"\x04\x02/a"[..], b"\x84"].map(|path| {
        (
            [b"\x02\x03PUT\x86\x01\x05named", path, rest].concat(),
            50_000,
        )
    });
    assert_eq!(REQUESTS.lock().unwrap()[..], expected);
    assert_eq!(drive(&mut target, &[exchange(2, 0)]), [-libc::EINVAL]);
}

#[test]
fn fields_that_http_2_does_not_have_are_refused() {
    for field in [
        ["Connection", "close"],
        ["TE", "gzip"],
        ["Keep-Alive", "5"],
        ["X-Blank", "a "],
    ] {
        let labelled = |of_target: Value, of_request: Value| {
            let request = json!({"label": "l", "path": "/", "headers": of_request});
            json!({"headers": of_target, "requests": [request]})
        };
        for fields in [
            json!({"headers": [field]}),
            labelled(json!([field]), json!([])),
            labelled(json!([]), json!([field])),
        ] {
            let error = open("http://127.0.0.1:1/", fields).unwrap_err();
            assert_eq!(error.code, "header");
            assert!(error.remedy.contains("--http 1.1"), "{error}");
        }
    }
    let fields = json!({
        "values": {"v": {"type": "line", "lines": ["good", " bad"], "location": {"type": "sequential"}}},
        "requests": [{"label": "l", "path": "/", "headers": [["X-Blank", "${v}"]]}],
    });
    let error = open("http://127.0.0.1:1/", fields).unwrap_err();
    assert!(error.message.contains("line 2 of value v"), "{error}");
    assert!(error.message.starts_with("request l: "), "{error}");
}

#[test]
fn requests_with_labels_are_filled_and_their_answers_checked() {
    static REQUESTS: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
    // One byte at a time; the answer is the request's fields, and its body behind them.
    let server = Server::start(|_, stream| {
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        let mut request = Vec::new();
        while let Some(frame) = peer.next() {
            if !matches!(frame.kind, HEADERS | DATA) {
                continue;
            }
            request.extend(frame.payload);
            if frame.flags & END == 0 {
                continue;
            }
            let mut answer = self::frame(HEADERS, END_HEADERS, frame.stream, OK);
            answer.extend(self::frame(DATA, END, frame.stream, &request));
            REQUESTS.lock().unwrap().push(std::mem::take(&mut request));
            for byte in answer {
                peer.send(&[byte]);
            }
        }
    });
    let fields = json!({
        "headers": [["Host", "named"], ["X-All", "${not a place}"], ["X-Own", "of the target"]],
        "values": {"n": {"type": "counter"}},
        "requests": [
            {"label": "get", "path": "/${n}", "expect": {"contains": "/12"}},
            {"label": "put", "method": "PUT", "path": "/", "headers": [["X-Own", "${n}"], ["Host", "h${n}"]],
                "body": "<${n}>", "expect": {"contains": "<12>"}},
        ],
    });
    let mut target = target(&server, fields);
    let operations = [(0, 12), (1, 12), (0, 21), (1, 21)]
        .map(|(request, number)| exchange(ExchangeAddress { request, number }.pack(), 0));
    let results = drive(&mut target, &operations);
    // Names of the static table by their indexes: method, scheme, authority, path, user-agent, content-length.
    let agent = b"\x0f\x2b\x0bbenchwright\x00\x05x-all\x0e${not a place}";
    let get = |n: &str| {
        let own = b"\x00\x05x-own\x0dof the target";
        [b"\x82\x86\x01\x05named\x04\x03/", n.as_bytes(), agent, own].concat()
    };
    let put = |n: &str| {
        let n = n.as_bytes();
        let first = [b"\x02\x03PUT\x86\x01\x03h", n, b"\x84", agent].concat();
        let rest = [b"\x00\x05x-own\x02", n, b"\x0f\x0d\x014<", n, b">"].concat();
        [first, rest].concat()
    };
    let expected = [get("12"), put("12"), get("21"), put("21")];
    assert_eq!(REQUESTS.lock().unwrap()[..], expected);
    let length = |request: &Vec<u8>| request.len() as i32;
    assert_eq!(
        results,
        [
            length(&expected[0]),
            length(&expected[1]),
            CHECK_FAILED,
            CHECK_FAILED
        ]
    );
}

#[test]
fn a_server_without_http_2_is_an_error_before_the_run() {
    let server = Server::start(|_, mut stream| {
        if read_request(&mut stream).is_some() {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    let error = open(&format!("http://{}/", server.address), json!({})).unwrap_err();
    assert_eq!(error.code, "handshake");
    assert!(error.message.contains("HTTP/1, not HTTP/2"), "{error}");
    assert!(error.remedy.contains("--http 1.1"), "{error}");

    let server = Server::start(|_, mut stream| {
        let _ = stream.read(&mut [0; 100]);
        let _ = stream.write_all(&[0x55; 1000]);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let error = open(&format!("http://{}/", server.address), json!({})).unwrap_err();
    assert!(error.message.contains("not HTTP/2"), "{error}");
    // One that closes at once.
    let server = Server::start(|_, stream| drop(stream));
    let error = open(&format!("http://{}/", server.address), json!({})).unwrap_err();
    assert_eq!(error.code, "handshake");
}

#[test]
fn a_silent_server_costs_each_operation_its_limit_and_no_connection() {
    static RESETS: AtomicUsize = AtomicUsize::new(0);
    let server = Server::start(|_, stream| {
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        while let Some(frame) = peer.next() {
            if frame.kind == RST_STREAM {
                assert_eq!(frame.payload, [0, 0, 0, 8]);
                RESETS.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let fields = json!({"connections": 2, "outstanding": 4, "timeout_ns": 50_000_000});
    let mut target = target(&server, fields);
    assert_eq!(
        drive(&mut target, &[exchange(0, 0); 24]),
        [-libc::ETIMEDOUT; 24]
    );
    let described = target.describe();
    assert_eq!(
        (described.timeouts, described.reconnects, server.accepted()),
        (24, 0, 2)
    );
    drop(target);
    while RESETS.load(Ordering::SeqCst) < 24 {
        thread::yield_now();
    }
}

#[test]
fn answers_after_the_limit_are_nobody_s() {
    // Every fourth request is answered only when the next one has come, long after its limit.
    let server = Server::start(|_, stream| {
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        let mut late = None;
        while let Some(stream) = peer.request() {
            if let Some(late) = late.take() {
                peer.send(&ok(late));
            }
            if stream % 8 == 7 {
                late = Some(stream);
            } else {
                peer.send(&ok(stream));
            }
        }
    });
    let mut target = target(&server, json!({"timeout_ns": 500_000_000}));
    let results = drive(&mut target, &[exchange(0, 0); 16]);
    let late = results.iter().filter(|result| **result == -libc::ETIMEDOUT);
    let (late, good) = (
        late.count(),
        results.iter().filter(|result| **result == 2).count(),
    );
    // On a busy machine others may be late too.
    assert!(late >= 4 && late + good == 16, "{results:?}");
    assert_eq!(target.describe().reconnects, 0);
}

#[test]
fn garbage_fails_every_operation_on_its_connection() {
    let server = answering(|stream| {
        let mut word = u64::from(stream);
        // A linear congruential generator: any bytes do. The first frame is longer than allowed.
        (0..1000)
            .map(|_| {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (word >> 56) as u8 | 0x40
            })
            .collect()
    });
    let mut target = target(&server, json!({"connections": 2, "outstanding": 4}));
    let results = drive(&mut target, &[exchange(0, 0); 24]);
    let known = [-libc::EPROTO, -libc::ECONNRESET, -libc::EPIPE];
    assert!(
        results.iter().all(|result| known.contains(result)),
        "{results:?}"
    );
    assert!(results.contains(&-libc::EPROTO));
}

#[test]
fn a_byte_at_a_time_is_slow_and_right() {
    let server = Server::start(|_, stream| {
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        while let Some(stream) = peer.request() {
            for byte in ok(stream) {
                if !peer.send(&[byte]) {
                    return;
                }
                thread::sleep(Duration::from_micros(50));
            }
        }
    });
    let mut target = target(&server, json!({"connections": 2, "outstanding": 4}));
    assert_eq!(drive(&mut target, &[exchange(0, 0); 40]), [2; 40]);
}

#[test]
fn connections_that_close_at_random_places_lose_only_what_they_carried() {
    static PLACE: AtomicUsize = AtomicUsize::new(1);
    let server = Server::start(|_, stream| {
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        while let Some(stream) = peer.request() {
            // Pseudo-random, the same in each run: a multiplicative sequence modulo a prime.
            let place = PLACE.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |place| {
                Some(place * 75 % 65_537)
            });
            match place.unwrap() % 16 {
                0 => return reset(peer.stream),
                1 => {
                    peer.send(&ok(stream)[..15]);
                    return;
                }
                _ => {
                    if !peer.send(&ok(stream)) {
                        return;
                    }
                }
            }
        }
    });
    let mut target = target(&server, json!({"connections": 4, "outstanding": 8}));
    let results = drive(&mut target, &[exchange(0, 0); 2000]);
    let known = [2, -libc::ECONNRESET, -libc::EPIPE, RESPONSE_CUT];
    assert!(
        results.iter().all(|result| known.contains(result)),
        "{results:?}"
    );
    let good = results.iter().filter(|result| **result == 2).count();
    assert!((200..2000).contains(&good), "{good}");
}

#[test]
fn headers_without_end_fail_their_connection() {
    for piece in [0, 16_384] {
        let server = Server::start(move |_, stream| {
            let Some(mut peer) = Peer::greet(stream, &[]) else {
                return;
            };
            if let Some(stream) = peer.request() {
                peer.send(&frame(HEADERS, 0, stream, OK));
                let more = frame(CONTINUATION, 0, stream, &vec![0; piece]);
                // Without a limit of the reader this goes on for ever.
                while peer.send(&more) {}
            }
        });
        let mut target = target(&server, json!({"outstanding": 2}));
        let results = drive(&mut target, &[exchange(0, 0); 6]);
        assert_eq!(results, [-libc::EPROTO; 6]);
    }
}

#[test]
fn requests_behind_goaway_are_sent_again_and_counted_exactly() {
    const ENDED: usize = 20;
    let server = Server::start(|number, stream| {
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        if number < ENDED {
            // Four requests, of which the first two are processed.
            let streams: Vec<u32> = (0..4).map_while(|_| peer.request()).collect();
            let last = streams[1].to_be_bytes();
            let goaway = frame(GOAWAY, 0, 0, &[last, [0; 4]].concat());
            peer.send(&[ok(streams[0]), ok(streams[1]), goaway].concat());
            return peer.drain();
        }
        while let Some(stream) = peer.request() {
            peer.send(&ok(stream));
        }
    });
    let mut target = target(&server, json!({"outstanding": 4}));
    assert_eq!(drive(&mut target, &[exchange(0, 0); 200]), [2; 200]);
    let described = target.describe();
    let counts = (
        described.resent,
        described.reconnects,
        described.failed_connects,
    );
    assert_eq!(counts, (2 * ENDED as u64, ENDED as u64, 0));
    assert_eq!(server.accepted(), ENDED + 1);
}

#[test]
fn goaway_before_a_failed_write_is_read() {
    let (closed, is_closed) = std::sync::mpsc::channel();
    let server = Server::start(move |number, stream| {
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        if number > 0 {
            while let Some(stream) = peer.request() {
                peer.send(&ok(stream));
            }
            return;
        }
        let first = peer.request().unwrap();
        peer.send(&ok(first));
        peer.request().unwrap();
        let last = first.to_be_bytes();
        peer.send(&frame(GOAWAY, 0, 0, &[last, [0; 4]].concat()));
        reset(peer.stream);
        closed.send(()).unwrap();
    });
    let mut target = target(&server, json!({"outstanding": 4}));
    assert_eq!(drive(&mut target, &[exchange(0, 0)]), [2]);
    target.submit(0, &exchange(0, 0));
    target.flush().unwrap();
    is_closed.recv().unwrap();
    // Its connection has an operation in progress, so it is not read before the write, which fails.
    target.submit(1, &exchange(0, 0));
    target.flush().unwrap();
    let mut ends = Vec::with_capacity(2);
    while ends.len() < 2 {
        target.reap(&mut ends).unwrap();
        if ends.is_empty() {
            target.wait(Nanos::SECOND).unwrap();
        }
    }
    assert!(ends.iter().all(|end| end.result == 2), "{ends:?}");
    assert_eq!(target.describe().resent, 2);
}

#[test]
fn streams_that_are_reset_or_refused_are_errors_of_their_operations() {
    let server = answering(|stream| match stream % 6 {
        1 => ok(stream),
        3 => frame(RST_STREAM, 0, stream, &[0, 0, 0, 7]),
        _ => frame(RST_STREAM, 0, stream, &[0, 0, 0, 2]),
    });
    let mut target = target(&server, json!({}));
    let results = drive(&mut target, &[exchange(0, 0); 9]);
    let three = [2, -libc::ECONNREFUSED, -libc::ECONNRESET];
    assert_eq!(results, three.repeat(3));
    let described = target.describe();
    assert_eq!((described.resent, described.reconnects), (0, 0));
}

/// Receives requests with bodies, and answers each with a body as long; `allow` says what is sent when a piece of a body,
/// or a head without one (0 bytes), has arrived on a stream.
fn body_server(
    values: Vec<(u16, u32)>,
    allow: impl Fn(u32, usize) -> Vec<u8> + Send + Sync + 'static,
) -> Server {
    Server::start(move |_, stream| {
        let Some(mut peer) = Peer::greet(stream, &values) else {
            return;
        };
        let mut bodies: BTreeMap<u32, usize> = BTreeMap::new();
        while let Some(Frame {
            kind,
            flags,
            stream,
            payload,
        }) = peer.next()
        {
            let piece = match kind {
                HEADERS => 0,
                DATA => payload.len(),
                _ => continue,
            };
            assert!(kind == HEADERS || payload.iter().all(|byte| *byte == b'x'));
            *bodies.entry(stream).or_default() += piece;
            let mut sent = Vec::new();
            if piece > 0 {
                // The window of the connection is never the limit.
                sent.extend(window_update(0, u32::try_from(piece).unwrap()));
            }
            if flags & END == 0 {
                sent.extend(allow(stream, piece));
            } else {
                let body = vec![b'b'; bodies.remove(&stream).unwrap()];
                sent.extend(frame(HEADERS, END_HEADERS, stream, OK));
                for piece in body.chunks(16_384) {
                    sent.extend(frame(DATA, 0, stream, piece));
                }
                sent.extend(frame(DATA, END, stream, b""));
            }
            if !peer.send(&sent) {
                return;
            }
        }
    })
}

#[test]
fn a_window_of_zero_holds_a_body_until_it_is_opened() {
    // First nothing, then 1,000 bytes at a time.
    let server = body_server(vec![(4, 0)], |stream, _| window_update(stream, 1000));
    let mut target = target(&server, json!({"outstanding": 4, "body_bytes": 30_500}));
    assert_eq!(drive(&mut target, &[exchange(0, 0); 20]), [30_500; 20]);
    assert_eq!(target.describe().reconnects, 0);
}

#[test]
fn settings_that_shrink_the_window_hold_the_bodies_that_exceed_it() {
    // The window is 20,000 bytes, then 5,000 with streams that have used more; each piece gives as much as it took.
    let server = body_server(vec![(4, 20_000)], |stream, piece| {
        if piece == 0 {
            return settings(&[(4, 5000)]);
        }
        window_update(stream, u32::try_from(piece).unwrap())
    });
    let mut target = target(&server, json!({"outstanding": 3, "body_bytes": 60_000}));
    assert_eq!(drive(&mut target, &[exchange(0, 0); 12]), [60_000; 12]);
    assert_eq!(target.describe().reconnects, 0);
}

#[test]
fn megabytes_in_both_directions() {
    let server = body_server(vec![(4, 1 << 20)], |_, _| Vec::new());
    let mut target = target(
        &server,
        json!({"connections": 2, "outstanding": 2, "body_bytes": 1_000_000}),
    );
    assert_eq!(drive(&mut target, &[exchange(0, 0); 12]), [1_000_000; 12]);
}

#[test]
fn a_server_that_allows_one_stream_gets_one_at_a_time() {
    let server = Server::start(|_, stream| {
        let Some(mut peer) = Peer::greet(stream, &[(3, 1)]) else {
            return;
        };
        while let Some(stream) = peer.request() {
            // Time for a second one, which must not come.
            thread::sleep(Duration::from_millis(1));
            peer.stream.set_nonblocking(true).unwrap();
            let other = peer.stream.peek(&mut [0; 1]);
            peer.stream.set_nonblocking(false).unwrap();
            assert!(other.is_err(), "more streams than allowed: {other:?}");
            peer.send(&ok(stream));
        }
    });
    let mut target = target(&server, json!({"outstanding": 16}));
    assert_eq!(drive(&mut target, &[exchange(0, 0); 200]), [2; 200]);
    let described = target.describe();
    assert_eq!((described.reconnects, described.timeouts), (0, 0));
}

#[test]
fn a_request_larger_than_the_server_allows_is_an_error_of_its_own() {
    let server = Server::start(|_, stream| {
        let Some(mut peer) = Peer::greet(stream, &[(6, 100)]) else {
            return;
        };
        while let Some(stream) = peer.request() {
            peer.send(&ok(stream));
        }
    });
    let mut target = target(&server, json!({}));
    let results = drive(&mut target, &[exchange(0, 0); 3]);
    assert_eq!(results, [-libc::EMSGSIZE; 3]);
}

#[test]
fn a_flood_of_pings_delays_answers_and_loses_none() {
    let server = answering(|stream| {
        let mut bytes = frame(PING, 0, 0, b"12345678").repeat(2000);
        bytes.extend(settings(&[(4, stream)]).repeat(100));
        bytes.extend(ok(stream));
        bytes
    });
    let mut target = target(&server, json!({"outstanding": 4}));
    assert_eq!(drive(&mut target, &[exchange(0, 0); 100]), [2; 100]);
    assert!(target.describe().sent_bytes > 100 * 2000 * 17);
}

#[test]
fn a_flood_of_pings_whose_answers_nobody_reads_fails_its_connection() {
    let server = Server::start(|_, stream| {
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        if peer.request().is_some() {
            let pings = frame(PING, 0, 0, b"12345678").repeat(1000);
            while peer.send(&pings) {}
        }
    });
    let mut target = target(&server, json!({}));
    assert_eq!(drive(&mut target, &[exchange(0, 0)]), [-libc::EPROTO]);
}

/// An authority with a certificate for localhost.
fn authority(test: &str) -> Option<Authority> {
    let authority = Authority::make(test)?;
    authority.issue("server", "DNS:localhost,IP:127.0.0.1", Validity::Now);
    Some(authority)
}

#[test]
fn nginx_with_tls_and_without() {
    let Some(authority) = authority("http2") else {
        return;
    };
    // nginx ends a connection with GOAWAY after 300 requests.
    let Some(secure) = Nginx::start_tls_http2("h2-tls", 50_000, 300, &authority) else {
        return;
    };
    let Some(plain) = Nginx::start_http2("h2c", 50_000, 300) else {
        return;
    };
    let fields = json!({"paths": ["/", "/none"], "connections": 2, "outstanding": 100});
    let operations: Vec<_> = (0..5000)
        .map(|number| exchange(u64::from(number % 10 == 0), 0))
        .collect();
    for (scheme, port) in [("https", secure.port), ("http", plain.port)] {
        let mut fields = fields.clone();
        if scheme == "https" {
            fields["tls"] = json!({"ca": authority.file("ca.pem")});
        }
        let mut target = open(&format!("{scheme}://localhost:{port}/"), fields).unwrap();
        for (operation, result) in operations.iter().zip(drive(&mut target, &operations)) {
            assert_eq!(result, [50_000, -10_404][operation.offset as usize]);
        }
        let described = target.describe();
        assert!((14..=17).contains(&described.reconnects), "{described:?}");
        assert!(described.resent > 0, "{described:?}");
        let alpn = described.tls.map(|tls| tls.alpn.unwrap());
        assert_eq!(alpn.as_deref(), (scheme == "https").then_some("h2"));
    }
}

#[test]
fn nginx_without_http_2_is_refused_with_what_to_do() {
    let Some(authority) = authority("http2-refused") else {
        return;
    };
    let Some(secure) = Nginx::start_tls(("h1-tls", "TLSv1.3"), 10, 300, &authority) else {
        return;
    };
    let Some(plain) = Nginx::start("h1", 10, 300) else {
        return;
    };
    let tls = json!({"tls": {"ca": authority.file("ca.pem")}});
    let error = open(&format!("https://localhost:{}/", secure.port), tls).unwrap_err();
    assert_eq!(error.code, "tls");
    assert!(error.message.contains("version of HTTP"), "{error}");
    assert!(error.remedy.contains("--http"), "{error}");
    let error = open(&format!("http://localhost:{}/", plain.port), json!({})).unwrap_err();
    assert!(error.message.contains("HTTP/1, not HTTP/2"), "{error}");
}

#[test]
fn statuses_of_the_warm_up_are_not_counted() {
    let server = answering(ok);
    let mut target = target(&server, json!({"outstanding": 8}));
    target.measure_from(WARM_UP);
    let operations = with_warm_up(exchange(0, 0), 30, 10);
    assert_eq!(drive(&mut target, &operations), [2; 40]);
    assert_eq!(target.describe().statuses.unwrap().status_2xx, 10);
}
