//! Whatever bytes a server sends: no panic, no endless loop, and no allocation at all.

#![allow(clippy::unwrap_used)]

use bw_nfs::Procedure;
use bw_nfs::mount;
use bw_nfs::record::{Record, Records};
use bw_nfs::reply::{self, Reply};
use bw_nfs::rpc::read_reply;
use counting::allocations;
use proptest::prelude::*;
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use replies::{accepted, replies};

#[path = "../../bw-sys/tests/counting/mod.rs"]
mod counting;
mod replies;

/// Reads a record as a reply to this procedure, and all that it contains; returns whether it was well-formed.
fn read_all(procedure: Procedure, record: &Record<'_>) -> bool {
    let Ok(head) = read_reply(record) else {
        return false;
    };
    let Ok(results) = head.results else {
        return true;
    };
    let _ = mount::read_mount(results);
    let _ = mount::read_getport(results);
    let _ = mount::read_getaddr(results);
    let mut exports = 0;
    let _ = mount::read_exports(results, |_| exports += 1);
    // An export has at least 12 bytes.
    assert!(exports <= record.length / 12);
    match reply::read(procedure, results) {
        Ok(Ok(Reply::Entries(entries))) => entries.finish().is_ok_and(|end| {
            // An entry has at least 24 bytes.
            assert!(end.entries as usize <= record.length / 24);
            true
        }),
        Ok(Ok(Reply::Read(read))) => {
            assert!(read.data.len() <= record.length && read.count as usize <= record.length);
            true
        }
        Ok(_) => true,
        Err(_) => false,
    }
}

/// Changes some bytes, as a faulty or hostile server might: bits, whole numbers, lengths, the end.
fn mutate(random: &mut Xoshiro256PlusPlus, bytes: &mut Vec<u8>) {
    for _ in 0..=random.next_u32() % 4 {
        if bytes.is_empty() {
            return;
        }
        let place = random.next_u32() as usize % bytes.len();
        let word = place & !3;
        match random.next_u32() % 6 {
            0 => bytes[place] ^= 1 << (random.next_u32() % 8),
            1 => bytes[place] = random.next_u32() as u8,
            2 if word + 4 <= bytes.len() => {
                let special = [
                    0,
                    1,
                    2,
                    64,
                    65,
                    400,
                    0x7fff_ffff,
                    0x8000_0000,
                    0xffff_fffc,
                    u32::MAX,
                ];
                let chosen = special[random.next_u32() as usize % special.len()];
                bytes[word..word + 4].copy_from_slice(&chosen.to_be_bytes());
            }
            3 => bytes.truncate(place),
            4 => {
                let from = random.next_u32() as usize % bytes.len();
                let length = (bytes.len() - place.max(from)).min(16);
                bytes.copy_within(from..from + length, place);
            }
            _ => {
                let room = bytes.capacity() - bytes.len();
                bytes.extend((0..room.min(8)).map(|_| random.next_u32() as u8));
            }
        }
    }
}

#[test]
fn a_million_mutated_replies_neither_panic_nor_allocate() {
    const SEED: u64 = 15;
    let all = replies();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut bytes = Vec::with_capacity(4096);
    let before = allocations();
    let (mut good, mut bad) = (0_u32, 0_u32);
    for round in 0..1_000_000 {
        let (own, original) = &all[round % all.len()];
        bytes.clear();
        bytes.extend_from_slice(original);
        mutate(&mut random, &mut bytes);
        // Some as a reply to another call, and some of which only a part was kept.
        let (other, _) = all[random.next_u32() as usize % all.len()];
        let procedure = if random.next_u32().is_multiple_of(8) {
            other
        } else {
            *own
        };
        let kept = bytes.len() - (random.next_u32() as usize % 8).min(bytes.len());
        let record = Record {
            bytes: &bytes[..kept],
            length: bytes.len(),
        };
        match read_all(procedure, &record) {
            true => good += 1,
            false => bad += 1,
        }
    }
    assert_eq!(allocations(), before, "allocations (seed {SEED})");
    assert!(good > 100_000 && bad > 100_000, "good {good}, bad {bad}");
}

#[test]
fn a_million_mutated_streams_neither_panic_nor_allocate_nor_pass_their_bound() {
    const SEED: u64 = 16;
    const KEPT: usize = 128;
    const MOST: usize = 1 << 16;
    let whole: Vec<Vec<u8>> = replies()
        .iter()
        .map(|(_, bytes)| framed(bytes, 1 + bytes.len() / 3))
        .collect();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut records = Records::new(KEPT, MOST);
    let mut bytes = Vec::with_capacity(4096);
    let before = allocations();
    let (mut read, mut refused) = (0_u32, 0_u32);
    for round in 0..1_000_000 {
        if round % 4 == 0 {
            // After a lost byte everything is garbage: begin again now and then, as on a new connection.
            records.clear();
        }
        bytes.clear();
        bytes.extend_from_slice(&whole[round % whole.len()]);
        if round % 2 == 0 {
            mutate(&mut random, &mut bytes);
        }
        let cut = random.next_u32() as usize % (bytes.len() + 1);
        'stream: for mut piece in [&bytes[..cut], &bytes[cut..]] {
            loop {
                match records.next(&mut piece) {
                    Ok(Some(record)) => {
                        assert!(record.bytes.len() <= KEPT && record.length <= MOST);
                        assert_eq!(record.bytes.len(), record.length.min(KEPT));
                        read += 1;
                    }
                    Ok(None) => break,
                    Err(_) => {
                        records.clear();
                        refused += 1;
                        break 'stream;
                    }
                }
            }
            assert!(piece.is_empty());
        }
    }
    assert_eq!(allocations(), before, "allocations (seed {SEED})");
    assert!(
        read > 100_000 && refused > 10_000,
        "read {read}, refused {refused}"
    );
}

/// Returns the record as fragments of at most `most` bytes.
fn framed(record: &[u8], most: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let pieces: Vec<_> = record.chunks(most).collect();
    for (place, piece) in pieces.iter().enumerate() {
        let last = u32::from(place + 1 == pieces.len()) << 31;
        out.extend((piece.len() as u32 | last).to_be_bytes());
        out.extend_from_slice(piece);
    }
    if pieces.is_empty() {
        out.extend((1_u32 << 31).to_be_bytes());
    }
    out
}

proptest! {
    #[test]
    fn any_bytes_are_a_reply_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for (procedure, _) in replies() {
            read_all(procedure, &Record { bytes: &bytes, length: bytes.len() });
            // As results of an accepted call, so that random bytes get past the head.
            let mut inner = accepted(&nfs3_types::xdr_codec::Void);
            inner.extend([0; 4]);
            inner.extend(&bytes);
            read_all(procedure, &Record { bytes: &inner, length: inner.len() });
        }
    }

    #[test]
    fn a_stream_has_the_same_records_however_it_is_cut(
        original in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..8),
        fragment in 1_usize..100,
        cuts in prop::collection::vec(1_usize..90, 1..50),
        kept in 0_usize..250,
    ) {
        let stream: Vec<u8> = original.iter().flat_map(|record| framed(record, fragment)).collect();
        let mut records = Records::new(kept, 200);
        let mut read = Vec::new();
        let mut rest = &stream[..];
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (mut piece, later) = rest.split_at((*cut).min(rest.len()));
            rest = later;
            while let Some(record) = records.next(&mut piece).unwrap() {
                read.push((record.bytes.to_vec(), record.length));
            }
        }
        let expected: Vec<_> = original
            .iter()
            .map(|record| (record[..record.len().min(kept)].to_vec(), record.len()))
            .collect();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn a_record_longer_than_allowed_is_an_error_at_its_marker(length in 201_u32..(1 << 31), last: bool) {
        let mut records = Records::new(10, 200);
        let marker = (length | u32::from(last) << 31).to_be_bytes();
        prop_assert!(records.next(&mut &marker[..]).is_err());
    }
}

#[test]
fn empty_fragments_without_end_are_an_error() {
    let mut records = Records::new(10, 200);
    let zeros = vec![0; 4 * 5000];
    assert!(records.next(&mut &zeros[..]).is_err());
}
