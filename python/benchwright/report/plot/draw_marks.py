"""Marks of lines, bars and ratios: one figure per test, with its error bar."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchwright.report.plot.axis import number_powers
from benchwright.report.plot.chart import Chart, Point
from benchwright.report.plot.look import GREY, look, looks
from benchwright.report.plot.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DODGE = 0.5
_WIDE = 4.0


def lines(axes: Axes, chart: Chart, style: Style) -> None:
    """Draw each series as a line with markers; a gap breaks it."""
    del style
    for seen, series in zip(looks(chart), chart.series, strict=True):
        axes.errorbar(
            [point.x for point in series.points],
            [_number(point.value) for point in series.points],
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


def bars(axes: Axes, chart: Chart, style: Style) -> None:
    """Draw each component as bars, stacked where the chart says so."""
    del style
    kinds = chart.legends()
    told: set[str] = set()
    for series in chart.series:
        seen = look(kinds.index(series.legend))
        drawn = [point for point in series.points if point.value is not None]
        axes.bar(
            [point.x for point in drawn],
            [_number(point.value) for point in drawn],
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


def _whiskers(axes: Axes, points: Sequence[Point], chart: Chart) -> None:
    """Draw error bars on bars; those of a stack stand beside each other, not on top."""
    for point in points:
        offset = _beside(point, chart) * point.width
        reach = _reach([point])
        top = _number(point.value) + point.base
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


def _beside(point: Point, chart: Chart) -> float:
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


def ratios(axes: Axes, chart: Chart, style: Style) -> None:
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
        seen = look(at)
        axes.errorbar(
            [point.x + offset for point in series.points],
            [_number(point.value) for point in series.points],
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


def _number(value: float | None) -> float:
    """Return what matplotlib draws nothing for where there is no value."""
    return math.nan if value is None else value


def _reach(points: Sequence[Point]) -> list[list[float]]:
    """Return how far the error bars reach down and up; 0 where there is none."""
    down, up = [], []
    for point in points:
        ends = (point.value, point.low, point.high)
        value, low, high = (_number(end) for end in ends)
        down.append(value - low if low <= value else math.nan)
        up.append(high - value if high >= value else math.nan)
    return [down, up]
