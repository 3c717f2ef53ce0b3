"""How a chart looks, as a user asks for it: sizes, places, texts, limits.

Purpose: the options of Graphit with gnuplot's words where it had them (`top right`,
`outside`, `off`). Decision: texts are parsed here into frozen values, so that drawing
meets no mistakes. Non-goals: colours, markers (`look.py`). Source: Auto-pilot paper
section 3.4; gnuplot's `help set key`.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

Region = Literal["inside", "outside", "above", "below", "left", "right", "off", "auto"]
FORMATS = ("eps", "pdf", "svg", "png")
_INCHES = {"in": 1.0, "": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*[x,]\s*(\d+(?:\.\d+)?)\s*(in|cm|mm|pt)?")
_SMALLEST_IN, _LARGEST_IN = 1.0, 100.0
_ROWS: dict[str, Literal["top", "bottom"]] = {"top": "top", "bottom": "bottom"}
_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")
_REGIONS: dict[str, Region] = {
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
KEY_WORDS = (
    *("top", "bottom", "left", "right", "center", "inside", "outside", "above"),
    *("below", "lmargin", "rmargin", "box", "off"),
)
"""The words of a legend's place that are told; gnuplot's synonyms are taken too."""


class Key(msgspec.Struct, frozen=True):
    """Where the legend is."""

    region: Region = "auto"
    """`auto`: above the chart, where it hides nothing; none where it would say nothing."""
    row: Literal["top", "center", "bottom"] = "top"
    side: Literal["left", "center", "right"] = "right"
    box: bool = False


class Spacing(msgspec.Struct, frozen=True):
    """Widths and gaps of bars, all in one unit of their own: only their ratios count."""

    bar: float = 1.0
    gap: float = 0.15
    """Between the bars of a group."""
    group: float = 0.9
    """Between groups."""


class Style(msgspec.Struct, frozen=True):
    """How the chart looks; None is: decided by what is drawn."""

    width_in: float = 6.0
    height_in: float = 4.0
    fontsize_pt: float = 11.0
    title: str = ""
    key: Key = Key()
    rotate_deg: float | None = None
    """Of the labels under the axis."""
    logx: bool = False
    logy: bool = False
    ymin: float | None = None
    ymax: float | None = None
    dpi: int = 150


def parse_size(text: str) -> tuple[float, float]:
    """Return width and height [in] of `6x4in`, `15x10cm`, `150x100mm`. Raises ValueError."""
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(f"{text!r} is no size such as 6x4in or 15x10cm")
    factor = _INCHES[match[3] or ""]
    width, height = float(match[1]) * factor, float(match[2]) * factor
    for side in (width, height):
        if not _SMALLEST_IN <= side <= _LARGEST_IN:
            raise ValueError(f"{text!r}: each side is from 1 to 100 inches")
    return width, height


def parse_key(text: str) -> Key:
    """Return the legend's place: `top right`, `outside`, `below`, `off`. ValueError.

    Gnuplot's words for what we do not have (such as `vertical`) are mistakes too.
    """
    words = text.lower().replace(",", " ").replace("centre", "center").split()
    if not words:
        raise ValueError(f"no place of a legend; there are: {', '.join(KEY_WORDS)}")
    known = {*_OFF, *_REGIONS, *_ROWS, *_SIDES, "center", "box", "nobox", "on"}
    for word in words:
        if word not in known:
            there = ", ".join(KEY_WORDS)
            raise ValueError(f"{word!r} is no place of a legend; there are: {there}")
    if any(word in _OFF for word in words):
        return Key("off")
    regions: list[Region] = [_REGIONS[word] for word in words if word in _REGIONS]
    return Key(
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
