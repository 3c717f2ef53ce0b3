"""The interface of quieting: hold the machine quiet while something runs, then restore it.

Restoring also works if the log was lost or the owner died.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from benchwright.core.errors import BenchError, Diagnostic
from benchwright.features.quiet import log_path as place
from benchwright.features.quiet.host import DeferredSignals, Host
from benchwright.features.quiet.log_path import LOCK, LOG
from benchwright.features.quiet.settings import check_values
from benchwright.features.quiet.transaction import (
    VERSION,
    BeginRecord,
    LogContents,
    LogRecord,
    NoLog,
    Transaction,
    TransactionLog,
    VerifiedRecord,
    check_directory,
    fold,
    open_trusted,
    plans,
    read_log,
    restore,
    restore_error,
    state_error,
    unchanged,
)
from benchwright.features.quiet.types import (
    QuietOwner,
    QuietResult,
    RequestedSetting,
    RestoreResult,
)

# -- The owner of the machine: one at a time, identified by process id, start and boot -
#
# Source: Auto-pilot paper, section 3.5, for what root may trust.


def owner_of(host: Host, pid: int, session: str = "") -> QuietOwner:
    """Return the owner with this process id; process id 0 means no owner."""
    process = host.process(pid) if pid else None
    return QuietOwner(pid, process.started_ticks if process else 0, host.boot_id, session)


def alive(host: Host, owner: QuietOwner) -> bool:
    """Return whether the owner of a transaction lives, so that it must not be undone.

    A transaction without an owner (`--keep`) counts as alive until the next boot.
    """
    if owner.boot_id != host.boot_id:
        return False
    if owner.pid == 0:
        return True
    process = host.process(owner.pid)
    return (
        process is not None and process.started_ticks == owner.start and process.state not in "ZX"
    )


class MachineLock:
    """The exclusive right to change and restore settings; ends at the latest with the process."""

    def __init__(
        self, directory: Path, host: Host, trouble: Callable[[OSError], BenchError] = state_error
    ) -> None:
        """Take the lock.

        Raises BenchError: `quiet-busy`, `quiet-unsafe`, or the error that `trouble` returns.
        """
        self.directory = directory
        self._descriptor = -1
        path = directory / LOCK
        try:
            prepare(directory)
            self._descriptor = open_trusted(path, os.O_RDWR | os.O_CREAT)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise busy(host, read_log(directory)) from None
        except OSError as error:
            self.release()
            error.filename = error.filename or str(path)
            raise trouble(error) from None

    def held(self) -> bool:
        """Return whether the lock still excludes others: its file was not removed."""
        try:
            there = os.stat(self.directory / LOCK, follow_symlinks=False)
            return os.path.samestat(os.fstat(self._descriptor), there)
        except OSError:
            return False

    def release(self) -> None:
        """Release the lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def busy(host: Host, contents: LogContents | None) -> BenchError:
    """Return the error that names the owner of the machine."""
    owner = contents.begin.owner if contents and contents.begin else None
    if owner is None:
        who = "another bw is changing or restoring the machine's settings"
        hint = "wait for it to end"
    elif owner.pid == 0:
        who = "the machine is already quiet (bw quiet --keep)"
        hint = "`bw quiet --restore` restores it"
    else:
        process = host.process(owner.pid)
        name = f" ({process.name})" if process else ""
        session = ", a session" if owner.session else ""
        who = f"process {owner.pid}{name}{session} keeps the machine quiet"
        hint = "wait for it to end: it restores the machine"
    error = BenchError("quiet-busy", who, hint)
    error.exit_status = 2
    return error


def prepare(directory: Path) -> None:
    """Make the directory, accessible only to its owner; refuse one that others can write.

    Root applies what the log contains. Raises BenchError, OSError.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_directory(directory)


# -- Restores what this process changed, even if its log was lost ----------------------
#
# Purpose: while the machine is quiet, other programs can remove, cut or damage the log, and
# its disk can become full or read-only. This process still knows what it changed.
# Decision: the machine is restored, and the fate of the log is reported in
# `RestoreResult.log`. Rejected: an error, which would leave the machine changed. Our own log
# is removed while we still hold the lock: otherwise it would list changes that are already
# undone, and the next bw would stop, or undo what other programs have set since.

AfterRecord = Callable[[], None]


def restore_own(
    host: Host, lock: MachineLock, known: LogContents, after: AfterRecord
) -> RestoreResult:
    """Undo the changes of this process; use memory for changes missing from the log."""
    directory = lock.directory
    path = directory / LOG
    lost = NoLog(path, ours=lock.held())
    try:
        contents = read_log(directory)
        log = TransactionLog(path, after=after) if contents == known else None
    except BenchError as error:
        return _restore_without_log(host, lost, known, f"the log is lost: {error.message}")
    except OSError as error:
        how = f"{path} cannot be written any more ({error.strerror})"
        return _restore_without_log(host, lost, known, how)
    if log is not None:
        return restore(host, log, known)
    how = "was removed" if contents is None else "was changed"
    if contents is not None and contents.begin not in (None, known.begin):
        # The log of another process: ours was removed, and with it our lock.
        mended: TransactionLog = NoLog(path, ours=False)
    else:
        mended = _repaired_log(directory, contents, known, after) or lost
    return _restore_without_log(host, mended, known, f"{path} {how} by another program")


def _restore_without_log(
    host: Host, log: TransactionLog, log_contents: LogContents, how: str
) -> RestoreResult:
    restored = restore(host, log, log_contents)
    told = [f"{how}; the machine was restored without it", restored.log]
    return msgspec.structs.replace(restored, log="; ".join(filter(None, told)))


def _repaired_log(
    directory: Path, log_contents: LogContents | None, known: LogContents, after: AfterRecord
) -> TransactionLog | None:
    """Return the log with its missing records added; None if that is not possible."""
    try:
        prepare(directory)
        log = TransactionLog(directory / LOG, after=after)
    except (OSError, BenchError):
        return None
    try:
        for record in _missing_records(log_contents, known):
            log.add(record)
    except OSError:
        pass  # disk full: restore what can be restored nevertheless
    return log


def _missing_records(log_contents: LogContents | None, known: LogContents) -> Iterator[LogRecord]:
    if known.begin is not None and (log_contents is None or log_contents.begin is None):
        yield known.begin
    for change in known.changes:
        if log_contents is None or change not in log_contents.changes:
            intent, seen = change
            yield intent
            if seen is not None:
                yield VerifiedRecord(intent.number, seen)


# -- The functions that callers use ----------------------------------------------------
#
# A context manager for work inside this process (`bw quiet -- CMD`, a suite's `quiet`);
# `hold` for a state that outlives it (`--keep`); `restore_now` and `restore_dead` to restore.


class QuietRequest:
    """The requested settings, the machine, the state directory and the session."""

    def __init__(
        self,
        wishes: Sequence[RequestedSetting],
        *,
        places: Sequence[Diagnostic] = (),
        session: str = "",
        require: bool = False,
        host: Host | None = None,
        directory: Path | None = None,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        self.wishes = tuple(wishes)
        self.places = tuple(places)
        """Where each setting was requested; empty: messages quote the setting instead."""
        self.session = session
        self.require = require
        self.host = host or Host()
        self.directory = directory or Path(place.state_directory())
        self.after = after
        """Called after each durable record; a test can end the process in it."""


class Quieted:
    """A context manager: the machine is quiet inside it, and is always restored after it.

    Entering raises InputError for values that this machine does not accept, and BenchError:
    `quiet-busy`, `quiet-unavailable` (with `require`), `quiet-unsafe`, `quiet-state`. Changes
    that could not be undone are in `restored.failed`.
    """

    def __init__(self, request: QuietRequest) -> None:
        self._request = request
        self._lock: MachineLock | None = None
        self.quiet = QuietResult()
        self.late: RestoreResult | None = None
        """The changes of an earlier owner that was killed; restored on entering."""
        self.restored: RestoreResult | None = None
        """The result of restoring; set on leaving."""
        self._known: LogContents | None = None

    def __enter__(self) -> Quieted:
        try:
            with DeferredSignals():
                self._begin()
        except BaseException:
            # A deferred signal arrives here, before the body of the `with` starts.
            if self._lock is not None:
                self.__exit__(None, None, None)
            raise
        return self

    def _begin(self) -> None:
        request = self._request
        lock = MachineLock(request.directory, request.host)
        try:
            self.late = _clear(request)
        except BaseException:
            lock.release()
            raise
        self._lock = lock
        owner = owner_of(request.host, request.host.own_pid, request.session)
        self.quiet, self._known = _apply(request, owner, lock)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with DeferredSignals():
            self._leave()

    def _leave(self) -> None:
        request = self._request
        lock = self._lock
        try:
            if self._known is None or lock is None:
                self.restored = _restored_from_log(request.host, request.directory, request.after)
            else:
                self.restored = restore_own(request.host, lock, self._known, request.after)
        finally:
            if lock is not None:
                lock.release()


def hold(request: QuietRequest, owner_pid: int) -> tuple[QuietResult, RestoreResult | None]:
    """Make the machine quiet and leave it so; return the result, and what a dead owner left.

    The machine stays quiet while the process `owner_pid` lives, or, for 0, until
    `restore_now`. If nothing was changed, no log is left.
    """
    lock: MachineLock | None = None
    log_contents: LogContents | None = None
    try:
        with DeferredSignals():
            lock = MachineLock(request.directory, request.host)
            late = _clear(request)
            owner = owner_of(request.host, owner_pid, request.session)
            quiet, made = _apply(request, owner, lock)
            if unchanged(request.host, made):
                done = _restored_from_log(request.host, request.directory, request.after)
                _refuse_left(done, "this bw quiet")
            else:
                log_contents = made
        return quiet, late
    except BaseException:
        # A deferred signal: no message will report that the machine is quiet, so undo it.
        if lock is not None and log_contents is not None:
            with DeferredSignals():
                restore_own(request.host, lock, log_contents, request.after)
        raise
    finally:
        if lock is not None:
            lock.release()


def restore_now(host: Host, directory: Path, session: str = "") -> RestoreResult | None:
    """Restore the machine and return the result; None if it was not quiet.

    Restores only changes without an owner, of a dead owner, or of this session. Raises
    BenchError `quiet-busy` if another living process owns them.
    """
    if read_log(directory) is None:
        return None
    with DeferredSignals():
        lock = MachineLock(directory, host, restore_error)
        try:
            contents = read_log(directory)
            if contents is not None and contents.begin is not None:
                owner = contents.begin.owner
                ours = owner.pid == 0 or (session and owner.session == session)
                if not ours and alive(host, owner):
                    raise busy(host, contents)
            return _restored_from_log(host, directory)
        finally:
            lock.release()


def restore_session(session: str, host: Host | None = None) -> RestoreResult | None:
    """Restore what `bw quiet --keep` changed for a session, at its end; None if nothing."""
    directory = Path(place.state_directory())
    contents = read_log(directory)
    if contents is None or contents.begin is None:
        return None
    if contents.begin.owner.session != session:
        return None
    return restore_now(host or Host(), directory, session)


def restore_dead(host: Host, directory: Path) -> RestoreResult | None:
    """Restore the changes of a dead owner; None if there are none.

    Does nothing while another process holds the lock: that one is the owner, or is restoring.
    """
    contents = read_log(directory)
    if contents is None:
        return None
    if contents.begin is not None and alive(host, contents.begin.owner):
        return None
    try:
        return restore_now(host, directory)
    except BenchError as error:
        if error.code == "quiet-busy":
            return None
        raise


def discard(directory: Path) -> None:
    """Remove the directory of a transaction that is undone, if nothing else is in it."""
    with contextlib.suppress(OSError):
        (directory / LOCK).unlink(missing_ok=True)
        directory.rmdir()


def _clear(request: QuietRequest) -> RestoreResult | None:
    """Restore the changes of a dead owner. Raises BenchError if a living owner exists."""
    contents = read_log(request.directory)
    if contents is None:
        return None
    if contents.begin is not None and alive(request.host, contents.begin.owner):
        raise busy(request.host, contents)
    late = _restored_from_log(request.host, request.directory, request.after)
    _refuse_left(late, "an earlier bw quiet")
    return late


def _refuse_left(restored: RestoreResult | None, who: str) -> None:
    """Raise BenchError if a change could not be restored, or the log not removed."""
    if restored is not None and restored.failed:
        left = f"{who} left changes that cannot be restored: {_item_names(restored)}"
        raise BenchError("quiet-left", left, "see `bw quiet --status`")
    if restored is not None and restored.log:
        raise BenchError("quiet-state", restored.log)


def _item_names(restored: RestoreResult) -> str:
    return ", ".join(f"{u.change.setting} {u.change.place}" for u in restored.failed)


def _apply(
    request: QuietRequest, owner: QuietOwner, lock: MachineLock
) -> tuple[QuietResult, LogContents]:
    """Make the changes; return them, and the content that the log must now have.

    On failure they are undone; the error's message lists what could not be undone.
    Raises InputError, BenchError.
    """
    check_values(request.host, request.wishes, request.places)
    if request.require:
        _refuse_unavailable(request)
    try:
        log = TransactionLog(request.directory / place.LOG, after=request.after)
    except OSError as error:
        raise state_error(error) from None
    words = tuple(wish.name for wish in request.wishes)
    begin = BeginRecord(owner, VERSION, words, int(time.time()))
    try:
        quiet = Transaction(request.host, log).apply(begin, request.wishes)
        if request.require and quiet.lacking:
            raise _unavailable_error(quiet.lacking[0].setting, quiet.lacking[0].why, 1)
    except BaseException as error:
        log.close()
        undone = restore_own(request.host, lock, fold(log.added), request.after)
        if isinstance(error, OSError):
            error = state_error(error)
        if isinstance(error, BenchError):
            raise _with_left(error, undone) from None
        raise
    log.close()
    return quiet, fold(log.added)


def _with_left(error: BenchError, undone: RestoreResult) -> BenchError:
    """Return the error, extended by the changes that could not be undone after it."""
    told = [undone.log]
    if undone.failed:
        told.append(f"the changes cannot be undone: {_item_names(undone)}")
    left = "; ".join(filter(None, told))
    if not left:
        return error
    whole = BenchError(error.code, f"{error.message}; {left}", "see `bw quiet --status`")
    whole.exit_status = error.exit_status
    return whole


def _refuse_unavailable(request: QuietRequest) -> None:
    """Raise BenchError `quiet-unavailable` for an unavailable setting; changes nothing."""
    for wish, plan in plans(request.host, request.wishes):
        if plan.lacking:
            raise _unavailable_error(wish.name, plan.lacking[0], 2)


def _unavailable_error(setting: str, why: str, status: int) -> BenchError:
    error = BenchError(
        "quiet-unavailable",
        f"{setting} is unavailable: {why}",
        "omit --require to continue without it; nothing was changed",
    )
    error.exit_status = status
    return error


def _restored_from_log(
    host: Host, directory: Path, after: Callable[[], None] = lambda: None
) -> RestoreResult | None:
    contents = read_log(directory)
    if contents is None:
        return None
    try:
        log = TransactionLog(directory / place.LOG, after=after)
    except OSError as error:
        raise restore_error(error) from None
    return restore(host, log, contents)
