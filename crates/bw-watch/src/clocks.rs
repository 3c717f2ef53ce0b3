//! Frequencies, temperatures, thermal throttling: one small file each.
//!
//! Reading a temperature may ask the firmware, and a frequency another processor, so these
//! are read at a slow pace.
//! Sources: the kernel's admin-guide/pm/cpufreq, driver-api/thermal.

use std::fs;
use std::path::{Path, PathBuf};

use crate::columns::{ABSENT, Columns, Kind, Source};
use crate::kept::{Kept, Text};
use crate::roots::Roots;
use crate::text::only;

/// The source.
#[derive(Debug)]
pub struct Clocks {
    sys: PathBuf,
    files: Vec<Kept>,
    text: Text,
}

impl Clocks {
    /// Takes the roots.
    pub fn new(roots: &Roots) -> Self {
        Self {
            sys: roots.sys.clone(),
            files: Vec::new(),
            text: Text::default(),
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
