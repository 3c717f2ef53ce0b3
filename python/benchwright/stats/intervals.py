"""Intervals of a mean and of a quantile: for one look at the data, and for every look at once."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import msgspec

from benchwright.core.results import Estimate, SlowRuns
from benchwright.stats import special
from benchwright.stats.dependence import ar1_inflation, long_run_sdev
from benchwright.stats.sample import Moments, finite_values, median, moments, plain_floats

if TYPE_CHECKING:
    from benchwright.stats.arrays import SampleValues

# -- Student-t intervals of a mean -----------------------------------------------------
#
# Purpose: the interval of Getstats' LOW and HIGH columns, and its quantile for the
# stopping rules. Exact for independent normal values, good for skewed ones with n >= 20
# (at small n it is better than the bootstrap).
# Non-goals: medians, ratios and dependent data, which have methods of their own.
# Source: "Student" (1908), The probable error of a mean, Biometrika 6(1).

T_METHOD = "student-t"


@lru_cache(maxsize=4096)
def t_quantile(confidence: float, degrees: int) -> float:
    """Return the two-sided Student-t quantile; NaN below one degree of freedom.

    `confidence` lies in (0, 1).
    """
    assert 0 < confidence < 1, "a confidence lies between 0 and 1"
    if degrees < 1:
        return math.nan
    return special.t_quantile(degrees, 0.5 + confidence / 2)


def t_half_width(sdev: float, n: int, confidence: float) -> float:
    """Return the interval's half width in the unit of `sdev`; NaN for n < 2."""
    if n < 2:
        return math.nan
    return t_quantile(confidence, n - 1) * (sdev / math.sqrt(n))


def t_interval(values: SampleValues, confidence: float = 0.95, unit: str = "") -> Estimate:
    """Return the mean of `values`, shape `(n,)`, with its Student-t interval.

    Values that are not finite are ignored. The interval is NaN for n < 2, the mean is NaN
    for n = 0.
    """
    found = moments(values)
    half = t_half_width(found.sdev, found.n, confidence)
    return Estimate(
        value=found.mean,
        low=found.mean - half,
        high=found.mean + half,
        confidence=confidence,
        method=T_METHOD,
        n=found.n,
        unit=unit,
    )


ENOUGH_EQUAL = SlowRuns(0.05).trials
"""So many equal values show, at 95 %, that fewer than 1 of 20 differ: 59."""


def unless_too_equal(estimate: Estimate) -> Estimate:
    """Return the estimate of a mean; without its ends where all values are equal and too few."""
    if estimate.half_width or estimate.n >= ENOUGH_EQUAL:
        return estimate
    return msgspec.structs.replace(estimate, low=math.nan, high=math.nan)


# -- Confidence sequences: intervals of a mean that hold at every look at once ---------
#
# Purpose: to examine a test at any time and stop at any time. The intervals at all n together
# cover the mean with the stated confidence, so no stopping rule lowers it.
# Method: the Gaussian mixture over the effect size of the t statistic's likelihood ratio,
# with the scale integrated out. It is exact for independent normal values of unknown
# variance from n = 2 on, and asymptotically that of Robbins' mixture for others.
# Decision: this rather than the asymptotic sequence with an estimated variance, whose level
# holds only from about 20 values on, because it ignores the error of the variance. With more
# values both agree.
# Non-goals: dependence (dependence.py), quantiles (below).
# Sources: T. Lai 1976, On confidence sequences, Annals of Statistics 4(2); H. Wang and
# A. Ramdas 2024, Anytime-valid t-tests and confidence sequences for Gaussian means with
# unknown variance; I. Waudby-Smith et al. 2024, Annals of Statistics 52(6).

SEQUENCE_MEAN_METHOD = "t-mixture-sequence"
SEQUENTIAL_METHOD = "sequential-t"
TUNED_FOR = 20
"""Default number of values at which the sequence is narrowest."""


def prior_precision(tuned_for: int, confidence: float) -> float:
    """Return g, the precision of the mixture over effect sizes, N(0, 1/g), for which the
    sequence is narrowest near `tuned_for` values (Waudby-Smith et al., appendix)."""
    twice_log = -2 * math.log(1 - confidence)
    return tuned_for / (twice_log + math.log(twice_log + 1))


def sequence_radius(n: int, confidence: float, *, error: float | None = None) -> float:
    """Return the half width in standard deviations of the sample; infinite where n is too
    small for a bound.

    With `error` it is the distance at which the P-value of a mixture tuned for `confidence`
    equals `error`; the default 1 - confidence gives the interval.
    """
    assert 0 < confidence < 1, "a confidence lies between 0 and 1"
    if n < 2:
        return math.inf
    error = 1 - confidence if error is None else error
    g = prior_precision(TUNED_FOR, confidence)
    share = g / (n + g)
    bound = math.exp((-2 * math.log(error) - math.log(share)) / n)
    if share * bound >= 1:
        return math.inf
    return math.sqrt((n - 1) / n * (bound - 1) / (1 - share * bound))


def t_mixture_interval(values: SampleValues, confidence: float = 0.95) -> Estimate:
    """Return the mean of `values`, shape `(n,)`, with its interval at this look.

    Values that are not finite are ignored. The interval is NaN for n < 2, infinite where n is
    too small for a bound, and of width 0 for constant values.
    """
    found = moments(values)
    if found.n < 2:
        half = math.nan
    elif found.sdev:
        half = found.sdev * sequence_radius(found.n, confidence)
    else:
        half = 0.0
    return Estimate(
        found.mean, found.mean - half, found.mean + half, confidence, SEQUENCE_MEAN_METHOD, found.n
    )


def t_mixture_p_of_moments(found: Moments, null: float = 0.0, *, confidence: float = 0.95) -> float:
    """Return a P-value that is valid at every look: if the mean is `null`, the probability that
    it is ever at most p is at most p.

    It is at most 1 - confidence exactly when the interval of that confidence excludes
    `null`; `confidence` only tunes the mixture. 1 for n < 2; for constant values 0, or 1 if
    they equal `null`.
    """
    if found.n < 2 or found.mean == null:
        return 1.0
    if not found.sdev:
        return 0.0
    n, g = found.n, prior_precision(TUNED_FOR, confidence)
    share = g / (n + g)
    x = (found.mean - null) / found.sdev
    square = x * x * n / (n - 1)
    log_ratio = 0.5 * math.log(share) + n / 2 * (math.log1p(square) - math.log1p(share * square))
    return math.exp(-max(log_ratio, 0.0))


# -- Medians and percentiles with intervals between order statistics -------------------
#
# Purpose: exact intervals without any assumption about the distribution: the number of values
# below the true quantile is binomial, so ranks bound it. For one look, or for all looks together
# (a confidence sequence by a beta-binomial mixture, also exact).
# Decision: ranks are widened where the indicators "below the quantile" are dependent
# (dependence.py), which is rare for independent values; they are never narrowed. Where n is too
# small for the requested confidence, the ends are NaN: n < 6 for the median at 95 %, n < 368 for
# the 99th percentile.
# Non-goals: smoothed quantiles, kernel estimates, the bootstrap.
# Sources: W. Conover, Practical Nonparametric Statistics, 3.2; S. Howard and A. Ramdas 2022,
# Sequential estimation of quantiles, Bernoulli 28(3).

QUANTILE_METHOD = "order-statistics"
QUANTILE_SEQUENCE_METHOD = "order-statistics-sequence"
QUANTILE_TUNED_FOR = 30
MIN_VALUES_FOR_WIDENING = 20
"""Minimum of values to distinguish dependence from chance."""
_SCATTER = 0.1
"""A correlation of neighbours' distances from the median up to this is not counted."""
UNDERESTIMATE = 1.1
"""The slow cosines underestimate a correlated series' long-run deviation by about 10 %."""

Ranks = tuple[int, int]
"""Ranks of the interval's ends, from 1; 0 or n + 1 for a missing end."""


@lru_cache(maxsize=4096)
def exact_ranks(n: int, share: float, confidence: float) -> Ranks:
    """Return the narrowest ranks with at most (1 - confidence) / 2 outside at each end."""
    tail = (1 - confidence) / 2
    below = partial(special.binomial_cdf, n=n, p=share)
    low = bisect_right(range(n + 1), tail, key=below)
    high = bisect_left(range(n + 1), 1 - tail, key=below) + 1
    return low, high


@lru_cache(maxsize=4096)
def sequence_ranks(n: int, share: float, confidence: float) -> Ranks:
    """Return ranks that are valid for all n together: the counts that a beta-binomial mixture's
    likelihood ratio against `share` does not exclude."""
    weight = prior_precision(QUANTILE_TUNED_FOR, confidence)
    first, second = weight * share, weight * (1 - share)
    start, within = special.log_beta(first, second), -math.log(1 - confidence)
    log_below, log_above = math.log(share), math.log1p(-share)
    kept = [
        k
        for k in range(n + 1)
        if special.log_beta(first + k, second + n - k) - start - k * log_below - (n - k) * log_above
        < within
    ]
    return kept[0], kept[-1] + 1


def quantile(values: SampleValues, share: float) -> float:
    """Return the quantile of finite values, linear between order statistics; NaN for n = 0."""
    ordered = sorted(plain_floats(values))
    if not ordered:
        return math.nan
    if share == 0.5:
        return median(ordered)
    place = share * (len(ordered) - 1)
    low = int(place)
    a, b = ordered[low], ordered[min(low + 1, len(ordered) - 1)]
    rest = place - low
    return a * (1 - rest) + b * rest


def _widening(values: Sequence[float], share: float) -> float:
    """Return the factor, at least 1, by which dependence widens the ranks."""
    bound, middle = quantile(values, share), median(values)
    spread = long_run_sdev([float(value <= bound) for value in values])
    own = UNDERESTIMATE * spread / math.sqrt(share * (1 - share))
    # Bursts of variance hardly show in these indicators. They move a quantile as far as it is from
    # the median.
    scatter = ar1_inflation([abs(value - middle) for value in values], _SCATTER)
    return max(1.0, own, 1 + abs(2 * share - 1) * (scatter - 1))


def _stretched(ordered: Ranks, values: Sequence[float], share: float) -> Ranks:
    """Return the ranks, widened for the dependence of the values."""
    n = len(values)
    factor = 1.0 if n < MIN_VALUES_FOR_WIDENING else _widening(values, share)
    if factor == 1:
        return ordered
    low, high = ordered
    centre = n * share + 0.5
    return (
        max(math.floor(centre - factor * (centre - low)), 0),
        min(math.ceil(centre + factor * (high - centre)), n + 1),
    )


def quantile_interval(values: SampleValues, share: float, confidence: float = 0.95) -> Estimate:
    """Return the quantile with its interval, for a single look at the data.

    An end is NaN where n is too small for it. `share` lies in (0, 1): 0.5 is the median.
    """
    data = finite_values(values)
    ranks = (0, len(data) + 1)
    if len(data) >= 2:
        ranks = _stretched(exact_ranks(len(data), share, confidence), data, share)
    return _quantile_estimate(data, ranks, share, confidence, QUANTILE_METHOD)


def quantile_sequence_interval(
    values: SampleValues, share: float, confidence: float = 0.95
) -> Estimate:
    """Return the quantile with its interval at this look, valid for all looks together."""
    data = finite_values(values)
    ranks = (0, len(data) + 1)
    if len(data) >= 2:
        ranks = _stretched(sequence_ranks(len(data), share, confidence), data, share)
    return _quantile_estimate(data, ranks, share, confidence, QUANTILE_SEQUENCE_METHOD)


def _quantile_estimate(
    data: Sequence[float], ranks: Ranks, share: float, confidence: float, method: str
) -> Estimate:
    ordered = sorted(data)
    low = ordered[ranks[0] - 1] if ranks[0] >= 1 else math.nan
    high = ordered[ranks[1] - 1] if ranks[1] <= len(data) else math.nan
    value = quantile(ordered, share)
    return Estimate(value, low, high, confidence, method, len(data))
