"""Histories as they are stored: folders of studies, and history files.

Decision: a history file is one SQLite file, written in one transaction for each command, with a
rollback journal: between two commands nothing lies beside it, so it can be copied, cached and sent.
A run is stored once, whoever adds it and from whichever copy of its study; one that was resumed
since replaces itself. Points are stored in the order of runs, so adding a run to many series writes
neighbouring pages: 10,000 points in a file of 5 million take 0.1 s (benches/history_append.py).
Rejected: one text file for each run (10^4 series of 500 runs take seconds to read), DuckDB (a
dependency of 30 MB). Non-goal: trials; a history has what a comparison over time needs, the study
has the rest.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from benchwright.core.errors import StudyError
from benchwright.core.machine import Fact
from benchwright.core.untrusted import open_regular
from benchwright.features.history.types import (
    Acceptance,
    Better,
    Environment,
    HistoryPoint,
    LaterRuns,
    LevelCost,
    NoValue,
    Run,
    RunHistory,
    RunKeys,
    Series,
    SeriesKey,
    keys_of_run,
    lost_values,
    newest_costs,
    unresolved,
    with_lost,
)
from benchwright.study.directory import JOURNAL

# -- From runs to series ---------------------------------------------------------------

_DEPTH = 4
"""How deep below a folder studies are looked for."""


def studies_below(folder: Path) -> Iterator[Path]:
    """Yield the studies in a folder and in the folders below it, in order of name.

    The folder itself may be one. What is inside a study, and hidden folders, are not searched.
    """
    for place, names, files in os.walk(folder):
        if JOURNAL in files:
            yield Path(place)
            names.clear()
            continue
        deep = len(Path(place).relative_to(folder).parts)
        names[:] = (
            sorted(name for name in names if not name.startswith(".")) if deep < _DEPTH else []
        )


def history_of(
    runs: Iterable[Run],
    acceptances: Iterable[Acceptance] = (),
    *,
    costs: Iterable[LevelCost] = (),
    without: Iterable[NoValue] = (),
    hidden: Iterable[RunKeys] = (),
    unread: Iterable[str] = (),
    skipped: Iterable[str] = (),
) -> RunHistory:
    """Return the series of these runs, in order of their keys, each point once; `without` is what
    has no value, of them and of others, `hidden` what else has a value. Points of one moment are in
    the order of the runs."""
    read = [run for run in runs if run.points]
    points: dict[SeriesKey, dict[str, HistoryPoint]] = {}
    environments: dict[str, Environment] = {}
    machines: dict[str, str] = {}
    for run in read:
        if run.environment is not None:
            environments[run.environment.id] = run.environment
        for key, point in run.points:
            points.setdefault(key, {})[point.run] = point
            machines.setdefault(key.machine, run.machine)
    series = tuple(
        Series(key, tuple(sorted(found.values(), key=lambda one: one.started_ns)))
        for key, found in sorted(points.items())
    )
    have = [*map(keys_of_run, read), *hidden]
    newest = [(one.key, one.newest) for one in series if one.newest.asked]
    lost = lost_values(newest, _later_runs(series, have))
    return RunHistory(
        series=series,
        environments=environments,
        machines=machines,
        acceptances=tuple(acceptances),
        costs=newest_costs(costs),
        without=with_lost(
            unresolved(without, _value_times(have)), unresolved(lost, _value_times(have))
        ),
        unread=tuple(unread),
        skipped=tuple(skipped),
    )


def _value_times(runs: Iterable[RunKeys]) -> Iterator[tuple[str, str, int]]:
    """Yield the test, the metric and the start of what has a value."""
    return ((key.test, key.metric, run.started_ns) for run in runs for key in run.keys)


def _later_runs(series: Sequence[Series], runs: Sequence[RunKeys]) -> LaterRuns:
    """Return what finds the later runs with a series of the run of a newest point, of all runs."""
    end = max((run.started_ns for run in runs), default=0)
    last = {
        one.newest.run for one in series if not one.newest.session and one.newest.started_ns < end
    }
    keys_of: dict[str, set[SeriesKey]] = {name: set() for name in last}
    for keys in runs:
        if keys.run in last:
            keys_of[keys.run].update(keys.keys)

    @functools.cache
    def found(run: str, started_ns: int) -> Sequence[tuple[int, str, str]]:
        own = keys_of.get(run, set())
        later = {
            (run.started_ns, run.run, run.study)
            for run in runs
            if run.started_ns > started_ns and not own.isdisjoint(run.keys)
        }
        return sorted(later)

    return lambda point: found(point.run, point.started_ns)


# -- The history file; version 1 -------------------------------------------------------

HISTORY_FILE = "bw-history.db"
"""The name of a history file that the user does not name."""
_APPLICATION_ID = 0x62776869
"""`bwhi`, in the database's header."""
_VERSION = 1
_BUSY_S = 10.0
"""How long a command waits for another one that writes to the file [s]."""
_MAGIC = b"SQLite format 3\0"

_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_VERSION};
BEGIN;
CREATE TABLE environment (
    id TEXT PRIMARY KEY,
    facts BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE machine (
    id TEXT PRIMARY KEY,
    words TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE measured (
    id INTEGER PRIMARY KEY,
    command TEXT NOT NULL,
    unit TEXT NOT NULL,
    better TEXT NOT NULL CHECK (better IN ('lower', 'higher')),
    UNIQUE (command, unit, better)
) STRICT;
CREATE TABLE series (
    id INTEGER PRIMARY KEY,
    test TEXT NOT NULL,
    metric TEXT NOT NULL,
    machine TEXT NOT NULL REFERENCES machine (id),
    UNIQUE (test, metric, machine)
) STRICT;
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    digest BLOB NOT NULL,
    study TEXT NOT NULL,
    session INTEGER NOT NULL,
    started_ns INTEGER NOT NULL,
    "commit" TEXT,
    commit_time_ns INTEGER,
    dirty INTEGER NOT NULL,
    tags TEXT NOT NULL,
    environment TEXT REFERENCES environment (id)
) STRICT;
CREATE INDEX run_by_start ON run (started_ns);
CREATE TABLE point (
    run INTEGER NOT NULL REFERENCES run (id),
    series INTEGER NOT NULL REFERENCES series (id),
    estimate REAL NOT NULL,
    low REAL,
    high REAL,
    confidence REAL,
    trials INTEGER NOT NULL,
    measured INTEGER NOT NULL REFERENCES measured (id),
    codes TEXT NOT NULL,
    state TEXT NOT NULL,
    asked INTEGER NOT NULL,
    PRIMARY KEY (run, series)
) STRICT, WITHOUT ROWID;
CREATE TABLE acceptance (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    record BLOB NOT NULL
) STRICT;
CREATE TRIGGER acceptance_never_changes BEFORE UPDATE ON acceptance
BEGIN SELECT raise(ABORT, 'acceptances are append-only'); END;
CREATE TRIGGER acceptance_never_goes BEFORE DELETE ON acceptance
BEGIN SELECT raise(ABORT, 'acceptances are append-only'); END;
COMMIT;
"""


# What is known of the newest runs (features/history/levels.py) is a cache: it can be removed, and a
# command that needs it makes it. A change of a point, or of where a run belongs, that is made
# beside bw gives its run another digest, so that what was computed from it is not used.
_CACHE = (
    """CREATE TABLE IF NOT EXISTS level_cache (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    method TEXT NOT NULL,
    runs BLOB NOT NULL,
    acceptances TEXT NOT NULL,
    levels BLOB NOT NULL
) STRICT""",
    """CREATE TABLE IF NOT EXISTS tail_cache (
    run INTEGER PRIMARY KEY,
    digest BLOB NOT NULL,
    points BLOB NOT NULL
) STRICT""",
    """CREATE TRIGGER IF NOT EXISTS point_changed AFTER UPDATE ON point
BEGIN UPDATE run SET digest = randomblob(16) WHERE id IN (OLD.run, NEW.run); END""",
    """CREATE TRIGGER IF NOT EXISTS point_removed AFTER DELETE ON point
BEGIN UPDATE run SET digest = randomblob(16) WHERE id = OLD.run; END""",
    """CREATE TRIGGER IF NOT EXISTS run_moved AFTER UPDATE OF started_ns, environment ON run
BEGIN UPDATE run SET digest = randomblob(16) WHERE id = NEW.id; END""",
)


# What has no value is no point, so that an older bw still reads the file. The newest session
# without a value of a metric of a test is stored.
_NO_VALUE = """CREATE TABLE IF NOT EXISTS no_value (
    test TEXT NOT NULL,
    metric TEXT NOT NULL,
    run TEXT NOT NULL,
    started_ns INTEGER NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (test, metric)
) STRICT, WITHOUT ROWID"""

# What levels cost by the newest null comparison of a machine; an older bw reads the file without it.
_LEVEL_COST = """CREATE TABLE IF NOT EXISTS level_cost (
    machine TEXT NOT NULL,
    metric TEXT NOT NULL,
    level TEXT NOT NULL,
    measured_ns INTEGER NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (machine, metric, level)
) STRICT, WITHOUT ROWID"""

# A test of another tool's file has a short name in its series as long as that is enough
# (foreign_runs.py).
_FULL_NAME = """CREATE TABLE IF NOT EXISTS full_name (
    test TEXT PRIMARY KEY,
    full TEXT NOT NULL
) STRICT, WITHOUT ROWID"""


_BY_COMMIT = """UPDATE run
SET started_ns = commit_time_ns + (started_ns - commit_time_ns) / 1000000000
WHERE session = 0 AND started_ns - commit_time_ns >= 1000000000"""
"""Gives runs of other tools' files, which earlier versions ordered by when they were measured, the
place that `FileOrigin.order_ns` gives them."""


class StoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a history file without its points."""

    id: int
    digest: bytes
    """Hash of what the run says."""
    name: str
    study: str
    session: int
    started_ns: int
    commit: str | None
    commit_time_ns: int | None
    dirty: bool
    tags: tuple[str, ...]
    environment: str


class StoredPoint(msgspec.Struct, frozen=True):
    """A point of a history file, in the order of its columns."""

    series: int
    """The id of its series."""
    measured: int
    """The id of command, unit and direction."""
    codes: str
    estimate: float
    low: float | None
    high: float | None
    confidence: float | None
    trials: int
    state: str
    asked: int


class Measured(msgspec.Struct, frozen=True):
    """What a point measured."""

    command: str
    unit: str
    better: Better


class LevelCache(msgspec.Struct, frozen=True):
    """What was computed of the levels of all series, and from what."""

    method: str
    runs: bytes
    """Identity of the runs, in their order."""
    acceptances: tuple[str, ...]
    """Names of the acceptances."""
    levels: bytes


class AddedRuns(msgspec.Struct, frozen=True):
    """How many runs a command added to a history."""

    new: int
    replaced: int
    """Known runs that have other values now, because they were resumed or tagged."""
    known: int
    """Known runs without a change."""
    points: int
    """Points of new and replaced runs."""


def is_history_file(path: Path) -> bool:
    """Return whether a path is a history file, by its header."""
    try:
        with open_regular(path) as file:
            head = file.read(72)
    except OSError:
        return False
    return head.startswith(_MAGIC) and head[68:72] == _APPLICATION_ID.to_bytes(4)


class HistoryFile:
    """A history file. Open it with one of the two class methods, in a `with` statement."""

    def __init__(self, path: Path, database: sqlite3.Connection) -> None:
        self.path = path
        self._database = database
        self._has_free_pages = False
        self._later: dict[tuple[int, str], Sequence[tuple[int, str, str]]] = {}

    @classmethod
    @contextlib.contextmanager
    def open_to_read(cls, path: Path) -> Iterator[HistoryFile]:
        """Open an existing history file. Raises StudyError if it is none or damaged."""
        with _reporting(path):
            _check(path)
            address = f"{path.absolute().as_uri()}?mode=ro"
            database = sqlite3.connect(address, uri=True, timeout=_BUSY_S)
            with contextlib.closing(database):
                _check_version(path, database)
                yield cls(path, database)

    @classmethod
    @contextlib.contextmanager
    def open_to_write(cls, path: Path) -> Iterator[HistoryFile]:
        """Open a history file for one transaction, which is durable at the end of the `with`
        statement; make the file if it does not exist.

        Raises StudyError as `open_to_read`, and if it cannot be written.
        """
        with _reporting(path, " (--file FILE)"):
            if path.exists() and (not path.is_file() or path.stat().st_size):
                _check(path)
            database = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
            with contextlib.closing(database):
                database.execute("PRAGMA synchronous = FULL")
                database.execute("PRAGMA foreign_keys = ON")
                if not database.execute("PRAGMA application_id").fetchone()[0]:
                    database.executescript(_SCHEMA)
                _check_version(path, database)
                database.execute("BEGIN IMMEDIATE")
                database.execute(_BY_COMMIT)
                stored = cls(path, database)
                yield stored
                database.execute("COMMIT")
                if stored._has_free_pages:
                    database.execute("VACUUM")

    # -- writing ------------------------------------------------------------------------

    def add(self, runs: Iterable[Run]) -> AddedRuns:
        """Add runs; a known run is stored once. Of a run without a point only what has no value is
        stored."""
        new = replaced = known = points = 0
        self._database.execute(_NO_VALUE)
        for run in runs:
            self._replace_without(run)
            digest = _digest(run)
            found = self._database.execute(
                "SELECT id, digest FROM run WHERE name = ?", (run.name,)
            ).fetchone()
            if (found and found[1] == digest) or self._is_former(run, found):
                known += 1
                continue
            if found is not None:
                for table, column in (("point", "run"), ("run", "id")):
                    statement = f"DELETE FROM {table} WHERE {column} = ?"
                    self._database.execute(statement, found[:1])
            replaced += found is not None
            if not run.points:
                continue
            new += found is None
            self._insert(run, digest, None if found is None else found[0])
            points += len(run.points)
        return AddedRuns(new, replaced, known, points)

    def _is_former(self, run: Run, found: tuple[int, bytes] | None) -> bool:
        """Return whether a run of another tool's file is stored by an earlier identity, or with
        other names of its tests: names depend on what was known when it was added."""
        if not run.former:
            return False
        row = (
            found
            or self._database.execute(
                "SELECT id FROM run WHERE name IN (SELECT value FROM json_each(?))",
                (msgspec.json.encode(run.former).decode(),),
            ).fetchone()
        )
        if not row:
            return False
        keys = self.keys()
        points = [(keys[point.series], point) for point in self.points(row[0])]
        if found and {key for key, _ in points} == {key for key, _ in run.points}:
            return False
        return values_of(points) == values_of(run.points)

    def _replace_without(self, run: Run) -> None:
        """Store what has no value in a run, unless that of a newer one is stored."""
        execute = self._database.execute
        execute("DELETE FROM no_value WHERE run = ?", (run.name,))
        self.add_without(run.without)

    def add_without(self, found: Iterable[NoValue]) -> None:
        """Store what has no value, also what another file says, unless that of a newer run is
        stored."""
        self._database.execute(_NO_VALUE)
        for no_value in found:
            self._database.execute(
                "INSERT INTO no_value VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                "run = excluded.run, started_ns = excluded.started_ns, record = excluded.record "
                "WHERE excluded.started_ns >= started_ns",
                (
                    *(no_value.test, no_value.metric, no_value.run, no_value.started_ns),
                    msgspec.json.encode(no_value),
                ),
            )

    def add_costs(self, found: Iterable[LevelCost]) -> None:
        """Store what levels cost, unless a newer figure is stored."""
        self._database.execute(_LEVEL_COST)
        self._database.executemany(
            "INSERT INTO level_cost VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "measured_ns = excluded.measured_ns, record = excluded.record "
            "WHERE excluded.measured_ns >= measured_ns",
            [
                (*(one.machine, one.metric, one.level, one.measured_ns), msgspec.json.encode(one))
                for one in found
            ],
        )

    def _insert(self, run: Run, digest: bytes, place: int | None) -> None:
        execute = self._database.execute
        first = run.points[0][1]
        if run.environment is not None:
            execute(
                "INSERT INTO environment VALUES (?, ?) ON CONFLICT DO NOTHING",
                (run.environment.id, msgspec.json.encode(run.environment.facts)),
            )
        (number,) = execute(
            "INSERT INTO run (id, name, digest, study, session, started_ns, "
            '"commit", commit_time_ns, dirty, tags, environment) '
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
            (
                *(place, first.run, digest, first.study, first.session, first.started_ns),
                *(first.commit, first.commit_time_ns, first.dirty),
                " ".join(first.tags),
                None if run.environment is None else run.environment.id,
            ),
        ).fetchone()
        if run.full_names:
            self._database.execute(_FULL_NAME)
            self._database.executemany(
                "INSERT INTO full_name VALUES (?, ?) ON CONFLICT DO NOTHING", run.full_names
            )
        keys = [(key.test, key.metric, key.machine) for key, _ in run.points]
        machines = {(key.machine, run.machine) for key, _ in run.points}
        self._database.executemany(
            "INSERT INTO machine VALUES (?, ?) ON CONFLICT DO NOTHING", list(machines)
        )
        series = self._ids("series", ("test", "metric", "machine"), keys)
        kinds = [(one.command, one.unit, one.better) for _, one in run.points]
        measured = self._ids("measured", ("command", "unit", "better"), kinds)
        rows = (
            (
                *(number, series[key], one.estimate, one.low, one.high),
                *(one.confidence, one.trials, measured[kind], " ".join(one.codes)),
                *(one.state, one.asked),
            )
            for (_, one), key, kind in zip(run.points, keys, kinds, strict=True)
        )
        self._database.executemany(
            "INSERT INTO point VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", sorted(rows)
        )

    def _ids(
        self, table: str, columns: Sequence[str], rows: Iterable[tuple[str, ...]]
    ) -> dict[tuple[str, ...], int]:
        """Return the id of each row of a table of names; new rows are added."""
        distinct = list(dict.fromkeys(rows))
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        self._database.executemany(
            f"INSERT INTO {table} ({names}) VALUES ({marks}) ON CONFLICT DO NOTHING", distinct
        )
        where = " AND ".join(f"{column} = ?" for column in columns)
        statement = f"SELECT id FROM {table} WHERE {where}"
        return {row: self._database.execute(statement, row).fetchone()[0] for row in distinct}

    def drop_oldest(self, max_bytes: int) -> int:
        """Remove the oldest runs until the file has at most this size [bytes], and return how many
        were removed.

        The newest run and all acceptances stay, whatever the size. The file shrinks when it is
        closed.
        """
        execute = self._database.execute
        dropped = 0
        if self._used_bytes() > max_bytes:
            self._forget_levels()
        while True:
            (runs,) = execute("SELECT count(*) FROM run").fetchone()
            if self._used_bytes() <= max_bytes or runs <= 1:
                return dropped
            oldest = execute(
                "SELECT id FROM run ORDER BY started_ns, id LIMIT ?", (max(1, runs // 50),)
            ).fetchall()
            self._database.executemany("DELETE FROM point WHERE run = ?", oldest)
            self._database.executemany("DELETE FROM run WHERE id = ?", oldest)
            for table, column, user in (
                ("environment", "environment", "run"),
                ("measured", "measured", "point"),
                ("series", "series", "point"),
                ("machine", "machine", "series"),
            ):
                execute(
                    f"DELETE FROM {table} WHERE id NOT IN "
                    f"(SELECT {column} FROM {user} WHERE {column} IS NOT NULL)"
                )
            dropped += len(oldest)
            self._has_free_pages = True

    def accept(self, acceptance: Acceptance) -> bool:
        """Add an acceptance; return whether it was not known yet."""
        record = msgspec.json.encode(acceptance)
        name = hashlib.sha256(record).hexdigest()[:16]
        cursor = self._database.execute(
            "INSERT INTO acceptance (name, record) VALUES (?, ?) ON CONFLICT DO NOTHING",
            (name, record),
        )
        return cursor.rowcount > 0

    # -- reading ------------------------------------------------------------------------

    def series(self) -> list[SeriesKey]:
        """Return the keys of all series, in order."""
        return sorted(self.keys().values())

    def runs(self) -> list[Run]:
        """Return the runs in the order of their starts."""
        return self._runs_with((run, None) for run in self.stored_runs())

    def part(
        self, wanted: Callable[[SeriesKey], bool] | None, since_ns: int
    ) -> tuple[list[Run], list[RunKeys]]:
        """Return the runs in the order of their starts, with the points of the wanted series from a
        time on and the last point of each other series, and of which series each run has a value:
        what is gone is known by these."""
        keys, of_runs = self.keys(), list(self._series_of_runs())
        chosen = {number for number, key in keys.items() if not wanted or wanted(key)}
        last = {number: run.id for run, some in of_runs for number in some}

        def read(run: StoredRun, number: int) -> bool:
            is_asked = number in chosen and run.started_ns >= since_ns
            return is_asked or last[number] == run.id

        @functools.cache
        def keys_of(some: tuple[int, ...]) -> tuple[SeriesKey, ...]:
            return tuple(keys[number] for number in some)

        runs = self._runs_with(
            (run, {number for number in some if read(run, number)}) for run, some in of_runs
        )
        return runs, [
            RunKeys(run.name, run.study, run.started_ns, keys_of(some)) for run, some in of_runs
        ]

    def _runs_with(self, chosen: Iterable[tuple[StoredRun, Collection[int] | None]]) -> list[Run]:
        """Return runs with their points of some series, None for all, without those that have none."""
        keys, measured, environments = self.keys(), self.measured(), self.environments()
        words = dict(self._database.execute("SELECT id, words FROM machine").fetchall())
        runs = []
        for run, some in chosen:
            points = tuple(
                (
                    keys[stored_point.series],
                    history_point(run, stored_point, measured[stored_point.measured]),
                )
                for stored_point in (self.points(run.id, some) if some or some is None else ())
            )
            if points:
                runs.append(
                    Run(
                        points=points,
                        environment=environments.get(run.environment),
                        machine=words[points[0][0].machine],
                    )
                )
        return runs

    def _series_of_runs(self) -> Iterator[tuple[StoredRun, tuple[int, ...]]]:
        """Yield the runs in the order of their starts, with the ids of their series."""
        statement = "SELECT run, group_concat(series) FROM point GROUP BY run"
        texts = dict(self._database.execute(statement).fetchall())

        @functools.cache
        def numbers(text: str) -> tuple[int, ...]:
            return tuple(map(int, text.split(",")))

        for run in self.stored_runs():
            if run.id in texts:
                yield run, numbers(texts[run.id])

    def _has_table(self, name: str) -> bool:
        """Return whether the file has a table that files of earlier versions lack."""
        statement = "SELECT count(*) FROM sqlite_master WHERE name = ?"
        return bool(self._database.execute(statement, (name,)).fetchone()[0])

    def without(self) -> list[NoValue]:
        """Return what has no value in the newest session of it."""
        if not self._has_table("no_value"):
            return []
        rows = self._database.execute("SELECT record FROM no_value ORDER BY test, metric")
        return [msgspec.json.decode(record, type=NoValue) for (record,) in rows]

    def costs(self) -> list[LevelCost]:
        """Return what levels cost, of each machine, metric and level the newest."""
        if not self._has_table("level_cost"):
            return []
        rows = self._database.execute(
            "SELECT record FROM level_cost ORDER BY machine, metric, level"
        )
        return [msgspec.json.decode(record, type=LevelCost) for (record,) in rows]

    def unresolved(self, found: Sequence[NoValue]) -> tuple[NoValue, ...]:
        """Return what of this has had no value since, in any run of the file."""
        if not found:
            return ()
        rows = self._database.execute(
            "SELECT test, metric, max(started_ns) FROM run JOIN point ON point.run = run.id "
            "JOIN series ON series.id = point.series WHERE started_ns >= ? GROUP BY test, metric",
            (min(no_value.started_ns for no_value in found),),
        )
        return unresolved(found, rows)

    def later_runs(self, point: HistoryPoint) -> Sequence[tuple[int, str, str]]:
        """Return the runs after that of a point that have a series of it: start, run and study."""
        place = point.started_ns, point.run
        if place not in self._later:
            self._later[place] = self._database.execute(
                "SELECT started_ns, name, study FROM run AS later WHERE started_ns > ? AND EXISTS ("
                "SELECT 1 FROM point AS own JOIN point AS other ON other.series = own.series "
                "WHERE own.run = (SELECT id FROM run WHERE name = ?) AND other.run = later.id) "
                "ORDER BY started_ns, id",
                place,
            ).fetchall()
        return self._later[place]

    def keys(self) -> dict[int, SeriesKey]:
        """Return the keys of all series, by their ids."""
        rows = self._database.execute("SELECT id, test, metric, machine FROM series")
        return {number: SeriesKey(*names) for number, *names in rows}

    def full_names(self) -> dict[str, str]:
        """Return the full names of tests of other tools whose series have short ones."""
        if not self._has_table("full_name"):
            return {}
        return dict(self._database.execute("SELECT test, full FROM full_name"))

    def measured(self) -> dict[int, Measured]:
        """Return what points measured, by id, in order of the ids."""
        rows = self._database.execute("SELECT id, command, unit, better FROM measured ORDER BY id")
        return {number: Measured(*kind) for number, *kind in rows}

    def environments(self) -> dict[str, Environment]:
        """Return the environments, by id."""
        rows = self._database.execute("SELECT id, facts FROM environment")
        return {
            name: Environment(name, msgspec.json.decode(facts, type=tuple[Fact, ...]))
            for name, facts in rows
        }

    def stored_runs(self) -> list[StoredRun]:
        """Return the runs in the order of their starts; those of one moment in the order in which
        they were added."""
        rows = self._database.execute(
            'SELECT id, digest, name, study, session, started_ns, "commit", commit_time_ns, dirty, '
            "tags, environment FROM run ORDER BY started_ns, id"
        )
        return [
            StoredRun(
                id=number,
                digest=digest,
                name=name,
                study=study,
                session=session,
                started_ns=started_ns,
                commit=commit,
                commit_time_ns=commit_time_ns,
                dirty=bool(dirty),
                tags=tuple(tags.split()),
                environment=environment or "",
            )
            for number, digest, name, study, session, started_ns, commit, commit_time_ns, dirty, tags, environment in rows
        ]

    def points(self, run: int, series: Collection[int] | None = None) -> Iterator[StoredPoint]:
        """Yield the points of a run, of some series or of all, in order of the series' ids."""
        some = ""
        values: list[int | str] = [run]
        if series is not None:
            some = " AND series IN (SELECT value FROM json_each(?))"
            values.append(msgspec.json.encode(list(series)).decode())
        rows = self._database.execute(
            "SELECT series, measured, codes, estimate, low, high, confidence, trials, state, "
            f"asked FROM point WHERE run = ?{some} ORDER BY series",
            values,
        )
        return itertools.starmap(StoredPoint, rows)

    def acceptances(self) -> list[Acceptance]:
        """Return the acceptances in the order in which they were added."""
        return list(self.named_acceptances().values())

    def named_acceptances(self) -> dict[str, Acceptance]:
        """Return the acceptances by name, in the order in which they were added."""
        rows = self._database.execute("SELECT name, record FROM acceptance ORDER BY id")
        return {name: msgspec.json.decode(record, type=Acceptance) for name, record in rows}

    # -- the cache ----------------------------------------------------------------------

    def level_cache(self) -> LevelCache | None:
        """Return what was stored of the levels, from whatever runs; None if nothing is stored."""
        if not self._has_table("level_cache"):
            return None
        row = self._database.execute(
            "SELECT method, runs, acceptances, levels FROM level_cache"
        ).fetchone()
        if row is None:
            return None
        method, runs, acceptances, levels = row
        return LevelCache(method, runs, tuple(acceptances.split()), levels)

    def tail_cache(self, run: StoredRun) -> bytes | None:
        """Return what was stored of the points of a run; None if that is nothing, or of a run that
        said something else."""
        row = self._database.execute(
            "SELECT points FROM tail_cache WHERE run = ? AND digest = ?", (run.id, run.digest)
        ).fetchone()
        return None if row is None else row[0]

    def store_cache(
        self,
        levels: LevelCache,
        tails: Iterable[tuple[StoredRun, bytes]],
        *,
        since_ns: int | None,
        max_bytes: int | None = None,
    ) -> None:
        """Replace what is stored of the levels, add points of runs, and remove those of all runs
        that started before a moment [ns since 1970], or of all others if it is None.

        Nothing is stored if the file would be larger than `max_bytes`.
        """
        execute = self._database.execute
        for statement in _CACHE:
            execute(statement)
        execute("DELETE FROM level_cache")
        execute(
            "DELETE FROM tail_cache WHERE run NOT IN (SELECT id FROM run WHERE started_ns >= ?)",
            (2**63 - 1 if since_ns is None else since_ns,),
        )
        added = list(tails)
        more = len(levels.levels) + len(levels.runs) + sum(len(t) for _, t in added)
        if max_bytes is not None and self._used_bytes() + more > max_bytes:
            self._forget_levels()
            return
        execute(
            "INSERT INTO level_cache VALUES (1, ?, ?, ?, ?)",
            (levels.method, levels.runs, " ".join(levels.acceptances), levels.levels),
        )
        self._database.executemany(
            "INSERT OR REPLACE INTO tail_cache VALUES (?, ?, ?)",
            ((run.id, run.digest, points) for run, points in added),
        )

    def _forget_levels(self) -> None:
        if self._has_table("level_cache"):
            self._database.execute("DROP TABLE level_cache")
            self._database.execute("DROP TABLE tail_cache")
            self._has_free_pages = True

    def _used_bytes(self) -> int:
        execute = self._database.execute
        (pages,) = execute("PRAGMA page_count").fetchone()
        (free,) = execute("PRAGMA freelist_count").fetchone()
        (page_bytes,) = execute("PRAGMA page_size").fetchone()
        return int((pages - free) * page_bytes)


def history_point(run: StoredRun, one: StoredPoint, measured: Measured) -> HistoryPoint:
    """Return a stored point as a point of a history."""
    return HistoryPoint(
        run=run.name,
        study=run.study,
        session=run.session,
        started_ns=run.started_ns,
        estimate=one.estimate,
        low=one.low,
        high=one.high,
        confidence=one.confidence,
        trials=one.trials,
        unit=measured.unit,
        better=measured.better,
        commit=run.commit,
        commit_time_ns=run.commit_time_ns,
        dirty=run.dirty,
        tags=run.tags,
        environment=run.environment,
        command=measured.command,
        codes=tuple(one.codes.split()),
        state=one.state,
        asked=bool(one.asked),
    )


def values_of(
    points: Iterable[tuple[SeriesKey, HistoryPoint | StoredPoint]],
) -> Counter[tuple[str, str, float]]:
    """Return the values of points with their metrics and machines, whatever their tests are called."""
    return Counter((key.metric, key.machine, one.estimate) for key, one in points)


def _digest(run: Run) -> bytes:
    """Return the hash of what a run says, wherever its study lies."""
    points = [(key, msgspec.structs.replace(point, study="")) for key, point in run.points]
    environment = None if run.environment is None else run.environment.id
    return hashlib.sha256(msgspec.json.encode((points, environment))).digest()[:16]


@contextlib.contextmanager
def _reporting(path: Path, with_option: str = "") -> Iterator[None]:
    """Turn errors of SQLite and of the file system into StudyError `history-unusable`."""
    try:
        yield
    except (
        sqlite3.Error,
        OSError,
        msgspec.MsgspecError,
        RecursionError,
        UnicodeDecodeError,
    ) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StudyError(
            "history-unusable",
            f"cannot use the history file {path}: {reason}",
            f"give another file{with_option}, or a copy of it from before",
        ) from None


def _check(path: Path) -> None:
    if not is_history_file(path):
        raise StudyError(
            "not-a-history",
            f"{path} is not a history file of bw",
            "`bw history add STUDY --file FILE` makes one",
        )


def _check_version(path: Path, database: sqlite3.Connection) -> None:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version != _VERSION:
        raise StudyError(
            "history-newer",
            f"{path} has version {version} of the format, this bw reads version {_VERSION}",
            "use the bw that wrote it",
        )
