//! Locations and accesses: popularity against theory, and no access outside the region.

#![allow(
    clippy::unwrap_used,
    reason = "a test may unwrap, in its own functions too"
)]

use bw_model::{ExchangeAddress, Kind, Nanos};
use bw_schedule::access::{Access, AccessSpec, RegionSpec};
use bw_schedule::distribution::DistributionSpec;
use bw_schedule::location::{Location, LocationSpec};
use bw_schedule::random::Stream;
use goodness::{chi_square, chi_square_critical};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::HashMap;

mod goodness;

const N: u64 = 200_000;

fn zipf(exponent_micro: u64, objects: Option<u64>, scattered: bool) -> LocationSpec {
    LocationSpec::Zipf {
        exponent_micro,
        objects,
        scattered,
        scatter_seed: 0,
    }
}

fn draws(spec: &LocationSpec, blocks: u64, wanted: u64, n: u64) -> Vec<u64> {
    let mut location = Location::new(spec, blocks, 4096).unwrap();
    let mut stream = Stream::new(4, 5);
    (0..n).map(|_| location.draw(&mut stream, wanted)).collect()
}

/// Returns the chi-square statistic over its critical value; cells are joined until 10 draws are expected in each.
fn misfit(places: &[u64], probability: impl Fn(u64) -> f64, objects: u64) -> f64 {
    let mut counts = vec![0_u64; objects as usize];
    places.iter().for_each(|&place| counts[place as usize] += 1);
    let (mut cells, mut expected, mut count, mut sum) = (vec![], vec![], 0, 0.0);
    for place in 0..objects {
        count += counts[place as usize];
        sum += probability(place) * places.len() as f64;
        if sum >= 10.0 {
            cells.push(std::mem::take(&mut count));
            expected.push(std::mem::take(&mut sum));
        }
    }
    if let (Some(last), Some(last_expected)) = (cells.last_mut(), expected.last_mut()) {
        *last += count;
        *last_expected += sum;
    }
    chi_square(&cells, &expected) / chi_square_critical(cells.len() - 1)
}

#[test]
fn zipf_has_the_frequencies_of_its_law() {
    for exponent_micro in [10_000, 300_000, 990_000, 1_000_000, 1_200_000, 2_500_000] {
        let exponent = exponent_micro as f64 / 1e6;
        let weight = |place: u64, exponent: f64| ((place + 1) as f64).powf(-exponent);
        let total = |exponent| (0..1000).map(|place| weight(place, exponent)).sum::<f64>();
        let places = draws(&zipf(exponent_micro, None, false), 1000, 1, N);
        let law = |exponent| {
            let total = total(exponent);
            misfit(&places, |place| weight(place, exponent) / total, 1000)
        };
        assert!(law(exponent) < 1.0, "{} at {exponent}", law(exponent));
        // Checks that the test can fail: an exponent 0.03 away is refused.
        assert!(law(exponent + 0.03) > 1.0, "{exponent}");
    }
}

#[test]
fn zipf_is_exact_over_a_million_million_objects() {
    // H(k) = ln k + 0.5772... + 1/2k: the share of each thousandfold of ranks at exponent 1.
    let harmonic = |k: f64| k.ln() + 0.577_215_664_901_532_9 + 0.5 / k;
    let bounds = [1.0, 1e3, 1e6, 1e9, 1e12];
    let places = draws(&zipf(1_000_000, None, false), 1_000_000_000_000, 1, N);
    let within = |from: f64, to: f64| {
        places
            .iter()
            .filter(|&&p| (p + 1) as f64 > from && (p + 1) as f64 <= to)
            .count() as u64
    };
    let mut counts = vec![within(0.0, 1.0)];
    let mut expected = vec![N as f64 / harmonic(1e12)];
    for pair in bounds.windows(2) {
        let first = if pair[0] == 1.0 {
            1.0
        } else {
            harmonic(pair[0])
        };
        counts.push(within(pair[0], pair[1]));
        expected.push((harmonic(pair[1]) - first) * N as f64 / harmonic(1e12));
    }
    assert!(
        chi_square(&counts, &expected) < chi_square_critical(4),
        "{counts:?} {expected:?}"
    );
}

#[test]
fn scattering_moves_objects_and_changes_no_popularity() {
    let ranks = draws(&zipf(1_200_000, None, false), 10_000, 1, N);
    let places = draws(&zipf(1_200_000, None, true), 10_000, 1, N);
    let mut place_of = HashMap::new();
    let mut rank_of = HashMap::new();
    for (&rank, &place) in ranks.iter().zip(&places) {
        assert_eq!(*place_of.entry(rank).or_insert(place), place);
        assert_eq!(*rank_of.entry(place).or_insert(rank), rank);
    }
    let moved = place_of
        .iter()
        .filter(|(rank, place)| rank != place)
        .count();
    assert!(moved > place_of.len() * 9 / 10);
}

#[test]
fn the_blocks_of_an_object_share_its_popularity() {
    // 3 objects over 10 blocks: 3, 3 and 4 of them; weights 1, 1/2, 1/3.
    let places = draws(&zipf(1_000_000, Some(3), false), 10, 1, N);
    let shares = [6.0, 6.0, 6.0, 3.0, 3.0, 3.0, 1.5, 1.5, 1.5, 1.5];
    let law = |place: u64| shares[place as usize] / 33.0;
    assert!(misfit(&places, law, 10) < 1.0);
}

#[test]
fn uniform_is_uniform_over_every_place_that_fits() {
    let places = draws(&LocationSpec::Uniform {}, 64, 15, N);
    assert!(misfit(&places, |place| if place < 50 { 0.02 } else { 0.0 }, 50) < 1.0);
}

#[test]
fn hot_and_cold_have_their_shares() {
    let spec = LocationSpec::HotCold {
        hot_space_micro: 100_000,
        hot_access_micro: 900_000,
    };
    let places = draws(&spec, 100, 1, N);
    let law = |place| if place < 10 { 0.09 } else { 0.1 / 90.0 };
    assert!(misfit(&places, law, 100) < 1.0);
}

#[test]
fn sequential_and_strided_go_round() {
    assert_eq!(
        draws(&LocationSpec::Sequential {}, 7, 2, 5),
        [0, 2, 4, 0, 2]
    );
    let strided = LocationSpec::Strided {
        stride_bytes: 3 * 4096,
    };
    assert_eq!(draws(&strided, 7, 1, 8), [0, 3, 6, 2, 5, 1, 4, 0]);
    assert_eq!(draws(&strided, 7, 2, 4), [0, 3, 5, 2]);
}

#[test]
fn a_mixture_keeps_the_place_of_each_part() {
    let spec = LocationSpec::Mixed {
        parts: vec![
            (LocationSpec::Sequential {}, 3),
            (
                LocationSpec::HotCold {
                    hot_space_micro: 1,
                    hot_access_micro: 1_000_000,
                },
                1,
            ),
        ],
    };
    let places = draws(&spec, 1 << 60, 1, 4000);
    let hot = (1_u64 << 60).div_ceil(1_000_000);
    let sequence: Vec<u64> = places.iter().copied().filter(|&p| p < 4000).collect();
    assert!(
        sequence.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "no part disturbs the other"
    );
    assert!((2850..3150).contains(&sequence.len()), "{}", sequence.len());
    assert!(places.iter().all(|&place| place < hot));
}

fn access(kinds: Vec<(Kind, u64)>, size: DistributionSpec) -> AccessSpec {
    AccessSpec {
        kinds,
        size,
        location: LocationSpec::Uniform {},
        region: RegionSpec::default(),
        align_bytes: 4096,
    }
}

fn any_location() -> impl Strategy<Value = LocationSpec> {
    prop_oneof![
        Just(LocationSpec::Uniform {}),
        Just(LocationSpec::Sequential {}),
        (1..3_000_000_u64, any::<bool>()).prop_map(|(e, scattered)| zipf(e, None, scattered)),
        (1..20_u64).prop_map(|n| LocationSpec::Strided {
            stride_bytes: n * 4096
        }),
        (1..400_000_u64, 0..=1_000_000_u64).prop_map(|(space, accesses)| LocationSpec::HotCold {
            hot_space_micro: space,
            hot_access_micro: accesses
        }),
    ]
}

fn any_size() -> impl Strategy<Value = DistributionSpec> {
    prop_oneof![
        (1..40_000_u64).prop_map(|value| DistributionSpec::Constant { value }),
        (1..100_000_u64).prop_map(|mean| DistributionSpec::Exponential { mean }),
        Just(DistributionSpec::Pareto {
            minimum: 512,
            shape_micro: 500_000
        }),
        (0..20_000_u64, 0..20_000_u64).prop_map(|(low, more)| DistributionSpec::Uniform {
            low,
            high: low + more
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, rng_seed: RngSeed::Fixed(4), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_operation_lies_in_its_region(
        parts in prop::collection::vec((any_location(), 1..9_u64), 1..4), size in any_size(),
        skipped in 0..100_u64, blocks in 10..1000_u64, tail in 0..4096_u64,
    ) {
        let region = RegionSpec { offset_bytes: skipped * 4096, length_bytes: Some(blocks * 4096 + tail) };
        let spec = AccessSpec { location: LocationSpec::Mixed { parts }, region, ..access(vec![(Kind::Read, 2), (Kind::Write, 1), (Kind::Discard, 1)], size) };
        let named = matches!(spec.size, DistributionSpec::Constant { .. });
        let mut access = Access::new(&spec, 1 << 30, Stream::new(1, 1)).unwrap();
        for at in 0..200 {
            let operation = access.next(Nanos(at));
            prop_assert_eq!(operation.offset % 4096, 0);
            prop_assert!(operation.offset >= region.offset_bytes);
            prop_assert!(operation.size > 0 && (named || operation.size.is_multiple_of(4096)));
            prop_assert!(operation.offset + u64::from(operation.size) <= region.offset_bytes + blocks * 4096);
            prop_assert_eq!((operation.at, operation.notify, operation.tag), (Nanos(at), false, 0));
        }
    }
}

#[test]
fn kinds_come_by_weight_and_a_flush_has_no_extent() {
    let kinds = vec![(Kind::Read, 70), (Kind::Write, 25), (Kind::Flush, 5)];
    let spec = access(kinds, DistributionSpec::Constant { value: 8192 });
    let mut access = Access::new(&spec, 1 << 30, Stream::new(4, 1)).unwrap();
    let mut counts = [0; 3];
    for _ in 0..N {
        let operation = access.next(Nanos::ZERO);
        counts[operation.kind as usize] += 1;
        let size = if operation.kind == Kind::Flush {
            0
        } else {
            8192
        };
        assert_eq!(operation.size, size);
    }
    let expected = [0.7, 0.25, 0.05].map(|share| share * N as f64);
    assert!(
        chi_square(&counts, &expected) < chi_square_critical(2),
        "{counts:?}"
    );
}

#[test]
fn an_exchange_goes_to_a_path() {
    let mut spec = access(
        vec![(Kind::Exchange, 1)],
        DistributionSpec::Constant { value: 0 },
    );
    spec.location = LocationSpec::Sequential {};
    let mut access = Access::new(&spec, 3, Stream::new(4, 1)).unwrap();
    let mut next = || ExchangeAddress::unpack(access.next(Nanos::ZERO).offset);
    let sent: Vec<_> = (0..5).map(|_| next()).collect();
    let paths: Vec<u32> = sent.iter().map(|address| address.request).collect();
    assert_eq!(paths, [0, 1, 2, 0, 1]);
    let numbers: Vec<u64> = sent.iter().map(|address| address.number).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
}

#[test]
fn weights_choose_the_block() {
    let weighted = |weights: &[u64]| {
        let weights = weights.to_vec();
        Location::new(&LocationSpec::Weighted { weights }, 3, 1)
    };
    let (mut location, mut stream) = (weighted(&[6, 0, 3]).unwrap(), Stream::new(4, 1));
    let mut times = [0_u32; 3];
    for _ in 0..9000 {
        times[location.draw(&mut stream, 1) as usize] += 1;
    }
    assert_eq!(times[1], 0);
    assert!((5850..6150).contains(&times[0]), "{times:?}");
    assert!(weighted(&[1, 2]).unwrap_err().contains("2 weights for 3"));
    assert!(weighted(&[0, 0, 0]).unwrap_err().contains("weights are 0"));
}

#[test]
fn a_block_by_its_number_does_not_depend_on_those_before() {
    let location = |spec| Location::new(&spec, 10, 1).unwrap();
    let sequential = location(LocationSpec::Sequential {});
    let strided = location(LocationSpec::Strided { stride_bytes: 4 });
    let mut drawn = location(LocationSpec::Strided { stride_bytes: 4 });
    let mut stream = Stream::new(4, 1);
    for number in 0..30 {
        assert_eq!(sequential.at(number, &mut stream), number % 10);
        assert_eq!(strided.at(number, &mut stream), drawn.draw(&mut stream, 1));
    }
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    let size = |value| DistributionSpec::Constant { value };
    let good = || access(vec![(Kind::Read, 1)], size(4096));
    let refused =
        |spec: AccessSpec, target| Access::new(&spec, target, Stream::new(1, 1)).unwrap_err();
    let with = |region| AccessSpec { region, ..good() };
    let at = |location| AccessSpec { location, ..good() };
    assert!(refused(access(vec![], size(1)), 1 << 20).contains("kinds is empty"));
    assert!(refused(access(vec![(Kind::Read, 0)], size(1)), 1 << 20).contains("weights are 0"));
    assert!(
        refused(
            access(vec![(Kind::Read, 1), (Kind::Exchange, 1)], size(1)),
            9
        )
        .contains("network")
    );
    assert!(refused(access(vec![(Kind::Read, 1)], size(0)), 1 << 20).contains("0 bytes"));
    assert!(
        refused(access(vec![(Kind::Read, 1)], size(1 << 21)), 1 << 20)
            .contains("at most 1048576 fit")
    );
    assert!(refused(access(vec![(Kind::Exchange, 1)], size(1 << 32)), 1).contains("one operation"));
    assert!(refused(good(), 100).contains("not one block"));
    assert!(
        refused(
            AccessSpec {
                align_bytes: 0,
                ..good()
            },
            1 << 20
        )
        .contains("align_bytes is 0")
    );
    let beyond = RegionSpec {
        offset_bytes: 4096,
        length_bytes: Some(1 << 20),
    };
    assert!(refused(with(beyond), 1 << 20).contains("beyond the target"));
    let crooked = RegionSpec {
        offset_bytes: 100,
        length_bytes: None,
    };
    assert!(refused(with(crooked), 1 << 20).contains("multiple of align_bytes"));
    assert!(refused(at(zipf(0, None, true)), 1 << 20).contains("exponent_micro is 0"));
    assert!(refused(at(zipf(1, Some(257), true)), 1 << 20).contains("257 objects"));
    assert!(
        refused(at(LocationSpec::Strided { stride_bytes: 100 }), 1 << 20).contains("stride_bytes")
    );
    let all_hot = LocationSpec::HotCold {
        hot_space_micro: 999_999,
        hot_access_micro: 1,
    };
    assert!(refused(at(all_hot), 1 << 20).contains("no cold block"));
}
