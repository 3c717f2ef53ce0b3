"""Limits of disks, and of open files and processes.

Decision: a busy disk is the limit only where the benchmark waits for it: neither a thread
of it nor all processors are, and a good part of the disk's bytes are its own. Busy alone is
no limit of a device that works in parallel (reference: kernel admin-guide/iostats).
"""

from __future__ import annotations

from collections.abc import Iterator

from benchwright.finding import thresholds as t
from benchwright.finding.limit import Limit
from benchwright.finding.machine_words import rate_text, seconds_text, share_text
from benchwright.finding.processors import shares, whole_threads
from benchwright.model.watched import CgroupUse, DiskUse, IoLimit, ResourceUse


def io_throttle(use: ResourceUse) -> Limit | None:
    """Return the cgroup's limit on I/O that was reached."""
    reached = [
        (share, group, text)
        for group in use.cgroups
        for limit in group.io_limits
        for share, text in _reached(limit, use)
    ]
    if not reached:
        return None
    _share, group, text = max(reached, key=lambda one: one[0])
    return Limit("io-throttled", group.path, f"{text} of cgroup {group.path}")


def _reached(limit: IoLimit, use: ResourceUse) -> Iterator[tuple[float, str]]:
    """Yield the limits of one device that were reached, with the share and the words."""
    disk = next((disk for disk in use.disks if disk.name == limit.name), None)
    if disk is None or not _is_own(disk, use) or (active := _active(disk)) < t.ACTIVE:
        return
    least = t.IO_LIMIT
    if use.io_pressure is not None and use.io_pressure >= t.IO_LIMIT_PRESSURE:
        least = t.IO_LIMIT_WAITING
    for kind, achieved, most in (
        ("read", disk.read_bytes_per_s / active, limit.read_bytes_per_s),
        ("written", disk.write_bytes_per_s / active, limit.write_bytes_per_s),
    ):
        if most and least <= achieved / most <= t.IO_LIMIT_ABOVE:
            text = f"{disk.name}: {rate_text(achieved)} {kind}{_part(active)}, by a limit of {rate_text(most)}"
            yield achieved / most, text
    for kind, achieved, most in (
        ("reads", disk.reads_per_s / active, limit.reads_per_s),
        ("writes", disk.writes_per_s / active, limit.writes_per_s),
    ):
        if most and least <= achieved / most <= t.IO_LIMIT_ABOVE:
            text = f"{disk.name}: {achieved:.4g} {kind}/s{_part(active)}, by a limit of {most:.4g}"
            yield achieved / most, text


def saturated(use: ResourceUse) -> Limit | None:
    """Return the disk that was busy all the time while the trial waited for it."""
    if _processor_bound(use):
        return None
    busy = [disk for disk in use.disks if _is_saturated(disk, use)]
    if not busy:
        return None
    worst = max(busy, key=lambda disk: (disk.queue * disk.busy, disk.name))
    return Limit("disk-saturated", worst.name, _disk_text(worst))


def _is_saturated(disk: DiskUse, use: ResourceUse) -> bool:
    if not _is_own(disk, use):
        return False
    active = _active(disk)
    if active < t.ACTIVE:
        return False
    busy, queue = disk.busy / active, disk.queue / active
    if busy >= t.DISK_BUSY and queue >= t.DISK_QUEUE and _waited_for_io(use):
        return True
    return busy >= t.DISK_BUSY_ALONE and _waits_for_io(use)


def _part(active: float) -> str:
    """Return which part of the window figures are of; nothing for nearly all of it."""
    return (
        ""
        if active >= 0.95
        else f" in the {share_text(active)} of the time it was used"
    )


def _active(disk: DiskUse) -> float:
    """Return the share of the window in which a disk was used; all of it if not told."""
    return 1.0 if disk.active is None else min(disk.active, 1.0)


def _disk_text(disk: DiskUse) -> str:
    active, response = _active(disk), ""
    if disk.response_s is not None:
        response = f", {seconds_text(disk.response_s)} a request"
    return (
        f"{disk.name} busy {share_text(min(disk.busy / active, 1.0))} with "
        f"{disk.queue / active:.1f} requests in flight{response}{_part(active)}; {disk.reads_per_s:.4g} reads/s, {disk.writes_per_s:.4g} writes/s, "
        f"{rate_text(disk.read_bytes_per_s + disk.write_bytes_per_s)}"
    )


def _processor_bound(use: ResourceUse) -> bool:
    """Tell whether processors keep the trial from asking more of a disk: all of them, or
    one of a thread that nothing else waits for a disk beside."""
    found = shares(use)
    if found is not None and found.filled:
        return True
    polled = use.io_pressure is not None and use.io_pressure >= t.IO_WAIT
    return bool(whole_threads(use)) and not polled


def _waited_for_io(use: ResourceUse) -> bool:
    """Tell whether anything waited for I/O for a good part of the time."""
    if use.io_pressure is not None:
        return use.io_pressure >= t.IO_WAIT_LEAST
    return use.cpu is not None and use.cpu.iowait >= t.IO_WAIT_LEAST


def _waits_for_io(use: ResourceUse) -> bool:
    """Tell whether waiting for I/O is what was done most of the time."""
    if use.io_pressure is not None and use.io_pressure >= t.IO_WAIT:
        return True
    return use.cpu is not None and use.cpu.iowait >= t.IO_WAIT


def _is_own(disk: DiskUse, use: ResourceUse) -> bool:
    """Tell whether a good part of a disk's bytes is the trial's or its target's; of one
    that moved none, whether they asked for any."""
    known = [io for io in (use.own_io, use.target_io) if io is not None]
    if not known:
        return True
    moved = (disk.read_bytes_per_s + disk.write_bytes_per_s) * use.seconds
    asked = sum(io.read_bytes + io.write_bytes for io in known)
    return asked > 0 and asked >= t.OWN_IO * moved


def stalled(use: ResourceUse) -> Limit | None:
    """Return the disk that had requests in flight and completed none for long."""
    least = max(t.STALL_S, t.STALL_SHARE * use.seconds)
    still = [
        disk
        for disk in use.disks
        if disk.longest_stall_s >= least and _is_own(disk, use)
    ]
    if not still:
        return None
    worst = max(still, key=lambda disk: disk.longest_stall_s)
    evidence = (
        f"{worst.name} completed nothing for {seconds_text(worst.longest_stall_s)} with "
        f"requests in flight, in a window of {seconds_text(use.seconds)}"
    )
    return Limit("disk-stalled", worst.name, evidence)


def files(use: ResourceUse) -> Limit | None:
    """Return the process, or the machine, at its limit of open files."""
    one = use.files
    if one is not None and one.limit and one.open >= t.FILES_FULL * one.limit:
        evidence = (
            f"{one.name} ({one.pid}) had {one.open:,} of {one.limit:,} files open"
        )
        return Limit("fd-limit", one.name, evidence)
    if use.files_of_machine is None:
        return None
    opened, limit = use.files_of_machine
    if not limit or opened < t.FILES_FULL * limit:
        return None
    return Limit(
        "fd-limit", "machine", f"the machine had {opened:,} of {limit:,} files open"
    )


def processes(use: ResourceUse) -> Limit | None:
    """Return the cgroup at its limit of processes."""
    full = [group for group in use.cgroups if _pids_full(group)]
    if not full:
        return None
    worst = full[0]
    evidence = (
        f"cgroup {worst.path} had {worst.pids_max:,} of {worst.pids_limit:,} tasks"
    )
    return Limit("pids-limit", worst.path, evidence)


def _pids_full(group: CgroupUse) -> bool:
    return bool(
        group.pids_limit
        and group.pids_max is not None
        and group.pids_max >= t.PIDS_FULL * group.pids_limit
    )
