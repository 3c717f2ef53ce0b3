"""The axes: labels, numbers, limits, and labels that do not run into each other."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from benchwright.report.plot.chart import Chart, Mode, Tick
from benchwright.report.plot.look import LIGHT
from benchwright.report.plot.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axes._secondary_axes import SecondaryAxis
    from matplotlib.axis import Axis
    from matplotlib.text import Text

_TURNS_DEG = (0.0, 30.0, 60.0, 90.0)
_FROM_ZERO = (Mode.LINE, Mode.BAR)
_PADDING_PT = 4.0
_SUBS = (
    (10.0, (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)),
    (300.0, (1.0, 2.0, 5.0)),
    (math.inf, (1.0,)),
)
"""Up to how large a ratio of its ends an axis has numbers at which multiples."""


def dress_y(axes: Axes, chart: Chart, style: Style) -> None:
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


def dress_x(axes: Axes, chart: Chart, style: Style, *, last: bool) -> None:
    """Label the horizontal axis: numbers, categories, a second row of NAMEs."""
    if chart.numeric:
        _numbers(axes, chart, style)
    elif chart.ticks:
        _categories(axes, chart.ticks)
    if chart.xlabel and last:
        axes.set_xlabel(chart.xlabel)


def fit_labels(axes: Axes, chart: Chart, style: Style) -> None:
    """Turn the labels until they fit, then write the NAMEs under them; done when the
    axes have their width."""
    turn_labels(axes, style.rotate_deg)
    if chart.blocks:
        _second_row(axes, chart)


def _numbers(axes: Axes, chart: Chart, style: Style) -> None:
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


def _categories(axes: Axes, ticks: tuple[Tick, ...]) -> None:
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
