"""A page of panels: plain numbers on named axes, composed and tested without drawing.

Purpose: the one model of every picture, of `bw plot` as of a trace, a load or a search.
Decision: layout that follows from the numbers (where a bar stands, what is stacked on what,
how values are spread sideways) is in the sheet, so that drawing only draws; handing
matplotlib the data and asking it afterwards lost. A value that is None is a gap. Non-goals:
colours (`style.py`), drawing (`draw.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from benchwright.core.text import (
    TIME_UNITS,
    binary_size_text,
    percent_text,
    scaled_text,
)


class AxisUnit(StrEnum):
    """What an axis' numbers are, which decides how its ticks are written."""

    NUMBER = ""
    COUNT = "count"
    """Whole numbers, with ticks at no others."""
    SHARE = "share"
    """From 0 to 1, written in per cent."""
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
    """A filled area whose border the points are."""


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
    """Where it begins; None: where the data does."""
    high: float | None = None
    ticks: tuple[AxisTick, ...] = ()
    """Labels at their places; empty where the axis writes its own numbers."""
    groups: tuple[AxisTick, ...] = ()
    """A second row of labels, under groups of ticks."""
    bare: bool = False
    """Without labels: the panel below has them."""


class PanelCurve(msgspec.Struct, frozen=True):
    """Points of one thing. What is composed decides which curves look alike."""

    label: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    form: CurveForm = CurveForm.LINE
    colour: int = 0
    """Place among the colours of `style.py`, from 0."""
    dash: int = 0
    """Place among its dashes."""
    shape: int | None = None
    """Place among its markers and hatches; None: that of the colour."""
    width: float = 0.7
    """Of a bar, in the unit of `x`."""
    base: tuple[float, ...] = ()
    """Where each bar begins; empty: at 0."""
    low: tuple[float | None, ...] = ()
    """Lower ends of intervals around `y`: a band about a line, bars about points. Empty
    where there is none, else as long as `x`."""
    high: tuple[float | None, ...] = ()

    def __post_init__(self) -> None:
        assert len(self.low) == len(self.high)
        assert not self.low or len(self.low) == len(self.x)
        assert not self.base or len(self.base) == len(self.x)


class LevelLine(msgspec.Struct, frozen=True):
    """A level to compare with, drawn across a panel."""

    label: str
    y: float
    left: bool = False
    """Its name stands at the left end, where the curves leave room."""


class ShadedRange(msgspec.Struct, frozen=True):
    """A range along the panel that is set off from the rest; a value is a range without
    length."""

    label: str
    low: float
    high: float
    at: float | None = None
    """A value in it, drawn as a line."""
    in_legend: bool = False
    """Its name stands in the legend, not in the panel."""


class HeightGrid(msgspec.Struct, frozen=True):
    """A quantity over two factors, drawn as contours or as a relief."""

    x_at: tuple[float, ...]
    y_at: tuple[float, ...]
    heights: tuple[tuple[float, ...], ...]
    """A row for each of `y_at`, a column for each of `x_at`."""
    scale: tuple[float, float]
    """The heights that the first and the last colour stand for."""
    points: tuple[tuple[float, float, float], ...] = ()
    """x, y and height of what was measured there."""
    relief: bool = False


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


class Sheet(msgspec.Struct, frozen=True):
    """Everything that one page shows."""

    title: str
    panels: tuple[Panel, ...]
    columns: int = 2
    note: str = ""
    """At the foot: what is not drawn, and why."""
    ylabel: str = ""
    """Of all panels, written once."""
    whole_page: bool = False
    """Whether the style's size is the page's, and one legend is for all panels; else the
    size is a panel's, and each panel has a legend of its own unless all are alike."""

    def shared_labels(self) -> tuple[str, ...]:
        """Return the labels that every panel has alike, two at least; else none.

        One legend for the page then does for all.
        """
        drawn = [
            tuple((curve.label, curve.colour, curve.dash) for curve in panel.curves)
            for panel in self.panels
            if not panel.missing
        ]
        if len(drawn) < 2 or len(drawn[0]) < 2 or len(set(drawn)) > 1:
            return ()
        return tuple(label for label, _, _ in drawn[0])


def tick_text(value: float, axis: PanelAxis) -> str:
    """Return what stands at a tick: a value in its axis' unit, `10 us`, `64 KiB`, `95 %`."""
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
    """Return the power of two of which 4 to 8 make up a span; 1 of nothing."""
    return 2.0 ** math.floor(math.log2(span / 4)) if span > 0 else 1.0
