"""How a series changes over its trials: warm-up and trend."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

import msgspec

from benchwright.stats import special
from benchwright.stats.sample import finite_values, moments, plain_floats, standardized

if TYPE_CHECKING:
    from benchwright.core.numeric import NDArray
    from benchwright.stats.arrays import FloatArray, IntArray, SampleValues

# -- Warm-up: how many of the first trials differ from the rest ------------------------
#
# Purpose: MSER truncation shows where the steady part begins; a test shows whether the values
# before it really differ, so that clean data have no finding.
# Method: MSER (White 1997) removes the first d values, at most half, for which the standard
# error of the mean of the rest is smallest. The test compares the first 1, 2, 3, 4, 5, 7, ...
# values, up to a third, with the rest by the pooled t, which is correct if both are alike; the
# smallest P-value is multiplied by the number of comparisons (Bonferroni: on clean normal data
# it rejects somewhat less often than its level).
# Decision: MSER on single values and not on batches of 5: trials are few, and a warm-up of 3
# trials must be detected. Rejected: Welch's t, which with 5 values hardly ever rejects.
# Nothing is removed from any figure here; the caller reports the warm-up.
# The t is for values of one normal distribution. If rare trials are slow, it rejects whenever one
# of them is the first, so the caller confirms it by a permutation test: the share of random orders
# of the same values in which some beginning differs as much. Its level holds for values of any
# distribution whose order is random. That 1 value of n is first has probability 1/n, so one slow
# first trial of 30 is no evidence of a warm-up.
# Non-goals: cool-down, several changes, slow drift (below).
# Sources: K. P. White 1997, An effective truncation heuristic for bias reduction in
# simulation output, Simulation 69(6).

MIN_VALUES_FOR_WARMUP = 10
"""Minimum of values for a report about a warm-up."""


class Truncation(msgspec.Struct, frozen=True):
    """The values that MSER would remove, and whether they differ from the rest."""

    removed: int
    """Number of first values to remove; may be 0."""
    n: int
    mean_before: float
    """Mean of the values to remove; NaN without any."""
    mean_after: float
    """Mean of the rest."""
    p: float
    """P-value, adjusted, of no difference between the first values and the rest; NaN for
    n < 10 and for constant values."""


def mser_truncation(values: SampleValues, inflation: float = 1.0) -> Truncation:
    """Return the truncation of a series, shape `(n,)`, in order of trials.

    `inflation`, at least 1, is the factor by which dependence widens the interval of a mean
    (dependence.inflation). Values that are not finite are ignored. Nothing is removed for
    n < 10 or from constant values.
    """
    data = finite_values(values)
    n = len(data)
    spread = moments(data)
    if n < MIN_VALUES_FOR_WARMUP or not spread.sdev:
        return Truncation(0, n, math.nan, spread.mean, math.nan)
    # In standard deviations, so that squares do not overflow.
    scaled = standardized(data, spread)
    sums = [0.0, *accumulate(scaled)]
    squares = [0.0, *accumulate(value * value for value in scaled)]
    best, p = _most_different(sums, squares, inflation)
    cut = _smallest_error(sums, squares) or (best if p < 0.05 else 0)
    if not cut:
        return Truncation(0, n, math.nan, spread.mean, p)
    return Truncation(cut, n, moments(data[:cut]).mean, moments(data[cut:]).mean, p)


ORDERS = 1999
"""Random orders of the permutation test: the smallest P-value is 0.0005."""
_VALUES_AT_ONCE = 1_000_000
"""Values of orders that are in memory together: 8 MB."""
_ORDERS_SEED = 20_261_121


def chance_of_order(values: SampleValues) -> float:
    """Return the probability that first values differ from the rest as much as here, over all
    orders of these values, shape `(n,)`; NaN for n < 10 and for constant values.

    The beginnings and the statistic are those of `mser_truncation`.
    """
    from benchwright.core.numeric import np

    data = finite_values(values)
    spread, n = moments(data), len(data)
    if n < MIN_VALUES_FOR_WARMUP or not spread.sdev:
        return math.nan
    scaled = np.array(standardized(data, spread))
    scaled -= scaled.mean()
    cuts = np.array(beginnings(n // 3))
    # The sum of all is 0 and the sum of squares does not depend on the order, so t grows with this.
    weight = np.sqrt(n / (cuts * (n - cuts)))

    def largest(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = np.cumsum(rows[:, : n // 3], axis=1)[:, cuts - 1]
        farthest: NDArray[np.float64] = (np.abs(sums) * weight).max(axis=1)
        return farthest

    least = float(largest(scaled[None, :])[0]) * (1 - 1e-9)
    rng = np.random.default_rng(_ORDERS_SEED)
    as_far, left = 1, ORDERS
    while left:
        rows = min(left, max(_VALUES_AT_ONCE // n, 1))
        orders = rng.permuted(np.tile(scaled, (rows, 1)), axis=1)
        as_far += int((largest(orders) >= least).sum())
        left -= rows
    return as_far / (ORDERS + 1)


def chance_of_wandering(values: FloatArray, groups: IntArray) -> float:
    """Return the probability that values in order of time wander as much as here, over all orders
    within their groups; NaN where all are 0.

    Both have shape `(n,)`; the values of each group have the mean 0. The statistic is the sum of
    the products of all pairs, weighted by exp(-distance / 2): it sees a drift, a step and values
    that are like their neighbours. It assumes nothing of the distribution in a group, which may
    differ from that of another. Rejected: the sum of the squares of the partial sums, which sees
    a drift as well, and a correlation of 0.7 between neighbours in a third of the series of 21
    instead of in half of them.
    """
    from benchwright.core.numeric import np

    def wandering(rows: FloatArray) -> FloatArray:
        pairs, near = np.zeros(len(rows)), np.zeros(len(rows))
        for column in rows.T:
            pairs += near * column
            near = (near + column) * math.exp(-1 / 2)
        return pairs

    if not (values != 0).any():
        return math.nan
    seen = float(wandering(values[None, :])[0])
    least = seen - 1e-9 * float(values @ values)
    rng = np.random.default_rng(_ORDERS_SEED)
    as_far, left = 1, ORDERS
    while left:
        rows = min(left, max(_VALUES_AT_ONCE // len(values), 1))
        orders = np.tile(values, (rows, 1))
        for group in range(int(groups.max()) + 1):
            places = groups == group
            orders[:, places] = rng.permuted(orders[:, places], axis=1)
        as_far += int((wandering(orders) >= least).sum())
        left -= rows
    return as_far / (ORDERS + 1)


def _smallest_error(sums: Sequence[float], squares: Sequence[float]) -> int:
    """Return the number of first values, at most half, without which the squared standard error
    is smallest; the arguments are sums of the first 0, 1, 2, ... values and of their squares."""
    n, total, square = len(sums) - 1, sums[-1], squares[-1]

    def error(cut: int) -> float:
        rest, left = total - sums[cut], n - cut
        return (square - squares[cut] - rest * rest / left) / (left * left)

    return min(range(n // 2 + 1), key=error)


def _most_different(
    sums: Sequence[float], squares: Sequence[float], inflation: float
) -> tuple[int, float]:
    """Return the number of first values that differ most from the rest, and the adjusted P-value."""
    n, total = len(sums) - 1, sums[-1]

    def t(cut: int) -> float:
        first, rest, left = sums[cut], total - sums[cut], n - cut
        within = squares[-1] - first * first / cut - rest * rest / left
        variance = max(within, 1e-300) / (n - 2) * (1 / cut + 1 / left)
        return abs(first / cut - rest / left) / math.sqrt(variance)

    cuts = beginnings(n // 3)
    cut = max(cuts, key=t)
    p = 2 * special.t_cdf(n - 2, -t(cut) / inflation) * len(cuts)
    return cut, min(p, 1.0)


def beginnings(most: int) -> list[int]:
    """Return 1, 2, 3, 4, 5, 7, 10, 14, ... up to `most`: dense enough to detect a warm-up of
    any other length too."""
    cuts, cut = [], 1
    while cut <= most:
        cuts.append(cut)
        cut = max(cut + 1, cut * 7 // 5)
    return cuts


# -- Trend: is there a drift over the trials, and how steep is it? ---------------------
#
# Purpose: to detect leaks and slow-downs. Mann-Kendall's test shows whether values tend to rise
# or fall in the order of trials; Theil-Sen's slope, the median of all slopes between two
# trials, shows by how much, with Sen's interval. They use ranks and medians, so one outlier
# changes neither.
# Decision: these rather than the paper's least-squares slope, which one slow first trial can
# reverse. Where neighbouring trials are correlated, the test's variance is widened by the same
# factor as that of the ranks' mean (dependence.py); otherwise every slow wave would be a drift.
# Above 1000 trials both use 1000 evenly spaced ones.
# Non-goals: warm-up, which the caller removes first; seasonal changes.
# Sources: H. Mann 1945; P. Sen 1968, Estimates of the regression coefficient based on
# Kendall's tau, JASA 63(324); K. Hamed and A. Rao 1998 for the correction's idea.

MAX_TREND_VALUES = 1000
"""Maximum of values of which all pairs are used."""


class TrendTest(msgspec.Struct, frozen=True):
    """Mann-Kendall's test of whether a series rises or falls."""

    n: int
    s: int
    """Number of rising pairs of trials minus number of falling ones."""
    p: float
    """Two-sided P-value by the normal approximation with continuity correction; NaN for n < 2 and
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


def mann_kendall(values: SampleValues, inflation: float = 1.0) -> TrendTest:
    """Return the test of values, shape `(n,)`, in the order of trials.

    Values that are not finite are ignored. `inflation`, at least 1, is the factor by which
    dependence widens the interval of a mean (dependence.inflation).
    """
    everything = finite_values(values)
    data = _thinned(everything)
    s = 0
    before: list[float] = []
    for value in data:
        s += bisect_left(before, value) - (len(before) - bisect_right(before, value))
        insort(before, value)
    deviation = math.sqrt(_variance_of_s(data)) * inflation
    if not deviation:
        return TrendTest(len(everything), s, math.nan)
    # S moves in steps of 2 (of 1 with ties): half a step is the continuity correction.
    distance = max(abs(s) - 1, 0) / deviation
    return TrendTest(len(everything), s, 2 * special.normal_cdf(-distance))


def theil_sen(
    values: SampleValues,
    epochs: Sequence[int] | None = None,
    *,
    confidence: float = 0.95,
    inflation: float = 1.0,
) -> Slope:
    """Return the slope of values, shape `(n,)`, over their epochs; 0 .. n-1 if not given."""
    # 1000 values have half a million pairs, so numpy is used only where there is a trend.
    from benchwright.core.numeric import np

    every = plain_floats(values)
    places = range(len(every)) if epochs is None else epochs
    kept = [
        (value, place) for value, place in zip(every, places, strict=True) if math.isfinite(value)
    ]
    thinned, n = _thinned(kept), len(kept)
    if n < 2 or thinned[0][1] == thinned[-1][1]:
        return Slope(n, math.nan, math.nan, math.nan, confidence)
    data, x = np.array(thinned, dtype=np.float64).T
    # Half of each slope: the slope itself may overflow a float.
    halves = data / 2
    rise = np.concatenate([halves[at + 1 :] - halves[at] for at in range(data.size - 1)])
    step = np.concatenate([x[at + 1 :] - x[at] for at in range(x.size - 1)])
    apart = step != 0
    slopes = rise[apart] / step[apart]
    low, high = _interval_places(
        slopes.size, math.sqrt(_variance_of_s(data.tolist())) * inflation, confidence
    )
    middle = ((slopes.size - 1) // 2, slopes.size // 2)
    # Only these four ranks are needed; a full sort takes five times as long.
    ranks = [rank for rank in (*middle, low, high) if rank is not None]
    slopes = np.partition(slopes, sorted(set(ranks)))
    value = float(slopes[middle[0]]) + float(slopes[middle[1]])
    ends = [math.nan if r is None else 2 * float(slopes[r]) for r in (low, high)]
    return Slope(n, value, ends[0], ends[1], confidence)


_Kept = TypeVar("_Kept")


def _thinned(data: Sequence[_Kept]) -> Sequence[_Kept]:
    """Return at most 1000 items, evenly spaced."""
    if len(data) <= MAX_TREND_VALUES:
        return data
    step = (len(data) - 1) / (MAX_TREND_VALUES - 1)
    return [data[round(place * step)] for place in range(MAX_TREND_VALUES)]


def _variance_of_s(data: Sequence[float]) -> float:
    """Return the variance of S without a trend, corrected for ties (Sen 1968)."""
    n = len(data)
    ties = Counter(data).values()
    tied = sum(count * (count - 1) * (2 * count + 5) for count in ties)
    return max(n * (n - 1) * (2 * n + 5) - tied, 0) / 18


def _interval_places(
    count: int, deviation: float, confidence: float
) -> tuple[int | None, int | None]:
    """Return the indexes, from 0, of the ordered slopes that bound the true slope; None where
    there are too few slopes for an interval."""
    reach = special.normal_quantile(0.5 + confidence / 2) * deviation
    low, high = round((count - reach) / 2), round((count + reach) / 2)
    if low < 1 or high >= count:
        return None, None
    return low - 1, high
