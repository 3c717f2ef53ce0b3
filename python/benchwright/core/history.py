"""A history: the values of a metric of a test on one machine, run after run.

Decision: a point is what one session found, with its interval, and not a bare number: how well a
value is known is part of the data. A series never mixes machines; what else changed on a machine
divides it into segments (findings/history.py), in which alone points are compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import msgspec

from benchwright.core.machine import Fact
from benchwright.core.results import Estimate

Better = Literal["lower", "higher"]
"""Which direction of a metric is an improvement."""

UNKNOWN_MACHINE = "unknown"
"""The machine of a point without a capture, as of another tool's file."""


class SeriesKey(msgspec.Struct, frozen=True, order=True):
    """What a series is about."""

    test: str
    """The test's name with its levels: `sort:n=4`."""
    metric: str
    """A quantity, such as `elapsed`; of a search `peak_rate`."""
    machine: str
    """The fingerprint of the machine (findings/history.py): 8 hexadecimal digits."""


class HistoryPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a series in one session."""

    run: str
    """Identity of the session, the same in every copy of its study."""
    study: str
    """Where it was read: the path of the study or of the file."""
    session: int
    """Number of the session in its study; 0 if it is from no study."""
    started_ns: int
    """CLOCK_REALTIME at the session's start [ns since 1970]. Points are in this order."""
    estimate: float
    """In the base unit."""
    low: float | None = None
    """Ends of the interval; None without one, or where an end is unbounded."""
    high: float | None = None
    confidence: float | None = None
    """Of the interval; None without one."""
    trials: int
    unit: str = ""
    better: Better = "lower"
    commit: str | None = None
    """The full hash of the measured commit; None if it is unknown."""
    commit_time_ns: int | None = None
    """When it was committed [ns since 1970]."""
    dirty: bool = False
    """Whether files of the repository differed from the commit."""
    tags: tuple[str, ...] = ()
    environment: str = ""
    """Hash of the facts that may change the figures on this machine; empty if unknown."""
    command: str = ""
    """What was measured; points of different commands are not compared."""
    codes: tuple[str, ...] = ()
    """Codes of the serious findings about the test in this session."""
    state: str = "answered"
    """As of an answer: `answered`, `undecided`, `interrupted`."""
    asked: bool = True
    """Whether the session asked for this metric. Others are measured beside it, and are shown only
    by their name."""

    def __post_init__(self) -> None:
        # Points also come from files of others, so this is no assertion.
        if not math.isfinite(self.estimate) or (self.low is None) != (
            self.high is None
        ):
            raise ValueError("a point has a finite value, and both ends or none")

    def as_estimate(self) -> Estimate:
        """Return the value with its interval, whose ends are NaN where there is none."""
        ends = (
            math.nan if self.low is None else self.low,
            math.nan if self.high is None else self.high,
        )
        confidence = math.nan if self.confidence is None else self.confidence
        return Estimate(
            self.estimate, *ends, confidence, "stored", self.trials, self.unit
        )

    def standard_error(self, share: float) -> float | None:
        """Return the standard error of the value's logarithm, if the ends of the interval are `share`
        standard errors from the middle; None without an interval of positive values."""
        if self.low is None or self.high is None or not 0 < self.low <= self.high:
            return None
        return math.log(self.high / self.low) / (2 * share)


class Series(msgspec.Struct, frozen=True):
    """The points of one series in the order of their runs, at least one."""

    key: SeriesKey
    points: tuple[HistoryPoint, ...]

    @property
    def newest(self) -> HistoryPoint:
        """Its last point."""
        return self.points[-1]


class Environment(msgspec.Struct, frozen=True):
    """The facts about a machine that may change figures measured on it, without those that decide
    which machine it is."""

    id: str
    facts: tuple[Fact, ...]


class Segment(msgspec.Struct, frozen=True):
    """A run of points of one environment and one command, by their places in the series."""

    first: int
    last: int
    changes: tuple[str, ...]
    """What changed since the segment before, as sentences; empty in the first segment."""


class Acceptance(msgspec.Struct, frozen=True, kw_only=True):
    """A person's statement that a change of a series is intended: its new level is the normal one."""

    key: SeriesKey
    run: str
    """The first run of the new level."""
    reason: str
    accepted_ns: int
    by: str = ""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """All points of one session, as a history file stores them."""

    points: tuple[tuple[SeriesKey, HistoryPoint], ...]
    environment: Environment | None
    machine: str
    """The machine in words, such as `AMD EPYC, 2 CPUs, 24 GiB`."""


class RunHistory(msgspec.Struct, frozen=True, kw_only=True):
    """Series, and what is known about their environments and machines."""

    series: tuple[Series, ...]
    environments: Mapping[str, Environment]
    machines: Mapping[str, str]
    """The machines in words, by fingerprint."""
    acceptances: tuple[Acceptance, ...] = ()
    skipped: tuple[str, ...] = ()
    """What was not read, and why, as sentences."""
