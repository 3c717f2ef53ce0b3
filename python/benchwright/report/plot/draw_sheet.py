"""A sheet as a matplotlib figure: panels in a grid, each with its legend.

Decision: a panel without data says why instead of standing empty; a panel of one curve
needs no legend. Numbers are all in the sheet, and which curves look alike.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from benchwright.report.plot.look import GREY, LIGHT, mixed
from benchwright.report.plot.sheet import (
    Axis,
    Curve,
    Form,
    Panel,
    Sheet,
    Span,
    Unit,
)
from benchwright.report.plot.style import Style
from benchwright.report.plot.ticks import binary_step, tick_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis as PlotAxis

_LEFT_END = 0.25
"""Of a panel: a name to the left of a place in it would leave the panel."""
_MOST_TICKS = 7
"""Of a logarithmic axis: more of them run into each other."""


def draw_sheet(sheet: Sheet, style: Style) -> Figure:
    """Return the figure, laid out and ready to be saved."""
    rows = -(-len(sheet.panels) // sheet.columns)
    size = (style.width_in * sheet.columns, style.height_in * rows)
    figure = Figure(figsize=size, layout="constrained")
    figure.set_dpi(style.dpi)
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)  # type: ignore[union-attr, call-arg]
    if sheet.title:
        figure.suptitle(sheet.title)
    if sheet.note:
        figure.supxlabel(sheet.note, fontsize="small", color=GREY)
    grid = figure.subplots(rows, sheet.columns, squeeze=False)
    shared = sheet.shared_labels()
    for axes, panel in zip(grid.ravel(), sheet.panels, strict=False):
        _draw_panel(axes, panel, legend=not shared)
    for axes in grid.ravel()[len(sheet.panels) :]:
        axes.set_axis_off()
    if shared:
        drawn = [place for place, one in enumerate(sheet.panels) if not one.missing]
        handles = grid.ravel()[drawn[0]].get_legend_handles_labels()
        figure.legend(*handles, loc="outside upper center", ncols=min(len(shared), 3))
    return figure


def _draw_panel(axes: Axes, panel: Panel, *, legend: bool) -> None:
    axes.set_title(panel.title, fontsize="medium", loc="left")
    if panel.missing:
        _write_missing(axes, panel.missing)
        return
    for curve in panel.curves:
        _draw_curve(axes, curve)
    for mark in panel.marks:
        axes.axhline(mark.y, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    for span in panel.spans:
        _draw_span(axes, span)
    axes.grid(color=LIGHT, linewidth=0.6)
    axes.margins(x=0.02)
    _dress(axes, panel.x, along=True)
    _dress(axes, panel.y, along=False)
    _write_marks(axes, panel)
    for span in panel.spans:
        _write_span(axes, span)
    if legend and len({curve.label for curve in panel.curves if curve.label}) > 1:
        # "best" may find no free place: then the curves must not cross the words.
        box = {"frameon": True, "framealpha": 0.85, "edgecolor": "none"}
        axes.legend(fontsize="small", loc="best", **box)


def _draw_span(axes: Axes, span: Span) -> None:
    """Draw a range along the panel."""
    axes.axvspan(span.low, span.high, color=GREY, alpha=0.18, linewidth=0, zorder=0)
    if span.at is not None:
        axes.axvline(span.at, color=GREY, linewidth=1, zorder=0.5)


def _write_span(axes: Axes, span: Span) -> None:
    """Write a range's name at the foot, on the side that has room, once the limits are
    set and before the legend is placed, which stays clear of it."""
    at = span.low if span.at is None else span.at
    share, _ = axes.transAxes.inverted().transform(axes.transData.transform((at, 1)))
    right = share < _LEFT_END
    axes.annotate(
        span.label,
        xy=(at, 0),
        xycoords=("data", "axes fraction"),
        xytext=(4 if right else -4, 3),
        textcoords="offset points",
        ha="left" if right else "right",
        va="bottom",
        color=GREY,
        fontsize="small",
    )


def _write_missing(axes: Axes, why: str) -> None:
    axes.text(
        *(0.5, 0.5, why),
        transform=axes.transAxes,
        ha="center",
        va="center",
        color=GREY,
        wrap=True,
    )
    axes.set_xticks([])
    axes.set_yticks([])


def _write_marks(axes: Axes, panel: Panel) -> None:
    """Write each level's name at one end of its line, once the limits are set."""
    for mark in panel.marks:
        axes.annotate(
            mark.label,
            xy=(0 if mark.left else 1, mark.y),
            xycoords=("axes fraction", "data"),
            xytext=(3 if mark.left else -3, 3),
            textcoords="offset points",
            ha="left" if mark.left else "right",
            color=GREY,
            fontsize="small",
        )


def _draw_curve(axes: Axes, curve: Curve) -> None:
    seen = mixed(curve.colour, curve.dash, curve.colour)
    y = [math.nan if value is None else value for value in curve.y]
    label = curve.label or None
    if curve.form is Form.BARS:
        axes.bar(curve.x, y, width=curve.width, color=seen.colour, label=label)
        return
    _draw_interval(axes, curve, seen.colour)
    how: dict[str, Any] = {"drawstyle": "default", "linewidth": 1.2}
    if curve.form is Form.STEPS:
        how["drawstyle"] = "steps-post"
    if curve.form in (Form.MARKED, Form.POINTS):
        how["marker"] = seen.marker
    dash = "none" if curve.form is Form.POINTS else seen.dash
    axes.plot(curve.x, y, color=seen.colour, linestyle=dash, label=label, **how)


def _draw_interval(axes: Axes, curve: Curve, colour: Any) -> None:
    """Draw what lies around a curve: bars about points, a band about a line."""
    if not curve.low:
        return
    low, high = (
        [math.nan if value is None else value for value in side]
        for side in (curve.low, curve.high)
    )
    if curve.form in (Form.POINTS, Form.MARKED):
        axes.vlines(curve.x, low, high, color=colour, linewidth=1)
    else:
        how: dict[str, Any] = {"alpha": 0.18, "linewidth": 0}
        if curve.form is Form.STEPS:
            how["step"] = "post"
        axes.fill_between(curve.x, low, high, color=colour, **how)


def _dress(axes: Axes, axis: Axis, *, along: bool) -> None:
    if along:
        axes.set_xlabel(axis.label)
    else:
        axes.set_ylabel(axis.label)
    if axis.log:
        (axes.set_xscale if along else axes.set_yscale)("log")
    limits = {"left" if along else "bottom": axis.low}
    limits["right" if along else "top"] = axis.high
    given = {side: limit for side, limit in limits.items() if limit is not None}
    if given:
        (axes.set_xlim if along else axes.set_ylim)(**given)  # type: ignore[arg-type]
    ticks = axes.xaxis if along else axes.yaxis
    _number(ticks, axis)
    if axis.names and along:
        turned = {"rotation": 35.0, "ha": "right", "rotation_mode": "anchor"}
        many: dict[str, Any] = turned if len(axis.names) > 6 else {}
        axes.set_xticks(range(len(axis.names)), labels=list(axis.names), **many)


def _number(ticks: PlotAxis, axis: Axis) -> None:
    """Write an axis' numbers in its unit, at whole powers where it is one of them."""
    from matplotlib.ticker import (
        FuncFormatter,
        LogLocator,
        MaxNLocator,
        MultipleLocator,
        NullLocator,
    )

    if axis.log:
        base = 4.0 if axis.unit is Unit.BYTES else 10.0
        ticks.set_major_locator(LogLocator(base=base, numticks=_MOST_TICKS))
        ticks.set_minor_locator(NullLocator())
    elif axis.unit is Unit.COUNT and not axis.names:
        ticks.set_major_locator(MaxNLocator(nbins="auto", integer=True))
    elif axis.unit is Unit.BYTES:
        low, high = ticks.get_view_interval()
        ticks.set_major_locator(MultipleLocator(binary_step(high - low)))
    ticks.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value, axis)))
