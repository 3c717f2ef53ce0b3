"""What memory there is, as far as this process may use it: the machine's, or its cgroup's.

Purpose: the readings that chill steers by. Decision: where a memory cgroup above us has
a limit below the machine's memory, its figures stand in for the machine's: reclaim then
happens inside it. Sources: proc(5) meminfo, vmstat; the kernel's cgroup-v1/memory.rst
and cgroup-v2.rst.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from benchwright.model.chill import Cached
from benchwright.model.errors import BenchError

_MIB = 1 << 20
_SHARE = 20
"""The reserve is one part in so many (5 %) ..."""
_LEAST_RESERVE = {False: 256 * _MIB, True: 16 * _MIB}
"""... and at least this [bytes]: of a machine, of a cgroup (where a kernel needs none)."""


class Memory(msgspec.Struct, frozen=True):
    """One reading [bytes]."""

    total_bytes: int
    """The machine's memory, or the cgroup's limit."""
    available_bytes: int
    """What can be taken before anything but caches must give way."""
    cached_bytes: int
    """What could be evicted: page cache without shared memory."""
    swapped_out: int
    """Pages swapped out since boot, of the whole machine."""

    def reserve_bytes(self, *, limited: bool) -> int:
        """Return what is left alone: 5 %, at least 256 MiB (in a cgroup 16 MiB)."""
        return max(self.total_bytes // _SHARE, _LEAST_RESERVE[limited])


class Source(msgspec.Struct, frozen=True):
    """Where readings come from; the roots are seams for tests."""

    proc: Path = Path("/proc")
    cgroup: Path = Path("/sys/fs/cgroup")


def cached(source: Source) -> Cached:
    """Return what the kernel caches now, of the whole machine."""
    info = _meminfo(source.proc)
    pages = info["Cached"] + info["Buffers"] - info.get("Shmem", 0)
    return Cached(pages, info.get("SReclaimable", 0))


def machine_memory(source: Source) -> Memory:
    """Return a reading of the whole machine."""
    info = _meminfo(source.proc)
    return Memory(
        info["MemTotal"],
        info["MemAvailable"],
        info["Cached"] + info["Buffers"] - info.get("Shmem", 0),
        _swapped_out(source.proc),
    )


def limiting_cgroup(source: Source) -> Path | None:
    """Return the cgroup above us with the lowest limit below the machine's memory."""
    total = _meminfo(source.proc)["MemTotal"]
    found = [
        (limit, place)
        for place in _memory_cgroups(source)
        if (limit := _limit(place)) is not None and limit < total
    ]
    return min(found)[1] if found else None


def cgroup_memory(place: Path, source: Source) -> Memory:
    """Return a reading of a memory cgroup, of version 1 or 2.

    Raises BenchError `chill-unreadable` when it has no figures any more.
    """
    limit = _limit(place)
    try:
        second = (place / "memory.current").exists()
        usage = place / ("memory.current" if second else "memory.usage_in_bytes")
        used = int(usage.read_text())
        stat = _table((place / "memory.stat").read_text())
    except (OSError, ValueError) as error:
        raise BenchError("chill-unreadable", f"{place}: {error}") from None
    prefix = "" if second else "total_"
    evictable = stat[f"{prefix}inactive_file"] + stat[f"{prefix}active_file"]
    total = used if limit is None else limit
    return Memory(total, total - used + evictable, evictable, _swapped_out(source.proc))


def _memory_cgroups(source: Source) -> list[Path]:
    """Return our memory cgroup and those above it, version 1 or 2, as directories."""
    found = []
    for line in (source.proc / "self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            roots = [source.cgroup, source.cgroup / "unified"]
        elif "memory" in controllers.split(","):
            roots = [source.cgroup / "memory", source.cgroup / controllers]
        else:
            continue
        for root in roots:
            here = root / path.lstrip("/")
            found += [p for p in (here, *here.parents) if p.is_relative_to(root)]
    return [place for place in found if place.is_dir()]


def _limit(place: Path) -> int | None:
    for name in ("memory.max", "memory.limit_in_bytes"):
        try:
            text = (place / name).read_text().strip()
        except OSError:
            continue
        return int(text) if text.isdecimal() else None
    return None


def _swapped_out(proc: Path) -> int:
    return _table((proc / "vmstat").read_text()).get("pswpout", 0)


def _meminfo(proc: Path) -> dict[str, int]:
    """Return /proc/meminfo in bytes."""
    lines = (proc / "meminfo").read_text().splitlines()
    return {
        name: int(rest.split()[0]) << (10 if rest.endswith("kB") else 0)
        for name, _, rest in (line.partition(":") for line in lines)
    }


def _table(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in (x.split() for x in text.splitlines())}
