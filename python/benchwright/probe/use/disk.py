"""Disks in a window: what they did, and whether they stood still.

Source: the kernel's Documentation/admin-guide/iostats.rst. `queue_ms` counts a request
when it completes, so a disk that completes none is judged by its requests in flight.
"""

from __future__ import annotations

import numpy as np

from benchwright.model.watched import DiskUse
from benchwright.probe.use.columns import Columns, Sample
from benchwright.probe.use.counters import Flags, Ints, Values
from benchwright.probe.use.gather import Sums
from benchwright.probe.use.gauges import fitted
from benchwright.probe.use.window import Window, names_of

_SECTOR = 512
_COMPLETED = ("reads", "writes", "discards", "flushes")
_IN_FLIGHT = "/in_flight"


class DiskSteps:
    """Disks from sample to sample: requests in flight at both ends, those completed.

    Arrays are of shape `(n_disks,)`; only disks that tell their requests in flight.
    """

    def __init__(self, columns: Columns) -> None:
        self.names: dict[str, int] = {}
        self.from_ns: Ints = np.zeros(0, np.int64)
        """When each disk's sample before was; -1: there is none."""
        self.is_idle: Flags = np.zeros(0, bool)
        """Nothing was in flight at either end, and nothing completed."""
        self.is_stalled: Flags = np.zeros(0, bool)
        """Something was in flight at both ends, and nothing completed."""
        self.is_there: Flags = np.zeros(0, bool)
        """Whether the disk has this sample and one before it."""
        self._columns = columns
        self._known = (0, 0)
        self._gauges: Ints = np.zeros(0, np.int64)
        self._sums = Sums((), {})
        self._when_ns: Ints = np.zeros(0, np.int64)
        self._in_flight: Values = np.zeros(0)
        self._done: Values = np.zeros(0)

    def take(self, sample: Sample) -> None:
        """Take in a sample: the step that ends with it."""
        self._fit()
        before, after = self._in_flight, sample.gauges[self._gauges]
        there, done = sample.gauges_there[self._gauges], self._sums.of(sample.totals)
        stood = done == self._done
        self.from_ns = self._when_ns
        self.is_there = there & (self.from_ns >= 0)
        # What is nan is above nothing.
        self.is_stalled = (before > 0) & (after > 0) & stood
        self.is_idle = ~((before > 0) | (after > 0) | ~stood)
        self._when_ns = np.where(there, sample.when_ns, self._when_ns)
        self._in_flight = np.where(there, after, before)
        self._done = np.where(there, done, self._done)

    def _fit(self) -> None:
        """Look for disks that are new."""
        counters, gauges = self._columns.counters.names, self._columns.gauges.names
        if self._known == (len(counters), len(gauges)):
            return
        self._known = (len(counters), len(gauges))
        for name in gauges:
            if name.startswith("disk/") and name.endswith(_IN_FLIGHT):
                disk = name.removeprefix("disk/").removesuffix(_IN_FLIGHT)
                self.names.setdefault(disk, len(self.names))
        places = [gauges[f"disk/{name}{_IN_FLIGHT}"] for name in self.names]
        kinds = [[f"disk/{name}/{kind}" for kind in _COMPLETED] for name in self.names]
        self._gauges = np.array(places, dtype=np.int64)
        self._sums = Sums(kinds, counters)
        more = len(self.names) - len(self._when_ns)
        self._when_ns = np.append(self._when_ns, np.full(more, -1))
        self._in_flight = fitted(self._in_flight, len(self.names))
        self._done = np.append(self._done, np.zeros(more))


class DisksSeen:
    """How long disks stood still, and were used at all, from one moment to another."""

    def __init__(self, begin_ns: int, end_ns: int) -> None:
        self._begin_ns, self._end_ns = begin_ns, end_ns
        self._names: dict[str, int] = {}
        self._stall_s: Values = np.zeros(0)
        """The stretch that lasts."""
        self._longest_s: Values = np.zeros(0)
        self._used_ns: Ints = np.zeros(0, np.int64)
        self._is_told: Flags = np.zeros(0, bool)

    def take(self, when_ns: int, steps: DiskSteps) -> None:
        """Take in the steps that end at a moment."""
        if when_ns <= self._begin_ns or not steps.names:
            return
        inside = steps.is_there & (steps.from_ns < self._end_ns)
        if not inside.any():
            return
        self._fit(steps.names)
        begin_ns = np.maximum(steps.from_ns, self._begin_ns)
        lengths_ns = np.where(inside, min(when_ns, self._end_ns) - begin_ns, 0)
        stall_s = np.where(steps.is_stalled, self._stall_s + lengths_ns / 1e9, 0.0)
        self._stall_s = np.where(inside, stall_s, self._stall_s)
        self._longest_s = np.maximum(self._longest_s, self._stall_s)
        self._used_ns += np.where(steps.is_idle, 0, lengths_ns)
        self._is_told |= inside

    def longest_stall_s(self, name: str) -> float:
        """Return the longest stretch with requests in flight at each sample, none completed."""
        place = self._names.get(name)
        return 0.0 if place is None else float(self._longest_s[place])

    def used_s(self, name: str) -> float | None:
        """Return how long the disk had any request; None where that is not told."""
        place = self._names.get(name)
        if place is None or not self._is_told[place]:
            return None
        return int(self._used_ns[place]) / 1e9

    def _fit(self, names: dict[str, int]) -> None:
        more = len(names) - len(self._stall_s)
        if not more:
            return
        self._names = dict(names)
        self._stall_s = np.append(self._stall_s, np.zeros(more))
        self._longest_s = np.append(self._longest_s, np.zeros(more))
        self._used_ns = np.append(self._used_ns, np.zeros(more, np.int64))
        self._is_told = np.append(self._is_told, np.zeros(more, bool))


def disks_use(window: Window, disks: DisksSeen) -> tuple[DiskUse, ...]:
    """Return the use of each disk that had a request in the window."""
    names = names_of(window, "disk", "reads")
    found = (_disk(window, disks, name) for name in names)
    return tuple(use for use in found if use is not None)


def _disk(window: Window, disks: DisksSeen, name: str) -> DiskUse | None:
    def rate(*kinds: str) -> float:
        return window.rate(*(f"disk/{name}/{kind}" for kind in kinds)) or 0.0

    in_flight = f"disk/{name}{_IN_FLIGHT}"
    completed = rate(*_COMPLETED)
    if completed == 0 and not window.most(in_flight) and not window.least(in_flight):
        return None
    transfers = rate("reads", "writes")
    queue = rate("queue_ms") / 1000
    used_s = disks.used_s(name)
    return DiskUse(
        name=name,
        busy=min(rate("busy_ms") / 1000, 1.0),
        reads_per_s=rate("reads"),
        writes_per_s=rate("writes"),
        read_bytes_per_s=rate("read_sectors") * _SECTOR,
        write_bytes_per_s=rate("written_sectors") * _SECTOR,
        queue=queue if completed else window.mean(in_flight) or 0.0,
        response_s=rate("read_ms", "write_ms") / 1000 / transfers
        if transfers
        else None,
        flushes_per_s=rate("flushes"),
        in_flight_min=round(window.least(in_flight) or 0),
        longest_stall_s=disks.longest_stall_s(name),
        active=None if used_s is None else min(used_s / window.seconds, 1.0),
    )
