"""Drift, leak and dependence: what the order of the trials shows.

Purpose: a slow rise or fall over the epochs, and neighbours that resemble each other.
Where residuals of a trend are correlated, the trend's test and interval are widened.
Sources: Auto-pilot paper, section 3.3 (leaks); stats/trend.py, autocorrelation.py.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from benchwright.finding.codes import doubt
from benchwright.finding.levels import DEPENDENT, FEWEST, RELEVANT, SUSPECTED, Series
from benchwright.finding.words import p_text, percent
from benchwright.model.finding import Finding, Severity
from benchwright.stats.autocorrelation import dependence
from benchwright.stats.longrun import inflation
from benchwright.stats.moments import FloatArray, median
from benchwright.stats.trend import Slope, mann_kendall, theil_sen

STRONG = 0.5
"""A correlation of neighbours from which on dependence is serious."""
TOO_NARROW = 1.1
"""A factor of an interval from which on it is told."""
FALLING, RISING = ("free_memory_bytes", "available_memory_bytes"), ("rss_bytes",)
"""Metrics whose fall, or rise, over the epochs is a leak."""


class Trend(msgspec.Struct, frozen=True):
    """A slope that is not chance."""

    slope: Slope
    p: float
    residuals: FloatArray
    """The values without it, shape `(n,)`."""


def trend(one: Series, level: float) -> Trend | None:
    """Return the trend of a series at a level, if there is one."""
    values, epochs = one.column.values, one.column.epochs
    test = mann_kendall(values)
    if values.size < FEWEST or not test.p <= level:
        return None
    slope = theil_sen(values, epochs)
    residuals = np.asarray(values - slope.value * (epochs - epochs.mean()))
    if dependence(residuals).p <= SUSPECTED:
        wider = inflation(residuals)
        slope = theil_sen(values, epochs, inflation=wider)
        test = mann_kendall(values, wider)
    return Trend(slope, test.p, residuals) if test.p <= level else None


def drift_finding(one: Series, found: Trend) -> Finding | None:
    """Return the doubt about a trend.

    None if it is less than what counts as a drift (a leak counts at any size), or if its interval touches 0, as that
    of ticks and pages may that mostly are equal.
    """
    name, epochs, slope = one.column.name, one.column.epochs, found.slope
    middle, span = median(one.column.values), int(epochs[-1] - epochs[0])
    if not slope.value or slope.low <= 0 <= slope.high:
        return None
    leak = name in FALLING if slope.value < 0 else name in RISING
    least = one.least_change or (0.0 if leak else RELEVANT)
    if abs(slope.value * span) < least * abs(middle):
        return None
    interval = ""
    if math.isfinite(slope.low):
        interval = (
            f" ({100 * slope.confidence:g} % interval {percent(slope.low, middle)} to "
            f"{percent(slope.high, middle)})"
        )
    evidence = (
        f"{name} {'rises' if slope.value > 0 else 'falls'}: "
        f"{percent(slope.value, middle)} per epoch{interval}, "
        f"{percent(slope.value * span, middle)} of the median over epochs "
        f"{int(epochs[0])} to {int(epochs[-1])} (Theil-Sen; Mann-Kendall {p_text(found.p)})"
    )
    return doubt("memory-leak" if leak else "drift", one.test, evidence)


def dependence_finding(one: Series, residuals: FloatArray) -> Finding | None:
    """Return the doubt about what a drift leaves over, shape `(n,)`, if there is one."""
    found = dependence(residuals)
    if not found.p <= DEPENDENT * one.share:
        return None
    evidence = (
        f"{one.column.name} of neighbouring trials correlates by {found.rank_lag_1:.2f} "
        f"(of ranks; {p_text(found.p)})"
    )
    # A few outliers may make up most of the variance: then values hardly correlate.
    narrow = math.sqrt(found.n / found.effective)
    if narrow >= TOO_NARROW:
        evidence += (
            f": {found.n} trials are worth {found.effective:.0f} independent ones, and "
            f"LOW to HIGH is too narrow by a factor of about {narrow:.1f}"
        )
    else:
        evidence += ": trials are not independent"
    severity = Severity.SERIOUS if found.rank_lag_1 >= STRONG else None
    return doubt("dependent-trials", one.test, evidence, severity)
