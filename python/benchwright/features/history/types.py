"""A history: the values of a metric of a test on one machine, run after run.

Decision: a point is what one session found, with its interval, and not a bare number: how well a
value is known is part of the data. A series never mixes machines; what else changed on a machine
divides it into segments (features/history/findings.py), in which alone points are compared.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from benchwright.core.machine import Fact
from benchwright.core.results import Estimate
from benchwright.core.text import moment_text, plural

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
    """The fingerprint of the machine (features/history/findings.py): 8 hexadecimal digits."""


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
    """The number of values that the interval is of: trials, or with levels of replication outermost
    replicates."""
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
        if not math.isfinite(self.estimate) or (self.low is None) != (self.high is None):
            raise ValueError("a point has a finite value, and both ends or none")

    def as_estimate(self) -> Estimate:
        """Return the value with its interval, whose ends are NaN where there is none."""
        ends = (
            math.nan if self.low is None else self.low,
            math.nan if self.high is None else self.high,
        )
        confidence = math.nan if self.confidence is None else self.confidence
        return Estimate(self.estimate, *ends, confidence, "stored", self.trials, self.unit)


_SETTING = re.compile(r"(?:\A|, )([A-Za-z_][\w.-]*)=")
"""The name of a setting, in the command of a point of another tool's file."""


def settings_text(settings: Mapping[str, str]) -> str:
    """Return the settings of another tool's file as the command of a point: `bs=4k, direct=1`."""
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def settings_in(command: str) -> dict[str, str]:
    """Return the settings of `settings_text`; none if the command is another text."""
    start, *parts = _SETTING.split(command)
    return {} if start else dict(zip(parts[::2], parts[1::2], strict=True))


def commit_text(point: HistoryPoint) -> str:
    """Return `1a2b3c4`, or `1a2b3c4+` if files differed from the commit; empty without a commit."""
    if point.commit is None:
        return ""
    return point.commit[:7] + ("+" if point.dirty else "")


def day_text(point: HistoryPoint) -> str:
    """Return the day of a run, UTC: `2026-11-23`."""
    return moment_text(point.started_ns)[:10]


def run_text(point: HistoryPoint) -> str:
    """Return which run a point is: `2026-11-23 (1a2b3c4)`."""
    commit = commit_text(point)
    return f"{day_text(point)} ({commit})" if commit else moment_text(point.started_ns)


def brief_run_text(point: HistoryPoint) -> str:
    """Return which run a point is, in a table: `1a2b3c4 2026-11-23`."""
    return " ".join(filter(None, (commit_text(point), day_text(point))))


def run_at(
    points: Sequence[HistoryPoint], at: int, text: Callable[[HistoryPoint], str] = run_text
) -> str:
    """Return which run the point at `at` of a series is, as `text` does. A point without a commit
    that this does not distinguish from others has its place in the series and its source too:
    `2026-11-23 run 19 (r18.csv)`."""
    point = points[at]
    named = text(point)
    # Points are in the order of their times, so equal names are beside each other.
    beside = (*points[max(at - 1, 0) : at], *points[at + 1 : at + 2])
    if point.commit is not None or named not in map(text, beside):
        return named
    source = os.path.basename(point.study) + (f"@{point.session}" if point.session else "")
    return f"{named} run {at + 1} ({source})"


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

    @classmethod
    def of(cls, facts: tuple[Fact, ...]) -> Environment:
        """Return these facts with their hash."""
        text = "\n".join(f"{fact.name}={fact.value}" for fact in facts)
        return cls(hashlib.sha256(text.encode()).hexdigest()[:16], facts)


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


class LevelCost(msgspec.Struct, frozen=True, kw_only=True):
    """By how much replicates of a level differ on a machine, by a null comparison over levels."""

    machine: str
    """As of a series, like the next."""
    metric: str
    level: str
    """Such as `env`."""
    spread: float
    """Standard deviation of the logarithms."""
    command: str
    """That was compared with itself."""
    measured_ns: int
    """CLOCK_REALTIME [ns since 1970]."""


def newest_costs(found: Iterable[LevelCost]) -> tuple[LevelCost, ...]:
    """Return of each machine, metric and level the newest."""
    ordered = sorted(found, key=lambda one: one.measured_ns)
    return tuple({(one.machine, one.metric, one.level): one for one in ordered}.values())


_OVER = re.compile(r", drawn again: ((?:[a-z]+, )*[a-z]+)\Z")


def command_over(command: str, levels: Sequence[str]) -> str:
    """Return the command of a point whose value is the mean over replicates of levels: it is not
    compared with that of one replicate."""
    return f"{command}, drawn again: {', '.join(levels)}" if levels else command


def levels_of(command: str) -> tuple[str, ...]:
    """Return the levels of `command_over`."""
    found = _OVER.search(command)
    return tuple(found[1].split(", ")) if found else ()


class NoValue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a session should have measured, and has no value of."""

    run: str
    """As of a point, like the next three."""
    study: str
    session: int
    started_ns: int
    test: str = ""
    """Empty for the session as a whole, of which nothing is known to be complete."""
    metric: str = ""
    """Empty if the test has no value of any metric."""
    failed: bool
    """Whether the benchmark failed; else it has only no answer."""
    why: str
    """In plain words."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """All points of one session, as a history file stores them."""

    points: tuple[tuple[SeriesKey, HistoryPoint], ...]
    environment: Environment | None
    machine: str
    """The machine in words, such as `AMD EPYC, 2 CPUs, 24 GiB`."""
    without: tuple[NoValue, ...] = ()
    """What has no value in this session."""
    costs: tuple[LevelCost, ...] = ()
    """What levels cost, of a null comparison over levels."""
    full_names: tuple[tuple[str, str], ...] = ()
    """The names of tests in the keys, without labels, that stand for a full name, and the full
    ones."""
    former: tuple[str, ...] = ()
    """The identities by which earlier versions stored a run of another tool's file."""

    @property
    def name(self) -> str:
        """The identity of the session; empty for one that measured nothing a history has."""
        return next((part.run for part in self._parts()), "")

    @property
    def study(self) -> str:
        """Where it was read, as of a point; empty as the name."""
        return next((part.study for part in self._parts()), "")

    def _parts(self) -> Iterator[HistoryPoint | NoValue]:
        return itertools.chain((history_point for _, history_point in self.points), self.without)


class RunKeys(msgspec.Struct, frozen=True):
    """Of which series a run has a value, whether or not its points were read."""

    run: str
    """As of a point, like the next two."""
    study: str
    started_ns: int
    keys: Sequence[SeriesKey]


class RunHistory(msgspec.Struct, frozen=True, kw_only=True):
    """Series, and what is known about their environments and machines."""

    series: tuple[Series, ...]
    environments: Mapping[str, Environment]
    machines: Mapping[str, str]
    """The machines in words, by fingerprint."""
    acceptances: tuple[Acceptance, ...] = ()
    costs: tuple[LevelCost, ...] = ()
    """Of each machine, metric and level the newest."""
    without: tuple[NoValue, ...] = ()
    """What has no value in any run as new as its session, in order of tests and metrics."""
    unread: tuple[str, ...] = ()
    """Studies and files that could not be read, and why, as sentences."""
    skipped: tuple[str, ...] = ()
    """What else was not read, and why, as sentences."""


def keys_of_run(run: Run) -> RunKeys:
    """Return of which series a run with points has a value."""
    first = run.points[0][1]
    keys = tuple(key for key, _ in run.points)
    return RunKeys(first.run, first.study, first.started_ns, keys)


def value_times(points: Iterable[tuple[SeriesKey, HistoryPoint]]) -> Iterator[tuple[str, str, int]]:
    """Yield the test, the metric and the start of points."""
    return ((key.test, key.metric, history_point.started_ns) for key, history_point in points)


def unresolved(
    found: Iterable[NoValue], values: Iterable[tuple[str, str, int]]
) -> tuple[NoValue, ...]:
    """Return what is without a value since its last one, on whatever machine, in order of tests and
    metrics; of the sessions without a value of the same the newest. `values` are tests, metrics and
    starts of what has one."""
    last: dict[tuple[str, str], NoValue] = {}
    for no_value in sorted(found, key=lambda one: one.started_ns):
        last[no_value.test, no_value.metric] = no_value
    if not last:
        return ()
    newest: dict[tuple[str, str], int] = {}
    for test, metric, started_ns in values:
        for name in ((test, metric), (test, ""), ("", "")):
            if name in last:
                newest[name] = max(newest.get(name, 0), started_ns)
    return tuple(
        one
        for name, one in sorted(last.items())
        # A session that did not end may have points of its own.
        if one.started_ns + (not one.test) > newest.get(name, 0)
    )


# -- What is gone from the files of other tools ---------------------------------------------
#
# A file says what it has, and not what it should have. A test or a metric is gone if a later run
# has others of the run that has its last value: a test that was removed, was renamed, or failed. A
# file of other tests says nothing.

LaterRuns = Callable[[HistoryPoint], Sequence[tuple[int, str, str]]]
"""The runs after that of a point that have a series of it, in their order: start, run and study of
each."""


def lost_values(
    newest: Iterable[tuple[SeriesKey, HistoryPoint]], later_runs: LaterRuns
) -> list[NoValue]:
    """Return which series of other tools' files, with their newest points, are gone: of a test of
    which all are, one."""
    every = list(newest)
    gone: list[tuple[SeriesKey, NoValue]] = []
    for key, point in every:
        later = () if point.session else later_runs(point)
        if later:
            ago = plural(len(later), "run")
            last = f"the last one is of {run_text(point)}, {ago} ago"
            started_ns, run, study = later[-1]
            no_value = NoValue(
                run=run,
                study=study,
                session=0,
                started_ns=started_ns,
                test=key.test,
                metric=key.metric,
                failed=False,
                why=last,
            )
            gone.append((key, no_value))
    lost = {key for key, _ in gone}
    kept = {key.test for key, _ in every if key not in lost}
    return [
        one if key.test in kept else msgspec.structs.replace(one, metric="") for key, one in gone
    ]


def with_lost(without: Iterable[NoValue], lost: Iterable[NoValue]) -> tuple[NoValue, ...]:
    """Return what has no value, and of what is gone that which is not among it, in order of tests
    and metrics."""
    found = {(one.test, one.metric): one for one in without}
    for no_value in lost:
        if (no_value.test, "") not in found:
            found.setdefault((no_value.test, no_value.metric), no_value)
    return tuple(one for _, one in sorted(found.items()))


def gone_series(without: Iterable[NoValue], keys: Iterable[SeriesKey]) -> set[SeriesKey]:
    """Return the series of other tools' files that have no value in a newer run."""
    names = {(no_value.test, no_value.metric) for no_value in without if not no_value.session}
    return {key for key in keys if {(key.test, key.metric), (key.test, "")} & names}
