//! Frequencies, temperatures, thermal throttling: one small file each, read once a second.
//!
//! Reading a temperature may ask the firmware, and a frequency another processor, so these
//! are not read at every sample; between readings a column keeps its value.
//! Sources: the kernel's admin-guide/pm/cpufreq, driver-api/thermal.

use std::fs;
use std::path::{Path, PathBuf};

use crate::columns::{ABSENT, Columns, Kind, Source};
use crate::kept::{Kept, Text};
use crate::roots::Roots;
use crate::system::monotonic_ns;
use crate::text::only;

const EVERY_NS: i64 = 1_000_000_000;

/// The source.
#[derive(Debug)]
pub struct Clocks {
    sys: PathBuf,
    files: Vec<Kept>,
    values: Vec<i64>,
    text: Text,
    next_ns: i64,
}

impl Clocks {
    /// Takes the roots.
    pub fn new(roots: &Roots) -> Self {
        Self {
            sys: roots.sys.clone(),
            files: Vec::new(),
            values: Vec::new(),
            text: Text::default(),
            next_ns: 0,
        }
    }

    fn add(&mut self, path: PathBuf, name: String, kind: Kind, columns: &mut Columns) {
        if let Ok(file) = Kept::open(path) {
            self.files.push(file);
            columns.add(name, kind);
        }
    }

    fn add_zones(&mut self, columns: &mut Columns) {
        let thermal = self.sys.join("class/thermal");
        for number in numbered(&thermal, "thermal_zone") {
            let path = thermal.join(format!("thermal_zone{number}/temp"));
            self.add(path, format!("thermal/{number}"), Kind::Gauge, columns);
        }
    }
}

impl Source for Clocks {
    fn learn(&mut self, columns: &mut Columns) {
        self.files.clear();
        let cpus = self.sys.join("devices/system/cpu");
        let before = columns.named.len();
        let numbers = numbered(&cpus, "cpu");
        for number in &numbers {
            let path = cpus.join(format!("cpu{number}/cpufreq/scaling_cur_freq"));
            self.add(path, format!("frequency/{number}"), Kind::Gauge, columns);
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
            self.add(path, format!("throttle/{number}"), Kind::Counter, columns);
        }
        tell_absent(
            columns,
            before,
            "throttle",
            &cpus.join("cpu0/thermal_throttle"),
        );
        self.values = vec![ABSENT; self.files.len()];
        self.next_ns = 0;
    }

    fn read(&mut self, values: &mut [i64]) -> bool {
        let now = monotonic_ns();
        if now >= self.next_ns {
            self.next_ns = now + EVERY_NS;
            for (file, value) in self.files.iter().zip(&mut self.values) {
                let read = file.read_record(&mut self.text).ok();
                *value = read
                    .and_then(|()| only(self.text.bytes()))
                    .unwrap_or(ABSENT);
            }
        }
        values.copy_from_slice(&self.values);
        true
    }
}

fn tell_absent(columns: &mut Columns, before: usize, what: &str, path: &Path) {
    if columns.named.len() == before {
        let why = format!("{}: not told by this machine", path.display());
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
