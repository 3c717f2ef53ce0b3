//! Arrival processes against theory, at fixed seeds.

#![allow(
    clippy::unwrap_used,
    reason = "a test may unwrap, in its own functions too"
)]

use bw_model::{Nanos, Rate};
use bw_schedule::arrival::{ArrivalSpec, Arrivals};
use bw_schedule::distribution::DistributionSpec;
use bw_schedule::random::Stream;
use bw_schedule::rate::{RateSpec, RateStep};
use goodness::{gamma_cdf, ks_critical, ks_distance, mean_and_cv};

mod goodness;

const SECOND: u64 = 1_000_000_000;

fn per_s(rate: u64) -> RateSpec {
    RateSpec::Constant {
        micro_per_s: rate * 1_000_000,
    }
}

fn step(for_ns: u64, from: u64, to: u64) -> RateStep {
    RateStep {
        for_ns,
        from_micro_per_s: from * 1_000_000,
        to_micro_per_s: to * 1_000_000,
    }
}

fn arrivals(arrival: &ArrivalSpec, rate: &RateSpec, seed: u64) -> Arrivals {
    Arrivals::new(arrival, rate, Stream::new(seed, 1)).unwrap()
}

fn times(arrival: &ArrivalSpec, rate: &RateSpec, n: usize) -> Vec<u64> {
    let times: Vec<u64> = arrivals(arrival, rate, 4).take(n).map(|at| at.0).collect();
    assert!(times.is_sorted());
    times
}

fn gaps_in_means(arrival: &ArrivalSpec) -> Vec<f64> {
    let times = times(arrival, &per_s(1000), 100_001);
    times
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) as f64 / 1e6)
        .collect()
}

#[test]
fn constant_arrivals_are_exact_for_ever() {
    for micro_per_s in [1, 3_000_000, 7_777_777, 10_000_000_000_000] {
        let rate = Rate::from_micro_per_s(micro_per_s).unwrap();
        let spec = RateSpec::Constant { micro_per_s };
        let mut process = arrivals(&ArrivalSpec::Constant {}, &spec, 1);
        for index in 0..10_000 {
            assert_eq!(
                process.next(),
                Some(rate.arrival(index)),
                "{micro_per_s} {index}"
            );
        }
    }
}

#[test]
fn a_profile_that_ends_at_zero_ends_the_arrivals() {
    let rate = RateSpec::Steps(vec![step(SECOND, 10, 10), step(SECOND, 0, 0)]);
    let times = times(&ArrivalSpec::Constant {}, &rate, 100);
    assert_eq!(times, (0..10).map(|i| i * SECOND / 10).collect::<Vec<_>>());
}

#[test]
fn a_pause_moves_the_arrival_behind_it() {
    let rate = RateSpec::Steps(vec![
        step(SECOND, 2, 2),
        step(5 * SECOND, 0, 0),
        step(SECOND, 1, 1),
    ]);
    let times = times(&ArrivalSpec::Constant {}, &rate, 5);
    let tenths: Vec<u64> = times.iter().map(|at| at * 10 / SECOND).collect();
    assert_eq!(tenths, [0, 5, 60, 70, 80]);
}

#[test]
fn poisson_gaps_are_exponential() {
    let mut gaps = gaps_in_means(&ArrivalSpec::Poisson {});
    let (mean, cv) = mean_and_cv(&gaps);
    assert!((mean - 1.0).abs() < 4.0 * 0.00316, "{mean}");
    assert!((cv - 1.0).abs() < 4.0 * 0.00316, "{cv}");
    let critical = ks_critical(gaps.len());
    assert!(ks_distance(&mut gaps, |x| 1.0 - (-x).exp()) < critical);
    // Checks that the test can fail: a law 3 % away is refused.
    assert!(ks_distance(&mut gaps, |x| 1.0 - (-1.03 * x).exp()) > critical);
}

#[test]
fn uniform_gaps_are_uniform() {
    let mut gaps = gaps_in_means(&ArrivalSpec::Uniform {});
    let (mean, cv) = mean_and_cv(&gaps);
    assert!((mean - 1.0).abs() < 4.0 * 0.00183, "{mean}");
    assert!((cv - 1.0 / 3_f64.sqrt()).abs() < 0.006, "{cv}");
    let critical = ks_critical(gaps.len());
    assert!(ks_distance(&mut gaps, |x| (x / 2.0).clamp(0.0, 1.0)) < critical);
}

#[test]
fn gamma_gaps_have_their_variation_and_law() {
    for (cv_micro, tolerance) in [(300_000, 0.005), (1_000_000, 0.02), (2_000_000, 0.1)] {
        let mut gaps = gaps_in_means(&ArrivalSpec::Gamma { cv_micro });
        let want = cv_micro as f64 / 1e6;
        let (mean, cv) = mean_and_cv(&gaps);
        assert!(
            (mean - 1.0).abs() < 4.0 * want / (gaps.len() as f64).sqrt(),
            "{mean}"
        );
        assert!((cv - want).abs() < tolerance, "{cv} for {want}");
        let shape = 1.0 / (want * want);
        let distance = ks_distance(&mut gaps, |x| gamma_cdf(shape, x * shape));
        // Whole nanoseconds move all gaps below one to one place, which is visible only at shapes below 1.
        let below_a_nanosecond = gamma_cdf(shape, 1e-6 * shape);
        assert!(
            distance < ks_critical(gaps.len()) + below_a_nanosecond,
            "{distance} for {want}"
        );
    }
}

/// Returns the largest deviation of 50 counts over the same share of a profile from the integral, in standard
/// deviations.
fn worst_count_error(arrival: &ArrivalSpec, rate: &RateSpec, expected: f64, cv: f64) -> f64 {
    (0..50)
        .map(|seed| {
            let count = arrivals(arrival, rate, seed).count() as f64;
            (count - expected).abs() / (cv * expected.sqrt())
        })
        .fold(0.0, f64::max)
}

#[test]
fn counts_are_the_integral_of_steps_and_ramps() {
    let rate = RateSpec::Steps(vec![
        step(SECOND, 1000, 1000),
        step(2 * SECOND, 1000, 9000),
        step(SECOND / 2, 0, 0),
        step(SECOND, 6000, 0),
    ]);
    let expected = 1000.0 + 10_000.0 + 3000.0;
    let exact = arrivals(&ArrivalSpec::Constant {}, &rate, 0).count();
    assert_eq!(exact, 14_000);
    let random = [
        (ArrivalSpec::Poisson {}, 1.0),
        (ArrivalSpec::Uniform {}, 0.578),
        (
            ArrivalSpec::Gamma {
                cv_micro: 2_000_000,
            },
            2.0,
        ),
    ];
    for (arrival, cv) in random {
        let worst = worst_count_error(&arrival, &rate, expected, cv);
        assert!((1.0..5.0).contains(&worst), "{worst}: {arrival:?}");
    }
}

#[test]
fn counts_follow_a_ramp_all_along() {
    let rate = RateSpec::Steps(vec![step(10 * SECOND, 0, 20_000), step(1, 0, 0)]);
    let times = times(&ArrivalSpec::Poisson {}, &rate, usize::MAX);
    for tenth in 1..=10_u32 {
        let expected = 1000.0 * f64::from(tenth * tenth);
        let until = u64::from(tenth) * SECOND;
        let count = times.partition_point(|&at| at < until) as f64;
        assert!(
            (count - expected).abs() < 5.0 * expected.sqrt(),
            "{count} until {tenth}"
        );
    }
}

#[test]
fn on_off_counts_are_the_integral_over_the_on_periods() {
    let arrival = ArrivalSpec::OnOff {
        on: DistributionSpec::Constant {
            value: SECOND / 100,
        },
        off: DistributionSpec::Constant {
            value: 3 * SECOND / 100,
        },
    };
    let rate = RateSpec::Steps(vec![step(40 * SECOND, 500, 1500), step(1, 0, 0)]);
    let worst = worst_count_error(&arrival, &rate, 10_000.0, 1.0);
    assert!((1.0..5.0).contains(&worst), "{worst}");
    let silent = |at: &u64| at % (SECOND / 25) >= SECOND / 100;
    assert!(!times(&arrival, &rate, usize::MAX).iter().any(silent));
}

#[test]
fn on_off_is_burstier_than_poisson_and_keeps_its_mean() {
    let arrival = ArrivalSpec::OnOff {
        on: DistributionSpec::Exponential { mean: SECOND / 10 },
        off: DistributionSpec::Exponential { mean: SECOND / 10 },
    };
    let rate = RateSpec::Steps(vec![step(100 * SECOND, 10_000, 10_000), step(1, 0, 0)]);
    let counts: Vec<f64> = (0..30)
        .map(|seed| arrivals(&arrival, &rate, seed).count() as f64)
        .collect();
    let (mean, cv) = mean_and_cv(&counts);
    // Of an alternating renewal process in its steady state: the time spent on has variance (a/2) T for T >> a = 0.1 s,
    // times half: var = 2 T a p^2 (1-p)^2 / (2p(1-p)) = T a / 4; counts: sd = 10000 sqrt(2.5) = 15 800 in 500 000.
    let sd = 15_800.0;
    assert!(
        (mean - 500_000.0).abs() < 5.0 * sd / 30_f64.sqrt(),
        "{mean}"
    );
    assert!((0.6..1.5).contains(&(mean * cv / sd)), "{}", mean * cv);
}

#[test]
fn random_processes_begin_in_their_steady_state() {
    // Twice the mean gap, 20 000 seeds. Starting with a whole gap, gamma of cv 3 would have about 1.6 arrivals too
    // many.
    let rate = RateSpec::Steps(vec![step(2 * SECOND, 1, 1), step(1, 0, 0)]);
    for arrival in [
        ArrivalSpec::Gamma {
            cv_micro: 3_000_000,
        },
        ArrivalSpec::Gamma { cv_micro: 300_000 },
        ArrivalSpec::Uniform {},
        ArrivalSpec::Poisson {},
    ] {
        let counts: Vec<f64> = (0..20_000)
            .map(|seed| arrivals(&arrival, &rate, seed).count() as f64)
            .collect();
        let (mean, cv) = mean_and_cv(&counts);
        let error = mean * cv / 20_000_f64.sqrt();
        assert!(
            (mean - 2.0).abs() < 4.0 * error,
            "{mean} +- {error}: {arrival:?}"
        );
    }
}

#[test]
fn a_recording_is_repeated_or_ends() {
    let recorded = |repeat| ArrivalSpec::Recorded {
        gaps_ns: vec![5, 0, 20],
        repeat,
    };
    let as_it_was = RateSpec::Recorded;
    assert_eq!(times(&recorded(false), &as_it_was, 9), [5, 5, 25]);
    assert_eq!(
        times(&recorded(true), &as_it_was, 7),
        [5, 5, 25, 30, 30, 50, 55]
    );
    // At 3 a second one repetition lasts a second, exactly, however often.
    let times = times(&recorded(true), &per_s(3), 30_000);
    assert_eq!(times[..3], [SECOND / 5, SECOND / 5, SECOND]);
    assert_eq!(times[29_999], 10_000 * SECOND);
}

/// Returns the mean rate's distance from the requested rate, in standard errors of `n` exponential gaps.
fn standard_errors(rate: u64, n: u64, elapsed_s: f64) -> f64 {
    let relative = elapsed_s * rate as f64 / n as f64 - 1.0;
    relative.abs() * (n as f64).sqrt()
}

const RATES: [u64; 5] = [10_000, 100_000, 300_000, 1_000_000, 10_000_000];
const GAPS: u64 = 2_000_000;

#[test]
fn poisson_has_its_mean_rate_from_ten_thousand_to_ten_million_per_second() {
    for rate in RATES {
        let mut process = arrivals(&ArrivalSpec::Poisson {}, &per_s(rate), 4);
        let last = process.nth(GAPS as usize - 1).unwrap();
        let error = standard_errors(rate, GAPS, last.as_seconds());
        assert!(error < 4.0, "{error} standard errors at {rate}/s");
    }
}

#[test]
fn poisson_in_whole_microseconds_as_fio_computes_it_does_not() {
    // fio 3.42, backend.c usec_for_io(): the mean is cut to whole microseconds, then each gap is.
    for rate in RATES {
        let mut stream = Stream::new(4, 1);
        let mean_us = 1_000_000 / rate;
        let elapsed_us: u64 = (0..GAPS)
            .map(|_| (mean_us as f64 * stream.exponential()) as u64)
            .sum();
        let error = standard_errors(rate, GAPS, elapsed_us as f64 / 1e6);
        assert!(error > 4.0, "{error} standard errors at {rate}/s");
    }
}

#[test]
fn random_arrivals_stay_within_two_nanoseconds_of_the_sum_of_their_gaps() {
    for rate in [1, 10_000_000] {
        let mut stream = Stream::new(9, 1);
        let (mut sum, mut lost) = (0.0_f64, 0.0_f64);
        for at in arrivals(&ArrivalSpec::Poisson {}, &per_s(rate), 9).take(1_000_000) {
            // Kahan's compensated sum.
            let gap = stream.exponential() - lost;
            let next = sum + gap;
            lost = (next - sum) - gap;
            sum = next;
            let exact = sum * 1e9 / rate as f64;
            assert!((at.0 as f64 - exact).abs() < 2.0, "{at:?} for {exact}");
        }
    }
}

#[test]
fn a_metronome_brings_the_count_up_to_the_integral_of_the_rate_at_each_tick() {
    for (period_ns, rate) in [
        (1_000_000, 3_500),
        (1_000_000, 700),
        (250_000, 123_457),
        (7, 40),
    ] {
        let metronome = ArrivalSpec::Metronome { period_ns };
        let times = times(&metronome, &per_s(rate), 10_000);
        assert!(times.iter().all(|at| at % period_ns == 0));
        let mut arrived = 0;
        for tick in 0.. {
            let at = tick * period_ns;
            let due = (u128::from(at) * u128::from(rate) / u128::from(SECOND)) as usize;
            if due >= times.len() || tick > 100_000 {
                break;
            }
            arrived += times[arrived..]
                .iter()
                .take_while(|&&time| time <= at)
                .count();
            assert_eq!(arrived, due, "{rate}/s at {at} ns");
        }
    }
}

#[test]
fn a_metronome_follows_a_profile() {
    // 0 to 2000/s in 2 s: 1000 t^2 / 2 arrivals in the first t seconds.
    let ramp = RateSpec::Steps(vec![step(2 * SECOND, 0, 2000), step(SECOND, 0, 0)]);
    let metronome = ArrivalSpec::Metronome {
        period_ns: SECOND / 10,
    };
    let times: Vec<u64> = arrivals(&metronome, &ramp, 1).map(|at| at.0).collect();
    for tick in 1..=20 {
        let arrived = times.iter().filter(|&&at| at <= tick * SECOND / 10).count();
        let due = 5 * tick as usize * tick as usize;
        assert!(
            arrived.abs_diff(due) <= 1,
            "{arrived} for {due} at tick {tick}"
        );
    }
    assert!(times.len().abs_diff(2000) <= 1, "{}", times.len());
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    let refused = |arrival: &ArrivalSpec, rate: &RateSpec| {
        Arrivals::new(arrival, rate, Stream::new(1, 1)).unwrap_err()
    };
    let poisson = ArrivalSpec::Poisson {};
    assert!(refused(&poisson, &per_s(0)).contains("micro_per_s is 0"));
    assert!(refused(&poisson, &RateSpec::Steps(vec![])).contains("empty"));
    assert!(refused(&poisson, &RateSpec::Steps(vec![step(5, 0, 0)])).contains("rate 0"));
    assert!(refused(&poisson, &per_s(2_000_000_000)).contains("one operation a nanosecond"));
    assert!(refused(&poisson, &RateSpec::Recorded).contains("recorded arrivals only"));
    let long = RateSpec::Steps(vec![step(u64::MAX, 1, 1), step(1, 1, 1)]);
    assert!(refused(&poisson, &long).contains("584 years"));
    assert!(refused(&ArrivalSpec::Gamma { cv_micro: 0 }, &per_s(1)).contains("cv_micro is 0"));
    assert!(
        refused(&ArrivalSpec::Metronome { period_ns: 0 }, &per_s(1)).contains("period_ns is 0")
    );
    let silent = ArrivalSpec::Recorded {
        gaps_ns: vec![0, 0],
        repeat: true,
    };
    assert!(refused(&silent, &per_s(1)).contains("all 0"));
    let never = ArrivalSpec::OnOff {
        on: DistributionSpec::Constant { value: 0 },
        off: DistributionSpec::Constant { value: 0 },
    };
    assert!(refused(&never, &per_s(1)).contains("on periods"));
}

#[test]
fn the_greatest_rates_and_times_end_without_wrapping() {
    let fastest = arrivals(&ArrivalSpec::Constant {}, &per_s(1_000_000_000), 1);
    assert_eq!(fastest.take(3).last(), Some(Nanos(2)));
    let slowest = RateSpec::Constant { micro_per_s: 1 };
    let times: Vec<Nanos> = arrivals(&ArrivalSpec::Constant {}, &slowest, 1).collect();
    assert_eq!(times.len(), 18_447, "584 years in steps of 1e6 s");
}
