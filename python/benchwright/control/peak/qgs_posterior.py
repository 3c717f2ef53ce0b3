"""What is known of a criterion's peak after the runs so far: weighted draws of the curve.

Purpose: the joint posterior of (peak, gap, exponent, unloaded response, noise, noise between
runs, discrepancy of overload), by importance sampling with a fixed low-discrepancy
sequence: no random numbers, the same history gives the same answer.
Decision: draws, not a grid: seven parameters. Draws are moved to the posterior in tempered
steps (the likelihood's power grows as fast as the draws can follow), and the last step's
draws carry weights, so that the normal shape of a step is a proposal and no assumption.
The density itself is qgs_likelihood.py's.
Source: docs/peak.md; O. Cappe et al. 2004, Population Monte Carlo, J. Comp. Graph. Stat. 13.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
import numpy as np

from benchwright.control.peak.curve import Curve, FloatArray
from benchwright.control.peak.qgs_likelihood import (
    BETWEEN,
    EXCESS,
    SIZE,
    Likelihood,
    curve_of,
)
from benchwright.control.peak.qgs_reading import Readings
from benchwright.model.peak import Shape

DRAWS = 1024
MORE = 4
"""Times so many draws where the posterior is far from normal."""
STEPS = 12
"""Tempered steps at most; three to five are usual."""
EFFECTIVE_PART = 8.0
"""One draw in so many is effective after a tempered step: their moments make the next. Late
steps ask for less: a bent posterior fits no proposal better, and must be reached."""
TAIL = 6.0
"""Degrees of freedom of the proposal: heavier tails than the posterior's."""


class Posterior(msgspec.Struct, frozen=True):
    """Weighted draws; every column is `(n,)`."""

    curve: Curve
    weight: FloatArray
    """Sums to 1."""
    noise_s: FloatArray
    """Relative variance of a run's mean at the peak times its length [s]."""
    between: FloatArray
    excess: FloatArray
    effective: float
    """How many equal draws the weights are worth."""
    residuals: FloatArray
    """Of the steady runs at the best draw `(n_steady,)`, relative."""
    deviations: FloatArray
    """... and the standard deviations that they should have."""
    moments: tuple[FloatArray, FloatArray]
    """Centre and covariance of the draws' parameters: where another posterior may begin."""

    def mean(self, values: FloatArray) -> float:
        """Return the posterior mean of a column."""
        return float(self.weight @ values)

    def quantile(self, share: float) -> float:
        """Return a quantile of the peak [1/s]."""
        return weighted_quantile(self.curve.peak, self.weight, share)


def weighted_quantile(values: FloatArray, weight: FloatArray, share: float) -> float:
    """Return the value below which the given share of the weight lies."""
    order = np.argsort(values)
    below = np.cumsum(weight[order]) - weight[order] / 2
    return float(np.interp(share, below, values[order]))


@lru_cache(maxsize=4)
def _points(n: int, size: int) -> FloatArray:
    """Return fixed points of Student's t `(n, size)`: a Kronecker sequence of the roots of
    primes, through the normal's quantiles, each over a common chi deviate."""
    from scipy.special import chdtri, ndtri

    roots = np.sqrt(np.array([2, 3, 5, 7, 11, 13, 17, 19, 23, 29][: size + 1], float))
    uniform = (np.outer(np.arange(1, n + 1), roots) + 0.5) % 1.0
    uniform = np.clip(uniform, 1e-6, 1 - 1e-6)
    normal = ndtri(uniform[:, :size])
    normal -= normal.mean(axis=0)
    chi = chdtri(TAIL, uniform[:, size]) / TAIL
    result: FloatArray = normal / np.sqrt(chi)[:, None]
    result.setflags(write=False)
    return result


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def posterior(
    readings: Readings,
    start: tuple[float, float],
    shape: Shape | None,
    *,
    draws: int = DRAWS,
    begin: Posterior | None = None,
) -> Posterior:
    """Return the posterior given the runs; `start` is a low and a high guess of the peak
    [1/s] that need not hold it, `begin` a posterior of nearly the same runs."""
    model = Likelihood(readings, start, shape)
    points = _points(draws, SIZE)
    centre, spread = model.first() if begin is None else begin.moments
    power = 0.0
    for step in range(STEPS):
        root = np.linalg.cholesky(spread)
        theta = centre + points @ root.T
        prior, likelihood = model.log_density(theta)
        proposed = _log_t(points)
        part = EFFECTIVE_PART * (1 + step / 4)
        power = _next_power(prior - proposed, likelihood, part)
        weight = _normalised(prior - proposed + power * likelihood)
        effective = 1.0 / float(weight @ weight)
        if power >= 1.0 and effective > draws / 5:
            break
        if step == STEPS - 3 and draws == DRAWS:
            # A posterior far from normal: more draws, and a wider proposal.
            points = _points(MORE * draws, SIZE)
        centre, spread = _moments(theta, weight)
    best = int(np.argmax(prior + likelihood))
    return _told(model, theta, (weight, effective), best)


def _log_t(points: FloatArray) -> FloatArray:
    """Return the proposal's log density at its standard points, without its constant."""
    squares = np.einsum("ij,ij->i", points, points)
    result: FloatArray = -0.5 * (TAIL + points.shape[1]) * np.log1p(squares / TAIL)
    return result


def _normalised(log_weight: FloatArray) -> FloatArray:
    weight = np.exp(log_weight - log_weight.max())
    result: FloatArray = weight / weight.sum()
    return result


def _next_power(base: FloatArray, likelihood: FloatArray, part: float) -> float:
    """Return the largest power, at most 1, that leaves one draw in `part` effective."""
    low, high = 0.0, 1.0
    for _ in range(7):
        weight = _normalised(base + high * likelihood)
        if 1.0 / float(weight @ weight) >= base.size / part:
            low = high
            if high >= 1.0:
                break
            high = (high + 1.0) / 2
        else:
            high = (low + high) / 2
    return max(low, high if low == 0.0 else low)


def _moments(theta: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    centre = weight @ theta
    left = theta - centre
    spread = (left * weight[:, None]).T @ left
    return centre, 1.1 * spread + 1e-10 * np.eye(theta.shape[1])


def _told(
    model: Likelihood, theta: FloatArray, weights: tuple[FloatArray, float], best: int
) -> Posterior:
    """Return the draws by their names."""
    curve = curve_of(theta)
    residuals = deviations = np.empty(0)
    if model.rate.size:
        peak = theta[best : best + 1]
        expected = model.expected(curve_of(peak), peak)
        residuals = (expected.left)[:, 0]
        deviations = np.sqrt(expected.variance)[:, 0]
    return Posterior(
        curve,
        weights[0],
        model.noise_s(curve, theta),
        np.exp(theta[:, BETWEEN]),
        theta[:, EXCESS],
        weights[1],
        residuals,
        deviations,
        _moments(theta, weights[0]),
    )
