"""Builds the `Characterization` from the totals, and names devices by mounts and /sys."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from benchwright.features.profile.kernel_counter import MAP_KEYS
from benchwright.features.profile.totals import (
    FilesReached,
    Maps,
    Totals,
    blocks,
    cache_bytes,
    file_system_events,
    files_reached,
)
from benchwright.features.profile.transfers import (
    failed,
    mapped,
    others,
    phases,
    transfers,
    under_way_s,
)
from benchwright.features.profile.types import (
    SEEKABLE_KINDS,
    Characterization,
    CountingMethod,
    FileSystemEvent,
    FileSystemUse,
    Transfer,
)

# --------------------------------------------------------------------------------------
# Names of device numbers: file systems from the mounts, disks and character devices from
# /sys.
#
# Decision: mounts are read at the start and at the end, because a trial may unmount its file
# systems. Source: proc_pid_mountinfo(5), sysfs-dev-block.

SYS_DEVICES = Path("/sys/dev/block")
SYS_CHARACTER_DEVICES = Path("/sys/dev/char")
_PTS_MAJORS = range(136, 144)


class DeviceMount(msgspec.Struct, frozen=True):
    """One mounted file system."""

    device: str
    type: str
    mount: str
    source: str


def mounts(mountinfo: Path) -> dict[str, DeviceMount]:
    """Return the mounts by `MAJOR:MINOR`, the first of each; empty if it cannot be read."""
    try:
        text = mountinfo.read_text(errors="replace")
    except OSError:
        return {}
    return mounts_of(text)


def mounts_of(text: str) -> dict[str, DeviceMount]:
    """Return the mounts in the text of a mountinfo, by `MAJOR:MINOR`."""
    found: dict[str, DeviceMount] = {}
    for line in text.splitlines():
        words = line.split()
        if "-" not in words[6:]:
            continue
        after = words.index("-", 6)
        if len(words) >= after + 3:
            device_mount = DeviceMount(
                words[2], words[after + 1], _plain(words[4]), _plain(words[after + 2])
            )
            found.setdefault(device_mount.device, device_mount)
    return found


def _plain(word: str) -> str:
    """Return a word of mountinfo with its escapes decoded: `\\040` is a blank."""
    for escape, plain in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        word = word.replace(escape, plain)
    return word


def disk_name(number: str, devices: Path = SYS_DEVICES) -> str | None:
    """Return the name of a block device's whole disk, from `MAJOR:MINOR`; None if unknown."""
    place = devices / number
    if number.startswith("0:") or not place.exists():
        return None
    real = place.resolve()
    return real.parent.name if (real / "partition").exists() else real.name


def disks_below(
    numbers: Iterable[str], mounted: dict[str, DeviceMount], devices: Path = SYS_DEVICES
) -> list[str]:
    """Return the disks that contain file systems or devices, in order of name.

    A file system without a disk's number (btrfs) is looked up by its mount source.
    """
    found = set()
    for number in numbers:
        name = disk_name(number, devices)
        if name is None and number in mounted:
            name = _disk_of_source(mounted[number].source, devices)
        if name is not None:
            found.add(name)
    return sorted(found)


def _disk_of_source(source: str, devices: Path) -> str | None:
    if not source.startswith("/"):
        return None
    try:
        about = os.stat(source)
    except OSError:
        return None
    if not stat.S_ISBLK(about.st_mode):
        return None
    number = f"{os.major(about.st_rdev)}:{os.minor(about.st_rdev)}"
    return disk_name(number, devices)


def node_name(number: str, devices: Path = SYS_CHARACTER_DEVICES) -> str:
    """Return the path of a character device `MAJOR:MINOR`, `/dev/zero`; empty if unknown."""
    major, minor = map(int, number.split(":"))
    if major in _PTS_MAJORS:
        # /dev/pts is a separate file system, not listed in /sys (pts(4)).
        return f"/dev/pts/{(major - _PTS_MAJORS[0]) * 256 + minor}"
    try:
        lines = (devices / number / "uevent").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    names = [line.removeprefix("DEVNAME=") for line in lines if "DEVNAME=" in line]
    return f"/dev/{names[0]}" if names else ""


# -- The description of all counts, level by level -------------------------------------

_MAPS_WITH_MANY_KEYS = (
    ("n", "sizes"),
    ("m", "sizes of pipes, sockets and character devices"),
    ("w", "files"),
    ("blk", "blocks"),
    ("cpu", "threads that ran"),
    ("wait", "threads that were preempted"),
)
"""Maps with many keys, and what is missing if one is full."""


class DescriptionContext(msgspec.Struct, frozen=True):
    """Data for the description that the counts do not contain."""

    method: CountingMethod
    begin_ns: int
    """CLOCK_MONOTONIC [ns]."""
    seconds: float
    page_size: int
    mounts: Mapping[str, DeviceMount]
    disks: Mapping[str, str]
    """Names of whole disks, by `MAJOR:MINOR`."""
    nodes: Mapping[str, str] = {}
    """Names of character devices, by `MAJOR:MINOR`."""
    absent: tuple[tuple[str, str], ...] = ()


def describe_io(found: Totals, around: DescriptionContext) -> Characterization:
    """Return the description of the I/O, still without the block layer's trace."""
    maps = found.maps
    moved = tuple(transfers(found, around.nodes))
    in_kernel = around.method == "bpftrace"
    return Characterization(
        seconds=around.seconds,
        method=around.method,
        transfers=moved,
        others=others(found),
        failed=failed(maps),
        mapped=mapped(maps),
        queued_s=under_way_s(maps),
        phases=phases(found.ticks, around.begin_ns),
        file_systems=_file_systems(maps, moved, around),
        throttled=maps.get("pauses", {}).get((), 0) if in_kernel else None,
        throttled_s=maps.get("paused", {}).get((), 0) / 1000 if in_kernel else None,
        blocks=blocks(maps, around.disks),
        lost_events=found.lost,
        absent=(*around.absent, *found.absent, *_missed(maps)),
    )


def devices_used(characterized: Characterization) -> list[str]:
    """Return the `MAJOR:MINOR` of all file systems and block devices that were used."""
    found = _used(characterized.transfers)
    return sorted(found | {file_system.device for file_system in characterized.file_systems})


def _used(moved: tuple[Transfer, ...]) -> set[str]:
    return {one.device for one in moved if one.device and one.kind in SEEKABLE_KINDS}


def _file_systems(
    maps: Maps, moved: tuple[Transfer, ...], around: DescriptionContext
) -> tuple[FileSystemUse, ...]:
    caches, events = cache_bytes(maps, around.page_size), file_system_events(maps)
    raw = {one.device for one in moved if one.kind == "device"}
    used = _used(moved) | caches.keys() | events.keys()
    # A device without mount, cached pages and events is internal to the kernel, like memfd.
    known = around.mounts.keys() | caches.keys() | events.keys()
    reached = files_reached(maps)
    file_systems = (
        _file_system(device, around.mounts.get(device), caches.get(device), events)
        for device in sorted((used & known) - raw - {""})
    )
    return tuple(_with_files(use, reached.get(use.device)) for use in file_systems)


def _file_system(
    device: str,
    mount: DeviceMount | None,
    cached: dict[str, int] | None,
    events: Mapping[str, tuple[FileSystemEvent, ...]],
) -> FileSystemUse:
    cached = cached or {}
    return FileSystemUse(
        device=device,
        type=mount.type if mount else "",
        mount=mount.mount if mount else "",
        source=mount.source if mount else "",
        cache_read_bytes=cached.get("read", 0),
        cache_written_bytes=cached.get("write", 0),
        cache_other_bytes=cached.get("other", 0),
        events=_events(mount, events.get(device, ()), events.get("", ())),
    )


def _with_files(use: FileSystemUse, reached: FilesReached | None) -> FileSystemUse:
    if reached is None:
        return use
    return msgspec.structs.replace(use, files=reached.files, files_bytes=reached.bytes)


def _events(
    mount: DeviceMount | None,
    own: tuple[FileSystemEvent, ...],
    nowhere: tuple[FileSystemEvent, ...],
) -> tuple[FileSystemEvent, ...]:
    """Return a file system's events; events without a device are matched by its type."""
    if mount is None:
        return own
    return (*own, *(e for e in nowhere if e.name.startswith(f"{mount.type}_")))


def _missed(maps: Maps) -> list[tuple[str, str]]:
    """Return what did not fit in the maps, and what was not examined."""
    found = [
        (f"some of {name}", f"there were more than {MAP_KEYS:,} different ones")
        for room, name in _MAPS_WITH_MANY_KEYS
        if len(maps.get(room, {})) >= MAP_KEYS
    ]
    unseen = maps.get("unseen", {}).get((), 0)
    if unseen:
        why = "one io_submit submits more operations than are counted"
        found.append((f"{unseen:,} operations of io_submit", why))
    vectors = maps.get("vectors", {}).get((), 0)
    if vectors:
        why = "their sizes are in several parts"
        found.append((f"{vectors:,} vectors of io_submit", why))
    return found
