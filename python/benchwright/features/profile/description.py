"""Computes the `Characterization` of a trial from the totals: transfers, other calls and phases;
and names devices by mounts and /sys.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from benchwright.core.numeric import np
from benchwright.features.profile.kernel_counter import MAP_KEYS
from benchwright.features.profile.totals import (
    FilesReached,
    MapKey,
    Maps,
    Totals,
    TotalsTick,
    blocks,
    buckets,
    cache_bytes,
    call_name,
    commonest,
    data_name,
    device_name,
    file_system_events,
    files_reached,
)
from benchwright.features.profile.types import (
    DISK_KINDS,
    SEEKABLE_KINDS,
    Arrivals,
    BusiestThread,
    Characterization,
    CountingMethod,
    FailedCalls,
    FileSystemEvent,
    FileSystemUse,
    IoPhase,
    LatencyCalls,
    MappedFiles,
    OtherCalls,
    Transfer,
)

# --------------------------------------------------------------------------------------
# Transfers: calls that moved data, by kind of file, size and duration. Pure.
#
# Decision: a group is a call and the kind of its file. Open modes that do not change the I/O
# path (append, read-write) share a group. Transfers of files, devices and unknown descriptors
# are counted by position and size (`@n`), those of pipes, sockets and character devices by
# size alone (`@m`).

_KINDS = {1: "pipe", 2: "character device", 4: "directory", 6: "device", 8: "file", 12: "socket"}
"""Names by the kind in st_mode (inode(7)); an eventfd has no kind."""
_NUMBERED = (*SEEKABLE_KINDS, "character device")
"""Kinds whose device number is meaningful."""


class DescriptorKind(msgspec.Struct, frozen=True):
    """The kind and flags of a descriptor."""

    kind: str
    direct: bool
    synchronous: bool


def descriptor_kind(number: int) -> DescriptorKind:
    """Return a descriptor's kind and flags of open(2), from its number in a map."""
    kind = _KINDS.get(number & 15, "other") if number else "unknown"
    flags = number >> 8
    placed = kind in SEEKABLE_KINDS
    return DescriptorKind(
        kind, placed and bool(flags & os.O_DIRECT), placed and bool(flags & os.O_DSYNC)
    )


class _Group(msgspec.Struct, frozen=True):
    call: int
    how: DescriptorKind
    device: str


class _Sums(msgspec.Struct, frozen=True):
    """The sums for each group, apart from sizes."""

    calls: Counter[_Group]
    bytes: Counter[_Group]
    in_order: Counter[_Group]
    spent_ns: Counter[_Group]
    latencies: Mapping[_Group, Counter[int]]


def transfers(found: Totals, nodes: Mapping[str, str]) -> Iterator[Transfer]:
    """Yield the transfers, most calls first. Read and append modes of a file are merged.

    `nodes`: names of character devices by `MAJOR:MINOR`.
    """
    sizes: dict[_Group, Counter[int]] = defaultdict(Counter)
    for name in ("n", "m"):
        for (call, how, device, size), calls in found.maps.get(name, {}).items():
            sizes[_group(call, how, device)][int(size)] += calls
    maps = found.maps
    sums = _Sums(
        calls=_grouped(maps, "all"),
        bytes=_grouped(maps, "sum"),
        in_order=_grouped(maps, "seq"),
        spent_ns=_grouped(maps, "ns"),
        latencies=_lasted(found),
    )
    whole = {group: _calls(group, counts, sums) for group, counts in sizes.items()}
    for group in sorted(sizes, key=lambda one: -whole[one]):
        yield _transfer(group, sizes[group], sums, nodes)


def _calls(group: _Group, counts: Counter[int], sums: _Sums) -> int:
    """Return the number of calls, including those whose sizes did not fit in the map."""
    return max(counts.total(), sums.calls[group])


def _transfer(
    group: _Group, counts: Counter[int], sums: _Sums, nodes: Mapping[str, str]
) -> Transfer:
    name, direction = data_name(group.call)
    on_disk = group.how.kind in DISK_KINDS
    # Without the kernel's structures, positions are unknown.
    placed = group.how.kind in SEEKABLE_KINDS
    calls = _calls(group, counts, sums)
    moved = sum(size * n for size, n in counts.items())
    return Transfer(
        call=name,
        direction=direction,
        kind=group.how.kind,
        calls=calls,
        bytes=moved if on_disk else sums.bytes[group],
        direct=group.how.direct,
        synchronous=group.how.synchronous,
        device=group.device,
        node=nodes.get(group.device, "") if not on_disk else "",
        sizes=commonest(counts),
        buckets=buckets(counts),
        sequential=sums.in_order[group] / calls if placed else None,
        seconds=sums.spent_ns[group] / 1e9 if group in sums.spent_ns else None,
        latencies=_latencies(sums.latencies.get(group, Counter())),
    )


def _group(call: str, how: str, device: str) -> _Group:
    what = descriptor_kind(int(how))
    number = int(device) if what.kind in _NUMBERED else 0
    return _Group(int(call), what, device_name(number) if number else "")


def _grouped(maps: Maps, name: str) -> Counter[_Group]:
    found: Counter[_Group] = Counter()
    for (call, how, device), value in maps.get(name, {}).items():
        found[_group(call, how, device)] += value
    return found


def _lasted(totals: Totals) -> Mapping[_Group, Counter[int]]:
    found: dict[_Group, Counter[int]] = defaultdict(Counter)
    for (call, how, device), times in totals.lasted.get("lat", {}).items():
        for time in times:
            found[_group(call, how, device)][time.below_ns] += time.calls
    return found


def _latencies(counts: Counter[int]) -> tuple[LatencyCalls, ...]:
    return tuple(LatencyCalls(below, calls) for below, calls in sorted(counts.items()))


def nodes_used(maps: Maps) -> set[str]:
    """Return the `MAJOR:MINOR` of the character devices with transfers."""
    groups = (_group(*key[:3]) for key in maps.get("m", {}))
    return {group.device for group in groups if group.device}


def others(found: Totals) -> tuple[OtherCalls, ...]:
    """Return the calls that move no data, most frequent first."""
    spent, lasted = found.maps.get("kns", {}), found.lasted.get("klat", {})
    calls = [
        OtherCalls(
            call=call_name(int(key[0])),
            calls=calls,
            seconds=spent[key] / 1e9 if key in spent else None,
            latencies=lasted.get(key, ()),
        )
        for key, calls in found.maps.get("k", {}).items()
    ]
    return tuple(sorted(calls, key=lambda other_calls: (-other_calls.calls, other_calls.call)))


def failed(maps: Maps) -> tuple[FailedCalls, ...]:
    """Return the calls that failed, by error, most frequent first."""
    found = [
        FailedCalls(call_name(int(call)), errno.errorcode.get(int(why), f"errno {why}"), calls)
        for (call, why), calls in maps.get("bad", {}).items()
    ]
    return tuple(
        sorted(
            found,
            key=lambda failed_calls: (-failed_calls.calls, failed_calls.call, failed_calls.error),
        )
    )


def mapped(maps: Maps) -> tuple[MappedFiles, ...]:
    """Return the shared file mappings, writable ones first."""
    lengths = maps.get("maplen", {})
    return tuple(
        MappedFiles(written=key == ("1",), mappings=count, bytes=lengths.get(key, 0))
        for key, count in sorted(maps.get("map", {}).items(), reverse=True)
    )


def under_way_s(maps: Maps) -> float | None:
    """Return the total time of libaio operations from submission to collection [s].

    None if some were not collected by a call, but read from the ring in memory.
    """
    given, taken = (maps.get(name, {}).get((), 0) for name in ("given", "taken"))
    if not given or given != taken:
        return None
    begun, ended = (maps.get(name, {}).get((), 0) for name in ("givenat", "takenat"))
    # The sums may have wrapped; their difference is correct.
    return (ended - begun) % (1 << 64) / 1e9


# -- Arrivals, from the totals at ticks. Pure -------------------------------------------

_TICKS_A_SLOT = 2
"""Printings are late by parts of a tick: a slot of one tick would have its neighbour's calls."""
_MOST_SLOTS = 1000


def arrivals(ticks: Sequence[TotalsTick], begin_ns: int, seconds: float) -> Arrivals | None:
    """Return the calls in equal slots from `begin_ns` on [CLOCK_MONOTONIC ns], by interpolation
    between ticks; None if there are too few ticks for that."""
    end_ns = begin_ns + round(seconds * 1e9)
    inside = [tick for tick in ticks if begin_ns < tick.at_ns <= end_ns]
    slots = min(len(inside) // _TICKS_A_SLOT, _MOST_SLOTS)
    if slots < 1:
        return None
    edges = np.linspace(begin_ns, inside[-1].at_ns, slots + 1)
    known = [begin_ns, *(tick.at_ns for tick in inside)]
    counts = np.maximum.accumulate([0, *(tick.total for tick in inside)])
    totals = np.rint(np.interp(edges, known, counts)).astype(int)
    slot_s = (inside[-1].at_ns - begin_ns) / 1e9 / slots
    return Arrivals(slot_s, tuple(map(int, np.diff(totals))))


# -- Phases, from the totals at ticks. Pure --------------------------------------------
#
# Decision: benchmarks have phases (Bonnie++ writes bytes, then blocks, then rewrites), and
# one total hides the short ones. Each tick belongs to its commonest transfer; consecutive
# ticks with the same one form a phase. The commonest by calls, not by bytes: a phase of
# single bytes must be visible beside a few large blocks.

MOST = 40
"""The most phases that are stored: those with the most calls."""
_PAUSE_NS = 500_000_000
"""The longest pause within a phase [ns]."""
T = TypeVar("T")
_TransferKind = tuple[str, str, int]
"""(call, kind, bytes of each)."""


class _Bin(msgspec.Struct, frozen=True):
    begin_ns: int
    end_ns: int
    calls: Counter[_TransferKind]
    ran: Counter[MapKey]
    """CPU time of threads [ns], by (thread, name)."""
    waited: Counter[MapKey]
    """Time for which they were runnable but preempted [ns]."""


def phases(ticks: Sequence[TotalsTick], begin_ns: int) -> tuple[IoPhase, ...]:
    """Return the phases in order of time, from `begin_ns` on [CLOCK_MONOTONIC ns]."""
    joined: list[tuple[_TransferKind, _Bin]] = []
    for one in _bins(ticks, begin_ns):
        top = max(sorted(one.calls), key=lambda kind: one.calls[kind])
        if joined and joined[-1][0] == top and _follows(one, joined[-1][1]):
            one = _joined(joined.pop()[1], one)
        joined.append((top, one))
    largest = sorted(joined, key=lambda item: -item[1].calls[item[0]])[:MOST]
    return tuple(_phase(top, one, begin_ns) for top, one in joined if (top, one) in largest)


def _follows(one: _Bin, before: _Bin) -> bool:
    return one.begin_ns - before.end_ns <= _PAUSE_NS


def _joined(before: _Bin, one: _Bin) -> _Bin:
    return _Bin(
        before.begin_ns,
        one.end_ns,
        before.calls + one.calls,
        before.ran + one.ran,
        before.waited + one.waited,
    )


def _bins(ticks: Sequence[TotalsTick], begin_ns: int) -> Iterator[_Bin]:
    before = TotalsTick(begin_ns, {})
    calls, ran, waited = _kinds(before), Counter(before.ran), Counter(before.waited)
    at_ns = begin_ns
    for tick in ticks:
        now = _kinds(tick), Counter(tick.ran), Counter(tick.waited)
        moved = _grown(calls, now[0])
        if moved and tick.at_ns > at_ns:
            ran_now, waited_now = _grown(ran, now[1]), _grown(waited, now[2])
            yield _Bin(at_ns, tick.at_ns, moved, ran_now, waited_now)
        calls, ran, waited = calls | now[0], ran | now[1], waited | now[2]
        at_ns = max(at_ns, tick.at_ns)


def _grown(before: Counter[T], now: Counter[T]) -> Counter[T]:
    """Return the growth of totals; a key missing from `now` has none."""
    return +Counter({kind: count - before[kind] for kind, count in now.items()})


def _kinds(tick: TotalsTick) -> Counter[_TransferKind]:
    found: Counter[_TransferKind] = Counter()
    for (call, how, _device, size), calls in tick.calls.items():
        kind = descriptor_kind(int(how)).kind
        if kind in DISK_KINDS:
            found[data_name(int(call))[0], kind, int(size)] += calls
    return found


def _phase(top: _TransferKind, one: _Bin, begin_ns: int) -> IoPhase:
    call, kind, size = top
    seconds = (one.end_ns - one.begin_ns) / 1e9
    calls = one.calls[top]
    thread = max(sorted(one.ran), key=lambda key: one.ran[key], default=None)
    length_ns = one.end_ns - one.begin_ns
    return IoPhase(
        begin_s=(one.begin_ns - begin_ns) / 1e9,
        end_s=(one.end_ns - begin_ns) / 1e9,
        call=call,
        kind=kind,
        bytes=size,
        share=calls / one.calls.total(),
        calls_per_s=calls / seconds,
        bytes_per_s=calls * size / seconds,
        busiest=None if thread is None else _busiest(thread, one, length_ns),
    )


def _busiest(thread: MapKey, one: _Bin, length_ns: int) -> BusiestThread:
    return BusiestThread(
        name=",".join(thread[1:]),
        ran=min(one.ran[thread] / length_ns, 1.0),
        waited=min(one.waited[thread] / length_ns, 1.0),
        wanted=(one.ran.total() + one.waited.total()) / length_ns,
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
        arrivals=arrivals(found.ticks, around.begin_ns, around.seconds),
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
    return {
        transfer.device for transfer in moved if transfer.device and transfer.kind in SEEKABLE_KINDS
    }


def _file_systems(
    maps: Maps, moved: tuple[Transfer, ...], around: DescriptionContext
) -> tuple[FileSystemUse, ...]:
    caches, events = cache_bytes(maps, around.page_size), file_system_events(maps)
    raw = {transfer.device for transfer in moved if transfer.kind == "device"}
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
