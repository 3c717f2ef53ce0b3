//! Loads whose answers are streams, against servers in threads: from the request to the result.

#![allow(clippy::unwrap_used)]

use bw_load::request::LoadRequest;
use bw_load::run::run;
use network::{LONG, Server, read_request};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

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
