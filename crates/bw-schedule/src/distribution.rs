//! Distributions of whole numbers: sizes, think times, counts.
//!
//! Decision: continuous laws are rounded at random, up with the probability of their fraction, so that the mean stays
//! exact however small it is (rounding to the nearest turns an exponential of mean 1 into one of mean 0.96).
//! Weighted values are searched in cumulative integer weights: exact, and the lists are short. Rejected: the alias
//! method, because its thresholds round.

use crate::random::Stream;
use serde::{Deserialize, Serialize};

/// A distribution as the user describes it; millionths where a name ends in `_micro`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum DistributionSpec {
    /// Always the same value.
    Constant {
        /// The value.
        value: u64,
    },
    /// Every whole number from `low` to `high`, both included, with equal probability.
    Uniform {
        /// The smallest value.
        low: u64,
        /// The largest value.
        high: u64,
    },
    /// Exponential.
    Exponential {
        /// Its mean.
        mean: u64,
    },
    /// Lognormal.
    Lognormal {
        /// The mean of the values themselves, not of their logarithms.
        mean: u64,
        /// The coefficient of variation of the values.
        cv_micro: u64,
    },
    /// Gamma.
    Gamma {
        /// Its mean.
        mean: u64,
        /// Its shape: 1 is exponential, above is more regular.
        shape_micro: u64,
    },
    /// Pareto: P(X > x) = (minimum / x)^shape.
    Pareto {
        /// The smallest value.
        minimum: u64,
        /// The exponent; the mean exists only above 1.
        shape_micro: u64,
    },
    /// Some values, by weight.
    Weighted {
        /// Value and weight.
        values: Vec<(u64, u64)>,
    },
}

/// A distribution to draw from.
#[derive(Clone, Debug)]
pub struct Distribution(Law);

#[derive(Clone, Debug)]
enum Law {
    Constant(u64),
    Uniform {
        low: u64,
        high: u64,
    },
    Exponential {
        mean: f64,
    },
    Lognormal {
        mean: f64,
        location: f64,
        scale: f64,
    },
    Gamma {
        mean: f64,
        shape: f64,
    },
    Pareto {
        minimum: f64,
        shape: f64,
    },
    Weighted {
        values: Vec<u64>,
        weights: Weights,
    },
}

impl Distribution {
    /// Returns the distribution described.
    ///
    /// # Errors
    /// What is wrong with the description, and what to do.
    pub fn new(spec: &DistributionSpec) -> Result<Self, String> {
        let law = match *spec {
            DistributionSpec::Constant { value } => Law::Constant(value),
            DistributionSpec::Uniform { low, high } if low <= high => Law::Uniform { low, high },
            DistributionSpec::Uniform { low, high } => {
                return Err(format!(
                    "uniform: low ({low}) is above high ({high}): swap them"
                ));
            }
            DistributionSpec::Exponential { mean } => Law::Exponential {
                mean: positive("exponential: mean", mean)?,
            },
            DistributionSpec::Lognormal { mean, cv_micro } => lognormal(mean, cv_micro)?,
            DistributionSpec::Gamma { mean, shape_micro } => Law::Gamma {
                mean: positive("gamma: mean", mean)?,
                shape: positive("gamma: shape_micro", shape_micro)? / 1e6,
            },
            DistributionSpec::Pareto {
                minimum,
                shape_micro,
            } => Law::Pareto {
                minimum: positive("pareto: minimum", minimum)?,
                shape: positive("pareto: shape_micro", shape_micro)? / 1e6,
            },
            DistributionSpec::Weighted { ref values } => Law::Weighted {
                weights: Weights::new("weighted: values", values.iter().map(|&(_, w)| w))?,
                values: values.iter().map(|&(value, _)| value).collect(),
            },
        };
        Ok(Self(law))
    }

    /// Returns the next value; a value beyond 64 bits becomes the largest of 64 bits.
    pub fn draw(&self, stream: &mut Stream) -> u64 {
        match &self.0 {
            Law::Constant(value) => *value,
            Law::Uniform { low, high } => match (high - low).checked_add(1) {
                Some(n) => low + stream.below(n),
                None => stream.next_u64(),
            },
            Law::Weighted { values, weights } => values[weights.draw(stream)],
            Law::Exponential { mean } => {
                let value = mean * stream.exponential();
                whole(value, stream)
            }
            Law::Lognormal {
                location, scale, ..
            } => {
                let value = libm::exp(location + scale * stream.normal());
                whole(value, stream)
            }
            Law::Gamma { mean, shape } => {
                let value = mean * (stream.gamma(*shape) / shape);
                whole(value, stream)
            }
            Law::Pareto { minimum, shape } => {
                let value = minimum * libm::pow(stream.unit(), -1.0 / shape);
                whole(value, stream)
            }
        }
    }

    /// Returns the mean; None where none exists (Pareto with a shape of at most 1).
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        match &self.0 {
            Law::Constant(value) => Some(*value as f64),
            Law::Uniform { low, high } => Some(*low as f64 / 2.0 + *high as f64 / 2.0),
            Law::Exponential { mean } | Law::Lognormal { mean, .. } | Law::Gamma { mean, .. } => {
                Some(*mean)
            }
            Law::Pareto { minimum, shape } => {
                (*shape > 1.0).then(|| minimum * shape / (shape - 1.0))
            }
            Law::Weighted { values, weights } => Some(weights.mean_of(values)),
        }
    }

    /// Returns the smallest and the largest value that may be drawn.
    #[must_use]
    pub fn range(&self) -> (u64, u64) {
        match &self.0 {
            Law::Constant(value) => (*value, *value),
            Law::Uniform { low, high } => (*low, *high),
            Law::Exponential { .. } | Law::Lognormal { .. } | Law::Gamma { .. } => (0, u64::MAX),
            Law::Pareto { minimum, .. } => (*minimum as u64, u64::MAX),
            Law::Weighted { values, weights } => weights.range_of(values),
        }
    }

    /// Returns the probability of a value of at most `value`. Of a continuous law, whose values are rounded at
    /// random, it is exact to the second derivative of its distribution function.
    #[must_use]
    pub fn at_most(&self, value: u64) -> f64 {
        // Rounding at random adds a uniform part of one before the fraction is cut off.
        let x = value as f64 + 0.5;
        match &self.0 {
            Law::Constant(only) => f64::from(u8::from(*only <= value)),
            Law::Uniform { low, .. } if value < *low => 0.0,
            Law::Uniform { high, .. } if value >= *high => 1.0,
            Law::Uniform { low, high } => {
                ((value - low) as f64 + 1.0) / ((high - low) as f64 + 1.0)
            }
            Law::Exponential { mean } => -libm::expm1(-x / mean),
            Law::Lognormal {
                location, scale, ..
            } if *scale > 0.0 => {
                let standard = (libm::log(x) - location) / scale;
                libm::erfc(-standard / std::f64::consts::SQRT_2) / 2.0
            }
            Law::Lognormal { mean, .. } => f64::from(u8::from(*mean <= x)),
            Law::Gamma { mean, shape } => gamma_at_most(*shape, x / mean * shape),
            Law::Pareto { minimum, .. } if x <= *minimum => 0.0,
            Law::Pareto { minimum, shape } => 1.0 - libm::pow(minimum / x, *shape),
            Law::Weighted { values, weights } => {
                let at_most = weights.each().zip(values).filter(|(_, v)| **v <= value);
                at_most.map(|(weight, _)| weight as f64).sum::<f64>() / weights.total as f64
            }
        }
    }

    /// Returns the upper ends of classes of values, ascending: each value that the user named is a class, a law has the
    /// powers of two up to `most` and the rest.
    pub(crate) fn classes(&self, most: u64) -> Vec<u64> {
        let mut ends = match &self.0 {
            Law::Constant(value) => vec![*value],
            Law::Weighted { values, .. } => values.clone(),
            _ => {
                let (least, greatest) = self.range();
                let powers = (0..u64::BITS - 1).map(|power| 1 << power);
                let inside = powers.filter(|end| (least..greatest.min(most)).contains(end));
                inside.chain([greatest]).collect()
            }
        };
        ends.sort_unstable();
        ends.dedup();
        ends
    }

    /// Returns whether every value is one that the user named, rather than computed from a law.
    #[must_use]
    pub(crate) fn is_named(&self) -> bool {
        matches!(self.0, Law::Constant(_) | Law::Weighted { .. })
    }
}

fn lognormal(mean: u64, cv_micro: u64) -> Result<Law, String> {
    let mean = positive("lognormal: mean", mean)?;
    let cv = cv_micro as f64 / 1e6;
    let variance = libm::log1p(cv * cv);
    Ok(Law::Lognormal {
        mean,
        location: libm::log(mean) - variance / 2.0,
        scale: variance.sqrt(),
    })
}

fn positive(name: &str, value: u64) -> Result<f64, String> {
    if value == 0 {
        return Err(format!("{name} is 0: give at least 1"));
    }
    Ok(value as f64)
}

/// Rounds at random so that the mean of the result is `value`; saturates.
fn whole(value: f64, stream: &mut Stream) -> u64 {
    (value + stream.unit()) as u64
}

/// Returns the distribution function of the gamma law of this shape and scale 1: a series below the mean, a continued
/// fraction above it. Source: Abramowitz and Stegun 6.5.29 and 6.5.31.
fn gamma_at_most(shape: f64, x: f64) -> f64 {
    const PRECISION: f64 = 1e-14;
    let factor = libm::exp(shape * libm::log(x) - x - libm::lgamma(shape));
    if x < shape + 1.0 {
        let (mut term, mut sum, mut k) = (1.0 / shape, 1.0 / shape, shape);
        while term > sum * PRECISION {
            k += 1.0;
            term *= x / k;
            sum += term;
        }
        return (factor * sum).min(1.0);
    }
    // Lentz's method; the fraction converges for every x above the shape.
    let mut b = x + 1.0 - shape;
    let (mut c, mut d) = (f64::INFINITY, 1.0 / b);
    let mut fraction = d;
    for k in 1..100_000 {
        let k = f64::from(k);
        let a = k * (shape - k);
        b += 2.0;
        d = 1.0 / (a * d + b);
        c = b + a / c;
        fraction *= c * d;
        if (c * d - 1.0).abs() < PRECISION {
            break;
        }
    }
    1.0 - factor * fraction
}

/// A choice among a few items by integer weight.
#[derive(Clone, Debug)]
pub(crate) struct Weights {
    /// Sums of the weights up to and including each item.
    sums: Vec<u64>,
    total: u64,
}

impl Weights {
    /// Returns the choice by these weights; `name` identifies the weights in an error.
    pub(crate) fn new(name: &str, weights: impl Iterator<Item = u64>) -> Result<Self, String> {
        let mut total = 0_u64;
        let mut sums = Vec::new();
        for weight in weights {
            total = total.checked_add(weight).ok_or_else(|| {
                format!("{name}: the weights add up to more than 2^64: make them smaller")
            })?;
            sums.push(total);
        }
        match (sums.is_empty(), total) {
            (true, _) => Err(format!("{name} is empty: name at least one, with a weight")),
            (_, 0) => Err(format!("{name}: all weights are 0: give one a weight")),
            _ => Ok(Self { sums, total }),
        }
    }

    /// Returns the index of the item drawn. A single item costs no random number.
    pub(crate) fn draw(&self, stream: &mut Stream) -> usize {
        if self.sums.len() == 1 {
            return 0;
        }
        let point = stream.below(self.total);
        self.sums.partition_point(|&sum| sum <= point)
    }

    fn each(&self) -> impl Iterator<Item = u64> + '_ {
        let before = std::iter::once(0).chain(self.sums.iter().copied());
        self.sums
            .iter()
            .zip(before)
            .map(|(sum, before)| sum - before)
    }

    fn mean_of(&self, values: &[u64]) -> f64 {
        let sum: f64 = (self.each().zip(values))
            .map(|(weight, &value)| weight as f64 * value as f64)
            .sum();
        sum / self.total as f64
    }

    fn range_of(&self, values: &[u64]) -> (u64, u64) {
        let drawn = || (self.each().zip(values)).filter(|(weight, _)| *weight > 0);
        let least = drawn().map(|(_, &value)| value).min();
        let greatest = drawn().map(|(_, &value)| value).max();
        (least.unwrap_or(0), greatest.unwrap_or(0))
    }
}
