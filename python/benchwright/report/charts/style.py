"""The appearance of a chart: the user's options, and the colours, markers, dashes and hatches."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

# -- The user's options: sizes, legend, texts, limits -----------------------------------
#
# Purpose: the options of Graphit, with gnuplot's words where Graphit used them (`top right`,
# `outside`, `off`). Decision: texts are parsed and checked here into frozen values, before
# drawing. Non-goals: colours, markers.
# Sources: Auto-pilot paper, section 3.4; gnuplot's `help set key`.

LegendRegion = Literal["inside", "outside", "above", "below", "left", "right", "off", "auto"]
IMAGE_FORMATS = ("eps", "pdf", "svg", "png")
_INCHES = {"in": 1.0, "": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*[x,]\s*(\d+(?:\.\d+)?)\s*(in|cm|mm|pt)?")
_SMALLEST_IN, _LARGEST_IN = 1.0, 100.0
_ROWS: dict[str, Literal["top", "bottom"]] = {"top": "top", "bottom": "bottom"}
_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")
_REGIONS: dict[str, LegendRegion] = {
    "inside": "inside",
    "outside": "outside",
    "out": "outside",
    "above": "above",
    "over": "above",
    "tmargin": "above",
    "below": "below",
    "under": "below",
    "bmargin": "below",
    "lmargin": "left",
    "rmargin": "right",
}
_OFF = ("off", "none", "nokey")
LEGEND_WORDS = (
    *("top", "bottom", "left", "right", "center", "inside", "outside", "above"),
    *("below", "lmargin", "rmargin", "box", "off"),
)
"""The words for a legend's position in messages; gnuplot's synonyms are accepted too."""


class LegendPlace(msgspec.Struct, frozen=True):
    """The position of the legend."""

    region: LegendRegion = "auto"
    """`auto`: above the chart, where it hides nothing; no legend if one text would be enough."""
    row: Literal["top", "center", "bottom"] = "top"
    side: Literal["left", "center", "right"] = "right"
    box: bool = False


class BarSpacing(msgspec.Struct, frozen=True):
    """Widths and gaps of bars in an arbitrary unit; only their ratios matter."""

    bar: float = 1.0
    gap: float = 0.15
    """Gap between the bars of a group."""
    group: float = 0.9
    """Gap between groups."""


class ChartStyle(msgspec.Struct, frozen=True):
    """The appearance of a chart; for None, the data decide."""

    width_in: float = 6.0
    height_in: float = 4.0
    fontsize_pt: float = 11.0
    title: str = ""
    key: LegendPlace = LegendPlace()
    rotate_deg: float | None = None
    """Rotation of the labels below the axis."""
    logx: bool = False
    logy: bool = False
    ymin: float | None = None
    ymax: float | None = None
    dpi: int = 150


def parse_size(text: str) -> tuple[float, float]:
    """Return width and height [in] from `6x4in`, `15x10cm`, `150x100mm`. Raises ValueError."""
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(f"{text!r} is not a size such as 6x4in or 15x10cm")
    factor = _INCHES[match[3] or ""]
    width, height = float(match[1]) * factor, float(match[2]) * factor
    for side in (width, height):
        if not _SMALLEST_IN <= side <= _LARGEST_IN:
            raise ValueError(f"{text!r}: each side is from 1 to 100 inches")
    return width, height


def parse_legend_place(text: str) -> LegendPlace:
    """Return the legend's position: `top right`, `outside`, `below`, `off`.

    Raises ValueError, also for gnuplot's words that are not supported, such as `vertical`.
    """
    words = text.lower().replace(",", " ").replace("centre", "center").split()
    if not words:
        raise ValueError(f"not a legend position; there are: {', '.join(LEGEND_WORDS)}")
    known = {*_OFF, *_REGIONS, *_ROWS, *_SIDES, "center", "box", "nobox", "on"}
    for word in words:
        if word not in known:
            there = ", ".join(LEGEND_WORDS)
            raise ValueError(f"{word!r} is not a legend position; there are: {there}")
    if any(word in _OFF for word in words):
        return LegendPlace("off")
    regions: list[LegendRegion] = [_REGIONS[word] for word in words if word in _REGIONS]
    return LegendPlace(
        region=regions[-1] if regions else "inside",
        row=_row(words),
        side=_side(words),
        box="box" in words,
    )


def _row(words: list[str]) -> Literal["top", "center", "bottom"]:
    rows = [_ROWS[word] for word in words if word in _ROWS]
    if rows:
        return rows[-1]
    return "center" if "center" in words else "top"


def _side(words: list[str]) -> Literal["left", "center", "right"]:
    sides: list[Literal["left", "right"]] = [w for w in _SIDES if w in words]
    if sides:
        return sides[-1]
    return "center" if "center" in words else "right"


# -- Colours, markers, dashes and hatches that distinguish series, also in greyscale ----
#
# Decision: Okabe and Ito's palette for the common kinds of colour blindness, ordered so that
# neighbours differ in lightness; grey replaces its yellow, which is hardly visible on white
# paper. Colour is never the only difference: bars have hatches, lines have markers and dashes.
# Source: M. Okabe and K. Ito 2008, Color Universal Design.

Dash = str | tuple[int, tuple[float, ...]]
_COLOURS = ("#0072B2", "#E69F00", "#56B4E9", "#D55E00", "#009E73", "#CC79A7", "#000000", "#999999")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES: tuple[Dash, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1, 1.4)),
    (0, (6, 2, 1, 2)),
    (0, (9, 3)),
    (0, (4, 1.5, 1, 1.5, 1, 1.5)),
)
_HATCHES = ("", "///", "...", "xx", "\\\\\\", "++", "oo", "--")
GREY = "#666666"
LIGHT = "#DDDDDD"


class SeriesLook(msgspec.Struct, frozen=True):
    """The appearance of one series."""

    colour: str
    marker: str
    dash: Dash
    hatch: str


def look_of(place: int) -> SeriesLook:
    """Return the look of the series at an index, from 0; 24 differ in colour or dash."""
    return mixed_look(place, place, place)


def mixed_look(colour: int, dash: int, shape: int) -> SeriesLook:
    """Return the look with these indices of colour, dash and shape (marker, hatch)."""
    cycle = shape // len(_COLOURS)
    return SeriesLook(
        colour=_COLOURS[colour % len(_COLOURS)],
        marker=_MARKERS[(shape + cycle) % len(_MARKERS)],
        dash=_DASHES[dash % len(_DASHES)],
        hatch=_HATCHES[(shape + cycle) % len(_HATCHES)],
    )
