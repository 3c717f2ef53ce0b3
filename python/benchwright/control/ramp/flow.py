"""From a trial to its throughput, and how much of that is noise.

Purpose: the relative variance of one run's throughput, with its autocorrelation. The
counts per second of a server resemble their neighbours, so that their plain standard
deviation is too small; the long-run variance is not. A warm-up is cut off. Decision: cosines
(stats/longrun.py) rather than batch means: for 10 bins they have known degrees of
freedom. What differs between runs no run can show: see level.py. The bins of an open
loop may be those of a schedule, which goes on whatever the server does: an overloaded
server would seem to do all that arrives. They are used only where the run kept up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec
import numpy as np

from benchwright.model.peak import LoadTrial
from benchwright.model.ramp import Axis
from benchwright.stats.longrun import cosine_count, inflation, long_run_sdev
from benchwright.stats.moments import FloatArray
from benchwright.stats.warmup import mser_truncation

THROUGHPUT = "throughput_per_s"
"""Key of a trial's value where the generator tells it itself."""
FEWEST_BINS = 4
"""Below it a series tells no variance; half of ten bins, a cut warm-up, must do."""
_WARM_UP_P = 0.01
_KEPT_UP = 0.95
"""Of the arrivals: a run that ended so many did in each second what arrived in it."""


class Flow(msgspec.Struct, frozen=True):
    """One trial's throughput."""

    level: float
    throughput: float
    """Operations that ended well [1/s]."""
    variance: float | None
    """Relative, of the run's mean; None: unknown."""
    degrees: int
    """Of freedom of the variance; 0 where it is unknown."""
    warm_up_s: float
    """What was cut off at the begin [s]."""


def flow_of(trial: LoadTrial, axis: Axis) -> Flow | None:
    """Return a trial's throughput; None where nothing tells it."""
    counts, cut = _counts_of_arrivals(trial), 0
    if axis is Axis.USERS or trial.series.binned_by == "completion":
        counts, cut = _steady_counts(trial)
    throughput = _throughput(trial, counts, cut)
    if throughput is None:
        return None
    variance, degrees = _variance(counts)
    width_s = trial.series.width_s
    return Flow(trial.rate, throughput, variance, degrees, cut * width_s)


def flows_of(trials: Iterable[LoadTrial], axis: Axis) -> list[Flow]:
    """Return the throughputs of the trials that tell one."""
    found = (flow_of(trial, axis) for trial in trials)
    return [flow for flow in found if flow is not None]


def _steady_counts(trial: LoadTrial) -> tuple[FloatArray, int]:
    """Return the counts of the bins after the warm-up, and how many bins that was."""
    counts = _whole_counts(trial)
    found = mser_truncation(counts, inflation(counts))
    cut = found.removed if found.p < _WARM_UP_P else 0
    return counts[cut:], cut


def _counts_of_arrivals(trial: LoadTrial) -> FloatArray:
    """Return the counts of the bins of a run that kept up; of another one, none."""
    ended = trial.values.get(THROUGHPUT, _ended_rate(trial))
    kept_up = ended is not None and ended >= _KEPT_UP * trial.offered_rate
    return _whole_counts(trial) if kept_up else np.empty(0)


def _whole_counts(trial: LoadTrial) -> FloatArray:
    """Return the counts of the bins without a last one that the load's end cut."""
    series = trial.series
    whole = [
        count
        for at_s, count in zip(series.at_s, series.counts, strict=True)
        if at_s + series.width_s <= trial.lasted_s * 1.001
    ]
    return np.asarray(whole, dtype=np.float64)


def _ended_rate(trial: LoadTrial) -> float | None:
    if trial.completed is None or not trial.lasted_s:
        return None
    return trial.completed / trial.lasted_s


def _throughput(trial: LoadTrial, counts: FloatArray, cut: int) -> float | None:
    """Return what the generator says; else what was counted, after the warm-up."""
    told = trial.values.get(THROUGHPUT)
    if told is not None:
        return told
    if cut or trial.completed is None:
        if not counts.size:
            return None
        return float(counts.mean()) / trial.series.width_s * _well_share(trial)
    return _ended_rate(trial)


def _well_share(trial: LoadTrial) -> float:
    """Return what share of the operations in the series ended well, where that is known."""
    total = sum(trial.series.counts)
    if trial.completed is None or not total:
        return 1.0
    return min(trial.completed / total, 1.0)


def _variance(counts: FloatArray) -> tuple[float | None, int]:
    if counts.size < FEWEST_BINS or not counts.mean() > 0:
        return None, 0
    error = long_run_sdev(counts) / math.sqrt(counts.size)
    return (error / float(counts.mean())) ** 2, cosine_count(counts.size)
