"""Composes the sheet of `bw plot` from the plot's data.

Decision: values are spread sideways by a fixed low-discrepancy sequence, not at random, so
that a picture is reproducible. A violin of fewer than 8 values would show a shape that the
data do not have; such a test shows only its values.
Source: B. Silverman 1986, Density Estimation, 3.4.2, for the width of a violin's kernel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.core.results import Estimate
from benchwright.report.charts.plot_data import (
    DISTRIBUTIONS,
    PlotData,
    PlotMode,
    PlotPoint,
    PlotSeries,
    label_with_unit,
)
from benchwright.report.charts.sheet import (
    AxisUnit,
    CurveForm,
    LevelLine,
    Panel,
    PanelAxis,
    PanelCurve,
    ShadedRange,
    Sheet,
    ecdf_steps,
)
from benchwright.report.charts.source import number_of
from benchwright.report.charts.style import ChartStyle
from benchwright.report.charts.trials import (
    STATE_LOOKS,
    ShownTest,
    ShownTrial,
    jitter,
    values_panel,
)
from benchwright.stats.arrays import FloatArray

_BLACK = 6
"""Index in the colours of `style.py`."""
_RED = 3
_FEW_LABELS = 16
_PANELS_IN_COLUMN = 4
_NORMAL_COLUMNS = 3
_BESIDE = 0.5
"""Share of a category's width over which the ratios of several series are spread."""
_WIDE = 4.0
"""Ratios that differ by this factor are drawn on a logarithmic axis."""
_VIOLIN_WIDTH = 0.8
_FEWEST_OF_VIOLIN = 8
_OUTLINE_POINTS = 128


def plot_sheet(plot: PlotData, style: ChartStyle) -> Sheet:
    """Return the page: one panel, or one for each component or test."""
    if plot.mode is PlotMode.EPOCHS:
        return _epoch_sheet(plot, style)
    if plot.mode is PlotMode.NORMAL:
        return _normal_sheet(plot, style)
    compose = _PANELS[plot.mode]
    parts = [plot]
    if plot.mode in (*DISTRIBUTIONS, PlotMode.POINTS):
        parts = [_of_component(plot, component) for component in plot.components()]
    panels = [compose(part, style) for part in parts]
    columns = len(panels) if plot.mode is PlotMode.ECDF else 1
    if columns == 1 and not panels[0].sideways:
        # Only the lowest panel has the names of groups and the axis' label.
        upper = msgspec.structs.replace
        panels[:-1] = [upper(panel, x=upper(panel.x, label="", groups=())) for panel in panels[:-1]]
    return Sheet(style.title, tuple(panels), columns, whole_page=True)


def _of_component(plot: PlotData, component: str) -> PlotData:
    """Return the part of one component, with its label if there are several."""
    series = tuple(one for one in plot.series if one.component == component)
    label = label_with_unit(component, series[0].unit)
    part = msgspec.structs.replace(plot, series=series)
    if plot.mode is PlotMode.ECDF:
        return msgspec.structs.replace(part, xlabel=plot.xlabel or label)
    if len(plot.components()) > 1:
        return msgspec.structs.replace(part, ylabel=label)
    return part


# -- axes --------------------------------------------------------------------------------


def _category_axis(plot: PlotData, beside: float = 0.6) -> PanelAxis:
    """Return an axis of categories, with room at both ends."""
    at = [tick.x for tick in plot.ticks]
    low, high = (min(at) - beside, max(at) + beside) if at else (None, None)
    return PanelAxis(plot.xlabel, low=low, high=high, ticks=plot.ticks, groups=plot.blocks)


def _value_axis(plot: PlotData, style: ChartStyle, low: float | None = None) -> PanelAxis:
    """Return the vertical axis; it starts at `low` unless the style sets another value."""
    low = style.ymin if style.ymin is not None else None if style.logy else low
    return PanelAxis(plot.ylabel, log=style.logy, low=low, high=style.ymax)


def _zero_or_none(plot: PlotData) -> float | None:
    """Return 0 if no value is negative, else None. The axis then starts at 0 even if an
    error bar extends below it."""
    values = [p.value for s in plot.series for p in s.points if p.value is not None]
    return 0.0 if values and min(values) >= 0 else None


# -- lines, bars, ratios -----------------------------------------------------------------


def _line_panel(plot: PlotData, style: ChartStyle) -> Panel:
    """Return each series as a line with markers; a gap breaks it. Between names there is no
    line, because there is nothing between them."""
    form = CurveForm.MARKED if plot.numeric else CurveForm.POINTS
    curves = [
        _curve(series.points, form, series.legend, look)
        for look, series in zip(series_looks(plot), plot.series, strict=True)
    ]
    x = _category_axis(plot, 0.3)
    if plot.numeric:
        places = [tick.x for tick in plot.ticks]
        gaps = [right - left for left, right in itertools.pairwise(places)]
        apart = bool(gaps) and min(gaps) >= (places[-1] - places[0]) / 12
        few = 0 < len(places) <= _FEW_LABELS
        ticks = plot.ticks if few and (style.logx or apart) else ()
        x = PanelAxis(plot.xlabel, log=style.logx, ticks=ticks)
    return Panel("", x, _value_axis(plot, style, _zero_or_none(plot)), tuple(curves))


def _bar_panel(plot: PlotData, style: ChartStyle) -> Panel:
    """Return each component as bars, with the error bars on top of them."""
    kinds = plot.legends()
    labels = _once(_legends(plot, style))
    curves = []
    for series, label in zip(plot.series, labels, strict=True):
        at = kinds.index(series.legend)
        points = [point for point in series.points if point.value is not None]
        bars = _curve(points, CurveForm.BARS, label, (at, at, at), bars=False)
        base = tuple(point.base for point in points)
        width = points[0].width if points else 1.0
        curves.append(msgspec.structs.replace(bars, base=base, width=width))
    all_points = [point for series in plot.series for point in series.points]
    known = [point for point in all_points if point.low is not None]
    if known:
        curves.append(_whiskers(known, all_points))
    width = max((point.width for point in all_points), default=1.0)
    x = _category_axis(plot)
    if all_points:
        ends = [point.x for point in all_points]
        x = msgspec.structs.replace(x, low=min(ends) - width, high=max(ends) + width)
    return Panel("", x, _value_axis(plot, style, _zero_or_none(plot)), tuple(curves))


def _whiskers(points: Sequence[PlotPoint], all_points: Sequence[PlotPoint]) -> PanelCurve:
    """Return error bars on bars; those of a stack are side by side."""
    x, y, low, high = [], [], [], []
    for point in points:
        assert point.value is not None
        assert point.low is not None
        stack = [p for p in all_points if p.x == point.x and p.value is not None]
        stack.sort(key=lambda other: other.base)
        place = (stack.index(point) + 0.5) / len(stack) - 0.5
        x.append(point.x + 0.5 * place * point.width * (len(stack) > 1))
        y.append(point.base + point.value)
        low.append(point.base + point.low)
        high.append(None if point.high is None else point.base + point.high)
    return PanelCurve("", tuple(x), tuple(y), CurveForm.INTERVALS, low=tuple(low), high=tuple(high))


def _ratio_panel(plot: PlotData, style: ChartStyle) -> Panel:
    """Return each ratio as a point with its interval, around the line of the baseline; in
    rows if there is one ratio, or if the axis has names, which are long."""
    legends = plot.legends()
    names = list(dict.fromkeys((one.name, one.component) for one in plot.series))
    shared = len(legends) < len(plot.series)
    total = len(legends) if shared else len(names)
    labels = _once(_legends(plot, style))
    curves = []
    for place, (series, label) in enumerate(zip(plot.series, labels, strict=True)):
        at = legends.index(series.legend) if shared else place
        offset = _BESIDE * ((at + 0.5) / total - 0.5) if total > 1 else 0.0
        curve = _curve(series.points, CurveForm.POINTS, label, (at, at, at))
        moved = tuple(x + offset for x in curve.x)
        curves.append(msgspec.structs.replace(curve, x=moved))
    ends = [
        end
        for series in plot.series
        for point in series.points
        for end in (point.value, point.low, point.high)
        if end is not None
    ]
    wide = bool(ends) and min(ends) > 0 and max(ends) / min(ends) > _WIDE
    y = _value_axis(plot, style)
    return Panel(
        "",
        _category_axis(plot),
        msgspec.structs.replace(y, log=y.log or wide),
        tuple(curves),
        marks=(LevelLine("", 1.0),),
        sideways=len(plot.ticks) == 1 or all(number_of(tick.label) is None for tick in plot.ticks),
    )


def _curve(
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


def _legends(plot: PlotData, style: ChartStyle) -> list[str]:
    """Return each series' text in the legend; empty if all series have the same text."""
    alone = len(plot.legends()) == 1 and style.key.region == "auto"
    return ["" if alone else series.legend for series in plot.series]


def _once(labels: Sequence[str]) -> Iterator[str]:
    """Yield each label at its first occurrence, and an empty text at later ones."""
    for place, label in enumerate(labels):
        yield "" if label in labels[:place] else label


# -- single values -----------------------------------------------------------------------


def _ecdf_panel(plot: PlotData, style: ChartStyle) -> Panel:
    """Return the share of trials at or below each value, as steps."""
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
    shares = msgspec.structs.replace(_value_axis(plot, style, 0.0), high=style.ymax or 1.02)
    return Panel("", PanelAxis(plot.xlabel, log=style.logx), shares, tuple(curves))


def _strip_panel(plot: PlotData, style: ChartStyle) -> Panel:
    """Return every value as a dot, with the median and its interval."""
    curves = [
        _single_values(point, place)
        for place, series in enumerate(plot.series)
        for point in series.points
    ]
    y = _value_axis(plot, style)
    return Panel("", _category_axis(plot), y, (*curves, *_medians(plot)))


def _points_panel(plot: PlotData, style: ChartStyle) -> Panel:
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
    below = any(low < 0 for low in bars) and _zero_or_none(plot) is not None
    y = _value_axis(plot, style, 0.0 if below else None)
    return values_panel(tests, y, plot.xlabel)


def _estimate(plot: PlotData, point: PlotPoint) -> Estimate | None:
    if point.value is None:
        return None
    low, high = (math.nan if end is None else end for end in (point.low, point.high))
    level = plot.confidence if plot.errorbars in ("t", "interval") else 0.0
    if point.method == "stated":
        level = point.confidence
    return Estimate(point.value, low, high, level, point.method, point.n)


def _violin_panel(plot: PlotData, style: ChartStyle) -> Panel:
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
    y_axis = _value_axis(plot, style)
    return Panel("", _category_axis(plot), y_axis, (*curves, *_medians(plot)))


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
    look = (_BLACK, 0, _BLACK)
    return (_curve(points, CurveForm.LEVELS, label, look),)


def _values_of(point: PlotPoint) -> FloatArray:
    return np.array(point.values.values if point.values else (), dtype=np.float64)


# -- epochs ------------------------------------------------------------------------------


def _epoch_sheet(plot: PlotData, style: ChartStyle) -> Sheet:
    """Return a panel for each test and component: values by epoch, with warm-up and changes
    marked. All panels have the same axis of epochs."""
    drawn = [one for one in plot.series if one.points[0].values is not None]
    columns = 1 if len(drawn) <= _PANELS_IN_COLUMN else 2
    several = len(plot.components()) > 1
    all_values = [p.values for s in drawn for p in s.points if p.values is not None]
    epochs = [epoch for values in all_values for epoch in values.epochs]
    epochs += [one.epoch for values in all_values for one in values.left_out]
    room = 0.02 * (max(epochs) - min(epochs)) + 0.6
    along = PanelAxis("", unit=AxisUnit.COUNT, low=min(epochs) - room, high=max(epochs) + room)
    panels = []
    for place, series in enumerate(drawn):
        lowest = place >= len(drawn) - columns
        label = f" {label_with_unit(series.component, series.unit)}" if several else ""
        y = msgspec.structs.replace(_value_axis(plot, style), label="")
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
        here = [one for one in values.left_out if one.state == state and one.value is not None]
        if here:
            x = tuple(float(one.epoch) for one in here)
            y = tuple(one.value for one in here)
            form = CurveForm.POINTS
            curves.append(PanelCurve(label, x, y, form, colour=colour, shape=shape))
    cuts = [values.removed, *values.changes, len(values.values)]
    for start, end in itertools.pairwise(cuts):
        level = float(np.mean(values.values[start:end]))
        span = (epochs[start], epochs[end - 1])
        curves.append(PanelCurve("mean", span, (level, level), colour=_BLACK))
    return tuple(curves)


def _spans(series: PlotSeries) -> tuple[ShadedRange, ...]:
    """Return the warm-up of a test, and each trial without a value."""
    values = series.points[0].values
    if values is None:
        return ()
    spans = [
        ShadedRange(
            f"{one.state}, without a value", one.epoch - 0.4, one.epoch + 0.4, in_legend=True
        )
        for one in values.left_out
        if one.value is None
    ]
    if values.removed:
        end = values.epochs[min(values.removed, len(values.epochs) - 1)]
        start = values.epochs[0] - 0.5
        spans.append(ShadedRange("warm-up", start, end - 0.5, in_legend=True))
    return tuple(spans)


# -- normal probability plots ------------------------------------------------------------


def _normal_sheet(plot: PlotData, style: ChartStyle) -> Sheet:
    """Return a panel for each test and component: the values over their normal scores, and the
    normal distribution of the same mean and deviation with its band."""
    drawn = [one for one in plot.series if one.points[0].normal is not None]
    if not drawn:
        why = "no test has enough different values"
        return Sheet(style.title, (Panel("", PanelAxis(""), PanelAxis(""), missing=why),), 1)
    columns = min(_NORMAL_COLUMNS, math.ceil(math.sqrt(len(drawn))))
    several = len(plot.components()) > 1
    reach = 1.08 * max(max(one.points[0].normal.scores) for one in drawn)  # type: ignore[union-attr]
    panels = []
    for series in drawn:
        label = f" {label_with_unit(series.component, series.unit)}" if several else ""
        x = PanelAxis(plot.xlabel, low=-reach, high=reach)
        y = msgspec.structs.replace(_value_axis(plot, style), label="")
        curves = _beside_normal(series, plot.confidence)
        panels.append(Panel(series.legend + label, x, y, curves))
    ylabel = "" if several else plot.ylabel
    return Sheet(style.title, tuple(panels), columns, ylabel=ylabel, whole_page=True)


def _beside_normal(series: PlotSeries, confidence: float) -> tuple[PanelCurve, ...]:
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
            colour=_BLACK,
        ),
        PanelCurve(
            "trials",
            scores,
            ordered(point.values.values),
            CurveForm.POINTS,
            names=tuple(f"trial {point.values.epochs[at]}" for at in order),
        ),
    )


_PANELS: dict[PlotMode, Callable[[PlotData, ChartStyle], Panel]] = {
    PlotMode.LINE: _line_panel,
    PlotMode.BAR: _bar_panel,
    PlotMode.RATIO: _ratio_panel,
    PlotMode.ECDF: _ecdf_panel,
    PlotMode.VIOLIN: _violin_panel,
    PlotMode.STRIP: _strip_panel,
    PlotMode.POINTS: _points_panel,
}
