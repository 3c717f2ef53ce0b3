"""A request to the load engine: target, workload, and how it is run.

Source: docs/engine-protocol.md, `load`. The defaults here are those of `bw load`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from benchwright.load.workload import (
    OPEN,
    Closed,
    Open,
    Tpcb,
    Workload,
    operations_until,
)
from benchwright.model.load import Loop

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
    """An HTTP/1.1 server, connections kept alive."""

    url: str
    method: str = "GET"
    paths: tuple[str, ...] = ("/",)
    headers: tuple[tuple[str, str], ...] = ()
    body_bytes: int = 0
    connections: int = 64
    timeout_ns: int | None = TIMEOUT_NS
    """How long an operation may take; None: for ever."""


Target = NullTarget | FileTarget | TcpTarget | HttpTarget


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

    target: Target
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
    def loop(self) -> Loop:
        """Which of the workload's operations wait for others, and how many users there are."""
        filaments = self.workload.filaments
        opened = [_is_open(f) for f in filaments]
        users = [f.users for f in filaments if isinstance(f, Closed)]
        slots = None
        if users and len(users) == len(filaments):
            slots = min(sum(users), self.depth * self.workers)
        return Loop(open=any(opened), closed=not all(opened), slots=slots)

    @property
    def asked_rate_per_s(self) -> float | None:
        """The arrivals per second that the workload asks for in the measured part, on average.

        None where it cannot be told before the run: in a closed loop, a trace, or without an end.
        """
        end_ns, total = self.duration_ns, 0.0
        if not end_ns:
            return None
        for one in self.workload.filaments:
            if not isinstance(one, Open) or one.count is not None:
                return None
            until = operations_until(one.rate, self.warm_up_ns + end_ns)
            total += until - operations_until(one.rate, self.warm_up_ns)
        return total / end_ns * 1e9


def _is_open(filament: object) -> bool:
    if isinstance(filament, Tpcb):
        return filament.rate is not None
    return isinstance(filament, OPEN)
