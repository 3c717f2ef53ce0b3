"""Has throughput grown from one level to another, beyond noise?

Decision: levels are compared with the best one, not with their neighbour, so that small
steps add up; and a level that is itself hardly higher proves nothing by hardly growing.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence

import msgspec

from benchwright.control.ramp.level import Level
from benchwright.model.ramp import RampGoal
from benchwright.stats.students_t import t_quantile


class Growth(enum.StrEnum):
    """What a level's throughput shows beside the best one's."""

    GREW = "grew"
    FLAT = "flat"
    NEAR = "near"
    """The level is too near the best one to show anything by not growing."""
    UNCLEAR = "unclear"
    """The noise hides it."""


class Climb(msgspec.Struct, frozen=True):
    """How far throughput grew with the levels."""

    best: Level
    """The last one at which it had grown."""
    flat: int
    """Levels since then without growth, one after the other."""
    last: Growth
    """Of the last level; GREW for the first."""


def climb_of(levels: Sequence[Level], goal: RampGoal) -> Climb:
    """Return what the levels show, in rising order; at least one.

    What the noise hides is decided by the figures themselves, except at the last level.
    """
    climb = Climb(levels[0], 0, Growth.GREW)
    for level in levels[1:]:
        climb = _climbed(climb, level, goal)
    return climb


def _climbed(climb: Climb, level: Level, goal: RampGoal) -> Climb:
    seen = growth_of(climb.best, level, goal)
    decided = seen
    if seen is Growth.UNCLEAR:
        grew = level.throughput > climb.best.throughput * (1 + goal.growth)
        decided = Growth.GREW if grew else Growth.FLAT
    if decided is Growth.GREW:
        return Climb(level, 0, seen)
    return Climb(climb.best, climb.flat + (decided is Growth.FLAT), seen)


def growth_of(best: Level, level: Level, goal: RampGoal) -> Growth:
    """Return what a higher level's throughput shows beside the best one's."""
    if not best.throughput > 0:
        return Growth.GREW if level.throughput > 0 else Growth.FLAT
    if not level.throughput > 0:
        return Growth.FLAT
    grown = math.log(level.throughput / best.throughput)
    wanted = math.log1p(goal.growth)
    error = error_of_ratio((best, level), goal.confidence)
    if grown > wanted and grown - error > 0:
        return Growth.GREW
    if level.level < best.level * (1 + 2 * goal.growth):
        return Growth.NEAR
    return Growth.FLAT if grown + error < wanted else Growth.UNCLEAR


def falls(best: Level, level: Level, goal: RampGoal) -> bool:
    """Tell whether a level's throughput is lower than the best one's, beyond noise and by
    more than what counts as growth."""
    if not (best.throughput > 0 and level.throughput > 0):
        return best.throughput > level.throughput
    fallen = math.log(best.throughput / level.throughput)
    error = error_of_ratio((best, level), goal.confidence)
    return fallen > math.log1p(goal.growth) and fallen - error > 0


def error_of_ratio(pair: Iterable[Level], confidence: float) -> float:
    """Return the half width of the interval of two throughputs' log ratio; 0 where nothing
    tells the noise, so that the figures decide."""
    levels = list(pair)
    if any(level.variance is None for level in levels):
        return 0.0
    total = sum(level.variance or 0.0 for level in levels)
    degrees = min(level.degrees for level in levels)
    return t_quantile(confidence, degrees) * math.sqrt(total)
