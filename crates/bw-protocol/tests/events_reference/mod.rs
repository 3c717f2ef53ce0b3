//! A second reading of streams of events: of whole answers, with a tree of each event's JSON, without regard to cost.

use bw_protocol::events::{EventFormat, EventSpec, Meaning, StreamOutcome};
use serde_json::Value;

/// An event of an answer.
#[derive(Debug, Default)]
struct Whole {
    name: String,
    data: Vec<u8>,
    /// The number of the answer's bytes up to the one that ends it.
    end: usize,
}

/// Returns the outcome and the gaps of an answer of which pieces arrive that end at `cuts`, each at a time that is its
/// end; `boundaries` are those of the transfer.
pub(crate) fn outcome(
    spec: &EventSpec,
    bytes: &[u8],
    cuts: &[usize],
    boundaries: &[usize],
) -> (StreamOutcome, Vec<u64>) {
    let events = match spec.format {
        EventFormat::Sse => server_sent(bytes),
        EventFormat::Lines => lines(bytes),
        EventFormat::Chunks => chunks(bytes, boundaries),
        EventFormat::Grpc => messages(bytes),
        // Their frames are the protocol's.
        EventFormat::WebSocket => Vec::new(),
    };
    let mut outcome = StreamOutcome {
        bytes: bytes.len() as u64,
        ..StreamOutcome::default()
    };
    let mut gaps = Vec::new();
    for event in events {
        let arrival = cuts.iter().find(|&&cut| cut >= event.end);
        let arrival = *arrival.unwrap_or(&bytes.len()) as u64;
        add(spec, &event, arrival, &mut outcome, &mut gaps);
        if outcome.ended {
            break;
        }
    }
    if spec.format == EventFormat::Grpc {
        let read = messages(bytes).last().map_or(0, |last| last.end);
        outcome.ended |= read == bytes.len();
    }
    outcome.largest_gap_ns = gaps.iter().copied().max();
    (outcome, gaps)
}

fn chunks(bytes: &[u8], boundaries: &[usize]) -> Vec<Whole> {
    let mut from = 0;
    let mut events = Vec::new();
    for &to in boundaries.iter().chain([&bytes.len()]) {
        if to > from {
            events.push(Whole {
                data: bytes[from..to].to_vec(),
                end: to,
                ..Whole::default()
            });
        }
        from = to;
    }
    events
}

fn messages(bytes: &[u8]) -> Vec<Whole> {
    let mut from = 0;
    let mut events = Vec::new();
    while let Some(length) = bytes.get(from + 1..from + 5) {
        let length = u32::from_be_bytes(length.try_into().unwrap());
        let end = from + 5 + length as usize;
        let Some(data) = bytes.get(from + 5..end) else {
            break;
        };
        events.push(Whole {
            data: data.to_vec(),
            end,
            ..Whole::default()
        });
        from = end;
    }
    events
}

fn lines(bytes: &[u8]) -> Vec<Whole> {
    let mut end = 0;
    let mut events = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        end += line.len();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let data = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
        if !data.is_empty() {
            events.push(Whole {
                data,
                end,
                ..Whole::default()
            });
        }
    }
    events
}

fn server_sent(bytes: &[u8]) -> Vec<Whole> {
    let start = if bytes.starts_with(b"\xef\xbb\xbf") {
        3
    } else {
        0
    };
    let mut events = Vec::new();
    let mut open: Option<Vec<Vec<u8>>> = None;
    let mut name = Vec::new();
    let mut from = start;
    while from <= bytes.len() {
        let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let length = bytes[from..].iter().position(is_end);
        let line = &bytes[from..length.map_or(bytes.len(), |length| from + length)];
        let mut end = from + line.len() + 1;
        let is_last = length.is_none();
        if !line.is_empty() {
            let colon = line.iter().position(|byte| *byte == b':');
            let (key, value) = line.split_at(colon.unwrap_or(line.len()));
            let value = value.strip_prefix(b":").unwrap_or(value);
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match key {
                b"data" => open.get_or_insert_default().push(value.to_vec()),
                b"event" => name = value.to_vec(),
                _ => {}
            }
        }
        if line.is_empty() || is_last {
            if let Some(lines) = open.take() {
                events.push(Whole {
                    name: String::from_utf8_lossy(&name).into_owned(),
                    data: lines.join(&b'\n'),
                    end: end.min(bytes.len()),
                });
            }
            name.clear();
        }
        if bytes.get(end - 1) == Some(&b'\r') && bytes.get(end) == Some(&b'\n') {
            end += 1;
        }
        from = end;
    }
    events
}

fn add(
    spec: &EventSpec,
    event: &Whole,
    arrival: u64,
    outcome: &mut StreamOutcome,
    gaps: &mut Vec<u64>,
) {
    outcome.events += 1;
    outcome.first_event_ns = outcome.first_event_ns.or(Some(arrival));
    let models = matches!(spec.meaning, Meaning::Chat | Meaning::Completions);
    let blanks = match spec
        .end
        .as_deref()
        .map(|mark| event.data.strip_prefix(mark))
    {
        Some(Some(rest)) if models => rest.iter().all(|byte| b" \t".contains(byte)),
        Some(Some(rest)) => rest.is_empty(),
        _ => false,
    };
    if blanks {
        outcome.ended = true;
        return;
    }
    // Only the first text counts, where two are one event's data.
    let mut texts = serde_json::Deserializer::from_slice(&event.data).into_iter();
    let tree: Value = texts.next().and_then(Result::ok).unwrap_or_default();
    let names = [
        &tree["type"],
        &tree["object"],
        &Value::from(event.name.as_str()),
    ];
    let names: Vec<&str> = names.iter().filter_map(|name| name.as_str()).collect();
    let (is_visible, is_reasoning) = match spec.meaning {
        Meaning::Plain => {
            outcome.failed |= event.name == "error";
            (event.name != "error", false)
        }
        Meaning::Chat | Meaning::Completions => {
            read_common(&tree, &names, outcome);
            let choices = tree["choices"]
                .as_array()
                .map_or(&[][..], |choices| choices);
            let any = |test: fn(&Value) -> bool| choices.iter().any(test);
            (any(is_visible), any(is_reasoning))
        }
        Meaning::Responses => {
            read_common(&tree, &names, outcome);
            let known = |name: &&&str| {
                name.starts_with("response.") && name.ends_with(".delta")
                    || [
                        "response.completed",
                        "response.incomplete",
                        "response.failed",
                        "error",
                    ]
                    .contains(name)
            };
            let name = names.iter().find(known).copied().unwrap_or_default();
            outcome.ended = ["response.completed", "response.incomplete"].contains(&name);
            outcome.failed |= name == "response.failed";
            let is_delta = name.ends_with(".delta") && has_text(&tree["delta"]);
            let is_reasoning = name.starts_with("response.reasoning");
            (is_delta && !is_reasoning, is_delta && is_reasoning)
        }
    };
    if !is_visible && !is_reasoning {
        return;
    }
    outcome.content += 1;
    outcome.first_ns = outcome.first_ns.or(Some(arrival));
    if is_visible {
        outcome.first_visible_ns = outcome.first_visible_ns.or(Some(arrival));
    }
    match outcome.last_ns {
        Some(last) if last == arrival => {
            outcome.shared += 1;
            outcome.first_shared |= outcome.content == 2;
        }
        Some(last) => gaps.push(arrival - last),
        None => {}
    }
    outcome.last_ns = Some(arrival);
}

/// Reads errors, numbers of tokens, and why the output ended.
fn read_common(tree: &Value, names: &[&str], outcome: &mut StreamOutcome) {
    outcome.failed |= match &tree["error"] {
        Value::Null | Value::Bool(false) | Value::Array(_) => false,
        Value::String(text) => !text.is_empty(),
        _ => true,
    };
    outcome.failed |= names.contains(&"error");
    let choices = tree["choices"]
        .as_array()
        .map_or(&[][..], |choices| choices);
    let reasons = choices.iter().map(|choice| &choice["finish_reason"]);
    let reasons = reasons.chain([&tree["response"]["incomplete_details"]["reason"]]);
    let limits = ["length", "max_output_tokens"].map(Value::from);
    for reason in reasons {
        outcome.stopped_by_length |= limits.contains(reason);
        outcome.failed |= reason == "error";
    }
    for usage in [&tree["response"]["usage"], &tree["usage"]] {
        let set = |count: &mut Option<u32>, values: [&Value; 2]| {
            for value in values {
                let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
                *count = number.or(*count);
            }
        };
        // The order is that of the members in the generated texts.
        set(
            &mut outcome.tokens,
            [&usage["completion_tokens"], &usage["output_tokens"]],
        );
        set(
            &mut outcome.prompt_tokens,
            [&usage["input_tokens"], &usage["prompt_tokens"]],
        );
        let [of_input, of_prompt] =
            ["input", "prompt"].map(|of| &usage[format!("{of}_tokens_details")]["cached_tokens"]);
        set(&mut outcome.cached_tokens, [of_input, of_prompt]);
        let [of_completion, of_output] = ["completion", "output"]
            .map(|of| &usage[format!("{of}_tokens_details")]["reasoning_tokens"]);
        set(&mut outcome.reasoning_tokens, [of_completion, of_output]);
    }
}

fn has_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

fn elements(value: &Value) -> &[Value] {
    value.as_array().map_or(&[][..], |elements| elements)
}

fn is_visible(choice: &Value) -> bool {
    let delta = &choice["delta"];
    let calls = elements(&delta["tool_calls"])
        .iter()
        .map(|call| &call["function"]);
    let mut calls = calls.chain([&delta["function_call"]]);
    has_text(&choice["text"])
        || has_text(&delta["content"])
        || elements(&delta["content"])
            .iter()
            .any(|part| has_text(&part["text"]))
        || has_text(&delta["refusal"])
        || calls.any(|call| has_text(&call["arguments"]))
}

fn is_reasoning(choice: &Value) -> bool {
    let delta = &choice["delta"];
    let thinks = |part: &Value| {
        let thinking = &part["thinking"];
        has_text(thinking)
            || elements(thinking)
                .iter()
                .any(|part| has_text(&part["text"]))
    };
    has_text(&delta["reasoning_content"])
        || has_text(&delta["reasoning"])
        || elements(&delta["content"]).iter().any(thinks)
}
