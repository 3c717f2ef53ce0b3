"""The journal: durable, append-only, checked before it is trusted, left alone if refused."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchwright.core.errors import StudyError
from benchwright.study.directory import JOURNAL
from benchwright.study.journal import NewEntry, SessionInfo, Study

INFO = SessionInfo(
    started_ns=1,
    version="0.1.0",
    boot_id="boot",
    directory="/",
    arguments=("run", "s.ap"),
    defines=(("FS", "ext2"),),
    program_main="s.ap",
    sources=(("s.ap", "TEST t 3\nEXEC true\nDONE\n"),),
    options={"a": "b"},
)
ENTRIES = 400


def outcomes(first: int, count: int) -> list[NewEntry]:
    pad = "x" * 200
    return [
        NewEntry("outcome", f"key-{n}", {"n": n, "pad": pad}) for n in range(first, first + count)
    ]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A study with one session and 400 outcomes, closed."""
    path = tmp_path / "study"
    with contextlib.closing(Study.create_or_open(path)) as study:
        number = study.begin_session(INFO)
        for first in range(0, ENTRIES, 20):
            study.append(number, outcomes(first, 20))
    return path


def contents(path: Path) -> dict[str, tuple[int, str]]:
    """Return every file of a directory: name -> (mode, hash)."""
    return {
        str(p.relative_to(path)): (
            p.lstat().st_mode,
            hashlib.sha256(p.read_bytes()).hexdigest() if p.is_file() else "",
        )
        for p in sorted(path.rglob("*"))
    }


def refusal(path: Path, opener: Callable[[Path], Study]) -> str:
    """Return the code with which a study is refused; it must be left as it was."""
    before = contents(path)
    with pytest.raises(StudyError) as refused:
        opener(path).close()
    assert contents(path) == before, "what is refused is not modified"
    return refused.value.code


WRITERS = [Study.create_or_open, Study.open_to_resume]


@pytest.mark.parametrize("inside", ["", "/deeper"])
def test_a_file_in_place_of_a_study_is_named_with_the_option(tmp_path: Path, inside: str) -> None:
    file = tmp_path / "lock"
    file.write_text("")
    with pytest.raises(StudyError, match="--study DIR") as raised:
        Study.create_or_open(Path(f"{file}{inside}"))
    assert raised.value.code == "study-unusable"
    assert f"{file} is a file" in str(raised.value)


def test_what_was_appended_is_there_again(place: Path) -> None:
    with contextlib.closing(Study.open_to_resume(place)) as study:
        (session,) = study.sessions()
        assert session.info == INFO
        assert session.status == "crashed", "no end was recorded"
        found = study.load_outcomes(session.number)
        assert len(found) == ENTRIES
        assert found["key-7"].startswith(b'{"n":7,')


def test_the_last_end_counts(place: Path) -> None:
    with contextlib.closing(Study.open_to_resume(place)) as study:
        study.end_session(1, "interrupted", "by the user")
        assert study.last_resumable() == study.sessions()[0]
        study.end_session(1, "complete", "")
        assert study.sessions()[0].status == "complete"
        assert study.last_resumable() is None
        assert study.begin_session(INFO) == 2, "a second run is a new session"
        resumable = study.last_resumable()
        assert resumable is not None
        assert (resumable.number, resumable.status) == (2, "crashed")
        assert study.load_outcomes(2) == {}
        study.append(2, outcomes(0, 1))


def test_a_second_outcome_of_a_key_is_refused_with_its_whole_batch(place: Path) -> None:
    with contextlib.closing(Study.open_to_resume(place)) as study:
        with pytest.raises(sqlite3.IntegrityError):
            study.append(1, [*outcomes(1000, 3), *outcomes(5, 1)])
        assert len(study.load_outcomes(1)) == ENTRIES
        study.append(1, outcomes(1000, 3))
    Study.open_to_resume(place).close()


def test_begin_links_an_outcome_to_its_begin(place: Path) -> None:
    with contextlib.closing(Study.open_to_resume(place)) as study:
        (begin,) = study.append(1, [NewEntry("begin", "b", {"keys": ["b"]})])
        study.append(1, [NewEntry("outcome", "b", 1, begin)])
        *_, last = study.entries(1, ("begin", "outcome"))
        assert (last.key, last.begin, last.payload) == ("b", begin, b"1")
        with pytest.raises(sqlite3.IntegrityError):
            study.append(1, [NewEntry("outcome", "c", 1, 10**6)])


def test_entries_under_a_key(place: Path) -> None:
    with contextlib.closing(Study.open_to_resume(place)) as study:
        keys = [e.key for e in study.entries(1, ("outcome",), under="key-39")]
        assert keys == ["key-39", *(f"key-{n}" for n in range(390, 400))]
        assert list(study.entries(1, ("outcome",), under="key-%")) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET payload = x'31' WHERE seq = 3",
        "DELETE FROM entry",
        "UPDATE session SET info = x'31'",
        "DELETE FROM session",
    ],
)
def test_nothing_is_updated_or_deleted(place: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(place / JOURNAL)) as database:
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            database.execute(statement)
        with pytest.raises(sqlite3.IntegrityError):
            database.execute(
                "INSERT INTO entry (session, kind, key, payload, chain) "
                "VALUES (1, 'gossip', 'k', x'', x'')"
            )


def test_the_settings_that_make_a_commit_durable(place: Path) -> None:
    with contextlib.closing(Study.open_to_resume(place)) as study:
        database = study._database
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert database.execute("PRAGMA synchronous").fetchone() == (2,), "FULL"
        assert database.execute("PRAGMA foreign_keys").fetchone() == (1,)


# -- who may open it ---------------------------------------------------------------------


def test_a_new_study_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "study"
    Study.create_or_open(path).close()
    assert path.stat().st_mode & 0o777 == 0o700
    assert (path / JOURNAL).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("opener", WRITERS)
def test_a_second_writer_is_refused(place: Path, opener: Callable[[Path], Study]) -> None:
    with contextlib.closing(Study.open_to_resume(place)):
        with pytest.raises(StudyError, match=f"process {os.getpid()}") as refused:
            opener(place)
        assert refused.value.code == "study-locked"
    opener(place).close()


def test_a_reader_works_while_a_writer_has_a_transaction_open(place: Path) -> None:
    with contextlib.closing(Study.open_to_resume(place)) as study:
        study._database.execute("BEGIN IMMEDIATE")
        study._database.execute(
            "INSERT INTO entry (session, kind, key, payload, chain) "
            "VALUES (1, 'outcome', 'unseen', x'31', x'')"
        )
        with contextlib.closing(Study.open_to_read(place)) as reader:
            assert len(reader.load_outcomes(1)) == ENTRIES
        study._database.execute("ROLLBACK")
        study.append(1, outcomes(ENTRIES, 1))
        with contextlib.closing(Study.open_to_read(place)) as reader:
            assert len(reader.load_outcomes(1)) == ENTRIES + 1


def test_a_reader_cannot_write(place: Path) -> None:
    with (
        contextlib.closing(Study.open_to_read(place)) as reader,
        pytest.raises(StudyError, match="readonly"),
    ):
        reader.append(1, outcomes(5000, 1))


def test_a_race_of_two_births_has_one_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another bw makes the study between our look and our lock."""
    path = tmp_path / "study"
    real = fcntl.flock

    def late(descriptor: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        other = Study.create_or_open(path)
        other.begin_session(INFO)
        other.close()
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with contextlib.closing(Study.create_or_open(path)) as study:
        assert len(study.sessions()) == 1, "the other's session is still there"


# -- what is refused ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["thesis.tex", "logs", "results", f"{JOURNAL}-wal", ".hidden"])
def test_a_directory_with_something_else_is_not_a_study(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("precious")
    assert refusal(tmp_path, Study.create_or_open) == "not-a-study"


def test_what_is_there_before_a_journal_may_be_there(tmp_path: Path) -> None:
    for name in ("lock", f"{JOURNAL}.new", f"{JOURNAL}.new-wal"):
        (tmp_path / name).write_bytes(b"cut short")
    (tmp_path / "testroot").mkdir()
    tmp_path.chmod(0o700)
    Study.create_or_open(tmp_path).close()
    assert not list(tmp_path.glob("*.new*"))


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("precious")
    with pytest.raises(StudyError) as refused:
        Study.create_or_open(path)
    assert refused.value.code == "study-unusable"
    assert path.read_text() == "precious"


@pytest.mark.parametrize("opener", [Study.open_to_resume, Study.open_to_read])
def test_what_is_not_there_is_not_a_study(tmp_path: Path, opener: Callable[[Path], Study]) -> None:
    assert refusal(tmp_path, opener) == "not-a-study"


@pytest.mark.parametrize("opener", [*WRITERS, Study.open_to_read])
def test_another_programs_database_is_not_a_study(
    tmp_path: Path, opener: Callable[[Path], Study]
) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / JOURNAL)) as database:
        database.execute("CREATE TABLE mail (text)")
    tmp_path.chmod(0o700)
    (tmp_path / JOURNAL).chmod(0o600)
    assert refusal(tmp_path, opener) == "not-a-study"


@pytest.mark.parametrize("opener", [*WRITERS, Study.open_to_read])
def test_a_newer_version_is_refused(place: Path, opener: Callable[[Path], Study]) -> None:
    with contextlib.closing(sqlite3.connect(place / JOURNAL)) as database:
        database.execute("PRAGMA user_version = 2")
    assert refusal(place, opener) == "journal-newer"


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x41
    path.write_bytes(data)


def spots() -> Iterator[float]:
    """Return places in the file, as shares of its length, from its second page on."""
    yield from (n / 40 for n in range(3, 40))


@pytest.mark.parametrize("opener", WRITERS)
def test_damage_in_the_middle_is_refused(place: Path, opener: Callable[[Path], Study]) -> None:
    """Every flipped byte that a reader could come to see is found: in a page's
    structure by SQLite, in a payload by the chain. Unused bytes carry nothing."""
    whole = (place / JOURNAL).read_bytes()
    with contextlib.closing(Study.open_to_read(place)) as study:
        expected = (study.sessions(), list(study.entries(1, ("outcome",))))
    for old in (f"{JOURNAL}-wal", f"{JOURNAL}-shm"):
        (place / old).unlink(missing_ok=True)
    refused = 0
    for share in spots():
        flip(place / JOURNAL, int(len(whole) * share))
        try:
            with contextlib.closing(opener(place)) as study:
                seen = (study.sessions(), list(study.entries(1, ("outcome",))))
        except StudyError:
            assert refusal(place, opener) == "journal-damaged"
            refused += 1
        else:
            assert seen == expected
        (place / JOURNAL).write_bytes(whole)
    assert refused > 20


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.99])
@pytest.mark.parametrize("opener", WRITERS)
def test_a_truncated_journal_is_refused(
    place: Path, opener: Callable[[Path], Study], share: float
) -> None:
    length = (place / JOURNAL).stat().st_size
    os.truncate(place / JOURNAL, int(length * share))
    assert refusal(place, opener) == "journal-damaged"


def test_a_changed_session_is_refused(place: Path) -> None:
    """The suite's own text is as precious as its outcomes."""
    data = (place / JOURNAL).read_bytes()
    assert data.count(b"EXEC true") == 1
    (place / JOURNAL).write_bytes(data.replace(b"EXEC true", b"EXEC evil"))
    assert refusal(place, Study.open_to_resume) == "journal-damaged"


def test_a_reader_of_damage_gets_the_same_refusal(place: Path) -> None:
    length = (place / JOURNAL).stat().st_size
    os.truncate(place / JOURNAL, length // 2)

    def read(path: Path) -> None:
        with contextlib.closing(Study.open_to_read(path)) as study:
            study.load_outcomes(1)

    with pytest.raises(StudyError) as refused:
        read(place)
    assert refused.value.code == "journal-damaged"


def test_damage_beside_a_hot_log_is_refused_and_the_log_left(place: Path) -> None:
    """After a crash the newest entries are in the write-ahead log alone."""
    kill_in_a_loop(place, entries=30)
    assert (place / f"{JOURNAL}-wal").stat().st_size > 0
    (place / f"{JOURNAL}-shm").unlink()
    data = (place / JOURNAL).read_bytes()
    at = data.index(b'"n":200,')
    (place / JOURNAL).write_bytes(data[:at] + b'"n":201,' + data[at + 8 :])
    assert refusal(place, Study.open_to_resume) == "journal-damaged"
    (place / JOURNAL).write_bytes(data)
    with contextlib.closing(Study.open_to_resume(place)) as study:
        assert len(study.load_outcomes(1)) >= ENTRIES + 30


@pytest.mark.parametrize("share", [0.0, 0.0005, 0.01, 0.2, 0.5, 0.8])
def test_damage_in_a_hot_log_is_refused(place: Path, share: float) -> None:
    """SQLite itself would take it for the log's end, and forget what follows."""
    kill_in_a_loop(place, entries=60)
    log = place / f"{JOURNAL}-wal"
    flip(log, int(log.stat().st_size * share))
    assert refusal(place, Study.open_to_resume) == "journal-damaged"


@pytest.mark.parametrize("cut", [1, 100, 4095, 4120, 4121])
def test_a_transaction_torn_by_a_crash_is_no_damage(place: Path, cut: int) -> None:
    """What was not written whole was not acknowledged; the rest is kept."""
    last = kill_in_a_loop(place, entries=40)
    log = place / f"{JOURNAL}-wal"
    os.truncate(log, log.stat().st_size - cut)
    with contextlib.closing(Study.open_to_resume(place)) as study:
        found = study.load_outcomes(1)
        assert all(f"live-{n}" in found for n in range(last - 2))
        study.append(1, outcomes(9000, 1))
    Study.open_to_resume(place).close()


def test_the_last_transaction_torn_in_place_is_no_damage(place: Path) -> None:
    """Blocks of one transaction reach a disk in any order when the power fails."""
    kill_in_a_loop(place, entries=40)
    log = place / f"{JOURNAL}-wal"
    flip(log, log.stat().st_size - 200)
    Study.open_to_resume(place).close()


# -- root --------------------------------------------------------------------------------

ROOT = pytest.mark.skipif(
    os.geteuid() != 0, reason="the rules for root need root: NOT TESTED in this run"
)


@ROOT
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
@pytest.mark.parametrize("name", ["", JOURNAL])
def test_root_refuses_what_others_can_write(place: Path, name: str, mode: int) -> None:
    (place / name).chmod(mode)
    assert refusal(place, Study.open_to_resume) == "study-unsafe"
    assert refusal(place, Study.create_or_open) == "study-unsafe"
    (place / name).chmod(0o700)
    Study.open_to_resume(place).close()


@ROOT
@pytest.mark.parametrize("name", ["", JOURNAL])
def test_root_refuses_what_belongs_to_another(place: Path, name: str) -> None:
    os.chown(place / name, 1234, 0)
    assert refusal(place, Study.open_to_resume) == "study-unsafe"


@ROOT
def test_root_refuses_symbolic_links(place: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(place)
    assert refusal(link, Study.open_to_resume) == "study-unsafe"
    (place / JOURNAL).rename(tmp_path / "elsewhere")
    (place / JOURNAL).symlink_to(tmp_path / "elsewhere")
    assert refusal(place, Study.open_to_resume) == "study-unsafe"


@ROOT
def test_root_refuses_a_planted_log(place: Path) -> None:
    kill_in_a_loop(place, entries=3)
    (place / f"{JOURNAL}-wal").chmod(0o666)
    assert refusal(place, Study.open_to_resume) == "study-unsafe"


@ROOT
def test_another_user_reads_an_archived_study(place: Path) -> None:
    """Without leave to write, and without a write-ahead log, it is read as it is."""
    script = (
        "import os, sys; from pathlib import Path\n"
        "from benchwright.study.journal import Study\n"
        "os.setuid(65534)\n"
        "print(len(Study.open_to_read(Path(sys.argv[1])).load_outcomes(1)))\n"
    )
    with tempfile.TemporaryDirectory() as archive:
        shutil.copytree(place, archive, dirs_exist_ok=True)
        Path(archive).chmod(0o755)
        (Path(archive) / JOURNAL).chmod(0o644)
        before = contents(Path(archive))
        done = subprocess.run(
            [sys.executable, "-c", script, archive], capture_output=True, text=True
        )
        assert (done.stdout.strip(), done.stderr) == (str(ENTRIES), "")
        assert contents(Path(archive)) == before


# -- kill -9 -----------------------------------------------------------------------------

LOOP = """
import sys
from pathlib import Path
from benchwright.study.journal import NewEntry, Study
study = Study.open_to_resume(Path(sys.argv[1]))
first = int(sys.argv[2])
for n in range(first, first + 100000):
    study.append(1, [NewEntry("outcome", f"live-{n}", {"n": n})])
    sys.stdout.write(f"{n}\\n")
    sys.stdout.flush()
"""


def kill_in_a_loop(place: Path, entries: int, first: int = 0) -> int:
    """Append in another process, kill it, and return the last acknowledged number."""
    process = subprocess.Popen(
        [sys.executable, "-c", LOOP, str(place), str(first)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    acknowledged = b""
    for _ in range(entries):
        acknowledged = process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate()
    whole = rest[: rest.rfind(b"\n") + 1].split()
    return int(whole[-1] if whole else acknowledged)


def test_kill_9_loses_no_acknowledged_entry(place: Path) -> None:
    first = 0
    for round_ in range(5):
        last = kill_in_a_loop(place, entries=20 + 7 * round_, first=first)
        with contextlib.closing(Study.open_to_resume(place)) as study:
            keys = {k for k in study.load_outcomes(1) if k.startswith("live-")}
        lost = {f"live-{n}" for n in range(first, last + 1)} - keys
        assert lost == set()
        first = last + 2
    assert first > 100


def test_the_header_is_read_where_sqlite_writes_it(place: Path) -> None:
    """check_header reads offsets of SQLite's file format; they must agree with it."""
    head = (place / JOURNAL).read_bytes()[:100]
    with contextlib.closing(sqlite3.connect(place / JOURNAL)) as database:
        (version,) = database.execute("PRAGMA user_version").fetchone()
        (application,) = database.execute("PRAGMA application_id").fetchone()
    assert struct.unpack_from(">I", head, 60) == (version,)
    assert struct.unpack_from(">I", head, 68) == (application,)
