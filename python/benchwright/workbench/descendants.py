"""The processes that a launcher's commands left behind: who they are, and whether they live.

Decision: a process is its id and its start time, so that an id that was given again is not
taken for it. A daemon is found as a child of the launcher, which adopts every orphan of its
commands (a child subreaper). Source: proc(5), /proc/PID/stat, fields 3, 4 and 22.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

PROC = Path("/proc")


class Process(msgspec.Struct, frozen=True):
    """One process, for ever."""

    pid: int
    started_ticks: int
    """Since boot, in clock ticks."""


class Stat(msgspec.Struct, frozen=True):
    """What /proc says of a process now."""

    process: Process
    parent: int
    state: str
    name: str

    @property
    def lives(self) -> bool:
        """Whether it can still run: a zombie has ended."""
        return self.state not in "ZX"


def stat_of(pid: int, proc: Path = PROC) -> Stat | None:
    """Return what is known of a process; None when there is none."""
    try:
        text = (proc / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name is in brackets and may itself have blanks and brackets.
    name, fields = (
        text[text.index("(") + 1 : text.rindex(")")],
        text[text.rindex(")") + 2 :],
    )
    words = fields.split()
    return Stat(Process(pid, int(words[19])), int(words[1]), words[0], name)


def is_alive(process: Process, proc: Path = PROC) -> bool:
    """Tell whether it still runs."""
    stat = stat_of(process.pid, proc)
    return stat is not None and stat.process == process and stat.lives


def children_of(pid: int, proc: Path = PROC) -> list[Stat]:
    """Return the living children of a process."""
    return [one for one in _living(proc) if one.parent == pid]


def descendants_of(pid: int, proc: Path = PROC) -> list[Stat]:
    """Return its living children, theirs, and so on."""
    living = _living(proc)
    found: list[Stat] = []
    parents = {pid}
    while True:
        more = [s for s in living if s.parent in parents and s not in found]
        if not more:
            return found
        found += more
        parents = {one.process.pid for one in more}


def _living(proc: Path) -> list[Stat]:
    stats = (stat_of(int(e.name), proc) for e in proc.iterdir() if e.name.isdecimal())
    return [one for one in stats if one is not None and one.lives]


def signal_all(processes: list[Stat], number: int) -> None:
    """Send a signal to processes; one that has ended is none to them."""
    for one in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if is_alive(one.process):
                os.kill(one.process.pid, number)
