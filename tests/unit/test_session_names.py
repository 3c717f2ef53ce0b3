"""Names, tags and notes of sessions: checked, stored, changed, and used to select a session."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec
import pytest

from benchwright.cli.main import main
from benchwright.core.errors import InputError, StudyError
from benchwright.core.results import Finding, Severity
from benchwright.study.catalogue import StudyPart, check_unused, split_selector
from benchwright.study.contents import SessionFindings, store_findings, stored_findings
from benchwright.study.journal import SessionInfo, Study
from benchwright.study.keys import ABOUT_OPTION, SessionAbout, parse_name, parse_note, parse_tag

INFO = SessionInfo(1, "0.1.0", "boot", "/", ("run",), (), "s.ap", (), {})


def named(name: str) -> SessionInfo:
    about = msgspec.json.encode(SessionAbout(name)).decode()
    return msgspec.structs.replace(INFO, options={ABOUT_OPTION: about})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A study with the sessions 1, 2 (before) and 3."""
    path = tmp_path / "study"
    with contextlib.closing(Study.create_or_open(path)) as study:
        for info in (INFO, named("before"), INFO):
            study.begin_session(info)
    return path


@pytest.mark.parametrize("text", ["before", "v2.1", "a_b-c+d", "2nd", "größer", "a" * 80])
def test_a_name(text: str) -> None:
    assert parse_name(text) == text


@pytest.mark.parametrize(
    "text", ["", "2", "007", "٣", "a@b", "a/b", "a:b", "a b", "-a", ".", "a\n", "\x1b[2J", "a" * 81]
)
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a name|the number of a session"):
        parse_name(text)


@pytest.mark.parametrize("text", ["nightly", "release/2.1", "build=7", "2026", "a:b"])
def test_a_tag(text: str) -> None:
    assert parse_tag(text) == text


@pytest.mark.parametrize("text", ["", "+a", "-a", "a b", "a,b", "\x07", "a" * 81])
def test_what_is_no_tag(text: str) -> None:
    with pytest.raises(ValueError, match="not a tag"):
        parse_tag(text)


def test_a_note_has_an_end() -> None:
    assert parse_note(" after the upgrade\n") == "after the upgrade"
    with pytest.raises(ValueError, match="2,000 characters"):
        parse_note("x" * 2001)


@pytest.mark.parametrize(
    ("selector", "number", "test"),
    [
        ("", 3, None),
        ("@2", 2, None),
        ("@before", 2, None),
        ("@before:sort", 2, "sort"),
        ("@1:a@b:c", 1, "a@b:c"),
        (":sort@before", 3, "sort@before"),
    ],
)
def test_a_selector(place: Path, selector: str, number: int, test: str | None) -> None:
    part = split_selector(Path(f"{place}{selector}"))
    with contextlib.closing(Study.open_to_read(part.place)) as study:
        assert part.of(study).number == number
    assert part.test == test


def test_a_directory_with_the_whole_text_as_its_name_is_first(place: Path) -> None:
    other = place.with_name("study@before")
    with contextlib.closing(Study.create_or_open(other)) as study:
        study.begin_session(INFO)
    assert split_selector(other) == StudyPart(other)


@pytest.mark.parametrize("session", ["4", "after", "0"])
def test_an_unknown_session_lists_those_that_there_are(place: Path, session: str) -> None:
    with (
        contextlib.closing(Study.open_to_read(place)) as study,
        pytest.raises(InputError) as refused,
    ):
        StudyPart(place, session).of(study)
    assert refused.value.diagnostics[0].hint == "there are: 1, 2 (before), 3"


def test_a_study_without_sessions(tmp_path: Path) -> None:
    with (
        contextlib.closing(Study.create_or_open(tmp_path / "new")) as study,
        pytest.raises(StudyError) as refused,
    ):
        StudyPart(tmp_path / "new").of(study)
    assert refused.value.code == "empty-study"


def test_a_name_is_unique_in_its_study(place: Path) -> None:
    with contextlib.closing(Study.open_to_read(place)) as study:
        check_unused("after", study)
        check_unused("before", study, session=2)
        with pytest.raises(InputError):
            check_unused("before", study)


def test_a_change_is_a_new_entry_and_the_last_one_holds(place: Path) -> None:
    changed = SessionAbout("later", ("a", "b"), "a note")
    with contextlib.closing(Study.open_to_resume(place)) as study:
        study.record_about(2, SessionAbout("after"))
        study.record_about(2, changed)
        keys = [entry.key for entry in study.entries(2, ("outcome",))]
    assert keys == ["about/1", "about/2"]
    # Opening verifies the chain of hashes.
    with contextlib.closing(Study.open_to_read(place)) as study:
        assert [one.about for one in study.sessions()] == [SessionAbout(), changed, SessionAbout()]


def test_many_changes_keep_their_order(place: Path) -> None:
    with contextlib.closing(Study.open_to_resume(place)) as study:
        for number in range(12):
            study.record_about(1, SessionAbout(note=str(number)))
        assert study.sessions()[0].about.note == "11"


def test_stored_findings_stay_valid(place: Path) -> None:
    """A changed note is no outcome of the session, so its findings are not outdated."""
    finding = Finding("drift", Severity.WARNING, "s", "evidence", "remedy")
    with contextlib.closing(Study.open_to_resume(place)) as study:
        store_findings(study, 1, SessionFindings((finding,), {}))
        study.record_about(1, SessionAbout(note="changed"))
        found = stored_findings(study, 1)
    assert found is not None
    assert found.session == (finding,)


def test_a_second_use_of_a_name_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("run", "--runs", "1", "--no-watch", "--session-name", "before")
    about = ("--tag", "nightly", "--tag", "nightly", "--note", "first")
    assert main([*words, *about, "--", "true"]) == 0
    assert "session 1" not in capsys.readouterr().err
    assert main([*words, "--", "touch", "ran"]) == 2
    assert not (tmp_path / "ran").exists()
    assert "session 1" in capsys.readouterr().err
    assert main(["run", "--runs", "1", "--no-watch", "--", "true"]) == 0
    said = "session 2 of bw-study; session 1 is kept (bw ls bw-study)"
    assert said in capsys.readouterr().err.splitlines()
    with contextlib.closing(Study.open_to_read(tmp_path / "bw-study")) as study:
        first, second = study.sessions()
    assert first.about == SessionAbout("before", ("nightly",), "first")
    assert second.about == SessionAbout()
    assert second.ended_ns > second.info.started_ns


@pytest.mark.parametrize(
    "words",
    [("load", "--target", "null", "--rate", "10", "--duration", "1s"), ("compare", "a", "b")],
)
def test_without_a_session_there_is_nothing_to_tag(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*words, "--tag", "nightly"]) == 2
    assert "--tag" in capsys.readouterr().err
