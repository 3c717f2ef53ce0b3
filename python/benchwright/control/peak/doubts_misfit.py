"""Whether the runs near an answer lie on the curve that the answer was read from.

Purpose: the last look before a search by a queue's curve ends. A curve that is steep enough
goes through anything: past a step in the response (12 ms, then 50 ms) it has the limit
at the step, with every run near it far from the curve.
Decision: only what the curve's noise, its band and a server's usual change from run to run
leave over counts. What the fit itself believes of the change between runs is not asked: a fit that
misses its runs explains them by it.
Decision: the result is judged, not the posterior, so that any search's curve can be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from benchwright.control.peak.curve import FloatArray
from benchwright.control.peak.qgs_likelihood import NOISE_EXPONENT
from benchwright.control.peak.qgs_reading import Reading, read
from benchwright.model.peak import Criterion, LoadTrial, PeakGoal, PeakResult

NEAR = (0.45, 1.5)
"""Responses by the curve, as shares of the limit, of loads that are near the answer."""
BETWEEN = 0.012
"""Relative standard deviation of a server's speed between runs that is no evidence."""
STEEPEST = 20.0
"""Elasticity up to which that counts: a curve steeper than this was bent to its runs."""
FAMILY = 0.05
"""Relative error of a queue's curve near its answer."""
CLEARLY = 4.0
"""Standard errors by which a run contradicts the curve."""
LEAST = 0.3
"""... and by so much at least, of the logarithm of the response."""
FEWEST = 2
"""Runs that must contradict it: one may be anything."""
QUIETEST = 0.2
"""A run's noise is at least that of this share of the limit."""


class _Known(msgspec.Struct, frozen=True):
    """The result's curve; columns `(n_points,)`, logarithms of rate and share of the limit."""

    rate: FloatArray
    level: FloatArray
    error: FloatArray
    """Standard deviation of the level."""
    slope: FloatArray
    """Elasticity."""
    noise_s: float
    """Relative variance of a run's mean at the limit, times its length [s]."""

    def off(self, run: Reading) -> tuple[float, float]:
        """Return how far a run is from the curve, and in standard errors; 0 where it is
        not near the answer."""
        at, value = math.log(run.rate), math.log(run.value)
        if not self.rate[0] <= at <= self.rate[-1]:
            return 0.0, 0.0
        level, error, slope = (
            float(np.interp(at, self.rate, column))
            for column in (self.level, self.error, self.slope)
        )
        if not NEAR[0] < math.exp(level) < NEAR[1]:
            return 0.0, 0.0
        chance = (
            self.noise_s
            / run.lasts_s
            * max(math.exp(level), QUIETEST) ** NOISE_EXPONENT
        )
        between = BETWEEN * min(slope, STEEPEST)
        scale = math.sqrt(chance + error**2 + between**2 + FAMILY**2)
        # The mean of a logarithm is below the logarithm of the mean.
        left = value - level + min(chance, 0.5) / 2
        return left, abs(left) / scale


def misfit(goal: PeakGoal, history: Sequence[LoadTrial], result: PeakResult) -> str:
    """Return how runs near a result's answer contradict its curve; '' if they do not.

    `goal` has the criterion that the curve is of as its first.
    """
    known = _known(goal.criteria[0], result)
    if known is None:
        return ""
    runs = [run for run in read(goal.criteria[0], history).runs if run.steady]
    wrong = [run for run in runs if _contradicts(*known.off(run))]
    if len(wrong) < FEWEST:
        return ""
    worst = max(wrong, key=lambda run: known.off(run)[1])
    left, sureness = known.off(worst)
    return (
        f"{len(wrong)} runs contradict the curve: at {worst.rate:.4g}/s the response was "
        f"{100 * worst.value:.0f} % of the limit and should be "
        f"{100 * worst.value / math.exp(left):.0f} % ({sureness:.0f} standard errors)"
    )


def _contradicts(left: float, sureness: float) -> bool:
    return abs(left) > LEAST and sureness > CLEARLY


def _known(criterion: Criterion, result: PeakResult) -> _Known | None:
    """Return the curve of a result; None where it has none, or no noise."""
    noise_s = result.components.within_s
    points = [p for p in result.curve if min(p.low, p.middle) > 0]
    if noise_s is None or len(points) < 3 or criterion.better != "lower":
        return None
    rate = np.log([p.rate for p in points])
    level = np.log([p.middle / criterion.limit for p in points])
    ends = np.log([p.high / p.low for p in points])
    slope = np.asarray(np.gradient(level, rate), dtype=np.float64)
    return _Known(rate, level, ends / (2 * 1.96), slope, noise_s)
