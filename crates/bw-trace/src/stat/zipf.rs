//! The Zipf law that fits counts of accesses best.
//!
//! Decision: maximum likelihood over the ranks that were counted at least eight times, given that an access goes to one
//! of them. A line through logarithms of all ranks lost: the long tail of blocks seen once or twice, whose
//! order is chance, decides its slope. Source: Clauset, Shalizi, Newman, Power-law distributions in empirical
//! data (SIAM Review 51, 2009).

use serde::Serialize;

/// Counts below this say little about a rank.
const LEAST_COUNT: u64 = 8;
/// Fewer ranks than this are not fitted.
const LEAST_RANKS: usize = 10;
/// Ranks that are summed one by one; those behind are in groups 1 % wide.
const SINGLE: usize = 1000;

/// A Zipf law: the n-th most popular block is accessed in proportion to n to the power of minus the exponent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ZipfFit {
    /// 0: all the same; from about 1 on: very skewed. At most 10.
    pub exponent: f64,
    /// How many of the most popular blocks it was fitted to.
    pub ranks: u64,
    /// The greatest difference between the fitted and the observed share of accesses up to a rank: above
    /// about 0.05 it is no Zipf law, whatever the exponent. Of a sample, which may lack the hottest, it says little.
    pub misfit: f64,
}

/// Ranks of about the same popularity.
struct Group {
    log_rank: f64,
    ranks: f64,
    accesses: f64,
}

/// Returns the law that fits `counts`, which are sorted from the greatest; None of too few.
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
fn groups(counts: &[u64]) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut start = 0;
    while start < counts.len() {
        let width = if start < SINGLE { 1 } else { start / 100 };
        let end = (start + width).min(counts.len());
        groups.push(Group {
            log_rank: ((start + 1 + end) as f64 / 2.0).ln(),
            ranks: (end - start) as f64,
            accesses: counts[start..end].iter().sum::<u64>() as f64,
        });
        start = end;
    }
    groups
}

/// Returns the exponent at which the expected logarithm of the rank is the observed one. It falls as the
/// exponent grows, so it is found by halving.
fn solve(groups: &[Group], observed: f64) -> f64 {
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

fn expected(groups: &[Group], exponent: f64) -> f64 {
    let (mut sum, mut weights) = (0.0, 0.0);
    for group in groups {
        let weight = group.ranks * (-exponent * group.log_rank).exp();
        sum += weight * group.log_rank;
        weights += weight;
    }
    sum / weights
}

fn misfit(groups: &[Group], exponent: f64) -> f64 {
    let weight = |group: &Group| group.ranks * (-exponent * group.log_rank).exp();
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

    /// Counts that follow the law exactly, but for rounding.
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
