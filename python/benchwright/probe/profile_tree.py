"""Which processes, and which of their threads, are now below some roots.

Source: proc_pid_stat(5). What ends while we look is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path


def tree_pids(roots: Iterable[int], proc: Path = Path("/proc")) -> list[int]:
    """Return the roots that live and all their descendants, in order of number."""
    parents = dict(_parents(proc))
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    waiting = [root for root in roots if root in parents]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, [])
    return sorted(found)


def thread_ids(pids: Iterable[int], proc: Path = Path("/proc")) -> list[int]:
    """Return the threads of processes, in order of number."""
    found: set[int] = set()
    for pid in pids:
        try:
            found |= {int(entry.name) for entry in (proc / str(pid) / "task").iterdir()}
        except OSError:
            continue
    return sorted(found)


def _parents(proc: Path) -> Iterator[tuple[int, int]]:
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text(errors="replace")
        except OSError:
            continue
        # The name in parentheses may hold anything, so count from its end.
        yield int(entry.name), int(text.rpartition(")")[2].split()[1])
