"""The journal: every outcome of a study, durable before anything acts on it.

Purpose: `Study`, one SQLite database (WAL, synchronous=FULL) in the study's directory,
append-only. Decision: SQLite rather than a log file of our own or DuckDB: no
acknowledged row was lost over kill -9, readers work while a writer is at it, and the
format is pledged until 2050. Each entry carries a hash over itself and its
predecessor, so that silent damage is seen as well as the kind that SQLite sees.
Non-goals: no bulk samples (segments), no reports; nothing is ever updated or deleted.
Sources: sqlite.org (wal, lts); Auto-pilot paper, section 3.5 for who may resume.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchwright.core.errors import StudyError
from benchwright.core.observation import Trial
from benchwright.study.database import (
    chain_hash,
    check_header,
    check_log,
    create_journal,
    journal_identity,
    leave_open,
    open_for_checking,
    open_for_reading,
    open_for_writing,
    reporting_damage,
    session_digest,
    verify_journal,
    verify_while_open,
)
from benchwright.study.directory import (
    JOURNAL,
    StudyLock,
    check_ownership,
    make_directory,
)
from benchwright.study.keys import is_epoch

UNWRITABLE = "study-unwritable"
"""Code of a journal on a disk that is full or broken."""
RESUMABLE = ("crashed", "interrupted", "failed", "stopped")
"""Ways to end after which a session can go on; `crashed` is no end at all."""


class SessionInfo(msgspec.Struct, frozen=True):
    """The input of a session: everything that its program depends on."""

    started_ns: int
    """CLOCK_REALTIME [ns]."""
    version: str
    boot_id: str
    directory: str
    """Working directory of the session's commands."""
    arguments: tuple[str, ...]
    defines: tuple[tuple[str, str], ...]
    program_main: str
    sources: tuple[tuple[str, str], ...]
    """(path, text) of the suite and everything that it includes."""
    options: dict[str, str]
    kind: str = "run"


class EndPayload(msgspec.Struct, frozen=True):
    """Payload of an `end` entry."""

    status: str
    detail: str


class StoredSession(msgspec.Struct, frozen=True):
    """A session as it stands; `status` is that of its last end."""

    number: int
    info: SessionInfo
    status: str
    """`complete`, `undecided`, `failed`, `interrupted`, `stopped` or `crashed`."""
    detail: str = ""


class NewEntry(msgspec.Struct, frozen=True):
    """An entry to be appended; the payload becomes JSON."""

    kind: str
    key: str
    payload: object
    begin: int | None = None
    """Sequence number of the `begin` entry that this one closes."""


class JournalEntry(msgspec.Struct, frozen=True):
    """An entry as it is stored."""

    seq: int
    session: int
    kind: str
    key: str
    begin: int | None
    payload: bytes


class Study:
    """Everything stored about one question. Opened by one of the three class methods."""

    def __init__(
        self, path: Path, database: sqlite3.Connection, lock: StudyLock | None
    ) -> None:
        self.path = path
        self._database = database
        self._lock = lock
        self._identity = None if lock is None else journal_identity(path)
        row = database.execute(
            "SELECT chain FROM entry ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        self._chain: bytes = row[0] if row else b""

    # -- opening ------------------------------------------------------------------------

    @classmethod
    def create_or_open(cls, path: Path) -> Study:
        """Return the study for writing, made if it is not there yet.

        Raises StudyError: `not-a-study` for a directory that holds something else,
        `study-locked`, `study-unusable`, `journal-damaged`, `journal-newer`,
        `study-unsafe`.
        """
        path = path.absolute()
        make_directory(path)
        if not (path / JOURNAL).exists():
            lock = StudyLock(path)
            try:
                # Another bw may have made it while we came to the lock.
                if not (path / JOURNAL).exists():
                    create_journal(path)
            except (sqlite3.Error, OSError) as error:
                raise StudyError(
                    "study-unusable", f"cannot make a journal in {path}: {error}"
                ) from None
            finally:
                lock.release()
        return cls.open_to_resume(path)

    @classmethod
    def open_to_resume(cls, path: Path) -> Study:
        """Return an existing study for writing, checked from end to end.

        Raises StudyError as `create_or_open`; what is refused is not modified.
        """
        path = path.absolute()
        check_header(path)
        check_ownership(path)
        lock = StudyLock(path)
        try:
            with (
                reporting_damage(path),
                contextlib.closing(open_for_checking(path)) as reader,
            ):
                check_log(path, locked=True)
                verify_journal(path, reader)
            lock.sign()
            with _reporting_write_errors(path):
                return cls(path, open_for_writing(path), lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open_to_read(cls, path: Path) -> Study:
        """Return a study for reading, also while another `bw` writes to it.

        Raises StudyError `not-a-study`, `journal-newer`, `journal-damaged`: no row of
        a journal that is not as it was written is returned to a reader.
        """
        path = path.absolute()
        check_header(path)
        with reporting_damage(path):
            database = open_for_reading(path)
            try:
                verify_while_open(path, database)
                return cls(path, database, None)
            except BaseException:
                database.close()
                raise

    def close(self) -> None:
        """Close the database and give up the lock."""
        if self.is_gone:
            leave_open(self._database)
        else:
            self._database.close()
        if self._lock is not None:
            self._lock.release()

    @property
    def is_gone(self) -> bool:
        """Whether the files that this process writes to are no longer in the study's place."""
        return (
            self._identity is not None and journal_identity(self.path) != self._identity
        )

    def check_there(self) -> None:
        """Raise StudyError `study-gone` if the study was moved, deleted or replaced."""
        if self.is_gone:
            raise StudyError(
                "study-gone",
                f"the study was moved or deleted while bw wrote to it: {self.path} no longer "
                "holds its journal",
                "where it was moved, give its new place to `bw resume`; else run it again, "
                "and let no command remove the study",
            )

    # -- writing ------------------------------------------------------------------------

    def begin_session(self, info: SessionInfo) -> int:
        """Begin a new session and return its number; durable on return."""
        self.check_there()
        encoded, number = msgspec.json.encode(info), self.next_session()
        with _reporting_write_errors(self.path):
            self._database.execute(
                "INSERT INTO session (number, info, digest) VALUES (?, ?, ?)",
                (number, encoded, session_digest(encoded)),
            )
        return number

    def next_session(self) -> int:
        """Return the number of the session that would begin now.

        It follows every session that is on record or has left a file: a write-ahead log
        that was deleted takes records with it, and nothing of theirs is overwritten.
        """
        last = max((session.number for session in self.sessions()), default=0)
        left = [
            int(place.name[1:])
            for place in self.path.glob("*/s[1-9]*")
            if place.name[1:].isdecimal()
            and any(path.is_file() for path in place.rglob("*"))
        ]
        return 1 + max((last, *left))

    def append(self, session: int, entries: Sequence[NewEntry]) -> list[int]:
        """Append entries in one transaction and return their sequence numbers.

        Durable on return (synchronous=FULL). Raises sqlite3.IntegrityError for a
        second outcome of one key: nothing can be counted twice. Raises StudyError
        `study-unwritable` when the disk does not take it, `study-gone` when the study is
        no longer there; nothing is appended then.
        """
        self.check_there()
        chain, numbers = self._chain, []
        with _reporting_write_errors(self.path):
            self._database.execute("BEGIN IMMEDIATE")
            try:
                for entry in entries:
                    row, chain = _entry_row(session, entry, chain)
                    cursor = self._database.execute(_INSERT, row)
                    assert cursor.lastrowid is not None
                    numbers.append(cursor.lastrowid)
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise
        self._chain = chain
        return numbers

    def end_session(self, number: int, status: str, detail: str) -> None:
        """Record how a session ended; a resumed one may end again."""
        self.append(number, [NewEntry("end", "end", EndPayload(status, detail))])

    # -- reading ------------------------------------------------------------------------

    def sessions(self) -> list[StoredSession]:
        """Return the sessions in order, each with its last end."""
        with reporting_damage(self.path):
            rows = self._database.execute(
                "SELECT number, info FROM session ORDER BY number"
            )
            return [self._session(number, info) for number, info in rows.fetchall()]

    def last_resumable(self) -> StoredSession | None:
        """Return the last session if it can go on, else None."""
        sessions = self.sessions()
        if sessions and sessions[-1].status in RESUMABLE:
            return sessions[-1]
        return None

    def last_outcome(self, session: int) -> JournalEntry | None:
        """Return the outcome of a session that was recorded last; None without any."""
        with reporting_damage(self.path):
            row = self._database.execute(
                "SELECT seq, session, kind, key, begin, payload FROM entry "
                "WHERE session = ? AND kind = 'outcome' ORDER BY seq DESC LIMIT 1",
                (session,),
            ).fetchone()
        return None if row is None else JournalEntry(*row)

    def load_outcomes(self, session: int) -> dict[str, bytes]:
        """Return every recorded outcome of a session: key -> JSON."""
        return {e.key: e.payload for e in self.entries(session, ("outcome",))}

    def entries(
        self, session: int, kinds: Sequence[str], under: str = ""
    ) -> Iterator[JournalEntry]:
        """Yield a session's entries of these kinds in the order of writing.

        `under` restricts them to keys that begin with it. The entries are those that
        were there at the call's first step; a writer may append meanwhile.
        """
        marks = ",".join("?" * len(kinds))
        with reporting_damage(self.path):
            rows = self._database.execute(
                "SELECT seq, session, kind, key, begin, payload FROM entry "
                f"WHERE session = ? AND kind IN ({marks}) "
                "AND substr(key, 1, ?) = ? ORDER BY seq",
                (session, *kinds, len(under), under),
            ).fetchall()
        for row in rows:
            yield JournalEntry(*row)

    def trials(self, session: int) -> Iterator[tuple[str, Trial]]:
        """Yield the counted trials of a session: (key, trial), in order of writing."""
        for entry in self.entries(session, ("outcome",)):
            if is_epoch(entry.key):
                yield entry.key, msgspec.json.decode(entry.payload, type=Trial)

    def _session(self, number: int, info: bytes) -> StoredSession:
        row = self._database.execute(
            "SELECT payload FROM entry WHERE session = ? AND kind = 'end' "
            "ORDER BY seq DESC LIMIT 1",
            (number,),
        ).fetchone()
        end = (
            msgspec.json.decode(row[0], type=EndPayload)
            if row
            else EndPayload("crashed", "")
        )
        known = msgspec.json.decode(info, type=SessionInfo)
        return StoredSession(number, known, end.status, end.detail)


@contextlib.contextmanager
def _reporting_write_errors(path: Path) -> Iterator[None]:
    """Turn a disk that is full or broken into StudyError `study-unwritable`."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except sqlite3.Error as error:
        raise StudyError(
            UNWRITABLE,
            f"cannot write to the journal in {path}: {error}",
            "make room, then `bw resume`: what was recorded before is safe",
        ) from error


_INSERT = (
    "INSERT INTO entry (session, kind, key, begin, payload, chain) "
    "VALUES (?, ?, ?, ?, ?, ?)"
)


def _entry_row(
    session: int, entry: NewEntry, chain: bytes
) -> tuple[tuple[object, ...], bytes]:
    payload = msgspec.json.encode(entry.payload)
    own = chain_hash(chain, (session, entry.kind, entry.key, entry.begin), payload)
    return (session, entry.kind, entry.key, entry.begin, payload, own), own
