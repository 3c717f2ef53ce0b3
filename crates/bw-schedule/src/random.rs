//! Randomness that gives the same bits on every machine.
//!
//! Decision: one small generator (xoshiro256++, from `rand_xoshiro`) for each filament and purpose, so that
//! no draw depends on how filaments are spread over workers; and only + - * / sqrt and the pure-Rust
//! `libm`, so that a seed gives the same schedule everywhere. Rejected: `rand_distr` (its ziggurat
//! and gamma may change between versions, and its logarithm is the system's) and one
//! generator shared by all filaments (the schedule would depend on the order of wakes).
//! Not suitable for secrets.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};

/// A deterministic stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// Returns the stream of this seed and lane. Two words of the state come from the seed alone and two from
    /// the lane under that seed, both one to one: different pairs never share a state.
    #[must_use]
    pub fn new(seed: u64, lane: u64) -> Self {
        let mut of_seed = SplitMix64::seed_from_u64(seed);
        let (first, second) = (of_seed.next_u64(), of_seed.next_u64());
        let mut of_lane = SplitMix64::seed_from_u64(lane ^ second);
        let words = [first, second, of_lane.next_u64(), of_lane.next_u64()];
        let mut state = [0; 32];
        for (bytes, word) in state.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        Self(Xoshiro256PlusPlus::from_seed(state))
    }

    /// Returns 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number in (0, 1), neither end included: the midpoint of one of 2^52 equal cells.
    pub fn unit(&mut self) -> f64 {
        const CELL: f64 = 1.0 / (1_u64 << 52) as f64;
        ((self.next_u64() >> 12) as f64 + 0.5) * CELL
    }

    /// Returns a whole number in 0..`n`, each with exactly the same probability; 0 for `n` = 0.
    /// Source: D. Lemire, Fast random integer generation in an interval (2019).
    pub fn below(&mut self, n: u64) -> u64 {
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        if (product as u64) < n {
            let first_fair = n.wrapping_neg() % n;
            while (product as u64) < first_fair {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// Returns an exponential variate of mean 1.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(self.unit())
    }

    /// Returns a normal variate of mean 0 and standard deviation 1 (Marsaglia's polar method).
    pub fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square < 1.0 && square > 0.0 {
                return x * (-2.0 * libm::log(square) / square).sqrt();
            }
        }
    }

    /// Returns a gamma variate of this `shape` (> 0) and scale 1, so of mean `shape`.
    /// Source: Marsaglia and Tsang, A simple method for generating gamma variables (2000), with
    /// their device U^(1/shape) for shapes below 1.
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let boost = libm::pow(self.unit(), 1.0 / shape);
            return self.gamma(shape + 1.0) * boost;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let cube_root = 1.0 + c * x;
            if cube_root <= 0.0 {
                continue;
            }
            let v = cube_root * cube_root * cube_root;
            if libm::log(self.unit()) < 0.5 * x * x + d * (1.0 - v + libm::log(v)) {
                return d * v;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_covers_its_range_and_no_more() {
        let mut stream = Stream::new(1, 1);
        let mut seen = [0; 7];
        for _ in 0..7000 {
            seen[stream.below(7) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (850..1150).contains(&n)), "{seen:?}");
        assert_eq!(stream.below(0), 0);
        assert_eq!(stream.below(1), 0);
    }

    #[test]
    fn neighbouring_seeds_and_lanes_have_nothing_in_common() {
        let first = |seed, lane| Stream::new(seed, lane).next_u64();
        let mut firsts: Vec<u64> = (0..64)
            .flat_map(|seed| (0..64).map(move |lane| first(seed, lane)))
            .collect();
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts.len(), 64 * 64);
    }
}
