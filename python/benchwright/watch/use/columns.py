"""The columns of a series, read row by row: totals of counters, values of gauges, samples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from benchwright.core.numeric import NDArray, np
from benchwright.watch.use.series_file import ColumnsLine

# --------------------------------------------------------------------------------------
# Counters: how far each has grown, also across decreases of the raw value.
#
# Purpose: the totals of all counters at a moment, without storing samples. Decision: the last
# two samples of each counter are enough to detect a slip (a sample below both of its
# neighbours) and to interpolate, so memory depends on the number of columns, not on the time
# watched. A sample is used only once the next one is known. Source: docs/watch-format.md.

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
FloatValues = NDArray[np.float64]
CounterIndex = slice | Ints
"""Indices of counters; a slice if they are all counters, which is much faster."""

_WRAP = 2.0**32
"""The value at which 32-bit counters wrap: times in /proc/diskstats [ms]."""
_RESTARTS = re.compile(r"(disk|net)/")
"""Columns of devices, which may be removed, return under their name and count from 0."""


def counter_index(names: Iterable[str], known: dict[str, int]) -> CounterIndex:
    """Return the indices of names in `known`; new names are appended to it."""
    found = [known.setdefault(name, len(known)) for name in names]
    if found == list(range(len(known))):
        return slice(0, len(found))
    return np.array(found, dtype=np.int64)


class Counters:
    """All counters up to the last sample.

    All arrays are of shape `(n_counters,)`; totals count from a counter's first sample.
    """

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.total: FloatValues = np.zeros(0)
        self.time: Ints = np.zeros(0, np.int64)
        """Time of each counter's last sample [ns]."""
        self.total_before: FloatValues = np.zeros(0)
        self.time_before: Ints = np.zeros(0, np.int64)
        """Time of the sample before it; equal to `time` if there is none."""
        self.base: FloatValues = np.zeros(0)
        """The total one sample before that."""
        self._value: FloatValues = np.zeros(0)
        """The last raw value; nan: none yet."""
        self._value_before: FloatValues = np.zeros(0)
        self._back: Flags = np.zeros(0, bool)
        """Whether its last sample is below the one before."""
        self._any_back = False
        self._restarts: Flags = np.zeros(0, bool)
        self._awaited: Flags = np.zeros(0, bool)
        """Whether an earlier row had the column, with or without a value."""
        self._wraps: Flags = np.zeros(0, bool)
        self._marks: list[CounterMark] = []
        self._newest_ns = -1

    def places(self, names: Iterable[str]) -> CounterIndex:
        """Return the indices of these counters; new ones are added."""
        known = len(self.names)
        places = counter_index(names, self.names)
        if len(self.names) > known:
            self._grow(list(self.names)[known:])
        return places

    def mark(self, when_ns: int) -> CounterMark:
        """Return a mark that will hold every counter's total at a later moment."""
        mark = CounterMark(when_ns)
        self._marks.append(mark)
        return mark

    def is_told(self, name: str) -> bool:
        """Return whether a counter had any sample."""
        place = self.names.get(name)
        return place is not None and not np.isnan(self._value[place])

    def settle(self, places: CounterIndex, values: FloatValues) -> None:
        """Settle the last samples with the next values; nan: no next value yet."""
        if self._any_back:
            there = np.arange(len(self.names))[places]
            slipped = there[self._back[there] & (self._value_before[there] <= values)]
            self.total[slipped] = self.total_before[slipped]
            self._value[slipped] = self._value_before[slipped]
        if any(mark.when_ns <= self._newest_ns for mark in self._marks):
            reported = np.arange(len(self.names))[places][~np.isnan(values)]
            for mark in self._marks:
                mark.settle(self, reported)
            self._marks = [mark for mark in self._marks if mark.waits]

    def take(
        self,
        places: CounterIndex,
        values: FloatValues,
        when_ns: int,
        before_ns: int | None,
    ) -> None:
        """Add a sample that `settle` has used; `before_ns` is the time of the sample before it."""
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
        """Settle the last samples at the end of the series."""
        everywhere = np.arange(len(self.names), dtype=np.int64)
        for mark in self._marks:
            mark.settle(self, everywhere, at_end=True)

    def _begun(
        self,
        places: CounterIndex,
        values: FloatValues,
        when_ns: int,
        before_ns: int | None,
    ) -> tuple[Ints, FloatValues]:
        """Add counters with their first value; return the indices and values of the others."""
        reported = ~np.isnan(values)
        there, values = np.arange(len(self.names))[places][reported], values[reported]
        is_new = np.isnan(self._value[there])
        new = there[is_new]
        self._value[new] = self._value_before[new] = values[is_new]
        self.time[new] = self.time_before[new] = when_ns
        if before_ns is not None:
            # A device that appeared during the series counted from 0.
            late = is_new & self._restarts[there] & ~self._awaited[there]
            self._value_before[there[late]] = 0.0
            self.total[there[late]] = values[late]
            self.time_before[there[late]] = before_ns
        return there[~is_new], values[~is_new]

    def _steps(self, there: Ints, values: FloatValues) -> FloatValues:
        """Return the growth of counters since their last values, also across decreases."""
        last = self._value[there]
        steps = values - last
        back = steps < 0
        self._back[there] = back
        self._any_back = bool(self._back.any())
        wrapped = self._wraps[there] & (last < _WRAP) & (steps < -_WRAP / 2)
        steps = np.where(wrapped, steps + _WRAP, steps)
        again = np.where(self._restarts[there], values, 0.0)
        found: FloatValues = np.where(steps < 0, again, steps)
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
            np.append(array, np.full(len(names), -1)) for array in (self.time, self.time_before)
        )
        restarts = [bool(_RESTARTS.match(name)) for name in names]
        wraps = [name.endswith("_ms") for name in names]
        self._back = np.append(self._back, np.zeros(len(names), bool))
        self._restarts = np.append(self._restarts, np.array(restarts, bool))
        self._awaited = np.append(self._awaited, np.zeros(len(names), bool))
        self._wraps = np.append(self._wraps, np.array(wraps, bool))


class CounterMark:
    """The totals of all counters at one moment, each known after a sample at or after it.

    Before its first sample a counter is 0; after its last sample it keeps its total.
    """

    def __init__(self, when_ns: int) -> None:
        self.when_ns = when_ns
        self._whole: FloatValues = np.zeros(0)
        """The total at the sample before the moment."""
        self._part: FloatValues = np.zeros(0)
        """The growth since that sample."""
        self._base: FloatValues = np.zeros(0)
        """The total one sample earlier; differences are taken from it, to avoid rounding."""
        self._waits: Flags = np.zeros(0, bool)

    @property
    def waits(self) -> bool:
        """Whether the total of some counter is not known yet."""
        return not len(self._waits) or bool(self._waits.any())

    def growth(self, place: int, end: CounterMark) -> float:
        """Return how far a counter grew from here to another mark."""
        # A counter that appeared after all others were settled was 0.
        base = self._base[place] if place < len(self._base) else 0.0
        return end._from(place, base) - self._from(place, base)

    def settle(self, counters: Counters, reported: Ints, *, at_end: bool = False) -> None:
        """Set the totals of counters whose last sample is at or after the moment."""
        self._fit(len(counters.names))
        due = self._waits[reported]
        if not at_end:
            due &= counters.time[reported] >= self.when_ns
        there = reported[due]
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
                np.append(array, np.zeros(more)) for array in (self._whole, self._part, self._base)
            )
            self._waits = np.append(self._waits, np.ones(more, bool))


# -- Gauges: their lowest, highest and mean values in a window -------------------------
#
# Decision: a gauge is known only at its samples. A window without a sample uses those on both
# sides; otherwise minimum, maximum and sum are enough, and no sample is stored.


class Gauges:
    """All gauges at the last sample; arrays are of shape `(n_gauges,)`."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.reported: FloatValues = np.zeros(0)
        """The last reported value; nan: none."""

    def take(self, values: FloatValues) -> None:
        """Add a sample; nan: the gauge is not reported."""
        reported = fitted(self.reported, len(values))
        self.reported = np.where(np.isnan(values), reported, values)


def fitted(values: FloatValues, size: int) -> FloatValues:
    """Return the array extended with nan to a length of at least `size`."""
    if size == len(values):
        return values
    return np.append(values, np.full(size - len(values), np.nan))


class WindowGauges:
    """The values of gauges from one moment to another."""

    def __init__(self, begin_ns: int, end_ns: int) -> None:
        self._begin_ns, self._end_ns = begin_ns, end_ns
        self._before: FloatValues | None = None
        self._after: FloatValues = np.zeros(0)
        self._least: FloatValues = np.zeros(0)
        self._most: FloatValues = np.zeros(0)
        self._sum: FloatValues = np.zeros(0)
        self._count: Ints = np.zeros(0, np.int64)

    def take(self, when_ns: int, values: FloatValues, reported: FloatValues) -> None:
        """Add a sample; `reported` are the last values before it."""
        if when_ns < self._begin_ns:
            return
        self._fit(len(values))
        if self._before is None:
            self._before = reported
        if when_ns > self._end_ns:
            # Used only if the window has no sample.
            self._after = np.where(np.isnan(self._after), values, self._after)
            return
        flags: Flags = ~np.isnan(values)
        self._least = np.fmin(self._least, values)
        self._most = np.fmax(self._most, values)
        self._sum += np.where(flags, values, 0.0)
        self._count += flags

    def finish(self, reported: FloatValues) -> None:
        """End the series; `reported` are the last values."""
        self._fit(len(reported))
        if self._before is None:
            self._before = reported

    def most(self, place: int) -> float | None:
        """Return a gauge's highest sample; None if there is none."""
        if self._count[place]:
            return float(self._most[place])
        return max(self._beside(place), default=None)

    def least(self, place: int) -> float | None:
        """Return a gauge's lowest sample."""
        if self._count[place]:
            return float(self._least[place])
        return min(self._beside(place), default=None)

    def mean(self, place: int) -> float | None:
        """Return the mean of a gauge's samples."""
        if self._count[place]:
            return float(self._sum[place]) / int(self._count[place])
        beside = self._beside(place)
        return sum(beside) / len(beside) if beside else None

    def _beside(self, place: int) -> list[float]:
        """Return the samples on both sides of the window."""
        before = self._before
        found = [before[place]] if before is not None and place < len(before) else []
        return [float(one) for one in (*found, self._after[place]) if one == one]

    def _fit(self, size: int) -> None:
        if size == len(self._count):
            return
        self._after, self._least, self._most = (
            fitted(array, size) for array in (self._after, self._least, self._most)
        )
        more = size - len(self._count)
        self._sum = np.append(self._sum, np.zeros(more))
        self._count = np.append(self._count, np.zeros(more, np.int64))


# --------------------------------------------------------------------------------------
# Sums of related counters, one sum for each CPU or disk.


class CounterSums:
    """The sum of some counters of each CPU, or of each disk."""

    def __init__(self, names: Sequence[Sequence[str]], known: dict[str, int]) -> None:
        """`names`: the counters of each thing, equally many; unknown ones add nothing."""
        places = [[known.get(name, -1) for name in each] for each in names]
        width = len(names[0]) if names else 0
        table = np.array(places, dtype=np.int64).reshape(len(names), width)
        self._places = np.maximum(table, 0)
        self._weights = (table >= 0).astype(np.float64)

    def of(self, totals: FloatValues) -> FloatValues:
        """Return the sums `(n_things,)` of the totals of all counters."""
        if not len(totals):
            return np.zeros(len(self._places))
        found: FloatValues = (totals[self._places] * self._weights).sum(axis=1)
        return found


# --------------------------------------------------------------------------------------
# The columns of a series: rows of differences become samples.
#
# Purpose: convert the sampler's differences to plain values. Decision: columns come and go
# with disks, CPUs and cgroups, so each keeps its index for the whole series. A missing column
# has no sample, which is not zero; an unreadable value is nan. A sample is returned when
# the next one is known: only then is it certain whether a counter slipped.
# Source: docs/watch-format.md.

SWAP_USED = "memory/swap_used"
"""A derived gauge: the kernel reports the total and the free swap space."""
_SWAP = ("memory/swap_total", "memory/swap_free")


class SeriesSample(msgspec.Struct, eq=False):
    """All columns at one moment."""

    when_ns: int
    before_ns: int | None
    """Time of the sample before it."""
    totals: FloatValues
    """Totals of all counters `(n_counters,)`."""
    gauges: FloatValues
    """Values of all gauges `(n_gauges,)`; nan: not reported."""
    gauges_there: Flags
    """Which gauges have a column."""


class _Layout(msgspec.Struct, eq=False):
    """The counters and gauges to which the values of a row belong."""

    counters_in: Ints
    counters: CounterIndex
    gauges_in: Ints
    gauges: CounterIndex


class Columns:
    """All columns up to the last row."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        """Names of all columns that had a row so far, in order."""
        self.counters = Counters()
        self.gauges = Gauges()
        self._next: ColumnsLine | None = None
        self._layout: _Layout | None = None
        self._row: FloatValues | None = None
        """The values of the last row; None before the first of these columns."""
        self._last: SeriesSample | None = None
        self._last_ns: int | None = None
        """Time of the last row."""

    def begin(self, line: ColumnsLine) -> None:
        """Set the columns of the rows that follow."""
        self._next = line

    def row(self, when_ns: int, differences: Sequence[int | None]) -> SeriesSample | None:
        """Add a row; return the sample before it, which is now settled."""
        layout = self._laid_out()
        row = self._undone(np.array(differences, dtype=np.float64))
        counted = row[layout.counters_in]
        self.counters.settle(layout.counters, counted)
        settled = self._settled()
        self.counters.take(layout.counters, counted, when_ns, self._last_ns)
        self._last = self._sample(when_ns, layout, row[layout.gauges_in])
        self._last_ns = when_ns
        return settled

    def finish(self) -> SeriesSample | None:
        """End the series; return its last sample."""
        self.counters.finish()
        return self._settled()

    def _laid_out(self) -> _Layout:
        line, self._next = self._next, None
        if line is not None:
            for name in line.names:
                self.names.setdefault(name)
            self._layout, self._row = self._layout_of(line), None
        assert self._layout is not None, "a row stands after its columns"
        return self._layout

    def _layout_of(self, line: ColumnsLine) -> _Layout:
        of = {
            kind: [i for i, one in enumerate(line.kinds) if one == kind]
            for kind in ("counter", "gauge")
        }
        counters = self.counters.places([line.names[i] for i in of["counter"]])
        gauges = counter_index([line.names[i] for i in of["gauge"]], self.gauges.names)
        if all(name in self.gauges.names for name in _SWAP):
            self.gauges.names.setdefault(SWAP_USED, len(self.gauges.names))
        return _Layout(
            np.array(of["counter"], dtype=np.int64),
            counters,
            np.array(of["gauge"], dtype=np.int64),
            gauges,
        )

    def _undone(self, differences: FloatValues) -> FloatValues:
        """Return the values of a row of differences.

        An entry is the difference from the row before, or the value itself in the first row
        and after an absent one.
        """
        last, row = self._row, differences
        if last is not None:
            row = last + differences
            absent = np.isnan(last)
            if absent.any():
                row = np.where(absent, differences, row)
        self._row = row
        return row

    def _sample(self, when_ns: int, layout: _Layout, reported: FloatValues) -> SeriesSample:
        size = len(self.gauges.names)
        values, there = np.full(size, np.nan), np.zeros(size, bool)
        values[layout.gauges], there[layout.gauges] = reported, True
        swap = self.gauges.names.get(SWAP_USED)
        if swap is not None:
            total, free = (self.gauges.names[name] for name in _SWAP)
            values[swap] = values[total] - values[free]
        return SeriesSample(when_ns, self._last_ns, self.counters.total, values, there)

    def _settled(self) -> SeriesSample | None:
        sample, self._last = self._last, None
        if sample is None:
            return None
        size = len(self.gauges.names)
        there = np.zeros(size, bool)
        there[: len(sample.gauges_there)] = sample.gauges_there
        sample.gauges, sample.gauges_there = fitted(sample.gauges, size), there
        # A copy: the counters continue to change.
        sample.totals = self.counters.total.copy()
        return sample
