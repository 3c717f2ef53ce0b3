"""Marks of violins and strips: all values of each test over its category.

Decision: values are spread sideways by a fixed low-discrepancy sequence, not at random,
so that a picture can be made again. A violin of fewer than 8 values would show a shape
that the data do not have: such a test shows its values only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from benchwright.report.plot.chart import Chart, Point
from benchwright.report.plot.look import look
from benchwright.report.plot.style import Style
from benchwright.stats.moments import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GOLDEN = 0.6180339887498949
_WIDTH = 0.8
_FEWEST = 8
_STEPS = 128


def strips(axes: Axes, chart: Chart, style: Style) -> None:
    """Draw every value as a dot, the median and its interval beside them."""
    del style
    for place, series in enumerate(chart.series):
        seen = look(place)
        for point in series.points:
            _dots(axes, point, seen.colour, seen.marker)
    _medians(axes, chart)


def violins(axes: Axes, chart: Chart, style: Style) -> None:
    """Draw the density of each test's values, the median and its interval in it."""
    del style
    for place, series in enumerate(chart.series):
        seen = look(place)
        for point in series.points:
            values = _values(point)
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
    width = max(0.9 * spread * values.size**-0.2, 1 / _STEPS)
    grid = np.linspace(0, 1, _STEPS)
    density = np.exp(-0.5 * ((grid[:, None] - unit[None, :]) / width) ** 2).sum(axis=1)
    return shift + grid * scale, density / density.max()


def jitter(count: int) -> FloatArray:
    """Return sideways places in (-0.5, 0.5), shape `(count,)`: even, and always the same."""
    return np.arange(1, count + 1, dtype=np.float64) * _GOLDEN % 1 - 0.5


def _dots(axes: Axes, point: Point, colour: str, marker: str) -> None:
    values = _values(point)
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
            yerr=_reach(point),
            fmt="_",
            color="black",
            markersize=size_pt,
            markeredgewidth=1.8,
            elinewidth=1.8,
            capsize=size_pt / 4,
            zorder=4,
            label="" if told else _told(points, chart),
        )
    axes.set_xlim(-0.6, max((tick.x for tick in chart.ticks), default=0) + 0.6)


def _told(points: Sequence[Point], chart: Chart) -> str:
    bars = any(point.low is not None for point in points)
    return f"median, {100 * chart.confidence:g} % interval" if bars else "median"


def _reach(point: Point) -> list[list[float]] | None:
    if point.value is None or point.low is None or point.high is None:
        return None
    return [[point.value - point.low], [point.high - point.value]]


def _values(point: Point) -> FloatArray:
    return np.array(point.values.values if point.values else (), dtype=np.float64)


def _lighter(colour: str) -> tuple[float, float, float]:
    """Return the colour half way to white: EPS knows no transparency."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(colour)
    return (red + 1) / 2, (green + 1) / 2, (blue + 1) / 2
