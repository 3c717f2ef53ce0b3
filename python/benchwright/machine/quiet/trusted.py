"""Files that may be obeyed: the user's or root's own, and nobody else can write them.

Decision: what was opened is looked at, and not its name before: a name can be given to
another file between the two. A link is not followed, and a pipe cannot hold us.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from benchwright.model.errors import BenchError
from benchwright.model.ownership import others_could_write

_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NOT_PLAIN = (errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EISDIR)


def open_trusted(path: Path, flags: int) -> int:
    """Return a descriptor of a plain file, its directory looked at as well.

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


def _open(name: Path, flags: int, told: Path, directory: int | None = None) -> int:
    try:
        descriptor = os.open(name, flags | _SAFE, 0o600, dir_fd=directory)
    except OSError as error:
        if error.errno in _NOT_PLAIN:
            raise _unsafe(told, "it is a link, or no plain file") from None
        error.filename = str(told)
        raise
    try:
        _check(told, os.fstat(descriptor), directory=bool(flags & os.O_DIRECTORY))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check(path: Path, found: os.stat_result, *, directory: bool) -> None:
    right = stat.S_ISDIR if directory else stat.S_ISREG
    if not right(found.st_mode):
        raise _unsafe(path, "it is no plain file")
    if others_could_write(found, os.geteuid()):
        mode = stat.S_IMODE(found.st_mode)
        raise _unsafe(path, f"its owner is user {found.st_uid}, its mode {mode:04o}")


def _unsafe(path: Path, why: str) -> BenchError:
    return BenchError(
        "quiet-unsafe",
        f"{path} could have been written by others ({why})",
        "what it says is not done to the machine: look at it, and remove it",
    )
