"""`bw ls`, `bw show`, `bw tag`: what studies hold, also those that nobody can read."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchwright.cli.ls import parse_since
from benchwright.cli.main import main
from benchwright.study import catalogue
from benchwright.study.catalogue import find_studies, sessions_now, state_of
from benchwright.study.directory import JOURNAL
from benchwright.study.journal import NewEntry, SessionInfo, StoredSession, Study
from benchwright.study.keys import ABOUT_OPTION, SessionAbout
from benchwright.views.sessions import LsDocument, ShowDocument, TagDocument

OLD = Path(__file__).parents[1] / "data" / "studies-0.1"
GOLDEN = Path(__file__).parents[1] / "golden" / "sessions"
INFO = SessionInfo(10**18, "0.1.0", "boot", "/", ("run", "x"), (), "s.ap", (), {})
Bw = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Bw:
    """Return a function that runs bw in an empty directory: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "88")

    def run(*words: str) -> tuple[int, str, str]:
        code = main(words)
        return (code, *capsys.readouterr())

    return run


def make(place: Path, *infos: SessionInfo) -> Path:
    """Make a study with a session for each info; return its path."""
    with contextlib.closing(Study.create_or_open(place)) as study:
        for info in infos or (INFO,):
            number = study.begin_session(info)
            study.end_session(number, "complete", "")
    return place


def started(seconds: int, *tags: str) -> SessionInfo:
    about = msgspec.json.encode(SessionAbout(tags=tags)).decode()
    return msgspec.structs.replace(INFO, started_ns=seconds * 10**9, options={ABOUT_OPTION: about})


def listed(text: str) -> list[tuple[str, int]]:
    document = msgspec.json.decode(text, type=LsDocument)
    return [(one.study, one.session) for one in document.sessions]


# -- What is found ---------------------------------------------------------------------


def test_studies_are_found_below_a_folder(tmp_path: Path) -> None:
    here = [make(tmp_path / name) for name in ("a", "b/c", "b/d/e/f")]
    make(tmp_path / "b/d/e/f/logs/inner")
    make(tmp_path / ".hidden/study")
    make(tmp_path / "1/2/3/4/5")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert find_studies(tmp_path).studies == tuple(here)
    assert find_studies(tmp_path, 1).studies == (tmp_path / "a",)
    assert find_studies(tmp_path / "a", 0).studies == (tmp_path / "a",)
    assert len(find_studies(tmp_path, 5).studies) == 4


def test_a_search_of_very_many_names_stops_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "MOST_NAMES", 20)
    make(tmp_path / "a")
    for number in range(30):
        (tmp_path / "a" / f"f{number}").touch()
        (tmp_path / f"d{number}").mkdir()
    (problem,) = find_studies(tmp_path).problems
    assert problem.code == "search-stopped"


def test_neither_a_pipe_nor_a_directory_is_a_journal(tmp_path: Path) -> None:
    for name in ("pipe", "directory", "gone"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "pipe" / JOURNAL)
    (tmp_path / "directory" / JOURNAL).mkdir()
    (tmp_path / "gone" / JOURNAL).symlink_to("nowhere")
    found = find_studies(tmp_path)
    assert (found.studies, found.problems) == ((), ())


def test_a_directory_without_rights_is_a_problem(
    bw: Bw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "a")
    (tmp_path / "closed").mkdir()
    scan = os.scandir

    def refusing(place: Path) -> Any:
        # Root, who may run the tests, reads every directory.
        if place.name == "closed":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))
        return scan(place)

    monkeypatch.setattr(os, "scandir", refusing)
    found = find_studies(tmp_path)
    assert found.studies == (tmp_path / "a",)
    assert [one.code for one in found.problems] == ["directory-unreadable"]
    code, out, err = bw("ls")
    assert (code, len(out.splitlines())) == (0, 2)
    assert "cannot search closed: Permission denied [directory-unreadable]" in err


def test_mount_points_are_not_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "mounted" / "a")
    mounted = frozenset([str(tmp_path / "mounted")])
    monkeypatch.setattr(catalogue, "_mount_points", lambda: mounted)
    assert find_studies(tmp_path).studies == ()
    assert len(find_studies(tmp_path / "mounted").studies) == 1


# -- What is listed --------------------------------------------------------------------


def test_the_other_studies_are_listed_beside_unreadable_ones(bw: Bw, tmp_path: Path) -> None:
    make(tmp_path / "good")
    for name in ("cut", "text", "forged"):
        make(tmp_path / name)
    data = (tmp_path / "cut" / JOURNAL).read_bytes()
    (tmp_path / "cut" / JOURNAL).write_bytes(data[: len(data) // 2])
    (tmp_path / "text" / JOURNAL).write_text("no database\n")
    with contextlib.closing(Study.open_to_resume(tmp_path / "forged")) as study:
        # Its hashes are right, and its records are nonsense.
        peak = msgspec.structs.replace(INFO, kind="peak")
        study.begin_session(peak)
        study.append(1, [NewEntry("outcome", "0.1/test/plan", {"name": 1})])
    code, out, err = bw("ls", "--json")
    assert code == 0
    assert listed(out) == [("good", 1)]
    problems = {one["path"]: one["code"] for one in json.loads(out)["problems"]}
    assert problems == dict.fromkeys(("cut", "text", "forged"), "journal-damaged")
    code, out, err = bw("ls")
    assert (code, len(out.splitlines()), len(err.splitlines())) == (0, 2, 3)
    assert bw("ls", "cut")[0] == 2


def test_the_newest_are_first_and_a_limit_keeps_them(bw: Bw, tmp_path: Path) -> None:
    make(tmp_path / "a", started(1), started(5), started(3))
    make(tmp_path / "b", started(4), started(2))
    code, out, _ = bw("ls", "--json")
    assert (code, listed(out)) == (0, [("a", 2), ("b", 1), ("a", 3), ("b", 2), ("a", 1)])
    _, out, err = bw("ls", "--json", "--limit", "2")
    assert listed(out) == [("a", 2), ("b", 1)]
    assert json.loads(out)["left_out"] == 3
    assert err == ""
    assert "3 older left out by --limit" in bw("ls", "--limit", "2")[2]
    _, out, _ = bw("ls", "--json", "--sort", "study", "--limit", "3")
    assert listed(out) == [("a", 2), ("a", 3), ("b", 1)]


def test_filters(bw: Bw, tmp_path: Path) -> None:
    now = time.time_ns() // 10**9
    make(tmp_path / "a", started(now - 10 * 86400, "x"), started(now, "x", "y"))
    with contextlib.closing(Study.open_to_resume(tmp_path / "a")) as study:
        study.end_session(study.begin_session(started(now, "y")), "interrupted", "")
    for words, numbers in (
        (("--tag", "x"), {1, 2}),
        (("--tag", "x", "--tag", "y"), {2}),
        (("--since", "9d"), {2, 3}),
        (("--state", "interrupted"), {3}),
        (("--state", "interrupted", "--state", "complete", "--since", "1w"), {2, 3}),
        (("--tag", "none"), set()),
    ):
        _, out, _ = bw("ls", *words, "--json")
        assert {number for _, number in listed(out)} == numbers, words


def test_one_session_is_named_and_a_study_is_listed_once(bw: Bw, tmp_path: Path) -> None:
    make(tmp_path / "a", started(1), started(2))
    assert listed(bw("ls", "a@1", "--json")[1]) == [("a", 1)]
    assert len(listed(bw("ls", ".", "a", "a/", "--json")[1])) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere",), "PATH: nowhere: there is no such directory"),
        (("a@7",), "a@7: there is no session 7"),
        (("--since", "tomorrow"), "--since: 'tomorrow' is neither a date nor an age"),
        (("--limit", "0"), "--limit: '0' is not a number of sessions"),
        (("--depth", "-1"), "--depth: '-1' is not a number of levels"),
    ],
)
def test_what_is_refused(bw: Bw, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    make(tmp_path / "a")
    code, out, err = bw("ls", *words)
    assert (code, out) == (2, "")
    assert said in err


def test_no_study(bw: Bw) -> None:
    code, out, err = bw("ls")
    assert (code, out) == (0, "")
    assert "no session in ." in err


def test_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10**18
    monkeypatch.setattr(time, "time_ns", lambda: now)
    assert parse_since("1970-01-02") == 86400 * 10**9
    assert parse_since("1970-01-01T01:00") == 3600 * 10**9
    assert parse_since("3h") == now - 10800 * 10**9
    assert parse_since("2w") == now - 14 * 86400 * 10**9


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("complete", "complete"),
        ("crashed", "interrupted"),
        ("stopped", "interrupted"),
        ("deadline", "interrupted"),
        ("found", "complete"),
        ("budget", "undecided"),
        ("failed", "failed"),
        ("running", "running"),
    ],
)
def test_the_words_of_a_search_are_states(status: str, state: str) -> None:
    assert state_of(StoredSession(1, INFO, status)) == state


def test_the_session_that_is_written_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = make(tmp_path / "a", started(1), started(2))
    monkeypatch.setattr(catalogue, "writer_of", lambda _: 1)
    with contextlib.closing(Study.open_to_read(place)) as study:
        assert [one.status for one in sessions_now(study)] == ["complete", "running"]


def test_time_between_an_end_and_a_resume_does_not_count(tmp_path: Path) -> None:
    second = 10**9
    with contextlib.closing(Study.create_or_open(tmp_path / "a")) as study:
        number = study.begin_session(started(100))
        for kind, payload in (
            ("end", {"status": "interrupted", "detail": "", "ended_ns": 103 * second}),
            ("resume", {"resumed_ns": 900 * second}),
            # This part was killed, and its end is unknown.
            ("resume", {"resumed_ns": 950 * second}),
            ("end", {"status": "complete", "detail": "", "ended_ns": 954 * second}),
        ):
            study.append(number, [NewEntry(kind, kind, payload)])
        (session,) = study.sessions()
        record = catalogue.record_of(study, session, tmp_path / "a", ())
    assert record.lasted_ns == 7 * second


# -- One session -----------------------------------------------------------------------


def test_old_studies_are_listed_and_shown_as_recorded(bw: Bw, tmp_path: Path) -> None:
    """To accept a change that is meant: BW_UPDATE_GOLDEN=1, and read the diff."""
    for name in OLD.glob("*.tar.xz"):
        with tarfile.open(name) as archive:
            archive.extractall(tmp_path, filter="data")
    shutil.rmtree(tmp_path / "expected")
    texts = {"ls": bw("ls", "--sort", "study")[1]}
    for name in ("run", "compare", "load", "peak", "interrupted"):
        code, texts[f"show-{name}"], _ = bw("show", name)
        assert code == 0
    for name, text in texts.items():
        path = GOLDEN / f"{name}.txt"
        if os.environ.get("BW_UPDATE_GOLDEN"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        assert text == path.read_text(), name


def test_a_shown_session_as_json(bw: Bw, tmp_path: Path) -> None:
    run = ("run", "--runs", "2", "--no-watch", "--tag", "x", "--", "sh", "-c", "echo hi")
    assert bw(*run)[0] == 0
    _, out, _ = bw("show", "--json")
    shown = msgspec.json.decode(out, type=ShowDocument)
    assert (shown.session.session, shown.session.tags) == (1, ("x",))
    assert shown.session.answer.startswith("sh: ")
    assert [one.test for one in shown.answers] == ["sh"]
    sizes = {one.folder: one.bytes for one in shown.files}
    files = (tmp_path / "bw-study/logs/s1").rglob("*")
    assert sizes["logs/s1"] == sum(one.stat().st_size for one in files if one.is_file())
    assert bw("show", "bw-study:sh")[0] == 2


def test_the_shown_command_is_the_one_that_was_run(bw: Bw, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("printf", "%s", "x  y", "a\tb\nc")
    words = ("run", "--runs", "2", "--no-watch", "--", *command)
    monkeypatch.setattr("sys.argv", ["bw", *words])
    assert bw(*words)[0] == 0
    _, out, _ = bw("show")
    (line,) = (line for line in out.splitlines() if line.startswith("command "))
    assert line.endswith(r"-- printf %s 'x  y' $'a\tb\nc'")


# -- Tags ------------------------------------------------------------------------------


def test_tags_are_added_and_removed(bw: Bw, tmp_path: Path) -> None:
    make(tmp_path / "bw-study", started(1), started(2, "old"))

    def tagged(*words: str) -> TagDocument:
        code, out, err = bw("tag", *words, "--json")
        assert code == 0, err
        return msgspec.json.decode(out, type=TagDocument)

    assert tagged("+new", "--tag", "more", "--remove", "old").tags == ("new", "more")
    assert tagged("bw-study@1", "--session-name", "first", "--note", "a").changed
    one = tagged("bw-study@first", "+new", "--note", "")
    assert (one.session, one.name, one.tags, one.note) == (1, "first", ("new",), "")
    assert not tagged("bw-study@first", "+new").changed
    assert tagged("bw-study@first", "--session-name", "").name == ""
    with contextlib.closing(Study.open_to_read(tmp_path / "bw-study")) as study:
        # One entry for each change, and none where nothing changed.
        assert len(list(study.entries(1, ("outcome",), under="about/"))) == 3


def test_a_default_of_a_configuration_file_tags_new_sessions_alone(
    bw: Bw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.toml").write_text('[run]\ntag = ["ci"]\n[tag]\ntag = ["no"]\n')
    monkeypatch.setenv("BW_CONFIG", str(tmp_path / "config.toml"))
    make(tmp_path / "bw-study")
    assert json.loads(bw("tag", "--json")[1])["tags"] == []
    code, _, err = bw("run", "--runs", "1", "--no-watch", "--", "true")
    assert code == 0, err
    assert json.loads(bw("tag", "--json")[1])["tags"] == ["ci"]
    assert len(listed(bw("ls", "--json")[1])) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--remove", "none"), "the session has no tag 'none'"),
        (("+a", "--remove", "a"), "a is added and removed"),
        (("+a b",), "'a b' is not a tag"),
        (("bw-study@1", "--session-name", "taken"), "has the name 'taken'"),
        (("bw-study", "other"), "bw tag changes one session"),
        (("nowhere", "+a"), "nowhere is not a study"),
    ],
)
def test_a_change_that_is_refused(
    bw: Bw, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    make(tmp_path / "bw-study", started(1), started(2))
    assert bw("tag", "--session-name", "taken")[0] == 0
    before = (tmp_path / "bw-study" / JOURNAL).read_bytes()
    code, out, err = bw("tag", *words)
    assert (code, out) == (2, "")
    assert said in err
    assert (tmp_path / "bw-study" / JOURNAL).read_bytes() == before
