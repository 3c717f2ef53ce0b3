"""Filaments in Python: a class that yields its operations ahead of time, in batches.

Purpose: patterns that TOML cannot describe. Decision: whole arrays of operations are
generated long before they are due and passed to the engine, so that Python never delays
one. Rejected: a callback for each event, which would put an interpreter between an
operation's time and its issue. Such a filament therefore cannot wait for a
completion; `closed` and `follow` can.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchwright.core.numeric import ArrayLike, NDArray, np
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
