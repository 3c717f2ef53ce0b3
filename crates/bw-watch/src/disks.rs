//! /proc/diskstats: whole block devices that did any I/O since boot; partitions are left out.
//!
//! A line has 14 words on kernels before 4.18, 18 from 4.18 (discards), 20 from 5.5 (flushes).
//! A device is whole if it is in /sys/block. Source: the kernel's admin-guide/iostats.

use crate::columns::{ABSENT, ColumnKind, Columns, Parser};
use crate::text::{lines, number, words};
use std::path::PathBuf;

/// Our names, the field's position after the device's name (0 is reads completed), the kinds.
const FIELDS: [(&str, usize, ColumnKind); 14] = [
    ("reads", 0, ColumnKind::Counter),
    ("reads_merged", 1, ColumnKind::Counter),
    ("read_sectors", 2, ColumnKind::Counter),
    ("read_ms", 3, ColumnKind::Counter),
    ("writes", 4, ColumnKind::Counter),
    ("writes_merged", 5, ColumnKind::Counter),
    ("written_sectors", 6, ColumnKind::Counter),
    ("write_ms", 7, ColumnKind::Counter),
    ("in_flight", 8, ColumnKind::Gauge),
    ("busy_ms", 9, ColumnKind::Counter),
    ("queue_ms", 10, ColumnKind::Counter),
    ("discards", 11, ColumnKind::Counter),
    ("flushes", 15, ColumnKind::Counter),
    ("flush_ms", 16, ColumnKind::Counter),
];
const WORDS: usize = 17;

/// One line of the file, and whether it is reported.
#[derive(Debug)]
struct DeviceLine {
    name: Vec<u8>,
    whole: bool,
    reported: bool,
}

/// The columns of the text.
#[derive(Debug)]
pub struct Disks {
    block: PathBuf,
    known: Vec<DeviceLine>,
}

impl Disks {
    /// Returns the parser, given the path of `/sys/block`.
    pub fn new(block: PathBuf) -> Self {
        Self {
            block,
            known: Vec::new(),
        }
    }

    /// Returns whether the device is whole. In /sys a `/` in a name is a `!`. Without /sys, all devices count as whole.
    fn is_whole(&self, name: &[u8]) -> bool {
        let name = String::from_utf8_lossy(name).replace('/', "!");
        !self.block.exists() || self.block.join(name).exists()
    }
}

impl Parser for Disks {
    const ONE_RECORD: bool = false;
    const WHAT: &'static str = "disk";

    fn learn(&mut self, text: &[u8], columns: &mut Columns) {
        let mut known = Vec::new();
        for (name, numbers) in devices(text) {
            let whole = self.is_whole(name);
            let reported = whole && did_anything(&numbers);
            if reported {
                let prefix = format!("disk/{}/", String::from_utf8_lossy(name));
                for (field, _, kind) in FIELDS {
                    columns.add(format!("{prefix}{field}"), kind);
                }
            }
            known.push(DeviceLine {
                name: name.to_owned(),
                whole,
                reported,
            });
        }
        self.known = known;
    }

    fn parse(&self, text: &[u8], values: &mut [i64]) -> bool {
        let mut known = self.known.iter();
        let mut slots = values.chunks_exact_mut(FIELDS.len());
        for (name, numbers) in devices(text) {
            let Some(line) = known.next().filter(|line| line.name == name) else {
                return false;
            };
            if !line.reported {
                if line.whole && did_anything(&numbers) {
                    return false;
                }
                continue;
            }
            let Some(slot) = slots.next() else {
                return false;
            };
            for (value, (_, place, _)) in slot.iter_mut().zip(FIELDS) {
                *value = numbers[place];
            }
        }
        known.next().is_none()
    }
}

/// Returns each device's name and its numbers.
fn devices(text: &[u8]) -> impl Iterator<Item = (&[u8], [i64; WORDS])> {
    lines(text).filter_map(|line| {
        let mut rest = words(line).skip(2);
        let name = rest.next()?;
        let mut numbers = [ABSENT; WORDS];
        for (value, word) in numbers.iter_mut().zip(rest) {
            *value = number(word).unwrap_or(ABSENT);
        }
        Some((name, numbers))
    })
}

fn did_anything(numbers: &[i64; WORDS]) -> bool {
    [0, 4, 11, 15].iter().any(|&place| numbers[place] > 0)
}

/// Returns the name of device `MAJOR:MINOR`.
pub(crate) fn name_of(text: &[u8], device: &str) -> Option<String> {
    lines(text).find_map(|line| {
        let mut rest = words(line);
        let (major, minor, name) = (rest.next()?, rest.next()?, rest.next()?);
        let found = [major, b":", minor].concat();
        (found == device.as_bytes()).then(|| String::from_utf8_lossy(name).into_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    const OLD: &[u8] = b"   8       0 sda 10 1 80 5 20 2 160 7 1 9 12\n   \
        8       1 sda1 10 1 80 5 20 2 160 7 1 9 12\n   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0\n";
    const NEW: &[u8] = b" 259 0 nvme0n1 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n \
        259 1 nvme0n1p1 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n";

    fn disks(names: &[&str]) -> (Disks, TempDir) {
        let block = tempfile::tempdir().unwrap();
        for name in names {
            std::fs::create_dir(block.path().join(name)).unwrap();
        }
        (Disks::new(block.path().to_owned()), block)
    }

    #[test]
    fn an_old_line_has_no_discards_and_no_flushes() {
        let (mut disks, block) = disks(&["sda", "loop0"]);
        let mut columns = Columns::default();
        disks.learn(OLD, &mut columns);
        drop(block);
        assert_eq!(columns.named.len(), 14);
        assert_eq!(columns.named[0].0, "disk/sda/reads");
        let mut values = [0; 14];
        assert!(disks.parse(OLD, &mut values));
        assert_eq!(values[..11], [10, 1, 80, 5, 20, 2, 160, 7, 1, 9, 12]);
        assert_eq!(values[11..], [ABSENT; 3]);
    }

    #[test]
    fn a_device_that_begins_to_work_is_a_change() {
        let (mut disks, block) = disks(&["sda", "loop0"]);
        disks.learn(OLD, &mut Columns::default());
        drop(block);
        let woken = String::from_utf8_lossy(OLD).replace("loop0 0", "loop0 1");
        assert!(!disks.parse(woken.as_bytes(), &mut [0; 14]));
    }

    #[test]
    fn nvme_partitions_are_left_out_and_flushes_are_read() {
        let (mut disks, block) = disks(&["nvme0n1"]);
        let mut columns = Columns::default();
        disks.learn(NEW, &mut columns);
        drop(block);
        let mut values = [0; 14];
        assert!(disks.parse(NEW, &mut values));
        assert_eq!(values[11..], [12, 16, 17]);
        assert_eq!(name_of(NEW, "259:1").as_deref(), Some("nvme0n1p1"));
    }
}
