"""The input of every plot mode: the request, error bars, categories on the horizontal axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.plan import StopDecision
from benchwright.core.quantity import finite
from benchwright.core.results import Estimate, Summary
from benchwright.findings.result import TestResult
from benchwright.report.charts.plot_data import ABSENT, PlotMode, PlotPoint, PlotSeries
from benchwright.report.charts.sheet import AxisTick
from benchwright.report.charts.source import (
    AxisPosition,
    AxisPositions,
    PlotComponent,
    PlotGroup,
    stated_of,
)
from benchwright.report.charts.style import BarSpacing
from benchwright.stats.intervals import t_interval
from benchwright.stats.moments import moments

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
    found = () if stop is None else stop.reached
    return next((r.estimate for r in found if r.metric == metric), None)


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
