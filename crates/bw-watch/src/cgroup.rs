//! The cgroups of the trial's processes, and their ancestors that have a limit.
//!
//! A group is reported once, when a process is first seen in it, and has columns from then on
//! until its directory is removed. Decision: each hierarchy of version 1 is a group of its own.
//! Rejected: joining those with the same name, as their paths may differ.
//! Sources: the kernel's admin-guide/cgroup-v2, admin-guide/cgroup-v1, scheduler/sched-bwc.

use crate::arguments::Roots;
use crate::cgroup_limits::{CgroupLimits, Hierarchy, hierarchies, limits, memberships};
use crate::columns::{ABSENT, ColumnKind, ColumnSource, Columns, KernelFile, Text};
use crate::text::{lines, number, words};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// One number of a file: the kernel's key (empty: the whole file; several: their sum), our
/// name, its kind, and the divisor of the kernel's value.
type Number = (&'static str, &'static str, ColumnKind, i64);

const V2: &[(&str, &[Number])] = &[
    (
        "cpu.stat",
        &[
            ("usage_usec", "usage_us", ColumnKind::Counter, 1),
            ("nr_periods", "periods", ColumnKind::Counter, 1),
            ("nr_throttled", "throttled", ColumnKind::Counter, 1),
            ("throttled_usec", "throttled_us", ColumnKind::Counter, 1),
        ],
    ),
    ("memory.current", &[("", "memory", ColumnKind::Gauge, 1)]),
    (
        "memory.events",
        &[
            // The limit that is reported is the lower of memory.max and memory.high.
            ("max high", "memory_limit_hits", ColumnKind::Counter, 1),
            ("oom_kill", "oom_kill", ColumnKind::Counter, 1),
        ],
    ),
    ("pids.current", &[("", "pids", ColumnKind::Gauge, 1)]),
];

const V1: &[(&str, &[Number])] = &[
    (
        "cpuacct.usage",
        &[("", "usage_us", ColumnKind::Counter, 1000)],
    ),
    (
        "cpu.stat",
        &[
            ("nr_periods", "periods", ColumnKind::Counter, 1),
            ("nr_throttled", "throttled", ColumnKind::Counter, 1),
            ("throttled_time", "throttled_us", ColumnKind::Counter, 1000),
        ],
    ),
    (
        "memory.usage_in_bytes",
        &[("", "memory", ColumnKind::Gauge, 1)],
    ),
    (
        "memory.failcnt",
        &[("", "memory_limit_hits", ColumnKind::Counter, 1)],
    ),
    (
        "memory.oom_control",
        &[("oom_kill", "oom_kill", ColumnKind::Counter, 1)],
    ),
    ("pids.current", &[("", "pids", ColumnKind::Gauge, 1)]),
];

/// The line `cgroup`.
#[derive(Debug, Serialize)]
struct CgroupLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    t: i64,
    number: u32,
    version: u8,
    controller: &'a str,
    path: &'a str,
    of: &'static str,
    limits: CgroupLimits,
}

#[derive(Debug)]
struct WatchedCgroup {
    number: u32,
    directory: PathBuf,
    /// Only the numbers that the file contains.
    files: Vec<(KernelFile, Vec<Number>)>,
}

/// All groups seen so far.
#[derive(Debug)]
pub(crate) struct Cgroups {
    roots: Roots,
    hierarchies: Vec<Hierarchy>,
    known: Vec<PathBuf>,
    groups: Vec<WatchedCgroup>,
    next: u32,
    text: Text,
}

impl Cgroups {
    /// Finds the hierarchies.
    pub(crate) fn new(roots: &Roots) -> Self {
        let mounts = fs::read(roots.proc.join("self/mountinfo")).unwrap_or_default();
        Self {
            roots: roots.clone(),
            hierarchies: hierarchies(&String::from_utf8_lossy(&mounts)),
            known: Vec::new(),
            groups: Vec::new(),
            next: 0,
            text: Text::default(),
        }
    }

    /// Reads a /proc/PID/cgroup; writes a line for each new group. Returns
    /// whether there are new columns.
    pub(crate) fn note(
        &mut self,
        membership: &[u8],
        of: &'static str,
        t: i64,
        out: &mut Vec<u8>,
    ) -> bool {
        let before = self.groups.len();
        let membership = String::from_utf8_lossy(membership).into_owned();
        for (version, controllers, path) in memberships(&membership) {
            let same = |h: &&Hierarchy| h.version == version && h.controllers == controllers;
            let Some(hierarchy) = self.hierarchies.iter().find(same).cloned() else {
                continue;
            };
            let ancestors = Path::new(path).ancestors();
            for path in ancestors.filter_map(Path::to_str) {
                self.note_one(
                    &hierarchy,
                    (path, membership_is(path, &membership)),
                    (of, t),
                    out,
                );
            }
        }
        self.groups.len() > before
    }

    /// Adds the group of `path`, if it is new; `path` comes with whether the process is in this group itself.
    fn note_one(
        &mut self,
        hierarchy: &Hierarchy,
        (path, itself): (&str, bool),
        (of, t): (&'static str, i64),
        out: &mut Vec<u8>,
    ) {
        let Some(directory) = hierarchy.directory(path) else {
            return;
        };
        let directory = self.roots.place(&directory);
        if self.known.contains(&directory) || !directory.is_dir() {
            return;
        }
        self.known.push(directory.clone());
        let limits = limits(&directory, hierarchy.version, &self.roots);
        if !limits.any() && (!itself || path == "/") {
            return;
        }
        let line = CgroupLine {
            kind: "cgroup",
            t,
            number: self.next,
            version: hierarchy.version,
            controller: &hierarchy.controllers,
            path,
            of,
            limits,
        };
        if serde_json::to_writer(&mut *out, &line).is_ok() {
            out.push(b'\n');
        }
        self.groups.push(WatchedCgroup {
            number: self.next,
            files: open(&directory, hierarchy.version),
            directory,
        });
        self.next += 1;
    }

    /// Returns the directories of the groups that have columns.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.groups.iter().map(|group| group.directory.as_path())
    }

    fn forget_gone(&mut self) {
        let known = &mut self.known;
        self.groups.retain(|group| {
            let there = group.directory.is_dir();
            if !there {
                known.retain(|path| *path != group.directory);
            }
            there
        });
    }
}

fn membership_is(path: &str, membership: &str) -> bool {
    memberships(membership).any(|(_, _, own)| own == path)
}

/// Opens the existing files, with the numbers that they contain.
fn open(directory: &Path, version: u8) -> Vec<(KernelFile, Vec<Number>)> {
    let mut text = Text::default();
    let wanted = if version == 2 { V2 } else { V1 };
    let files = wanted.iter().filter_map(|(name, numbers)| {
        let file = KernelFile::open(directory.join(name)).ok()?;
        file.read_record(&mut text).ok()?;
        let there = |number: &&Number| value(text.bytes(), number).is_some();
        let numbers: Vec<Number> = numbers.iter().filter(there).copied().collect();
        Some((file, numbers))
    });
    files.collect()
}

fn value(text: &[u8], (key, _, _, divisor): &Number) -> Option<i64> {
    let keys = || key.split(' ');
    let values = lines(text).filter_map(|line| {
        let mut rest = words(line);
        if !key.is_empty() {
            let found = rest.next()?;
            keys().find(|key| key.as_bytes() == found)?;
        }
        rest.next().and_then(number)
    });
    let found = values.take(keys().count()).reduce(i64::saturating_add);
    found.map(|found| found / divisor)
}

impl ColumnSource for Cgroups {
    fn learn(&mut self, columns: &mut Columns) {
        self.forget_gone();
        for group in &self.groups {
            for (_, name, kind, _) in group.files.iter().flat_map(|(_, numbers)| numbers) {
                columns.add(format!("cgroup/{}/{name}", group.number), *kind);
            }
        }
    }

    /// Returns false if a group was removed.
    fn read(&mut self, values: &mut [i64]) -> bool {
        let mut values = values.iter_mut();
        let mut whole = true;
        for (file, numbers) in self.groups.iter().flat_map(|group| &group.files) {
            let read = file.read_record(&mut self.text).is_ok();
            whole &= read;
            for (number, into) in numbers.iter().zip(&mut values) {
                let found = read.then(|| value(self.text.bytes(), number)).flatten();
                *into = found.unwrap_or(ABSENT);
            }
        }
        whole || self.groups.iter().all(|group| group.directory.is_dir())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_by_key_or_the_whole_file() {
        let text = b"usage_usec 12\nnr_throttled 3\nthrottled_time 5000\n";
        assert_eq!(
            value(text, &("nr_throttled", "", ColumnKind::Counter, 1)),
            Some(3)
        );
        assert_eq!(
            value(text, &("throttled_time", "", ColumnKind::Counter, 1000)),
            Some(5)
        );
        assert_eq!(
            value(text, &("nr_periods", "", ColumnKind::Counter, 1)),
            None
        );
        assert_eq!(value(b"7\n", &("", "", ColumnKind::Gauge, 1)), Some(7));
        assert_eq!(value(b"7\n8\n", &("", "", ColumnKind::Gauge, 1)), Some(7));
    }

    #[test]
    fn numbers_of_several_keys_are_added_up() {
        let both = ("max high", "", ColumnKind::Counter, 1);
        let text = b"low 1\nhigh 20\nmax 300\noom 4000\n";
        assert_eq!(value(text, &both), Some(320));
        assert_eq!(value(b"max 300\nmaximum 9\n", &both), Some(300));
        assert_eq!(value(b"low 1\n", &both), None);
    }
}
