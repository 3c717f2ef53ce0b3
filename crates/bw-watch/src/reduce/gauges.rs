//! Gauges: their lowest, highest and mean values in a window.
//!
//! Decision: a gauge is known only at its samples. A window without a sample uses those on both sides; otherwise
//! minimum, maximum and sum are enough, and no sample is stored. NaN: not reported.

use super::counters::Names;
use std::rc::Rc;

/// All gauges at the last sample.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    pub(super) names: Names,
    /// The last reported values.
    pub(super) reported: Rc<Vec<f64>>,
}

impl Gauges {
    /// Adds a sample.
    pub(super) fn take(&mut self, values: &[f64]) {
        let reported = Rc::make_mut(&mut self.reported);
        reported.resize(values.len(), f64::NAN);
        for (last, value) in reported.iter_mut().zip(values) {
            if !value.is_nan() {
                *last = *value;
            }
        }
    }
}

/// The values of one gauge in a window.
#[derive(Debug, Clone)]
struct GaugeRange {
    least: f64,
    most: f64,
    sum: f64,
    count: u32,
    /// The first value after the window.
    after: f64,
}

const NOTHING: GaugeRange = GaugeRange {
    least: f64::NAN,
    most: f64::NAN,
    sum: 0.0,
    count: 0,
    after: f64::NAN,
};

/// The values of gauges from one moment to another.
#[derive(Debug)]
pub(super) struct WindowGauges {
    begin_ns: i64,
    end_ns: i64,
    before: Option<Rc<Vec<f64>>>,
    each: Vec<GaugeRange>,
    /// Number of gauges whose first value after the window is known, if it is known of all.
    is_over: usize,
}

impl WindowGauges {
    pub(super) fn new(begin_ns: i64, end_ns: i64) -> Self {
        Self {
            begin_ns,
            end_ns,
            before: None,
            each: Vec::new(),
            is_over: 0,
        }
    }

    /// Adds a sample; `reported` are the last values before it.
    pub(super) fn take(&mut self, when_ns: i64, values: &[f64], reported: &Rc<Vec<f64>>) {
        if when_ns < self.begin_ns || (self.is_over == values.len() && self.before.is_some()) {
            return;
        }
        self.each.resize(values.len(), NOTHING);
        self.before.get_or_insert_with(|| Rc::clone(reported));
        let told = self.each.iter_mut().zip(values);
        if when_ns > self.end_ns {
            // Used only if the window has no sample.
            let mut missing = 0;
            for (one, value) in told {
                if one.after.is_nan() {
                    one.after = *value;
                    missing += usize::from(value.is_nan());
                }
            }
            self.is_over = if missing == 0 { values.len() } else { 0 };
            return;
        }
        for (one, value) in told.filter(|(_, value)| !value.is_nan()) {
            one.least = one.least.min(*value);
            one.most = one.most.max(*value);
            one.sum += value;
            one.count += 1;
        }
    }

    /// Ends the series; `reported` are the last values.
    pub(super) fn finish(&mut self, reported: &Rc<Vec<f64>>) {
        self.each.resize(reported.len(), NOTHING);
        self.before.get_or_insert_with(|| Rc::clone(reported));
    }

    /// Returns a gauge's highest sample; None if there is none.
    pub(super) fn most(&self, place: usize) -> Option<f64> {
        let one = &self.each[place];
        if one.count > 0 {
            return Some(one.most);
        }
        self.beside(place).reduce(f64::max)
    }

    /// Returns a gauge's lowest sample.
    pub(super) fn least(&self, place: usize) -> Option<f64> {
        let one = &self.each[place];
        if one.count > 0 {
            return Some(one.least);
        }
        self.beside(place).reduce(f64::min)
    }

    /// Returns the mean of a gauge's samples.
    pub(super) fn mean(&self, place: usize) -> Option<f64> {
        let one = &self.each[place];
        if one.count > 0 {
            return Some(one.sum / f64::from(one.count));
        }
        let count = self.beside(place).count();
        (count > 0).then(|| self.beside(place).sum::<f64>() / count as f64)
    }

    /// Returns the samples on both sides of the window.
    fn beside(&self, place: usize) -> impl Iterator<Item = f64> {
        let before = self
            .before
            .as_ref()
            .and_then(|before| before.get(place).copied());
        let both = [before, Some(self.each[place].after)];
        both.into_iter().flatten().filter(|value| !value.is_nan())
    }
}
