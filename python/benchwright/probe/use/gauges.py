"""Gauges of a series while its samples come in: what they were in a window.

Decision: a gauge is known only at its samples. A window without one takes those on both
sides; of the others the lowest, the highest and the sum are enough, and no sample is kept.
"""

from __future__ import annotations

import numpy as np

from benchwright.probe.use.counters import Flags, Ints, Values


class Gauges:
    """All gauges at the sample that came last; arrays are of shape `(n_gauges,)`."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.told: Values = np.zeros(0)
        """The last value that was told; nan: none."""

    def take(self, values: Values) -> None:
        """Take in a sample; nan where a gauge is not told."""
        told = fitted(self.told, len(values))
        self.told = np.where(np.isnan(values), told, values)


def fitted(values: Values, size: int) -> Values:
    """Return an array that is as long as told, with nan at its end."""
    if size == len(values):
        return values
    return np.append(values, np.full(size - len(values), np.nan))


class GaugesSeen:
    """What gauges were from one moment to another."""

    def __init__(self, begin_ns: int, end_ns: int) -> None:
        self._begin_ns, self._end_ns = begin_ns, end_ns
        self._before: Values | None = None
        self._after: Values = np.zeros(0)
        self._least: Values = np.zeros(0)
        self._most: Values = np.zeros(0)
        self._sum: Values = np.zeros(0)
        self._count: Ints = np.zeros(0, np.int64)

    def take(self, when_ns: int, values: Values, told: Values) -> None:
        """Take in a sample; `told` are the values told last before it."""
        if when_ns < self._begin_ns:
            return
        self._fit(len(values))
        if self._before is None:
            self._before = told
        if when_ns > self._end_ns:
            # Looked at only where the window has no sample.
            self._after = np.where(np.isnan(self._after), values, self._after)
            return
        there: Flags = ~np.isnan(values)
        self._least = np.fmin(self._least, values)
        self._most = np.fmax(self._most, values)
        self._sum += np.where(there, values, 0.0)
        self._count += there

    def finish(self, told: Values) -> None:
        """End the series; `told` are the values told last."""
        self._fit(len(told))
        if self._before is None:
            self._before = told

    def most(self, place: int) -> float | None:
        """Return a gauge's highest sample; None where none is told."""
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
