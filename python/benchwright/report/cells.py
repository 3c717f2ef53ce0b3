"""The columns of Getstats' table and how a figure is written in a cell.

Source: Auto-pilot paper, Figure 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from benchwright.report.document import Line, Section

ABSENT: Final = "-"
"""What a table shows for a figure that the data do not give."""

FIGURES: Final[tuple[tuple[str, Callable[[Line], float]], ...]] = (
    ("MEAN", lambda line: line.summary.mean),
    ("MEDIAN", lambda line: line.summary.median),
    ("LOW", lambda line: line.summary.low),
    ("HIGH", lambda line: line.summary.high),
    ("MIN", lambda line: line.summary.minimum),
    ("MAX", lambda line: line.summary.maximum),
    ("SDEV%", lambda line: line.sdev_percent),
    ("HW%", lambda line: line.half_width_percent),
)
OVERHEAD: Final = "O/H"
MOST_DECIMALS: Final = 9
"""A nanosecond, in seconds; anything smaller is written in scientific form."""


def percent(value: float) -> str:
    """Return a percentage with three decimals, `-` for one that is not there."""
    if not math.isfinite(value):
        return ABSENT
    if abs(value) >= 1e15:
        return f"{value:.4e}"
    text = f"{value:.3f}"
    return "0.000" if text == "-0.000" else text


def number(value: float, decimals: int = 3) -> str:
    """Return a figure in its unit, `-` for one that is not there."""
    if not math.isfinite(value):
        return ABSENT
    if abs(value) >= 1e15 or 0 < abs(value) < 10.0**-MOST_DECIMALS:
        return f"{value:.4e}"
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def decimals_of(line: Line) -> int:
    """Return how many decimals a row is written with: three, as Getstats has it, and
    more where its values are below 1, so that four digits of them are seen."""
    return decimals_for(max(abs(line.summary.mean), abs(line.summary.maximum)))


def decimals_for(size: float) -> int:
    """Return how many decimals figures of at most this size are written with."""
    if not math.isfinite(size) or size >= 1 or size == 0:
        return 3
    return min(3 - math.floor(math.log10(size)), MOST_DECIMALS)


def heading(section: Section) -> list[str]:
    """Return the column headings of one section; O/H only where there is a baseline."""
    names = ["NAME", "COUNT", *(name for name, _ in FIGURES)]
    return [*names, OVERHEAD] if has_overhead(section) else names


def cells(line: Line) -> list[str]:
    """Return one quantity's cells, as many as the section's heading has."""
    decimals = decimals_of(line)
    texts = [line.summary.label, str(line.summary.count)]
    texts.extend(
        percent(figure(line)) if name.endswith("%") else number(figure(line), decimals)
        for name, figure in FIGURES
    )
    if line.overhead_percent is not None:
        texts.append(percent(line.overhead_percent))
    return texts


def has_overhead(section: Section) -> bool:
    """Return whether a section is compared with a baseline."""
    return any(line.overhead_percent is not None for line in section.lines)
