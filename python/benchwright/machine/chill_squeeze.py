"""The child that chill is done by: it dirties memory, then reads a file of holes.

Purpose: `python -P -m benchwright.machine.chill_squeeze SCRATCH`, started by chill.py; it
prints a `Squeeze` as JSON. Decision: a child, because its memory is free the moment it
ends, however it ends; it offers itself to the kernel's out-of-memory killer first
(oom_score_adj 1000), and it ends when its parent does (end of file on stdin).
Dirtied memory alone would have to go below the reserve to evict the pages used last:
what the reserve leaves is displaced by clean pages of a file of holes, which cost no
disk read and can be taken back by the kernel at any moment.
Source: Auto-pilot paper, section 3.3 (chill, after SunOS 4).
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from benchwright.machine.chill_memory import (
    Memory,
    Source,
    cgroup_memory,
    limiting_cgroup,
    machine_memory,
)
from benchwright.machine.chill_plan import EMPTY, next_step
from benchwright.model.chill import Squeeze, Stopped

_PIECE = 1 << 20
"""Read at once [bytes]."""
_ROUNDS = 2
"""Times that the file of holes is gone through: pages used twice give way last."""


class Squeezer:
    """Memory that is held, and what was seen while it was taken."""

    def __init__(self, source: Source, parent_lives: Callable[[], bool]) -> None:
        self._source = source
        self._parent_lives = parent_lives
        self._cgroup = limiting_cgroup(source)
        self._held: list[mmap.mmap] = []
        self._taken: list[int] = []
        self._readings = [self._read()]
        self.reserve_bytes = self._readings[0].reserve_bytes(
            limited=self._cgroup is not None
        )

    def run(self, scratch: Path) -> Squeeze:
        """Take memory until it is enough, displace the rest, and return what was done."""
        stopped = self._take_all()
        read = 0 if stopped is Stopped.SWAP else self._displace(scratch)
        return Squeeze(
            sum(self._taken),
            read,
            stopped,
            self.reserve_bytes,
            None if self._cgroup is None else self._readings[0].total_bytes,
        )

    def _read(self) -> Memory:
        """Return the reading that counts: where there is a limit, the narrower one."""
        machine = machine_memory(self._source)
        if self._cgroup is None:
            return machine
        own = cgroup_memory(self._cgroup, self._source)
        return min(own, machine, key=lambda memory: memory.available_bytes)

    def _take_all(self) -> Stopped:
        pattern = os.urandom(_PIECE)
        while self._parent_lives():
            step = next_step(self._readings, self._taken, self.reserve_bytes)
            if isinstance(step, Stopped):
                return step
            try:
                self._held.append(_dirtied(step, pattern))
            except (OSError, MemoryError):
                return Stopped.LIMIT
            self._taken.append(step)
            self._readings.append(self._read())
        sys.exit(1)

    def _displace(self, scratch: Path) -> int:
        """Read holes until they are what is cached; return how much was read [bytes]."""
        now = self._read()
        # What is free is filled first: less than all that is available displaces nothing.
        size = 2 * max(now.available_bytes, now.cached_bytes) // _PIECE * _PIECE
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
                    # Twice each: a page used once gives way before one used twice.
                    done += os.preadv(holes.fileno(), [buffer], at)
                    done += os.preadv(holes.fileno(), [buffer], at)
        return done


def _dirtied(size: int, pattern: bytes) -> mmap.mmap:
    """Return anonymous memory with every page written, none like another's neighbour."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, size, len(pattern)):
        memory[at : at + len(pattern)] = pattern[: size - at]
    return memory


def _stdin_is_open() -> bool:
    """Tell whether the parent still holds our stdin: it writes nothing into it."""
    return not select.select([0], [], [], 0)[0]


def main() -> int:
    """Do it and print the `Squeeze` on stdout."""
    scratch = Path(sys.argv[1])
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    squeezed = Squeezer(Source(), _stdin_is_open).run(scratch)
    sys.stdout.buffer.write(msgspec.json.encode(squeezed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
