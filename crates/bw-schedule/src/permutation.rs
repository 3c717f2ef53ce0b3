//! A seeded permutation of 0..n without a table: popular objects are scattered over the space by it.
//!
//! Decision: a Feistel network of four rounds on the least even number of bits that holds n, walked until it lands inside
//! (Black and Rogaway, Ciphers with arbitrary finite domains, 2002: "cycle walking"; under four steps on average).
//! What lost: hashing the rank as YCSB does, which sends two ranks to one place and leaves others without any.
//! Not for secrets.

use crate::random::Stream;

const ROUNDS: usize = 4;

/// A bijection of 0..n onto itself.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    n: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// Returns the permutation of 0..`n` that this seed means; `n` is at most 2^62.
    pub(crate) fn new(n: u64, seed: u64) -> Self {
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        let mut stream = Stream::new(seed, 0);
        Self {
            n,
            half_bits: bits.div_ceil(2).max(1),
            keys: std::array::from_fn(|_| stream.next_u64()),
        }
    }

    /// Returns the place of `index`, which is below n.
    pub(crate) fn place(&self, index: u64) -> u64 {
        let mut place = self.mixed(index);
        while place >= self.n {
            place = self.mixed(place);
        }
        place
    }

    fn mixed(&self, index: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (index >> self.half_bits, index & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (scrambled(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

/// Returns 64 bits each of which depends on each bit of `x` (the finisher of SplitMix64, Steele et al. 2014).
fn scrambled(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_taken_once() {
        for n in [1, 2, 3, 5, 16, 17, 1000, 4097] {
            let permutation = Permutation::new(n, 7);
            let mut places: Vec<u64> = (0..n).map(|index| permutation.place(index)).collect();
            places.sort_unstable();
            assert_eq!(places, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn neighbours_do_not_stay_neighbours() {
        let permutation = Permutation::new(1_000_000_000_000, 7);
        let beside = |index| {
            permutation
                .place(index)
                .abs_diff(permutation.place(index + 1))
        };
        let mean = (0..1000).map(|index| beside(index) as f64).sum::<f64>() / 1000.0;
        // Two independent places are a third of the space apart; standard deviation of the mean 0.24 / sqrt(1000).
        assert!((mean / 1e12 - 1.0 / 3.0).abs() < 5.0 * 0.0075, "{mean}");
    }
}
