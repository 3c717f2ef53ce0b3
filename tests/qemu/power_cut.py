"""What is on a disk after a power cut: made from the log of its writes and flushes.

Purpose: one run of a guest gives any number of power cuts. Decision: QEMU's blklogwrites,
since what a killed QEMU leaves is in the host's cache and complete; a killed guest loses
nothing that was written. After a cut at entry N all entries up to the last flush before it
are there; of those behind it, which a disk may keep in its cache and write in any order,
a random part is, and the last may be torn between two sectors.
Source: the Linux kernel's Documentation/admin-guide/device-mapper/log-writes.rst.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_MAGIC = 0x6A736677736872
_FLUSH, _DISCARD = 1, 4
_SECTOR = 512


@dataclass(frozen=True)
class Entry:
    """One request of the guest to its disk."""

    at: int
    """Where it writes [bytes]."""
    data: bytes
    is_flush: bool


def entries_of(log: Path) -> list[Entry]:
    """Return the requests of a log in order."""
    found = []
    with log.open("rb") as file:
        magic, version, count, sector = struct.unpack("<QQQI", file.read(28))
        assert (magic, version, sector) == (_MAGIC, 1, _SECTOR)
        file.seek(_SECTOR)
        for _ in range(count):
            head = file.read(_SECTOR)
            at, sectors, flags, _ = struct.unpack("<QQQQ", head[:32])
            length = sectors * _SECTOR
            # What is discarded reads as zeros, and has no data in the log.
            data = bytes(length) if flags & _DISCARD else file.read(length)
            found.append(Entry(at * _SECTOR, data, bool(flags & _FLUSH)))
    return found


def flushes(entries: Sequence[Entry]) -> list[int]:
    """Return the places of flushes."""
    return [place for place, entry in enumerate(entries) if entry.is_flush]


def cut(disk: Path, entries: Sequence[Entry], at: int, random_: random.Random) -> tuple[int, int]:
    """Write to a fresh disk what a power cut before entry `at` leaves; return how many
    entries behind the last flush were kept, and how many were lost."""
    safe = max((place for place in flushes(entries[:at])), default=0)
    kept = 0
    with disk.open("r+b") as file:
        for place, entry in enumerate(entries[:at]):
            data = entry.data
            if place > safe and data:
                if random_.random() < 0.5:
                    continue
                kept += 1
                if random_.random() < 0.2:
                    data = data[: random_.randrange(0, len(data) + 1, _SECTOR)]
            if data:
                file.seek(entry.at)
                file.write(data)
    return kept, sum(bool(entry.data) for entry in entries[safe + 1 : at]) - kept


def play(disk: Path, entries: Sequence[Entry]) -> None:
    """Write all of a log to a fresh disk."""
    with disk.open("r+b") as file:
        for entry in entries:
            if entry.data:
                file.seek(entry.at)
                file.write(entry.data)
