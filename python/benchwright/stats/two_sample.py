"""Two samples: do their means, their ratio, their variances or their ranks differ?"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate

import msgspec

from benchwright.core.numeric import np
from benchwright.core.results import Estimate
from benchwright.stats import special
from benchwright.stats.arrays import FloatArray, SampleValues, finite
from benchwright.stats.dependence import average_ranks
from benchwright.stats.sample import Moments, moments

# -- Two samples: do their means, their ratio, their variances differ? -----------------
#
# Purpose: Getstats' t-test with its three hypotheses, the F-test that decides whether
# variances may be pooled, the ratio of means with its interval, and equivalence within a
# margin. Decision: Welch unless the caller requests pooled variances, and logarithms for ratios,
# on which the interval is symmetric. Rejected: Fieller's interval of a ratio of arithmetic
# means, which may not be an interval. Values that are not finite are ignored, as everywhere in
# stats.
# Non-goals: ranks (below), normality (sample.py), paired data, adjusting P-values.
# Sources: Auto-pilot paper, sections 3.3 and 4.1; B. L. Welch 1947, Biometrika
# 34(1-2); D. J. Schuirmann 1987, J. Pharmacokinetics and Biopharmaceutics 15(6).

POOLED = "student-t-pooled"
WELCH = "welch-t"
WELCH_LOG = "welch-on-logs"
F_TEST = "f"


class TTest(msgspec.Struct, frozen=True):
    """Student's or Welch's test of two means, u1 of the first sample and u2 of the
    second."""

    difference: Estimate
    """u1 - u2 with its interval, in the values' unit; `n` is the number of values in both."""
    t: float
    degrees: float
    """Degrees of freedom; fractional for Welch."""
    p_greater: float
    """P-value of u1 <= u2; small values are evidence for u1 > u2."""
    p_less: float
    """P-value of u1 >= u2; small values are evidence for u1 < u2."""
    p_two_sided: float
    """P-value of u1 == u2."""


class VarianceTest(msgspec.Struct, frozen=True):
    """The F-test of two variances."""

    ratio: Estimate
    """Variance of the first sample / variance of the second, with its interval."""
    degrees: tuple[int, int]
    p: float
    """Two-sided P-value of equal variances."""


class Equivalence(msgspec.Struct, frozen=True):
    """Two one-sided tests of whether both samples agree within a margin."""

    difference: Estimate
    """The difference with its interval of confidence 1 - 2 alpha, which is inside the margin
    exactly if `p` is at most alpha."""
    p_below: float
    """P-value of a difference at or below the lower margin."""
    p_above: float
    """P-value of a difference at or above the upper margin."""
    p: float
    """The larger of the two; small values are evidence for equivalence."""


class _Contrast(msgspec.Struct, frozen=True):
    """A difference with its standard error, before it is tested."""

    value: float
    error: float
    degrees: float
    n: int
    method: str

    def half_width(self, confidence: float) -> float:
        if not self.degrees > 0:
            return math.nan
        return special.t_quantile(self.degrees, 0.5 + confidence / 2) * self.error

    def t(self, away_from: float = 0.0) -> float:
        """Return the t value; without any variance it is infinite, or NaN where there is no
        difference either."""
        # Halves, because the difference of two huge values may overflow.
        distance = self.value / 2 - away_from / 2
        if self.error == 0:
            return math.copysign(math.inf, distance) if distance else math.nan
        return distance / (self.error / 2)

    def p_greater(self, than: float = 0.0) -> float:
        """Return the P-value of a value of at most `than`."""
        return self._upper_tail(self.t(than))

    def p_less(self, than: float = 0.0) -> float:
        """Return the P-value of a value of at least `than`."""
        return self._upper_tail(-self.t(than))

    def _upper_tail(self, t: float) -> float:
        if not self.degrees > 0:
            return math.nan
        if math.isnan(t):  # No variance and no difference: no evidence.
            return 1.0 if self.error == 0 else math.nan
        return special.t_cdf(self.degrees, -t)

    def estimate(self, confidence: float, unit: str) -> Estimate:
        half = self.half_width(confidence)
        return Estimate(
            self.value, self.value - half, self.value + half, confidence, self.method, self.n, unit
        )


def t_test(
    a: SampleValues,
    b: SampleValues,
    confidence: float = 0.95,
    *,
    equal_variance: bool = False,
    unit: str = "",
) -> TTest:
    """Return Welch's test of the means of `a` and `b`, shapes `(n1,)` and `(n2,)`; with
    `equal_variance` Student's with a pooled variance.

    Interval and P-values are NaN unless both samples have two values. If neither has any
    variance, both ends of the interval are the difference; the P-values are 0 or 1 by its
    sign, and all 1 without a difference.
    """
    contrast = _contrast(moments(a), moments(b), equal_variance=equal_variance)
    p_greater, p_less = contrast.p_greater(), contrast.p_less()
    return TTest(
        difference=contrast.estimate(confidence, unit),
        t=contrast.t(),
        degrees=contrast.degrees,
        p_greater=p_greater,
        p_less=p_less,
        p_two_sided=_two_sided(p_greater, p_less),
    )


def _two_sided(p_greater: float, p_less: float) -> float:
    # min() would return 1 for NaN.
    smaller = min(p_greater, p_less)
    return 1.0 if smaller > 0.5 else 2 * smaller


def _contrast(a: Moments, b: Moments, *, equal_variance: bool = False) -> _Contrast:
    value, n = a.mean - b.mean, a.n + b.n
    method = POOLED if equal_variance else WELCH
    if a.n < 2 or b.n < 2:
        return _Contrast(value, math.nan, math.nan, n, method)
    if equal_variance:
        degrees = float(n - 2)
        sdev = math.hypot(
            a.sdev * math.sqrt((a.n - 1) / degrees), b.sdev * math.sqrt((b.n - 1) / degrees)
        )
        return _Contrast(value, sdev * math.sqrt(1 / a.n + 1 / b.n), degrees, n, method)
    of_a, of_b = a.sdev / math.sqrt(a.n), b.sdev / math.sqrt(b.n)
    error = math.hypot(of_a, of_b)
    if error == 0:
        return _Contrast(value, 0.0, float(n - 2), n, method)
    # Welch and Satterthwaite, with shares of the variance instead of fourth powers.
    share_a, share_b = (of_a / error) ** 2, (of_b / error) ** 2
    degrees = 1 / (share_a**2 / (a.n - 1) + share_b**2 / (b.n - 1))
    return _Contrast(value, error, degrees, n, method)


def variance_test(a: SampleValues, b: SampleValues, confidence: float = 0.95) -> VarianceTest:
    """Return the two-sided F-test of the variances of `a` and `b`.

    NaN unless both have two values. If only one is constant, P is 0; if both are, the
    variances are equal: P is 1 and the ratio NaN. Sensitive to data that are not normal,
    which sample.py tests.
    """
    one, other = moments(a), moments(b)
    degrees = (one.n - 1, other.n - 1)
    ratio, p, low, high = (math.nan,) * 4
    if min(degrees) >= 1:
        ratio = _variance_ratio(one.sdev, other.sdev)
        p = 1.0 if math.isnan(ratio) else _f_two_sided(ratio, degrees)
        low, high = _f_interval(ratio, degrees, confidence)
    estimate = Estimate(ratio, low, high, confidence, F_TEST, one.n + other.n, "ratio")
    return VarianceTest(estimate, degrees, p)


def _variance_ratio(one: float, other: float) -> float:
    if other == 0:
        return math.inf if one else math.nan
    quotient = one / other
    return quotient * quotient


def _f_two_sided(ratio: float, degrees: tuple[int, int]) -> float:
    if math.isinf(ratio):
        return 0.0
    return min(1.0, 2 * min(special.f_cdf(*degrees, ratio), special.f_tail(*degrees, ratio)))


def _f_interval(ratio: float, degrees: tuple[int, int], confidence: float) -> tuple[float, float]:
    if not 0 < ratio < math.inf:
        return math.nan, math.nan
    # The reciprocal of an F value has exchanged degrees of freedom.
    upper = special.f_quantile(*degrees, 0.5 + confidence / 2)
    lower = special.f_quantile(degrees[1], degrees[0], 0.5 + confidence / 2)
    return ratio / upper, ratio * lower


def ratio_of_means(a: SampleValues, b: SampleValues, confidence: float = 0.95) -> Estimate:
    """Return the geometric mean of `b` (candidate) over that of `a` (baseline), with
    Welch's interval on logarithms; unit "ratio".

    Everything is NaN where a value is not positive or a sample is empty; the interval is
    also NaN where a sample has a single value. `n` is the number of values in both.
    """
    logs = _logs(a, b)
    if logs is None:
        nan = math.nan
        n = int(finite(a).size + finite(b).size)
        return Estimate(nan, nan, nan, confidence, WELCH_LOG, n, "ratio")
    return _as_ratio(_contrast(*logs), confidence)


def _logs(a: SampleValues, b: SampleValues) -> tuple[Moments, Moments] | None:
    """Return the moments of the logarithms, the candidate's first; None where there are none."""
    one, other = finite(a), finite(b)
    if not one.size or not other.size or min(one.min(), other.min()) <= 0:
        return None
    return moments(np.log(other)), moments(np.log(one))


def _as_ratio(contrast: _Contrast, confidence: float) -> Estimate:
    estimate = contrast.estimate(confidence, "ratio")
    return msgspec.structs.replace(
        estimate,
        value=_exp(estimate.value),
        low=_exp(estimate.low),
        high=_exp(estimate.high),
        method=WELCH_LOG,
    )


def _exp(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(value))


def equivalence(
    a: SampleValues, b: SampleValues, margin: float, confidence: float = 0.95
) -> Equivalence:
    """Return whether the means of `a` and `b` agree within +- `margin`, a positive
    number in the values' unit, by two one-sided Welch tests.

    The P-values are NaN unless both samples have two values.
    """
    assert margin > 0, "a margin is positive"
    contrast = _contrast(moments(a), moments(b))
    estimate = contrast.estimate(2 * confidence - 1, "")
    return _equivalence(contrast, margin, estimate)


def ratio_equivalence(
    a: SampleValues, b: SampleValues, margin: float, confidence: float = 0.95
) -> Equivalence:
    """Return whether the ratio of the geometric means of `b` and `a` lies between
    1 / (1 + `margin`) and 1 + `margin`; a margin of 0.02 is two per cent.

    As `equivalence`, on logarithms; NaN also where a value is not positive.
    """
    assert margin > 0, "a margin is positive"
    logs = _logs(a, b)
    if logs is None:
        nan = math.nan
        return Equivalence(ratio_of_means(a, b, 2 * confidence - 1), nan, nan, nan)
    contrast = _contrast(*logs)
    ratio = _as_ratio(contrast, 2 * confidence - 1)
    return _equivalence(contrast, math.log1p(margin), ratio)


def _equivalence(contrast: _Contrast, margin: float, estimate: Estimate) -> Equivalence:
    below, above = contrast.p_greater(-margin), contrast.p_less(margin)
    p = math.nan if math.isnan(below) or math.isnan(above) else max(below, above)
    return Equivalence(estimate, below, above, p)


# -- Two samples by their ranks, without assuming normality ----------------------------
#
# Purpose: which sample tends to have larger values, with what probability, and by how much.
# Decision: Brunner and Munzel where shapes may differ, with P(A < B) and its interval;
# Mann and Whitney only for equal shapes and for samples that do not overlap, for which Brunner
# and Munzel's variance is 0. Mann-Whitney is exact without ties up to 900 pairs.
# Sources: H. B. Mann and D. R. Whitney 1947, Annals of Mathematical Statistics 18(1);
# E. Brunner and U. Munzel 2000, Biometrical Journal 42(1); J. L. Hodges and E. L.
# Lehmann 1963, Annals of Mathematical Statistics 34(2).
# Non-goals: more than two samples, paired data.

EXACT_PAIRS = 900
"""Up to this many pairs of values the distribution of U is counted exactly."""
MAX_SHIFT_VALUES = 2000
"""Maximum of values of a sample for Hodges and Lehmann's pairs."""


class RankTest(msgspec.Struct, frozen=True):
    """A test of whether one sample tends to have larger values than the other."""

    method: str
    """`mann-whitney-exact`, `mann-whitney`, `brunner-munzel`."""
    statistic: float
    """U of the first sample, or Brunner and Munzel's W."""
    degrees: float
    """Degrees of freedom; NaN for Mann and Whitney."""
    p: float
    """Two-sided P-value of the hypothesis P(A < B) + P(A = B) / 2 = 1/2."""
    below: Estimate
    """P(A < B) + P(A = B) / 2; without an interval for Mann and Whitney."""


def mann_whitney(a: SampleValues, b: SampleValues) -> RankTest:
    """Return Mann and Whitney's test of `a` and `b`, shapes `(n1,)` and `(n2,)`.

    Exact without ties up to 900 pairs, else a normal approximation with corrections for
    ties and continuity. P is NaN without values, 1 where all values are the same.
    """
    one, other = finite(a), finite(b)
    pairs = int(one.size) * int(other.size)
    if not pairs:
        return _no_rank_test("mann-whitney", one, other)
    both = np.concatenate([one, other])
    ranks, ties = _ranks(both), _ties(both)
    u = float(ranks[: one.size].sum()) - one.size * (one.size + 1) / 2
    exact = not ties.any() and pairs <= EXACT_PAIRS
    if exact:
        count = _u_counts(int(one.size), int(other.size))
        p = min(1.0, 2 * count[int(min(u, pairs - u))] / count[-1])
    else:
        p = _approximate_p(u, int(one.size), int(other.size), ties)
    below = _rank_estimate(1 - u / pairs, int(one.size + other.size), 0.95)
    method = "mann-whitney-exact" if exact else "mann-whitney"
    return RankTest(method, u, math.nan, p, below)


def _no_rank_test(method: str, one: FloatArray, other: FloatArray) -> RankTest:
    nan = math.nan
    return RankTest(method, nan, nan, nan, _rank_estimate(nan, int(one.size + other.size), 0.95))


def _rank_estimate(value: float, n: int, confidence: float) -> Estimate:
    return Estimate(value, math.nan, math.nan, confidence, "ranks", n, "probability")


def _ranks(values: FloatArray) -> FloatArray:
    return np.array(average_ranks(values.tolist()))


def _ties(values: FloatArray) -> FloatArray:
    """Return t^3 - t for every group of t equal values."""
    groups = np.unique(values, return_counts=True)[1].astype(np.float64)
    return np.asarray(groups**3 - groups)


@lru_cache(maxsize=64)
def _u_counts(m: int, n: int) -> tuple[int, ...]:
    """Return how many orders of m and n values have U of at most 0, 1, ..., m n.

    These are the cumulative sums of the Gaussian binomial's coefficients.
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
    total = m + n
    room = total * (total - 1)
    variance = m * n / 12 * (total + 1 - float(ties.sum()) / room) if room else 0.0
    if variance <= 0:
        return 1.0
    z = (abs(u - m * n / 2) - 0.5) / math.sqrt(variance)
    return min(1.0, 2 * special.normal_cdf(-z))


def brunner_munzel(a: SampleValues, b: SampleValues, confidence: float = 0.95) -> RankTest:
    """Return Brunner and Munzel's test of `a` and `b` with P(A < B) and its interval.

    P and interval are NaN unless both have two values, and where the samples do not
    overlap; `rank_test` then uses Mann and Whitney.
    """
    one, other = finite(a), finite(b)
    m, n = int(one.size), int(other.size)
    if not m or not n:
        return _no_rank_test("brunner-munzel", one, other)
    ranks = _ranks(np.concatenate([one, other]))
    # Values of the other sample below each value: overall rank minus own rank.
    over_a = ranks[:m] - _ranks(one)
    over_b = ranks[m:] - _ranks(other)
    value = float(over_b.mean()) / m
    point = _rank_estimate(value, m + n, confidence)
    if m < 2 or n < 2:
        return RankTest("brunner-munzel", math.nan, math.nan, math.nan, point)
    of_a = float(np.var(over_a, ddof=1)) / (m * n * n)
    of_b = float(np.var(over_b, ddof=1)) / (n * m * m)
    if of_a + of_b == 0:
        p = 1.0 if value == 0.5 else math.nan
        return RankTest("brunner-munzel", math.nan, math.nan, p, point)
    return _brunner_munzel_by_t(point, of_a, of_b, (m, n))


def _brunner_munzel_by_t(
    point: Estimate, of_a: float, of_b: float, sizes: tuple[int, int]
) -> RankTest:
    m, n = sizes
    error = math.sqrt(of_a + of_b)
    degrees = (of_a + of_b) ** 2 / (of_a**2 / (m - 1) + of_b**2 / (n - 1))
    statistic = (point.value - 0.5) / error
    half = special.t_quantile(degrees, 0.5 + point.confidence / 2) * error
    # The result is a probability, but the t interval may exceed 0 .. 1.
    low, high = max(0.0, point.value - half), min(1.0, point.value + half)
    below = msgspec.structs.replace(point, low=low, high=high, method="brunner-munzel")
    p = min(1.0, 2 * special.t_cdf(degrees, -abs(statistic)))
    return RankTest("brunner-munzel", statistic, degrees, p, below)


def rank_test(a: SampleValues, b: SampleValues, confidence: float = 0.95) -> RankTest:
    """Return Brunner and Munzel's test, or Mann and Whitney's where it has no answer
    because the samples do not overlap."""
    test = brunner_munzel(a, b, confidence)
    return mann_whitney(a, b) if math.isnan(test.p) else test


def hodges_lehmann(
    a: SampleValues, b: SampleValues, confidence: float = 0.95, unit: str = ""
) -> Estimate:
    """Return the shift of `a` above `b`: the median of all differences a - b, with the
    interval that inverts Mann and Whitney's test.

    Holds for samples of equal shape. The interval is exact up to 900 pairs and
    conservative with ties; NaN where the samples are too small for the confidence. A
    sample of more than 2000 values is replaced by 2000 evenly spaced order statistics.
    """
    one, other = finite(a), finite(b)
    n = int(one.size + other.size)
    if not one.size or not other.size:
        nan = math.nan
        return Estimate(nan, nan, nan, confidence, "hodges-lehmann", n, unit)
    pairs = np.sort(np.subtract.outer(_thinned(one), _thinned(other)).reshape(-1))
    beyond = _interval_rank(int(one.size), int(other.size), confidence)
    place = int(beyond * (pairs.size / (one.size * other.size)))
    low, high = math.nan, math.nan
    if beyond >= 1:
        low, high = float(pairs[max(place, 1) - 1]), float(pairs[-max(place, 1)])
    middle = pairs[(pairs.size - 1) // 2] / 2 + pairs[pairs.size // 2] / 2
    return Estimate(float(middle), low, high, confidence, "hodges-lehmann", n, unit)


def _thinned(values: FloatArray) -> FloatArray:
    if values.size <= MAX_SHIFT_VALUES:
        return values
    places = np.floor(
        (np.arange(MAX_SHIFT_VALUES) + 0.5) * (values.size / MAX_SHIFT_VALUES)
    ).astype(np.int64)
    return np.asarray(np.sort(values)[places], dtype=np.float64)


def _interval_rank(m: int, n: int, confidence: float) -> int:
    """Return the rank, from both ends, of the differences that end the interval; 0: no interval."""
    tail = (1 - confidence) / 2
    if m * n <= EXACT_PAIRS:
        count = _u_counts(m, n)
        return sum(1 for ways in count if ways <= tail * count[-1])
    sdev = math.sqrt(m * n * (m + n + 1) / 12)
    return max(0, math.floor(m * n / 2 + 0.5 + special.normal_quantile(tail) * sdev))
