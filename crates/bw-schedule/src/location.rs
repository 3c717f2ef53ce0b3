//! Locations: which block of a region an operation accesses; with a seeded permutation and Zipf's law.
//!
//! Decision: a popular object of Zipf's law is a part of the region (`objects` equal parts; by default one block
//! each), and a fixed permutation determines which part. Filaments over one region therefore agree on what is popular,
//! as the readers and writers of the same data do, unless `scatter_seed` differs. An operation that would reach beyond
//! the end of the region is moved back to end there. The data computed from the description are shared (`Arc`) by all
//! users of a location, and each has its own cursor: a million users cost a million cursors.
//!
//! The permutation needs no table: a Feistel network of four rounds on the smallest even number of bits that holds n,
//! applied until the result is below n (Black and Rogaway, Ciphers with arbitrary finite domains, 2002: "cycle
//! walking"; under four steps on average). Rejected: hashing the rank as YCSB does, which maps some ranks to the same
//! place and leaves other places unused. It is not suitable for secrets.
//!
//! Zipf's law is exact for any number of objects, in constant time and without tables. Source: W. Hörmann and
//! G. Derflinger, Rejection-inversion to generate variates from monotone discrete distributions, ACM TOMACS 6 (1996).
//! Rejected: the approximation of Gray et al. (1994) that YCSB and others use (it needs a sum over all objects, and
//! exponents below 1), and a cumulative table (8 bytes per object).

use crate::distribution::Weights;
use crate::random::Stream;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A pattern of locations as the user describes it; millionths where a name ends in `_micro`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LocationSpec {
    /// Uniform over the region.
    Uniform {},
    /// The k-th most popular object with a probability proportional to k^-exponent.
    Zipf {
        /// The exponent, above 0; 1 is allowed.
        exponent_micro: u64,
        /// Number of objects in the region; absent: as many as it has blocks.
        #[serde(default)]
        objects: Option<u64>,
        /// Whether popular objects are scattered; otherwise the most popular come first.
        #[serde(default = "yes")]
        scattered: bool,
        /// The seed of the permutation that scatters them.
        #[serde(default)]
        scatter_seed: u64,
    },
    /// A hot part at the start of the region, and the cold rest.
    HotCold {
        /// The hot share of the space.
        hot_space_micro: u64,
        /// The share of the accesses that go to the hot part.
        hot_access_micro: u64,
    },
    /// One after the other, and again from the start after the end.
    Sequential {},
    /// Each `stride_bytes` after the start of the previous one, modulo the region.
    Strided {
        /// The distance [bytes], a multiple of the access's `align_bytes`; for a network target in paths.
        stride_bytes: u64,
    },
    /// Each block with its weight: for the requests of a server.
    Weighted {
        /// As many as the region has blocks.
        weights: Vec<u64>,
    },
    /// Several patterns, by weight.
    Mixed {
        /// Pattern and weight.
        parts: Vec<(LocationSpec, u64)>,
    },
}

fn yes() -> bool {
    true
}

/// A pattern of locations to draw from.
#[derive(Clone, Debug)]
pub struct Location {
    places: Arc<Places>,
    cursor: Cursor,
}

/// The constant part of a pattern over its region.
#[derive(Debug)]
struct Places {
    blocks: u64,
    pattern: LocationPattern,
}

/// The position of a sequential or strided pattern; for a mixed one, the position of each part.
#[derive(Clone, Debug, Default)]
struct Cursor {
    next: u64,
    parts: Box<[Cursor]>,
}

#[derive(Debug)]
enum LocationPattern {
    Uniform,
    Zipf(Objects),
    HotCold {
        hot: u64,
        access_micro: u64,
    },
    Sequential,
    Strided {
        stride: u64,
    },
    Weighted(Weights),
    Mixed {
        parts: Vec<Places>,
        weights: Weights,
    },
}

#[derive(Clone, Debug)]
struct Objects {
    number: u64,
    popularity: Zipf,
    places: Option<Permutation>,
}

impl Location {
    /// Returns the pattern over a region of `blocks` blocks of `block_bytes` each.
    ///
    /// # Errors
    /// What is wrong with the description, and what to do.
    pub fn new(spec: &LocationSpec, blocks: u64, block_bytes: u64) -> Result<Self, String> {
        let places = Arc::new(Places::new(spec, blocks, block_bytes)?);
        let cursor = places.beginning();
        Ok(Self { places, cursor })
    }

    /// Returns the same location for another filament, which starts at the beginning.
    #[must_use]
    pub(crate) fn restarted(&self) -> Self {
        Self {
            places: Arc::clone(&self.places),
            cursor: self.places.beginning(),
        }
    }

    /// Returns the first block of the next operation, which takes `blocks_wanted`: at least 1, at most
    /// as many as the region has. All of them lie in the region.
    pub fn draw(&mut self, stream: &mut Stream, blocks_wanted: u64) -> u64 {
        self.places.draw(&mut self.cursor, stream, blocks_wanted)
    }

    /// Returns the block that is number `number` of this pattern, from 0, whatever was drawn before: a sequential or
    /// strided pattern has advanced by so many blocks, any other draws from `stream`.
    pub fn at(&self, number: u64, stream: &mut Stream) -> u64 {
        self.places.at(number, stream)
    }
}

impl Places {
    fn new(spec: &LocationSpec, blocks: u64, block_bytes: u64) -> Result<Self, String> {
        if blocks == 0 || blocks > 1 << 62 {
            return Err(format!(
                "location: a region of {blocks} blocks: it must have at least 1, at most 2^62"
            ));
        }
        let pattern = match spec {
            LocationSpec::Uniform {} => LocationPattern::Uniform,
            LocationSpec::Zipf { .. } => LocationPattern::Zipf(Objects::new(spec, blocks)?),
            LocationSpec::HotCold {
                hot_space_micro,
                hot_access_micro,
            } => hot_cold([*hot_space_micro, *hot_access_micro], blocks)?,
            LocationSpec::Sequential {} => LocationPattern::Sequential,
            LocationSpec::Strided { stride_bytes } => LocationPattern::Strided {
                stride: stride(*stride_bytes, block_bytes)?,
            },
            LocationSpec::Weighted { weights } => {
                if weights.len() as u64 != blocks {
                    return Err(format!(
                        "weighted: {} weights for {blocks} requests: give one for each",
                        weights.len()
                    ));
                }
                LocationPattern::Weighted(Weights::new(
                    "weighted: weights",
                    weights.iter().copied(),
                )?)
            }
            LocationSpec::Mixed { parts } => LocationPattern::Mixed {
                weights: Weights::new("mixed: parts", parts.iter().map(|&(_, weight)| weight))?,
                parts: (parts.iter())
                    .map(|(part, _)| Self::new(part, blocks, block_bytes))
                    .collect::<Result<_, _>>()?,
            },
        };
        Ok(Self { blocks, pattern })
    }

    /// Returns a cursor at the start.
    fn beginning(&self) -> Cursor {
        let parts: &[Self] = match &self.pattern {
            LocationPattern::Mixed { parts, .. } => parts,
            _ => &[],
        };
        Cursor {
            next: 0,
            parts: parts.iter().map(Self::beginning).collect(),
        }
    }

    fn at(&self, number: u64, stream: &mut Stream) -> u64 {
        match &self.pattern {
            LocationPattern::Sequential => number % self.blocks,
            LocationPattern::Strided { stride } => {
                let place = u128::from(number) * u128::from(*stride) % u128::from(self.blocks);
                place as u64
            }
            LocationPattern::Mixed { parts, weights } => {
                parts[weights.draw(stream)].at(number, stream)
            }
            // They have no position. An empty cursor needs no memory.
            _ => self.draw(&mut Cursor::default(), stream, 1),
        }
    }

    fn draw(&self, cursor: &mut Cursor, stream: &mut Stream, blocks_wanted: u64) -> u64 {
        let last = self.blocks.saturating_sub(blocks_wanted);
        match &self.pattern {
            LocationPattern::Uniform => stream.below(last + 1),
            LocationPattern::Zipf(objects) => objects.draw(stream, self.blocks).min(last),
            LocationPattern::HotCold { hot, access_micro } => {
                let block = if stream.below(1_000_000) < *access_micro {
                    stream.below(hot.saturating_sub(blocks_wanted) + 1)
                } else {
                    *hot + stream.below((last + 1).saturating_sub(*hot).max(1))
                };
                block.min(last)
            }
            LocationPattern::Sequential => {
                let block = if cursor.next > last { 0 } else { cursor.next };
                cursor.next = block + blocks_wanted;
                block
            }
            LocationPattern::Strided { stride } => {
                let block = cursor.next;
                cursor.next = (block + *stride % self.blocks) % self.blocks;
                block.min(last)
            }
            LocationPattern::Weighted(weights) => (weights.draw(stream) as u64).min(last),
            LocationPattern::Mixed { parts, weights } => {
                let part = weights.draw(stream);
                parts[part].draw(&mut cursor.parts[part], stream, blocks_wanted)
            }
        }
    }
}

impl Objects {
    fn new(spec: &LocationSpec, blocks: u64) -> Result<Self, String> {
        let LocationSpec::Zipf {
            exponent_micro,
            objects,
            scattered,
            scatter_seed,
        } = *spec
        else {
            return Err("location: not zipf".into());
        };
        let number = objects.unwrap_or(blocks);
        if number == 0 || number > blocks {
            return Err(format!(
                "zipf: {number} objects in a region of {blocks} blocks: give 1 to {blocks}"
            ));
        }
        if !(1..=100_000_000).contains(&exponent_micro) {
            return Err(format!(
                "zipf: exponent_micro is {exponent_micro}: give 1 to 100000000 (above 0, at most 100), \
                 or a uniform location"
            ));
        }
        Ok(Self {
            number,
            popularity: Zipf::new(number, exponent_micro as f64 / 1e6),
            places: scattered.then(|| Permutation::new(number, scatter_seed)),
        })
    }

    /// Returns a block of the object drawn, each of its blocks equally likely.
    fn draw(&self, stream: &mut Stream, blocks: u64) -> u64 {
        let rank = self.popularity.draw(stream) - 1;
        let object = match &self.places {
            Some(permutation) => permutation.place(rank),
            None => rank,
        };
        let begin = self.begin(object, blocks);
        match self.begin(object + 1, blocks) - begin {
            1 => begin,
            length => begin + stream.below(length),
        }
    }

    /// Returns the first block of an object: the objects are as equal as whole blocks permit.
    fn begin(&self, object: u64, blocks: u64) -> u64 {
        if self.number == blocks {
            return object;
        }
        (u128::from(object) * u128::from(blocks) / u128::from(self.number)) as u64
    }
}

fn hot_cold([space, access]: [u64; 2], blocks: u64) -> Result<LocationPattern, String> {
    if !(1..1_000_000).contains(&space) || access > 1_000_000 {
        return Err(format!(
            "hot-cold: hot_space_micro {space}, hot_access_micro {access}: give a share of the space above 0 \
             and below 1000000, and a share of the accesses of at most 1000000"
        ));
    }
    let hot = (u128::from(blocks) * u128::from(space)).div_ceil(1_000_000) as u64;
    if hot >= blocks {
        return Err(format!(
            "hot-cold: {space} millionths of {blocks} blocks leave no cold block: make the region larger"
        ));
    }
    Ok(LocationPattern::HotCold {
        hot,
        access_micro: access,
    })
}

fn stride(stride_bytes: u64, block_bytes: u64) -> Result<u64, String> {
    if stride_bytes == 0 || !stride_bytes.is_multiple_of(block_bytes) {
        return Err(format!(
            "strided: stride_bytes is {stride_bytes}: give a multiple of align_bytes ({block_bytes}), not 0"
        ));
    }
    Ok(stride_bytes / block_bytes)
}

const ROUNDS: usize = 4;

/// A bijection of 0..n onto itself.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    n: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// Returns the permutation of 0..`n` for this seed; `n` is at most 2^62.
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

/// Returns 64 bits, each of which depends on every bit of `x` (the finalizer of SplitMix64, Steele et al. 2014).
fn scrambled(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Ranks 1..=n with probabilities proportional to rank^-exponent.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    objects: u64,
    exponent: f64,
    /// The integral of the hat function at both ends of the inverted range.
    low: f64,
    high: f64,
    /// A point closer than this below its rank needs no test.
    squeeze: f64,
}

impl Zipf {
    /// Returns Zipf's law over `objects` (at least 1) with this exponent (greater than 0).
    pub(crate) fn new(objects: u64, exponent: f64) -> Self {
        let mut zipf = Self {
            objects,
            exponent,
            low: 0.0,
            high: 0.0,
            squeeze: 0.0,
        };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(objects as f64 + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// Returns the next rank, from 1.
    pub(crate) fn draw(&self, stream: &mut Stream) -> u64 {
        loop {
            let area = self.high + stream.unit() * (self.low - self.high);
            let point = self.inverse(area);
            let rank = ((point + 0.5) as u64).clamp(1, self.objects);
            let nearest = rank as f64;
            if nearest - point <= self.squeeze
                || area >= self.integral(nearest + 0.5) - self.density(nearest)
            {
                return rank;
            }
        }
    }

    /// Returns x^-exponent.
    fn density(&self, x: f64) -> f64 {
        libm::exp(-self.exponent * libm::log(x))
    }

    /// Returns the integral of the density from 1 to `x`: (x^(1-q) - 1) / (1-q), or log x at q = 1.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        log * relative_expm1((1.0 - self.exponent) * log)
    }

    /// Returns the x of an integral: the inverse of `integral`.
    fn inverse(&self, area: f64) -> f64 {
        // Below -1 there is no x; only rounding leads there.
        let scaled = ((1.0 - self.exponent) * area).max(-1.0);
        libm::exp(area * relative_log1p(scaled))
    }
}

/// Returns (e^x - 1) / x, also at and around 0.
fn relative_expm1(x: f64) -> f64 {
    if x.abs() < 1e-8 {
        return 1.0 + x / 2.0;
    }
    libm::expm1(x) / x
}

/// Returns log(1 + x) / x, also at and around 0.
fn relative_log1p(x: f64) -> f64 {
    if x.abs() < 1e-8 {
        return 1.0 - x / 2.0;
    }
    libm::log1p(x) / x
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
