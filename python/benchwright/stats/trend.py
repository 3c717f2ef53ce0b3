"""Trend: is there a drift over the trials, and how steep is it?

Purpose: leaks and slow-downs. Mann-Kendall's test says whether values tend to rise or
fall in the order of trials; Theil-Sen's slope, the median of all slopes between two
trials, says by how much, with Sen's interval. Both are ranks and medians: one outlier
moves neither.
Decision: these rather than the paper's least-squares slope, which one slow first trial
tips over. Where neighbouring trials are correlated the test's variance is widened by
the same factor as that of the ranks' mean (longrun.py): otherwise every slow wave is a
drift. Above 1000 trials both look at 1000 evenly spaced ones.
Non-goals: warm-up, which is removed first by the caller; seasonal changes.
Sources: H. Mann 1945; P. Sen 1968, Estimates of the regression coefficient based on
Kendall's tau, JASA 63(324); K. Hamed and A. Rao 1998 for the correction's idea.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from benchwright.stats.moments import FloatArray, IntArray, finite

MOST = 1000
"""Values of which all pairs are looked at."""


class Monotonic(msgspec.Struct, frozen=True):
    """Mann-Kendall's test of a series that rises or falls."""

    n: int
    s: int
    """Pairs of trials that rise less those that fall."""
    p: float
    """Two-sided, normal approximation with continuity correction; NaN for n < 2 and for
    constant values."""


class Slope(msgspec.Struct, frozen=True):
    """Theil-Sen's slope over epochs, in the values' unit per epoch."""

    n: int
    value: float
    """NaN for n < 2."""
    low: float
    """Ends of Sen's interval; NaN where n is too small for one."""
    high: float
    confidence: float


def mann_kendall(
    values: FloatArray | Sequence[float], inflation: float = 1.0
) -> Monotonic:
    """Return the test of values, shape `(n,)`, in the order of trials.

    Values that are not finite are left out. `inflation`, at least 1, is how much wider
    dependence makes the interval of a mean (longrun.inflation).
    """
    everything = finite(values)
    data = _thinned(everything)
    # Row: earlier or later; column: the value that is greater. Above the diagonal: a rise.
    greater = data[np.newaxis, :] > data[:, np.newaxis]
    rises = int(np.count_nonzero(np.triu(greater, 1)))
    s = 2 * rises - int(np.count_nonzero(greater))
    deviation = math.sqrt(_variance(data)) * inflation
    if not deviation:
        return Monotonic(int(everything.size), s, math.nan)
    from scipy.special import ndtr

    # S moves in steps of 2 (of 1 with ties): half a step is the continuity correction.
    distance = max(abs(s) - 1, 0) / deviation
    return Monotonic(int(everything.size), s, float(2 * ndtr(-distance)))


def theil_sen(
    values: FloatArray | Sequence[float],
    epochs: IntArray | Sequence[int] | None = None,
    *,
    confidence: float = 0.95,
    inflation: float = 1.0,
) -> Slope:
    """Return the slope of values, shape `(n,)`, over their epochs; 0 .. n-1 if not given."""
    data = np.asarray(values, dtype=np.float64).reshape(-1)
    x = np.arange(data.size) if epochs is None else np.asarray(epochs)
    kept = np.isfinite(data)
    n = int(kept.sum())
    data, x = _thinned(data[kept]), _thinned(x[kept].astype(np.float64))
    if data.size < 2 or x[0] == x[-1]:
        return Slope(n, math.nan, math.nan, math.nan, confidence)
    slopes = _slopes(data, x)
    low, high = _sen(slopes.size, math.sqrt(_variance(data)) * inflation, confidence)
    middle = ((slopes.size - 1) // 2, slopes.size // 2)
    # Only these four ranks are asked for: a full sort costs five times as much.
    ranks = [rank for rank in (*middle, low, high) if rank is not None]
    slopes = np.partition(slopes, sorted(set(ranks)))
    value = float(slopes[middle[0]]) + float(slopes[middle[1]])
    ends = [math.nan if r is None else 2 * float(slopes[r]) for r in (low, high)]
    return Slope(n, value, ends[0], ends[1], confidence)


def _slopes(data: FloatArray, x: FloatArray) -> FloatArray:
    """Return half the slope between every two values of different epochs; the whole one
    may be no float."""
    halves = data / 2
    rises = [halves[place + 1 :] - halves[place] for place in range(data.size - 1)]
    steps = [x[place + 1 :] - x[place] for place in range(x.size - 1)]
    rise, step = np.concatenate(rises), np.concatenate(steps)
    apart = step != 0
    return np.asarray(rise[apart] / step[apart])


def _thinned(data: FloatArray) -> FloatArray:
    """Return at most 1000 values, evenly spaced."""
    if data.size <= MOST:
        return data
    return data[np.linspace(0, data.size - 1, MOST).round().astype(np.int64)]


def _variance(data: FloatArray) -> float:
    """Return the variance of S without a trend, ties taken into account (Sen 1968)."""
    n = data.size
    _, ties = np.unique(data, return_counts=True)
    tied = float(np.sum(ties * (ties - 1) * (2 * ties + 5)))
    return max(n * (n - 1) * (2 * n + 5) - tied, 0.0) / 18


def _sen(
    count: int, deviation: float, confidence: float
) -> tuple[int | None, int | None]:
    """Return the places, from 0, of the ordered slopes that bound the true one; None where
    there are too few for an interval."""
    from scipy.special import ndtri

    reach = float(ndtri(0.5 + confidence / 2)) * deviation
    low, high = round((count - reach) / 2), round((count + reach) / 2)
    if low < 1 or high >= count:
        return None, None
    return low - 1, high
