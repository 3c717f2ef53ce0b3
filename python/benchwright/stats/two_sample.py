"""Two samples: difference and ratio of means, variances, equivalence.

Purpose: what `--ttest` prints: the interval of the difference, the three hypotheses of
the paper's Figure 3, whether the variances differ (F), and the ratio by logarithms.
Decision: the pooled t-test is there because the paper has it; Welch's is what one
should use, and what F chooses where the variances differ. A ratio of means is taken on logarithms: it is
that of the geometric means, and its interval is exact for lognormal values. Values that
are not finite are no observations, as everywhere in stats/.
Non-goals: ranks (rank.py), pairs and blocks (control/compare.py), three or more samples.
Sources: papers/auto-pilot.txt sections 3.3 and 4.1; B. L. Welch 1947, Biometrika 34;
D. Schuirmann 1987 (two one-sided tests).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from benchwright.model.estimate import Estimate
from benchwright.stats.moments import FloatArray, Moments, finite, moments

Values = FloatArray | Sequence[float]
Method = Literal["student-pooled", "welch"]
RATIO_METHOD = "welch-on-logs"


class MeanTest(msgspec.Struct, frozen=True):
    """A t-test of two means; NaN where the samples do not allow one."""

    difference: Estimate
    """Mean of the first less mean of the second, in their unit."""
    statistic: float
    degrees: float
    p_not_greater: float
    """P of the hypothesis u1 <= u2: small where the first is greater."""
    p_not_less: float
    """P of the hypothesis u1 >= u2: small where the first is less."""
    p_equal: float
    """P of the hypothesis u1 == u2, two-sided."""
    method: Method


class VarianceTest(msgspec.Struct, frozen=True):
    """The F-test of equal variances, two-sided."""

    ratio: float
    """Variance of the first over that of the second."""
    degrees: tuple[int, int]
    p: float


class Equivalence(msgspec.Struct, frozen=True):
    """Two one-sided tests of a ratio within a margin."""

    ratio: Estimate
    margin: float
    p: float
    """The larger P of the two: small where the ratio lies within the margin."""


class _Error(msgspec.Struct, frozen=True):
    """A standard error of a difference with its degrees of freedom."""

    size: float
    degrees: float


def t_test(
    first: Values,
    second: Values,
    confidence: float = 0.95,
    *,
    equal_variance: bool = False,
    unit: str = "",
) -> MeanTest:
    """Return the t-test of two independent samples, shapes `(n,)` and `(m,)`.

    Welch's unless `equal_variance` says to pool. NaN where either has fewer than two
    values. Constant samples: P is 1 for equal ones; for different ones 0 and 1.
    """
    a, b = moments(first), moments(second)
    method: Method = "student-pooled" if equal_variance else "welch"
    error = _pooled(a, b) if equal_variance else _welch(a, b)
    difference = a.mean - b.mean
    if math.isnan(error.size):
        none = _estimate(difference, math.nan, (confidence, method, a.n + b.n, unit))
        return MeanTest(none, *(math.nan,) * 5, method)
    half = error.size * _t_quantile(confidence, error.degrees) if error.size else 0.0
    statistic = _statistic(difference, error.size)
    less, equal, greater = _t_tails(statistic, error.degrees)
    return MeanTest(
        difference=_estimate(difference, half, (confidence, method, a.n + b.n, unit)),
        statistic=statistic,
        degrees=error.degrees,
        p_not_greater=greater,
        p_not_less=less,
        p_equal=equal,
        method=method,
    )


def variance_test(first: Values, second: Values) -> VarianceTest:
    """Return the F-test of equal variances; it assumes normal values.

    NaN where either sample has fewer than two values, or both are constant.
    """
    a, b = moments(first), moments(second)
    degrees = (a.n - 1, b.n - 1)
    if a.n < 2 or b.n < 2 or not (a.sdev or b.sdev):
        return VarianceTest(math.nan, degrees, math.nan)
    root = a.sdev / b.sdev if b.sdev else math.inf
    ratio = root * root
    if not ratio or math.isinf(ratio):
        return VarianceTest(ratio, degrees, 0.0)
    from scipy.special import fdtr, fdtrc

    tail = min(float(fdtr(*degrees, ratio)), float(fdtrc(*degrees, ratio)))
    return VarianceTest(ratio, degrees, min(2 * tail, 1.0))


def ratio_of_means(
    baseline: Values, candidate: Values, confidence: float = 0.95
) -> Estimate:
    """Return candidate / baseline, of geometric means, with Welch's interval on the logs.

    NaN where a value is not positive: there is no such ratio. The interval is NaN where
    either has fewer than two values.
    """
    a, b = finite(baseline), finite(candidate)
    n = int(a.size + b.size)
    if not a.size or not b.size or min(a.min(), b.min()) <= 0:
        none = math.nan
        return Estimate(none, none, none, confidence, RATIO_METHOD, n, "ratio")
    found = t_test(np.log(b), np.log(a), confidence).difference
    return Estimate(
        _exp(found.value),
        _exp(found.low),
        _exp(found.high),
        confidence,
        RATIO_METHOD,
        n,
        "ratio",
    )


def equivalence(
    baseline: Values, candidate: Values, margin: float, confidence: float = 0.95
) -> Equivalence:
    """Return whether candidate / baseline lies within [1 / (1 + margin), 1 + margin].

    Two one-sided Welch tests on the logs; P is NaN where there is no ratio.
    """
    assert margin > 0, "a margin is a positive share"
    ratio = ratio_of_means(baseline, candidate, confidence)
    if math.isnan(ratio.low):
        return Equivalence(ratio, margin, math.nan)
    logs = np.log(finite(candidate)), np.log(finite(baseline))
    found, limit = t_test(*logs), math.log1p(margin)
    distance, error = found.difference.value, _welch(*map(moments, logs)).size
    _, _, above = _t_tails(_statistic(distance + limit, error), found.degrees)
    below, _, _ = _t_tails(_statistic(distance - limit, error), found.degrees)
    return Equivalence(ratio, margin, max(above, below))


# -- parts -------------------------------------------------------------------------------


def _pooled(a: Moments, b: Moments) -> _Error:
    if a.n < 2 or b.n < 2:
        return _Error(math.nan, math.nan)
    degrees = a.n + b.n - 2
    wa, wb = math.sqrt((a.n - 1) / degrees), math.sqrt((b.n - 1) / degrees)
    spread = math.hypot(a.sdev * wa, b.sdev * wb)
    return _Error(spread * math.sqrt(1 / a.n + 1 / b.n), degrees)


def _welch(a: Moments, b: Moments) -> _Error:
    if a.n < 2 or b.n < 2:
        return _Error(math.nan, math.nan)
    first, second = a.sdev / math.sqrt(a.n), b.sdev / math.sqrt(b.n)
    size = math.hypot(first, second)
    if not size:
        return _Error(0.0, a.n + b.n - 2)
    parts = (first / size) ** 4 / (a.n - 1) + (second / size) ** 4 / (b.n - 1)
    return _Error(size, 1 / parts)


def _statistic(difference: float, error: float) -> float:
    if error:
        return difference / error
    return math.copysign(math.inf, difference) if difference else 0.0


def _t_tails(statistic: float, degrees: float) -> tuple[float, float, float]:
    """Return P(T <= t), 2 P(T >= |t|) and P(T >= t)."""
    from scipy.special import stdtr

    below = float(stdtr(degrees, statistic))
    above = float(stdtr(degrees, -statistic))
    return below, min(2 * min(below, above), 1.0), above


def _t_quantile(confidence: float, degrees: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + confidence / 2))


def _estimate(value: float, half: float, rest: tuple[float, str, int, str]) -> Estimate:
    confidence, method, n, unit = rest
    return Estimate(value, value - half, value + half, confidence, method, n, unit)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
