"""How a mapping shares the time that is left until its deadline over the samples still to come.

Decision: every search gets an equal share, and no search less than what finds a peak roughly: a
search that ends early leaves its time to the others. Where the time is not enough for all samples,
fewer are searched. Many rough peaks map a surface better than a few precise ones: with ten samples the
model's own error is 4 to 5 %, and a search of `SEARCH_TRIALS` short trials finds the peak to about 5 %
with an interval that the model takes into account (docs/surface.md has the comparison).
Pure: the caller measures the time and records what was decided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchwright.core.surface import SampleResult, SurfaceGoal
from benchwright.decide.peak.reading import run_length_s
from benchwright.decide.surface import tuning


class TimeLeft(msgspec.Struct, frozen=True):
    """The time of a mapping with a deadline, when it chooses a sample."""

    spent_s: float
    """Time since the mapping began, without interruptions [s]."""
    left_s: float
    """Time until the deadline [s]."""
    begins: bool = False
    """Whether no search has begun within this deadline."""


class TimeShare(msgspec.Struct, frozen=True):
    """What the time left is enough for."""

    searches: int
    """Number of samples that can still be searched."""
    budget_s: float
    """Budget of the next search [s]."""


def time_share(
    goal: SurfaceGoal, results: Sequence[SampleResult], time: TimeLeft
) -> TimeShare:
    """Return how many of the samples still to come can be searched, and the budget of the next one.

    The first search of a deadline always has a budget: all of the time, if it is short.
    """
    cost_s = math.fsum(result.found.cost_s for result in results)
    # Decisions, recording and the start of a session cost time beside the trials.
    beside_s = max(time.spent_s - cost_s, 0.0) / len(results) if results else 0.0
    assert goal.deadline_s is not None
    low_s, high_s = tuning.END_RANGE_S
    end_s = min(max(tuning.END_SHARE * goal.deadline_s, low_s), high_s)
    left_s = time.left_s - end_s
    least_s = least_search_s(goal, results)
    affordable = int(left_s / (least_s + beside_s))
    last = left_s >= tuning.LAST_SEARCH_SHARE * least_s + beside_s
    searches = max(affordable, int(last or time.begins))
    searches = min(searches, goal.samples - len(results))
    if searches <= 0:
        return TimeShare(0, 0.0)
    budget_s = max(left_s / searches - beside_s, tuning.SHORTEST_BUDGET_S)
    return TimeShare(searches, math.floor(10 * budget_s) / 10)


def least_search_s(goal: SurfaceGoal, results: Sequence[SampleResult]) -> float:
    """Return the shortest budget of a search that finds a peak roughly [s]."""
    trials = sum(result.found.trials for result in results)
    restart_s = goal.peak.restart_s
    if trials:
        beside_load = (one.found.cost_s - one.found.load_s for one in results)
        restart_s = math.fsum(beside_load) / trials
    length_s = goal.trial_s or run_length_s(goal.peak, tuning.SEARCH_TRIAL_S)
    return tuning.SEARCH_TRIALS * (length_s + restart_s)
