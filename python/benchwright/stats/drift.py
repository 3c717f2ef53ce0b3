"""How a series changes over its trials: warm-up, trend, change points."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from benchwright.stats import special
from benchwright.stats.moments import FloatArray, IntArray, finite, median, moments

# -- Warm-up: how many of the first trials are not like the rest -----------------------
#
# Purpose: MSER truncation says where the steady part begins; a test says whether what
# came before really differs, so that clean data are not accused.
# Method: MSER (White 1997) removes the first d values that make the standard error of the
# mean of the rest smallest, at most half of them. The test compares beginnings of 1, 2, 3,
# 4, 5, 7, ... values, up to a third, with their rests by the pooled t, which is right while
# both are alike; the smallest P-value is multiplied by the number of beginnings tried
# (Bonferroni: on clean normal data it rejects somewhat less often than it may).
# Decision: MSER on single values and not on batches of 5: trials are few, and a warm-up of
# 3 trials must be detected. Welch's t in the test lost: with 5 values it hardly ever rejects.
# Nothing is removed here from any figure: the caller reports.
# Non-goals: cool-down, several changes and slow drift (below).
# Sources: K. P. White 1997, An effective truncation heuristic for bias reduction in
# simulation output, Simulation 69(6).

MIN_VALUES_FOR_WARMUP = 10
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
    (dependence.inflation). Values that are not finite are left out. Nothing is removed for n < 10, nor from
    constant values.
    """
    data = finite(values)
    n = int(data.size)
    spread = moments(data)
    if n < MIN_VALUES_FOR_WARMUP or not spread.sdev:
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
    rest, total = _sums_after(sums, cuts), _sums_after(squares, cuts)
    error = (total - rest * rest / (n - cuts)) / (n - cuts) ** 2
    return int(np.argmin(error))


def _most_different(
    sums: FloatArray, squares: FloatArray, inflation: float
) -> tuple[int, float]:
    """Return the beginning that is least like its rest, and its P-value, adjusted."""
    n = sums.size
    cuts = beginnings(n // 3)
    first, rest = sums[cuts - 1], _sums_after(sums, cuts)
    within = squares[-1] - first * first / cuts - rest * rest / (n - cuts)
    variance = np.maximum(within, 1e-300) / (n - 2) * (1 / cuts + 1 / (n - cuts))
    t = np.abs(first / cuts - rest / (n - cuts)) / np.sqrt(variance)
    place = int(np.argmax(t))
    p = 2 * float(special.t_cdf(n - 2, float(-t[place] / inflation))) * cuts.size
    return int(cuts[place]), min(p, 1.0)


def beginnings(most: int) -> IntArray:
    """Return 1, 2, 3, 4, 5, 7, 10, 14, ... up to `most`: dense enough that a warm-up of
    another length is found by its neighbour."""
    cuts, cut = [], 1
    while cut <= most:
        cuts.append(cut)
        cut = max(cut + 1, cut * 7 // 5)
    return np.array(cuts, dtype=np.int64)


def _sums_after(running: FloatArray, cuts: IntArray) -> FloatArray:
    """Return what a running sum grows by after each cut."""
    before = np.where(cuts > 0, running[np.maximum(cuts, 1) - 1], 0.0)
    return np.asarray(running[-1] - before)


# -- Trend: is there a drift over the trials, and how steep is it? ---------------------
#
# Purpose: leaks and slow-downs. Mann-Kendall's test says whether values tend to rise or
# fall in the order of trials; Theil-Sen's slope, the median of all slopes between two
# trials, says by how much, with Sen's interval. Both are ranks and medians: one outlier
# moves neither.
# Decision: these rather than the paper's least-squares slope, which one slow first trial
# tips over. Where neighbouring trials are correlated the test's variance is widened by
# the same factor as that of the ranks' mean (dependence.py): otherwise every slow wave is a
# drift. Above 1000 trials both look at 1000 evenly spaced ones.
# Non-goals: warm-up, which is removed first by the caller; seasonal changes.
# Sources: H. Mann 1945; P. Sen 1968, Estimates of the regression coefficient based on
# Kendall's tau, JASA 63(324); K. Hamed and A. Rao 1998 for the correction's idea.

MAX_TREND_VALUES = 1000
"""Values of which all pairs are looked at."""


class TrendTest(msgspec.Struct, frozen=True):
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
) -> TrendTest:
    """Return the test of values, shape `(n,)`, in the order of trials.

    Values that are not finite are left out. `inflation`, at least 1, is how much wider
    dependence makes the interval of a mean (dependence.inflation).
    """
    everything = finite(values)
    data = _thinned(everything)
    # Row: earlier or later; column: the value that is greater. Above the diagonal: a rise.
    greater = data[np.newaxis, :] > data[:, np.newaxis]
    rises = int(np.count_nonzero(np.triu(greater, 1)))
    s = 2 * rises - int(np.count_nonzero(greater))
    deviation = math.sqrt(_variance_of_s(data)) * inflation
    if not deviation:
        return TrendTest(int(everything.size), s, math.nan)
    # S moves in steps of 2 (of 1 with ties): half a step is the continuity correction.
    distance = max(abs(s) - 1, 0) / deviation
    return TrendTest(int(everything.size), s, float(2 * special.normal_cdf(-distance)))


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
    low, high = _interval_places(
        slopes.size, math.sqrt(_variance_of_s(data)) * inflation, confidence
    )
    middle = ((slopes.size - 1) // 2, slopes.size // 2)
    # Only these four ranks are needed: a full sort costs five times as much.
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
    if data.size <= MAX_TREND_VALUES:
        return data
    return data[
        np.linspace(0, data.size - 1, MAX_TREND_VALUES).round().astype(np.int64)
    ]


def _variance_of_s(data: FloatArray) -> float:
    """Return the variance of S without a trend, ties taken into account (Sen 1968)."""
    n = data.size
    _, ties = np.unique(data, return_counts=True)
    tied = float(np.sum(ties * (ties - 1) * (2 * ties + 5)))
    return max(n * (n - 1) * (2 * n + 5) - tied, 0.0) / 18


def _interval_places(
    count: int, deviation: float, confidence: float
) -> tuple[int | None, int | None]:
    """Return the places, from 0, of the ordered slopes that bound the true one; None where
    there are too few for an interval."""
    reach = special.normal_quantile(0.5 + confidence / 2) * deviation
    low, high = round((count - reach) / 2), round((count + reach) / 2)
    if low < 1 or high >= count:
        return None, None
    return low - 1, high


# -- Change points: where a series' level jumps ----------------------------------------
#
# Purpose: to mark in a plot where the machine, or the program, became another one.
# Method: the partition into segments of constant mean with the least squared error plus a
# penalty for each change, found exactly (Jackson et al. 2005). The scale is that of the
# differences of neighbours, which a jump hardly moves.
# Decision: exact in O(n^2) and not PELT, whose pruning saves nothing where changes are
# rare; above 1000 values means of neighbours are taken. The penalty is calibrated so that
# clean normal data of 10 to 500 values show a change in at most 1 % of series
# (tests/unit/test_stats_series.py). Correlated trials look like small jumps: read a
# change together with the finding `dependent-trials`.
# Non-goals: slopes (above), variances, a level for a finding.
# Sources: B. Jackson et al. 2005, An algorithm for optimal partitioning of data on an
# interval, IEEE Signal Processing Letters 12(2); R. Killick et al. 2012 (PELT).

MIN_SEGMENT = 3
"""Values of the shortest segment."""
MAX_CHANGE_VALUES = 1000
"""Values of which a partition is looked for; of more, means of neighbours are taken."""
_HALF_NORMAL = 0.6744897501960817 * math.sqrt(2)
"""MAD of the difference of two standard normal variables."""


def change_points(values: FloatArray | Sequence[float]) -> tuple[int, ...]:
    """Return the places, from 0, at which a new segment begins; empty for none.

    `values` are finite, shape `(n,)`, in the order of trials. None for n < 10 and for
    series whose neighbours mostly are equal.
    """
    data = finite(values)
    if data.size < 10:
        return ()
    width = -(-data.size // MAX_CHANGE_VALUES)
    scaled = _scaled(_means(data, width))
    if scaled is None:
        return ()
    return tuple(place * width for place in _partition(scaled, penalty(scaled.size)))


def penalty(n: int) -> float:
    """Return what a change must gain, in squared standard deviations of one value."""
    return 12.0 + 2.0 * math.log(n) + 140.0 / n


def _means(data: FloatArray, width: int) -> FloatArray:
    if width == 1:
        return data
    whole = data.size // width * width
    return np.asarray(data[:whole].reshape(-1, width).mean(axis=1))


def _scaled(data: FloatArray) -> FloatArray | None:
    """Return the values in standard deviations; None where they have none."""
    middle = moments(data).mean
    halves = data / 2 - middle / 2
    noise = median(np.abs(np.diff(halves))) / _HALF_NORMAL
    return halves / noise if noise else None


def _partition(data: FloatArray, price: float) -> list[int]:
    """Return the starts of the segments but the first, of the cheapest partition."""
    n = data.size
    sums = np.concatenate([[0.0], np.cumsum(data)])
    squares = np.concatenate([[0.0], np.cumsum(data * data)])
    best = np.full(n + 1, math.inf)
    best[0] = -price
    start = np.zeros(n + 1, dtype=np.int64)
    for end in range(MIN_SEGMENT, n + 1):
        starts = np.arange(0, end - MIN_SEGMENT + 1)
        length = end - starts
        total = sums[end] - sums[starts]
        error = squares[end] - squares[starts] - total * total / length
        cost = best[starts] + error + price
        start[end] = int(np.argmin(cost))
        best[end] = cost[start[end]]
    places, end = [], int(start[n])
    while end:
        places.append(end)
        end = int(start[end])
    return places[::-1]
