"""A sheet as a matplotlib figure: panels in a grid, with their legends.

Decision: use matplotlib's constrained layout and its legend positions outside of the axes.
Rejected: our own search for label positions, which drew each picture up to 20 times. A panel
without data says why; a panel of one curve needs no legend. The sheet has all numbers, and
decides which curves look alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.axis import XAxis
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator

from benchwright.core.numeric import NDArray, np
from benchwright.core.text import number_text
from benchwright.report.charts.sheet import (
    MEASURED_NAME,
    OPEN_NAME,
    AxisTick,
    CurveForm,
    HeightGrid,
    Panel,
    PanelAxis,
    PanelCurve,
    ShadedRange,
    Sheet,
    axis_ends,
    fitting_ticks,
    tick_text,
)
from benchwright.report.charts.style import GREY, LIGHT, ChartStyle, SeriesLook, mixed_look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import FigureBase

_LEFT_END = 0.25
"""Share of a panel's width within which a name left of its line would leave the panel."""
_TOP_END = 0.9
"""Share of a panel's height above which a name would leave the panel."""
_LETTER = 0.6
"""Width of a letter, as a share of the font's size."""
_LINE = 1.4
"""Height of a line of text, as a share of the font's size."""
_SMALL = 0.833
"""Size of matplotlib's "small", as a share of the font's size."""
_GAP = 2
"""Distance of the numbers below a panel, in letters."""
_APART = 2.1
"""Distance of the numbers beside a panel, as a share of the font's size."""
_COLOUR_BAR = 12
"""Width of the colours beside a panel with their numbers, in letters."""
_COLOURS = "viridis"
_OPEN_COLOUR = "#D55E00"
"""Colour of samples on a map that are not measured; their marker differs, too."""
_ROW_COLOURS = "Blues"
_CONTOURS = 12
_NEAR_EDGE = 0.8
"""Distance from the middle of a map, whose half is 1, beyond which a text would leave it."""
_WIDE = 1.6
"""Width of a map over its height."""
_LABEL_ROOM = 0.3
"""Minimum distance of a contour's label from other texts; half the height of a map is 1."""
_FEW_TICKS = 5
"""Maximum number of ticks of a relief; more names would overlap."""
_VERTICAL = {"top": "upper", "center": "center", "bottom": "lower"}


def draw_sheet(sheet: Sheet, style: ChartStyle) -> Figure:
    """Return the figure, laid out and ready to be saved."""
    columns = min(sheet.columns, len(sheet.panels))
    rows = -(-len(sheet.panels) // columns)
    across, down = (1, 1) if sheet.whole_page else (columns, rows)
    size = (style.width_in * across, style.height_in * down)
    figure = Figure(figsize=size, layout="constrained")
    figure.set_dpi(style.dpi)
    page: FigureBase = figure
    if sheet.title:
        figure.suptitle(sheet.title)
        # A legend above the panels must not overlap the title.
        page = figure.subfigures(1, 1, squeeze=False)[0, 0]
    if not sheet.whole_page:
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)  # type: ignore[union-attr, call-arg]
    if sheet.note:
        figure.supxlabel(sheet.note, fontsize="small", color=GREY)
    if sheet.ylabel:
        page.supylabel(sheet.ylabel, fontsize="medium")
    room_pt = 72 * size[0] / columns - 5 * style.fontsize_pt
    high_pt = 72 * size[1] / rows - 4 * style.fontsize_pt
    drawn = []
    for at, panel in enumerate(sheet.drawable(), 1):
        projection = "3d" if panel.grid is not None and panel.grid.relief else None
        axes = page.add_subplot(rows, columns, at, projection=projection)
        _draw_panel(axes, panel, style, room_pt, high_pt)
        drawn.append((axes, panel))
    _add_legends(page, drawn, sheet, style)
    return figure


def _draw_panel(
    axes: Axes, panel: Panel, style: ChartStyle, room_pt: float, high_pt: float
) -> None:
    axes.set_title(panel.title, fontsize="medium", loc="left")
    if panel.missing:
        _write_missing(axes, panel.missing)
        return
    letters = room_pt / (_LETTER * style.fontsize_pt)
    if panel.grid is not None and panel.grid.cells:
        _draw_cells(axes, panel, panel.grid, letters - _COLOUR_BAR)
        return
    if panel.grid is not None:
        (_draw_relief if panel.grid.relief else _draw_contours)(axes, panel, panel.grid)
        return
    if panel.sideways:
        _draw_sideways(axes, panel, letters)
        return
    for curve in panel.curves:
        _draw_curve(axes, curve)
    for mark in panel.marks:
        axes.axhline(mark.y, color=GREY, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    for span in panel.spans:
        _draw_span(axes, span)
    axes.grid(axis="y" if panel.x.ticks else "both", color=LIGHT, linewidth=0.6)
    _dress(axes, panel, panel.x, along=True, room=letters)
    _dress(axes, panel, panel.y, along=False, room=high_pt / style.fontsize_pt)
    if panel.x.ticks:
        _write_ticks(axes, panel.x, style, room_pt)
    if panel.x.bare:
        axes.tick_params(axis="x", labelbottom=False)
    _write_marks(axes, panel)
    for span in panel.spans:
        if not span.in_legend:
            _write_span(axes, span)


def _draw_sideways(axes: Axes, panel: Panel, letters: float) -> None:
    """Draw points and intervals with a row for each category, the first at the top."""
    for curve in panel.curves:
        shape = curve.colour if curve.shape is None else curve.shape
        look = mixed_look(curve.colour, curve.dash, shape)
        _draw_points(axes, curve, look, sideways=True)
    for mark in panel.marks:
        axes.axvline(mark.y, color=GREY, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        axes.annotate(
            mark.label,
            xy=(mark.y, 1),
            xycoords=("data", "axes fraction"),
            xytext=(3, -3),
            textcoords="offset points",
            va="top",
            color=GREY,
            fontsize="small",
        )
    axes.grid(axis="x", color=LIGHT, linewidth=0.6)
    _dress(axes, panel, panel.y, along=True, room=letters - _longest(panel.x.ticks))
    axes.set_ylabel(panel.x.label)
    _set_rows(axes, panel.x.ticks)


def _longest(ticks: Sequence[AxisTick]) -> int:
    """Return the width of the names of rows, in letters."""
    return max((len(tick.label) for tick in ticks), default=0)


def _set_rows(axes: Axes, ticks: Sequence[AxisTick]) -> None:
    """Write the names of rows, the first at the top, and give each row the same height."""
    places = [tick.x for tick in ticks]
    axes.set_yticks(places, labels=[tick.label for tick in ticks])
    axes.set_ylim(max(places, default=0) + 0.6, min(places, default=0) - 0.6)
    axes.tick_params(axis="y", length=0)


# -- legends -----------------------------------------------------------------------------


def _handles(axes: Axes, panel: Panel) -> dict[str, Any]:
    """Return what stands in a panel's legend, by label, in the order of the sheet."""
    handles, labels = axes.get_legend_handles_labels()
    found = dict(zip(reversed(labels), reversed(handles), strict=True))
    return {label: found[label] for label in (*panel.legend(), *labels) if label in found}


def _add_legends(
    page: FigureBase, drawn: Sequence[tuple[Axes, Panel]], sheet: Sheet, style: ChartStyle
) -> None:
    """Add one legend for the page if all panels share it; else one to each panel with
    several curves."""
    if not sheet.whole_page and not sheet.shared_labels():
        for axes, panel in drawn:
            named = _handles(axes, panel)
            if len(named) > 1:
                _add_legend_above(axes, list(named.values()), list(named), style)
        return
    where: Any
    entries: dict[str, Any] = {}
    for axes, panel in drawn:
        for label, handle in _handles(axes, panel).items():
            entries.setdefault(label, handle)
    place = style.key
    if not entries or place.region == "off":
        return
    options: dict[str, Any] = {}
    if place.box:
        options = {"frameon": True, "edgecolor": "black", "fancybox": False}
    if place.region == "inside":
        where = f"{_VERTICAL[place.row]} {place.side}".replace("center center", "center")
        if place.row == "top":
            _make_room(*drawn[0], len(entries), style)
        drawn[0][0].legend(list(entries.values()), list(entries), loc=where, **options)
        return
    if place.region in ("outside", "left", "right") and place.side != "center":
        side = "left" if "left" in (place.region, place.side) else "right"
        where = f"outside {side} {_VERTICAL[place.row]}"
    else:
        below = place.region == "below" or (place.region == "outside" and place.row == "bottom")
        where = f"outside {'lower' if below else 'upper'} center"
        widest = max(map(len, entries)) * _LETTER + 5
        fitting = int(72 * style.width_in * 0.98 / (widest * style.fontsize_pt))
        options |= {"ncols": max(1, min(len(entries), 6, fitting)), "columnspacing": 1.4}
    page.legend(list(entries.values()), list(entries), loc=where, **options)


def _add_legend_above(
    axes: Axes, handles: Sequence[Any], labels: Sequence[str], style: ChartStyle
) -> None:
    """Add a panel's legend between its title and its curves, where it hides nothing."""
    small_pt = style.fontsize_pt * _SMALL
    widths_pt = [(len(label) * _LETTER + 5) * small_pt for label in labels]
    columns = next(
        n
        for n in range(len(labels), 0, -1)
        if n == 1 or _legend_pt(widths_pt, n) < 72 * style.width_in * 0.85
    )
    axes.legend(
        handles,
        labels,
        fontsize="small",
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=columns,
        columnspacing=1.4,
        borderaxespad=0,
    )
    rows = -(-len(labels) // columns)
    title = axes.get_title(loc="left")
    above_pt = (rows * _LINE + 0.8) * small_pt
    axes.set_title(title, fontsize="medium", loc="left", pad=above_pt)


def _legend_pt(widths_pt: Sequence[float], columns: int) -> float:
    """Return the width of a legend with this many columns, filled column by column."""
    rows = -(-len(widths_pt) // columns)
    starts = range(0, len(widths_pt), rows)
    return sum(max(widths_pt[at : at + rows]) for at in starts)


def _make_room(axes: Axes, panel: Panel, entries: int, style: ChartStyle) -> None:
    """Lengthen the vertical axis by the height of a legend inside, at the top."""
    if style.ymax is not None or axes.get_yscale() == "log":
        return
    share = entries * _LINE * style.fontsize_pt / (72 * style.height_in * 0.75)
    low, high = axes.get_ylim()
    axes.set_ylim(low, low + (high - low) / max(1 - share, 0.4))
    if not (panel.sideways or panel.grid):
        _number(axes.yaxis, panel.y, math.inf)


# -- axes --------------------------------------------------------------------------------


def _dress(axes: Axes, panel: Panel, axis: PanelAxis, *, along: bool, room: float) -> None:
    """Set an axis' label, scale, ends and ticks. `room`: for its numbers, in letters along the panel
    or in sizes of the font up it."""
    set_label, set_scale, set_ends, ticks = (
        (axes.set_xlabel, axes.set_xscale, axes.set_xlim, axes.xaxis)
        if along
        else (axes.set_ylabel, axes.set_yscale, axes.set_ylim, axes.yaxis)
    )
    set_label(axis.label)
    if axis.log:
        set_scale("log")
    set_ends(*axis_ends(panel, axis is panel.x))
    _number(ticks, axis, room)


def _number(ticks: Axis, axis: PanelAxis, room: float) -> None:
    """Write as many of an axis' numbers as have room."""

    def fits(_: Sequence[float], labels: Sequence[str]) -> bool:
        longest = max(map(len, labels), default=0)
        return len(labels) * (longest + _GAP if isinstance(ticks, XAxis) else _APART) <= room

    at, labels = fitting_ticks(*ticks.get_view_interval(), axis, fits)
    ticks.set_major_locator(FixedLocator(at))
    ticks.set_major_formatter(FixedFormatter(labels))
    ticks.set_minor_locator(NullLocator())


def _write_ticks(axes: Axes, axis: PanelAxis, style: ChartStyle, room_pt: float) -> None:
    """Write the labels at their positions, turned if they would not fit side by side, and
    the names of groups below them."""
    letters = _LETTER * style.fontsize_pt
    needed_pt = max(len(tick.label) + 1 for tick in axis.ticks) * letters
    turn_deg = style.rotate_deg
    if turn_deg is None:
        # Labels turned by 30 degrees need a distance of twice their height.
        turned_pt = 2 * _LINE * style.fontsize_pt
        places = len(axis.ticks)
        turn_deg = 0.0 if needed_pt * places <= room_pt else 30.0
        turn_deg = 90.0 if turn_deg and turned_pt * places > room_pt else turn_deg
    how: dict[str, Any] = {}
    if turn_deg % 90:
        side = "right" if turn_deg > 0 else "left"
        how = {"ha": side, "va": "top", "rotation_mode": "anchor"}
    _set_ticks(axes, axis.ticks, rotation=turn_deg, **how)
    axes.tick_params(axis="x", length=0)
    if not axis.groups:
        return
    depth_pt = needed_pt * abs(math.sin(math.radians(turn_deg)))
    lines = 1 + math.ceil(depth_pt / (_LINE * style.fontsize_pt))
    below = axes.secondary_xaxis(location=0)
    _set_ticks(below, [AxisTick(group.x, "\n" * lines + group.label) for group in axis.groups])
    below.tick_params(axis="x", length=0)
    below.spines["bottom"].set_visible(False)
    axes.set_xlabel("")
    below.set_xlabel(axis.label)


def _set_ticks(axes: Any, ticks: Sequence[AxisTick], **how: Any) -> None:
    at, labels = [tick.x for tick in ticks], [tick.label for tick in ticks]
    axes.set_xticks(at, labels=labels, **how)
    axes.set_xticks([], minor=True)


def _write_missing(axes: Axes, why: str) -> None:
    axes.text(
        *(0.5, 0.5, why), transform=axes.transAxes, ha="center", va="center", color=GREY, wrap=True
    )
    axes.set_xticks([])
    axes.set_yticks([])


# -- marks and spans ---------------------------------------------------------------------


def _draw_span(axes: Axes, span: ShadedRange) -> None:
    """Draw a range along the panel."""
    label = span.label if span.in_legend else None
    how: dict[str, Any] = {"color": GREY, "alpha": 0.18, "linewidth": 0, "zorder": 0}
    is_line = span.low == span.high
    if not is_line:
        axes.axvspan(span.low, span.high, label=label, **how)
    if span.at is not None:
        name = label if is_line else None
        axes.axvline(span.at, color=GREY, linewidth=1, zorder=0.5, label=name)


def _write_span(axes: Axes, span: ShadedRange) -> None:
    """Write a range's name at the bottom, on the side that has room. Call it after the limits
    are set and before the legend is placed, which avoids the name."""
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


def _write_marks(axes: Axes, panel: Panel) -> None:
    """Write each level's name at one end of its line, below a line at the top of the panel, where
    the legend is. Call it after the limits are set."""
    for mark in panel.marks:
        _, share = axes.transAxes.inverted().transform(axes.transData.transform((1, mark.y)))
        below = share > _TOP_END
        axes.annotate(
            mark.label,
            xy=(0 if mark.left else 1, mark.y),
            xycoords=("axes fraction", "data"),
            xytext=(3 if mark.left else -3, -3 if below else 3),
            textcoords="offset points",
            ha="left" if mark.left else "right",
            va="top" if below else "baseline",
            color=GREY,
            fontsize="small",
        )


# -- curves ------------------------------------------------------------------------------


def _draw_curve(axes: Axes, curve: PanelCurve) -> None:
    shape = curve.colour if curve.shape is None else curve.shape
    look = mixed_look(curve.colour, curve.dash, shape)
    if curve.form is CurveForm.BARS:
        _draw_bars(axes, curve, look)
    elif curve.form is CurveForm.INTERVALS:
        # White below black is visible on every colour and hatch.
        for colour, width, cap in (("white", 3.2, 2.6), ("black", 1.2, 1.2)):
            _draw_error_bars(axes, curve, colour, elinewidth=width, capthick=cap, zorder=3)
    elif curve.form is CurveForm.OUTLINE:
        axes.fill(
            curve.x,
            _drawable(curve.y),
            label=curve.label or None,
            facecolor=_lighter(look.colour),
            edgecolor=look.colour,
            linewidth=1.2,
        )
    elif curve.form in (CurveForm.LINE, CurveForm.STEPS):
        _draw_line(axes, curve, look)
    else:
        _draw_points(axes, curve, look)


def _draw_bars(axes: Axes, curve: PanelCurve, look: SeriesLook) -> None:
    axes.bar(
        curve.x,
        _drawable(curve.y),
        width=curve.width,
        bottom=curve.base or 0,
        label=curve.label or None,
        color=look.colour,
        hatch=look.hatch,
        edgecolor="black",
        linewidth=0.8,
    )
    axes.axhline(0, color="black", linewidth=0.8)


def _draw_line(axes: Axes, curve: PanelCurve, look: SeriesLook) -> None:
    """Draw a line, in steps or not, with its band."""
    steps = curve.form is CurveForm.STEPS
    if curve.low:
        low, high = _drawable(curve.low), _drawable(curve.high)
        how: dict[str, Any] = {"step": "post"} if steps else {}
        axes.fill_between(curve.x, low, high, color=look.colour, alpha=0.18, linewidth=0, **how)
    axes.plot(
        curve.x,
        _drawable(curve.y),
        label=curve.label or None,
        color=look.colour,
        linestyle=look.dash,
        linewidth=1.2,
        drawstyle="steps-post" if steps else "default",
    )


def _draw_points(
    axes: Axes, curve: PanelCurve, look: SeriesLook, *, sideways: bool = False
) -> None:
    """Draw markers, joined or not, with their intervals; sideways, x downwards."""
    how: dict[str, Any] = {"marker": look.marker, "linestyle": "none"}
    if curve.form is CurveForm.MARKED:
        how["linestyle"] = look.dash
    elif curve.form is CurveForm.LEVELS:
        mark = "|" if sideways else "_"
        how |= {"marker": mark, "markersize": 14, "markeredgewidth": 1.8, "zorder": 4}
    elif curve.form is CurveForm.VALUES:
        how |= {
            "markersize": 4,
            "markerfacecolor": _lighter(look.colour),
            "markeredgecolor": look.colour,
            "markeredgewidth": 0.8,
        }
    label = curve.label or None
    if not curve.low:
        # Same call as with intervals, so that legends keep the order of the curves.
        at = (curve.x, _drawable(curve.y))
        axes.errorbar(*(reversed(at) if sideways else at), color=look.colour, label=label, **how)
        return
    how |= {"color": look.colour, "label": label, "elinewidth": 1.2}
    _draw_error_bars(axes, curve, look.colour, sideways=sideways, **how)


def _draw_error_bars(
    axes: Axes, curve: PanelCurve, colour: str, *, sideways: bool = False, **how: Any
) -> None:
    y = np.array(_drawable(curve.y))
    low, high = np.array(_drawable(curve.low)), np.array(_drawable(curve.high))
    reach = (np.where(low <= y, y - low, np.nan), np.where(high >= y, high - y, np.nan))
    how = {"fmt": "none"} | how if curve.form is CurveForm.INTERVALS else how
    how |= {"ecolor": colour, "capsize": 3}
    if sideways:
        axes.errorbar(y, curve.x, xerr=reach, **how)
    else:
        axes.errorbar(curve.x, y, yerr=reach, **how)


def _drawable(values: Sequence[float | None]) -> list[float]:
    """Return the values with NaN for gaps, which matplotlib does not draw."""
    return [math.nan if value is None else value for value in values]


def _lighter(colour: str) -> tuple[float, float, float]:
    """Return the colour mixed half with white, because EPS has no transparency."""
    red, green, blue = to_rgb(colour)
    return (red + 1) / 2, (green + 1) / 2, (blue + 1) / 2


# -- grids of heights --------------------------------------------------------------------


def _draw_contours(axes: Axes, panel: Panel, grid: HeightGrid) -> None:
    levels = MaxNLocator(_CONTOURS).tick_values(*grid.scale)
    at = (grid.x_at, grid.y_at, grid.heights)
    filled = axes.contourf(*at, levels=levels, cmap=_COLOURS, extend="both")
    lines = axes.contour(*at, levels=levels[1:-1:2], colors="white")
    open_places = [
        (open_point.x, open_point.y, open_point.height) for open_point in grid.open_points
    ]
    places = contour_label_places(lines.allsegs, [*grid.points, *open_places])
    if places:
        axes.clabel(lines, fontsize="x-small", fmt=_short_number, manual=places)
    bar = axes.figure.colorbar(filled, ax=axes)
    bar.ax.yaxis.set_major_formatter(lambda value, _: _short_number(value))
    texts = [(x, y, _short_number(height)) for x, y, height in grid.points]
    texts += [(open_point.x, open_point.y, open_point.text) for open_point in grid.open_points]
    for marker, colour, size, name, points in (
        ("o", "white", 6, MEASURED_NAME, grid.points),
        ("X", _OPEN_COLOUR, 9, OPEN_NAME, open_places),
    ):
        xs, ys = [x for x, _, _ in points], [y for _, y, _ in points]
        how: dict[str, Any] = {"linestyle": "none", "color": colour, "markersize": size}
        how |= {"label": name if grid.open_points else None, "clip_on": False}
        axes.plot(xs, ys, marker, markeredgecolor="black", **how)
    for x, y, text in texts:
        _annotate_on_map(axes, x, y, text)
    _label_levels(axes, panel, step=1)


def _annotate_on_map(axes: Axes, x: float, y: float, text: str) -> None:
    """Write a text beside a point of a map, inside the map."""
    axes.annotate(
        text,
        (x, y),
        xytext=(0, 6 if y < _NEAR_EDGE else -11),
        textcoords="offset points",
        ha="left" if x < -_NEAR_EDGE else "right" if x > _NEAR_EDGE else "center",
        fontsize="x-small",
        color="black",
        bbox={"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.7},
    )


def contour_label_places(
    lines: Sequence[Sequence[NDArray[np.float64]]], points: Sequence[tuple[float, float, float]]
) -> list[tuple[float, float]]:
    """Return where the lines of each level have their label: the vertex that is farthest from
    the values of samples and from the labels before it.

    A line that is near to them everywhere has no label; the colour bar has its level.
    """
    shape = np.array([_WIDE, 1.0])
    taken = [np.array([x, y]) for x, y, _ in points]
    places = []
    for segments in lines:
        inner = [segment[np.abs(segment).max(axis=1) < _NEAR_EDGE] for segment in segments]
        vertices = np.concatenate(inner) if inner else np.empty((0, 2))
        if not len(vertices):
            continue
        if taken:
            away = (vertices[:, None] - np.array(taken)[None]) * shape
            room = np.hypot(away[..., 0], away[..., 1]).min(axis=1)
        else:
            room = 1 - np.abs(vertices).max(axis=1)
        best = int(room.argmax())
        if taken and room[best] < _LABEL_ROOM:
            continue
        taken.append(vertices[best])
        places.append((float(vertices[best, 0]), float(vertices[best, 1])))
    return places


def _draw_cells(axes: Axes, panel: Panel, grid: HeightGrid, letters: float) -> None:
    """Draw rows of cells, from left to right; a cell without a height stays white."""
    low, high = grid.scale
    for row, heights in zip(grid.y_at, grid.heights, strict=True):
        cells = np.array([heights])
        edges = (grid.x_at, (row - 0.44, row + 0.44))
        drawn = axes.pcolormesh(
            *edges, np.ma.masked_invalid(cells), cmap=_ROW_COLOURS, vmin=low, vmax=high
        )
    bar = axes.figure.colorbar(drawn, ax=axes)
    unit = PanelAxis("", grid.unit)
    bar.ax.yaxis.set_major_formatter(lambda value, _: tick_text(value, unit))
    _dress(axes, panel, panel.x, along=True, room=letters - _longest(panel.y.ticks))
    axes.set_ylabel(panel.y.label)
    _set_rows(axes, panel.y.ticks)


def _draw_relief(axes: Any, panel: Panel, grid: HeightGrid) -> None:
    x, y = np.meshgrid(grid.x_at, grid.y_at)
    low, high = grid.scale
    axes.plot_surface(
        *(x, y, np.array(grid.heights)),
        cmap=_COLOURS,
        vmin=low,
        vmax=high,
        linewidth=0.2,
        edgecolor=GREY,
        alpha=0.85,
        rstride=2,
        cstride=2,
    )
    if grid.points:
        axes.scatter(*zip(*grid.points, strict=True), color="black", s=12)
    for open_point in grid.open_points:
        if not low <= open_point.height <= high:
            continue  # A bound may be far above all colours; the contours show it.
        how = {"marker": "X", "color": _OPEN_COLOUR, "edgecolors": "black", "s": 36}
        axes.scatter(open_point.x, open_point.y, open_point.height, **how)
    most = max(len(panel.x.ticks), len(panel.y.ticks))
    _label_levels(axes, panel, step=-(-most // _FEW_TICKS))
    axes.zaxis.set_major_formatter(lambda value, _: _short_number(value))
    axes.view_init(elev=25, azim=-130)
    axes.set_box_aspect(None, zoom=0.85)


def _label_levels(axes: Any, panel: Panel, *, step: int) -> None:
    for which, axis in (("x", panel.x), ("y", panel.y)):
        getattr(axes, f"set_{which}label")(axis.label)
        shown = axis.ticks[::step]
        at, labels = [tick.x for tick in shown], [tick.label for tick in shown]
        getattr(axes, f"set_{which}ticks")(at, labels=labels)


def _short_number(value: float) -> str:
    """Return a figure with three significant digits, to fit on a map: `1,230`."""
    return number_text(float(f"{value:.3g}"))
