//! Locations: which block of a region an operation goes to.
//!
//! Decision: a popular object of Zipf's law is a part of the region (`objects` equal parts; by default one block each),
//! and a fixed permutation says which part: filaments over one region agree on what is popular, as the readers and
//! writers of the same data do, unless `scatter_seed` differs. An operation that would reach beyond
//! the end of the region is moved back to end there.
//!
//! What follows from the description is shared (`Arc`) by all who use it, and each has a cursor of its own: a million
//! users of one location cost a million cursors.

use crate::distribution::Weights;
use crate::permutation::Permutation;
use crate::random::Stream;
use crate::zipf::Zipf;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A pattern of locations as the user describes it; millionths where a name ends in `_micro`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LocationSpec {
    /// Everywhere equally.
    Uniform {},
    /// The k-th most popular object with a probability proportional to k^-exponent.
    Zipf {
        /// The exponent, above 0; 1 is allowed.
        exponent_micro: u64,
        /// How many objects share the region; absent: as many as it has blocks.
        #[serde(default)]
        objects: Option<u64>,
        /// Whether popular objects are scattered; if not, the most popular come first.
        #[serde(default = "yes")]
        scattered: bool,
        /// Which permutation scatters them.
        #[serde(default)]
        scatter_seed: u64,
    },
    /// A hot part at the beginning of the region, and the cold rest.
    HotCold {
        /// The hot share of the space.
        hot_space_micro: u64,
        /// The share of the accesses that go there.
        hot_access_micro: u64,
    },
    /// One after the other, and from the beginning again after the end.
    Sequential {},
    /// Each so many bytes after the beginning of the one before; beyond the end: from there modulo the region.
    Strided {
        /// The distance [bytes], a multiple of the access's `align_bytes`; of a network target: in paths.
        stride_bytes: u64,
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

/// A pattern of locations that can be drawn from.
#[derive(Clone, Debug)]
pub struct Location {
    places: Arc<Places>,
    cursor: Cursor,
}

/// A pattern over its region: what does not change.
#[derive(Debug)]
struct Places {
    blocks: u64,
    pattern: Pattern,
}

/// How far a sequential or strided pattern has come; of a mixed one, each of its parts.
#[derive(Clone, Debug, Default)]
struct Cursor {
    next: u64,
    parts: Box<[Cursor]>,
}

#[derive(Debug)]
enum Pattern {
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
    /// Returns the pattern over a region of so many blocks of `block_bytes` each.
    ///
    /// # Errors
    /// What is wrong with the description, and what to do.
    pub fn new(spec: &LocationSpec, blocks: u64, block_bytes: u64) -> Result<Self, String> {
        let places = Arc::new(Places::new(spec, blocks, block_bytes)?);
        let cursor = places.beginning();
        Ok(Self { places, cursor })
    }

    /// Returns the same location for somebody else, who begins at the beginning.
    #[must_use]
    pub fn from_the_beginning(&self) -> Self {
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
}

impl Places {
    fn new(spec: &LocationSpec, blocks: u64, block_bytes: u64) -> Result<Self, String> {
        if blocks == 0 || blocks > 1 << 62 {
            return Err(format!(
                "location: a region of {blocks} blocks: it must have at least 1, at most 2^62"
            ));
        }
        let pattern = match spec {
            LocationSpec::Uniform {} => Pattern::Uniform,
            LocationSpec::Zipf { .. } => Pattern::Zipf(Objects::new(spec, blocks)?),
            LocationSpec::HotCold {
                hot_space_micro,
                hot_access_micro,
            } => hot_cold([*hot_space_micro, *hot_access_micro], blocks)?,
            LocationSpec::Sequential {} => Pattern::Sequential,
            LocationSpec::Strided { stride_bytes } => Pattern::Strided {
                stride: stride(*stride_bytes, block_bytes)?,
            },
            LocationSpec::Mixed { parts } => Pattern::Mixed {
                weights: Weights::new("mixed: parts", parts.iter().map(|&(_, weight)| weight))?,
                parts: (parts.iter())
                    .map(|(part, _)| Self::new(part, blocks, block_bytes))
                    .collect::<Result<_, _>>()?,
            },
        };
        Ok(Self { blocks, pattern })
    }

    /// Returns the cursor at the beginning.
    fn beginning(&self) -> Cursor {
        let parts: &[Self] = match &self.pattern {
            Pattern::Mixed { parts, .. } => parts,
            _ => &[],
        };
        Cursor {
            next: 0,
            parts: parts.iter().map(Self::beginning).collect(),
        }
    }

    fn draw(&self, cursor: &mut Cursor, stream: &mut Stream, blocks_wanted: u64) -> u64 {
        let last = self.blocks.saturating_sub(blocks_wanted);
        match &self.pattern {
            Pattern::Uniform => stream.below(last + 1),
            Pattern::Zipf(objects) => objects.draw(stream, self.blocks).min(last),
            Pattern::HotCold { hot, access_micro } => {
                let block = if stream.below(1_000_000) < *access_micro {
                    stream.below(hot.saturating_sub(blocks_wanted) + 1)
                } else {
                    *hot + stream.below((last + 1).saturating_sub(*hot).max(1))
                };
                block.min(last)
            }
            Pattern::Sequential => {
                let block = if cursor.next > last { 0 } else { cursor.next };
                cursor.next = block + blocks_wanted;
                block
            }
            Pattern::Strided { stride } => {
                let block = cursor.next;
                cursor.next = (block + *stride % self.blocks) % self.blocks;
                block.min(last)
            }
            Pattern::Mixed { parts, weights } => {
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

    /// Returns the first block of an object: the objects are as equal as whole blocks allow.
    fn begin(&self, object: u64, blocks: u64) -> u64 {
        if self.number == blocks {
            return object;
        }
        (u128::from(object) * u128::from(blocks) / u128::from(self.number)) as u64
    }
}

fn hot_cold([space, access]: [u64; 2], blocks: u64) -> Result<Pattern, String> {
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
    Ok(Pattern::HotCold {
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
