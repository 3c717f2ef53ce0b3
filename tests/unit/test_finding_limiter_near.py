"""Each threshold of a limit, with a value on either side and near."""

from __future__ import annotations

from typing import Any

import pytest

from benchwright.core.resource_use import IoLimit, OffCpuUse, ResourceUse, TreeIo
from watched_uses import (
    MIB,
    codes,
    cpu,
    disk,
    group,
    memory,
    network,
    task,
    throttled,
    use,
    waiting_for_io,
)


def beside(neighbours: float, **more: Any) -> ResourceUse:
    """Return a full machine on which others used so many processors."""
    own = more.pop("share", 2 - neighbours)
    threads = (task("cc1", own, waiting=more.pop("waiting", 0.4)),)
    return use(cpu=cpu(own, neighbours, runnable=4.0, **more), tasks=threads)


def turning(runnable: float = 1.0, lasting: float = 0.2) -> ResourceUse:
    """Return processes that take turns at one processor."""
    turns = tuple(task("cc1", 0.3, seen_s=10 * lasting) for _ in range(3))
    return use(cpu=cpu(0.95, 0.0, runnable=0.95 + runnable - 1), tasks=turns)


def by_turns(alone: float = 1.0, samples: int = 100) -> ResourceUse:
    """Return lasting processes that take turns at one processor."""
    off = OffCpuUse(0.0, 0, (), samples, int(alone * samples))
    return use(cpu=cpu(0.99), tasks=tuple(task("w", 0.33) for _ in range(3)), off_cpu=off)


def full(memory_max: float = 1.0, refaults_per_s: float = 500) -> ResourceUse:
    """Return a cgroup near its memory limit."""
    limit = 100 * MIB
    return use(
        memory=memory(refaults=int(10 * refaults_per_s)),
        cgroups=(
            group(memory_limit=limit, memory_max=int(memory_max * limit), memory_limit_hits=5),
        ),
    )


NEAR = [
    ("noisy-neighbour", lambda v: beside(v), 0.09, 0.11),
    (
        "noisy-neighbour",
        lambda v: use(
            cpu=cpu(0.9, v, count=4, each=(0.9 + v, 0.0, 0.0, 0.0)),
            tasks=(task("cc1", 0.9, waiting=0.2),),
            cgroups=(group(cpus=(0,)),),
        ),
        0.04,
        0.06,
    ),
    ("noisy-neighbour", lambda v: beside(1.0, waiting=v), 0.04, 0.06),
    ("noisy-neighbour", lambda v: beside(1.8, share=0.2, waiting=v), 0.04, 0.06),
    (
        "noisy-neighbour",
        lambda v: use(cpu=cpu(0.85, 0.5), tasks=(task("gzip", 0.85, waiting=v),), working=(1, 0)),
        0.04,
        0.06,
    ),
    ("steal", lambda v: use(cpu=cpu(0.95, steal=v), tasks=(task("gzip", 0.95),)), 0.045, 0.06),
    ("noisy-neighbour", lambda v: use(cpu=cpu(1.3, 0.7, runnable=v), tasks=()), 2.1, 2.3),
    (
        "single-threaded-cpu-bound",
        lambda v: use(cpu=cpu(0.97), tasks=(task("gzip", v, waiting=0.96 - v),)),
        0.83,
        0.87,
    ),
    ("single-threaded-cpu-bound", lambda v: turning(runnable=v), 1.42, 1.28),
    ("single-threaded-cpu-bound", lambda v: turning(lasting=v), 0.55, 0.45),
    ("single-threaded-cpu-bound", lambda v: by_turns(alone=v), 0.84, 0.86),
    ("single-threaded-cpu-bound", lambda v: by_turns(samples=v), 5, 6),
    ("memory-limit", lambda v: full(memory_max=v), 0.93, 0.96),
    ("memory-limit", lambda v: full(refaults_per_s=v), 90, 110),
    ("swapping", lambda v: use(memory=memory(swapped_in=int(v * MIB), swapped_out=MIB)), 8, 10),
    (
        "memory-pressure",
        lambda v: use(memory=memory(pressure=None, scanned_direct=int(v))),
        9000,
        11_000,
    ),
    (
        "disk-saturated",
        lambda v: waiting_for_io(io_pressure=0.1, cpu=cpu(0.1), disks=(disk(v, 3.0),)),
        0.93,
        0.96,
    ),
    (
        "disk-saturated",
        lambda v: waiting_for_io(io_pressure=0.1, cpu=cpu(0.1), disks=(disk(0.97, v),)),
        1.5,
        1.9,
    ),
    (
        "disk-saturated",
        lambda v: waiting_for_io(io_pressure=v, cpu=cpu(0.1), disks=(disk(0.93, 1),)),
        0.55,
        0.65,
    ),
    ("disk-saturated", lambda v: waiting_for_io(disks=(disk(v, 0.9),)), 0.88, 0.92),
    (
        "disk-saturated",
        lambda v: waiting_for_io(
            own_io=TreeIo(0, 0, int(v * 4096000), 0), disks=(disk(0.97, 7.0),)
        ),
        0.04,
        0.06,
    ),
    (
        "io-throttled",
        lambda v: waiting_for_io(
            io_pressure=0.55,
            cpu=cpu(0.1),
            disks=(disk(0.01, 0.1),),
            cgroups=(throttled(IoLimit("8:0", "vda", reads_per_s=100 / v)),),
        ),
        0.67,
        0.73,
    ),
    (
        "io-throttled",
        lambda v: waiting_for_io(
            io_pressure=v,
            cpu=cpu(0.1),
            disks=(disk(0.01, 0.1),),
            cgroups=(throttled(IoLimit("8:0", "vda", reads_per_s=130.0)),),
        ),
        0.45,
        0.55,
    ),
    (
        "io-throttled",
        lambda v: use(
            disks=(disk(0.01, 0.1, active=v),),
            cgroups=(throttled(IoLimit("8:0", "vda", reads_per_s=200.0)),),
        ),
        0.45,
        0.55,
    ),
    (
        "disk-stalled",
        lambda v: use(seconds=4.0, disks=(disk(0.5, 1, longest_stall_s=v),)),
        0.45,
        0.55,
    ),
    (
        "network-limit",
        lambda v: use(
            networks=(network(send_bytes_per_s=100e6, send_packets_per_s=v, speed_bits_per_s=1e9),)
        ),
        600e3,
        650e3,
    ),
    (
        "network-limit",
        lambda v: use(networks=(network(send_bytes_per_s=v * 125e6, speed_bits_per_s=1e9),)),
        0.90,
        0.93,
    ),
    ("cpu-saturated", lambda v: use(cpu=cpu(v, 0.0, runnable=3.0), tasks=()), 1.78, 1.82),
    ("cpu-saturated", lambda v: use(cpu=cpu(2 - v, v, runnable=2.0), tasks=()), 0.65, 0.55),
]


@pytest.mark.parametrize(
    ("code", "made", "free", "limited"), NEAR, ids=[f"{one[0]}-{one[3]}" for one in NEAR]
)
def test_near_both_sides_of_a_threshold(code: str, made: Any, free: float, limited: float) -> None:
    assert code not in codes(made(free))
    assert code in codes(made(limited))
