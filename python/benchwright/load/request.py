"""Requests to the load engine: a load (target, workload, how it is run), a job with traces;
and where in the user's input each field was given."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from benchwright.core.load import LoopModel
from benchwright.core.text import plural
from benchwright.load.workload import (
    OPEN,
    Closed,
    Open,
    Tpcb,
    Workload,
    operations_until,
)
from benchwright.suite.mistakes import mistake
from benchwright.suite.program import Where

# -- A request to the load engine: target, workload, and how it is run -----------------
#
# Source: docs/engine-protocol.md, `load`. The defaults here are those of `bw load`.

TIMEOUT_NS = 30 * 10**9
"""As long as operations in flight at the end of a run are waited for."""
DRAIN_NS = 30 * 10**9
INTERVAL_NS = 10**9
DEPTH = 128


class Stall(msgspec.Struct, frozen=True):
    """A while in which the null target ends nothing."""

    at_ns: int
    for_ns: int


class NullTarget(msgspec.Struct, frozen=True, tag="null", tag_field="kind"):
    """Nothing at all: what is measured is the engine."""

    service_ns: int = 0
    stalls: tuple[Stall, ...] = ()


class FileTarget(msgspec.Struct, frozen=True, tag="file", tag_field="kind"):
    """A file or a block device."""

    path: str
    direct: bool = False
    engine: Literal["auto", "io_uring", "threads"] = "auto"
    threads: int = 16
    size_bytes: int | None = None
    block_bytes: int | None = None
    overwrite: bool = False
    """Its contents may be lost."""
    allow_writes_to_mounted: bool = False
    """Even while a file system on it is in use: that file system will be lost."""


class TcpTarget(msgspec.Struct, frozen=True, tag="tcp", tag_field="kind"):
    """A server that sends back what it is sent."""

    host: str
    port: int
    connections: int = 64
    timeout_ns: int | None = TIMEOUT_NS
    """How long an operation may take; None: for ever."""
    receive_bytes: int | None = None


class HttpTarget(msgspec.Struct, frozen=True, tag="http", tag_field="kind"):
    """An HTTP/1.1 server, with persistent connections."""

    url: str
    method: str = "GET"
    paths: tuple[str, ...] = ("/",)
    headers: tuple[tuple[str, str], ...] = ()
    body_bytes: int = 0
    connections: int = 64
    timeout_ns: int | None = TIMEOUT_NS
    """How long an operation may take; None: for ever."""


LoadTarget = NullTarget | FileTarget | TcpTarget | HttpTarget


class CatchUp(msgspec.Struct, frozen=True, tag="catch-up", tag_field="policy"):
    """What is late is issued at once."""


class Skip(msgspec.Struct, frozen=True, tag="skip", tag_field="policy"):
    """What is later than this is left out, and counted."""

    after_ns: int


class Burst(msgspec.Struct, frozen=True, tag="burst", tag_field="policy"):
    """At most so many late operations at once; the rest is left out, and counted."""

    operations: int


Late = CatchUp | Skip | Burst

PACERS = ("spin", "select", "sleep", "ded-clock")
CLOCKS = ("auto", "tsc", "monotonic")
FULL = ("queue", "drop")


class LoadRequest(
    msgspec.Struct, frozen=True, kw_only=True, tag="load", tag_field="type"
):
    """Everything the engine must know to run a workload."""

    target: LoadTarget
    workload: Workload
    duration_ns: int | None = None
    """None: until the filaments have nothing more."""
    drain_ns: int = DRAIN_NS
    workers: int = 1
    cpus: tuple[int, ...] | None = None
    depth: int = DEPTH
    full: str = "queue"
    late: Late = CatchUp()
    pacer: str = "spin"
    clock: str = "auto"
    fifo: int | None = None
    lock_memory: bool = True
    interval_ns: int = INTERVAL_NS
    interval_histograms: bool | msgspec.UnsetType = msgspec.UNSET
    """Each interval carries its response times' histogram, each progress its interval."""
    warm_up_ns: int = 0
    samples: str | None = None

    @property
    def loop(self) -> LoopModel:
        """Which of the workload's operations wait for others, and how many users there are."""
        filaments = self.workload.filaments
        opened = [_is_open(f) for f in filaments]
        users = [f.users for f in filaments if isinstance(f, Closed)]
        slots = None
        if users and len(users) == len(filaments):
            slots = min(sum(users), self.depth * self.workers)
        return LoopModel(open=any(opened), closed=not all(opened), slots=slots)

    @property
    def asked_rate_per_s(self) -> float | None:
        """The requested arrivals per second in the measured part, on average.

        None where it is unknown before the run: in a closed loop, a trace, or without an end.
        """
        end_ns, total = self.duration_ns, 0.0
        if not end_ns:
            return None
        for filament in self.workload.filaments:
            if not isinstance(filament, Open) or filament.count is not None:
                return None
            until = operations_until(filament.rate, self.warm_up_ns + end_ns)
            total += until - operations_until(filament.rate, self.warm_up_ns)
        return total / end_ns * 1e9


def _is_open(filament: object) -> bool:
    if isinstance(filament, Tpcb):
        return filament.rate is not None
    return isinstance(filament, OPEN)


# -- Requests about traces: to measure, compare, convert and capture them --------------
#
# Decision: what the user does not say is not in the request, so that each format's own
# default holds and the engine reports it. Source: docs/engine-protocol.md, `the others`.

WRITTEN = ("bw", "fio-iolog")


class TraceInput(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A trace, and the policies for what it leaves open; None: the format's default."""

    path: str | tuple[str, ...]
    """Several are merged by time."""
    format: str | None = None
    lenient: bool = False
    window_ns: int | None = None
    duplicates: str | None = None
    from_ns: int = 0
    for_ns: int | None = None
    devices: tuple[str, ...] | None = None
    offsets: str | None = None
    target_bytes: int | None = None
    source_bytes: int | None = None
    align_bytes: int | None = None
    speed_micro: int | None = None
    v2_wait: str | None = None
    """What the number in a `wait` line of fio's iolog version 2 means: us or ms."""
    arrivals: str | None = None
    """Which event of blktrace is the arrival: queue or issue."""
    stamp_unit_ns: int | None = None
    """Of MQSim's stamps, which the file does not report."""


class _TraceRequest(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="type"
):
    """Base of requests."""


class StatRequest(_TraceRequest, frozen=True, tag="trace-stat"):
    """Statistics of a trace."""

    input: TraceInput


class CompareRequest(_TraceRequest, frozen=True, kw_only=True, tag="trace-compare"):
    """Fidelity of a replay."""

    a: TraceInput
    """What was meant."""
    b: TraceInput
    """What became of it."""
    speed_micro: int | None = None
    """None: estimated from the first operations."""
    shift_ns: int | None = None
    window_ns: int | None = None
    """Maximum distance between the two of a pair."""
    by_device: bool = False


class ConvertedTrace(msgspec.Struct, frozen=True):
    """A file to be written."""

    path: str
    format: str


class ConvertRequest(_TraceRequest, frozen=True, tag="trace-convert"):
    """A trace in another format."""

    input: TraceInput
    output: ConvertedTrace


class CaptureRequest(_TraceRequest, frozen=True, kw_only=True, tag="trace-capture"):
    """A recording of a device's or a process tree's I/O."""

    device: str | None = None
    pid: int | None = None
    for_ns: int | None = None
    """None: until interrupted."""
    output: str
    buffer_kib: int | None = None


# --------------------------------------------------------------------------------------
# Where the user said what a request says: a line of a workload's file, or an option.
#
# Purpose: the engine knows fields of its request (`workload.filaments[0].access.size`), the
# user a `[[filament]]` or `--block`. Decision: one flat table from the fields to places, made
# while the words are read; what is wrong inside a filament is looked up by the word that the
# engine's message begins with, and is the filament's own place where that is no key of it.
# Structured errors down in the engine's schedule lost: every text there begins with its
# field already. Source: docs/engine-protocol.md, `error`.

InputPositions = Mapping[str, Where]
"""A field of the request -> its place in the user's input. A filament's are
`workload.filaments[N]` and, for each of its keys as the user writes them, `workload.filaments[N].KEY`."""

NO_POSITIONS: InputPositions = {}

_FILAMENT = re.compile(r"(workload\.filaments\[\d+\])(?:\.(?:access\.)?(\w+))?")
_FIRST = re.compile(r"(?:access: )?([\w-]+)")
_KEYS = {
    "align_bytes": ("align", "size"),
    "zipf": ("location",),
    "hot-cold": ("location",),
    "strided": ("location",),
    "gamma": ("arrival",),
    "on-off": ("arrival",),
    "recorded": ("arrival",),
}
"""Words of the engine that are not the user's: the keys that they may stand for."""


def filament_field(place: int) -> str:
    """Return the request's field of a filament."""
    return f"workload.filaments[{place}]"


def position_of(places: InputPositions, field: str, message: str) -> Where | None:
    """Return the place of an error in the user's input; None if it is unknown."""
    filament = _FILAMENT.fullmatch(field)
    if filament is None:
        return places.get(field)
    first = _FIRST.match(message)
    words = (filament[2], first[1] if first else None)
    for word in (one for one in words if one):
        for key in _KEYS.get(word, (word,)):
            if f"{filament[1]}.{key}" in places:
                return places[f"{filament[1]}.{key}"]
    return places.get(filament[1])


def check_worker_cpus(request: LoadRequest, places: InputPositions) -> None:
    """Check that each worker has its CPU. Raises InputError."""
    cpus, workers = request.cpus, request.workers
    if cpus is None or len(cpus) == workers:
        return
    where = places.get("cpus", Where("--cpu"))
    dashes = "--" if where.file == "--cpu" else ""
    seats, threads = plural(len(cpus), "CPU"), plural(workers, "thread")
    cpu = f"{dashes}cpu{'' if dashes else 's'}"
    message = f"{cpu} names {seats}, and {dashes}workers asks for {threads}"
    hint = f"name one for each thread, or ask for {plural(len(cpus), 'thread')}"
    raise mistake(where, "bad-argument", message, hint)
