"""Medians and percentiles with intervals between order statistics.

Purpose: exact intervals without any assumption about the distribution: the number of
values below the true quantile is binomial, so ranks bound it. At one look, or at every
look at once (a confidence sequence by a beta-binomial mixture, exact as well).
Decision: ranks are widened where the indicators "below the quantile" are dependent
(longrun.py); for independent values they rarely are, and never narrowed. Where n is too
small for the confidence asked for there is no interval: NaN, not a wrong one. Of a
median at 95 % that is n < 6; of the 99th percentile n < 368.
Non-goals: smoothed quantiles, kernel estimates, the bootstrap.
Sources: W. Conover, Practical Nonparametric Statistics, 3.2; S. Howard and A. Ramdas 2022,
Sequential estimation of quantiles, Bernoulli 28(3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from benchwright.model.estimate import Estimate
from benchwright.stats.confidence_sequence import prior_precision
from benchwright.stats.longrun import long_run_sdev
from benchwright.stats.moments import FloatArray, finite, median

METHOD = "order-statistics"
SEQUENCE_METHOD = "order-statistics-sequence"
TUNED_FOR = 30
FEWEST = 20
"""Values from which on dependence can be told from chance at all."""
UNDERESTIMATE = 1.1
"""The slow cosines see a correlated series' long-run deviation some 10 % too small."""

Ranks = tuple[int, int]
"""Ranks of the interval's ends, from 1; 0 and n + 1 where there is no end."""


@lru_cache(maxsize=4096)
def exact_ranks(n: int, share: float, confidence: float) -> Ranks:
    """Return the innermost ranks that each leave at most half of 1 - confidence outside."""
    from scipy.special import bdtr

    tail = (1 - confidence) / 2
    below = bdtr(np.arange(n + 1), n, share)
    low = int(np.searchsorted(below, tail, side="right"))
    high = int(np.searchsorted(below, 1 - tail, side="left")) + 1
    return low, high


@lru_cache(maxsize=4096)
def sequence_ranks(n: int, share: float, confidence: float) -> Ranks:
    """Return ranks that hold at every n at once: the counts that a beta-binomial
    mixture's likelihood ratio against `share` does not exclude."""
    from scipy.special import betaln

    counts = np.arange(n + 1)
    weight = prior_precision(TUNED_FOR, confidence)
    first, second = weight * share, weight * (1 - share)
    log_ratio = (
        betaln(first + counts, second + n - counts)
        - betaln(first, second)
        - counts * math.log(share)
        - (n - counts) * math.log1p(-share)
    )
    kept = np.flatnonzero(log_ratio < -math.log(1 - confidence))
    return int(kept[0]), int(kept[-1]) + 1


def quantile(values: FloatArray, share: float) -> float:
    """Return the quantile of finite values, linear between order statistics; NaN for n = 0."""
    if not values.size:
        return math.nan
    if share == 0.5:
        return median(values)
    place = share * (values.size - 1)
    low = int(place)
    ordered = np.sort(values)
    a, b = float(ordered[low]), float(ordered[min(low + 1, values.size - 1)])
    rest = place - low
    return a * (1 - rest) + b * rest


def _factor(values: FloatArray, share: float) -> float:
    """Return by what factor, at least 1, dependence widens the ranks."""
    spread = long_run_sdev((values <= quantile(values, share)).astype(np.float64))
    return max(1.0, UNDERESTIMATE * spread / math.sqrt(share * (1 - share)))


def _stretched(ordered: Ranks, values: FloatArray, share: float) -> Ranks:
    """Return ranks as far out as the dependence of the values asks for."""
    n = int(values.size)
    factor = 1.0 if n < FEWEST else _factor(values, share)
    if factor == 1:
        return ordered
    low, high = ordered
    centre = n * share + 0.5
    return (
        max(math.floor(centre - factor * (centre - low)), 0),
        min(math.ceil(centre + factor * (high - centre)), n + 1),
    )


def quantile_interval(
    values: FloatArray | Sequence[float],
    share: float,
    confidence: float = 0.95,
    unit: str = "",
) -> Estimate:
    """Return the quantile with its interval, for data looked at once.

    NaN at an end that n is too small to bound. `share` lies in (0, 1): 0.5 is the median.
    """
    data = finite(values)
    if data.size < 2:
        return _estimate(
            data, (0, int(data.size) + 1), share, (confidence, METHOD, unit)
        )
    ranks = exact_ranks(data.size, share, confidence)
    return _estimate(
        data, _stretched(ranks, data, share), share, (confidence, METHOD, unit)
    )


def quantile_sequence_interval(
    values: FloatArray | Sequence[float],
    share: float,
    confidence: float = 0.95,
    unit: str = "",
) -> Estimate:
    """Return the quantile with its interval at this look of many."""
    data = finite(values)
    if data.size < 2:
        return _estimate(
            data, (0, int(data.size) + 1), share, (confidence, SEQUENCE_METHOD, unit)
        )
    ranks = sequence_ranks(data.size, share, confidence)
    return _estimate(
        data, _stretched(ranks, data, share), share, (confidence, SEQUENCE_METHOD, unit)
    )


def _estimate(
    data: FloatArray, ranks: Ranks, share: float, rest: tuple[float, str, str]
) -> Estimate:
    ordered = np.sort(data)
    low = float(ordered[ranks[0] - 1]) if ranks[0] >= 1 else math.nan
    high = float(ordered[ranks[1] - 1]) if ranks[1] <= data.size else math.nan
    confidence, method, unit = rest
    value = quantile(data, share)
    return Estimate(value, low, high, confidence, method, int(data.size), unit)
