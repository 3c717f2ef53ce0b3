//! A window of a series: the growth of counters and the values of gauges in it.
//!
//! Growth is interpolated at the edges of a window, and the growth in two adjacent windows adds up to that in their
//! union.

use super::columns::{Columns, Sample};
use super::counters::Mark;
use super::file::Header;
use super::gauges::WindowGauges;
use std::rc::Rc;

/// The columns of a series from one moment to another.
#[derive(Debug)]
pub(super) struct SeriesWindow {
    pub(super) begin_ns: i64,
    pub(super) end_ns: i64,
    begin: Mark,
    end: Mark,
    gauges: WindowGauges,
}

impl SeriesWindow {
    pub(super) fn new(columns: &mut Columns, begin_ns: i64, end_ns: i64) -> Self {
        Self {
            begin_ns,
            end_ns,
            begin: columns.counters.mark(begin_ns),
            end: columns.counters.mark(end_ns),
            gauges: WindowGauges::new(begin_ns, end_ns),
        }
    }

    /// Adds a sample.
    pub(super) fn take(&mut self, sample: &Sample, columns: &Columns) {
        let reported = &columns.gauges.reported;
        self.gauges.take(sample.when_ns, &sample.gauges, reported);
    }

    /// Ends the series, whose samples lie between these moments.
    pub(super) fn finish(&mut self, columns: &Columns, first_ns: i64, last_ns: i64) {
        self.gauges.finish(&columns.gauges.reported);
        self.begin_ns = self.begin_ns.max(first_ns);
        self.end_ns = self.end_ns.min(last_ns);
    }

    /// Returns the window's figures, after the end of the series.
    pub(super) fn figures<'a>(&'a self, header: &'a Header, columns: &'a Columns) -> Figures<'a> {
        Figures {
            header,
            window: self,
            columns,
            begin_ns: self.begin_ns,
            end_ns: self.end_ns,
            seconds: self.seconds(),
        }
    }

    /// Length [s]; above 0 if the series covers any of the window.
    pub(super) fn seconds(&self) -> f64 {
        (self.end_ns - self.begin_ns) as f64 / 1e9
    }
}

/// The figures of a window by the names of columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figures<'a> {
    pub(super) header: &'a Header,
    window: &'a SeriesWindow,
    columns: &'a Columns,
    pub(super) begin_ns: i64,
    pub(super) end_ns: i64,
    pub(super) seconds: f64,
}

impl<'a> Figures<'a> {
    /// Returns the names of all columns, in the order of their appearance.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.columns.names.list.iter().map(String::as_str)
    }

    /// Returns whether there is such a column.
    pub(super) fn has(&self, name: &str) -> bool {
        self.columns.names.place(name).is_some()
    }

    /// Returns the summed growth of counters; None if none of them has a sample.
    pub(super) fn sum(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Option<f64> {
        let counters = &self.columns.counters;
        let places = names
            .into_iter()
            .filter_map(|name| counters.reported(name.as_ref()));
        places
            .map(|place| counters.growth(place, self.window.begin, self.window.end))
            .reduce(|sum, growth| sum + growth)
    }

    /// Returns the growth of a counter.
    pub(super) fn growth(&self, name: &str) -> Option<f64> {
        self.sum([name])
    }

    /// Returns the summed growth of counters per second.
    pub(super) fn rate(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Option<f64> {
        self.sum(names).map(|growth| growth / self.seconds)
    }

    /// Returns the growth as a number of events, rounded up; 0 if not reported.
    ///
    /// An event in an interval at the window's edge may count: reporting an error in two windows is better than in none.
    pub(super) fn count(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> i64 {
        (self.sum(names).unwrap_or(0.0) - 1e-6).ceil() as i64
    }

    /// Returns the growth, rounded; 0 if not reported.
    pub(super) fn whole(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> i64 {
        rounded(self.sum(names).unwrap_or(0.0))
    }

    /// Returns a gauge's highest sample in the window, else the higher of those beside it.
    pub(super) fn most(&self, name: &str) -> Option<f64> {
        self.window.gauges.most(self.gauge(name)?)
    }

    /// Returns a gauge's lowest sample.
    pub(super) fn least(&self, name: &str) -> Option<f64> {
        self.window.gauges.least(self.gauge(name)?)
    }

    /// Returns the mean of a gauge's samples.
    pub(super) fn mean(&self, name: &str) -> Option<f64> {
        self.window.gauges.mean(self.gauge(name)?)
    }

    fn gauge(&self, name: &str) -> Option<usize> {
        self.columns.gauges.names.place(name)
    }

    /// Returns the middle parts of the column names `prefix/.../last`, in natural order: `cpu10` after `cpu9`.
    pub(super) fn between(&self, prefix: &str, last: &str) -> Vec<&'a str> {
        let mut found: Vec<&str> = self
            .names()
            .filter_map(|name| {
                let rest = name.strip_prefix(prefix)?.strip_prefix('/')?;
                rest.strip_suffix(last)?.strip_suffix('/')
            })
            .collect();
        found.sort_by_cached_key(|name| natural(name));
        found
    }
}

/// Returns the nearest integer, the even one of two.
pub(super) fn rounded(value: f64) -> i64 {
    value.round_ties_even() as i64
}

fn natural(name: &str) -> Vec<(i64, &str)> {
    let is_digit = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
    name.as_bytes()
        .chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit())
        .filter_map(|part| str::from_utf8(part).ok())
        .map(|part| match part.parse() {
            Ok(number) if is_digit(part) => (number, ""),
            _ if is_digit(part) => (i64::MAX, part),
            _ => (-1, part),
        })
        .collect()
}

/// Selects the tables that a window uses: those inside, and one on each side.
#[derive(Debug)]
pub(super) struct TablesAround<T> {
    begin_ns: i64,
    end_ns: i64,
    /// The last table before the window.
    last: Option<Rc<T>>,
    is_over: bool,
}

impl<T> TablesAround<T> {
    pub(super) fn new(begin_ns: i64, end_ns: i64) -> Self {
        Self {
            begin_ns,
            end_ns,
            last: None,
            is_over: false,
        }
    }

    /// Adds a table; returns the tables that the window uses now.
    pub(super) fn taken(
        &mut self,
        when_ns: i64,
        table: &Rc<T>,
    ) -> impl Iterator<Item = Rc<T>> + use<T> {
        let mut found = [None, None];
        if !self.is_over && when_ns <= self.begin_ns {
            self.last = Some(Rc::clone(table));
        } else if !self.is_over {
            self.is_over = when_ns >= self.end_ns;
            found = [self.rest(), Some(Rc::clone(table))];
        }
        found.into_iter().flatten()
    }

    /// Returns the table before the window, if no later table was returned.
    pub(super) fn rest(&mut self) -> Option<Rc<T>> {
        self.last.take()
    }
}
