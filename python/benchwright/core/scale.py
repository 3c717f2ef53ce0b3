"""The unit and the decimals of figures that stand together.

Purpose: one rule for every table, on a terminal, on a page and in a document, so that a column has
one unit and its figures the same decimals. Non-goal: a figure that stands alone (`core/text.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from benchwright.core.text import (
    ABSENT,
    SCALED_UNITS,
    decimals_for,
    fixed_text,
    number_text,
    unit_for,
    written_unit,
)

_MOST_DECIMALS = 6


class Scale(msgspec.Struct, frozen=True):
    """The unit and the decimals of figures that stand together."""

    size: float
    """Of the unit in which they are shown."""
    unit: str
    decimals: int | None
    """None: each figure by itself, with `digits` significant digits."""
    digits: int = 4

    def heading(self, label: str) -> str:
        """Return the heading of a column whose cells have no unit."""
        return f"{label} [{self.unit}]" if self.unit else label

    def text(self, value: float | None, *, unit: bool = True) -> str:
        """Return a value as it is shown; without `unit` for an end of an interval."""
        if value is None or not math.isfinite(value):
            return ABSENT if value is None or math.isnan(value) else "unbounded"
        scaled = value / self.size
        if self.decimals is None:
            text = number_text(scaled, self.digits)
        else:
            text = fixed_text(scaled, self.decimals)
        if not unit or not self.unit:
            return text
        return f"{text}{self.unit}" if self.unit.startswith("/") else f"{text} {self.unit}"


def scale_of(
    values: Iterable[float | None], unit: str, digits: int = 4, ends: Iterable[float | None] = ()
) -> Scale:
    """Return the scale that suits values of this unit: `digits` significant digits of the largest,
    one less of the smallest, and no zeros at the end of all. Where that takes more than six
    decimals, each by itself. Seconds and bytes are in the unit that suits the median.

    `ends` have the same scale without deciding on its digits, as the ends of intervals do.
    """
    known = [value for value in values if value and math.isfinite(value)]
    units = SCALED_UNITS.get(unit)
    size, name = (1.0, written_unit(unit)) if units is None else common_unit(known, units)
    shown = [end for end in (*known, *ends) if end and math.isfinite(end)]
    if not known:
        return Scale(size, name, None if shown else 0, digits)
    sizes = [abs(value) / size for value in known]
    decimals = max(decimals_for(max(sizes), digits), decimals_for(min(sizes), digits - 1))
    if decimals > _MOST_DECIMALS:
        return Scale(size, name, None, digits)
    texts = [number_text(value / size, digits) for value in shown]
    needed = max(len(text.partition(".")[2]) for text in texts)
    return Scale(size, name, min(decimals, needed), digits)


def alike(values: Iterable[float | None], digits: int = 4) -> bool:
    """Return whether the largest of these figures is less than 10 to the power of `digits` times
    the smallest: with one unit, each has a digit in the places of the others."""
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    return not sizes or max(sizes) < 10**digits * min(sizes)


def common_unit(
    values: Sequence[float | None], units: Sequence[tuple[float, str]]
) -> tuple[float, str]:
    """Return the unit that suits the median of the values; without one, the plain unit."""
    sizes = sorted(abs(v) for v in values if v and math.isfinite(v))
    if not sizes:
        return next((unit for unit in units if unit[0] == 1), units[0])
    return unit_for(sizes[len(sizes) // 2], units)
