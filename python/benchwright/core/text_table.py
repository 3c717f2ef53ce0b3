"""Tables of text: aligned columns, the unit in the heading, the same digits in a column.

Purpose: every table that a report prints. Decision: a table is a list of columns, not of
rows, because the unit, the number of decimals and the width depend on all values of a column.
Rows that are too long are wrapped within their cells.
Non-goals: CSV, Markdown and LaTeX, which are formats (report/stats_formats.py).
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

import msgspec

from benchwright.core.text import (
    DECIMAL_UNITS,
    TIME_UNITS,
    decimals_for,
    fixed_text,
    number_text,
    unit_for,
    written_unit,
)

_MOST_DECIMALS = 6


class TextColumn(msgspec.Struct, frozen=True):
    """A column: its heading and its cells from top to bottom."""

    heading: str
    cells: tuple[str, ...]
    left: bool = False
    """Aligned to the left: words; figures are aligned to the right."""
    width: int = 0
    """The least width; where `wrap` is set, the greatest."""
    wrap: bool = False
    """Longer cells are broken into lines of `width`."""


def text_column(heading: str, cells: Iterable[str]) -> TextColumn:
    """Return a column of figures that are already text."""
    return TextColumn(heading, tuple(cells))


def word_column(heading: str, cells: Iterable[str], width: int = 0) -> TextColumn:
    """Return a column of words, at least `width` wide."""
    return TextColumn(heading, tuple(cells), left=True, width=width)


def number_column(heading: str, values: Iterable[float | None], digits: int = 4) -> TextColumn:
    """Return a column of numbers; `-` for None and NaN, `never` for infinity."""
    return TextColumn(heading, tuple(number_cells(tuple(values), digits)))


def number_columns(
    headings: Sequence[str], rows: Sequence[Sequence[float | None]], digits: int = 4
) -> list[TextColumn]:
    """Return columns of numbers that are compared along a row: an estimate and the ends
    of its interval have the same decimals. Each of `rows` has a value for each heading."""
    cells = number_cells([value for row in rows for value in row], digits)
    count = len(headings)
    return [
        TextColumn(heading, tuple(cells[place::count])) for place, heading in enumerate(headings)
    ]


def percent_column(heading: str, shares: Iterable[float | None], digits: int = 3) -> TextColumn:
    """Return a column of shares in per cent, ` %` added to the heading."""
    values = [None if share is None else 100 * share for share in shares]
    return number_column(f"{heading} %", values, digits)


def duration_column(heading: str, seconds: Iterable[float | None], digits: int = 3) -> TextColumn:
    """Return a column of times in the unit that suits them all, added to the heading."""
    values = tuple(seconds)
    scale, unit = common_unit(values, TIME_UNITS)
    cells = number_cells([None if s is None else s / scale for s in values], digits)
    return TextColumn(f"{heading} {unit}", tuple(cells))


def spread_column(column: TextColumn, places: Sequence[int], count: int) -> TextColumn:
    """Return a column of `count` rows with the cells at these places, the others empty."""
    cells = [""] * count
    for place, cell in zip(places, column.cells, strict=True):
        cells[place] = cell
    return msgspec.structs.replace(column, cells=tuple(cells))


def fitting(columns: Sequence[tuple[int, TextColumn]], width: int) -> list[TextColumn]:
    """Return the columns whose table fits into `width`. Each has a rank: the highest are left out
    first, and those of rank 0 never."""
    left = list(columns)
    while True:
        shown = [column for _, column in left]
        needed = max(map(len, table_lines(shown)), default=0)
        dropped = max((rank for rank, _ in left), default=0)
        if needed <= width or not dropped:
            return shown
        left = [pair for pair in left if pair[0] != dropped]


def common_unit(
    values: Sequence[float | None], units: Sequence[tuple[float, str]]
) -> tuple[float, str]:
    """Return the unit that suits the median of the values; without one, the plain unit."""
    sizes = sorted(abs(v) for v in values if v and math.isfinite(v))
    if not sizes:
        return next((one for one in units if one[0] == 1), units[0])
    return unit_for(sizes[len(sizes) // 2], units)


def cells_in_unit(
    values: Sequence[float | None],
    unit: str,
    digits: int = 4,
    typical: Sequence[float | None] | None = None,
) -> tuple[list[str], str]:
    """Return numbers with the same decimals in the unit that suits them all, and that unit: of
    seconds and bytes a smaller or larger one, of pure numbers (`1`) none. `typical` values decide
    instead of all of them."""
    units = {"s": TIME_UNITS, "B": DECIMAL_UNITS}.get(unit)
    deciding = values if typical is None else typical
    scale, name = (1.0, written_unit(unit)) if units is None else common_unit(deciding, units)

    def scaled(figures: Sequence[float | None]) -> list[float | None]:
        return [None if figure is None else figure / scale for figure in figures]

    return number_cells(scaled(values), digits, scaled(deciding)), name


def number_cells(
    values: Sequence[float | None], digits: int = 4, typical: Sequence[float | None] | None = None
) -> list[str]:
    """Return numbers with the same decimals: `digits` significant digits of the largest,
    one less of the smallest, and no zeros at the end of all. Where that takes more than
    six decimals, each number by itself. `typical` values decide instead of all of them."""
    plain = [_cell(value, digits) for value in values]
    deciding = values if typical is None else typical
    sizes = [abs(v) for v in deciding if v and math.isfinite(v)]
    if not sizes:
        return plain
    decimals = max(decimals_for(max(sizes), digits), decimals_for(min(sizes), digits - 1))
    if decimals > _MOST_DECIMALS:
        return plain
    decimals = min(decimals, max(len(text.partition(".")[2]) for text in plain))
    return [
        text if v is None or not math.isfinite(v) else fixed_text(v, decimals)
        for text, v in zip(plain, values, strict=True)
    ]


def _cell(value: float | None, digits: int) -> str:
    return "never" if value == math.inf else number_text(value, digits)


def table_lines(
    columns: Sequence[TextColumn], *, gap: str = "  ", indent: str = ""
) -> Iterator[str]:
    """Yield the headings, where there are any, and the rows, without blanks at their ends.

    A missing cell of a short column is empty.
    """
    headings = tuple(column.heading for column in columns)
    rows = list(zip_longest(*(column.cells for column in columns), fillvalue=""))
    widths = [_width(column) for column in columns]
    for row in ([headings] if any(headings) else []) + rows:
        cells = [_wrapped(cell, column) for cell, column in zip(row, columns, strict=True)]
        for parts in zip_longest(*cells, fillvalue=""):
            line = gap.join(
                part.ljust(width) if column.left else part.rjust(width)
                for part, column, width in zip(parts, columns, widths, strict=True)
            )
            yield (indent + line).rstrip()


def _width(column: TextColumn) -> int:
    if column.wrap:
        return column.width
    return max(column.width, len(column.heading), *map(len, column.cells), 0)


def _wrapped(cell: str, column: TextColumn) -> list[str]:
    if not column.wrap:
        return [cell]
    return textwrap.wrap(cell, column.width, break_on_hyphens=False) or [""]


Field = tuple[str, str]
"""A name and its text; without a name it continues the previous field."""


def field_lines(fields: Iterable[Field], width: int = 0) -> Iterator[str]:
    """Yield names and texts, the texts below each other: `peak rate  236.34/s`; names
    have the width of the widest, at least `width`."""
    shown = list(fields)
    width = max([width, *(len(name) for name, _ in shown)])
    for name, text in shown:
        yield f"{name:<{width}}  {text}".rstrip()
