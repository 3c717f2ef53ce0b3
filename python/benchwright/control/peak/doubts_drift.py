"""Whether the server's capacity changes with the time since the search began.

Purpose: a drift of half a per cent a minute is five in ten minutes: the answer is then that of
no moment. Overloaded runs tell the capacity to one per cent, early and late.
Decision: a search that would end is asked for one late overloaded run, and for more while a
drift is neither clear nor out of the question. Runs near the peak lost: each tells five
times less of the capacity for the same load.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from benchwright.control.peak.clock import clock_of, run_length_s
from benchwright.control.peak.qgs_reading import limit_s, read
from benchwright.model.peak import ClaimKind, LoadEnding, LoadTrial, PeakGoal, Probe

BETWEEN = 0.011
"""Relative standard deviation of the capacity between runs that is no drift."""
SHORTEST_S = 45.0
"""Of an overloaded run that counts, by the usual clock: where operations share a processor,
a shorter one tells another capacity [s]."""
CLEARLY = 3.0
PERHAPS = 0.8
"""Standard errors above which a drift is looked for further."""
LEAST = 0.02
"""A change of the capacity over the whole search that is worth telling."""
LATE = 0.75
"""From this share of the search's time on an overloaded run is a late one."""
LONGEST_S = 1000.0
"""Of a search up to which a drift that is not clear is looked for again [s]."""
CHECK_S = 60.0
"""Of the run that is asked for, by the usual clock [s]."""


class _Slope(msgspec.Struct, frozen=True):
    """The logarithm of the capacity against time."""

    per_s: float
    error: float
    last_s: float
    """When the latest capacity was told [s]."""
    rate: float
    """Of the latest overloaded run that is long enough [1/s]."""

    @property
    def sureness(self) -> float:
        """By how many standard errors the capacity changes."""
        return abs(self.per_s) / self.error


def drift(goal: PeakGoal, history: Sequence[LoadTrial]) -> str:
    """Return how fast the capacity changes; '' if it does not clearly."""
    slope, lasts_s = _slope(goal, history), _elapsed_s(history)
    if slope is None or slope.sureness < CLEARLY:
        return ""
    change = slope.per_s * lasts_s
    if abs(change) < LEAST:
        return ""
    return (
        f"the capacity changes by {6000 * slope.per_s:+.2g} % a minute "
        f"(standard error {6000 * slope.error:.2g} %): {100 * change:+.2g} % in the "
        f"{lasts_s:.0f} s of this search"
    )


def check_for_drift(goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | None:
    """Return the run that a search should end with to know of a drift; None: enough."""
    if goal.claim.kind is not ClaimKind.REGION or goal.budget_s is not None:
        return None
    slope, lasts_s = _slope(goal, history), _elapsed_s(history)
    if slope is None:
        return None
    perhaps = PERHAPS < slope.sureness < CLEARLY and lasts_s < LONGEST_S
    if slope.last_s > LATE * lasts_s and not perhaps:
        return None
    return Probe(slope.rate, run_length_s(goal, CHECK_S), "overload")


def _elapsed_s(history: Sequence[LoadTrial]) -> float:
    return math.fsum(trial.cost_s for trial in history)


def _slope(goal: PeakGoal, history: Sequence[LoadTrial]) -> _Slope | None:
    """Return the weighted least-squares line; None with less than two capacities."""
    usable = [t for t in history if t.ending is not LoadEnding.FAILED]
    ends = np.cumsum([trial.cost_s for trial in usable])
    shortest_s = clock_of(limit_s(goal.criteria[0])) * SHORTEST_S
    told = [
        (float(end) - trial.cost_s / 2, run.capacity, trial.rate)
        for end, trial, run in zip(
            ends, usable, read(goal.criteria[0], usable).runs, strict=True
        )
        if run.capacity is not None and trial.lasted_s >= shortest_s
    ]
    if len(told) < 1:
        return None
    at = np.array([moment for moment, _, _ in told])
    level = np.log([capacity.rate for _, capacity, _ in told])
    variance = np.array([c.relative_sd**2 + BETWEEN**2 for _, c, _ in told])
    if at.size < 2:
        return _Slope(0.0, math.inf, float(at[-1]), told[-1][2])
    weight = 1 / variance
    left = at - np.average(at, weights=weight)
    bottom = float(weight @ (left * left))
    per_s = float(weight @ (left * level)) / bottom
    # What lines do not explain is noise too.
    rest = level - np.average(level, weights=weight) - per_s * left
    scale = 1.0 if at.size < 3 else max(1.0, float(weight @ rest**2) / (at.size - 2))
    return _Slope(per_s, math.sqrt(scale / bottom), float(at[-1]), told[-1][2])
