"""Holds the machine quiet while something runs and restores it afterwards, also without the
log and after an owner that died: what callers use."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from benchwright.core.errors import BenchError, Diagnostic
from benchwright.core.quiet import (
    QuietOwner,
    QuietResult,
    RequestedSetting,
    RestoreResult,
)
from benchwright.machine.quiet import log_path as place
from benchwright.machine.quiet.host import DeferredSignals, Host
from benchwright.machine.quiet.log import (
    VERSION,
    BeginRecord,
    LogContents,
    LogRecord,
    NoLog,
    TransactionLog,
    VerifiedRecord,
    check_directory,
    fold,
    open_trusted,
    read_log,
    restore_error,
    state_error,
)
from benchwright.machine.quiet.log_path import LOCK, LOG
from benchwright.machine.quiet.settings import check_values
from benchwright.machine.quiet.transaction import Transaction, plans, restore, unchanged

# -- Who holds the machine: one at a time, known by process id, start and boot ---------
#
# Source: Auto-pilot paper, section 3.5, for what root may trust.


def owner_of(host: Host, pid: int, session: str = "") -> QuietOwner:
    """Return the owner if its process is alive; 0 stands for no owner."""
    process = host.process(pid) if pid else None
    return QuietOwner(
        pid, process.started_ticks if process else 0, host.boot_id, session
    )


def alive(host: Host, owner: QuietOwner) -> bool:
    """Return whether a transaction still has its owner, and so is not to be undone.

    One without an owner (`--keep`) holds until the machine boots again.
    """
    if owner.boot_id != host.boot_id:
        return False
    if owner.pid == 0:
        return True
    process = host.process(owner.pid)
    return (
        process is not None
        and process.started_ticks == owner.start
        and process.state not in "ZX"
    )


class MachineLock:
    """The exclusive right to change and restore; ends with the process at the latest."""

    def __init__(
        self,
        directory: Path,
        host: Host,
        trouble: Callable[[OSError], BenchError] = state_error,
    ) -> None:
        """Take it. Raises BenchError: `quiet-busy`, `quiet-unsafe`, or what `trouble` makes."""
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
        """Return whether it still excludes others: its file was not removed meanwhile."""
        try:
            there = os.stat(self.directory / LOCK, follow_symlinks=False)
            return os.path.samestat(os.fstat(self._descriptor), there)
        except OSError:
            return False

    def release(self) -> None:
        """Give it up."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def busy(host: Host, contents: LogContents | None) -> BenchError:
    """Return the error that says who holds the machine."""
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
    """Make the directory, for its owner alone, and refuse one that others can write.

    What is in the log is written to the machine by root. Raises BenchError, OSError.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_directory(directory)


# -- Putting back what this process changed, whatever became of its log meanwhile ------
#
# Purpose: a log can be removed, cut or damaged by others, and its disk can be full or become
# read-only, while the machine is quiet. Whoever changed it still knows what it changed.
# Decision: the machine is restored, and what happened to the log is reported in
# `Restored.log`. What lost: an error, which would leave the machine changed. Our own log is
# removed then, while the lock is still ours: it would tell the next bw of changes that
# are undone, and stop it, or have it undo what others have set since.

AfterRecord = Callable[[], None]


def restore_own(
    host: Host, lock: MachineLock, known: LogContents, after: AfterRecord
) -> RestoreResult:
    """Undo what this process did; what the log no longer contains, from memory."""
    directory = lock.directory
    path = directory / LOG
    lost = NoLog(path if lock.held() else None)
    try:
        told = read_log(directory)
        log = TransactionLog(path, after=after) if told == known else None
    except BenchError as error:
        return _restore_without_log(
            host, lost, known, f"the log is lost: {error.message}"
        )
    except OSError as error:
        how = f"{path} cannot be written any more ({error.strerror})"
        return _restore_without_log(host, lost, known, how)
    if log is not None:
        return restore(host, log, known)
    how = "was removed" if told is None else "was changed"
    if told is not None and told.begin not in (None, known.begin):
        mended: TransactionLog = (
            NoLog()
        )  # another's: ours was removed, and with it our lock
    else:
        mended = _repaired_log(directory, told, known, after) or lost
    return _restore_without_log(host, mended, known, f"{path} {how} by another program")


def _restore_without_log(
    host: Host, log: TransactionLog, log_contents: LogContents, how: str
) -> RestoreResult:
    restored = restore(host, log, log_contents)
    told = [f"{how}; the machine was restored without it", restored.log]
    return msgspec.structs.replace(restored, log="; ".join(filter(None, told)))


def _repaired_log(
    directory: Path,
    log_contents: LogContents | None,
    known: LogContents,
    after: AfterRecord,
) -> TransactionLog | None:
    """Return the log with what it lacks; None where that cannot be."""
    try:
        prepare(directory)
        log = TransactionLog(directory / LOG, after=after)
    except (OSError, BenchError):
        return None
    try:
        for record in _missing_records(log_contents, known):
            log.add(record)
    except OSError:
        pass  # a full disk: what can be restored is restored nevertheless
    return log


def _missing_records(
    log_contents: LogContents | None, known: LogContents
) -> Iterator[LogRecord]:
    if known.begin is not None and (log_contents is None or log_contents.begin is None):
        yield known.begin
    for change in known.changes:
        if log_contents is None or change not in log_contents.changes:
            intent, seen = change
            yield intent
            if seen is not None:
                yield VerifiedRecord(intent.number, seen)


# -- The machine held quiet for as long as something runs: what callers use ------------
#
# A context manager for what lives in this process (`bw quiet -- CMD`, a suite's `quiet`);
# `hold` for what outlives it (`--keep`); `restore_now` and `restore_dead` for the rest.


class QuietRequest:
    """Settings that are wanted, where, and for whom."""

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
        """Where each wish is written (`Quieting.places`); empty: its words are shown."""
        self.session = session
        self.require = require
        self.host = host or Host()
        self.directory = directory or Path(place.state_directory())
        self.after = after
        """Called after each durable record; a test ends the process in it."""


class Quieted:
    """The machine quiet inside a `with`; as it was after it, whatever happened.

    Entering raises InputError for values that this machine does not take, and BenchError:
    `quiet-busy`, `quiet-lacking` (with `require`), `quiet-unsafe`, `quiet-state`. What
    could not be undone is in `restored.failed`.
    """

    def __init__(self, request: QuietRequest) -> None:
        self._request = request
        self._lock: MachineLock | None = None
        self.quiet = QuietResult()
        self.late: RestoreResult | None = None
        """What an earlier one that was killed had left, restored on entering."""
        self.restored: RestoreResult | None = None
        """What became of it all; there after leaving."""
        self._known: LogContents | None = None

    def __enter__(self) -> Quieted:
        try:
            with DeferredSignals():
                self._begin()
        except BaseException:
            # A signal that waited: what it interrupts is this very `with`.
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
                self.restored = _restored_from_log(
                    request.host, request.directory, request.after
                )
            else:
                self.restored = restore_own(
                    request.host, lock, self._known, request.after
                )
        finally:
            if lock is not None:
                lock.release()


def hold(
    request: QuietRequest, owner_pid: int
) -> tuple[QuietResult, RestoreResult | None]:
    """Make the machine quiet and leave it so; return that, and what was undone late.

    It holds while the process `owner_pid` lives, or, for 0, until `restore_now`.
    Where nothing was changed nothing is held: no log is left.
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
                done = _restored_from_log(
                    request.host, request.directory, request.after
                )
                _refuse_left(done, "this bw quiet")
            else:
                log_contents = made
        return quiet, late
    except BaseException:
        # A signal that waited: no message will say that the machine is quiet.
        if lock is not None and log_contents is not None:
            with DeferredSignals():
                restore_own(request.host, lock, log_contents, request.after)
        raise
    finally:
        if lock is not None:
            lock.release()


def restore_now(host: Host, directory: Path, session: str = "") -> RestoreResult | None:
    """Put the machine back; return what became of it, None when it was not quiet.

    Raises BenchError `quiet-busy` while another process lives that holds it: only what is
    held without an owner, for a dead one or for this session is restored.
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
    """Put back what `bw quiet --keep` keeps for a session, at its end; mostly None.

    It costs one stat where nothing is stored.
    """
    directory = Path(place.state_directory())
    try:
        os.stat(directory / place.LOG)
    except OSError:
        return None
    contents = read_log(directory)
    if contents is None or contents.begin is None:
        return None
    if contents.begin.owner.session != session:
        return None
    return restore_now(host or Host(), directory, session)


def restore_dead(host: Host, directory: Path) -> RestoreResult | None:
    """Put back what an owner that is dead had changed; None when there is none.

    While another process holds the lock there is nothing to do: it is alive, or restoring.
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


def _clear(request: QuietRequest) -> RestoreResult | None:
    """Restore what a dead owner left. Raises BenchError where there is a living one."""
    contents = read_log(request.directory)
    if contents is None:
        return None
    if contents.begin is not None and alive(request.host, contents.begin.owner):
        raise busy(request.host, contents)
    late = _restored_from_log(request.host, request.directory, request.after)
    _refuse_left(late, "an earlier bw quiet")
    return late


def _refuse_left(restored: RestoreResult | None, who: str) -> None:
    """Raise BenchError where something could not be restored, or its log stays."""
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
    """Make the changes; return them, and what the log must record of them now.

    They are undone again when that fails; what cannot be is in the error's message.
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
    """Return an error that also shows what could not be undone after it."""
    told = [undone.log]
    if undone.failed:
        told.append(f"the changes cannot be undone: {_item_names(undone)}")
    left = "; ".join(filter(None, told))
    if not left:
        return error
    whole = BenchError(
        error.code, f"{error.message}; {left}", "see `bw quiet --status`"
    )
    whole.exit_status = error.exit_status
    return whole


def _refuse_unavailable(request: QuietRequest) -> None:
    """Raise BenchError `quiet-lacking`, before anything is changed."""
    for wish, plan in plans(request.host, request.wishes):
        if plan.lacking:
            raise _unavailable_error(wish.name, plan.lacking[0], 2)


def _unavailable_error(setting: str, why: str, status: int) -> BenchError:
    error = BenchError(
        "quiet-lacking",
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
