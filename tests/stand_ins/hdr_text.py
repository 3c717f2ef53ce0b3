"""HdrHistograms as the engine writes them, made by the public description of the format."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Sequence

LARGEST = 3_600_000_000_000


def bucket(value: int, digits: int) -> tuple[int, int, int]:
    """Return a value's bucket by the public description: place, least, greatest."""
    half = 2 ** (math.ceil(math.log2(2 * 10**digits)) - 1)
    doublings = max(0, (value // (2 * half)).bit_length())
    begin = value >> doublings << doublings
    return doublings * half + (value >> doublings), begin, begin + (1 << doublings) - 1


def number(value: int) -> bytes:
    """Return one number, zig-zag and LEB128 of at most nine bytes."""
    left, found = (value << 1) ^ (value >> 63), bytearray()
    while len(found) < 8 and left >= 0x80:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


def encode(values: Sequence[int], digits: int, *, deflated: bool = True, level: int = -1) -> str:
    """Return the values as HdrHistogram V2; with level 0 the text does not depend on the version of
    zlib."""
    counts: dict[int, int] = {}
    for value in values:
        place = bucket(value, digits)[0]
        counts[place] = counts.get(place, 0) + 1
    payload, at = b"", 0
    for place in sorted(counts):
        if place > at:
            payload += number(at - place)
        payload += number(counts[place])
        at = place + 1
    head = struct.pack(">iiiiqqd", 0x1C849313, len(payload), 0, digits, 1, LARGEST, 1.0)
    data = head + payload
    if deflated:
        squeezed = zlib.compress(data, level)
        data = struct.pack(">II", 0x1C849314, len(squeezed)) + squeezed
    return base64.b64encode(data).decode()
