"""Whether a higher load clearly responds faster than a lower one.

Decision: two runs are compared over the same ages, so that a cold start, which is most of a
short run and little of a long one, is not taken for order; and by their own noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from benchwright.control.peak.curve import FloatArray
from benchwright.model.peak import Criterion, LoadEnding, LoadTrial, PeakGoal

CHANCE = 1e-5
"""Probability of a pair's difference by chance, at most: there are many pairs."""
FALLS = 1.12
"""By so many times the lower load must respond slower."""
APART = 1.15
"""... and the higher load be higher."""
FEWEST_BINS = 4
NOISE = 0.02
"""Relative standard deviation between runs that is no evidence."""


def not_monotonic(goal: PeakGoal, history: Sequence[LoadTrial]) -> str:
    """Return how a higher load responds faster than a lower one; else ''."""
    criterion = goal.criteria[0]
    runs = [
        (trial, bins)
        for trial in sorted(history, key=lambda trial: trial.rate)
        if trial.ending is not LoadEnding.FAILED
        and (bins := _bins(criterion, trial)).size >= FEWEST_BINS
    ]
    for i, (low, slow) in enumerate(runs):
        for high, quick in runs[i + 1 :]:
            if high.rate > APART * low.rate and _clearly_slower(slow, quick):
                return _text(criterion, low, high)
    return ""


def _bins(criterion: Criterion, trial: LoadTrial) -> FloatArray:
    """Return a trial's values in time, without the empty server's first bin."""
    column = trial.series.values.get(criterion.key, ())
    if len(column) != len(trial.series.at_s) or criterion.better != "lower":
        return np.empty(0)
    counts = np.asarray(trial.series.counts)
    values = np.asarray(column, dtype=float)[1:]
    return values[(counts[1:] > 0) & np.isfinite(values)]


def _clearly_slower(slow: FloatArray, quick: FloatArray) -> bool:
    from scipy.special import stdtr

    n = min(slow.size, quick.size)
    one, other = slow[:n], quick[:n]
    low, high = float(one.mean()), float(other.mean())
    if high <= 0 or low < FALLS * high:
        return False
    error = math.sqrt(
        2 * (float(one.var(ddof=1)) / low**2 + float(other.var(ddof=1)) / high**2) / n
        + 2 * NOISE**2
    )
    t = math.log(low / high) / error
    return float(stdtr(n - 1, -t)) < CHANCE


def _text(criterion: Criterion, low: LoadTrial, high: LoadTrial) -> str:
    values = [trial.values.get(criterion.key, math.nan) for trial in (low, high)]
    return (
        f"{criterion.key} falls from {values[0]:.4g} {criterion.unit} at {low.rate:.5g}/s "
        f"to {values[1]:.4g} {criterion.unit} at {high.rate:.5g}/s"
    )
