//! Marks that make each written block the only one of its content.
//!
//! Decision: 16 bytes at the start of each 512, a number of the writer and one of the write, in data that are pseudo-random
//! already: 8 stores for 4 KiB, which no target that deduplicates blocks of 512 bytes or more can store once. Rejected: new
//! pseudo-random data for each write, which cost the issuing thread about 0.5 us per 4 KiB. fio calls it `scramble_buffers`.

use bw_sys::clock::realtime_ns;
use rand_core::Rng;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;
use std::sync::atomic::{AtomicU64, Ordering};

/// Each piece of this length has a mark [bytes]: the smallest block of a disk.
const SECTOR: usize = 512;

/// The marks of one writer.
#[derive(Debug)]
pub(crate) struct Stamp {
    writer: u64,
    writes: u64,
}

impl Stamp {
    /// Returns the marks of another writer than all before, of this run and of others.
    pub(crate) fn new() -> Self {
        static WRITERS: AtomicU64 = AtomicU64::new(0);
        let number = WRITERS.fetch_add(1, Ordering::Relaxed).rotate_right(8);
        let writer = SplitMix64::seed_from_u64(realtime_ns() ^ number).next_u64();
        Self { writer, writes: 0 }
    }

    /// Marks the data of the next write. A last piece shorter than a mark has none.
    pub(crate) fn mark(&mut self, data: &mut [u8]) {
        let numbers = [self.writer, self.writes].map(u64::to_ne_bytes);
        self.writes += 1;
        for sector in data.chunks_mut(SECTOR) {
            if let Some((mark, _)) = sector.split_first_chunk_mut::<16>() {
                mark.copy_from_slice(numbers.as_flattened());
            }
        }
    }
}
