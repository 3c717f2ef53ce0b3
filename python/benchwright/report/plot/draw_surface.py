"""A surface's chart as a matplotlib figure: contours beside a relief, or profiles.

Decision: measured points are drawn on both pictures, so that a reader sees what is known
and what is told by the model; the scale of colours is common to all maps of a page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from benchwright.finding.load_words import number_text
from benchwright.report.plot.look import GREY, LIGHT, look
from benchwright.report.plot.style import Style
from benchwright.report.plot.surface import (
    LevelAxis,
    Map,
    Profile,
    Profiles,
    SurfaceChart,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = "viridis"
_LEVELS = 12
_BESIDE = 0.08
"""Between profiles at the same word."""
_FEW_TICKS = 5
"""Of a relief, where names run into each other."""


def draw_surface(chart: SurfaceChart, style: Style) -> Figure:
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
    figure: Figure, axes: Axes, one: Map, scale: tuple[float, float]
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


def _draw_relief(axes: Any, one: Map, scale: tuple[float, float]) -> None:
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


def _draw_profiles(axes: Axes, profiles: Profiles) -> None:
    for place, one in enumerate(profiles.curves):
        _draw_profile(axes, one, place, steps=profiles.steps)
    axes.grid(color=LIGHT, linewidth=0.6)
    axes.set_ylabel("peak rate [1/s]")
    axes.set_ylim(bottom=0)
    _ticks(axes, profiles.x, "x")
    if len(profiles.curves) > 1:
        axes.legend(fontsize="small", loc="best", frameon=True, edgecolor="none")


def _draw_profile(axes: Axes, one: Profile, place: int, *, steps: bool) -> None:
    seen = look(place)
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
    return number_text(float(f"{rate:.3g}"))


def _thinned(axis: LevelAxis) -> LevelAxis:
    step = -(-len(axis.ticks) // _FEW_TICKS)
    return LevelAxis(axis.label, axis.ticks[::step], axis.names[::step])


def _ticks(axes: Any, axis: LevelAxis, which: str) -> None:
    getattr(axes, f"set_{which}label")(axis.label)
    getattr(axes, f"set_{which}ticks")(axis.ticks, labels=list(axis.names))
