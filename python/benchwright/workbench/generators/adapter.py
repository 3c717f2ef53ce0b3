"""The seam to load generators that are programs of their own.

Purpose: what a bench must know of any generator: how it is called for a rate and a
length, what its figures mean, and how its output is read.
Decision: a generator is a frozen record of the user's keys with three pure functions;
a table of command lines and regular expressions lost, because what a figure means (from
which moment does a response count?) depends on the keys. The one effect, running it, is
in run.py. Non-goal: no generator is made more honest than it is; it is marked.
Sources: the generators' own manuals, named in their modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec

from benchwright.model.peak import Criterion, Series
from benchwright.model.plan import Command, Pairs

Axis = Literal["rate", "users"]
Statistic = Literal["mean", "percentile", "share", "ratio", "metric"]

CLOSED_LOOP = "closed-loop-generator"
HIDES_LATENESS = "hides-lateness"
GENERATOR_SATURATED = "generator-saturated"
RATE_ROUNDED = "rate-rounded"
OPERATIONS_SKIPPED = "operations-skipped"
GENERATOR_LATE = "generator-late"
ERRORS_IN_RESPONSE = "errors-in-response"
BACKLOG_UNCOUNTED = "backlog-uncounted"

LATENESS = "lateness_ms_mean"
"""Key of the mean time by which operations started late, where a generator tells it."""


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """What a generator's figures are worth, with the keys that the user gave."""

    open_loop: bool
    """Whether operations start on a schedule, whatever the server does."""
    from_intended: bool
    """Whether a response counts from the intended start, so that no wait is omitted."""
    tells_lateness: bool
    """Whether it says itself how late it was."""
    statistics: tuple[Statistic, ...]
    """Which kinds of criterion it can give a value for."""
    shares: tuple[float, ...] | None = None
    """Its only percentiles, as shares; None: any."""
    metrics: tuple[str, ...] | None = None
    """The only keys that it gives; None: whatever `statistics` says."""
    series: bool = False
    """Whether there are values in time."""
    watched: bool = False
    """Whether its output tells something before it ends."""
    axes: tuple[Axis, ...] = ("rate", "users")
    """What a trial can set."""
    threads: int | None = None
    """Cores that it can use; None: any number."""
    rate_step: float | None = None
    """It can be told multiples of this rate only; None: any, or no single step [1/s]."""

    @property
    def marks(self) -> tuple[str, ...]:
        """The doubts that go with every figure of it: codes of findings."""
        closed = () if self.open_loop else (CLOSED_LOOP,)
        hides = () if self.from_intended or self.tells_lateness else (HIDES_LATENESS,)
        return (*closed, *hides)

    def refusal(self, criterion: Criterion) -> str:
        """Return why there will be no value for a criterion; empty where there will."""
        if self.metrics is not None:
            known = ", ".join(self.metrics) or "none"
            return "" if criterion.key in self.metrics else f"its values are: {known}"
        if criterion.statistic not in self.statistics:
            return f"it tells no {criterion.statistic}"
        wanted = criterion.statistic == "percentile" and criterion.share is not None
        if wanted and self.shares is not None and criterion.share not in self.shares:
            known = ", ".join(f"p{100 * share:.10g}" for share in self.shares)
            return f"its percentiles are: {known}"
        return ""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What one trial asks of a generator."""

    duration_s: float
    rate: float | None = None
    """Of all connections together [1/s]; None where users are the axis."""
    users: int | None = None
    """Concurrent connections; None: as the user's keys say."""
    criteria: tuple[Criterion, ...] = ()
    """Whose values are wanted; what a generator tells anyway needs none."""
    directory: str = "."
    """Absolute; empty before the trial: the generator's own files go there."""
    sample: Pairs = ()
    """For placeholders in the user's texts: factor levels, and the bench's own names."""
    seed: int | None = None
    """Of this trial; None: the generator draws one."""


class Diagnosis(msgspec.Struct, frozen=True):
    """What a program means by something that it says when it fails."""

    sign: str
    """A part of its output."""
    meaning: str
    """What is wrong, and what to do."""


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """The commands of one trial; they run in order, none after one that failed."""

    commands: tuple[Command, ...]
    rate: float | None = None
    """What the generator is told where it takes whole numbers only; None: as asked."""
    writes: tuple[tuple[str, str], ...] = ()
    """Files that must be there before: (name in the directory, text)."""
    statuses: tuple[int, ...] = (0,)
    """Of a run that went well."""
    diagnoses: tuple[Diagnosis, ...] = ()
    reads: tuple[str, ...] = ()
    """Names in the directory, with `*`, of files that are the output."""


class Output(msgspec.Struct, frozen=True):
    """What a generator left: texts of its first command's streams and of its files."""

    stdout: str
    stderr: str
    files: Mapping[str, str] = {}
    """By name in the directory."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What an output says. Absent is not zero."""

    values: dict[str, float]
    """By criterion's key; whole run, nothing removed."""
    series: Series = Series()
    offered: int | None = None
    completed: int | None = None
    errors: int = 0
    lasted_s: float | None = None
    marks: tuple[str, ...] = ()
    """Doubts that this output gives rise to, beside those of the traits."""


class UnreadableOutput(Exception):
    """An output without what every run must have; says what was sought, and where."""

    def __init__(self, sought: str, where: str, seen: str = "") -> None:
        self.sought, self.where, self.seen = sought, where, seen
        tail = f"; it has: {shortened(seen)}" if seen.strip() else "; it is empty"
        super().__init__(f"no {sought} in {where}{tail}")


class Generator(Protocol):
    """A generator with the user's keys; frozen, and all its functions are pure."""

    @property
    def name(self) -> str:
        """As the spec names it."""

    @property
    def programs(self) -> tuple[str, ...]:
        """What must be in PATH."""

    @property
    def traits(self) -> Traits:
        """What its figures are worth."""

    def invocation(self, asked: Asked, /) -> Invocation:
        """Return how to run it. Raises ValueError for what it cannot be asked."""

    def parse(self, output: Output, asked: Asked, /) -> Measured:
        """Return what a finished run says. Raises UnreadableOutput."""

    def so_far(self, output: Output, asked: Asked, /) -> Measured | None:
        """Return what a run says before its end; None where it does not yet."""


def shortened(text: str, most: int = 200) -> str:
    """Return the end of a text on one line, in at most so many characters."""
    line = " | ".join(part.strip() for part in text.splitlines() if part.strip())
    return line if len(line) <= most else "... " + line[-most:]
