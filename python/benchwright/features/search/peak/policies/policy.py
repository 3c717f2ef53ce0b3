"""Policies of a peak search: their interface and what they share: limits as times, values as shares
of their limit, and lengths of runs that follow from a limit.

A policy has no state: its decisions depend only on the trials so far. So a resumed search continues
as if it had not been interrupted, and a search of a simulated server runs the same code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from benchwright.core.criterion import Criterion
from benchwright.core.numeric import np
from benchwright.features.load.plan import LoadTrial, Probe, rounded_rate
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.types import (
    Claim,
    ClaimResult,
    PeakGoal,
    PeakStatus,
    rounded_bound,
)
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


class Policy(Protocol):
    """A way to search for the peak rate."""

    @property
    def name(self) -> str:
        """The name for `--policy`."""

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | ClaimResult:
        """Return the next probe, or the result."""

    def leaves(
        self, goal: PeakGoal, history: Sequence[LoadTrial], probe: Probe, so_far: LoadTrial
    ) -> bool:
        """Return whether a running probe has shown enough: called about once a second.

        `so_far` is the trial as it would be if the probe ended now.
        """

    def read(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Sequence[LoadTrial]:
        """Return the trials with the values by which this policy judges them."""

    def best(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> ClaimResult:
        """Return the best answer so far, for when the budget or the number of trials is used up."""


def no_trial_result(goal: PeakGoal, policy: str) -> ClaimResult:
    """Return the result of a policy of this name without any usable trial."""
    return ClaimResult(
        status=PeakStatus.UNDECIDED, detail="no usable trial", claim=goal.claim, policy=policy
    )


# -- bounds: the lowest and highest rate that a search may probe ----------------------------------
#
# Decision: bounds depend only on the goal, so that a policy that replays its history finds the
# trials of a probe that was moved to a bound.


def lowest_rate(goal: PeakGoal) -> float:
    """Return the lowest rate that may be probed [1/s]."""
    rate = goal.lowest_rate
    if rate is None:
        few = tuning.FEWEST_OPERATIONS / _lowest_run_s(goal)
        few = min(few, goal.start_rate * tuning.DESCENT_SHARE)
        rate = max(goal.start_rate * tuning.LOWEST_SHARE, few)
    return rounded_bound(rate, goal.rate_step, math.ceil)


def highest_rate(goal: PeakGoal) -> float:
    """Return the highest rate that may be probed [1/s]."""
    rate = goal.highest_rate or max(tuning.HIGHEST_RATE, goal.start_rate / tuning.LOWEST_SHARE)
    return rounded_bound(rate, goal.rate_step, math.floor)


def within_bounds(goal: PeakGoal, rate: float) -> float:
    """Return the rate within the bounds that the generator can produce, nearest to `rate`
    [1/s]."""
    rounded = rounded_rate(rate, goal.rate_step)
    return min(max(rounded, lowest_rate(goal)), highest_rate(goal))


def _lowest_run_s(goal: PeakGoal) -> float:
    """Return the length of a run at the lowest rate [s]."""
    limits_ms = [c.limit for c in goal.criteria if c.unit == "ms"]
    limit_s = max((ms for ms in limits_ms if math.isfinite(ms)), default=0.0) / 1e3
    long_s = tuning.LOWEST_RUN_LIMITS * limit_s
    return max(goal.run_length_s or 0.0, tuning.MONOTONE_CLIMB_S, long_s)


# -- the stop rule: the probability of a claim at which a search may stop --------------------------


def probability_wanted(claim: Claim) -> float:
    """Return the probability of a claim at which its search may stop: half of what is missing to 1
    is the price of a look after every run."""
    return (1 + claim.confidence) / 2
