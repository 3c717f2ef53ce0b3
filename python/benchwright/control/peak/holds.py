"""Whether trials meet the criteria, by the means of their values, and what that tells.

Purpose: what ends a search at a bound, where no policy's statistics are asked.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from benchwright.control.peak.seen import Seen, is_behind, is_short
from benchwright.finding.load_words import name_of, value_text
from benchwright.model.peak import Criterion, LoadEnding, LoadTrial, PeakGoal

FARTHER = 1.5
"""Two rates that are so many times apart: realised ones differ too, if they follow."""
AS_MUCH = 1.05
"""A realised rate that grew by less did not follow."""

Failing = tuple[Criterion, float]
"""A criterion that is not met, and the mean of its values."""


def failing_of(goal: PeakGoal, trials: Sequence[LoadTrial]) -> list[Failing]:
    """Return each criterion that the means of trials do not meet, in the goal's order."""
    failing = []
    for criterion in goal.criteria:
        values = [t.values[criterion.key] for t in trials if criterion.key in t.values]
        mean = sum(values) / len(values) if values else math.nan
        if values and not criterion.holds(mean):
            failing.append((criterion, mean))
    return failing


def failing_text(failing: Failing) -> str:
    """Return a criterion that fails in words: `mean response 52.9 ms, limit 40 ms`."""
    criterion, mean = failing
    limit = value_text(criterion, criterion.limit)
    return f"{name_of(criterion)} {value_text(criterion, mean)}, limit {limit}"


def all_hold(goal: PeakGoal, trials: Sequence[LoadTrial]) -> bool:
    """Tell whether no trial failed, and their means meet every criterion."""
    if any(trial.ending is LoadEnding.FAILED for trial in trials):
        return False
    return not failing_of(goal, trials)


def generators_limit(
    goal: PeakGoal, seen: Seen, history: Sequence[LoadTrial]
) -> float | None:
    """Return the most that a generator offered that was behind twice while every
    criterion held [1/s]; None where it was the server, or nobody was behind."""
    if len(seen.behind) >= 2 and all_hold(goal, seen.behind):
        return max(trial.offered_rate for trial in history if is_behind(trial))
    return _most_ended(goal, seen)


def _most_ended(goal: PeakGoal, seen: Seen) -> float | None:
    """Return the most that ended in a second, where that is all that is counted: while
    every criterion held, and a rate half as high again made no more of it.

    At one rate alone it tells nothing: what is in flight at the end is missing too.
    """
    short = [trial for trial in seen.trials if is_short(trial)]
    short = sorted(short, key=lambda trial: trial.rate)
    for low, high in itertools.pairwise(short):
        farther = high.rate >= FARTHER * low.rate
        if farther and ended_rate(high) <= AS_MUCH * ended_rate(low):
            both = (low, high)
            return max(map(ended_rate, both)) if all_hold(goal, both) else None
    return None


def ended_rate(trial: LoadTrial) -> float:
    """Return how many operations ended in a second, well or not [1/s]."""
    return ((trial.completed or 0) + trial.errors) / trial.lasted_s
