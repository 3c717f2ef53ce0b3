"""Charts of single values: their distribution (ECDF, violin, strip, normal probability plot) and
their course over epochs.

Decision: these modes draw every value. They mark the median with its exact interval between
order statistics, because a mean says little about a distribution's shape. Warm-up and change
points are marked, but no value is removed.
Sources: K. Preston White 1997 (MSER; `stats.drift`); `stats.steps`; `stats.intervals`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import msgspec

from benchwright.core.quantity import finite
from benchwright.core.text import plural
from benchwright.report.charts.plan import (
    PlotPlan,
    category_ticks,
    plot_error,
    plot_point,
    plot_series,
    positions_of_tests,
)
from benchwright.report.charts.plot_data import ABSENT, PlotData, PlotPoint, SingleValues
from benchwright.report.charts.source import AxisPosition, PlotComponent, PlotTest
from benchwright.report.charts.trials import ShownTrial
from benchwright.stats.drift import chance_of_order, mser_truncation
from benchwright.stats.intervals import exact_ranks, quantile_interval
from benchwright.stats.probability_plot import FEWEST_OF_PROBABILITY_PLOT, probability_plot
from benchwright.stats.steps import find_steps

MOST_PANELS = 60
_WARM_UP_P = 0.01
_CHANGE_P = 0.01
"""Maximum P value of a warm-up: MSER truncates stationary series too, so what it removes must
also differ significantly from the rest."""


def ecdf_chart(plan: PlotPlan) -> PlotData:
    """Return the ECDF of each test's values; each test is a series."""
    series = []
    for component in plan.components:
        for group, source, place in plan.tests():
            point = _median(plan, source, component, place)
            several = len(group.sources) > 1
            legend = f"{group.name} {place.label}" if several else group.name
            series.append(plot_series(group, component, legend, [point]))
    return PlotData(plan.request.mode, tuple(series), ylabel="Share of trials")


def category_chart(plan: PlotPlan) -> PlotData:
    """Return a chart with a category for each test: a violin or a strip of its values."""
    return _chart(plan, _median)


def points_chart(plan: PlotPlan) -> PlotData:
    """Return a chart with a row for each test: its values, and the mean with its error bar."""
    return _chart(plan, _mean)


def _chart(
    plan: PlotPlan, point_of: Callable[[PlotPlan, PlotTest, PlotComponent, AxisPosition], PlotPoint]
) -> PlotData:
    at = {id(s): x for x, (_, s, _) in zip(positions_of_tests(plan), plan.tests(), strict=True)}
    series = []
    for component in plan.components:
        for group, places in zip(plan.groups, plan.places.groups, strict=True):
            points = [
                msgspec.structs.replace(point_of(plan, source, component, place), x=at[id(source)])
                for source, place in zip(group.sources, places, strict=True)
            ]
            series.append(plot_series(group, component, group.name, points))
    ticks, blocks = category_ticks(plan)
    factor = plan.places.factor if blocks or len(plan.groups) == 1 else ""
    return PlotData(plan.request.mode, tuple(series), ticks=ticks, blocks=blocks, factor=factor)


def epoch_chart(plan: PlotPlan) -> PlotData:
    """Return each test's values over its epochs, in a panel of its own.

    Raises InputError if a page cannot hold all panels.
    """
    _check_panels(plan)
    series = []
    for component in plan.components:
        for group, source, place in plan.tests():
            point = _median(plan, source, component, place)
            title = _title(group.name, place.label, len(group.sources) > 1)
            point = _with_left_out(_marked(point), source, component)
            series.append(plot_series(group, component, title, [point]))
    return PlotData(plan.request.mode, tuple(series), xlabel="Epoch", numeric=True)


def normal_chart(plan: PlotPlan) -> PlotData:
    """Return the normal probability plot of each test, in a panel of its own.

    Raises InputError if a page cannot hold all panels.
    """
    _check_panels(plan)
    series = []
    for component in plan.components:
        for group, source, place in plan.tests():
            point = _mean(plan, source, component, place)
            name = group.name if len(plan.groups) > 1 else ""
            title = f"{name} {source.title}".strip()
            series.append(plot_series(group, component, title, [_beside_normal(plan, point)]))
    return PlotData(plan.request.mode, tuple(series), xlabel="Normal score", numeric=True)


def _beside_normal(plan: PlotPlan, point: PlotPoint) -> PlotPoint:
    if point.values is None:
        return point
    normal = probability_plot(point.values.values, plan.request.confidence)
    if normal is None:
        equal = point.n >= FEWEST_OF_PROBABILITY_PLOT
        why = "all are equal" if equal else f"{FEWEST_OF_PROBABILITY_PLOT} are needed"
        gap = f"{plural(point.n, 'value')}: {why}"
        return PlotPoint(point.test, point.label, point.x, n=point.n, gap=gap)
    return msgspec.structs.replace(point, normal=normal)


def _check_panels(plan: PlotPlan) -> None:
    """Raise InputError if a page cannot hold a panel for each test and component."""
    panels = len(plan.tests()) * len(plan.components)
    if panels > MOST_PANELS:
        message = f"{panels} panels, one per test and component; {MOST_PANELS} at most"
        raise plot_error(message, "choose fewer tests or components", "GLOB")


def _with_left_out(point: PlotPoint, source: PlotTest, component: PlotComponent) -> PlotPoint:
    """Return the point with the trials that do not count."""
    if point.values is None:
        return point
    left_out = tuple(
        ShownTrial(one.epoch, one.values.get(component.name), one.state) for one in source.left_out
    )
    values = msgspec.structs.replace(point.values, left_out=left_out)
    return msgspec.structs.replace(point, values=values)


def _title(name: str, label: str, several: bool) -> str:
    return f"{name} {label}" if several else name


def _mean(
    plan: PlotPlan, source: PlotTest, component: PlotComponent, place: AxisPosition
) -> PlotPoint:
    """Return a test's point: the mean with its error bar, and all values."""
    point = plot_point(plan, source, component, place)
    column = source.columns.get(component.name)
    if column is None:
        return point
    values = SingleValues(column.epochs, column.values)
    return msgspec.structs.replace(point, values=values)


def _median(
    plan: PlotPlan, source: PlotTest, component: PlotComponent, place: AxisPosition
) -> PlotPoint:
    """Return a test's point: the median with its interval, and all values."""
    column = source.columns.get(component.name)
    if column is None:
        return PlotPoint(source.test, place.label, 0.0, gap=ABSENT)
    found = quantile_interval(column.values, 0.5, plan.request.confidence)
    bars = plan.request.errorbars != "none"
    both = finite(found.low) is not None and finite(found.high) is not None
    return PlotPoint(
        test=source.test,
        label=place.label,
        x=0.0,
        n=found.n,
        value=finite(found.value),
        low=found.low if bars and both else None,
        high=found.high if bars and both else None,
        method=found.method if bars and both else "",
        values=SingleValues(column.epochs, column.values),
    )


def least_for_median(confidence: float) -> int:
    """Return how many values a median's exact interval needs: 6 at 95 %."""
    return next(n for n in count(1) if exact_ranks(n, 0.5, confidence)[0] >= 1)


def _marked(point: PlotPoint) -> PlotPoint:
    """Return the point with its warm-up and change points marked.

    MSER removes at most half of the values, so a change in the later half cannot be the
    end of a warm-up; MSER gets only the values before the first such change. Change points
    are those of the values after the warm-up.
    """
    if point.values is None:
        return point
    values = point.values.values
    late = [at for at in _change_points(values) if 2 * at >= len(values)]
    steady = values[: late[0] if late else None]
    truncation = mser_truncation(steady)
    is_warm = truncation.p <= _WARM_UP_P and chance_of_order(steady) <= _WARM_UP_P
    removed = truncation.removed if is_warm else 0
    changes = tuple(removed + at for at in _change_points(values[removed:]))
    marked = msgspec.structs.replace(point.values, removed=removed, changes=changes)
    return msgspec.structs.replace(point, values=marked)


def _change_points(values: Sequence[float]) -> tuple[int, ...]:
    """Return where a level begins; 1 % of series without a change have any."""
    fit = find_steps(values, false_alarms=_CHANGE_P)
    return () if fit.wanders else tuple(step.index for step in fit.steps)
