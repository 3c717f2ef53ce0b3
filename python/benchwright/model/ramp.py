"""The nouns of a ramp: goal, level, point, result.

A ramp raises the load in steps until throughput stops growing, and keeps what it saw on
the way: the scalability profile. Sources: Systems Performance, 12.3.7 Ramping Load;
N. Gunther 2007 for the law that is fitted to it.
"""

from __future__ import annotations

import enum

import msgspec

from benchwright.model.estimate import Estimate
from benchwright.model.finding import Finding
from benchwright.model.usl import UslFit


class Axis(enum.StrEnum):
    """What is raised."""

    RATE = "rate"
    """Arrivals per second of an open loop [1/s]."""
    USERS = "users"
    """How many issue at once in a closed loop."""


class RampGoal(msgspec.Struct, frozen=True, kw_only=True):
    """Which levels are tried, for how long, and when that ends."""

    axis: Axis = Axis.USERS
    start: float = 1.0
    """The first level: users, or arrivals per second."""
    factor: float = 2.0
    """From level to level, where no step is given."""
    step: float | None = None
    """Added from level to level."""
    highest: float = 1024.0
    """The last level, whatever happens."""
    rate_step: float | None = None
    """Rates that the generator can be told are multiples of this; None: any [1/s]."""
    hold_s: float = 10.0
    """Length of a trial [s]."""
    repeats: int = 1
    """Trials at each level."""
    most_repeats: int = 3
    """Trials at a level whose growth the noise hides."""
    growth: float = 0.05
    """By less than this share throughput does not grow."""
    flat_levels: int = 2
    """Levels without growth, one after the other, that end the ramp."""
    most_errors: float = 0.01
    """Share of operations; beyond it the ramp ends."""
    budget_s: float | None = None
    """Cost after which no further trial begins [s]."""
    confidence: float = 0.95

    def __post_init__(self) -> None:
        assert self.start > 0
        assert self.highest >= self.start
        assert self.factor > 1
        assert self.step is None or self.step > 0
        assert self.hold_s > 0
        assert 1 <= self.repeats <= self.most_repeats
        assert 0 < self.growth < 1
        assert self.flat_levels >= 1
        assert 0 < self.confidence < 1


class RampPoint(msgspec.Struct, frozen=True, kw_only=True):
    """What one level came to."""

    level: float
    throughput: Estimate
    """[1/s]; the interval's ends are NaN where nothing tells the noise."""
    trials: int
    offered: float | None = None
    """Arrivals per second; of an open loop [1/s]."""
    response_ms_mean: float | None = None
    response_ms_p50: float | None = None
    response_ms_p99: float | None = None
    """Means over the level's trials; None where a trial does not know it."""
    error_share: float | None = None
    """Of the operations that ended; None where nobody counted."""
    efficiency: float | None = None
    """Throughput per unit of level, as a share of the first level's."""


class RampStatus(enum.StrEnum):
    """How a ramp ended."""

    SATURATED = "saturated"
    """Throughput stopped growing."""
    HIGHEST = "highest"
    """It was growing still at the highest level."""
    ERRORS = "errors"
    """Too many operations failed."""
    BUDGET = "budget"
    """Time was up."""
    FAILED = "failed"
    """The server or the generator did, twice at one level."""


class RampResult(msgspec.Struct, frozen=True, kw_only=True):
    """The scalability profile, and what is read from it."""

    status: RampStatus
    detail: str
    """Why it ended, as a sentence with figures."""
    axis: Axis
    points: tuple[RampPoint, ...] = ()
    """By level; levels whose trials all failed are not there."""
    saturation: RampPoint | None = None
    """The last level at which throughput had grown; None unless it stopped growing."""
    usl: UslFit | None = None
    usl_absent: str = ""
    """Why there is no fit."""
    load_s: float = 0.0
    """Seconds of load."""
    cost_s: float = 0.0
    trials: int = 0
    findings: tuple[Finding, ...] = ()
