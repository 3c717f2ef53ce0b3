"""Between which rates a search may probe, and how a rate is written.

Decision: bounds depend on the goal alone, so that a policy which replays its history finds
the trials of a probe that was moved to a bound.
"""

from __future__ import annotations

from benchwright.model.peak import PeakGoal

LOWEST_SHARE = 2.0**-10
"""Of the first rate: below it a criterion that fails ends the search."""
HIGHEST_SHARE = 2.0**20


def significant(rate: float) -> float:
    """Return a rate with the five significant digits that can be written down."""
    return float(f"{rate:.5g}")


def lowest_rate(goal: PeakGoal) -> float:
    """Return the rate below which nothing is probed [1/s]."""
    return significant(goal.lowest_rate or goal.start_rate * LOWEST_SHARE)


def highest_rate(goal: PeakGoal) -> float:
    """Return the rate above which nothing is probed [1/s]."""
    return significant(goal.highest_rate or goal.start_rate * HIGHEST_SHARE)


def within_bounds(goal: PeakGoal, rate: float) -> float:
    """Return a rate as it is probed: five significant digits, between the bounds."""
    return min(max(significant(rate), lowest_rate(goal)), highest_rate(goal))
