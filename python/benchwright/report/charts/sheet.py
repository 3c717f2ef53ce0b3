"""A page of panels: plain numbers on named axes with their ends and ticks (1, 2, 5 times a power of
ten), composed and tested without drawing.

Purpose: one model for all pictures: of `bw plot`, traces, loads and searches.
Decision: the sheet has all layout that follows from the numbers (positions of bars, stacks,
sideways offsets of values). Rejected: to query matplotlib for the layout after drawing. A value
of None is a gap. Non-goals: colours (`style.py`), drawing (`draw.py`).

Decision: both drawers have ends and ticks from here, so that a file and a page show the same axis.
Positions are multiples of round steps inside the axis; the text is that of `sheet.tick_text`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum

import msgspec

from benchwright.core.text import TIME_UNITS, binary_size_text, percent_text, scaled_text


class AxisUnit(StrEnum):
    """The kind of an axis' numbers, which decides the text of its ticks."""

    NUMBER = ""
    COUNT = "count"
    """Whole numbers; ticks only at whole numbers."""
    SHARE = "share"
    """From 0 to 1, written in percent."""
    TIME = "ns"
    """Nanoseconds, written in the unit that suits: 10 us, 1 ms."""
    BYTES = "bytes"
    """Written in powers of 1024."""


class CurveForm(StrEnum):
    """How a curve is drawn."""

    LINE = "line"
    MARKED = "marked"
    """A line with a marker at each point."""
    STEPS = "steps"
    """Each value holds until the next x."""
    BARS = "bars"
    POINTS = "points"
    """Markers without a line between them."""
    VALUES = "values"
    """Small pale markers: single values beside a summary of them."""
    LEVELS = "levels"
    """A short horizontal line at each point."""
    INTERVALS = "intervals"
    """The intervals alone, on top of bars."""
    OUTLINE = "outline"
    """A filled area; the points are its border."""


class AxisTick(msgspec.Struct, frozen=True):
    """A label on the horizontal axis."""

    x: float
    label: str


def named_ticks(names: Iterable[str]) -> tuple[AxisTick, ...]:
    """Return the ticks of categories at 0, 1, 2, ..."""
    return tuple(AxisTick(float(at), name) for at, name in enumerate(names))


class PanelAxis(msgspec.Struct, frozen=True):
    """One axis of a panel."""

    label: str
    unit: AxisUnit = AxisUnit.NUMBER
    log: bool = False
    low: float | None = None
    """Its lower end; None: that of the data."""
    high: float | None = None
    ticks: tuple[AxisTick, ...] = ()
    """Labels at their positions; empty if the axis shows its numbers."""
    groups: tuple[AxisTick, ...] = ()
    """A second row of labels, under groups of ticks."""
    bare: bool = False
    """Whether it has no labels, because the panel below has them."""


class PanelCurve(msgspec.Struct, frozen=True):
    """The points of one series; the module that composes it decides which curves look alike."""

    label: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    form: CurveForm = CurveForm.LINE
    colour: int = 0
    """Index in the colours of `style.py`, from 0."""
    dash: int = 0
    """Index in its dashes."""
    shape: int | None = None
    """Index in its markers and hatches; None: that of the colour."""
    width: float = 0.7
    """Width of a bar, in the unit of `x`."""
    base: tuple[float, ...] = ()
    """Lower end of each bar; empty: 0."""
    low: tuple[float | None, ...] = ()
    """Lower ends of intervals around `y`: a band of a line, error bars of points. Empty without
    intervals, else as long as `x`."""
    high: tuple[float | None, ...] = ()
    names: tuple[str, ...] = ()
    """What each point is, such as `trial 12`, where a page shows it; empty: its position."""

    def __post_init__(self) -> None:
        assert len(self.low) == len(self.high)
        assert not self.low or len(self.low) == len(self.x)
        assert not self.base or len(self.base) == len(self.x)
        assert not self.names or len(self.names) == len(self.x)


def ecdf_steps(values: Iterable[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return x and y of the share of values at or below each of them, for `CurveForm.STEPS`;
    empty without values."""
    ordered = sorted(values)
    if not ordered:
        return (), ()
    return (ordered[0], *ordered), tuple(at / len(ordered) for at in range(len(ordered) + 1))


class LevelLine(msgspec.Struct, frozen=True):
    """A level to compare with, drawn across a panel."""

    label: str
    y: float
    left: bool = False
    """Whether its name is at the left end, where the curves leave room."""


class ShadedRange(msgspec.Struct, frozen=True):
    """A shaded range of the horizontal axis; a single value is a range of length 0."""

    label: str
    low: float
    high: float
    at: float | None = None
    """A value in it, drawn as a line."""
    in_legend: bool = False
    """Whether its name is in the legend instead of the panel."""


MEASURED_NAME = "measured"
OPEN_NAME = "claim not held"
"""Names of the two kinds of points of a map in its legend."""


class OpenPoint(msgspec.Struct, frozen=True):
    """A sample on a map whose search ended without its claim."""

    x: float
    y: float
    height: float
    """The best answer, or a bound."""
    text: str
    """What is written beside it: `~700`, `≥ 250`."""


class HeightGrid(msgspec.Struct, frozen=True):
    """A quantity over two axes, drawn as contours, as a relief or as cells."""

    x_at: tuple[float, ...]
    y_at: tuple[float, ...]
    heights: tuple[tuple[float, ...], ...]
    """One row for each of `y_at`, with one value for each of `x_at`; NaN (only in cells) is
    unknown."""
    scale: tuple[float, float]
    """The heights of the first and the last colour."""
    points: tuple[tuple[float, float, float], ...] = ()
    """x, y and height of each measured sample."""
    open_points: tuple[OpenPoint, ...] = ()
    """Samples that are not measured: drawn with another marker, and with a legend."""
    relief: bool = False
    cells: bool = False
    """Whether each height is a cell of one colour. It then reaches from its `x_at` to the next
    one; `x_at` has one more value, the end of the last cell."""
    unit: AxisUnit = AxisUnit.NUMBER
    """Unit of the heights."""


class Panel(msgspec.Struct, frozen=True):
    """Curves on one pair of axes, or a grid of heights."""

    title: str
    x: PanelAxis
    y: PanelAxis
    curves: tuple[PanelCurve, ...] = ()
    marks: tuple[LevelLine, ...] = ()
    spans: tuple[ShadedRange, ...] = ()
    missing: str = ""
    """Why there is nothing to draw; empty if there is something."""
    grid: HeightGrid | None = None
    sideways: bool = False
    """Whether the horizontal axis `x` is drawn downwards and `y` to the right: one row for each
    category, so that long names fit. Only for points, intervals and bars."""

    def legend(self) -> dict[str, PanelCurve | ShadedRange]:
        """Return what a legend names, each label once: the curves, then the ranges."""
        found: dict[str, PanelCurve | ShadedRange] = {}
        for curve in self.curves:
            found.setdefault(curve.label, curve)
        for span in self.spans:
            if span.in_legend:
                found.setdefault(span.label, span)
        found.pop("", None)
        return found


LARGEST = 1e300
SMALLEST = 1e-300
"""Of larger numbers, and of smaller ones on a logarithmic axis, the margins and ticks of an axis
cannot be computed: a float ends at 1.8e308."""
_UNDRAWN = "Not drawn: its values are too large, or too far apart, for a chart."


def _numbers(panel: Panel) -> Iterator[float | None]:
    """Yield every number that decides where something of a panel is drawn."""
    for curve in panel.curves:
        for row in (curve.x, curve.y, curve.base, curve.low, curve.high):
            yield from row
    yield from (mark.y for mark in panel.marks)
    for span in panel.spans:
        yield from (span.low, span.high, span.at)
    for axis in (panel.x, panel.y):
        yield from (axis.low, axis.high)
    if panel.grid is not None:
        yield from (*panel.grid.x_at, *panel.grid.y_at, *panel.grid.scale)


def empty_panel(why: str) -> Panel:
    """Return a panel that says why there is nothing to draw."""
    return Panel("", PanelAxis(""), PanelAxis(""), missing=why)


def _drawable(panel: Panel) -> Panel:
    """Return a panel, or one that says why it is not drawn."""
    least = SMALLEST if panel.x.log or panel.y.log else 0.0
    if all(
        value is None or not value or least <= abs(value) <= LARGEST for value in _numbers(panel)
    ):
        return panel
    return Panel(panel.title, panel.x, panel.y, missing=panel.missing or _UNDRAWN)


class Sheet(msgspec.Struct, frozen=True):
    """Everything that one page shows."""

    title: str
    panels: tuple[Panel, ...]
    columns: int = 2
    note: str = ""
    """Text at the bottom: what is not drawn, and why."""
    ylabel: str = ""
    """Label of the vertical axis of all panels, written once."""
    whole_page: bool = False
    """Whether the style's size is that of the page, with one legend for all panels; else it is
    that of a panel, and each panel has its own legend unless all are equal."""

    def drawable(self) -> tuple[Panel, ...]:
        """Return the panels, with one that says so for each that cannot be drawn: every renderer
        draws these."""
        return tuple(map(_drawable, self.panels))

    def shared_labels(self) -> tuple[str, ...]:
        """Return the labels if all panels have the same two or more, so that one legend for the
        page is enough; else none."""
        drawn = [
            tuple((curve.label, curve.colour, curve.dash) for curve in panel.curves)
            for panel in self.panels
            if not panel.missing
        ]
        if len(drawn) < 2 or len(drawn[0]) < 2 or len(set(drawn)) > 1:
            return ()
        return tuple(label for label, _, _ in drawn[0])


def tick_text(value: float, axis: PanelAxis) -> str:
    """Return the text of a tick, in its axis' unit: `10 us`, `64 KiB`, `95 %`."""
    if axis.unit is AxisUnit.SHARE:
        return percent_text(value, 6)
    if not value:
        return "0"
    if axis.unit is AxisUnit.TIME:
        return scaled_text(value / 1e9, TIME_UNITS, 4)
    if axis.unit is AxisUnit.BYTES:
        return binary_size_text(value)
    if axis.log and not 1e-4 <= abs(value) < 1e5:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    if not axis.log and 1e6 <= abs(value) < 1e12:
        return f"{value:,.0f}"
    return f"{value:,.6g}"


def binary_step(span: float) -> float:
    """Return the power of two that divides a span into 4 to 8 steps; 1 for an empty span."""
    return 2.0 ** math.floor(math.log2(span / 4)) if span > 0 else 1.0


_STEPS = (1.0, 2.0, 5.0, 10.0)
_MULTIPLES = ((1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))
"""Multiples of powers of ten on a logarithmic axis; the first that are few enough are taken."""
_FEWEST = 3
"""A logarithmic axis with fewer such multiples is nearly linear and has linear ticks."""
_EPS = 1e-9
_ROUNDING = 1e-13
"""Relative distance of values that differ by the rounding of their computation only."""


def axis_ends(panel: Panel, along: bool) -> tuple[float, float]:
    """Return the ends of an axis: the given ones, else those of the data with a margin."""
    axis = panel.x if along else panel.y
    values = [*_values(panel, along), *(tick.x for tick in axis.ticks)]
    if axis.log:
        values = [value for value in values if value > 0]
    low, high = min(values, default=0.0), max(values, default=1.0)
    joined = along and any(c.form in (CurveForm.LINE, CurveForm.MARKED) for c in panel.curves)
    if panel.grid is not None:
        margin = 0.5 if panel.grid.cells and not along else 0.0
        low, high = low - margin, high + margin
    elif axis.ticks and not joined:
        low, high = low - 0.5, high + 0.5
    elif axis.log:
        low, high = (low, high) if values else (1.0, 10.0)
        room = (high / low) ** 0.05 if high > low else 1.2
        low, high = low / room, high * room
    else:
        # Values that differ by a rounding error are one value.
        extent = high - low if high - low > _ROUNDING * abs(high) else 0.0
        room = extent * (0.03 if along else 0.06) or abs(high) * 0.05 or 0.5
        bars = not along and any(c.form is CurveForm.BARS for c in panel.curves)
        low = 0.0 if bars and low == 0 else low - room
        high = 0.0 if bars and high == 0 else high + room
    low = low if axis.low is None or (axis.log and axis.low <= 0) else axis.low
    high = high if axis.high is None else axis.high
    return (low, high) if high > low else (low, low + 1.0)


def _values(panel: Panel, along: bool) -> Iterator[float]:
    """Yield every number that an axis must include."""
    if panel.grid is not None:
        yield from panel.grid.x_at if along else panel.grid.y_at
        return
    for curve in panel.curves:
        if along:
            half = curve.width / 2 if curve.form is CurveForm.BARS else 0.0
            for x in curve.x:
                yield from (x - half, x + half)
            continue
        rows: tuple[Sequence[float | None], ...] = (curve.y, curve.low, curve.high)
        if curve.form is CurveForm.INTERVALS:
            rows = rows[1:]
        bases = curve.base or (0.0,) * len(curve.x)
        bars = curve.form is CurveForm.BARS
        for row in rows:
            for base, value in zip(bases, row, strict=False):
                if value is not None:
                    yield base + value if bars and row is curve.y else value
        if bars:
            yield from bases
    if along:
        for span in panel.spans:
            yield from (span.low, span.high)
    else:
        yield from (mark.y for mark in panel.marks)


def tick_positions(low: float, high: float, axis: PanelAxis, most: int) -> tuple[float, ...]:
    """Return at most `most` round positions from `low` to `high`, ascending.

    On a logarithmic axis (both ends above 0) they are multiples of powers of ten, or powers
    of four for bytes. The result can be empty if no round number is inside, or if a float cannot
    express the distances of the axis.
    """
    if max(abs(low), abs(high)) > LARGEST or 0 < high - low < SMALLEST:
        return ()
    if axis.log:
        found = _log_positions(low, high, axis.unit, most)
        if len(found) >= _FEWEST or high > 10 * low:
            return tuple(found[:: max(1, -(-len(found) // most))])
    whole = axis.unit is AxisUnit.COUNT
    if axis.unit is AxisUnit.BYTES:
        step = binary_step(high - low)
    else:
        step = round_step(max((high - low) / most, 1.0 if whole else 0.0))
    while True:
        # A tick may be outside by a rounding error: a billionth of the step, or of the axis, which
        # can be much shorter than a step of 1.
        slack = _EPS * min(1.0, (high - low) / step)
        first = math.ceil(low / step - slack)
        last = math.floor(high / step + slack)
        if last - first < most:
            # Positions of an axis as short as the distance of two floats can be equal.
            return tuple(dict.fromkeys(at * step for at in range(first, last + 1)))
        step = 2 * step if axis.unit is AxisUnit.BYTES else round_step(1.01 * step)


def fitting_ticks(
    low: float, high: float, axis: PanelAxis, fits: Callable[[Sequence[float], Sequence[str]], bool]
) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Return as many positions, with their texts, as stand side by side: 8 at most, 2 if no number
    of them fits."""
    for most in range(8, 1, -1):
        at = tick_positions(low, high, axis, most)
        labels = tick_labels(at, axis)
        if fits(at, labels):
            break
    return at, labels


def round_step(least: float) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that is at least `least`."""
    if not least > 0 or not math.isfinite(least):
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(s * power for s in _STEPS if s * power >= least * (1 - _EPS))


def tick_labels(positions: tuple[float, ...], axis: PanelAxis) -> tuple[str, ...]:
    """Return the positions' texts; plain numbers have the same number of decimals."""
    plain = axis.unit in (AxisUnit.NUMBER, AxisUnit.COUNT) and not axis.log
    if not plain or any(abs(at) >= 1e5 for at in positions) or len(positions) < 2:
        return tuple(tick_text(at, axis) for at in positions)
    step = positions[1] - positions[0]
    decimals = max(0, -math.floor(math.log10(step) + _EPS))
    if decimals > 6:
        return tuple(tick_text(at, axis) for at in positions)
    return tuple(f"{at + 0.0:,.{decimals}f}" for at in positions)


def _log_positions(low: float, high: float, unit: AxisUnit, most: int) -> list[float]:
    if unit is AxisUnit.BYTES:
        first, last = (math.log(end, 4) for end in (low, high))
        whole = range(math.ceil(first - _EPS), math.floor(last + _EPS) + 1)
        return [4.0**at for at in whole]
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for multiples in _MULTIPLES:
        all_of_them = (m * 10.0**power for power in powers for m in multiples)
        found = [at for at in all_of_them if low * (1 - _EPS) <= at <= high * (1 + _EPS)]
        if len(found) <= most:
            break
    return found
