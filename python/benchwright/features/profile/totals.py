"""Reads the totals that bpftrace prints. Pure.

Source: bpftrace(8), `-f json`: one object per line; map keys are joined by commas.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from benchwright.features.profile.calls import FILE_SYSTEM_POINTS, data_name
from benchwright.features.profile.types import (
    COPY_CALLS,
    MOST_SIZES,
    BlockUse,
    FileSystemEvent,
    LatencyCalls,
    SizeCalls,
)

_DEVICE_MINOR_BITS = 20

MOST_TICKS = 4096
"""The most ticks; of more, every second one is dropped, which only lowers the resolution."""

MapKey = tuple[str, ...]
Maps = Mapping[str, Mapping[MapKey, int]]


class TotalsTick(msgspec.Struct, frozen=True):
    """The transfers counted so far at one tick, only the commonest."""

    at_ns: int
    calls: Mapping[MapKey, int]
    """Calls by (call, how, device, bytes of each)."""
    ran: Mapping[MapKey, int] = {}
    """CPU time of the busiest threads [ns], by (thread, name)."""
    waited: Mapping[MapKey, int] = {}
    """Time for which they were preempted although they could run [ns]."""


class Totals(msgspec.Struct, frozen=True):
    """All that bpftrace printed."""

    ticks: tuple[TotalsTick, ...]
    maps: Maps
    """The last printing of each map, by its name without `@`."""
    lost: int
    """Events that bpftrace reports as lost."""
    lasted: Mapping[str, Mapping[MapKey, tuple[LatencyCalls, ...]]] = {}
    """The maps that are histograms of durations."""
    absent: tuple[tuple[str, str], ...] = ()
    """What this kernel does not report, and why."""


def totals(lines: Iterable[str]) -> Totals:
    """Return what bpftrace printed, line by line. Lines that are not JSON are skipped."""
    ticks: list[TotalsTick] = []
    maps: dict[str, dict[MapKey, int]] = {}
    lasted: dict[str, dict[MapKey, tuple[LatencyCalls, ...]]] = {}
    absent: list[tuple[str, str]] = []
    at_ns, lost = 0, 0
    for line in lines:
        match _object(line):
            case {"type": "printf", "data": str(text)} if text.startswith("tick "):
                at_ns = int(text.split()[1])
            case {"type": "map", "data": dict(data)}:
                for name, values in data.items():
                    maps[name[1:]] = _by_key(values)
                    if name == "@n" and at_ns:
                        ran, waited = maps.get("cpu", {}), maps.get("wait", {})
                        ticks.append(TotalsTick(at_ns, maps["n"], ran, waited))
                        ticks = ticks if len(ticks) < MOST_TICKS else ticks[1::2]
                        at_ns = 0
            case {"type": "hist", "data": dict(data)}:
                lasted |= {name[1:]: _latencies(found) for name, found in data.items()}
            case {"type": "absent", "data": list(data)}:
                absent += [(what, why) for what, why in data]
            case {"type": "lost_events", "data": {"events": int(count)}}:
                lost += count
    return Totals(tuple(ticks), maps, lost, lasted, tuple(absent))


def _object(line: str) -> object:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None


def _by_key(values: object) -> dict[MapKey, int]:
    """Return a map's values by key; a map without keys is a single number."""
    if isinstance(values, dict):
        return {tuple(key.split(",")): int(value) for key, value in values.items()}
    return {(): int(values)} if isinstance(values, int) else {}


def _latencies(found: object) -> dict[MapKey, tuple[LatencyCalls, ...]]:
    """Return the histograms of a map by their keys."""
    if not isinstance(found, dict):
        return {}
    return {tuple(key.split(",")): _buckets(given) for key, given in found.items()}


def _buckets(given: Iterable[Mapping[str, int]]) -> tuple[LatencyCalls, ...]:
    """Return the buckets that hold calls.

    The last bucket has no end. The bucket of negative durations has no start: the clocks of
    two CPUs differ slightly; these calls count as less than 1 ns.
    """
    found: Counter[int] = Counter()
    for one in given:
        last = one["max"] if "max" in one else 2 * one["min"] - 1
        found[max(last + 1, 1)] += one["count"]
    return tuple(LatencyCalls(below, calls) for below, calls in found.items() if calls)


def device_name(number: int) -> str:
    """Return the kernel's internal device number as `MAJOR:MINOR`."""
    return f"{number >> _DEVICE_MINOR_BITS}:{number & ((1 << _DEVICE_MINOR_BITS) - 1)}"


def commonest(counts: Counter[int]) -> tuple[SizeCalls, ...]:
    """Return the commonest sizes, commonest first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(SizeCalls(size, calls) for size, calls in ordered[:MOST_SIZES])


def buckets(counts: Counter[int]) -> tuple[SizeCalls, ...]:
    """Return the other sizes by powers of two; each bucket includes its upper limit."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    found: Counter[int] = Counter()
    for size, calls in ordered[MOST_SIZES:]:
        found[1 << max(size - 1, 0).bit_length()] += calls
    return tuple(SizeCalls(size, calls) for size, calls in sorted(found.items()))


# -- file systems, the block layer -----------------------------------------------------


class FilesReached(msgspec.Struct, frozen=True):
    """The distinct files of a file system whose data calls moved."""

    files: int
    bytes: int
    """Sum of the highest offsets reached in the files."""


def files_reached(maps: Maps) -> dict[str, FilesReached]:
    """Return the files that were used, by device."""
    ends: dict[str, list[int]] = defaultdict(list)
    for (device, _file), end in maps.get("w", {}).items():
        ends[device_name(int(device))].append(end)
    return {device: FilesReached(len(found), sum(found)) for device, found in ends.items()}


def cache_bytes(maps: Maps, page_size: int) -> dict[str, dict[str, int]]:
    """Return what was read into the page cache, by device and by `read`, `write`, `other` [bytes].

    Pages of a copy inside the kernel may belong to either side: they count as `other`.
    """
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for (device, call), pages in maps.get("cache", {}).items():
        name, way = data_name(int(call)) if int(call) else ("", "other")
        why = "other" if name in COPY_CALLS else way
        found[device_name(int(device))][why] += pages * page_size
    return {device: dict(sums) for device, sums in found.items()}


def file_system_events(maps: Maps) -> dict[str, tuple[FileSystemEvent, ...]]:
    """Return the file systems' own events by device; empty for events without one."""
    sizes: dict[tuple[str, int], Counter[int]] = defaultdict(Counter)
    for (number, device, size), count in maps.get("fs", {}).items():
        where = device_name(int(device)) if int(device) else ""
        sizes[where, int(number)][int(size)] += count
    found: dict[str, list[FileSystemEvent]] = defaultdict(list)
    for (where, index), counts in sorted(sizes.items()):
        point = FILE_SYSTEM_POINTS[index]
        moved = sum(size * count for size, count in counts.items())
        found[where].append(
            FileSystemEvent(
                name=point.name,
                means=point.means,
                count=counts.total(),
                bytes=moved if point.size else None,
                sizes=commonest(counts) if point.size else (),
            )
        )
    return {where: tuple(events) for where, events in found.items()}


def blocks(maps: Maps, names: Mapping[str, str]) -> tuple[BlockUse, ...]:
    """Return the block layer's requests; `names`: device names by `MAJOR:MINOR`."""
    sizes: dict[tuple[str, str, str], Counter[int]] = defaultdict(Counter)
    for (by, device, what, size), count in maps.get("blk", {}).items():
        number = device_name(int(device))
        who = ("others", "trial", "kernel")[int(by)]
        where = names.get(number, number)
        sizes[where, who, _direction(what)][int(size)] += count
    return tuple(
        msgspec.convert(
            {
                "device": where,
                "by": who,
                "direction": what,
                "requests": counts.total(),
                "bytes": sum(size * n for size, n in counts.items()),
                "sizes": msgspec.to_builtins(commonest(counts)),
            },
            BlockUse,
        )
        for (where, who, what), counts in sorted(sizes.items())
    )


def _direction(what: str) -> str:
    """Return a request's direction from its letters (rwbs); a leading F is a preflush."""
    for letter in what.removeprefix("F") or "F":
        if letter in "RWDF":
            return {"R": "read", "W": "write", "D": "discard", "F": "flush"}[letter]
    return "other"
