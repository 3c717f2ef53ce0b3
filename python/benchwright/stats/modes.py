"""Modes: do the values fall into two groups with nothing between?

Purpose: a metric with a fast and a slow mode has a mean that no trial ever shows.
Method: the widest gap between neighbouring values, in standard deviations within the
two groups that it parts. Unimodal data (normal, lognormal, gamma) leave such a gap with
the probability that `limit` is set for.
Decision: a gap rather than the dip test or a mixture's likelihood: a slow mode of 15 %
in 30 trials is four or five values, which the dip test does not see, and a mixture
takes every skewed tail for a mode. The gap must be there on the plain scale and, where
all values are positive, on the logarithmic one too; and it must be wider than the steps
of quantised values, such as CPU times in ticks.
Non-goals: overlapping modes, which no test of 30 values can tell from one wide one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from benchwright.stats.moments import FloatArray, finite, moments

FEWEST = 10
"""Values below which no modes are looked for."""
SMALLEST_SHARE = 0.05
"""A smaller group is outliers, not a mode,"""
PAIRS_FROM = 20
"""... and so are two values of fewer than this, such as two late wake-ups of ten: they say
nothing of how frequent a second mode is (3 to 56 %). From here on a slow mode of 15 % would
be missed too often without them."""


class Modes(msgspec.Struct, frozen=True):
    """Two groups of values."""

    low: float
    """Mean of the lower group."""
    high: float
    n_low: int
    n_high: int
    gap: float
    """Between the groups, in standard deviations within them."""


def two_modes(
    values: FloatArray | Sequence[float], alpha: float = 0.01
) -> Modes | None:
    """Return the two groups of a series' values, shape `(n,)`, or None.

    Unimodal data are parted with probability `alpha` or less. None for fewer than 10
    finite values. Each group has at least 2 values, 3 of fewer than 20, and 5 %.
    """
    ordered = np.sort(finite(values))
    n = int(ordered.size)
    if n < FEWEST or ordered[0] == ordered[-1]:
        return None
    cut, gap = _widest(ordered)
    bound = limit(n, alpha)
    if gap <= bound or not _wider_than_steps(ordered, cut):
        return None
    if ordered[0] > 0:
        gap = min(gap, _gap_at(np.log(ordered), cut))
        if gap <= bound:
            return None
    low, high = moments(ordered[:cut]), moments(ordered[cut:])
    return Modes(low.mean, high.mean, low.n, high.n, gap)


def limit(n: int, alpha: float) -> float:
    """Return the widest gap that n unimodal values show with probability 1 - alpha.

    Fitted to simulated normal samples for n from 10 to 300 (tests/unit/
    test_stats_series.py); lognormal and gamma values of a CV up to 30 % have narrower
    gaps. Not below 2.5: a smaller gap parts nothing that a reader would call two modes.
    """
    return max(2.5, (15.5 - 5.0 * math.log10(alpha)) / math.pow(n, 0.8))


def _widest(ordered: FloatArray) -> tuple[int, float]:
    """Return the size of the lower group at the widest gap, and that gap."""
    n = ordered.size
    fewest = max(2 if n >= PAIRS_FROM else 3, math.ceil(SMALLEST_SHARE * n))
    spread = moments(ordered)
    scaled = (ordered / 2 - spread.mean / 2) / (spread.sdev / 2)
    sums, squares = np.cumsum(scaled), np.cumsum(scaled * scaled)
    cuts = np.arange(fewest, n - fewest + 1)
    lower, upper = sums[cuts - 1], sums[-1] - sums[cuts - 1]
    within = squares[-1] - lower**2 / cuts - upper**2 / (n - cuts)
    sdev = np.sqrt(np.maximum(within, 1e-24) / (n - 2))
    gaps = (scaled[cuts] - scaled[cuts - 1]) / sdev
    best = int(np.argmax(gaps))
    return int(cuts[best]), float(gaps[best])


def _gap_at(ordered: FloatArray, cut: int) -> float:
    low, high = ordered[:cut], ordered[cut:]
    within = float(np.sum((low - low.mean()) ** 2) + np.sum((high - high.mean()) ** 2))
    sdev = math.sqrt(max(within, 1e-300) / (ordered.size - 2))
    return (float(high[0]) - float(low[-1])) / sdev


def _wider_than_steps(ordered: FloatArray, cut: int) -> bool:
    """Tell whether the gap is wider than twice the typical step between values that
    differ: that of quantised values is one step."""
    steps = np.diff(np.unique(ordered))
    gap = ordered[cut] - ordered[cut - 1]
    return steps.size >= 3 and bool(gap > 2 * np.median(steps))
