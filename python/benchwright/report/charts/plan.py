"""What a mode is given to make a chart of: the request, error bars, categories along the axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.plan import StopDecision
from benchwright.core.quantity import finite
from benchwright.core.results import Estimate
from benchwright.report.charts.plot_data import (
    ABSENT,
    PlotMode,
    PlotPoint,
    PlotSeries,
)
from benchwright.report.charts.sheet import AxisTick
from benchwright.report.charts.source import (
    AxisPosition,
    AxisPositions,
    PlotComponent,
    PlotGroup,
    PlotTest,
    natural_key,
)
from benchwright.report.charts.style import BarSpacing
from benchwright.stats.intervals import t_interval
from benchwright.stats.moments import moments

# -- Error bars: the interval that a point carries, and how it was made ----------------
#
# Purpose: one function for all modes. Decision: Student's t by default, as the tables'
# LOW and HIGH (and Graphit's error bars); of one trial there is no error bar, rather than
# one of length zero. Sources: Auto-pilot paper, sections 3.3 and 3.4.

ERROR_BAR_KINDS = ("t", "minmax", "sdev", "interval", "none")


def error_bar(
    values: Sequence[float], kind: str, confidence: float, own: Estimate | None = None
) -> Estimate:
    """Return the mean of `values`, shape `(n,)`, n >= 1, with its error bar.

    `own` is the interval that the test's stopping rule reached, used by `interval`;
    its value may be another statistic than the mean. NaN where there is no bar.
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
    """Return the estimate with which a test's own rule ended, where it has one."""
    found = () if stop is None else stop.reached
    return next((r.estimate for r in found if r.metric == metric), None)


# -- What a mode is given to make a chart of: the request, and what it means here ------


class ChartRequest(msgspec.Struct, frozen=True):
    """What the user requested; its appearance is a `Style`."""

    mode: PlotMode = PlotMode.LINE
    components: tuple[str, ...] = ()
    factor: str | None = None
    errorbars: str = "t"
    confidence: float = 0.95
    stacks: tuple[tuple[str, ...], ...] | None = None
    """Each from the bottom up; None: User over System where both are drawn."""
    spacing: BarSpacing = BarSpacing()
    baseline: str | None = None
    xlabel: str | None = None
    ylabel: str | None = None


class PlotPlan(msgspec.Struct, frozen=True):
    """The request with its resolved tests, quantities and places."""

    groups: tuple[PlotGroup, ...]
    components: tuple[PlotComponent, ...]
    places: AxisPositions
    request: ChartRequest

    def tests(self) -> list[tuple[PlotGroup, PlotTest, AxisPosition]]:
        """Return every test with its group and place, in the order given."""
        return [
            (group, source, place)
            for group, places in zip(self.groups, self.places.groups, strict=True)
            for source, place in zip(group.sources, places, strict=True)
        ]


def plot_point(
    plan: PlotPlan, source: PlotTest, component: PlotComponent, place: AxisPosition
) -> PlotPoint:
    """Return a test's point: its mean and error bar, or a gap. Its x is yet to be set."""
    column = source.columns.get(component.name)
    x = place.number if place.number is not None else 0.0
    if column is None:
        return PlotPoint(source.test, place.label, x, gap=ABSENT)
    request = plan.request
    own = reached_estimate(source.stop, component.name)
    bar = error_bar(column.values, request.errorbars, request.confidence, own)
    return PlotPoint(
        test=source.test,
        label=place.label,
        x=x,
        n=len(column.values),
        value=finite(bar.value),
        low=finite(bar.low),
        high=finite(bar.high),
        method=bar.method if finite(bar.low) is not None else "",
    )


def legend_of(plan: PlotPlan, group: PlotGroup, component: PlotComponent) -> str:
    """Return what distinguishes a series from the others: its name, its component, or both."""
    if len(plan.components) == 1:
        return group.name
    return f"{group.name} {component.label}"


def plot_series(
    group: PlotGroup, component: PlotComponent, legend: str, points: list[PlotPoint]
) -> PlotSeries:
    """Return a series of these points."""
    return PlotSeries(
        group.name, component.label, component.unit, legend, tuple(points)
    )


def plot_error(message: str, hint: str, where: str) -> InputError:
    """Return the InputError for what a mode cannot draw."""
    return InputError([Diagnostic("bad-plot", message, hint, where)])


# --------------------------------------------------------------------------------------
# Categories along the horizontal axis: one per level that is shared, or one per test.
#
# Decision: where each test is a category of its own, the NAMEs are a second row under
# their tests, and stand a little apart from each other.

_GROUP_DISTANCE = 0.4


def category_positions(plan: PlotPlan) -> dict[str, int]:
    """Return the labels of all places with their positions, in natural order."""
    labels = {place.label for group in plan.places.groups for place in group}
    if plan.places.numeric:
        by_number = {p.label: p.number or 0.0 for g in plan.places.groups for p in g}
        ordered = sorted(labels, key=lambda label: (by_number[label], label))
    else:
        ordered = sorted(labels, key=natural_key)
    return {label: at for at, label in enumerate(ordered)}


def positions_of_tests(plan: PlotPlan) -> tuple[float, ...]:
    """Return where each test stands when it is a category: 0, 1, ...; NAMEs with
    several tests stand further apart."""
    several = any(len(group.sources) > 1 for group in plan.groups)
    found: list[float] = []
    for block, group in enumerate(plan.groups):
        apart = block * _GROUP_DISTANCE if several else 0.0
        found += [len(found) + apart + at for at in range(len(group.sources))]
    return tuple(found)


def category_ticks(
    plan: PlotPlan, pitch: float = 1.0
) -> tuple[tuple[AxisTick, ...], tuple[AxisTick, ...]]:
    """Return the labels of one category per test, and of the NAMEs under them.

    Where each NAME has one test, its label is the NAME and there is no second row.
    """
    at = [spot * pitch for spot in positions_of_tests(plan)]
    if all(len(group.sources) == 1 for group in plan.groups):
        return tuple(map(AxisTick, at, (group.name for group in plan.groups))), ()
    ticks = tuple(map(AxisTick, at, (place.label for _, _, place in plan.tests())))
    blocks, start = [], 0
    for group in plan.groups:
        end = start + len(group.sources)
        blocks.append(AxisTick((at[start] + at[end - 1]) / 2, group.name))
        start = end
    return ticks, tuple(blocks)
