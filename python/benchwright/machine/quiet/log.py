"""Files that may be obeyed: the user's or root's own, and nobody else can write them.

Decision: what was opened is checked, and not its name before: a name can be given to
another file between the two. A link is not followed, and a pipe cannot hold us.
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
from benchwright.core.quiet import QuietOwner, SettingChange
from benchwright.core.untrusted import others_could_write
from benchwright.machine.quiet.log_path import LOG
from benchwright.study.directory import sync_directory

_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NOT_PLAIN = (errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EISDIR)


def open_trusted(path: Path, flags: int) -> int:
    """Return a descriptor of a plain file, its directory checked as well.

    Raises BenchError `quiet-unsafe`; OSError where it cannot be opened.
    """
    directory = _open(path.parent, os.O_PATH | os.O_DIRECTORY, path.parent)
    try:
        return _open(Path(path.name), flags, path, directory)
    finally:
        os.close(directory)


def check_directory(path: Path) -> None:
    """Raise BenchError `quiet-unsafe` for a directory that others could write."""
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


# -- The log of a transaction: what is changed, durable before it is -------------------
#
# Form: JSON objects, one a line, appended and synced one by one. A last line without its
# newline was cut short by a crash; what it would have told had not been begun, so it is
# dropped. Decision: a file of lines and no database: it is read at boot, by hand too.

VERSION = 1


class BeginRecord(msgspec.Struct, frozen=True, tag="begin"):
    """The first line."""

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
    """A change was made, and this was read back."""

    number: int
    value: str


class ClosedRecord(msgspec.Struct, frozen=True, tag="closed"):
    """A change needs no more attention: it was undone, or refused."""

    number: int
    how: str
    value: str


LogRecord = BeginRecord | ChangeRecord | VerifiedRecord | ClosedRecord
_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[LogRecord] = msgspec.json.Decoder(LogRecord)


class LogContents(msgspec.Struct, frozen=True):
    """What a log reports."""

    begin: BeginRecord | None
    """None: its owner was killed before the first line was whole; nothing was changed."""
    changes: tuple[tuple[ChangeRecord, str | None], ...]
    """Those that are not closed, oldest first, with what was read back."""
    count: int
    """How many changes were started at all."""


class TransactionLog:
    """A log that is open for appending."""

    def __init__(self, path: Path, *, after: Callable[[], None] = lambda: None) -> None:
        self.path = path
        self.added: list[LogRecord] = []
        """What was made durable by this object: known without the file."""
        self._after = after
        new = not path.exists()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        self._descriptor = open_trusted(path, flags)
        if new:
            sync_directory(path.parent)
        self._end = self._cut()

    def _cut(self) -> int:
        """Drop a last line that a crash cut short; return where the next one begins."""
        end = _read_whole(self._descriptor).rfind(b"\n") + 1
        os.ftruncate(self._descriptor, end)
        return end

    def add(self, record: LogRecord) -> None:
        """Append a record; it is durable when this returns.

        Raises OSError (a full disk); the log is then as it was before.
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
        """Remove the log: nothing of ours is left. Raises OSError where it stays."""
        self.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            # A power loss may bring it back: undoing reads first, and finds all done.
            sync_directory(self.path.parent)
        self.close()

    def close(self) -> None:
        """Close the file and keep it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class NoLog(TransactionLog):
    """What stands for a log where none can be stored: nothing is written."""

    def __init__(self, lost: Path | None = None) -> None:
        """`lost`: our own log that cannot be used; None where what is there is not ours."""
        self.added = []
        self._lost = lost
        if lost is not None:
            self.path = lost

    def add(self, record: LogRecord) -> None:
        """Keep nothing."""

    def finish(self) -> None:
        """Remove what was lost: it reports changes that are undone. Raises OSError."""
        if self._lost is not None:
            self._lost.unlink(missing_ok=True)

    def close(self) -> None:
        """Close nothing."""


def read_log(directory: Path) -> LogContents | None:
    """Return what the log of a directory reports, None when there is none.

    Raises BenchError: `quiet-unsafe` where others could have written it, before a word of
    it is read; `quiet-log-damaged`; `quiet-state`.
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
    """Return the error for a log that cannot be stored, and so nothing is changed."""
    return BenchError(
        "quiet-state",
        f"cannot record the changes in {error.filename or 'the log'}: {error.strerror}",
        "name a writable directory with free space: BW_STATE=DIR",
    )


def restore_error(error: OSError) -> BenchError:
    """Return the error for a log that cannot be used for putting the machine back."""
    return BenchError(
        "quiet-state",
        f"the log of what is changed, {error.filename or LOG}, cannot be used: "
        f"{error.strerror}",
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
        # A full disk takes a part and says nothing of it.
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
