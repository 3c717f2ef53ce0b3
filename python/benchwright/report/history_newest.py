"""Whether the newest run of a series has its level, as an answer; and a gate on such answers.

Decision: an answer depends on where the last two levels of a series begin, on its last values and on
nothing else, so a history file that knows the first answers for the newest run without the steps of the whole
series (history_levels.py). `bw history` and `bw history add --gate` make their answers here.
"""

from __future__ import annotations

import fnmatch
import hashlib
import math
from collections.abc import Container, Sequence
from typing import Literal, Protocol

import msgspec

from benchwright.core.history import HistoryPoint, SeriesKey
from benchwright.core.results import Estimate
from benchwright.core.text import p_text, percent_text, plural
from benchwright.stats.input_comparison import benjamini_hochberg
from benchwright.stats.intervals import t_quantile
from benchwright.stats.moments import Moments
from benchwright.stats.steps import LevelVerdict, NewestComparison

NewestVerdict = Literal[
    "slower", "faster", "worse", "better", "no difference", "undecided"
]
"""About the newest run; `slower` and `faster` for times, else `worse` and `better`."""


class NewestAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How the newest run of a series compares with its level before."""

    verdict: NewestVerdict
    ratio: Estimate | None
    """The newest value / the level; None where that is undecided."""
    since: int | None
    """The place of the first point of the new level, or of the newest point where it does not
    differ; None where it is undecided."""
    p: float
    """Share of stationary series with such a difference at any look so far; NaN where it is
    undecided."""
    p_adjusted: float
    """For all series of the answer together."""
    more: int
    """The number of further runs that would decide; 0 if it is decided, or if that is unknown."""
    why: str
    """Why it is undecided; empty otherwise."""

    @property
    def is_worse(self) -> bool:
        """Whether it differs in the wrong direction."""
        return self.verdict in ("slower", "worse")


class JudgedSeries(Protocol):
    """A series with the answer about its newest run."""

    @property
    def name(self) -> str:
        """The shortest name that distinguishes it here."""

    @property
    def newest(self) -> NewestAnswer:
        """The answer."""

    @property
    def newest_point(self) -> HistoryPoint:
        """Its last point."""

    @property
    def since_point(self) -> HistoryPoint:
        """The point at `newest.since`; the last one where that is None."""

    @property
    def runs_since(self) -> int:
        """The number of points from there on."""


class NewestSeries(msgspec.Struct, frozen=True, kw_only=True):
    """The answer about the newest run of one series alone, without its steps."""

    key: SeriesKey
    name: str
    newest: NewestAnswer
    newest_point: HistoryPoint
    since_point: HistoryPoint
    runs_since: int

    @property
    def id(self) -> str:
        """6 hexadecimal digits, which name it in commands."""
        return series_id(self.key)


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a name is one of these, or fits a pattern of them."""
    return any(name == one or fnmatch.fnmatchcase(name, one) for one in patterns)


def series_id(key: SeriesKey) -> str:
    """Return the name of a series in commands: 6 hexadecimal digits."""
    return hashlib.sha256("\0".join(msgspec.structs.astuple(key)).encode()).hexdigest()[
        :6
    ]


def series_names(keys: Sequence[SeriesKey]) -> list[str]:
    """Return the shortest names: the metric, and the machine, where the test alone is not enough."""
    metrics = {key.metric for key in keys}
    machines = {key.machine for key in keys}
    return [
        " ".join(
            (
                key.test,
                *([key.metric] if len(metrics) > 1 else []),
                *([f"@{key.machine}"] if len(machines) > 1 else []),
            )
        )
        for key in keys
    ]


class LevelStart(msgspec.Struct, frozen=True):
    """Where the levels of a series begin before the look at its newest point."""

    count: int
    """The number of points of the series."""
    start: int
    """The first point with which the newest one is compared: of its segment, or of the level that
    was accepted last."""
    level_start: int
    before: int


# -- From points to logarithms -----------------------------------------------------------


def log_and_error(
    estimate: float,
    low: float | None,
    high: float | None,
    confidence: float | None,
    trials: int,
) -> tuple[float, float]:
    """Return the logarithm of a value and its standard error, each NaN where there is none."""
    log = math.log(estimate) if estimate > 0 else math.nan
    if low is None or high is None or not 0 < low <= high:
        return log, math.nan
    share = t_quantile(confidence or 0.95, max(trials - 1, 1))
    return log, math.log(high / low) / (2 * share)


def logs_of(points: Sequence[HistoryPoint]) -> tuple[list[float], list[float]] | None:
    """Return the logarithms of the points, and their standard errors, NaN where unknown; None if a
    value has no logarithm."""
    pairs = [
        log_and_error(one.estimate, one.low, one.high, one.confidence, one.trials)
        for one in points
    ]
    if any(math.isnan(log) for log, _ in pairs):
        return None
    return [log for log, _ in pairs], [error for _, error in pairs]


# -- The answer --------------------------------------------------------------------------


def newest_answer(
    newest: HistoryPoint,
    found: LevelVerdict,
    compared: NewestComparison | None,
    *,
    runs: int,
    size: int,
    offset: int,
) -> NewestAnswer:
    """Return the answer of a verdict about `size` values, of which the first is point `offset` of the
    series; `runs` are those since the start of the segment."""
    if found.state == "unclear":
        assert found.since is not None
        last = size - found.since
        which = "newest run" if last == 1 else f"last {last} runs"
        return _undecided(f"the {which} may differ", found.more)
    if compared is None:
        return _undecided(f"{plural(runs, 'run')} so far", found.more)
    ratio = _ratio(compared.old, compared.new)
    return NewestAnswer(
        verdict="no difference"
        if found.state == "same"
        else direction(newest, rises=ratio.value > 1),
        ratio=ratio,
        since=offset + compared.end,
        p=compared.p,
        p_adjusted=compared.p,
        more=0,
        why="",
    )


def no_ratio() -> NewestAnswer:
    """Return the answer about values of which one has no logarithm."""
    return _undecided("a value is 0 or less, so the runs have no ratio")


def direction(point: HistoryPoint, *, rises: bool) -> NewestVerdict:
    """Return the word for a value that is larger, or smaller, than before."""
    is_worse = rises == (point.better == "lower")
    if point.unit == "s":
        return "slower" if is_worse else "faster"
    return "worse" if is_worse else "better"


def _undecided(why: str, more: int = 0) -> NewestAnswer:
    return NewestAnswer(
        verdict="undecided",
        ratio=None,
        since=None,
        p=math.nan,
        p_adjusted=math.nan,
        more=more,
        why=f"{why}; {plural(more, 'more run')} would decide" if more else why,
    )


def _ratio(old: Moments, new: Moments) -> Estimate:
    """Return the ratio of two levels of logarithms, `new` / `old`, with Student's interval for one
    standard deviation: that of a single new value is unknown."""
    degrees = old.n + new.n - 2
    squares = sum((m.n - 1) * m.sdev**2 for m in (old, new) if m.n > 1)
    half = math.inf
    if degrees > 0:
        sdev = math.sqrt(squares / degrees)
        half = t_quantile(0.95, degrees) * sdev * math.sqrt(1 / old.n + 1 / new.n)
    change = new.mean - old.mean
    ends = math.exp(change - half), math.exp(change + half)
    return Estimate(math.exp(change), *ends, 0.95, "pooled-t", old.n + new.n)


def adjusted(
    answers: Sequence[NewestAnswer], false_alarms: float
) -> list[NewestAnswer]:
    """Return the answers with the P-values adjusted for all of them; a difference that is not clear
    among them is undecided."""
    if not answers:
        return []
    found = []
    for one, p in zip(
        answers, benjamini_hochberg([one.p for one in answers]).tolist(), strict=True
    ):
        verdict, why = one.verdict, one.why
        # Without a P-value it is NaN, and not above.
        if verdict != "no difference" and p > false_alarms:
            among = f"{p_text(p)} among {plural(len(answers), 'series')}"
            why = f"{verdict} with {p_text(one.p)}, but {among}"
            verdict = "undecided"
        found.append(
            msgspec.structs.replace(one, p_adjusted=p, verdict=verdict, why=why)
        )
    return found


# -- The gate --------------------------------------------------------------------------


class HistoryGate(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a newest run is worse than its level by more than a limit."""

    limit: float
    """As a share."""
    failed: tuple[str, ...]
    """The names of the series that are worse by more."""
    undecided: tuple[str, ...]
    """Why it is undecided, one sentence for each series."""

    @property
    def outcome(self) -> Literal["passed", "failed", "undecided"]:
        """Its result; a failed series counts more than an undecided one."""
        if self.failed:
            return "failed"
        return "undecided" if self.undecided else "passed"

    @property
    def exit_status(self) -> int:
        """The exit status of the command."""
        return {"passed": 0, "failed": 1, "undecided": 3}[self.outcome]


class JudgedAnswer(Protocol):
    """An answer of several series."""

    @property
    def series(self) -> Sequence[JudgedSeries]:
        """The series, in order of their keys."""


def hold_gate(
    answer: JudgedAnswer, limit: float, accepted_codes: Container[str] = ()
) -> HistoryGate:
    """Return the outcome of a gate.

    It is undecided where a verdict is, where one run is known less well than the limit, and where a
    serious finding concerns the newest run, unless its code is accepted. A limit of 0 fails for
    every difference that is found.
    """
    failed, undecided = [], []
    for one in answer.series:
        newest, ratio = one.newest, one.newest.ratio
        codes = [c for c in one.newest_point.codes if c not in accepted_codes]
        if ratio is None or newest.verdict == "undecided":
            undecided.append(f"{one.name}: {newest.why}")
        elif codes:
            undecided.append(f"{one.name}: the newest run has {', '.join(codes)}")
        elif newest.is_worse:
            is_lower = one.newest_point.better == "lower"
            worse = ratio.value - 1 if is_lower else 1 - ratio.value
            if worse > limit:
                failed.append(one.name)
        elif newest.verdict == "no difference" and 0 < limit < _reach(ratio):
            undecided.append(
                f"{one.name}: one run is known to ±{percent_text(_reach(ratio), 2)} of its "
                "level: measure longer, or raise the limit"
            )
    return HistoryGate(limit=limit, failed=tuple(failed), undecided=tuple(undecided))


def _reach(ratio: Estimate) -> float:
    """Return how far the upper end of a ratio is from it, as a share."""
    return ratio.high / ratio.value - 1
