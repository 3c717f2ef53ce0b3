//! Zipf's law over any number of objects, exactly, in constant time and without tables.
//!
//! Source: W. Hörmann and G. Derflinger, Rejection-inversion to generate variates from monotone discrete distributions,
//! ACM TOMACS 6 (1996). What lost: the approximation of Gray et al. (1994) that YCSB and others use (it needs a sum
//! over all objects, and exponents below 1), and a cumulated table (8 bytes an object).

use crate::random::Stream;

/// Ranks 1..=n with probabilities proportional to rank^-exponent.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    objects: u64,
    exponent: f64,
    /// The integral of the hat at both ends of the range that is inverted.
    low: f64,
    high: f64,
    /// Where a point this little below its rank needs no test.
    squeeze: f64,
}

impl Zipf {
    /// Returns Zipf's law over `objects` (at least 1) with this exponent (greater than 0).
    pub(crate) fn new(objects: u64, exponent: f64) -> Self {
        let mut zipf = Self {
            objects,
            exponent,
            low: 0.0,
            high: 0.0,
            squeeze: 0.0,
        };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(objects as f64 + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// Returns the next rank, from 1.
    pub(crate) fn draw(&self, stream: &mut Stream) -> u64 {
        loop {
            let area = self.high + stream.unit() * (self.low - self.high);
            let point = self.inverse(area);
            let rank = ((point + 0.5) as u64).clamp(1, self.objects);
            let nearest = rank as f64;
            if nearest - point <= self.squeeze
                || area >= self.integral(nearest + 0.5) - self.density(nearest)
            {
                return rank;
            }
        }
    }

    /// Returns x^-exponent.
    fn density(&self, x: f64) -> f64 {
        libm::exp(-self.exponent * libm::log(x))
    }

    /// Returns the integral of the density from 1 to `x`: (x^(1-q) - 1) / (1-q), or log x at q = 1.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        log * relative_expm1((1.0 - self.exponent) * log)
    }

    /// Returns the x of an integral.
    fn inverse(&self, area: f64) -> f64 {
        // Below -1 there is no x; only rounding leads there.
        let scaled = ((1.0 - self.exponent) * area).max(-1.0);
        libm::exp(area * relative_log1p(scaled))
    }
}

/// Returns (e^x - 1) / x, also at and around 0.
fn relative_expm1(x: f64) -> f64 {
    if x.abs() < 1e-8 {
        return 1.0 + x / 2.0;
    }
    libm::expm1(x) / x
}

/// Returns log(1 + x) / x, also at and around 0.
fn relative_log1p(x: f64) -> f64 {
    if x.abs() < 1e-8 {
        return 1.0 - x / 2.0;
    }
    libm::log1p(x) / x
}
