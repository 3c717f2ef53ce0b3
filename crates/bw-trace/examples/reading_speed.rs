//! Prints how many operations per second each text format is read at, from memory, on this machine
//! now: `cargo run --release -p bw-trace --example reading_speed`.

use bw_trace::input::{Duplicates, TraceInput};
use bw_trace::trace;
use std::fmt::Write;
use std::io::Cursor;
use std::time::Instant;

const OPERATIONS: u64 = 1_000_000;

fn text(heading: &str, line: impl Fn(&mut String, u64)) -> Vec<u8> {
    let mut text = heading.to_owned();
    for number in 0..OPERATIONS {
        line(&mut text, number);
        text.push('\n');
    }
    text.into_bytes()
}

/// Returns the address of operation `number`: spread over 1 GiB in units of 4 KiB.
fn block(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 46
}

fn texts() -> Vec<(&'static str, Vec<u8>)> {
    let load = text("start ; sector ; length ; op\n", |text, number| {
        let (seconds, part) = (number / 20_000, number % 20_000 * 50_000);
        let sector = block(number) * 8;
        let _ = write!(
            text,
            "{seconds:>7}.{part:09} ; {sector:>12} ; {:>4} ; R ; 0.0 ; 0.0",
            8
        );
    });
    let msr = text("", |text, number| {
        let stamp = 128_166_372_003_061_629 + number * 500;
        let offset = block(number) * 4096;
        let _ = write!(text, "{stamp},hm,0,Read,{offset},4096,1331");
    });
    let systor = text(
        "Timestamp,Response,IOType,LUN,Offset,Size\n",
        |text, number| {
            let (seconds, part) = (number / 20_000, number % 20_000 * 50_000);
            let offset = block(number) * 4096;
            let _ = write!(
                text,
                "{}.{part:09},0.000321,W,5,{offset},4096",
                1_455_592_200 + seconds
            );
        },
    );
    let blkparse = text("", |text, number| {
        let (seconds, part) = (number / 20_000, number % 20_000 * 50_000);
        let (action, sector) = (["D", "C"][number as usize % 2], block(number / 2) * 8);
        let _ = write!(
            text,
            "  8,0    1 {number:>8} {seconds:>5}.{part:09} {:>5}  {action}   R {sector} + 8 [fio]",
            697
        );
    });
    vec![
        ("load", load),
        ("msr", msr),
        ("systor", systor),
        ("blkparse", blkparse),
    ]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for (name, bytes) in texts() {
        let megabytes = bytes.len() as f64 / 1e6;
        for round in 1..=3 {
            let input = TraceInput {
                duplicates: Some(Duplicates::Burst),
                ..TraceInput::new(name)
            };
            let start = Instant::now();
            let trace = trace::read(Box::new(Cursor::new(bytes.clone())), &input)?;
            let mut rows = 0_u64;
            for row in trace {
                row?;
                rows += 1;
            }
            let seconds = start.elapsed().as_secs_f64();
            println!(
                "{name} round {round}: {rows} rows of {OPERATIONS} lines, {:.2} million lines/s, {:.0} MB/s",
                OPERATIONS as f64 / seconds / 1e6,
                megabytes / seconds
            );
        }
    }
    Ok(())
}
