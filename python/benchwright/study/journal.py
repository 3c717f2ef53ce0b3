"""The journal: every outcome of a study, durable before anything acts on it.

Purpose: `Study`, one SQLite database (WAL, synchronous=FULL) in the study's directory,
append-only. Decision: SQLite: kill -9 lost no acknowledged row, readers work while a writer
writes, and SQLite supports the format until 2050. Rejected: a log file of our own, DuckDB. Each
entry contains a hash of itself and its predecessor, so that damage that SQLite does not notice
is detected too. Non-goals: bulk samples, reports; nothing is ever updated or deleted.
Sources: sqlite.org (wal, lts); Auto-pilot paper, section 3.5 for who may resume.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from benchwright.core.errors import StudyError
from benchwright.core.observation import Trial
from benchwright.study.database import (
    VerifiedRows,
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
    verify_entries,
    verify_journal,
    verify_while_open,
)
from benchwright.study.directory import JOURNAL, StudyLock, check_ownership, make_directory
from benchwright.study.keys import ABOUT_KEYS, SessionAbout, about_key, is_epoch, stated_about

UNWRITABLE = "study-unwritable"
"""Code of the error for a journal on a disk that is full or broken."""
BUSY = "study-busy"
"""Code of the error for a journal that another program has locked."""
_BUSY_TRIES = 12
"""Each waits five seconds for the lock, which is sqlite3's own limit."""
RESUMABLE = ("crashed", "interrupted", "failed", "stopped", "deadline")
"""Statuses of sessions that can be resumed; `crashed`: no end was recorded; `deadline`: a surface
whose deadline came before all samples were searched."""


class SessionInfo(msgspec.Struct, frozen=True):
    """The stored input of a session: everything that its program depends on."""

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
    """(path, text) of the suite and of each file that it includes; of a search, of its request, its
    spec and each file that the spec names."""
    options: dict[str, str]
    kind: str = "run"

    @property
    def commands(self) -> tuple[str, ...]:
        """The texts in which a user wrote the session's commands: its command line, requests and
        suites."""
        found = [" ".join(self.arguments)]
        for _, text in self.sources:
            request = msgspec.json.decode(text) if text.startswith("{") else text
            found += _texts(request)
        return tuple(found)


def _texts(value: object) -> Iterator[str]:
    """Yield the texts of a request; the words of a command are one text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and all(isinstance(one, str) for one in value):
        yield " ".join(value)
    elif isinstance(value, list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


class EndPayload(msgspec.Struct, frozen=True):
    """Payload of an `end` entry."""

    status: str
    detail: str
    ended_ns: int = 0
    """CLOCK_REALTIME [ns]; 0: unknown, as in sessions of version 0.1."""


class ResumePayload(msgspec.Struct, frozen=True):
    """Payload of a `resume` entry."""

    resumed_ns: int
    """CLOCK_REALTIME [ns]."""


class StoredSession(msgspec.Struct, frozen=True):
    """A session in its current state; `status` is that of its last end."""

    number: int
    info: SessionInfo
    status: str
    """`complete`, `undecided`, `failed`, `interrupted`, `stopped` or `crashed`."""
    detail: str = ""
    ended_ns: int = 0
    """Of its last end, CLOCK_REALTIME [ns]; 0: unknown."""
    about: SessionAbout = SessionAbout()


class NewEntry(msgspec.Struct, frozen=True):
    """An entry to append; the payload is stored as JSON."""

    kind: str
    key: str
    payload: object
    begin: int | None = None
    """Sequence number of the `begin` entry that this one closes."""
    copied: int | None = None
    """Sequence number of the entry of another journal that this one is a copy of; `begin` is then
    one of that journal, and is replaced by the number of its copy in the same call of `append`."""


class JournalEntry(msgspec.Struct, frozen=True):
    """A stored entry."""

    seq: int
    session: int
    kind: str
    key: str
    begin: int | None
    payload: bytes


class FollowedJournal(msgspec.Struct, frozen=True):
    """What a reader that comes back has verified of a journal."""

    identity: tuple[int, int] | None
    """Device and inode of the journal."""
    rows: VerifiedRows


class Study:
    """Everything stored about one question. Open it with one of the three class methods."""

    def __init__(self, path: Path, database: sqlite3.Connection, lock: StudyLock | None) -> None:
        self.path = path
        self._database = database
        self._lock = lock
        self._identity = None if lock is None else journal_identity(path)
        row = database.execute("SELECT chain FROM entry ORDER BY seq DESC LIMIT 1").fetchone()
        self._chain: bytes = row[0] if row else b""
        self.warn: Callable[[str], None] = lambda _text: None
        """Prints what a user has to know while the study waits."""

    # -- opening ------------------------------------------------------------------------

    @classmethod
    def create_or_open(cls, path: Path) -> Study:
        """Return the study for writing; make it if it does not exist.

        Raises StudyError: `not-a-study` for a directory with other contents,
        `study-locked`, `study-unusable`, `journal-damaged`, `journal-newer`,
        `study-unsafe`.
        """
        path = path.absolute()
        make_directory(path)
        if not (path / JOURNAL).exists():
            lock = StudyLock(path)
            try:
                # Another bw may have made it while this one waited for the lock.
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

        Raises StudyError as `create_or_open`; a refused study is not modified.
        """
        path = path.absolute()
        check_header(path)
        check_ownership(path)
        lock = StudyLock(path)
        try:
            with reporting_damage(path), contextlib.closing(open_for_checking(path)) as reader:
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
        """Return a study for reading, even while another `bw` writes to it.

        Raises StudyError `not-a-study`, `journal-newer`, `journal-damaged`: readers get no row of
        a damaged journal.
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

    @classmethod
    def open_to_follow(
        cls, path: Path, before: FollowedJournal | None
    ) -> tuple[Study, FollowedJournal]:
        """Return a study for reading again and again while a writer may append, and what was
        verified of it, for the next call.

        All rows are verified the first time, and if the journal is another file than `before`;
        later only the rows that were added. A connection that is closed after each use lets
        the writer, which closes after it, remove the write-ahead log. Raises StudyError as
        `open_to_read`.
        """
        path = path.absolute()
        identity = journal_identity(path)[0]
        if before is None or before.identity != identity:
            study = cls.open_to_read(path)
            rows = VerifiedRows()
        else:
            with reporting_damage(path):
                study = cls(path, open_for_reading(path), None)
            rows = before.rows
        try:
            with reporting_damage(path):
                rows = verify_entries(path, study._database, rows)
        except BaseException:
            study.close()
            raise
        return study, FollowedJournal(identity, rows)

    def close(self) -> None:
        """Close the database and release the lock."""
        if self.is_gone:
            leave_open(self._database)
        else:
            self._database.close()
        if self._lock is not None:
            self._lock.release()

    @property
    def is_gone(self) -> bool:
        """Whether the files that this process has open are no longer at the study's path."""
        return self._identity is not None and journal_identity(self.path) != self._identity

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
        """Start a new session and return its number; durable on return."""
        self.check_there()
        encoded, number = msgspec.json.encode(info), self.next_session()
        with _reporting_write_errors(self.path):
            self._database.execute(
                "INSERT INTO session (number, info, digest) VALUES (?, ?, ?)",
                (number, encoded, session_digest(encoded)),
            )
        return number

    def next_session(self) -> int:
        """Return the number of the next session.

        It is larger than that of every session that is recorded or has left a file: a deleted
        write-ahead log loses records, and the files of those sessions are not overwritten.
        """
        last = max((session.number for session in self.sessions()), default=0)
        left = [
            int(place.name[1:])
            for place in self.path.glob("*/s[1-9]*")
            if place.name[1:].isdecimal() and any(path.is_file() for path in place.rglob("*"))
        ]
        return 1 + max((last, *left))

    def append(self, session: int, entries: Sequence[NewEntry]) -> list[int]:
        """Append entries in one transaction and return their sequence numbers.

        Durable on return (synchronous=FULL). Raises sqlite3.IntegrityError for a second outcome of
        one key, so nothing can be counted twice. Raises StudyError `study-unwritable` if the write
        fails, `study-gone` if the study is no longer there, `study-busy` (exit status 1) if another
        program does not let go of the journal; then nothing is appended.
        """
        self.check_there()
        chain, numbers = self._chain, []
        copies: dict[int | None, int] = {}
        with _reporting_write_errors(self.path):
            self._begin()
            try:
                for entry in entries:
                    is_copy = entry.copied is not None
                    begin = copies.get(entry.begin) if is_copy else entry.begin
                    row, chain = _entry_row(session, entry, begin, chain)
                    cursor = self._database.execute(_INSERT, row)
                    assert cursor.lastrowid is not None
                    numbers.append(cursor.lastrowid)
                    copies[entry.copied] = cursor.lastrowid
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise
        self._chain = chain
        return numbers

    def _begin(self) -> None:
        """Begin a transaction; wait for another program that has locked the journal."""
        for waited in range(_BUSY_TRIES):
            try:
                self._database.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
            if not waited:
                self.warn(
                    f"bw: another program has locked the journal in {self.path}: bw waits up to a minute"
                )
        busy = StudyError(
            BUSY,
            f"another program has locked the journal in {self.path} for a minute",
            "end that program, then `bw resume`: what was recorded before is safe",
        )
        busy.exit_status = 1
        raise busy

    def end_session(self, number: int, status: str, detail: str) -> None:
        """Record how a session ended; a resumed one may end again."""
        payload = EndPayload(status, detail, time.time_ns())
        self.append(number, [NewEntry("end", "end", payload)])

    def record_resume(self, number: int) -> None:
        """Record that a session is resumed now."""
        payload = ResumePayload(time.time_ns())
        self.append(number, [NewEntry("resume", "resume", payload)])

    def record_about(self, number: int, about: SessionAbout) -> None:
        """Record the name, tags and note that a session has from now on. Raises StudyError."""
        known = sum(1 for _ in self.entries(number, ("outcome",), under=ABOUT_KEYS))
        self.append(number, [NewEntry("outcome", about_key(known + 1), about)])

    # -- reading ------------------------------------------------------------------------

    def sessions(self) -> list[StoredSession]:
        """Return the sessions in order, each with its last end."""
        with reporting_damage(self.path):
            rows = self._database.execute("SELECT number, info FROM session ORDER BY number")
            return [self._session(number, info) for number, info in rows.fetchall()]

    def last_resumable(self) -> StoredSession | None:
        """Return the last session if it can be resumed, else None."""
        sessions = self.sessions()
        if sessions and sessions[-1].status in RESUMABLE:
            return sessions[-1]
        return None

    def last_outcome(self, session: int) -> JournalEntry | None:
        """Return the last recorded outcome of a session; None if there is none.

        A change of its name, tags or note is no outcome of it.
        """
        with reporting_damage(self.path):
            row = self._database.execute(
                "SELECT seq, session, kind, key, begin, payload FROM entry "
                "WHERE session = ? AND kind = 'outcome' AND substr(key, 1, ?) != ? "
                "ORDER BY seq DESC LIMIT 1",
                (session, len(ABOUT_KEYS), ABOUT_KEYS),
            ).fetchone()
        return None if row is None else JournalEntry(*row)

    def last_entry(self) -> JournalEntry | None:
        """Return the last entry of the journal; None if it has none."""
        with reporting_damage(self.path):
            row = self._database.execute(
                "SELECT seq, session, kind, key, begin, payload FROM entry "
                "ORDER BY seq DESC LIMIT 1"
            ).fetchone()
        return None if row is None else JournalEntry(*row)

    def load_outcomes(self, session: int) -> dict[str, bytes]:
        """Return every recorded outcome of a session: key -> JSON."""
        return {e.key: e.payload for e in self.entries(session, ("outcome",))}

    def entries(
        self, session: int, kinds: Sequence[str], under: str = ""
    ) -> Iterator[JournalEntry]:
        """Yield a session's entries of these kinds in the order of writing.

        `under` restricts them to keys with this prefix. The entries are those that exist at the
        generator's first step; a writer may append meanwhile.
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
        end = msgspec.json.decode(row[0], type=EndPayload) if row else EndPayload("crashed", "")
        known = msgspec.json.decode(info, type=SessionInfo)
        return StoredSession(
            number, known, end.status, end.detail, end.ended_ns, self._about(number, known)
        )

    def _about(self, number: int, info: SessionInfo) -> SessionAbout:
        # A range of the index of outcomes: a session may have many of them.
        row = self._database.execute(
            "SELECT payload FROM entry WHERE session = ? AND kind = 'outcome' "
            "AND key >= ? AND key < ? ORDER BY seq DESC LIMIT 1",
            (number, ABOUT_KEYS, ABOUT_KEYS[:-1] + chr(ord(ABOUT_KEYS[-1]) + 1)),
        ).fetchone()
        if row is None:
            return stated_about(info.options)
        return msgspec.json.decode(row[0], type=SessionAbout)


@contextlib.contextmanager
def _reporting_write_errors(path: Path) -> Iterator[None]:
    """Turn errors of a disk that is full or broken into StudyError `study-unwritable`."""
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


_INSERT = "INSERT INTO entry (session, kind, key, begin, payload, chain) VALUES (?, ?, ?, ?, ?, ?)"


def _entry_row(
    session: int, entry: NewEntry, begin: int | None, chain: bytes
) -> tuple[tuple[object, ...], bytes]:
    payload = msgspec.json.encode(entry.payload)
    own = chain_hash(chain, (session, entry.kind, entry.key, begin), payload)
    return (session, entry.kind, entry.key, begin, payload, own), own
