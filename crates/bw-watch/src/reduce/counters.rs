//! Counters: how far each has grown, also across decreases of the raw value.
//!
//! Decision: the last two samples of each counter are enough to detect a slip (a sample below both of its neighbours)
//! and to interpolate, so memory depends on the number of columns, not on the time watched. A sample is used only once
//! the next one is known. Counters are assumed to grow evenly between two samples. Source: docs/watch-format.md.

use std::collections::HashMap;

/// The value at which 32-bit counters wrap: times in /proc/diskstats [ms].
const WRAP: f64 = 4_294_967_296.0;

/// Names in the order of their first appearance, each with its place.
#[derive(Debug, Default)]
pub(super) struct Names {
    places: HashMap<String, usize>,
    pub(super) list: Vec<String>,
}

impl Names {
    /// Returns the place of a name; a new one is appended.
    pub(super) fn add(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        self.list.push(name.to_owned());
        self.places.insert(name.to_owned(), self.list.len() - 1);
        self.list.len() - 1
    }

    /// Returns the place of a name; None if it is unknown.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }
}

/// One counter; totals count from its first sample.
#[derive(Debug)]
struct Counter {
    total: f64,
    /// Time of the last sample [ns].
    time: i64,
    total_before: f64,
    /// Time of the sample before it; equal to `time` if there is none.
    time_before: i64,
    /// The total one sample before that.
    base: f64,
    /// The last raw value; NaN: none yet.
    value: f64,
    value_before: f64,
    /// Whether the last sample is below the one before.
    back: bool,
    /// Whether the next row has a value.
    is_next: bool,
    /// Whether an earlier row had the column, with or without a value.
    awaited: bool,
    /// Whether it counts from 0 when its device, which may be removed, returns under its name.
    restarts: bool,
    wraps: bool,
}

impl Counter {
    fn new(name: &str) -> Self {
        Self {
            total: 0.0,
            time: -1,
            total_before: 0.0,
            time_before: -1,
            base: 0.0,
            value: f64::NAN,
            value_before: f64::NAN,
            back: false,
            is_next: false,
            awaited: false,
            restarts: name.starts_with("disk/") || name.starts_with("net/"),
            wraps: name.ends_with("_ms"),
        }
    }

    /// Settles the last sample with the next value.
    fn settle(&mut self, next: f64) {
        self.is_next = !next.is_nan();
        if self.back && self.value_before <= next {
            self.total = self.total_before;
            self.value = self.value_before;
        }
    }

    fn take(&mut self, value: f64, when_ns: i64, before_ns: Option<i64>) {
        let is_awaited = std::mem::replace(&mut self.awaited, true);
        if value.is_nan() {
            return;
        }
        if self.value.is_nan() {
            self.value = value;
            self.value_before = value;
            self.time = when_ns;
            self.time_before = when_ns;
            if let Some(before_ns) = before_ns
                && self.restarts
                && !is_awaited
            {
                // A device that appeared during the series counted from 0.
                self.value_before = 0.0;
                self.total = value;
                self.time_before = before_ns;
            }
            return;
        }
        let step = self.step(value);
        self.base = self.total_before;
        self.total_before = self.total;
        self.time_before = self.time;
        self.value_before = self.value;
        self.total += step;
        self.time = when_ns;
        self.value = value;
    }

    /// Returns the growth since the last value, also across a decrease.
    fn step(&mut self, value: f64) -> f64 {
        let mut step = value - self.value;
        self.back = step < 0.0;
        if self.wraps && self.value < WRAP && step < -WRAP / 2.0 {
            step += WRAP;
        }
        match (step < 0.0, self.restarts) {
            (false, _) => step,
            (true, true) => value,
            (true, false) => 0.0,
        }
    }
}

/// All counters up to the last sample.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) names: Names,
    each: Vec<Counter>,
    marks: Vec<CounterMark>,
    /// Numbers of the marks at which some counter's total is not known yet.
    waiting: Vec<usize>,
    newest_ns: i64,
}

/// The number of a mark.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark(usize);

impl Counters {
    /// Returns the place of a counter; a new one is added.
    pub(super) fn place(&mut self, name: &str) -> usize {
        let place = self.names.add(name);
        if place == self.each.len() {
            self.each.push(Counter::new(name));
        }
        place
    }

    /// Returns a mark that will hold every counter's total at a later moment.
    pub(super) fn mark(&mut self, when_ns: i64) -> Mark {
        self.waiting.push(self.marks.len());
        self.marks.push(CounterMark::new(when_ns));
        Mark(self.marks.len() - 1)
    }

    /// Returns the place of a counter that had any sample.
    pub(super) fn reported(&self, name: &str) -> Option<usize> {
        let place = self.names.place(name)?;
        (!self.each[place].value.is_nan()).then_some(place)
    }

    /// Returns the total of a counter.
    pub(super) fn total(&self, place: usize) -> f64 {
        self.each[place].total
    }

    /// Settles the last samples with the next values, each with its counter's place; NaN: no next value yet.
    pub(super) fn settle(&mut self, next: &[(usize, f64)]) {
        for counter in &mut self.each {
            counter.is_next = false;
        }
        for (place, value) in next {
            self.each[*place].settle(*value);
        }
        let (each, marks, newest_ns) = (&self.each, &mut self.marks, self.newest_ns);
        self.waiting.retain(|number| {
            let mark = &mut marks[*number];
            if mark.when_ns > newest_ns {
                return true;
            }
            mark.settle(each, false);
            let waits = !mark.waiting.is_empty();
            if !waits {
                mark.waiting.shrink_to_fit();
            }
            waits
        });
    }

    /// Adds a sample that `settle` has used; `before_ns` is the time of the sample before it.
    pub(super) fn take(&mut self, values: &[(usize, f64)], when_ns: i64, before_ns: Option<i64>) {
        for (place, value) in values {
            self.each[*place].take(*value, when_ns, before_ns);
        }
        self.newest_ns = when_ns;
    }

    /// Settles the last samples at the end of the series.
    pub(super) fn finish(&mut self) {
        for number in std::mem::take(&mut self.waiting) {
            self.marks[number].settle(&self.each, true);
        }
    }

    /// Returns how far a counter grew from one mark to another.
    pub(super) fn growth(&self, place: usize, begin: Mark, end: Mark) -> f64 {
        let (begin, end) = (&self.marks[begin.0], &self.marks[end.0]);
        // A counter that appeared after all others were settled was 0.
        let base = begin.totals.get(place).map_or(0.0, |total| total.base);
        end.since(place, base) - begin.since(place, base)
    }
}

/// The total of one counter at a mark.
#[derive(Debug, Clone, Copy, Default)]
struct MarkedTotal {
    /// The total at the sample before the moment.
    whole: f64,
    /// The growth since that sample.
    part: f64,
    /// The total one sample earlier; differences are taken from it, to avoid rounding.
    base: f64,
}

/// The totals of all counters at one moment, each known after a sample at or after it.
///
/// Before its first sample a counter is 0; after its last sample it keeps its total.
#[derive(Debug)]
struct CounterMark {
    when_ns: i64,
    totals: Vec<MarkedTotal>,
    /// Places of the counters whose total is not known yet.
    waiting: Vec<usize>,
}

impl CounterMark {
    fn new(when_ns: i64) -> Self {
        Self {
            when_ns,
            totals: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Sets the totals of counters whose last sample is settled and at or after the moment.
    fn settle(&mut self, counters: &[Counter], at_end: bool) {
        self.waiting.extend(self.totals.len()..counters.len());
        self.totals.resize(counters.len(), MarkedTotal::default());
        let (when_ns, totals) = (self.when_ns, &mut self.totals);
        self.waiting.retain(|place| {
            let counter = &counters[*place];
            let is_due = at_end || (counter.is_next && counter.time >= when_ns);
            if is_due {
                totals[*place] = total_at(counter, when_ns);
            }
            !is_due
        });
    }

    fn since(&self, place: usize, base: f64) -> f64 {
        let total = self.totals.get(place);
        total.map_or(0.0, |total| total.part + (total.whole - base))
    }
}

fn total_at(counter: &Counter, when_ns: i64) -> MarkedTotal {
    let (first, last) = (counter.time_before, counter.time);
    if when_ns >= last {
        return MarkedTotal {
            whole: counter.total,
            part: 0.0,
            base: counter.total_before,
        };
    }
    if when_ns <= first {
        return MarkedTotal {
            whole: counter.total_before,
            part: 0.0,
            base: counter.total_before,
        };
    }
    let slope = (counter.total - counter.total_before) / (last - first) as f64;
    MarkedTotal {
        whole: counter.total_before,
        part: slope * (when_ns - first) as f64,
        base: counter.base,
    }
}
