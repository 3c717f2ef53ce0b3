"""Limits of memory, network links, disks, open files and processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from benchwright.core.resource_use import (
    CgroupUse,
    DiskUse,
    IoLimit,
    MemoryKill,
    MemoryUse,
    NetworkUse,
    ResourceUse,
)
from benchwright.core.results import Figure, Value, states
from benchwright.core.text import list_text
from benchwright.findings import thresholds as t
from benchwright.findings.cpu_time import cpu_shares, whole_threads
from benchwright.findings.limit import LimitReached, StatedCapacity

# -- Limits of memory: swapping, a cgroup's limit, tasks that waited for memory --------


def swapping(use: ResourceUse) -> LimitReached | None:
    """Return the swap space, if it replaced memory of the trial.

    Pages that are only written out are not used, unless tasks wait for memory.
    """
    memory = use.memory
    if memory is None:
        return None
    moved = (memory.swapped_in + memory.swapped_out) / use.seconds
    if moved < t.SWAP_BYTES_PER_S:
        return None
    waited = memory.pressure is not None and memory.pressure >= t.PRESSURE / 2
    if memory.swapped_in < 0.1 * memory.swapped_out and not waited:
        return None
    if not lacks_memory(use):
        return None
    full = _full_group(use)
    figures = states(
        read=Figure(memory.swapped_in, "B"),
        written=Figure(memory.swapped_out, "B"),
        rate=Figure(moved, "B/s"),
        **({} if full is None else _group(full)),
    )
    return LimitReached("swapping", "memory" if full is None else full.path, figures)


def lacks_memory(use: ResourceUse) -> bool:
    """Return whether the machine's lack of memory can be the trial's: it waited for pages, its
    cgroup was full, or nothing was recorded about the trial itself."""
    losses, memory = use.losses, use.memory
    if losses is None or losses.major_faults is None or _full_group(use) is not None:
        return True
    machine = 0 if memory is None else memory.major_faults
    least = max(t.OWN_FAULTS_PER_S * use.seconds, t.OWN_FAULTS * machine)
    return losses.major_faults >= least


def memory_limit(use: ResourceUse, shot: Sequence[int] = ()) -> LimitReached | None:
    """Return the cgroup at its memory limit, if the lack of memory had an effect: a page cache
    fills any limit without harm. `shot`: as of `limit_kills`."""
    full = _full_group(use)
    kills = limit_kills(use, shot)
    if kills and (full is None or not full.oom_kills):
        cgroup, limit = kills[0].cgroup, kills[0].limit
        figures = states(
            "kills",
            cgroup=cgroup,
            limit=Figure(limit, "B") if limit else None,
            killed=len(kills),
            names=list_text(list(dict.fromkeys(kill.name for kill in kills)), 3),
        )
        return LimitReached("memory-limit", cgroup, figures, event=True)
    if full is None:
        return None
    missed = _missed(use, full)
    if not missed:
        return None
    figures = states(**_group(full), **missed)
    return LimitReached("memory-limit", full.path, figures, event=full.oom_kills > 0)


def limit_kills(use: ResourceUse, shot: Sequence[int] = ()) -> list[MemoryKill]:
    """Return the tasks of the trial that were killed at the limit of a cgroup: by their names or
    ids, or the cgroup, as samples show them, or because SIGKILL ended a command in an epoch of
    `shot`."""
    paths = {group.path for group in use.cgroups}
    known = {task.name for task in use.tasks} | {task.pid for task in use.tasks}
    return [
        kill
        for kill in use.killed
        if kill.cgroup
        and (
            kill.cgroup in paths
            or not known.isdisjoint((kill.name, kill.pid))
            or kill.epoch in shot
        )
    ]


def _full_group(use: ResourceUse) -> CgroupUse | None:
    full = [
        group
        for group in use.cgroups
        if group.memory_limit
        and group.memory_max is not None
        and group.memory_max >= t.MEMORY_FULL * group.memory_limit
        and (group.memory_limit_hits or group.oom_kills)
    ]
    return max(full, key=lambda group: group.memory_limit_hits, default=None)


def _group(group: CgroupUse) -> dict[str, Value]:
    return {
        "cgroup": group.path,
        "memory": Figure(group.memory_max or 0, "B"),
        "limit": Figure(group.memory_limit or 0, "B"),
        # Some kernels kill without counting that the limit was reached.
        "times": max(group.memory_limit_hits, group.oom_kills),
    }


def _missed(use: ResourceUse, group: CgroupUse) -> dict[str, Value]:
    """Return the effect of a lack of memory; empty if there was none."""
    if group.oom_kills:
        return {"killed": group.oom_kills}
    memory = use.memory
    if memory is None:
        return {}
    if memory.refaults / use.seconds >= t.REFAULTS_PER_S:
        return {"pages": memory.refaults}
    if memory.pressure is not None and memory.pressure >= t.PRESSURE:
        return {"pressure": Figure(memory.pressure, "%")}
    return {}


def memory_pressure(use: ResourceUse) -> LimitReached | None:
    """Return memory, if tasks waited for it, or if the kernel killed one for lack of it."""
    memory = use.memory
    if memory is None:
        return None
    killed = _killed_for_all(memory, use)
    shown: dict[str, Value] = {"killed": killed} if killed else _pressure(memory, use)
    if not shown:
        return None
    left, total = Figure(memory.available_min, "B"), Figure(memory.total, "B")
    figures = states(**shown, left=left, memory=total)
    return LimitReached("memory-pressure", "memory", figures, event=killed > 0)


def _killed_for_all(memory: MemoryUse, use: ResourceUse) -> int:
    """Return how many tasks were killed because the machine had no memory left: by the kernel's
    log, or, if that has none, as many as no cgroup counts while little was available."""
    if use.killed:
        return sum(not kill.cgroup for kill in use.killed)
    of_groups = max((group.oom_kills for group in use.cgroups), default=0)
    short = memory.available_min < t.MEMORY_LOW * memory.total
    return max(memory.oom_kills - of_groups, 0) if short or use.losses is None else 0


def _pressure(memory: MemoryUse, use: ResourceUse) -> dict[str, Value]:
    """Return how much tasks lacked memory; empty if they did not."""
    if not lacks_memory(use):
        return {}
    if memory.pressure is not None:
        return {} if memory.pressure < t.PRESSURE else {"pressure": Figure(memory.pressure, "%")}
    if memory.scanned_direct / use.seconds < t.DIRECT_SCANS_PER_S:
        return {}
    return {"scanned": memory.scanned_direct}


# -- The limit of a link: the traffic of its interface compared with its speed ---------


def network_limit(
    use: ResourceUse, capacities: Sequence[StatedCapacity] = ()
) -> LimitReached | None:
    """Return the link whose speed, detected or stated by the user, was reached.

    The overhead assumes one frame per packet; packets sent in batches have more.
    """
    reached = [
        (moved / most, network, direction, moved, most)
        for network in use.networks
        for most in [speed_of(network, capacities)]
        if most
        for direction, moved in _directions(network)
        if moved >= t.LINK * most
    ]
    if not reached:
        return None
    share, network, direction, moved, most = max(reached, key=lambda one: one[0])
    figures = states(
        link=network.name,
        direction=direction,
        moved=Figure(moved, "B/s"),
        share=Figure(share, "%"),
        speed=Figure(most, "B/s"),
    )
    return LimitReached("network-limit", network.name, figures)


def speed_of(network: NetworkUse, capacities: Sequence[StatedCapacity]) -> float | None:
    """Return the speed of a link in one direction [bytes/s], preferably as the user states it.

    None if none is reported, or if the link moved more: then the reported speed is wrong.
    """
    for capacity in capacities:
        if capacity.resource == network.name and capacity.unit == "B/s":
            return capacity.most
    if network.speed_bits_per_s is None:
        return None
    told = network.speed_bits_per_s / 8
    moved = max(network.receive_bytes_per_s, network.send_bytes_per_s)
    return told if moved <= t.EXCEEDS * told else None


def _directions(network: NetworkUse) -> tuple[tuple[str, float], ...]:
    return (
        ("received", network.receive_bytes_per_s + t.FRAME_BYTES * network.receive_packets_per_s),
        ("sent", network.send_bytes_per_s + t.FRAME_BYTES * network.send_packets_per_s),
    )


# -- Limits of disks, and of open files and processes ----------------------------------
#
# Decision: a busy disk is the limit only if the benchmark waits for it: neither one of its
# threads nor all CPUs are the limit, and a good part of the disk's bytes are its own. A device that
# works in parallel can be busy without being the limit (source: kernel admin-guide/iostats).


def io_throttle(use: ResourceUse) -> LimitReached | None:
    """Return the limit of a cgroup on I/O that was reached."""
    reached = [
        (share, group, values)
        for group in use.cgroups
        for limit in group.io_limits
        for share, values in _io_limit_reached(limit, use)
    ]
    if not reached:
        return None
    _share, group, values = max(reached, key=lambda one: one[0])
    return LimitReached("io-throttled", group.path, states(**values, cgroup=group.path))


def _io_limit_reached(
    limit: IoLimit, use: ResourceUse
) -> Iterator[tuple[float, dict[str, Value | None]]]:
    """Yield the limits of one device that were reached: share of the limit, and values."""
    disk = next((disk for disk in use.disks if disk.name == limit.name), None)
    if disk is None or not is_own(disk, use) or (active := _active(disk)) < t.ACTIVE:
        return
    if not (uses_disk(disk.name, use) or _took_most(disk, use)):
        return
    least = t.IO_LIMIT
    if use.io_pressure is not None and use.io_pressure >= t.IO_LIMIT_PRESSURE:
        least = t.IO_LIMIT_WAITING
    for what, rate, most, unit in (
        ("read", disk.read_bytes_per_s, limit.read_bytes_per_s, "B/s"),
        ("written", disk.write_bytes_per_s, limit.write_bytes_per_s, "B/s"),
        ("reads/s", disk.reads_per_s, limit.reads_per_s, ""),
        ("writes/s", disk.writes_per_s, limit.writes_per_s, ""),
    ):
        achieved = rate / active
        if most and least <= achieved / most <= t.IO_LIMIT_ABOVE:
            yield (
                achieved / most,
                {
                    "disk": disk.name,
                    "achieved": Figure(achieved, unit),
                    "what": what,
                    "active": _part(active),
                    "limit": Figure(most, unit),
                },
            )


class StatedUse(msgspec.Struct, frozen=True):
    """How much of a capacity that the user states disks used."""

    stated: StatedCapacity
    rate: float
    """Of all its disks together, in the unit of the capacity."""
    active: float
    """Share of the window in which the most used of them was used."""
    own: bool
    """Whether the trial used one of them."""


def stated_uses(use: ResourceUse, capacities: Sequence[StatedCapacity]) -> Iterator[StatedUse]:
    """Yield the use of each stated capacity whose disks had requests."""
    for stated in capacities:
        disks = [disk for disk in use.disks if disk.name in stated.disks]
        if not disks:
            continue
        rate = sum(
            disk.reads_per_s + disk.writes_per_s
            if stated.unit == "1/s"
            else disk.read_bytes_per_s + disk.write_bytes_per_s
            for disk in disks
        )
        own = any(is_own(disk, use) for disk in disks)
        yield StatedUse(stated, rate, max(map(_active, disks)), own)


def device_limit(
    use: ResourceUse, capacities: Sequence[StatedCapacity] = ()
) -> LimitReached | None:
    """Return the disk, or the disks together, at a limit that the user states."""
    reached = [
        (one.rate / one.active / one.stated.most, one)
        for one in stated_uses(use, capacities)
        if one.own and one.active >= t.ACTIVE
    ]
    near = [found for found in reached if t.IO_LIMIT <= found[0] <= t.IO_LIMIT_ABOVE]
    if not near:
        return None
    share, one = max(near, key=lambda found: found[0])
    requests = one.stated.unit == "1/s"
    figures = states(
        disk=one.stated.resource,
        achieved=Figure(one.rate / one.active, "" if requests else "B/s"),
        what="requests/s" if requests else None,
        share=Figure(share, "%"),
        limit=Figure(one.stated.most, "" if requests else "B/s"),
        active=_part(one.active),
    )
    return LimitReached("device-limit", one.stated.resource, figures)


def disk_saturated(use: ResourceUse) -> LimitReached | None:
    """Return the disk that was busy all the time while the trial waited for it."""
    if _cpu_bound(use):
        return None
    busy = [disk for disk in use.disks if _is_saturated(disk, use)]
    if not busy:
        return None
    worst = max(busy, key=lambda disk: (disk.queue * disk.busy, disk.name))
    active = _active(worst)
    figures = states(
        disk=worst.name,
        busy=Figure(min(worst.busy / active, 1.0), "%"),
        queue=worst.queue / active,
        response=None if worst.response_s is None else Figure(worst.response_s, "s"),
        active=_part(active),
        reads=worst.reads_per_s,
        writes=worst.writes_per_s,
        rate=Figure(worst.read_bytes_per_s + worst.write_bytes_per_s, "B/s"),
    )
    return LimitReached("disk-saturated", worst.name, figures)


def _is_saturated(disk: DiskUse, use: ResourceUse) -> bool:
    if not is_own(disk, use):
        return False
    active = _active(disk)
    if active < t.ACTIVE:
        return False
    busy, queue = disk.busy / active, disk.queue / active
    if busy >= t.DISK_BUSY and queue >= t.DISK_QUEUE and _waited_for_io(use):
        return True
    return busy >= t.DISK_BUSY_ALONE and _waits_for_io(use)


def _part(active: float) -> Figure | None:
    """Return the part of the window that figures refer to; None for nearly all."""
    return None if active >= 0.95 else Figure(active, "%")


def _active(disk: DiskUse) -> float:
    """Return the share of the window in which a disk was used; 1 if not reported."""
    return 1.0 if disk.active is None else min(disk.active, 1.0)


def _cpu_bound(use: ResourceUse) -> bool:
    """Return whether CPUs prevent the trial from more requests to a disk: all CPUs are busy, or
    one thread uses a whole CPU and no other waits for a disk."""
    found = cpu_shares(use)
    if found is not None and found.filled:
        return True
    polled = use.io_pressure is not None and use.io_pressure >= t.IO_WAIT
    return bool(whole_threads(use)) and not polled


def _waited_for_io(use: ResourceUse) -> bool:
    """Return whether tasks waited for I/O for a good part of the time."""
    if use.io_pressure is not None:
        return use.io_pressure >= t.IO_WAIT_LEAST
    return use.cpu is not None and use.cpu.iowait >= t.IO_WAIT_LEAST


def _waits_for_io(use: ResourceUse) -> bool:
    """Return whether tasks waited for I/O most of the time."""
    if use.io_pressure is not None and use.io_pressure >= t.IO_WAIT:
        return True
    return use.cpu is not None and use.cpu.iowait >= t.IO_WAIT


def is_own(disk: DiskUse, use: ResourceUse) -> bool:
    """Return whether a good part of a disk's bytes belongs to the trial or its target; for a disk
    that moved none, whether they requested any."""
    known = [io for io in (use.own_io, use.target_io) if io is not None]
    if not known:
        return True
    moved = (disk.read_bytes_per_s + disk.write_bytes_per_s) * use.seconds
    asked = sum(io.read_bytes + io.write_bytes for io in known)
    return asked > 0 and asked >= t.OWN_IO * moved


def uses_disk(name: str, use: ResourceUse) -> bool:
    """Return whether files of the trial or its target may lie on a disk; of a file system without a
    disk of its own, whether a good part of the disk's bytes is theirs."""
    if use.devices is None:
        return True
    if any(":" not in device for device in use.devices):
        return name in use.devices
    return any(disk.name == name and is_own(disk, use) for disk in use.disks)


def _took_most(disk: DiskUse, use: ResourceUse) -> bool:
    """Return whether a disk moved as much as half of what the trial read and wrote: a file that is
    open only between two looks at the open files is on none of their disks."""
    moved = (disk.read_bytes_per_s + disk.write_bytes_per_s) * use.seconds
    known = [io for io in (use.own_io, use.target_io) if io is not None]
    return moved >= 0.5 * sum(io.read_bytes + io.write_bytes for io in known)


def disk_stalled(use: ResourceUse) -> LimitReached | None:
    """Return the disk that had requests in flight and completed none for a long time."""
    least = max(t.STALL_S, t.STALL_SHARE * use.seconds)
    still = [disk for disk in use.disks if disk.longest_stall_s >= least and is_own(disk, use)]
    if not still:
        return None
    worst = max(still, key=lambda disk: disk.longest_stall_s)
    figures = states(
        disk=worst.name, stall=Figure(worst.longest_stall_s, "s"), window=Figure(use.seconds, "s")
    )
    return LimitReached("disk-stalled", worst.name, figures)


def file_limit(use: ResourceUse) -> LimitReached | None:
    """Return the process, or the machine, at its limit of open files."""
    files = use.files
    if files is not None and files.limit and files.open >= t.FILES_FULL * files.limit:
        figures = states(who=files.name, pid=str(files.pid), open=files.open, limit=files.limit)
        return LimitReached("fd-limit", files.name, figures)
    if use.files_of_machine is None:
        return None
    opened, limit = use.files_of_machine
    if not limit or opened < t.FILES_FULL * limit:
        return None
    figures = states(who="the machine", open=opened, limit=limit)
    return LimitReached("fd-limit", "machine", figures)


def process_limit(use: ResourceUse) -> LimitReached | None:
    """Return the cgroup at its limit of processes."""
    full = [group for group in use.cgroups if _pids_full(group)]
    if not full:
        return None
    worst = full[0]
    figures = states(cgroup=worst.path, tasks=worst.pids_max, limit=worst.pids_limit)
    return LimitReached("pids-limit", worst.path, figures)


def _pids_full(group: CgroupUse) -> bool:
    return bool(
        group.pids_limit
        and group.pids_max is not None
        and group.pids_max >= t.PIDS_FULL * group.pids_limit
    )
