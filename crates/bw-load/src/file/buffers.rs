//! The memory that operations read into and write from.
//!
//! Decision: every slot has its own buffer for reads; all writes of a worker come from one
//! shared payload of pseudo-random bytes, at a position that changes with each write, so that a device that compresses
//! or recognises zeros gains nothing. Unless the data are repeated on request, each write has pages that no other write in
//! flight uses, and they are marked (see [`Stamp`]), so that a device that stores equal blocks once gains nothing either.
//! The pages of a slot are free when the slot is used again: nothing has to be done at a completion. Where
//! writes of several sizes leave no whole piece free, or those in flight are together larger than the payload (516 MiB), a
//! write shares its pages, without a mark.
//!
//! All memory is page-aligned, which direct I/O requires, and is touched once here, so that no
//! page fault occurs during the run.

use crate::stamp::Stamp;
use bw_sys::memory::Mapping;
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use std::io;
use std::ops::Range;

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

/// Which pages of the payload writes use.
#[derive(Debug)]
struct PagesInUse {
    /// How many slots use each page.
    users: Box<[u32]>,
    /// The pages of each slot.
    of_slots: Box<[Range<usize>]>,
    /// Where the search for free pages starts.
    next: usize,
}

impl PagesInUse {
    fn new(depth: u32, bytes: usize) -> Self {
        Self {
            users: vec![0; bytes / ALIGNMENT].into_boxed_slice(),
            of_slots: vec![0..0; depth as usize].into_boxed_slice(),
            next: 0,
        }
    }

    /// Returns `count` consecutive pages that nobody uses, behind those found before; None if there are none.
    fn free(&self, count: usize) -> Option<Range<usize>> {
        let (mut from, mut wrapped) = (self.next, false);
        loop {
            let Some(users) = self.users.get(from..from + count) else {
                if std::mem::replace(&mut wrapped, true) {
                    return None;
                }
                from = 0;
                continue;
            };
            match users.iter().rposition(|users| *users > 0) {
                None => return Some(from..from + count),
                Some(last) => from += last + 1,
            }
        }
    }

    /// Frees the pages of a slot's last write.
    fn release(&mut self, slot: u32) {
        let pages = std::mem::take(&mut self.of_slots[slot as usize]);
        self.users[pages].iter_mut().for_each(|users| *users -= 1);
    }

    /// Gives pages to a slot that has none.
    fn assign(&mut self, slot: u32, pages: Range<usize>) {
        self.next = pages.end;
        self.users[pages.clone()]
            .iter_mut()
            .for_each(|users| *users += 1);
        self.of_slots[slot as usize] = pages;
    }
}

/// What makes the data of each write the only ones of their kind.
#[derive(Debug)]
struct Unique {
    stamp: Stamp,
    pages: PagesInUse,
}

impl Unique {
    /// Marks the data of the next write.
    ///
    /// # Safety
    /// These bytes are memory of the worker that nobody else uses, the kernel included.
    unsafe fn mark(&mut self, address: *mut u8, size: usize) {
        // SAFETY: the contract is the same.
        let data = unsafe { std::slice::from_raw_parts_mut(address, size) };
        self.stamp.mark(data);
    }
}

/// The buffers of one worker.
#[derive(Debug)]
pub struct Buffers {
    slots: PageBuffer,
    slot_bytes: usize,
    payload: PageBuffer,
    /// None: the payload never changes.
    unique: Option<Unique>,
    large: Vec<Option<PageBuffer>>,
    writes: u64,
}

impl Buffers {
    /// Returns buffers for `depth` operations in flight of up to `largest_bytes` each; larger
    /// operations are possible too, and allocate when the first one comes. Written data are marked if they are to be
    /// `unique`.
    ///
    /// # Errors
    /// There is not enough memory, or less may be locked.
    pub fn new(depth: u32, largest_bytes: u32, unique: bool) -> io::Result<Self> {
        let slot_bytes = (largest_bytes.max(1) as usize).next_multiple_of(ALIGNMENT);
        let mut slots = PageBuffer::new(slot_bytes * depth as usize)?;
        if slots.length() <= TOUCHED_AT_MOST {
            slots.fill(1);
        }
        let in_use = match unique {
            true => slots.length(),
            false => slot_bytes,
        };
        let mut payload = PageBuffer::new(in_use.min(TOUCHED_AT_MOST) + PAYLOAD_SPARE)?;
        payload.fill(2);
        let unique = unique.then(|| Unique {
            stamp: Stamp::new(),
            pages: PagesInUse::new(depth, payload.length()),
        });
        Ok(Self {
            slots,
            slot_bytes,
            payload,
            unique,
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
        let (size, length) = (size as usize, self.payload.length());
        if size > length {
            let buffer = self.large(slot, size as u32)?;
            if let Some(unique) = &mut self.unique {
                // SAFETY: the slot's own memory of at least this size, and nothing of the slot is in flight.
                unsafe { unique.mark(buffer.address, size) };
            }
            return Ok(buffer);
        }
        let region = Region::Payload;
        let place = |position| IoBuffer {
            address: self.payload.at(position),
            region,
        };
        let Some(unique) = &mut self.unique else {
            return Ok(place(payload_position(sequence, size, length)));
        };
        let count = size.div_ceil(ALIGNMENT);
        unique.pages.release(slot);
        let free = unique.pages.free(count);
        let shared = || payload_position(sequence, size, length) / ALIGNMENT;
        let from = free.as_ref().map_or_else(shared, |pages| pages.start);
        unique.pages.assign(slot, from..from + count);
        let buffer = place(from * ALIGNMENT);
        if free.is_some() {
            // SAFETY: pages of the payload that no other write in flight uses.
            unsafe { unique.mark(buffer.address, size) };
        }
        Ok(buffer)
    }

    /// Returns the payload of repeated data, which does not change once it is filled.
    ///
    /// # Panics
    /// The data are unique.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        assert!(self.unique.is_none(), "marks change the payload");
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
        let buffers = Buffers::new(2, 4096, false).unwrap();
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
        let mut buffers = Buffers::new(2, 5000, true).unwrap();
        let first = buffers.for_read(0, 5000).unwrap();
        let second = buffers.for_read(1, 8192).unwrap();
        assert_eq!(second.address as usize - first.address as usize, 8192);
        let large = buffers.for_read(1, 8193).unwrap();
        assert_eq!(large.region, Region::Large);
        assert_eq!(large.address as usize % ALIGNMENT, 0);
    }

    /// Returns a copy of the data of a write.
    fn data_of(buffer: IoBuffer, size: u32) -> Vec<u8> {
        // SAFETY: the buffer of a write of this size, whose buffers live.
        unsafe { std::slice::from_raw_parts(buffer.address, size as usize) }.to_vec()
    }

    #[test]
    fn unique_data_repeat_no_sector_in_any_worker() {
        let size = 8192;
        let mut seen = std::collections::HashSet::new();
        let mut workers = [(); 2].map(|()| Buffers::new(4, size, true).unwrap());
        for number in 0..3000 {
            for buffers in &mut workers {
                let buffer = buffers.for_write(number % 4, size).unwrap();
                for sector in data_of(buffer, size).chunks(512) {
                    assert!(seen.insert(sector.to_vec()), "write {number}");
                }
            }
        }
        let mut repeated = Buffers::new(1, 512, false).unwrap();
        let sectors = (0..3000).map(|_| data_of(repeated.for_write(0, 512).unwrap(), 512));
        let distinct: std::collections::HashSet<_> = sectors.collect();
        assert!(distinct.len() <= PAYLOAD_SPARE / ALIGNMENT + 1);
    }

    #[test]
    fn a_write_in_flight_keeps_its_data() {
        // Sizes that leave gaps, more than the payload has room for, and one beyond it.
        let sizes = [4096, 1, 1 << 20, 17, 3 << 20, 700_000, 2 << 20, 40 << 20];
        let depth = 16;
        let mut buffers = Buffers::new(depth, 4096, true).unwrap();
        let mut in_flight: Vec<Option<(IoBuffer, Vec<u8>)>> = vec![None; depth as usize];
        for number in 0..2000_u32 {
            let slot = number.wrapping_mul(0x9e37_79b9) >> 28;
            let size = sizes[(number.wrapping_mul(0x85eb_ca6b) >> 29) as usize];
            if let Some((buffer, data)) = in_flight[slot as usize].take() {
                assert!(data_of(buffer, data.len() as u32) == data, "write {number}");
            }
            let buffer = buffers.for_write(slot, size).unwrap();
            in_flight[slot as usize] = Some((buffer, data_of(buffer, size)));
        }
    }
}
