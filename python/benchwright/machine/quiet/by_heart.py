"""Putting back what this process changed, whatever became of its log meanwhile.

Purpose: a log can be removed, cut or damaged by others, and its disk can be full or become
read-only, while the machine is quiet. Whoever changed it still knows what it changed.
Decision: the machine is put back, and what happened to the log is told in
`Restored.log`. What lost: an error, which would leave the machine changed. Our own log is
removed then, while the lock is still ours: it would tell the next bw of changes that
are undone, and stop it, or have it undo what others have set since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from benchwright.machine.quiet.host import Host
from benchwright.machine.quiet.log import (
    Contents,
    Log,
    Nowhere,
    Record,
    Verified,
    read_log,
)
from benchwright.machine.quiet.owner import Lock, prepare
from benchwright.machine.quiet.place import LOG
from benchwright.machine.quiet.transaction import restore
from benchwright.model.errors import BenchError
from benchwright.model.quiet import Restored

After = Callable[[], None]


def put_back(host: Host, lock: Lock, known: Contents, after: After) -> Restored:
    """Undo what this process did; what the log does not tell any more, by heart."""
    directory = lock.directory
    path = directory / LOG
    lost = Nowhere(path if lock.held() else None)
    try:
        told = read_log(directory)
        log = Log(path, after=after) if told == known else None
    except BenchError as error:
        return _by_heart(host, lost, known, f"the log is lost: {error.message}")
    except OSError as error:
        how = f"{path} cannot be written any more ({error.strerror})"
        return _by_heart(host, lost, known, how)
    if log is not None:
        return restore(host, log, known)
    how = "was removed" if told is None else "was changed"
    if told is not None and told.begin not in (None, known.begin):
        mended: Log = Nowhere()  # another's: ours was removed, and with it our lock
    else:
        mended = _mended(directory, told, known, after) or lost
    return _by_heart(host, mended, known, f"{path} {how} by somebody else")


def _by_heart(host: Host, log: Log, known: Contents, how: str) -> Restored:
    restored = restore(host, log, known)
    told = [f"{how}; the machine was put back without it", restored.log]
    return msgspec.structs.replace(restored, log="; ".join(filter(None, told)))


def _mended(
    directory: Path, told: Contents | None, known: Contents, after: After
) -> Log | None:
    """Return the log with what it lacks; None where that cannot be."""
    try:
        prepare(directory)
        log = Log(directory / LOG, after=after)
    except (OSError, BenchError):
        return None
    try:
        for record in _missing(told, known):
            log.add(record)
    except OSError:
        pass  # a full disk: what can be put back is put back nevertheless
    return log


def _missing(told: Contents | None, known: Contents) -> Iterator[Record]:
    if known.begin is not None and (told is None or told.begin is None):
        yield known.begin
    for one in known.changes:
        if told is None or one not in told.changes:
            intent, seen = one
            yield intent
            if seen is not None:
                yield Verified(intent.number, seen)
