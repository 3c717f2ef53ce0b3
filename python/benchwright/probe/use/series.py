"""A series file as a stream of lines that make sense one after the other.

Purpose: whatever stands in the file, what comes after this meets a header first, rows that
fit their columns, and times that rise. Decision: no line is kept, so that an hour of a
large machine is read in the memory of a second. Source: docs/watch-format.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchwright.probe.use.lines import (
    VERSION,
    ColumnsLine,
    End,
    Header,
    Line,
    RowLine,
    SeriesError,
    read_lines,
)


def read_series(path: Path) -> Iterator[Line]:
    """Yield a series' lines, the header first; of one that was cut short, the whole ones.

    Raises SeriesError for a file that is damaged, missing, or of a newer version.
    """
    order = _Order(path)
    for number, line in read_lines(path):
        order.check(number, line)
        yield line
    if not order.is_begun:
        raise SeriesError(path, 1, "there is not one whole line in it")


class _Order:
    """What of a series' order has to be known to check the next line."""

    def __init__(self, path: Path) -> None:
        self.is_begun = False
        self._path = path
        self._is_over = False
        self._columns: int | None = None
        self._last_ns: int | None = None

    def check(self, number: int, line: Line) -> None:
        """Raise SeriesError for a line that cannot stand here."""
        if self.is_begun == isinstance(line, Header):
            raise SeriesError(
                self._path, number, "a series begins with one line `series`"
            )
        if self._is_over:
            raise SeriesError(self._path, number, "there is a line after the end")
        match line:
            case RowLine():
                self._check_row(number, line)
            case ColumnsLine():
                self._check_columns(number, line)
            case Header():
                self._check_header(number, line)
            case End():
                self._is_over = True
            case _:
                pass

    def _check_header(self, number: int, header: Header) -> None:
        if header.version != VERSION:
            raise SeriesError(
                self._path,
                number,
                f"it is of version {header.version}, and this bw reads {VERSION}",
            )
        if header.interval_ns <= 0 or header.ticks_per_s <= 0 or header.page_size <= 0:
            raise SeriesError(
                self._path, number, "interval, ticks and page size are above 0"
            )
        self.is_begun = True

    def _check_columns(self, number: int, line: ColumnsLine) -> None:
        if len(line.names) != len(line.kinds) or len(set(line.names)) != len(
            line.names
        ):
            raise SeriesError(
                self._path, number, "names of columns differ, and each has a kind"
            )
        self._columns = len(line.names)

    def _check_row(self, number: int, row: RowLine) -> None:
        if self._columns is None:
            raise SeriesError(self._path, number, "a row stands before its columns")
        if len(row.v) != self._columns:
            raise SeriesError(
                self._path,
                number,
                f"the row has {len(row.v)} values for {self._columns} columns",
            )
        if self._last_ns is not None and row.t <= self._last_ns:
            raise SeriesError(
                self._path, number, "the row's time is not after the last"
            )
        self._last_ns = row.t
