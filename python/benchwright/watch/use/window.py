"""A window of a series: how much counters grew in it, and what gauges were.

Purpose: the arithmetic that all of `resource_use` rests on. Decision: a counter grows
evenly between two samples, so the growth in a window whose edges lie between samples is
interpolated, and windows side by side add up to the window over both. A gauge is known
only at its samples; a window without one takes those on both sides.
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

    def __init__(
        self, header: Header, columns: Columns, begin_ns: int, end_ns: int
    ) -> None:
        self.header = header
        self.begin_ns = begin_ns
        self.end_ns = end_ns
        self._columns = columns
        self._begin = columns.counters.mark(begin_ns)
        self._end = columns.counters.mark(end_ns)
        self._gauges = WindowGauges(begin_ns, end_ns)

    def take(self, sample: SeriesSample) -> None:
        """Take in a sample."""
        reported = self._columns.gauges.reported
        self._gauges.take(sample.when_ns, sample.gauges, reported)

    def finish(self, first_ns: int, last_ns: int) -> None:
        """End the series, whose samples lie between these moments."""
        self._gauges.finish(self._columns.gauges.reported)
        self.begin_ns = max(self.begin_ns, first_ns)
        self.end_ns = min(self.end_ns, last_ns)

    @property
    def seconds(self) -> float:
        """Its length [s]; above 0 where anything of it was seen."""
        return (self.end_ns - self.begin_ns) / 1e9

    @property
    def names(self) -> Iterable[str]:
        """Of all columns, in the order in which they came."""
        return self._columns.names

    def growth(self, *names: str) -> float | None:
        """Return the growth of counters, added up; None where there is none of them."""
        counters = self._columns.counters
        reported = [
            self._begin.growth(counters.names[name], self._end)
            for name in names
            if counters.is_told(name)
        ]
        return sum(reported) if reported else None

    def rate(self, *names: str) -> float | None:
        """Return the growth for each second."""
        growth = self.growth(*names)
        return None if growth is None else growth / self.seconds

    def count(self, *names: str) -> int:
        """Return the growth as events: a started one counts whole; 0 where not reported.

        What an interval at the window's edge holds may be in it: an error is reported twice
        rather than never.
        """
        return math.ceil((self.growth(*names) or 0.0) - 1e-6)

    def whole(self, *names: str) -> int:
        """Return the growth, rounded; 0 where it is not reported."""
        return round(self.growth(*names) or 0.0)

    def most(self, name: str) -> float | None:
        """Return a gauge's highest sample in the window, else the higher beside it."""
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
    """Which of the tables that come in a window looks at: inside, and one on each side."""

    def __init__(self, begin_ns: int, end_ns: int) -> None:
        self._begin_ns, self._end_ns = begin_ns, end_ns
        self._last: _Table | None = None
        """The last one before the window."""
        self._is_over = False

    def taken(self, when_ns: int, table: _Table) -> tuple[_Table, ...]:
        """Return which tables are to be looked at now that this one has come."""
        if self._is_over:
            return ()
        if when_ns <= self._begin_ns:
            self._last = table
            return ()
        self._is_over = when_ns >= self._end_ns
        return (*self.rest(), table)

    def rest(self) -> tuple[_Table, ...]:
        """Return the one before the window, where none came after it."""
        last, self._last = self._last, None
        return () if last is None else (last,)


def names_of(window: SeriesWindow, prefix: str, last: str) -> tuple[str, ...]:
    """Return what stands between in the columns `prefix/.../last`, in natural order."""
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
