"""The history file, and git notes as its transport."""

from __future__ import annotations

import sqlite3
import subprocess
from pathlib import Path

import msgspec
import pytest

from benchwright.core.errors import StudyError
from benchwright.core.machine import Fact
from benchwright.features.history.notes import NOTES_REF, GitNotes
from benchwright.features.history.store import AddedRuns, HistoryFile, history_of, is_history_file
from benchwright.features.history.types import Acceptance, Environment, HistoryPoint, Run, SeriesKey

KEYS = (SeriesKey("sort", "elapsed", "0123abcd"), SeriesKey("sort", "user", "0123abcd"))
ENVIRONMENT = Environment("e1", (Fact("kernel.release", "6.18"),))


def run(number: int, value: float = 1.0, commit: str | None = None) -> Run:
    points = tuple(
        (
            key,
            HistoryPoint(
                run=f"run-{number}",
                study="/home/someone/bw-study",
                session=number,
                started_ns=1000 * number,
                estimate=value,
                low=value - 0.1,
                high=value + 0.1,
                confidence=0.95,
                trials=10,
                unit="s",
                commit=commit,
                commit_time_ns=number,
                tags=("nightly", "v1"),
                environment="e1",
                command="sort a",
                codes=("bimodal",),
                asked=key.metric == "elapsed",
            ),
        )
        for key in KEYS
    )
    return Run(points=points, environment=ENVIRONMENT, machine="AMD, 2 CPUs")


def accepted(number: int) -> Acceptance:
    return Acceptance(key=KEYS[0], run=f"run-{number}", reason="new algorithm", accepted_ns=5)


def test_a_run_that_an_earlier_version_named_otherwise_is_known(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    points = run(1).points
    named = tuple((key, msgspec.structs.replace(p, run="new")) for key, p in points)
    again = msgspec.structs.replace(run(1), points=named, former="run-1")
    other = tuple((key, msgspec.structs.replace(p, estimate=2.0)) for key, p in named)
    with HistoryFile.open_to_write(path) as file:
        file.add([run(1)])
        assert file.add([again]).known == 1
        # Another file of the same time.
        assert file.add([msgspec.structs.replace(again, points=other)]).new == 1


def test_the_oldest_runs_are_removed_until_the_file_is_small_enough(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    facts = [Environment(f"e{n}", (Fact("kernel.release", "x" * 3000),)) for n in range(100)]
    runs = [
        msgspec.structs.replace(run(number), environment=facts[number]) for number in range(100)
    ]
    with HistoryFile.open_to_write(path) as file:
        file.add(reversed(runs))
        file.accept(accepted(1))
    full = path.stat().st_size
    with HistoryFile.open_to_write(path) as file:
        dropped = file.drop_oldest(full // 2)
    assert path.stat().st_size <= full // 2
    assert 0 < dropped < 100
    with HistoryFile.open_to_read(path) as file:
        kept = [one.points[0][1].session for one in file.runs()]
        assert file.acceptances() == [accepted(1)]
    assert kept == list(range(dropped, 100))
    # What remains needs more than one byte: the newest run stays.
    with HistoryFile.open_to_write(path) as file:
        assert file.drop_oldest(1) == 100 - dropped - 1
        assert file.drop_oldest(full) == 0
    with HistoryFile.open_to_read(path) as file:
        assert [one.points[0][1].session for one in file.runs()] == [99]
        assert file.series() == list(KEYS)


def test_a_file_returns_what_was_added(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    runs = [run(2, 2.5, "c0ffee"), run(1)]
    with HistoryFile.open_to_write(path) as file:
        assert file.add(runs) == AddedRuns(2, 0, 0, 4)
    assert is_history_file(path)
    assert [one.name for one in tmp_path.iterdir()] == ["h.db"]
    with HistoryFile.open_to_read(path) as file:
        assert file.runs() == [runs[1], runs[0]]
        assert file.series() == list(KEYS)
        assert history_of(file.runs()) == history_of(runs)


def test_of_what_is_not_wanted_the_last_points_are_read(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    runs = [run(at) for at in range(1, 5)]
    with HistoryFile.open_to_write(path) as file:
        file.add(runs)
    other, user = KEYS if KEYS[1].metric == "user" else KEYS[::-1]
    with HistoryFile.open_to_read(path) as file:
        some, every = file.part(lambda key: key == user, since_ns=3000)
    read = [{key for key, _ in one.points} for one in some]
    assert read == [{user}, {user, other}]
    assert [one.run for one in every] == [one.name for one in runs]
    assert {frozenset(one.keys) for one in every} == {frozenset(KEYS)}


def test_a_run_is_stored_once_and_replaced_if_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    with HistoryFile.open_to_write(path) as file:
        assert file.add([run(1), run(2)]) == AddedRuns(2, 0, 0, 4)
    moved = tuple(
        (key, msgspec.structs.replace(point, study="/elsewhere")) for key, point in run(1).points
    )
    with HistoryFile.open_to_write(path) as file:
        copy = msgspec.structs.replace(run(1), points=moved)
        assert file.add([copy, run(2, 3.0)]) == AddedRuns(0, 1, 1, 2)
    with HistoryFile.open_to_read(path) as file:
        assert file.runs() == [run(1), run(2, 3.0)]


def test_a_command_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    with HistoryFile.open_to_write(path) as file:
        file.add([run(1)])
    before = path.read_bytes()
    bad = msgspec.structs.replace(run(3), environment=None, machine=None)
    with pytest.raises(StudyError), HistoryFile.open_to_write(path) as file:
        file.add([run(2), bad])
    assert path.read_bytes() == before


def test_acceptances_are_append_only(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    with HistoryFile.open_to_write(path) as file:
        assert file.accept(accepted(2))
        assert not file.accept(accepted(2))
    with HistoryFile.open_to_read(path) as file:
        assert file.acceptances() == [accepted(2)]
    database = sqlite3.connect(path)
    for statement in ("DELETE FROM acceptance", "UPDATE acceptance SET name = 'x'"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            database.execute(statement)
    database.close()


def test_other_files_are_refused(tmp_path: Path) -> None:
    text, other, newer = (tmp_path / name for name in ("a.txt", "b.db", "c.db"))
    text.write_text("no database")
    sqlite3.connect(other).executescript("CREATE TABLE t (x)").connection.close()
    with HistoryFile.open_to_write(newer) as file:
        file.add([run(1)])
    database = sqlite3.connect(newer)
    database.execute("PRAGMA user_version = 9")
    database.close()
    for path, code in (
        (text, "not-a-history"),
        (other, "not-a-history"),
        (newer, "history-newer"),
        (tmp_path / "absent.db", "not-a-history"),
    ):
        with pytest.raises(StudyError) as caught, HistoryFile.open_to_read(path):
            pass
        assert caught.value.code == code
    for path in (text, other, newer):
        before = path.read_bytes()
        with pytest.raises(StudyError), HistoryFile.open_to_write(path):
            pass
        assert path.read_bytes() == before


# -- git notes -------------------------------------------------------------------------


def git(place: Path, *arguments: str) -> str:
    command = ["git", "-C", str(place), "-c", "user.name=n", "-c", "user.email=e"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def clones(tmp_path: Path) -> tuple[Path, Path, list[str]]:
    """A bare repository's two clones, and its commits."""
    origin, one, other = (tmp_path / name for name in ("origin.git", "one", "other"))
    git(tmp_path, "init", "-q", "--bare", str(origin))
    git(tmp_path, "clone", "-q", str(origin), str(one))
    for name in ("a", "b"):
        git(one, "commit", "-q", "--allow-empty", "-m", name)
    git(one, "push", "-q", "origin", "HEAD")
    git(tmp_path, "clone", "-q", str(origin), str(other))
    return one, other, git(one, "rev-list", "--reverse", "HEAD").split()


def test_runs_travel_between_clones_by_notes(clones: tuple[Path, Path, list[str]]) -> None:
    one, other, (first, second) = clones
    runs = [run(1, 1.0, first), run(2, 2.0, second)]
    unplaced = [run(3), run(4, 1.0, "f" * 40)]
    done = GitNotes(one).push("origin", [*runs, *unplaced], [accepted(2)])
    assert (done.commits, done.without_commit, done.elsewhere) == (2, 1, 1)
    notes = GitNotes(other)
    assert notes.read().runs == ()
    assert notes.fetch("origin")
    found = notes.read()
    assert found.acceptances == (accepted(2),)
    assert sorted(one.points[0][1].run for one in found.runs) == ["run-1", "run-2"]
    assert {p.study for one in found.runs for _, p in one.points} == {"bw-study"}
    assert found.unreadable == 0
    # Nothing is left besides the notes, and a second push changes nothing.
    refs = git(other, "for-each-ref", "--format=%(refname)", "refs/notes")
    assert refs == NOTES_REF
    assert notes.push("origin", runs, []).commits == 0


def test_pushes_of_two_machines_are_joined(clones: tuple[Path, Path, list[str]]) -> None:
    one, other, (first, _second) = clones
    GitNotes(one).push("origin", [run(1, 1.0, first)], [])
    # Made without the notes of the first, as if both had started at once.
    GitNotes(other).write([run(2, 2.0, first)], [])
    GitNotes(other).push("origin", [run(2, 2.0, first)], [])
    GitNotes(one).fetch("origin")
    names = sorted(one.points[0][1].run for one in GitNotes(one).read().runs)
    assert names == ["run-1", "run-2"]


def test_a_push_is_repeated_when_somebody_pushed_meanwhile(
    clones: tuple[Path, Path, list[str]],
) -> None:
    one, other, (first, second) = clones
    GitNotes(other).write([run(2, 2.0, second)], [])

    class Late(GitNotes):
        fetched = 0

        def fetch(self, remote: str) -> bool:
            self.fetched += 1
            if self.fetched > 1:
                return super().fetch(remote)
            GitNotes(one).push("origin", [run(1, 1.0, first)], [])
            return False

    late = Late(other)
    late.push("origin", [run(2, 2.0, second)], [])
    assert late.fetched == 2
    GitNotes(one).fetch("origin")
    assert len(GitNotes(one).read().runs) == 2


def test_the_later_state_of_a_resumed_run_counts(clones: tuple[Path, Path, list[str]]) -> None:
    one, _other, (first, _second) = clones
    notes = GitNotes(one)
    longer = msgspec.structs.replace(
        run(1, 3.0, first),
        points=tuple(
            (key, msgspec.structs.replace(point, trials=20))
            for key, point in run(1, 3.0, first).points
        ),
    )
    notes.write([longer], [])
    notes.write([run(1, 1.0, first)], [])
    (found,) = notes.read().runs
    assert found.points[0][1].estimate == 3.0


def test_lines_of_others_are_counted_and_left(clones: tuple[Path, Path, list[str]]) -> None:
    one, _other, (first, _second) = clones
    git(one, "notes", f"--ref={NOTES_REF}", "add", "-m", "hand made", first)
    notes = GitNotes(one)
    assert notes.write([run(1, 1.0, first)], []).commits == 1
    found = notes.read()
    assert (len(found.runs), found.unreadable) == (1, 1)
    assert "hand made" in git(one, "notes", f"--ref={NOTES_REF}", "show", first)


def test_a_failure_of_git_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StudyError) as caught:
        GitNotes(tmp_path).read()
    assert caught.value.code == "git-failed"
    assert "not a git repository" in caught.value.message
