//! How large operations are.

use bw_model::Row;
use serde::Serialize;
use std::collections::HashMap;

/// How many different sizes are counted exactly.
const EXACT: usize = 4096;
/// How many of the commonest are told.
const TOLD: usize = 16;

/// The sizes of operations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeResult {
    /// Null of nothing [bytes].
    pub mean_bytes: Option<f64>,
    /// How many different sizes; null if more than are counted exactly (4,096).
    pub different: Option<u64>,
    /// The commonest, exactly, at most 16.
    pub commonest: Vec<SizeCount>,
    /// All, in buckets that double: size 0 alone, then up to 1, 2, 4 ... bytes.
    pub buckets: Vec<SizeBucket>,
}

/// One size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SizeCount {
    /// The size.
    pub bytes: u32,
    /// How many operations have it.
    pub operations: u64,
    /// Of all.
    pub share: f64,
}

/// A range of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeBucket {
    /// The largest size in it.
    pub up_to_bytes: u64,
    /// How many operations are in it.
    pub operations: u64,
}

/// Counts sizes.
#[derive(Debug)]
pub struct Sizes {
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
    pub fn add(&mut self, row: &Row) {
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
    pub fn result(&self) -> SizeResult {
        let mut commonest: Vec<_> = self.exact.iter().collect();
        commonest.sort_unstable_by_key(|(bytes, count)| (std::cmp::Reverse(**count), **bytes));
        let all = self.operations as f64;
        let told = commonest
            .into_iter()
            .take(TOLD)
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
            commonest: told.collect(),
            buckets: buckets.filter(|bucket| bucket.operations > 0).collect(),
        }
    }
}

/// Returns 0 for 0, else n + 1 where 2^n is the least power of two that is not below `bytes`.
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
