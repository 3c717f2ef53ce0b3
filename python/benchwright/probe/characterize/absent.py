"""What a kernel, or a way of counting, does not show of a trial's I/O, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from benchwright.probe.characterize.calls import DATA_CALLS
from benchwright.probe.characterize.clauses import Depth, Events
from benchwright.probe.characterize.script import (
    CACHE,
    REQUESTS,
    RING_EVENTS,
    THROTTLED,
)

Absent = tuple[str, str]
"""(what is not seen, why)."""

_POINTS = (
    ((CACHE,), "what came into the page cache"),
    ((THROTTLED,), "how long writers waited for dirty pages"),
    ((REQUESTS,), "who asked the block layer for what"),
    (RING_EVENTS, "io_uring"),
)


def has_calls(events: Events) -> bool:
    """Return whether this kernel has events of system calls at all."""
    return any(f"syscalls/sys_enter_{call.name}" in events for call in DATA_CALLS)


def absent_events(events: Events) -> Iterator[Absent]:
    """Yield what is not seen because this kernel lacks a tracepoint."""
    for names, what in _POINTS:
        lacking = [name for name in names if name not in events]
        if lacking:
            yield what, f"this kernel has no tracepoint {lacking[0]}"


def absent_of(depth: Depth) -> Iterator[Absent]:
    """Yield what bpftrace does not see at a depth."""
    if not depth.files:
        why = "this kernel does not tell the layout of its structures (BTF)"
        yield "what descriptors are, sequentiality, files, libaio, io_uring", why
    elif not depth.rings:
        yield "io_uring", "this kernel's io_uring has no tracepoints that we know"


def absent_without(why: str) -> Iterator[Absent]:
    """Yield what is not seen where events are read one by one; `why` there is no other way."""
    calls = "what descriptors are, sequentiality, time in calls, files that are mapped"
    yield calls, why
    yield "file systems, the page cache, who asked the block layer", why
    yield "io_uring, libaio", why
