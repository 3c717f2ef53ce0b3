//! Recorded HTTP requests: access logs, HAR and JSON lines, also hostile ones.

#![allow(clippy::unwrap_used)]

use bw_model::{EngineError, Kind, Row};
use bw_trace::convert::{ConvertOutput, ConvertRequest, OutputFormat, convert};
use bw_trace::input::{Duplicates, Format, Offsets, RequestCounts, TraceInput, TraceReport};
use bw_trace::recorded::{self, RecordedTrace};
use bw_trace::stat::popularity::Method;
use bw_trace::stat::{StatRequest, StatResult, stat};
use bw_trace::trace;
use std::io::{Cursor, Read};
use std::path::PathBuf;

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
    assert_eq!(found.report.devices, ["a.org:80", "b.org:443"]);
    assert_eq!(arrivals(&found), named(&[(1000, "GET /a")]));
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
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let name = format!("bw-requests-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn path(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

#[test]
fn a_trace_with_mostly_malformed_lines_is_refused_even_if_lenient() {
    let good = "{\"time\":1,\"path\":\"/\"}\n";
    let read = |bad: usize| {
        let file = Scratch::new("most", (good.repeat(3) + &"\0\n".repeat(bad)).as_bytes());
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
    let file = Scratch::new("out", b"");
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
    let file = Scratch::new("posted", &posted(&bodies));
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

fn described(name: &str, bytes: &[u8]) -> StatResult {
    let file = Scratch::new(name, bytes);
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
    let found = described("stat", log.as_bytes());
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
    let found = described("sizes", archive.to_string().as_bytes());
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
    let found = described("lines", line);
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
