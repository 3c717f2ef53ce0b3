"""The legend: where it was asked for, and never over the data where that can be helped.

Decision: by default it stands above the chart, in as many columns as fit, where it
hides nothing; of one entry there is none unless asked for or needed. Inside, at the
top, the vertical axis is lengthened until the legend is clear of the data (unless
--ymax says how long it is). Source: gnuplot's `help set key` for the words.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from benchwright.report.plot.chart import Chart, Mode
from benchwright.report.plot.style import Key, Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase
    from matplotlib.legend import Legend
    from matplotlib.transforms import Bbox

_ROW = {"top": "upper", "center": "center", "bottom": "lower"}
Entries = tuple[tuple[list[Any], list[Any]], dict[str, Any]]
"""Handles and labels, and how they look."""
_ALWAYS = (Mode.LINE, Mode.ECDF, Mode.VIOLIN, Mode.STRIP, Mode.EPOCHS)
_STEPS = 12
_LONGER = 1.08


def add_legend(
    page: FigureBase, axes: Sequence[Axes], chart: Chart, style: Style
) -> Legend | None:
    """Add the legend to the figure, or to the only axes; None where there is none."""
    handles: list[Any] = []
    labels: list[Any] = []
    for other in axes:
        for handle, label in zip(*other.get_legend_handles_labels(), strict=True):
            if label not in labels:
                handles.append(handle)
                labels.append(label)
    if not handles or not _wanted(len(handles), chart, style.key):
        return None
    entries = (handles, labels)
    options: dict[str, Any] = {}
    if style.key.box:
        options |= {"frameon": True, "edgecolor": "black", "fancybox": False}
    if style.key.region == "inside":
        return axes[0].legend(*entries, loc=_inside(style.key), **options)
    return _outside(page, style.key, (entries, options))


def _wanted(entries: int, chart: Chart, key: Key) -> bool:
    if key.region == "auto":
        return entries > 1 or chart.mode in _ALWAYS
    return key.region != "off"


def _inside(key: Key) -> Any:
    if key.row == "center" and key.side == "center":
        return "center"
    return f"{_ROW[key.row]} {key.side}"


def _outside(page: FigureBase, key: Key, what: Entries) -> Legend:
    """Return a legend beside the chart; above and below in as many columns as fit."""
    if key.region in ("outside", "left", "right"):
        side = "left" if key.region == "left" or key.side == "left" else "right"
        if key.region == "outside" and key.side == "center":
            return _spread(page, "lower" if key.row == "bottom" else "upper", what)
        return _placed(page, f"outside {side} {_ROW[key.row]}", what)
    return _spread(page, "lower" if key.region == "below" else "upper", what)


def _placed(page: FigureBase, place: Any, what: Entries) -> Legend:
    (handles, labels), options = what
    return page.legend(handles, labels, loc=place, **options)


def _spread(page: FigureBase, row: str, what: Entries) -> Legend:
    entries, options = what
    for columns in range(min(len(entries[1]), 6), 0, -1):
        columned = {**options, "ncols": columns, "columnspacing": 1.4}
        legend = _placed(page, f"outside {row} center", (entries, columned))
        page.get_figure(root=True).draw_without_rendering()
        if (
            columns == 1
            or legend.get_window_extent().width
            < page.get_figure(root=True).bbox.width * 0.98
        ):
            break
        legend.remove()
    return legend


def make_room(axes: Axes, legend: Legend, chart: Chart, style: Style) -> None:
    """Lengthen the vertical axis until a legend inside, at the top, covers no data."""
    if style.key.region != "inside" or style.key.row != "top" or style.ymax is not None:
        return
    if style.logy:
        return
    figure = axes.get_figure(root=True)
    assert figure is not None
    for _ in range(_STEPS):
        figure.draw_without_rendering()
        if not _covers(axes, legend.get_window_extent(), chart):
            return
        low, high = axes.get_ylim()
        axes.set_ylim(low, low + (high - low) * _LONGER)


def _covers(axes: Axes, box: Bbox, chart: Chart) -> bool:
    """Tell whether the box lies over a mark: a bar, a point, or a line between two."""
    to_pixels = axes.transData.transform
    for series in chart.series:
        corners = []
        for point in series.points:
            if point.value is None:
                continue
            values = point.values.values if point.values is not None else ()
            top = max(point.value, point.high or point.value, *values) + point.base
            half = (0.8 if values else point.width) / 2
            left, right = point.x - half, point.x + half
            (x0, y), (x1, _) = to_pixels([(left, top), (right, top)])
            corners.append((x0, x1, y))
        if chart.mode is Mode.LINE:
            corners += _between(corners)
        if any(
            x1 >= box.x0 - 4 and x0 <= box.x1 + 4 and y >= box.y0 - 4
            for x0, x1, y in corners
        ):
            return True
    return False


def _between(
    corners: list[tuple[float, float, float]], steps: int = 20
) -> list[tuple[float, float, float]]:
    """Return points along the lines from each corner to the next one."""
    found = []
    for one, other in pairwise(corners):
        for step in range(1, steps):
            share = step / steps
            x = one[0] + (other[0] - one[0]) * share
            found.append((x, x, one[2] + (other[2] - one[2]) * share))
    return found
