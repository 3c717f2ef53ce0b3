"""The journal: every outcome of a study, durable before anything acts on it.

Purpose: `Study`, one SQLite database (WAL, synchronous=FULL) in the study's directory,
append-only. Decision: SQLite rather than a log file of our own or DuckDB: no
acknowledged row was lost over kill -9, readers work while a writer is at it, and the
format is pledged until 2050. Each entry carries a hash over itself and its
predecessor, so that silent damage is seen as well as the kind that SQLite sees.
Non-goals: no bulk samples (segments), no reports; nothing is ever updated or deleted.
Sources: sqlite.org (wal, lts); papers/auto-pilot.txt section 3.5 for who may resume.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec

from benchwright.model.errors import StudyError
from benchwright.model.observation import Trial
from benchwright.study.guard import Lock, check_ownership, make_directory
from benchwright.study.schema import APPLICATION_ID, JOURNAL, SCHEMA, VERSION

RESUMABLE = ("crashed", "interrupted", "failed", "stopped")
"""Ways to end after which a session can go on; `crashed` is no end at all."""


class SessionInfo(msgspec.Struct, frozen=True):
    """What a session was begun with: all that its program's course depends on."""

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


class End(msgspec.Struct, frozen=True):
    """Payload of an `end` entry."""

    status: str
    detail: str


class Session(msgspec.Struct, frozen=True):
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


class Entry(msgspec.Struct, frozen=True):
    """An entry as it is kept."""

    seq: int
    session: int
    kind: str
    key: str
    begin: int | None
    payload: bytes


class Study:
    """Everything kept about one question. Opened by one of the three class methods."""

    def __init__(
        self, path: Path, database: sqlite3.Connection, lock: Lock | None
    ) -> None:
        self.path = path
        self._database = database
        self._lock = lock
        row = database.execute(
            "SELECT chain FROM entry ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        self._chain: bytes = row[0] if row else b""

    # -- opening ------------------------------------------------------------------------

    @classmethod
    def create_or_open(cls, path: Path) -> Study:
        """Return the study for writing, made if it is not there yet.

        Raises StudyError: `not-a-study` for a directory that holds something else,
        `study-locked`, `journal-damaged`, `journal-newer`, `study-unsafe`.
        """
        path = path.absolute()
        make_directory(path)
        if (path / JOURNAL).exists():
            return cls.open_to_resume(path)
        lock = Lock(path)
        try:
            database = _create(path)
        except sqlite3.Error as error:
            lock.release()
            raise StudyError(
                "study-unusable", f"cannot make a journal in {path}: {error}"
            ) from None
        return cls(path, database, lock)

    @classmethod
    def open_to_resume(cls, path: Path) -> Study:
        """Return an existing study for writing, checked from end to end.

        Raises StudyError as `create_or_open`; what is refused is not modified.
        """
        path = path.absolute()
        _must_exist(path)
        check_ownership(path)
        lock = Lock(path)
        try:
            with contextlib.closing(_reading(path)) as reader:
                _verify(path, reader)
            return cls(path, _writing(path), lock)
        except sqlite3.Error as error:
            lock.release()
            raise _damaged(path, str(error)) from None
        except StudyError:
            lock.release()
            raise

    @classmethod
    def open_to_read(cls, path: Path) -> Study:
        """Return a study for reading, also while another `bw` writes to it.

        Raises StudyError `not-a-study`, `journal-damaged`, `journal-newer`.
        """
        path = path.absolute()
        _must_exist(path)
        try:
            reader = _reading(path)
            _check_header(path, reader)
            return cls(path, reader, None)
        except sqlite3.Error as error:
            raise _damaged(path, str(error)) from None

    def close(self) -> None:
        """Close the database and give up the lock."""
        self._database.close()
        if self._lock is not None:
            self._lock.release()

    # -- writing ------------------------------------------------------------------------

    def begin_session(self, info: SessionInfo) -> int:
        """Begin a new session and return its number; durable on return."""
        with self._database:
            row = self._database.execute(
                "INSERT INTO session (info) VALUES (?)", (msgspec.json.encode(info),)
            )
        assert row.lastrowid is not None
        return row.lastrowid

    def append(self, session: int, entries: Sequence[NewEntry]) -> list[int]:
        """Append entries in one transaction and return their sequence numbers.

        Durable on return (synchronous=FULL). Raises sqlite3.IntegrityError for a
        second outcome of one key: nothing can be counted twice.
        """
        chain, numbers = self._chain, []
        self._database.execute("BEGIN IMMEDIATE")
        try:
            for entry in entries:
                row, chain = _row(session, entry, chain)
                cursor = self._database.execute(_INSERT, row)
                assert cursor.lastrowid is not None
                numbers.append(cursor.lastrowid)
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")
        self._chain = chain
        return numbers

    def end_session(self, number: int, status: str, detail: str) -> None:
        """Record how a session ended; a resumed one may end again."""
        self.append(number, [NewEntry("end", "end", End(status, detail))])

    # -- reading ------------------------------------------------------------------------

    def sessions(self) -> list[Session]:
        """Return the sessions in order, each with its last end."""
        rows = self._database.execute(
            "SELECT number, info FROM session ORDER BY number"
        )
        return [self._session(number, info) for number, info in rows.fetchall()]

    def last_resumable(self) -> Session | None:
        """Return the last session if it can go on, else None."""
        sessions = self.sessions()
        if sessions and sessions[-1].status in RESUMABLE:
            return sessions[-1]
        return None

    def load_outcomes(self, session: int) -> dict[str, bytes]:
        """Return every recorded outcome of a session: key -> JSON."""
        return {e.key: e.payload for e in self.entries(session, ("outcome",))}

    def entries(self, session: int, kinds: Sequence[str]) -> Iterator[Entry]:
        """Yield a session's entries of these kinds in the order of writing."""
        marks = ",".join("?" * len(kinds))
        rows = self._database.execute(
            "SELECT seq, session, kind, key, begin, payload FROM entry "
            f"WHERE session = ? AND kind IN ({marks}) ORDER BY seq",
            (session, *kinds),
        )
        for row in rows.fetchall():
            yield Entry(*row)

    def trials(self, session: int) -> Iterator[tuple[str, Trial]]:
        """Yield the counted trials of a session: (key, trial), in order of writing."""
        for entry in self.entries(session, ("outcome",)):
            if "/epoch/" in entry.key:
                yield entry.key, msgspec.json.decode(entry.payload, type=Trial)

    def _session(self, number: int, info: bytes) -> Session:
        row = self._database.execute(
            "SELECT payload FROM entry WHERE session = ? AND kind = 'end' "
            "ORDER BY seq DESC LIMIT 1",
            (number,),
        ).fetchone()
        end = msgspec.json.decode(row[0], type=End) if row else End("crashed", "")
        known = msgspec.json.decode(info, type=SessionInfo)
        return Session(number, known, end.status, end.detail)


_INSERT = (
    "INSERT INTO entry (session, kind, key, begin, payload, chain) "
    "VALUES (?, ?, ?, ?, ?, ?)"
)


def _row(
    session: int, entry: NewEntry, chain: bytes
) -> tuple[tuple[object, ...], bytes]:
    payload = msgspec.json.encode(entry.payload)
    link = _link(chain, (session, entry.kind, entry.key, entry.begin), payload)
    return (session, entry.kind, entry.key, entry.begin, payload, link), link


def _link(chain: bytes, head: tuple[object, ...], payload: bytes) -> bytes:
    """Return the hash of an entry and of all before it, 16 bytes."""
    return blake2b(chain + repr(head).encode() + payload, digest_size=16).digest()


def _create(path: Path) -> sqlite3.Connection:
    """Make the journal under another name and rename it: it is whole or not there."""
    draft = path / (JOURNAL + ".new")
    for old in path.glob(f"{JOURNAL}.new*"):
        old.unlink()
    database = sqlite3.connect(draft, isolation_level=None)
    database.executescript(SCHEMA)
    database.close()
    draft.chmod(0o600)
    draft.rename(path / JOURNAL)
    return _writing(path)


def _writing(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path / JOURNAL, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("PRAGMA foreign_keys = ON")
    return database


def _reading(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{(path / JOURNAL).as_uri()}?mode=ro", uri=True, isolation_level=None
    )


def _must_exist(path: Path) -> None:
    if not (path / JOURNAL).is_file():
        raise StudyError(
            "not-a-study",
            f"{path} is not a study: it has no {JOURNAL}",
            "give the directory that `bw run --study DIR` made",
        )


def _check_header(path: Path, database: sqlite3.Connection) -> None:
    (application,) = database.execute("PRAGMA application_id").fetchone()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise StudyError(
            "not-a-study", f"{path / JOURNAL} is not a journal of benchwright"
        )
    if version > VERSION:
        raise StudyError(
            "journal-newer",
            f"the journal in {path} has version {version}, this bw knows up to {VERSION}",
            "use the version of benchwright that wrote it, or a newer one",
        )


def _verify(path: Path, database: sqlite3.Connection) -> None:
    """Raise StudyError unless every page and every entry is as it was written."""
    _check_header(path, database)
    (answer,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if answer != "ok":
        raise _damaged(path, str(answer))
    for row in database.execute("SELECT info FROM session"):
        try:
            msgspec.json.decode(row[0], type=SessionInfo)
        except msgspec.MsgspecError as error:
            raise _damaged(path, f"a session's record is unreadable: {error}") from None
    chain = b""
    rows = database.execute(
        "SELECT seq, session, kind, key, begin, payload, chain FROM entry ORDER BY seq"
    )
    for seq, session, kind, key, begin, payload, link in rows:
        chain = _link(chain, (session, kind, key, begin), payload)
        if chain != link:
            raise _damaged(path, f"entry {seq} is not what was written")


def _damaged(path: Path, what: str) -> StudyError:
    return StudyError(
        "journal-damaged",
        f"the journal in {path} is damaged: {what}",
        "nothing was changed; restore it from a copy, or read what is left in results/",
    )
