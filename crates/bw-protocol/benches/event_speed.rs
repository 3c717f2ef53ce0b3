//! The time that one core takes to read an event: `cargo bench -p bw-protocol --bench event_speed`.
//!
//! Prints the median of the rounds, and the fastest one [ns per event]. An answer has the events that a llama.cpp
//! server sends; it arrives with one event a read, with many, or with each event in two.

use bw_protocol::events::{EventFormat, EventReader, EventSpec, Meaning};
use std::hint::black_box;
use std::time::Instant;

/// Each round is shorter than a time slice, so that most of them are undisturbed on a busy machine.
const ROUNDS: usize = 401;
const EVENTS: usize = 1_000;

const CHAT: &str = r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"content":" word"}}],"created":1764489600,"id":"chatcmpl-0hXo1vS5mQ3c8PzYd7bKq2WnRtUeLf4A","model":"gpt-3.5-turbo","system_fingerprint":"b6942-7f1c2d3e4","object":"chat.completion.chunk"}"#;
const LOGPROBS: &str = r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1764489600,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":{"content":[{"token":" word","logprob":-0.12345,"bytes":[32,119,111,114,100],"top_logprobs":[{"token":" word","logprob":-0.12345,"bytes":[32,119,111,114,100]},{"token":" other","logprob":-2.5,"bytes":[32,111,116,104,101,114]}]}]},"finish_reason":null}],"usage":{"prompt_tokens":9,"completion_tokens":7,"total_tokens":16}}"#;
const TEXT: &str = r#"{"choices":[{"text":" word","index":0,"logprobs":null,"finish_reason":null}],"created":1764489600,"model":"gpt-3.5-turbo","system_fingerprint":"b6942-7f1c2d3e4","object":"text_completion","id":"cmpl-0hXo1vS5mQ3c8PzYd7bKq2WnRtUeLf4A"}"#;
const RESPONSE: &str = r#"{"type":"response.output_text.delta","sequence_number":42,"item_id":"msg_67c9fdcf37fc8190ba82116e33fb28c507b8b0ad4e5eb654","output_index":0,"content_index":0,"delta":" word","logprobs":[],"obfuscation":"Xk29dkslw03mZp"}"#;

fn main() {
    let sse = |data: &str| format!("data: {data}\n\n");
    let named = format!("event: response.output_text.delta\n{}", sse(RESPONSE));
    println!(
        "{:<24} {:>6} {:>20} {:>20} {:>20}",
        "", "bytes", "one a read", "many a read", "two reads each"
    );
    for (name, format, meaning, event) in [
        ("sse, plain", EventFormat::Sse, Meaning::Plain, sse(CHAT)),
        ("sse, chat", EventFormat::Sse, Meaning::Chat, sse(CHAT)),
        (
            "sse, chat, log probs",
            EventFormat::Sse,
            Meaning::Chat,
            sse(LOGPROBS),
        ),
        (
            "sse, completions",
            EventFormat::Sse,
            Meaning::Completions,
            sse(TEXT),
        ),
        (
            "sse, responses",
            EventFormat::Sse,
            Meaning::Responses,
            named,
        ),
        (
            "lines, plain",
            EventFormat::Lines,
            Meaning::Plain,
            format!("{CHAT}\n"),
        ),
    ] {
        let spec = EventSpec::new(format, meaning, None);
        let answer = event.repeat(EVENTS).into_bytes();
        print!("{name:<24} {:>6}", event.len());
        for size in [event.len(), 64 * 1024, event.len().div_ceil(2)] {
            let mut times: Vec<f64> = (0..ROUNDS).map(|_| time(&spec, &answer, size)).collect();
            times.sort_by(f64::total_cmp);
            print!(" {:>12.1} ({:>5.1})", times[ROUNDS / 2], times[0]);
        }
        println!();
    }
}

/// Returns the time to read an event of an answer that arrives in pieces of `size` bytes [ns].
fn time(spec: &EventSpec, answer: &[u8], size: usize) -> f64 {
    let mut reader = EventReader::new();
    let start = Instant::now();
    for (at, piece) in (1..).zip(answer.chunks(size)) {
        reader.read(spec, black_box(piece), at, |gap| {
            black_box(gap);
        });
    }
    let outcome = reader.finish(spec, |_| {});
    let taken = start.elapsed();
    assert_eq!(outcome.content as usize, EVENTS);
    taken.as_secs_f64() * 1e9 / EVENTS as f64
}
