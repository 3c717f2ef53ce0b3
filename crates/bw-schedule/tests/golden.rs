//! The first values of each process for one seed: the same on every machine and in every version.
//!
//! The stream's words, units and exponentials, and the Poisson arrivals at a flat rate and on a ramp, were also
//! computed by a second implementation (Python, exact integers); the other values are this crate's, from when the tests
//! against theory passed.

#![allow(
    clippy::unwrap_used,
    reason = "a test may unwrap, in its own functions too"
)]

use bw_model::{Kind, Nanos};
use bw_schedule::access::{Access, AccessSpec, RegionSpec};
use bw_schedule::arrival::{ArrivalSpec, Arrivals};
use bw_schedule::distribution::{Distribution, DistributionSpec};
use bw_schedule::location::{Location, LocationSpec};
use bw_schedule::random::Stream;
use bw_schedule::rate::{RateSpec, RateStep};

fn stream() -> Stream {
    Stream::new(42, 7)
}

fn first<T>(mut next: impl FnMut(&mut Stream) -> T) -> [T; 4] {
    let mut stream = stream();
    std::array::from_fn(|_| next(&mut stream))
}

fn arrivals(arrival: &ArrivalSpec, rate: &RateSpec) -> [u64; 4] {
    let mut arrivals = Arrivals::new(arrival, rate, stream()).unwrap();
    std::array::from_fn(|_| arrivals.next().unwrap().0)
}

fn drawn(spec: &DistributionSpec) -> [u64; 4] {
    let distribution = Distribution::new(spec).unwrap();
    first(|stream| distribution.draw(stream))
}

fn located(spec: &LocationSpec) -> [u64; 4] {
    let mut location = Location::new(spec, 1_000_000, 4096).unwrap();
    first(|stream| location.draw(stream, 1))
}

#[test]
fn the_stream() {
    assert_eq!(
        first(Stream::next_u64),
        [
            10_233_036_325_568_944_692,
            4_653_594_748_287_179_532,
            1_671_151_114_726_799_780,
            14_329_001_066_741_865_308
        ]
    );
    assert_eq!(first(|s| s.below(1000)), [554, 252, 90, 776]);
    assert_eq!(
        first(|s| s.unit().to_bits()),
        [
            4_603_171_819_313_620_627,
            4_598_216_146_039_280_118,
            4_591_192_354_705_066_488,
            4_605_171_802_097_396_467
        ]
    );
    assert_eq!(
        first(|s| s.exponential().to_bits()),
        [
            4_603_482_860_685_207_007,
            4_608_881_392_287_728_032,
            4_612_589_835_034_070_107,
            4_598_222_099_346_994_365
        ]
    );
    assert_eq!(
        first(|s| s.normal().to_bits()),
        [
            4_600_073_969_914_090_873,
            13_818_996_432_149_219_251,
            13_833_962_449_348_200_664,
            13_829_191_277_338_583_161
        ]
    );
    assert_eq!(
        first(|s| s.gamma(0.25).to_bits()),
        [
            4_589_606_431_327_485_614,
            4_573_072_555_642_646_541,
            4_597_180_602_830_093_665,
            4_611_218_570_580_103_209
        ]
    );
}

#[test]
fn the_arrivals() {
    let flat = RateSpec::Constant {
        micro_per_s: 100_000_000_000,
    };
    let ramp = RateSpec::Steps(vec![RateStep {
        for_ns: 50_000,
        from_micro_per_s: 300_000_000_000,
        to_micro_per_s: 100_000_000_000,
    }]);
    let on_off = ArrivalSpec::OnOff {
        on: DistributionSpec::Constant { value: 20_000 },
        off: DistributionSpec::Exponential { mean: 50_000 },
    };
    assert_eq!(
        arrivals(&ArrivalSpec::Constant {}, &ramp),
        [0, 3410, 6992, 10773]
    );
    assert_eq!(
        arrivals(&ArrivalSpec::Poisson {}, &flat),
        [5892, 19665, 43678, 46204]
    );
    assert_eq!(
        arrivals(&ArrivalSpec::Poisson {}, &ramp),
        [1990, 6869, 16339, 17426]
    );
    assert_eq!(
        arrivals(&ArrivalSpec::Uniform {}, &flat),
        [3757, 5569, 21105, 26853]
    );
    assert_eq!(
        arrivals(
            &ArrivalSpec::Gamma {
                cv_micro: 2_000_000
            },
            &flat
        ),
        [40416, 40639, 49535, 125383]
    );
    assert_eq!(arrivals(&on_off, &flat), [5892, 19665, 43678, 51773]);
}

#[test]
fn the_distributions() {
    assert_eq!(
        drawn(&DistributionSpec::Uniform {
            low: 512,
            high: 65_536
        }),
        [36583, 16915, 6402, 51021]
    );
    assert_eq!(
        drawn(&DistributionSpec::Exponential { mean: 1_000_000 }),
        [589266, 2401375, 1246785, 2483737]
    );
    assert_eq!(
        drawn(&DistributionSpec::Lognormal {
            mean: 1_000_000,
            cv_micro: 2_000_000
        }),
        [701985, 1494697, 152384, 815102]
    );
    assert_eq!(
        drawn(&DistributionSpec::Pareto {
            minimum: 1000,
            shape_micro: 1_100_000
        }),
        [1708, 8874, 3106, 9563]
    );
    assert_eq!(
        drawn(&DistributionSpec::Weighted {
            values: vec![(1, 1), (2, 1), (3, 2)]
        }),
        [3, 2, 1, 3]
    );
}

#[test]
fn the_locations() {
    let zipf = |exponent_micro, scattered| LocationSpec::Zipf {
        exponent_micro,
        objects: None,
        scattered,
        scatter_seed: 0,
    };
    let hot_cold = LocationSpec::HotCold {
        hot_space_micro: 100_000,
        hot_access_micro: 900_000,
    };
    assert_eq!(
        located(&LocationSpec::Uniform {}),
        [554734, 252271, 90593, 776776]
    );
    assert_eq!(located(&zipf(1_000_000, false)), [337, 26376, 271049, 13]);
    assert_eq!(located(&zipf(1_200_000, false)), [8, 254, 9829, 1]);
    assert_eq!(
        located(&zipf(1_200_000, true)),
        [69251, 937765, 732012, 374526]
    );
    assert_eq!(located(&hot_cold), [25227, 77677, 44508, 47472]);
}

#[test]
fn the_operations() {
    let spec = AccessSpec {
        kinds: vec![(Kind::Read, 70), (Kind::Write, 30)],
        size: DistributionSpec::Exponential { mean: 16_384 },
        location: LocationSpec::Uniform {},
        region: RegionSpec::default(),
        align_bytes: 4096,
    };
    let mut access = Access::new(&spec, 1 << 30, stream()).unwrap();
    let operations: [(&str, u64, u32); 4] = std::array::from_fn(|_| {
        let operation = access.next(Nanos::ZERO);
        (operation.kind.name(), operation.offset, operation.size)
    });
    assert_eq!(
        operations,
        [
            ("read", 834039808, 24576),
            ("read", 509718528, 16384),
            ("read", 505307136, 12288),
            ("write", 872550400, 8192)
        ]
    );
}
