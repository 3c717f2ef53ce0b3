//! The SPC-1-like load has the rates, mix, sizes and locations of its source.

#![allow(
    clippy::unwrap_used,
    reason = "a test may unwrap, in its own functions too"
)]

use bw_model::{Kind, Operation};
use bw_schedule::access::RegionSpec;
use bw_schedule::filaments::spc1::{Extent, Spc1Layout};
use workloads::{MS, issued};

mod workloads;

const BSUS: u64 = 10;
const SECONDS: u64 = 400;
const REGION: RegionSpec = RegionSpec {
    offset_bytes: 1 << 20,
    length_bytes: Some(20 << 30),
};

fn layout() -> Spc1Layout {
    Spc1Layout::new(REGION, workloads::TARGET_BYTES).unwrap()
}

fn operations() -> Vec<Operation> {
    let RegionSpec {
        offset_bytes,
        length_bytes,
    } = REGION;
    let region = format!(
        r#""region":{{"offset_bytes":{offset_bytes},"length_bytes":{}}}"#,
        length_bytes.unwrap()
    );
    let text = format!(r#"{{"type":"spc1","bsus":{BSUS},{region}}}"#);
    let issued = issued(&text, MS, SECONDS * 1_000 * MS);
    issued.into_iter().map(|(_, operation)| operation).collect()
}

/// Asserts that a count is within five standard deviations of a binomial's mean.
fn near(what: &str, count: usize, of: usize, share: f64) {
    let (count, of) = (count as f64, of as f64);
    let (mean, deviation) = (of * share, (of * share * (1.0 - share)).sqrt());
    assert!(
        (count - mean).abs() < 5.0 * deviation,
        "{what}: {count}, expected {mean} +- {deviation}"
    );
}

fn block(operation: &Operation) -> u64 {
    (operation.offset - REGION.offset_bytes) / 4096
}

fn is_in(extent: Extent, operation: &Operation) -> bool {
    let end = block(operation) + u64::from(operation.size) / 4096;
    block(operation) >= extent.first && end <= extent.first + extent.blocks
}

#[test]
fn rate_mix_and_shares_are_the_source_s() {
    let operations = operations();
    let n = operations.len();
    let expected = (50 * BSUS * SECONDS) as f64;
    // A Poisson count.
    assert!((n as f64 - expected).abs() < 5.0 * expected.sqrt(), "{n}");
    let reads = operations.iter().filter(|o| o.kind == Kind::Read).count();
    near("reads", reads, n, 0.3944);
    for (asu, share) in layout().asus.into_iter().zip([0.596, 0.123, 0.281]) {
        let inside = operations.iter().filter(|o| is_in(asu, o)).count();
        near("ASU", inside, n, share);
    }
    let streams = [0.035, 0.281, 0.070, 0.210, 0.018, 0.070, 0.035, 0.281];
    for (stream, share) in (0..).zip(streams) {
        let own = operations.iter().filter(|o| o.tag == stream).count();
        near("stream", own, n, share);
    }
}

#[test]
fn sizes_are_smix_where_they_should_be() {
    let operations = operations();
    let (mixed, small): (Vec<&Operation>, Vec<&Operation>) =
        operations.iter().partition(|o| [2, 6, 7].contains(&o.tag));
    assert!(small.iter().all(|o| o.size == 4096));
    for (kib, weight) in [(4, 10.0), (8, 6.0), (16, 5.0), (32, 2.0), (64, 2.0)] {
        let count = mixed.iter().filter(|o| o.size == kib * 1024).count();
        near("size", count, mixed.len(), weight / 25.0);
    }
}

/// Returns the lowest and the highest block of a stream, as a share of its ASU.
fn range(operations: &[Operation], stream: u32, asu: Extent) -> (f64, f64) {
    let own = operations.iter().filter(|o| o.tag == stream);
    let share = |b: u64| (b - asu.first) as f64 / asu.blocks as f64;
    let blocks: Vec<u64> = own.map(block).collect();
    (
        share(*blocks.iter().min().unwrap()),
        share(*blocks.iter().max().unwrap()),
    )
}

#[test]
fn hot_spots_and_runs_are_where_they_belong() {
    let operations = operations();
    let asus = layout().asus;
    let expected = [
        (1, 0, 0.15, 0.20),
        (3, 0, 0.70, 0.75),
        (5, 1, 0.47, 0.52),
        (2, 0, 0.20, 0.70),
        (6, 1, 0.20, 0.70),
        (0, 0, 0.0, 1.0),
        (4, 1, 0.0, 1.0),
        (7, 2, 0.0, 1.0),
    ];
    for (stream, asu, from, to) in expected {
        let (least, greatest) = range(&operations, stream, asus[asu]);
        assert!(
            least >= from - 1e-5 && greatest <= to + 1e-5,
            "{stream}: {least} {greatest}"
        );
        // With thousands of draws it comes close to both ends: it stays inside the range and covers all of it.
        // The log's ten writers are a few per cent into their first runs.
        let reach = if [2, 6, 7].contains(&stream) {
            0.35
        } else {
            0.01
        };
        assert!(
            least < from + reach && greatest > to - 2.0 * reach,
            "{stream}: {least} {greatest}"
        );
    }
}

#[test]
fn runs_are_sequential_and_walks_come_back() {
    let text = r#"{"type":"spc1","bsus":1}"#;
    let issued = issued(text, MS, 400_000 * MS);
    let own = |tag| issued.iter().map(|(_, o)| *o).filter(move |o| o.tag == tag);
    let log: Vec<Operation> = own(7).collect();
    let breaks = log
        .windows(2)
        .filter(|w| w[0].offset + u64::from(w[0].size) != w[1].offset);
    // 30 % of a tenth of 64 GiB is 1.9 GiB: 140,000 appends of 14.4 KiB on average.
    assert_eq!(breaks.count(), 0);
    assert!(log.iter().all(|o| o.kind == Kind::Write));
    // A uniform draw from 5 % of 45 % of 64 GiB, 377,000 blocks, would touch nearly as many blocks as operations.
    let hot: Vec<u64> = own(1).map(|o| o.offset).collect();
    let mut distinct = hot.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(
        distinct.len() * 10 < hot.len() * 9,
        "{} of {}",
        distinct.len(),
        hot.len()
    );
}

#[test]
fn a_small_target_is_scaled_and_never_left() {
    let text = r#"{"type":"spc1","bsus":4,"region":{"offset_bytes":4096,"length_bytes":4194304}}"#;
    let issued = issued(text, MS, 100_000 * MS);
    let region = RegionSpec {
        offset_bytes: 4096,
        length_bytes: Some(4_194_304),
    };
    let asus = Spc1Layout::new(region, 1 << 30).unwrap().asus;
    for (_, o) in issued {
        let first = (o.offset - 4096) / 4096;
        let end = first + u64::from(o.size) / 4096;
        let asu = asus[[0, 0, 0, 0, 1, 1, 1, 2][o.tag as usize]];
        assert!(asu.first <= first && end <= asu.first + asu.blocks, "{o:?}");
    }
}
