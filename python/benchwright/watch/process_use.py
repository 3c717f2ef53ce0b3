"""What each process of a tree used between two looks at /proc.

Purpose: the sampler's series has the sums of a tree and its threads; who of a server's processes has
the memory and does the I/O is in none of them. Two looks cost nothing in between.
Source: proc_pid_stat(5), fields 14, 15, 20 and 24; proc_pid_io(5).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from benchwright.core.processes import PROC, all_processes, tree_of

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ProcessCounters(msgspec.Struct, frozen=True):
    """The counters of one process at one time."""

    name: str
    started_ticks: int
    user_ticks: int
    system_ticks: int
    threads: int
    rss_bytes: int
    read_bytes: int | None
    """Of devices; None: only root and its user may read it."""
    write_bytes: int | None


class ProcessUse(msgspec.Struct, frozen=True, kw_only=True):
    """One process between two looks."""

    pid: int
    name: str
    user_cores: float
    system_cores: float
    threads: int
    """At the end."""
    rss_bytes: int
    """At the end."""
    read_bytes_per_s: float | None
    """From devices; None: it may not be read."""
    write_bytes_per_s: float | None

    @property
    def cores(self) -> float:
        """Its CPU time per time."""
        return self.user_cores + self.system_cores


def look_at_tree(root: int, proc: Path = PROC) -> dict[int, ProcessCounters]:
    """Return the counters of a process and its descendants now, by process id."""
    pids = tree_of([root], all_processes(proc))
    found = ((pid, _counters(proc / str(pid))) for pid in sorted(pids))
    return {pid: counters for pid, counters in found if counters is not None}


def _counters(place: Path) -> ProcessCounters | None:
    try:
        head, _, rest = (place / "stat").read_text(errors="replace").rpartition(")")
    except OSError:
        return None
    fields = rest.split()
    try:
        moved: Mapping[str, str] = dict(
            line.split(": ") for line in (place / "io").read_text().splitlines()
        )
    except (OSError, ValueError):
        moved = {}
    return ProcessCounters(
        name=head.partition("(")[2],
        started_ticks=int(fields[19]),
        user_ticks=int(fields[11]),
        system_ticks=int(fields[12]),
        threads=int(fields[17]),
        rss_bytes=int(fields[21]) * _PAGE_BYTES,
        read_bytes=int(moved["read_bytes"]) if "read_bytes" in moved else None,
        write_bytes=int(moved["write_bytes"]) if "write_bytes" in moved else None,
    )


def process_uses(
    before: Mapping[int, ProcessCounters], after: Mapping[int, ProcessCounters], seconds: float
) -> tuple[ProcessUse, ...]:
    """Return what each process used between two looks, the busiest first; one that started between
    them used all that its counters have. Those that ended are in the sums of the tree alone."""
    found = (_use(pid, before.get(pid), now, seconds) for pid, now in after.items())
    return tuple(sorted(found, key=lambda use: (-use.cores, -use.rss_bytes, use.pid)))


def _use(pid: int, was: ProcessCounters | None, now: ProcessCounters, seconds: float) -> ProcessUse:
    if was is not None and was.started_ticks != now.started_ticks:
        was = None  # The id was reused.

    def cores(ticks: int, earlier: int) -> float:
        return (ticks - earlier) / _TICKS_PER_S / seconds

    def rate(count: int | None, earlier: int | None) -> float | None:
        return None if count is None else (count - (earlier or 0)) / seconds

    return ProcessUse(
        pid=pid,
        name=now.name,
        user_cores=cores(now.user_ticks, 0 if was is None else was.user_ticks),
        system_cores=cores(now.system_ticks, 0 if was is None else was.system_ticks),
        threads=now.threads,
        rss_bytes=now.rss_bytes,
        read_bytes_per_s=rate(now.read_bytes, None if was is None else was.read_bytes),
        write_bytes_per_s=rate(now.write_bytes, None if was is None else was.write_bytes),
    )


def roots_among(pids: Iterable[int], proc: Path = PROC) -> tuple[int, ...]:
    """Return the processes that are no descendants of others of them, in order."""
    wanted, processes = set(pids), all_processes(proc)
    below = {
        pid
        for root in wanted
        for pid in tree_of([root], processes)
        if pid != root and pid in wanted
    }
    return tuple(sorted(wanted - below))
