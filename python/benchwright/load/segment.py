"""Our own format of traces and samples, byte for byte: docs/trace-format.md.

Decision: numpy reads and writes whole blocks, so that no row is touched by Python; what
lost was a reader in the engine, a process for what is 60 lines. Rust's side is
crates/bw-record/src/segment; tests on both sides hold the bytes.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchwright.load.filament import Batch

MAGIC = b"bwtrace\n"
VERSION = 1
BLOCK = b"BLK\n"
HEAD = struct.Struct("<8sHHIII")
BLOCK_HEAD = struct.Struct("<4sIII")
BLOCK_ROWS = 65_536
LONGEST_JSON = 16 << 20
NEVER = 2**64 - 1
"""As `issued` or `completed`: it did not happen, or is not known."""

ROW = np.dtype(
    [
        ("intended", "<u8"),
        ("issued", "<u8"),
        ("completed", "<u8"),
        ("offset", "<u8"),
        ("size", "<u4"),
        ("result", "<i4"),
        ("stream", "<u4"),
        ("device", "<u2"),
        ("kind", "u1"),
        ("zero", "u1"),
    ]
)
"""One operation; times in nanoseconds since time zero, places and sizes in bytes."""


def header(source: str) -> bytes:
    """Return the beginning of a trace whose rows are in the order of intended starts."""
    text = json.dumps(
        {
            "content": "trace",
            "time_unit": "ns",
            "order": "intended",
            "devices": [],
            "started_ns": None,
            "source": source,
            "policies": {},
        }
    ).encode()
    text += b" " * (-(HEAD.size + len(text)) % 16)
    head = HEAD.pack(MAGIC, VERSION, ROW.itemsize, len(text), zlib.crc32(text), 0)
    return head + text


def rows_of(batch: Batch) -> NDArray[np.void]:
    """Return a batch as rows that have not been issued yet."""
    rows = np.zeros(len(batch), ROW)
    rows["intended"] = batch.at_ns
    rows["issued"] = rows["completed"] = NEVER
    rows["offset"] = batch.offset
    rows["size"] = batch.size
    rows["kind"] = batch.kind
    return rows


def blocks_of(rows: NDArray[np.void]) -> Iterator[bytes]:
    """Yield rows as blocks, each of at most 65,536 rows."""
    for first in range(0, len(rows), BLOCK_ROWS):
        yield block_of(rows[first : first + BLOCK_ROWS])


def block_of(rows: NDArray[np.void]) -> bytes:
    """Return one block; without rows it is the mark of an end in good order."""
    assert len(rows) <= BLOCK_ROWS, "blocks_of parts them"
    data = rows.tobytes()
    counted = struct.pack("<II", len(data), len(rows))
    return BLOCK + counted + struct.pack("<I", zlib.crc32(counted + data)) + data


def end_block() -> bytes:
    """Return the mark of a writer that ended in good order."""
    return block_of(np.zeros(0, ROW))
