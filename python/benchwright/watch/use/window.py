"""A window of a series: the growth of counters and the values of gauges in it.

Purpose: the arithmetic behind `resource_use`. Decision: counters are assumed to grow evenly
between two samples, so growth is interpolated at the edges of a window, and the growth in two
adjacent windows adds up to that in their union. A gauge is known only at its samples; a
window without a sample uses those on both sides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Generic, TypeVar

from benchwright.watch.use.columns import Columns, SeriesSample, WindowGauges
from benchwright.watch.use.series_file import Header

_Table = TypeVar("_Table")


class SeriesWindow:
    """The columns of a series from one moment to another."""

    def __init__(self, header: Header, columns: Columns, begin_ns: int, end_ns: int) -> None:
        self.header = header
        self.begin_ns = begin_ns
        self.end_ns = end_ns
        self._columns = columns
        self._begin = columns.counters.mark(begin_ns)
        self._end = columns.counters.mark(end_ns)
        self._gauges = WindowGauges(begin_ns, end_ns)

    def take(self, sample: SeriesSample) -> None:
        """Add a sample."""
        reported = self._columns.gauges.reported
        self._gauges.take(sample.when_ns, sample.gauges, reported)

    def finish(self, first_ns: int, last_ns: int) -> None:
        """End the series, whose samples lie between these moments."""
        self._gauges.finish(self._columns.gauges.reported)
        self.begin_ns = max(self.begin_ns, first_ns)
        self.end_ns = min(self.end_ns, last_ns)

    @property
    def seconds(self) -> float:
        """Length [s]; above 0 if the series covers any of the window."""
        return (self.end_ns - self.begin_ns) / 1e9

    @property
    def names(self) -> Iterable[str]:
        """Names of all columns, in the order of their appearance."""
        return self._columns.names

    def growth(self, *names: str) -> float | None:
        """Return the summed growth of counters; None if none of them exists."""
        counters = self._columns.counters
        reported = [
            self._begin.growth(counters.names[name], self._end)
            for name in names
            if counters.is_told(name)
        ]
        return sum(reported) if reported else None

    def rate(self, *names: str) -> float | None:
        """Return the growth per second."""
        growth = self.growth(*names)
        return None if growth is None else growth / self.seconds

    def count(self, *names: str) -> int:
        """Return the growth as a number of events, rounded up; 0 if not reported.

        An event in an interval at the window's edge may count: reporting an error in two
        windows is better than in none.
        """
        return math.ceil((self.growth(*names) or 0.0) - 1e-6)

    def whole(self, *names: str) -> int:
        """Return the growth, rounded; 0 if not reported."""
        return round(self.growth(*names) or 0.0)

    def most(self, name: str) -> float | None:
        """Return a gauge's highest sample in the window, else the higher of those beside it."""
        place = self._columns.gauges.names.get(name)
        return None if place is None else self._gauges.most(place)

    def least(self, name: str) -> float | None:
        """Return a gauge's lowest sample."""
        place = self._columns.gauges.names.get(name)
        return None if place is None else self._gauges.least(place)

    def mean(self, name: str) -> float | None:
        """Return the mean of a gauge's samples."""
        place = self._columns.gauges.names.get(name)
        return None if place is None else self._gauges.mean(place)


class TablesAround(Generic[_Table]):
    """Selects the tables that a window uses: those inside, and one on each side."""

    def __init__(self, begin_ns: int, end_ns: int) -> None:
        self._begin_ns, self._end_ns = begin_ns, end_ns
        self._last: _Table | None = None
        """The last table before the window."""
        self._is_over = False

    def taken(self, when_ns: int, table: _Table) -> tuple[_Table, ...]:
        """Add a table; return the tables that the window uses now."""
        if self._is_over:
            return ()
        if when_ns <= self._begin_ns:
            self._last = table
            return ()
        self._is_over = when_ns >= self._end_ns
        return (*self.rest(), table)

    def rest(self) -> tuple[_Table, ...]:
        """Return the table before the window, if no later table was returned."""
        last, self._last = self._last, None
        return () if last is None else (last,)


def names_of(window: SeriesWindow, prefix: str, last: str) -> tuple[str, ...]:
    """Return the middle parts of the column names `prefix/.../last`, in natural order."""
    begin, end = f"{prefix}/", f"/{last}"
    found = [
        name[len(begin) : -len(end)]
        for name in window.names
        if name.startswith(begin) and name.endswith(end)
    ]
    return tuple(sorted(found, key=_natural))


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts `cpu10` after `cpu9`."""
    return tuple(
        (int(part), "") if part.isdigit() else (-1, part)
        for part in re.split(r"(\d+)", name)
        if part
    )
