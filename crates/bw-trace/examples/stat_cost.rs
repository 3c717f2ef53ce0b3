//! Prints what `trace-stat` of a trace costs: `cargo run --release -p bw-trace --example stat_cost [PATH | ROWS]`. A number makes a
//! trace of so many operations first. Nothing is asserted: it is a figure of this machine in this minute.

use bw_model::{Kind, Nanos, Row};
use bw_record::segment::{Content, Header, Order, SegmentWriter};
use bw_schedule::random::Stream;
use bw_trace::input::TraceInput;
use bw_trace::stat::{StatRequest, stat};
use std::error::Error;
use std::fs::File;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let argument = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "1000000".to_owned());
    let Ok(rows) = argument.parse() else {
        return measure(&argument, true);
    };
    let path = std::env::temp_dir().join(format!("bw-stat-cost-{}.bw", std::process::id()));
    let name = path.to_string_lossy().into_owned();
    write(&name, rows)?;
    let measured = measure(&name, false);
    std::fs::remove_file(&path)?;
    measured
}

fn measure(path: &str, print: bool) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let input = TraceInput::new(path);
    let result = stat(&StatRequest {
        input,
        block_bytes: 4096,
        memory_bytes: 256 << 20,
    })?;
    let per_row = start.elapsed().as_nanos() as f64 / result.operations.max(1) as f64;
    if print {
        println!("{}", serde_json::to_string_pretty(&result)?);
    }
    let blocks = (
        result.popularity.method,
        result.popularity.rate,
        result.working_set.blocks,
    );
    eprintln!(
        "{} operations, {per_row:.0} ns each; blocks: {blocks:?}; {}",
        result.operations,
        peak()?
    );
    Ok(())
}

/// Returns the line of /proc about the most memory this process had.
fn peak() -> Result<String, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    Ok(line.unwrap_or("VmHWM is not reported").to_owned())
}

fn write(path: &str, rows: u64) -> Result<(), Box<dyn Error>> {
    let header = Header::new(Content::Trace, Order::Intended);
    let mut writer = SegmentWriter::new(File::create(path)?, &header)?;
    let mut stream = Stream::new(1, 0);
    for number in 0..rows {
        let at = Nanos(number * 10_000);
        writer.write(&Row {
            intended: at,
            issued: Nanos::NEVER,
            completed: at + Nanos(100_000),
            offset: stream.below(1 << 28) * 4096,
            size: 4096,
            result: 4096,
            stream: 0,
            device: 0,
            kind: Kind::Read,
        })?;
    }
    writer.finish()?;
    Ok(())
}
