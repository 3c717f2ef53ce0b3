"""Counts calls event by event if bpftrace is unavailable, in a private tracefs instance.

Also the program that starts bpftrace. Decision: only the exits of calls are recorded, one
event per call, because the return value is the size that was moved. The kind of a descriptor
would need the entries too, and half as many calls would fit in the buffer. Forks and execs are
recorded too, to exclude the launcher's own calls. Events that do not fit in the kernel's buffer
are counted and reported as lost. The output has the same format as bpftrace's, so that one
reader reads both. Source: Documentation/trace/ftrace.rst.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import resource
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from benchwright.core.processes import die_with_parent
from benchwright.features.profile.bpftrace_program import (
    Depth,
    EventFields,
    FollowedThreads,
    ThreadTree,
    absent_events,
    has_calls,
    script,
    wanted_events,
)
from benchwright.features.profile.totals import (
    COUNTED_CALLS,
    DATA_CALLS,
    FIRST_COUNTED,
    FIRST_DATA,
    FIRST_TIMED,
    TIMED_CALLS,
)

BUFFER_KIB = 16 * 1024
"""Buffer size for each CPU: about 200,000 events."""
_TICK_S = 0.25
_CALL = re.compile(rb"-(\d+) +\[\d+\] \S+ +[\d.]+: sys_(\w+) -> 0x([0-9a-f]+)\n")
_LOST = re.compile(rb"LOST (\d+) EVENTS")
_NAME = "bw-characterize-"
_NEGATIVE = 1 << 63
_STEPS = ("sched/sched_process_fork", "sched/sched_process_exec")


class EventCounts:
    """The counts so far, from text. Pure."""

    def __init__(self, launching: Iterable[int] = ()) -> None:
        """`launching`: the threads whose calls do not count."""
        self._followed = FollowedThreads(launching)
        self._data = _numbers((call.name for call in DATA_CALLS), FIRST_DATA)
        self._others = _numbers(TIMED_CALLS, FIRST_TIMED) | _numbers(COUNTED_CALLS, FIRST_COUNTED)
        self._seen: Counter[tuple[bytes, bytes]] = Counter()
        self._part = b""
        self.lost = 0
        """Events that the kernel's buffer could not hold."""

    def take(self, text: bytes) -> None:
        """Add text from trace_pipe, which may be cut anywhere."""
        whole, end, self._part = (self._part + text).rpartition(b"\n")
        for part in self._followed.parts(whole + end):
            self._count(part)
        if b"LOST" in whole:
            self.lost += sum(int(count) for count in _LOST.findall(whole))

    def _count(self, part: bytes) -> None:
        launching = self._followed.launching
        for (thread, *call), calls in Counter(_CALL.findall(part)).items():
            if thread not in launching:
                self._seen[call[0], call[1]] += calls

    def maps(self) -> dict[str, dict[str, int]]:
        """Return the counts in the form of bpftrace's maps."""
        found: dict[str, Counter[str]] = {"@n": Counter(), "@k": Counter()}
        found["@bad"] = Counter()
        for (name, value), calls in self._seen.items():
            result = int(value, 16)
            data = self._data.get(name)
            number = self._others.get(name) if data is None else data
            if number is None:
                continue
            if data is None:
                found["@k"][f"{number}"] += calls
            elif result < _NEGATIVE:
                found["@n"][f"{number},0,0,{result}"] += calls
            if result >= _NEGATIVE:
                found["@bad"][f"{number},{2 * _NEGATIVE - result}"] += calls
        return {name: dict(counts) for name, counts in found.items()}


def _numbers(names: Iterable[str], first: int) -> dict[bytes, int]:
    return {name.encode(): number for number, name in enumerate(names, first)}


def count_events(root: Path, tree: ThreadTree) -> int:
    """Count a tree's calls until SIGINT, and print totals as bpftrace does; return 0.

    `root`: tracefs, which the caller may write to.
    """
    ending: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda which, _frame: ending.append(which))
    counts = EventCounts(tree.launching)
    with _instance(root, tree.threads) as instance:
        pipe = os.open(instance / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        try:
            while not ending:
                _read(pipe, counts, _TICK_S)
                _print_time()
                _print_line({"type": "map", "data": {"@n": counts.maps()["@n"]}})
            (instance / "tracing_on").write_text("0")
            _read(pipe, counts, 0.0)
        finally:
            os.close(pipe)
        lost = max(counts.lost, _overrun(instance))
    _print_time()
    for name, values in counts.maps().items():
        _print_line({"type": "map", "data": {name: values}})
    if lost:
        _print_line({"type": "lost_events", "data": {"events": lost}})
    return 0


def _read(pipe: int, counts: EventCounts, length_s: float) -> None:
    """Read for `length_s`, and then the rest that is available."""
    end = time.monotonic() + length_s
    while True:
        try:
            counts.take(os.read(pipe, 1 << 20))
        except BlockingIOError:
            left = end - time.monotonic()
            if left <= 0:
                return
            with contextlib.suppress(InterruptedError):
                select.select([], [], [], min(left, 0.01))
        else:
            if length_s and time.monotonic() > end:
                return


@contextlib.contextmanager
def _instance(root: Path, threads: Iterable[int]) -> Iterator[Path]:
    """Yield an instance that records the exits of a tree's calls; remove it afterwards."""
    _remove_left_over(root)
    instance = root / "instances" / f"{_NAME}{os.getpid()}"
    instance.mkdir()
    try:
        (instance / "buffer_size_kb").write_text(str(BUFFER_KIB))
        (instance / "set_event_pid").write_text(" ".join(map(str, threads)))
        (instance / "options" / "event-fork").write_text("1")
        for event in (*_STEPS, *_ends()):
            with contextlib.suppress(FileNotFoundError):
                (instance / "events" / event / "enable").write_text("1")
        yield instance
    finally:
        with contextlib.suppress(OSError):
            (instance / "events" / "enable").write_text("0")
        instance.rmdir()


def _ends() -> Iterator[str]:
    """Yield the exit events of all calls that are counted."""
    for name in (*(call.name for call in DATA_CALLS), *TIMED_CALLS, *COUNTED_CALLS):
        yield f"syscalls/sys_exit_{name}"


def _remove_left_over(root: Path) -> None:
    """Remove instances that killed processes of this program left."""
    for left in (root / "instances").glob(f"{_NAME}*"):
        pid = left.name.removeprefix(_NAME)
        if not Path("/proc", pid).exists():
            with contextlib.suppress(OSError):
                left.rmdir()


def _overrun(instance: Path) -> int:
    """Return how many events were overwritten before they were read, on all CPUs."""
    texts = (path.read_text() for path in instance.glob("per_cpu/cpu*/stats"))
    return sum(
        int(count) for text in texts for count in re.findall(r"^overrun: (\d+)$", text, re.M)
    )


def _print_time() -> None:
    _print_line({"type": "printf", "data": f"tick {time.monotonic_ns()}\n"})


def _print_line(what: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


# --------------------------------------------------------------------------------------
# A small program: finds tracefs, checks the kernel's events, and executes bpftrace; without
# bpftrace it counts the events itself.
#
# Decision: if tracefs is not mounted, it is mounted in a private mount namespace, so that the
# machine is not changed. This needs a separate program, because a process cannot return from a
# namespace. The program ends when its parent ends (prctl(2), PR_SET_PDEATHSIG), and reads its
# task as JSON from stdin. Run as `python -P -m benchwright.features.profile.kernel_counter`.
# Sources: mount_namespaces(7), mount(2).

TRACEFS = Path("/sys/kernel/tracing")
_DEBUGFS = Path("/sys/kernel/debug/tracing")
_CLONE_NEWNS = 0x00020000
_MS_REC, _MS_SLAVE = 0x4000, 0x80000
MAP_KEYS = 16384
"""The most keys of a map; bpftrace drops others, which is reported."""


class CountingTask(msgspec.Struct, frozen=True):
    """What to count, and how."""

    tree: ThreadTree
    """The live threads."""
    bpftrace: str
    """Path of bpftrace; empty: events are read one by one from tracefs."""
    depth: Depth
    observer: int
    """The process that marks when counting begins and ends."""


class TracefsError(Exception):
    """This kernel's tracepoints are unavailable; the message says why."""


def main() -> int:
    """Read a task from stdin and become bpftrace; return 2 with the reason on stderr."""
    die_with_parent()
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=CountingTask)
    try:
        root = tracefs()
        found = events_of(root)
    except TracefsError as why:
        print(why, file=sys.stderr)
        return 2
    if not task.bpftrace:
        return count_events(root, task.tree)
    text = script(task.tree, found, task.depth, task.observer)
    # bpftrace appends its output after this line.
    said = {"type": "absent", "data": list(absent_events(found))}
    print(msgspec.json.encode(said).decode(), flush=True)
    with contextlib.suppress(OSError, ValueError):
        # Kernels before 5.11 count maps against it.
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY,) * 2)
    os.environ["BPFTRACE_MAP_KEYS_MAX"] = str(MAP_KEYS)
    return os.execv(task.bpftrace, [task.bpftrace, "-f", "json", "-e", text])


def tracefs() -> Path:
    """Return the path of tracefs; mount it for this process only if it is not mounted.

    Raises TracefsError.
    """
    for place in (TRACEFS, _DEBUGFS):
        with contextlib.suppress(OSError):
            if (place / "events").is_dir():
                return place
    libc = ctypes.CDLL(None, use_errno=True)
    # What the machine unmounts is unmounted here too, or its device would stay in use until the end.
    private = ctypes.c_ulong(_MS_REC | _MS_SLAVE)
    plain, point = ctypes.c_ulong(0), os.fsencode(TRACEFS)
    _succeeded("make a mount namespace", libc.unshare(_CLONE_NEWNS))
    _succeeded("make mounts private", libc.mount(b"none", b"/", None, private, None))
    _succeeded("mount tracefs", libc.mount(b"none", point, b"tracefs", plain, None))
    return TRACEFS


def _succeeded(what: str, result: int) -> None:
    if result != 0:
        reason = os.strerror(ctypes.get_errno())
        raise TracefsError(f"cannot {what}: {reason}")


def events_of(root: Path) -> EventFields:
    """Return the fields of all needed events that this kernel has.

    Raises TracefsError if it has no events of system calls.
    """
    found = events(root, wanted_events())
    if not has_calls(found):
        raise TracefsError("this kernel has no events of system calls (CONFIG_FTRACE_SYSCALLS)")
    return found


def events(root: Path, names: Iterable[str]) -> EventFields:
    """Return the fields of those events that this kernel has."""
    found = {}
    for name in names:
        with contextlib.suppress(OSError):
            text = (root / "events" / name / "format").read_text()
            found[name] = fields_of(text)
    return found


def fields_of(text: str) -> frozenset[str]:
    """Return the names of the fields in an event's `format`."""
    return frozenset(re.findall(r"field:[^;\n]{0,200}?\b(\w+)(?:\[\w*\])?;", text))


if __name__ == "__main__":
    sys.exit(main())
