"""Two samples: do their means, their ratio, their variances differ?

Purpose: Getstats' t-test with its three hypotheses, the F-test that decides whether
variances may be pooled, the ratio of means with its interval, and equivalence within a
margin. Decision: Welch wherever the caller does not ask for pooled variances, and
logarithms for ratios, where the interval of a quotient is symmetric; Fieller's interval
of a ratio of arithmetic means lost, because it may be no interval at all. Values that
are not finite are left out, as everywhere in stats.
Non-goals: ranks (rank.py), normality (normality.py), paired data, adjusting P-values.
Sources: Auto-pilot paper, sections 3.3 and 4.1; B. L. Welch 1947, Biometrika
34(1-2); D. J. Schuirmann 1987, J. Pharmacokinetics and Biopharmaceutics 15(6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from benchwright.model.estimate import Estimate
from benchwright.stats.moments import FloatArray, Moments, finite, moments

POOLED = "student-t-pooled"
WELCH = "welch-t"
WELCH_LOG = "welch-on-logs"
F = "f"

Values = FloatArray | Sequence[float]


class TTest(msgspec.Struct, frozen=True):
    """Student's or Welch's test of two means, u1 of the first sample and u2 of the
    second."""

    difference: Estimate
    """u1 - u2 with its interval, in the values' unit; `n` is that of both together."""
    t: float
    degrees: float
    """Of freedom; not whole for Welch."""
    p_greater: float
    """P-value of u1 <= u2: small speaks for u1 > u2."""
    p_less: float
    """P-value of u1 >= u2: small speaks for u1 < u2."""
    p_two_sided: float
    """P-value of u1 == u2."""


class VarianceTest(msgspec.Struct, frozen=True):
    """The F-test of two variances."""

    ratio: Estimate
    """Variance of the first over that of the second, with its interval."""
    degrees: tuple[int, int]
    p: float
    """Two-sided P-value of equal variances."""


class Equivalence(msgspec.Struct, frozen=True):
    """Two one-sided tests: do both samples agree within a margin?"""

    difference: Estimate
    """With the interval of confidence 1 - 2 alpha: inside the margin exactly where `p`
    is at most alpha."""
    p_below: float
    """P-value of lying at or below the lower margin."""
    p_above: float
    """P-value of lying at or above the upper margin."""
    p: float
    """The larger: small speaks for equivalence."""


class _Contrast(msgspec.Struct, frozen=True):
    """A difference with its standard error, before it is asked anything."""

    value: float
    error: float
    degrees: float
    n: int
    method: str

    def half_width(self, confidence: float) -> float:
        if not self.degrees > 0:
            return math.nan
        from scipy.special import stdtrit

        return float(stdtrit(self.degrees, 0.5 + confidence / 2)) * self.error

    def t(self, away_from: float = 0.0) -> float:
        """Return the t value; infinite where the data have no variance at all, and NaN
        where they have none and no difference either."""
        # Halves, because the difference of two huge values may be no float.
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
        if math.isnan(t):  # No variance and no difference: nothing speaks against.
            return 1.0 if self.error == 0 else math.nan
        from scipy.special import stdtr

        return float(stdtr(self.degrees, -t))

    def estimate(self, confidence: float, unit: str) -> Estimate:
        half = self.half_width(confidence)
        return Estimate(
            self.value,
            self.value - half,
            self.value + half,
            confidence,
            self.method,
            self.n,
            unit,
        )


def t_test(
    a: Values,
    b: Values,
    confidence: float = 0.95,
    *,
    equal_variance: bool = False,
    unit: str = "",
) -> TTest:
    """Return Welch's test of the means of `a` and `b`, shapes `(n1,)` and `(n2,)`; with
    `equal_variance` Student's with a pooled variance.

    Interval and P-values are NaN unless both samples have two values. Where neither has
    any variance the interval is the difference itself; the P-values are 0 and 1 by its
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
    # min() would make 1 of NaN.
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
            a.sdev * math.sqrt((a.n - 1) / degrees),
            b.sdev * math.sqrt((b.n - 1) / degrees),
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


def variance_test(a: Values, b: Values, confidence: float = 0.95) -> VarianceTest:
    """Return the two-sided F-test of the variances of `a` and `b`.

    NaN unless both have two values. Where only one is constant P is 0; where both are,
    the variances are equal: P is 1 and the ratio NaN. Sensitive to data that are not
    normal: normality.py says whether they are.
    """
    one, other = moments(a), moments(b)
    degrees = (one.n - 1, other.n - 1)
    ratio, p, low, high = (math.nan,) * 4
    if min(degrees) >= 1:
        ratio = _variance_ratio(one.sdev, other.sdev)
        p = 1.0 if math.isnan(ratio) else _f_two_sided(ratio, degrees)
        low, high = _f_interval(ratio, degrees, confidence)
    found = Estimate(ratio, low, high, confidence, F, one.n + other.n, "ratio")
    return VarianceTest(found, degrees, p)


def _variance_ratio(one: float, other: float) -> float:
    if other == 0:
        return math.inf if one else math.nan
    quotient = one / other
    return quotient * quotient


def _f_two_sided(ratio: float, degrees: tuple[int, int]) -> float:
    from scipy.special import fdtr, fdtrc

    if math.isinf(ratio):
        return 0.0
    return min(1.0, 2 * float(min(fdtr(*degrees, ratio), fdtrc(*degrees, ratio))))


def _f_interval(
    ratio: float, degrees: tuple[int, int], confidence: float
) -> tuple[float, float]:
    from scipy.special import fdtri

    if not 0 < ratio < math.inf:
        return math.nan, math.nan
    # The reciprocal of an F value has its degrees exchanged.
    upper = float(fdtri(*degrees, 0.5 + confidence / 2))
    lower = float(fdtri(degrees[1], degrees[0], 0.5 + confidence / 2))
    return ratio / upper, ratio * lower


def ratio_of_means(a: Values, b: Values, confidence: float = 0.95) -> Estimate:
    """Return the geometric mean of `b` (candidate) over that of `a` (baseline), with
    Welch's interval on logarithms; unit "ratio".

    Everything is NaN where a value is not positive or a sample is empty, the interval
    also where a sample has a single value. `n` is that of both samples together.
    """
    logs = _logs(a, b)
    if logs is None:
        nan = math.nan
        n = int(finite(a).size + finite(b).size)
        return Estimate(nan, nan, nan, confidence, WELCH_LOG, n, "ratio")
    return _as_ratio(_contrast(*logs), confidence)


def _logs(a: Values, b: Values) -> tuple[Moments, Moments] | None:
    """Return the moments of the logarithms, the candidate's first; None without any."""
    one, other = finite(a), finite(b)
    if not one.size or not other.size or min(one.min(), other.min()) <= 0:
        return None
    return moments(np.log(other)), moments(np.log(one))


def _as_ratio(contrast: _Contrast, confidence: float) -> Estimate:
    found = contrast.estimate(confidence, "ratio")
    return msgspec.structs.replace(
        found,
        value=_exp(found.value),
        low=_exp(found.low),
        high=_exp(found.high),
        method=WELCH_LOG,
    )


def _exp(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(value))


def equivalence(
    a: Values, b: Values, margin: float, confidence: float = 0.95
) -> Equivalence:
    """Return whether the means of `a` and `b` agree within +- `margin`, a positive
    number in the values' unit, by two one-sided Welch tests.

    The P-values are NaN unless both samples have two values.
    """
    assert margin > 0, "a margin is positive"
    contrast = _contrast(moments(a), moments(b))
    found = contrast.estimate(2 * confidence - 1, "")
    return _equivalence(contrast, margin, found)


def ratio_equivalence(
    a: Values, b: Values, margin: float, confidence: float = 0.95
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
    found = _as_ratio(contrast, 2 * confidence - 1)
    return _equivalence(contrast, math.log1p(margin), found)


def _equivalence(contrast: _Contrast, margin: float, found: Estimate) -> Equivalence:
    below, above = contrast.p_greater(-margin), contrast.p_less(margin)
    p = math.nan if math.isnan(below) or math.isnan(above) else max(below, above)
    return Equivalence(found, below, above, p)
