"""Composes a plot from groups of tests, and checks what its axes can show."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.observation import FAILED_ENDINGS
from benchwright.core.results import Finding
from benchwright.core.text import more_text
from benchwright.findings.codes import make_finding
from benchwright.report.charts import bars, distribution, ratio
from benchwright.report.charts.plan import ChartRequest, PlotPlan, by_components, stacked_sheet
from benchwright.report.charts.plot_data import (
    PlotData,
    PlotMode,
    PlotPoint,
    PlotSeries,
    label_with_unit,
)
from benchwright.report.charts.sheet import Panel, Sheet
from benchwright.report.charts.source import (
    PlotComponent,
    PlotGroup,
    axis_positions,
    choose_components,
    components_of,
    positions_by_name,
    split_by_factors,
    stated_of,
    title_of,
)
from benchwright.report.charts.style import ChartStyle

# -- Values that the requested axes cannot show: reported before drawing ----------------
#
# Decision: a value that is not positive on a logarithmic axis is an error in the request, not a
# point to omit silently. So is a stack on such an axis, where lengths of segments mean nothing.

_MOST_LISTED = 5
_LARGEST = 1e306
_DECADES = 306


def check_axes(plot: PlotData, style: ChartStyle) -> None:
    """Raise InputError with all values that the axes cannot show."""
    wrong: list[Diagnostic] = []
    points = [(series, point) for series in plot.series for point in series.points]
    if style.logy:
        if any(point.base for _, point in points):
            message = "stacked bars have no meaning on a logarithmic axis"
            wrong.append(_mistake("--logy", message, "add --no-stack"))
        vertical = plot.mode is not PlotMode.ECDF
        wrong += _not_positive("--logy", [p for p in points if vertical and _least(p[1]) <= 0])
        wrong += _too_far_apart([_ends(point) for _, point in points])
    elif any(abs(end) > _LARGEST for _, point in points for end in _ends(point)):
        wrong.append(_mistake("GLOB", f"a value beyond {_LARGEST:g} cannot be drawn", ""))
    if style.logx:
        along = [p for p in points if _along(plot, p[1]) <= 0]
        wrong += _not_positive("--logx", along)
        if plot.mode is PlotMode.LINE and not plot.numeric:
            message = "the tests are at no numbers along the axis"
            wrong.append(_mistake("--logx", message, "name what varies by -x FACTOR"))
    if wrong:
        raise InputError(wrong)


def _ends(point: PlotPoint) -> list[float]:
    """Return every value of a point that the vertical axis must include."""
    values = point.values.values if point.values is not None else ()
    ends = (point.value, point.low, point.high)
    return [*values, *(point.base + end for end in ends if end is not None)]


def _too_far_apart(ends: list[list[float]]) -> list[Diagnostic]:
    """Report values whose logarithmic axis, with its margins, exceeds the range of floats."""
    logs = [math.log10(end) for one in ends for end in one if end > 0]
    if not logs:
        return []
    room = 0.1 * (max(logs) - min(logs))
    if min(logs) - room > -_DECADES and max(logs) + room < _DECADES:
        return []
    message = f"values from 1e{min(logs):.0f} to 1e{max(logs):.0f} do not fit on one axis"
    return [_mistake("--logy", message, "draw them in separate charts")]


def _least(point: PlotPoint) -> float:
    """Return the smallest value drawn for a point; 1 for a gap."""
    values = point.values.values if point.values is not None else ()
    return min(values, default=1.0 if point.value is None else point.value)


def _along(plot: PlotData, point: PlotPoint) -> float:
    return _least(point) if plot.mode is PlotMode.ECDF else point.x if plot.numeric else 1


def _not_positive(option: str, points: list[tuple[PlotSeries, PlotPoint]]) -> list[Diagnostic]:
    mistakes = [
        _mistake(
            option,
            f"{series.name} {point.test}: {series.component} is not above 0 on a logarithmic axis",
            "choose other --components, or a linear axis",
        )
        for series, point in points[:_MOST_LISTED]
    ]
    if len(points) > _MOST_LISTED:
        mistakes.append(_mistake(option, more_text(len(points) - _MOST_LISTED), ""))
    return mistakes


def _mistake(option: str, message: str, hint: str) -> Diagnostic:
    return Diagnostic("bad-plot", message, hint, option)


# --------------------------------------------------------------------------------------
# From groups of tests to the plot.
#
# Purpose: check the request, choose the mode, and do what all modes share (gaps, findings, axis
# labels); each mode's arithmetic is in its own file. Decision: every NAME and component is one
# series in every mode, so that documents have one shape. Non-goal: drawing.

RESPONSE_MEAN = "response_ns_mean"
"""The metric that a normal probability plot of loads shows."""
_TIMES = ("elapsed", "user", "system")


class Mode(NamedTuple):
    """What one mode of `bw plot` is: a function from tests to numbers, and one from these to a page."""

    chart: Callable[[PlotPlan], PlotData]
    sheet: Callable[[PlotData, ChartStyle], Sheet]
    several: bool = False
    """Whether it has series for several quantities, and for the combinations of further factors."""
    of_each_test: bool = True
    """Whether it draws each test for itself, so that several can have one level."""
    bars: Literal["", "mean", "median"] = "mean"
    """What its error bars are of; a finding says where there is none. Empty: it needs none."""


def _one(panel: Callable[[PlotData, ChartStyle], Panel]) -> Callable[[PlotData, ChartStyle], Sheet]:
    return lambda plot, style: stacked_sheet([panel(plot, style)], style)


_MODES: dict[PlotMode, Mode] = {
    PlotMode.LINE: Mode(bars.line_chart, _one(bars.line_panel), several=True, of_each_test=False),
    PlotMode.BAR: Mode(bars.bar_chart, _one(bars.bar_panel), several=True, of_each_test=False),
    PlotMode.RATIO: Mode(ratio.ratio_chart, _one(ratio.ratio_panel), of_each_test=False),
    PlotMode.ECDF: Mode(distribution.ecdf_chart, distribution.ecdf_sheet, bars=""),
    PlotMode.VIOLIN: Mode(
        distribution.category_chart, by_components(distribution.violin_panel), bars="median"
    ),
    PlotMode.STRIP: Mode(
        distribution.category_chart, by_components(distribution.strip_panel), bars="median"
    ),
    PlotMode.POINTS: Mode(distribution.points_chart, by_components(distribution.points_panel)),
    PlotMode.EPOCHS: Mode(distribution.epoch_chart, distribution.epoch_sheet, bars=""),
    PlotMode.NORMAL: Mode(distribution.normal_chart, distribution.normal_sheet, bars=""),
}


def plot_sheet(plot: PlotData, style: ChartStyle) -> Sheet:
    """Return the page: one panel, or one for each component or test."""
    return _MODES[plot.mode].sheet(plot, style)


def compose_plot(
    groups: Sequence[PlotGroup], request: ChartRequest
) -> tuple[PlotData, tuple[Finding, ...]]:
    """Return the plot, and findings about what is missing from it.

    Raises InputError with all errors: unknown components or factors, series without
    a trial, and what the mode cannot draw.
    """
    wrong: list[Diagnostic] = []
    factor = request.factor
    mode = _MODES[request.mode]
    if mode.several:
        groups, factor = split_by_factors(groups, factor)
    components = _components(groups, request, wrong)
    for group in groups if components or not wrong else ():
        there = {name for s in group.sources for name in (*s.columns, *stated_of(s))}
        if not any(component.name in there for component in components):
            wrong.append(_empty(group, components))
    places = axis_positions(groups, factor, wrong)
    if mode.of_each_test and places.ambiguous:
        places = positions_by_name(groups)
    if wrong:
        raise InputError(wrong)
    plot = mode.chart(PlotPlan(tuple(groups), components, places, request))
    plot = _labelled(plot, components, request)
    return plot, (*_failures(groups), *_missing_findings(plot))


def _components(
    groups: Sequence[PlotGroup], request: ChartRequest, wrong: list[Diagnostic]
) -> tuple[PlotComponent, ...]:
    """Return the requested components; else the available times, or the first quantity; in a normal
    probability plot the mean response of loads."""
    components = components_of(groups)
    if request.components and components:
        return choose_components(request.components, components, wrong)
    if request.mode is PlotMode.NORMAL:
        responses = tuple(component for component in components if component.name == RESPONSE_MEAN)
        if responses:
            return responses
    times = sorted((c for c in components if c.name in _TIMES), key=lambda c: _TIMES.index(c.name))
    return tuple(times if _MODES[request.mode].several and times else (times or components)[:1])


def _empty(group: PlotGroup, components: Sequence[PlotComponent]) -> Diagnostic:
    tests = ", ".join(title_of(source) for source in group.sources)
    why = f"{tests} has no completed trial"
    hint = "failed and void trials are not plotted; `bw stats` lists them"
    if any(source.columns or source.summaries for source in group.sources):
        why = f"{tests} has no {', '.join(c.label for c in components)}"
        hint = "choose other --components"
    message = f"the series {group.name!r} has nothing to draw: {why}"
    return Diagnostic("empty-series", message, hint, "GLOB", text=group.name)


def _labelled(
    plot: PlotData, components: Sequence[PlotComponent], request: ChartRequest
) -> PlotData:
    """Return the plot with axis labels: as requested, else from what the axes show. A factor has
    the name that the user gave it."""
    xlabel = plot.xlabel or plot.factor
    return msgspec.structs.replace(
        plot,
        xlabel=request.xlabel if request.xlabel is not None else xlabel,
        ylabel=request.ylabel
        if request.ylabel is not None
        else plot.ylabel or quantity_label(components),
        confidence=request.confidence,
        errorbars=request.errorbars,
    )


def quantity_label(components: Sequence[PlotComponent]) -> str:
    """Return `Elapsed (s)`; `Time (s)` for several times; else the labels of all components."""
    units = {component.unit for component in components}
    if len(components) > 1 and units == {"s"}:
        return "Time (s)"
    if len(components) > 1 and len(units) == 1 and "" not in units:
        return f"{', '.join(c.label for c in components)} ({units.pop()})"
    return ", ".join(label_with_unit(c.label, c.unit) for c in components)


def _failures(groups: Sequence[PlotGroup]) -> Iterator[Finding]:
    for group in groups:
        for source in group.sources:
            failed = sum(trial.ending in FAILED_ENDINGS for trial in source.all_trials)
            if failed:
                stated = any(b.failure for trial in source.all_trials for b in trial.blocks)
                yield make_finding(
                    "result-failed" if stated else "command-failed",
                    f"{group.name} {source.name}",
                    f"{failed} failed trial{'s' * (failed > 1)}, not drawn",
                )


def _missing_findings(plot: PlotData) -> tuple[Finding, ...]:
    """Return findings about gaps and missing error bars, which readers could misinterpret."""
    findings: list[Finding] = []
    bars_wanted = bool(_MODES[plot.mode].bars) and plot.errorbars != "none"
    for series in plot.series:
        for point in series.points:
            where = f"{series.name} {point.test}"
            if point.value is None:
                what = f"{series.component}: {point.gap}; a gap, not zero"
                findings.append(make_finding("missing-metric", where, what))
            elif point.low is None and bars_wanted and point.method != "stated":
                findings.extend(_without_bar(plot, point, where))
    return tuple(dict.fromkeys(findings))


def _without_bar(plot: PlotData, point: PlotPoint, where: str) -> list[Finding]:
    """Return findings about a missing error bar, each with the test that causes it."""
    own = (where, f"{point.n} trial{'s' * (point.n != 1)}")
    findings = [
        make_finding("too-few-trials", subject, f"{what}: no error bar")
        for subject, what in point.short or (own,)
    ]
    if _MODES[plot.mode].bars != "median":
        return findings
    remedy = _remedy_for_median(point.n, plot.confidence)
    return [msgspec.structs.replace(finding, remedy=remedy) for finding in findings]


def _remedy_for_median(n: int, confidence: float) -> str:
    least = distribution.least_for_median(confidence)
    if n >= least:
        return "Run more trials: trials that depend on each other contain less information about a median."
    return (
        f"Run at least {least} trials for an interval of the median at "
        f"{100 * confidence:.6g} %, and 20 for a reliable one."
    )
