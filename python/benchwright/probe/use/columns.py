"""The columns of a series while its rows come in: one settled sample after the other.

Purpose: the sampler's differences undone, so that everything after this sees plain values.
Decision: columns come and go with disks, processors and cgroups, so each has a place of its
own for good; what is not there has no sample, which is not zero, and what could not be read
is nan. A sample is handed on when the next one is known: only then is it certain whether a
counter slipped. Source: docs/watch-format.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchwright.probe.use.counters import (
    Counters,
    Flags,
    Ints,
    Places,
    Values,
    places_of,
)
from benchwright.probe.use.gauges import Gauges, fitted
from benchwright.probe.use.lines import ColumnsLine

SWAP_USED = "memory/swap_used"
"""A gauge of our own: what is swapped is told as the whole and what is free of it."""
_SWAP = ("memory/swap_total", "memory/swap_free")


@dataclass(slots=True, eq=False)
class Sample:
    """All columns at one moment."""

    when_ns: int
    before_ns: int | None
    """When the sample before it was."""
    totals: Values
    """Of all counters `(n_counters,)`."""
    gauges: Values
    """Of all gauges `(n_gauges,)`; nan where it is not told."""
    gauges_there: Flags
    """Which gauges have a column at all."""


@dataclass(slots=True, eq=False)
class _Layout:
    """Where the values of a row belong."""

    counters_in: Ints
    counters: Places
    gauges_in: Ints
    gauges: Places


class Columns:
    """All columns up to the row that came last."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        """Of all columns that ever had a row, in order."""
        self.counters = Counters()
        self.gauges = Gauges()
        self._next: ColumnsLine | None = None
        self._layout: _Layout | None = None
        self._row: Values | None = None
        """The values of the last row; None before the first of these columns."""
        self._last: Sample | None = None
        self._last_ns: int | None = None
        """When the last row was."""

    def begin(self, line: ColumnsLine) -> None:
        """Say which columns the rows from now on have."""
        self._next = line

    def row(self, when_ns: int, differences: Sequence[int | None]) -> Sample | None:
        """Take in a row; return the sample before it, which is settled now."""
        layout = self._laid_out()
        row = self._undone(np.array(differences, dtype=np.float64))
        counted = row[layout.counters_in]
        self.counters.settle(layout.counters, counted)
        settled = self._settled()
        self.counters.take(layout.counters, counted, when_ns, self._last_ns)
        self._last = self._sample(when_ns, layout, row[layout.gauges_in])
        self._last_ns = when_ns
        return settled

    def finish(self) -> Sample | None:
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
        gauges = places_of([line.names[i] for i in of["gauge"]], self.gauges.names)
        if all(name in self.gauges.names for name in _SWAP):
            self.gauges.names.setdefault(SWAP_USED, len(self.gauges.names))
        return _Layout(
            np.array(of["counter"], dtype=np.int64),
            counters,
            np.array(of["gauge"], dtype=np.int64),
            gauges,
        )

    def _undone(self, differences: Values) -> Values:
        """Return the values of a row of differences.

        An entry is the difference from the row before, or the value itself at the
        beginning and after an absent one.
        """
        last, row = self._row, differences
        if last is not None:
            row = last + differences
            absent = np.isnan(last)
            if absent.any():
                row = np.where(absent, differences, row)
        self._row = row
        return row

    def _sample(self, when_ns: int, layout: _Layout, told: Values) -> Sample:
        size = len(self.gauges.names)
        values, there = np.full(size, np.nan), np.zeros(size, bool)
        values[layout.gauges], there[layout.gauges] = told, True
        swap = self.gauges.names.get(SWAP_USED)
        if swap is not None:
            total, free = (self.gauges.names[name] for name in _SWAP)
            values[swap] = values[total] - values[free]
        return Sample(when_ns, self._last_ns, self.counters.total, values, there)

    def _settled(self) -> Sample | None:
        sample, self._last = self._last, None
        if sample is None:
            return None
        size = len(self.gauges.names)
        there = np.zeros(size, bool)
        there[: len(sample.gauges_there)] = sample.gauges_there
        sample.gauges, sample.gauges_there = fitted(sample.gauges, size), there
        # A copy: the counters go on.
        sample.totals = self.counters.total.copy()
        return sample
