//! Files of lines `key value`: /proc/meminfo and /proc/vmstat.
//!
//! Only a few of some hundred lines are wanted: where they stand is learned once, and each
//! reading compares one key a line. Sources: proc_meminfo(5), the kernel's mm/vmstat.c.

use crate::columns::{ABSENT, Columns, Kind, Parser};
use crate::text::{after, lines, number, words};

/// /proc/meminfo.
pub type Memory = Keyed<true>;
/// /proc/vmstat.
pub type Vm = Keyed<false>;

/// What is wanted of a text.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// The kernel's key; one that ends in `*` stands for all that begin so, summed.
    pub key: &'static str,
    /// Our name of the column.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
}

/// Where one wanted line is.
#[derive(Debug)]
struct Place {
    key: Vec<u8>,
    column: usize,
}

/// A parser of keyed lines.
#[derive(Debug)]
pub struct Keyed<const MEMORY: bool> {
    prefix: String,
    wanted: &'static [Wanted],
    places: Vec<Place>,
}

impl<const MEMORY: bool> Keyed<MEMORY> {
    /// Wants some lines, under names with a prefix.
    pub fn new(prefix: impl Into<String>, wanted: &'static [Wanted]) -> Self {
        Self {
            prefix: prefix.into(),
            wanted,
            places: Vec::new(),
        }
    }
}

impl<const MEMORY: bool> Parser for Keyed<MEMORY> {
    const ONE_RECORD: bool = MEMORY;
    const WHAT: &'static str = if MEMORY { "memory" } else { "vm" };

    /// Columns are only those whose lines are there.
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
            self.places.push(Place {
                key: key.to_owned(),
                column,
            });
        }
        for (wanted, named) in self.wanted.iter().zip(named) {
            if named.is_none() {
                let what = format!("{}{}", self.prefix, wanted.name);
                columns
                    .absent
                    .push((what, format!("the kernel tells no {}", wanted.key)));
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

const fn wanted(key: &'static str, name: &'static str, kind: Kind) -> Wanted {
    Wanted { key, name, kind }
}

/// Of /proc/meminfo [KiB].
pub const MEMORY: &[Wanted] = &[
    wanted("MemTotal", "total", Kind::Gauge),
    wanted("MemFree", "free", Kind::Gauge),
    wanted("MemAvailable", "available", Kind::Gauge),
    wanted("Buffers", "buffers", Kind::Gauge),
    wanted("Cached", "cached", Kind::Gauge),
    wanted("Dirty", "dirty", Kind::Gauge),
    wanted("Writeback", "writeback", Kind::Gauge),
    wanted("SwapTotal", "swap_total", Kind::Gauge),
    wanted("SwapFree", "swap_free", Kind::Gauge),
    wanted("AnonPages", "anon", Kind::Gauge),
    wanted("Slab", "slab", Kind::Gauge),
    wanted("Shmem", "shmem", Kind::Gauge),
];

/// Of /proc/vmstat. Before 5.9 there was one `workingset_refault`, of files.
pub const VM: &[Wanted] = &[
    wanted("pgpgin", "pages_in", Kind::Counter),
    wanted("pgpgout", "pages_out", Kind::Counter),
    wanted("pswpin", "swap_in", Kind::Counter),
    wanted("pswpout", "swap_out", Kind::Counter),
    wanted("pgscan_kswapd", "scanned_kswapd", Kind::Counter),
    wanted("pgscan_direct", "scanned_direct", Kind::Counter),
    wanted("workingset_refault_file", "refault_file", Kind::Counter),
    wanted("workingset_refault_anon", "refault_anon", Kind::Counter),
    wanted("pgfault", "faults", Kind::Counter),
    wanted("pgmajfault", "major_faults", Kind::Counter),
    wanted("allocstall*", "allocstall", Kind::Counter),
    wanted("oom_kill", "oom_kill", Kind::Counter),
];

#[cfg(test)]
mod tests {
    use super::*;

    const VMSTAT: &[u8] = b"nr_free_pages 9\nallocstall_dma32 1\nallocstall_normal 20\n\
        allocstall_movable 300\npgfault 5\npgpgin 7\noom_kill 0\n";

    fn learned(text: &[u8]) -> (Keyed<false>, Columns) {
        let mut keyed = Keyed::new("vm/", VM);
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
        let mut keyed = Keyed::<true>::new("memory/", MEMORY);
        let text = b"MemTotal:  100 kB\nMemFree: 40 kB\nSwapCached: 1 kB\nCached: 3 kB\n";
        keyed.learn(text, &mut Columns::default());
        let mut values = [0; 3];
        assert!(keyed.parse(text, &mut values));
        assert_eq!(values, [100, 40, 3]);
    }
}
