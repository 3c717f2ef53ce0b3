//! Sources of lines `key value`: /proc/meminfo and /proc/vmstat; and /proc/sys/fs/file-nr.
//!
//! Only a few of some hundred lines are needed: `learn` finds their positions, and each reading compares one key per
//! line. Sources: proc_meminfo(5), the kernel's mm/vmstat.c.

use crate::columns::{ABSENT, ColumnKind, Columns, Parser};
use crate::text::{after, lines, number, words};

/// /proc/meminfo.
pub type Memory = Keyed<true>;
/// /proc/vmstat.
pub type Vm = Keyed<false>;

/// A needed line of a text.
#[derive(Debug, Clone, Copy)]
pub struct WantedLine {
    /// The kernel's key; one that ends in `*` means the sum of all keys with this prefix.
    pub key: &'static str,
    /// Our name of the column.
    pub name: &'static str,
    /// Its kind.
    pub kind: ColumnKind,
}

/// The position of one needed line.
#[derive(Debug)]
struct KeyColumn {
    key: Vec<u8>,
    column: usize,
}

/// A parser of keyed lines.
#[derive(Debug)]
pub struct Keyed<const MEMORY_LINES: bool> {
    prefix: String,
    wanted: &'static [WantedLine],
    places: Vec<KeyColumn>,
}

impl<const MEMORY_LINES: bool> Keyed<MEMORY_LINES> {
    /// Returns a parser of some lines, whose names get a prefix.
    pub fn new(prefix: impl Into<String>, wanted: &'static [WantedLine]) -> Self {
        Self {
            prefix: prefix.into(),
            wanted,
            places: Vec::new(),
        }
    }
}

impl<const MEMORY_LINES: bool> Parser for Keyed<MEMORY_LINES> {
    const ONE_RECORD: bool = MEMORY_LINES;
    const WHAT: &'static str = if MEMORY_LINES { "memory" } else { "vm" };

    /// Adds columns only for lines that exist.
    fn learn(&mut self, text: &[u8], columns: &mut Columns) {
        self.places.clear();
        let mut named = vec![None; self.wanted.len()];
        let mut count = 0;
        for line in lines(text) {
            let Some(key) = key_of(line) else { continue };
            let Some(place) = self.wanted.iter().position(|w| wants(w.key, key)) else {
                continue;
            };
            let wanted = &self.wanted[place];
            let column = *named[place].get_or_insert_with(|| {
                columns.add(format!("{}{}", self.prefix, wanted.name), wanted.kind);
                count += 1;
                count - 1
            });
            self.places.push(KeyColumn {
                key: key.to_owned(),
                column,
            });
        }
        for (wanted, named) in self.wanted.iter().zip(named) {
            if named.is_none() {
                let what = format!("{}{}", self.prefix, wanted.name);
                columns
                    .absent
                    .push((what, format!("the kernel reports no {}", wanted.key)));
            }
        }
    }

    fn parse(&self, text: &[u8], values: &mut [i64]) -> bool {
        values.fill(ABSENT);
        let mut places = self.places.iter();
        let Some(mut place) = places.next() else {
            return true;
        };
        for line in lines(text) {
            let Some(rest) = after(line, &place.key) else {
                continue;
            };
            let value = words(rest).next().and_then(number);
            add(&mut values[place.column], value);
            match places.next() {
                Some(next) => place = next,
                None => return true,
            }
        }
        false
    }
}

fn add(sum: &mut i64, value: Option<i64>) {
    if let Some(value) = value {
        *sum = if *sum == ABSENT {
            value
        } else {
            sum.saturating_add(value)
        };
    }
}

fn key_of(line: &[u8]) -> Option<&[u8]> {
    let word = words(line).next()?;
    Some(word.strip_suffix(b":").unwrap_or(word))
}

fn wants(wanted: &str, key: &[u8]) -> bool {
    match wanted.strip_suffix('*') {
        Some(begin) => key.starts_with(begin.as_bytes()),
        None => key == wanted.as_bytes(),
    }
}

const fn wanted(key: &'static str, name: &'static str, kind: ColumnKind) -> WantedLine {
    WantedLine { key, name, kind }
}

/// The lines of /proc/meminfo [KiB].
pub const MEMORY_LINES: &[WantedLine] = &[
    wanted("MemTotal", "total", ColumnKind::Gauge),
    wanted("MemFree", "free", ColumnKind::Gauge),
    wanted("MemAvailable", "available", ColumnKind::Gauge),
    wanted("Buffers", "buffers", ColumnKind::Gauge),
    wanted("Cached", "cached", ColumnKind::Gauge),
    wanted("Dirty", "dirty", ColumnKind::Gauge),
    wanted("Writeback", "writeback", ColumnKind::Gauge),
    wanted("SwapTotal", "swap_total", ColumnKind::Gauge),
    wanted("SwapFree", "swap_free", ColumnKind::Gauge),
    wanted("AnonPages", "anon", ColumnKind::Gauge),
    wanted("Slab", "slab", ColumnKind::Gauge),
    wanted("Shmem", "shmem", ColumnKind::Gauge),
];

/// The lines of /proc/vmstat. Before 5.9 there was one `workingset_refault`, for files.
pub const VM_LINES: &[WantedLine] = &[
    wanted("pgpgin", "pages_in", ColumnKind::Counter),
    wanted("pgpgout", "pages_out", ColumnKind::Counter),
    wanted("pswpin", "swap_in", ColumnKind::Counter),
    wanted("pswpout", "swap_out", ColumnKind::Counter),
    wanted("pgscan_kswapd", "scanned_kswapd", ColumnKind::Counter),
    wanted("pgscan_direct", "scanned_direct", ColumnKind::Counter),
    wanted(
        "workingset_refault_file",
        "refault_file",
        ColumnKind::Counter,
    ),
    wanted(
        "workingset_refault_anon",
        "refault_anon",
        ColumnKind::Counter,
    ),
    wanted("pgfault", "faults", ColumnKind::Counter),
    wanted("pgmajfault", "major_faults", ColumnKind::Counter),
    wanted("allocstall*", "allocstall", ColumnKind::Counter),
    wanted("oom_kill", "oom_kill", ColumnKind::Counter),
];

/// The machine's number of open files and its limit: the first and the third word.
#[derive(Debug, Default)]
pub struct FileTable;

impl Parser for FileTable {
    const WHAT: &'static str = "files";

    fn learn(&mut self, _text: &[u8], columns: &mut Columns) {
        columns.add("files/open", ColumnKind::Gauge);
        columns.add("files/limit", ColumnKind::Gauge);
    }

    fn parse(&self, text: &[u8], values: &mut [i64]) -> bool {
        let mut found = lines(text).next().into_iter().flat_map(words).map(number);
        values[0] = found.next().flatten().unwrap_or(ABSENT);
        values[1] = found.nth(1).flatten().unwrap_or(ABSENT);
        true
    }
}

#[cfg(test)]
mod keyed_tests {
    use super::*;

    const VMSTAT: &[u8] = b"nr_free_pages 9\nallocstall_dma32 1\nallocstall_normal 20\n\
        allocstall_movable 300\npgfault 5\npgpgin 7\noom_kill 0\n";

    fn learned(text: &[u8]) -> (Keyed<false>, Columns) {
        let mut keyed = Keyed::new("vm/", VM_LINES);
        let mut columns = Columns::default();
        keyed.learn(text, &mut columns);
        (keyed, columns)
    }

    #[test]
    fn zones_are_summed_and_what_the_kernel_lacks_is_named() {
        let (keyed, columns) = learned(VMSTAT);
        let mut values = [0; 4];
        assert!(keyed.parse(VMSTAT, &mut values));
        let names: Vec<&str> = columns.named.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(
            names,
            ["vm/allocstall", "vm/faults", "vm/pages_in", "vm/oom_kill"]
        );
        assert_eq!(values, [321, 5, 7, 0]);
        assert!(columns.absent.iter().any(|(what, _)| what == "vm/swap_in"));
    }

    #[test]
    fn a_line_that_went_away_is_a_change() {
        let (keyed, _) = learned(VMSTAT);
        assert!(!keyed.parse(b"pgfault 5\n", &mut [0; 4]));
    }

    #[test]
    fn meminfo_has_colons_and_units() {
        let mut keyed = Keyed::<true>::new("memory/", MEMORY_LINES);
        let text = b"MemTotal:  100 kB\nMemFree: 40 kB\nSwapCached: 1 kB\nCached: 3 kB\n";
        keyed.learn(text, &mut Columns::default());
        let mut values = [0; 3];
        assert!(keyed.parse(text, &mut values));
        assert_eq!(values, [100, 40, 3]);
    }
}

#[cfg(test)]
mod small_tests {
    use super::*;

    #[test]
    fn the_second_word_is_passed_over() {
        let mut values = [0; 2];
        assert!(FileTable.parse(b"1024\t0\t9223372036854775807\n", &mut values));
        assert_eq!(values, [1024, i64::MAX]);
        assert!(FileTable.parse(b"", &mut values));
        assert_eq!(values, [ABSENT; 2]);
    }
}
