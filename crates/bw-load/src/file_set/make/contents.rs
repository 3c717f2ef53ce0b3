//! The contents of the files of a set: they follow from its seed, the directory and the number, and cannot be compressed.

use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// Bytes of contents that follow from one seed.
const CHUNK_BYTES: usize = 64 << 10;

/// Fills `data` with the contents of file `number` of a directory, from `offset` on.
pub fn contents(seed: u64, directory: u32, number: u32, offset: u64, data: &mut [u8]) {
    let file = u64::from(directory) << 32 | u64::from(number);
    let file = (seed ^ file.wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(17);
    let mut at = 0;
    while at < data.len() {
        let position = offset + at as u64;
        let (index, skip) = (
            position / CHUNK_BYTES as u64,
            (position % CHUNK_BYTES as u64) as usize,
        );
        let mixed = file ^ index.wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(mixed);
        let length = (CHUNK_BYTES - skip).min(data.len() - at);
        let piece = &mut data[at..at + length];
        if skip == 0 {
            random.fill_bytes(piece);
        } else {
            let mut chunk = [0; CHUNK_BYTES];
            random.fill_bytes(&mut chunk);
            piece.copy_from_slice(&chunk[skip..skip + length]);
        }
        at += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_do_not_depend_on_where_they_are_cut() {
        let mut whole = vec![0; 3 * CHUNK_BYTES + 77];
        contents(7, 1, 2, 0, &mut whole);
        for (from, length) in [
            (0, 1),
            (5, CHUNK_BYTES),
            (CHUNK_BYTES - 3, 9),
            (CHUNK_BYTES, 70_001),
        ] {
            let mut part = vec![0; length];
            contents(7, 1, 2, from as u64, &mut part);
            assert_eq!(
                part,
                whole[from..from + length],
                "{length} bytes from {from}"
            );
        }
        let mut other = vec![0; 64];
        contents(7, 2, 1, 0, &mut other);
        assert_ne!(other, whole[..64]);
    }
}
