"""Counters of a series while its samples come in: how far each has grown, whatever made it go back.

Purpose: the totals of all counters at a moment, without keeping samples. Decision: the last
two samples of each counter are enough to see a slip (a sample below both of its
neighbours) and to interpolate, so memory is that of the machine's columns and not of the
time watched; a sample counts from when the next one is known. Source: docs/watch-format.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Values = NDArray[np.float64]
Places = slice | Ints
"""Which of all counters: a slice where it is all of them, which is much faster."""

_WRAP = 2.0**32
"""Where counters of 32 bits begin again: times in /proc/diskstats [ms]."""
_RESTARTS = re.compile(r"(disk|net)/")
"""Columns of devices, which may go away, come back under their name and count from 0."""


def places_of(names: Iterable[str], known: dict[str, int]) -> Places:
    """Return where names stand among those known; new ones are put at their end."""
    found = [known.setdefault(name, len(known)) for name in names]
    if found == list(range(len(known))):
        return slice(0, len(found))
    return np.array(found, dtype=np.int64)


class Counters:
    """All counters up to the sample that came last.

    All arrays are of shape `(n_counters,)`; totals count from a counter's first sample.
    """

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.total: Values = np.zeros(0)
        self.time: Ints = np.zeros(0, np.int64)
        """When each was told last [ns]."""
        self.total_before: Values = np.zeros(0)
        self.time_before: Ints = np.zeros(0, np.int64)
        """Of the sample before; of the last where there is none."""
        self.base: Values = np.zeros(0)
        """The total at the sample before that."""
        self._value: Values = np.zeros(0)
        """As it was told; nan: never."""
        self._value_before: Values = np.zeros(0)
        self._back: Flags = np.zeros(0, bool)
        """Whether its last sample is below the one before."""
        self._any_back = False
        self._restarts: Flags = np.zeros(0, bool)
        self._awaited: Flags = np.zeros(0, bool)
        """Whether its column was in a row before, told or absent."""
        self._wraps: Flags = np.zeros(0, bool)
        self._marks: list[Mark] = []
        self._newest_ns = -1

    def places(self, names: Iterable[str]) -> Places:
        """Return where these counters stand; new ones are taken in."""
        known = len(self.names)
        places = places_of(names, self.names)
        if len(self.names) > known:
            self._grow(list(self.names)[known:])
        return places

    def mark(self, when_ns: int) -> Mark:
        """Return a mark that will tell every counter's total at a moment to come."""
        mark = Mark(when_ns)
        self._marks.append(mark)
        return mark

    def is_told(self, name: str) -> bool:
        """Return whether a counter had any sample."""
        place = self.names.get(name)
        return place is not None and not np.isnan(self._value[place])

    def settle(self, places: Places, values: Values) -> None:
        """Settle the last samples by the next values; nan where there is none yet."""
        if self._any_back:
            there = np.arange(len(self.names))[places]
            slipped = there[self._back[there] & (self._value_before[there] <= values)]
            self.total[slipped] = self.total_before[slipped]
            self._value[slipped] = self._value_before[slipped]
        if any(mark.when_ns <= self._newest_ns for mark in self._marks):
            told = np.arange(len(self.names))[places][~np.isnan(values)]
            for mark in self._marks:
                mark.settle(self, told)
            self._marks = [mark for mark in self._marks if mark.waits]

    def take(
        self, places: Places, values: Values, when_ns: int, before_ns: int | None
    ) -> None:
        """Take in a sample that was settled with; `before_ns` is the one before it."""
        rows = places
        steps = values - self._value[places]
        if self._any_back or not bool((steps >= 0).all()):
            places, values = self._begun(places, values, when_ns, before_ns)
            steps = self._steps(places, values)
        self._awaited[rows] = True
        self.base[places] = self.total_before[places]
        self.total_before[places] = self.total[places]
        self.time_before[places] = self.time[places]
        self._value_before[places] = self._value[places]
        self.total[places] += steps
        self.time[places] = when_ns
        self._value[places] = values
        self._newest_ns = when_ns

    def finish(self) -> None:
        """Settle what still waits: there is no next sample."""
        everywhere = np.arange(len(self.names), dtype=np.int64)
        for mark in self._marks:
            mark.settle(self, everywhere, at_end=True)

    def _begun(
        self, places: Places, values: Values, when_ns: int, before_ns: int | None
    ) -> tuple[Ints, Values]:
        """Take in counters that are told for the first time; return the others told."""
        told = ~np.isnan(values)
        there, values = np.arange(len(self.names))[places][told], values[told]
        is_new = np.isnan(self._value[there])
        new = there[is_new]
        self._value[new] = self._value_before[new] = values[is_new]
        self.time[new] = self.time_before[new] = when_ns
        if before_ns is not None:
            # A device that is not there from the beginning counted from 0.
            late = is_new & self._restarts[there] & ~self._awaited[there]
            self._value_before[there[late]] = 0.0
            self.total[there[late]] = values[late]
            self.time_before[there[late]] = before_ns
        return there[~is_new], values[~is_new]

    def _steps(self, there: Ints, values: Values) -> Values:
        """Return how far counters went, whatever made them go back."""
        last = self._value[there]
        steps = values - last
        back = steps < 0
        self._back[there] = back
        self._any_back = bool(self._back.any())
        wrapped = self._wraps[there] & (last < _WRAP) & (steps < -_WRAP / 2)
        steps = np.where(wrapped, steps + _WRAP, steps)
        again = np.where(self._restarts[there], values, 0.0)
        found: Values = np.where(steps < 0, again, steps)
        return found

    def _grow(self, names: list[str]) -> None:
        self.total, self.total_before, self.base = (
            np.append(array, np.zeros(len(names)))
            for array in (self.total, self.total_before, self.base)
        )
        self._value, self._value_before = (
            np.append(array, np.full(len(names), np.nan))
            for array in (self._value, self._value_before)
        )
        self.time, self.time_before = (
            np.append(array, np.full(len(names), -1))
            for array in (self.time, self.time_before)
        )
        restarts = [bool(_RESTARTS.match(name)) for name in names]
        wraps = [name.endswith("_ms") for name in names]
        self._back = np.append(self._back, np.zeros(len(names), bool))
        self._restarts = np.append(self._restarts, np.array(restarts, bool))
        self._awaited = np.append(self._awaited, np.zeros(len(names), bool))
        self._wraps = np.append(self._wraps, np.array(wraps, bool))


class Mark:
    """The totals of all counters at one moment, each known once samples lie around it.

    Before its first sample a counter stands at 0, after its last where it was.
    """

    def __init__(self, when_ns: int) -> None:
        self.when_ns = when_ns
        self._whole: Values = np.zeros(0)
        """The total at the sample before the moment."""
        self._part: Values = np.zeros(0)
        """What it had grown since."""
        self._base: Values = np.zeros(0)
        """The total one sample earlier: growth is taken from there, not from afar."""
        self._waits: Flags = np.zeros(0, bool)

    @property
    def waits(self) -> bool:
        """Whether some counter's total is not known yet."""
        return not len(self._waits) or bool(self._waits.any())

    def growth(self, place: int, end: Mark) -> float:
        """Return how far a counter grew from here to another mark."""
        # What came when all others were known stood at 0.
        base = self._base[place] if place < len(self._base) else 0.0
        return end._from(place, base) - self._from(place, base)

    def settle(self, counters: Counters, told: Ints, *, at_end: bool = False) -> None:
        """Learn the totals of counters whose last sample is at the moment or after it."""
        self._fit(len(counters.names))
        due = self._waits[told]
        if not at_end:
            due &= counters.time[told] >= self.when_ns
        there = told[due]
        if not len(there):
            return
        self._waits[there] = False
        last, total = counters.time[there], counters.total[there]
        first, before = counters.time_before[there], counters.total_before[there]
        over = self.when_ns >= last
        inside = (first < self.when_ns) & ~over
        length = np.where(inside, last - first, 1).astype(np.float64)
        slopes = (total - before) / length
        parts = slopes * (self.when_ns - first).astype(np.float64)
        self._part[there] = np.where(inside, parts, 0.0)
        self._whole[there] = np.where(over, total, before)
        self._base[there] = np.where(inside, counters.base[there], before)

    def _from(self, place: int, base: float) -> float:
        if place >= len(self._whole):
            return 0.0
        return float(self._part[place] + (self._whole[place] - base))

    def _fit(self, size: int) -> None:
        if size > len(self._waits):
            more = size - len(self._waits)
            self._whole, self._part, self._base = (
                np.append(array, np.zeros(more))
                for array in (self._whole, self._part, self._base)
            )
            self._waits = np.append(self._waits, np.ones(more, bool))
