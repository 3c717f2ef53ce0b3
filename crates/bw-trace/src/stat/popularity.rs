//! The skew of accesses, and the number of different blocks accessed.
//!
//! Decision: every block is counted as long as the table fits its memory; then only blocks whose hash lies below a
//! threshold, which is halved whenever the table is full. Whether a block is kept depends only on its address,
//! so the kept blocks are a fair sample with their full histories, and counts divided by the rate are
//! unbiased estimates. Whether the few hottest blocks are in the sample is chance, so their share is
//! computed from the rest: all accesses, which are counted, minus the estimate for the other blocks
//! (SHARDS-adj in the source). The result contains "exact" or "sampled", and the rate. Source: Waldspurger et al.,
//! Efficient MRC Construction with SHARDS (FAST '15). Reads and writes count, once for every block they touch.
//!
//! The Zipf law that fits the counts of accesses best is also reported.
//!
//! Decision: maximum likelihood over the ranks that were counted at least eight times, given that an access goes to one
//! of them. Rejected: a line through the logarithms of all ranks. The long tail of blocks accessed once or twice, whose
//! order is chance, determines its slope. Source: Clauset, Shalizi, Newman, Power-law distributions in empirical
//! data (SIAM Review 51, 2009).

use crate::stat::arrivals::{MOST_BINS, SCALES};
use bw_model::{Kind, Nanos, Row};
use serde::Serialize;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::RangeInclusive;

/// The length of the windows over which the working set is reported.
pub(crate) const WINDOW: Nanos = Nanos(60_000_000_000);
/// The parts of the accessed blocks whose share of accesses is reported.
const TOPS: [f64; 4] = [0.001, 0.01, 0.1, 0.2];
/// The memory of one place of the table, twice: halving makes a new table [bytes].
const PLACE_BYTES: u64 = 34;

/// The skew of accesses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PopularityResult {
    /// Exact or sampled.
    pub method: Method,
    /// The share of blocks in the sample; 1 if exact.
    pub rate: f64,
    /// The size of a block; null: not blocks are counted, but paths of recorded requests, with their queries and hosts.
    pub block_bytes: Option<u64>,
    /// Accesses to blocks; all of them are counted.
    pub accesses: f64,
    /// Share of accesses that go to the most popular blocks.
    pub tops: Vec<Top>,
    /// The best fitting Zipf law; null with fewer than ten popular blocks.
    pub zipf: Option<ZipfFit>,
}

/// How a figure about blocks was determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Every block was counted.
    Exact,
    /// A fair sample of blocks was counted.
    Sampled,
}

/// The most popular part of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Top {
    /// Share of the accessed blocks, rounded up to a whole block.
    pub blocks_share: f64,
    /// Share of all accesses that go to them.
    pub accesses_share: f64,
}

/// The number of different blocks accessed. Estimated if the popularity is sampled.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkingSet {
    /// Different blocks in the whole trace.
    pub blocks: f64,
    /// Their total size; null: paths have none.
    pub bytes: Option<f64>,
    /// The length of a window.
    pub window_ns: u64,
    /// Windows with an access.
    pub windows: u64,
    /// Mean number of different blocks in such a window; null without windows.
    pub window_blocks_mean: Option<f64>,
    /// Maximum number of different blocks in one window.
    pub window_blocks_max: f64,
    /// The width of the bins of `cumulative`.
    pub bin_ns: u64,
    /// Different blocks accessed from the start to the end of each bin.
    pub cumulative: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct BlockUse {
    accesses: u32,
    window: u32,
}

/// Uses the key, which is a hash already, as the hash.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = scattered(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// Follows accesses to blocks.
pub(crate) struct Popularity {
    block_bytes: Option<u64>,
    most: usize,
    halvings: u32,
    blocks: HashMap<u64, BlockUse, BuildHasherDefault<IdentityHasher>>,
    accesses: u64,
    window: u32,
    in_window: u64,
    windows: u64,
    window_sum: f64,
    window_max: f64,
    cumulative: Latest,
}

impl Popularity {
    /// Returns an empty account in blocks of `block_bytes` > 0, None: of things without a size, in about `memory_bytes`.
    #[must_use]
    pub(crate) fn new(block_bytes: Option<u64>, memory_bytes: u64) -> Self {
        Self {
            block_bytes,
            most: most_blocks(memory_bytes),
            halvings: 0,
            blocks: HashMap::default(),
            accesses: 0,
            window: 0,
            in_window: 0,
            windows: 0,
            window_sum: 0.0,
            window_max: 0.0,
            cumulative: Latest::new(),
        }
    }

    /// Adds an operation that arrives at `at`, not before the previous one.
    pub(crate) fn add(&mut self, at: Nanos, row: &Row) {
        if !matches!(row.kind, Kind::Read | Kind::Write) || row.size == 0 {
            return;
        }
        let block_bytes = self.block_bytes.unwrap_or(1);
        let first = row.offset / block_bytes;
        let last = row.offset.saturating_add(u64::from(row.size) - 1) / block_bytes;
        self.add_numbers(at, row.device, first..=last);
    }

    /// Adds accesses, at a time not before the previous one, to what has these numbers on a device.
    pub(crate) fn add_numbers(&mut self, at: Nanos, device: u16, numbers: RangeInclusive<u64>) {
        self.turn(at);
        for number in numbers {
            self.touch(key(device, number));
        }
        self.cumulative
            .set(at, self.estimate(self.blocks.len() as u64));
    }

    fn touch(&mut self, key: u64) {
        self.accesses += 1;
        if !self.followed(key) {
            return;
        }
        let new = BlockUse {
            accesses: 0,
            window: u32::MAX,
        };
        let seen = self.blocks.entry(key).or_insert(new);
        seen.accesses = seen.accesses.saturating_add(1);
        if seen.window != self.window {
            seen.window = self.window;
            self.in_window += 1;
        }
        if self.blocks.len() > self.most {
            self.halve();
        }
    }

    fn followed(&self, key: u64) -> bool {
        self.halvings == 0 || key >> (64 - self.halvings) == 0
    }

    fn halve(&mut self) {
        self.halvings += 1;
        let keep = 64 - self.halvings;
        // A new table: removing entries would leave marks behind, for which the table would eventually double.
        let mut kept = HashMap::with_capacity_and_hasher(self.most, BuildHasherDefault::default());
        kept.extend(self.blocks.drain().filter(|(key, _)| key >> keep == 0));
        self.blocks = kept;
        let present = self
            .blocks
            .values()
            .filter(|seen| seen.window == self.window);
        self.in_window = present.count() as u64;
    }

    /// Closes the window before the one of `at`.
    fn turn(&mut self, at: Nanos) {
        let window = (at.0 / WINDOW.0) as u32;
        if window > self.window {
            self.close_window();
            self.window = window;
        }
    }

    fn close_window(&mut self) {
        if self.in_window > 0 {
            let blocks = self.estimate(self.in_window);
            self.windows += 1;
            self.window_sum += blocks;
            self.window_max = self.window_max.max(blocks);
        }
        self.in_window = 0;
    }

    #[allow(clippy::cast_precision_loss)]
    fn estimate(&self, followed: u64) -> f64 {
        followed as f64 / self.rate()
    }

    fn rate(&self) -> f64 {
        0.5_f64.powi(self.halvings as i32)
    }

    /// Returns the figures.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn result(mut self) -> (PopularityResult, WorkingSet) {
        self.close_window();
        let mut counts: Vec<u64> = self
            .blocks
            .values()
            .map(|seen| seen.accesses.into())
            .collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let method = if self.halvings == 0 {
            Method::Exact
        } else {
            Method::Sampled
        };
        let popularity = PopularityResult {
            method,
            rate: self.rate(),
            block_bytes: self.block_bytes,
            accesses: self.accesses as f64,
            tops: self.tops(&counts),
            zipf: fit(&counts),
        };
        (popularity, self.working_set(counts.len() as u64))
    }

    /// Returns the shares of the most popular of these blocks, which are sorted.
    #[allow(clippy::cast_precision_loss)]
    fn tops(&self, counts: &[u64]) -> Vec<Top> {
        let all = self.accesses as f64;
        let top = |blocks_share: f64| {
            let blocks = (blocks_share * counts.len() as f64).ceil() as usize;
            let others: u64 = counts[blocks.min(counts.len())..].iter().sum();
            let accesses_share = (all - self.estimate(others)) / all;
            // The hottest blocks have at least the share of the same number of others.
            let accesses_share = accesses_share.max(blocks_share);
            Top {
                blocks_share,
                accesses_share,
            }
        };
        let some = if counts.is_empty() { &[] } else { &TOPS[..] };
        some.iter().map(|share| top(*share)).collect()
    }

    #[allow(clippy::cast_precision_loss)]
    fn working_set(&self, followed: u64) -> WorkingSet {
        let blocks = self.estimate(followed);
        WorkingSet {
            blocks,
            bytes: self.block_bytes.map(|bytes| blocks * bytes as f64),
            window_ns: WINDOW.0,
            windows: self.windows,
            window_blocks_mean: (self.windows > 0).then(|| self.window_sum / self.windows as f64),
            window_blocks_max: self.window_max,
            bin_ns: self.cumulative.width.0,
            cumulative: self.cumulative.bins.clone(),
        }
    }
}

/// Returns how many blocks a table in this memory holds: less than seven eighths of its places, whose number is a
/// power of two; with one more it would double.
fn most_blocks(memory_bytes: u64) -> usize {
    let places = (memory_bytes / PLACE_BYTES).max(2048);
    let places = 1_u64 << places.ilog2();
    (places / 8 * 7 - 1) as usize
}

/// Returns a hash of a block's address; two different blocks share one with a chance of 2^-64.
fn key(device: u16, block: u64) -> u64 {
    scattered(scattered(block) ^ u64::from(device))
}

/// Scatters a number over all 64 bits, one to one. Source: Steele, Lea, Flood, Fast splittable pseudorandom number
/// generators (OOPSLA '14), the finalizer mix64variant13.
fn scattered(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The latest value of each bin, in bins that widen.
struct Latest {
    width: Nanos,
    bins: Vec<f64>,
}

impl Latest {
    fn new() -> Self {
        Self {
            width: SCALES[0],
            bins: Vec::new(),
        }
    }

    fn set(&mut self, at: Nanos, value: f64) {
        while at.0 / self.width.0 >= MOST_BINS as u64 {
            let lasts = self.bins.chunks(2).map(|pair| pair[pair.len() - 1]);
            self.bins = lasts.collect();
            self.width = Nanos(self.width.0.saturating_mul(2));
        }
        let index = (at.0 / self.width.0) as usize;
        let before = self.bins.last().copied().unwrap_or(0.0);
        if index >= self.bins.len() {
            self.bins.resize(index + 1, before);
        }
        if let Some(bin) = self.bins.last_mut() {
            *bin = value;
        }
    }
}

/// Smaller counts carry little information about a rank.
const LEAST_COUNT: u64 = 8;
/// Minimum number of ranks for a fit.
const LEAST_RANKS: usize = 10;
/// Ranks that are summed one by one; later ranks are in groups 1 % wide.
const SINGLE: usize = 1000;

/// A Zipf law: accesses to the n-th most popular block are proportional to n to the power of minus the exponent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ZipfFit {
    /// 0: no skew; from about 1: strong skew. At most 10.
    pub exponent: f64,
    /// Number of the most popular blocks used for the fit.
    pub ranks: u64,
    /// The largest difference between the fitted and the observed share of accesses up to a rank: above about 0.05 it
    /// is not a Zipf law, whatever the exponent. For a sample, which may lack the hottest, it says little.
    pub misfit: f64,
}

/// Ranks of similar popularity.
struct RankGroup {
    log_rank: f64,
    ranks: f64,
    accesses: f64,
}

/// Returns the law that fits `counts`, which are sorted from the largest; None if there are too few.
pub fn fit(counts: &[u64]) -> Option<ZipfFit> {
    let ranks = counts.partition_point(|count| *count >= LEAST_COUNT);
    if ranks < LEAST_RANKS {
        return None;
    }
    let groups = groups(&counts[..ranks]);
    let all: f64 = groups.iter().map(|group| group.accesses).sum();
    let observed: f64 = groups
        .iter()
        .map(|group| group.accesses * group.log_rank)
        .sum();
    let exponent = solve(&groups, observed / all);
    Some(ZipfFit {
        exponent,
        ranks: ranks as u64,
        misfit: misfit(&groups, exponent),
    })
}

#[allow(clippy::cast_precision_loss)]
fn groups(counts: &[u64]) -> Vec<RankGroup> {
    let mut groups = Vec::new();
    let mut start = 0;
    while start < counts.len() {
        let width = if start < SINGLE { 1 } else { start / 100 };
        let end = (start + width).min(counts.len());
        groups.push(RankGroup {
            log_rank: ((start + 1 + end) as f64 / 2.0).ln(),
            ranks: (end - start) as f64,
            accesses: counts[start..end].iter().sum::<u64>() as f64,
        });
        start = end;
    }
    groups
}

/// Returns the exponent at which the expected logarithm of the rank equals the observed one. It falls as the
/// exponent grows, so bisection finds it.
fn solve(groups: &[RankGroup], observed: f64) -> f64 {
    let (mut low, mut high) = (0.0, 10.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if expected(groups, middle) > observed {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

fn expected(groups: &[RankGroup], exponent: f64) -> f64 {
    let (mut sum, mut weights) = (0.0, 0.0);
    for group in groups {
        let weight = group.ranks * (-exponent * group.log_rank).exp();
        sum += weight * group.log_rank;
        weights += weight;
    }
    sum / weights
}

fn misfit(groups: &[RankGroup], exponent: f64) -> f64 {
    let weight = |group: &RankGroup| group.ranks * (-exponent * group.log_rank).exp();
    let weights: f64 = groups.iter().map(weight).sum();
    let accesses: f64 = groups.iter().map(|group| group.accesses).sum();
    let (mut fitted, mut seen, mut worst) = (0.0, 0.0, 0.0_f64);
    for group in groups {
        fitted += weight(group) / weights;
        seen += group.accesses / accesses;
        worst = worst.max((fitted - seen).abs());
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touched(blocks: u64, memory_bytes: u64) -> (PopularityResult, WorkingSet) {
        let mut popularity = Popularity::new(Some(4096), memory_bytes);
        for block in 0..blocks {
            popularity.turn(Nanos(block));
            popularity.touch(key(0, block));
        }
        popularity.result()
    }

    #[test]
    fn what_fits_is_exact() {
        let (popularity, set) = touched(5000, 1 << 20);
        assert_eq!((popularity.method, popularity.rate), (Method::Exact, 1.0));
        assert_eq!((set.blocks, set.windows), (5000.0, 1));
        assert_eq!(set.window_blocks_max, 5000.0);
    }

    #[test]
    fn what_does_not_fit_is_sampled_and_says_so() {
        let (popularity, set) = touched(1_000_000, 1 << 20);
        assert_eq!(popularity.method, Method::Sampled);
        assert!(popularity.rate <= 1.0 / 32.0, "{}", popularity.rate);
        // 14,000 to 29,000 blocks are in the sample: a standard error of 0.8 %.
        assert!((set.blocks / 1e6 - 1.0).abs() < 0.04, "{}", set.blocks);
        assert!((set.window_blocks_max / 1e6 - 1.0).abs() < 0.04);
        assert!((popularity.tops[2].accesses_share - 0.1).abs() < 0.04);
        assert_eq!(popularity.accesses, 1e6);
    }

    /// The sample lacks most of the hottest blocks, but must not lack their accesses.
    #[test]
    fn a_sample_knows_how_hot_the_hottest_are() {
        let result = |memory_bytes| {
            let mut popularity = Popularity::new(Some(4096), memory_bytes);
            for block in 0..100_000_u64 {
                let times = 200_000 / (block + 1) + 1;
                (0..times).for_each(|_| popularity.touch(key(0, block)));
            }
            popularity.result().0
        };
        let (exact, sampled) = (result(1 << 30), result(1 << 19));
        assert_eq!(
            (exact.method, sampled.method),
            (Method::Exact, Method::Sampled)
        );
        for (exact, sampled) in exact.tops.iter().zip(&sampled.tops) {
            let off = (exact.accesses_share - sampled.accesses_share).abs();
            // One block in 16 is in the sample, 6 of the hottest hundred: chance alone moves the share by 0.05. Without
            // the correction more than 0.1 is missing.
            assert!(off < 0.06, "{exact:?} {sampled:?}");
        }
    }

    #[test]
    fn the_latest_value_of_each_bin_survives_widening() {
        let mut latest = Latest::new();
        (0..4000).for_each(|at| latest.set(Nanos(at * 1_000_000), at as f64));
        assert_eq!((latest.width, latest.bins.len()), (Nanos(2_000_000), 2000));
        assert_eq!((latest.bins[0], latest.bins[1999]), (1.0, 3999.0));
    }
}

#[cfg(test)]
mod zipf_tests {
    use super::*;

    /// Returns counts that follow the law exactly, except for rounding.
    fn lawful(exponent: f64, blocks: usize) -> Vec<u64> {
        (1..=blocks)
            .map(|rank| (1e7 * (rank as f64).powf(-exponent)) as u64)
            .collect()
    }

    #[test]
    fn an_exact_law_is_found_exactly() {
        for exponent in [0.3, 0.8, 1.0, 1.2, 2.0] {
            let fit = fit(&lawful(exponent, 20_000)).unwrap();
            assert!(
                (fit.exponent - exponent).abs() < 0.005,
                "{exponent}: {fit:?}"
            );
            assert!(fit.misfit < 0.001, "{fit:?}");
        }
    }

    #[test]
    fn equal_counts_have_exponent_zero_and_hot_and_cold_is_no_zipf_law() {
        assert!(fit(&[100; 5000]).unwrap().exponent < 1e-6);
        let hot: Vec<u64> = [vec![5000; 100], vec![10; 5000]].concat();
        assert!(fit(&hot).unwrap().misfit > 0.05);
        assert_eq!(fit(&[100; 9]), None);
    }
}
