"""Tables of text: aligned columns, the unit in the heading, the same digits in a column.

Purpose: every table that a report prints. Decision: a table is a list of columns, not of
rows, because the unit, the number of decimals and the width depend on all values of a column.
Rows that are too long are wrapped within their cells.
Non-goals: CSV, Markdown and LaTeX, which are formats (views/stats.py).
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

import msgspec

from benchwright.core.scale import Scale, scale_of


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
    cells, unit = cells_in_unit(tuple(seconds), "s", digits)
    return TextColumn(f"{heading} {unit}", tuple(cells))


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


def cells_in_unit(
    values: Sequence[float | None],
    unit: str,
    digits: int = 4,
    typical: Sequence[float | None] | None = None,
) -> tuple[list[str], str]:
    """Return numbers in the scale that suits them all (`core/scale.py`), and its unit. `typical`
    values decide instead of all of them."""
    scale = scale_of(values if typical is None else typical, unit, digits, ends=values)
    return [_cell(value, scale) for value in values], scale.unit


def number_cells(
    values: Sequence[float | None], digits: int = 4, typical: Sequence[float | None] | None = None
) -> list[str]:
    """Return pure numbers as `cells_in_unit` does."""
    return cells_in_unit(values, "1", digits, typical)[0]


def _cell(value: float | None, scale: Scale) -> str:
    return "never" if value == math.inf else scale.text(value, unit=False)


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
