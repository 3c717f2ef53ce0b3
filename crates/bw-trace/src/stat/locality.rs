//! The distance of an operation from those before it, and the sizes of operations.
//!
//! Decision: two shares. Strict: an operation starts where the previous one of its device ended. Loose: it starts where
//! one of the last 32 ended, because several interleaved sequential streams are sequential to a device
//! with read-ahead although no neighbours touch. Flushes and exchanges have no address and are left out.

use bw_model::{Kind, Row};
use bw_record::histogram::Histogram;
use serde::Serialize;
use std::collections::HashMap;

/// How many ends are stored for each device.
pub(crate) const RECENT: usize = 32;

/// How sequential a trace is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sequentiality {
    /// Operations that have a predecessor on their device.
    pub operations: u64,
    /// Share that starts where the previous one ended; null without operations.
    pub sequential_share: Option<f64>,
    /// Share that starts where one of the last 32 ended.
    pub recent_share: Option<f64>,
    /// Runs of operations that each start where the previous one ended.
    pub runs: Runs,
    /// Distances of the other operations, from the previous end to the start, by powers of two.
    pub jumps: Vec<Jump>,
}

/// Lengths of sequential runs, in operations; 1: a single operation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Runs {
    /// Number of runs.
    pub runs: u64,
    /// Mean length.
    pub mean: Option<f64>,
    /// Half of the runs are at most this long.
    pub p50: Option<u64>,
    /// 99 % of the runs are at most this long.
    pub p99: Option<u64>,
    /// Maximum length.
    pub max: Option<u64>,
}

/// Jumps of similar distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Jump {
    /// Maximum distance counted here; the minimum is half of it.
    pub up_to_bytes: u64,
    /// To a higher address.
    pub forward: u64,
    /// To a lower address.
    pub backward: u64,
}

#[derive(Debug)]
struct Device {
    ends: [u64; RECENT],
    next: usize,
    known: usize,
    run: u64,
}

impl Device {
    fn last(&self) -> u64 {
        self.ends[(self.next + RECENT - 1) % RECENT]
    }

    fn knows(&self, offset: u64) -> bool {
        self.ends[..self.known].contains(&offset)
    }

    fn ended_at(&mut self, end: u64) {
        self.ends[self.next] = end;
        self.next = (self.next + 1) % RECENT;
        self.known = (self.known + 1).min(RECENT);
    }
}

/// Follows the addresses of each device.
#[derive(Debug)]
pub(crate) struct Locality {
    devices: HashMap<u16, Device>,
    judged: u64,
    sequential: u64,
    recent: u64,
    runs: Histogram,
    jumps: [(u64, u64); 65],
}

impl Default for Locality {
    fn default() -> Self {
        Self {
            devices: HashMap::new(),
            judged: 0,
            sequential: 0,
            recent: 0,
            runs: Histogram::new(),
            jumps: [(0, 0); 65],
        }
    }
}

impl Locality {
    /// Adds an operation.
    pub(crate) fn add(&mut self, row: &Row) {
        if matches!(row.kind, Kind::Flush | Kind::Exchange) || row.kind.needs_files() {
            return;
        }
        let device = self.devices.entry(row.device).or_insert(Device {
            ends: [0; RECENT],
            next: 0,
            known: 0,
            run: 0,
        });
        if device.known > 0 {
            self.judged += 1;
            self.recent += u64::from(device.knows(row.offset));
            let last = device.last();
            if row.offset == last {
                self.sequential += 1;
            } else {
                self.runs.record(device.run);
                device.run = 0;
                jump(&mut self.jumps, last, row.offset);
            }
        }
        device.run += 1;
        device.ended_at(row.offset.saturating_add(u64::from(row.size)));
    }

    /// Returns the figures.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn result(mut self) -> Sequentiality {
        for device in self.devices.values() {
            self.runs.record(device.run);
        }
        let share = |part: u64| (self.judged > 0).then(|| part as f64 / self.judged as f64);
        let jumps = self.jumps.iter().enumerate();
        let jumps = jumps.map(|(index, (forward, backward))| Jump {
            up_to_bytes: 1_u64.checked_shl(index as u32).unwrap_or(u64::MAX),
            forward: *forward,
            backward: *backward,
        });
        Sequentiality {
            operations: self.judged,
            sequential_share: share(self.sequential),
            recent_share: share(self.recent),
            runs: Runs {
                runs: self.runs.count(),
                mean: self.runs.mean(),
                p50: self.runs.quantile(0.5),
                p99: self.runs.quantile(0.99),
                max: self.runs.max(),
            },
            jumps: jumps
                .filter(|jump| jump.forward + jump.backward > 0)
                .collect(),
        }
    }
}

fn jump(jumps: &mut [(u64, u64); 65], from: u64, to: u64) {
    let distance = from.abs_diff(to);
    let bucket = &mut jumps[64 - (distance - 1).leading_zeros() as usize];
    if to > from {
        bucket.0 += 1;
    } else {
        bucket.1 += 1;
    }
}

/// Maximum number of different sizes that are counted exactly.
const EXACT: usize = 4096;
/// How many of the most frequent sizes are reported.
const REPORTED: usize = 16;

/// The sizes of operations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeResult {
    /// Mean; null without operations [bytes].
    pub mean_bytes: Option<f64>,
    /// Number of different sizes; null if more than are counted exactly (4,096).
    pub different: Option<u64>,
    /// The most frequent sizes, exact, at most 16.
    pub commonest: Vec<SizeCount>,
    /// All sizes, in buckets that double: size 0 alone, then up to 1, 2, 4 ... bytes.
    pub buckets: Vec<SizeBucket>,
}

/// One size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SizeCount {
    /// The size.
    pub bytes: u32,
    /// Number of operations with this size.
    pub operations: u64,
    /// Share of all operations.
    pub share: f64,
}

/// A range of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeBucket {
    /// The largest size in it.
    pub up_to_bytes: u64,
    /// Number of operations in it.
    pub operations: u64,
}

/// Counts sizes.
#[derive(Debug)]
pub(crate) struct Sizes {
    exact: HashMap<u32, u64>,
    others: bool,
    buckets: [u64; 34],
    operations: u64,
    bytes: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            exact: HashMap::new(),
            others: false,
            buckets: [0; 34],
            operations: 0,
            bytes: 0,
        }
    }
}

impl Sizes {
    /// Counts the size of an operation.
    pub(crate) fn add(&mut self, row: &Row) {
        self.operations += 1;
        self.bytes += u64::from(row.size);
        self.buckets[bucket(row.size)] += 1;
        if let Some(count) = self.exact.get_mut(&row.size) {
            *count += 1;
        } else if self.exact.len() < EXACT {
            self.exact.insert(row.size, 1);
        } else {
            self.others = true;
        }
    }

    /// Returns the figures.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn result(&self) -> SizeResult {
        let mut commonest: Vec<_> = self.exact.iter().collect();
        commonest.sort_unstable_by_key(|(bytes, count)| (std::cmp::Reverse(**count), **bytes));
        let all = self.operations as f64;
        let reported = commonest
            .into_iter()
            .take(REPORTED)
            .map(|(bytes, count)| SizeCount {
                bytes: *bytes,
                operations: *count,
                share: *count as f64 / all,
            });
        let buckets = self
            .buckets
            .iter()
            .enumerate()
            .map(|(index, count)| SizeBucket {
                up_to_bytes: (1_u64 << index) >> 1,
                operations: *count,
            });
        SizeResult {
            mean_bytes: (self.operations > 0).then(|| self.bytes as f64 / all),
            different: (!self.others).then_some(self.exact.len() as u64),
            commonest: reported.collect(),
            buckets: buckets.filter(|bucket| bucket.operations > 0).collect(),
        }
    }
}

/// Returns 0 for 0, otherwise n + 1 where 2^n is the smallest power of two not below `bytes`.
fn bucket(bytes: u32) -> usize {
    match bytes {
        0 => 0,
        _ => 33 - (bytes - 1).leading_zeros() as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_at_a_power_of_two() {
        assert_eq!(
            [0, 1, 2, 3, 4, 4096, 4097, u32::MAX].map(bucket),
            [0, 1, 2, 3, 3, 13, 14, 33]
        );
    }
}
