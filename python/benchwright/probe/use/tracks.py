"""What threads and processes used while their tables come in, each in a few numbers.

Decision: of each only the last two samples are kept, and of those that are long gone only
the busiest, so that a trial which starts processes all the time is read in the memory of
those that live. A step back is a slip (a sample below both of its neighbours), or else a
number that was given to a new thread, which counts from 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_MOST_AWAY = 4096
"""Those not in the last table that are still known: one may only not have been told."""
_MOST_GONE = 64
"""Of those forgotten, the busiest; more than any table of uses has."""


class Growth:
    """How far one counter grew from a moment on; samples are added in their order."""

    __slots__ = (
        "_at_begin",
        "_before",
        "_before_ns",
        "_before_total",
        "_begin_ns",
        "_is_back",
        "_is_open",
        "_value",
        "last_ns",
        "total",
    )

    def __init__(self, begin_ns: int, when_ns: int, value: int) -> None:
        self._begin_ns = begin_ns
        self._at_begin: float | None = None
        self._is_back = False
        """Whether the last sample is below the one before."""
        self._is_open = True
        """Whether the last sample is not to be taken as it is, or the beginning awaited."""
        self._before = self._value = value
        self._before_ns = self.last_ns = when_ns
        self._before_total = self.total = 0

    def add(self, when_ns: int, value: int) -> None:
        """Add a sample."""
        if self._is_open:
            self._settle(value)
        step = value - self._value
        if step < 0:
            self._is_back = self._is_open = True
            step = value
        self._before_ns = self.last_ns
        self._before_total = self.total
        self._before = self._value
        self.last_ns = when_ns
        self._value = value
        self.total += step

    def _settle(self, after: int) -> None:
        """Settle the last sample by the next value."""
        if self._is_back and self._before <= after:
            self.total, self._value = self._before_total, self._before
        self._is_back = False
        if self._at_begin is None and self.last_ns >= self._begin_ns:
            self._at_begin = self.at(self._begin_ns)
        self._is_open = self._at_begin is None

    def since(self, end_ns: int) -> float:
        """Return the growth from the beginning to an end that no sample but the last is at
        or after."""
        begin = self._at_begin
        return self.at(end_ns) - (self.at(self._begin_ns) if begin is None else begin)

    def at(self, when_ns: int) -> float:
        """Return the total at a moment around the last two samples."""
        if when_ns >= self.last_ns:
            return self.total
        if when_ns <= self._before_ns:
            return self._before_total
        slope = (self.total - self._before_total) / (self.last_ns - self._before_ns)
        return slope * (when_ns - self._before_ns) + self._before_total


@dataclass(slots=True, eq=False)
class Track:
    """One thread or process."""

    pid: int
    tid: int
    name: str
    of: Literal["own", "target", "other"]
    run: Growth
    first_ns: int
    """Of its first sample; that it began before is not one."""
    first_total: int = 0
    wait: Growth | None = None
    is_wait_told: bool = False
    parent: int = 0
    """Of a process, when it was seen first."""
    of_kernel: bool = False
    """A thread of the kernel's own."""


class Tracks:
    """All that were seen in one window, by number and what tells two of one number apart."""

    def __init__(self, end_ns: int) -> None:
        self._end_ns = end_ns
        self.known: dict[tuple[int, int], Track] = {}
        self._gone: list[Track] = []
        self.gone_of_kernel = 0.0
        """What the kernel's threads used that are forgotten."""

    def all(self) -> list[Track]:
        """Return all; of those long gone only the busiest."""
        return [*self.known.values(), *self._gone]

    def forget(self, there: int) -> None:
        """Forget those that are away the longest, where `there` are in the last table."""
        if len(self.known) <= there + 2 * _MOST_AWAY:
            return
        by_age = sorted(self.known, key=lambda key: self.known[key].run.last_ns)
        for key in by_age[: len(by_age) - there - _MOST_AWAY]:
            track = self.known.pop(key)
            if track.of_kernel:
                self.gone_of_kernel += track.run.since(self._end_ns)
            self._gone.append(track)
        self._gone.sort(
            key=lambda one: (-one.run.since(self._end_ns), one.pid, one.tid)
        )
        del self._gone[_MOST_GONE:]
