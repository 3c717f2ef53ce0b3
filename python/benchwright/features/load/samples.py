"""Operations as numpy arrays: samples and traces in our own format (docs/trace-format.md), read and
written, and filaments in Python, a class that yields its operations ahead of time in batches.

Purpose of the latter: patterns that TOML cannot describe. Decision: whole arrays of operations are
generated long before they are due and passed to the engine, so that Python never delays
one. Rejected: a callback for each event, which would put an interpreter between an
operation's time and its issue. Such a filament therefore cannot wait for a
completion; `closed` and `follow` can.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.numeric import ArrayLike, NDArray, np
from benchwright.core.untrusted import open_regular
from benchwright.features.load.workload import KINDS

_MOST = {"at_ns": 2**63 - 1, "offset": 2**63 - 1, "size": 2**32 - 1}


class Batch:
    """Operations in the order of their intended starts, as arrays `(n,)`."""

    def __init__(
        self,
        at_ns: ArrayLike,
        kind: ArrayLike = "read",
        offset: ArrayLike = 0,
        size: ArrayLike = 4096,
    ) -> None:
        """Take arrays, or single values for all: `at_ns` [ns since the start of the run],
        `kind` (a word of `KINDS`, or its number), `offset` and `size` [bytes].

        Raises ValueError for different lengths, decreasing times, and values that no
        operation can have.
        """
        self.at_ns = _whole_numbers("at_ns", at_ns, None)
        number = len(self.at_ns)
        self.kind = _kinds(kind, number)
        self.offset = _whole_numbers("offset", offset, number)
        self.size = _whole_numbers("size", size, number)
        if np.any(np.diff(self.at_ns) < 0):
            first = int(np.flatnonzero(np.diff(self.at_ns) < 0)[0]) + 1
            raise ValueError(f"at_ns goes back at row {first} of the batch")

    def __len__(self) -> int:
        return len(self.at_ns)


class Filament:
    """A pattern of operations, written by a user: `type = "python"` in a workload."""

    def batches(self) -> Iterator[Batch]:
        """Yield batches; each starts no earlier than the one before it ended.

        A good size is a few hundred to a few thousand operations per batch. The engine
        requests more as it runs, so the number of batches may be infinite if the
        workload has a duration.
        """
        raise NotImplementedError(f"{type(self).__name__} has no batches()")


def _whole_numbers(name: str, values: ArrayLike, number: int | None) -> NDArray[np.int64]:
    """Return `number` whole numbers, none below 0."""
    array: NDArray[Any] = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"{name} has {array.dtype} values, expected whole numbers")
    array = _shaped(name, array, number)
    if array.size and (int(array.min()) < 0 or int(array.max()) > _MOST[name]):
        raise ValueError(f"{name} has values outside 0 .. {_MOST[name]}")
    return array.astype(np.int64)


def _shaped(name: str, array: NDArray[Any], number: int | None) -> NDArray[Any]:
    if array.ndim == 0 and number is not None:
        return np.full(number, array[()])
    if array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} dimensions, expected one")
    if number is not None and len(array) != number:
        raise ValueError(f"{name} has {len(array)} values, at_ns has {number}")
    return array


def _kinds(kind: ArrayLike, number: int) -> NDArray[np.uint8]:
    """Return the numbers of kinds, given as words or as numbers."""
    array = _shaped("kind", np.asarray(kind), number)
    if array.dtype.kind == "U":
        unknown = sorted(set(np.unique(array)) - set(KINDS))
        if unknown:
            raise ValueError(f"kind {str(unknown[0])!r} must be one of {', '.join(KINDS)}")
        words = np.array(KINDS)
        order = np.argsort(words)
        return order[np.searchsorted(words[order], array)].astype(np.uint8)
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError("kind has neither words nor whole numbers")
    if array.size and (int(array.min()) < 0 or int(array.max()) >= len(KINDS)):
        raise ValueError(f"kind has values outside 0 .. {len(KINDS) - 1}")
    return array.astype(np.uint8)


# -- Writing our own format of traces and samples: docs/trace-format.md ----------------
#
# Decision: numpy reads and writes whole blocks, so that Python touches no single row.
# Rejected: a reader in the engine, because 90 lines need no extra process. The Rust side is
# crates/bw-record/src/segment; tests on both sides check the bytes. Blocks of version 2, which the
# engine writes, are compressed; what Python writes is version 1.

MAGIC = b"bwtrace\n"
VERSION = 1
"""The version that is written: rows of a fixed length."""
COMPRESSED = 2
"""The version of which each column of a block is a row of variable-length integers."""
LONGEST_INTEGER = 10
"""In a column [bytes]."""
BLOCK = b"BLK\n"
HEAD = struct.Struct("<8sHHIII")
BLOCK_HEAD = struct.Struct("<4sIII")
BLOCK_ROWS = 65_536
LONGEST_JSON = 16 << 20
NEVER = 2**64 - 1
"""Value of `issued` or `completed`: it did not happen, or is unknown."""

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
"""One operation; times in nanoseconds since time zero, offsets and sizes in bytes."""


def encode_header(source: str) -> bytes:
    """Return the header of a trace whose rows are in the order of intended starts."""
    return _encoded_header(content="trace", source=source, devices=(), started_ns=None)


def _encoded_header(
    *, content: str, source: str, devices: Sequence[str], started_ns: int | None
) -> bytes:
    fields: dict[str, object] = {
        "content": content,
        "time_unit": "ns",
        "order": "intended",
        "devices": devices,
        "started_ns": started_ns,
        "source": source,
        "policies": {},
    }
    text = json.dumps(fields).encode()
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
    """Return one block; a block without rows marks a complete file."""
    assert len(rows) <= BLOCK_ROWS, "blocks_of parts them"
    data = rows.tobytes()
    counted = struct.pack("<II", len(data), len(rows))
    return BLOCK + counted + struct.pack("<I", zlib.crc32(counted + data)) + data


def end_block() -> bytes:
    """Return the mark of a complete file."""
    return block_of(np.zeros(0, ROW))


# -- Reading our own format of traces and samples into numpy arrays --------------------
#
# Decision: a block is used only if its checksum is right, and memory is limited: to a block
# with `iter_samples`, to a number of rows with `read_samples`. A file that ends in the middle
# of a block is damaged; a file that ends between blocks is valid up to there.

SamplesPath = str | os.PathLike[str]
MOST_ROWS = 50_000_000
"""Default maximum of `read_samples`: 2.4 GB."""


def read_samples(path: SamplesPath, *, most_rows: int = MOST_ROWS) -> NDArray[np.void]:
    """Return all rows of a file `(n_rows,)`, with the fields of `ROW`.

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
            raise _damaged_file(path, message, "use iter_samples, which yields them in blocks")
        blocks.append(rows)
    return np.concatenate(blocks) if blocks else np.zeros(0, ROW)


def iter_samples(path: SamplesPath) -> Iterator[NDArray[np.void]]:
    """Yield the rows of a file block by block, each at most 65,536. Raises InputError."""
    with open_regular(path) as file:
        version, text = _header(file, path)
        at = HEAD.size + len(text)
        while head := file.read(BLOCK_HEAD.size):
            what = f"the block at byte {at}"
            number, data = _block(file, head, version, what, path)
            at += BLOCK_HEAD.size + len(data)
            if number:
                plain = version == VERSION
                yield np.frombuffer(data, ROW) if plain else _decoded(data, number, what, path)


def _header(file: IO[bytes], path: SamplesPath) -> tuple[int, bytes]:
    """Return the version and the JSON of a file."""
    head = file.read(HEAD.size)
    if len(head) < HEAD.size or head[: len(MAGIC)] != MAGIC:
        hint = "`bw load --samples` and `bw trace convert` write such files"
        raise _damaged_file(path, "it does not begin as a file of samples", hint)
    _, version, row_bytes, length, crc, _ = HEAD.unpack(head)
    if (version, row_bytes) not in ((VERSION, ROW.itemsize), (COMPRESSED, 0)):
        message = f"it has version {version} and rows of {row_bytes} bytes"
        raise _damaged_file(path, message, "a newer Benchwright reads it")
    text = file.read(min(length, LONGEST_JSON))
    if len(text) < length or zlib.crc32(text) != crc:
        raise _damaged_file(path, "its header is damaged or cut short")
    return version, text


def _block(
    file: IO[bytes], head: bytes, version: int, what: str, path: SamplesPath
) -> tuple[int, bytes]:
    """Return the number of rows of a block, and what follows its head."""
    if len(head) < BLOCK_HEAD.size:
        raise _damaged_file(path, f"{what} is cut short")
    mark, length, number, crc = BLOCK_HEAD.unpack(head)
    possible = length == number * ROW.itemsize
    if version == COMPRESSED:
        possible = length <= _LENGTHS.size + len(_COLUMNS) * LONGEST_INTEGER * number
    if mark != BLOCK or number > BLOCK_ROWS or not possible:
        raise _damaged_file(path, f"{what} has no valid head")
    data = file.read(length)
    if len(data) < length:
        raise _damaged_file(path, f"{what} is cut short")
    if zlib.crc32(struct.pack("<II", length, number) + data) != crc:
        raise _damaged_file(path, f"{what} has another checksum than its rows")
    return number, data


_COLUMNS = tuple(ROW.names or ())[:-1]
_LENGTHS = struct.Struct(f"<{len(_COLUMNS)}I")


def _decoded(data: bytes, number: int, what: str, path: SamplesPath) -> NDArray[np.void]:
    """Return the rows of a compressed block (docs/trace-format.md)."""
    at, value = _LENGTHS.size, {}
    lengths = _LENGTHS.unpack_from(data) if len(data) >= at else ()
    for name, length in zip(_COLUMNS, lengths, strict=False):
        column = _integers(data[at : at + length], number)
        at += length
        if column is not None:
            value[name] = column
    if at != len(data) or len(value) < len(_COLUMNS):
        raise _damaged_file(path, f"{what} has no valid columns")
    for name in ("intended", "offset", "size", "stream", "device", "kind"):
        value[name] = np.cumsum(value[name], dtype=np.uint64)
    value["issued"] += value["intended"]
    value["completed"] += value["issued"]
    value["result"] += value["size"]
    rows = np.zeros(number, ROW)
    for name, column in value.items():
        rows[name] = column.astype(ROW[name])
    return rows


def _integers(data: bytes, number: int) -> NDArray[np.uint64] | None:
    """Return the numbers of a column `(number,)`, negative ones modulo 2^64; None if it has others
    than these."""
    if not data:
        return np.zeros(number, np.uint64)
    parts = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(parts < 0x80)
    if len(ends) != number or ends[-1] != len(parts) - 1:
        return None
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts + 1
    if lengths.max() > LONGEST_INTEGER:
        return None
    places = np.arange(len(parts)) - np.repeat(starts, lengths)
    shifted = (parts & 0x7F).astype(np.uint64) << (7 * places).astype(np.uint64)
    whole = np.add.reduceat(shifted, starts)
    # The lowest bit is the sign.
    return (whole >> np.uint64(1)) ^ (np.uint64(0) - (whole & np.uint64(1)))


def _damaged_file(path: SamplesPath, message: str, hint: str = "") -> InputError:
    hint = hint or "`bw trace convert --lenient` saves what is whole"
    place = Diagnostic("samples-file", message, hint, file=os.fspath(path))
    return InputError([place])


# -- One file of several ----------------------------------------------------------------


def merge_samples(parts: Sequence[tuple[str, Path]], into: Path, started_ns: int) -> int:
    """Write the rows of files into a new one, in the order of their intended starts; return their
    number.

    `parts`: the name of a host, and the file that its engine wrote; the workers of the new file are
    `HOST worker N`. `started_ns`: CLOCK_REALTIME at time zero [ns]. Memory: 16 bytes a row. Raises
    InputError for a damaged file, OSError.
    """
    devices: list[str] = []
    intended: list[NDArray[np.uint64]] = [np.zeros(0, np.uint64)]
    source = ""
    with tempfile.TemporaryFile(dir=into.parent) as together:
        for name, path in parts:
            with open_regular(path) as file:
                header = json.loads(_header(file, path)[1])
            source = header["source"]
            for rows in iter_samples(path):
                own = rows.copy()
                own["device"] += len(devices)
                intended.append(own["intended"].copy())
                together.write(own.tobytes())
            devices += [f"{name} {worker}" for worker in header["devices"]]
        together.flush()
        order = np.argsort(np.concatenate(intended), kind="stable")
        # An empty file cannot be mapped.
        every = np.memmap(together, ROW, "r") if len(order) else np.zeros(0, ROW)
        head = _encoded_header(
            content="samples", source=source, devices=devices, started_ns=started_ns
        )
        with into.open("xb") as merged:
            merged.write(head)
            for first in range(0, len(order), BLOCK_ROWS):
                merged.write(block_of(every[order[first : first + BLOCK_ROWS]]))
            merged.write(end_block())
    return len(order)
