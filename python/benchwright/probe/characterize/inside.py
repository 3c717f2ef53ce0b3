"""A small program: sees tracefs, asks what the kernel has, and becomes bpftrace, or
where there is none counts the events itself.

Decision: where tracefs is not mounted it is mounted in a mount namespace of this process's
own, so that the machine stays as it is; a program, because a namespace cannot be left again.
It ends when what began it ends (prctl(2), PR_SET_PDEATHSIG). What it needs comes as JSON on
stdin. Run as `python -P -m benchwright.probe.characterize.inside`. Sources:
mount_namespaces(7), mount(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from benchwright.probe.characterize.absent import absent_events, has_calls
from benchwright.probe.characterize.clauses import Depth, Events
from benchwright.probe.characterize.events import count_events
from benchwright.probe.characterize.script import script, wanted_events
from benchwright.probe.characterize.tree import Tree

TRACEFS = Path("/sys/kernel/tracing")
_DEBUGFS = Path("/sys/kernel/debug/tracing")
_PR_SET_PDEATHSIG = 1
_CLONE_NEWNS = 0x00020000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
MAP_KEYS = 16384
"""Different keys that a map can hold; what does not fit is missed, and told."""


class Task(msgspec.Struct, frozen=True):
    """What is to be counted."""

    tree: Tree
    """The threads that live now."""
    bpftrace: str
    """Its path; empty: events are read one by one from tracefs."""
    depth: Depth


class TracefsError(Exception):
    """Why this kernel's tracepoints cannot be had, in words for a person."""


def main() -> int:
    """Read a task from stdin and become bpftrace; return 2 with the reason on stderr."""
    die_with_parent()
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    try:
        root = tracefs()
        found = events_of(root)
    except TracefsError as why:
        print(why, file=sys.stderr)
        return 2
    if not task.bpftrace:
        return count_events(root, task.tree)
    text = script(task.tree, found, task.depth)
    # bpftrace goes on writing where this line ends.
    said = {"type": "absent", "data": list(absent_events(found))}
    print(msgspec.json.encode(said).decode(), flush=True)
    with contextlib.suppress(OSError, ValueError):
        # Kernels before 5.11 count maps against it.
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY,) * 2)
    os.environ["BPFTRACE_MAP_KEYS_MAX"] = str(MAP_KEYS)
    return os.execv(task.bpftrace, [task.bpftrace, "-f", "json", "-e", text])


def die_with_parent() -> None:
    """Let this process end with the one that began it; survives an exec."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def tracefs(places: Iterable[Path] = (TRACEFS, _DEBUGFS)) -> Path:
    """Return where tracefs is, mounting it for this process alone where it is not.

    Raises TracefsError.
    """
    for place in places:
        with contextlib.suppress(OSError):
            if (place / "events").is_dir():
                return place
    libc = ctypes.CDLL(None, use_errno=True)
    private = ctypes.c_ulong(_MS_REC | _MS_PRIVATE)
    plain, point = ctypes.c_ulong(0), os.fsencode(TRACEFS)
    _succeeded("make a mount namespace", libc.unshare(_CLONE_NEWNS))
    _succeeded("make mounts private", libc.mount(b"none", b"/", None, private, None))
    _succeeded("mount tracefs", libc.mount(b"none", point, b"tracefs", plain, None))
    return TRACEFS


def _succeeded(what: str, result: int) -> None:
    if result != 0:
        reason = os.strerror(ctypes.get_errno())
        raise TracefsError(f"cannot {what}: {reason}")


def events_of(root: Path) -> Events:
    """Return the fields of the events that this kernel has, of all that are asked for.

    Raises TracefsError where it has none of system calls.
    """
    found = events(root, wanted_events())
    if not has_calls(found):
        raise TracefsError(
            "this kernel has no events of system calls (CONFIG_FTRACE_SYSCALLS)"
        )
    return found


def events(root: Path, names: Iterable[str]) -> Events:
    """Return the fields of those events that this kernel has."""
    found = {}
    for name in names:
        with contextlib.suppress(OSError):
            text = (root / "events" / name / "format").read_text()
            found[name] = fields_of(text)
    return found


def fields_of(text: str) -> frozenset[str]:
    """Return the names of the fields in an event's `format`."""
    return frozenset(re.findall(r"field:[^;]*?\b(\w+)(?:\[\w*\])?;", text))


if __name__ == "__main__":
    sys.exit(main())
