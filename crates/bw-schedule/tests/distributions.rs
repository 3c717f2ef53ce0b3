//! Distributions of sizes, times and counts against theory, at fixed seeds.

#![allow(
    clippy::unwrap_used,
    reason = "a test may unwrap, in its own functions too"
)]

use bw_schedule::distribution::{Distribution, DistributionSpec};
use bw_schedule::random::Stream;
use goodness::{
    chi_square, chi_square_critical, gamma_cdf, ks_critical, ks_distance, mean_and_cv, normal_cdf,
};

mod goodness;

const N: usize = 100_000;

fn drawn(spec: &DistributionSpec) -> Vec<f64> {
    let distribution = Distribution::new(spec).unwrap();
    let mut stream = Stream::new(4, 2);
    (0..N)
        .map(|_| distribution.draw(&mut stream) as f64)
        .collect()
}

fn fits(spec: &DistributionSpec, cdf: impl Fn(f64) -> f64) {
    let mut samples = drawn(spec);
    let distance = ks_distance(&mut samples, &cdf);
    assert!(distance < ks_critical(N), "{distance}: {spec:?}");
    // Checks that the test can fail: values 5 % too large are refused.
    samples.iter_mut().for_each(|x| *x *= 1.05);
    assert!(ks_distance(&mut samples, &cdf) > ks_critical(N), "{spec:?}");
}

#[test]
fn the_continuous_laws_are_what_they_say() {
    let mean = 1_000_000;
    fits(&DistributionSpec::Exponential { mean }, |x| {
        1.0 - (-x / 1e6).exp()
    });
    let variance = 1.25_f64.ln();
    fits(
        &DistributionSpec::Lognormal {
            mean,
            cv_micro: 500_000,
        },
        |x| normal_cdf((x.ln() - (1e6_f64.ln() - variance / 2.0)) / variance.sqrt()),
    );
    let pareto = DistributionSpec::Pareto {
        minimum: mean,
        shape_micro: 1_500_000,
    };
    fits(&pareto, |x| {
        if x < 1e6 {
            0.0
        } else {
            1.0 - (1e6 / x).powf(1.5)
        }
    });
    let gamma = DistributionSpec::Gamma {
        mean,
        shape_micro: 1_500_000,
    };
    fits(&gamma, |x| gamma_cdf(1.5, x / 1e6 * 1.5));
    let uniform = DistributionSpec::Uniform {
        low: 1_000_000,
        high: 2_999_999,
    };
    fits(&uniform, |x| ((x - 1e6) / 2e6).clamp(0.0, 1.0));
}

/// The probability of at most each of these values, against 100,000 draws.
fn fits_its_own_probabilities(spec: &DistributionSpec, edges: &[u64]) {
    let distribution = Distribution::new(spec).unwrap();
    let samples = drawn(spec);
    let mut counts = vec![0; edges.len() + 1];
    for sample in samples {
        counts[edges.partition_point(|&edge| (edge as f64) < sample)] += 1;
    }
    let below = edges
        .iter()
        .map(|&edge| distribution.at_most(edge))
        .chain([1.0]);
    let mut last = 0.0;
    let expected: Vec<f64> = below
        .map(|at_most| (at_most - std::mem::replace(&mut last, at_most)) * N as f64)
        .collect();
    let statistic = chi_square(&counts, &expected);
    assert!(
        statistic < chi_square_critical(edges.len()),
        "{statistic}: {spec:?} {counts:?}"
    );
    // Checks that the test can fail: shares of neighbours exchanged.
    let mut wrong = expected;
    wrong.swap(0, 1);
    assert!(
        chi_square(&counts, &wrong) > chi_square_critical(edges.len()),
        "{spec:?}"
    );
}

#[test]
fn at_most_is_the_probability_of_what_is_drawn() {
    let powers: Vec<u64> = (9..16).map(|power| 1 << power).collect();
    for shape_micro in [500_000, 1_500_000, 4_000_000] {
        let mean = 8_192;
        fits_its_own_probabilities(&DistributionSpec::Gamma { mean, shape_micro }, &powers);
    }
    fits_its_own_probabilities(&DistributionSpec::Exponential { mean: 8_192 }, &powers);
    let lognormal = DistributionSpec::Lognormal {
        mean: 8_192,
        cv_micro: 1_000_000,
    };
    fits_its_own_probabilities(&lognormal, &powers[1..]);
    let pareto = DistributionSpec::Pareto {
        minimum: 300,
        shape_micro: 1_100_000,
    };
    fits_its_own_probabilities(&pareto, &powers);
    let uniform = DistributionSpec::Uniform {
        low: 100,
        high: 70_000,
    };
    fits_its_own_probabilities(&uniform, &powers);
    let weighted = DistributionSpec::Weighted {
        values: vec![(8192, 3), (512, 1), (512, 1), (1 << 20, 1)],
    };
    fits_its_own_probabilities(&weighted, &[512, 8192]);
}

#[test]
fn certain_values_have_probability_one() {
    let at_most = |spec: &DistributionSpec, value| Distribution::new(spec).unwrap().at_most(value);
    let constant = DistributionSpec::Constant { value: 7 };
    assert_eq!(
        [6, 7, 8].map(|value| at_most(&constant, value)),
        [0.0, 1.0, 1.0]
    );
    let certain = DistributionSpec::Lognormal {
        mean: 7,
        cv_micro: 0,
    };
    assert_eq!(
        [6, 7, 8].map(|value| at_most(&certain, value)),
        [0.0, 1.0, 1.0]
    );
    let regular = DistributionSpec::Gamma {
        mean: 1000,
        shape_micro: 1_000_000_000_000,
    };
    assert!(at_most(&regular, 990) < 1e-9 && at_most(&regular, 1010) > 1.0 - 1e-9);
    for shape_micro in [1, 1_000, 1_500_000, 10_000_000_000] {
        let gamma = DistributionSpec::Gamma {
            mean: 1,
            shape_micro,
        };
        assert!(
            (at_most(&gamma, u64::MAX) - 1.0).abs() < 1e-9,
            "{shape_micro}"
        );
    }
}

#[test]
fn means_are_exact_however_small() {
    let small = [
        DistributionSpec::Constant { value: 3 },
        DistributionSpec::Uniform { low: 0, high: 3 },
        DistributionSpec::Exponential { mean: 1 },
        DistributionSpec::Exponential { mean: 100 },
        DistributionSpec::Lognormal {
            mean: 2,
            cv_micro: 1_000_000,
        },
        DistributionSpec::Gamma {
            mean: 2,
            shape_micro: 1_500_000,
        },
        DistributionSpec::Pareto {
            minimum: 2,
            shape_micro: 4_000_000,
        },
        DistributionSpec::Weighted {
            values: vec![(1, 3), (10, 1)],
        },
    ];
    for spec in small {
        let want = Distribution::new(&spec).unwrap().mean().unwrap();
        let (mean, cv) = mean_and_cv(&drawn(&spec));
        let error = mean * cv / (N as f64).sqrt();
        assert!(
            (mean - want).abs() <= 4.0 * error,
            "{mean} +- {error} for {want}: {spec:?}"
        );
    }
}

#[test]
fn a_lognormal_has_its_coefficient_of_variation() {
    for cv_micro in [0, 200_000, 1_000_000] {
        let (_, cv) = mean_and_cv(&drawn(&DistributionSpec::Lognormal {
            mean: 1 << 20,
            cv_micro,
        }));
        assert!(
            (cv - cv_micro as f64 / 1e6).abs() < 0.03,
            "{cv} for {cv_micro}"
        );
    }
}

#[test]
fn weighted_values_come_by_their_weights() {
    let values = vec![(512, 1), (4096, 0), (8192, 60), (65_536, 39)];
    let samples = drawn(&DistributionSpec::Weighted {
        values: values.clone(),
    });
    let count = |value: u64| samples.iter().filter(|&&x| x == value as f64).count() as u64;
    assert_eq!(count(4096), 0);
    let drawn: Vec<(u64, f64)> = (values.iter().filter(|(_, weight)| *weight > 0))
        .map(|&(value, weight)| (count(value), weight as f64 * N as f64 / 100.0))
        .collect();
    let (counts, expected): (Vec<u64>, Vec<f64>) = drawn.into_iter().unzip();
    assert!(
        chi_square(&counts, &expected) < chi_square_critical(2),
        "{counts:?}"
    );
}

#[test]
fn normal_and_gamma_variates_follow_their_laws() {
    let mut stream = Stream::new(4, 3);
    let mut normal: Vec<f64> = (0..N).map(|_| stream.normal()).collect();
    assert!(ks_distance(&mut normal, normal_cdf) < ks_critical(N));
    for shape in [0.1, 0.5, 1.0, 2.5, 30.0] {
        let mut gamma: Vec<f64> = (0..N).map(|_| stream.gamma(shape)).collect();
        let distance = ks_distance(&mut gamma, |x| gamma_cdf(shape, x));
        assert!(distance < ks_critical(N), "{distance} at shape {shape}");
    }
}

#[test]
fn the_whole_range_of_64_bits_is_no_trouble() {
    let whole = DistributionSpec::Uniform {
        low: 0,
        high: u64::MAX,
    };
    let (mean, _) = mean_and_cv(&drawn(&whole));
    assert!((mean / 2_f64.powi(63) - 1.0).abs() < 0.01);
    // Such a heavy tail ends at the largest value and does not wrap.
    let heavy = DistributionSpec::Pareto {
        minimum: u64::MAX / 2,
        shape_micro: 10_000,
    };
    assert!(drawn(&heavy).iter().all(|&x| x >= 9e18));
    assert_eq!(Distribution::new(&heavy).unwrap().mean(), None);
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    let refused = |spec| Distribution::new(&spec).unwrap_err();
    assert!(refused(DistributionSpec::Uniform { low: 2, high: 1 }).contains("above high"));
    assert!(refused(DistributionSpec::Exponential { mean: 0 }).contains("mean is 0"));
    assert!(
        refused(DistributionSpec::Lognormal {
            mean: 0,
            cv_micro: 1
        })
        .contains("mean is 0")
    );
    assert!(
        refused(DistributionSpec::Pareto {
            minimum: 1,
            shape_micro: 0
        })
        .contains("shape_micro")
    );
    assert!(
        refused(DistributionSpec::Gamma {
            mean: 1,
            shape_micro: 0
        })
        .contains("shape_micro")
    );
    assert!(refused(DistributionSpec::Weighted { values: vec![] }).contains("empty"));
    assert!(
        refused(DistributionSpec::Weighted {
            values: vec![(1, 0)]
        })
        .contains("weights are 0")
    );
    let overflow = vec![(1, u64::MAX), (2, 1)];
    assert!(refused(DistributionSpec::Weighted { values: overflow }).contains("2^64"));
}
