"""All that was counted, level by level, as one description."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from benchwright.model.characterized import (
    PLACED,
    Characterized,
    FileSystemEvent,
    FileSystemUse,
    Method,
    Transfer,
)
from benchwright.probe.characterize.inside import MAP_KEYS
from benchwright.probe.characterize.phases import phases
from benchwright.probe.characterize.places import Mount
from benchwright.probe.characterize.read import (
    Maps,
    Reached,
    Totals,
    blocks,
    cache_bytes,
    file_system_events,
    files_reached,
)
from benchwright.probe.characterize.transfers import (
    failed,
    mapped,
    others,
    transfers,
    under_way_s,
)

_ROOMS = (
    ("n", "sizes"),
    ("m", "sizes of pipes, sockets and character devices"),
    ("w", "files"),
    ("blk", "blocks"),
    ("cpu", "threads that ran"),
    ("wait", "threads that were put aside"),
)
"""Maps with many keys, and what is missed where one is full."""


class Around(msgspec.Struct, frozen=True):
    """What is known from elsewhere than the counts."""

    method: Method
    begin_ns: int
    """CLOCK_MONOTONIC [ns]."""
    seconds: float
    page_size: int
    mounts: Mapping[str, Mount]
    disks: Mapping[str, str]
    """Names of whole disks, by `MAJOR:MINOR`."""
    nodes: Mapping[str, str] = {}
    """Names of character devices, by `MAJOR:MINOR`."""
    absent: tuple[tuple[str, str], ...] = ()


def described(found: Totals, around: Around) -> Characterized:
    """Return what I/O was done; the block layer's trace is still to be added."""
    maps = found.maps
    moved = tuple(transfers(found, around.nodes))
    in_kernel = around.method == "bpftrace"
    return Characterized(
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


def devices_used(characterized: Characterized) -> list[str]:
    """Return the `MAJOR:MINOR` of all file systems and block devices that were used."""
    found = _used(characterized.transfers)
    return sorted(found | {one.device for one in characterized.file_systems})


def _used(moved: tuple[Transfer, ...]) -> set[str]:
    return {one.device for one in moved if one.device and one.kind in PLACED}


def _file_systems(
    maps: Maps, moved: tuple[Transfer, ...], around: Around
) -> tuple[FileSystemUse, ...]:
    caches, events = cache_bytes(maps, around.page_size), file_system_events(maps)
    raw = {one.device for one in moved if one.kind == "device"}
    used = _used(moved) | caches.keys() | events.keys()
    # What is not mounted and keeps no pages is the kernel's own: memfd, /proc seen by others.
    known = around.mounts.keys() | caches.keys() | events.keys()
    reached = files_reached(maps)
    found = (
        _file_system(device, around.mounts.get(device), caches.get(device), events)
        for device in sorted((used & known) - raw - {""})
    )
    return tuple(_with_files(use, reached.get(use.device)) for use in found)


def _file_system(
    device: str,
    mount: Mount | None,
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


def _with_files(use: FileSystemUse, reached: Reached | None) -> FileSystemUse:
    if reached is None:
        return use
    return msgspec.structs.replace(use, files=reached.files, files_bytes=reached.bytes)


def _events(
    mount: Mount | None,
    own: tuple[FileSystemEvent, ...],
    nowhere: tuple[FileSystemEvent, ...],
) -> tuple[FileSystemEvent, ...]:
    """Return a file system's events; those without a device go by the name of its type."""
    if mount is None:
        return own
    return (*own, *(e for e in nowhere if e.name.startswith(f"{mount.type}_")))


def _missed(maps: Maps) -> list[tuple[str, str]]:
    """Return what the maps had no room for, and what was not looked at."""
    found = [
        (f"some of {name}", f"more than {MAP_KEYS:,} different ones were seen")
        for room, name in _ROOMS
        if len(maps.get(room, {})) >= MAP_KEYS
    ]
    unseen = maps.get("unseen", {}).get((), 0)
    if unseen:
        why = "one io_submit hands over more operations than are looked at"
        found.append((f"{unseen:,} operations of io_submit", why))
    vectors = maps.get("vectors", {}).get((), 0)
    if vectors:
        why = "their sizes are in several parts"
        found.append((f"{vectors:,} vectors of io_submit", why))
    return found
