"""The system calls and tracepoints to count, with their numbers in our maps, and the reader of the
totals that bpftrace prints. Pure.

Source: bpftrace(8), `-f json`: one object per line; map keys are joined by commas.

Decision: one table for the script, its reader and the fallback. Maps use numbers, because
they cost the kernel less than names. Source: syscalls(2), the kernel's events/*/format.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from benchwright.features.profile.types import (
    COPY_CALLS,
    MOST_SIZES,
    BlockUse,
    Direction,
    FileSystemEvent,
    LatencyCalls,
    SizeCalls,
)


class DataCall(msgspec.Struct, frozen=True):
    """A system call that moves data; its value is the bytes moved."""

    name: str
    direction: Direction
    descriptor: str = "fd"
    """The argument with the file descriptor."""
    offset: str = ""
    """The argument with the offset; empty: the call uses the open file's offset, as preadv2
    and pwritev2 do for -1 (other calls refuse -1)."""
    offset_at: str = ""
    """The argument that points to the offset; a null pointer means the open file's offset."""


DATA_CALLS = (
    DataCall("read", "read"),
    DataCall("write", "write"),
    DataCall("pread64", "read", offset="pos"),
    DataCall("pwrite64", "write", offset="pos"),
    DataCall("readv", "read"),
    DataCall("writev", "write"),
    DataCall("preadv", "read", offset="pos_l"),
    DataCall("pwritev", "write", offset="pos_l"),
    DataCall("preadv2", "read", offset="pos_l"),
    DataCall("pwritev2", "write", offset="pos_l"),
    DataCall("sendto", "write"),
    DataCall("recvfrom", "read"),
    DataCall("sendmsg", "write"),
    DataCall("recvmsg", "read"),
    DataCall("sendfile64", "read", descriptor="in_fd", offset_at="offset"),
    DataCall("copy_file_range", "read", descriptor="fd_in", offset_at="off_in"),
    DataCall("splice", "read", descriptor="fd_in", offset_at="off_in"),
)
FIRST_DATA = 1
"""Number of the first of DATA_CALLS; 0 is no call."""

TIMED_CALLS = ("fsync", "fdatasync", "sync_file_range", "msync", "sync", "syncfs")
FIRST_TIMED = 40
OPENING_CALLS = ("open", "openat", "openat2", "creat")
REAPING_CALLS = ("io_getevents", "io_pgetevents")
"""The calls that collect libaio's completions."""
COUNTED_CALLS = (
    *(*OPENING_CALLS, "close", "lseek", "mmap"),
    *("unlink", "unlinkat", "rename", "renameat", "renameat2", "mkdir", "mkdirat"),
    *("rmdir", "truncate", "ftruncate", "fallocate", "getdents64"),
    *("newstat", "newfstat", "newlstat", "newfstatat", "statx", "fadvise64"),
    *("io_uring_enter", "io_submit", *REAPING_CALLS),
    *("sendmmsg", "recvmmsg", "vmsplice", "tee"),
)
FIRST_COUNTED = 60

RINGS: dict[int, tuple[str, Direction]] = {
    1: ("io_uring READV", "read"),
    2: ("io_uring WRITEV", "write"),
    4: ("io_uring READ_FIXED", "read"),
    5: ("io_uring WRITE_FIXED", "write"),
    9: ("io_uring SENDMSG", "write"),
    10: ("io_uring RECVMSG", "read"),
    22: ("io_uring READ", "read"),
    23: ("io_uring WRITE", "write"),
    26: ("io_uring SEND", "write"),
    27: ("io_uring RECV", "read"),
}
"""io_uring's opcodes that move data (linux/io_uring.h)."""
RING_FSYNC = 3
FIRST_RING = 1000

AIO: dict[int, tuple[str, Direction]] = {
    0: ("io_submit read", "read"),
    1: ("io_submit write", "write"),
    7: ("io_submit readv", "read"),
    8: ("io_submit writev", "write"),
}
"""libaio's opcodes that move data (linux/aio_abi.h)."""
AIO_VECTORS = (7, 8)
"""The opcodes with a vector of buffers."""
_AIO_OTHERS = {2: "fsync", 3: "fdsync", 5: "poll", 6: "noop"}
FIRST_AIO = 2000
AIO_SEEN = 8
"""The number of operations of one io_submit that are examined."""


class FileSystemPoint(msgspec.Struct, frozen=True):
    """A tracepoint of a file system, with its fields for device and bytes."""

    category: str
    name: str
    means: str
    size: str = ""
    device: str = "dev"


FILE_SYSTEM_POINTS = (
    FileSystemPoint("ext4", "ext4_da_write_end", "buffered write", "copied"),
    FileSystemPoint("ext4", "ext4_write_end", "buffered write", "copied"),
    FileSystemPoint("ext4", "ext4_journalled_write_end", "journalled write", "copied"),
    FileSystemPoint("ext4", "ext4_sync_file_enter", "fsync"),
    FileSystemPoint("xfs", "xfs_file_buffered_write", "buffered write", "count"),
    FileSystemPoint("xfs", "xfs_file_buffered_read", "buffered read", "count"),
    FileSystemPoint("xfs", "xfs_file_fsync", "fsync"),
    FileSystemPoint("btrfs", "btrfs_sync_file", "fsync", device=""),
    FileSystemPoint("iomap", "iomap_dio_rw_begin", "direct I/O", "count"),
)


def data_name(number: int) -> tuple[str, Direction]:
    """Return the name and direction of a data call, from its number in a map."""
    if number >= FIRST_AIO:
        return AIO[number - FIRST_AIO]
    if number >= FIRST_RING:
        return RINGS[number - FIRST_RING]
    call = DATA_CALLS[number - FIRST_DATA]
    return call.name, call.direction


def call_name(number: int) -> str:
    """Return the name of any call, from its number in a map."""
    if number >= FIRST_AIO and number - FIRST_AIO not in AIO:
        code = number - FIRST_AIO
        return f"io_submit {_AIO_OTHERS.get(code, code)}"
    if number == FIRST_RING + RING_FSYNC:
        return "io_uring FSYNC"
    if number >= FIRST_RING or number < FIRST_TIMED:
        return data_name(number)[0]
    if number >= FIRST_COUNTED:
        return COUNTED_CALLS[number - FIRST_COUNTED]
    return TIMED_CALLS[number - FIRST_TIMED]


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
    messages: int = 0
    """Calls that moved data of pipes, sockets and character devices."""

    @property
    def total(self) -> int:
        """All calls so far that moved data."""
        return sum(self.calls.values()) + self.messages


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
                        if ticks and sum(maps["n"].values()) < sum(ticks[-1].calls.values()):
                            ticks = []  # They were cleared: counting begins.
                        messages = sum(maps.get("all", {}).values())
                        ticks.append(TotalsTick(at_ns, maps["n"], ran, waited, messages))
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
