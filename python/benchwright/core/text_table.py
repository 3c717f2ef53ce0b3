"""Tables of text: columns below each other, aligned, with the unit in the heading; and rows as CSV,
the form of every table that other programs read.

Purpose: the layout of tables and of named fields on a terminal. Decision: a table is a list of
columns, not of rows, because the width depends on all cells of a column. Rows that are too long are
wrapped within their cells. Non-goals: what a table contains (views/), the digits of its figures
(`core/text.py`).
"""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

import msgspec

from benchwright.core.text import scale_of


def csv_of_rows(rows: Iterable[Iterable[object]]) -> str:
    """Return rows as CSV (RFC 4180), each ending with `\\n`: floats have all digits, None is an
    empty field."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


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


def percent_column(heading: str, shares: Iterable[float | None], digits: int = 3) -> TextColumn:
    """Return a column of shares in per cent, ` %` added to the heading."""
    values = [None if share is None else 100 * share for share in shares]
    scale = scale_of(values, "%", digits)
    return text_column(f"{heading} %", (scale.text(value, unit=False) for value in values))


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
