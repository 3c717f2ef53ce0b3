"""bpftrace's totals -> what I/O arrived. Pure.

Source: bpftrace(8), `-f json`: an object a line; keys of maps are joined by commas.
"""

from __future__ import annotations

import errno
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from benchwright.model.characterized import (
    COMMONEST,
    BlockUse,
    FailedCalls,
    FileSystemEvent,
    OtherCalls,
    SizeCalls,
    Transfer,
)
from benchwright.probe.characterize_calls import (
    FILE_SYSTEM_POINTS,
    call_name,
    data_name,
)

_KINDS = {
    1: "pipe",
    2: "character device",
    4: "directory",
    6: "device",
    8: "file",
    12: "socket",
}
"""By the kind in st_mode (inode(7)); an eventfd has none."""
WITH_SIZES = ("unknown", "device", "file")
_O_DSYNC = os.O_DSYNC
_DEVICE_MINOR_BITS = 20

MOST_TICKS = 4096
"""Of more, every second one is dropped: totals at ticks lose nothing but grain."""

Key = tuple[str, ...]
Maps = Mapping[str, Mapping[Key, int]]


class Tick(msgspec.Struct, frozen=True):
    """The transfers counted up to a moment, the commonest only."""

    at_ns: int
    calls: Mapping[Key, int]
    """By (call, how, device, bytes of each)."""
    ran: Mapping[Key, int] = {}
    """Time of the busiest threads on a processor [ns], by (thread, name)."""
    waited: Mapping[Key, int] = {}
    """The same of time in which they were put aside while they could run on."""


class Totals(msgspec.Struct, frozen=True):
    """All that bpftrace said."""

    ticks: tuple[Tick, ...]
    maps: Maps
    """The last printing of each map, by its name without `@`."""
    lost: int
    """Events that bpftrace says it lost."""


def totals(lines: Iterable[str]) -> Totals:
    """Return what bpftrace said, line by line. What is no JSON is passed over."""
    ticks: list[Tick] = []
    maps: dict[str, dict[Key, int]] = {}
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
                        ticks.append(Tick(at_ns, maps["n"], ran, waited))
                        ticks = ticks if len(ticks) < MOST_TICKS else ticks[1::2]
                        at_ns = 0
            case {"type": "lost_events", "data": {"events": int(count)}}:
                lost += count
    return Totals(tuple(ticks), maps, lost)


def _object(line: str) -> object:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None


def _by_key(values: object) -> dict[Key, int]:
    """Return a map's values by their keys; a map without keys is a bare number."""
    if isinstance(values, dict):
        return {tuple(key.split(",")): int(value) for key, value in values.items()}
    return {(): int(values)} if isinstance(values, int) else {}


# -- system calls ----------------------------------------------------------------------


class How(msgspec.Struct, frozen=True):
    """What a descriptor is."""

    kind: str
    direct: bool
    synchronous: bool


def how_of(number: int) -> How:
    """Return what a descriptor is from its number in a map: its kind, open(2)'s flags."""
    kind = _KINDS.get(number & 15, "other") if number else "unknown"
    flags = number >> 8
    plain = kind not in ("file", "device")
    return How(
        kind,
        not plain and bool(flags & os.O_DIRECT),
        not plain and bool(flags & _O_DSYNC),
    )


class _Group(msgspec.Struct, frozen=True):
    call: int
    how: How
    device: str


def transfers(maps: Maps) -> Iterator[Transfer]:
    """Yield the transfers, most calls first. Read and append modes of a file are one."""
    sizes: dict[_Group, Counter[int]] = defaultdict(Counter)
    for (call, how, device, size), calls in maps.get("n", {}).items():
        sizes[_group(call, how, device)][int(size)] += calls
    summed: Counter[_Group] = Counter()
    for (call, how), moved in maps.get("sum", {}).items():
        summed[_group(call, how, "0")] += moved
    in_order, spent = _grouped(maps, "seq"), _grouped(maps, "ns")
    for group, counts in sorted(sizes.items(), key=lambda item: -item[1].total()):
        yield _transfer(group, counts, summed[group], (in_order, spent))


def _transfer(
    group: _Group,
    counts: Counter[int],
    summed: int,
    found: tuple[Counter[_Group], Counter[_Group]],
) -> Transfer:
    in_order, spent = found
    name, direction = data_name(group.call)
    exact = group.how.kind in WITH_SIZES
    calls = counts.total()
    # Without the kernel's structures there are no places to compare.
    placed = group.how.kind in ("file", "device")
    return Transfer(
        call=name,
        direction=direction,
        kind=group.how.kind,
        calls=calls,
        bytes=sum(size * n for size, n in counts.items()) if exact else summed,
        direct=group.how.direct,
        synchronous=group.how.synchronous,
        device=group.device if placed else "",
        sizes=commonest(counts) if exact else (),
        buckets=buckets(counts) if exact else (),
        sequential=in_order[group] / calls if placed else None,
        seconds=spent[group] / 1e9 if group in spent else None,
    )


def _group(call: str, how: str, device: str) -> _Group:
    what = how_of(int(how))
    number = int(device) if what.kind in ("file", "device") else 0
    return _Group(int(call), what, device_name(number) if number else "")


def _grouped(maps: Maps, name: str) -> Counter[_Group]:
    found: Counter[_Group] = Counter()
    for (call, how, device), value in maps.get(name, {}).items():
        found[_group(call, how, device)] += value
    return found


def device_name(number: int) -> str:
    """Return a device number of the kernel's as `MAJOR:MINOR`."""
    return f"{number >> _DEVICE_MINOR_BITS}:{number & ((1 << _DEVICE_MINOR_BITS) - 1)}"


def commonest(counts: Counter[int]) -> tuple[SizeCalls, ...]:
    """Return the commonest sizes, commonest first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(SizeCalls(size, calls) for size, calls in ordered[:COMMONEST])


def buckets(counts: Counter[int]) -> tuple[SizeCalls, ...]:
    """Return the other sizes by powers of two, up to and including each."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    found: Counter[int] = Counter()
    for size, calls in ordered[COMMONEST:]:
        found[1 << max(size - 1, 0).bit_length()] += calls
    return tuple(SizeCalls(size, calls) for size, calls in sorted(found.items()))


def others(maps: Maps) -> tuple[OtherCalls, ...]:
    """Return the calls that move no data, most of them first."""
    spent = maps.get("kns", {})
    found = [
        OtherCalls(
            call_name(int(key[0])), calls, spent[key] / 1e9 if key in spent else None
        )
        for key, calls in maps.get("k", {}).items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.calls, one.call)))


def failed(maps: Maps) -> tuple[FailedCalls, ...]:
    """Return the calls that failed, by their errors, most of them first."""
    found = [
        FailedCalls(
            call_name(int(call)), errno.errorcode.get(int(why), f"errno {why}"), calls
        )
        for (call, why), calls in maps.get("bad", {}).items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.calls, one.call, one.error)))


# -- file systems, the block layer -----------------------------------------------------


def cache_bytes(maps: Maps, page_size: int) -> dict[str, dict[str, int]]:
    """Return what came into the page cache, by device and by `read`, `write`, `other` [bytes]."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for (device, call), pages in maps.get("cache", {}).items():
        why = data_name(int(call))[1] if int(call) else "other"
        found[device_name(int(device))][why] += pages * page_size
    return {device: dict(sums) for device, sums in found.items()}


def file_system_events(maps: Maps) -> dict[str, tuple[FileSystemEvent, ...]]:
    """Return the file systems' own events by device; empty for events that tell none."""
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
    """Return the block layer's requests; `names`: of devices, by `MAJOR:MINOR`."""
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
    """Return what a request does from its letters (rwbs): a leading F is a flush before it."""
    for letter in what.removeprefix("F") or "F":
        if letter in "RWDF":
            return {"R": "read", "W": "write", "D": "discard", "F": "flush"}[letter]
    return "other"
