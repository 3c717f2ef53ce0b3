"""A sheet as SVG elements for an HTML page.

Purpose: the second backend of the chart model, beside `draw.py`: text stays text, nothing runs,
and the stylesheet of the page decides the colours of screen, dark screen and paper
(`CHART_CSS`). Decision: one SVG for each panel, 340 units wide, so that panels wrap in a
grid and letters stay readable on a telephone; names of vertical axes stand above the panel, never
turned. Each series differs from others by marker or dash too. Every point has its figures as
`<title>`, which browsers show without scripts. Coordinates have one decimal, and the output is
a function of the sheet. A relief is left out: the contours have the same numbers.
Non-goals: interaction, files of their own (`render.py`).
"""

from __future__ import annotations

import html
import itertools
import math
import unicodedata
from collections.abc import Iterator, Sequence

import msgspec

from benchwright.core.text import number_text, percent_text, plural
from benchwright.report.charts.sheet import (
    MEASURED_NAME,
    OPEN_NAME,
    AxisUnit,
    CurveForm,
    HeightGrid,
    LevelLine,
    Panel,
    PanelAxis,
    PanelCurve,
    ShadedRange,
    Sheet,
    axis_ends,
    fitting_ticks,
    tick_labels,
    tick_positions,
    tick_text,
)

PANEL_WIDTH = 340
WIDE_PANEL = 520
"""Width of a panel in its own units; a letter is 7 of them wide."""
_PLOT_HEIGHT = 180.0
_ROW = 26.0
"""Height of a row of a sideways panel, and of a row of cells."""
_LEAST_HEIGHT = 64.0
_LINE = 16.0
_LETTER = 7.0
_EDGE = 8.0
_MOST_NAME = 24
"""Letters of a name below an axis; longer names are cut, and shown whole as `<title>`."""
_MOST_TITLES = 400
"""Points of a panel up to which each carries its figures."""
_MOST_CURVES_DESCRIBED = 8
_SERIES = 8
_DASHES = 6
_HEATS = 10
_CONTOUR_TEXTS = 40
_LEFT_END = 0.35
_MARKS = (
    "",
    "m-3-3h6v6h-6z",
    "m0-4l3.8 6.6h-7.6z",
    "m0-4.2l4.2 4.2-4.2 4.2-4.2-4.2z",
    "m0 4l3.8-6.6h-7.6z",
    "m-1.3-4h2.6v2.7h2.7v2.6h-2.7v2.7h-2.6v-2.7h-2.7v-2.6h2.7z",
    "m-4-2.6l1.4-1.4 2.6 2.6 2.6-2.6 1.4 1.4-2.6 2.6 2.6 2.6-1.4 1.4-2.6-2.6-2.6 2.6-1.4-1.4"
    " 2.6-2.6z",
    "m0-4.6l1.2 3 3.2.2-2.5 2 .9 3.2-2.8-1.8-2.8 1.8.9-3.2-2.5-2 3.2-.2z",
)
"""Markers as paths from their middle, in the order of `style.py`; the first is a circle."""
_CROSS = 6
"""Index of the marker of a sample on a map that is not measured."""
_HATCHES = (
    "",
    '<path d="M0 6L6 0"/>',
    '<circle cx="3" cy="3" r="1"/>',
    '<path d="M0 6L6 0M0 0L6 6"/>',
    '<path d="M0 0L6 6"/>',
    '<path d="M3 0V6M0 3H6"/>',
    '<circle cx="3" cy="3" r="2"/>',
    '<path d="M0 3H6"/>',
)
_DARK_COLORS = """\
--series-1:#5aa9e6;--series-2:#e6a93a;\
--series-3:#9ad4f5;--series-4:#f07f45;--series-5:#2bc59a;--series-6:#de9bc4;--series-7:#f2f2f2;\
--series-8:#a0a0a0;--chart-text:#e8e8e8;--chart-quiet:#a8a8a8;--chart-grid:#3a3d42;\
--chart-paper:#16181c;--heat-0:#1b222b;--heat-1:#1f2f40;--heat-2:#213e57;--heat-3:#22506f;\
--heat-4:#246489;--heat-5:#2b7aa5;--heat-6:#4191bf;--heat-7:#67aad3;--heat-8:#98c7e5;\
--heat-9:#d0e6f5"""
CHART_CSS = """\
:root{--series-1:#0072b2;--series-2:#b87a00;--series-3:#3d94c7;--series-4:#d55e00;\
--series-5:#008a66;--series-6:#b8568f;--series-7:#111;--series-8:#767676;\
--chart-text:#1a1a1a;--chart-quiet:#5a5a5a;--chart-grid:#dcdcdc;--chart-paper:#fff;\
--heat-0:#f3f6fa;--heat-1:#dfe9f3;--heat-2:#c8dbec;--heat-3:#a9cae3;--heat-4:#81b2d6;\
--heat-5:#5a99c8;--heat-6:#3a7fb8;--heat-7:#22649f;--heat-8:#124a82;--heat-9:#08305f}
@media screen and (prefers-color-scheme:dark){:root:not([data-theme=light]){DARK}}
@media screen{:root[data-theme=dark]{DARK}}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,20rem),1fr));\
gap:1rem;align-items:start}
@media (min-width:48rem){.charts>:only-child{grid-column:span 2}}
.chart{display:block;width:100%;max-width:34rem;height:auto;overflow:visible;font:12px system-ui,sans-serif}
.chart text{fill:var(--chart-quiet)}
.chart .head{fill:var(--chart-text);font-weight:600}
.chart .name{fill:var(--chart-text)}
.chart .axis{stroke:var(--chart-quiet);fill:none}
.chart .grid{stroke:var(--chart-grid);fill:none}
.chart .mark{stroke:var(--chart-quiet);fill:none;stroke-dasharray:4 3}
.chart .span{fill:var(--chart-quiet);fill-opacity:.18}
.chart .at{stroke:var(--chart-quiet)}
.chart .s1{--c:var(--series-1)}.chart .s2{--c:var(--series-2)}.chart .s3{--c:var(--series-3)}
.chart .s4{--c:var(--series-4)}.chart .s5{--c:var(--series-5)}.chart .s6{--c:var(--series-6)}
.chart .s7{--c:var(--series-7)}.chart .s8{--c:var(--series-8)}
.chart .line{stroke:var(--c);fill:none;stroke-width:1.6;stroke-linejoin:round}
.chart .d2 .line{stroke-dasharray:6 2.5}.chart .d3 .line{stroke-dasharray:1.5 2}
.chart .d4 .line{stroke-dasharray:7 2.5 1.5 2.5}.chart .d5 .line{stroke-dasharray:11 4}
.chart .d6 .line{stroke-dasharray:5 2 1.5 2 1.5 2}
.chart .band{fill:var(--c);fill-opacity:.2}
.chart .bar{fill:var(--c);fill-opacity:.75;stroke:var(--chart-text);stroke-width:.8}
.chart .hatch{stroke:var(--chart-text);fill:none}
.chart .whisk{stroke:var(--c);fill:none;stroke-width:1.3}
.chart .over{stroke:var(--chart-text);fill:none;stroke-width:1.5}
.chart .dot{fill:var(--c);stroke:none}.chart .none{opacity:0}\
.chart .dots{stroke:var(--c);stroke-linecap:round;fill:none}.chart .pale .dots{stroke-opacity:.5}
.chart .pale{fill:var(--c);fill-opacity:.3;stroke:var(--c)}
.chart .level{stroke:var(--c);stroke-width:2.4}
.chart .area{fill:var(--c);fill-opacity:.3;stroke:var(--c)}
.chart .h0{fill:var(--heat-0)}.chart .h1{fill:var(--heat-1)}.chart .h2{fill:var(--heat-2)}
.chart .h3{fill:var(--heat-3)}.chart .h4{fill:var(--heat-4)}.chart .h5{fill:var(--heat-5)}
.chart .h6{fill:var(--heat-6)}.chart .h7{fill:var(--heat-7)}.chart .h8{fill:var(--heat-8)}
.chart .h9{fill:var(--heat-9)}
.chart .ring{fill:var(--chart-paper);stroke:var(--chart-text)}
.chart .cross{fill:var(--series-4);stroke:var(--chart-text)}
.chart .halo{fill:var(--chart-text);stroke:var(--chart-paper);stroke-width:3;\
paint-order:stroke;stroke-linejoin:round}
""".replace("DARK", _DARK_COLORS)
"""The rules that panels need. A page can set the custom properties again after them, and choose a
theme with `data-theme` on its root: `light` or `dark`; without it, the system decides."""


def sheet_svg(sheet: Sheet, *, prefix: str, width: int = PANEL_WIDTH, titles: bool = True) -> str:
    """Return a `<div class="charts">` with one SVG for each panel; the sheet's title and note
    are left to the page.

    `prefix` starts every id; it must be a name that no other sheet of the page has. Without
    `titles`, points do not have their figures, for pages with many charts.
    """
    return (
        '<div class="charts">'
        + "".join(panel_svgs(sheet, prefix=prefix, width=width, titles=titles))
        + "</div>"
    )


def panel_svgs(
    sheet: Sheet, *, prefix: str, width: int = PANEL_WIDTH, titles: bool = True
) -> tuple[str, ...]:
    """Return one SVG element for each panel that is not a relief."""
    panels = [p for p in sheet.drawable() if p.grid is None or not p.grid.relief]
    return tuple(
        _Drawing(panel, sheet, f"{prefix}-{at}", float(width), titles).element()
        for at, panel in enumerate(panels, 1)
    )


class _Scale(msgspec.Struct, frozen=True):
    """Maps the values of an axis to coordinates."""

    low: float
    high: float
    log: bool
    first: float
    """Coordinate of `low`."""
    last: float

    def at(self, value: float) -> float:
        """Return the coordinate; that of the lower end for what a logarithm cannot show."""
        low, high = self.low, self.high
        if self.log:
            if value <= 0:
                return self.first
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.first + (value - low) / (high - low) * (self.last - self.first)

    def holds(self, value: float) -> bool:
        """Return whether a value is inside the axis, with a tolerance of two units."""
        ends = sorted((self.first, self.last))
        return ends[0] - 2 <= self.at(value) <= ends[1] + 2


class _Frame(msgspec.Struct, frozen=True):
    """The scales of a panel and its rectangle."""

    x: _Scale
    y: _Scale
    sideways: bool
    left: float
    right: float
    top: float
    bottom: float

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the coordinates of a point."""
        across, up = self.x.at(x), self.y.at(y)
        return (up, across) if self.sideways else (across, up)

    def holds(self, x: float, y: float) -> bool:
        return self.x.holds(x) and self.y.holds(y)


class _Drawing:
    """One panel: texts above, the plot, the axes below it. `y` is the lower end so far."""

    def __init__(self, panel: Panel, sheet: Sheet, name: str, width: float, titles: bool) -> None:
        self.titles = titles
        self.panel, self.sheet, self.name, self.width = panel, sheet, name, width
        self.parts: list[str] = []
        self.y = 0.0
        self.hatched = sum(c.form is CurveForm.BARS for c in panel.curves) > 1

    def element(self) -> str:
        """Draw the panel and return its element."""
        panel = self.panel
        alone = self.sheet.title if len(self.sheet.panels) == 1 else ""
        self._lines(panel.title or alone, "head")
        if panel.missing:
            self._lines(panel.missing)
        else:
            up = panel.x if panel.sideways else panel.y
            self._lines(up.label or ("" if panel.sideways else self.sheet.ylabel))
            self._legend()
            if panel.grid is not None and panel.grid.open_points:
                self._map_legend()
            frame = self._axes()
            if panel.grid is not None and panel.grid.cells:
                self.parts += _cells(panel.grid, panel, frame, titles=self.titles)
            elif panel.grid is not None:
                self.parts += _contours(panel.grid, frame)
            else:
                self._curves(frame)
            if panel.grid is not None:
                self._heat_scale(panel.grid, frame)
        head = f"{self.name}-t", f"{self.name}-d"
        box = f"0 0 {_n(self.width)} {_n(self.y + _EDGE)}"
        return (
            f'<svg class="chart" viewBox="{box}" role="img" '
            f'aria-labelledby="{head[0]} {head[1]}">'
            f'<title id="{head[0]}">{_escaped(panel.title or self.sheet.title or "Chart")}'
            f'</title><desc id="{head[1]}">{_escaped(described(panel))}</desc>'
            + "".join(self.parts)
            + "</svg>"
        )

    def _lines(self, text: str, look: str = "") -> None:
        for line in _wrapped(text, self.width):
            self.y += _LINE
            self.parts.append(_text(0, self.y - 4, line, look))

    def _legend(self) -> None:
        """Write the names of the series in rows above the plot, where they hide nothing."""
        entries = self.panel.legend()
        if len(entries) < 2:
            return
        x = 0.0
        self.y += _LINE
        for label, one in entries.items():
            text = _cut(label, int(self.width / _LETTER) - 6)
            needed = 24 + _width(text)
            if x and x + needed > self.width:
                x, self.y = 0.0, self.y + _LINE
            self.parts.append(self._sample(one, x, self.y - 8))
            self.parts.append(_text(x + 24, self.y - 4, text, "name", whole=label))
            x += needed + 12

    def _map_legend(self) -> None:
        """Write the names of the two kinds of points of a map above it."""
        x = 8.0
        self.y += _LINE
        for name, measured in ((MEASURED_NAME, True), (OPEN_NAME, False)):
            self.parts.append(_map_marker(x, self.y - 8, measured=measured))
            self.parts.append(_text(x + 12, self.y - 4, name, "name"))
            x += 36 + _width(name)

    def _sample(self, one: PanelCurve | ShadedRange, x: float, y: float) -> str:
        box = f'x="{_n(x)}" y="{_n(y - 4)}" width="20" height="9"'
        if isinstance(one, ShadedRange):
            if one.low == one.high:
                return f'<path class="at" d="M{_n(x + 10)} {_n(y - 6)}v13"/>'
            return f'<rect class="span" {box}/>'
        line = f'<path class="{{}}" d="M{_n(x)} {_n(y)}h20"/>'
        if one.form is CurveForm.BARS:
            parts = f'<rect class="bar" {box}/>'
            if self.hatched and _shape(one):
                parts += f'<rect fill="url(#{self.name}-h{_shape(one)})" {box}/>'
        elif one.form is CurveForm.OUTLINE:
            parts = f'<rect class="area" {box}/>'
        elif one.form is CurveForm.LEVELS:
            parts = line.format("level")
        elif one.form is CurveForm.INTERVALS:
            parts = line.format("over")
        elif one.form in (CurveForm.LINE, CurveForm.STEPS):
            parts = line.format("line")
            if one.low:
                parts = f'<rect class="band" {box}/>{parts}'
        else:
            marker = _marker(one, x + 10, y, "")
            parts = f'<g class="{_MARKED[one.form]}">{marker}</g>'
            if one.form is CurveForm.MARKED:
                parts = line.format("line") + parts
        return f'<g class="{_look(one)}">{parts}</g>'

    def _axes(self) -> _Frame:
        """Draw the grid lines, the axes and their texts; return the frame of the plot."""
        panel, top = self.panel, self.y + _EDGE
        down, along = (
            (panel.x, panel.y) if panel.sideways else (panel.y, panel.x)
        )  # The axes as they stand on the page.
        rows = len(down.ticks)
        high = max(rows * _ROW, _LEAST_HEIGHT) if rows else _PLOT_HEIGHT
        if panel.grid is not None and not panel.grid.cells:
            high = _PLOT_HEIGHT
        bottom = top + high
        down_ends = axis_ends(panel, down is panel.x)
        if down.ticks:
            most = int(self.width * 0.4 / _LETTER)
            texts = [(tick.x, tick.label) for tick in down.ticks]
        else:
            most = _MOST_NAME
            at = tick_positions(*down_ends, down, 6)
            texts = list(zip(at, tick_labels(at, down), strict=True))
        left = max((_width(_cut(t, most)) for _, t in texts), default=0.0) + 8
        right = self.width - 10
        down_scale = _Scale(*down_ends, down.log, bottom, top)
        if panel.sideways or (panel.grid is not None and panel.grid.cells):
            down_scale = msgspec.structs.replace(down_scale, first=top, last=bottom)
        along_ends = axis_ends(panel, along is panel.x)
        along_scale = _Scale(*along_ends, along.log, left, right)
        lines = []
        for value, text in texts:
            y = down_scale.at(value)
            if not down.ticks:
                lines.append(f"M{_n(left)} {_n(y)}H{_n(right)}")
            look = "name" if down.ticks else ""
            cut = _cut(text, most)
            self.parts.append(_text(left - 5, y + 4, cut, look, anchor="end", whole=text))
        self.y = bottom
        if along.ticks:
            self._names(along, along_scale, left, right)
        else:
            lines += self._numbers(along, along_scale, top, bottom)
        if along.label:
            self.y += _LINE
            x = (left + right) / 2
            half = _width(_cut(along.label, 56)) / 2
            x = max(half, min(x, self.width - half))
            label = _cut(along.label, 56)
            self.parts.append(_text(x, self.y - 1, label, anchor="middle", whole=along.label))
        if lines:
            self.parts.append(f'<path class="grid" d="{"".join(lines)}"/>')
        axis = f"M{_n(left)} {_n(top)}V{_n(bottom)}H{_n(right)}"
        self.parts.append(f'<path class="axis" d="{axis}"/>')
        scales = (along_scale, down_scale)
        x_scale, y_scale = reversed(scales) if panel.sideways else scales
        return _Frame(x_scale, y_scale, panel.sideways, left, right, top, bottom)

    def _numbers(self, axis: PanelAxis, scale: _Scale, top: float, bottom: float) -> list[str]:
        """Write the numbers below the plot, as many as fit; return their grid lines."""
        room = abs(scale.last - scale.first)
        at, labels = fitting_ticks(
            *(scale.low, scale.high, axis),
            lambda at, labels: room <= 0 or _fit([scale.at(a) for a in at], labels),
        )
        self.y += _LINE
        for value, text in zip(at, labels, strict=True):
            x = scale.at(value)
            half = _width(text) / 2
            x = max(half, min(x, self.width - half))
            self.parts.append(_text(x, self.y - 2, text, anchor="middle"))
        return [f"M{_n(scale.at(a))} {_n(top)}V{_n(bottom)}" for a in at]

    def _names(self, axis: PanelAxis, scale: _Scale, left: float, right: float) -> None:
        """Write the names of categories below the plot: level if they fit, else turned; of very
        many, only some."""
        cuts = [_cut(tick.label, _MOST_NAME) for tick in axis.ticks]
        places = [scale.at(tick.x) for tick in axis.ticks]
        closest = min((b - a for a, b in itertools.pairwise(places)), default=right)
        shown = list(zip(axis.ticks, cuts, places, strict=True))
        if _fit(places, cuts):
            self.y += _LINE
            for tick, cut, x in shown:
                half = _width(cut) / 2
                x = max(half, min(x, self.width - half))
                self.parts.append(
                    _text(x, self.y - 2, cut, "name", anchor="middle", whole=tick.label)
                )
        else:
            step = max(1, math.ceil(13 / max(closest, 0.1)))
            turn = 90 if closest * step < 26 else 40
            longest = max(_width(cut) for _, cut, _ in shown[::step])
            room = math.sin(math.radians(turn))
            for tick, cut, x in shown[::step]:
                # The end of a turned text is at its place; its start must not leave the panel.
                most = int((x - 2) / math.cos(math.radians(turn)) / _LETTER)
                cut = cut if turn == 90 else _cut(cut, max(3, most))
                y = self.y + (8 if turn == 90 else 12)
                where = x + 4 if turn == 90 else x + 2
                how = f' transform="rotate(-{turn} {_n(where)} {_n(y)})"'
                self.parts.append(
                    _text(where, y, cut, "name", anchor="end", whole=tick.label, more=how)
                )
            self.y += longest * room + 14
        if axis.groups:
            self.y += _LINE
            each = (right - left) / len(axis.groups)
            for group in axis.groups:
                cut = _cut(group.label, int(each / _LETTER))
                x = scale.at(group.x)
                self.parts.append(_text(x, self.y - 2, cut, anchor="middle", whole=group.label))

    def _heat_scale(self, grid: HeightGrid, frame: _Frame) -> None:
        """Draw the colours from the lowest to the highest height, with these as texts, within the
        width of the plot."""
        low, high = (_height_text(end, grid) for end in grid.scale)
        self.y += _LINE + 4
        x = frame.left + _width(low) + 6
        each = min(14.0, (frame.right - x - 6 - _width(high)) / _HEATS)
        self.parts.append(_text(frame.left, self.y - 3, low))
        for heat in range(_HEATS):
            place = f'x="{_n(x + each * heat)}" y="{_n(self.y - 12)}"'
            self.parts.append(f'<rect class="h{heat}" {place} width="{_n(each)}" height="9"/>')
        self.parts.append(_text(x + each * _HEATS + 6, self.y - 3, high))

    def _curves(self, frame: _Frame) -> None:
        """Draw spans, levels and curves, then their names on top."""
        panel, parts = self.panel, self.parts
        if self.hatched:
            parts.append(_hatches(panel.curves, self.name))
        width, height = frame.right - frame.left, frame.bottom - frame.top
        parts.append(
            f'<clipPath id="{self.name}-c"><rect x="{_n(frame.left)}" '
            f'y="{_n(frame.top)}" width="{_n(width)}" height="{_n(height)}"/></clipPath>'
        )
        parts += [_span(span, frame) for span in panel.spans]
        parts += [_mark(mark, frame) for mark in panel.marks]
        titles = sum(len(curve.x) for curve in panel.curves)
        for curve in panel.curves:
            drawn = (
                _bars(curve, panel, frame, self.name if self.hatched else "")
                if curve.form is CurveForm.BARS
                else _lines(curve, frame, self.name)
            )
            inner = "".join(drawn)
            if curve.low and curve.form not in (CurveForm.LINE, CurveForm.STEPS):
                inner += _whiskers(curve, frame)
            if curve.form in _MARKED:
                shown = self.titles and titles <= _MOST_TITLES
                points = _points(curve, panel, frame, titles=shown)
                inner += f'<g class="{_MARKED[curve.form]}">{points}</g>'
            parts.append(f'<g class="{_look(curve)}">{inner}</g>')
        parts += [_mark_text(mark, frame) for mark in panel.marks]
        parts += [_span_text(span, frame) for span in panel.spans if not span.in_legend]


_MARKED = {
    CurveForm.MARKED: "dot",
    CurveForm.POINTS: "dot",
    CurveForm.VALUES: "pale",
    CurveForm.LEVELS: "level",
    CurveForm.INTERVALS: "none",
}
"""Classes of the forms with a marker at each point."""


def described(panel: Panel) -> str:
    """Return a sentence or two for readers who do not see the picture."""
    if panel.missing:
        return panel.missing
    axes = [axis.label for axis in (panel.y, panel.x) if axis.label]
    sentences = [f"{' over '.join(axes)}." if axes else ""]
    if panel.grid is not None:
        known = [h for row in panel.grid.heights for h in row if not math.isnan(h)]
        if known:
            ends = (_height_text(end, panel.grid) for end in (min(known), max(known)))
            sentences.append(f"Values from {' to '.join(ends)}.")
        if panel.grid.open_points:
            texts = [open_point.text for open_point in panel.grid.open_points]
            sentences.append(f"{OPEN_NAME.capitalize()}: {', '.join(texts)}.")
    named = [c for c in panel.curves if any(value is not None for value in c.y)]
    for curve in named[:_MOST_CURVES_DESCRIBED]:
        y = [value for value in curve.y if value is not None]
        span = dict.fromkeys(tick_text(end, panel.y) for end in (min(y), max(y)))
        what = f"{curve.label}: " if curve.label else ""
        sentences.append(f"{what}{plural(len(y), 'point')}, {' to '.join(span)}.")
    if len(named) > _MOST_CURVES_DESCRIBED:
        sentences.append(f"{len(named) - _MOST_CURVES_DESCRIBED} more curves.")
    sentences += [f"Level {mark.label}: {tick_text(mark.y, panel.y)}." for mark in panel.marks]
    return " ".join(sentence for sentence in sentences if sentence)


# -- curves ------------------------------------------------------------------------------


def _look(curve: PanelCurve) -> str:
    return f"s{curve.colour % _SERIES + 1} d{curve.dash % _DASHES + 1}"


def _shape(curve: PanelCurve) -> int:
    """Return the index of the marker and of the hatch, as `style.mixed_look` does."""
    place = curve.colour if curve.shape is None else curve.shape
    return (place + place // _SERIES) % len(_MARKS)


def _lines(curve: PanelCurve, frame: _Frame, name: str) -> Iterator[str]:
    """Yield the band and the line of a curve."""
    clip = f'clip-path="url(#{name}-c)"'
    steps = curve.form is CurveForm.STEPS
    if curve.form in (CurveForm.LINE, CurveForm.STEPS):
        for run in _runs(curve, (curve.low, curve.high)) if curve.low else ():
            low = [(x, ends[0]) for x, ends in run]
            high = [(x, ends[1]) for x, ends in run]
            forth, back = _path(low, frame, steps), _path(high, frame, steps)
            border = [*forth, *reversed(back)]
            yield f'<path class="band" {clip} d="{_joined(border)}z"/>'
    if curve.form in (CurveForm.LINE, CurveForm.STEPS, CurveForm.MARKED):
        runs = (
            _joined(_path([(x, ends[0]) for x, ends in run], frame, steps))
            for run in _runs(curve, (curve.y,))
        )
        yield f'<path class="line" {clip} d="{"".join(runs)}"/>'
    if curve.form is CurveForm.OUTLINE:
        border = [frame.at(x, y) for x, y in zip(curve.x, curve.y, strict=True) if y is not None]
        yield f'<path class="area" {clip} d="{_joined(border)}z"/>'


def _runs(
    curve: PanelCurve, rows: Sequence[Sequence[float | None]]
) -> Iterator[list[tuple[float, tuple[float, ...]]]]:
    """Yield the points between gaps."""
    run: list[tuple[float, tuple[float, ...]]] = []
    for x, *ends in zip(curve.x, *rows, strict=True):
        known = tuple(end for end in ends if end is not None)
        if len(known) == len(ends):
            run.append((x, known))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _path(
    points: Sequence[tuple[float, float]], frame: _Frame, steps: bool
) -> list[tuple[float, float]]:
    """Return the coordinates of a line; of more points than the panel has columns, the first,
    lowest, highest and last of each column."""
    at = [frame.at(x, y) for x, y in points]
    if len(at) > 4 * (frame.right - frame.left):
        columns: dict[int, list[tuple[float, float]]] = {}
        for point in at:
            columns.setdefault(int(point[0]), []).append(point)
        at = []
        for column in columns.values():
            ordered = sorted(range(len(column)), key=lambda place: column[place][1])
            kept = sorted({0, ordered[0], ordered[-1], len(column) - 1})
            at += [column[place] for place in kept]
    if not steps:
        return at
    stepped = at[:1]
    for (_, before), (x, y) in itertools.pairwise(at):
        stepped += [(x, before), (x, y)]
    return stepped


def _joined(points: Sequence[tuple[float, float]]) -> str:
    """Return a path through coordinates, without what rounds to the same place."""
    texts: list[str] = []
    for x, y in points:
        text = f"{_n(x)} {_n(y)}"
        if not texts or texts[-1] != text:
            texts.append(text)
    return f"M{'L'.join(texts)}" if len(texts) != 1 else f"M{texts[0]}h.1"


def _whiskers(curve: PanelCurve, frame: _Frame) -> str:
    """Return the intervals of points as bars with caps."""
    parts = []
    for x, low, high in zip(curve.x, curve.low, curve.high, strict=True):
        if low is None or high is None:
            continue
        (x1, y1), (x2, y2) = frame.at(x, low), frame.at(x, high)
        clamped_y = [min(max(y, frame.top), frame.bottom) for y in (y1, y2)]
        clamped_x = [min(max(x, frame.left), frame.right) for x in (x1, x2)]
        if frame.sideways:
            start, end = (_n(one) for one in clamped_x)
            parts.append(f"M{start} {_n(y1 - 3)}v6m0-3H{end}M{end} {_n(y1 - 3)}v6")
        else:
            start, end = (_n(one) for one in clamped_y)
            left = _n(x1 - 3)
            parts.append(f"M{left} {start}h6m-3 0V{end}M{left} {end}h6")
    look = "over" if curve.form is CurveForm.INTERVALS else "whisk"
    return f'<path class="{look}" d="{"".join(parts)}"/>' if parts else ""


def _points(curve: PanelCurve, panel: Panel, frame: _Frame, *, titles: bool) -> str:
    """Return the markers of the points inside the axes, with their figures as titles."""
    parts, drawn = [], set()
    for place, (x, y) in enumerate(zip(curve.x, curve.y, strict=True)):
        if y is None or not frame.holds(x, y):
            continue
        at = frame.at(x, y)
        where = (_n(at[0]), _n(at[1]))
        if not titles and where in drawn:
            continue
        drawn.add(where)
        if titles or not _is_round(curve):
            title = _title(_point_text(curve, place, panel)) if titles else ""
            parts.append(_marker(curve, *at, title, frame.sideways))
    if not titles and _is_round(curve):
        # Circles as one path of points with round ends: a tenth of the bytes.
        width = "4.8" if curve.form is CurveForm.VALUES else "6.8"
        path = "".join(f"M{x} {y}h0" for x, y in sorted(drawn))
        parts.append(f'<path class="dots" stroke-width="{width}" d="{path}"/>')
    return "".join(parts)


def _is_round(curve: PanelCurve) -> bool:
    """Return whether the markers of a curve are circles."""
    if curve.form is CurveForm.LEVELS:
        return False
    return curve.form in (CurveForm.VALUES, CurveForm.INTERVALS) or not _shape(curve)


def _marker(curve: PanelCurve, x: float, y: float, title: str, sideways: bool = False) -> str:
    if curve.form is CurveForm.LEVELS:
        step = "m0-7v14" if sideways else "m-7 0h14"
        return _closed("path", f'd="M{_n(x)} {_n(y)}{step}"', title)
    if _is_round(curve):
        radius = "2.4" if curve.form is CurveForm.VALUES else "3.4"
        return _closed("circle", f'cx="{_n(x)}" cy="{_n(y)}" r="{radius}"', title)
    return _closed("path", f'd="M{_n(x)} {_n(y)}{_MARKS[_shape(curve)]}"', title)


def _bars(curve: PanelCurve, panel: Panel, frame: _Frame, name: str) -> Iterator[str]:
    """Yield the bars, each with its figures; with a hatch if `name` is not empty."""
    bases = curve.base or (0.0,) * len(curve.x)
    for place, (x, y, base) in enumerate(zip(curve.x, curve.y, bases, strict=True)):
        if y is None:
            continue
        foot = frame.y.low if frame.y.log else max(base, frame.y.low)
        ends = (
            frame.at(x - curve.width / 2, foot),
            frame.at(x + curve.width / 2, min(base + y, frame.y.high)),
        )
        (x1, x2), (y1, y2) = (sorted(pair) for pair in zip(*ends, strict=True))
        box = f'x="{_n(x1)}" y="{_n(y1)}" width="{_n(max(x2 - x1, 0.5))}" height="{_n(y2 - y1)}"'
        yield _closed("rect", f'class="bar" {box}', _title(_point_text(curve, place, panel)))
        if name and _shape(curve):
            yield f'<rect pointer-events="none" fill="url(#{name}-h{_shape(curve)})" {box}/>'


def _hatches(curves: Sequence[PanelCurve], name: str) -> str:
    shapes = sorted({_shape(c) for c in curves if c.form is CurveForm.BARS} - {0})
    return "".join(
        f'<pattern id="{name}-h{shape}" width="6" height="6" class="hatch" '
        f'patternUnits="userSpaceOnUse">{_HATCHES[shape]}</pattern>'
        for shape in shapes
    )


def _point_text(curve: PanelCurve, place: int, panel: Panel) -> str:
    """Return a point's figures: `gzip, level 3: 0.834 (0.82 to 0.85)`."""
    x, y = curve.x[place], curve.y[place]
    what = curve.names[place] if curve.names else ""
    if not what:
        words = (curve.label, _x_text(x, panel.x))
        what = ", ".join(word for word in words if word)
    text = f"{what}: {'' if y is None else tick_text(y, panel.y)}"
    if curve.low:
        low, high = curve.low[place], curve.high[place]
        if low is not None and high is not None:
            text += f" ({tick_text(low, panel.y)} to {tick_text(high, panel.y)})"
    return text


def _x_text(x: float, axis: PanelAxis) -> str:
    if not axis.ticks:
        return tick_text(x, axis)
    nearest = min(axis.ticks, key=lambda tick: abs(tick.x - x))
    group = (
        min(axis.groups, key=lambda axis_tick: abs(axis_tick.x - x)).label if axis.groups else ""
    )
    return f"{group} {nearest.label}".strip()


# -- marks and spans ---------------------------------------------------------------------


def _mark(mark: LevelLine, frame: _Frame) -> str:
    if not frame.y.holds(mark.y):
        return ""
    at = _n(frame.y.at(mark.y))
    if frame.sideways:
        way = f"M{at} {_n(frame.top)}V{_n(frame.bottom)}"
    else:
        way = f"M{_n(frame.left)} {at}H{_n(frame.right)}"
    return f'<path class="mark" d="{way}"/>'


def _mark_text(mark: LevelLine, frame: _Frame) -> str:
    if not mark.label or not frame.y.holds(mark.y):
        return ""
    at = frame.y.at(mark.y)
    if frame.sideways:
        right = at > (frame.left + frame.right) / 2
        anchor, shift = ("end", -4) if right else ("start", 4)
        return _text(at + shift, frame.top + 4, mark.label, anchor=anchor)
    y = at - 4 if at - frame.top > _LINE else at + 13
    if mark.left:
        return _text(frame.left + 4, y, mark.label)
    return _text(frame.right, y, mark.label, anchor="end")


def _span(span: ShadedRange, frame: _Frame) -> str:
    low, high = (
        min(max(frame.x.at(end), frame.left), frame.right) for end in (span.low, span.high)
    )
    height = _n(frame.bottom - frame.top)
    text = (
        f'<rect class="span" x="{_n(low)}" y="{_n(frame.top)}" '
        f'width="{_n(high - low)}" height="{height}"><title>{_escaped(span.label)}'
        "</title></rect>"
    )
    if span.at is not None and frame.x.holds(span.at):
        x = _n(frame.x.at(span.at))
        text += f'<path class="at" d="M{x} {_n(frame.top)}v{height}"/>'
    return text


def _span_text(span: ShadedRange, frame: _Frame) -> str:
    at = frame.x.at(span.low if span.at is None else span.at)
    right = (at - frame.left) / (frame.right - frame.left) < _LEFT_END
    anchor, shift = ("start", 4) if right else ("end", -4)
    return _text(at + shift, frame.bottom - 5, span.label, anchor=anchor)


# -- grids of heights --------------------------------------------------------------------


def _height_text(height: float, grid: HeightGrid) -> str:
    if grid.unit is AxisUnit.SHARE:
        return percent_text(height)
    return number_text(height, 3)


def _heat(height: float, grid: HeightGrid) -> int | None:
    """Return the index of a height's colour; None if the height is unknown."""
    if math.isnan(height):
        return None
    low, high = grid.scale
    share = (height - low) / (high - low) if high > low else 0.0
    return min(max(int(share * _HEATS), 0), _HEATS - 1)


def _cells(grid: HeightGrid, panel: Panel, frame: _Frame, *, titles: bool) -> Iterator[str]:
    """Yield a rectangle for each run of cells of one colour, with the range of its heights; without
    `titles`, a path for all cells of one colour."""
    paths: dict[int, list[str]] = {}
    names = {tick.x: tick.label for tick in panel.y.ticks}
    for row, heights in zip(grid.y_at, grid.heights, strict=True):
        top, bottom = sorted((frame.y.at(row - 0.44), frame.y.at(row + 0.44)))
        at = 0
        for heat, run in itertools.groupby(heights, lambda h: _heat(h, grid)):
            inside = list(run)
            x1, x2 = (grid.x_at[end] for end in (at, at + len(inside)))
            at += len(inside)
            if heat is None:
                continue
            known = dict.fromkeys(_height_text(end, grid) for end in (min(inside), max(inside)))
            span = " to ".join(tick_text(end, panel.x) for end in (x1, x2))
            left, right = frame.x.at(x1), frame.x.at(x2)
            if not titles:
                box = f"M{_n(left)} {_n(top)}h{_n(right - left + 0.3)}V{_n(bottom)}H{_n(left)}z"
                paths.setdefault(heat, []).append(box)
                continue
            yield _closed(
                "rect",
                f'class="h{heat}" x="{_n(left)}" y="{_n(top)}" '
                f'width="{_n(right - left + 0.3)}" height="{_n(bottom - top)}"',
                _title(f"{names.get(row, '')}, {span}: {' to '.join(known)}"),
            )
    for heat, boxes in sorted(paths.items()):
        yield f'<path class="h{heat}" d="{"".join(boxes)}"/>'


def _contours(grid: HeightGrid, frame: _Frame) -> Iterator[str]:
    """Yield the areas above each of nine levels, painted over each other, then the samples."""
    low, high = grid.scale
    box = (
        f'x="{_n(frame.left)}" y="{_n(frame.top)}" '
        f'width="{_n(frame.right - frame.left)}" height="{_n(frame.bottom - frame.top)}"'
    )
    yield f'<rect class="h0" {box}/>'
    for heat in range(1, _HEATS):
        level = low + (high - low) * heat / _HEATS
        loops = (
            _joined([frame.at(x, y) for x, y in loop]) + "z" for loop in area_above(grid, level)
        )
        path = "".join(loops)
        if path:
            title = _title(f"above {_height_text(level, grid)}")
            yield _closed("path", f'class="h{heat}" d="{path}"', title)
    texts = [(x, y, _height_text(height, grid), True) for x, y, height in grid.points]
    texts += [
        (open_point.x, open_point.y, open_point.text, False) for open_point in grid.open_points
    ]
    for place, (x, y, text, measured) in enumerate(texts):
        across, up = frame.at(x, y)
        yield _map_marker(across, up, text, measured=measured)
        if place < _CONTOUR_TEXTS:
            below = up - frame.top < _LINE
            anchor = (
                "start"
                if across - frame.left < 20
                else "end"
                if frame.right - across < 20
                else "middle"
            )
            yield _text(across, up + (15 if below else -6), text, "halo", anchor=anchor)


def _map_marker(x: float, y: float, text: str = "", *, measured: bool) -> str:
    """Return the marker of a sample on a map; `text`: its figure, shown as its title."""
    name = MEASURED_NAME if measured else OPEN_NAME
    title = _title(f"{name}: {text}") if text else ""
    if measured:
        place = f'cx="{_n(x)}" cy="{_n(y)}" r="3"'
        return _closed("circle", f'class="ring" {place}', title)
    cross = f'class="cross" d="M{_n(x)} {_n(y)}{_MARKS[_CROSS]}"'
    return _closed("path", cross, title)


Node = tuple[int, int]
_CORNERS = {
    1: (("B", "L"),),
    2: (("R", "B"),),
    3: (("R", "L"),),
    4: (("T", "R"),),
    5: (("B", "L"), ("T", "R")),
    6: (("T", "B"),),
    7: (("T", "L"),),
    8: (("L", "T"),),
    9: (("B", "T"),),
    10: (("R", "B"), ("L", "T")),
    11: (("R", "T"),),
    12: (("L", "R"),),
    13: (("B", "R"),),
    14: (("L", "B"),),
}
"""Marching squares: which corners of a cell are above the level (1 lower left, 2 lower right, 4
upper right, 8 upper left) -> the sides that the border crosses, with the area on its left."""


def area_above(grid: HeightGrid, level: float) -> list[list[tuple[float, float]]]:
    """Return the borders of the area of a grid in which heights are at least `level`.

    The grid is surrounded by nodes below every level, at the places of its own border, so each
    border is closed. Holes run the other way round.
    """
    wide, high = len(grid.x_at), len(grid.y_at)

    def height(node: Node) -> float:
        i, j = node
        inside = 0 <= i < wide and 0 <= j < high
        return grid.heights[j][i] if inside else -math.inf

    def place(node: Node) -> tuple[float, float]:
        i, j = node
        return grid.x_at[min(max(i, 0), wide - 1)], grid.y_at[min(max(j, 0), high - 1)]

    crossings: dict[tuple[Node, Node], tuple[Node, Node]] = {}
    for j in range(-1, high):
        for i in range(-1, wide):
            a, b, c, d = (i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)
            case = sum(
                bit for bit, node in ((1, a), (2, b), (4, c), (8, d)) if height(node) >= level
            )
            sides = {"B": (a, b), "R": (b, c), "T": (d, c), "L": (a, d)}
            for start, end in _CORNERS.get(case, ()):
                crossings[sides[start]] = sides[end]

    def crossing(side: tuple[Node, Node]) -> tuple[float, float]:
        (x1, y1), (x2, y2) = map(place, side)
        h1, h2 = map(height, side)
        if math.isinf(h1) or math.isinf(h2):
            return (x1, y1) if math.isinf(h2) else (x2, y2)
        share = (level - h1) / (h2 - h1)
        return x1 + share * (x2 - x1), y1 + share * (y2 - y1)

    loops = []
    while crossings:
        side = next(iter(crossings))
        loop = []
        while side in crossings:
            loop.append(crossing(side))
            side = crossings.pop(side)
        loops.append(loop)
    return loops


# -- texts and numbers -------------------------------------------------------------------


def _n(value: float) -> str:
    """Return a coordinate with one decimal at most."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _escaped(text: str) -> str:
    """Return a text that cannot be markup; what no page can show is replaced."""
    shown = (c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return html.escape("".join(shown))


def _title(text: str) -> str:
    return f"<title>{_escaped(text)}</title>"


def _closed(tag: str, attributes: str, inner: str) -> str:
    return f"<{tag} {attributes}>{inner}</{tag}>" if inner else f"<{tag} {attributes}/>"


def _text(
    x: float,
    y: float,
    text: str,
    look: str = "",
    *,
    anchor: str = "",
    whole: str = "",
    more: str = "",
) -> str:
    """Return a text; if `whole` is longer, it is its title."""
    attributes = f'x="{_n(x)}" y="{_n(y)}"'
    attributes += f' class="{look}"' if look else ""
    attributes += f' text-anchor="{anchor}"' if anchor else ""
    title = _title(whole) if whole and whole != text else ""
    return f"<text {attributes}{more}>{title}{_escaped(text)}</text>"


def _width(text: str) -> float:
    """Return about how wide a text is."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return _LETTER * (len(text) + 0.9 * wide)


def _cut(text: str, most: int) -> str:
    """Return a text of at most `most` letters, without its middle if it is longer: names often
    differ at their end."""
    if len(text) <= most:
        return text
    tail = max((most - 1) // 2, 0)
    return f"{text[: max(most - 1 - tail, 0)]}\N{HORIZONTAL ELLIPSIS}{text[len(text) - tail :]}"


def _wrapped(text: str, width: float) -> list[str]:
    """Return a text in lines that fit, two at most."""
    most = int(width / _LETTER)
    if not text:
        return []
    if len(text) <= most:
        return [text]
    cut = text.rfind(" ", 0, most + 1)
    if cut <= 0:
        return [_cut(text, most)]
    return [text[:cut], _cut(text[cut + 1 :], most)]


def _fit(places: Sequence[float], texts: Sequence[str]) -> bool:
    """Return whether texts in the middle of these places do not touch."""
    return all(
        b - a >= (_width(one) + _width(two)) / 2 + 6
        for a, b, one, two in zip(places, places[1:], texts, texts[1:], strict=False)
    )
