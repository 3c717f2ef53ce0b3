"""How a mapping shares the time that is left until its deadline over the samples still to come.

Decision: every search gets an equal share, and no search less than what finds a peak roughly: a
search that ends early leaves its time to the others. Where the time is not enough for all samples,
fewer are searched. Many rough peaks map a surface better than a few precise ones: with ten samples
the model's own error is 4 to 5 %, and a search of `SEARCH_TRIALS` short trials finds the peak to
about 5 % with an interval that the model takes into account (docs/surface.md has the comparison).
Pure: the caller measures the time and records what was decided.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import msgspec

from benchwright.features.search.peak.policies.units import run_length_s
from benchwright.features.search.surface import tuning
from benchwright.features.search.surface.types import SampleResult, SurfaceGoal


class TimeLeft(msgspec.Struct, frozen=True):
    """The time of a mapping with a deadline, when it chooses a sample."""

    spent_s: float
    """Time since the mapping began, without interruptions [s]."""
    left_s: float
    """Time until the deadline [s]."""
    begins: bool = False
    """Whether no search has begun within this deadline."""
    held_s: float | None = None
    """Of a pool: time for which the searches that ended held their gangs [s]; None: `spent_s`."""


class GangTimes(msgspec.Struct, frozen=True):
    """The gangs of a pool that share the time of a deadline. Without a pool, one that is free."""

    free_s: tuple[float, ...] = (0.0,)
    """Time until each gang is free, at most: what is left of the budgets of its searches [s]."""
    following: tuple[int, ...] = (0,)
    """The gangs (indexes of `free_s`) that are to make the next searches, in this order; then all
    gangs make one each, again and again."""


class TimeShare(msgspec.Struct, frozen=True):
    """What the time left is enough for."""

    searches: int
    """Number of searches that can still be made."""
    budget_s: float
    """Budget of the next search [s]."""
    gang: int = 0
    """Index of the gang that makes the next search."""


def time_share(
    goal: SurfaceGoal,
    results: Sequence[SampleResult],
    time: TimeLeft,
    to_come: int | None = None,
    gangs: GangTimes | None = None,
) -> TimeShare:
    """Return how many of the searches still to come can be made, and the budget of the next one.

    `to_come`: number of searches still to come; None: one for each sample without a result. A gang
    without time for another search is passed over. The first search of a deadline always has a
    budget: all of the time, if it is short.
    """
    gangs = GangTimes() if gangs is None else gangs
    to_come = goal.samples - len(results) if to_come is None else to_come
    beside_s = time_beside_s(results, time)
    end_s = _end_s(goal)
    least_s = least_search_s(goal, results)
    left_s = [time.left_s - end_s - free_s for free_s in gangs.free_s]
    room = [
        max(
            int(left / (least_s + beside_s)),
            int(left >= tuning.LAST_SEARCH_SHARE * least_s + beside_s),
        )
        for left in left_s
    ]
    if time.begins:
        first = gangs.following[0]
        room[first] = max(room[first], 1)
    made = [0] * len(room)
    rounds = itertools.repeat(range(len(room)), to_come)
    order: list[int] = []
    for gang in itertools.chain(gangs.following, *rounds):
        if len(order) < to_come and made[gang] < room[gang]:
            made[gang] += 1
            order.append(gang)
    if not order:
        return TimeShare(0, 0.0)
    gang = order[0]
    budget_s = max(left_s[gang] / made[gang] - beside_s, tuning.SHORTEST_BUDGET_S)
    return TimeShare(len(order), math.floor(10 * budget_s) / 10, gang)


def _end_s(goal: SurfaceGoal) -> float:
    """Return the time that is kept for the start and the end of the session [s]."""
    assert goal.deadline_s is not None
    low_s, high_s = tuning.END_RANGE_S
    return min(max(tuning.END_SHARE * goal.deadline_s, low_s), high_s)


def budget_within_s(goal: SurfaceGoal, budget_s: float | None, left_s: float) -> float:
    """Return the budget of a search that was chosen earlier and begins now [s].

    `budget_s`: its share of the time when it was chosen. Less may be `left_s` until the deadline,
    because its gang was busy or was not there.
    """
    left_s = max(left_s - _end_s(goal), tuning.SHORTEST_BUDGET_S)
    return min(left_s, math.inf if budget_s is None else budget_s)


def time_beside_s(results: Sequence[SampleResult], time: TimeLeft) -> float:
    """Return the time of a search beside its trials, as the mean of these results [s]: decisions,
    recording and the start of a session."""
    if not results:
        return 0.0
    cost_s = math.fsum(result.found.cost_s for result in results)
    held_s = time.spent_s if time.held_s is None else time.held_s
    return max(held_s - cost_s, 0.0) / len(results)


def least_search_s(goal: SurfaceGoal, results: Sequence[SampleResult]) -> float:
    """Return the shortest budget of a search that finds a peak roughly [s]."""
    trials = sum(result.found.trials for result in results)
    restart_s = goal.peak.restart_s
    if trials:
        beside_load = (result.found.cost_s - result.found.load_s for result in results)
        restart_s = math.fsum(beside_load) / trials
    length_s = goal.trial_s or run_length_s(goal.peak, tuning.SEARCH_TRIAL_S)
    return tuning.SEARCH_TRIALS * (length_s + restart_s)
