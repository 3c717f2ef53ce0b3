"""The answer of a history: each series with its level, its steps, and whether its newest run
differs.

Decision: points are compared within a segment alone, on logarithms, so that a step is a ratio; what
lies between two segments is reported as a changed environment and not as a step. The verdict about
the newest run is the one that holds over years of looks (stats/steps.py); over several
series it is adjusted by Benjamini and Hochberg, and both P-values are shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec

from benchwright.core.numeric import np
from benchwright.core.results import Estimate, Figure, Finding, FindingFigures, Value, states
from benchwright.core.text import noun_of, quantity_text, some_text
from benchwright.features.history.findings import segments_of
from benchwright.features.history.newest import (
    NO_RATIO,
    LevelStart,
    NewestAnswer,
    NewestLook,
    direction,
    gone_text,
    lasts,
    logs_of,
    matches,
    newest_answers,
    series_id,
    series_names,
)
from benchwright.features.history.types import (
    Acceptance,
    Better,
    HistoryPoint,
    LevelCost,
    NoValue,
    RunHistory,
    Segment,
    Series,
    SeriesKey,
    gone_series,
    levels_of,
    run_at,
    run_text,
)
from benchwright.findings.codes import make_finding, stated_text
from benchwright.findings.comparison import caused_by_level
from benchwright.stats.intervals import t_half_width
from benchwright.stats.sample import moments
from benchwright.stats.steps import (
    FALSE_ALARMS,
    MIN_VALUES,
    LevelStep,
    Pattern,
    PatternKind,
    StepFit,
    find_steps,
    newest_verdicts,
)


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
    is_open: bool
    """Whether it is for the worse, nobody accepted it or a later level, and later steps of its
    segment have not made good for it."""


class PatternAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a series has that is no step of its level, within a segment."""

    kind: PatternKind
    first: int
    """The first point of the series that it concerns, from 0."""
    last: int
    ratio: float
    """Of an excursion: its level / that around it; of a drift: its end / its beginning; of modes:
    the upper one / the lower one; of a spread: the standard deviation since `first` / that before.
    """
    share: float
    """The share of the points that the upper mode has; else 1."""
    is_alternative: bool
    """Whether this drift fits about as well as the steps."""


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
    patterns: tuple[PatternAnswer, ...]
    """What is no step."""
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
    def newest_point(self) -> HistoryPoint:
        """Its last point."""
        return self.series.newest

    @property
    def since_point(self) -> HistoryPoint:
        """The point at `newest.since`; the last one where that is None."""
        return self.series.points[-self.runs_since]

    @property
    def runs_since(self) -> int:
        """The number of points from there on."""
        since = self.newest.since
        return 1 if since is None else len(self.series.points) - since

    @property
    def better(self) -> Better:
        """Which direction is an improvement."""
        return self.series.newest.better

    @property
    def open_steps(self) -> tuple[StepAnswer, ...]:
        """The steps that ask for a decision."""
        return tuple(step for step in self.steps if step.is_open)


class HistoryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a history."""

    series: tuple[SeriesAnswer, ...]
    without: tuple[NoValue, ...]
    """What has no value since its last one."""
    history: RunHistory
    false_alarms: float
    """Share of stationary series with any false step."""


class HistoryQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Which series a user asks about, and how."""

    tests: tuple[str, ...] = ()
    """Names or patterns of tests; empty: all."""
    metrics: tuple[str, ...] = ()
    """Names of metrics; empty: those that the sessions asked for."""
    directions: Mapping[str, Better] = MappingProxyType({})
    """By metric: which values are better, instead of what its points say."""
    since_ns: int = 0
    false_alarms: float = FALSE_ALARMS
    ignored: tuple[str, ...] = ()
    """Names or patterns of facts whose changes start no segment."""

    def wants(self, key: SeriesKey) -> bool:
        """Return whether a series is asked about, as far as its key says."""
        return (not self.tests or matches(key.test, self.tests)) and (
            not self.metrics or key.metric in self.metrics
        )

    def concerns(self, one: NoValue) -> bool:
        """Return whether what has no value belongs to a series that is asked about, in a run that
        is."""
        is_test = not one.test or not self.tests or matches(one.test, self.tests)
        is_metric = not one.metric or not self.metrics or one.metric in self.metrics
        return is_test and is_metric and one.started_ns >= self.since_ns


def history_answer(
    history: RunHistory,
    asked: HistoryQuestion,
    starts: Mapping[SeriesKey, LevelStart] = MappingProxyType({}),
) -> HistoryAnswer:
    """Return the answer for the series that are asked about.

    `starts` are those that a history file stores for these facts ignored; they change no answer.
    """
    chosen = []
    for series in history.series:
        points = tuple(p for p in series.points if p.started_ns >= asked.since_ns)
        if points and asked.wants(series.key) and (asked.metrics or points[-1].asked):
            if better := asked.directions.get(series.key.metric):
                points = tuple(msgspec.structs.replace(p, better=better) for p in points)
            chosen.append(Series(series.key, points))
    names = series_names([one.key for one in chosen])
    levels = [_levels_of(one, history, asked) for one in chosen]
    gone = gone_series(history.without, (one.key for one in chosen))
    looks = _newest_looks(chosen, levels, starts)
    newest = newest_answers(
        [
            gone_text(one.newest) if one.key in gone else look or NO_RATIO
            for one, look in zip(chosen, looks, strict=True)
        ],
        asked.false_alarms,
    )
    series_answers = [
        SeriesAnswer(
            id=series_id(one.key),
            name=name,
            series=one,
            segments=of_levels.segments,
            levels=of_levels.levels,
            steps=of_levels.steps,
            outliers=of_levels.outliers,
            undecided_from=of_levels.undecided_from,
            patterns=of_levels.patterns,
            newest=of_newest,
            findings=(
                *_findings(name, one.points, of_levels, look),
                *_one_replicate(name, one, of_newest, history.costs),
            ),
        )
        for one, name, of_levels, of_newest, look in zip(
            chosen, names, levels, newest, looks, strict=True
        )
    ]
    return HistoryAnswer(
        series=tuple(series_answers),
        without=tuple(filter(asked.concerns, history.without)),
        history=history,
        false_alarms=asked.false_alarms,
    )


# -- Levels and steps ------------------------------------------------------------------


class _Levels(msgspec.Struct, frozen=True, kw_only=True):
    """The levels of a series, all places in the series."""

    segments: tuple[Segment, ...]
    levels: tuple[tuple[int, int, Estimate | None], ...]
    steps: tuple[StepAnswer, ...]
    outliers: tuple[int, ...]
    undecided_from: int | None
    patterns: tuple[PatternAnswer, ...]
    wanders: tuple[Segment, ...]
    """Segments without a level to return to."""
    start: int
    """The first point with which the newest one is compared: of its segment, or of the level that
    was accepted last."""


def _levels_of(series: Series, history: RunHistory, asked: HistoryQuestion) -> _Levels:
    points = series.points
    segments = segments_of(points, history.environments, lambda fact: matches(fact, asked.ignored))
    accepted = {
        acceptance.run: acceptance
        for acceptance in history.acceptances
        if acceptance.key == series.key
    }
    levels: list[tuple[int, int, Estimate | None]] = []
    steps: list[StepAnswer] = []
    outliers: list[int] = []
    undecided = None
    patterns: list[PatternAnswer] = []
    wanders = []
    decided = max((at for at, p in enumerate(points) if p.run in accepted), default=0)
    for segment in segments:
        fit = _fit(points[segment.first : segment.last + 1], asked.false_alarms)
        outliers += (segment.first + spike for spike in fit.spikes)
        own = [_pattern_answer(segment, pattern) for pattern in fit.patterns]
        patterns += own
        away = [
            *outliers,
            *(
                at
                for pattern_answer in own
                if pattern_answer.kind == "excursion"
                for at in range(pattern_answer.first, pattern_answer.last + 1)
            ),
        ]
        starts = [segment.first, *(segment.first + step.index for step in fit.steps)]
        ends = [*(start - 1 for start in starts[1:]), segment.last]
        levels += (
            (first, last, _level(points, first, last, away))
            for first, last in zip(starts, ends, strict=True)
        )
        for at, step in enumerate(fit.steps):
            answer = _step_answer(points, segment, step, len(steps) + 1, accepted)
            is_lost = segment.first + step.last > decided and not answer.accepted
            is_open = answer.is_worse and is_lost and lasts(fit.steps[at:])
            steps.append(msgspec.structs.replace(answer, is_open=is_open))
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
        patterns=tuple(patterns),
        wanders=tuple(wanders),
        start=max(
            (at for at in range(last, len(points)) if points[at].run in accepted), default=last
        ),
    )


def _fit(points: Sequence[HistoryPoint], false_alarms: float) -> StepFit:
    logs = logs_of(points)
    if logs is None:
        return StepFit()
    values, errors = logs
    return find_steps(values, standard_errors=errors, false_alarms=false_alarms, logarithms=True)


def _pattern_answer(segment: Segment, one: Pattern) -> PatternAnswer:
    return PatternAnswer(
        kind=one.kind,
        first=segment.first + one.first,
        last=segment.first + one.last,
        ratio=one.size if one.kind == "spread" else math.exp(one.size),
        share=one.share,
        is_alternative=one.is_alternative,
    )


def _level(
    points: Sequence[HistoryPoint], first: int, last: int, away: Sequence[int]
) -> Estimate | None:
    """Return a level: the geometric mean of its points without outliers and excursions, with
    Student's interval of their logarithms."""
    inner = [points[at] for at in range(first, last + 1) if at not in away]
    logs = logs_of(inner)
    if logs is None or not inner:
        return None
    if inner[0].estimate == 0:
        return Estimate(0.0, 0.0, 0.0, 0.95, "log-t", len(inner), inner[0].unit)
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
    step: LevelStep,
    number: int,
    accepted: dict[str, Acceptance],
) -> StepAnswer:
    first, last = segment.first + step.first, segment.first + step.last
    rises = step.change > 0
    # One acceptance belongs to one step, wherever in its interval later points put the step.
    own = (accepted[points[at].run] for at in range(first, last + 1) if points[at].run in accepted)
    return StepAnswer(
        number=number,
        index=segment.first + step.index,
        first=first,
        last=last,
        ratio=Estimate(step.ratio, step.ratio_low, step.ratio_high, 0.95, "steps", len(points)),
        p=step.p,
        is_worse=rises == (points[-1].better == "lower"),
        accepted=next(own, None),
        is_open=False,
    )


# -- The newest run --------------------------------------------------------------------


def _newest_looks(
    series: Sequence[Series], levels: Sequence[_Levels], starts: Mapping[SeriesKey, LevelStart]
) -> list[NewestLook | None]:
    """Return the look at the last point of each series; None where a value has no logarithm.

    Without a known start of its level, all looks since the start of the segment are repeated, of
    all series together: what a history says depends on its points alone.
    """
    logs = [logs_of(one.points[of.start :]) for one, of in zip(series, levels, strict=True)]
    groups: tuple[list[int], list[int]] = ([], [])
    for at, (one, of) in enumerate(zip(series, levels, strict=True)):
        start = starts.get(one.key)
        is_known = start is not None and (len(one.points), of.start) == (start.count, start.start)
        if logs[at] is not None:
            groups[int(is_known)].append(at)
    looks: list[NewestLook | None] = [None] * len(series)
    for group, places in enumerate(groups):
        pairs = [pair for at in places if (pair := logs[at]) is not None]
        values, errors = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        level_starts = befores = None
        if group == 1:
            stored = [(starts[series[at].key], levels[at].start) for at in places]
            level_starts = [level_start.level_start - start for level_start, start in stored]
            befores = [level_start.before - start for level_start, start in stored]
        verdicts = newest_verdicts(
            values,
            standard_errors=errors,
            level_starts=level_starts,
            befores=befores,
            logarithms=True,
        )
        for at, of_values, of_errors, verdict in zip(places, values, errors, verdicts, strict=True):
            looks[at] = NewestLook(
                newest=series[at].newest,
                values=np.array(of_values),
                errors=np.array(of_errors),
                verdict=verdict,
                runs=len(of_values),
                offset=levels[at].start,
            )
    return looks


def _findings(
    name: str, points: Sequence[HistoryPoint], of: _Levels, look: NewestLook | None
) -> Iterator[Finding]:
    if outliers := _outliers(points, of):
        yield make_finding("outlier-run", name, outliers)
    for kind, code in _CODES.items():
        some = [pattern for pattern in of.patterns if pattern.kind == kind]
        if some:
            begins = {segment.first for segment in of.segments}
            when = some_text(
                [_runs_text(points, pattern_answer) for pattern_answer in some], _MOST_CHANGES
            )
            each = [
                _pattern(points, pattern_answer, of, begins=pattern_answer.first in begins)
                for pattern_answer in some
            ]
            if len(some) > 1:
                texts = [stated_text(code, figures) for figures in each]
                each = [states("several", patterns=some_text(texts, _MOST_CHANGES))]
            shown = states(each[0].form, **each[0].named, when=when)
            yield make_finding(code, name, shown)
    if different := _disagreement(points, of, look):
        yield make_finding("steps-and-looks-differ", name, different)
    for segment in of.wanders:
        shown = states(first=run_at(points, segment.first), last=run_at(points, segment.last))
        yield make_finding("level-wanders", name, shown)
    for segment in of.segments[1:]:
        shown = states(
            changes=changes_text(segment.changes),
            run=run_at(points, segment.first),
            after=segment.first,
        )
        yield make_finding("environment-changed-between-runs", name, shown)


def _one_replicate(
    name: str, series: Series, newest: NewestAnswer, costs: Sequence[LevelCost]
) -> Iterator[Finding]:
    """Yield a finding if the newest run, or else the level since an open step, differs by less than
    a level of replication costs, of which each run has one replicate."""
    point, ratio = series.newest, newest.ratio
    if newest.verdict in ("no difference", "undecided"):
        ratio = None if newest.open_step is None else newest.open_step.ratio
    if ratio is None:
        return
    effect = math.expm1(abs(math.log(ratio.value)))
    own = levels_of(point.command)
    for one in costs:
        caused = caused_by_level(one.spread)
        is_its = (one.machine, one.metric) == (series.key.machine, series.key.metric)
        if is_its and one.level not in own and effect < caused:
            shown = states(
                candidate=run_text(point),
                metric=series.key.metric,
                effect=Figure(effect, "%"),
                level=noun_of(one.level),
                caused=Figure(caused, "%"),
                command=one.command,
            )
            yield make_finding("one-replicate", name, shown)
            return


_CODES: dict[PatternKind, str] = {
    "excursion": "level-excursion",
    "drift": "level-drifts",
    "modes": "several-levels",
    "spread": "spread-changed",
}


def _pattern(
    points: Sequence[HistoryPoint], one: PatternAnswer, of: _Levels, *, begins: bool
) -> FindingFigures:
    first, last = one.first + 1, one.last + 1
    change = Figure(abs(one.ratio - 1), "%")
    way = direction(points[-1], rises=one.ratio > 1)
    if one.kind == "excursion":
        rest = " than those after" if begins else ", then as before"
        return states(runs=Figure(first, "", last), change=change, way=way, rest=rest)
    if one.kind == "drift":
        has_step = any(one.first < step.index <= one.last for step in of.steps)
        form = "alternative" if one.is_alternative else "beside" if has_step else ""
        return states(form, change=change, way=way, first=first, last=last)
    if one.kind == "modes":
        count = round(one.share * (last - first + 1))
        return states(count=count, first=first, last=last, change=change, way=way)
    than = "as much as" if one.ratio > 1 else "less than"
    return states(first=first, times=max(one.ratio, 1 / one.ratio), than=than)


def _runs_text(points: Sequence[HistoryPoint], one: PatternAnswer) -> str:
    return f"{run_at(points, one.first)} to {run_at(points, one.last)}"


def _disagreement(
    points: Sequence[HistoryPoint], of: _Levels, look: NewestLook | None
) -> FindingFigures | None:
    """Return that the steps and the looks put the beginning of the present level at different
    places; else None."""
    if look is None or of.wanders:
        return None
    verdict = look.verdict
    begins = verdict.level_start if verdict.since is None else verdict.since
    starts = {verdict.level_start + look.offset, begins + look.offset}
    steps = [step for step in of.steps if step.index > of.start]
    if steps and any(_is_at(steps[-1], start) for start in starts):
        return None
    start = verdict.level_start + look.offset
    if start > (steps[-1].index if steps else of.start):
        return states(run=start + 1, when=run_text(points[start]))
    if not steps:
        return None
    at = steps[-1].index
    return states("step", run=at + 1, since=start + 1, when=run_text(points[at]))


def _is_at(step: StepAnswer, start: int) -> bool:
    """Return whether a level that begins there may begin with a step: a look is less exact by some
    values."""
    return step.first - MIN_VALUES <= start <= step.last + MIN_VALUES


def _outliers(points: Sequence[HistoryPoint], of: _Levels) -> FindingFigures | None:
    """Return how far the outliers are above and below their levels, and which runs they are; None
    without any."""
    ratios: dict[str, list[float]] = {}
    details = []
    for at in of.outliers:
        level = next(value for first, last, value in of.levels if first <= at <= last)
        if level is not None:
            point, ratio = points[at], points[at].estimate / level.value
            side = "above" if ratio >= 1 else "below"
            ratios.setdefault(side, []).append(ratio)
            value, usual = (
                quantity_text(one, unit)
                for one, unit in ((point.estimate, point.unit), (level.value, level.unit))
            )
            details.append(f"{run_at(points, at)}: {value} of {usual}")
    if not details:
        return None
    spans: dict[str, Value] = {}
    for side, of_side in ratios.items():
        away = [abs(ratio - 1) for ratio in of_side]
        spans[f"n_{side}"], spans[side] = len(away), Figure(min(away), "%", max(away))
    return states(
        **spans,
        joined=" and " if len(ratios) > 1 else None,
        runs=some_text(details, _MOST_OUTLIERS),
    )


_MOST_OUTLIERS = 20


# -- Words -----------------------------------------------------------------------------

_MOST_CHANGES = 4


def changes_text(changes: Sequence[str]) -> str:
    """Return what changed between two segments, at most four changes."""
    return some_text(changes, _MOST_CHANGES, "; ")
