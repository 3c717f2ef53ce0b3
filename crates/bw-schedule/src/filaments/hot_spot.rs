//! The hierarchical reuse random walk: where a hot spot of the SPC-1-like load is touched next.
//!
//! A region is cut into leaves of 8 blocks. From the present leaf the walk goes up six levels, and each
//! further one with probability 0.44; the next leaf is uniform in the subtree it has come to. So it mostly
//! stays near where it was, at every scale. A read takes the next of its leaf's 8 blocks in turn. A write
//! rounds its leaf down to a multiple of 8 and takes with equal probability a random block or the one that was
//! read last there; with probability 0.15 the next write goes to the same block again.
//!
//! Chosen where the source leaves it open: the walk goes on from the leaf it came to (rounded, for a write); what
//! lies beyond the region is drawn again, a hundred times (the source's second version), and then wrapped.
//! Source: S. Daniel, an abstract of the SPC-1 I/O profile (NetApp, 2005-2009);
//! named by McNutt, The fractal structure of data reference (2000).

use crate::random::Stream;
use std::collections::HashMap;

const LEAF_BLOCKS: u64 = 8;
const LEAST_LEVELS: u32 = 6;
const FURTHER_UP: f64 = 0.44;
const TRIES: u32 = 100;
const RANDOM_BLOCK: f64 = 0.5;
const WRITE_AGAIN: f64 = 0.15;

/// A walk through a region.
#[derive(Debug)]
pub struct HotSpot {
    leaves: u64,
    levels: u32,
    leaf: u64,
    /// The block last read in a leaf, for leaves that were read.
    last_read: HashMap<u64, u8>,
    /// Where the next write goes if it goes to the same block again.
    again: Option<u64>,
}

impl HotSpot {
    /// Returns a walk through a region of so many blocks (at least 8), from a leaf that `stream` chooses.
    #[must_use]
    pub fn new(blocks: u64, stream: &mut Stream) -> Self {
        let leaves = (blocks / LEAF_BLOCKS).max(1);
        Self {
            leaves,
            levels: u64::BITS - (leaves - 1).leading_zeros(),
            leaf: stream.below(leaves),
            last_read: HashMap::new(),
            again: None,
        }
    }

    /// Returns the block to be read next.
    pub fn read(&mut self, stream: &mut Stream) -> u64 {
        self.leaf = self.walk(stream);
        let last = self.last_read.entry(self.leaf).or_insert(7);
        *last = (*last + 1) % LEAF_BLOCKS as u8;
        self.leaf * LEAF_BLOCKS + u64::from(*last)
    }

    /// Returns the block to be written next.
    pub fn write(&mut self, stream: &mut Stream) -> u64 {
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
