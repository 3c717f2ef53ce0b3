"""The child process that empties the caches: it dirties memory up to a reserve, then reads a
sparse file."""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from benchwright.core.errors import BenchError
from benchwright.features.quiet.chill_types import CachedMemory, ChillAllocation, ChillStop

# --------------------------------------------------------------------------------------
# The memory that this process may use: the machine's, or its cgroup's.
#
# Purpose: the readings that control chill. Decision: if one of our memory cgroups has a limit
# below the machine's memory, its figures replace the machine's, because reclaim then happens
# inside the cgroup. Sources: proc(5) meminfo, vmstat; the kernel's cgroup-v1/memory.rst and
# cgroup-v2.rst.

_MIB = 1 << 20
_SHARE = 20
"""The reserve is 1/20 (5 %) of the memory ..."""
_LEAST_RESERVE = {False: 256 * _MIB, True: 16 * _MIB}
"""... and at least this [bytes]: False for a machine, True for a cgroup (holds no kernel)."""


class Memory(msgspec.Struct, frozen=True):
    """One reading [bytes]."""

    total_bytes: int
    """The machine's memory, or the cgroup's limit."""
    available_bytes: int
    """Memory that can be allocated by evicting nothing but caches."""
    cached_bytes: int
    """Memory that could be evicted: page cache without shared memory."""
    swapped_out: int
    """Pages swapped out since boot, of the whole machine."""

    def reserve_bytes(self, *, limited: bool) -> int:
        """Return the memory to leave free: 5 %, at least 256 MiB (in a cgroup 16 MiB)."""
        return max(self.total_bytes // _SHARE, _LEAST_RESERVE[limited])


class MemorySource(msgspec.Struct, frozen=True):
    """Where readings come from; the roots are seams for tests."""

    proc: Path = Path("/proc")
    cgroup: Path = Path("/sys/fs/cgroup")


def cached(source: MemorySource) -> CachedMemory:
    """Return the size of the kernel's caches on the whole machine."""
    info = _meminfo(source.proc)
    pages = info["Cached"] + info["Buffers"] - info.get("Shmem", 0)
    return CachedMemory(pages, info.get("SReclaimable", 0))


def machine_memory(source: MemorySource) -> Memory:
    """Return a reading of the whole machine."""
    info = _meminfo(source.proc)
    return Memory(
        info["MemTotal"],
        info["MemAvailable"],
        info["Cached"] + info["Buffers"] - info.get("Shmem", 0),
        _swapped_out(source.proc),
    )


def limiting_cgroup(source: MemorySource) -> Path | None:
    """Return our cgroup or ancestor with the lowest limit below the machine's memory."""
    total = _meminfo(source.proc)["MemTotal"]
    found = [
        (limit, place)
        for place in _memory_cgroups(source)
        if (limit := _limit(place)) is not None and limit < total
    ]
    return min(found)[1] if found else None


def cgroup_memory(place: Path, source: MemorySource) -> Memory:
    """Return a reading of a memory cgroup, of version 1 or 2.

    Raises BenchError `chill-unreadable` if its files cannot be read.
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


def _memory_cgroups(source: MemorySource) -> list[Path]:
    """Return the directories of our memory cgroup and its ancestors, version 1 or 2."""
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


# --------------------------------------------------------------------------------------
# How much memory chill takes next, or why it stops: a pure function of its readings.
#
# Decision: steps shrink towards the reserve, so it is approached but not used. The paper's
# program took all it could get, and any process could be killed.

LARGEST_STEP = 64 * _MIB
SMALLEST_STEP = _MIB
EMPTY = 4 * _MIB
"""A cache of this size counts as empty [bytes]: running programs are always cached."""
PATIENCE = 8
"""Steps without a smaller cache, after it had started to shrink, before it counts as steady."""
_NOTICEABLE = 8
"""A cache is smaller if it lost at least 1/8 of the memory that was taken."""


def next_step(
    readings: Sequence[Memory], taken: Sequence[int], reserve_bytes: int, most_bytes: int
) -> int | ChillStop:
    """Return the bytes to take next, at most `most_bytes` in all, or the reason to stop.

    `readings` has one more entry than `taken`: the one before the first step.
    """
    now, start = readings[-1], readings[0]
    room = now.available_bytes - reserve_bytes
    if now.swapped_out > start.swapped_out:
        return ChillStop.SWAP
    if now.cached_bytes <= EMPTY:
        return ChillStop.EMPTY
    if room < 4 * SMALLEST_STEP:
        return ChillStop.RESERVE
    if _steady(readings, taken):
        return ChillStop.STEADY
    left = most_bytes - sum(taken)
    if left < SMALLEST_STEP:
        return ChillStop.MOST
    return max(SMALLEST_STEP, min(LARGEST_STEP, room // 4, left))


def _steady(readings: Sequence[Memory], taken: Sequence[int]) -> bool:
    """Return whether the cache shrank before, and no longer does."""
    if len(taken) < PATIENCE:
        return False
    lost = readings[-PATIENCE - 1].cached_bytes - readings[-1].cached_bytes
    lost_ever = readings[0].cached_bytes - readings[-1].cached_bytes
    recent = sum(taken[-PATIENCE:])
    return lost_ever > LARGEST_STEP and lost * _NOTICEABLE < recent


# -- The child process: it dirties memory, then reads a sparse file --------------------
#
# Purpose: `python -P -m benchwright.features.quiet.chill_squeeze SCRATCH MOST_BYTES`, started by
# chill.py; it prints a `ChillAllocation` as JSON. Decision: a child, because its memory is freed
# whenever and however it ends. It is the first choice of the kernel's out-of-memory killer
# (oom_score_adj 1000), and it ends when its parent does (end of file on stdin). Dirtied memory
# alone would have to use the reserve to evict the most recently used pages. Instead, clean pages of
# a sparse file displace the caches that are left; they cost no disk read, and the kernel can evict
# them at any moment. Source: Auto-pilot paper, section 3.3 (chill, after SunOS 4).

_PIECE = 1 << 20
"""Size of one read [bytes]."""
_ROUNDS = 2
"""How often each part of the sparse file is read: pages used twice are evicted last."""


class Squeezer:
    """The memory that the child holds, and the readings taken meanwhile."""

    def __init__(
        self, source: MemorySource, parent_lives: Callable[[], bool], most_bytes: int
    ) -> None:
        self._source = source
        self._most_bytes = most_bytes
        self._parent_lives = parent_lives
        self._cgroup = limiting_cgroup(source)
        self._held: list[mmap.mmap] = []
        self._taken: list[int] = []
        self._readings = [self._read()]
        self.reserve_bytes = self._readings[0].reserve_bytes(limited=self._cgroup is not None)

    def run(self, scratch: Path) -> ChillAllocation:
        """Take memory up to the reserve, displace the rest, and return the report."""
        stopped = self._take_all()
        read = 0 if stopped is ChillStop.SWAP else self._displace(scratch)
        return ChillAllocation(
            sum(self._taken),
            read,
            stopped,
            self.reserve_bytes,
            None if self._cgroup is None else self._readings[0].total_bytes,
        )

    def _read(self) -> Memory:
        """Return the reading with less available memory, of the machine and our cgroup."""
        machine = machine_memory(self._source)
        if self._cgroup is None:
            return machine
        own = cgroup_memory(self._cgroup, self._source)
        return min(own, machine, key=lambda memory: memory.available_bytes)

    def _take_all(self) -> ChillStop:
        pattern = os.urandom(_PIECE)
        while self._parent_lives():
            step = next_step(self._readings, self._taken, self.reserve_bytes, self._most_bytes)
            if isinstance(step, ChillStop):
                return step
            try:
                self._held.append(_dirtied(step, pattern))
            except (OSError, MemoryError):
                return ChillStop.LIMIT
            self._taken.append(step)
            self._readings.append(self._read())
        sys.exit(1)

    def _displace(self, scratch: Path) -> int:
        """Read holes until they fill the cache; return how much was read [bytes]."""
        now = self._read()
        # Free memory is filled first: reading less than all available displaces nothing.
        size = 2 * max(now.available_bytes, now.cached_bytes)
        size = min(size, 2 * self._most_bytes) // _PIECE * _PIECE
        done = 0
        if now.cached_bytes <= EMPTY:
            return done
        buffer = memoryview(bytearray(_PIECE))
        with contextlib.suppress(OSError), tempfile.TemporaryFile(dir=scratch) as holes:
            holes.truncate(size)
            for _round in range(_ROUNDS):
                for at in range(0, size, _PIECE):
                    if not self._parent_lives():
                        sys.exit(1)
                    # Each twice: the kernel evicts a page used once before one used twice.
                    done += os.preadv(holes.fileno(), [buffer], at)
                    done += os.preadv(holes.fileno(), [buffer], at)
        return done


def _dirtied(size: int, pattern: bytes) -> mmap.mmap:
    """Return anonymous memory with every page written; neighbouring pages differ."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, size, len(pattern)):
        memory[at : at + len(pattern)] = pattern[: size - at]
    return memory


def _stdin_is_open() -> bool:
    """Return whether the parent still holds our stdin open; it never writes to it."""
    return not select.select([0], [], [], 0)[0]


def main() -> int:
    """Empty the caches and print the `ChillAllocation` on stdout."""
    scratch = Path(sys.argv[1])
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    squeezer = Squeezer(MemorySource(), _stdin_is_open, int(sys.argv[2]))
    squeezed = squeezer.run(scratch)
    sys.stdout.buffer.write(msgspec.json.encode(squeezed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
