"""What processes that are not a test's own used while it ran, by /proc alone.

Purpose: whether the machine was shared is measured here independently of what `bw` says,
so that a test on a shared machine knows what to expect. Decision: the machine's busy time
(/proc/stat) less that of this process and all below it, living and waited for, and of the
kernel's threads; what was orphaned counts as a stranger's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
KERNEL = 2
"""Process id of kthreadd, the parent of the kernel's threads."""


class _Process(NamedTuple):
    pid: int
    parent: int
    used: int
    """Its own time [ticks]."""
    of_children: int
    """That of those that it waited for [ticks]."""


@dataclass
class Strangers:
    """A context; afterwards what others used and the hypervisor took meanwhile [cores]."""

    cores: float = 0.0
    stolen: float = 0.0

    def __enter__(self) -> Strangers:
        self._before, self._began = _ticks(), time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        after, most = _ticks(), (time.monotonic() - self._began) * TICKS
        others, stolen = (b - a for a, b in zip(self._before, after, strict=True))
        self.cores, self.stolen = max(others, 0) / most, max(stolen, 0) / most


def _ticks() -> tuple[int, int]:
    """Return the time of strangers, and the stolen one, so far [ticks]."""
    first = Path("/proc/stat").read_text().partition("\n")[0].split()
    user, nice, system, stolen = (int(first[at]) for at in (1, 2, 3, 8))
    processes = {one.pid: one for one in _processes()}
    mine = os.getpid()
    own = sum(
        one.used + one.of_children for one in processes.values() if _below(one, mine, processes)
    )
    kernel = sum(one.used for one in processes.values() if KERNEL in (one.pid, one.parent))
    return user + nice + system - own - kernel, stolen


def _below(one: _Process, root: int, processes: dict[int, _Process]) -> bool:
    at: _Process | None = one
    while at is not None and at.pid != root:
        at = processes.get(at.parent)
    return at is not None


def _processes() -> Iterator[_Process]:
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                text = (place / "stat").read_text()
            except OSError:
                continue  # it has ended
            fields = text.rpartition(")")[2].split()
            used, children = (int(fields[at]) + int(fields[at + 1]) for at in (11, 13))
            yield _Process(int(place.name), int(fields[1]), used, children)
