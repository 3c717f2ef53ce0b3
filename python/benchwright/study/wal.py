"""Damage in a write-ahead log that a crash left: SQLite takes it for the log's end.

Purpose: to tell a log whose last transaction was torn from one that was damaged.
SQLite reads a log up to the first frame whose checksum is wrong and forgets the rest,
so a flipped byte would silently lose outcomes that were acknowledged. Decision: with
synchronous=FULL a transaction is on the disk before the next one is written, so behind
a torn one there is nothing; a commit behind the break with a frame after it is damage.
That needs a log begun anew by every writer (database.writing). Non-goals: damage in the
very last transaction cannot be told from a torn one; nothing is repaired.
Source: sqlite.org/fileformat2, section 4 (the WAL format).
"""

from __future__ import annotations

import struct
from array import array
from pathlib import Path

_HEADER_BYTES = 32
_FRAME_BYTES = 24
_WORD = 0xFFFFFFFF
_PAGE_SIZES = frozenset(1 << n for n in range(9, 17))


def log_is_damaged(path: Path) -> bool:
    """Tell whether a write-ahead log has more behind its first break than one torn
    transaction could leave. An empty or missing log is not damaged."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return False
    if len(data) < _HEADER_BYTES:
        return False
    magic, _version, page = struct.unpack_from(">III", data)
    if magic & ~1 != 0x377F0682 or page not in _PAGE_SIZES:
        return len(data) > _HEADER_BYTES + _FRAME_BYTES
    return _goes_on(data, page, _intact(data, page, big_endian=bool(magic & 1)))


def _intact(data: bytes, page: int, *, big_endian: bool) -> int:
    """Return where the first frame begins that is not as it was written [bytes]."""
    sums = _checksum(data[:24], (0, 0), big_endian=big_endian)
    at = _HEADER_BYTES
    if sums != struct.unpack_from(">II", data, 24):
        return at
    while at + _FRAME_BYTES + page <= len(data):
        covered = data[at : at + 8] + data[at + _FRAME_BYTES : at + _FRAME_BYTES + page]
        sums = _checksum(covered, sums, big_endian=big_endian)
        if data[at + 8 : at + 16] != data[16:24]:
            break
        if sums != struct.unpack_from(">II", data, at + 16):
            break
        at += _FRAME_BYTES + page
    return at


def _goes_on(data: bytes, page: int, at: int) -> bool:
    """Tell whether a commit of this log, and a frame after it, lie behind an offset.

    Frames of this log bear the salts of its first frame (its header may be damaged).
    """
    step = _FRAME_BYTES + page
    salts = {data[16:24], data[_HEADER_BYTES + 8 : _HEADER_BYTES + 16]}
    committed = False
    for place in range(at, len(data) - step + 1, step):
        if data[place + 8 : place + 16] not in salts:
            continue
        if committed:
            return True
        (pages_after_commit,) = struct.unpack_from(">I", data, place + 4)
        committed = pages_after_commit != 0
    return False


def _checksum(
    data: bytes, sums: tuple[int, int], *, big_endian: bool
) -> tuple[int, int]:
    """Return SQLite's running checksum of whole pairs of 32-bit words."""
    words = array("I", data)
    assert words.itemsize == 4
    if (struct.pack("=I", 1)[0] == 0) != big_endian:
        words.byteswap()
    first, second = sums
    pairs = iter(words)
    for even, odd in zip(pairs, pairs, strict=True):
        first = (first + even + second) & _WORD
        second = (second + odd + first) & _WORD
    return first, second
