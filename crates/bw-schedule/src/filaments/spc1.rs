//! An SPC-1-like load: business scaling units (BSUs) of eight streams, 50 operations per second each.
//!
//! The target is cut into three application storage units (ASUs): 45 % data store, 45 % user store, 10 %
//! log. Each stream has Poisson arrivals of 50 times its intensity per second:
//!
//! | stream | intensity | reads | size | where |
//! |---|---|---|---|---|
//! | ASU1-1 | 0.035 | 50 % | 4 KiB | uniform |
//! | ASU1-2 | 0.281 | 50 % | 4 KiB | hot spot from 15 %, 5 % long |
//! | ASU1-3 | 0.070 | 100 % | SMIX | runs of 10 % from 20 % to 60 % |
//! | ASU1-4 | 0.210 | 50 % | 4 KiB | hot spot from 70 %, 5 % long |
//! | ASU2-1 | 0.018 | 30 % | 4 KiB | uniform |
//! | ASU2-2 | 0.070 | 30 % | 4 KiB | hot spot from 47 %, 5 % long |
//! | ASU2-3 | 0.035 | 100 % | SMIX | runs of 10 % from 20 % to 60 % |
//! | ASU3-1 | 0.281 | 0 % | SMIX | runs of 30 % from 0 % to 70 % |
//!
//! SMIX: 4, 8, 16, 32, 64 KiB with weights 10, 6, 5, 2, 2. Hot spots are random walks (see below). An ASU below
//! 80 MiB uses the hot spots of an ASU of 80 MiB, scaled down.
//!
//! It is *like* SPC-1: no result of it is an SPC-1 result. Decision: a filament is a BSU with its eight
//! streams merged, because the streams are so unequal (0.018 to 0.281) that spreading them over workers
//! would load the workers unequally. The mark (`tag`) of an operation is its stream, 0 to 7.
//! Source: S. Daniel, an abstract of the SPC-1 I/O profile (NetApp, 2005-2009).
//!
//! The hierarchical reuse random walk: the next location in a hot spot.
//!
//! A region is divided into leaves of 8 blocks. From the current leaf the walk goes up six levels, and each
//! further one with probability 0.44; the next leaf is uniform in the subtree reached. So the walk mostly
//! stays near its previous location, at every scale. A read takes the next of its leaf's 8 blocks in turn. A write
//! rounds its leaf down to a multiple of 8 and takes with equal probability a random block or the one that was
//! last read there; with probability 0.15 the next write goes to the same block again.
//!
//! Choices where the source is open: the walk continues from the leaf it reached (rounded, for a write); a location
//! beyond the region is drawn again, up to a hundred times (the source's second version), and then wrapped.
//! Source: S. Daniel, an abstract of the SPC-1 I/O profile (NetApp, 2005-2009);
//! named by McNutt, The fractal structure of data reference (2000).

use crate::access::RegionSpec;
use crate::arrival::{ArrivalSpec, Arrivals};
use crate::filaments::open::{OperationSource, SourceState, fill};
use crate::random::Stream;
use crate::rate::RateSpec;
use bw_model::{Kind, Nanos, Operation};
use std::collections::HashMap;

const BLOCK_BYTES: u64 = 4096;
/// The capacity whose smallest run (30 % of the log's 10 %) holds the largest operation, with a margin [blocks].
const LEAST_BLOCKS: u64 = 1024;
/// An ASU below this size is scaled [blocks]: 128 leaves of 8 blocks in a hot spot of a twentieth.
const LEAST_WALKED_BLOCKS: u64 = 128 * 8 * 20;
/// SMIX: number of blocks, and weight.
const SMIX: [(u64, u64); 5] = [(1, 10), (2, 6), (4, 5), (8, 2), (16, 2)];
const SMIX_WEIGHT: u64 = 25;

/// The location of a stream's operations; shares of its ASU in hundredths.
#[derive(Clone, Copy, Debug)]
enum AccessPattern {
    Uniform,
    HotSpot { from: u64 },
    Runs { from: u64, to: u64, length: u64 },
}

/// The properties of a stream.
#[derive(Clone, Copy, Debug)]
struct StreamProfile {
    asu: usize,
    /// Operations per BSU-second, in thousandths of 50.
    intensity_milli: u64,
    read_percent: u64,
    place: AccessPattern,
}

const fn profile(
    asu: usize,
    intensity_milli: u64,
    read_percent: u64,
    place: AccessPattern,
) -> StreamProfile {
    StreamProfile {
        asu,
        intensity_milli,
        read_percent,
        place,
    }
}

const SCANS: AccessPattern = AccessPattern::Runs {
    from: 20,
    to: 60,
    length: 10,
};
const LOG: AccessPattern = AccessPattern::Runs {
    from: 0,
    to: 70,
    length: 30,
};

/// The eight streams.
const PROFILES: [StreamProfile; 8] = [
    profile(0, 35, 50, AccessPattern::Uniform),
    profile(0, 281, 50, AccessPattern::HotSpot { from: 15 }),
    profile(0, 70, 100, SCANS),
    profile(0, 210, 50, AccessPattern::HotSpot { from: 70 }),
    profile(1, 18, 30, AccessPattern::Uniform),
    profile(1, 70, 30, AccessPattern::HotSpot { from: 47 }),
    profile(1, 35, 100, SCANS),
    profile(2, 281, 0, LOG),
];

/// The ASUs' shares of the capacity, in hundredths.
const ASU_PERCENT: [u64; 3] = [45, 45, 10];
/// Length of a hot spot, in hundredths of its ASU.
const HOT_SPOT_PERCENT: u64 = 5;

/// A part of the region [blocks from its start].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First block.
    pub first: u64,
    /// Number of blocks.
    pub blocks: u64,
}

/// The locations of the ASUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spc1Layout {
    /// Start of the region on the target [bytes].
    pub offset_bytes: u64,
    /// Data store, user store, log.
    pub asus: [Extent; 3],
}

impl Spc1Layout {
    /// Returns the layout in a region of a target.
    ///
    /// # Errors
    /// The region is too small, with the size it must have.
    pub fn new(region: RegionSpec, target_bytes: u64) -> Result<Self, String> {
        let (offset_bytes, bytes) = region.extent(target_bytes, BLOCK_BYTES)?;
        let blocks = bytes / BLOCK_BYTES;
        if blocks < LEAST_BLOCKS {
            return Err(format!(
                "spc1: the region has {bytes} bytes: make it at least {}",
                LEAST_BLOCKS * BLOCK_BYTES
            ));
        }
        let mut first = 0;
        let asus = ASU_PERCENT.map(|percent| {
            let extent = Extent {
                first,
                blocks: share(blocks, percent),
            };
            first += extent.blocks;
            extent
        });
        Ok(Self { offset_bytes, asus })
    }
}

/// Returns `percent` hundredths of `blocks`, rounded down.
fn share(blocks: u64, percent: u64) -> u64 {
    (u128::from(blocks) * u128::from(percent) / 100) as u64
}

/// One of the eight streams of a BSU.
#[derive(Debug)]
struct BsuStream {
    profile: StreamProfile,
    arrivals: Arrivals,
    next: Option<Nanos>,
    stream: Stream,
    extent: Extent,
    walk: HotSpot,
    /// The rest of the current run [blocks of the ASU].
    run: Extent,
}

impl BsuStream {
    fn new(
        profile: StreamProfile,
        layout: &Spc1Layout,
        mut streams: [Stream; 2],
    ) -> Result<Self, String> {
        let extent = layout.asus[profile.asu];
        let micro_per_s = profile.intensity_milli * 50_000;
        let rate = RateSpec::Constant { micro_per_s };
        let [arriving, placing] = &mut streams;
        let mut arrivals = Arrivals::new(&ArrivalSpec::Poisson {}, &rate, arriving.clone())?;
        let walked = share(extent.blocks.max(LEAST_WALKED_BLOCKS), HOT_SPOT_PERCENT);
        Ok(Self {
            profile,
            next: arrivals.next(),
            arrivals,
            walk: HotSpot::new(walked, placing),
            stream: placing.clone(),
            extent,
            run: Extent {
                first: 0,
                blocks: 0,
            },
        })
    }

    /// Returns kind, first block of the ASU and number of blocks of the next operation.
    fn access(&mut self) -> (Kind, u64, u64) {
        let read = self.stream.below(100) < self.profile.read_percent;
        let kind = if read { Kind::Read } else { Kind::Write };
        match self.profile.place {
            AccessPattern::Uniform => (kind, self.stream.below(self.extent.blocks), 1),
            AccessPattern::HotSpot { from } => (kind, self.hot_block(from, read), 1),
            AccessPattern::Runs { from, to, length } => {
                let blocks = smix(&mut self.stream);
                (kind, self.run_block([from, to, length], blocks), blocks)
            }
        }
    }

    fn hot_block(&mut self, from: u64, read: bool) -> u64 {
        let step = if read {
            self.walk.read(&mut self.stream)
        } else {
            self.walk.write(&mut self.stream)
        };
        let walked = self.extent.blocks.max(LEAST_WALKED_BLOCKS);
        let block = u128::from(share(walked, from) + step);
        (block * u128::from(self.extent.blocks) / u128::from(walked)) as u64
    }

    /// Returns the first of `blocks` blocks of the current run, or of a new run if they do not fit.
    fn run_block(&mut self, [from, to, length]: [u64; 3], blocks: u64) -> u64 {
        if self.run.blocks < blocks {
            let first = share(self.extent.blocks, from);
            let starts = share(self.extent.blocks, to) - first + 1;
            self.run = Extent {
                first: first + self.stream.below(starts),
                blocks: share(self.extent.blocks, length),
            };
        }
        let block = self.run.first;
        self.run.first += blocks;
        self.run.blocks -= blocks;
        block
    }
}

fn smix(stream: &mut Stream) -> u64 {
    let mut left = stream.below(SMIX_WEIGHT);
    for (blocks, weight) in SMIX {
        if left < weight {
            return blocks;
        }
        left -= weight;
    }
    SMIX[0].0
}

/// A business scaling unit: its eight streams, merged by time.
#[derive(Debug)]
pub(crate) struct Bsu {
    offset_bytes: u64,
    streams: Vec<BsuStream>,
}

impl Bsu {
    /// Returns a BSU over `layout`; each `seed` gives a different one.
    ///
    /// # Errors
    /// None that a caller can cause: errors of the arrivals' own checks are returned.
    pub(crate) fn new(layout: &Spc1Layout, seed: u64) -> Result<Self, String> {
        let streams = PROFILES.iter().zip(0..).map(|(profile, number)| {
            let streams = [0, 1].map(|purpose| Stream::new(seed, 2 * number + purpose));
            BsuStream::new(*profile, layout, streams)
        });
        Ok(Self {
            offset_bytes: layout.offset_bytes,
            streams: streams.collect::<Result<_, _>>()?,
        })
    }
}

impl Iterator for Bsu {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        let due = self.streams.iter_mut().enumerate();
        let (at, number, stream) = due
            .filter_map(|(number, stream)| Some((stream.next?, number, stream)))
            .min_by_key(|&(at, number, _)| (at, number))?;
        stream.next = stream.arrivals.next();
        let (kind, block, blocks) = stream.access();
        Some(Operation {
            at,
            tag: number as u32,
            ..Operation::new(
                kind,
                self.offset_bytes + (stream.extent.first + block) * BLOCK_BYTES,
                (blocks * BLOCK_BYTES) as u32,
            )
        })
    }
}

impl OperationSource for Bsu {
    fn next_block(&mut self, block: &mut Vec<Operation>) -> SourceState {
        fill(block, self)
    }
}

const LEAF_BLOCKS: u64 = 8;
const LEAST_LEVELS: u32 = 6;
const FURTHER_UP: f64 = 0.44;
const TRIES: u32 = 100;
const RANDOM_BLOCK: f64 = 0.5;
const WRITE_AGAIN: f64 = 0.15;

/// A walk through a region.
#[derive(Debug)]
pub(crate) struct HotSpot {
    leaves: u64,
    levels: u32,
    leaf: u64,
    /// The block last read in a leaf, for leaves that were read.
    last_read: HashMap<u64, u8>,
    /// Where the next write goes if it goes to the same block again.
    again: Option<u64>,
}

impl HotSpot {
    /// Returns a walk through a region of `blocks` blocks (at least 8), from a leaf that `stream` chooses.
    #[must_use]
    pub(crate) fn new(blocks: u64, stream: &mut Stream) -> Self {
        let leaves = (blocks / LEAF_BLOCKS).max(1);
        Self {
            leaves,
            levels: u64::BITS - (leaves - 1).leading_zeros(),
            leaf: stream.below(leaves),
            last_read: HashMap::new(),
            again: None,
        }
    }

    /// Returns the next block to read.
    pub(crate) fn read(&mut self, stream: &mut Stream) -> u64 {
        self.leaf = self.walk(stream);
        let last = self.last_read.entry(self.leaf).or_insert(7);
        *last = (*last + 1) % LEAF_BLOCKS as u8;
        self.leaf * LEAF_BLOCKS + u64::from(*last)
    }

    /// Returns the next block to write.
    pub(crate) fn write(&mut self, stream: &mut Stream) -> u64 {
        let block = match self.again.take() {
            Some(block) => block,
            None => self.write_elsewhere(stream),
        };
        self.again = (stream.unit() < WRITE_AGAIN).then_some(block);
        block
    }

    fn write_elsewhere(&mut self, stream: &mut Stream) -> u64 {
        let leaf = self.walk(stream);
        self.leaf = leaf - leaf % LEAF_BLOCKS;
        let block = if stream.unit() < RANDOM_BLOCK {
            stream.below(LEAF_BLOCKS)
        } else {
            u64::from(self.last_read.get(&self.leaf).copied().unwrap_or(0))
        };
        self.leaf * LEAF_BLOCKS + block
    }

    /// Returns the next leaf.
    fn walk(&self, stream: &mut Stream) -> u64 {
        let mut leaf = self.leaf;
        for _ in 0..TRIES {
            leaf = self.walk_once(stream);
            if leaf < self.leaves {
                return leaf;
            }
        }
        leaf % self.leaves
    }

    fn walk_once(&self, stream: &mut Stream) -> u64 {
        let mut up = LEAST_LEVELS.min(self.levels);
        while up < self.levels && stream.unit() < FURTHER_UP {
            up += 1;
        }
        let subtree = self.leaf >> up << up;
        subtree + stream.below(1 << up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_take_the_blocks_of_a_leaf_in_turn() {
        let mut stream = Stream::new(1, 0);
        let mut walk = HotSpot::new(8, &mut stream);
        let read: Vec<u64> = (0..10).map(|_| walk.read(&mut stream)).collect();
        assert_eq!(read, [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]);
    }

    #[test]
    fn a_block_is_written_again_as_often_as_said() {
        let mut stream = Stream::new(2, 0);
        let mut walk = HotSpot::new(8 * 100_003, &mut stream);
        let written: Vec<u64> = (0..20_000).map(|_| walk.write(&mut stream)).collect();
        assert!(written.iter().all(|&block| block < 8 * 100_003));
        assert!(written.iter().all(|block| block / 8 % 8 == 0));
        let again = written.windows(2).filter(|w| w[0] == w[1]).count();
        // 0.15 and, where the walk comes back to the same of 8 leaves in 64 by itself, a little more:
        // a binomial of 20,000 has a standard deviation of 50.
        assert!((2850..4000).contains(&again), "{again}");
    }

    #[test]
    fn a_step_stays_in_the_subtree_of_64_leaves_with_probability_0_56() {
        let mut stream = Stream::new(3, 0);
        let mut walk = HotSpot::new(8 << 20, &mut stream);
        let mut near = 0;
        for _ in 0..20_000 {
            let before = walk.leaf >> 6;
            walk.read(&mut stream);
            near += u64::from(walk.leaf >> 6 == before);
        }
        // 0.56 stop at six levels; of those that go up, 1/2, 1/4, ... come back to the same 64:
        // 0.56 (1 + 0.22 + 0.22^2 + ...) = 0.718. The standard deviation of 20,000 is 64.
        assert!((14_040..14_680).contains(&near), "{near}");
    }
}
