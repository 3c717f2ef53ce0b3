"""How many pages of a file are in memory, by mincore(2).

Decision: mincore over a private mapping, through ctypes: it reads nothing in. What lost:
cachestat(2), which only kernels since 6.5 have. Source: mincore(2).
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


class Residency(msgspec.Struct, frozen=True):
    """Pages of a file, or of the files below a directory."""

    files: int = 0
    pages: int = 0
    resident: int = 0
    unread: int = 0
    """Files that could not be opened."""

    def plus(self, other: Residency) -> Residency:
        """Return both together."""
        return Residency(
            self.files + other.files,
            self.pages + other.pages,
            self.resident + other.resident,
            self.unread + other.unread,
        )


def residency(path: Path) -> Residency:
    """Return how much of a file, or of all regular files below a directory, is in memory."""
    total = Residency()
    for one in _regular_files(path):
        total = total.plus(_of_file(one))
    return total


def _regular_files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for directory, _, names in os.walk(path):
        places = (Path(directory, name) for name in names)
        yield from (p for p in places if p.is_file() and not p.is_symlink())


def _of_file(path: Path) -> Residency:
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            vector = _mincore(file.fileno(), size) if size else b""
    except OSError:
        return Residency(unread=1)
    return Residency(1, len(vector), sum(page & 1 for page in vector))


def _mincore(descriptor: int, size: int) -> Sequence[int]:
    """Return one byte a page, its lowest bit set where the page is in memory."""
    vector = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    # Writable and private: ctypes takes the address of writable memory only; untouched.
    memory = mmap.mmap(
        descriptor,
        size,
        flags=mmap.MAP_PRIVATE,
        prot=mmap.PROT_READ | mmap.PROT_WRITE,
    )
    view = (ctypes.c_ubyte * size).from_buffer(memory)
    try:
        if _LIBC.mincore(ctypes.addressof(view), size, vector):
            raise OSError(ctypes.get_errno(), "mincore")
    finally:
        del view
        memory.close()
    return bytes(vector)
