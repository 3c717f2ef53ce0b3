"""Applies settings as a transaction with a log, a file that only the user or root could have
written; restores them, and detects changes that did not last.

A change did not last if the old value is read when it is undone, although the new value had
been read back: systemd may disable a controller again, tuned may reset a governor. Decision:
this is reported only for settings that do not change without a cause. Services, processes and
their groups start and stop, and an interrupt is set again with its device. A second restore
that continues an interrupted one finds old values that the first one restored.

Decision: of the log the open descriptor is checked, not the path before opening: another program
could replace the file between the check and the opening. Symbolic links are not followed, and
opening a pipe does not block.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path

import msgspec

from benchwright.core.errors import BenchError
from benchwright.core.untrusted import others_could_write
from benchwright.features.quiet.host import Host, Setting, SettingPlan, SettingRefused, unavailable
from benchwright.features.quiet.log_path import LOG
from benchwright.features.quiet.settings import REGISTRY
from benchwright.features.quiet.types import (
    AS_BEFORE,
    FAILED,
    FOREIGN,
    GONE,
    WRITTEN,
    AppliedChange,
    QuietOwner,
    QuietResult,
    RequestedSetting,
    RestoreResult,
    RevertedChange,
    SettingChange,
    UnavailableSetting,
)
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


_TRANSIENT = ("services", "irq-affinity")
_STEPS = ("controller", "group", "cpus")
"""The steps of isolation that last; its other steps move processes."""


def was_reverted(one: RevertedChange, seen: str | None) -> bool:
    """Return whether another program had reverted a change before we undid it.

    `seen` is the value that was read after the change was made.
    """
    change = one.change
    if change.action or change.keep or not seen or seen == change.old:
        return False
    if one.how == AS_BEFORE:
        return _stays(change)
    return one.how == GONE and _stays(change) and _should_be_there(change)


def _stays(change: SettingChange) -> bool:
    if change.setting == "isolation":
        return change.item.partition(" ")[0] in _STEPS
    return change.setting not in _TRANSIENT


def _should_be_there(change: SettingChange) -> bool:
    """Return whether another program removed a missing item.

    An item may also be missing with its whole group, or because its device is off.
    """
    if change.setting == "isolation":
        return Path(change.item.partition(" ")[2]).parent.is_dir()
    return change.setting != "swap"


# -- Quieting and restoring as a transaction: durable, verified, undone in reverse -----
#
# Each change is logged with its old and new value before it is made, and is read back after
# it. Undoing reads the present value first: the old value (a boot reset it) needs nothing,
# our value is replaced, and any other value (another program wrote it) is left and reported.
# Decision: undoing continues after a failure and keeps the remaining changes in the log.
# Rejected: a list of old values, written at the end; a crash before that would leave no log.

Registry = Mapping[str, Setting]


def plans(
    host: Host, wishes: Sequence[RequestedSetting], registry: Registry = REGISTRY
) -> list[tuple[RequestedSetting, SettingPlan]]:
    """Return what each setting would do now."""
    return [(wish, _planned(host, registry[wish.name], wish)) for wish in wishes]


def _planned(host: Host, setting: Setting, wish: RequestedSetting) -> SettingPlan:
    try:
        return setting.plan(host, wish)
    except SettingRefused as refused:
        return unavailable(str(refused))


class Transaction:
    """Changes that are being made, and their log."""

    def __init__(self, host: Host, log: TransactionLog, registry: Registry = REGISTRY) -> None:
        self._host = host
        self._log = log
        self._registry = registry
        self._number = 0

    def apply(self, begin: BeginRecord, wishes: Sequence[RequestedSetting]) -> QuietResult:
        """Make all changes, setting by setting; return which were made and which not."""
        self._log.add(begin)
        done: list[AppliedChange] = []
        absent: list[UnavailableSetting] = []
        already = []
        for wish in wishes:
            # Plan again: an earlier change (SMT off) may have changed the machine.
            plan = _planned(self._host, self._registry[wish.name], wish)
            absent += (UnavailableSetting(wish.name, why) for why in plan.lacking)
            if not plan.changes and not plan.lacking:
                already.append(wish.name)
            first = self._number + 1
            for change in plan.changes:
                made = self._make(change)
                if isinstance(made, AppliedChange):
                    done.append(made)
                    absent += _transaction_findings(made)
                else:
                    absent.append(made)
            self._look_again(first, plan.changes)
        return QuietResult(tuple(done), tuple(absent), tuple(already))

    def _make(self, change: SettingChange) -> AppliedChange | UnavailableSetting:
        setting = self._registry[change.setting]
        self._number += 1
        self._log.add(ChangeRecord(self._number, change))
        try:
            note = "" if change.keep else setting.write(self._host, change, change.new)
            value = setting.read(self._host, change)
        except SettingRefused as refused:
            # Not closed: a change may fail half-way. Undoing checks the item again.
            return UnavailableSetting(change.setting, str(refused))
        if not change.keep:
            self._log.add(VerifiedRecord(self._number, value or ""))
        return AppliedChange(change, value or "", note)

    def _look_again(self, first: int, changes: Sequence[SettingChange]) -> None:
        """Log the values of preserved files after the change that disturbs them.

        A different value later means that another program changed the file. Without this
        record (we were killed before it) that is unknown, and the old value is written.
        """
        for number, change in enumerate(changes, start=first):
            if change.keep:
                with contextlib.suppress(SettingRefused):
                    value = self._registry[change.setting].read(self._host, change)
                    self._log.add(VerifiedRecord(number, value or ""))


def _transaction_findings(applied_change: AppliedChange) -> Iterator[UnavailableSetting]:
    """Yield what a change did not achieve, although no write failed."""
    change = applied_change.change
    if applied_change.note:
        yield UnavailableSetting(change.setting, applied_change.note)
    if applied_change.value != change.new and not change.keep:
        why = f"{change.place} is {applied_change.value!r} after {change.new!r} was written"
        yield UnavailableSetting(change.setting, why)


def restore(
    host: Host, log: TransactionLog, contents: LogContents, registry: Registry = REGISTRY
) -> RestoreResult:
    """Undo the changes in a log, the last one first; remove the log if nothing is left."""
    if contents.begin is None:
        return RestoreResult(QuietOwner(0, 0, ""), log=_finished(log))
    undone: list[RevertedChange] = []
    owner = contents.begin.owner
    rebooted = owner.boot_id != host.boot_id
    # No earlier restore was started.
    whole = not rebooted and len(contents.changes) == contents.count
    for intent, seen in reversed(contents.changes):
        ours = {seen, *_put_back(intent.change.item, undone)}
        change = _undo(host, registry, intent.change, ours)
        if whole and was_reverted(change, seen):
            change = msgspec.structs.replace(change, lost=True)
        undone.append(change)
        if change.how != FAILED:
            # A full disk must not stop the rest: a change that is not closed is undone again.
            with contextlib.suppress(OSError):
                log.add(ClosedRecord(intent.number, change.how, change.value))
    restored = RestoreResult(owner, tuple(undone), rebooted, place=str(log.path))
    if restored.failed:
        log.close()
        return restored
    return msgspec.structs.replace(restored, log=_finished(log))


def _finished(log: TransactionLog) -> str:
    """Remove a log; return why it could not be removed, else an empty text."""
    try:
        log.finish()
    except OSError as error:
        log.close()
        return (
            f"what was changed is undone, but the log {log.path} cannot be removed "
            f"({error.strerror}): remove it"
        )
    return ""


def unchanged(host: Host, contents: LogContents) -> bool:
    """Return whether no change in a log needs to be restored."""
    return all(
        intent.change.action or _as_before(host, REGISTRY, intent.change)
        for intent, _ in contents.changes
    )


def _as_before(host: Host, registry: Registry, change: SettingChange) -> bool:
    try:
        setting = registry[change.setting]
        setting.check(host, change)
        # None: the item no longer exists (a process that ended) and cannot be restored.
        return setting.read(host, change) in (None, change.old)
    except SettingRefused:
        return False


def _put_back(item: str, undone: Sequence[RevertedChange]) -> Iterator[str]:
    """Yield the values that an item got when our later changes of it were undone."""
    for change in undone:
        if change.change.item == item and change.how in (WRITTEN, AS_BEFORE):
            yield change.change.old


def _undo(
    host: Host, registry: Registry, change: SettingChange, ours: Set[str | None]
) -> RevertedChange:
    """Undo one change; `ours` are the values it can have if no other program changed it.

    None among these: the value was not read back after the change.
    """
    if change.action:
        return RevertedChange(change, AS_BEFORE)
    setting = registry.get(change.setting)
    if setting is None:
        return RevertedChange(change, FAILED, why=f"this bw knows no setting {change.setting!r}")
    try:
        setting.check(host, change)
        value = setting.read(host, change)
        if value is None:
            return RevertedChange(change, GONE)
        if value == change.old:
            return RevertedChange(change, AS_BEFORE, value)
        unknown = change.keep and None in ours
        if value not in (change.new, *ours) and not unknown:
            return RevertedChange(change, FOREIGN, value)
        setting.write(host, change, change.old)
        return _verified(change, setting.read(host, change))
    except SettingRefused as refused:
        return RevertedChange(change, FAILED, why=str(refused))


def _verified(change: SettingChange, value: str | None) -> RevertedChange:
    if value == change.old:
        return RevertedChange(change, WRITTEN, value)
    why = f"it is {value!r} after {change.old!r} was written"
    return RevertedChange(change, FAILED, value or "", why)
