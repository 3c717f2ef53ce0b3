"""From groups of tests to the chart: which series there are, and what was asked of them.

Purpose: the checked request, shared parts (gaps, doubts, labels of the axes) and the
choice of mode; each mode's own arithmetic is in its file. Decision: every NAME and
component is one series in every mode, so that documents have one shape. Non-goal:
drawing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from benchwright.finding.codes import doubt
from benchwright.model.errors import Diagnostic, InputError
from benchwright.model.finding import Finding
from benchwright.report.plot import bars, distribution, lines, ratio
from benchwright.report.plot.chart import DISTRIBUTIONS, Chart, Mode, Point, named
from benchwright.report.plot.places import place
from benchwright.report.plot.plan import Plan, Request
from benchwright.report.plot.source import (
    Component,
    Group,
    choose,
    components_of,
)

_TIMES = ("elapsed", "user", "system")
_SEVERAL = (Mode.LINE, Mode.BAR)

_MODES: dict[Mode, Callable[[Plan], Chart]] = {
    Mode.LINE: lines.compose,
    Mode.BAR: bars.compose,
    Mode.ECDF: distribution.compose_ecdf,
    Mode.VIOLIN: distribution.compose_categories,
    Mode.STRIP: distribution.compose_categories,
    Mode.EPOCHS: distribution.compose_epochs,
    Mode.RATIO: ratio.compose,
}


def compose(
    groups: Sequence[Group], request: Request
) -> tuple[Chart, tuple[Finding, ...]]:
    """Return the chart, and the doubts about what is missing from it.

    Raises InputError with every mistake: unknown components or factors, series without
    a trial, and what the mode itself cannot draw.
    """
    wrong: list[Diagnostic] = []
    components = _components(groups, request, wrong)
    for group in groups if components or not wrong else ():
        if not any(c.name in s.columns for s in group.sources for c in components):
            wrong.append(_empty(group, components))
    places = place(groups, request.factor, wrong)
    if wrong:
        raise InputError(wrong)
    chart = _MODES[request.mode](Plan(tuple(groups), components, places, request))
    chart = _labelled(chart, components, request)
    return chart, (*_failures(groups), *_doubts(chart))


def _components(
    groups: Sequence[Group], request: Request, wrong: list[Diagnostic]
) -> tuple[Component, ...]:
    """Return those asked for; else the times that are there, or the first quantity."""
    there = components_of(groups)
    if request.components and there:
        return choose(request.components, there, wrong)
    times = sorted(
        (c for c in there if c.name in _TIMES), key=lambda c: _TIMES.index(c.name)
    )
    return tuple(times if request.mode in _SEVERAL and times else (times or there)[:1])


def _empty(group: Group, components: Sequence[Component]) -> Diagnostic:
    tests = ", ".join(source.title for source in group.sources)
    why = f"no trial of {tests} counts"
    hint = "trials that failed or are void are in no chart; `bw stats` tells of them"
    if any(source.columns for source in group.sources):
        why = f"{tests} has no {', '.join(c.label for c in components)}"
        hint = "choose other --components"
    message = f"the series {group.name!r} has nothing to draw: {why}"
    return Diagnostic("empty-series", message, hint, "GLOB", text=group.name)


def _labelled(chart: Chart, components: Sequence[Component], request: Request) -> Chart:
    """Return the chart with its axes' labels: as asked, else what is along them."""
    xlabel = chart.xlabel or chart.factor
    if xlabel == chart.factor and xlabel:
        xlabel = xlabel[0].upper() + xlabel[1:]
    return msgspec.structs.replace(
        chart,
        xlabel=request.xlabel if request.xlabel is not None else xlabel,
        ylabel=request.ylabel
        if request.ylabel is not None
        else chart.ylabel or quantity_label(components),
        confidence=request.confidence,
        errorbars=request.errorbars,
    )


def quantity_label(components: Sequence[Component]) -> str:
    """Return `Elapsed (s)`; `Time (s)` for several times; else all that there is."""
    units = {component.unit for component in components}
    if len(components) > 1 and units == {"s"}:
        return "Time (s)"
    if len(components) > 1 and len(units) == 1 and "" not in units:
        return f"{', '.join(c.label for c in components)} ({units.pop()})"
    return ", ".join(named(c.label, c.unit) for c in components)


def _failures(groups: Sequence[Group]) -> list[Finding]:
    return [
        doubt(
            "command-failed",
            f"{group.name} {source.test}",
            f"{source.failed} failed trial{'s' * (source.failed > 1)}, in no chart",
        )
        for group in groups
        for source in group.sources
        if source.failed
    ]


def _doubts(chart: Chart) -> tuple[Finding, ...]:
    """Return what a reader of the picture could take for something else: gaps, points
    without an error bar."""
    found: list[Finding] = []
    for series in chart.series:
        for point in series.points:
            where = f"{series.name} {point.test}"
            if point.value is None:
                what = f"{series.component}: {point.gap}; a gap, not zero"
                found.append(doubt("missing-metric", where, what))
            elif point.low is None and _has_bars(chart):
                found.extend(_without_bar(chart, point, where))
    return tuple(dict.fromkeys(found))


def _without_bar(chart: Chart, point: Point, where: str) -> list[Finding]:
    """Return the doubt about a missing error bar, at the test that is to blame."""
    own = (where, f"{point.n} trial{'s' * (point.n != 1)}")
    found = [
        doubt("too-few-trials", subject, f"{what}: no error bar")
        for subject, what in point.short or (own,)
    ]
    if chart.mode not in DISTRIBUTIONS:
        return found
    remedy = _remedy_for_median(point.n, chart.confidence)
    return [msgspec.structs.replace(one, remedy=remedy) for one in found]


def _remedy_for_median(n: int, confidence: float) -> str:
    least = distribution.least_for_median(confidence)
    if n >= least:
        return "Run more trials: those that depend on each other say less of a median."
    return (
        f"Run at least {least} trials for an interval of the median at "
        f"{100 * confidence:.6g} %, and 20 for one to rely on."
    )


def _has_bars(chart: Chart) -> bool:
    shown = chart.mode not in (Mode.ECDF, Mode.EPOCHS)
    return shown and chart.errorbars != "none"
