"""Autocorrelation: do neighbouring trials resemble each other, and what is left of n?

Purpose: to say when trials are not independent, and how many independent ones they are
worth. The test is of ranks (Bartels' ratio of von Neumann): outliers and skewness do not
move it. The effective size sums the autocorrelations that are reliably positive (Geyer's
initial positive sequence).
Decision: only positive dependence is a doubt: it makes intervals too narrow. Negative
makes them too wide, which misleads nobody.
Non-goals: repairing it (longrun.py widens what can be), models of the dependence.
Sources: R. Bartels 1982, The rank version of von Neumann's ratio test for randomness,
JASA 77(377); C. Geyer 1992, Practical Markov chain Monte Carlo, Statistical Science 7(4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from benchwright.stats.moments import FloatArray, finite, moments

FEWEST = 10
"""Values below which nothing is said of dependence."""


class Dependence(msgspec.Struct, frozen=True):
    """How much the values of a series depend on those before them."""

    n: int
    lag_1: float
    """Correlation of neighbours, its bias of about -1/n taken out; NaN for n < 3."""
    rank_lag_1: float
    """The same of their ranks, which outliers do not move."""
    effective: float
    """How many independent values these are worth for their mean; at most n."""
    p: float
    """P-value of independence against positive correlation; NaN for n < 10 and for
    constant values."""


def autocorrelations(values: FloatArray | Sequence[float], most: int) -> FloatArray:
    """Return the autocorrelations at lags 0 .. `most`, shape `(most + 1,)`.

    Divided by n at every lag. NaN for constant values; a lag of n or more has 0.
    """
    data = finite(values)
    spread = moments(data)
    result = np.zeros(most + 1)
    if spread.n < 2 or not spread.sdev:
        return np.full(most + 1, math.nan)
    scaled = (data / 2 - spread.mean / 2) / (spread.sdev / 2)
    total = float(np.dot(scaled, scaled))
    for lag in range(min(most, spread.n - 1) + 1):
        result[lag] = np.dot(scaled[lag:], scaled[: spread.n - lag]) / total
    return result


def dependence(values: FloatArray | Sequence[float]) -> Dependence:
    """Return how dependent a series is, shape `(n,)`, in the order of trials."""
    data = finite(values)
    n = int(data.size)
    spread = moments(data)
    if n < 3 or not spread.sdev:
        return Dependence(n, math.nan, math.nan, float(n), math.nan)
    found = autocorrelations(data, min(n - 1, max(10, n // 4)))
    first, ranked = (
        unbiased(float(one[1]), n)
        for one in (found, autocorrelations(average_ranks(data), 1))
    )
    p = math.nan if n < FEWEST else _bartels(data)
    return Dependence(n, first, ranked, _effective(found, n), p)


def unbiased(first: float, n: int) -> float:
    """Return a lag-1 correlation with its bias of about -1/n taken out, within +-1."""
    return min(max(first + (1 + 3 * first) / n, -1.0), 1.0)


def _bartels(data: FloatArray) -> float:
    """Return the one-sided P-value of the rank von Neumann ratio, beta approximation."""
    from scipy.special import betainc

    n = data.size
    ranks = average_ranks(data)
    deviations = ranks - ranks.mean()
    steps = np.diff(ranks)
    ratio = float(np.dot(steps, steps) / np.dot(deviations, deviations))
    # Bartels: RVN / 4 is nearly a beta variable on (0, 1) with both parameters this.
    shape = (
        5 * n * (n + 1) * (n - 1) ** 2 / (2 * (n - 2) * (5 * n**2 - 2 * n - 9)) - 0.5
    )
    return float(betainc(shape, shape, min(max(ratio / 4, 0.0), 1.0)))


def average_ranks(data: FloatArray) -> FloatArray:
    """Return the ranks from 1 of values, shape `(n,)`; ties share their mean rank."""
    _, inverse, counts = np.unique(data, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse])


def _effective(found: FloatArray, n: int) -> float:
    """Return n / (1 + 2 sum of autocorrelations), summed in pairs of lags while a pair's
    sum is positive; within 1 .. n."""
    total = 0.0
    for lag in range(0, found.size - 1, 2):
        pair = float(found[lag] + found[lag + 1])
        if pair <= 0:
            break
        total += pair
    return min(max(n / max(2 * total - 1, 1.0), 1.0), float(n))
