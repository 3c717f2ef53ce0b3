"""Cgroups in a window: their limits, and how near their tasks came to them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from benchwright.model.watched import CgroupUse
from benchwright.probe.use.lines import Cgroup
from benchwright.probe.use.window import Window

_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def cgroups_use(window: Window, told: Sequence[Cgroup]) -> tuple[CgroupUse, ...]:
    """Return the use of each cgroup seen until the window's end, in order of number."""
    seen = {one.number: one for one in told if one.t <= window.end_ns}
    return tuple(_use(window, seen[number], seen) for number in sorted(seen))


def _use(window: Window, one: Cgroup, seen: dict[int, Cgroup]) -> CgroupUse:
    def column(name: str) -> str:
        return f"cgroup/{one.number}/{name}"

    memory, pids = window.most(column("memory")), window.most(column("pids"))
    return CgroupUse(
        path=one.path,
        version=one.version,
        controller=one.controller,
        of=one.of,
        cpu_limit_cores=one.limits.cpu_cores,
        cpu_used_cores=_cpu_used(window, one, seen),
        periods=window.whole(column("periods")),
        throttled=window.whole(column("throttled")),
        throttled_s=(window.growth(column("throttled_us")) or 0.0) / 1e6,
        memory_limit=one.limits.memory_bytes,
        memory_max=None if memory is None else round(memory),
        memory_limit_hits=window.count(column("memory_limit_hits")),
        oom_kills=window.count(column("oom_kill")),
        pids_limit=one.limits.pids,
        pids_max=None if pids is None else round(pids),
        io_limits=one.limits.io,
        cpus=_cpus(one.limits.cpus or ""),
    )


def _cpus(text: str) -> tuple[int, ...]:
    """Return the processors of a cpuset's list, `0-3,8`; none of what is no such list."""
    found: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            return ()
        first = int(match[1])
        found.update(range(first, int(match[2] or first) + 1))
    return tuple(sorted(found))


def _cpu_used(window: Window, one: Cgroup, seen: dict[int, Cgroup]) -> float | None:
    """Return the processors used [cores]; version 1 counts them in another hierarchy."""
    numbers = [one.number]
    if one.version == 1 and one.controller == "cpu":
        numbers += [
            other.number
            for other in seen.values()
            if other.controller == "cpuacct" and other.path == one.path
        ]
    rates = [window.rate(f"cgroup/{number}/usage_us") for number in numbers]
    return next((rate / 1e6 for rate in rates if rate is not None), None)
