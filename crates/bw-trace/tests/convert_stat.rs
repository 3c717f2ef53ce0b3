//! `stat` reports the same of a trace and of its conversion into our own format: nothing is lost.

#![allow(clippy::unwrap_used)]

use bw_trace::convert::{ConvertOutput, ConvertRequest, OutputFormat, convert};
use bw_trace::input::{Duplicates, TraceInput};
use bw_trace::stat::{StatRequest, StatResult, stat};
use proptest::prelude::*;
use std::fmt::Write;
use std::path::Path;

/// Returns the statistics with memory for every block: a sample would differ, because devices get other numbers.
fn seen(input: &TraceInput) -> StatResult {
    let (input, block_bytes, memory_bytes) = (input.clone(), 4096, 4 << 20);
    stat(&StatRequest {
        input,
        block_bytes,
        memory_bytes,
    })
    .unwrap()
}

/// Returns the statistics of `input` and of its conversion, without the reports of reading, which differ.
fn both(input: &TraceInput, output: &Path) -> [serde_json::Value; 2] {
    let _ = std::fs::remove_file(output);
    let path = output.to_string_lossy().into_owned();
    let converted = convert(&ConvertRequest {
        input: input.clone(),
        output: ConvertOutput {
            path: path.clone(),
            format: OutputFormat::Bw,
        },
    });
    assert_eq!(converted.unwrap().lost, Vec::<String>::new());
    [seen(input), seen(&TraceInput::new(&path))].map(|result| {
        let mut json = serde_json::to_value(result).unwrap();
        json.as_object_mut().unwrap().remove("report");
        json
    })
}

#[derive(Clone, Debug)]
struct Line {
    gap_ns: u64,
    back_ns: u64,
    response_ns: Option<u64>,
    write: bool,
    unit: u8,
    offset: u64,
    size: u32,
}

fn line() -> impl Strategy<Value = Line> {
    let times = (
        prop_oneof![Just(0), 0..3_000_000_u64],
        0..1_000_000_u64,
        proptest::option::of(0..50_000_000_u64),
    );
    let place = (any::<bool>(), 0..3_u8, 0..1_u64 << 40, 0..200_000_u32);
    (times, place).prop_map(
        |((gap_ns, back_ns, response_ns), (write, unit, offset, size))| Line {
            gap_ns,
            back_ns,
            response_ns,
            write,
            unit,
            offset,
            size,
        },
    )
}

/// Returns the lines as a file of Systor'17, which can have all irregularities: disorder, missing ends, units.
fn systor(lines: &[Line]) -> String {
    let mut text = "Timestamp,Response,IOType,LUN,Offset,Size\n".to_owned();
    let mut clock = 1_455_592_200_000_000_000_u64;
    let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    for line in lines {
        clock += line.gap_ns;
        let at = seconds(clock - line.back_ns);
        let response = line.response_ns.map(seconds).unwrap_or_default();
        let kind = if line.write { "W" } else { "R" };
        let (unit, offset, size) = (line.unit, line.offset, line.size);
        writeln!(text, "{at},{response},{kind},{unit},{offset},{size}").unwrap();
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn stat_sees_the_same(lines in prop::collection::vec(line(), 1..200), spread: bool, speed_micro in 1..9_000_000_u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.csv");
        std::fs::write(&path, systor(&lines)).unwrap();
        let input = TraceInput {
            duplicates: Some(if spread { Duplicates::Spread } else { Duplicates::Burst }),
            speed_micro,
            ..TraceInput::new(&path.to_string_lossy())
        };
        let [original, converted] = both(&input, &folder.path().join("out.bw"));
        for (key, value) in original.as_object().unwrap() {
            prop_assert_eq!(value, &converted[key], "{}", key);
        }
    }
}

#[test]
fn stat_sees_the_same_of_an_engines_own_words_and_of_block_events() {
    let folder = tempfile::tempdir().unwrap();
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/");
    for name in [
        "replayed.load",
        "le",
        "v2.vscsi",
        "small.blkparse",
        "v3.iolog",
    ] {
        let input = TraceInput::new(&format!("{data}{name}"));
        let [original, converted] = both(&input, &folder.path().join(format!("{name}.bw")));
        assert_eq!(original, converted, "{name}");
    }
}
