"""Threads and processes in a window: the busiest of the trial, its targets and other programs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Literal

import msgspec

from benchwright.core.resource_use import (
    MOST_OTHERS,
    MOST_TASKS,
    WORKING_CORES,
    ProgramUse,
    TaskUse,
)
from benchwright.watch.use.series_file import (
    Header,
    Processes,
    ProcessRow,
    ThreadRow,
    ThreadsLine,
)
from benchwright.watch.use.window import SeriesWindow, TablesAround

# --------------------------------------------------------------------------------------
# The CPU time of threads and processes, computed while their tables are read.
#
# Decision: only the last two samples of each task are stored, and of ended tasks only the
# busiest, so that memory depends on the number of live tasks even if a trial starts processes
# continuously. A decrease is a slip (a sample below both of its neighbours), or else the
# number was reused by a new thread, which counts from 0.

_MOST_AWAY = 4096
"""The most tasks remembered that are missing from the last table: they may still be alive."""
_MOST_GONE = 64
"""The busiest of all other missing tasks; more than any report shows."""


class TaskGrowth:
    """The growth of one counter since a moment; samples are added in order."""

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
        """Whether the last sample is not settled, or no sample lies after the start yet."""
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
        """Settle the last sample with the next value."""
        if self._is_back and self._before <= after:
            self.total, self._value = self._before_total, self._before
        self._is_back = False
        if self._at_begin is None and self.last_ns >= self._begin_ns:
            self._at_begin = self.at(self._begin_ns)
        self._is_open = self._at_begin is None

    def since(self, end_ns: int) -> float:
        """Return the growth from the start to `end_ns`; only the last sample may be at or
        after `end_ns`."""
        begin = self._at_begin
        return self.at(end_ns) - (self.at(self._begin_ns) if begin is None else begin)

    def at(self, when_ns: int) -> float:
        """Return the total at a moment, from the last two samples."""
        if when_ns >= self.last_ns:
            return self.total
        if when_ns <= self._before_ns:
            return self._before_total
        slope = (self.total - self._before_total) / (self.last_ns - self._before_ns)
        return slope * (when_ns - self._before_ns) + self._before_total


class Track(msgspec.Struct, eq=False):
    """One thread or process."""

    pid: int
    tid: int
    name: str
    of: Literal["own", "target", "other"]
    run: TaskGrowth
    first_ns: int
    """Time of its first sample; an assumed start at 0 does not count."""
    first_total: int = 0
    wait: TaskGrowth | None = None
    is_wait_told: bool = False
    parent: int = 0
    """A process's parent, when the process was first seen."""
    of_kernel: bool = False
    """Whether it is a kernel thread."""


class Tracks:
    """All tasks seen in one window, by number and start, since numbers are reused."""

    def __init__(self, end_ns: int) -> None:
        self._end_ns = end_ns
        self.known: dict[tuple[int, int], Track] = {}
        self._gone: list[Track] = []
        self.gone_of_kernel = 0.0
        """The use of forgotten kernel threads."""

    def all(self) -> list[Track]:
        """Return all tracks; of forgotten tasks only the busiest."""
        return [*self.known.values(), *self._gone]

    def forget(self, there: int) -> None:
        """Forget tasks that are missing the longest; `there` is the size of the last table."""
        if len(self.known) <= there + 2 * _MOST_AWAY:
            return
        by_age = sorted(self.known, key=lambda key: self.known[key].run.last_ns)
        for key in by_age[: len(by_age) - there - _MOST_AWAY]:
            track = self.known.pop(key)
            if track.of_kernel:
                self.gone_of_kernel += track.run.since(self._end_ns)
            self._gone.append(track)
        self._gone.sort(key=lambda one: (-one.run.since(self._end_ns), one.pid, one.tid))
        del self._gone[_MOST_GONE:]


# -- The busiest threads of the trial and its targets ----------------------------------
#
# Decision: a thread that did not exist at the previous sample started after it, so all of its
# CPU time belongs to the interval. A thread first seen at the start of a series, or that may
# have existed without being reported, counts from its first sample.

LEAST_SHARE = 0.0005
"""Tasks below this use are omitted [cores]: a table of percentages would show 0."""

TaskOwner = Literal["own", "target"]


class ThreadTable(msgspec.Struct, eq=False):
    """A table of threads, and the sample that it belongs to."""

    table: ThreadsLine
    number: int
    """Number of the sample, from 0."""
    before_ns: int
    """Time of the sample before it, if there is one."""


class WindowThreads:
    """The threads of one tree from one moment to another."""

    def __init__(self, of: TaskOwner, begin_ns: int, end_ns: int) -> None:
        self._of = of
        self._begin_ns = begin_ns
        self._around: TablesAround[ThreadTable] = TablesAround(begin_ns, end_ns)
        self._tracks = Tracks(end_ns)
        self._last = -1
        """Number of the last table's sample."""
        self._is_complete = True
        """Whether the last table listed all threads."""

    def take(self, one: ThreadTable) -> None:
        """Add a table."""
        for each in self._around.taken(one.table.t, one):
            self._look_at(each)

    def all(self) -> list[Track]:
        """Return the threads, after the last table."""
        for each in self._around.rest():
            self._look_at(each)
        return self._tracks.all()

    def _look_at(self, thread_table: ThreadTable) -> None:
        # A sample without threads has no table, and counts as complete.
        knows_new = thread_table.number > 0 and (
            self._is_complete or self._last < thread_table.number - 1
        )
        self._last, self._is_complete = (
            thread_table.number,
            thread_table.table.more == 0,
        )
        known, when_ns = self._tracks.known, thread_table.table.t
        for row in thread_table.table.rows:
            if row.run_ns is None:
                continue
            track = known.get((row.pid, row.tid))
            if track is None:
                before_ns = thread_table.before_ns if knows_new else None
                known[row.pid, row.tid] = self._new(row, when_ns, before_ns)
                continue
            track.name = row.name
            track.run.add(when_ns, row.run_ns)
            if row.wait_ns is not None:
                self._add_wait(track, when_ns, row.wait_ns)
        self._tracks.forget(len(thread_table.table.rows))

    def _new(self, row: ThreadRow, when_ns: int, before_ns: int | None) -> Track:
        """Return a track with its first sample; `before_ns`: the thread was at 0 then."""
        run_ns = row.run_ns or 0
        begin_ns = self._begin_ns
        if before_ns is None:
            run = TaskGrowth(begin_ns, when_ns, run_ns)
            track = Track(row.pid, row.tid, row.name, self._of, run, when_ns)
        else:
            run = TaskGrowth(begin_ns, before_ns, 0)
            run.add(when_ns, run_ns)
            track = Track(row.pid, row.tid, row.name, self._of, run, when_ns, run_ns)
            track.wait = TaskGrowth(begin_ns, before_ns, 0)
        if row.wait_ns is not None:
            self._add_wait(track, when_ns, row.wait_ns)
        return track

    def _add_wait(self, track: Track, when_ns: int, wait_ns: int) -> None:
        track.is_wait_told = True
        if track.wait is None:
            track.wait = TaskGrowth(self._begin_ns, when_ns, wait_ns)
        else:
            track.wait.add(when_ns, wait_ns)


def tasks_use(
    window: SeriesWindow, own: WindowThreads, target: WindowThreads
) -> tuple[tuple[TaskUse, ...], tuple[int, int]]:
    """Return the busiest threads of the own tree and the targets, busiest first, and how
    many of each worked."""
    sides = [
        [(share_of(window, track, 1e-9), track) for track in seen.all()] for seen in (own, target)
    ]
    # Chosen for each side: the many processes of a busy server must not hide its generator.
    chosen = [one for side in sides for one in busiest(side, MOST_TASKS)]
    shown = busiest(chosen, None)
    first, second = (sum(share >= WORKING_CORES for share, _ in side) for side in sides)
    return tuple(_thread(window, track, share) for share, track in shown), (
        first,
        second,
    )


def share_of(window: SeriesWindow, track: Track, unit_s: float) -> float:
    """Return a track's mean CPU time over the window [cores]."""
    return track.run.since(window.end_ns) * unit_s / window.seconds


def busiest(shares: Iterable[tuple[float, Track]], most: int | None) -> list[tuple[float, Track]]:
    """Return the `most` busiest tasks, busiest first; None: all that did anything."""
    busy = [share for share in shares if share[0] >= LEAST_SHARE]
    busy.sort(key=lambda one: (-one[0], one[1].pid, one[1].tid))
    return busy[:most]


def _thread(window: SeriesWindow, track: Track, share: float) -> TaskUse:
    run = track.run
    used_ns = run.since(window.end_ns)
    begin_ns = max(window.begin_ns, track.first_ns)
    if track.first_ns > window.begin_ns:
        used_ns = run.at(window.end_ns) - track.first_total
    seen_s = (min(window.end_ns, run.last_ns) - begin_ns) / 1e9
    return TaskUse(
        pid=track.pid,
        tid=track.tid,
        name=track.name,
        share=share,
        of=track.of,
        busiest_share=used_ns / 1e9 / seen_s if seen_s > 0 else None,
        seen_s=max(seen_s, 0.0),
        waiting=_waiting(window, track),
    )


def _waiting(window: SeriesWindow, track: Track) -> float | None:
    if track.wait is None or not track.is_wait_told:
        return None
    return track.wait.since(window.end_ns) / 1e9 / window.seconds


# --------------------------------------------------------------------------------------
# The busiest processes that do not belong to the trial, and the kernel's own threads.
#
# Decision: a process that was not in the previous table started after it, so all of its CPU
# time belongs to the interval; processes of the first table count from that table.

_KERNEL_THREADS = 2
"""Process id of kthreadd: it and its children are kernel threads."""
_KTHREADD = (_KERNEL_THREADS, 0, "kthreadd")
"""Its id, parent id and name, all checked: in a PID namespace, 2 may be any process."""


class Trees:
    """The processes of a trial, its targets and bw, in the whole series so far.

    A process number stays in the set; its size is bounded by the kernel's largest number.
    """

    def __init__(self, header: Header) -> None:
        self._roots = {header.root_pid}
        self.ours: set[int] = {header.root_pid}

    def take(self, table: ThreadsLine, *, roots: bool) -> None:
        """Add the processes of a table; with `roots` their descendants belong to us too."""
        pids = {row.pid for row in table.rows}
        self.ours |= pids
        if roots:
            self._roots |= pids

    def with_all_below(
        self, parents: Iterable[tuple[int, int]], known: AbstractSet[int] = frozenset()
    ) -> set[int]:
        """Return the roots, `known`, and all their descendants; `parents` has (number, parent's
        number) of each process."""
        edges, found, before = list(parents), self._roots | known, -1
        while len(found) > before:
            # Usually two passes: most children have higher numbers than their parents.
            before = len(found)
            for pid, parent in edges:
                if parent in found:
                    found.add(pid)
        return found

    def descendants(self, table: Processes) -> set[int]:
        """Return the roots and all their descendants in a table."""
        return self.with_all_below((row.pid, row.ppid) for row in table.rows)


class ProcessTable(msgspec.Struct, eq=False):
    """A table of all processes, and which of them belong to our trees."""

    table: Processes
    below: AbstractSet[int]


class OthersUse(msgspec.Struct, frozen=True):
    """The use of other programs in a window, busiest first."""

    processes: tuple[TaskUse, ...]
    """Includes kernel threads, whose names are in brackets, as in ps."""
    programs: tuple[ProgramUse, ...]
    of_kernel: float | None
    """Use by all kernel threads [cores]; None if they are not visible."""


class WindowOthers:
    """All processes of other programs, from one moment to another."""

    def __init__(self, trees: Trees, begin_ns: int, end_ns: int) -> None:
        self._trees = trees
        self._begin_ns = begin_ns
        self._around: TablesAround[ProcessTable] = TablesAround(begin_ns, end_ns)
        self._tracks = Tracks(end_ns)
        self._below: set[int] = set()
        self._last_ns: int | None = None
        """Time of the last table."""
        self._sees_kernel = False
        self._tables = 0

    def take(self, one: ProcessTable) -> None:
        """Add a table."""
        for each in self._around.taken(one.table.t, one):
            self._look_at(each)

    def others_use(self, window: SeriesWindow) -> OthersUse:
        """Return their use, after the last table."""
        for each in self._around.rest():
            self._look_at(each)
        tick_s = 1 / window.header.ticks_per_s
        ours = self._ours()
        tracks = [track for track in self._tracks.all() if track.pid not in ours]
        shares = [(share_of(window, track, tick_s), track) for track in tracks]
        task_uses = tuple(
            TaskUse(track.pid, 0, _name(track), share, "other")
            for share, track in busiest(shares, MOST_OTHERS)
        )
        sees_kernel = self._sees_kernel and self._tables > 1
        of_kernel = self._of_kernel(window, ours) if sees_kernel else None
        return OthersUse(task_uses, _programs(shares), of_kernel)

    def _ours(self) -> set[int]:
        """Return our processes, computed at the end: a target may be reported after its
        children."""
        parents = ((track.pid, track.parent) for track in self._tracks.all())
        return self._trees.ours | self._trees.with_all_below(parents, self._below)

    def _of_kernel(self, window: SeriesWindow, ours: AbstractSet[int]) -> float:
        tick_s = 1 / window.header.ticks_per_s
        known = [
            share_of(window, track, tick_s)
            for track in self._tracks.known.values()
            if track.of_kernel and track.pid not in ours
        ]
        gone = self._tracks.gone_of_kernel * tick_s / window.seconds
        return math.fsum((*known, gone))

    def _look_at(self, process_table: ProcessTable) -> None:
        if not self._tables:
            self._sees_kernel = _sees_kernel(process_table.table)
        self._tables += 1
        self._below |= process_table.below
        ours, below, known = self._trees.ours, self._below, self._tracks.known
        when_ns = process_table.table.t
        for row in process_table.table.rows:
            if row.pid in ours or row.pid in below:
                continue
            track = known.get((row.pid, row.start_ticks))
            if track is None:
                known[row.pid, row.start_ticks] = self._new(row, when_ns)
            else:
                track.name = row.name
                track.run.add(when_ns, row.run_ticks)
        self._last_ns = when_ns
        self._tracks.forget(len(process_table.table.rows))

    def _new(self, row: ProcessRow, when_ns: int) -> Track:
        before_ns = self._last_ns
        if before_ns is None:
            run = TaskGrowth(self._begin_ns, when_ns, row.run_ticks)
        else:
            run = TaskGrowth(self._begin_ns, before_ns, 0)
            run.add(when_ns, row.run_ticks)
        of_kernel = self._sees_kernel and _KERNEL_THREADS in (row.pid, row.ppid)
        track = Track(row.pid, 0, row.name, "other", run, when_ns)
        track.parent, track.of_kernel = row.ppid, of_kernel
        return track


def _programs(shares: Iterable[tuple[float, Track]]) -> tuple[ProgramUse, ...]:
    """Return the busiest programs, without kernel threads."""
    by_name: dict[str, list[float]] = {}
    for share, track in busiest(shares, None):
        if not track.of_kernel:
            by_name.setdefault(track.name, []).append(share)
    program_uses = [ProgramUse(n, len(each), math.fsum(each)) for n, each in by_name.items()]
    program_uses.sort(key=lambda one: (-one.share, one.name))
    return tuple(program_uses[:MOST_OTHERS])


def _name(track: Track) -> str:
    return f"[{track.name}]" if track.of_kernel else track.name


def _sees_kernel(table: Processes) -> bool:
    return any((row.pid, row.ppid, row.name) == _KTHREADD for row in table.rows)
