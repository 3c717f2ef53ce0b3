"""Error bars: the interval that a point carries, and how it was made.

Purpose: one function for all modes. Decision: Student's t by default, as the tables'
LOW and HIGH (and Graphit's error bars); of one trial there is no error bar, rather than
one of length zero. Sources: Auto-pilot paper, sections 3.3 and 3.4.
"""

from __future__ import annotations

import math

from benchwright.model.decision import Stop
from benchwright.model.estimate import Estimate
from benchwright.stats.moments import FloatArray, moments
from benchwright.stats.students_t import t_interval

KINDS = ("t", "minmax", "sdev", "interval", "none")


def error_bar(
    values: FloatArray, kind: str, confidence: float, own: Estimate | None = None
) -> Estimate:
    """Return the mean of `values`, shape `(n,)`, n >= 1, with its error bar.

    `own` is the interval that the test's stopping rule reached, used by `interval`;
    its value may be another statistic than the mean. NaN where there is no bar.
    """
    assert kind in KINDS
    if kind == "interval" and own is not None:
        return own
    if kind in ("t", "interval"):
        return t_interval(values, confidence)
    found = moments(values)
    low = high = math.nan
    if kind == "minmax" and found.n > 1:
        low, high = float(values.min()), float(values.max())
    elif kind == "sdev":
        low, high = found.mean - found.sdev, found.mean + found.sdev
    return Estimate(found.mean, low, high, confidence, kind, found.n)


def reached(stop: Stop | None, metric: str) -> Estimate | None:
    """Return the estimate with which a test's own rule ended, where it has one."""
    found = () if stop is None else stop.reached
    return next((r.estimate for r in found if r.metric == metric), None)


def known(value: float) -> float | None:
    """Return a finite number, or None: what cannot be told is absent."""
    return value if math.isfinite(value) else None
