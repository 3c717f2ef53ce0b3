//! The reader of events: the shapes of streams that servers send, the same outcome for any split, that of a second
//! reader of whole answers, and no panic for any bytes.

#![allow(clippy::unwrap_used)]

mod events_reference;

use bw_protocol::events::{EventFormat, EventReader, EventSpec, Meaning, StreamOutcome};
use events_reference::outcome as reference;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Reads the bytes in pieces that end at `cuts`, each at a time that is its end.
fn read(
    spec: &EventSpec,
    bytes: &[u8],
    cuts: &[usize],
    boundaries: &[usize],
) -> (StreamOutcome, Vec<u64>) {
    let mut gaps = Vec::new();
    let mut reader = EventReader::new();
    // Whatever was read before.
    reader.read(spec, b"event: error\ndata: {\"choices\":[{\"x", 1, |_| {});
    reader.begin();
    let mut from = 0;
    for &arrival in cuts.iter().chain([&bytes.len()]) {
        let start = from;
        // A piece ends where the transfer has a boundary, too; its arrival is that of the whole.
        for &to in boundaries
            .iter()
            .filter(|&&to| start < to && to < arrival)
            .chain([&arrival])
        {
            if to > from {
                reader.read(spec, &bytes[from..to], arrival as u64, |gap| gaps.push(gap));
            }
            if boundaries.contains(&to) {
                reader.boundary(spec, |gap| gaps.push(gap));
            }
            from = to;
        }
    }
    let outcome = reader.finish(spec, |gap| gaps.push(gap));
    assert_eq!(outcome, reader.outcome());
    assert_eq!(outcome.last_ns, reader.last_content_ns());
    (outcome, gaps)
}

/// Returns the outcome of an answer that arrives at once, after every other split was found to have it, apart from times.
fn shape(spec: &EventSpec, bytes: impl AsRef<[u8]>) -> StreamOutcome {
    let bytes = bytes.as_ref();
    let untimed = |(outcome, _): (StreamOutcome, _)| StreamOutcome {
        first_event_ns: None,
        first_ns: None,
        first_visible_ns: None,
        last_ns: None,
        largest_gap_ns: None,
        shared: 0,
        first_shared: false,
        ..outcome
    };
    let whole = read(spec, bytes, &[], &[]);
    for cut in 0..=bytes.len() {
        let split = read(spec, bytes, &[cut], &[]);
        assert_eq!(untimed(split), untimed(whole.clone()), "cut at {cut}");
    }
    let every: Vec<usize> = (1..bytes.len()).collect();
    assert_eq!(
        untimed(read(spec, bytes, &every, &[])),
        untimed(whole.clone())
    );
    assert_eq!(whole, reference(spec, bytes, &[], &[]));
    whole.0
}

fn chat() -> EventSpec {
    EventSpec::new(EventFormat::Sse, Meaning::Chat, None)
}

fn plain(format: EventFormat) -> EventSpec {
    EventSpec::new(format, Meaning::Plain, None)
}

const ROLE: &str =
    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}]}"#;
const ONE: &str = r#"{"choices":[{"index":0,"delta":{"content":"One"},"finish_reason":null}]}"#;
const TWO: &str = r#"{"choices":[{"index":0,"delta":{"content":" two"},"finish_reason":null}]}"#;
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":0}}}"#;

/// Returns a stream of a chat with these data, each line of which ends so.
fn stream(data: &[&str], end: &str) -> String {
    let event = |data: &&str| format!("data: {data}{end}{end}");
    data.iter().map(event).collect()
}

/// Asserts that the answer is that of a chat with two events of content in six.
fn assert_usual(bytes: impl AsRef<[u8]>) {
    let outcome = shape(&chat(), &bytes);
    assert_eq!((outcome.events, outcome.content), (6, 2));
    assert!(outcome.ended && !outcome.failed && !outcome.stopped_by_length);
    assert_eq!(outcome.tokens, Some(2));
    assert_eq!(outcome.prompt_tokens, Some(9));
    assert_eq!(outcome.cached_tokens, Some(4));
    assert_eq!(outcome.reasoning_tokens, Some(0));
    assert!(!chat().is_cut(&outcome));
}

const USUAL: [&str; 6] = [ROLE, ONE, TWO, STOP, USAGE, "[DONE]"];

#[test]
fn lines_may_end_with_lf() {
    assert_usual(stream(&USUAL, "\n"));
}

#[test]
fn lines_may_end_with_crlf() {
    assert_usual(stream(&USUAL, "\r\n"));
}

#[test]
fn lines_may_end_with_cr() {
    assert_usual(stream(&USUAL, "\r"));
}

#[test]
fn a_byte_order_mark_is_dropped() {
    assert_usual(format!("\u{feff}{}", stream(&USUAL, "\n")));
    // Only one, and only at the start.
    let twice = shape(&chat(), "\u{feff}\u{feff}data: x\n\n");
    assert_eq!(twice.events, 0);
    let part = shape(&chat(), b"\xef\xbbdata: x\n\ndata: y\n\n");
    assert_eq!(part.events, 1);
}

#[test]
fn comments_are_no_events() {
    let text = stream(&USUAL, "\r\n");
    let ping = ": ping - 2026-11-30 08:00:00\r\n\r\n";
    let inside = text.replace("data:", ": ping\r\ndata:");
    assert_usual(format!("{ping}{ping}{inside}{ping}"));
}

#[test]
fn a_blank_after_the_colon_is_optional() {
    assert_usual(stream(&USUAL, "\n").replace("data: ", "data:"));
    // Only one blank is dropped.
    let end = shape(&chat(), "data:  [DONE]\n\n");
    assert!(!end.ended);
}

#[test]
fn data_may_have_several_lines() {
    let lines = stream(&USUAL, "\n").replace(",\"", ",\ndata: \"");
    assert_usual(lines);
    let spec = EventSpec::new(EventFormat::Sse, Meaning::Plain, Some("one\ntwo"));
    assert!(shape(&spec, "data: one\ndata: two\n\n").ended);
    assert!(!shape(&spec, "data: onetwo\n\n").ended);
}

#[test]
fn an_event_with_only_a_role_is_not_content() {
    let empty = ROLE.replace("null}", "\"\"}");
    for role in [
        ROLE,
        &empty,
        r#"{"choices":[{"delta":{"role":"assistant"}}]}"#,
    ] {
        let text = stream(&[role, ONE, "[DONE]"], "\n");
        let first = text
            .find("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"One")
            .unwrap();
        let (outcome, gaps) = read(&chat(), text.as_bytes(), &[first], &[]);
        assert_eq!((outcome.events, outcome.content), (3, 1));
        assert_eq!(outcome.first_event_ns, Some(first as u64));
        assert_eq!(outcome.first_ns, Some(text.len() as u64));
        assert_eq!(outcome.first_visible_ns, outcome.first_ns);
        assert_eq!((outcome.largest_gap_ns, gaps.len()), (None, 0));
    }
}

#[test]
fn several_tokens_in_an_event_are_one_event() {
    let many = r#"{"choices":[{"delta":{"content":"One two three four"}}]}"#;
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":5}}"#;
    let outcome = shape(&chat(), stream(&[many, TWO, usage, "[DONE]"], "\n"));
    assert_eq!((outcome.content, outcome.tokens), (2, Some(5)));
    assert_eq!(outcome.cached_tokens, None);
}

#[test]
fn usage_may_come_late_and_null_before() {
    let null = ONE.replace("}]}", "}],\"usage\":null}");
    let outcome = shape(
        &chat(),
        stream(&[&null, &null, STOP, USAGE, "[DONE]"], "\n"),
    );
    assert_eq!((outcome.content, outcome.tokens), (2, Some(2)));
}

#[test]
fn usage_may_come_with_choices() {
    let with = |tokens| {
        ONE.replace(
            "}]}",
            &format!("}}],\"usage\":{{\"completion_tokens\":{tokens}}}}}"),
        )
    };
    let outcome = shape(&chat(), stream(&[&with(1), &with(2), "[DONE]"], "\n"));
    // The last one counts: with each event comes the number so far.
    assert_eq!((outcome.content, outcome.tokens), (2, Some(2)));
}

#[test]
fn an_error_inside_fails_the_stream() {
    let errors = [
        "data: {\"error\":{\"message\":\"out of memory\",\"code\":500}}\n\n",
        "data: {\"error\":\"overloaded\",\"error_type\":\"overloaded\"}\n\n",
        "data: {\"object\":\"error\",\"message\":\"bad\"}\n\n",
        "event: error\ndata: {\"message\":\"bad\"}\n\n",
    ];
    for error in errors {
        let outcome = shape(&chat(), format!("{}{error}", stream(&[ROLE, ONE], "\n")));
        assert!(outcome.failed && !chat().is_cut(&outcome), "{error}");
        assert_eq!((outcome.events, outcome.content), (3, 1), "{error}");
    }
    let none = ONE.replace("}]}", "}],\"error\":null}");
    assert!(!shape(&chat(), stream(&[&none], "\n")).failed);
}

#[test]
fn a_stream_without_its_end_mark_is_cut() {
    let text = stream(&[ROLE, ONE, TWO, STOP, USAGE], "\n");
    let outcome = shape(&chat(), &text);
    assert!(chat().is_cut(&outcome));
    assert_eq!((outcome.content, outcome.tokens), (2, Some(2)));
    let inside = text.find("One").unwrap();
    let outcome = shape(&chat(), &text[..inside]);
    assert!(chat().is_cut(&outcome));
    assert_eq!((outcome.events, outcome.content), (2, 0));
    assert!(!plain(EventFormat::Sse).is_cut(&shape(&plain(EventFormat::Sse), &text)));
}

#[test]
fn the_last_empty_line_may_be_missing() {
    let text = stream(&USUAL, "\n");
    assert_usual(text.trim_end());
    assert_usual(&text[..text.len() - 1]);
}

#[test]
fn a_split_at_every_byte_changes_only_times() {
    let text = stream(&USUAL, "\r\n");
    let every: Vec<usize> = (1..text.len()).collect();
    let (outcome, gaps) = read(&chat(), text.as_bytes(), &every, &[]);
    assert_eq!((outcome.events, outcome.content, outcome.shared), (6, 2, 0));
    // An event is there with the CR of the empty line.
    let end = |part: &str| (text.find(part).unwrap() + part.len() + 3) as u64;
    assert_eq!(outcome.first_event_ns, Some(end(ROLE)));
    assert_eq!(outcome.first_ns, Some(end(ONE)));
    assert_eq!(outcome.last_ns, Some(end(TWO)));
    assert_eq!(gaps, [end(TWO) - end(ONE)]);
}

#[test]
fn events_of_one_read_have_no_gap_of_their_own() {
    let text = stream(&[ONE, TWO, TWO, TWO, "[DONE]"], "\n");
    let cuts = [text.find("data: [").unwrap() - 3];
    let (outcome, gaps) = read(&chat(), text.as_bytes(), &cuts, &[]);
    assert_eq!((outcome.content, outcome.shared, gaps.len()), (4, 2, 1));
}

#[test]
fn reasoning_is_content_but_not_visible() {
    let events = [
        r#"{"choices":[{"delta":{"reasoning_content":"Hm"}}]}"#,
        r#"{"choices":[{"delta":{"reasoning":"Hm","content":null}}]}"#,
        r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]}]}}]}"#,
    ];
    for reasoning in events {
        let text = stream(&[reasoning, ONE, "[DONE]"], "\n");
        let cut = text.find("\n\n").unwrap() + 2;
        let (outcome, gaps) = read(&chat(), text.as_bytes(), &[cut], &[]);
        assert_eq!(outcome.first_ns, Some(cut as u64), "{reasoning}");
        assert_eq!(outcome.first_visible_ns, Some(text.len() as u64));
        assert_eq!(gaps, [(text.len() - cut) as u64]);
    }
}

#[test]
fn refusals_and_arguments_of_tool_calls_are_content() {
    let events = [
        (r#"{"choices":[{"delta":{"refusal":"No"}}]}"#, 1),
        (
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}}]}"#,
            0,
        ),
        (
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\""}}]}}]}"#,
            1,
        ),
        (
            r#"{"choices":[{"delta":{"function_call":{"arguments":":1}"}}}]}"#,
            1,
        ),
        (
            r#"{"choices":[{"delta":{"content":[{"type":"text","text":"One"}]}}]}"#,
            1,
        ),
        (
            r#"{"choices":[{"index":0,"text":"One","logprobs":null}]}"#,
            1,
        ),
        (r#"{"choices":[{"index":0,"text":""}]}"#, 0),
        (
            r#"{"choices":[{"index":0,"delta":{"content":""}},{"index":1,"delta":{"content":"x"}}]}"#,
            1,
        ),
    ];
    for (event, content) in events {
        assert_eq!(
            shape(&chat(), stream(&[event], "\n")).content,
            content,
            "{event}"
        );
    }
}

#[test]
fn names_inside_strings_and_elsewhere_are_no_content() {
    let events = [
        r#"{"id":"\",\"choices\":[{\"delta\":{\"content\":\"x\"}}]","choices":[]}"#,
        r#"{"metadata":{"choices":[{"delta":{"content":"x"}}],"usage":{"completion_tokens":7},"error":"x"}}"#,
        r#"{"choices":[{"delta":{"role":"content","logprobs":{"content":[{"token":"x","content":"x"}]}}}]}"#,
        r#"{"choices":[{"message":{"content":"x"},"delta":{"content":{"content":"x"}}}]}"#,
        r#"{"choices":{"delta":{"content":"x"}}}"#,
        r#"[{"choices":[{"delta":{"content":"x"}}]}]"#,
        r#""choices""#,
        "1",
        "",
    ];
    for event in events {
        let outcome = shape(&chat(), stream(&[event], "\n"));
        assert_eq!((outcome.events, outcome.content), (1, 0), "{event}");
        assert_eq!((outcome.tokens, outcome.failed), (None, false), "{event}");
    }
}

#[test]
fn names_and_texts_may_have_escape_sequences() {
    let escaped = r#"{"cho\u0069ces":[{"delta":{"c\u006Fntent":"\n","\ud83d\ude00":"x"},"finish_reason":"\u006cengt\u0068"}]}"#;
    let outcome = shape(&chat(), stream(&[escaped], "\n"));
    assert_eq!((outcome.content, outcome.stopped_by_length), (1, true));
    for other in [
        r"choice\u00f3",
        r"choice\u0173",
        r"choices\n",
        r"choices\/",
        r"choices\u0000",
    ] {
        let text = ONE.replace("choices", other);
        assert_eq!(shape(&chat(), stream(&[&text], "\n")).content, 0, "{other}");
    }
}

#[test]
fn the_length_that_stops_an_output_is_reported() {
    let stop = STOP.replace("stop", "length");
    assert!(shape(&chat(), stream(&[ONE, &stop, "[DONE]"], "\n")).stopped_by_length);
}

#[test]
fn an_output_that_ends_by_an_error_fails() {
    let stop = STOP.replace("stop", "error");
    let outcome = shape(&chat(), stream(&[ONE, &stop, "[DONE]"], "\n"));
    assert!(outcome.failed && outcome.ended);
}

#[test]
fn blanks_behind_the_end_mark_of_a_language_model_belong_to_it() {
    for (mark, ended) in [("[DONE] ", true), ("[DONE]\t ", true), ("[DONE] x", false)] {
        let outcome = shape(&chat(), stream(&[ONE, mark], "\n"));
        assert_eq!(outcome.ended, ended, "{mark:?}");
    }
    let plain = EventSpec::new(EventFormat::Sse, Meaning::Plain, Some("[DONE]"));
    assert!(!shape(&plain, stream(&["[DONE] "], "\n")).ended);
}

#[test]
fn the_first_shares_a_read_only_with_the_second() {
    let spec = EventSpec::new(EventFormat::Lines, Meaning::Plain, None);
    for (cuts, expected) in [
        (&[][..], true),
        (&[4], true),
        (&[2], false),
        (&[2, 4], false),
    ] {
        let (outcome, _) = read(&spec, b"a\nb\nc\n", cuts, &[]);
        assert_eq!(outcome.first_shared, expected, "{cuts:?}");
    }
}

#[test]
fn responses_have_types_and_end_with_one() {
    let spec = EventSpec::new(EventFormat::Sse, Meaning::Responses, None);
    let event =
        |kind: &str, rest: &str| format!("event: {kind}\ndata: {{\"type\":\"{kind}\",{rest}}}\n\n");
    let created = event(
        "response.created",
        r#""response":{"id":"r","status":"in_progress","usage":null,"error":null}"#,
    );
    let thought = event("response.reasoning_summary_text.delta", r#""delta":"Hm""#);
    let delta = event(
        "response.output_text.delta",
        r#""item_id":"m","delta":"One""#,
    );
    let refusal = event("response.refusal.delta", r#""delta":"No""#);
    let call = event("response.function_call_arguments.delta", r#""delta":"{}""#);
    let done = event("response.output_text.done", r#""text":"One""#);
    let completed = event(
        "response.completed",
        r#""response":{"output":[{"content":[{"text":"One"}]}],"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":8},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":6}}}"#,
    );
    let text = [
        &created, &thought, &delta, &refusal, &call, &done, &completed,
    ]
    .map(String::as_str)
    .concat();
    let outcome = shape(&spec, &text);
    assert_eq!((outcome.events, outcome.content), (7, 4));
    assert!(outcome.ended && !outcome.failed && !outcome.stopped_by_length);
    let counts = [
        outcome.prompt_tokens,
        outcome.cached_tokens,
        outcome.tokens,
        outcome.reasoning_tokens,
    ];
    assert_eq!(counts, [9, 8, 7, 6].map(Some));
    // The type may be in the data only, or in the event only.
    let data_only = text.replace("event: ", "x: ");
    assert_eq!(
        shape(&spec, data_only),
        outcome_at(outcome, text.len() - 7 * 4)
    );
    let event_only = text.replace("\"type\"", "\"kind\"");
    assert_eq!(shape(&spec, event_only), outcome);

    // The data's type is that of the event.
    let other = completed.replacen("completed", "output_text.delta", 1);
    assert!(shape(&spec, other).ended);

    let both = r#"{"object":"error","type":"response.completed"}"#;
    let outcome = shape(&spec, stream(&[both], "\n"));
    assert!(outcome.ended && outcome.failed);

    let cut = shape(&spec, created.clone() + &delta);
    assert!(spec.is_cut(&cut));
    let incomplete = event(
        "response.incomplete",
        r#""response":{"incomplete_details":{"reason":"max_output_tokens"}}"#,
    );
    let outcome = shape(&spec, delta.clone() + &incomplete);
    assert!(outcome.ended && outcome.stopped_by_length);
    for kind in ["response.failed", "error"] {
        let outcome = shape(&spec, delta.clone() + &event(kind, r#""message":"bad""#));
        assert!(outcome.failed && !spec.is_cut(&outcome));
    }
}

/// Returns the outcome with all that arrived at another time.
fn outcome_at(outcome: StreamOutcome, end: usize) -> StreamOutcome {
    let at = Some(end as u64);
    StreamOutcome {
        first_event_ns: at,
        first_ns: at,
        first_visible_ns: at,
        last_ns: at,
        bytes: end as u64,
        ..outcome
    }
}

#[test]
fn what_follows_the_end_mark_is_not_read() {
    let outcome = shape(
        &chat(),
        stream(&[ONE, "[DONE]", TWO, "{\"error\":\"x\"}"], "\n"),
    );
    assert_eq!(
        (outcome.events, outcome.content, outcome.failed),
        (2, 1, false)
    );
}

#[test]
fn plain_events_are_those_of_the_standard() {
    // The examples of the standard's section on parsing, and on interpreting an event stream.
    let cases: [(&str, u32); 9] = [
        ("data: YHOO\ndata: +2\ndata: 10\n\n", 1),
        (
            ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event",
            3,
        ),
        ("data\n\ndata\ndata\n\ndata:", 3),
        ("data:test\n\ndata: test\n\n", 2),
        ("event: ping\n\n", 0),
        ("\n\n\r\n\r\r", 0),
        (
            "datax: a\n\ndat: a\n\nDATA: a\n\n data: a\n\ndata : a\n\n",
            0,
        ),
        ("data: a\n\r\n\ndata: b\r\r\n", 2),
        ("retry: 1\nid: x\nevent: add\ndata: a\n\n", 1),
    ];
    for (text, events) in cases {
        let outcome = shape(&plain(EventFormat::Sse), text);
        assert_eq!(
            (outcome.events, outcome.content),
            (events, events),
            "{text:?}"
        );
    }
}

#[test]
fn anthropic_and_ollama_streams_are_plain_events() {
    let text = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25}}}\n\n\
        event: ping\ndata: {\"type\": \"ping\"}\n\n\
        event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\n\
        event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let outcome = shape(&plain(EventFormat::Sse), text);
    assert_eq!(
        (outcome.events, outcome.content, outcome.failed),
        (4, 4, false)
    );
    let end = EventSpec::new(
        EventFormat::Sse,
        Meaning::Plain,
        Some("{\"type\":\"message_stop\"}"),
    );
    let outcome = shape(&end, text);
    assert_eq!(
        (outcome.events, outcome.content, outcome.ended),
        (4, 3, true)
    );
    let error =
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n";
    assert!(shape(&plain(EventFormat::Sse), error).failed);

    let text = "{\"model\":\"m\",\"response\":\"The\",\"done\":false}\n\
        {\"model\":\"m\",\"response\":\" sky\",\"done\":false}\r\n\n\
        {\"model\":\"m\",\"response\":\"\",\"done\":true,\"eval_count\":2}";
    let outcome = shape(&plain(EventFormat::Lines), text);
    assert_eq!(
        (outcome.events, outcome.content, outcome.failed),
        (3, 3, false)
    );
}

#[test]
fn lines_end_with_lf_or_crlf() {
    let end = EventSpec::new(EventFormat::Lines, Meaning::Plain, Some("end\rx"));
    let outcome = shape(&end, "a\r\n\r\nb\rc\n\nend\rx\r\n");
    assert_eq!(
        (outcome.events, outcome.content, outcome.ended),
        (3, 2, true)
    );
}

#[test]
fn chunks_are_events_with_data() {
    let spec = plain(EventFormat::Chunks);
    // An empty one is none; what is not in chunks is one.
    let (outcome, gaps) = read(&spec, b"onetwothree", &[2, 3, 7], &[3, 3, 6]);
    assert_eq!((outcome.events, outcome.shared), (3, 0));
    assert_eq!(gaps, [4, 4]);
    let (outcome, _) = read(&spec, b"", &[], &[]);
    assert_eq!(outcome, StreamOutcome::default());
    let end = EventSpec::new(EventFormat::Chunks, Meaning::Plain, Some("two"));
    assert!(read(&end, b"onetwothree", &[4], &[3, 6]).0.ended);
    assert!(!read(&end, b"onetwothree", &[4], &[3]).0.ended);
}

/// Returns these messages as gRPC sends them.
fn messages(messages: &[&[u8]]) -> Vec<u8> {
    let message = |message: &&[u8]| {
        let length = u32::try_from(message.len()).unwrap();
        [&[0], &length.to_be_bytes()[..], message].concat()
    };
    messages.iter().flat_map(message).collect()
}

#[test]
fn messages_of_grpc_are_events() {
    let spec = plain(EventFormat::Grpc);
    let bytes = messages(&[b"one", b"", &[7; 300], b"\0\0\0\0\0"]);
    let outcome = shape(&spec, &bytes);
    assert_eq!((outcome.events, outcome.content), (4, 4));
    assert!(outcome.ended && !spec.is_cut(&outcome));
    // An empty one is there with its head, another with its last byte.
    let every: Vec<usize> = (1..bytes.len()).collect();
    assert_eq!(read(&spec, &bytes, &every, &[]).1, [5, 305, 10]);
    // A compressed one is one, too.
    assert_eq!(shape(&spec, b"\x01\0\0\0\x02ab").events, 1);
    assert!(shape(&spec, b"").ended);

    for (lost, events) in [(1, 3), (5, 3), (9, 3), (11, 2)] {
        let cut = shape(&spec, &bytes[..bytes.len() - lost]);
        assert!(spec.is_cut(&cut), "{lost}");
        assert_eq!(cut.events, events, "{lost}");
    }
    let endless = shape(&spec, b"\0\xff\xff\xff\xffab");
    assert_eq!((endless.events, spec.is_cut(&endless)), (0, true));
}

#[test]
fn times_that_go_back_make_no_gap() {
    let spec = plain(EventFormat::Lines);
    let mut reader = EventReader::new();
    for at in [10, 9, 12] {
        reader.read(&spec, b"x\n", at, |gap| assert_eq!(gap, 2));
    }
    let outcome = reader.outcome();
    assert_eq!((outcome.shared, outcome.last_ns), (1, Some(12)));
}

#[test]
fn an_endless_line_is_read() {
    let mut reader = EventReader::new();
    reader.read(
        &chat(),
        b"data: {\"choices\":[{\"delta\":{\"x\":\"",
        1,
        |_| {},
    );
    for at in 2..1_000 {
        reader.read(&chat(), &[b'a'; 4096], at, |_| {});
    }
    reader.read(&chat(), b"\",\"content\":\"x\"}}]}\n\n", 1_000, |_| {});
    assert_eq!(reader.outcome().first_ns, Some(1_000));
    let mut reader = EventReader::new();
    for at in 1..100 {
        reader.read(&chat(), &[b'{'; 4096], at, |_| {});
        reader.read(&chat(), &[b'\xef'; 4096], at, |_| {});
    }
    assert_eq!(reader.finish(&chat(), |_| {}).events, 0);
}

const KEYS: [&str; 34] = [
    "choices",
    "delta",
    "content",
    "reasoning_content",
    "reasoning",
    "refusal",
    "tool_calls",
    "function_call",
    "function",
    "arguments",
    "text",
    "thinking",
    "finish_reason",
    "usage",
    "prompt_tokens",
    "completion_tokens",
    "input_tokens",
    "output_tokens",
    "prompt_tokens_details",
    "completion_tokens_details",
    "input_tokens_details",
    "output_tokens_details",
    "cached_tokens",
    "reasoning_tokens",
    "error",
    "type",
    "object",
    "response",
    "incomplete_details",
    "reason",
    "x",
    "",
    "conten",
    "contents",
];

const NAMES: [&str; 12] = [
    "error",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.output_text.delta",
    "response.reasoning_text.delta",
    "response.created",
    "length",
    "max_output_tokens",
    "stop",
    "ping",
    "a name that is much longer than any that could matter to anybody",
];

fn scalar() -> BoxedStrategy<Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0_u32..100).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(json!("")),
        ".{0,9}".prop_map(Value::from),
        proptest::sample::select(&NAMES[..]).prop_map(Value::from),
        Just(json!(r#","content":"x","error":{"#)),
    ]
    .boxed()
}

/// Texts with known names at any place.
fn anything() -> BoxedStrategy<Value> {
    let key = proptest::sample::select(&KEYS[..]).prop_map(String::from);
    scalar()
        .prop_recursive(5, 24, 4, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::hash_map(key.clone(), inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
        .boxed()
}

/// An object with one of the members, or with one and another.
fn object(members: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let members: Vec<_> = members
        .into_iter()
        .map(|(key, value)| {
            prop_oneof![4 => value, 1 => anything()]
                .prop_map(move |value| (key, value))
                .boxed()
        })
        .collect();
    let member = proptest::strategy::Union::new(members);
    let other = (proptest::sample::select(&KEYS[..]), anything());
    (
        proptest::collection::vec(member, 0..4),
        proptest::option::of(other),
    )
        .prop_map(|(members, other)| {
            let members = other.into_iter().chain(members);
            Value::Object(
                members
                    .map(|(key, value)| (key.to_string(), value))
                    .collect(),
            )
        })
        .boxed()
}

fn array(element: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    proptest::collection::vec(element, 0..3)
        .prop_map(Value::from)
        .boxed()
}

/// Texts that have members at the places where they matter.
fn meaningful() -> BoxedStrategy<Value> {
    let function = || object(vec![("arguments", scalar()), ("name", scalar())]);
    let thought = object(vec![("text", scalar())]);
    let part = object(vec![("text", scalar()), ("thinking", array(thought))]);
    let delta = object(vec![
        ("content", scalar()),
        ("content", array(part)),
        ("reasoning_content", scalar()),
        ("reasoning", scalar()),
        ("refusal", scalar()),
        ("tool_calls", array(object(vec![("function", function())]))),
        ("function_call", function()),
    ]);
    let choice = object(vec![
        ("delta", delta),
        ("text", scalar()),
        ("finish_reason", scalar()),
    ]);
    let details = || {
        object(vec![
            ("cached_tokens", scalar()),
            ("reasoning_tokens", scalar()),
        ])
    };
    let usage = || {
        object(vec![
            ("prompt_tokens", scalar()),
            ("input_tokens", scalar()),
            ("completion_tokens", scalar()),
            ("output_tokens", scalar()),
            ("prompt_tokens_details", details()),
            ("completion_tokens_details", details()),
            ("input_tokens_details", details()),
            ("output_tokens_details", details()),
        ])
    };
    let reason = object(vec![("reason", scalar())]);
    object(vec![
        ("choices", array(choice)),
        ("usage", usage()),
        ("error", scalar()),
        ("type", scalar()),
        ("object", scalar()),
        ("delta", scalar()),
        (
            "response",
            object(vec![("usage", usage()), ("incomplete_details", reason)]),
        ),
    ])
}

/// Writes a text in one of the styles that mean the same.
fn written(value: &Value, style: u8) -> String {
    let text = match style % 2 {
        0 => value.to_string(),
        _ => serde_json::to_string_pretty(value).unwrap(),
    };
    match style / 2 {
        // No literal has the letter; after a backslash it would not be one.
        1 if !text.contains('\\') => text.replace('o', "\\u006f"),
        _ => text,
    }
}

/// An event as lines without their ends.
fn event() -> impl Strategy<Value = Vec<String>> {
    let data = prop_oneof![
        6 => (prop_oneof![meaningful(), anything()], 0_u8..3).prop_map(|(value, style)| written(&value, style)),
        1 => Just("[DONE]".to_string()),
        1 => "[ -~]{0,20}",
    ];
    let extra = prop_oneof![
        Just(": ping".to_string()),
        Just("id: 7".to_string()),
        Just("data".to_string()),
        proptest::sample::select(&NAMES[..]).prop_map(|name| format!("event: {name}")),
        proptest::sample::select(&NAMES[..]).prop_map(|name| format!("event:{name}")),
    ];
    (proptest::collection::vec(extra, 0..3), data, any::<bool>()).prop_map(
        |(extras, data, has_blank)| {
            let blank = if has_blank { " " } else { "" };
            let lines = data.split('\n').map(|line| format!("data:{blank}{line}"));
            extras
                .into_iter()
                .chain(lines)
                .chain([String::new()])
                .collect()
        },
    )
}

/// Whole streams, each line with its own kind of end.
fn stream_text() -> impl Strategy<Value = Vec<u8>> {
    let end = prop_oneof![4 => Just("\n"), 4 => Just("\r\n"), 1 => Just("\r")];
    let events = proptest::collection::vec(event(), 0..8);
    (
        events,
        proptest::collection::vec(end, 1..4),
        any::<bool>(),
        0_usize..5,
    )
        .prop_map(|(events, ends, has_bom, lost)| {
            let lines = events.iter().flatten().zip(ends.iter().cycle());
            let text: String = lines.map(|(line, end)| format!("{line}{end}")).collect();
            let mut bytes = if has_bom {
                b"\xef\xbb\xbf".to_vec()
            } else {
                Vec::new()
            };
            bytes.extend_from_slice(text.as_bytes());
            // Of some streams the end of the last line or event is missing.
            for _ in 0..lost {
                bytes.pop_if(|byte| {
                    b"
"
                    .contains(byte)
                });
            }
            bytes
        })
}

const FORMATS: [EventFormat; 4] = [
    EventFormat::Sse,
    EventFormat::Lines,
    EventFormat::Chunks,
    EventFormat::Grpc,
];

const MEANINGS: [Meaning; 4] = [
    Meaning::Plain,
    Meaning::Chat,
    Meaning::Completions,
    Meaning::Responses,
];

const MARKS: [Option<&str>; 4] = [None, Some("[DONE]"), Some(""), Some("a\nb")];

fn spec() -> impl Strategy<Value = EventSpec> {
    (
        proptest::sample::select(&FORMATS[..]),
        proptest::sample::select(&MEANINGS[..]),
        proptest::sample::select(&MARKS[..]),
    )
        .prop_map(|(format, meaning, end)| EventSpec::new(format, meaning, end))
}

/// Returns the places in ascending order, within these bytes.
fn places(places: &[prop::sample::Index], length: usize) -> Vec<usize> {
    let mut places: Vec<usize> = places.iter().map(|place| place.index(length + 1)).collect();
    places.sort_unstable();
    places
}

fn indices() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    proptest::collection::vec(any::<prop::sample::Index>(), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, rng_seed: prop::test_runner::RngSeed::Fixed(38), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn streams_are_read_as_by_the_reference(
        spec in spec(), bytes in stream_text(), cuts in indices(), boundaries in indices(),
    ) {
        let [cuts, boundaries] = [cuts, boundaries].map(|of| places(&of, bytes.len()));
        // Texts that a lost end or a boundary leaves unfinished have no tree.
        let spec = match spec.format {
            EventFormat::Sse => spec,
            format => EventSpec::new(format, Meaning::Plain, None),
        };
        prop_assert_eq!(read(&spec, &bytes, &cuts, &boundaries), reference(&spec, &bytes, &cuts, &boundaries));
    }

    #[test]
    fn lines_of_texts_are_read_as_by_the_reference(
        values in proptest::collection::vec(prop_oneof![meaningful(), anything()], 0..5),
        meaning in spec(), cuts in indices(),
    ) {
        let spec = EventSpec { format: EventFormat::Lines, ..meaning };
        let text: String = values.iter().map(|value| written(value, 0) + "\r\n").collect();
        let cuts = places(&cuts, text.len());
        prop_assert_eq!(read(&spec, text.as_bytes(), &cuts, &[]), reference(&spec, text.as_bytes(), &cuts, &[]));
    }

    #[test]
    fn any_bytes_have_the_same_outcome_for_any_split(
        spec in spec(),
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..300),
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9), 0..9).prop_map(|parts| {
                messages(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>())
            }),
            proptest::collection::vec(proptest::sample::select(&b"\r\n: []{}\"\\,eu04datvn\xef\xbb\xbf"[..]), 0..300),
            (stream_text(), indices(), any::<u8>()).prop_map(|(mut bytes, at, byte)| {
                for place in at {
                    if !bytes.is_empty() {
                        let place = place.index(bytes.len());
                        bytes[place] ^= byte;
                    }
                }
                bytes
            }),
        ],
        cuts in indices(), boundaries in indices(),
    ) {
        let [cuts, boundaries] = [cuts, boundaries].map(|of| places(&of, bytes.len()));
        let whole = at_once(&spec, &bytes, &boundaries, &[]);
        prop_assert_eq!(whole, at_once(&spec, &bytes, &boundaries, &cuts));
        let every: Vec<usize> = (1..bytes.len()).collect();
        prop_assert_eq!(whole, at_once(&spec, &bytes, &boundaries, &every));
        let plain = EventSpec { meaning: Meaning::Plain, ..spec };
        prop_assert_eq!(read(&plain, &bytes, &cuts, &boundaries), reference(&plain, &bytes, &cuts, &boundaries));
    }
}

/// Reads pieces that all arrive at the same time.
fn at_once(spec: &EventSpec, bytes: &[u8], boundaries: &[usize], cuts: &[usize]) -> StreamOutcome {
    let mut reader = EventReader::new();
    let mut ends = [cuts, boundaries, &[bytes.len()]].concat();
    ends.sort_unstable();
    let mut from = 0;
    for to in ends {
        reader.read(spec, &bytes[from..to], 7, |_| {});
        if boundaries.contains(&to) {
            reader.boundary(spec, |_| {});
        }
        from = to;
    }
    reader.finish(spec, |_| {})
}
