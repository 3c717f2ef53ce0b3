"""The log of a transaction: what is changed, durable before it is.

Form: JSON objects, one a line, appended and synced one by one. A last line without its
newline was cut short by a crash; what it would have told had not been begun, so it is
dropped. Decision: a file of lines and no database: it is read at boot, by hand too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from benchwright.machine.quiet.place import LOG
from benchwright.model.errors import BenchError
from benchwright.model.quiet import Change, Owner

VERSION = 1


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    """The first line."""

    owner: Owner
    version: int
    wishes: tuple[str, ...]
    at: int
    """Seconds since 1970."""


class Intent(msgspec.Struct, frozen=True, tag="change"):
    """A change is about to be made."""

    number: int
    change: Change


class Verified(msgspec.Struct, frozen=True, tag="verified"):
    """A change was made, and this was read back."""

    number: int
    value: str


class Closed(msgspec.Struct, frozen=True, tag="closed"):
    """A change needs no more attention: it was undone, or refused."""

    number: int
    how: str
    value: str


Record = Begin | Intent | Verified | Closed
_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


class Contents(msgspec.Struct, frozen=True):
    """What a log tells."""

    begin: Begin | None
    """None: its owner was killed before the first line was whole; nothing was changed."""
    changes: tuple[tuple[Intent, str | None], ...]
    """Those that are not closed, oldest first, with what was read back."""
    count: int
    """How many changes were begun at all."""


class Log:
    """A log that is open for appending."""

    def __init__(self, path: Path, *, after: Callable[[], None] = lambda: None) -> None:
        self.path = path
        self._after = after
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        new = not path.exists()
        self._descriptor = os.open(path, flags, 0o600)
        if new:
            _sync_directory(path.parent)
        else:
            self._cut()

    def _cut(self) -> None:
        """Drop a last line that a crash cut short: the next one must begin afresh."""
        text = self.path.read_bytes()
        os.ftruncate(self._descriptor, text.rfind(b"\n") + 1)

    def add(self, record: Record) -> None:
        """Append a record; it is durable when this returns."""
        os.write(self._descriptor, _ENCODER.encode(record) + b"\n")
        os.fsync(self._descriptor)
        self._after()

    def finish(self) -> None:
        """Remove the log: nothing of ours is left."""
        self.path.unlink(missing_ok=True)
        _sync_directory(self.path.parent)
        self.close()

    def close(self) -> None:
        """Close the file and keep it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read_log(directory: Path) -> Contents | None:
    """Return what the log of a directory tells, None when there is none.

    Raises BenchError `quiet-log-damaged`.
    """
    path = directory / LOG
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    begin: Begin | None = None
    changes: dict[int, tuple[Intent, str | None]] = {}
    count = 0
    for number, line in enumerate(text.split(b"\n")[:-1], start=1):
        record = _decoded(path, number, line)
        match record:
            case Begin():
                begin = record
            case Intent(at):
                changes[at] = (record, None)
                count = max(count, at)
            case Verified(at, value):
                changes[at] = (changes[at][0], value)
            case Closed(at):
                changes.pop(at, None)
    return Contents(begin, tuple(changes.values()), count)


def _decoded(path: Path, number: int, line: bytes) -> Record:
    try:
        record = _DECODER.decode(line)
    except msgspec.MsgspecError as error:
        raise _damaged(path, number, str(error)) from None
    if isinstance(record, Begin) and record.version != VERSION:
        raise _damaged(path, number, f"its version is {record.version}, not {VERSION}")
    return record


def _damaged(path: Path, number: int, why: str) -> BenchError:
    return BenchError(
        "quiet-log-damaged",
        f"{path}:{number}: not a record of `bw quiet`: {why}",
        "it says in plain text what was changed: put that back by hand, and remove it",
    )


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
