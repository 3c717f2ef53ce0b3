"""Limits as times, values as shares of their limit, and lengths of runs that follow from a limit."""

from __future__ import annotations

from benchwright.core.criterion import Criterion
from benchwright.core.numeric import np
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.types import PeakGoal
from benchwright.stats.arrays import FloatArray

SECONDS_OF_UNIT = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}


def share_of_limit(criterion: Criterion, value: FloatArray | float) -> FloatArray:
    """Return values as shares of the limit: above 1 where the criterion fails.

    A value that should be high is inverted; for a share that should be high, 1 - share counts.
    """
    values = np.asarray(value, dtype=float)
    if criterion.better == "lower":
        return np.asarray(values / criterion.limit)
    if criterion.statistic == "share" and criterion.limit < 1:
        return np.asarray((1 - values) / (1 - criterion.limit))
    return np.asarray(criterion.limit / np.maximum(values, 1e-12))


def limit_s(criterion: Criterion) -> float | None:
    """Return the limit as a time [s]; None where the criterion is not a time."""
    scale = SECONDS_OF_UNIT.get(criterion.unit)
    return None if scale is None else criterion.limit * scale


# -- lengths of runs -------------------------------------------------------------------------


def time_scale(limit_s: float | None) -> float:
    """Return the factor, at most 1, for the usual run lengths of a server with this limit; 1
    where the limit is not a time.

    Other things equal, the relaxation time of a queue at its limit is proportional to the limit.
    """
    if limit_s is None:
        return 1.0
    return min(max(limit_s / tuning.USUAL_LIMIT_S, tuning.LEAST_TIME_SCALE), 1.0)


def run_length_s(goal: PeakGoal, usual_s: float) -> float:
    """Return the length of a run: the user's, or the usual one on the time scale of the goal's
    first criterion [s]."""
    return goal.run_length_s or time_scale(limit_s(goal.criteria[0])) * usual_s
