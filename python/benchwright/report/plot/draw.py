"""A chart as a matplotlib figure: axes, labels, legend; the marks are each mode's.

Purpose: what all modes share. Decision: constrained layout, so that no label is cut;
labels under the axis turn by themselves when they would run into each other; a legend
inside gets room above the data rather than covering it. Non-goal: numbers; they are all
in the chart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from matplotlib.figure import Figure, SubFigure

from benchwright.report.plot import draw_categories, draw_ecdf, draw_epochs, draw_marks
from benchwright.report.plot.axis import dress_x, dress_y, fit_labels
from benchwright.report.plot.chart import DISTRIBUTIONS, Chart, Mode
from benchwright.report.plot.legend import add_legend, make_room
from benchwright.report.plot.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Marks = Callable[["Axes", Chart, Style], None]

_MARKS: dict[Mode, Marks] = {
    Mode.LINE: draw_marks.lines,
    Mode.BAR: draw_marks.bars,
    Mode.RATIO: draw_marks.ratios,
    Mode.ECDF: draw_ecdf.ecdf,
    Mode.VIOLIN: draw_categories.violins,
    Mode.STRIP: draw_categories.strips,
}


def draw(chart: Chart, style: Style) -> Figure:
    """Return the figure, laid out and ready to be saved."""
    figure = Figure(figsize=(style.width_in, style.height_in), layout="constrained")
    figure.set_dpi(style.dpi)
    page = _below_title(figure, style.title) if style.title else figure
    if chart.mode is Mode.EPOCHS:
        add_legend(page, draw_epochs.epochs(page, chart, style), chart, style)
        return figure
    panels = draw_ecdf.split(chart) if chart.mode in DISTRIBUTIONS else [chart]
    columns = len(panels) if chart.mode is Mode.ECDF else 1
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
