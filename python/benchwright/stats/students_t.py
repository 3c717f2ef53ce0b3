"""Student-t intervals of a mean.

Purpose: the interval of Getstats' LOW and HIGH columns, and its quantile for the
stopping rules. Exact for independent normal values, good for skewed ones from n = 20 on
(at small n it is preferred to the bootstrap).
Non-goals: medians, ratios and dependent data, which have methods of their own.
Source: "Student" (1908), The probable error of a mean, Biometrika 6(1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from benchwright.model.estimate import Estimate
from benchwright.stats.moments import FloatArray, moments

METHOD = "student-t"


@lru_cache(maxsize=4096)
def t_quantile(confidence: float, degrees: int) -> float:
    """Return the two-sided Student-t quantile; NaN below one degree of freedom.

    `confidence` lies in (0, 1). scipy.special is imported here because it takes a
    tenth of a second, which `bw --help` must not pay.
    """
    assert 0 < confidence < 1, "a confidence lies between 0 and 1"
    if degrees < 1:
        return math.nan
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + confidence / 2))


def t_half_width(sdev: float, n: int, confidence: float) -> float:
    """Return the interval's half width in the unit of `sdev`; NaN for n < 2."""
    if n < 2:
        return math.nan
    return t_quantile(confidence, n - 1) * (sdev / math.sqrt(n))


def t_interval(
    values: FloatArray | Sequence[float], confidence: float = 0.95, unit: str = ""
) -> Estimate:
    """Return the mean of `values`, shape `(n,)`, with its Student-t interval.

    Values that are not finite are not observations and are left out. The interval is
    NaN for n < 2, the mean too for n = 0.
    """
    found = moments(values)
    half = t_half_width(found.sdev, found.n, confidence)
    return Estimate(
        value=found.mean,
        low=found.mean - half,
        high=found.mean + half,
        confidence=confidence,
        method=METHOD,
        n=found.n,
        unit=unit,
    )
