"""The share of its capacity that each resource was used, for all resources that can limit throughput.

Purpose: one scale for resources of different kinds, in charts and where a search compares levels.
A resource without a known capacity (a virtual network, a cgroup without a limit) has no share.
Decision: the threads of our engine are left out, because they spin: they are busy without work.
Source: Systems Performance, 2.5.9 (the USE method).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import Literal

import msgspec

from benchwright.core.resource_use import ResourceUse
from benchwright.findings.programs import is_engine


class Utilization(msgspec.Struct, frozen=True):
    """How much of one resource was used."""

    kind: Literal["cpu", "thread", "disk", "network", "quota"]
    name: str
    """`CPU`, `thread redis-server`, `disk vda`."""
    share: float
    """Of its capacity; a disk that works in parallel may have more to give at 1."""


def utilizations(use: ResourceUse) -> Iterator[Utilization]:
    """Yield the utilization of each resource with a known capacity, in the order of the USE table."""
    cpu = use.cpu
    if cpu is not None and cpu.count:
        yield Utilization("cpu", "CPU", cpu.busy / cpu.count)
    threads = [task for task in use.tasks if not is_engine(task.name)]
    if threads:
        busiest = max(threads, key=lambda task: task.share)
        yield Utilization("thread", f"thread {busiest.name}", busiest.share)
    for disk in use.disks:
        yield Utilization("disk", f"disk {disk.name}", disk.busy)
    for network in use.networks:
        if network.speed_bits_per_s:
            most = max(network.receive_bytes_per_s, network.send_bytes_per_s)
            share = 8 * most / network.speed_bits_per_s
            yield Utilization("network", f"network {network.name}", share)
    for cgroup in use.cgroups:
        if cgroup.cpu_limit_cores and cgroup.cpu_used_cores is not None:
            name = f"CPU quota {cgroup.path.rpartition('/')[2] or '/'}"
            yield Utilization("quota", name, cgroup.cpu_used_cores / cgroup.cpu_limit_cores)


def mean_utilizations(uses: Iterable[Sequence[Utilization]]) -> tuple[Utilization, ...]:
    """Return the mean utilization of each resource over windows, the busiest first; a resource that
    a window does not have was idle in it."""
    windows = list(uses)
    known = {one.name: one for window in windows for one in window}
    shares = {
        name: fmean(sum(one.share for one in window if one.name == name) for window in windows)
        for name in known
    }
    found = (msgspec.structs.replace(known[name], share=share) for name, share in shares.items())
    return tuple(sorted(found, key=lambda one: -one.share))
