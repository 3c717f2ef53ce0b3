"""Two samples by their ranks, where normality is not to be assumed.

Purpose: which sample tends to larger values, how probably, and by how much.
Decision: Brunner and Munzel where shapes may differ, with P(A < B) and its interval;
Mann and Whitney only for equal shapes, and where the samples do not overlap at all, where
Brunner and Munzel's variance is 0. Mann-Whitney is exact without ties up to 900 pairs.
Sources: H. B. Mann and D. R. Whitney 1947, Annals of Mathematical Statistics 18(1);
E. Brunner and U. Munzel 2000, Biometrical Journal 42(1); J. L. Hodges and E. L.
Lehmann 1963, Annals of Mathematical Statistics 34(2).
Non-goals: more than two samples, paired data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

import msgspec
import numpy as np

from benchwright.model.estimate import Estimate
from benchwright.stats.moments import FloatArray, finite, median

EXACT_PAIRS = 900
"""Up to this many pairs of values the distribution of U is counted out."""
MOST = 2000
"""Values of a sample that Hodges and Lehmann's pairs are made of."""

Values = FloatArray | Sequence[float]


class RankTest(msgspec.Struct, frozen=True):
    """A test of whether one sample tends to larger values than the other."""

    method: str
    """`mann-whitney-exact`, `mann-whitney`, `brunner-munzel`."""
    statistic: float
    """U of the first sample, or Brunner and Munzel's W."""
    degrees: float
    """Of freedom; NaN for Mann and Whitney."""
    p: float
    """Two-sided P-value of P(A < B) + P(A = B) / 2 being 1/2."""
    below: Estimate
    """P(A < B) + P(A = B) / 2; Mann and Whitney give it no interval."""


def mann_whitney(a: Values, b: Values) -> RankTest:
    """Return Mann and Whitney's test of `a` and `b`, shapes `(n1,)` and `(n2,)`.

    Exact without ties up to 900 pairs, else a normal approximation with corrections for
    ties and continuity. P is NaN without values, 1 where all values are the same.
    """
    one, other = finite(a), finite(b)
    pairs = int(one.size) * int(other.size)
    if not pairs:
        return _nothing("mann-whitney", one, other)
    ranks, ties = _ranks(np.concatenate([one, other]))
    u = float(ranks[: one.size].sum()) - one.size * (one.size + 1) / 2
    exact = not ties.any() and pairs <= EXACT_PAIRS
    if exact:
        count = _counts(int(one.size), int(other.size))
        p = min(1.0, 2 * count[int(min(u, pairs - u))] / count[-1])
    else:
        p = _approximate_p(u, int(one.size), int(other.size), ties)
    below = _point(1 - u / pairs, int(one.size + other.size), 0.95)
    method = "mann-whitney-exact" if exact else "mann-whitney"
    return RankTest(method, u, math.nan, p, below)


def _nothing(method: str, one: FloatArray, other: FloatArray) -> RankTest:
    nan = math.nan
    return RankTest(
        method, nan, nan, nan, _point(nan, int(one.size + other.size), 0.95)
    )


def _point(value: float, n: int, confidence: float) -> Estimate:
    return Estimate(value, math.nan, math.nan, confidence, "ranks", n, "probability")


def _ranks(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the ranks from 1, ties at their mean, and t^3 - t of every group of t
    equal values."""
    _, place, sizes = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(sizes)
    groups = sizes.astype(np.float64)
    return (last - (groups - 1) / 2)[place], groups**3 - groups


@lru_cache(maxsize=64)
def _counts(m: int, n: int) -> tuple[int, ...]:
    """Return how many of the orders of m and n values have U at most 0 .. m n.

    The coefficients of the Gaussian binomial, summed up.
    """
    size = m * n + 1
    ways = [1] + [0] * (size - 1)
    for i in range(1, m + 1):
        for u in range(size - 1, n + i - 1, -1):
            ways[u] -= ways[u - n - i]
        for u in range(i, size):
            ways[u] += ways[u - i]
    return tuple(accumulate(ways))


def _approximate_p(u: float, m: int, n: int, ties: FloatArray) -> float:
    from scipy.special import ndtr

    total = m + n
    room = total * (total - 1)
    variance = m * n / 12 * (total + 1 - float(ties.sum()) / room) if room else 0.0
    if variance <= 0:
        return 1.0
    z = (abs(u - m * n / 2) - 0.5) / math.sqrt(variance)
    return min(1.0, 2 * float(ndtr(-z)))


def brunner_munzel(a: Values, b: Values, confidence: float = 0.95) -> RankTest:
    """Return Brunner and Munzel's test of `a` and `b` with P(A < B) and its interval.

    P and interval are NaN unless both have two values, and where the samples do not
    overlap: `rank_test` then asks Mann and Whitney.
    """
    one, other = finite(a), finite(b)
    m, n = int(one.size), int(other.size)
    if not m or not n:
        return _nothing("brunner-munzel", one, other)
    ranks, _ = _ranks(np.concatenate([one, other]))
    # How many of the other sample lie below each value: overall rank less own rank.
    over_a = ranks[:m] - _ranks(one)[0]
    over_b = ranks[m:] - _ranks(other)[0]
    value = float(over_b.mean()) / m
    point = _point(value, m + n, confidence)
    if m < 2 or n < 2:
        return RankTest("brunner-munzel", math.nan, math.nan, math.nan, point)
    of_a = float(np.var(over_a, ddof=1)) / (m * n * n)
    of_b = float(np.var(over_b, ddof=1)) / (n * m * m)
    if of_a + of_b == 0:
        p = 1.0 if value == 0.5 else math.nan
        return RankTest("brunner-munzel", math.nan, math.nan, p, point)
    return _by_t(point, of_a, of_b, (m, n))


def _by_t(
    point: Estimate, of_a: float, of_b: float, sizes: tuple[int, int]
) -> RankTest:
    from scipy.special import stdtr, stdtrit

    m, n = sizes
    error = math.sqrt(of_a + of_b)
    degrees = (of_a + of_b) ** 2 / (of_a**2 / (m - 1) + of_b**2 / (n - 1))
    statistic = (point.value - 0.5) / error
    half = float(stdtrit(degrees, 0.5 + point.confidence / 2)) * error
    # A probability: the t interval may reach out of 0 .. 1.
    low, high = max(0.0, point.value - half), min(1.0, point.value + half)
    below = msgspec.structs.replace(point, low=low, high=high, method="brunner-munzel")
    p = min(1.0, 2 * float(stdtr(degrees, -abs(statistic))))
    return RankTest("brunner-munzel", statistic, degrees, p, below)


def rank_test(a: Values, b: Values, confidence: float = 0.95) -> RankTest:
    """Return Brunner and Munzel's test, or Mann and Whitney's where it has no answer
    because the samples do not overlap."""
    found = brunner_munzel(a, b, confidence)
    return mann_whitney(a, b) if math.isnan(found.p) else found


def hodges_lehmann(
    a: Values, b: Values, confidence: float = 0.95, unit: str = ""
) -> Estimate:
    """Return by how much `a` lies above `b`: the median of all differences a - b, with
    the interval that inverts Mann and Whitney's test.

    Holds for samples of equal shape. The interval is exact up to 900 pairs and
    conservative with ties; NaN where the samples are too small for the confidence. Of
    more than 2000 values 2000 evenly spaced order statistics stand for the sample.
    """
    one, other = finite(a), finite(b)
    n = int(one.size + other.size)
    if not one.size or not other.size:
        nan = math.nan
        return Estimate(nan, nan, nan, confidence, "hodges-lehmann", n, unit)
    pairs = np.sort(np.subtract.outer(_thinned(one), _thinned(other)).reshape(-1))
    beyond = _beyond(int(one.size), int(other.size), confidence)
    place = int(beyond * (pairs.size / (one.size * other.size)))
    low, high = math.nan, math.nan
    if beyond >= 1:
        low, high = float(pairs[max(place, 1) - 1]), float(pairs[-max(place, 1)])
    return Estimate(median(pairs), low, high, confidence, "hodges-lehmann", n, unit)


def _thinned(values: FloatArray) -> FloatArray:
    if values.size <= MOST:
        return values
    places = np.floor((np.arange(MOST) + 0.5) * (values.size / MOST)).astype(np.int64)
    return np.asarray(np.sort(values)[places], dtype=np.float64)


def _beyond(m: int, n: int, confidence: float) -> int:
    """Return which smallest and which largest difference end the interval; 0: none."""
    tail = (1 - confidence) / 2
    if m * n <= EXACT_PAIRS:
        count = _counts(m, n)
        return sum(1 for ways in count if ways <= tail * count[-1])
    from scipy.special import ndtri

    sdev = math.sqrt(m * n * (m + n + 1) / 12)
    return max(0, math.floor(m * n / 2 + 0.5 + float(ndtri(tail)) * sdev))
