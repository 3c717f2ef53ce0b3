"""The busiest processes that are nobody's of a trial, and the kernel's own threads.

Decision: a process that was not in the table before began after it, so all that it used is
in between; those of the first table are counted from there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from benchwright.model.watched import MOST_OTHERS, ProgramUse, TaskUse
from benchwright.probe.use.lines import Header, Processes, ProcessRow, Threads
from benchwright.probe.use.tasks import busiest, share_of
from benchwright.probe.use.tracks import Growth, Track, Tracks
from benchwright.probe.use.window import Around, Window

_KERNEL_THREADS = 2
"""The process whose children are threads of the kernel, with itself."""
_KTHREADD = (_KERNEL_THREADS, 0, "kthreadd")
"""Its number, its parent's and its name: in a PID namespace 2 is some process."""


class Trees:
    """The processes of a trial, its targets and bw, of the whole series so far.

    A process number that was ever theirs is: there are never more than the kernel has.
    """

    def __init__(self, header: Header) -> None:
        self._roots = {header.root_pid}
        self.ours: set[int] = {header.root_pid}

    def take(self, table: Threads, *, roots: bool) -> None:
        """Take in a table of threads; those below `roots` are ours too."""
        pids = {row.pid for row in table.rows}
        self.ours |= pids
        if roots:
            self._roots |= pids

    def with_all_below(
        self, parents: Iterable[tuple[int, int]], known: AbstractSet[int] = frozenset()
    ) -> set[int]:
        """Return the roots, those known, and all below them; of each process its number
        and its parent's."""
        edges, found, before = list(parents), self._roots | known, -1
        while len(found) > before:
            # Once, where no child has a lower number than its parent, and once more.
            before = len(found)
            for pid, parent in edges:
                if parent in found:
                    found.add(pid)
        return found

    def descendants(self, table: Processes) -> set[int]:
        """Return the roots and all that are below them in a table."""
        return self.with_all_below((row.pid, row.ppid) for row in table.rows)


@dataclass(slots=True, eq=False)
class ProcessTable:
    """A table of all processes, and which of them are the trees'."""

    table: Processes
    below: AbstractSet[int]


@dataclass(slots=True, frozen=True)
class OthersUse:
    """What those used that are not ours in a window, busiest first."""

    processes: tuple[TaskUse, ...]
    """A thread of the kernel is one too; its name stands in brackets, as in ps."""
    programs: tuple[ProgramUse, ...]
    of_kernel: float | None
    """Of all threads of the kernel [cores]; None where they are not seen."""


class OthersSeen:
    """All processes that are not ours, from one moment to another."""

    def __init__(self, trees: Trees, begin_ns: int, end_ns: int) -> None:
        self._trees = trees
        self._begin_ns = begin_ns
        self._around: Around[ProcessTable] = Around(begin_ns, end_ns)
        self._tracks = Tracks(end_ns)
        self._below: set[int] = set()
        self._last_ns: int | None = None
        """When the last table was."""
        self._sees_kernel = False
        self._tables = 0

    def take(self, one: ProcessTable) -> None:
        """Take in a table."""
        for each in self._around.taken(one.table.t, one):
            self._look_at(each)

    def others_use(self, window: Window) -> OthersUse:
        """Return what they used, after the last table."""
        for each in self._around.rest():
            self._look_at(each)
        tick_s = 1 / window.header.ticks_per_s
        ours = self._ours()
        tracks = [track for track in self._tracks.all() if track.pid not in ours]
        shares = [(share_of(window, track, tick_s), track) for track in tracks]
        found = tuple(
            TaskUse(track.pid, 0, _name(track), share, "other")
            for share, track in busiest(shares, MOST_OTHERS)
        )
        sees_kernel = self._sees_kernel and self._tables > 1
        of_kernel = self._of_kernel(window, ours) if sees_kernel else None
        return OthersUse(found, _programs(shares), of_kernel)

    def _ours(self) -> set[int]:
        """Return who is ours, by all that is known at the end: a target may have been told
        after its children."""
        parents = ((track.pid, track.parent) for track in self._tracks.all())
        return self._trees.ours | self._trees.with_all_below(parents, self._below)

    def _of_kernel(self, window: Window, ours: AbstractSet[int]) -> float:
        tick_s = 1 / window.header.ticks_per_s
        known = [
            share_of(window, track, tick_s)
            for track in self._tracks.known.values()
            if track.of_kernel and track.pid not in ours
        ]
        gone = self._tracks.gone_of_kernel * tick_s / window.seconds
        return math.fsum((*known, gone))

    def _look_at(self, one: ProcessTable) -> None:
        if not self._tables:
            self._sees_kernel = _sees_kernel(one.table)
        self._tables += 1
        self._below |= one.below
        ours, below, known = self._trees.ours, self._below, self._tracks.known
        when_ns = one.table.t
        for row in one.table.rows:
            if row.pid in ours or row.pid in below:
                continue
            track = known.get((row.pid, row.start_ticks))
            if track is None:
                known[row.pid, row.start_ticks] = self._new(row, when_ns)
            else:
                track.name = row.name
                track.run.add(when_ns, row.run_ticks)
        self._last_ns = when_ns
        self._tracks.forget(len(one.table.rows))

    def _new(self, row: ProcessRow, when_ns: int) -> Track:
        before_ns = self._last_ns
        if before_ns is None:
            run = Growth(self._begin_ns, when_ns, row.run_ticks)
        else:
            run = Growth(self._begin_ns, before_ns, 0)
            run.add(when_ns, row.run_ticks)
        of_kernel = self._sees_kernel and _KERNEL_THREADS in (row.pid, row.ppid)
        track = Track(row.pid, 0, row.name, "other", run, when_ns)
        track.parent, track.of_kernel = row.ppid, of_kernel
        return track


def _programs(shares: Iterable[tuple[float, Track]]) -> tuple[ProgramUse, ...]:
    """Return the busiest programs; the kernel's threads are none."""
    by_name: dict[str, list[float]] = {}
    for share, track in busiest(shares, None):
        if not track.of_kernel:
            by_name.setdefault(track.name, []).append(share)
    found = [ProgramUse(n, len(each), math.fsum(each)) for n, each in by_name.items()]
    found.sort(key=lambda one: (-one.share, one.name))
    return tuple(found[:MOST_OTHERS])


def _name(track: Track) -> str:
    return f"[{track.name}]" if track.of_kernel else track.name


def _sees_kernel(table: Processes) -> bool:
    return any((row.pid, row.ppid, row.name) == _KTHREADD for row in table.rows)
