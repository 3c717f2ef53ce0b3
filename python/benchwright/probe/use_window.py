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
from dataclasses import dataclass, field

import numpy as np

from benchwright.probe.series import Column, Series, Times, Values

_WRAP = 2.0**32
"""Where counters of 32 bits begin again: times in /proc/diskstats [ms]."""
_RESTARTS = re.compile(r"(disk|net)/")
"""Columns of devices, which may go away, come back under their name and count from 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Total:
    """How far something has grown since it was first seen, over time."""

    times: Times
    totals: Values

    def at(self, when_ns: Times) -> Values:
        """Return the total at moments; before the first and after the last it stands."""
        zero = self.times[0]
        found: Values = np.interp(
            (when_ns - zero).astype(np.float64),
            (self.times - zero).astype(np.float64),
            self.totals,
        )
        return found

    def between(self, begin_ns: int, end_ns: int) -> float:
        """Return how much it grew from one moment to another."""
        begin, end = self.at(np.array([begin_ns, end_ns], dtype=np.int64))
        return float(end - begin)


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The part of a series from one moment to another, both seen."""

    series: Series
    begin_ns: int
    end_ns: int
    _growths: dict[str, float | None] = field(default_factory=dict)
    """Those asked for so far: a processor's times are added up in several ways."""

    @property
    def seconds(self) -> float:
        """Its length [s], above 0."""
        return (self.end_ns - self.begin_ns) / 1e9

    def growth(self, *names: str) -> float | None:
        """Return the growth of counters, added up; None where there is none of them."""
        found = [self._growth(name) for name in names]
        told = [one for one in found if one is not None]
        return sum(told) if told else None

    def rate(self, *names: str) -> float | None:
        """Return the growth for each second."""
        growth = self.growth(*names)
        return None if growth is None else growth / self.seconds

    def count(self, *names: str) -> int:
        """Return the growth as events: a begun one counts whole; 0 where not told.

        What an interval at the window's edge holds may be in it: an error is told twice
        before it is told never.
        """
        return math.ceil((self.growth(*names) or 0.0) - 1e-6)

    def whole(self, *names: str) -> int:
        """Return the growth, rounded; 0 where it is not told."""
        return round(self.growth(*names) or 0.0)

    def total(self, name: str) -> Total | None:
        """Return a counter's total around the window; None where it is not told."""
        column = self.series.columns.get(name)
        if column is None:
            return None
        part = self._around(_told(column))
        if not len(part.times):
            return None
        times, values = part.times, part.values
        restarts = bool(_RESTARTS.match(name))
        row = int(np.searchsorted(self.series.times, times[0]))
        if restarts and row > 0 and times[0] == column.times[0]:
            # A device that is not there from the beginning counted from 0.
            times = np.concatenate([self.series.times[row - 1 : row], times])
            values = np.concatenate([[0.0], values])
        wraps = name.endswith("_ms")
        return total_of(times, values, restarts=restarts, wraps=wraps)

    def gauge(self, name: str) -> Values:
        """Return a gauge's samples in the window, else its nearest; empty: not told."""
        column = self.series.columns.get(name)
        if column is None:
            return np.zeros(0)
        column = _told(column)
        first = int(np.searchsorted(column.times, self.begin_ns, "left"))
        last = int(np.searchsorted(column.times, self.end_ns, "right"))
        if first == last:
            first, last = max(first - 1, 0), last + 1
        return column.values[first:last]

    def most(self, name: str) -> float | None:
        """Return a gauge's highest sample."""
        values = self.gauge(name)
        return float(values.max()) if len(values) else None

    def least(self, name: str) -> float | None:
        """Return a gauge's lowest sample."""
        values = self.gauge(name)
        return float(values.min()) if len(values) else None

    def around(self, times: Times) -> slice:
        """Return which of some times lie in the window, and one more on each side."""
        first = int(np.searchsorted(times, self.begin_ns, "right")) - 1
        last = int(np.searchsorted(times, self.end_ns, "left"))
        return slice(max(first, 0), last + 1)

    def _growth(self, name: str) -> float | None:
        if name not in self._growths:
            total = self.total(name)
            self._growths[name] = (
                None if total is None else total.between(self.begin_ns, self.end_ns)
            )
        return self._growths[name]

    def _around(self, column: Column) -> Column:
        # One sample more on each side: whether a step back is a slip is seen from beside.
        part = self.around(column.times)
        part = slice(max(part.start - 1, 0), part.stop + 1)
        return Column(column.kind, column.times[part], column.values[part])


def names_of(series: Series, prefix: str, last: str) -> tuple[str, ...]:
    """Return what stands between in the columns `prefix/.../last`, in natural order."""
    begin, end = f"{prefix}/", f"/{last}"
    found = [
        name[len(begin) : -len(end)]
        for name in series.columns
        if name.startswith(begin) and name.endswith(end)
    ]
    return tuple(sorted(found, key=_natural))


def total_of(
    times: Times, values: Values, *, restarts: bool = False, wraps: bool = False
) -> Total:
    """Return the total of a counter's samples, whatever made it go back.

    A sample below those beside it missed something; a counter of 32 bits `wraps`; after any
    other step back it goes on from there, or, where it `restarts`, counted from 0.
    """
    if not (values[1:] < values[:-1]).any():
        return Total(times, values - values[0])
    values = _without_slips(values)
    steps = np.diff(values)
    if wraps:
        steps[(values[:-1] < _WRAP) & (steps < -_WRAP / 2)] += _WRAP
    back = steps < 0
    steps[back] = values[1:][back] if restarts else 0.0
    return Total(times, np.concatenate([[0.0], np.cumsum(steps)]))


def mean(values: Iterable[float]) -> float | None:
    """Return the mean; None of nothing."""
    told = list(values)
    return math.fsum(told) / len(told) if told else None


def _without_slips(values: Values) -> Values:
    """Return a counter with samples that are below both neighbours raised to the first."""
    slipped = np.zeros(len(values), dtype=bool)
    slipped[1:-1] = (values[1:-1] < values[:-2]) & (values[:-2] <= values[2:])
    if not slipped.any():
        return values
    return np.where(slipped, np.roll(values, 1), values)


def _told(column: Column) -> Column:
    absent = np.isnan(column.values)
    if not absent.any():
        return column
    return Column(column.kind, column.times[~absent], column.values[~absent])


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts `cpu10` after `cpu9`."""
    return tuple(
        (int(part), "") if part.isdigit() else (-1, part)
        for part in re.split(r"(\d+)", name)
        if part
    )
