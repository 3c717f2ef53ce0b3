"""Warm-up: the first trials are not like the rest.

Purpose: to tell a beginning from what only looks like one: a drift, a slow wave of
correlated trials, a second mode that comes back, an outlier.
Non-goals: removal; the table keeps every trial.
Source: stats/warmup.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchwright.finding.codes import doubt
from benchwright.finding.levels import (
    MODES,
    OUTLIERS,
    RELEVANT,
    SUSPECTED,
    WARM_UP,
    Series,
)
from benchwright.finding.words import amount, p_text, percent
from benchwright.model.finding import Finding
from benchwright.stats.autocorrelation import dependence
from benchwright.stats.longrun import inflation
from benchwright.stats.modes import two_modes
from benchwright.stats.moments import FloatArray, median, moments
from benchwright.stats.outliers import Outlier, modified_z, threshold
from benchwright.stats.warmup import Truncation, mser_truncation

MARGIN = 4.0
"""By how much, in variances, a step must fit better than a straight line to be a warm-up
and no drift: the two wrong answers are then about equally rare."""


def warm_up(one: Series, far: Sequence[Outlier]) -> Truncation | None:
    """Return the warm-up of a series, if it has one; `far` are its outliers."""
    values = one.column.values
    tame = _pulled_in(values, far, OUTLIERS * one.share)
    found = mser_truncation(tame)
    if not (found.removed and found.p <= WARM_UP * one.share):
        return None
    cut, rest = found.removed, tame[found.removed :]
    if dependence(rest).p <= SUSPECTED:
        again = mser_truncation(tame, inflation(rest))
        if not again.p <= WARM_UP * one.share:
            return None
    if _comes_back(values, cut, MODES * one.share):
        return None
    before, after = moments(values[:cut]), moments(values[cut:])
    return Truncation(cut, values.size, before.mean, after.mean, found.p)


def _pulled_in(values: FloatArray, far: Sequence[Outlier], level: float) -> FloatArray:
    """Return the values with outliers at the threshold, so that one alone makes no
    warm-up; those that are the very first trials stay, as they are one."""
    if not far:
        return values
    places = [one.place for one in far]
    first = sum(place == number for number, place in enumerate(places))
    rest, tame = np.array(places[first:], dtype=np.int64), values.copy()
    if rest.size:
        # Score and limit are linear in the values: no spread is needed here.
        limit = threshold(values.size, level) / np.abs(modified_z(values)[rest])
        middle = median(values)
        tame[rest] = middle * (1 - limit) + values[rest] * limit
    return tame


def rather_a_step(values: FloatArray) -> bool:
    """Tell whether a step within the first third of a series fits it better than a straight
    line, by the margin; values not all equal, shape `(n,)`."""
    spread = moments(values)
    scaled = (values / 2 - spread.mean / 2) / (spread.sdev / 2)
    n = scaled.size
    x = np.arange(n) - (n - 1) / 2
    line = float(np.dot(x, scaled)) ** 2 / float(np.dot(x, x))
    cuts = np.arange(1, n // 3 + 1)
    # Of values with mean 0 the sums before and after a cut differ in sign only.
    step = float(np.max(np.cumsum(scaled)[cuts - 1] ** 2 * n / (cuts * (n - cuts))))
    noise = max(float(np.dot(scaled, scaled)) - max(step, line), 0.0) / (n - 2)
    return step - line > MARGIN * noise


def _comes_back(values: FloatArray, cut: int, level: float) -> bool:
    """Tell whether the values have two modes of which the rarer one comes back after the
    cut, more than once in four: then it switches, and does not warm up."""
    modes = two_modes(values, level)
    if modes is None:
        return False
    high = values > modes.low / 2 + modes.high / 2
    rarer = high if modes.n_high <= modes.n_low else ~high
    early = int(np.count_nonzero(rarer[:cut]))
    return 4 * int(np.count_nonzero(rarer[cut:])) > early


def warm_up_finding(one: Series, warm: Truncation) -> Finding | None:
    """Return the doubt: how many trials, and the mean with and without them; None where
    that makes no difference to speak of."""
    epochs = one.column.epochs[: warm.removed]
    every = moments(one.column.values).mean
    if abs(every - warm.mean_after) < RELEVANT * abs(warm.mean_after):
        return None
    change = percent(warm.mean_before - warm.mean_after, warm.mean_after)
    evidence = (
        f"{one.column.name}: the first {warm.removed} of {warm.n} trials "
        f"(to epoch {int(epochs[-1])}) are {change} from the rest "
        f"(MSER truncation; {p_text(warm.p)}); mean "
        f"{amount(every, one.unit)} with them, {amount(warm.mean_after, one.unit)} without"
    )
    return doubt("warm-up", one.test, evidence)
