//! Prints the largest resident size while a long trace is read: `cargo run --release -p bw-trace
//! --example reading_memory -- OPERATIONS`. The text is made on the way and never held.

use bw_trace::input::TraceInput;
use bw_trace::trace;
use std::io::{self, Read, Write};

/// An endless file: MSR lines, a little out of order, so that the reorder window is at work.
struct Lines {
    left: u64,
    number: u64,
    text: Vec<u8>,
    taken: usize,
}

impl Read for Lines {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.text.len() {
            self.text.clear();
            self.taken = 0;
            for _ in 0..self.left.min(1000) {
                let back = if self.number % 10 == 9 { 300 } else { 0 };
                let stamp = 128_166_372_003_061_629 + self.number * 50 - back;
                let offset = (self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 46) * 4096;
                writeln!(self.text, "{stamp},hm,0,Read,{offset},4096,1331")?;
                self.number += 1;
            }
            self.left -= self.left.min(1000);
        }
        let length = bytes.len().min(self.text.len() - self.taken);
        bytes[..length].copy_from_slice(&self.text[self.taken..self.taken + length]);
        self.taken += length;
        Ok(length)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let operations = std::env::args()
        .nth(1)
        .map_or(Ok(10_000_000), |text| text.parse())?;
    let lines = Lines {
        left: operations,
        number: 0,
        text: Vec::new(),
        taken: 0,
    };
    let mut trace = trace::read(Box::new(lines), &TraceInput::new("made"))?;
    for row in trace.by_ref() {
        row?;
    }
    let report = trace.report();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let largest = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap_or("VmHWM unknown");
    println!(
        "{} operations, {} reordered, {largest}",
        report.operations, report.reordered
    );
    Ok(())
}
