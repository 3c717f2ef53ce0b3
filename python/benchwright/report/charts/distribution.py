"""Charts of single values: their distribution (ECDF, violin, strip, normal probability plot) and
their course over epochs.

Decision: these modes draw every value. They mark the median with its exact interval between
order statistics, because a mean says little about a distribution's shape. Warm-up and change
points are marked, but no value is removed.
Decision: values are spread sideways by a fixed low-discrepancy sequence, not at random, so that a
picture is reproducible. A violin of fewer than 8 values would show a shape that the data do not
have; such a test shows only its values.
Sources: B. Silverman 1986, Density Estimation, 3.4.2 (a violin's kernel); K. Preston White 1997 (MSER; `stats.drift`); `stats.steps`; `stats.intervals`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from itertools import count

import msgspec

from benchwright.core.numeric import np
from benchwright.core.quantity import finite
from benchwright.core.results import Estimate
from benchwright.core.text import plural
from benchwright.findings.result import TestResult
from benchwright.report.charts.plan import (
    BLACK,
    PlotPlan,
    by_component,
    category_axis,
    category_ticks,
    component_label,
    panel_curve,
    plot_error,
    plot_point,
    plot_series,
    positions_of_tests,
    series_looks,
    stacked_sheet,
    value_axis,
    zero_or_none,
)
from benchwright.report.charts.plot_data import (
    ABSENT,
    PlotData,
    PlotPoint,
    PlotSeries,
    SingleValues,
    label_with_unit,
)
from benchwright.report.charts.sheet import (
    AxisUnit,
    CurveForm,
    Panel,
    PanelAxis,
    PanelCurve,
    ShadedRange,
    Sheet,
    ecdf_steps,
    empty_panel,
)
from benchwright.report.charts.source import AxisPosition, PlotComponent, title_of
from benchwright.report.charts.style import ChartStyle
from benchwright.report.charts.trials import (
    STATE_LOOKS,
    ShownTest,
    ShownTrial,
    jitter,
    states_of,
    values_panel,
)
from benchwright.stats.arrays import FloatArray
from benchwright.stats.drift import chance_of_order, mser_truncation
from benchwright.stats.intervals import exact_ranks, quantile_interval
from benchwright.stats.probability_plot import FEWEST_OF_PROBABILITY_PLOT, probability_plot
from benchwright.stats.steps import find_steps

MOST_PANELS = 60
_PANELS_IN_COLUMN = 4
_NORMAL_COLUMNS = 3
_RED = 3
_VIOLIN_WIDTH = 0.8
_FEWEST_OF_VIOLIN = 8
_OUTLINE_POINTS = 128
_WARM_UP_P = 0.01
_CHANGE_P = 0.01
"""Maximum P value of a warm-up: MSER truncates stationary series too, so what it removes must
also differ significantly from the rest."""

# -- The points of a test: its mean or its median, and all values --------------------------------


def _mean(
    plan: PlotPlan, source: TestResult, component: PlotComponent, place: AxisPosition
) -> PlotPoint:
    """Return a test's point: the mean with its error bar, and all values."""
    point = plot_point(plan, source, component, place)
    column = source.columns.get(component.name)
    if column is None:
        return point
    values = SingleValues(column.epochs, column.values)
    return msgspec.structs.replace(point, values=values)


def _median(
    plan: PlotPlan, source: TestResult, component: PlotComponent, place: AxisPosition
) -> PlotPoint:
    """Return a test's point: the median with its interval, and all values."""
    column = source.columns.get(component.name)
    if column is None:
        return PlotPoint(source.name, place.label, 0.0, gap=ABSENT)
    estimate = quantile_interval(column.values, 0.5, plan.request.confidence)
    bars = plan.request.errorbars != "none"
    both = finite(estimate.low) is not None and finite(estimate.high) is not None
    return PlotPoint(
        test=source.name,
        label=place.label,
        x=0.0,
        n=estimate.n,
        value=finite(estimate.value),
        low=estimate.low if bars and both else None,
        high=estimate.high if bars and both else None,
        method=estimate.method if bars and both else "",
        values=SingleValues(column.epochs, column.values),
    )


def least_for_median(confidence: float) -> int:
    """Return how many values a median's exact interval needs: 6 at 95 %."""
    return next(n for n in count(1) if exact_ranks(n, 0.5, confidence)[0] >= 1)


def _chart(
    plan: PlotPlan,
    point_of: Callable[[PlotPlan, TestResult, PlotComponent, AxisPosition], PlotPoint],
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


def _check_panels(plan: PlotPlan) -> None:
    """Raise InputError if a page cannot hold a panel for each test and component."""
    panels = len(plan.tests()) * len(plan.components)
    if panels > MOST_PANELS:
        message = f"{panels} panels, one per test and component; {MOST_PANELS} at most"
        raise plot_error(message, "choose fewer tests or components", "GLOB")


def _values_of(point: PlotPoint) -> FloatArray:
    return np.array(point.values.values if point.values else (), dtype=np.float64)


def _single_values(point: PlotPoint, place: int) -> PanelCurve:
    values = _values_of(point)
    x = point.x + jitter(values.size) * _VIOLIN_WIDTH * 0.6
    return PanelCurve("", tuple(x.tolist()), tuple(values.tolist()), CurveForm.VALUES, colour=place)


def _medians(plot: PlotData) -> tuple[PanelCurve, ...]:
    """Return the medians as one curve, with any intervals."""
    points = [p for s in plot.series for p in s.points if p.value is not None]
    if not points:
        return ()
    known = any(point.low is not None for point in points)
    label = f"median, {100 * plot.confidence:g} % interval" if known else "median"
    look = (BLACK, 0, BLACK)
    return (panel_curve(points, CurveForm.LEVELS, label, look),)


# -- ECDF: the share of trials at or below each value --------------------------------------------


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


def ecdf_sheet(plot: PlotData, style: ChartStyle) -> Sheet:
    """Return the share of trials at or below each value, as steps: the components side by side."""
    panels = [_ecdf_panel(part, style) for part in by_component(plot)]
    return stacked_sheet(panels, style, columns=len(panels))


def _ecdf_panel(plot: PlotData, style: ChartStyle) -> Panel:
    curves = []
    for (colour, dash, shape), series in zip(series_looks(plot), plot.series, strict=True):
        for point in series.points:
            x, y = ecdf_steps(point.values.values if point.values else ())
            if x:
                curves.append(
                    PanelCurve(
                        series.legend, x, y, CurveForm.STEPS, colour=colour, dash=dash, shape=shape
                    )
                )
    shares = msgspec.structs.replace(value_axis(plot, style, 0.0), high=style.ymax or 1.02)
    return Panel(
        "", PanelAxis(plot.xlabel or component_label(plot), log=style.logx), shares, tuple(curves)
    )


# -- Strips and violins: a category for each test ------------------------------------------------


def category_chart(plan: PlotPlan) -> PlotData:
    """Return a chart with a category for each test: a violin or a strip of its values."""
    return _chart(plan, _median)


def strip_panel(plot: PlotData, style: ChartStyle) -> Panel:
    """Return every value as a dot, with the median and its interval."""
    curves = [
        _single_values(point, place)
        for place, series in enumerate(plot.series)
        for point in series.points
    ]
    y = value_axis(plot, style)
    return Panel("", category_axis(plot), y, (*curves, *_medians(plot)))


def violin_panel(plot: PlotData, style: ChartStyle) -> Panel:
    """Return the density of each test's values, with the median and its interval."""
    curves = []
    for place, series in enumerate(plot.series):
        for point in series.points:
            values = _values_of(point)
            if values.size < _FEWEST_OF_VIOLIN or np.ptp(values) == 0:
                curves.append(_single_values(point, place))
                continue
            heights, density = outline(values)
            half = density * (_VIOLIN_WIDTH / 2)
            x = np.concatenate((point.x - half, (point.x + half)[::-1]))
            y = np.concatenate((heights, heights[::-1]))
            border = (tuple(x.tolist()), tuple(y.tolist()))
            curves.append(PanelCurve("", *border, CurveForm.OUTLINE, colour=place))
    y_axis = value_axis(plot, style)
    return Panel("", category_axis(plot), y_axis, (*curves, *_medians(plot)))


def outline(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return heights from the smallest to the largest value, and the density at each,
    scaled to a maximum of 1. Shapes `(128,)`.

    The kernel is Gaussian with Silverman's width, from the smaller of the standard deviation
    and the scaled interquartile range, so that one outlier does not flatten the rest.
    """
    shift, scale = float(values.min()), float(np.ptp(values))
    unit = (values - shift) / scale
    quartiles = float(np.subtract(*np.percentile(unit, [75, 25])))
    spread = min(float(np.std(unit, ddof=1)), quartiles / 1.349 or np.inf)
    width = max(0.9 * spread * values.size**-0.2, 1 / _OUTLINE_POINTS)
    grid = np.linspace(0, 1, _OUTLINE_POINTS)
    density = np.exp(-0.5 * ((grid[:, None] - unit[None, :]) / width) ** 2).sum(axis=1)
    return shift + grid * scale, density / density.max()


# -- Points: a row for each test -----------------------------------------------------------------


def points_chart(plan: PlotPlan) -> PlotData:
    """Return a chart with a row for each test: its values, and the mean with its error bar."""
    return _chart(plan, _mean)


def points_panel(plot: PlotData, style: ChartStyle) -> Panel:
    """Return a row for each test: every value, and the mean with its error bar below them."""
    tests = [
        ShownTest(
            f"{series.name} {point.label}" if len(plot.blocks) > 1 else point.label,
            ()
            if point.values is None
            else tuple(map(ShownTrial, point.values.epochs, point.values.values)),
            _estimate(plot, point),
        )
        for series in plot.series
        for point in series.points
        if point.values is not None or point.method == "stated"
    ]
    bars = [test.estimate.low for test in tests if test.estimate is not None]
    below = any(low < 0 for low in bars) and zero_or_none(plot) is not None
    y = value_axis(plot, style, 0.0 if below else None)
    return values_panel(tests, y, plot.xlabel)


def _estimate(plot: PlotData, point: PlotPoint) -> Estimate | None:
    if point.value is None:
        return None
    low, high = (math.nan if end is None else end for end in (point.low, point.high))
    level = plot.confidence if plot.errorbars in ("t", "interval") else 0.0
    if point.method == "stated":
        level = point.confidence
    return Estimate(point.value, low, high, level, point.method, point.n)


# -- Epochs: the course of each test, in a panel of its own --------------------------------------


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


def _with_left_out(point: PlotPoint, source: TestResult, component: PlotComponent) -> PlotPoint:
    """Return the point with the trials that do not count."""
    if point.values is None:
        return point
    left_out = tuple(
        ShownTrial(trial.epoch, source.values_of(trial).get(component.name), state)
        for trial, state in states_of(source)
        if state != "counted"
    )
    values = msgspec.structs.replace(point.values, left_out=left_out)
    return msgspec.structs.replace(point, values=values)


def _title(name: str, label: str, several: bool) -> str:
    return f"{name} {label}" if several else name


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


def epoch_sheet(plot: PlotData, style: ChartStyle) -> Sheet:
    """Return a panel for each test and component: values by epoch, with warm-up and changes
    marked. All panels have the same axis of epochs."""
    drawn = [one for one in plot.series if one.points[0].values is not None]
    if not drawn:
        why = "no test has values of trials"
        return Sheet(style.title, (empty_panel(why),), 1)
    columns = 1 if len(drawn) <= _PANELS_IN_COLUMN else 2
    several = len(plot.components()) > 1
    all_values = [p.values for s in drawn for p in s.points if p.values is not None]
    epochs = [epoch for values in all_values for epoch in values.epochs]
    epochs += [trial.epoch for values in all_values for trial in values.left_out]
    room = 0.02 * (max(epochs) - min(epochs)) + 0.6
    along = PanelAxis("", unit=AxisUnit.COUNT, low=min(epochs) - room, high=max(epochs) + room)
    panels = []
    for place, series in enumerate(drawn):
        lowest = place >= len(drawn) - columns
        label = f" {label_with_unit(series.component, series.unit)}" if several else ""
        y = msgspec.structs.replace(value_axis(plot, style), label="")
        x = msgspec.structs.replace(along, label=plot.xlabel if lowest else "", bare=not lowest)
        panels.append(Panel(series.legend + label, x, y, _course(series), spans=_spans(series)))
    ylabel = "" if several else plot.ylabel
    return Sheet(style.title, tuple(panels), columns, ylabel=ylabel, whole_page=True)


def _course(series: PlotSeries) -> tuple[PanelCurve, ...]:
    """Return a test's values, those that do not count, the mean of each segment, and the change
    points."""
    values = series.points[0].values
    assert values is not None
    epochs = tuple(map(float, values.epochs))
    curves = [PanelCurve("", epochs, values.values, CurveForm.MARKED)]
    ends = (min(values.values), max(values.values))
    for at in values.changes:
        middle = (epochs[at - 1] + epochs[at]) / 2
        curves.append(PanelCurve("change", (middle, middle), ends, colour=_RED, dash=1))
    for state, (label, colour, shape) in STATE_LOOKS.items():
        here = [
            trial for trial in values.left_out if trial.state == state and trial.value is not None
        ]
        if here:
            x = tuple(float(trial.epoch) for trial in here)
            y = tuple(trial.value for trial in here)
            form = CurveForm.POINTS
            curves.append(PanelCurve(label, x, y, form, colour=colour, shape=shape))
    cuts = [values.removed, *values.changes, len(values.values)]
    for start, end in itertools.pairwise(cuts):
        level = float(np.mean(values.values[start:end]))
        span = (epochs[start], epochs[end - 1])
        curves.append(PanelCurve("mean", span, (level, level), colour=BLACK))
    return tuple(curves)


def _spans(series: PlotSeries) -> tuple[ShadedRange, ...]:
    """Return the warm-up of a test, and each trial without a value."""
    values = series.points[0].values
    if values is None:
        return ()
    spans = [
        ShadedRange(
            f"{trial.state}, without a value", trial.epoch - 0.4, trial.epoch + 0.4, in_legend=True
        )
        for trial in values.left_out
        if trial.value is None
    ]
    if values.removed:
        end = values.epochs[min(values.removed, len(values.epochs) - 1)]
        start = values.epochs[0] - 0.5
        spans.append(ShadedRange("warm-up", start, end - 0.5, in_legend=True))
    return tuple(spans)


# -- Normal probability plots: the values over their normal scores -------------------------------


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
            title = f"{name} {title_of(source)}".strip()
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


def normal_sheet(plot: PlotData, style: ChartStyle) -> Sheet:
    """Return a panel for each test and component: the values over their normal scores, and the
    normal distribution of the same mean and deviation with its band."""
    drawn = [one for one in plot.series if one.points[0].normal is not None]
    if not drawn:
        why = "no test has enough different values"
        return Sheet(style.title, (empty_panel(why),), 1)
    columns = min(_NORMAL_COLUMNS, math.ceil(math.sqrt(len(drawn))))
    several = len(plot.components()) > 1
    reach = 1.08 * max(max(one.points[0].normal.scores) for one in drawn)  # type: ignore[union-attr]
    panels = []
    for series in drawn:
        label = f" {label_with_unit(series.component, series.unit)}" if several else ""
        x = PanelAxis(plot.xlabel, low=-reach, high=reach)
        y = msgspec.structs.replace(value_axis(plot, style), label="")
        curves = _normal_curves(series, plot.confidence)
        panels.append(Panel(series.legend + label, x, y, curves))
    ylabel = "" if several else plot.ylabel
    return Sheet(style.title, tuple(panels), columns, ylabel=ylabel, whole_page=True)


def _normal_curves(series: PlotSeries, confidence: float) -> tuple[PanelCurve, ...]:
    """Return the line of the normal distribution with its band, and a test's values."""
    point = series.points[0]
    assert point.values is not None
    assert point.normal is not None
    normal = point.normal
    order = sorted(range(len(normal.scores)), key=normal.scores.__getitem__)

    def ordered(values: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(values[at] for at in order) if values else ()

    scores = ordered(normal.scores)
    band = f", {100 * confidence:.6g} % band" if normal.low else ""
    return (
        PanelCurve(
            f"normal distribution{band}",
            scores,
            ordered(normal.expected),
            low=ordered(normal.low),
            high=ordered(normal.high),
            colour=BLACK,
        ),
        PanelCurve(
            "trials",
            scores,
            ordered(point.values.values),
            CurveForm.POINTS,
            names=tuple(f"trial {point.values.epochs[at]}" for at in order),
        ),
    )
