"""Marks of ECDFs; and the panels that a chart of several components is parted into."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from benchwright.report.plot.axis import number_powers
from benchwright.report.plot.chart import Chart, Mode, named
from benchwright.report.plot.look import looks
from benchwright.report.plot.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMN = 4


def split(chart: Chart) -> list[Chart]:
    """Return a chart for each component, labelled with it where the chart does not."""
    parts = []
    for component in chart.components():
        series = tuple(s for s in chart.series if s.component == component)
        one = msgspec.structs.replace(chart, series=series)
        label = named(series[0].component, series[0].unit)
        if chart.mode is Mode.ECDF:
            one = msgspec.structs.replace(one, xlabel=chart.xlabel or label)
        elif len(chart.components()) > 1:
            one = msgspec.structs.replace(one, ylabel=label)
        parts.append(one)
    return parts


def ecdf(axes: Axes, chart: Chart, style: Style) -> None:
    """Draw the share of trials at or below each value, as steps."""
    for seen, series in zip(looks(chart), chart.series, strict=True):
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
