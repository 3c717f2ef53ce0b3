//! How many operations are under way: the time integral of arrivals less ends.
//!
//! The mean is the integral over the time from the first arrival to the last event of an operation whose end is
//! known, which by Little's law is the arrival rate times the mean time in the system. Operations without an end are
//! not counted at all, and told: an unknown end is neither at once nor never.

use super::arrivals::{MOST_BINS, SCALES};
use super::series::Series;
use bw_model::Nanos;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How many may be under way before counting is given up: 16 Mi, 128 MB.
const DEEPEST: usize = 16 << 20;

/// How many are under way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueResult {
    /// Operations with a known end.
    pub operations: u64,
    /// Operations without one, left out.
    pub without_end: u64,
    /// Mean over time; null of an instant.
    pub mean: Option<f64>,
    /// What an arrival finds before it, on average.
    pub mean_at_arrival: f64,
    /// The most at once.
    pub max: u64,
    /// The mean over time in each bin.
    pub series: DepthSeries,
}

/// Depth over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DepthSeries {
    /// The width of a bin.
    pub bin_ns: u64,
    /// The mean in each bin.
    pub mean: Vec<f64>,
}

/// Follows arrivals in order, and ends.
#[derive(Debug)]
pub struct Queue {
    under_way: BinaryHeap<Reverse<u64>>,
    now: Nanos,
    area: f64,
    series: Series<f64>,
    operations: u64,
    without_end: u64,
    found: u128,
    max: u64,
    given_up: bool,
}

impl Queue {
    /// Returns an empty queue at time zero.
    #[must_use]
    pub fn new() -> Self {
        Self {
            under_way: BinaryHeap::new(),
            now: Nanos::ZERO,
            area: 0.0,
            series: Series::new(SCALES[0], MOST_BINS),
            operations: 0,
            without_end: 0,
            found: 0,
            max: 0,
            given_up: false,
        }
    }

    /// Follows an arrival at `at`, which ends at `end` if that is known.
    pub fn add(&mut self, at: Nanos, end: Option<Nanos>) {
        let Some(end) = end else {
            self.without_end += 1;
            return;
        };
        self.until(at);
        self.operations += 1;
        self.found += self.under_way.len() as u128;
        if self.under_way.len() < DEEPEST {
            self.under_way.push(Reverse(end.max(at).0));
        } else {
            self.given_up = true;
        }
        self.max = self.max.max(self.under_way.len() as u64);
    }

    /// Lets everything end that ends until `at`.
    fn until(&mut self, at: Nanos) {
        while let Some(Reverse(end)) = self.under_way.peek().copied() {
            if end > at.0 {
                break;
            }
            self.advance(Nanos(end));
            self.under_way.pop();
        }
        self.advance(at);
    }

    #[allow(clippy::cast_precision_loss)]
    fn advance(&mut self, to: Nanos) {
        let depth = self.under_way.len() as f64;
        if to > self.now && depth > 0.0 {
            self.area += to.since(self.now).0 as f64 * depth;
            self.series.add_stretch((self.now, to), depth);
        }
        self.now = self.now.max(to);
    }

    /// Returns the figures; None if no end is known, or more were under way than memory allows.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn result(mut self) -> Option<QueueResult> {
        self.until(Nanos::NEVER.min(self.last_end()));
        if self.operations == 0 || self.given_up {
            return None;
        }
        let width = self.series.width();
        let length = |index: usize| {
            let start = Nanos(width.0 * index as u64);
            self.now.since(start).min(width).0.max(1) as f64
        };
        let bins = self.series.bins().iter().enumerate();
        let mean = bins.map(|(index, area)| area / length(index)).collect();
        Some(QueueResult {
            operations: self.operations,
            without_end: self.without_end,
            mean: (self.now > Nanos::ZERO).then(|| self.area / self.now.0 as f64),
            mean_at_arrival: self.found as f64 / self.operations as f64,
            max: self.max,
            series: DepthSeries {
                bin_ns: width.0,
                mean,
            },
        })
    }

    fn last_end(&self) -> Nanos {
        let last = self.under_way.iter().map(|end| end.0).max();
        last.map_or(self.now, Nanos)
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self::new()
    }
}
