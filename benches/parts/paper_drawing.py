"""Draws the workbench paper's figures from what was simulated; decides nothing."""

from __future__ import annotations

from collections.abc import Mapping as Dict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchwright.report.charts.style import GREY, LIGHT, look_of

matplotlib.use("Agg")


class SearchPath(NamedTuple):
    """A search as it went."""

    label: str
    hours: list[float]
    """At the end of each trial, cumulated."""
    factors: list[float]
    """Load of each trial as a share of the true peak."""


class Curve(NamedTuple):
    """A line of a plot."""

    label: str
    x: list[float]
    y: list[float]


def sheet(width: float, height: float, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels side by side, with light grids."""
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = [figure.add_subplot(1, columns, at + 1) for at in range(columns)]
    for axes in panels:
        axes.grid(color=LIGHT, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG."""
    figure.savefig(path, dpi=110)


def searches(panels: Sequence[tuple[str, Sequence[SearchPath]]], path: Path) -> None:
    """Draw load factors over time, each trial a point, a panel for each group."""
    figure, all_axes = sheet(2.4 + 5 * len(panels), 4.4, len(panels))
    for axes, (title, paths) in zip(all_axes, panels, strict=True):
        axes.axhline(1, color=GREY, linewidth=0.8)
        for place, one in enumerate(paths):
            _search(axes, one, place)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set(xlabel="load offered so far [h]", title=title)
        axes.set_ylabel("load factor (rate / true peak)")
        axes.set_ylim(0, 2.5)
        axes.legend(frameon=False, fontsize=8, loc="upper left")
    save(figure, path)


def _search(axes: Axes, one: SearchPath, place: int) -> None:
    style = look_of(place)
    axes.plot(
        one.hours,
        one.factors,
        label=f"{one.label}: {one.hours[-1]:.2g} h, {len(one.hours)} trials",
        color=style.colour,
        marker=style.marker,
        markersize=4,
        linewidth=1.1,
        linestyle=style.dash,
        drawstyle="steps-pre",
    )


def bars(costs: Dict[str, Dict[str, float]], path: Path) -> None:
    """Draw normalised costs: a group per workload, a bar per policy, logarithmic."""
    figure, (axes,) = sheet(9.6, 4.8)
    labels = list(next(iter(costs.values())))
    width = 0.86 / len(labels)
    for place, label in enumerate(labels):
        style = look_of(place)
        heights = [of[label] for of in costs.values()]
        at = np.arange(len(costs)) + (place - (len(labels) - 1) / 2) * width
        drawn = axes.bar(
            at, heights, width * 0.92, label=label, color=style.colour, hatch=style.hatch
        )
        axes.bar_label(drawn, fmt="%.3g", fontsize=7, padding=1)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.axhline(1, color=GREY, linewidth=0.8)
    axes.set_xticks(range(len(costs)), labels=list(costs))
    axes.set_ylabel("cost of mapping 32 samples, normalised")
    axes.grid(visible=False, axis="x")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * 1.8)
    axes.legend(frameon=False, fontsize=8, ncols=4, loc="upper left")
    save(figure, path)


class Labels(NamedTuple):
    """The words at a plot of curves."""

    x: str
    y: str
    title: str = ""


def curves(
    panels: Sequence[tuple[Labels, Sequence[Curve]]], path: Path, *, log: bool = True
) -> None:
    """Draw lines with markers, a panel for each group."""
    figure, all_axes = sheet(1.8 + 4.4 * len(panels), 4.2, len(panels))
    for axes, (labels, lines) in zip(all_axes, panels, strict=True):
        for place, line in enumerate(lines):
            style = look_of(place)
            axes.plot(
                line.x,
                line.y,
                label=line.label,
                color=style.colour,
                marker=style.marker,
                linestyle=style.dash,
                linewidth=1.4,
                markersize=5,
            )
        if log:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}")
            axes.tick_params(axis="y", which="minor", labelsize=7)
        else:
            axes.set_ylim(bottom=0)
        axes.set(xlabel=labels.x, ylabel=labels.y)
        # Above the panel: many curves leave no free place in it.
        axes.legend(
            frameon=False,
            fontsize=8,
            ncols=3,
            loc="lower left",
            bbox_to_anchor=(0, 1),
            borderaxespad=0,
        )
        axes.set_title(labels.title, pad=8 + 13 * -(-len(lines) // 3))
    save(figure, path)


class Cloud(NamedTuple):
    """Points of one kind, several at each place."""

    label: str
    places: list[float]
    values: list[list[float]]


def clouds(panels: Sequence[tuple[Labels, Sequence[Cloud]]], path: Path) -> None:
    """Draw points at their places, a panel for each group."""
    figure, all_axes = sheet(1.8 + 4.4 * len(panels), 4.2, len(panels))
    for axes, (labels, groups) in zip(all_axes, panels, strict=True):
        for place, cloud in enumerate(groups):
            style = look_of(place)
            pairs = [(x, y) for x, ys in zip(cloud.places, cloud.values, strict=True) for y in ys]
            axes.scatter(
                *zip(*pairs, strict=True),
                label=cloud.label,
                color=style.colour,
                marker=style.marker,
                s=14,
                alpha=0.8,
            )
        axes.set(xlabel=labels.x, ylabel=labels.y, title=labels.title)
        axes.set_ylim(bottom=0)
        if len(groups) > 1:
            axes.legend(frameon=False, fontsize=8)
    save(figure, path)
