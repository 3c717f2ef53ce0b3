//! The memory that operations read into and write from.
//!
//! Decision: every slot has its own buffer for reads; all writes of a worker come from one
//! shared payload of pseudo-random bytes, at a position that changes with each write. The kernel
//! only reads the payload, so writes in flight may share it, and a device that compresses
//! or recognises zeros gains nothing. Rejected: filling each buffer before each write, as fio does,
//! which costs the issuing thread about 0.5 us per 4 KiB.
//!
//! All memory is page-aligned, which direct I/O requires, and is touched once here, so that no
//! page fault occurs during the run.

use bw_sys::memory::Mapping;
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use std::io;

/// Slots and payload positions are multiples of this [bytes]: a page, which every disk accepts.
const ALIGNMENT: usize = 4096;
/// By how much the payload is larger than the largest write [bytes]: 1024 positions to write from.
const PAYLOAD_SPARE: usize = 4 << 20;
/// A region larger than this is neither touched beforehand nor registered [bytes].
const TOUCHED_AT_MOST: usize = 512 << 20;

/// Whole pages of anonymous memory, initially zero.
#[derive(Debug)]
pub(crate) struct PageBuffer(Mapping);

impl PageBuffer {
    /// Returns `length` bytes, rounded up to whole pages.
    ///
    /// # Errors
    /// There is not enough memory, or less may be locked (`mlockall` with `MCL_FUTURE`).
    pub(crate) fn new(length: usize) -> io::Result<Self> {
        Mapping::private(length.max(1).next_multiple_of(ALIGNMENT)).map(Self)
    }

    /// Returns the length [bytes].
    #[must_use]
    pub(crate) fn length(&self) -> usize {
        self.0.length()
    }

    /// Returns the address of byte `position`.
    #[must_use]
    pub(crate) fn at(&self, position: usize) -> *mut u8 {
        self.0.address(position)
    }

    /// Returns bytes `from..from + length`.
    ///
    /// # Safety
    /// Nothing, the kernel included, writes there while the slice exists.
    #[must_use]
    pub(crate) unsafe fn bytes(&self, from: usize, length: usize) -> &[u8] {
        // SAFETY: the contract is the same.
        unsafe { self.0.bytes(from, length) }
    }

    /// Fills the pages with the pseudo-random bytes of `seed`.
    fn fill(&mut self, seed: u64) {
        // SAFETY: pages are filled when they are made, before an address of them is given out.
        let bytes = unsafe { self.0.bytes_mut() };
        Xoshiro256PlusPlus::seed_from_u64(seed).fill_bytes(bytes);
    }
}

/// Where the bytes of one operation are in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IoBuffer {
    /// The first byte.
    pub address: *mut u8,
    /// Which region it lies in.
    pub region: Region,
}

impl IoBuffer {
    /// The buffer of an operation without bytes.
    pub(crate) const NONE: Self = Self {
        address: std::ptr::null_mut(),
        region: Region::Large,
    };
}

/// The kinds of memory that an operation can use; the first two can be registered with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    /// Memory that slots read into.
    Slots,
    /// Memory that writes come from.
    Payload,
    /// A slot's own memory, for an operation larger than announced.
    Large,
}

/// Returns the position in a payload of `length` bytes from which write number `sequence`, of `size` bytes,
/// comes: a multiple of 4096 at which the write fits; zero if nothing else fits.
#[must_use]
#[allow(clippy::cast_possible_truncation)]
pub fn payload_position(sequence: u64, size: usize, length: usize) -> usize {
    let places = (length.saturating_sub(size) / ALIGNMENT + 1) as u64;
    // Fibonacci hashing: consecutive writes come from distant positions.
    let mixed = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((mixed * places) >> 32) as usize * ALIGNMENT
}

/// The buffers of one worker.
#[derive(Debug)]
pub struct Buffers {
    slots: PageBuffer,
    slot_bytes: usize,
    payload: PageBuffer,
    large: Vec<Option<PageBuffer>>,
    writes: u64,
}

impl Buffers {
    /// Returns buffers for `depth` operations in flight of up to `largest_bytes` each; larger
    /// operations are possible too, and allocate when the first one comes.
    ///
    /// # Errors
    /// There is not enough memory, or less may be locked.
    pub fn new(depth: u32, largest_bytes: u32) -> io::Result<Self> {
        let slot_bytes = (largest_bytes.max(1) as usize).next_multiple_of(ALIGNMENT);
        let mut slots = PageBuffer::new(slot_bytes * depth as usize)?;
        if slots.length() <= TOUCHED_AT_MOST {
            slots.fill(1);
        }
        let mut payload = PageBuffer::new(slot_bytes.min(TOUCHED_AT_MOST) + PAYLOAD_SPARE)?;
        payload.fill(2);
        Ok(Self {
            slots,
            slot_bytes,
            payload,
            large: (0..depth).map(|_| None).collect(),
            writes: 0,
        })
    }

    /// Returns the regions to register: the slots and the payload; None if they are too large.
    #[must_use]
    pub(crate) fn registrable(&self) -> Option<[libc::iovec; 2]> {
        let vector = |slab: &PageBuffer| libc::iovec {
            iov_base: slab.at(0).cast(),
            iov_len: slab.length(),
        };
        (self.slots.length() <= TOUCHED_AT_MOST)
            .then(|| [vector(&self.slots), vector(&self.payload)])
    }

    /// Returns the buffer for a read of `size` bytes under `slot`.
    ///
    /// # Errors
    /// The read is larger than announced, and there is no memory for it.
    pub(crate) fn for_read(&mut self, slot: u32, size: u32) -> io::Result<IoBuffer> {
        if size as usize > self.slot_bytes {
            return self.large(slot, size);
        }
        let address = self.slots.at(slot as usize * self.slot_bytes);
        let region = Region::Slots;
        Ok(IoBuffer { address, region })
    }

    /// Returns the buffer for the next write, of `size` bytes under `slot`.
    ///
    /// # Errors
    /// The write is larger than announced, and there is no memory for it.
    pub(crate) fn for_write(&mut self, slot: u32, size: u32) -> io::Result<IoBuffer> {
        let sequence = self.writes;
        self.writes += 1;
        if size as usize > self.payload.length() {
            return self.large(slot, size);
        }
        let position = payload_position(sequence, size as usize, self.payload.length());
        let address = self.payload.at(position);
        let region = Region::Payload;
        Ok(IoBuffer { address, region })
    }

    /// Returns the payload. It does not change once it is filled.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        // SAFETY: the payload is written only in `new`; the kernel only reads it.
        unsafe { self.payload.bytes(0, self.payload.length()) }
    }

    /// Returns the first `size` bytes that the last read under `slot` returned; None if its
    /// buffer is smaller.
    ///
    /// # Safety
    /// The slot is not in flight while the slice lives.
    #[must_use]
    pub unsafe fn data(&self, slot: u32, size: u32) -> Option<&[u8]> {
        let (slot, size) = (slot as usize, size as usize);
        if size <= self.slot_bytes {
            // SAFETY: nothing is in flight under this slot, by the contract.
            return Some(unsafe { self.slots.bytes(slot * self.slot_bytes, size) });
        }
        let large = self.large.get(slot)?.as_ref()?;
        // SAFETY: as above.
        (size <= large.length()).then(|| unsafe { large.bytes(0, size) })
    }

    /// Returns the slot's own large buffer; allocates or enlarges it if necessary.
    fn large(&mut self, slot: u32, size: u32) -> io::Result<IoBuffer> {
        let held = &mut self.large[slot as usize];
        if held
            .as_ref()
            .is_none_or(|slab| slab.length() < size as usize)
        {
            let mut slab = PageBuffer::new(size as usize)?;
            slab.fill(3 + u64::from(slot));
            *held = Some(slab);
        }
        let slab = held.as_ref().ok_or(io::ErrorKind::OutOfMemory)?;
        let (address, region) = (slab.at(0), Region::Large);
        Ok(IoBuffer { address, region })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_come_from_many_places_that_all_fit() {
        let (size, length) = (12_288, 4 << 20);
        let places: std::collections::BTreeSet<_> = (0..4096)
            .map(|sequence| payload_position(sequence, size, length))
            .collect();
        assert!(
            places
                .iter()
                .all(|at| at % ALIGNMENT == 0 && at + size <= length)
        );
        assert!(places.len() > 900, "only {} places", places.len());
    }

    #[test]
    fn a_write_as_large_as_the_payload_comes_from_its_start() {
        assert_eq!(payload_position(77, 8192, 8192), 0);
    }

    #[test]
    fn the_payload_is_not_all_the_same() {
        let buffers = Buffers::new(2, 4096).unwrap();
        let mut counts = [0_u32; 256];
        for byte in buffers.payload() {
            counts[usize::from(*byte)] += 1;
        }
        let expected = u32::try_from(buffers.payload().len() / 256).unwrap();
        assert!(
            counts
                .iter()
                .all(|count| count.abs_diff(expected) < expected / 20)
        );
    }

    #[test]
    fn slots_do_not_overlap_and_large_operations_get_their_own() {
        let mut buffers = Buffers::new(2, 5000).unwrap();
        let first = buffers.for_read(0, 5000).unwrap();
        let second = buffers.for_read(1, 8192).unwrap();
        assert_eq!(second.address as usize - first.address as usize, 8192);
        let large = buffers.for_read(1, 8193).unwrap();
        assert_eq!(large.region, Region::Large);
        assert_eq!(large.address as usize % ALIGNMENT, 0);
    }
}
