//! Sources about CPUs: /proc/stat, /proc/softirqs, frequencies and temperatures, /proc/pressure.
//!
//! The times of CPUs are never reported only as their sum, which hides one busy thread. `guest` is included in `user`.
//! Reading a temperature may call the firmware, and a frequency another CPU, so these are read at a slow pace. `cpu`
//! has no `full` pressure before Linux 5.13. Sources: proc_stat(5), proc_softirqs(5), the kernel's
//! admin-guide/pm/cpufreq, driver-api/thermal and accounting/psi.

use crate::arguments::Roots;
use crate::columns::{ABSENT, ColumnKind, ColumnSource, Columns, KernelFile, Parser, Text};
use crate::text::{lines, number, only, words};
use std::fs;
use std::path::{Path, PathBuf};

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
const KERNEL: [(&[u8], &str, ColumnKind); 5] = [
    (b"intr", "kernel/interrupts", ColumnKind::Counter),
    (b"ctxt", "kernel/context_switches", ColumnKind::Counter),
    (b"processes", FORKS, ColumnKind::Counter),
    (b"procs_running", "kernel/running", ColumnKind::Gauge),
    (b"procs_blocked", "kernel/blocked", ColumnKind::Gauge),
];
/// The column that counts all processes and threads started since boot.
pub(crate) const FORKS: &str = "kernel/forks";

/// The CPUs, in the order of the text.
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

/// Returns the CPUs that the text names, in its order.
pub fn cpus(text: &[u8]) -> impl Iterator<Item = u32> {
    lines(text).filter_map(|line| cpu(words(line).next()?))
}

/// Writes ten times for each of `cpus`, then the kernel's five numbers. False: the text has
/// other CPUs.
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

/// The kinds, in the order of the text.
#[derive(Debug, Default)]
pub struct SoftIrqs {
    kinds: Vec<Vec<u8>>,
}

impl Parser for SoftIrqs {
    const WHAT: &'static str = "softirq";

    fn learn(&mut self, text: &[u8], columns: &mut Columns) {
        self.kinds = softirq_rows(text)
            .map(|(kind, _)| kind.to_owned())
            .collect();
        for kind in &self.kinds {
            let name = String::from_utf8_lossy(kind);
            columns.add(format!("softirq/{name}"), ColumnKind::Counter);
        }
    }

    fn parse(&self, text: &[u8], values: &mut [i64]) -> bool {
        values.fill(ABSENT);
        let mut seen = 0;
        for (kind, counts) in softirq_rows(text) {
            if self.kinds.get(seen).map(Vec::as_slice) != Some(kind) {
                return false;
            }
            let counts = words(counts).filter_map(number);
            values[seen] = counts.fold(0, i64::saturating_add);
            seen += 1;
        }
        seen == self.kinds.len()
    }
}

/// Returns each kind and its counts; the heading has no colon.
fn softirq_rows(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines(text).filter_map(|line| {
        let end = line.iter().position(|&byte| byte == b':')?;
        Some((words(&line[..end]).next()?, &line[end + 1..]))
    })
}

/// The source of frequencies and temperatures.
#[derive(Debug)]
pub(crate) struct Clocks {
    sys: PathBuf,
    files: Vec<KernelFile>,
    text: Text,
}

impl Clocks {
    /// Returns the source, given the roots.
    pub(crate) fn new(roots: &Roots) -> Self {
        Self {
            sys: roots.sys.clone(),
            files: Vec::new(),
            text: Text::default(),
        }
    }

    fn add(&mut self, path: PathBuf, name: String, kind: ColumnKind, columns: &mut Columns) {
        if let Ok(file) = KernelFile::open(path) {
            self.files.push(file);
            columns.add(name, kind);
        }
    }

    fn add_zones(&mut self, columns: &mut Columns) {
        let thermal = self.sys.join("class/thermal");
        for number in numbered(&thermal, "thermal_zone") {
            let path = thermal.join(format!("thermal_zone{number}/temp"));
            self.add(
                path,
                format!("thermal/{number}"),
                ColumnKind::Gauge,
                columns,
            );
        }
    }
}

impl ColumnSource for Clocks {
    fn learn(&mut self, columns: &mut Columns) {
        self.files.clear();
        let cpus = self.sys.join("devices/system/cpu");
        let before = columns.named.len();
        let numbers = numbered(&cpus, "cpu");
        for number in &numbers {
            let path = cpus.join(format!("cpu{number}/cpufreq/scaling_cur_freq"));
            self.add(
                path,
                format!("frequency/{number}"),
                ColumnKind::Gauge,
                columns,
            );
        }
        tell_absent(columns, before, "frequency", &cpus.join("cpu0/cpufreq"));
        let before = columns.named.len();
        self.add_zones(columns);
        tell_absent(
            columns,
            before,
            "thermal",
            &self.sys.join("class/thermal/thermal_zone0"),
        );
        let before = columns.named.len();
        for number in &numbers {
            let path = cpus.join(format!("cpu{number}/thermal_throttle/core_throttle_count"));
            self.add(
                path,
                format!("throttle/{number}"),
                ColumnKind::Counter,
                columns,
            );
        }
        tell_absent(
            columns,
            before,
            "throttle",
            &cpus.join("cpu0/thermal_throttle"),
        );
    }

    fn read(&mut self, values: &mut [i64]) -> bool {
        for (file, value) in self.files.iter().zip(values) {
            let read = file.read_record(&mut self.text).ok();
            let found = read.and_then(|()| only(self.text.bytes()));
            *value = found.unwrap_or(ABSENT);
        }
        true
    }
}

fn tell_absent(columns: &mut Columns, before: usize, what: &str, path: &Path) {
    if columns.named.len() == before {
        let why = format!("{}: not reported by this machine", path.display());
        columns.absent.push((what.to_owned(), why));
    }
}

/// Returns the numbers N of entries `beginN`, in order.
fn numbered(directory: &Path, begin: &str) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<u32> = entries
        .filter_map(|entry| {
            entry
                .file_name()
                .to_str()?
                .strip_prefix(begin)?
                .parse()
                .ok()
        })
        .collect();
    found.sort_unstable();
    found
}

/// One resource: `cpu`, `memory` or `io`.
#[derive(Debug)]
pub struct Pressure {
    resource: &'static str,
    places: [Option<usize>; 2],
}

impl Pressure {
    /// Returns the parser, given the file's name.
    pub fn new(resource: &'static str) -> Self {
        Self {
            resource,
            places: [None; 2],
        }
    }
}

impl Parser for Pressure {
    const WHAT: &'static str = "pressure";

    fn learn(&mut self, text: &[u8], columns: &mut Columns) {
        let mut count = 0;
        for (place, kind) in self.places.iter_mut().zip(["some", "full"]) {
            *place = total(text, kind).map(|_| count);
            if place.is_some() {
                columns.add(
                    format!("pressure/{}/{kind}", self.resource),
                    ColumnKind::Counter,
                );
                count += 1;
            }
        }
    }

    fn parse(&self, text: &[u8], values: &mut [i64]) -> bool {
        for (place, kind) in self.places.iter().zip(["some", "full"]) {
            if let Some(place) = place {
                values[*place] = total(text, kind).unwrap_or(ABSENT);
            }
        }
        true
    }
}

fn total(text: &[u8], kind: &str) -> Option<i64> {
    let line = lines(text).find(|line| line.starts_with(kind.as_bytes()))?;
    words(line).find_map(|word| number(word.strip_prefix(b"total=")?))
}

#[cfg(test)]
mod cpu_tests {
    use super::*;

    const TWO: &[u8] = b"cpu  9 9 9\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu3 1 2 3 4\n\
        intr 77 1 2 3\nctxt 5\nbtime 1\nprocesses 6\nprocs_running 2\nprocs_blocked 0\n\
        softirq 1 2\n";

    #[test]
    fn each_processor_is_reported_and_missing_fields_are_absent() {
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

#[cfg(test)]
mod softirqs_tests {
    use super::*;

    #[test]
    fn kinds_are_summed_over_processors() {
        let text = b"      CPU0  CPU1\n  HI: 1 2\n NET_RX: 30 40\n";
        let mut kinds = SoftIrqs::default();
        let mut columns = Columns::default();
        kinds.learn(text, &mut columns);
        let mut values = [0; 2];
        assert!(kinds.parse(text, &mut values));
        assert_eq!(values, [3, 70]);
        assert_eq!(columns.named[1].0, "softirq/NET_RX");
        assert!(!kinds.parse(b" HI: 1\n", &mut values));
    }
}

#[cfg(test)]
mod pressure_tests {
    use super::*;

    #[test]
    fn full_may_be_missing() {
        let text = b"some avg10=0.00 avg60=1.50 avg300=2.00 total=123\n";
        let mut pressure = Pressure::new("cpu");
        let mut columns = Columns::default();
        pressure.learn(text, &mut columns);
        assert_eq!(columns.named.len(), 1);
        let mut values = [0];
        assert!(pressure.parse(text, &mut values));
        assert_eq!(values, [123]);
    }
}
