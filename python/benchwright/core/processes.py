"""Processes as /proc/PID/stat describes them (name, state, parent, start time), trees of them, and
the signals by which a user, a terminal or a supervisor asks `bw` to stop.

Decision: a process is identified by its id and its start time, so that a reused id is not
confused with it. Rejected: psutil, which is one more compiled dependency and has one /proc for
the whole interpreter, while captures and tests read those of other roots.
Source: proc_pid_stat(5), fields 1 to 4, 9 and 22.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def stop_signals(handler: Callable[[int], object]) -> Iterator[None]:
    """Pass the stop signals that arrive in the body to `handler`, instead of ending Python.

    Those that are ignored, as SIGHUP is below nohup(1), stay ignored. Only for the main thread.
    """
    previous = {
        number: signal.signal(number, lambda which, _frame: handler(which))
        for number in STOP_SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


PROC = Path("/proc")
_STAT = re.compile(r"(\d+) \((.*)\) (\S) (.*)", re.DOTALL)
"""The name is in parentheses and may itself contain blanks and parentheses."""
_PR_SET_PDEATHSIG = 1
_PF_KTHREAD = 0x00200000
_KTHREADD = 2


class ProcessIdentity(msgspec.Struct, frozen=True):
    """One process: no other one ever has both numbers on this boot."""

    pid: int
    started_ticks: int
    """Since boot [clock ticks]."""


class Process(msgspec.Struct, frozen=True):
    """What /proc/PID/stat says about a process now."""

    pid: int
    name: str
    """At most 15 characters, as the kernel keeps it."""
    state: str
    """`R`, `S`, `D`, `Z` and so on."""
    parent: int
    is_kernel: bool
    """Whether it is a thread of the kernel."""
    started_ticks: int
    """Since boot [clock ticks]."""

    @property
    def identity(self) -> ProcessIdentity:
        """Its identity, which stays unique even if its id is reused."""
        return ProcessIdentity(self.pid, self.started_ticks)

    @property
    def is_alive(self) -> bool:
        """Whether it can still run: a zombie has ended."""
        return self.state not in "ZX"


def parse_stat(text: str) -> Process | None:
    """Return the process that the text of a /proc/PID/stat describes; None for other text."""
    match = _STAT.match(text)
    if match is None:
        return None
    pid, fields = int(match[1]), match[4].split()
    try:
        parent, flags, started = int(fields[0]), int(fields[5]), int(fields[18])
    except (IndexError, ValueError):
        return None
    is_kernel = bool(flags & _PF_KTHREAD) or pid == _KTHREADD
    return Process(pid, match[2], match[3], parent, is_kernel, started)


def read_process(pid: int, proc: Path = PROC) -> Process | None:
    """Return a process as it is now; None when there is none."""
    try:
        return parse_stat((proc / str(pid) / "stat").read_text(errors="replace"))
    except OSError:
        return None


def is_stopped(pid: int, proc: Path = PROC) -> bool:
    """Return whether a process was stopped, by a signal or by a debugger, and did not continue yet."""
    process = read_process(pid, proc)
    return process is not None and process.state in "Tt"


def process_ids(proc: Path = PROC) -> list[int]:
    """Return the ids of all processes, in order; empty if /proc cannot be read."""
    try:
        return sorted(int(name) for name in os.listdir(proc) if name.isdecimal())
    except OSError:
        return []


def all_processes(proc: Path = PROC) -> list[Process]:
    """Return every process, in order of id, except those that end meanwhile."""
    processes = (read_process(pid, proc) for pid in process_ids(proc))
    return [process for process in processes if process is not None]


def is_alive(identity: ProcessIdentity, proc: Path = PROC) -> bool:
    """Return whether that process still runs."""
    process = read_process(identity.pid, proc)
    return process is not None and process.identity == identity and process.is_alive


def tree_of(roots: Iterable[int], processes: Iterable[Process]) -> set[int]:
    """Return the ids of the roots that are among the processes, and of their descendants."""
    children: dict[int, list[int]] = {}
    known = set()
    for process in processes:
        known.add(process.pid)
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    waiting = [root for root in roots if root in known]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, [])
    return found


def ancestors_of(pid: int, proc: Path = PROC) -> set[int]:
    """Return a process's id and the ids of all its ancestors."""
    found: set[int] = set()
    while pid > 0 and pid not in found:
        found.add(pid)
        process = read_process(pid, proc)
        pid = process.parent if process is not None else 0
    return found


def thread_ids(pids: Iterable[int], proc: Path = PROC) -> list[int]:
    """Return the thread ids of processes, in order, except of those that end meanwhile."""
    found: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            found.update(map(int, os.listdir(proc / str(pid) / "task")))
    return sorted(found)


def children_of(pid: int, proc: Path = PROC) -> list[Process]:
    """Return the living children of a process."""
    return children_among(pid, all_processes(proc))


def children_among(pid: int, processes: Iterable[Process]) -> list[Process]:
    """Return the living ones of these processes whose parent is this one."""
    return [process for process in processes if process.is_alive and process.parent == pid]


def descendants_of(pid: int, proc: Path = PROC) -> list[Process]:
    """Return the living children of a process, their living children, and so on."""
    return descendants_among(pid, all_processes(proc))


def descendants_among(pid: int, processes: Iterable[Process]) -> list[Process]:
    """Return the living ones of these processes that descend from this one."""
    living = [process for process in processes if process.is_alive]
    below = tree_of([one.pid for one in living if one.parent == pid], living)
    return [one for one in living if one.pid in below]


def signal_all(processes: Iterable[Process], number: int) -> None:
    """Send a signal to those processes that are still alive and may be signalled."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if is_alive(process.identity):
                os.kill(process.pid, number)


def die_with_parent() -> None:
    """End this process by SIGTERM when its parent ends; also after an exec."""
    import ctypes
    import signal

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
