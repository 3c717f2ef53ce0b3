"""Warm-up: how many of the first trials are not like the rest.

Purpose: MSER truncation says where the steady part begins; a test says whether what
came before really differs, so that clean data are not accused.
Method: MSER (White 1997) removes the first d values that make the standard error of the
mean of the rest smallest, at most half of them. The test compares beginnings of 1, 2, 3,
4, 5, 7, ... values, up to a third, with their rests by the pooled t, which is right while
both are alike; the smallest P-value is multiplied by the number of beginnings tried
(Bonferroni: on clean normal data it rejects somewhat less often than it may).
Decision: MSER on single values and not on batches of 5: trials are few, and a warm-up of
3 trials must be seen. Welch's t in the test lost: with 5 values it hardly ever rejects.
Nothing is removed here from any figure: the caller reports.
Non-goals: cool-down, several changes (changes.py), slow drift (trend.py).
Sources: K. P. White 1997, An effective truncation heuristic for bias reduction in
simulation output, Simulation 69(6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from benchwright.stats.moments import FloatArray, IntArray, finite, moments

FEWEST = 10
"""Values below which nothing can be said of a warm-up."""


class Truncation(msgspec.Struct, frozen=True):
    """What MSER would remove, and whether that part differs from the rest."""

    removed: int
    """How many of the first values; 0 where none."""
    n: int
    mean_before: float
    """Mean of what would be removed; NaN where nothing is."""
    mean_after: float
    """Mean of the rest."""
    p: float
    """P-value that no beginning differs from its rest, all of them considered; NaN for
    n < 10 and for constant values."""


def mser_truncation(
    values: FloatArray | Sequence[float], inflation: float = 1.0
) -> Truncation:
    """Return the truncation of a series, shape `(n,)`, in order of trials.

    `inflation`, at least 1, is how much wider dependence makes the interval of a mean
    (longrun.inflation). Values that are not finite are left out. Nothing is removed for n < 10, nor from
    constant values.
    """
    data = finite(values)
    n = int(data.size)
    spread = moments(data)
    if n < FEWEST or not spread.sdev:
        return Truncation(0, n, math.nan, spread.mean, math.nan)
    # In standard deviations, so that no value's size overflows a square.
    scaled = (data / 2 - spread.mean / 2) / (spread.sdev / 2)
    sums, squares = np.cumsum(scaled), np.cumsum(scaled * scaled)
    best, p = _most_different(sums, squares, inflation)
    cut = _smallest_error(sums, squares) or (best if p < 0.05 else 0)
    if not cut:
        return Truncation(0, n, math.nan, spread.mean, p)
    return Truncation(cut, n, moments(data[:cut]).mean, moments(data[cut:]).mean, p)


def _smallest_error(sums: FloatArray, squares: FloatArray) -> int:
    """Return the cut, at most half, whose rest has the smallest squared standard error;
    the arguments are running sums of the values and of their squares."""
    n = sums.size
    cuts = np.arange(n // 2 + 1)
    rest, total = _after(sums, cuts), _after(squares, cuts)
    error = (total - rest * rest / (n - cuts)) / (n - cuts) ** 2
    return int(np.argmin(error))


def _most_different(
    sums: FloatArray, squares: FloatArray, inflation: float
) -> tuple[int, float]:
    """Return the beginning that is least like its rest, and its P-value, adjusted."""
    from scipy.special import stdtr

    n = sums.size
    cuts = beginnings(n // 3)
    first, rest = sums[cuts - 1], _after(sums, cuts)
    within = squares[-1] - first * first / cuts - rest * rest / (n - cuts)
    variance = np.maximum(within, 1e-300) / (n - 2) * (1 / cuts + 1 / (n - cuts))
    t = np.abs(first / cuts - rest / (n - cuts)) / np.sqrt(variance)
    place = int(np.argmax(t))
    p = 2 * float(stdtr(n - 2, -t[place] / inflation)) * cuts.size
    return int(cuts[place]), min(p, 1.0)


def beginnings(most: int) -> IntArray:
    """Return 1, 2, 3, 4, 5, 7, 10, 14, ... up to `most`: dense enough that a warm-up of
    another length is seen as its neighbour."""
    cuts, cut = [], 1
    while cut <= most:
        cuts.append(cut)
        cut = max(cut + 1, cut * 7 // 5)
    return np.array(cuts, dtype=np.int64)


def _after(running: FloatArray, cuts: IntArray) -> FloatArray:
    """Return what a running sum grows by after each cut."""
    before = np.where(cuts > 0, running[np.maximum(cuts, 1) - 1], 0.0)
    return np.asarray(running[-1] - before)
