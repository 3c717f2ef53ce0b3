//! The pages of a CPU's `trace_pipe_raw`: the kernel's ring buffer as it is, a page for each read.
//!
//! A page has the stamp of its first record, the number of bytes in use and whether events were lost before it; then
//! records, each with the time since the one before. Lengths and times are of the CPU's own byte order.
//! Source: Linux `include/linux/ring_buffer.h` and `kernel/trace/ring_buffer.c`; `events/header_page` of tracefs.

use crate::capture::format::{Field, Format};
use bw_model::Nanos;

/// Flag of the number of bytes in use: the buffer was full, and events before this page are lost.
const MISSED: u64 = 1 << 31;
/// The bits of that number that are the number itself.
const LENGTH: u64 = (1 << 20) - 1;

/// Kinds of a record that are not the length of its data in words.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Bits of a time in the first word of a record.
const TIME_BITS: u32 = 27;
/// The bits that an absolute stamp does not have: those of the stamp before it.
const ABOVE: u64 = !((1 << 59) - 1);

/// Where the parts of a page are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageLayout {
    at: Field,
    commit: Field,
    data: Field,
}

impl PageLayout {
    /// Returns the layout that `events/header_page` describes; None if it has other fields.
    pub(crate) fn of(header: &Format) -> Option<Self> {
        Some(Self {
            at: header.field("timestamp")?,
            commit: header.field("commit")?,
            data: header.field("data")?,
        })
    }
}

/// The records of one page, in the order of their stamps. Ends with None where a record is malformed.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    /// Whether the kernel lost events before this page.
    pub lost: bool,
    /// The stamp of the record before [ns].
    at: u64,
    rest: &'a [u8],
}

impl<'a> Page<'a> {
    /// Returns the records of a page; None if it is shorter than it says.
    pub(crate) fn of(page: &'a [u8], layout: &PageLayout) -> Option<Self> {
        let commit = layout.commit.number(page)?;
        let length = usize::try_from(commit & LENGTH).ok()?;
        Some(Self {
            lost: commit & MISSED != 0,
            at: layout.at.number(page)?,
            rest: page.get(layout.data.offset..)?.get(..length)?,
        })
    }

    /// Returns the stamp of the page, then of the last record returned.
    pub(crate) fn at(&self) -> Nanos {
        Nanos(self.at)
    }

    /// Takes the next four bytes.
    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_ne_bytes(*word))
    }

    fn bytes(&mut self, length: u32) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        Some(bytes)
    }

    /// Reads one record: its data, Some(None) for one that only has a time or nothing. None: malformed.
    fn step(&mut self) -> Option<Option<&'a [u8]>> {
        let word = self.word()?;
        // The order of bit fields follows that of bytes.
        let (kind, time) = if cfg!(target_endian = "big") {
            (word >> TIME_BITS, word & ((1 << TIME_BITS) - 1))
        } else {
            (word & 31, word >> 5)
        };
        let time = u64::from(time);
        match kind {
            PADDING if time == 0 => {
                self.rest = &[];
                Some(None)
            }
            PADDING => {
                let length = self.word()?.checked_sub(4)?;
                self.bytes(length)?;
                // A discarded event whose own time was 0 has 1: a padding with 0 ends the page.
                self.at = self.at.wrapping_add(if time == 1 { 0 } else { time });
                Some(None)
            }
            TIME_EXTEND | TIME_STAMP => {
                let long = u64::from(self.word()?) << TIME_BITS | time;
                self.at = if kind == TIME_EXTEND {
                    self.at.wrapping_add(long)
                } else {
                    self.at & ABOVE | long
                };
                Some(None)
            }
            words => {
                let length = match words {
                    0 => self.word()?.checked_sub(4)?,
                    words => words * 4,
                };
                self.at = self.at.wrapping_add(time);
                self.bytes(length).map(Some)
            }
        }
    }
}

/// A record that is longer than its page: the rest of the page is not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl<'a> Iterator for Page<'a> {
    type Item = Result<(Nanos, &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            match self.step() {
                Some(Some(data)) => return Some(Ok((Nanos(self.at), data))),
                Some(None) => {}
                None => {
                    self.rest = &[];
                    return Some(Err(Malformed));
                }
            }
        }
        None
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The layout of a machine whose words have eight bytes.
    pub(crate) fn layout() -> PageLayout {
        let header = " field: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
             field: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
             field: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        PageLayout::of(&Format::parse(header)).unwrap()
    }

    fn word(kind: u32, time: u64) -> [u8; 4] {
        let time = u32::try_from(time).unwrap();
        if cfg!(target_endian = "big") {
            (kind << TIME_BITS | time).to_ne_bytes()
        } else {
            (time << 5 | kind).to_ne_bytes()
        }
    }

    /// Returns a page with these records, as the kernel writes it: times that do not fit into a record before it.
    pub(crate) fn page(start: u64, lost: bool, records: &[(u64, &[u8])]) -> Vec<u8> {
        let (mut data, mut before) = (Vec::new(), start);
        for (at, record) in records {
            let mut time = at - before;
            before = *at;
            if time >= 1 << TIME_BITS {
                let low = time & ((1 << TIME_BITS) - 1);
                data.extend(word(TIME_EXTEND, low));
                data.extend(u32::try_from(time >> TIME_BITS).unwrap().to_ne_bytes());
                time = 0;
            }
            let words = u32::try_from(record.len() / 4).unwrap();
            if (1..=28).contains(&words) {
                data.extend(word(words, time));
            } else {
                data.extend(word(0, time));
                data.extend((4 + words * 4).to_ne_bytes());
            }
            data.extend(*record);
        }
        let commit = data.len() as u64 | if lost { MISSED } else { 0 };
        let head = [start.to_ne_bytes(), commit.to_ne_bytes()].concat();
        [head, data].concat()
    }

    fn read(page: &[u8]) -> Vec<Result<(u64, Vec<u8>), Malformed>> {
        let records = Page::of(page, &layout()).unwrap();
        let records = records.map(|record| record.map(|(at, data)| (at.0, data.to_vec())));
        records.collect()
    }

    #[test]
    fn discarded_records_and_the_unused_end_have_no_event() {
        let mut bytes = page(1000, true, &[(1005, &[1; 8])]);
        bytes.extend(word(PADDING, 7));
        bytes.extend([12_u32.to_ne_bytes(), [9; 4], [9; 4]].concat());
        bytes.extend(word(PADDING, 1));
        bytes.extend([8_u32.to_ne_bytes(), [9; 4]].concat());
        bytes.extend(word(1, 2));
        bytes.extend([2; 4]);
        bytes.extend(word(PADDING, 0));
        bytes.extend([9; 8]);
        let commit = (bytes.len() - 16) as u64 | MISSED | 1 << 30;
        bytes[8..16].copy_from_slice(&commit.to_ne_bytes());
        // What follows the part in use: the number of lost events, if there was room.
        bytes.extend([0xff; 8]);
        assert!(Page::of(&bytes, &layout()).unwrap().lost);
        let expected = [Ok((1005, vec![1; 8])), Ok((1014, vec![2; 4]))];
        assert_eq!(read(&bytes), expected);
    }

    #[test]
    fn an_absolute_stamp_keeps_the_highest_bits() {
        let start = 3 << 59 | 5;
        let mut bytes = page(start, false, &[]);
        bytes.extend(word(TIME_STAMP, 77));
        bytes.extend(1_u32.to_ne_bytes());
        bytes.extend(word(1, 1));
        bytes.extend([2; 4]);
        bytes[8..16].copy_from_slice(&16_u64.to_ne_bytes());
        let at = 3 << 59 | 1 << 27 | 78;
        assert_eq!(read(&bytes), [Ok((at, vec![2; 4]))]);
    }

    #[test]
    fn a_record_longer_than_its_page_ends_it() {
        let mut bytes = page(0, false, &[(3, &[1; 4]), (4, &[2; 200])]);
        let commit = (bytes.len() - 16 - 4) as u64;
        bytes[8..16].copy_from_slice(&commit.to_ne_bytes());
        assert_eq!(read(&bytes), [Ok((3, vec![1; 4])), Err(Malformed)]);
        assert!(Page::of(&bytes[..30], &layout()).is_none());
    }

    proptest! {
        #[test]
        fn records_come_back_as_they_were_written(
            start in 0..u64::MAX >> 6,
            records in prop::collection::vec((0..1_u64 << 40, 1..60_usize, any::<u8>()), 0..40),
        ) {
            let mut at = start;
            let records: Vec<(u64, Vec<u8>)> = records
                .into_iter()
                .map(|(time, words, byte)| {
                    at += time;
                    (at, vec![byte; words * 4])
                })
                .collect();
            let borrowed: Vec<_> = records.iter().map(|(at, data)| (*at, data.as_slice())).collect();
            let found: Result<Vec<_>, _> = read(&page(start, false, &borrowed)).into_iter().collect();
            prop_assert_eq!(found, Ok(records));
        }

        #[test]
        fn arbitrary_bytes_end_without_a_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 16..300),
            length in 0..320_u64,
        ) {
            bytes[8..16].copy_from_slice(&length.to_ne_bytes());
            if let Some(records) = Page::of(&bytes, &layout()) {
                prop_assert!(records.count() < 300);
            }
        }
    }
}
