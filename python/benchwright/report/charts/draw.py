"""A sheet as a matplotlib figure: panels in a grid, each with its legend; contours and reliefs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from benchwright.core.text import number_text
from benchwright.report.charts.sheet import (
    AxisUnit,
    CurveForm,
    Panel,
    PanelAxis,
    PanelCurve,
    ShadedRange,
    Sheet,
    binary_step,
    tick_text,
)
from benchwright.report.charts.style import GREY, LIGHT, ChartStyle, look_of, mixed_look
from benchwright.report.charts.surface import (
    LevelAxis,
    SurfaceChart,
    SurfaceMap,
    SurfaceProfile,
    SurfaceProfiles,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis as PlotAxis


# -- A sheet as a matplotlib figure: panels in a grid, each with its legend ------------
#
# Decision: a panel without data says why instead of standing empty; a panel of one curve
# needs no legend. Numbers are all in the sheet, and which curves look alike.

_LEFT_END = 0.25
"""Of a panel: a name to the left of a place in it would leave the panel."""
_MOST_TICKS = 7
"""Of a logarithmic axis: more of them run into each other."""


def draw_sheet(sheet: Sheet, style: ChartStyle) -> Figure:
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


def _draw_span(axes: Axes, span: ShadedRange) -> None:
    """Draw a range along the panel."""
    axes.axvspan(span.low, span.high, color=GREY, alpha=0.18, linewidth=0, zorder=0)
    if span.at is not None:
        axes.axvline(span.at, color=GREY, linewidth=1, zorder=0.5)


def _write_span(axes: Axes, span: ShadedRange) -> None:
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


def _draw_curve(axes: Axes, curve: PanelCurve) -> None:
    seen = mixed_look(curve.colour, curve.dash, curve.colour)
    y = [math.nan if value is None else value for value in curve.y]
    label = curve.label or None
    if curve.form is CurveForm.BARS:
        axes.bar(curve.x, y, width=curve.width, color=seen.colour, label=label)
        return
    _draw_interval(axes, curve, seen.colour)
    how: dict[str, Any] = {"drawstyle": "default", "linewidth": 1.2}
    if curve.form is CurveForm.STEPS:
        how["drawstyle"] = "steps-post"
    if curve.form in (CurveForm.MARKED, CurveForm.POINTS):
        how["marker"] = seen.marker
    dash = "none" if curve.form is CurveForm.POINTS else seen.dash
    axes.plot(curve.x, y, color=seen.colour, linestyle=dash, label=label, **how)


def _draw_interval(axes: Axes, curve: PanelCurve, colour: Any) -> None:
    """Draw what lies around a curve: bars about points, a band about a line."""
    if not curve.low:
        return
    low, high = (
        [math.nan if value is None else value for value in side]
        for side in (curve.low, curve.high)
    )
    if curve.form in (CurveForm.POINTS, CurveForm.MARKED):
        axes.vlines(curve.x, low, high, color=colour, linewidth=1)
    else:
        how: dict[str, Any] = {"alpha": 0.18, "linewidth": 0}
        if curve.form is CurveForm.STEPS:
            how["step"] = "post"
        axes.fill_between(curve.x, low, high, color=colour, **how)


def _dress(axes: Axes, axis: PanelAxis, *, along: bool) -> None:
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


def _number(ticks: PlotAxis, axis: PanelAxis) -> None:
    """Write an axis' numbers in its unit, at whole powers where it is one of them."""
    from matplotlib.ticker import (
        FuncFormatter,
        LogLocator,
        MaxNLocator,
        MultipleLocator,
        NullLocator,
    )

    if axis.log:
        base = 4.0 if axis.unit is AxisUnit.BYTES else 10.0
        ticks.set_major_locator(LogLocator(base=base, numticks=_MOST_TICKS))
        ticks.set_minor_locator(NullLocator())
    elif axis.unit is AxisUnit.COUNT and not axis.names:
        ticks.set_major_locator(MaxNLocator(nbins="auto", integer=True))
    elif axis.unit is AxisUnit.BYTES:
        low, high = ticks.get_view_interval()
        ticks.set_major_locator(MultipleLocator(binary_step(high - low)))
    ticks.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value, axis)))


# --------------------------------------------------------------------------------------
# A surface's chart as a matplotlib figure: contours beside a relief, or profiles.
#
# Decision: measured points are drawn on both pictures, so that a reader sees what is known
# and what is told by the model; the scale of colours is common to all maps of a page.

_COLOURS = "viridis"
_LEVELS = 12
_BESIDE = 0.08
"""Between profiles at the same word."""
_FEW_TICKS = 5
"""Of a relief, where names run into each other."""


def draw_surface(chart: SurfaceChart, style: ChartStyle) -> Figure:
    """Return the figure, laid out and ready to be saved."""
    rows = max(1, len(chart.maps))
    columns = 2 if chart.maps else 1
    figure = Figure(
        figsize=(style.width_in * columns, style.height_in * rows), layout="constrained"
    )
    figure.set_dpi(style.dpi)
    figure.suptitle(chart.title)
    if chart.note:
        figure.supxlabel(chart.note, fontsize="small", color=GREY)
    if chart.missing:
        figure.text(0.5, 0.5, chart.missing, ha="center", color=GREY)
    if chart.profiles is not None:
        _draw_profiles(figure.add_subplot(), chart.profiles)
    for row, one in enumerate(chart.maps):
        flat = figure.add_subplot(rows, columns, columns * row + 1)
        _draw_contours(figure, flat, one, _scale(chart))
        relief = figure.add_subplot(rows, columns, columns * row + 2, projection="3d")
        _draw_relief(relief, one, _scale(chart))
    return figure


def _scale(chart: SurfaceChart) -> tuple[float, float]:
    rates = [rate for one in chart.maps for row in one.rates for rate in row]
    low, high = min(rates), max(rates)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _draw_contours(
    figure: Figure, axes: Axes, one: SurfaceMap, scale: tuple[float, float]
) -> None:
    levels = MaxNLocator(_LEVELS).tick_values(*scale)
    filled = axes.contourf(
        one.x_at, one.y_at, one.rates, levels=levels, cmap=_COLOURS, extend="both"
    )
    lines = axes.contour(
        one.x_at, one.y_at, one.rates, levels=levels[1:-1:2], colors="white"
    )
    axes.clabel(lines, fontsize="x-small", fmt=number_text_short)
    bar = figure.colorbar(filled, ax=axes)
    bar.ax.yaxis.set_major_formatter(lambda value, _: number_text_short(value))
    for x, y, rate in one.points:
        axes.plot(x, y, "o", color="white", markeredgecolor="black", clip_on=False)
        axes.annotate(
            number_text_short(rate),
            (x, y),
            xytext=(0, 6 if y < 0.8 else -11),
            textcoords="offset points",
            ha="center",
            fontsize="x-small",
            color="black",
            bbox={
                "boxstyle": "round,pad=0.1",
                "fc": "white",
                "ec": "none",
                "alpha": 0.7,
            },
        )
    axes.set_title(one.title, fontsize="medium", loc="left")
    _ticks(axes, one.x, "x")
    _ticks(axes, one.y, "y")


def _draw_relief(axes: Any, one: SurfaceMap, scale: tuple[float, float]) -> None:
    x, y = np.meshgrid(one.x_at, one.y_at)
    axes.plot_surface(
        x,
        y,
        np.array(one.rates),
        cmap=_COLOURS,
        vmin=scale[0],
        vmax=scale[1],
        linewidth=0.2,
        edgecolor=GREY,
        alpha=0.85,
        rstride=2,
        cstride=2,
    )
    if one.points:
        axes.scatter(*zip(*one.points, strict=True), color="black", s=12)
    _ticks(axes, _thinned(one.x), "x")
    _ticks(axes, _thinned(one.y), "y")
    axes.zaxis.set_major_formatter(lambda value, _: number_text_short(value))
    axes.view_init(elev=25, azim=-130)
    axes.set_box_aspect(None, zoom=0.85)


def _draw_profiles(axes: Axes, profiles: SurfaceProfiles) -> None:
    for place, one in enumerate(profiles.curves):
        _draw_profile(axes, one, place, steps=profiles.steps)
    axes.grid(color=LIGHT, linewidth=0.6)
    axes.set_ylabel("peak rate [1/s]")
    axes.set_ylim(bottom=0)
    _ticks(axes, profiles.x, "x")
    if len(profiles.curves) > 1:
        axes.legend(fontsize="small", loc="best", frameon=True, edgecolor="none")


def _draw_profile(axes: Axes, one: SurfaceProfile, place: int, *, steps: bool) -> None:
    seen = look_of(place)
    label = one.label or None
    beside = _BESIDE * place if steps else 0.0
    x = np.array(one.x) + beside
    if steps:
        below = np.array(one.rates) - np.array(one.low)
        above = np.array(one.high) - np.array(one.rates)
        axes.errorbar(
            x, one.rates, (below, above), fmt="_", color=seen.colour, label=label
        )
    else:
        axes.plot(x, one.rates, color=seen.colour, linestyle=seen.dash, label=label)
        axes.fill_between(
            x, one.low, one.high, color=seen.colour, alpha=0.15, linewidth=0
        )
    for point in one.points:
        axes.plot(point.x + beside, point.y, seen.marker, color=seen.colour)
        if point.low is not None and point.high is not None:
            axes.vlines(point.x + beside, point.low, point.high, color=seen.colour)


def number_text_short(rate: float) -> str:
    """Return a rate with three digits, as a map has room for: `1,230`."""
    return number_text(rate, 3)


def _thinned(axis: LevelAxis) -> LevelAxis:
    step = -(-len(axis.ticks) // _FEW_TICKS)
    return LevelAxis(axis.label, axis.ticks[::step], axis.names[::step])


def _ticks(axes: Any, axis: LevelAxis, which: str) -> None:
    getattr(axes, f"set_{which}label")(axis.label)
    getattr(axes, f"set_{which}ticks")(axis.ticks, labels=list(axis.names))
