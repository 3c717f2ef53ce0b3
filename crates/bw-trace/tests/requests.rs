//! Recorded HTTP requests: access logs, HAR and JSON lines, also hostile ones.

#![allow(clippy::unwrap_used)]

use base64::Engine;
use bw_model::{EngineError, Kind, Row};
use bw_trace::convert::{ConvertOutput, ConvertRequest, OutputFormat, convert};
use bw_trace::input::{Duplicates, Format, Offsets, RequestCounts, TraceInput, TraceReport};
use bw_trace::recorded::{self, RecordedTrace};
use bw_trace::stat::popularity::Method;
use bw_trace::stat::{StatRequest, StatResult, stat};
use bw_trace::trace;
use std::io::{Cursor, Read};
use tempfile::NamedTempFile;

const MS: u64 = 1_000_000;

fn data(name: &str) -> TraceInput {
    TraceInput::new(&format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR")))
}

fn recorded(input: &TraceInput) -> RecordedTrace {
    recorded::read(input).unwrap().unwrap()
}

/// Returns the arrivals as times [ms], methods and targets.
fn arrivals(recorded: &RecordedTrace) -> Vec<(u64, String)> {
    let one = |(at, index): &(bw_model::Nanos, u32)| {
        let request = &recorded.requests[*index as usize];
        let target = String::from_utf8_lossy(&request.target);
        (at.0 / MS, format!("{} {target}", request.method))
    };
    recorded.arrivals.iter().map(one).collect()
}

fn named(expected: &[(u64, &str)]) -> Vec<(u64, String)> {
    let one = |(at, text): &(u64, &str)| (*at, (*text).to_owned());
    expected.iter().map(one).collect()
}

/// Reads bytes as a trace.
fn read(bytes: &[u8], input: &TraceInput) -> Result<(Vec<Row>, TraceReport), EngineError> {
    let mut trace = trace::read(Box::new(Cursor::new(bytes.to_vec())), input)?;
    let rows: Result<Vec<Row>, EngineError> = trace.by_ref().collect();
    Ok((rows?, trace.report()))
}

fn of(format: Format) -> TraceInput {
    TraceInput {
        format: Some(format),
        ..TraceInput::new("t")
    }
}

fn unsendable(kinds: &[(&str, u64)]) -> std::collections::BTreeMap<String, u64> {
    let one = |(name, number): &(&str, u64)| ((*name).to_owned(), *number);
    kinds.iter().map(one).collect()
}

#[test]
fn an_access_log_is_spread_over_its_seconds() {
    let found = recorded(&data("small.access.log"));
    assert_eq!(found.report.format, Format::AccessLog);
    assert_eq!(found.report.duplicates, Duplicates::Spread);
    let expected = [
        (0, "GET /a?b=1"),
        (500, "GET /\"q\"\\"),
        (2000, "GET /a?b=1"),
    ];
    assert_eq!(arrivals(&found), named(&expected));
    let counts = RequestCounts {
        distinct: 2,
        unsafe_methods: 1,
        unreplayable: 3,
        unsendable: unsendable(&[("CONNECT", 1), ("no request", 2)]),
        whole_seconds: 3,
        ..RequestCounts::default()
    };
    assert_eq!(found.report.requests, Some(counts));
    assert_eq!(found.requests[1].status, Some(404));
    assert_eq!(found.requests[0].status, None);
}

#[test]
fn every_method_on_request_and_bursts_too() {
    let found = recorded(&TraceInput {
        unsafe_methods: true,
        duplicates: Some(Duplicates::Burst),
        ..data("small.access.log")
    });
    let expected = [
        (0, "GET /a?b=1"),
        (0, "GET /\"q\"\\"),
        (1000, "POST /a?b=1"),
        (2000, "GET /a?b=1"),
    ];
    assert_eq!(arrivals(&found), named(&expected));
    assert_eq!(found.report.requests.unwrap().without_body, 1);
}

#[test]
fn milliseconds_are_spread_over_themselves_and_sorted() {
    let found = recorded(&data("small.msec.log"));
    let expected = [(0, "GET /b"), (1, "GET /a"), (1, "HEAD /a")];
    assert_eq!(arrivals(&found), named(&expected));
    assert_eq!(found.arrivals[2].0.0, 1_500_000);
    assert_eq!(found.report.reordered, 1);
    assert_eq!(found.report.requests.unwrap().whole_seconds, 0);
}

#[test]
fn the_recorded_hosts_are_devices() {
    let found = recorded(&TraceInput {
        devices: Some(vec!["b.org:443".to_owned()]),
        ..data("small.vhost.log")
    });
    assert_eq!(found.report.devices, ["b.org:443"]);
    assert_eq!(arrivals(&found), named(&[(1000, "GET /a")]));
    let whole = recorded(&data("small.vhost.log"));
    assert_eq!(whole.report.devices, ["a.org:80", "b.org:443"]);
}

#[test]
fn an_absolute_target_names_its_host() {
    let log = concat!(
        "::1 - - [10/Oct/2025:13:55:36 +0000] \"GET http://b.org/x HTTP/1.1\" 200 2\n",
        "::1 - - [10/Oct/2025:13:55:37 +0000] \"GET /y HTTP/1.1\" 200 2\n",
    );
    let (_, report) = read(log.as_bytes(), &of(Format::AccessLog)).unwrap();
    assert_eq!(report.devices, ["b.org", "-"]);
    let proxied = log.replace("GET /y", "CONNECT b.org:443");
    let (_, report) = read(proxied.as_bytes(), &of(Format::AccessLog)).unwrap();
    assert_eq!(report.devices, ["b.org"]);
    let plain = log.replace("http://b.org", "");
    let (rows, report) = read(plain.as_bytes(), &of(Format::AccessLog)).unwrap();
    assert!(report.devices.is_empty());
    assert_eq!(rows.len(), 2);
}

#[test]
fn an_archive_is_sorted_and_has_headers() {
    let found = recorded(&data("small.har"));
    assert_eq!(found.report.format, Format::Har);
    assert_eq!(arrivals(&found), named(&[(0, "GET /a"), (50, "GET /b")]));
    assert_eq!(
        *found.requests[1].headers,
        [("Accept".into(), "*/*".into())]
    );
    assert_eq!(found.report.devices, ["h"]);
    assert_eq!(found.report.requests.unwrap().unreplayable, 1);
}

#[test]
fn json_lines_have_three_kinds_of_time() {
    let found = recorded(&data("small.jsonl"));
    assert_eq!(found.report.format, Format::Jsonl);
    let expected = [(0, "GET /a"), (250, "GET /a"), (1500, "GET /a")];
    assert_eq!(arrivals(&found), named(&expected));
    let fields: [(Box<str>, Box<str>); 2] =
        [("Accept".into(), "a".into()), ("Accept".into(), "b".into())];
    assert_eq!(*found.requests[0].headers, fields);
    assert_eq!(found.report.requests.unwrap().distinct, 2);
}

#[test]
fn other_traces_are_no_requests() {
    assert!(recorded::read(&data("small.spc")).unwrap().is_none());
    assert!(recorded::read(&TraceInput::new("-")).unwrap().is_none());
}

#[test]
fn requests_have_no_offsets_to_map() {
    let input = TraceInput {
        offsets: Offsets::Wrap,
        target_bytes: Some(4096),
        ..data("small.access.log")
    };
    assert_eq!(recorded::read(&input).unwrap_err().code, "trace-option");
}

#[test]
fn malformed_lines_are_errors_with_their_place() {
    let cases: [(Format, &[u8], u64); 10] = [
        (Format::AccessLog, b"no time \"GET / HTTP/1.1\"\n", 1),
        (
            Format::AccessLog,
            b"\n- [10/Oct/2000:13:55:36 -0700] no request\n",
            2,
        ),
        (
            Format::AccessLog,
            b"- [10/Oct/2000:13:55:36 -0700] \"GET / HT\n",
            1,
        ),
        (
            Format::AccessLog,
            b"- [10/Oct/2000:13:55:36 -0700] \"GET / \\\"\n",
            1,
        ),
        (
            Format::Jsonl,
            b"{\"time\":1,\"path\":\"/\"}\n{\"path\":\"/\"}\n",
            2,
        ),
        (
            Format::Jsonl,
            b"{\"time\":1700000000000,\"path\":\"/\"}\n",
            1,
        ),
        (
            Format::Jsonl,
            b"{\"time\":1,\"path\":\"/\",\"url\":\"http://h/\"}\n",
            1,
        ),
        (
            Format::Jsonl,
            b"{\"time\":1,\"path\":\"/\",\"headers\":{\"A\":\"b\\r\\nC: d\"}}\n",
            1,
        ),
        (
            Format::Jsonl,
            b"{\"time\":1,\"path\":\"/\",\"body_base64\":\"%\"}\n",
            1,
        ),
        (
            Format::Har,
            b"{\"log\":{\"entries\":[\n{\"startedDateTime\":\"2009-",
            2,
        ),
    ];
    for (format, bytes, line) in cases {
        let error = read(bytes, &of(format)).unwrap_err();
        assert_eq!(error.line(), Some(line), "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_request_that_would_be_two_is_never_sent() {
    let lines = b"- [10/Oct/2000:13:55:36 -0700] \"GET /\\x0d\\x0aX: y HTTP/1.1\"\n\
        - [10/Oct/2000:13:55:36 -0700] \"GET /\\x00 HTTP/1.1\"\n\
        - [10/Oct/2000:13:55:36 -0700] \"GET /a b HTTP/1.1\"\n\
        - [10/Oct/2000:13:55:36 -0700] \"GET /\0 HTTP/1.1\"\n";
    let (rows, report) = read(lines, &of(Format::AccessLog)).unwrap();
    assert!(rows.is_empty());
    assert_eq!(report.requests.unwrap().unreplayable, 4);
}

#[test]
fn a_huge_line_is_malformed_and_its_rest_is_passed_over() {
    let mut bytes = b"- [10/Oct/2000:13:55:36 -0700] \"GET /".to_vec();
    bytes.extend(std::iter::repeat_n(b'a', 1 << 20));
    bytes.extend(b" HTTP/1.1\"\n- [10/Oct/2000:13:55:37 -0700] \"GET /b HTTP/1.1\"\n");
    let lenient = TraceInput {
        lenient: true,
        ..of(Format::AccessLog)
    };
    let (rows, report) = read(&bytes, &lenient).unwrap();
    assert_eq!((rows.len(), report.skipped_lines), (1, 1));
    let body = "x".repeat(1 << 20);
    let line = format!("{{\"time\":1,\"method\":\"GET\",\"path\":\"/\",\"body\":\"{body}\"}}\n");
    assert_eq!(
        read(line.as_bytes(), &of(Format::Jsonl)).unwrap().0.len(),
        1
    );
}

/// A file that is removed on drop.
struct Scratch(NamedTempFile);

impl Scratch {
    fn new(bytes: &[u8]) -> Self {
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        Self(file)
    }

    fn path(&self) -> String {
        self.0.path().to_string_lossy().into_owned()
    }
}

#[test]
fn a_trace_with_mostly_malformed_lines_is_refused_even_if_lenient() {
    let good = "{\"time\":1,\"path\":\"/\"}\n";
    let read = |bad: usize| {
        let file = Scratch::new((good.repeat(3) + &"\0\n".repeat(bad)).as_bytes());
        recorded::read(&TraceInput {
            path: bw_trace::input::Paths::One(file.path()),
            lenient: true,
            ..of(Format::Jsonl)
        })
    };
    assert_eq!(read(3).unwrap().unwrap().report.skipped_lines, 3);
    let error = read(4).unwrap_err();
    assert_eq!(error.code, "trace-format");
    assert!(error.message.contains("4 of 7"), "{error}");
}

#[test]
fn a_conversion_reports_that_the_requests_are_lost() {
    let file = Scratch::new(b"");
    std::fs::remove_file(&file.0).unwrap();
    let request = ConvertRequest {
        input: data("small.access.log"),
        output: ConvertOutput {
            path: file.path(),
            format: OutputFormat::Bw,
        },
    };
    let result = convert(&request).unwrap();
    assert_eq!(result.rows, 3);
    assert!(result.lost[0].contains("paths"), "{:?}", result.lost);
}

#[test]
fn a_quoted_text_before_the_request_is_no_request() {
    let log = "10.0.0.9 \"h\" [10/Oct/2000:13:55:36 -0700] \"a.example\" \"-\" \"GET /a HTTP/1.1\" 404 5 \"-\" \"x\"\n\
        10.0.0.9 \"h\" [10/Oct/2000:13:55:37 -0700] \"a.example\" \"-\" \"GET /b HTTP/1.1\" 200 7 \"-\" \"x\"\n\
        10.0.0.9 \"h\" [10/Oct/2000:13:55:38 -0700] \"a.example\" \"-\" \"-\" 408 0 \"-\" \"-\"\n";
    let file = Scratch::new(log.as_bytes());
    let found = recorded(&TraceInput::new(&file.path()));
    assert_eq!(found.report.format, Format::AccessLog);
    assert_eq!(arrivals(&found), named(&[(0, "GET /a"), (1000, "GET /b")]));
    assert_eq!(found.requests[0].status, Some(404));
    let counts = found.report.requests.unwrap();
    assert_eq!(counts.unsendable, unsendable(&[("no request", 1)]));
    let by_msec = "\"h\" 1700000000.250 \"a.example\" \"GET /a HTTP/1.1\" 200 5\n";
    let (rows, _) = read(by_msec.as_bytes(), &of(Format::AccessLog)).unwrap();
    assert_eq!(rows.len(), 1);
}

#[test]
fn an_unknown_format_names_the_closest_one_and_the_column() {
    let unquoted = b"h - - [10/Oct/2000:13:55:36 -0700] GET /a HTTP/1.1 200 5\n";
    let error = read(&unquoted.repeat(3), &TraceInput::new("t")).unwrap_err();
    assert_eq!(error.code, "trace-format");
    assert!(
        error.message.contains("as access-log, line 1, column 35: "),
        "{error}"
    );
    let added = b"128166372003061629,hm,1,Read,2449408,8192,1331,extra\n";
    let error = read(&added.repeat(3), &TraceInput::new("t")).unwrap_err();
    assert!(
        error.message.contains("as msr, line 1, column 48: "),
        "{error}"
    );
    assert!(error.remedy.contains("--format"), "{error}");
    let error = read(b"no trace\nat all\n", &TraceInput::new("t")).unwrap_err();
    assert!(!error.message.contains("line 1"), "{error}");
}

/// Returns an archive of one entry that has every member of HAR 1.2 which is read.
fn complete_entry() -> serde_json::Value {
    serde_json::json!({
        "pageref": "p", "startedDateTime": "2026-01-31T12:00:00.5Z", "time": 1.5,
        "request": {
            "method": "POST", "url": "http://h/a", "httpVersion": "HTTP/1.1",
            "cookies": [{"name": "c", "value": "1"}], "queryString": [{"name": "q", "value": "1"}],
            "headers": [{"name": "Accept", "value": "*/*"}], "headersSize": 10, "bodySize": 2,
            "postData": {"mimeType": "application/x-www-form-urlencoded", "params": [{"name": "p", "value": "1"}], "text": "xy"},
        },
        "response": {
            "status": 200, "statusText": "OK", "httpVersion": "HTTP/1.1", "cookies": [], "headers": [],
            "content": {"size": 4, "compression": 0, "mimeType": "text/plain", "text": "body"},
            "redirectURL": "", "headersSize": 10, "bodySize": 4,
        },
        "cache": {}, "timings": {"blocked": -1, "dns": -1, "send": 0, "wait": 1, "receive": 0},
        "serverIPAddress": "127.0.0.1", "connection": "1",
    })
}

/// Returns the pointers to every member and element inside a value.
fn pointers(value: &serde_json::Value, prefix: &str) -> Vec<String> {
    let children: Vec<(String, &serde_json::Value)> = match value {
        serde_json::Value::Object(members) => members
            .iter()
            .map(|(key, value)| (key.clone(), value))
            .collect(),
        serde_json::Value::Array(elements) => {
            let named = |(place, value): (usize, _)| (place.to_string(), value);
            elements.iter().enumerate().map(named).collect()
        }
        _ => return Vec::new(),
    };
    let mut found = Vec::new();
    for (key, child) in children {
        let pointer = format!("{prefix}/{key}");
        found.extend(pointers(child, &pointer));
        found.push(pointer);
    }
    found
}

fn archive(entries: &[serde_json::Value]) -> Vec<u8> {
    let archive = serde_json::json!({"log": {"entries": entries}});
    archive.to_string().into_bytes()
}

fn lenient_and_all() -> TraceInput {
    TraceInput {
        lenient: true,
        unsafe_methods: true,
        ..of(Format::Har)
    }
}

#[test]
fn each_optional_member_of_an_archive_may_be_null_and_each_required_one_is_named() {
    let required = [
        "/startedDateTime",
        "/request",
        "/request/method",
        "/request/url",
        "/request/headers/0/name",
        "/request/postData/params/0/name",
    ];
    let (whole, good) = (complete_entry(), complete_entry());
    for pointer in pointers(&whole, "") {
        let mut entry = whole.clone();
        *entry.pointer_mut(&pointer).unwrap() = serde_json::Value::Null;
        let bytes = archive(&[good.clone(), entry]);
        let strict = TraceInput {
            lenient: false,
            ..lenient_and_all()
        };
        if required.contains(&pointer.as_str()) {
            let error = read(&bytes, &strict).unwrap_err();
            let member = pointer.rsplit('/').next().unwrap();
            assert_eq!(error.code, "trace-line", "{pointer}");
            assert!(error.message.contains("entry 2"), "{pointer}: {error}");
            assert!(error.message.contains(member), "{pointer}: {error}");
            let (rows, report) = read(&bytes, &lenient_and_all()).unwrap();
            assert_eq!((rows.len(), report.skipped_lines), (1, 1), "{pointer}");
        } else {
            let (rows, _) =
                read(&bytes, &strict).unwrap_or_else(|error| panic!("{pointer}: {error}"));
            assert_eq!(rows.len(), 2, "{pointer}");
        }
    }
}

#[test]
fn an_entry_with_a_member_of_another_type_does_not_refuse_the_archive() {
    let (whole, good) = (complete_entry(), complete_entry());
    for other in [
        serde_json::json!(7),
        serde_json::json!("x"),
        serde_json::json!([[]]),
        serde_json::json!({"a": 1}),
    ] {
        for pointer in pointers(&whole, "") {
            let mut entry = whole.clone();
            *entry.pointer_mut(&pointer).unwrap() = other.clone();
            let (rows, report) =
                read(&archive(&[entry, good.clone()]), &lenient_and_all()).unwrap();
            let there = rows.len() as u64 + report.requests.unwrap().unreplayable;
            assert_eq!(there + report.skipped_lines, 2, "{pointer} = {other}");
        }
    }
}

#[test]
fn what_cannot_be_sent_is_counted_by_what_it_is() {
    let entry = |url: &str| {
        let mut entry = complete_entry();
        entry["request"]["url"] = serde_json::json!(url);
        entry
    };
    let urls = [
        "data:image/png;base64,x",
        "wss://h/",
        "blob:https://h/1",
        "DATA:x",
        "http://h/",
        "http://h/a b",
    ];
    let (rows, report) = read(&archive(&urls.map(entry)), &lenient_and_all()).unwrap();
    assert_eq!(rows.len(), 1);
    let counts = report.requests.unwrap();
    let kinds = [
        ("an invalid request", 1),
        ("blob:", 1),
        ("data:", 2),
        ("wss:", 1),
    ];
    assert_eq!(counts.unsendable, unsendable(&kinds));
    assert_eq!(counts.unreplayable, 5);
    let many = (0..40).map(|number| entry(&format!("scheme{number}:x")));
    let (_, report) = read(&archive(&many.collect::<Vec<_>>()), &lenient_and_all()).unwrap();
    assert!(report.requests.unwrap().unsendable.len() <= 17);
}

/// Returns an archive of POST requests with this `postData` each.
fn posted(bodies: &[serde_json::Value]) -> Vec<u8> {
    let entry = |body: &serde_json::Value| {
        serde_json::json!({
            "startedDateTime": "2026-01-31T12:00:00.5Z",
            "request": {"method": "POST", "url": "http://h/", "headers": [], "postData": body},
        })
    };
    let entries: Vec<_> = bodies.iter().map(entry).collect();
    let archive = serde_json::json!({"log": {"entries": entries}});
    archive.to_string().into_bytes()
}

#[test]
fn posted_parameters_without_a_text_are_a_form_and_those_of_files_are_skipped() {
    let form = "application/x-www-form-urlencoded";
    let parameters = serde_json::json!([
        {"name": "größe", "value": "1 + 1=2&x"}, {"name": "empty"}, {"name": "a-b_c.d*~", "value": "/"},
    ]);
    let file = serde_json::json!([{"name": "f", "fileName": "f.txt", "contentType": "text/plain", "value": "x"}]);
    let bodies = [
        serde_json::json!({"mimeType": format!("{form}; charset=utf-8"), "params": parameters}),
        serde_json::json!({"mimeType": form, "params": parameters, "text": "raw=1"}),
        serde_json::json!({"mimeType": "multipart/form-data; boundary=b", "params": file}),
        serde_json::json!({"mimeType": form, "params": [], "text": ""}),
    ];
    let file = Scratch::new(&posted(&bodies));
    let found = recorded(&TraceInput {
        unsafe_methods: true,
        ..TraceInput::new(&file.path())
    });
    let bodies = found.requests.iter().map(|request| {
        let body = request.body.as_deref().unwrap_or_default();
        String::from_utf8(body.to_vec()).unwrap()
    });
    let encoded = "gr%C3%B6%C3%9Fe=1+%2B+1%3D2%26x&empty=&a-b_c.d*%7E=%2F";
    assert_eq!(bodies.collect::<Vec<_>>(), [encoded, "raw=1", ""]);
    let types = found.requests.iter().map(|request| request.headers.len());
    assert_eq!(types.collect::<Vec<_>>(), [1, 1, 0]);
    let (name, value) = &found.requests[0].headers[0];
    let expected = format!("{form}; charset=utf-8");
    assert_eq!((&**name, &**value), ("Content-Type", &*expected));
    let counts = found.report.requests.unwrap();
    assert_eq!((counts.lost_bodies, counts.without_body), (1, 1));
    assert_eq!(found.report.operations, 3);
}

fn described(bytes: &[u8]) -> StatResult {
    let file = Scratch::new(bytes);
    let input = TraceInput::new(&file.path());
    let (block_bytes, memory_bytes) = (4096, 1 << 20);
    stat(&StatRequest {
        input,
        block_bytes,
        memory_bytes,
    })
    .unwrap()
}

#[test]
fn the_statistics_of_a_log_are_those_of_all_its_requests() {
    // 60 of /a with two queries, 30 of /b, 10 of POST /c; a response of /a has 100 bytes.
    let line = |number: u64| {
        let (method, target, answer) = match number % 10 {
            0..6 => ("GET", format!("/a?q={}", number % 2), "200 100"),
            6..9 => ("GET", "/b".to_owned(), "404 -"),
            _ => ("POST", "/c".to_owned(), "503 7"),
        };
        let (host, second) = (
            if number < 70 { "a.org:80" } else { "b.org:80" },
            number / 50,
        );
        format!(
            "{host} 10.0.0.1 - - [10/Oct/2000:13:55:3{second} +0000] \"{method} {target} HTTP/1.1\" {answer} \"-\" \"-\"\n"
        )
    };
    let log: String = (0..100).map(line).collect();
    let found = described(log.as_bytes());
    assert_eq!((found.operations, found.bytes), (100, 6070));
    let kinds: Vec<_> = found.kinds.iter().collect();
    assert_eq!(
        (&**kinds[0].0, kinds[0].1.operations, kinds[0].1.bytes),
        ("GET", 90, 6000)
    );
    assert_eq!(
        (&**kinds[1].0, kinds[1].1.operations, kinds[1].1.share),
        ("POST", 10, 0.1)
    );
    assert!(found.sizes.is_none() && found.sequentiality.is_none() && found.queue.is_none());
    let requests = found.requests.unwrap();
    let statuses: Vec<_> = requests.statuses.into_iter().collect();
    assert_eq!(statuses, [(200, 60), (404, 30), (503, 10)]);
    let named = |shares: &[bw_trace::stat::requests::RequestShare]| -> Vec<(String, u64, u64)> {
        let one = |share: &bw_trace::stat::requests::RequestShare| {
            (share.name.clone(), share.operations, share.bytes)
        };
        shares.iter().map(one).collect()
    };
    let expected = [("/a", 60, 6000), ("/b", 30, 0), ("/c", 10, 70)];
    assert_eq!(
        named(&requests.paths),
        expected.map(|(name, count, bytes)| (name.to_owned(), count, bytes))
    );
    let expected = [
        ("a.org:80", 70, 42 * 100 + 49),
        ("b.org:80", 30, 18 * 100 + 21),
    ];
    assert_eq!(
        named(&requests.hosts),
        expected.map(|(name, count, bytes)| (name.to_owned(), count, bytes))
    );
    assert_eq!(
        (requests.different_paths, requests.body_bytes.count),
        (3, 0)
    );
    let responses = requests.response_bytes;
    assert_eq!(
        (responses.count, responses.p50, responses.mean),
        (100, Some(100), Some(60.7))
    );
    // Two queries of /a, /b and /c, on two hosts.
    assert_eq!(
        (found.popularity.method, found.popularity.block_bytes),
        (Method::Exact, None)
    );
    assert_eq!(
        (found.working_set.blocks, found.working_set.bytes),
        (8.0, None)
    );
    assert_eq!(found.rate.bytes.iter().sum::<u64>(), 6070);
    // 50 in each of two seconds: evenly.
    assert_eq!(found.dispersion[3].max, 50);
    let counts = found.report.requests.unwrap();
    assert_eq!((counts.unsafe_methods, counts.distinct), (0, 4));
}

#[test]
fn archives_and_lines_have_sizes_of_bodies() {
    let entry = |response: serde_json::Value| {
        serde_json::json!({"startedDateTime": "2026-01-31T12:00:00.5Z", "response": response,
            "request": {"method": "PUT", "url": "http://h/", "postData": {"mimeType": "", "text": "four"}}})
    };
    let entries = [
        entry(serde_json::json!({"status": 200, "bodySize": 10, "content": {"size": 40}})),
        entry(
            serde_json::json!({"status": 200, "bodySize": -1, "content": {"size": 40, "compression": 10}}),
        ),
        entry(serde_json::json!({"status": 0, "bodySize": -1, "content": {"size": -1}})),
    ];
    let archive = serde_json::json!({"log": {"entries": entries}});
    let found = described(archive.to_string().as_bytes());
    let requests = found.requests.unwrap();
    assert_eq!(found.bytes, 40);
    assert_eq!(
        (requests.response_bytes.count, requests.response_bytes.max),
        (2, Some(30))
    );
    assert_eq!(
        (requests.body_bytes.count, requests.body_bytes.p50),
        (3, Some(4))
    );
    assert_eq!(
        requests.statuses.into_iter().collect::<Vec<_>>(),
        [(200, 2)]
    );
    let line = b"{\"time\":1,\"path\":\"/\",\"status\":304,\"response_bytes\":12}\n{\"time\":2,\"path\":\"/\"}\n";
    let found = described(line);
    let requests = found.requests.unwrap();
    assert_eq!((found.bytes, requests.response_bytes.count), (12, 1));
    assert!(requests.hosts.is_empty());
}

/// A log whose lines are made while it is read.
struct LongLog {
    line: u64,
    lines: u64,
    ready: Vec<u8>,
}

impl Read for LongLog {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.ready.is_empty() && self.line < self.lines {
            let (minute, second) = (self.line / 20_000 / 60, self.line / 20_000 % 60);
            self.ready = format!(
                "10.0.0.1 - - [10/Oct/2000:13:{minute:02}:{second:02} +0000] \"GET /item/{} HTTP/1.1\" 200 5\n",
                self.line % 1000
            )
            .into_bytes();
            self.line += 1;
        }
        let length = self.ready.len().min(buffer.len());
        buffer[..length].copy_from_slice(&self.ready[..length]);
        self.ready.drain(..length);
        Ok(length)
    }
}

#[test]
fn a_log_of_a_million_lines_has_as_many_operations_and_few_requests() {
    let log = LongLog {
        line: 0,
        lines: 1_000_000,
        ready: Vec::new(),
    };
    let mut trace = trace::read(Box::new(log), &TraceInput::new("t")).unwrap();
    let mut before = 0;
    for (number, row) in trace.by_ref().enumerate() {
        let row = row.unwrap();
        assert_eq!(row.intended.0, number as u64 * 50_000, "spread evenly");
        assert_eq!(
            (row.kind, row.offset),
            (Kind::Exchange, number as u64 % 1000)
        );
        before = row.intended.0;
    }
    assert_eq!(before, 999_999 * 50_000);
    let report = trace.report();
    assert_eq!(report.operations, 1_000_000);
    assert_eq!(report.requests.unwrap().distinct, 1000);
}

/// Makes a line of a time in brackets and a number.
type Layout = fn(&str, &str) -> String;

#[test]
fn the_finest_time_of_a_line_is_used_wherever_it_stands() {
    let iso = "[2026-11-28T20:02:59+00:00]";
    let common = "[28/Nov/2026:20:02:59 +0000]";
    let layouts: [(&str, Layout); 6] = [
        (common, |time, at| {
            format!("h - - {time} {at} \"GET / HTTP/1.1\" 200 5")
        }),
        (common, |time, at| {
            format!("h - - {time} \"GET / HTTP/1.1\" 200 5 {at}")
        }),
        (iso, |time, at| {
            format!("h - {at} {time} \"GET / HTTP/1.1\" 200 5")
        }),
        (common, |time, at| {
            format!("h {time} \"GET / HTTP/1.1\" {at} 200 5")
        }),
        (iso, |time, at| {
            format!("h {time} \"GET / HTTP/1.1\" 200 5 \"-\" msec={at}, rt=0.1")
        }),
        ("", |_, at| format!("h - - \"GET / HTTP/1.1\" 200 5 [{at}]")),
    ];
    for (time, layout) in layouts {
        let line = |number: u64| layout(time, &format!("1795896179.{number}00")) + "\n";
        let log: String = (1..5).map(line).collect();
        let file = Scratch::new(log.as_bytes());
        let found = recorded(&TraceInput::new(&file.path()));
        let times: Vec<u64> = found.arrivals.iter().map(|(at, _)| at.0 / MS).collect();
        assert_eq!(times, [0, 100, 200, 300], "{log}");
        assert_eq!(found.report.requests.unwrap().whole_seconds, 0, "{log}");
        let result = described(log.as_bytes());
        assert_eq!(result.bytes, 4 * 5, "{log}");
    }
}

#[test]
fn a_number_that_is_no_time_of_the_line_does_not_replace_it() {
    // Of another moment; in a text of the client; of a referrer without quotation marks.
    for rest in [
        "\"GET / HTTP/1.1\" 200 5 1795896100.500",
        "\"GET /?t=1795896179.500 HTTP/1.1\" 200 5",
        "\"GET / HTTP/1.1\" 200 5 \"-\" \"a\\\" 1795896179.500 b\"",
        "\"GET / HTTP/1.1\" 200 5 http://h/?t=1795896179.500",
        "\"GET / HTTP/1.1\" 200 5 \"cut 1795896179.500 sho",
    ] {
        let log = format!("h - - [28/Nov/2026:20:02:59 +0000] {rest}\n");
        let (rows, report) = read(log.as_bytes(), &of(Format::AccessLog)).unwrap();
        assert_eq!(rows.len(), 1, "{log}");
        assert_eq!(report.requests.unwrap().whole_seconds, 1, "{log}");
    }
}

/// Returns the bodies of an archive's requests, and how many do not have the stated length.
fn bodies_of(bytes: &[u8]) -> (Vec<Vec<u8>>, u64) {
    let file = Scratch::new(bytes);
    let found = recorded(&TraceInput {
        unsafe_methods: true,
        ..TraceInput::new(&file.path())
    });
    let bodies = found.requests.iter();
    let bodies = bodies.map(|request| request.body.as_deref().unwrap_or_default().to_vec());
    (
        bodies.collect(),
        found.report.requests.unwrap().other_lengths,
    )
}

#[test]
fn the_stated_length_tells_the_bytes_of_a_text() {
    let every_byte: Vec<u8> = (0..=255).collect();
    let every: String = every_byte.iter().map(|byte| char::from(*byte)).collect();
    let encoded = base64::engine::general_purpose::STANDARD.encode(&every_byte);
    // The members of postData, the size, Content-Length; the body, and whether it has another length.
    let text = |text: &str| serde_json::json!({"mimeType": "", "text": text});
    let cases = [
        (text("ü"), Some(1), None, &b"\xfc"[..], 0),
        (text("ü"), None, Some("1"), b"\xfc", 0),
        (text("ü"), Some(2), None, b"\xc3\xbc", 0),
        (text("ü"), Some(1), Some("2"), b"\xc3\xbc", 0),
        (text("ü"), None, None, b"\xc3\xbc", 0),
        (text("ü"), Some(-1), None, b"\xc3\xbc", 0),
        (text("ü"), Some(0), None, b"\xc3\xbc", 0),
        (text("ü"), Some(9), Some("9"), b"\xc3\xbc", 1),
        (text("€"), Some(1), None, b"\xe2\x82\xac", 1),
        (text(&every), Some(256), Some("256"), &every_byte, 0),
        (
            serde_json::json!({"text": encoded, "encoding": "base64"}),
            Some(256),
            None,
            &every_byte,
            0,
        ),
        (
            serde_json::json!({"text": "eA==", "encoding": "base64"}),
            Some(4),
            None,
            b"x",
            1,
        ),
        (
            serde_json::json!({"params": [{"name": "a", "value": "1"}]}),
            Some(3),
            None,
            b"a=1",
            0,
        ),
        (
            serde_json::json!({"params": [{"name": "a", "value": "1"}]}),
            Some(4),
            None,
            b"a=1",
            1,
        ),
    ];
    for (posted, size, length, body, other) in cases {
        let headers: Vec<_> = length
            .map(|length| serde_json::json!({"name": "content-length", "value": length}))
            .into_iter()
            .collect();
        let shown = format!("{posted} {size:?} {length:?}");
        let entry = serde_json::json!({
            "startedDateTime": "2026-01-31T12:00:00.5Z",
            "request": {"method": "POST", "url": "http://h/", "headers": headers, "bodySize": size, "postData": posted},
        });
        let bytes = archive(&[entry]);
        assert_eq!(bodies_of(&bytes), (vec![body.to_vec()], other), "{shown}");
        let sent = described(&bytes).requests.unwrap().body_bytes;
        assert_eq!(sent.max, Some(body.len() as u64), "{shown}");
    }
    let lines = "{\"time\":1,\"method\":\"POST\",\"path\":\"/\",\"headers\":{\"Content-Length\":\"1\"},\"body\":\"ü\"}\n\
        {\"time\":2,\"method\":\"POST\",\"path\":\"/\",\"headers\":{\"Content-Length\":\"9\"},\"body\":\"ü\"}\n";
    let (bodies, other) = bodies_of(lines.as_bytes());
    assert_eq!(
        (bodies, other),
        (vec![b"\xfc".to_vec(), b"\xc3\xbc".to_vec()], 1)
    );
    let bad = archive(&[serde_json::json!({
        "startedDateTime": "2026-01-31T12:00:00.5Z",
        "request": {"method": "POST", "url": "http://h/", "postData": {"text": "%", "encoding": "base64"}},
    })]);
    let error = read(&bad, &of(Format::Har)).unwrap_err();
    assert!(error.message.contains("request.postData.text"), "{error}");
}
