"""Overhead: by how much a mean lies above a baseline's, in percent (the O/H column)."""

from __future__ import annotations

import math


def overhead_percent(mean: float, baseline: float) -> float:
    """Return 100 * (mean - baseline) / |baseline| [%]; NaN where the baseline is 0.

    Positive when the value is larger, whatever the sign of the baseline. A point
    estimate without an interval: a comparison's verdict is another method's.
    Source: Auto-pilot paper, section 3.3.
    """
    if not baseline or not math.isfinite(baseline):
        return math.nan
    return 100 * ((mean - baseline) / abs(baseline))


def percent_of_mean(value: float, mean: float) -> float:
    """Return `value` in percent of |mean| (SDEV% and HW%) [%].

    NaN where the mean is 0 and the value is not; 0 where both are.
    """
    if not mean:
        return 0.0 if value == 0 else math.nan
    return 100 * (value / abs(mean))
