"""Samples and traces in our own format, read into numpy arrays.

Decision: a block is believed only with its checksum, and memory is bounded: by a block
with `iter_samples`, by a number of rows with `read_samples`. A file that was cut short in
the middle of a block is damaged; between blocks it is whole as far as it goes.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from benchwright.load.segment import (
    BLOCK,
    BLOCK_HEAD,
    BLOCK_ROWS,
    HEAD,
    LONGEST_JSON,
    MAGIC,
    ROW,
    VERSION,
)
from benchwright.model.errors import Diagnostic, InputError

Path = str | os.PathLike[str]
MOST_ROWS = 50_000_000
"""What `read_samples` takes unless told: 2.4 GB."""


def read_samples(path: Path, *, most_rows: int = MOST_ROWS) -> NDArray[np.void]:
    """Return all rows of a file `(n_rows,)`, with the fields of `segment.ROW`.

    `intended`, `issued` and `completed` are nanoseconds since time zero (2^64 - 1: never),
    `offset` and `size` bytes. Raises InputError for a damaged file, and for one with more
    than `most_rows` rows.
    """
    blocks: list[NDArray[np.void]] = []
    number = 0
    for rows in iter_samples(path):
        number += len(rows)
        if number > most_rows:
            message = f"it has more than {most_rows:,} rows"
            raise _wrong(path, message, "use iter_samples, which yields them in blocks")
        blocks.append(rows)
    return np.concatenate(blocks) if blocks else np.zeros(0, ROW)


def iter_samples(path: Path) -> Iterator[NDArray[np.void]]:
    """Yield the rows of a file block by block, each at most 65,536. Raises InputError."""
    with open(path, "rb") as file:
        at = HEAD.size + len(_header(file, path))
        while head := file.read(BLOCK_HEAD.size):
            rows = _block(file, head, f"the block at byte {at}", path)
            at += BLOCK_HEAD.size + rows.nbytes
            if len(rows):
                yield rows


def read_header(path: Path) -> dict[str, Any]:
    """Return what a file says of itself: content, order, devices. Raises InputError."""
    with open(path, "rb") as file:
        text = _header(file, path)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise _wrong(path, f"its header is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise _wrong(path, "its header is no JSON object")
    return found


def _header(file: IO[bytes], path: Path) -> bytes:
    head = file.read(HEAD.size)
    if len(head) < HEAD.size or head[: len(MAGIC)] != MAGIC:
        hint = "`bw load --samples` and `bw trace convert` write such files"
        raise _wrong(path, "it does not begin as a file of samples", hint)
    _, version, row_bytes, length, crc, _ = HEAD.unpack(head)
    if version != VERSION or row_bytes != ROW.itemsize:
        message = f"it has version {version} and rows of {row_bytes} bytes"
        raise _wrong(path, message, "a newer Benchwright reads it")
    text = file.read(min(length, LONGEST_JSON))
    if len(text) < length or zlib.crc32(text) != crc:
        raise _wrong(path, "its header is damaged or cut short")
    return text


def _block(file: IO[bytes], head: bytes, what: str, path: Path) -> NDArray[np.void]:
    if len(head) < BLOCK_HEAD.size:
        raise _wrong(path, f"{what} is cut short")
    mark, length, number, crc = BLOCK_HEAD.unpack(head)
    if mark != BLOCK or number > BLOCK_ROWS or length != number * ROW.itemsize:
        raise _wrong(path, f"{what} has no valid head")
    data = file.read(length)
    if len(data) < length:
        raise _wrong(path, f"{what} is cut short")
    if zlib.crc32(struct.pack("<II", length, number) + data) != crc:
        raise _wrong(path, f"{what} has another checksum than its rows")
    return np.frombuffer(data, ROW)


def _wrong(path: Path, message: str, hint: str = "") -> InputError:
    hint = hint or "`bw trace convert --lenient` saves what is whole"
    place = Diagnostic("samples-file", message, hint, file=os.fspath(path))
    return InputError([place])
