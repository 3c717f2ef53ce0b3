//! /proc/stat: the time of each processor, interrupts, context switches, forks, tasks.
//!
//! Never only the sum of the processors: one busy thread hides in it. `guest` is inside
//! `user`. Source: proc_stat(5).

use crate::columns::{ABSENT, Columns, Kind, Parser};
use crate::text::{lines, number, words};

const TIMES: [&str; 10] = [
    "user",
    "nice",
    "system",
    "idle",
    "iowait",
    "irq",
    "softirq",
    "steal",
    "guest",
    "guest_nice",
];
/// Keys of the kernel, our names, and their kinds.
const KERNEL: [(&[u8], &str, Kind); 5] = [
    (b"intr", "kernel/interrupts", Kind::Counter),
    (b"ctxt", "kernel/context_switches", Kind::Counter),
    (b"processes", FORKS, Kind::Counter),
    (b"procs_running", "kernel/running", Kind::Gauge),
    (b"procs_blocked", "kernel/blocked", Kind::Gauge),
];
/// The column that says how many processes and threads were ever made.
pub const FORKS: &str = "kernel/forks";

/// What is known of the text: its processors, in its order.
#[derive(Debug, Default)]
pub struct Cpu {
    cpus: Vec<u32>,
}

impl Parser for Cpu {
    const WHAT: &'static str = "cpu";

    fn learn(&mut self, text: &[u8], columns: &mut Columns) {
        self.cpus = cpus(text).collect();
        for cpu in &self.cpus {
            columns.counters(&format!("cpu/{cpu}/"), &TIMES);
        }
        for (_, name, kind) in KERNEL {
            columns.add(name, kind);
        }
    }

    fn parse(&self, text: &[u8], values: &mut [i64]) -> bool {
        values.fill(ABSENT);
        parse(text, &self.cpus, values)
    }
}

/// Returns the processors that the text names, in its order.
pub fn cpus(text: &[u8]) -> impl Iterator<Item = u32> {
    lines(text).filter_map(|line| cpu(words(line).next()?))
}

/// Writes ten times for each of `cpus`, then the kernel's five numbers. False: the text has
/// other processors.
pub fn parse(text: &[u8], cpus: &[u32], values: &mut [i64]) -> bool {
    let (times, kernel) = values.split_at_mut(cpus.len() * TIMES.len());
    let mut seen = 0;
    for line in lines(text) {
        let mut rest = words(line);
        let Some(key) = rest.next() else { continue };
        if let Some(cpu) = cpu(key) {
            if cpus.get(seen) != Some(&cpu) {
                return false;
            }
            let into = &mut times[seen * TIMES.len()..][..TIMES.len()];
            for (value, word) in into.iter_mut().zip(rest) {
                *value = number(word).unwrap_or(ABSENT);
            }
            seen += 1;
        } else if let Some(place) = KERNEL.iter().position(|(name, _, _)| *name == key) {
            kernel[place] = rest.next().and_then(number).unwrap_or(ABSENT);
        }
    }
    seen == cpus.len()
}

fn cpu(key: &[u8]) -> Option<u32> {
    u32::try_from(number(key.strip_prefix(b"cpu")?)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[u8] = b"cpu  9 9 9\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu3 1 2 3 4\n\
        intr 77 1 2 3\nctxt 5\nbtime 1\nprocesses 6\nprocs_running 2\nprocs_blocked 0\n\
        softirq 1 2\n";

    #[test]
    fn each_processor_is_told_and_missing_fields_are_absent() {
        let cpus: Vec<u32> = cpus(TWO).collect();
        assert_eq!(cpus, [0, 3]);
        let mut values = [ABSENT; 25];
        assert!(parse(TWO, &cpus, &mut values));
        assert_eq!(values[..10], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(values[13..15], [4, ABSENT]);
        assert_eq!(values[20..], [77, 5, 6, 2, 0]);
    }

    #[test]
    fn a_processor_that_comes_or_goes_is_a_change() {
        let mut values = [ABSENT; 35];
        assert!(!parse(TWO, &[0], &mut values[..15]));
        assert!(!parse(TWO, &[0, 1], &mut values[..25]));
        assert!(!parse(TWO, &[0, 3, 4], &mut values));
    }

    #[test]
    fn many_processors_are_no_trouble() {
        let text: String = (0..512).map(|n| format!("cpu{n} {n} 0 0 1\n")).collect();
        let cpus: Vec<u32> = cpus(text.as_bytes()).collect();
        let mut values = vec![ABSENT; 512 * 10 + 5];
        assert!(parse(text.as_bytes(), &cpus, &mut values));
        assert_eq!(values[5110], 511);
    }
}
