"""The journal's file: how it is made, opened, and checked for damage."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import sqlite3
import struct
from array import array
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import msgspec

from benchwright.core.errors import StudyError
from benchwright.core.untrusted import open_regular, regular_bytes
from benchwright.study.directory import (
    APPLICATION_ID,
    JOURNAL,
    SCHEMA,
    VERSION,
    is_locked,
    sync_directory,
)

# --------------------------------------------------------------------------------------
# Damage in a write-ahead log after a crash, which SQLite treats as the log's end.
#
# Purpose: distinguishes a log whose last transaction was torn from one that was damaged.
# SQLite reads a log up to the first frame whose checksum is wrong and ignores the rest,
# so a flipped byte would silently lose outcomes that were acknowledged. Decision: with
# synchronous=FULL a transaction is on the disk before the next one is written, so nothing
# follows a torn one; a commit after the break, with a frame after it, is damage. This
# requires that every writer starts a new log (`open_for_writing`). Non-goals: damage in the
# very last transaction looks like a torn one and is not detected; nothing is repaired.
# Source: sqlite.org/fileformat2, section 4 (the WAL format).

_LOG_HEADER_BYTES = 32
_FRAME_BYTES = 24
_WORD = 0xFFFFFFFF
_PAGE_SIZES = frozenset(1 << n for n in range(9, 17))


def log_is_damaged(path: Path) -> bool:
    """Return whether a write-ahead log has more after its first break than one torn
    transaction can leave. An empty or missing log is not damaged."""
    try:
        data = regular_bytes(path)
    except FileNotFoundError:
        return False
    if len(data) < _LOG_HEADER_BYTES:
        return False
    magic, _version, page = struct.unpack_from(">III", data)
    if magic & ~1 != 0x377F0682 or page not in _PAGE_SIZES:
        return len(data) > _LOG_HEADER_BYTES + _FRAME_BYTES
    return _continues_after(data, page, _intact(data, page, big_endian=bool(magic & 1)))


def _intact(data: bytes, page: int, *, big_endian: bool) -> int:
    """Return the offset of the first frame that is not as it was written [bytes]."""
    sums = _checksum(data[:24], (0, 0), big_endian=big_endian)
    at = _LOG_HEADER_BYTES
    if sums != struct.unpack_from(">II", data, 24):
        return at
    while at + _FRAME_BYTES + page <= len(data):
        covered = data[at : at + 8] + data[at + _FRAME_BYTES : at + _FRAME_BYTES + page]
        sums = _checksum(covered, sums, big_endian=big_endian)
        if data[at + 8 : at + 16] != data[16:24]:
            break
        if sums != struct.unpack_from(">II", data, at + 16):
            break
        at += _FRAME_BYTES + page
    return at


def _continues_after(data: bytes, page: int, at: int) -> bool:
    """Return whether a commit of this log, and a frame after it, follow an offset.

    Frames of this log bear the salts of its first frame (its header may be damaged).
    """
    step = _FRAME_BYTES + page
    salts = {data[16:24], data[_LOG_HEADER_BYTES + 8 : _LOG_HEADER_BYTES + 16]}
    committed = False
    for place in range(at, len(data) - step + 1, step):
        if data[place + 8 : place + 16] not in salts:
            continue
        if committed:
            return True
        (pages_after_commit,) = struct.unpack_from(">I", data, place + 4)
        committed = pages_after_commit != 0
    return False


def _checksum(data: bytes, sums: tuple[int, int], *, big_endian: bool) -> tuple[int, int]:
    """Return SQLite's running checksum of whole pairs of 32-bit words."""
    words = array("I", data)
    assert words.itemsize == 4
    if (struct.pack("=I", 1)[0] == 0) != big_endian:
        words.byteswap()
    first, second = sums
    pairs = iter(words)
    for even, odd in zip(pairs, pairs, strict=True):
        first = (first + even + second) & _WORD
        second = (second + odd + first) & _WORD
    return first, second


# --------------------------------------------------------------------------------------
# The journal's file: how it is made, opened, and checked for damage.
#
# Decision: a study is checked from end to end each time it is opened, for reading as well as
# for writing: a damaged one gives no figures. This is one pass over the file. Before a write it is
# checked through a connection that makes no files: `immutable` if there is no write-ahead
# log, else SQLite's lockless VFS with the log's index in memory. Rejected: a plain read-only
# connection, which makes `-wal` and `-shm` files in a directory that is then refused (observed
# with SQLite 3.40). Our own lock keeps writers out meanwhile.
# Non-goal: whole transactions missing at the end are not detected.
# Sources: sqlite.org (fileformat2 section 1.3, wal section 7 and 8, uri).

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100


def chain_hash(chain: bytes, head: tuple[object, ...], payload: bytes) -> bytes:
    """Return the hash of an entry and of all entries before it, 16 bytes."""
    return blake2b(chain + repr(head).encode() + payload, digest_size=16).digest()


def session_digest(info: bytes) -> bytes:
    """Return the hash of a session's record, 16 bytes."""
    return blake2b(info, digest_size=16).digest()


def create_journal(path: Path) -> None:
    """Make the journal under another name and rename it, so that it is complete or absent.

    The tables are made in the file itself, not in a write-ahead log: closing a log on a full
    disk reports no error, and the rename would leave the log behind.
    Raises sqlite3.Error, OSError.
    """
    draft = path / (JOURNAL + ".new")
    for old in path.glob(f"{JOURNAL}.new*"):
        old.unlink()
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    database = sqlite3.connect(draft, isolation_level=None)
    try:
        database.execute("PRAGMA synchronous = FULL")
        database.executescript(SCHEMA)
        _use_log(database)
    finally:
        database.close()
    if path.joinpath(f"{draft.name}-wal").exists():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    draft.rename(path / JOURNAL)
    for place in (path, path.parent):
        sync_directory(place)


def _use_log(database: sqlite3.Connection) -> None:
    """Write every commit to a write-ahead log. Raises sqlite3.OperationalError."""
    (mode,) = database.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise sqlite3.OperationalError(f"the write-ahead log is refused ({mode})")


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Return a connection whose every commit is durable."""
    database = sqlite3.connect(path / JOURNAL, isolation_level=None)
    _use_log(database)
    database.execute("PRAGMA synchronous = FULL")
    database.execute("PRAGMA foreign_keys = ON")
    # A new log can contain at most one torn transaction.
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return database


JournalIdentity = tuple[tuple[int, int] | None, ...]


def journal_identity(path: Path) -> JournalIdentity:
    """Return device and inode of a study's journal and of its write-ahead log; None for a file
    that does not exist."""
    return tuple(_device_and_inode(path / name) for name in (JOURNAL, f"{JOURNAL}-wal"))


def _device_and_inode(place: Path) -> tuple[int, int] | None:
    try:
        found = place.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def leave_open(database: sqlite3.Connection) -> None:
    """Keep a connection open until the process ends.

    SQLite deletes the write-ahead log by its name when it closes a journal: if the study was
    moved, the log of another study may now have that name.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(database))


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Return a read-only connection, even while another process writes.

    A study in a read-only place (an archive, another user's directory) is read as it is:
    without a write-ahead log no process is writing to it.
    """
    plain = not os.access(path, os.W_OK) and not _has_log(path)
    return _connect(path, "mode=ro&immutable=1" if plain else "mode=ro")


def open_for_checking(path: Path) -> sqlite3.Connection:
    """Return a connection that makes no files; the caller holds the study's lock."""
    if not _has_log(path):
        return _connect(path, "mode=ro&immutable=1")
    database = _connect(path, "mode=ro&vfs=unix-none")
    database.execute("PRAGMA locking_mode = EXCLUSIVE")
    return database


def _has_log(path: Path) -> bool:
    try:
        return (path / f"{JOURNAL}-wal").stat().st_size > 0
    except FileNotFoundError:
        return False


def _connect(path: Path, options: str) -> sqlite3.Connection:
    uri = f"{(path / JOURNAL).as_uri()}?{options}"
    return sqlite3.connect(uri, uri=True, isolation_level=None)


def check_header(path: Path) -> None:
    """Raise StudyError `not-a-study` or `journal-newer` unless the file's header is that of a
    journal that we can read.

    Reads only the file's first 100 bytes.
    """
    place = path / JOURNAL
    try:
        with open_regular(place) as file:
            head = file.read(_HEADER_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        raise StudyError(
            "not-a-study",
            f"{path} is not a study: it has no {JOURNAL}",
            "give the directory that --study named when the session started",
        ) from None
    except OSError as error:
        raise StudyError("study-unusable", f"cannot read {place}: {error.strerror}") from None
    if len(head) < _HEADER_BYTES or not head.startswith(_MAGIC):
        raise journal_damaged(path, "it is not an SQLite database")
    (version,) = struct.unpack_from(">I", head, 60)
    (application,) = struct.unpack_from(">I", head, 68)
    if application != APPLICATION_ID:
        raise StudyError("not-a-study", f"{place} is not a benchwright journal")
    if version > VERSION:
        raise StudyError(
            "journal-newer",
            f"the journal in {path} has version {version}, this bw reads versions up to {VERSION}",
            "use the version of benchwright that wrote it, or a newer one",
        )


def verify_journal(path: Path, database: sqlite3.Connection) -> None:
    """Raise StudyError unless every page and every row is as it was written."""
    (answer,) = database.execute("PRAGMA integrity_check(1)").fetchone()
    if answer != "ok":
        raise journal_damaged(path, str(answer))
    if _schema_of(database) != _schema():
        raise journal_damaged(path, "its tables were changed")
    for number, info, recorded in database.execute("SELECT number, info, digest FROM session"):
        if session_digest(info) != recorded:
            raise journal_damaged(
                path, f"the record of session {number} was changed after it was written"
            )
    verify_entries(path, database, VerifiedRows())


class VerifiedRows(msgspec.Struct, frozen=True):
    """The first entries of a journal, which were verified."""

    seq: int = 0
    """Sequence number of the last one."""
    chain: bytes = b""
    """Its hash, which covers all entries before it."""


def verify_entries(path: Path, database: sqlite3.Connection, before: VerifiedRows) -> VerifiedRows:
    """Verify the entries after verified ones; return all verified ones. Raises StudyError."""
    numbers = {number for (number,) in database.execute("SELECT number FROM session")}
    seq, chain = before.seq, before.chain
    rows = database.execute(
        "SELECT seq, session, kind, key, begin, payload, chain FROM entry "
        "WHERE seq > ? ORDER BY seq",
        (before.seq,),
    )
    for seq, session, kind, key, begin, payload, recorded in rows:
        chain = chain_hash(chain, (session, kind, key, begin), payload)
        if chain != recorded:
            raise journal_damaged(path, f"entry {seq} was changed after it was written")
        if session not in numbers:
            raise journal_damaged(path, f"session {session} of entry {seq} is missing")
    return VerifiedRows(seq, chain)


@functools.cache
def _schema() -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        made.executescript(SCHEMA)
        return _schema_of(made)


def _schema_of(database: sqlite3.Connection) -> list[tuple[object, ...]]:
    return database.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
    ).fetchall()


def verify_while_open(path: Path, database: sqlite3.Connection) -> None:
    """Verify, as `verify_journal`, the rows so far while another process may append."""
    check_log(path, locked=False)
    database.execute("BEGIN")
    try:
        verify_journal(path, database)
    finally:
        database.execute("ROLLBACK")


def check_log(path: Path, *, locked: bool) -> None:
    """Raise StudyError if the write-ahead log has lost acknowledged transactions.

    Without the study's lock a log is checked only if no other process holds it: a log that a
    writer has just started looks damaged for a moment.
    """
    log = path / f"{JOURNAL}-wal"
    try:
        if not log_is_damaged(log):
            return
        if locked or (not is_locked(path) and log_is_damaged(log)):
            raise journal_damaged(path, f"{log.name} is truncated")
    except OSError as error:
        raise StudyError("study-unusable", f"cannot read {log}: {error.strerror}") from None


_NOT_DAMAGE = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM))


@contextlib.contextmanager
def reporting_damage(path: Path) -> Iterator[None]:
    """Turn errors of reading a damaged journal into StudyError `journal-damaged`.

    A journal that cannot be opened, or stays busy, is `study-unusable` instead.
    """
    try:
        yield
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _NOT_DAMAGE:
            raise StudyError(
                "study-unusable", f"cannot read the journal in {path}: {error}"
            ) from None
        raise journal_damaged(path, str(error)) from None
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        # Python's sqlite3 decodes SQLite's messages, which quote the damaged bytes.
        raise journal_damaged(path, str(error)) from None


def journal_damaged(path: Path, what: str) -> StudyError:
    """Return the error for a damaged journal."""
    return StudyError(
        "journal-damaged",
        f"the journal in {path} is damaged: {what}",
        "nothing was changed; restore it from a copy, or read what is left in results/",
    )
