"""What overload says against a queue: it completes less than before, or it only refuses.

A queue that is overloaded completes its capacity, and no steady run can be faster than
that. Where one was, the server gets slower by being overloaded (thrashing), or its work
grows with the rate (a second bottleneck: a kink).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from benchwright.control.peak.loads import load_by, value_share
from benchwright.control.peak.qgs_reading import Reading, Readings, read
from benchwright.finding.load_words import name_of
from benchwright.model.peak import LoadEnding, LoadTrial, PeakGoal

WORK_CV2 = 2.0
"""Squared coefficient of variation of work: for the noise of what was served."""
BETWEEN = 0.015
"""Relative standard deviation of a server's speed between runs that is no evidence."""
CLEARLY = 4.0
TOGETHER_S = 600.0
DRIFT_PER_S = 0.007 / 60
"""Of runs further apart than that so much of the difference may be drift [1/s]."""
LEAST = 0.03
"""By so much more a steady run must have served than an overloaded one completed."""
STEADY = 1.5
"""Responses up to which a run counts as served, as shares of the limit."""
REFUSED = 0.002
"""From this share of errors on a server is refusing, not failing by chance."""
FLAT = 0.7
"""A response below this share of the limit is flat."""


def retrograde(goal: PeakGoal, history: Sequence[LoadTrial]) -> str:
    """Return how an overloaded run completed less than a steady one served; else ''."""
    criterion = goal.criteria[0]
    usable = [t for t in history if t.ending is not LoadEnding.FAILED]
    readings, ends_s = read(criterion, usable), np.cumsum([t.cost_s for t in usable])
    steady = [r for r in readings.runs if r.steady and r.value < STEADY]
    over = [r for r in readings.runs if r.capacity is not None]
    pairs = [(one, other) for one in steady for other in over]
    if not pairs:
        return ""

    def sureness(pair: tuple[Reading, Reading]) -> float:
        apart_s = abs(float(ends_s[pair[0].index] - ends_s[pair[1].index]))
        return _sureness(pair, readings, DRIFT_PER_S * max(apart_s - TOGETHER_S, 0.0))

    served, beaten = max(pairs, key=sureness)
    capacity = beaten.capacity
    assert capacity is not None
    if sureness((served, beaten)) < CLEARLY:
        return ""
    return (
        f"overloaded at {beaten.rate:.5g}/s it completes {capacity.rate:.4g}/s "
        f"({100 * (1 - capacity.rate / served.rate):.0f} % less than the {served.rate:.4g}/s "
        f"that it served with a response of {100 * served.value:.0f} % of the limit)"
    )


def _sureness(
    pair: tuple[Reading, Reading], readings: Readings, drifted: float
) -> float:
    """Return by how many standard errors more was served than is completed overloaded,
    beyond a share that a drift may have taken in between."""
    served, over = pair
    capacity = over.capacity
    if capacity is None or served.rate < (1 + LEAST) * capacity.rate:
        return 0.0
    chance = WORK_CV2 / (served.rate * served.lasts_s)
    # What is still waiting when a run ends was not served.
    waiting = served.value * (readings.limit_s or 0.0) / served.lasts_s
    scale = math.sqrt(chance + capacity.relative_sd**2 + 2 * BETWEEN**2)
    return (math.log(served.rate / capacity.rate) - waiting - drifted) / scale


def sheds(goal: PeakGoal, history: Sequence[LoadTrial]) -> str:
    """Return how errors rise while the response stays flat; else ''."""
    timed = [c for c in goal.criteria if c.statistic in ("mean", "percentile")]
    refusing = [t for t in history if _error_share(t) > REFUSED]
    if not timed or not refusing:
        return ""
    quick = [t for t in refusing if all(value_share(c, t) < FLAT for c in timed)]
    if len(quick) < len(refusing):
        return ""
    worst = max(quick, key=_error_share)
    value = load_by(timed[0], [worst]).value
    return (
        f"at {worst.rate:.5g}/s {100 * _error_share(worst):.0f} % of the operations end "
        f"in an error while the {name_of(timed[0])} is only {100 * value:.0f} % of its limit"
    )


def _error_share(trial: LoadTrial) -> float:
    known = (trial.completed or 0) + trial.errors
    return trial.errors / known if known and trial.completed is not None else 0.0
