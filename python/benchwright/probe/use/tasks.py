"""The busiest threads of the trial and its targets.

Decision: a thread that was not there at the sample before began after it, so all that it
used is in between; one seen for the first time at a series' beginning, or that may have
been among those not told, is counted from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from benchwright.model.watched import MOST_TASKS, WORKING, TaskUse
from benchwright.probe.use.lines import ThreadRow, Threads
from benchwright.probe.use.tracks import Growth, Track, Tracks
from benchwright.probe.use.window import Around, Window

LEAST_SHARE = 0.0005
"""Below it a task did nothing that a table of percents could show [cores]."""

Of = Literal["own", "target"]


@dataclass(slots=True, eq=False)
class ThreadTable:
    """A table of threads, and the sample that it belongs to."""

    table: Threads
    number: int
    """Of the sample, from 0."""
    before_ns: int
    """When the sample before it was, where there is one."""


class ThreadsSeen:
    """The threads of one tree from one moment to another."""

    def __init__(self, of: Of, begin_ns: int, end_ns: int) -> None:
        self._of = of
        self._begin_ns = begin_ns
        self._around: Around[ThreadTable] = Around(begin_ns, end_ns)
        self._tracks = Tracks(end_ns)
        self._last = -1
        """The sample of the last table."""
        self._is_complete = True
        """Whether the last table told all threads."""

    def take(self, one: ThreadTable) -> None:
        """Take in a table."""
        for each in self._around.taken(one.table.t, one):
            self._look_at(each)

    def all(self) -> list[Track]:
        """Return the threads, after the last table."""
        for each in self._around.rest():
            self._look_at(each)
        return self._tracks.all()

    def _look_at(self, one: ThreadTable) -> None:
        # A sample at which no thread was there has no table, and is complete.
        knows_new = one.number > 0 and (
            self._is_complete or self._last < one.number - 1
        )
        self._last, self._is_complete = one.number, one.table.more == 0
        known, when_ns = self._tracks.known, one.table.t
        for row in one.table.rows:
            if row.run_ns is None:
                continue
            track = known.get((row.pid, row.tid))
            if track is None:
                before_ns = one.before_ns if knows_new else None
                known[row.pid, row.tid] = self._new(row, when_ns, before_ns)
                continue
            track.name = row.name
            track.run.add(when_ns, row.run_ns)
            if row.wait_ns is not None:
                self._add_wait(track, when_ns, row.wait_ns)
        self._tracks.forget(len(one.table.rows))

    def _new(self, row: ThreadRow, when_ns: int, before_ns: int | None) -> Track:
        """Return a track with its first sample; where it began after one, with that at 0."""
        run_ns = row.run_ns or 0
        begin_ns = self._begin_ns
        if before_ns is None:
            run = Growth(begin_ns, when_ns, run_ns)
            track = Track(row.pid, row.tid, row.name, self._of, run, when_ns)
        else:
            run = Growth(begin_ns, before_ns, 0)
            run.add(when_ns, run_ns)
            track = Track(row.pid, row.tid, row.name, self._of, run, when_ns, run_ns)
            track.wait = Growth(begin_ns, before_ns, 0)
        if row.wait_ns is not None:
            self._add_wait(track, when_ns, row.wait_ns)
        return track

    def _add_wait(self, track: Track, when_ns: int, wait_ns: int) -> None:
        track.is_wait_told = True
        if track.wait is None:
            track.wait = Growth(self._begin_ns, when_ns, wait_ns)
        else:
            track.wait.add(when_ns, wait_ns)


def tasks_use(
    window: Window, own: ThreadsSeen, target: ThreadsSeen
) -> tuple[tuple[TaskUse, ...], tuple[int, int]]:
    """Return the busiest threads of the own tree and the targets, busiest first, and how
    many of each worked."""
    sides = [
        [(share_of(window, track, 1e-9), track) for track in seen.all()]
        for seen in (own, target)
    ]
    # Of each side: the many processes of a busy server do not hide its generator.
    chosen = [one for side in sides for one in busiest(side, MOST_TASKS)]
    shown = busiest(chosen, None)
    first, second = (sum(share >= WORKING for share, _ in side) for side in sides)
    return tuple(_thread(window, track, share) for share, track in shown), (
        first,
        second,
    )


def share_of(window: Window, track: Track, unit_s: float) -> float:
    """Return a track's mean processor time over the window [cores]."""
    return track.run.since(window.end_ns) * unit_s / window.seconds


def busiest(
    shares: Iterable[tuple[float, Track]], most: int | None
) -> list[tuple[float, Track]]:
    """Return those that did anything, busiest first; all of them where `most` is None."""
    busy = [one for one in shares if one[0] >= LEAST_SHARE]
    busy.sort(key=lambda one: (-one[0], one[1].pid, one[1].tid))
    return busy[:most]


def _thread(window: Window, track: Track, share: float) -> TaskUse:
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


def _waiting(window: Window, track: Track) -> float | None:
    if track.wait is None or not track.is_wait_told:
        return None
    return track.wait.since(window.end_ns) / 1e9 / window.seconds
