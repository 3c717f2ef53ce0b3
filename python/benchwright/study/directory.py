"""The files of a study's directory: the journal's tables, the lock, and who may write."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

from benchwright.core.errors import StudyError

# -- The journal's tables; version 1 ---------------------------------------------------

JOURNAL = "journal.sqlite"
APPLICATION_ID = 0x62776A6C
"""`bwjl`, in the database's header."""
VERSION = 1

SCHEMA = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
BEGIN;
CREATE TABLE session (
    number INTEGER PRIMARY KEY,
    info BLOB NOT NULL,
    digest BLOB NOT NULL
) STRICT;
CREATE TABLE entry (
    seq INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES session (number),
    kind TEXT NOT NULL CHECK (
        kind IN (
            'begin', 'outcome', 'void', 'checkpoint', 'restore', 'stop', 'finding',
            'resume', 'end'
        )
    ),
    key TEXT NOT NULL,
    begin INTEGER REFERENCES entry (seq),
    payload BLOB NOT NULL,
    chain BLOB NOT NULL
) STRICT;
-- Nothing can be counted twice.
CREATE UNIQUE INDEX outcome_once ON entry (session, key) WHERE kind = 'outcome';
CREATE INDEX entry_by_kind ON entry (session, kind);
CREATE TRIGGER entry_never_changes BEFORE UPDATE ON entry
BEGIN SELECT raise(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER entry_never_goes BEFORE DELETE ON entry
BEGIN SELECT raise(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER session_never_changes BEFORE UPDATE ON session
BEGIN SELECT raise(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER session_never_goes BEFORE DELETE ON session
BEGIN SELECT raise(ABORT, 'the journal is append-only'); END;
COMMIT;
"""


def sync_directory(path: Path) -> None:
    """Make the names of a directory's files durable. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- Who may use a study: one writer at a time; root uses only root's own files --------
#
# Source: Auto-pilot paper, section 3.5: a checkpoint is resumed if root owns it and it is
# not world-writable. Group-writable files are refused too: a group could plant commands as well.

LOCK = "lock"
_ALLOWED_BEFORE_JOURNAL = {LOCK, "testroot"}
"""Names that a directory may contain before it becomes a study."""


class StudyLock:
    """An exclusive lock on a study, held until it is released or the process ends."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._descriptor = os.open(path / LOCK, flags, 0o600)
        except OSError as error:
            raise StudyError(
                "study-unusable",
                f"cannot write to {path / LOCK}: {error.strerror}",
                "a study is written to by its owner; read it, or give another --study",
            ) from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._descriptor, 64).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise StudyError(
                "study-locked",
                f"another bw (process {holder or 'unknown'}) is using {path}",
                "wait for it to end, or give another --study",
            ) from None

    def sign(self) -> None:
        """Write this process's id into the lock, for the message to other processes."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


def is_locked(path: Path) -> bool:
    """Return whether a writer holds a study's lock.

    A writer that starts at the same instant may be refused as `study-locked`, so this is
    called only for a study that looks damaged.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path / LOCK, flags)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def writer_of(path: Path) -> int | None:
    """Return the process that writes to a study; None if there is none.

    Takes no lock, so no writer that starts meanwhile is refused. Source: proc(5), /proc/locks.
    """
    try:
        inode = (path / LOCK).stat().st_ino
        held = Path("/proc/locks").read_text()
    except OSError:
        return None
    for line in held.splitlines():
        # 1: FLOCK  ADVISORY  WRITE 1234 fd:00:5678 0 EOF
        words = line.split()
        if words[1:4] == ["FLOCK", "ADVISORY", "WRITE"] and words[5].endswith(f":{inode}"):
            return int(words[4])
    return None


def make_directory(path: Path) -> None:
    """Make a study's directory, for its owner only.

    Raises StudyError `not-a-study` if it contains files of others, and `study-unusable` if it
    cannot be made or read.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        names = sorted(place.name for place in path.iterdir())
    except (FileExistsError, NotADirectoryError):
        file = next(one for one in (path, *path.parents) if one.exists())
        raise StudyError(
            "study-unusable",
            f"cannot use {path} as a study: {file} is a file, and a study is a directory",
            "name another directory: --study DIR",
        ) from None
    except OSError as error:
        raise StudyError(
            "study-unusable", f"cannot use {path} as a study: {error.strerror}"
        ) from None
    if JOURNAL in names:
        return
    # A draft of the journal may remain after a crash while the study was made. The
    # write-ahead log of a deleted journal must not: SQLite would replay it.
    foreign = [
        name
        for name in names
        if name not in _ALLOWED_BEFORE_JOURNAL and not name.startswith(f"{JOURNAL}.new")
    ]
    if foreign:
        raise StudyError(
            "not-a-study",
            f"{path} is not empty and not a study (it holds {foreign[0]!r})",
            "give a new or an empty directory; nothing in it was touched",
        )


def check_ownership(path: Path) -> None:
    """Raise StudyError `study-unsafe` if root would follow files that others can write."""
    if os.geteuid() != 0:
        return
    files = (JOURNAL, f"{JOURNAL}-wal", f"{JOURNAL}-shm", LOCK)
    for place in (path, *(path / name for name in files)):
        try:
            found = place.lstat()
        except FileNotFoundError:
            continue
        if stat.S_ISLNK(found.st_mode):
            real = f"give {os.path.realpath(path)}"
            remedy = real if place == path else "put the file itself in its place"
            raise _unsafe_study(place, "is a symbolic link", remedy)
        if found.st_uid != 0:
            raise _unsafe_study(
                place,
                f"belongs to user {found.st_uid}, not root",
                f"run bw as that user, or `chown -R root {path}`",
            )
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise _unsafe_study(
                place, "is writable by its group or by everyone", f"`chmod go-w {place}`"
            )


def _unsafe_study(place: Path, what: str, remedy: str) -> StudyError:
    return StudyError(
        "study-unsafe",
        f"{place} {what}: root does not run what others could have written",
        f"{remedy}, if you trust what it holds",
    )
