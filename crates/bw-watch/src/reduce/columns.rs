//! The columns of a series: rows of differences become samples.
//!
//! Columns come and go with disks, CPUs and cgroups, so each keeps its place for the whole series. A missing column has
//! no sample, which is not zero; an unreadable value is NaN. A sample is handed on when the next one is known: only
//! then is it certain whether a counter slipped. Source: docs/watch-format.md.

use super::counters::{Counters, Names};
use super::file::{ColumnKind, ColumnsLine};
use super::gauges::Gauges;

/// A derived gauge: the kernel reports the total and the free swap space.
pub(super) const SWAP_USED: &str = "memory/swap_used";
const SWAP: [&str; 2] = ["memory/swap_total", "memory/swap_free"];

/// The gauges at one moment; the totals of all counters are in `Columns`.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) when_ns: i64,
    /// Time of the sample before it.
    pub(super) before_ns: Option<i64>,
    /// Values of all gauges; NaN: not reported.
    pub(super) gauges: Vec<f64>,
    /// Which gauges have a column.
    pub(super) has_column: Vec<bool>,
}

/// All columns up to the last row.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// Names of all columns that had a row so far.
    pub(super) names: Names,
    pub(super) counters: Counters,
    pub(super) gauges: Gauges,
    next: Option<ColumnsLine>,
    /// The kind and place of each value of a row.
    layout: Vec<(ColumnKind, usize)>,
    /// The values of the last row; NaN before the first of these columns.
    row: Vec<f64>,
    /// The values of counters in the last row, with their places.
    counted: Vec<(usize, f64)>,
    last: Option<Sample>,
    last_ns: Option<i64>,
}

impl Columns {
    /// Sets the columns of the rows that follow.
    pub(super) fn begin(&mut self, line: ColumnsLine) {
        self.next = Some(line);
    }

    /// Adds a row, after `settle` has returned the sample before it.
    pub(super) fn take(&mut self, when_ns: i64) {
        self.counters.take(&self.counted, when_ns, self.last_ns);
        self.last = Some(self.sample(when_ns));
        self.last_ns = Some(when_ns);
    }

    /// Settles the last sample with the next row and returns it; `take` adds that row.
    pub(super) fn settle(&mut self, differences: &[Option<i64>]) -> Option<Sample> {
        if let Some(line) = self.next.take() {
            self.lay_out(&line);
        }
        for (last, difference) in self.row.iter_mut().zip(differences) {
            // The difference from the row before, or the value itself in the first row and after an absent one.
            *last = match difference {
                None => f64::NAN,
                Some(value) if last.is_nan() => *value as f64,
                Some(difference) => *last + *difference as f64,
            };
        }
        self.counted.clear();
        for ((kind, place), value) in self.layout.iter().zip(&self.row) {
            if *kind == ColumnKind::Counter {
                self.counted.push((*place, *value));
            }
        }
        self.counters.settle(&self.counted);
        self.settled()
    }

    /// Ends the series; returns its last sample.
    pub(super) fn finish(&mut self) -> Option<Sample> {
        self.counters.finish();
        self.settled()
    }

    fn lay_out(&mut self, line: &ColumnsLine) {
        self.layout.clear();
        for (name, kind) in line.names.iter().zip(&line.kinds) {
            self.names.add(name);
            let place = match kind {
                ColumnKind::Counter => self.counters.place(name),
                ColumnKind::Gauge => self.gauges.names.add(name),
            };
            self.layout.push((*kind, place));
        }
        if SWAP
            .iter()
            .all(|name| self.gauges.names.place(name).is_some())
        {
            self.gauges.names.add(SWAP_USED);
        }
        self.row.clear();
        self.row.resize(self.layout.len(), f64::NAN);
    }

    fn sample(&self, when_ns: i64) -> Sample {
        let size = self.gauges.names.list.len();
        let (mut gauges, mut has_column) = (vec![f64::NAN; size], vec![false; size]);
        for ((kind, place), value) in self.layout.iter().zip(&self.row) {
            if *kind == ColumnKind::Gauge {
                gauges[*place] = *value;
                has_column[*place] = true;
            }
        }
        let places = [SWAP_USED, SWAP[0], SWAP[1]].map(|name| self.gauges.names.place(name));
        if let [Some(used), Some(total), Some(free)] = places {
            gauges[used] = gauges[total] - gauges[free];
        }
        Sample {
            when_ns,
            before_ns: self.last_ns,
            gauges,
            has_column,
        }
    }

    fn settled(&mut self) -> Option<Sample> {
        let mut sample = self.last.take()?;
        let size = self.gauges.names.list.len();
        sample.gauges.resize(size, f64::NAN);
        sample.has_column.resize(size, false);
        Some(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the samples of rows of values, each with its column's name; gauges are those of memory.
    ///
    /// A sample has the gauges, whether each has a column, and the totals of all counters.
    type Seen = (Vec<f64>, Vec<bool>, Vec<f64>);

    fn seen(columns: &Columns, sample: Sample) -> Seen {
        let count = columns.counters.names.list.len();
        let totals = (0..count).map(|place| columns.counters.total(place));
        (sample.gauges, sample.has_column, totals.collect())
    }

    fn samples(rows: &[Vec<(&str, Option<i64>)>]) -> (Columns, Vec<Seen>) {
        let (mut columns, mut found) = (Columns::default(), Vec::new());
        let mut last: Vec<(&str, Option<i64>)> = Vec::new();
        for (when_ns, row) in (0..).zip(rows) {
            let names = row.iter().map(|one| one.0);
            if !names.clone().eq(last.iter().map(|one| one.0)) {
                last = names.clone().map(|name| (name, None)).collect();
                columns.begin(ColumnsLine {
                    names: names.clone().map(str::to_owned).collect(),
                    kinds: names.map(kind).collect(),
                });
            }
            let differences: Vec<Option<i64>> = row
                .iter()
                .zip(&last)
                .map(|(now, before)| Some(now.1? - before.1.unwrap_or(0)))
                .collect();
            if let Some(sample) = columns.settle(&differences) {
                found.push(seen(&columns, sample));
            }
            columns.take(when_ns);
            last.clone_from(row);
        }
        if let Some(sample) = columns.finish() {
            found.push(seen(&columns, sample));
        }
        (columns, found)
    }

    fn kind(name: &str) -> ColumnKind {
        if name.starts_with("memory/") {
            ColumnKind::Gauge
        } else {
            ColumnKind::Counter
        }
    }

    #[test]
    fn differences_are_undone_and_an_absent_value_is_no_value() {
        let values = [
            (5, None),
            (7, Some(100)),
            (7, None),
            (1, Some(90)),
            (2, Some(80)),
        ];
        let rows = values.map(|(a, b)| vec![("kernel/forks", Some(a)), ("memory/free", b)]);
        let (_, found) = samples(&rows);
        let gauges: Vec<f64> = found.iter().map(|one| one.0[0]).collect();
        assert!(gauges[0].is_nan() && gauges[2].is_nan());
        assert_eq!([gauges[1], gauges[3], gauges[4]], [100.0, 90.0, 80.0]);
        let totals: Vec<f64> = found.iter().map(|one| one.2[0]).collect();
        // At 1 the counter stands: the kernel's counters do not begin again.
        assert_eq!(totals, [0.0, 2.0, 2.0, 2.0, 3.0]);
    }

    #[test]
    fn columns_keep_their_places_when_others_come_and_go() {
        let rows: Vec<_> = (0..6)
            .map(|i| {
                let mut row = vec![("memory/a", Some(i)), ("kernel/forks", Some(10 * i))];
                if [1, 2, 4].contains(&i) {
                    row.insert(0, ("disk/b/reads", Some(i)));
                    row.insert(0, ("memory/b", Some(7 * i)));
                }
                row
            })
            .collect();
        let (columns, found) = samples(&rows);
        assert_eq!(columns.gauges.names.list, ["memory/a", "memory/b"]);
        assert_eq!(
            columns.counters.names.list,
            ["kernel/forks", "disk/b/reads"]
        );
        let told = |value: f64| if value.is_nan() { -1.0 } else { value };
        let gauges: Vec<_> = found[1..]
            .iter()
            .map(|one| (told(one.0[0]), told(one.0[1])))
            .collect();
        assert_eq!(
            gauges,
            [
                (1.0, 7.0),
                (2.0, 14.0),
                (3.0, -1.0),
                (4.0, 28.0),
                (5.0, -1.0)
            ]
        );
        assert_eq!([&found[2].1, &found[3].1], [&[true, true], &[true, false]]);
        let totals: Vec<_> = found[1..].iter().map(|one| (one.2[0], one.2[1])).collect();
        // From what the first sample says on; a disk that came counted from 0.
        assert_eq!(
            totals,
            [
                (10.0, 1.0),
                (20.0, 2.0),
                (30.0, 2.0),
                (40.0, 4.0),
                (50.0, 4.0)
            ]
        );
    }

    #[test]
    fn a_slip_is_known_when_its_sample_is_handed_on() {
        let rows = [5, 9, 6, 10, 4, 5]
            .map(|count| vec![("kernel/forks", Some(count)), ("disk/a/reads", Some(count))]);
        let (_, found) = samples(&rows);
        // 6 is below 9 and 10; at 4 the kernel's counter stands, the device began again.
        let totals: Vec<_> = found.iter().map(|one| (one.2[0], one.2[1])).collect();
        let expected = [
            (0.0, 0.0),
            (4.0, 4.0),
            (4.0, 4.0),
            (5.0, 5.0),
            (5.0, 9.0),
            (6.0, 10.0),
        ];
        assert_eq!(totals, expected);
    }

    proptest! {
        #[test]
        fn gauges_are_handed_on_as_they_were_written(
            rows in prop::collection::vec(prop::array::uniform3(prop::option::of(-(1_i64 << 50)..1 << 50)), 1..12)
        ) {
            let names = ["memory/a", "memory/b", "memory/c"];
            let written: Vec<_> = rows.iter().map(|row| names.into_iter().zip(*row).collect()).collect();
            let (_, found) = samples(&written);
            prop_assert_eq!(found.len(), rows.len());
            for (sample, row) in found.iter().zip(&rows) {
                let told: Vec<_> = sample.0.iter().map(|value| (!value.is_nan()).then_some(*value as i64)).collect();
                prop_assert_eq!(&told, row);
            }
        }
    }
}
