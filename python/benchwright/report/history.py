"""The answer of a history: each series with its level, its steps, and whether its newest run differs.

Decision: points are compared within a segment alone, on logarithms, so that a step is a ratio; what
lies between two segments is reported as a changed environment and not as a step. The verdict about
the newest run is the one that holds over years of looks (stats/steps.py); over several series it
is adjusted by Benjamini and Hochberg, and both P-values are shown.
"""

from __future__ import annotations

import fnmatch
import hashlib
import math
from collections.abc import Container, Iterator, Sequence
from typing import Literal

import msgspec

from benchwright.core.history import (
    Acceptance,
    Better,
    HistoryPoint,
    RunHistory,
    Segment,
    Series,
    SeriesKey,
)
from benchwright.core.results import Estimate, Finding
from benchwright.core.text import (
    moment_text,
    p_text,
    percent_text,
    plural,
    quantity_text,
)
from benchwright.findings.codes import make_finding
from benchwright.findings.history import segments_of
from benchwright.stats.input_comparison import benjamini_hochberg
from benchwright.stats.intervals import t_half_width, t_quantile
from benchwright.stats.moments import moments
from benchwright.stats.steps import (
    FALSE_ALARMS,
    LevelVerdict,
    Step,
    StepFit,
    find_steps,
    newest_differs,
    newest_verdicts,
)

NewestVerdict = Literal[
    "slower", "faster", "worse", "better", "no difference", "undecided"
]
"""About the newest run; `slower` and `faster` for times, else `worse` and `better`."""


class StepAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a series' level, within a segment."""

    number: int
    """Its place among the steps of the series, from 1: `bw history accept SERIES/NUMBER`."""
    index: int
    """The place of the first point of the new level in the series."""
    first: int
    """Ends of the 95 % interval of `index`."""
    last: int
    ratio: Estimate
    """The new level / the old one."""
    p: float
    is_worse: bool
    accepted: Acceptance | None


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


class SeriesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of one series."""

    id: str
    """6 hexadecimal digits, which name it in commands."""
    name: str
    """The shortest name that distinguishes it here: `sort`, `sort user`."""
    series: Series
    segments: tuple[Segment, ...]
    levels: tuple[tuple[int, int, Estimate | None], ...]
    """First and last point of each level, and its value with its interval."""
    steps: tuple[StepAnswer, ...]
    outliers: tuple[int, ...]
    """Places of single runs far from the level around them."""
    undecided_from: int | None
    """The points from here on may have a new level: too few to decide."""
    newest: NewestAnswer
    findings: tuple[Finding, ...]

    @property
    def key(self) -> SeriesKey:
        """Its key."""
        return self.series.key

    @property
    def level(self) -> Estimate | None:
        """The present level; None if its points have no logarithm."""
        return self.levels[-1][2]

    @property
    def better(self) -> Better:
        """Which direction is an improvement."""
        return self.series.newest.better


class HistoryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a history."""

    series: tuple[SeriesAnswer, ...]
    history: RunHistory
    false_alarms: float
    """Share of stationary series with any false step."""


class HistoryQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Which series a user asks about, and how."""

    tests: tuple[str, ...] = ()
    """Names or patterns of tests; empty: all."""
    metrics: tuple[str, ...] = ()
    """Names of metrics; empty: those that the sessions asked for."""
    since_ns: int = 0
    false_alarms: float = FALSE_ALARMS
    ignored: tuple[str, ...] = ()
    """Names or patterns of facts whose changes start no segment."""

    def wants(self, key: SeriesKey) -> bool:
        """Return whether a series is asked about, as far as its key says."""
        return (not self.tests or _matches(key.test, self.tests)) and (
            not self.metrics or key.metric in self.metrics
        )


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(name == one or fnmatch.fnmatchcase(name, one) for one in patterns)


def series_id(key: SeriesKey) -> str:
    """Return the name of a series in commands: 6 hexadecimal digits."""
    return hashlib.sha256("\0".join(msgspec.structs.astuple(key)).encode()).hexdigest()[
        :6
    ]


def history_answer(history: RunHistory, asked: HistoryQuestion) -> HistoryAnswer:
    """Return the answer for the series that are asked about."""
    chosen = []
    for one in history.series:
        points = tuple(p for p in one.points if p.started_ns >= asked.since_ns)
        if points and asked.wants(one.key) and (asked.metrics or points[-1].asked):
            chosen.append(Series(one.key, points))
    names = _names([one.key for one in chosen])
    levels = [_levels_of(one, history, asked) for one in chosen]
    newest = _newest_answers(chosen, levels)
    found = [
        SeriesAnswer(
            id=series_id(one.key),
            name=name,
            series=one,
            segments=of_levels.segments,
            levels=of_levels.levels,
            steps=of_levels.steps,
            outliers=of_levels.outliers,
            undecided_from=of_levels.undecided_from,
            newest=of_newest,
            findings=tuple(_findings(name, one.points, of_levels)),
        )
        for one, name, of_levels, of_newest in zip(
            chosen, names, levels, newest, strict=True
        )
    ]
    return HistoryAnswer(
        series=_adjusted(found, asked.false_alarms),
        history=history,
        false_alarms=asked.false_alarms,
    )


def _names(keys: Sequence[SeriesKey]) -> list[str]:
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


# -- Levels and steps ------------------------------------------------------------------


class _Levels(msgspec.Struct, frozen=True, kw_only=True):
    """The levels of a series, all places in the series."""

    segments: tuple[Segment, ...]
    levels: tuple[tuple[int, int, Estimate | None], ...]
    steps: tuple[StepAnswer, ...]
    outliers: tuple[int, ...]
    undecided_from: int | None
    wanders: tuple[Segment, ...]
    """Segments without a level to return to."""
    start: int
    """The first point with which the newest one is compared: of its segment, or of the level that
    was accepted last."""


def _levels_of(series: Series, history: RunHistory, asked: HistoryQuestion) -> _Levels:
    points = series.points
    segments = segments_of(
        points, history.environments, lambda fact: _matches(fact, asked.ignored)
    )
    accepted = {one.run: one for one in history.acceptances if one.key == series.key}
    levels: list[tuple[int, int, Estimate | None]] = []
    steps: list[StepAnswer] = []
    outliers: list[int] = []
    undecided = None
    wanders = []
    for segment in segments:
        fit = _fit(points[segment.first : segment.last + 1], asked.false_alarms)
        outliers += (segment.first + one for one in fit.spikes)
        starts = [segment.first, *(segment.first + one.index for one in fit.steps)]
        ends = [*(one - 1 for one in starts[1:]), segment.last]
        levels += (
            (first, last, _level(points, first, last, outliers))
            for first, last in zip(starts, ends, strict=True)
        )
        for step in fit.steps:
            steps.append(_step_answer(points, segment, step, len(steps) + 1, accepted))
        undecided = fit.undecided_from
        if fit.wanders:
            wanders.append(segment)
    last = segments[-1].first
    return _Levels(
        segments=segments,
        levels=tuple(levels),
        steps=tuple(steps),
        outliers=tuple(outliers),
        undecided_from=None if undecided is None else last + undecided,
        wanders=tuple(wanders),
        start=max(
            (at for at in range(last, len(points)) if points[at].run in accepted),
            default=last,
        ),
    )


_Logs = tuple[list[float], list[float] | None]
"""Logarithms, and their standard errors, NaN where unknown; None if all are unknown."""


def _logs(points: Sequence[HistoryPoint]) -> _Logs | None:
    """Return the logarithms of the points; None if a value has none."""
    if any(one.estimate <= 0 for one in points):
        return None
    errors = []
    for one in points:
        confidence = one.confidence or 0.95
        found = one.standard_error(t_quantile(confidence, max(one.trials - 1, 1)))
        errors.append(math.nan if found is None else found)
    is_known = any(map(math.isfinite, errors))
    return [math.log(one.estimate) for one in points], errors if is_known else None


def _fit(points: Sequence[HistoryPoint], false_alarms: float) -> StepFit:
    logs = _logs(points)
    if logs is None:
        return StepFit()
    values, errors = logs
    return find_steps(values, standard_errors=errors, false_alarms=false_alarms)


def _level(
    points: Sequence[HistoryPoint], first: int, last: int, outliers: Sequence[int]
) -> Estimate | None:
    """Return a level: the geometric mean of its points without outliers, with Student's interval
    of their logarithms."""
    inner = [points[at] for at in range(first, last + 1) if at not in outliers]
    logs = _logs(inner)
    if logs is None or not inner:
        return None
    found = moments(logs[0])
    half = t_half_width(found.sdev, found.n, 0.95)
    return Estimate(
        math.exp(found.mean),
        math.exp(found.mean - half),
        math.exp(found.mean + half),
        0.95,
        "log-t",
        found.n,
        inner[0].unit,
    )


def _step_answer(
    points: Sequence[HistoryPoint],
    segment: Segment,
    step: Step,
    number: int,
    accepted: dict[str, Acceptance],
) -> StepAnswer:
    first, last = segment.first + step.first, segment.first + step.last
    rises = step.change > 0
    # One acceptance belongs to one step, wherever in its interval later points put the step.
    own = (
        accepted[points[at].run]
        for at in range(first, last + 1)
        if points[at].run in accepted
    )
    return StepAnswer(
        number=number,
        index=segment.first + step.index,
        first=first,
        last=last,
        ratio=Estimate(
            step.ratio, step.ratio_low, step.ratio_high, 0.95, "steps", len(points)
        ),
        p=step.p,
        is_worse=rises == (points[-1].better == "lower"),
        accepted=next(own, None),
    )


# -- The newest run --------------------------------------------------------------------


def _newest_answers(
    series: Sequence[Series], levels: Sequence[_Levels]
) -> list[NewestAnswer]:
    """Return how the last point of each series compares with the level before.

    All looks since the start of the segment are repeated, of all series together: what a history
    says depends on its points alone.
    """
    logs = [
        _logs(one.points[of.start :]) for one, of in zip(series, levels, strict=True)
    ]
    known = [one for one in logs if one is not None]
    verdicts = iter(
        newest_verdicts(
            [values for values, _ in known],
            standard_errors=[errors for _, errors in known],
        )
    )
    return [
        _undecided("a value is 0 or less, so the runs have no ratio")
        if of_logs is None
        else _newest_answer(one.newest, *of_logs, of, next(verdicts))
        for one, of, of_logs in zip(series, levels, logs, strict=True)
    ]


def _newest_answer(
    newest: HistoryPoint,
    values: Sequence[float],
    errors: Sequence[float] | None,
    of: _Levels,
    found: LevelVerdict,
) -> NewestAnswer:
    if found.state == "unclear":
        assert found.since is not None
        last = len(values) - found.since
        which = "newest run" if last == 1 else f"last {last} runs"
        return _undecided(f"the {which} may differ", found.more)
    if found.state == "short" and not found.level_start:
        return _undecided(f"{plural(len(values), 'run')} so far", found.more)
    is_same = found.state == "same"
    end = len(values) - 1 if is_same else found.level_start
    # The level before starts at the last step before it, or with the first run.
    starts = [0, *(step.index - of.start for step in of.steps)]
    begin = max(start for start in starts if 0 <= start < end)
    if found.state == "short":
        # A change is the answer until its new level has enough runs to be compared with.
        found = newest_differs(values, standard_errors=errors, level_start=begin)
    before = [
        values[at] for at in range(begin, end) if at + of.start not in of.outliers
    ]
    ratio = _ratio(before or values[begin:end], values[end:])
    p = found.p
    return NewestAnswer(
        verdict="no difference"
        if is_same
        else direction(newest, rises=ratio.value > 1),
        ratio=ratio,
        since=of.start + end,
        p=p,
        p_adjusted=p,
        more=0,
        why="",
    )


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


def _ratio(old: Sequence[float], new: Sequence[float]) -> Estimate:
    """Return the ratio of two levels of logarithms, `new` / `old`, with Student's interval for one
    standard deviation: that of a single new value is unknown."""
    before, after = moments(old), moments(new)
    degrees = before.n + after.n - 2
    squares = sum((m.n - 1) * m.sdev**2 for m in (before, after) if m.n > 1)
    half = math.inf
    if degrees > 0:
        sdev = math.sqrt(squares / degrees)
        half = t_quantile(0.95, degrees) * sdev * math.sqrt(1 / before.n + 1 / after.n)
    change = after.mean - before.mean
    ends = math.exp(change - half), math.exp(change + half)
    return Estimate(math.exp(change), *ends, 0.95, "pooled-t", before.n + after.n)


def _findings(
    name: str, points: Sequence[HistoryPoint], of: _Levels
) -> Iterator[Finding]:
    for at in of.outliers:
        level = next(value for first, last, value in of.levels if first <= at <= last)
        if level is not None:
            ratio = points[at].estimate / level.value
            # The date is a detail: a group of findings shows the range of all figures before it.
            evidence = (
                f"one run is {change_text(ratio)} its level "
                f"({quantity_text(points[at].estimate, points[at].unit)} of "
                f"{quantity_text(level.value, level.unit)}); it is that of {run_text(points[at])}"
            )
            yield make_finding("outlier-run", name, evidence)
    for segment in of.wanders:
        runs = points[segment.first], points[segment.last]
        evidence = (
            "each run is close to the one before it, and no step explains that; from the run of "
            f"{run_text(runs[0])} to that of {run_text(runs[1])}"
        )
        yield make_finding("level-wanders", name, evidence)
    for segment in of.segments[1:]:
        evidence = (
            f"{changes_text(segment.changes)}; since the run of "
            f"{run_text(points[segment.first])}, after {plural(segment.first, 'run')}"
        )
        yield make_finding("environment-changed-between-runs", name, evidence)


def _adjusted(
    found: Sequence[SeriesAnswer], false_alarms: float
) -> tuple[SeriesAnswer, ...]:
    """Return the answers with the P-values adjusted for all of them; a difference that is not clear
    among them is undecided."""
    if not found:
        return ()
    adjusted = benjamini_hochberg([one.newest.p for one in found]).tolist()
    shown = []
    for one, p in zip(found, adjusted, strict=True):
        newest = msgspec.structs.replace(one.newest, p_adjusted=p)
        # Without a P-value it is NaN, and not above.
        if newest.verdict != "no difference" and p > false_alarms:
            among = f"{p_text(p)} among {plural(len(found), 'series')}"
            why = f"{newest.verdict} with {p_text(newest.p)}, but {among}"
            newest = msgspec.structs.replace(newest, verdict="undecided", why=why)
        shown.append(msgspec.structs.replace(one, newest=newest))
    return tuple(shown)


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


def hold_gate(
    answer: HistoryAnswer, limit: float, accepted_codes: Container[str] = ()
) -> HistoryGate:
    """Return the outcome of a gate.

    It is undecided where a verdict is, where one run is known less well than the limit, and where a
    serious finding concerns the newest run, unless its code is accepted. A limit of 0 fails for
    every difference that is found.
    """
    failed, undecided = [], []
    for one in answer.series:
        newest, ratio = one.newest, one.newest.ratio
        codes = [c for c in one.series.newest.codes if c not in accepted_codes]
        if ratio is None or newest.verdict == "undecided":
            undecided.append(f"{one.name}: {newest.why}")
        elif codes:
            undecided.append(f"{one.name}: the newest run has {', '.join(codes)}")
        elif newest.is_worse:
            worse = ratio.value - 1 if one.better == "lower" else 1 - ratio.value
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


# -- Words -----------------------------------------------------------------------------

_MOST_CHANGES = 4


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


def changes_text(changes: Sequence[str]) -> str:
    """Return what changed between two segments, at most four changes."""
    more = len(changes) - _MOST_CHANGES
    rest = [f"{more} more"] if more > 0 else []
    return "; ".join([*changes[:_MOST_CHANGES], *rest])


def change_text(ratio: float) -> str:
    """Return a ratio as a change, before what it refers to: `23 % above`, `4 % below`."""
    share = abs(ratio - 1)
    return f"{percent_text(share, 2)} {'above' if ratio >= 1 else 'below'}"
