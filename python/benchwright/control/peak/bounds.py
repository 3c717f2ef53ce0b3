"""Between which rates a search may probe, and how a rate is written.

Decision: bounds depend on the goal alone, so that a policy which replays its history finds
the trials of a probe that was moved to a bound.
Decision: the lowest rate is where a run still sees arrivals enough to tell something: one
trial at a thousandth of the first rate took longer than the whole rest of a search, and saw
ten operations. The highest is what a generator on one machine may reach: without it a server
that answers always alike was asked for 5e7/s.
"""

from __future__ import annotations

import math

from benchwright.model.peak import PeakGoal, written_bound, written_rate

LOWEST_SHARE = 2.0**-10
"""Of the first rate: below it nothing is probed."""
DESCENT_SHARE = 2.0**-3
"""Of the first rate: so far a search may go down, however few arrivals a run sees."""
FEWEST_ARRIVALS = 20.0
"""That a run at the lowest rate expects."""
RUN_S = 20.0
"""Of that run, unless the user sets a longer one [s]."""
RUN_LIMITS = 40.0
"""... and at least so many times the longest response that is allowed."""
HIGHEST_SHARE = 2.0**10
HIGHEST = 1e6
"""More operations in a second than a generator on one machine can be expected to start."""


def lowest_rate(goal: PeakGoal) -> float:
    """Return the rate below which nothing is probed [1/s]."""
    rate = goal.lowest_rate
    if rate is None:
        few = min(FEWEST_ARRIVALS / _run_s(goal), goal.start_rate * DESCENT_SHARE)
        rate = max(goal.start_rate * LOWEST_SHARE, few)
    return written_bound(rate, goal.rate_step, math.ceil)


def highest_rate(goal: PeakGoal) -> float:
    """Return the rate above which nothing is probed [1/s]."""
    rate = goal.highest_rate or max(HIGHEST, goal.start_rate * HIGHEST_SHARE)
    return written_bound(rate, goal.rate_step, math.floor)


def within_bounds(goal: PeakGoal, rate: float) -> float:
    """Return a rate as it is probed: one that the generator can be told, between the
    bounds."""
    told = written_rate(rate, goal.rate_step)
    return min(max(told, lowest_rate(goal)), highest_rate(goal))


def _run_s(goal: PeakGoal) -> float:
    """Return how long a run at the lowest rate lasts [s]."""
    limits_ms = [one.limit for one in goal.criteria if one.unit == "ms"]
    limit_s = max((ms for ms in limits_ms if math.isfinite(ms)), default=0.0) / 1e3
    return max(goal.run_length_s or 0.0, RUN_S, RUN_LIMITS * limit_s)
