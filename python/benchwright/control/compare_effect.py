"""The smallest effect that a watched comparison could have seen.

A watched comparison finds an effect when its confidence sequence first excludes 0, so
its power is a probability of first passage, for which there is no closed form with an
unknown variance. Decision: it is computed by simulation with a seed of its own, so that
the figure is a function of its arguments: shifting data by d shifts each path's mean
and leaves its spread, so one set of paths gives, for every path, the smallest d with
which it would have crossed; the answer is a quantile of those. A normal approximation
of the first passage lost: at 10 to 30 blocks it is off by more than the three points of
power that are promised (tests/calibration/test_compare.py measures ours).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from benchwright.stats.confidence_sequence import radius

PATHS = 20_000
"""Simulated comparisons: power is known to about 0.3 points."""


@lru_cache(maxsize=256)
def watched_effect(
    n: int, minimum: int, confidence: float, error: float, power: float
) -> float:
    """Return the mean, in standard deviations of a block's log ratio, that is found by
    block `n` with probability `power`, when looked at from block `minimum` on.

    `error` is that of one hypothesis. Infinite where n blocks can find nothing.
    """
    if n < max(2, minimum):
        return math.inf
    rng = np.random.default_rng(20261121)
    mean, square = np.zeros(PATHS), np.zeros(PATHS)
    least = np.full(PATHS, np.inf)
    for k in range(1, n + 1):
        # Pairs of mirrored paths: half of the noise of the quantile is gone.
        half = rng.standard_normal(PATHS // 2)
        distance = np.concatenate([half, -half]) - mean
        mean += distance / k
        square += distance * distance * ((k - 1) / k)
        reach = radius(k, confidence, error=error) if k >= max(2, minimum) else math.inf
        if math.isfinite(reach):
            np.minimum(least, reach * np.sqrt(square / (k - 1)) - mean, out=least)
    return float(np.sort(least)[math.ceil(power * PATHS) - 1])
