"""The log of a quiet transaction: a file that only the user or root could have written.

Decision: the open descriptor is checked, not the path before opening: another program could
replace the file between the check and the opening. Symbolic links are not followed, and
opening a pipe does not block.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from benchwright.core.errors import BenchError
from benchwright.core.untrusted import others_could_write
from benchwright.features.quiet.log_path import LOG
from benchwright.features.quiet.types import QuietOwner, SettingChange
from benchwright.study.directory import sync_directory

_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NOT_PLAIN = (errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EISDIR)


def open_trusted(path: Path, flags: int) -> int:
    """Return a descriptor of a regular file; the directory is checked as well.

    Raises BenchError `quiet-unsafe`; OSError if the file cannot be opened.
    """
    directory = _open(path.parent, os.O_PATH | os.O_DIRECTORY, path.parent)
    try:
        return _open(Path(path.name), flags, path, directory)
    finally:
        os.close(directory)


def check_directory(path: Path) -> None:
    """Raise BenchError `quiet-unsafe` if other users could write to the directory."""
    os.close(_open(path, os.O_PATH | os.O_DIRECTORY, path))


def _open(name: Path, flags: int, path: Path, directory: int | None = None) -> int:
    try:
        descriptor = os.open(name, flags | _SAFE, 0o600, dir_fd=directory)
    except OSError as error:
        if error.errno in _NOT_PLAIN:
            raise _unsafe(path, "it is a link, or not a regular file") from None
        error.filename = str(path)
        raise
    try:
        _check(path, os.fstat(descriptor), directory=bool(flags & os.O_DIRECTORY))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check(path: Path, found: os.stat_result, *, directory: bool) -> None:
    right = stat.S_ISDIR if directory else stat.S_ISREG
    if not right(found.st_mode):
        raise _unsafe(path, "it is not a regular file")
    if others_could_write(found, os.geteuid()):
        mode = stat.S_IMODE(found.st_mode)
        raise _unsafe(path, f"its owner is user {found.st_uid}, its mode {mode:04o}")


def _unsafe(path: Path, why: str) -> BenchError:
    return BenchError(
        "quiet-unsafe",
        f"{path} could have been written by others ({why})",
        "its changes are not restored: inspect it, and remove it",
    )


# -- The log of a transaction: each change is durable before it is made ----------------
#
# Form: one JSON object per line, appended and synced one by one. A last line without a
# newline was cut short by a crash; its change had not been started, so the line is
# dropped. Decision: a text file, not a database: people can read it, and it is read at boot.

VERSION = 1


class BeginRecord(msgspec.Struct, frozen=True, tag="begin"):
    """The first record."""

    owner: QuietOwner
    version: int
    wishes: tuple[str, ...]
    at: int
    """Seconds since 1970."""


class ChangeRecord(msgspec.Struct, frozen=True, tag="change"):
    """A change is about to be made."""

    number: int
    change: SettingChange


class VerifiedRecord(msgspec.Struct, frozen=True, tag="verified"):
    """A change was made; `value` was read back after it."""

    number: int
    value: str


class ClosedRecord(msgspec.Struct, frozen=True, tag="closed"):
    """A change that needs no more work: it was undone, or refused."""

    number: int
    how: str
    value: str


LogRecord = BeginRecord | ChangeRecord | VerifiedRecord | ClosedRecord
_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[LogRecord] = msgspec.json.Decoder(LogRecord)


class LogContents(msgspec.Struct, frozen=True):
    """The content of a log."""

    begin: BeginRecord | None
    """None: the owner was killed before it completed the first line; nothing was changed."""
    changes: tuple[tuple[ChangeRecord, str | None], ...]
    """Changes that are not closed, oldest first, each with the value that was read back."""
    count: int
    """Number of all changes that were started."""


class TransactionLog:
    """A log that is open for appending."""

    def __init__(self, path: Path, *, after: Callable[[], None] = lambda: None) -> None:
        self.path = path
        self.added: list[LogRecord] = []
        """Records that this object wrote; available even if the file is lost."""
        self._after = after
        new = not path.exists()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        self._descriptor = open_trusted(path, flags)
        if new:
            sync_directory(path.parent)
        self._end = self._cut()

    def _cut(self) -> int:
        """Drop a last line that a crash cut short; return the offset of the next line."""
        end = _read_whole(self._descriptor).rfind(b"\n") + 1
        os.ftruncate(self._descriptor, end)
        return end

    def add(self, record: LogRecord) -> None:
        """Append a record; it is durable when this returns.

        Raises OSError (for example: disk full); the log is then unchanged.
        """
        line = _ENCODER.encode(record) + b"\n"
        try:
            _write_whole(self._descriptor, line)
            os.fsync(self._descriptor)
        except OSError as error:
            os.ftruncate(self._descriptor, self._end)
            error.filename = str(self.path)
            raise
        self._end += len(line)
        self.added.append(record)
        self._after()

    def finish(self) -> None:
        """Remove the log: every change is undone. Raises OSError if it cannot be removed."""
        self.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            # After a power loss the file may exist again: a restore reads the values first
            # and finds that nothing is left to do.
            sync_directory(self.path.parent)
        self.close()

    def close(self) -> None:
        """Close the file and keep it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class NoLog(TransactionLog):
    """Replaces a log that cannot be stored: writes nothing."""

    def __init__(self, path: Path, *, ours: bool) -> None:
        """`ours`: whether the file there is our own log, which cannot be used."""
        self.added = []
        self.path = path
        self._ours = ours

    def add(self, record: LogRecord) -> None:
        """Discard the record."""

    def finish(self) -> None:
        """Remove the unusable log: its changes are undone by now. Raises OSError."""
        if self._ours:
            self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Do nothing: no file is open."""


def read_log(directory: Path) -> LogContents | None:
    """Return the content of the log in a directory; None if there is no log.

    Raises BenchError: `quiet-unsafe` if other users could have written it (nothing of it is
    read then); `quiet-log-damaged`; `quiet-state`.
    """
    path = directory / LOG
    try:
        text = _text(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise restore_error(error) from None
    return fold(_records(path, text))


def _text(path: Path) -> bytes:
    descriptor = open_trusted(path, os.O_RDONLY)
    try:
        return _read_whole(descriptor)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        os.close(descriptor)


def fold(records: Iterable[LogRecord]) -> LogContents:
    """Return the content of records, in the order in which the changes were started."""
    begin: BeginRecord | None = None
    changes: dict[int, tuple[ChangeRecord, str | None]] = {}
    count = 0
    for record in records:
        match record:
            case BeginRecord():
                begin = record
            case ChangeRecord(at):
                changes[at] = (record, None)
                count = max(count, at)
            case VerifiedRecord(at, value) if at in changes:
                changes[at] = (changes[at][0], value)
            case ClosedRecord(at):
                changes.pop(at, None)
    return LogContents(begin, tuple(changes[at] for at in sorted(changes)), count)


def state_error(error: OSError) -> BenchError:
    """Return the error for a log that cannot be stored; nothing is changed then."""
    return BenchError(
        "quiet-state",
        f"cannot record the changes in {error.filename or 'the log'}: {error.strerror}",
        "name a writable directory with free space: BW_STATE=DIR",
    )


def restore_error(error: OSError) -> BenchError:
    """Return the error for a log that cannot be used to restore the machine."""
    return BenchError(
        "quiet-state",
        f"the log of what is changed, {error.filename or LOG}, cannot be used: {error.strerror}",
        "make it and its directory readable and writable again, then "
        "run `bw quiet --restore`; it lists the changes in plain text",
    )


def _records(path: Path, text: bytes) -> Iterator[LogRecord]:
    for number, line in enumerate(text.split(b"\n")[:-1], start=1):
        try:
            record = _DECODER.decode(line)
        except msgspec.MsgspecError as error:
            raise _damaged(path, number, str(error)) from None
        if isinstance(record, BeginRecord) and record.version != VERSION:
            why = f"its version is {record.version}, not {VERSION}"
            raise _damaged(path, number, why)
        yield record


def _damaged(path: Path, number: int, why: str) -> BenchError:
    return BenchError(
        "quiet-log-damaged",
        f"{path}:{number}: not a record of `bw quiet`: {why}",
        "it lists the changes in plain text: restore them by hand, and remove it",
    )


def _read_whole(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def _write_whole(descriptor: int, line: bytes) -> None:
    if os.write(descriptor, line) != len(line):
        # On a full disk, write() stores a part and reports no error.
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
