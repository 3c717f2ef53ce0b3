"""Renders blocks as lines of a terminal.

A number with an interval becomes three columns, whose digits are compared along a row: the value and
the two ends. Decision: figures are aligned at the right, words at the left, and a table that is
wider than the terminal loses whole columns, the least important first; so a row is never broken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchwright.core.text_table import TextColumn, fitting, table_lines
from benchwright.views.blocks import Cell, Column, Number, TableBlock


def table_text(table: TableBlock, width: int | None = None) -> Iterator[str]:
    """Yield the lines of a table without its title; with `width`, in so many characters.

    A table without rows has no lines.
    """
    if not table.rows:
        return
    columns = [
        one
        for column, cells in zip(table.columns, zip(*table.rows, strict=True), strict=True)
        for one in _text_columns(column, cells)
    ]
    shown = [column for _, column in columns]
    yield from table_lines(shown if width is None else fitting(columns, width))


def _text_columns(column: Column, cells: Sequence[Cell]) -> Iterator[tuple[int, TextColumn]]:
    """Yield the columns of text with their ranks."""
    heading = column.short or f"{column.label[:1].lower()}{column.label[1:]}"
    texts = tuple(cell.text for cell in cells)
    yield column.rank, TextColumn(heading, texts, left=not column.numeric)
    numbers = [cell if isinstance(cell, Number) else None for cell in cells]
    if any(number and number.low_text for number in numbers):
        rank = column.interval_rank or column.rank
        yield rank, TextColumn("low", tuple(one.low_text if one else "" for one in numbers))
        yield rank, TextColumn("high", tuple(one.high_text if one else "" for one in numbers))
