"""Drift, leak and dependence: what the order of the trials shows.

Purpose: a slow rise or fall over the epochs, and neighbours that resemble each other.
Where residuals of a trend are correlated, the trend's test and interval are widened.
Sources: papers/auto-pilot.txt section 3.3 (leaks); stats/trend.py, autocorrelation.py.
"""

from __future__ import annotations

import math

import numpy as np

from benchwright.finding.codes import doubt
from benchwright.finding.levels import DEPENDENT, FEWEST, SUSPECTED, Series
from benchwright.finding.words import p_text, percent
from benchwright.model.finding import Finding, Severity
from benchwright.stats.autocorrelation import dependence
from benchwright.stats.longrun import inflation
from benchwright.stats.moments import FloatArray, median
from benchwright.stats.trend import Slope, mann_kendall, theil_sen

STRONG = 0.5
"""A correlation of neighbours from which on dependence is serious."""
FALLING, RISING = ("free_memory_bytes", "available_memory_bytes"), ("rss_bytes",)
"""Metrics whose fall, or rise, over the epochs is a leak."""


def drift_finding(one: Series, level: float) -> tuple[Finding | None, FloatArray]:
    """Return the drift, if there is one, and the values without their trend."""
    values, epochs = one.column.values, one.column.epochs
    if values.size < FEWEST or not mann_kendall(values).p <= level:
        return None, values
    slope = theil_sen(values, epochs)
    residuals = np.asarray(values - slope.value * (epochs - epochs.mean()))
    wider = 1.0
    if dependence(residuals).p <= SUSPECTED:
        wider = inflation(residuals)
        slope = theil_sen(values, epochs, inflation=wider)
    test = mann_kendall(values, wider)
    if not test.p <= level:
        return None, values
    middle, over = median(values), slope.value * float(epochs[-1] - epochs[0])
    if abs(over) < one.least_change * abs(middle):
        return None, residuals
    return _told(one, slope, test.p), residuals


def _told(one: Series, slope: Slope, p: float) -> Finding:
    name, epochs = one.column.name, one.column.epochs
    middle, span = median(one.column.values), int(epochs[-1] - epochs[0])
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
        f"{int(epochs[0])} to {int(epochs[-1])} (Theil-Sen; Mann-Kendall {p_text(p)})"
    )
    leak = name in FALLING if slope.value < 0 else name in RISING
    return doubt("memory-leak" if leak else "drift", one.test, evidence)


def dependence_finding(one: Series, residuals: FloatArray) -> Finding | None:
    """Return the doubt about what a drift leaves over, shape `(n,)`, if there is one."""
    found = dependence(residuals)
    if not found.p <= DEPENDENT * one.share:
        return None
    evidence = (
        f"{one.column.name} of neighbouring trials correlates by {found.lag_1:.2f} "
        f"({p_text(found.p)}): {found.n} trials are worth {found.effective:.0f} "
        "independent ones, and LOW to HIGH is too narrow by a factor of about "
        f"{math.sqrt(found.n / found.effective):.1f}"
    )
    severity = Severity.SERIOUS if found.lag_1 >= STRONG else None
    return doubt("dependent-trials", one.test, evidence, severity)
