"""The machine held quiet for as long as something runs: what callers use.

A context manager for what lives in this process (`bw quiet -- CMD`, a suite's `quiet`);
`hold` for what outlives it (`--keep`); `restore_now` and `restore_dead` for the rest.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from benchwright.machine.quiet import place
from benchwright.machine.quiet.by_heart import put_back
from benchwright.machine.quiet.host import Host
from benchwright.machine.quiet.log import (
    VERSION,
    Begin,
    Contents,
    Log,
    fold,
    read_log,
    restore_error,
    state_error,
)
from benchwright.machine.quiet.owner import Lock, alive, busy, owner_of
from benchwright.machine.quiet.signals import Deferred
from benchwright.machine.quiet.transaction import Transaction, plans, restore, unchanged
from benchwright.machine.quiet.values import refuse_wrong
from benchwright.model.errors import BenchError, Diagnostic
from benchwright.model.quiet import Owner, Quiet, Restored, Wish


class Asked:
    """Settings that are wanted, where, and for whom."""

    def __init__(
        self,
        wishes: Sequence[Wish],
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

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._lock: Lock | None = None
        self.quiet = Quiet()
        self.late: Restored | None = None
        """What an earlier one that was killed had left, put back on entering."""
        self.restored: Restored | None = None
        """What became of it all; there after leaving."""
        self._known: Contents | None = None

    def __enter__(self) -> Quieted:
        try:
            with Deferred():
                self._begin()
        except BaseException:
            # A signal that waited: what it interrupts is this very `with`.
            if self._lock is not None:
                self.__exit__(None, None, None)
            raise
        return self

    def _begin(self) -> None:
        asked = self._asked
        lock = Lock(asked.directory, asked.host)
        try:
            self.late = _clear(asked)
        except BaseException:
            lock.release()
            raise
        self._lock = lock
        owner = owner_of(asked.host, asked.host.own_pid, asked.session)
        self.quiet, self._known = _apply(asked, owner, lock)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with Deferred():
            self._leave()

    def _leave(self) -> None:
        asked = self._asked
        lock = self._lock
        try:
            if self._known is None or lock is None:
                self.restored = _restored(asked.host, asked.directory, asked.after)
            else:
                self.restored = put_back(asked.host, lock, self._known, asked.after)
        finally:
            if lock is not None:
                lock.release()


def hold(asked: Asked, owner_pid: int) -> tuple[Quiet, Restored | None]:
    """Make the machine quiet and leave it so; return that, and what was undone late.

    It holds while the process `owner_pid` lives, or, for 0, until `restore_now`.
    Where nothing was changed nothing is held: no log is left.
    """
    lock: Lock | None = None
    known: Contents | None = None
    try:
        with Deferred():
            lock = Lock(asked.directory, asked.host)
            late = _clear(asked)
            owner = owner_of(asked.host, owner_pid, asked.session)
            quiet, made = _apply(asked, owner, lock)
            if unchanged(asked.host, made):
                done = _restored(asked.host, asked.directory, asked.after)
                _refuse_left(done, "this bw quiet")
            else:
                known = made
        return quiet, late
    except BaseException:
        # A signal that waited: nobody will be told that the machine is quiet.
        if lock is not None and known is not None:
            with Deferred():
                put_back(asked.host, lock, known, asked.after)
        raise
    finally:
        if lock is not None:
            lock.release()


def restore_now(host: Host, directory: Path, session: str = "") -> Restored | None:
    """Put the machine back; return what became of it, None when it was not quiet.

    Raises BenchError `quiet-busy` while another process lives that holds it: only what is
    kept for nobody, for a dead one or for this session is put back.
    """
    if read_log(directory) is None:
        return None
    with Deferred():
        lock = Lock(directory, host, restore_error)
        try:
            contents = read_log(directory)
            if contents is not None and contents.begin is not None:
                owner = contents.begin.owner
                ours = owner.pid == 0 or (session and owner.session == session)
                if not ours and alive(host, owner):
                    raise busy(host, contents)
            return _restored(host, directory)
        finally:
            lock.release()


def restore_session(session: str, host: Host | None = None) -> Restored | None:
    """Put back what `bw quiet --keep` keeps for a session, at its end; mostly None.

    It costs one stat where nothing is kept.
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


def restore_dead(host: Host, directory: Path) -> Restored | None:
    """Put back what an owner that is dead had changed; None when there is none.

    While somebody holds the lock there is nothing to do: it is alive, or restoring.
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


def _clear(asked: Asked) -> Restored | None:
    """Restore what a dead owner left. Raises BenchError where there is a living one."""
    contents = read_log(asked.directory)
    if contents is None:
        return None
    if contents.begin is not None and alive(asked.host, contents.begin.owner):
        raise busy(asked.host, contents)
    late = _restored(asked.host, asked.directory, asked.after)
    _refuse_left(late, "an earlier bw quiet")
    return late


def _refuse_left(restored: Restored | None, who: str) -> None:
    """Raise BenchError where something could not be put back, or its log stays."""
    if restored is not None and restored.failed:
        left = f"{who} left what cannot be put back: {_places(restored)}"
        raise BenchError("quiet-left", left, "see `bw quiet --status`")
    if restored is not None and restored.log:
        raise BenchError("quiet-state", restored.log)


def _places(restored: Restored) -> str:
    return ", ".join(f"{u.change.setting} {u.change.place}" for u in restored.failed)


def _apply(asked: Asked, owner: Owner, lock: Lock) -> tuple[Quiet, Contents]:
    """Make the changes; return them, and what the log must tell of them now.

    They are undone again when that fails; what cannot be is in the error's message.
    Raises InputError, BenchError.
    """
    refuse_wrong(asked.host, asked.wishes, asked.places)
    if asked.require:
        _refuse_lacking(asked)
    try:
        log = Log(asked.directory / place.LOG, after=asked.after)
    except OSError as error:
        raise state_error(error) from None
    words = tuple(wish.name for wish in asked.wishes)
    begin = Begin(owner, VERSION, words, int(time.time()))
    try:
        quiet = Transaction(asked.host, log).apply(begin, asked.wishes)
        if asked.require and quiet.lacking:
            raise _lacking_error(quiet.lacking[0].setting, quiet.lacking[0].why, 1)
    except BaseException as error:
        log.close()
        undone = put_back(asked.host, lock, fold(log.added), asked.after)
        if isinstance(error, OSError):
            error = state_error(error)
        if isinstance(error, BenchError):
            raise _with_left(error, undone) from None
        raise
    log.close()
    return quiet, fold(log.added)


def _with_left(error: BenchError, undone: Restored) -> BenchError:
    """Return an error that also tells what could not be undone after it."""
    told = [undone.log]
    if undone.failed:
        told.append(f"what was made cannot be undone: {_places(undone)}")
    left = "; ".join(filter(None, told))
    if not left:
        return error
    whole = BenchError(
        error.code, f"{error.message}; {left}", "see `bw quiet --status`"
    )
    whole.exit_status = error.exit_status
    return whole


def _refuse_lacking(asked: Asked) -> None:
    """Raise BenchError `quiet-lacking`, before anything is changed."""
    for wish, plan in plans(asked.host, asked.wishes):
        if plan.lacking:
            raise _lacking_error(wish.name, plan.lacking[0], 2)


def _lacking_error(setting: str, why: str, status: int) -> BenchError:
    error = BenchError(
        "quiet-lacking",
        f"{setting} cannot be had: {why}",
        "leave --require away to go on without it; the machine is as it was",
    )
    error.exit_status = status
    return error


def _restored(
    host: Host, directory: Path, after: Callable[[], None] = lambda: None
) -> Restored | None:
    contents = read_log(directory)
    if contents is None:
        return None
    try:
        log = Log(directory / place.LOG, after=after)
    except OSError as error:
        raise restore_error(error) from None
    return restore(host, log, contents)
