"""Confidence sequences: intervals of a mean that hold at every look at once.

Purpose: to watch a test and stop whenever one likes. The interval at n covers the mean
for all n together with the stated confidence, so no rule of stopping can spoil it.
Method: the Gaussian mixture over the effect size of the t statistic's likelihood ratio,
with the scale integrated out. It is exact for independent normal values of unknown
variance from n = 2 on, and asymptotically that of Robbins' mixture for others.
Decision: this rather than the asymptotic sequence with a plugged-in variance, which
needs a minimum of some 20 values before its level holds, because the price of the unknown
variance is not paid in it. Beyond the minimum both agree.
Non-goals: dependence (longrun.py widens), quantiles (quantile.py).
Sources: T. Lai 1976, On confidence sequences, Annals of Statistics 4(2); H. Wang and
A. Ramdas 2024, Anytime-valid t-tests and confidence sequences for Gaussian means with
unknown variance; I. Waudby-Smith et al. 2024, Annals of Statistics 52(6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchwright.model.estimate import Estimate
from benchwright.stats.moments import FloatArray, Moments, moments

METHOD = "t-mixture-sequence"
TUNED_FOR = 20
"""The number of values at which the sequence is narrowest, unless told otherwise."""


def prior_precision(tuned_for: int, confidence: float) -> float:
    """Return g, the precision of the mixture over effect sizes, N(0, 1/g), which makes
    the sequence narrowest near `tuned_for` values (Waudby-Smith et al., appendix)."""
    twice_log = -2 * math.log(1 - confidence)
    return tuned_for / (twice_log + math.log(twice_log + 1))


def radius(
    n: int,
    confidence: float,
    tuned_for: int = TUNED_FOR,
    error: float | None = None,
) -> float:
    """Return the half width in standard deviations of the sample, infinite where n
    values can bound nothing yet.

    With `error` it is the distance at which the P-value of a mixture that is tuned for
    `confidence` comes down to that; by default 1 - confidence, which is the interval's.
    """
    assert 0 < confidence < 1, "a confidence lies between 0 and 1"
    if n < 2:
        return math.inf
    error = 1 - confidence if error is None else error
    g = prior_precision(tuned_for, confidence)
    share = g / (n + g)
    bound = math.exp((-2 * math.log(error) - math.log(share)) / n)
    if share * bound >= 1:
        return math.inf
    return math.sqrt((n - 1) / n * (bound - 1) / (1 - share * bound))


def t_mixture_interval(
    values: FloatArray | Sequence[float],
    confidence: float = 0.95,
    *,
    tuned_for: int = TUNED_FOR,
    unit: str = "",
) -> Estimate:
    """Return the mean of `values`, shape `(n,)`, with its interval at this look.

    Values that are not finite are left out. For n < 2 the interval is NaN; where n is
    too small to bound anything it is infinite; constant values give one of width 0.
    """
    found = moments(values)
    if found.n < 2:
        return Estimate(
            found.mean, math.nan, math.nan, confidence, METHOD, found.n, unit
        )
    half = found.sdev * radius(found.n, confidence, tuned_for) if found.sdev else 0.0
    return Estimate(
        found.mean,
        found.mean - half,
        found.mean + half,
        confidence,
        METHOD,
        found.n,
        unit,
    )


def t_mixture_p(
    values: FloatArray | Sequence[float],
    null: float = 0.0,
    *,
    confidence: float = 0.95,
    tuned_for: int = TUNED_FOR,
) -> float:
    """Return a P-value that holds at every look: under a mean of `null` it ever falls
    to p or below with probability at most p.

    It is at most 1 - confidence exactly when the interval of that confidence excludes
    `null`; `confidence` only tunes the mixture. 1 for n < 2; constant values give 0,
    or 1 where they equal `null`.
    """
    return p_of_moments(
        moments(values), null, confidence=confidence, tuned_for=tuned_for
    )


def p_of_moments(
    found: Moments,
    null: float = 0.0,
    *,
    confidence: float = 0.95,
    tuned_for: int = TUNED_FOR,
) -> float:
    """Return `t_mixture_p` for values of these moments."""
    if found.n < 2 or found.mean == null:
        return 1.0
    if not found.sdev:
        return 0.0
    n, g = found.n, prior_precision(tuned_for, confidence)
    share = g / (n + g)
    x = (found.mean - null) / found.sdev
    square = x * x * n / (n - 1)
    log_ratio = 0.5 * math.log(share) + n / 2 * (
        math.log1p(square) - math.log1p(share * square)
    )
    return math.exp(-max(log_ratio, 0.0))
