"""The busiest threads of the trial and its targets, and the busiest other processes.

Decision: a thread or process that was not there at the sample before began after it, so
all that it used is in between; one seen for the first time at a series' beginning, or that
may have been among those not told, is counted from there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from benchwright.model.watched import TaskUse
from benchwright.probe.series_lines import Processes, Threads
from benchwright.probe.use_window import Total, Window, total_of

MOST_TASKS = 8
MOST_OTHERS = 5
_LEAST_SHARE = 0.0005
"""Below it a task did nothing that a table of percents could show [cores]."""
_KERNEL_THREADS = 2
"""The process whose children are threads of the kernel, with itself."""
_KTHREADD = (_KERNEL_THREADS, 0, "kthreadd")
"""Its number, its parent's and its name: in a PID namespace 2 is some process."""

Of = Literal["own", "target"]


@dataclass(slots=True)
class _Track:
    """What one thread or process was seen to have used, and when."""

    pid: int
    tid: int
    name: str
    of: Literal["own", "target", "other"]
    began: bool = False
    """The first sample is the moment before it was there, with nothing used."""
    of_kernel: bool = False
    """A thread of the kernel's own."""
    times: list[int] = field(default_factory=list)
    run: list[int] = field(default_factory=list)
    wait_times: list[int] = field(default_factory=list)
    wait: list[int] = field(default_factory=list)

    def begin(self, before_ns: int) -> None:
        """Say that it was not there yet at a moment."""
        self.began = True
        self.add(before_ns, 0, 0)

    def add(self, when_ns: int, run: int, wait: int | None) -> None:
        """Add a sample."""
        self.times.append(when_ns)
        self.run.append(run)
        if wait is not None:
            self.wait_times.append(when_ns)
            self.wait.append(wait)

    def share(self, window: Window, unit_s: float) -> float:
        """Return its mean processor time over the window [cores]."""
        if min(self.run) == max(self.run):
            return 0.0
        total = _total(self.times, self.run)
        used = total.between(window.begin_ns, window.end_ns)
        return used * unit_s / window.seconds


def tasks_use(window: Window) -> tuple[TaskUse, ...]:
    """Return the busiest threads of the own tree and the targets, busiest first."""
    series = window.series
    sides: tuple[tuple[Of, tuple[Threads, ...]], ...] = (
        ("own", series.own),
        ("target", series.target),
    )
    tracks = [
        track for of, tables in sides for track in _thread_tracks(window, of, tables)
    ]
    shares = [(track.share(window, 1e-9), track) for track in tracks]
    return tuple(
        _thread(window, track, share) for share, track in _busiest(shares, MOST_TASKS)
    )


def others_use(window: Window) -> tuple[tuple[TaskUse, ...], float | None]:
    """Return the busiest processes that are nobody's of this trial, busiest first.

    A thread of the kernel is one too; its name stands in brackets, as in ps. With them comes
    what all threads of the kernel used [cores]; None where they are not seen.
    """
    tick_s = 1 / window.series.header.ticks_per_s
    tables = _process_tables(window)
    sees_kernel = len(tables) > 1 and _sees_kernel(tables[0])
    tracks = _process_tracks(window, tables, sees_kernel)
    shares = [(track.share(window, tick_s), track) for track in tracks]
    busiest = tuple(
        TaskUse(track.pid, 0, track.name, share, "other")
        for share, track in _busiest(shares, MOST_OTHERS)
    )
    of_kernel = math.fsum(share for share, track in shares if track.of_kernel)
    return busiest, of_kernel if sees_kernel else None


def _busiest(
    shares: Iterable[tuple[float, _Track]], most: int
) -> list[tuple[float, _Track]]:
    busy = [one for one in shares if one[0] >= _LEAST_SHARE]
    busy.sort(key=lambda one: (-one[0], one[1].pid, one[1].tid))
    return busy[:most]


def _thread(window: Window, track: _Track, share: float) -> TaskUse:
    begin_ns = max(window.begin_ns, track.times[1 if track.began else 0])
    end_ns = min(window.end_ns, track.times[-1])
    seen_s = (end_ns - begin_ns) / 1e9
    total = _total(track.times, track.run)
    return TaskUse(
        pid=track.pid,
        tid=track.tid,
        name=track.name,
        share=share,
        of=track.of,
        busiest_share=total.between(begin_ns, end_ns) / 1e9 / seen_s
        if seen_s > 0
        else None,
        seen_s=max(seen_s, 0.0),
        waiting=_waiting(window, track),
    )


def _waiting(window: Window, track: _Track) -> float | None:
    if len(track.wait) <= track.began:
        return None
    total = _total(track.wait_times, track.wait)
    return total.between(window.begin_ns, window.end_ns) / 1e9 / window.seconds


def _total(times: list[int], values: list[int]) -> Total:
    # A number that was given to a new thread counts from 0 again.
    return total_of(
        np.array(times, dtype=np.int64),
        np.array(values, dtype=np.float64),
        restarts=True,
    )


def _thread_tracks(
    window: Window, of: Of, tables: tuple[Threads, ...]
) -> Iterable[_Track]:
    """Return the threads around the window, each with its samples."""
    tracks: dict[tuple[int, int], _Track] = {}
    for table, before_ns in _by_sample(window, tables):
        for row in table.rows:
            if row.run_ns is None:
                continue
            key = (row.pid, row.tid)
            if key not in tracks:
                tracks[key] = _Track(row.pid, row.tid, row.name, of)
                if before_ns is not None:
                    tracks[key].begin(before_ns)
            tracks[key].name = row.name
            tracks[key].add(table.t, row.run_ns, row.wait_ns)
    return tracks.values()


def _by_sample(
    window: Window, tables: tuple[Threads, ...]
) -> Iterator[tuple[Threads, int | None]]:
    """Yield the tables around the window; the time of the sample before where it is complete.

    A sample at which no thread was there has no table, and is complete.
    """
    samples = window.series.times
    times = np.array([table.t for table in tables], dtype=np.int64)
    part = window.around(times)
    rows = (np.searchsorted(samples, times[part], "right") - 1).tolist()
    last_row, complete = -1, True
    for row, table in zip(rows, tables[part], strict=True):
        known = row > 0 and (complete or last_row < row - 1)
        yield table, int(samples[row - 1]) if known else None
        last_row, complete = row, table.more == 0


def _process_tables(window: Window) -> tuple[Processes, ...]:
    """Return the tables of all processes around the window."""
    tables = window.series.processes
    times = np.array([table.t for table in tables], dtype=np.int64)
    return tables[window.around(times)]


def _sees_kernel(table: Processes) -> bool:
    return any((row.pid, row.ppid, row.name) == _KTHREADD for row in table.rows)


def _process_tracks(
    window: Window, tables: tuple[Processes, ...], sees_kernel: bool
) -> Iterable[_Track]:
    """Return the processes around the window that are nobody's of the trial."""
    ours = _ours(window, tables)
    tracks: dict[tuple[int, int], _Track] = {}
    before_ns: int | None = None
    for table in tables:
        for row in table.rows:
            if row.pid in ours:
                continue
            key = (row.pid, row.start_ticks)
            if key not in tracks:
                of_kernel = sees_kernel and _KERNEL_THREADS in (row.pid, row.ppid)
                tracks[key] = _Track(row.pid, 0, "", "other", of_kernel=of_kernel)
                if before_ns is not None:
                    tracks[key].begin(before_ns)
            track = tracks[key]
            track.name = f"[{row.name}]" if track.of_kernel else row.name
            track.add(table.t, row.run_ticks, None)
        before_ns = table.t
    return tracks.values()


def _ours(window: Window, tables: tuple[Processes, ...]) -> set[int]:
    """Return the processes of the own and target trees, and bw's."""
    series = window.series
    roots = {series.header.root_pid} | {
        row.pid for table in series.target for row in table.rows
    }
    found = roots | {
        row.pid
        for of in (series.own, series.watcher)
        for table in of
        for row in table.rows
    }
    for table in tables:
        found |= _descendants(table, roots)
    return found


def _descendants(table: Processes, roots: set[int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for row in table.rows:
        children.setdefault(row.ppid, []).append(row.pid)
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found
