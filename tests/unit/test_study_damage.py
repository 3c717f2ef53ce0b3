"""A damaged journal gives no other figures: flips, cuts and zeros at seeded random places.

Each damage is made to a copy of one small study, closed (`journal.sqlite` alone) or left
by a writer that was killed (everything in the write-ahead log). A reader then has all
records as they were written, or refuses. Of a damaged log it may have fewer: the end of
a log cannot be told from one that a power cut tore.
"""

from __future__ import annotations

import contextlib
import io
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from benchwright.cli.main import main
from benchwright.core.errors import StudyError
from benchwright.study.directory import JOURNAL
from benchwright.study.journal import JournalEntry, NewEntry, Study

WAL = f"{JOURNAL}-wal"
SEED = 20261122
KINDS = ("begin", "outcome", "void", "checkpoint", "restore", "stop", "finding", "end")
READERS = {
    "stats": ("stats", "STUDY"),
    "stats-json": ("stats", "STUDY", "--json"),
    "why": ("why", "STUDY"),
    "compare": ("compare", "STUDY", "OTHER"),
    "plot": ("plot", "arm", "STUDY", "--json"),
    "env": ("env", "STUDY"),
    "ls": ("ls", "STUDY"),
    "show": ("show", "STUDY"),
}


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of one session with ten trials and one declared metric, closed."""
    place = tmp_path_factory.mktemp("damage") / "intact"
    run(place)
    return place


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another study of the same command."""
    place = tmp_path_factory.mktemp("damage") / "other"
    run(place)
    return place


def run(place: Path) -> None:
    """Measure a command that prints a metric ten times."""
    command = ("sh", "-c", "echo rate $((1000 + $APEPOCH))")
    wish = ("--max-runs", "10", "--quiet", "--metric", r"rate~rate (\d+)")
    code, _, err = output(["run", *wish, "--study", str(place), "--", *command])
    assert code == 0, err


@pytest.fixture(scope="module")
def logged(intact: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same records as a killed writer leaves them: all in the write-ahead log."""
    place = tmp_path_factory.mktemp("damage")
    with (
        contextlib.closing(Study.open_to_read(intact)) as old,
        contextlib.closing(Study.create_or_open(place / "open")) as new,
    ):
        number = new.begin_session(old.sessions()[0].info)
        for entry in old.entries(1, KINDS):
            payload = msgspec.Raw(entry.payload)
            new.append(number, [NewEntry(entry.kind, entry.key, payload, entry.begin)])
        shutil.copytree(place / "open", place / "killed")
    (place / "killed" / f"{JOURNAL}-shm").unlink()
    assert (place / "killed" / WAL).stat().st_size > 100_000
    return place / "killed"


def output(words: list[str]) -> tuple[int, str, str]:
    """Return the exit code, stdout and stderr of a command, run in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    return code, out.getvalue(), err.getvalue()


def flip(data: bytearray, random_: random.Random) -> None:
    """Turn one to four bits over, anywhere."""
    for _ in range(random_.randint(1, 4)):
        data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)


def digit(data: bytearray, random_: random.Random) -> None:
    """Change one digit of a figure: JSON and SQLite's pages stay well formed."""
    places = [n for n, byte in enumerate(data) if 48 <= byte <= 57]
    data[random_.choice(places)] ^= 1


def cut(data: bytearray, random_: random.Random) -> None:
    """Cut the end off."""
    del data[random_.randrange(len(data)) :]


def zero(data: bytearray, random_: random.Random) -> None:
    """Zero a range, as a lost sector is."""
    at, length = random_.randrange(len(data)), random_.choice((1, 16, 512, 4096))
    data[at : at + length] = bytes(len(data[at : at + length]))


DAMAGES: tuple[Callable[[bytearray, random.Random], None], ...] = (flip, digit, cut, zero)


def damages(whole: Path, name: str, count: int, scratch: Path) -> Iterator[tuple[str, Path]]:
    """Yield copies of a study with one file damaged, each at the same place."""
    random_ = random.Random(f"{SEED} {name}")
    for number in range(count):
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(whole, scratch)
        damage = DAMAGES[number % len(DAMAGES)]
        data = bytearray((whole / name).read_bytes())
        damage(data, random_)
        (scratch / name).write_bytes(data)
        yield f"{damage.__name__} {number}", scratch


def records(place: Path) -> tuple[object, ...]:
    """Return all that a reader can get from a study."""
    with contextlib.closing(Study.open_to_read(place)) as study:
        sessions = study.sessions()
        found: list[JournalEntry] = []
        for session in sessions:
            found += study.entries(session.number, KINDS)
        return (*(s.info for s in sessions), *found)


def read_or_refused(place: Path) -> tuple[object, ...] | str:
    try:
        return records(place)
    except StudyError as refused:
        return refused.code


REFUSALS = ("journal-damaged", "not-a-study", "journal-newer")


def test_a_damaged_journal_is_as_written_or_refused(intact: Path, tmp_path: Path) -> None:
    whole = records(intact)
    refused = 0
    for case, place in damages(intact, JOURNAL, 120, tmp_path / "damaged"):
        found = read_or_refused(place)
        assert found == whole or found in REFUSALS, case
        refused += found != whole
        with contextlib.suppress(StudyError):
            Study.open_to_resume(place).close()
            assert found == whole, f"{case}: a writer takes what a reader refuses"
    assert refused > 90, "a damage that nothing notices proves nothing"


def test_a_damaged_log_is_as_written_up_to_a_torn_end_or_refused(
    logged: Path, tmp_path: Path
) -> None:
    whole = records(logged)
    refused = 0
    for case, place in damages(logged, WAL, 80, tmp_path / "damaged"):
        found = read_or_refused(place)
        if isinstance(found, str):
            assert found in REFUSALS, case
            refused += 1
            continue
        assert found == whole[: len(found)], case
        if "cut" not in case:
            # 4 KiB of zeros can lie across the last two transactions.
            assert len(found) >= len(whole) - 2, f"{case}: acknowledged outcomes lost"
    assert refused > 40, "a damage that nothing notices proves nothing"


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_prints_what_was_written_or_nothing(
    reader: str, intact: Path, other: Path, tmp_path: Path
) -> None:
    def words(place: Path) -> list[str]:
        named = {"STUDY": str(place), "OTHER": str(other)}
        return [named.get(word, word) for word in READERS[reader]]

    place = tmp_path / "damaged"
    shutil.copytree(intact, place)
    expected = output(words(place))
    assert expected[0] in (0, 3), expected[2]
    assert expected[1]
    for case, _ in damages(intact, JOURNAL, 16, place):
        code, out, err = output(words(place))
        if code == 2:
            assert not out, case
            assert any(f"[{refusal}]" in err for refusal in REFUSALS), (case, err)
        else:
            assert (code, out) == expected[:2], case


def test_a_log_with_a_flipped_bit_is_refused_by_readers(logged: Path, tmp_path: Path) -> None:
    """A reader took the break for the log's end and printed an empty table."""
    place = tmp_path / "damaged"
    shutil.copytree(logged, place)
    data = bytearray((place / WAL).read_bytes())
    data[60_000] ^= 1
    (place / WAL).write_bytes(data)
    code, out, err = output(["stats", str(place)])
    assert (code, out) == (2, "")
    assert "is truncated" in err


def test_a_log_that_a_live_writer_begins_anew_is_not_judged(intact: Path, tmp_path: Path) -> None:
    """For a moment its new header stands before frames with the old salts."""
    place = tmp_path / "written"
    shutil.copytree(intact, place)
    with contextlib.closing(Study.open_to_resume(place)) as writer:
        for number in range(3):
            writer.append(1, [NewEntry("finding", "f", {"n": number})])
        shutil.copy(place / WAL, tmp_path / "log")
        data = bytearray((tmp_path / "log").read_bytes())
        # A salt of the first frame: the writer's index does not look at it again.
        data[41] ^= 1
        (place / WAL).write_bytes(data)
        try:
            assert len(records(place)) > 0
        finally:
            shutil.copy(tmp_path / "log", place / WAL)
