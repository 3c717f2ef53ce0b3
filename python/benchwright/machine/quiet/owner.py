"""Who holds the machine: one at a time, known by process id, start and boot.

Source: Auto-pilot paper, section 3.5, for what root may trust.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from benchwright.machine.quiet.host import Host
from benchwright.machine.quiet.log import Contents, read_log, state_error
from benchwright.machine.quiet.place import LOCK
from benchwright.machine.quiet.trusted import check_directory, open_trusted
from benchwright.model.errors import BenchError
from benchwright.model.quiet import Owner


def owner_of(host: Host, pid: int, session: str = "") -> Owner:
    """Return the owner that a living process is; 0 stands for nobody."""
    process = host.process(pid) if pid else None
    return Owner(pid, process.start if process else 0, host.boot_id, session)


def alive(host: Host, owner: Owner) -> bool:
    """Tell whether a transaction still has its owner, and so is not to be undone.

    One that nobody owns (`--keep`) holds until the machine boots again.
    """
    if owner.boot_id != host.boot_id:
        return False
    if owner.pid == 0:
        return True
    process = host.process(owner.pid)
    return (
        process is not None
        and process.start == owner.start
        and process.state not in "ZX"
    )


class Lock:
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
        """Tell whether it still excludes others: its file was not removed meanwhile."""
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


def busy(host: Host, contents: Contents | None) -> BenchError:
    """Return the error that says who holds the machine."""
    owner = contents.begin.owner if contents and contents.begin else None
    if owner is None:
        who = "another bw is putting the machine in order, or back"
        hint = "wait for it to end"
    elif owner.pid == 0:
        who = "the machine is quiet already (bw quiet --keep)"
        hint = "`bw quiet --restore` puts it back"
    else:
        process = host.process(owner.pid)
        name = f" ({process.name})" if process else ""
        session = ", a session" if owner.session else ""
        who = f"process {owner.pid}{name}{session} holds the machine quiet"
        hint = "wait for it to end: it puts the machine back"
    error = BenchError("quiet-busy", who, hint)
    error.exit_status = 2
    return error


def prepare(directory: Path) -> None:
    """Make the directory, for its owner alone, and refuse one that others can write.

    What is in the log is written to the machine by root. Raises BenchError, OSError.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_directory(directory)
