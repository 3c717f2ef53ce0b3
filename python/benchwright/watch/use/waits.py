"""What the trial's threads waited for in a window, from the places in which samples found them.

Purpose: a program that uses hardly any CPU time and no resource fully waits for something.
Decision: only samples in which no thread of the trial ran or was ready count, because the wait of
one thread explains nothing while another works. Of these samples the waits of threads count that
others do not explain: not those of a process for its children, nor of a thread for others of its
process, while one of these waits for something outside. A main thread that waits for something
outside is what its process waits for: other threads are then mostly idle helpers, and so are
children at a futex that processes share. Threads at one futex wait for one lock if it is passed on,
that is, if one of them is later found elsewhere: idle helpers of a pool are at one futex too, and
stay there. Those of several processes count if they share it and have it at one address, as after a
fork. A thread that waits for others of its process with a time limit is the last of its chain: if
nothing outside is waited for, it sleeps. At a futex without a time limit it waits for a lock or for
work; if the limit is not known, nothing is claimed. What lost: a lock is any futex of several
threads (the compiler threads of each JVM are at one). The share of this time is bounded by CPU
times, which are exact; only what it was spent on is a count of samples. CPU time of threads that no
sample shows, such as short-lived children, is spread over as many threads as samples saw at once:
over one if the program never had two ready, because its steps then follow each other. Source:
docs/watch-format.md.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence

from benchwright.core.resource_use import OffCpuUse, WaitKind, WaitUse
from benchwright.stats.special import binomial_cdf
from benchwright.watch.use.series_file import PlaceRow, ThreadRow, ThreadsLine

_SLEEPS = frozenset(("nanosleep", "clock_nanosleep"))
_CHILDREN = frozenset(("wait4", "waitid", "vfork", "clone", "clone3"))
_LOCKS = frozenset(("flock", "fcntl", "semop", "semtimedop"))
_POLLS = ("poll", "ppoll", "select", "pselect6", "epoll_")
"""Begins of calls that wait for any of several descriptors."""
_FILES = (
    *(
        "open",
        "unlink",
        "mkdir",
        "rename",
        "stat",
        "lstat",
        "newfstatat",
        "sync",
        "msync",
    ),
    *("madvise", "mmap", "execve", "io_getevents", "close"),
)
"""Begins of calls on paths and mappings, which wait for the disk."""
_SOCKETS = ("tcp ", "udp ", "socket")
_MEMORY = "shmem_"
"""Begin of the kernel's functions for files in memory."""
_MOST_PLACES = 256
"""The most places that are counted: memory does not grow with the time watched."""

_IMPLAUSIBLE = 0.01
"""The probability of so few busy samples below which CPU time was that of more threads at once."""

_CHILD, _THREAD = "child", "thread"
"""Waits for other processes of the trial, and for other threads of a process."""
_SHARED = 0
"""In place of the process of a futex that processes share."""


@functools.lru_cache(maxsize=1024)
def kind_of(place: PlaceRow) -> WaitKind | str:
    """Return what a thread waits for: a `WaitKind`, `child` or `thread`."""
    call, channel, objects = place.call, place.channel, place.objects
    if call in _SLEEPS or channel == "hrtimer_nanosleep":
        return "sleep"
    if call == "futex" or channel.startswith("futex"):
        return _THREAD
    if call in _CHILDREN:
        return _CHILD
    if call in _LOCKS:
        return "locks"
    if call == "io_uring_enter":
        return "ring"
    if channel in ("wait_for_partner", "fifo_open"):
        return "pipe"
    if call == "page fault":
        if channel.startswith(_MEMORY):
            return "other"
        return "locks" if "rwsem" in channel else "disk"
    if not call:
        return _kind_of_channel(channel)
    kinds = [_kind_of_object(text) for text in objects]
    for kind in ("network", "pipe", "disk", "other", "sleep", _THREAD):
        if kind in kinds:
            return kind
    if call.startswith(_POLLS):
        return "sleep" if place.limited else "other"
    on_disk = call.startswith(_FILES) and not channel.startswith(_MEMORY)
    return "disk" if on_disk else "other"


def _kind_of_channel(channel: str) -> WaitKind | str:
    """Return what a thread waits for, by the kernel's function alone."""
    for begins, kind in _CHANNELS:
        if channel.startswith(begins):
            return kind
    return "other"


_CHANNELS: tuple[tuple[tuple[str, ...], WaitKind | str], ...] = (
    (("pipe_", "anon_pipe_"), "pipe"),
    (("do_wait", "kernel_clone", "kernel_wait"), _CHILD),
    (("sk_wait", "wait_woken", "inet_", "tcp_", "unix_", "__skb_wait"), "network"),
    (
        (
            "folio_",
            "io_schedule",
            "jbd2_",
            "submit_bio",
            "blk",
            "__sync_dirty",
            "wait_on_",
            "xlog_",
        ),
        "disk",
    ),
)
"""Begins of the kernel's functions, for processes whose system calls may not be read."""


_OBJECTS: dict[str, WaitKind | str] = {
    "pipe": "pipe",
    "file": "disk",
    "timer": "sleep",
    "event": _THREAD,
    "own": _THREAD,
}
"""By the first word of an object; `own`: only the process itself has its other end."""


def _kind_of_object(text: str) -> str:
    if text.startswith(_SOCKETS):
        return "network"
    kind = text.partition(" ")[0]
    return _OBJECTS.get(kind, "other")


def _inner_kind(place: PlaceRow) -> WaitKind:
    """Return what a wait for other threads of the process is if nothing else is waited for."""
    if place.limited:
        return "sleep"
    known = place.call == "futex" and place.limited is not None
    return "locks" if known else "other"


class WindowWaits:
    """The waits of the trial's own threads from one moment to another."""

    def __init__(self, root_pid: int, begin_ns: int, end_ns: int) -> None:
        self._root_pid = root_pid
        self._span = begin_ns, end_ns
        self._samples = 0
        self._idle = 0
        """Samples in which no thread ran or was ready."""
        self._alone = 0
        """Samples in which one did."""
        self._crowd = 1
        """The most threads that ran or were ready in one sample."""
        self._kinds: Counter[WaitKind] = Counter()
        self._places: Counter[tuple[WaitKind, str, PlaceRow]] = Counter()
        self._most: Counter[WaitKind] = Counter()
        self._waiters: dict[tuple[int, str], int] = {}
        """The first thread that was seen at a futex, which `_futex` names."""
        self._crowded: set[tuple[int, str]] = set()
        """Futexes at which several threads were seen."""
        self._passed_on: set[tuple[int, str]] = set()
        """Crowded futexes from which a thread went on to wait elsewhere."""
        self._futexes: dict[int, tuple[int, str]] = {}
        """The futex of each thread in the last sample."""

    def take(self, table: ThreadsLine) -> None:
        """Add a table of the own tree."""
        if not self._span[0] <= table.t <= self._span[1]:
            return
        # Without parents, the series is of a version that did not look for waits.
        rows = [row for row in table.rows if row.parent and self._counts(row)]
        if not rows:
            return
        self._samples += 1
        found = [(row, row.place) for row in rows if row.place is not None]
        ready = len(rows) - len(found)
        self._alone += ready == 1
        self._crowd = max(self._crowd, ready)
        if ready:
            return
        self._idle += 1
        kinds: Counter[WaitKind] = Counter()
        for name, place, kind in self._explaining(found):
            key = (kind, name, place)
            if key in self._places or len(self._places) < _MOST_PLACES:
                kinds[kind] += 1
                self._places[key] += 1
        self._kinds.update(kinds.keys())
        self._most |= kinds

    def _counts(self, row: ThreadRow) -> bool:
        """Return whether a thread can be what the trial waits in: not the launcher's, an ended one,
        or the kernel's."""
        return not (
            row.pid == self._root_pid
            or row.state in ("Z", "X")
            or row.name.startswith(("bw-launcher", "iou-"))
        )

    def _explaining(
        self, found: Sequence[tuple[ThreadRow, PlaceRow]]
    ) -> list[tuple[str, PlaceRow, WaitKind]]:
        """Return the waits of a sample that no other wait of the sample explains."""
        outside: list[tuple[str, PlaceRow, WaitKind]] = []
        inside: list[tuple[str, PlaceRow, WaitKind]] = []
        self._note_futexes(found)
        kinds = {id(row): self._kind(row, place) for row, place in found}
        # The main thread of a process that itself waits for something outside.
        led = {
            row.pid
            for row, _place in found
            if row.tid == row.pid and kinds[id(row)] not in (_CHILD, _THREAD, "locks")
        }
        parents = {row.parent for row, _place in found}
        # Idle helpers are at a futex too, so a thread's name would say nothing about who waits.
        programs = {row.pid: row.name for row, _place in found if row.tid == row.pid}
        for row, place in found:
            kind = kinds[id(row)]
            inner = kind_of(place) == _THREAD
            name = programs.get(row.pid, row.name) if inner else row.name
            if row.pid in led and row.tid != row.pid:
                continue
            if row.parent in led and _futex(row, place)[0] == _SHARED:
                continue
            if kind == _CHILD:
                inside.append((name, place, "other"))
            elif kind == _THREAD:
                inside.append((name, place, _inner_kind(place)))
            elif row.pid in parents and kind in ("other", "pipe"):
                # It reads what its child writes, or waits for a signal of its end.
                inside.append((name, place, kind))  # type: ignore[arg-type]
            else:
                outside.append((name, place, kind))  # type: ignore[arg-type]
        return (
            outside
            or [one for one in inside if one[2] == "sleep"]
            or [one for one in inside if one[2] != "other"]
            or inside
        )

    def _note_futexes(self, found: Sequence[tuple[ThreadRow, PlaceRow]]) -> None:
        now = {
            row.tid: _futex(row, place)
            for row, place in found
            if place.call == "futex" and place.objects
        }
        for tid, at in now.items():
            if self._waiters.setdefault(at, tid) != tid:
                self._crowded.add(at)
        for row, _place in found:
            before = self._futexes.get(row.tid)
            if before in self._crowded and now.get(row.tid) != before:
                self._passed_on.add(before)
        self._futexes = now

    def _kind(self, row: ThreadRow, place: PlaceRow) -> WaitKind | str:
        kind = kind_of(place)
        contended = kind == _THREAD and _futex(row, place) in self._passed_on
        return "locks" if contended else kind

    def off_cpu(
        self, least: float, threads: Sequence[float], ran: float, cpus: int
    ) -> OffCpuUse | None:
        """Return the waits; None without any sample.

        `least`: the least share of the window in which no thread can have run or been ready, from
        CPU times; `threads`: the share in which each thread that is known ran or was ready; `ran`:
        CPU time of all threads, of ended ones too [cores]; `cpus`: how many there are.
        """
        if not self._samples:
            return None
        busy = max(*threads, self._busy(ran, cpus), 0.0)
        share = min(max(self._idle / self._samples, least), max(1.0 - busy, 0.0))
        waits = [
            self._wait(kind, share * count / self._idle)
            for kind, count in self._kinds.most_common()
        ]
        return OffCpuUse(share, self._idle, tuple(waits), self._samples, self._alone)

    def _busy(self, ran: float, cpus: int) -> float:
        """Return the least share of the window in which threads must have run that used `ran`
        cores.

        They ran as few at once as the samples allow: no fewer than were seen, and more if far fewer
        samples were busy than there would be then.
        """
        seen = self._samples - self._idle
        at_once = min(self._crowd, cpus)
        while (
            at_once < cpus
            and binomial_cdf(seen, self._samples, min(ran / at_once, 1.0)) < _IMPLAUSIBLE
        ):
            at_once += 1
        return ran / at_once

    def _wait(self, kind: WaitKind, share: float) -> WaitUse:
        mine = Counter({key: n for key, n in self._places.items() if key[0] == kind})
        threads: Counter[tuple[str, str]] = Counter()
        for (_kind, name, place), count in mine.items():
            threads[name, place.call] += count
        ((name, call), _count) = threads.most_common(1)[0]
        whats: Counter[str] = Counter()
        channels: Counter[str] = Counter()
        for (_kind, its_name, place), count in mine.items():
            if (its_name, place.call) == (name, call):
                whats[_what(kind, place)] += count
                channels[place.channel] += count
        # The addresses of new connections are not always looked up.
        known = {what: count for what, count in whats.items() if what != "socket"}
        whats = Counter(known) or whats
        return WaitUse(
            kind=kind,
            share=share,
            name=name,
            call=call,
            what=whats.most_common(1)[0][0],
            channel=channels.most_common(1)[0][0],
            threads=self._most[kind],
        )


def _futex(row: ThreadRow, place: PlaceRow) -> tuple[int, str]:
    """Return the process of a futex, or `_SHARED`, and its address; no address if the thread waits
    elsewhere."""
    text = next(iter(place.objects), "")
    return (_SHARED if text.startswith("shared ") else row.pid), text


def _what(kind: WaitKind, place: PlaceRow) -> str:
    """Return the object of a place that is of its kind; empty for a lock, which has only an
    address."""
    if kind == "locks":
        return ""
    return next((text for text in place.objects if _kind_of_object(text) == kind), "")
