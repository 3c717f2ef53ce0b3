"""How likely runs are under a curve: priors, and the density of every reading.

Purpose: log prior and log likelihood of many draws of (peak, gap, exponent, unloaded
response, noise, noise between runs, discrepancy of overload) at once.
Decision: reciprocal. A queue's run mean is so skewed (skewness 6 to 10 times its relative
standard deviation, measured) that 1/mean is nearly normal, around (1 + v)/response.
Source: docs/peak.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np

from benchwright.control.peak.curve import Curve, FloatArray
from benchwright.control.peak.qgs_reading import PRIOR_CV2, Reading, Readings
from benchwright.model.peak import Shape

PEAK, GAP, EXPONENT, UNLOADED, NOISE, BETWEEN, EXCESS = range(7)
SIZE = 7

GAP_PRIOR = (math.log(0.15), 0.9)
"""Of ln gap: M/M/c and M/G/1 with limits of 3 to 13 services lie in 0.04 .. 0.2."""
EXPONENT_PRIOR = (math.log(1.5), 0.5)
"""Of ln exponent: 1 for one server, 2.2 for four, 7 for thirty-two. Student's t, of
`EXPONENT_TAIL` degrees of freedom: a pool of fifty is rare, not impossible."""
EXPONENT_TAIL = 3.0
MOST_EXPONENT = math.log(60.0)
UNLOADED_PRIOR = (-0.8, 1.2)
"""Of the logit of the unloaded response."""
NOISE_PRIOR = (math.log(1.6), 0.45)
"""Of the noise at the peak over that of reflected Brownian motion, where the gap is 0.1;
Student's t of `NOISE_TAIL` degrees of freedom."""
NOISE_TAIL = 3.0
NOISE_BY_GAP = 1.1
"""Power of the gap that this grows with: heavy tails make both large. Measured: 1.0 at a gap
of 0.04, 0.8 at 0.09, 1.8 at 0.13, 2.0 at 0.18, 8 at 0.26, 10 at 0.44."""
NOISE_PRIOR_UNTIMED = (math.log(1.0), 1.5)
"""... in seconds, where the limit is no time."""
NOISE_EXPONENT = 1.5
"""Of the noise's growth with waiting: 1.1 to 1.7 measured."""
NEIGHBOUR = 0.3
"""Standard deviation of ln gap between neighbouring samples: what a handed-on shape is worth."""
BETWEEN_PRIOR = (math.log(0.004), 1.0)
"""Of the capacity's relative standard deviation between runs."""
EXCESS_SCALE = 0.002
"""Of the relative difference between what an overloaded server completes and the pole;
Cauchy: one in six differs by more than 0.8 %, and then runs near the peak decide."""
MODEL_ERROR = 0.02
"""Relative error of the family for each factor e that a response is from the limit."""


UNSEEN_S = 0.2
"""Seconds of work that an unnoticed warm-up may cost a run: short runs bear it most."""
UNLOOKED_S = 1.0
"""... before a long overloaded run, which shows a warm-up best, was made."""
LOOKED = 1000.0
"""Limits of the response that such a run lasts, within the bounds below."""
LOOKED_S = (10.0, 40.0)
OVERLOADED_SD = 0.02
"""How sharply a run that reached no steady state says that the peak is lower, of ln rate."""
NEVER = -1e12
"""Log likelihood of a draw that cannot be."""
BUSY = 0.5
"""From this share of the limit on a run's noise is waiting's; below, that of service."""


class Expected(msgspec.Struct, frozen=True):
    """Runs beside what draws expect of them; every table is `(n_runs, n)`."""

    ratio: FloatArray
    """Expected over measured response: nearly normal."""
    left: FloatArray
    """... less its mean."""
    variance: FloatArray
    noise_s: FloatArray


class Likelihood:
    """The densities, with the runs in arrays `(n_runs, 1)`."""

    def __init__(
        self, readings: Readings, start: tuple[float, float], shape: Shape | None
    ) -> None:
        steady = [run for run in readings.runs if run.steady]
        told = [run for run in readings.runs if run.capacity is not None]
        self.low, self.high = start
        self.limit_s = readings.limit_s
        self.shape = shape
        long_s = min(max(LOOKED * (self.limit_s or 1.0), LOOKED_S[0]), LOOKED_S[1])
        looked = any(run.lasts_s >= long_s for run in told)
        self.unseen_s = UNSEEN_S if looked else UNLOOKED_S
        self.rate = _column(steady, lambda run: run.rate)
        self.value = _column(steady, lambda run: run.value)
        self.lasts_s = _column(steady, lambda run: run.lasts_s)
        self.own = _column(steady, lambda run: max(run.noise.relative_s, 1e-9))
        self.freedom = _column(
            steady, lambda run: run.noise.freedom if run.value > BUSY else 0.0
        )
        self.idle_s = _column(
            steady, lambda run: run.noise.relative_s if run.value <= BUSY else 0.0
        )
        self.capacity = np.array([[c.rate] for c in (r.capacity for r in told) if c])
        # A run that is neither steady nor tells a capacity was overloaded, no more is known.
        lost = [run for run in readings.runs if not run.steady and run.capacity is None]
        self.too_high = _column(lost, lambda run: run.rate)
        self.told_s = _column(told, lambda run: run.lasts_s)
        self.capacity_sd = np.array(
            [[c.relative_sd] for c in (r.capacity for r in told) if c]
        )

    def first(self) -> tuple[FloatArray, FloatArray]:
        """Return centre and covariance of the first proposal: the prior's, with the guess."""
        middle = 0.5 * (math.log(self.low) + math.log(self.high))
        width = 0.5 * (math.log(self.high) - math.log(self.low)) + 0.05
        gap, unloaded, noise = self._priors()
        pairs = (
            (middle, width),
            gap,
            EXPONENT_PRIOR,
            unloaded,
            noise,
            BETWEEN_PRIOR,
            (0.0, 3 * EXCESS_SCALE),
        )
        centre = np.array([pair[0] for pair in pairs])
        return centre, np.diag(np.array([pair[1] for pair in pairs]) ** 2)

    def _priors(
        self,
    ) -> tuple[tuple[float, float], tuple[float, float], tuple[float, float]]:
        noise = NOISE_PRIOR if self.limit_s is not None else NOISE_PRIOR_UNTIMED
        if self.shape is None:
            return GAP_PRIOR, UNLOADED_PRIOR, noise
        unloaded = min(max(self.shape.unloaded, 0.01), 0.99)
        return (
            (math.log(max(self.shape.gap, 1e-3)), NEIGHBOUR),
            (math.log(unloaded / (1 - unloaded)), 2 * NEIGHBOUR),
            noise,
        )

    def log_density(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log prior and log likelihood of draws `(n, 7)`."""
        from scipy.special import log_ndtr

        curve = curve_of(theta)
        total = np.zeros(theta.shape[0])
        if self.rate.size:
            total += self._steady(curve, theta)
        if self.capacity.size:
            total += self._overloaded(curve, theta)
        if self.too_high.size:
            above = np.log(self.too_high / curve.peak) / OVERLOADED_SD
            total += log_ndtr(above).sum(axis=0)
        # A draw so far off that its curve overflows explains nothing.
        return self._log_prior(theta), np.where(np.isfinite(total), total, NEVER)

    def _log_prior(self, theta: FloatArray) -> FloatArray:
        gap, unloaded, noise = self._priors()
        total = np.zeros(theta.shape[0])
        for column, (centre, spread) in (
            (GAP, gap),
            (UNLOADED, unloaded),
            (BETWEEN, BETWEEN_PRIOR),
        ):
            total -= 0.5 * ((theta[:, column] - centre) / spread) ** 2
        squares = ((theta[:, NOISE] - noise[0]) / noise[1]) ** 2
        total -= 0.5 * (NOISE_TAIL + 1) * np.log1p(squares / NOISE_TAIL)
        squares = ((theta[:, EXPONENT] - EXPONENT_PRIOR[0]) / EXPONENT_PRIOR[1]) ** 2
        total -= 0.5 * (EXPONENT_TAIL + 1) * np.log1p(squares / EXPONENT_TAIL)
        middle = 0.5 * (math.log(self.low) + math.log(self.high))
        width = (math.log(self.high) - math.log(self.low)) + 0.3
        total -= 0.5 * ((theta[:, PEAK] - middle) / width) ** 2
        total -= np.log1p((theta[:, EXCESS] / EXCESS_SCALE) ** 2)
        return total

    def noise_s(self, curve: Curve, theta: FloatArray) -> FloatArray:
        """Return the noise at the peak: a multiple of what reflected Brownian motion has."""
        scale = np.exp(theta[:, NOISE])
        if self.limit_s is None:
            return scale
        share = 1 - curve.unloaded
        busy = curve.gap / (1 + curve.gap)
        by_gap = (curve.gap / 0.1) ** NOISE_BY_GAP
        result: FloatArray = scale * by_gap * share**3 * 4 * self.limit_s / busy
        return result

    def expected(self, curve: Curve, theta: FloatArray) -> Expected:
        """Return what the runs should have shown, and how they differ."""
        noise_s = self.noise_s(curve, theta)
        busy = curve.gap / (1 + curve.gap)
        share = np.maximum(1 - curve.unloaded, 1e-6)
        # The wait at the peak in seconds, by the noise it must have.
        waits_s = noise_s * busy / (6 * share**2)
        softness = 1.0 * np.sqrt(waits_s * busy / self.lasts_s)
        waiting = curve.waiting(self.rate, softness)
        response = curve.unloaded + (1 - curve.unloaded) * waiting
        served_s = PRIOR_CV2 / self.rate * (curve.unloaded / response) ** 2
        here_s = noise_s * waiting**NOISE_EXPONENT + np.maximum(self.idle_s, served_s)
        x = self.rate / curve.peak
        distance = np.maximum(1 + curve.gap - x, softness * (1 + curve.gap))
        elasticity = (
            (1 - curve.unloaded) * waiting / response * (curve.exponent + x / distance)
        )
        away = (1 - curve.unloaded) * waiting / response * np.log(waiting)
        variance = (
            here_s / self.lasts_s
            + (elasticity * np.exp(theta[:, BETWEEN])) ** 2
            + (elasticity * self.unseen_s / self.lasts_s) ** 2
            + (MODEL_ERROR * away) ** 2
            + 1e-6
        )
        ratio = response / self.value
        left = ratio - 1 - np.minimum(variance, 0.5)
        return Expected(ratio, left, variance, here_s)

    def _steady(self, curve: Curve, theta: FloatArray) -> FloatArray:
        """Return the log likelihood of responses and of their own noise."""
        of = self.expected(curve, theta)
        told = -0.5 * of.left**2 / of.variance - 0.5 * np.log(of.variance)
        told += np.log(of.ratio)
        told -= 0.5 * self.freedom * (np.log(of.noise_s) + self.own / of.noise_s)
        result: FloatArray = told.sum(axis=0)
        return result

    def _overloaded(self, curve: Curve, theta: FloatArray) -> FloatArray:
        """Return the log likelihood of capacities told by overload."""
        left = np.log(self.capacity / curve.capacity) - theta[:, EXCESS]
        variance = (
            self.capacity_sd**2
            + np.exp(2 * theta[:, BETWEEN])
            + (self.unseen_s / self.told_s) ** 2
        )
        result: FloatArray = (-0.5 * left**2 / variance - 0.5 * np.log(variance)).sum(
            axis=0
        )
        return result


def curve_of(theta: FloatArray) -> Curve:
    return Curve(
        np.exp(theta[:, PEAK]),
        np.exp(theta[:, GAP]),
        np.exp(np.minimum(theta[:, EXPONENT], MOST_EXPONENT)),
        1 / (1 + np.exp(-theta[:, UNLOADED])),
    )


def _column(runs: list[Reading], value: Callable[[Reading], float]) -> FloatArray:
    return np.array([[value(run)] for run in runs], dtype=float)
