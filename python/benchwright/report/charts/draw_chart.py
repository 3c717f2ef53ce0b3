"""A chart as a matplotlib figure: axes, labels, legend and each mode's marks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
from matplotlib.figure import Figure, SubFigure

from benchwright.report.charts.chart import (
    DISTRIBUTIONS,
    AxisTick,
    Chart,
    PlotMode,
    PlotPoint,
    PlotSeries,
    label_with_unit,
)
from benchwright.report.charts.style import (
    GREY,
    LIGHT,
    ChartStyle,
    LegendPlace,
    look_of,
    series_looks,
)
from benchwright.stats.moments import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axes._secondary_axes import SecondaryAxis
    from matplotlib.axis import Axis
    from matplotlib.figure import FigureBase
    from matplotlib.legend import Legend
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox


# -- The axes: labels, numbers, limits, and labels that do not run into each other -----

_TURNS_DEG = (0.0, 30.0, 60.0, 90.0)
_FROM_ZERO = (PlotMode.LINE, PlotMode.BAR)
_PADDING_PT = 4.0
_SUBS = (
    (10.0, (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)),
    (300.0, (1.0, 2.0, 5.0)),
    (math.inf, (1.0,)),
)
"""Up to how large a ratio of its ends an axis has numbers at which multiples."""


def dress_y(axes: Axes, chart: Chart, style: ChartStyle) -> None:
    """Label and limit the vertical axis; bars and lines begin at 0 unless told."""
    if chart.ylabel:
        axes.set_ylabel(chart.ylabel)
    if style.logy:
        axes.set_yscale("log")
        number_powers(axes.yaxis, axes.get_ylim())
    axes.grid(axis="y", color=LIGHT, linewidth=0.6)
    axes.margins(y=0.06)
    if chart.mode in _FROM_ZERO and not style.logy and _none_negative(chart):
        axes.set_ylim(bottom=0)
    if style.ymin is not None:
        axes.set_ylim(bottom=style.ymin)
    if style.ymax is not None:
        axes.set_ylim(top=style.ymax)


def _none_negative(chart: Chart) -> bool:
    ends = [
        end
        for s in chart.series
        for p in s.points
        for end in (p.value, p.low)
        if end is not None
    ]
    # An error bar of a quantity that cannot be negative may reach below 0; that does
    # not make the axis begin there.
    values = [p.value for s in chart.series for p in s.points if p.value is not None]
    return bool(ends) and min(values, default=0.0) >= 0


def dress_x(axes: Axes, chart: Chart, style: ChartStyle, *, last: bool) -> None:
    """Label the horizontal axis: numbers, categories, a second row of NAMEs."""
    if chart.numeric:
        _numbers(axes, chart, style)
    elif chart.ticks:
        _categories(axes, chart.ticks)
    if chart.xlabel and last:
        axes.set_xlabel(chart.xlabel)


def fit_labels(axes: Axes, chart: Chart, style: ChartStyle) -> None:
    """Turn the labels until they fit, then write the NAMEs under them; done when the
    axes have their width."""
    turn_labels(axes, style.rotate_deg)
    if chart.blocks:
        _second_row(axes, chart)


def _numbers(axes: Axes, chart: Chart, style: ChartStyle) -> None:
    places = [tick.x for tick in chart.ticks]
    if style.logx:
        axes.set_xscale("log", base=2)
        number_powers(axes.xaxis, axes.get_xlim())
    elif not _far_apart(places):
        return
    if 0 < len(places) <= 16:
        axes.set_xticks(places, labels=[tick.label for tick in chart.ticks])


def number_powers(axis: Axis, limits: tuple[float, float]) -> None:
    """Number a logarithmic axis in plain figures: 1, 2, 5 and 10; more of them in one
    power of ten, the powers alone in many. matplotlib's own numbers are formulas."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    powers = limits[1] / limits[0] if limits[0] > 0 else math.inf
    subs = next(subs for most, subs in _SUBS if powers < most or most == math.inf)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _far_apart(places: list[float]) -> bool:
    """Tell whether labels at these places of a linear axis leave room for each other."""
    gaps = [right - left for left, right in pairwise(places)]
    return bool(gaps) and min(gaps) >= (places[-1] - places[0]) / 12


def _categories(axes: Axes, ticks: tuple[AxisTick, ...]) -> None:
    axes.set_xticks([tick.x for tick in ticks], labels=[tick.label for tick in ticks])
    axes.tick_params(axis="x", length=0)


def turn_labels(axes: Axes | SecondaryAxis, rotate_deg: float | None) -> None:
    """Turn the labels as asked, or as far as they must to stand clear of each other."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    for turn in _TURNS_DEG if rotate_deg is None else (rotate_deg,):
        for label in axes.get_xticklabels():
            label.set_rotation(turn)
            label.set_rotation_mode("anchor" if turn % 90 else "default")
            label.set_horizontalalignment(_end_under_tick(turn))
            label.set_verticalalignment("top")
        figure.draw_without_rendering()
        if not _colliding(axes.get_xticklabels(), turn):
            return


def _end_under_tick(turn_deg: float) -> Literal["left", "center", "right"]:
    if turn_deg % 90 == 0:
        return "center"
    return "right" if turn_deg > 0 else "left"


def _colliding(labels: list[Text], turn_deg: float) -> bool:
    """Tell whether neighbours touch; turned labels are as wide as their line is high."""
    shown = [label for label in labels if label.get_text() and label.get_visible()]
    boxes = [label.get_window_extent() for label in shown]
    if turn_deg % 90 and shown:
        # Parallel lines: apart by the sine of what their ends are.
        dots = shown[0].get_figure(root=True).dpi / 72  # type: ignore[union-attr]
        height = max(float(label.get_fontsize()) for label in shown) * dots * 1.15
        room = height / math.sin(math.radians(abs(turn_deg)))
        return any(b.x1 - a.x1 < room for a, b in pairwise(boxes))
    return any(left.x1 + 3 > right.x0 for left, right in pairwise(boxes))


def _second_row(axes: Axes, chart: Chart) -> None:
    """Write the NAMEs under the labels that belong to them, with the axis' label below."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
    depth_px = max(axes.bbox.y0 - box.y0 for box in boxes)
    row = axes.secondary_xaxis(location=0)
    row.set_xticks([b.x for b in chart.blocks], labels=[b.label for b in chart.blocks])
    row.tick_params(axis="x", length=0, pad=depth_px * 72 / figure.dpi + _PADDING_PT)
    row.spines["bottom"].set_visible(False)
    axes.set_xlabel("")
    if chart.xlabel:
        row.set_xlabel(chart.xlabel)
    turn_labels(row, None)


# --------------------------------------------------------------------------------------
# The legend: where it was asked for, and never over the data where that can be
# helped.
#
# Decision: by default it stands above the chart, in as many columns as fit, where it
# hides nothing; of one entry there is none unless asked for or needed. Inside, at the
# top, the vertical axis is lengthened until the legend is clear of the data (unless
# --ymax says how long it is). Source: gnuplot's `help set key` for the words.

_ROW = {"top": "upper", "center": "center", "bottom": "lower"}
Entries = tuple[tuple[list[Any], list[Any]], dict[str, Any]]
"""Handles and labels, and how they look."""
_ALWAYS = (
    PlotMode.LINE,
    PlotMode.ECDF,
    PlotMode.VIOLIN,
    PlotMode.STRIP,
    PlotMode.EPOCHS,
)
_MOST_LENGTHENINGS = 12
_LONGER = 1.08


def add_legend(
    page: FigureBase, axes: Sequence[Axes], chart: Chart, style: ChartStyle
) -> Legend | None:
    """Add the legend to the figure, or to the only axes; None where there is none."""
    handles: list[Any] = []
    labels: list[Any] = []
    for other in axes:
        for handle, label in zip(*other.get_legend_handles_labels(), strict=True):
            if label not in labels:
                handles.append(handle)
                labels.append(label)
    if not handles or not _wanted(len(handles), chart, style.key):
        return None
    entries = (handles, labels)
    options: dict[str, Any] = {}
    if style.key.box:
        options |= {"frameon": True, "edgecolor": "black", "fancybox": False}
    if style.key.region == "inside":
        return axes[0].legend(*entries, loc=_inside(style.key), **options)
    return _outside(page, style.key, (entries, options))


def _wanted(entries: int, chart: Chart, key: LegendPlace) -> bool:
    if key.region == "auto":
        return entries > 1 or chart.mode in _ALWAYS
    return key.region != "off"


def _inside(key: LegendPlace) -> Any:
    if key.row == "center" and key.side == "center":
        return "center"
    return f"{_ROW[key.row]} {key.side}"


def _outside(page: FigureBase, key: LegendPlace, what: Entries) -> Legend:
    """Return a legend beside the chart; above and below in as many columns as fit."""
    if key.region in ("outside", "left", "right"):
        side = "left" if key.region == "left" or key.side == "left" else "right"
        if key.region == "outside" and key.side == "center":
            return _spread(page, "lower" if key.row == "bottom" else "upper", what)
        return _placed(page, f"outside {side} {_ROW[key.row]}", what)
    return _spread(page, "lower" if key.region == "below" else "upper", what)


def _placed(page: FigureBase, place: Any, what: Entries) -> Legend:
    (handles, labels), options = what
    return page.legend(handles, labels, loc=place, **options)


def _spread(page: FigureBase, row: str, what: Entries) -> Legend:
    entries, options = what
    for columns in range(min(len(entries[1]), 6), 0, -1):
        columned = {**options, "ncols": columns, "columnspacing": 1.4}
        legend = _placed(page, f"outside {row} center", (entries, columned))
        page.get_figure(root=True).draw_without_rendering()
        if (
            columns == 1
            or legend.get_window_extent().width
            < page.get_figure(root=True).bbox.width * 0.98
        ):
            break
        legend.remove()
    return legend


def make_room(axes: Axes, legend: Legend, chart: Chart, style: ChartStyle) -> None:
    """Lengthen the vertical axis until a legend inside, at the top, covers no data."""
    if style.key.region != "inside" or style.key.row != "top" or style.ymax is not None:
        return
    if style.logy:
        return
    figure = axes.get_figure(root=True)
    assert figure is not None
    for _ in range(_MOST_LENGTHENINGS):
        figure.draw_without_rendering()
        if not _covers(axes, legend.get_window_extent(), chart):
            return
        low, high = axes.get_ylim()
        axes.set_ylim(low, low + (high - low) * _LONGER)


def _covers(axes: Axes, box: Bbox, chart: Chart) -> bool:
    """Tell whether the box lies over a mark: a bar, a point, or a line between two."""
    to_pixels = axes.transData.transform
    for series in chart.series:
        corners = []
        for point in series.points:
            if point.value is None:
                continue
            values = point.values.values if point.values is not None else ()
            top = max(point.value, point.high or point.value, *values) + point.base
            half = (0.8 if values else point.width) / 2
            left, right = point.x - half, point.x + half
            (x0, y), (x1, _) = to_pixels([(left, top), (right, top)])
            corners.append((x0, x1, y))
        if chart.mode is PlotMode.LINE:
            corners += _between(corners)
        if any(
            x1 >= box.x0 - 4 and x0 <= box.x1 + 4 and y >= box.y0 - 4
            for x0, x1, y in corners
        ):
            return True
    return False


def _between(
    corners: list[tuple[float, float, float]], steps: int = 20
) -> list[tuple[float, float, float]]:
    """Return points along the lines from each corner to the next one."""
    found = []
    for one, other in pairwise(corners):
        for step in range(1, steps):
            share = step / steps
            x = one[0] + (other[0] - one[0]) * share
            found.append((x, x, one[2] + (other[2] - one[2]) * share))
    return found


# -- Marks of violins and strips: all values of each test over its category ------------
#
# Decision: values are spread sideways by a fixed low-discrepancy sequence, not at random,
# so that a picture can be made again. A violin of fewer than 8 values would show a shape
# that the data do not have: such a test shows its values only.

_GOLDEN = 0.6180339887498949
_WIDTH = 0.8
_FEWEST = 8
_OUTLINE_POINTS = 128


def draw_strips(axes: Axes, chart: Chart, style: ChartStyle) -> None:
    """Draw every value as a dot, the median and its interval beside them."""
    del style
    for place, series in enumerate(chart.series):
        seen = look_of(place)
        for point in series.points:
            _dots(axes, point, seen.colour, seen.marker)
    _medians(axes, chart)


def draw_violins(axes: Axes, chart: Chart, style: ChartStyle) -> None:
    """Draw the density of each test's values, the median and its interval in it."""
    del style
    for place, series in enumerate(chart.series):
        seen = look_of(place)
        for point in series.points:
            values = _values_of(point)
            if values.size < _FEWEST or np.ptp(values) == 0:
                _dots(axes, point, seen.colour, seen.marker)
                continue
            heights, density = outline(values)
            half = density * (_WIDTH / 2)
            axes.fill_betweenx(
                heights,
                point.x - half,
                point.x + half,
                facecolor=_lighter(seen.colour),
                edgecolor=seen.colour,
                linewidth=1.2,
            )
    _medians(axes, chart)


def outline(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return heights from the least to the largest value, and the density there, 1 at
    its peak: a Gaussian kernel of Silverman's width. Shapes `(128,)`.

    The width is taken from the smaller of the standard deviation and the quartiles'
    distance, so that one outlier does not flatten the rest. Source: B. Silverman 1986,
    Density Estimation, 3.4.2.
    """
    shift, scale = float(values.min()), float(np.ptp(values))
    unit = (values - shift) / scale
    quartiles = float(np.subtract(*np.percentile(unit, [75, 25])))
    spread = min(float(np.std(unit, ddof=1)), quartiles / 1.349 or np.inf)
    width = max(0.9 * spread * values.size**-0.2, 1 / _OUTLINE_POINTS)
    grid = np.linspace(0, 1, _OUTLINE_POINTS)
    density = np.exp(-0.5 * ((grid[:, None] - unit[None, :]) / width) ** 2).sum(axis=1)
    return shift + grid * scale, density / density.max()


def jitter(count: int) -> FloatArray:
    """Return sideways places in (-0.5, 0.5), shape `(count,)`: even, and always the same."""
    return np.arange(1, count + 1, dtype=np.float64) * _GOLDEN % 1 - 0.5


def _dots(axes: Axes, point: PlotPoint, colour: str, marker: str) -> None:
    values = _values_of(point)
    axes.plot(
        point.x + jitter(values.size) * _WIDTH * 0.6,
        values,
        linestyle="none",
        marker=marker,
        markersize=4,
        markerfacecolor=_lighter(colour),
        markeredgecolor=colour,
        markeredgewidth=0.8,
    )


def _medians(axes: Axes, chart: Chart) -> None:
    """Mark the medians, with their intervals where there are any."""
    points = [
        p for series in chart.series for p in series.points if p.value is not None
    ]
    width_pt = axes.get_figure(root=True).get_figwidth() * 72  # type: ignore[union-attr]
    size_pt = min(16.0, 0.5 * width_pt / max(len(chart.ticks), 1))
    for told, point in enumerate(points):
        axes.errorbar(
            [point.x],
            [point.value or 0.0],
            yerr=_interval_reach(point),
            fmt="_",
            color="black",
            markersize=size_pt,
            markeredgewidth=1.8,
            elinewidth=1.8,
            capsize=size_pt / 4,
            zorder=4,
            label="" if told else _median_label(points, chart),
        )
    axes.set_xlim(-0.6, max((tick.x for tick in chart.ticks), default=0) + 0.6)


def _median_label(points: Sequence[PlotPoint], chart: Chart) -> str:
    bars = any(point.low is not None for point in points)
    return f"median, {100 * chart.confidence:g} % interval" if bars else "median"


def _interval_reach(point: PlotPoint) -> list[list[float]] | None:
    if point.value is None or point.low is None or point.high is None:
        return None
    return [[point.value - point.low], [point.high - point.value]]


def _values_of(point: PlotPoint) -> FloatArray:
    return np.array(point.values.values if point.values else (), dtype=np.float64)


def _lighter(colour: str) -> tuple[float, float, float]:
    """Return the colour half way to white: EPS knows no transparency."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(colour)
    return (red + 1) / 2, (green + 1) / 2, (blue + 1) / 2


# --------------------------------------------------------------------------------------
# Marks of ECDFs; and the panels that a chart of several components is parted into.

_PANELS_IN_COLUMN = 4


def panel_charts(chart: Chart) -> list[Chart]:
    """Return a chart for each component, labelled with it where the chart does not."""
    parts = []
    for component in chart.components():
        series = tuple(s for s in chart.series if s.component == component)
        one = msgspec.structs.replace(chart, series=series)
        label = label_with_unit(series[0].component, series[0].unit)
        if chart.mode is PlotMode.ECDF:
            one = msgspec.structs.replace(one, xlabel=chart.xlabel or label)
        elif len(chart.components()) > 1:
            one = msgspec.structs.replace(one, ylabel=label)
        parts.append(one)
    return parts


def draw_ecdf(axes: Axes, chart: Chart, style: ChartStyle) -> None:
    """Draw the share of trials at or below each value, as steps."""
    for seen, series in zip(series_looks(chart), chart.series, strict=True):
        for point in series.points:
            ordered = np.sort(point.values.values if point.values else ())
            if not ordered.size:
                continue
            share = np.arange(ordered.size + 1) / ordered.size
            axes.step(
                np.concatenate(([ordered[0]], ordered)),
                share,
                where="post",
                label=series.legend,
                color=seen.colour,
                linestyle=seen.dash,
            )
    axes.set_ylim(0, 1.02)
    if style.logx:
        axes.set_xscale("log")
        number_powers(axes.xaxis, axes.get_xlim())


# --------------------------------------------------------------------------------------
# Values over epochs: a panel for each test, with warm-up and change points marked.

_COLUMN = 4
_CHANGE = "#D55E00"


def draw_epochs(page: FigureBase, chart: Chart, style: ChartStyle) -> list[Axes]:
    """Draw each test's values in their order, its warm-up and changes marked; return
    the panels, one for each test and component."""
    drawn = [series for series in chart.series if series.points[0].values is not None]
    columns = 1 if len(drawn) <= _COLUMN else 2
    rows = math.ceil(len(drawn) / columns)
    grid = page.subplots(rows, columns, squeeze=False, sharex=True)
    spare = grid.ravel()[len(drawn) :]
    for axes, series in zip(grid.ravel(), drawn, strict=False):
        _course(axes, series)
        axes.set_title(series.legend, fontsize=style.fontsize_pt, loc="left")
        several = len(chart.components()) > 1
        label = (
            label_with_unit(series.component, series.unit) if several else chart.ylabel
        )
        dress_y(axes, msgspec.structs.replace(chart, ylabel=label), style)
        axes.margins(y=0.12)
    _from_first_to_last(grid[0, 0], drawn)
    for axes in spare:
        axes.set_axis_off()
    for axes in grid.ravel()[max(len(drawn) - columns, 0) : len(drawn)]:
        axes.set_xlabel(chart.xlabel)
        axes.xaxis.set_tick_params(labelbottom=True)
    _one_label(page, list(grid.ravel()), chart)
    return list(grid.ravel()[: len(drawn)])


def _from_first_to_last(axes: Axes, drawn: Sequence[PlotSeries]) -> None:
    """Let the shared axis reach over all epochs, numbered in whole numbers."""
    from matplotlib.ticker import MaxNLocator

    epochs = [e for s in drawn for p in s.points if p.values for e in p.values.epochs]
    room = 0.02 * (max(epochs) - min(epochs)) + 0.6
    axes.set_xlim(min(epochs) - room, max(epochs) + room)
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))


def _one_label(page: FigureBase, panels: list[Axes], chart: Chart) -> None:
    """Say once what all panels show, where they show the same."""
    if len(panels) > 1 and len(chart.components()) == 1:
        for axes in panels:
            axes.set_ylabel("")
        page.supylabel(chart.ylabel, fontsize="medium")


def _course(axes: Axes, series: PlotSeries) -> None:
    found = series.points[0].values
    assert found is not None
    seen = look_of(0)
    if found.removed:
        end = found.epochs[min(found.removed, len(found.epochs) - 1)]
        start = found.epochs[0] - 0.5
        axes.axvspan(start, end - 0.5, color=LIGHT, label="warm-up", zorder=0)
    axes.plot(
        found.epochs,
        found.values,
        color=seen.colour,
        marker=seen.marker,
        markersize=3.5,
        linewidth=0.9,
    )
    for at in found.changes:
        middle = (found.epochs[at - 1] + found.epochs[at]) / 2
        axes.axvline(
            middle, color=_CHANGE, linestyle="--", linewidth=1.3, label="change"
        )
    _levels(axes, series)


def _levels(axes: Axes, series: PlotSeries) -> None:
    """Draw the mean of each segment between change points."""
    found = series.points[0].values
    assert found is not None
    cuts = [found.removed, *found.changes, len(found.values)]
    for start, end in pairwise(cuts):
        level = float(np.mean(found.values[start:end]))
        span = [found.epochs[start], found.epochs[end - 1]]
        axes.plot(span, [level, level], color="black", linewidth=1.3, label="mean")


# -- Marks of lines, bars and ratios: one figure per test, with its error bar ----------

_DODGE = 0.5
_WIDE = 4.0


def draw_lines(axes: Axes, chart: Chart, style: ChartStyle) -> None:
    """Draw each series as a line with markers; a gap breaks it."""
    del style
    for seen, series in zip(series_looks(chart), chart.series, strict=True):
        axes.errorbar(
            [point.x for point in series.points],
            [_nan_if_absent(point.value) for point in series.points],
            yerr=_reach(series.points),
            label=series.legend,
            color=seen.colour,
            marker=seen.marker,
            linestyle=seen.dash,
            capsize=3,
            elinewidth=1,
        )
    if not chart.numeric:
        axes.margins(x=0.1)


def draw_bars(axes: Axes, chart: Chart, style: ChartStyle) -> None:
    """Draw each component as bars, stacked where the chart says so."""
    del style
    kinds = chart.legends()
    told: set[str] = set()
    for series in chart.series:
        seen = look_of(kinds.index(series.legend))
        drawn = [point for point in series.points if point.value is not None]
        axes.bar(
            [point.x for point in drawn],
            [_nan_if_absent(point.value) for point in drawn],
            width=[point.width for point in drawn],
            bottom=[point.base for point in drawn],
            label="" if series.legend in told else series.legend,
            color=seen.colour,
            hatch=seen.hatch,
            edgecolor="black",
            linewidth=0.8,
        )
        told.add(series.legend)
    for series in chart.series:
        _whiskers(axes, [p for p in series.points if p.low is not None], chart)
    axes.axhline(0, color="black", linewidth=0.8)
    _side_room(axes, chart)


def _whiskers(axes: Axes, points: Sequence[PlotPoint], chart: Chart) -> None:
    """Draw error bars on bars; those of a stack stand beside each other, not on top."""
    for point in points:
        offset = _beside(point, chart) * point.width
        reach = _reach([point])
        top = _nan_if_absent(point.value) + point.base
        # White under black: seen on any colour and hatch.
        for colour, width, cap in (("white", 3.2, 2.6), ("black", 1.2, 1.2)):
            axes.errorbar(
                [point.x + offset],
                [top],
                yerr=reach,
                fmt="none",
                ecolor=colour,
                elinewidth=width,
                capsize=3,
                capthick=cap,
                zorder=3,
            )


def _beside(point: PlotPoint, chart: Chart) -> float:
    """Return by what share of the bar's width a segment's error bar is moved."""
    segments = sorted(
        (
            other
            for series in chart.series
            for other in series.points
            if other.x == point.x and other.value is not None
        ),
        key=lambda other: other.base,
    )
    if len(segments) < 2:
        return 0.0
    return 0.5 * ((segments.index(point) + 0.5) / len(segments) - 0.5)


def _side_room(axes: Axes, chart: Chart) -> None:
    points = [
        point for series in chart.series for point in series.points if point.width
    ]
    if points:
        width = points[0].width
        left, right = min(p.x for p in points), max(p.x for p in points)
        axes.set_xlim(left - width, right + width)


def draw_ratios(axes: Axes, chart: Chart, style: ChartStyle) -> None:
    """Draw each ratio as a point with its interval, around the line of the baseline."""
    del style
    count = len(chart.series)
    legends = chart.legends()
    told: set[str] = set()
    names = list(dict.fromkeys((s.name, s.component) for s in chart.series))
    shared = len(legends) < count
    for place, series in enumerate(chart.series):
        at = legends.index(series.legend) if shared else place
        total = len(legends) if shared else len(names)
        offset = _DODGE * ((at + 0.5) / total - 0.5) if total > 1 else 0.0
        seen = look_of(at)
        axes.errorbar(
            [point.x + offset for point in series.points],
            [_nan_if_absent(point.value) for point in series.points],
            yerr=_reach(series.points),
            label="" if series.legend in told else series.legend,
            color=seen.colour,
            marker=seen.marker,
            linestyle="none",
            capsize=4,
            elinewidth=1.3,
        )
        told.add(series.legend)
    axes.axhline(1, color=GREY, linewidth=1, linestyle="--", zorder=1)
    axes.set_xlim(-0.6, max((tick.x for tick in chart.ticks), default=0) + 0.6)
    _log_if_wide(axes, chart)


def _log_if_wide(axes: Axes, chart: Chart) -> None:
    """Take a logarithmic axis where ratios are so far apart that halves would vanish."""
    ends = [
        end
        for series in chart.series
        for point in series.points
        for end in (point.value, point.low, point.high)
        if end is not None
    ]
    if ends and min(ends) > 0 and max(ends) / min(ends) > _WIDE:
        axes.set_yscale("log")
        number_powers(axes.yaxis, axes.get_ylim())


def _nan_if_absent(value: float | None) -> float:
    """Return what matplotlib draws nothing for where there is no value."""
    return math.nan if value is None else value


def _reach(points: Sequence[PlotPoint]) -> list[list[float]]:
    """Return how far the error bars reach down and up; 0 where there is none."""
    down, up = [], []
    for point in points:
        ends = (point.value, point.low, point.high)
        value, low, high = (_nan_if_absent(end) for end in ends)
        down.append(value - low if low <= value else math.nan)
        up.append(high - value if high >= value else math.nan)
    return [down, up]


# --------------------------------------------------------------------------------------
# A chart as a matplotlib figure: axes, labels, legend; the marks are each mode's.
#
# Purpose: what all modes share. Decision: constrained layout, so that no label is cut;
# labels under the axis turn by themselves when they would run into each other; a legend
# inside gets room above the data rather than covering it. Non-goal: numbers; they are all
# in the chart.

Marks = Callable[["Axes", Chart, ChartStyle], None]

_MARKS: dict[PlotMode, Marks] = {
    PlotMode.LINE: draw_lines,
    PlotMode.BAR: draw_bars,
    PlotMode.RATIO: draw_ratios,
    PlotMode.ECDF: draw_ecdf,
    PlotMode.VIOLIN: draw_violins,
    PlotMode.STRIP: draw_strips,
}


def draw_chart(chart: Chart, style: ChartStyle) -> Figure:
    """Return the figure, laid out and ready to be saved."""
    figure = Figure(figsize=(style.width_in, style.height_in), layout="constrained")
    figure.set_dpi(style.dpi)
    page = _below_title(figure, style.title) if style.title else figure
    if chart.mode is PlotMode.EPOCHS:
        add_legend(page, draw_epochs(page, chart, style), chart, style)
        return figure
    panels = panel_charts(chart) if chart.mode in DISTRIBUTIONS else [chart]
    columns = len(panels) if chart.mode is PlotMode.ECDF else 1
    grid = page.subplots(len(panels) // columns, columns, squeeze=False)
    axes = list(grid.ravel())
    for one, panel in zip(axes, panels, strict=True):
        _MARKS[chart.mode](one, panel, style)
        dress_y(one, panel, style)
        dress_x(one, panel, style, last=one is axes[-1] or columns > 1)
    legend = add_legend(page, axes, chart, style)
    for one in axes:
        fit_labels(one, chart if one is axes[-1] else _without_names(chart), style)
    if legend is not None and len(axes) == 1:
        make_room(axes[0], legend, chart, style)
    return figure


def _below_title(figure: Figure, title: str) -> SubFigure:
    """Return the rest of the page: a legend above the chart must not meet the title."""
    figure.suptitle(title)
    page: SubFigure = figure.subfigures(1, 1, squeeze=False)[0, 0]
    return page


def _without_names(chart: Chart) -> Chart:
    """Return the chart without the second row, which only the lowest panel has."""
    return msgspec.structs.replace(chart, blocks=())
