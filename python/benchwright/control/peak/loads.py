"""What the runs at each load say by themselves: a mean with a Student-t error, no curve.

Purpose: the evidence of a search that assumes only that the response grows with the rate.
Runs at one intended rate are pooled; the error of their mean has two sources, each run's own
batch means and the differences between runs, and the larger one is believed.
Decision: errors are relative (of the logarithm): a run's mean near saturation is skewed,
its logarithm much less.
The variance has two levels, within and between runs; within: batch means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from benchwright.control.peak.noise import NOTHING, OwnNoise, own_noise
from benchwright.control.peak.remembered import Remembered
from benchwright.control.peak.seen import counted_rate
from benchwright.model.peak import Criterion, LoadEnding, LoadTrial, PeakGoal

LEAST_FREEDOM = 1.0
BLIND_SD = 0.3
"""Relative standard deviation of a mean about whose noise nothing is known."""
SURE = 0.995
"""No single load is believed more than this: one run may be anything."""
UNWORKED = 0.05
"""A value below this share of its limit has no logarithm worth a t-interval: it holds."""


class Load(msgspec.Struct, frozen=True):
    """The binding criterion at one load, as a share of its limit."""

    rate: float
    """Mean of the realised rates [1/s]."""
    value: float
    """1 at the limit, more is worse; infinite where the server failed."""
    error: float
    """Relative standard error of the value."""
    freedom: float
    runs: int
    lasts_s: float
    key: str = ""
    """Of the criterion that binds here."""

    def below(self, bound: float) -> float:
        """Return the probability that the true value is below a bound."""
        if math.isinf(self.value):
            return 1 - SURE
        if self.value < UNWORKED:
            return SURE
        t = (math.log(bound) - math.log(self.value)) / self.error
        return min(max(_student_t(self.freedom, t), 1 - SURE), SURE)


def loads(goal: PeakGoal, history: Sequence[LoadTrial]) -> list[Load]:
    """Return the loads tested so far, in the order of their rates."""
    by_rate: dict[float, list[LoadTrial]] = {}
    for trial in history:
        by_rate.setdefault(trial.rate, []).append(trial)
    found = [load_of(goal, trials) for trials in by_rate.values()]
    return sorted(found, key=lambda load: load.rate)


def load_of(goal: PeakGoal, trials: Sequence[LoadTrial]) -> Load:
    """Return what the trials at one load, at least one, come to."""
    each = [load_by(criterion, trials) for criterion in goal.criteria]
    # The one that is worst: by its value, in units of what it may be.
    return max(each, key=lambda load: load.value)


def load_by(criterion: Criterion, trials: Sequence[LoadTrial]) -> Load:
    """Return what the trials at one load, at least one, come to by one criterion."""
    rate = math.fsum(counted_rate(t) for t in trials) / len(trials)
    lasts_s = math.fsum(t.lasted_s for t in trials)
    values = np.array([value_share(criterion, trial) for trial in trials])
    lengths = np.array([trial.lasted_s for trial in trials])
    if not np.isfinite(values).all():
        return Load(
            rate, math.inf, 0.0, LEAST_FREEDOM, len(trials), lasts_s, criterion.key
        )
    value = float(np.average(values, weights=lengths))
    error, freedom = _error(criterion, trials, values, lengths)
    return Load(rate, value, error, freedom, len(trials), lasts_s, criterion.key)


def value_share(criterion: Criterion, trial: LoadTrial) -> float:
    """Return a trial's value as a share of the limit, more being worse."""
    if trial.ending is LoadEnding.FAILED:
        return math.inf
    value = trial.values.get(criterion.key, math.inf)
    if criterion.better == "lower":
        return value / criterion.limit if criterion.limit else math.copysign(9, value)
    return criterion.limit / value if value > 0 else math.inf


def _error(
    criterion: Criterion,
    trials: Sequence[LoadTrial],
    values: np.ndarray[tuple[int], np.dtype[np.float64]],
    lengths: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> tuple[float, float]:
    """Return the relative standard error of the pooled mean, and its freedom."""
    mean = max(float(np.average(values, weights=lengths)), 1e-12)
    own = [_own_noise(criterion, trial) for trial in trials]
    inside = math.fsum(one.freedom for one in own)
    between = float(len(trials) - 1)
    if inside + between == 0:
        return BLIND_SD, LEAST_FREEDOM
    own_s = math.fsum(o.freedom * o.relative_s for o in own) / max(inside, 1e-9)
    runs_s = float(lengths @ (values / mean - 1) ** 2) / max(between, 1.0)
    pooled_s = (inside * own_s + between * runs_s) / (inside + between)
    if between >= 2 and runs_s > pooled_s:
        pooled_s, inside = runs_s, 0.0
    error = math.sqrt(pooled_s / float(lengths.sum()))
    return max(error, 1e-6), max(inside + between, LEAST_FREEDOM)


def _own_noise(criterion: Criterion, trial: LoadTrial) -> OwnNoise:
    return _NOISES.value([trial], criterion, lambda: _noise_of(criterion, trial))


_NOISES: Remembered[OwnNoise] = Remembered(1024)


def _noise_of(criterion: Criterion, trial: LoadTrial) -> OwnNoise:
    column = trial.series.values.get(criterion.key, ())
    if len(column) != len(trial.series.at_s):
        return NOTHING
    values = np.asarray(column, dtype=float)
    counts = np.asarray(trial.series.counts, dtype=float)
    known = (counts > 0) & np.isfinite(values)
    return own_noise(values[known], counts[known], trial.series.width_s, 0.0)


def _student_t(freedom: float, t: float) -> float:
    from scipy.special import stdtr

    return float(stdtr(freedom, t))
