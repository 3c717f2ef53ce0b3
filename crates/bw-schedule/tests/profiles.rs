//! Any rate profile: the number of arrivals in any prefix is the integral of the rate.

#![allow(
    clippy::unwrap_used,
    reason = "a test may unwrap, in its own functions too"
)]

use bw_schedule::arrival::{ArrivalSpec, Arrivals};
use bw_schedule::random::Stream;
use bw_schedule::rate::{RateSpec, RateStep};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Units of the exact integral in one operation: half a femto-operation, in which it is whole on flat steps.
const OPERATION: u128 = 2_000_000_000_000_000;

fn fixed() -> ProptestConfig {
    ProptestConfig {
        cases: 200,
        rng_seed: RngSeed::Fixed(4),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Returns steps with rates from zero to a million a second; some are flat, some at rate zero, some of length zero.
fn any_step(ramps: bool) -> impl Strategy<Value = RateStep> {
    let rate = || prop_oneof![1 => Just(0), 6 => 0..1_000_000_000_000_u64];
    let length = prop_oneof![1 => Just(0), 8 => 1..20_000_000_u64];
    (length, rate(), rate(), any::<bool>()).prop_map(move |(for_ns, from, to, ramp)| RateStep {
        for_ns,
        from_micro_per_s: from,
        to_micro_per_s: if ramps && ramp { to } else { from },
    })
}

fn profile(ramps: bool) -> impl Strategy<Value = Vec<RateStep>> {
    prop::collection::vec(any_step(ramps), 1..6).prop_filter(
        "a rate of zero is refused elsewhere",
        |steps| {
            steps
                .iter()
                .any(|step| step.for_ns > 0 && step.from_micro_per_s > 0)
        },
    )
}

fn length(steps: &[RateStep]) -> u64 {
    steps.iter().map(|step| step.for_ns).sum()
}

/// Returns the exact integral of the rate until `time`, rounded down to units.
fn integral(steps: &[RateStep], time: u64) -> u128 {
    let mut begin = 0;
    let mut sum = 0;
    for step in steps {
        let x = i128::from(time.saturating_sub(begin).min(step.for_ns));
        let (from, to) = (
            i128::from(step.from_micro_per_s),
            i128::from(step.to_micro_per_s),
        );
        if x > 0 {
            sum += 2 * from * x + (to - from) * x * x / i128::from(step.for_ns);
        }
        begin += step.for_ns;
    }
    sum as u128
}

fn arrivals(arrival: &ArrivalSpec, steps: &[RateStep], seed: u64) -> Vec<u64> {
    let rate = RateSpec::Steps(steps.to_vec());
    let end = length(steps);
    let arrivals = Arrivals::new(arrival, &rate, Stream::new(seed, 0)).unwrap();
    arrivals.map(|at| at.0).take_while(|&at| at < end).collect()
}

proptest! {
    #![proptest_config(fixed())]

    #[test]
    fn constant_arrivals_on_flat_steps_are_exact(steps in profile(false), parts in prop::collection::vec(0.0..1.0_f64, 8)) {
        let times = arrivals(&ArrivalSpec::Constant {}, &steps, 0);
        for part in parts {
            let until = (part * length(&steps) as f64) as u64;
            let count = times.partition_point(|&at| at < until) as u128;
            prop_assert_eq!(count, integral(&steps, until).div_ceil(OPERATION));
        }
    }

    #[test]
    fn constant_arrivals_on_ramps_are_exact_to_a_nanosecond(steps in profile(true), parts in prop::collection::vec(0.0..1.0_f64, 8)) {
        let times = arrivals(&ArrivalSpec::Constant {}, &steps, 0);
        for part in parts {
            let until = (part * length(&steps) as f64) as u64;
            let count = times.partition_point(|&at| at < until) as u128;
            let least = integral(&steps, until.saturating_sub(1)).div_ceil(OPERATION);
            let most = integral(&steps, until + 1).div_ceil(OPERATION);
            prop_assert!((least..=most).contains(&count), "{} not in {}..={}", count, least, most);
        }
    }

    #[test]
    fn random_arrivals_never_go_back_and_keep_to_the_integral(steps in profile(true), seed in 0..1000_u64) {
        let expected = integral(&steps, length(&steps)) as f64 / OPERATION as f64;
        let processes = [(ArrivalSpec::Poisson {}, 1.0), (ArrivalSpec::Uniform {}, 0.58), (ArrivalSpec::Gamma { cv_micro: 1_500_000 }, 1.5)];
        for (arrival, cv) in processes {
            let times = arrivals(&arrival, &steps, seed);
            prop_assert!(times.is_sorted());
            // 6 standard deviations, with a margin for the skewness of small counts.
            let room = 6.0 * cv * expected.sqrt() + 25.0;
            prop_assert!((times.len() as f64 - expected).abs() < room, "{} for {}", times.len(), expected);
        }
    }

    #[test]
    fn nothing_arrives_while_the_rate_is_zero(before in 1..1_000_000_u64, pause in 1..1_000_000_000_u64, seed in 0..1000_u64) {
        let rate = 1_000_000_000_000;
        let flat = |for_ns, rate| RateStep { for_ns, from_micro_per_s: rate, to_micro_per_s: rate };
        let steps = [flat(before, rate), flat(pause, 0), flat(1_000_000, rate)];
        let times = arrivals(&ArrivalSpec::Poisson {}, &steps, seed);
        let silent = before..before + pause;
        prop_assert!(!times.iter().any(|at| silent.contains(at)));
    }
}
