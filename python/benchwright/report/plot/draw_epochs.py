"""Values over epochs: a panel for each test, with warm-up and change points marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from benchwright.report.plot.axis import dress_y
from benchwright.report.plot.chart import Chart, Series, named
from benchwright.report.plot.look import LIGHT, look
from benchwright.report.plot.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

_COLUMN = 4
_CHANGE = "#D55E00"


def epochs(page: FigureBase, chart: Chart, style: Style) -> list[Axes]:
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
        label = named(series.component, series.unit) if several else chart.ylabel
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


def _from_first_to_last(axes: Axes, drawn: Sequence[Series]) -> None:
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


def _course(axes: Axes, series: Series) -> None:
    found = series.points[0].values
    assert found is not None
    seen = look(0)
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


def _levels(axes: Axes, series: Series) -> None:
    """Draw the mean of each segment between change points."""
    found = series.points[0].values
    assert found is not None
    cuts = [found.removed, *found.changes, len(found.values)]
    for start, end in pairwise(cuts):
        level = float(np.mean(found.values[start:end]))
        span = [found.epochs[start], found.epochs[end - 1]]
        axes.plot(span, [level, level], color="black", linewidth=1.3, label="mean")
