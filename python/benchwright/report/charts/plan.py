"""What every plot mode has: the request, error bars, categories on the horizontal axis; and what
the panels of several modes share: axes, curves, looks, legends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import msgspec

from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.plan import StopDecision
from benchwright.core.quantity import finite
from benchwright.core.results import Estimate, Summary
from benchwright.findings.result import TestResult
from benchwright.report.charts.plot_data import (
    ABSENT,
    PlotData,
    PlotMode,
    PlotPoint,
    PlotSeries,
    label_with_unit,
)
from benchwright.report.charts.sheet import AxisTick, CurveForm, Panel, PanelAxis, PanelCurve, Sheet
from benchwright.report.charts.source import (
    AxisPosition,
    AxisPositions,
    PlotComponent,
    PlotGroup,
    stated_of,
)
from benchwright.report.charts.style import BarSpacing, ChartStyle
from benchwright.stats.intervals import t_interval
from benchwright.stats.sample import moments

BLACK = 6
"""Index in the colours of `style.py`."""


def stacked_sheet(panels: Sequence[Panel], style: ChartStyle, columns: int = 1) -> Sheet:
    """Return a page with these panels."""
    drawn = list(panels)
    if columns == 1 and not drawn[0].sideways:
        # Only the lowest panel has the names of groups and the axis' label.
        upper = msgspec.structs.replace
        drawn[:-1] = [upper(panel, x=upper(panel.x, label="", groups=())) for panel in drawn[:-1]]
    return Sheet(style.title, tuple(drawn), columns, whole_page=True)


def by_component(plot: PlotData) -> Iterator[PlotData]:
    """Yield the part of each component."""
    for component in plot.components():
        series = tuple(one for one in plot.series if one.component == component)
        yield msgspec.structs.replace(plot, series=series)


def component_label(plot: PlotData) -> str:
    """Return the label of the first component, with its unit."""
    first = plot.series[0]
    return label_with_unit(first.component, first.unit)


def by_components(
    panel: Callable[[PlotData, ChartStyle], Panel],
) -> Callable[[PlotData, ChartStyle], Sheet]:
    """Return the function that draws a panel for each component, one below the other, each with the
    component's label if there are several."""

    def sheet(plot: PlotData, style: ChartStyle) -> Sheet:
        parts = list(by_component(plot))
        if len(parts) > 1:
            parts = [msgspec.structs.replace(p, ylabel=component_label(p)) for p in parts]
        return stacked_sheet([panel(part, style) for part in parts], style)

    return sheet


def category_axis(plot: PlotData, beside: float = 0.6) -> PanelAxis:
    """Return an axis of categories, with room at both ends."""
    at = [tick.x for tick in plot.ticks]
    low, high = (min(at) - beside, max(at) + beside) if at else (None, None)
    return PanelAxis(plot.xlabel, low=low, high=high, ticks=plot.ticks, groups=plot.blocks)


def value_axis(plot: PlotData, style: ChartStyle, low: float | None = None) -> PanelAxis:
    """Return the vertical axis; it starts at `low` unless the style sets another value."""
    low = style.ymin if style.ymin is not None else None if style.logy else low
    return PanelAxis(plot.ylabel, log=style.logy, low=low, high=style.ymax)


def zero_or_none(plot: PlotData) -> float | None:
    """Return 0 if no value is negative, else None. The axis then starts at 0 even if an
    error bar extends below it."""
    values = [p.value for s in plot.series for p in s.points if p.value is not None]
    return 0.0 if values and min(values) >= 0 else None


def panel_curve(
    points: Sequence[PlotPoint],
    form: CurveForm,
    label: str,
    look: tuple[int, int, int],
    *,
    bars: bool = True,
) -> PanelCurve:
    """Return points as a curve; `look` is the indices of its colour, dash and shape."""
    known = bars and any(point.low is not None for point in points)
    colour, dash, shape = look
    return PanelCurve(
        label,
        tuple(point.x for point in points),
        tuple(point.value for point in points),
        form,
        colour=colour,
        dash=dash,
        shape=shape,
        low=tuple(point.low for point in points) if known else (),
        high=tuple(point.high for point in points) if known else (),
    )


def series_looks(plot: PlotData) -> list[tuple[int, int, int]]:
    """Return the indices of each series' colour, dash and shape.

    With several NAMEs and several components, the colour shows the component and the dash
    the NAME; with several NAMEs and several tests of a NAME, the colour shows the NAME.
    """
    names = list(dict.fromkeys(series.name for series in plot.series))
    components = plot.components()
    within: dict[tuple[str, str], int] = {}
    found = []
    for place, series in enumerate(plot.series):
        name, component = names.index(series.name), components.index(series.component)
        key = (series.name, series.component)
        within[key] = within.get(key, -1) + 1
        if len(names) > 1 and len(components) > 1:
            found.append((component, name, place))
        elif 1 < len(names) < len(plot.series):
            found.append((name, within[key], place))
        else:
            found.append((place, place, place))
    return found


def shown_legends(plot: PlotData, style: ChartStyle) -> list[str]:
    """Return each series' text in the legend; empty if all series have the same text."""
    alone = len(plot.legends()) == 1 and style.key.region == "auto"
    return ["" if alone else series.legend for series in plot.series]


def each_once(labels: Sequence[str]) -> Iterator[str]:
    """Yield each label at its first occurrence, and an empty text at later ones."""
    for place, label in enumerate(labels):
        yield "" if label in labels[:place] else label


# -- Error bars -------------------------------------------------------------------------
#
# Purpose: one function for all modes. Decision: the default is Student's t, as in the tables'
# LOW and HIGH and in Graphit's error bars. One trial has no error bar, rather than one of
# length zero. Sources: Auto-pilot paper, sections 3.3 and 3.4.

ERROR_BAR_KINDS = ("t", "minmax", "sdev", "interval", "none")


def error_bar(
    values: Sequence[float], kind: str, confidence: float, own: Estimate | None = None
) -> Estimate:
    """Return the mean of `values`, shape `(n,)`, n >= 1, with its error bar.

    `own` is the estimate of the test's stopping rule; kind `interval` returns it, and its
    value need not be a mean. The ends are NaN without an error bar.
    """
    assert kind in ERROR_BAR_KINDS
    if kind == "interval" and own is not None:
        return own
    if kind in ("t", "interval"):
        return t_interval(values, confidence)
    found = moments(values)
    low = high = math.nan
    if kind == "minmax" and found.n > 1:
        low, high = min(values), max(values)
    elif kind == "sdev":
        low, high = found.mean - found.sdev, found.mean + found.sdev
    return Estimate(found.mean, low, high, confidence, kind, found.n)


def reached_estimate(stop: StopDecision | None, metric: str) -> Estimate | None:
    """Return the final estimate of a test's stopping rule; None if it has none."""
    precisions = () if stop is None else stop.reached
    return next((r.estimate for r in precisions if r.metric == metric), None)


# -- The request, and its meaning for these tests ---------------------------------------


class ChartRequest(msgspec.Struct, frozen=True):
    """The chart that the user requested; `ChartStyle` is its appearance."""

    mode: PlotMode = PlotMode.LINE
    components: tuple[str, ...] = ()
    factor: str | None = None
    errorbars: str = "t"
    confidence: float = 0.95
    stacks: tuple[tuple[str, ...], ...] | None = None
    """Each from the bottom up; None: User over System if both are drawn."""
    spacing: BarSpacing = BarSpacing()
    baseline: str | None = None
    xlabel: str | None = None
    ylabel: str | None = None


class PlotPlan(msgspec.Struct, frozen=True):
    """The request with its tests, quantities and positions resolved."""

    groups: tuple[PlotGroup, ...]
    components: tuple[PlotComponent, ...]
    places: AxisPositions
    request: ChartRequest

    def tests(self) -> list[tuple[PlotGroup, TestResult, AxisPosition]]:
        """Return every test with its group and position, in the given order."""
        return [
            (group, source, place)
            for group, places in zip(self.groups, self.places.groups, strict=True)
            for source, place in zip(group.sources, places, strict=True)
        ]


def plot_point(
    plan: PlotPlan, source: TestResult, component: PlotComponent, place: AxisPosition
) -> PlotPoint:
    """Return a test's point: its mean and error bar, or a gap. The caller sets x."""
    column = source.columns.get(component.name)
    x = place.number if place.number is not None else 0.0
    if column is None:
        if stated := stated_of(source).get(component.name):
            return _stated_point(source.name, stated, place.label, x, plan.request)
        return PlotPoint(source.name, place.label, x, gap=ABSENT)
    request = plan.request
    own = reached_estimate(source.stop, component.name)
    bar = error_bar(column.values, request.errorbars, request.confidence, own)
    return PlotPoint(
        test=source.name,
        label=place.label,
        x=x,
        n=len(column.values),
        value=finite(bar.value),
        low=finite(bar.low),
        high=finite(bar.high),
        method=bar.method if finite(bar.low) is not None else "",
    )


def _stated_point(
    test: str, stated: Summary, label: str, x: float, request: ChartRequest
) -> PlotPoint:
    """Return the point of an estimate that a file states: its mean, else its median, with the
    file's own interval or without one."""
    value = finite(stated.mean)
    bars = request.errorbars != "none"
    return PlotPoint(
        test=test,
        label=label,
        x=x,
        n=stated.count,
        value=finite(stated.median) if value is None else value,
        low=finite(stated.low) if bars else None,
        high=finite(stated.high) if bars else None,
        method=stated.method,
        confidence=stated.confidence,
    )


def legend_of(plan: PlotPlan, group: PlotGroup, component: PlotComponent) -> str:
    """Return a series' text in the legend: its NAME, and its component if there are several."""
    if len(plan.components) == 1:
        return group.name
    return f"{group.name} {component.label}"


def plot_series(
    group: PlotGroup, component: PlotComponent, legend: str, points: list[PlotPoint]
) -> PlotSeries:
    """Return a series of these points."""
    return PlotSeries(group.name, component.label, component.unit, legend, tuple(points))


def plot_error(message: str, hint: str, where: str) -> InputError:
    """Return the InputError for what a mode cannot draw."""
    return InputError([Diagnostic("bad-plot", message, hint, where)])


# --------------------------------------------------------------------------------------
# Categories along the horizontal axis: one per level that tests share, or one per test.
#
# Decision: if each test is a category, the NAMEs are a second row of labels below their
# tests, and there is extra space between NAMEs.

_GROUP_DISTANCE = 0.4


def category_positions(plan: PlotPlan) -> dict[str, int]:
    """Return the position of each label, in numeric order or in the order given."""
    labels = [place.label for group in plan.places.groups for place in group]
    if plan.places.numeric:
        by_number = {p.label: p.number or 0.0 for g in plan.places.groups for p in g}
        ordered = sorted(set(labels), key=lambda label: (by_number[label], label))
    else:
        ordered = list(dict.fromkeys(labels))
    return {label: at for at, label in enumerate(ordered)}


def positions_of_tests(plan: PlotPlan) -> tuple[float, ...]:
    """Return the position of each test as a category: 0, 1, ...; with extra space between
    NAMEs if one has several tests."""
    several = any(len(group.sources) > 1 for group in plan.groups)
    found: list[float] = []
    for block, group in enumerate(plan.groups):
        apart = block * _GROUP_DISTANCE if several else 0.0
        found += [len(found) + apart + at for at in range(len(group.sources))]
    return tuple(found)


def category_ticks(
    plan: PlotPlan, pitch: float = 1.0
) -> tuple[tuple[AxisTick, ...], tuple[AxisTick, ...]]:
    """Return the labels of one category per test, and the NAMEs below them.

    If each NAME has one test, the labels are the NAMEs and there is no second row; neither is
    there one for a single NAME, if the axis has the label of a factor.
    """
    at = [spot * pitch for spot in positions_of_tests(plan)]
    if all(len(group.sources) == 1 for group in plan.groups):
        return tuple(map(AxisTick, at, (group.name for group in plan.groups))), ()
    ticks = tuple(map(AxisTick, at, (place.label for _, _, place in plan.tests())))
    if len(plan.groups) == 1 and plan.places.factor:
        return ticks, ()
    blocks, start = [], 0
    for group in plan.groups:
        end = start + len(group.sources)
        blocks.append(AxisTick((at[start] + at[end - 1]) / 2, group.name))
        start = end
    return ticks, tuple(blocks)
