//! Loads whose answers are streams, against servers in threads: from the request to the result.

#![allow(clippy::unwrap_used)]

use bw_load::PlanOptions;
use bw_load::http::request::HttpSpec;
use bw_load::merge::{MergeRequest, merge};
use bw_load::request::LoadRequest;
use bw_load::run::run;
use bw_load::target::{Reaped, Target};
use bw_sys::clock::monotonic_ns;
use http2_frames::*;
use network::certificates::{Authority, Validity};
use network::{LONG, Server, exchange, read_request};
use rustls::ServerConnection;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

#[path = "../../bw-protocol/tests/http2_frames/mod.rs"]
mod http2_frames;
mod network;

/// How far apart the servers write events.
const APART: Duration = Duration::from_millis(20);

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fn chunk(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

/// Answers each request with these parts, [`APART`] of each other; a last empty part lets the connection be lost.
fn answering(parts: &'static [&'static str]) -> Server {
    Server::start(move |_, mut stream| {
        stream.set_nodelay(true).unwrap();
        while read_request(&mut stream).is_some() {
            if !answer(&mut stream, parts) {
                return;
            }
        }
    })
}

fn answer(stream: &mut TcpStream, parts: &[&str]) -> bool {
    let mut sent = stream.write_all(CHUNKED.as_bytes()).is_ok();
    for part in parts {
        thread::sleep(APART);
        sent &= !part.is_empty() && stream.write_all(chunk(part).as_bytes()).is_ok();
        if !sent {
            return false;
        }
    }
    stream.write_all(b"0\r\n\r\n").is_ok()
}

fn target(server: &Server, events: &Value) -> Value {
    json!({"kind": "http", "url": format!("http://{}/", server.address), "connections": 2, "events": events,
        "timeout_ns": LONG.as_nanos() as u64})
}

/// A closed loop of this many users without think times.
fn users(users: u32) -> Value {
    let constant = json!({"type": "constant", "value": 0});
    json!({"type": "closed", "users": users, "think": constant, "access": {"kinds": [["exchange", 1]],
        "size": constant, "location": {"type": "uniform"}, "align_bytes": 1}})
}

/// Returns the result of a load on this target.
fn load(target: &Value, filaments: &[Value], more: Value) -> Value {
    let mut request = json!({"target": target, "workload": {"seed": 1, "filaments": filaments},
        "duration_ns": 500_000_000, "lock_memory": false});
    let fields = more.as_object().unwrap().clone();
    request.as_object_mut().unwrap().extend(fields);
    let request: LoadRequest = serde_json::from_value(request).unwrap();
    serde_json::to_value(run(&request, &mut ()).unwrap()).unwrap()
}

fn lines(end: Option<&str>) -> Value {
    json!({"format": "lines", "end": end})
}

fn number(of: &Value) -> u64 {
    of.as_u64().unwrap()
}

#[test]
fn the_result_has_the_times_of_the_events() {
    let server = answering(&["a\n", "b\n", "c\nd\n", "end\n"]);
    let limits =
        json!({"good": [{"of": "first", "limit_ns": 1}, {"of": "gap", "limit_ns": u64::MAX}]});
    let result = load(
        &target(&server, &lines(Some("end"))),
        &[users(2)],
        json!({"streams": limits, "interval_ns": 50_000_000}),
    );
    let streams = &result["streams"];
    let count = number(&streams["operations"]);
    assert!(count >= 2 && streams["succeeded"] == count, "{streams}");
    assert_eq!(result["kinds"]["all"]["operations"], count);
    assert_eq!((&streams["cut"], &streams["good"]), (&json!(0), &json!(0)));
    assert_eq!(number(&streams["events"]), 5 * count);
    assert_eq!(number(&streams["content_events"]), 4 * count);
    // On a machine that is behind more events share a read.
    let shared = number(&streams["shared_events"]);
    assert!(shared >= count, "{streams}");
    assert_eq!(number(&streams["gap_ns"]["count"]), 3 * count - shared);
    for (time, ended) in [
        ("first_ns", true),
        ("first_service_ns", true),
        ("first_visible_ns", true),
        ("first_event_ns", true),
        ("last_ns", true),
        ("tpot_ns", false),
    ] {
        let expected = if ended { count } else { 0 };
        assert_eq!(streams[time]["count"], expected, "{time}");
    }
    let apart = APART.as_nanos() as u64;
    assert!(number(&streams["first_service_ns"]["min"]) >= apart);
    assert!(number(&streams["last_ns"]["min"]) >= 3 * apart);
    let whole = &result["kinds"]["all"]["response_ns"];
    assert!(number(&whole["min"]) >= 4 * apart);
    for row in streams["timeline"].as_array().unwrap() {
        let times: Vec<u64> = (0..5).map(|place| number(&row[place])).collect();
        assert!(times.is_sorted(), "{row}");
        assert!(times[2] - times[1] >= apart && times[3] - times[1] >= 3 * apart);
        assert_eq!((&row[5], &row[6]), (&Value::Null, &json!(12)));
    }
    let intervals = result["intervals"].as_array().unwrap();
    assert!(
        intervals
            .iter()
            .all(|one| one["good"] == 0 && one["tokens"] == 0)
    );
    assert!(intervals.iter().any(|one| one["first_ns_p50"].is_u64()));
}

#[test]
fn a_load_without_events_has_no_streams() {
    let server = answering(&["a\n"]);
    let result = load(&target(&server, &Value::Null), &[users(2)], json!({}));
    assert!(result.get("streams").is_none());
    let interval = &result["intervals"][0];
    assert!(interval.get("tokens").is_none() && interval.get("good").is_none());
}

#[test]
fn limits_without_events_are_refused() {
    let request = json!({"target": {"kind": "null"}, "workload": {"seed": 1, "filaments": [users(1)]},
        "streams": {"good": []}, "duration_ns": 1});
    let request: LoadRequest = serde_json::from_value(request).unwrap();
    let error = request.check().unwrap_err();
    assert_eq!(error.location.unwrap().field.as_deref(), Some("streams"));
}

#[test]
fn what_cannot_be_a_stream_is_refused() {
    let sse = json!({"format": "sse"});
    for fields in [
        json!({"method": "HEAD", "events": sse}),
        json!({"requests": [{"label": "l", "path": "/", "method": "HEAD"}], "events": sse}),
        json!({"events": {"format": "lines", "end": ""}}),
    ] {
        let mut spec = json!({"url": "http://127.0.0.1:9/", "connections": 1});
        let fields = fields.as_object().unwrap().clone();
        spec.as_object_mut().unwrap().extend(fields);
        let spec: HttpSpec = serde_json::from_value(spec).unwrap();
        let errors = [
            spec.plan(PlanOptions::default()).unwrap_err(),
            spec.plan_http2(PlanOptions::default()).unwrap_err(),
        ];
        assert!(errors.iter().all(|error| error.code == "events"));
    }
}

#[test]
fn a_stream_over_a_unix_socket_says_nothing_of_its_reads() {
    let path = std::env::temp_dir().join(format!("bw-streams-{}", std::process::id()));
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {
                    let answer = CHUNKED.to_owned() + &chunk("a\n") + "0\r\n\r\n";
                    stream.write_all(answer.as_bytes()).unwrap();
                }
            });
        }
    });
    let target = json!({"kind": "http", "url": "http://localhost/", "unix_socket": path, "connections": 2,
        "events": lines(None)});
    let result = load(&target, &[users(2)], json!({"duration_ns": 50_000_000}));
    std::fs::remove_file(&path).unwrap();
    let streams = &result["streams"];
    assert!(number(&streams["first_ns"]["count"]) > 0);
    assert_eq!(streams["read_lateness_ns"]["count"], 0);
}

#[test]
fn a_stream_that_is_cut_fails_however_it_ends() {
    for parts in [&["a\n", "b\n"][..], &["a\n", "b\n", ""]] {
        let server = answering(parts);
        let result = load(
            &target(&server, &lines(Some("end"))),
            &[users(2)],
            json!({}),
        );
        let streams = &result["streams"];
        let count = number(&streams["operations"]);
        assert!(count > 0);
        assert_eq!(number(&streams["cut"]), count, "{result}");
        assert_eq!(
            (&streams["succeeded"], &streams["good"]),
            (&json!(0), &Value::Null)
        );
        assert_eq!(
            result["kinds"]["all"]["errors"],
            json!({"stream cut": count})
        );
        assert_eq!(streams["first_ns"]["count"], 0);
    }
}

#[test]
fn limits_of_the_first_event_and_of_gaps_end_a_stream() {
    let headers_only = Server::start(|_, mut stream| {
        while read_request(&mut stream).is_some() {
            stream.write_all(CHUNKED.as_bytes()).unwrap();
            network::be_silent(&mut stream);
        }
    });
    let mut events = lines(None);
    events["first_timeout_ns"] = json!(30_000_000);
    let result = load(&target(&headers_only, &events), &[users(2)], json!({}));
    let count = number(&result["streams"]["operations"]);
    assert!(count > 0);
    assert_eq!(
        result["kinds"]["all"]["errors"],
        json!({"ETIMEDOUT": count})
    );
    assert_eq!(result["target"]["timeouts"], count);

    let stalls = Server::start(|_, mut stream| {
        while read_request(&mut stream).is_some() {
            let begin = CHUNKED.to_owned() + &chunk("a\n");
            stream.write_all(begin.as_bytes()).unwrap();
            network::be_silent(&mut stream);
        }
    });
    let mut events = lines(None);
    events["gap_timeout_ns"] = json!(30_000_000);
    let result = load(&target(&stalls, &events), &[users(2)], json!({}));
    let count = number(&result["streams"]["operations"]);
    assert!(count > 0);
    assert_eq!(
        result["kinds"]["all"]["errors"],
        json!({"stream stalled": count})
    );
    // The first event is known.
    assert!(result["streams"]["timeline"][0][2].is_u64());
}

/// Returns an answer's chunk with so many content events of a language model.
fn words(count: usize) -> String {
    chunk(&"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n".repeat(count))
}

/// What ends an answer of a language model with ten tokens.
fn ten_tokens() -> String {
    chunk("data: {\"choices\":[],\"usage\":{\"completion_tokens\":10}}\n\ndata: [DONE] \n\n")
}

/// Answers each request with these pieces, [`APART`] of each other, and does `then` with the connection; true: it goes on.
fn writing(
    pieces: Vec<String>,
    then: impl Fn(&mut TcpStream) -> bool + Send + Sync + 'static,
) -> Server {
    Server::start(move |_, mut stream| {
        stream.set_nodelay(true).unwrap();
        while read_request(&mut stream).is_some() {
            for piece in &pieces {
                thread::sleep(APART);
                if stream.write_all(piece.as_bytes()).is_err() {
                    return;
                }
            }
            if !then(&mut stream) {
                return;
            }
        }
    })
}

fn chat() -> Value {
    json!({"format": "sse", "meaning": "chat"})
}

#[test]
fn events_of_one_read_have_no_time_per_token() {
    let tpot = json!({"streams": {"good": [{"of": "tpot", "limit_ns": 3_600_000_000_000_u64}]}});
    // All at once; one event with all tokens; the first two together, others later.
    for (contents, without_tpot, first_shared) in [
        (vec![words(5)], true, true),
        (vec![words(1)], true, false),
        (vec![words(2), words(1)], false, true),
    ] {
        let mut pieces = vec![CHUNKED.to_owned()];
        pieces.extend(contents);
        pieces.push(ten_tokens() + "0\r\n\r\n");
        let server = writing(pieces, |_| true);
        let result = load(&target(&server, &chat()), &[users(2)], tpot.clone());
        let streams = &result["streams"];
        let count = number(&streams["succeeded"]);
        assert!(count > 0 && streams["operations"] == count, "{result}");
        let of_all = |all: bool| if all { count } else { 0 };
        assert_eq!(streams["with_tokens"], count);
        assert_eq!(streams["without_tpot"], of_all(without_tpot), "{streams}");
        assert_eq!(streams["tpot_ns"]["count"], of_all(!without_tpot));
        assert_eq!(streams["good"], of_all(!without_tpot));
        assert_eq!(streams["first_shared"], of_all(first_shared));
        assert_eq!(streams["without_events"], 0);
    }
}

#[test]
fn tokens_count_where_their_events_arrive() {
    // Ten tokens in 200 ms: no stream ends in the load.
    let mut pieces = vec![CHUNKED.to_owned()];
    pieces.extend((0..10).map(|_| words(1)));
    pieces.push(ten_tokens() + "0\r\n\r\n");
    let server = writing(pieces, |_| true);
    let target = target(&server, &chat());
    let result = load(&target, &[users(2)], json!({"duration_ns": 150_000_000}));
    let streams = &result["streams"];
    assert_eq!(
        (&streams["succeeded"], &streams["tokens"]),
        (&json!(2), &json!(20))
    );
    // At most six events of each stream, on a machine that is behind less.
    let rate = streams["tokens_per_s"].as_f64().unwrap();
    assert!(rate > 0.0 && rate < 20.0 / 0.15, "{streams}");
    // Streams that began in the warm-up, and go on after it.
    let more = json!({"duration_ns": 200_000_000, "warm_up_ns": 100_000_000});
    let result = load(&target, &[users(2)], more);
    let rate = result["streams"]["tokens_per_s"].as_f64().unwrap();
    assert!(rate > 0.0 && rate < 20.0 / 0.1, "{result}");
}

#[test]
fn what_happens_to_a_connection_after_the_end_mark_is_no_failure() {
    let answer = || vec![CHUNKED.to_owned() + &words(1), words(1) + &ten_tokens()];
    let bytes = 2 * 43 + 78;
    type Then = fn(&mut TcpStream) -> bool;
    let reset: Then = |stream| {
        let socket = socket2::SockRef::from(&*stream);
        socket.set_linger(Some(Duration::ZERO)).unwrap();
        false
    };
    let silent: Then = |stream| {
        network::be_silent(stream);
        false
    };
    let late: Then = |stream| {
        thread::sleep(4 * APART);
        stream.write_all(b"0\r\n\r\n").is_ok()
    };
    let gap = json!({"format": "sse", "meaning": "chat", "gap_timeout_ns": 60_000_000});
    for (then, events, timeout_ns, timeouts) in [
        (reset, chat(), LONG.as_nanos() as u64, false),
        (silent, chat(), 1_000_000_000, true),
        (late, gap, LONG.as_nanos() as u64, false),
    ] {
        let server = writing(answer(), then);
        let mut target = target(&server, &events);
        target["timeout_ns"] = json!(timeout_ns);
        let result = load(&target, &[users(2)], json!({}));
        let streams = &result["streams"];
        let count = number(&streams["operations"]);
        assert!(count > 0 && streams["succeeded"] == count, "{result}");
        assert_eq!(result["kinds"]["all"]["errors"], json!({}));
        assert_eq!(number(&result["target"]["timeouts"]) > 0, timeouts);
        assert_eq!(streams["timeline"][0][6], bytes);
    }
}

#[test]
fn answers_that_are_no_streams_fail_by_their_name() {
    let coded = CHUNKED.replace("\r\n\r\n", "\r\nContent-Encoding: gzip\r\n\r\n");
    let body = words(1) + &ten_tokens();
    for (answer, error) in [
        (
            "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
            "HTTP 302",
        ),
        (coded.clone() + &body + "0\r\n\r\n", "stream encoded"),
        // Also if it does not end in order.
        (coded + &body, "stream encoded"),
    ] {
        let is_whole = answer.ends_with("\r\n\r\n");
        let server = writing(vec![answer], move |_| is_whole);
        let result = load(&target(&server, &chat()), &[users(2)], json!({}));
        let count = number(&result["streams"]["operations"]);
        assert!(count > 0);
        assert_eq!(result["kinds"]["all"]["errors"], json!({error: count}));
        assert_eq!(result["streams"]["events"], 0);
    }
}

#[test]
fn streams_without_an_event_are_counted() {
    let server = writing(vec![CHUNKED.to_owned() + "0\r\n\r\n"], |_| true);
    let result = load(&target(&server, &lines(None)), &[users(2)], json!({}));
    let streams = &result["streams"];
    assert!(number(&streams["succeeded"]) > 0);
    assert_eq!(streams["without_events"], streams["succeeded"]);
}

#[test]
fn the_last_event_without_an_end_leaves_no_limit_behind() {
    // It is complete only with the connection, after which its slot has nothing in progress.
    let server = Server::start(|_, mut stream| {
        if read_request(&mut stream).is_some() {
            let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\na\nb";
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let mut events = lines(None);
    events["gap_timeout_ns"] = json!(20_000_000);
    let mut slow = users(2);
    slow["think"] = json!({"type": "constant", "value": 60_000_000});
    let result = load(&target(&server, &events), &[slow], json!({}));
    let streams = &result["streams"];
    assert!(number(&streams["succeeded"]) > 2);
    assert_eq!(streams["succeeded"], streams["operations"], "{result}");
    assert_eq!(result["target"]["timeouts"], 0);
}

#[test]
fn several_targets_have_their_own_streams() {
    let (one, two) = (
        answering(&["a\n", "end\n"]),
        answering(&["a\n", "b\n", "c\n", "end\n"]),
    );
    let named = |name: &str, place: usize, target: Value| json!({"name": name, "filaments": [place], "target": target});
    let events = lines(Some("end"));
    let plain = answering(&["x\n"]);
    let several = json!({"kind": "several", "targets": [
        named("one", 0, target(&one, &events)), named("plain", 1, target(&plain, &Value::Null)),
        named("two", 2, target(&two, &events)),
    ]});
    let result = load(&several, &[users(2), users(2), users(2)], json!({}));
    let streams = &result["streams"];
    let rows = streams["timeline"].as_array().unwrap();
    // By the bytes of its body.
    let of = |bytes: u64| rows.iter().filter(|row| row[6] == bytes).count() as u64;
    let (ones, twos) = (of(6), of(10));
    assert!(ones > 0 && twos > 0 && rows.len() < 300);
    assert_eq!(number(&streams["succeeded"]), ones + twos);
    assert_eq!(number(&streams["content_events"]), ones + 3 * twos);
    assert!(number(&result["kinds"]["all"]["operations"]) > ones + twos);
    for row in rows {
        let (first, last) = (number(&row[2]), number(&row[3]));
        assert!(
            if row[6] == 6 {
                first == last
            } else {
                first <= last
            },
            "{row}"
        );
    }
}

/// Answers each request of HTTP/2 with these parts as DATA frames, [`APART`] of each other; `reset` resets its stream, an
/// empty last part leaves it without an end. The streams of a connection are answered one after the other.
fn answering_two(parts: &'static [&'static str]) -> Server {
    Server::start(move |_, mut stream| {
        stream.set_nodelay(true).unwrap();
        stream.read_exact(&mut [0; 24]).unwrap();
        stream.write_all(&settings(&[])).unwrap();
        while let Ok(request) = Frame::read(&mut stream) {
            if request.kind != HEADERS {
                continue;
            }
            let mut frames = vec![frame(HEADERS, END_HEADERS, request.stream, OK)];
            for (place, part) in parts.iter().enumerate() {
                let last = place + 1 == parts.len() && !part.is_empty();
                frames.push(match *part {
                    "reset" => rst_stream(request.stream, 2),
                    part => frame(DATA, u8::from(last), request.stream, part.as_bytes()),
                });
            }
            for frame in frames {
                thread::sleep(APART);
                if stream.write_all(&frame).is_err() {
                    return;
                }
            }
        }
    })
}

#[test]
fn streams_of_http_2_have_the_same_figures() {
    let server = answering_two(&["a\n", "b\n", "end\n"]);
    let mut target = target(&server, &lines(Some("end")));
    target["http"] = json!("2");
    let result = load(&target, &[users(2)], json!({}));
    let streams = &result["streams"];
    let count = number(&streams["succeeded"]);
    assert!(count >= 2 && number(&streams["operations"]) == count);
    assert_eq!(number(&streams["content_events"]), 2 * count);
    let apart = APART.as_nanos() as u64;
    assert!(number(&streams["first_service_ns"]["min"]) >= 2 * apart);
    assert!(number(&streams["last_ns"]["min"]) >= 3 * apart);
}

#[test]
fn a_stream_of_http_2_that_is_reset_is_cut_once_it_has_begun() {
    for (parts, error) in [
        (&["a\n", "reset"][..], "stream cut"),
        (&["reset"], "ECONNRESET"),
    ] {
        let mut target = target(&answering_two(parts), &lines(Some("end")));
        target["http"] = json!("2");
        let result = load(&target, &[users(2)], json!({}));
        let count = number(&result["streams"]["operations"]);
        assert!(count > 0);
        assert_eq!(result["kinds"]["all"]["errors"], json!({error: count}));
        assert_eq!(result["target"]["reconnects"], 0);
    }
}

#[test]
fn a_stream_of_http_2_that_is_reset_after_its_end_mark_has_succeeded() {
    let server = answering_two(&["a\n", "end\n", "reset"]);
    let mut target = target(&server, &lines(Some("end")));
    target["http"] = json!("2");
    let result = load(&target, &[users(2)], json!({}));
    let streams = &result["streams"];
    assert!(number(&streams["succeeded"]) > 0);
    assert_eq!(streams["succeeded"], streams["operations"], "{result}");
}

#[test]
fn a_stalled_stream_of_http_2_costs_no_connection() {
    let server = answering_two(&["a\n", ""]);
    let mut events = lines(None);
    events["gap_timeout_ns"] = json!(50_000_000);
    let mut target = target(&server, &events);
    target["http"] = json!("2");
    let result = load(&target, &[users(2)], json!({}));
    let count = number(&result["streams"]["operations"]);
    assert!(count > 0);
    assert_eq!(
        result["kinds"]["all"]["errors"],
        json!({"stream stalled": count})
    );
    assert_eq!(result["target"]["reconnects"], 0);
}

#[test]
fn records_of_tls_that_arrive_together_share_a_read() {
    let Some(authority) = Authority::make("streams") else {
        return;
    };
    authority.issue("server", "DNS:localhost,IP:127.0.0.1", Validity::Now);
    let config = authority.server_config("server");
    let server = Server::start(move |_, mut stream| {
        let mut tls = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut request = Vec::new();
        while tls.complete_io(&mut stream).is_ok() {
            let _ = tls.reader().read_to_end(&mut request);
            if request.ends_with(b"\r\n\r\n") {
                request.clear();
                // Each write is a record; all of them are sent at once.
                let parts = [
                    chunk("a\n"),
                    chunk("b\n"),
                    chunk("end\n"),
                    "0\r\n\r\n".to_owned(),
                ];
                tls.writer().write_all(CHUNKED.as_bytes()).unwrap();
                for part in parts {
                    tls.writer().write_all(part.as_bytes()).unwrap();
                }
            }
        }
    });
    let mut target = target(&server, &lines(Some("end")));
    target["url"] = json!(format!("https://localhost:{}/", server.address.port()));
    target["tls"] = json!({"ca": authority.file("ca.pem")});
    let result = load(&target, &[users(2)], json!({}));
    let streams = &result["streams"];
    let count = number(&streams["succeeded"]);
    assert!(
        count > 0 && number(&streams["operations"]) == count,
        "{result}"
    );
    assert_eq!(number(&streams["content_events"]), 2 * count);
    assert_eq!(number(&streams["shared_events"]), count);
    assert_eq!(streams["gap_ns"]["count"], 0);
}

#[test]
fn an_event_that_was_read_late_has_the_time_of_its_arrival() {
    const LATE: Duration = Duration::from_millis(30);
    let (written, is_written) = mpsc::channel();
    let (resume, resumed) = mpsc::channel::<()>();
    let resumed = Mutex::new(resumed);
    let server = Server::start(move |_, mut stream| {
        while read_request(&mut stream).is_some() {
            let begin = CHUNKED.to_owned() + &chunk("a\n");
            stream.write_all(begin.as_bytes()).unwrap();
            written.send(()).unwrap();
            if resumed.lock().unwrap().recv().is_err() {
                return;
            }
            stream
                .write_all((chunk("b\n") + "0\r\n\r\n").as_bytes())
                .unwrap();
        }
    });
    let mut spec = target(&server, &lines(None));
    spec.as_object_mut().unwrap().remove("kind");
    let spec: HttpSpec = serde_json::from_value(spec).unwrap();
    let mut target = spec.plan(PlanOptions::default()).unwrap().open(1).unwrap();
    let mut ends: Vec<Reaped> = Vec::with_capacity(8);
    // A machine that is behind delivers what was written late, but not each time.
    let has_waited = (0..20).any(|_| {
        ends.clear();
        let submitted = monotonic_ns();
        target.submit(0, &exchange(0, 0));
        target.flush().unwrap();
        is_written.recv().unwrap();
        thread::sleep(LATE);
        let looked = monotonic_ns();
        target.reap(&mut ends).unwrap();
        assert!(ends.is_empty());
        resume.send(()).unwrap();
        while ends.is_empty() {
            target.reap(&mut ends).unwrap();
        }
        let seen = target.stream(0).unwrap();
        let (first, last) = (
            seen.outcome.first_ns.unwrap(),
            seen.outcome.last_ns.unwrap(),
        );
        assert!(submitted <= first && looked <= last && last <= seen.now_ns);
        assert_eq!((seen.outcome.content, ends[0].result), (2, 4));
        looked.saturating_sub(first) >= LATE.as_nanos() as u64
    });
    assert!(has_waited);
}

#[test]
fn an_operation_without_a_connection_has_nothing_of_the_one_before() {
    let server = Server::start(|number, mut stream| {
        if number == 0 && read_request(&mut stream).is_some() {
            let answer = CHUNKED.to_owned() + &chunk("a\n") + "0\r\n\r\n";
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let mut spec = target(&server, &lines(None));
    spec.as_object_mut().unwrap().remove("kind");
    let spec: HttpSpec = serde_json::from_value(spec).unwrap();
    let mut target = spec.plan(PlanOptions::default()).unwrap().open(1).unwrap();
    let mut ends: Vec<Reaped> = Vec::with_capacity(8);
    let mut next = |kind| {
        ends.clear();
        let operation = bw_model::Operation {
            kind,
            ..exchange(0, 0)
        };
        target.submit(0, &operation);
        target.flush().unwrap();
        while ends.is_empty() {
            target.reap(&mut ends).unwrap();
        }
        (ends[0].result, target.stream(0).unwrap().outcome.content)
    };
    assert_eq!(next(bw_model::Kind::Exchange), (2, 1));
    let refused = i64::from(-libc::EOPNOTSUPP);
    assert_eq!(next(bw_model::Kind::Read), (refused, 0));
}

#[test]
fn the_streams_of_two_engines_are_one_load() {
    let server = answering(&["a\n", "end\n"]);
    let more = json!({"interval_histograms": true, "interval_ns": 100_000_000,
        "streams": {"good": [{"of": "last", "limit_ns": 3_600_000_000_000_u64}]}});
    let parts = [0, 1].map(|_| {
        let target = target(&server, &lines(Some("end")));
        load(&target, &[users(2)], more.clone())
    });
    let sum = |member: &str| -> u64 {
        parts
            .iter()
            .map(|one| number(&one["streams"][member]))
            .sum()
    };
    let request = json!({"results": parts, "interval_ns": 500_000_000});
    let request: MergeRequest = serde_json::from_value(request).unwrap();
    let merged = merge(&request).unwrap();
    let streams = &merged["streams"];
    for member in ["without_tpot", "first_shared", "without_events"] {
        assert_eq!(number(&streams[member]), sum(member), "{member}");
    }
    for member in ["operations", "succeeded", "events", "good"] {
        assert!(sum(member) > 0);
        assert_eq!(number(&streams[member]), sum(member), "{member}");
    }
    assert_eq!(number(&streams["first_ns"]["count"]), sum("succeeded"));
    assert_eq!(
        streams["timeline"].as_array().unwrap().len() as u64,
        sum("operations").min(300)
    );
    let intervals = merged["intervals"].as_array().unwrap();
    let good: u64 = intervals.iter().map(|one| number(&one["good"])).sum();
    assert_eq!(good, sum("good"));
    assert!(intervals[0]["first_ns_p50"].is_u64() && intervals[0].get("first_hdr").is_none());
}
