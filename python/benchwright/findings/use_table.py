"""The USE table: utilization, saturation and errors of every resource in a window.

Purpose: the table in which a person looks for a limit; it shows absent figures with their
reason. Decision: a cell contains several values, because no single figure shows saturation;
each CPU has its own row, because a sum hides a busy one.
Source: Systems Performance, 12.3.4, and appendix A for the metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from benchwright.core.resource_use import (
    CgroupUse,
    CpuUse,
    DiskUse,
    MemoryUse,
    NetworkUse,
    ResourceUse,
)
from benchwright.findings.cpu_time import cpu_shares
from benchwright.findings.limit import StatedCapacity
from benchwright.findings.limiter_io import speed_of, stated_uses

NOT_REPORTED = "not reported"
_NO_LIMIT = 1 << 62
"""Values from here on mean no limit: the kernel then writes the largest number of 63 bits."""


class UseValue(msgspec.Struct, frozen=True):
    """One figure of the USE table."""

    name: str
    """Name of the figure: `busy`, `runnable`, `waiting`."""
    value: float | None
    """None: absent."""
    unit: str = ""
    """`share` is of one thing's capacity; else as written: `tasks`, `B`, `1/s`."""
    of: float | None = None
    """The capacity or limit, in the same unit."""
    absent: str | None = None
    """Why there is no value; None if there is one."""


class UseRow(msgspec.Struct, frozen=True):
    """One resource, a row of the USE table."""

    resource: str
    """Its kind: `cpu`, `disk`, `network`, `cgroup`."""
    name: str
    """Which one: `0`, `vda`; empty where there is only one."""
    utilization: tuple[UseValue, ...] = ()
    saturation: tuple[UseValue, ...] = ()
    errors: tuple[UseValue, ...] = ()


def use_table(use: ResourceUse, capacities: Sequence[StatedCapacity] = ()) -> tuple[UseRow, ...]:
    """Return the rows of a window: CPUs, threads, cgroups, memory, disks, network, files, kernel.

    A resource that was not observed has a row of absent values. `capacities`: what the user states;
    that of several disks together has a row of its own.
    """
    return (
        *_cpu_rows(use),
        *_thread_rows(use),
        *map(_cgroup_row, use.cgroups),
        *_memory_rows(use),
        *_disk_rows(use, capacities),
        *_network_rows(use, capacities),
        _sockets_row(use),
        _files_row(use),
        _kernel_row(use),
    )


# -- which rows were busy ----------------------------------------------------------------

_BUSY = 0.05
"""From this share on, a CPU, a thread, a disk or a link was not idle."""
_NEARLY_FULL = 0.8
"""From this share on, memory, files or tasks are near their limit."""
_WAITING = 0.01
"""From this share on, tasks waited (pressure), or packets were lost."""
_MOVED_BYTES_PER_S = 1e6
"""From here on, a link of unknown speed was not idle."""
_CPUS_DIFFER = 0.25
"""A CPU has a row of its own if the busiest and the idlest differ by this share."""
_USUAL = ("runnable", "in flight", "response", "refaults", "major faults", "dirty")
"""Figures that an idle resource has too."""


def busy_rows(rows: Sequence[UseRow]) -> tuple[UseRow, ...]:
    """Return the rows of resources that were not idle, with all CPUs together first.

    A single CPU is left out unless the CPUs differ; rows without any value are left out.
    """
    each = [
        row.utilization[0].value or 0.0
        for row in rows
        if row.resource == "cpu" and row.name.isdigit()
    ]
    differ = bool(each) and max(each) - min(each) >= _CPUS_DIFFER
    return tuple(row for row in rows if _is_shown(row, cpus_differ=differ))


def _is_shown(row: UseRow, *, cpus_differ: bool) -> bool:
    if row.resource == "cpu":
        if not row.name.isdigit():
            return any(one.value is not None for one in row.utilization)
        return cpus_differ and _is_used(row.utilization[0])
    known = any(one.unit == "share" for one in row.utilization)
    used = [one for one in row.utilization if not (known and one.unit == "B/s")]
    return any(map(_is_used, used)) or any(map(_is_notable, (*row.saturation, *row.errors)))


def _is_used(value: UseValue) -> bool:
    """Return whether a utilization shows that the resource was not idle."""
    if value.value is None or value.name in _USUAL or value.name.startswith("limit of"):
        return False
    if value.unit == "share":
        return value.value >= _BUSY
    if value.of:
        space = value.unit in ("B", "files", "tasks")
        return value.value / value.of >= (_NEARLY_FULL if space else _BUSY)
    return value.unit == "B/s" and value.value >= _MOVED_BYTES_PER_S


def _is_notable(value: UseValue) -> bool:
    """Return whether a figure of saturation or of errors shows either."""
    if not value.value or value.name in _USUAL:
        return False
    share = value.value / value.of if value.of else value.value
    return share >= _WAITING


def use_value(use: ResourceUse, name: str, value: float | None, unit: str) -> UseValue:
    """Return a value of the table; an absent one has the reason from `use`, if any."""
    if value is not None:
        return UseValue(name, value, unit)
    return _absent(use, name, unit)


def _absent(use: ResourceUse, name: str, unit: str = "", about: str = "") -> UseValue:
    return UseValue(name, None, unit, absent=_reason(use, about or name))


def _reason(use: ResourceUse, about: str) -> str:
    for what, why in use.absent:
        if what == about or what.startswith((f"{about}/", f"{about}.")):
            return why
    return NOT_REPORTED


def _cpu_rows(use: ResourceUse) -> Iterator[UseRow]:
    cpu = use.cpu
    if cpu is None:
        gone = (_absent(use, "busy", "processors", "cpu"),)
        yield UseRow("cpu", "", gone, gone, gone)
        return
    # In a short window the ticks of a CPU can be more than its time.
    busy = min(cpu.busy, cpu.count)
    yield UseRow(
        "cpu",
        "all",
        (UseValue("busy", busy, "processors", cpu.count), *_by_whom(use, cpu)),
        (
            use_value(use, "runnable", cpu.runnable, "tasks"),
            _pressure(use, cpu.pressure, "cpu"),
            UseValue("stolen", cpu.steal, "processors"),
        ),
        (_throttles(use),),
    )
    for place, share in enumerate(cpu.each):
        yield UseRow("cpu", str(place), (UseValue("busy", min(share, 1.0), "share"),))


def _by_whom(use: ResourceUse, cpu: CpuUse) -> Iterator[UseValue]:
    found = cpu_shares(use)
    yield use_value(use, "own", cpu.own, "processors")
    if found is not None and found.target:
        yield UseValue("target", found.target, "processors")
    others = None if found is None else found.neighbours
    if others is not None:
        others = min(others, cpu.count)
    yield use_value(use, "others", others, "processors")
    yield UseValue("I/O wait", cpu.iowait, "processors")


def _pressure(use: ResourceUse, share: float | None, what: str) -> UseValue:
    if share is not None:
        return UseValue("pressure", share, "share")
    return _absent(use, "pressure", "share", f"pressure/{what}")


def _throttles(use: ResourceUse) -> UseValue:
    clock = use.clock
    if clock is None or clock.thermal_throttles is None:
        return _absent(use, "throttled by heat", "times", "throttle")
    return UseValue("throttled by heat", clock.thermal_throttles, "times")


def _thread_rows(use: ResourceUse) -> Iterator[UseRow]:
    """Yield the busiest threads: at most three, the first even if it hardly ran."""
    busy = [task for task in use.tasks if task.share >= 0.01] or use.tasks[:1]
    for task in busy[:3]:
        yield UseRow(
            "thread" if task.of == "own" else f"{task.of}'s thread",
            task.name,
            (UseValue("busy", task.share, "share"),),
            (use_value(use, "waiting", task.waiting, "share"),),
        )
    if not use.tasks:
        gone = (_absent(use, "busy", "share", "own"),)
        yield UseRow("thread", "", gone, gone)


def _cgroup_row(group: CgroupUse) -> UseRow:
    used: list[UseValue] = []
    stopped: list[UseValue] = []
    errors = [UseValue("ended for memory", group.oom_kills, "times")]
    if group.cpu_used_cores is not None or group.cpu_limit_cores is not None:
        limit = group.cpu_limit_cores
        used.append(UseValue("cpu", group.cpu_used_cores, "processors", limit))
    if group.cpu_limit_cores is not None or group.throttled:
        stopped.append(UseValue("periods stopped", group.throttled, "times", group.periods))
        stopped.append(UseValue("stopped", group.throttled_s, "s"))
    if group.memory_max is not None:
        used.append(UseValue("memory", group.memory_max, "B", group.memory_limit))
    if group.memory_limit is not None:
        stopped.append(UseValue("limit met", group.memory_limit_hits, "times"))
    if group.pids_max is not None:
        used.append(UseValue("tasks", group.pids_max, "tasks", group.pids_limit))
    for io_limit in group.io_limits:
        used += [
            UseValue(f"limit of {name} on {io_limit.name or io_limit.device}", most, unit)
            for name, most, unit in (
                ("reading", io_limit.read_bytes_per_s, "B/s"),
                ("writing", io_limit.write_bytes_per_s, "B/s"),
                ("reads", io_limit.reads_per_s, "1/s"),
                ("writes", io_limit.writes_per_s, "1/s"),
            )
            if most is not None
        ]
    name = f"{group.controller}:{group.path}" if group.controller else group.path
    return UseRow("cgroup", name, tuple(used), tuple(stopped), tuple(errors))


def _memory_rows(use: ResourceUse) -> Iterator[UseRow]:
    memory = use.memory
    if memory is None:
        gone = (_absent(use, "used", "B", "memory"),)
        yield UseRow("memory", "", gone, gone, gone)
        return
    used = memory.total - memory.available_min
    yield UseRow(
        "memory",
        "",
        (UseValue("used", used, "B", memory.total), UseValue("dirty", memory.dirty_max, "B")),
        (
            _pressure(use, memory.pressure, "memory"),
            UseValue("refaults", memory.refaults, "pages"),
            UseValue("scanned by tasks", memory.scanned_direct, "pages"),
            UseValue("major faults", memory.major_faults, "times"),
        ),
        (UseValue("ended for memory", memory.oom_kills, "times"),),
    )
    yield _swap_row(memory)


def _swap_row(memory: MemoryUse) -> UseRow:
    if not memory.swap_total:
        none = (UseValue("used", None, "B", absent="there is no swap space"),)
        return UseRow("swap", "", none)
    return UseRow(
        "swap",
        "",
        (UseValue("used", memory.swap_used_max, "B", memory.swap_total),),
        (UseValue("in", memory.swapped_in, "B"), UseValue("out", memory.swapped_out, "B")),
    )


def _disk_rows(use: ResourceUse, capacities: Sequence[StatedCapacity]) -> Iterator[UseRow]:
    stated: dict[str, list[UseValue]] = {}
    for one in stated_uses(use, capacities):
        unit = one.stated.unit
        name = "requests" if unit == "1/s" else "moved"
        value = UseValue(name, one.rate, unit, one.stated.most)
        stated.setdefault(one.stated.resource, []).append(value)
    for disk in use.disks:
        yield _disk_row(disk, stated.pop(disk.name, ()))
    for name, values in stated.items():
        yield UseRow("disks", name, tuple(values))
    if not use.disks:
        why = _reason(use, "disk")
        text = "no request in this window" if why == NOT_REPORTED else why
        yield UseRow("disk", "", (UseValue("busy", None, "share", absent=text),))
    yield UseRow("disks", "all", saturation=(_pressure(use, use.io_pressure, "io"),))


def _disk_row(disk: DiskUse, stated: Iterable[UseValue]) -> UseRow:
    response = disk.response_s
    return UseRow(
        "disk",
        disk.name,
        (
            UseValue("busy", disk.busy, "share"),
            UseValue("read", disk.read_bytes_per_s, "B/s"),
            UseValue("written", disk.write_bytes_per_s, "B/s"),
            *stated,
        ),
        (
            UseValue("in flight", disk.queue, "requests"),
            UseValue(
                "response", response, "s", absent=None if response is not None else "no request"
            ),
            UseValue("longest stall", disk.longest_stall_s, "s"),
        ),
        (UseValue("errors", None, absent="see the kernel's log"),),
    )


def _network_rows(use: ResourceUse, capacities: Sequence[StatedCapacity]) -> Iterator[UseRow]:
    for network in use.networks:
        yield _network_row(network, speed_of(network, capacities))
    if not use.networks:
        why = _reason(use, "net")
        text = "no packet in this window" if why == NOT_REPORTED else why
        yield UseRow("network", "", (UseValue("moved", None, "B/s", absent=text),))


def _network_row(network: NetworkUse, most: float | None) -> UseRow:
    return UseRow(
        "network",
        network.name,
        (
            UseValue("received", network.receive_bytes_per_s, "B/s", most),
            UseValue("sent", network.send_bytes_per_s, "B/s", most),
        ),
        (UseValue("dropped", network.dropped, "packets"),),
        (UseValue("errors", network.errors, "packets"),),
    )


def _sockets_row(use: ResourceUse) -> UseRow:
    sockets = use.sockets
    if sockets is None:
        gone = (_absent(use, "sent again", "segments", "tcp"),)
        return UseRow("sockets", "", saturation=gone, errors=gone)
    return UseRow(
        "sockets",
        "",
        (),
        (
            UseValue("listen queues full", sockets.listen_overflows, "times"),
            UseValue("receive buffers full", sockets.receive_errors, "times"),
            UseValue("softnet dropped", sockets.softnet_dropped, "packets"),
        ),
        (UseValue("sent again", sockets.retransmits, "segments", sockets.segments_out),),
    )


def _files_row(use: ResourceUse) -> UseRow:
    cells = []
    files = use.files
    if files is None:
        cells.append(_absent(use, "open", "files", "files_open"))
    else:
        cells.append(UseValue(files.name, files.open, "files", files.limit))
    if use.files_of_machine is None:
        cells.append(_absent(use, "machine", "files", "files"))
    else:
        opened, limit = use.files_of_machine
        most = None if limit >= _NO_LIMIT else limit
        cells.append(UseValue("machine", opened, "files", most))
    return UseRow("files", "", tuple(cells))


def _kernel_row(use: ResourceUse) -> UseRow:
    why = _reason(use, "kernel")
    if why != NOT_REPORTED and not use.kernel:
        return UseRow("kernel", "", errors=(UseValue("messages", None, absent=why),))
    bad = sum(message.level <= 4 for message in use.kernel)
    return UseRow("kernel", "", errors=(UseValue("warnings and errors", bad, "messages"),))
