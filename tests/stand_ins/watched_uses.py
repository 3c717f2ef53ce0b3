"""Uses of a machine of two processors, made up for tests of the machine's findings."""

from __future__ import annotations

from typing import Any

import msgspec

from benchwright.core.observation import MeasurementBlock, Trial, TrialEnding
from benchwright.core.resource_use import (
    CgroupUse,
    CpuUse,
    DiskUse,
    IoLimit,
    MemoryUse,
    NetworkUse,
    ResourceUse,
    TaskUse,
    TreeIo,
)
from benchwright.findings.limiter import LimiterContext, limiters

MIB = 1 << 20


def cpu(own: float, others: float = 0.02, **more: Any) -> CpuUse:
    """Return two processors of which the trial and others used so much."""
    target = more.get("target", 0.0)
    steal = more.pop("steal", 0.0)
    count = more.pop("count", 2)
    busy = min(own + others + target, count - steal)
    return CpuUse(
        count=count,
        busy=busy,
        user=busy,
        system=0.0,
        interrupts=0.0,
        iowait=more.pop("iowait", 0.0),
        steal=steal,
        own=own,
        others=others,
        runnable=more.pop("runnable", busy),
        **more,
    )


def task(name: str = "work", share: float = 0.5, **more: Any) -> TaskUse:
    """Return a thread of the own tree that was seen for the whole window."""
    return TaskUse(pid=10, tid=10, name=name, share=share, **{"waiting": 0.0, **more})


def disk(busy: float, queue: float, **more: Any) -> DiskUse:
    """Return a disk with 100 reads of 4 KiB a second."""
    rates = {
        "reads_per_s": 100.0,
        "writes_per_s": 0.0,
        "read_bytes_per_s": 409600.0,
        "write_bytes_per_s": 0.0,
        "response_s": 0.01,
    }
    return DiskUse(busy=busy, queue=queue, **{"name": "vda", **rates, **more})


def network(name: str = "eth0", **more: Any) -> NetworkUse:
    """Return an interface with little traffic."""
    rates = {
        "receive_bytes_per_s": 1000.0,
        "send_bytes_per_s": 1000.0,
        "receive_packets_per_s": 10.0,
        "send_packets_per_s": 10.0,
    }
    return NetworkUse(name=name, **{**rates, **more})


def memory(**more: Any) -> MemoryUse:
    """Return 8 GiB of memory, most of it free."""
    return MemoryUse(total=8192 * MIB, available_min=6000 * MIB, **{"pressure": 0.0, **more})


def group(**more: Any) -> CgroupUse:
    """Return a cgroup of version 2 without limits."""
    return CgroupUse(path="/bench", version=2, **more)


def use(**more: Any) -> ResourceUse:
    """Return a window of 10 s in which a light load ran."""
    start = ResourceUse(
        seconds=10.0,
        samples=100,
        epochs=(1, 1),
        cpu=cpu(0.4),
        tasks=(task(share=0.4),),
        memory=memory(),
        own_io=TreeIo(MIB, MIB, MIB, 0, 100, 100),
        io_pressure=0.0,
    )
    return msgspec.structs.replace(start, **more)


def throttled(limit: IoLimit) -> CgroupUse:
    """Return a cgroup with a limit on I/O."""
    return group(io_limits=(limit,))


def waiting_for_io(**more: Any) -> ResourceUse:
    """Return a window in which the trial's only thread waits for the disk."""
    parts = {
        "cpu": cpu(0.05, iowait=0.9),
        "tasks": (task(share=0.05),),
        "io_pressure": 0.9,
        "own_io": TreeIo(8 * MIB, 0, 8 * MIB, 0, 2000, 0),
    }
    return use(**(parts | more))


def trial(epoch: int, seen: ResourceUse | None = None, **more: Any) -> Trial:
    """Return an epoch of 10 s, watched if `seen` is given."""
    values = more.pop("values", {"elapsed": 10.0 + 0.01 * (epoch % 5)})
    ending = more.pop("ending", TrialEnding.OK)
    if seen is not None and seen.epochs == (1, 1):
        seen = msgspec.structs.replace(seen, epochs=(epoch, epoch))
    blocks = (MeasurementBlock(1, epoch, "work", 0, values),)
    return Trial("t", epoch, 1, ending, 0, 10, blocks, use=seen, **more)


def codes(seen: ResourceUse, known: LimiterContext | None = None) -> list[str]:
    """Return what was at its limit, most explanatory first."""
    return [limit.code for limit in limiters(seen, known)]
