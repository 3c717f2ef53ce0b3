//! Goodness-of-fit tests: distances between samples and theory, and their critical values.

#![allow(
    dead_code,
    reason = "each test program uses some of these and none uses all"
)]

/// Returns the Kolmogorov-Smirnov distance of `samples` from a continuous distribution.
pub(crate) fn ks_distance(samples: &mut [f64], cdf: impl Fn(f64) -> f64) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    let n = samples.len() as f64;
    (samples.iter().enumerate())
        .map(|(place, &x)| {
            let theory = cdf(x);
            (theory - place as f64 / n).max((place + 1) as f64 / n - theory)
        })
        .fold(0.0, f64::max)
}

/// Returns the distance that one fit in a thousand exceeds: 1.9495 / sqrt(n).
/// Source: N. Smirnov, Table for estimating the goodness of fit (1948); M. Stephens (1974).
pub(crate) fn ks_critical(n: usize) -> f64 {
    1.9495 / (n as f64).sqrt()
}

/// Returns the chi-square statistic; every expected count must be at least 5 (Cochran 1954).
pub(crate) fn chi_square(counts: &[u64], expected: &[f64]) -> f64 {
    assert!(
        expected.iter().all(|&e| e >= 5.0),
        "cells too small: {expected:?}"
    );
    (counts.iter().zip(expected))
        .map(|(&count, &expected)| (count as f64 - expected).powi(2) / expected)
        .sum()
}

/// Returns the statistic that one fit in a thousand exceeds.
/// Source: E. Wilson and M. Hilferty, The distribution of chi-square (1931).
pub(crate) fn chi_square_critical(degrees: usize) -> f64 {
    let k = degrees as f64;
    let ninth = 2.0 / (9.0 * k);
    k * (1.0 - ninth + 3.0902 * ninth.sqrt()).powi(3)
}

/// Returns mean and coefficient of variation.
pub(crate) fn mean_and_cv(samples: &[f64]) -> (f64, f64) {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let variance = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, variance.sqrt() / mean)
}

/// Returns the distribution function of the gamma law of this shape and scale 1, by the series
/// of the incomplete gamma function (Abramowitz and Stegun 6.5.29).
pub(crate) fn gamma_cdf(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let (mut term, mut sum, mut k) = (1.0 / shape, 1.0 / shape, shape);
    while term > sum * 1e-16 {
        k += 1.0;
        term *= x / k;
        sum += term;
    }
    (sum.ln() + shape * x.ln() - x - libm::lgamma(shape))
        .exp()
        .min(1.0)
}

/// Returns the distribution function of the standard normal law.
pub(crate) fn normal_cdf(x: f64) -> f64 {
    libm::erfc(-x / std::f64::consts::SQRT_2) / 2.0
}
