"""The report page as a document and as HTML, without a browser."""

from __future__ import annotations

import contextlib
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from benchwright.cli.main import main
from benchwright.page.files import gather_document
from benchwright.page.html import render_page, section_pages
from benchwright.report.comparison import sentence
from benchwright.report.documents import encode
from benchwright.results.stored import read_results, unfinished_comparison
from benchwright.study.catalogue import StudyPart
from benchwright.study.journal import Study
from benchwright.views.blocks import TableBlock, Tone, Words

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&"


class Page(HTMLParser):
    """The elements of a page that the tests look at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.values: dict[str, str] = {}
        """The value of each `data` element by its key."""
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        if tag == "data":
            key = given["data-key"] or ""
            assert key not in self.values, f"two numbers have the key {key}"
            self.values[key] = given["value"] or ""
        if given.get("id"):
            self.ids.append(given["id"] or "")
        if (given.get("href") or "").startswith("#"):
            self.links.append((given["href"] or "")[1:])


def numbers_of(value: Any) -> dict[str, float | None]:
    """Return the numbers of a JSON document by their keys, with the ends of intervals."""
    found: dict[str, float | None] = {}
    if isinstance(value, list):
        for one in value:
            found |= numbers_of(one)
    elif isinstance(value, dict):
        if "key" in value and "text" in value:
            found[value["key"]] = value["value"]
            if "low_text" in value:
                found[value["key"] + ".low"] = value.get("low")
                found[value["key"] + ".high"] = value.get("high")
        else:
            for one in value.values():
                found |= numbers_of(one)
    return found


def run_in(directory: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.chdir(directory)
    return main(["run", "--quiet", "--no-watch", *words])


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study of two levels with three trials each."""
    words = ("--min-runs", "3", "--max-runs", "3", "-P", "n=1,2", "--", "echo", "{n}")
    assert run_in(tmp_path, monkeypatch, *words) in (0, 3)
    return tmp_path / "bw-study"


def test_page_and_document_have_the_same_numbers(study: Path) -> None:
    document = gather_document([StudyPart(study)])
    page = Page(render_page(document))
    numbers = numbers_of(json.loads(encode(document)))
    assert len(numbers) > 40
    shown = {key: float(text) if text else None for key, text in page.values.items()}
    assert shown == numbers


def test_several_tests_begin_with_their_answer_and_factors_keep_their_names(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (part,) = gather_document([StudyPart(study)]).parts
    (first, *_) = part.verdict
    assert first.startswith("Elapsed of 2 tests: from ")
    assert first.count("n=") == 2
    page = render_page(gather_document([StudyPart(study)]))
    assert ">n</text>" in page
    assert ">N</text>" not in page
    # Figures of different metrics have no range.
    (tmp_path / "s.toml").write_text("""\
[until]
runs = 3
[[test]]
name = "a"
exec = "echo 1"
until = {precision = "90%", metrics = ["rss_bytes"], max_runs = 30}
[[test]]
name = "b"
exec = "true"
""")
    assert run_in(tmp_path, monkeypatch, "--study", "two", "s.toml") in (0, 3)
    (part,) = gather_document([StudyPart(tmp_path / "two")]).parts
    assert [one.split(":")[0] for one in part.verdict[:2]] == ["a", "b"]


def test_links_lead_to_elements_of_the_page(study: Path) -> None:
    page = Page(render_page(gather_document([StudyPart(study)])))
    assert len(page.links) > 20
    assert set(page.links) <= set(page.ids)
    assert len(set(page.ids)) == len(page.ids)


def test_the_same_study_gives_the_same_bytes(study: Path) -> None:
    one, other = (render_page(gather_document([StudyPart(study)])) for _ in "ab")
    assert one == other


def test_names_are_never_markup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("--name", "<img src=x>", "-P", f"n={HOSTILE}", "--", "sh", "-c")
    assert run_in(tmp_path, monkeypatch, *words, "echo '<b>' >&2; exit 3") == 1
    text = render_page(gather_document([StudyPart(tmp_path / "bw-study")]))
    page = Page(text)
    assert "img" not in page.tags
    assert page.tags.count("script") == 1
    assert "&lt;img" in text


def test_a_file_that_is_no_report_stays(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = study.parent / "notes.html"
    other.write_text("my notes")
    assert main(["report", str(study), "-o", str(other)]) == 2
    assert other.read_text() == "my notes"
    assert "notes.html" in capsys.readouterr().err
    assert main(["report", str(study), "-o", str(other), "--overwrite"]) == 0
    assert main(["report", str(study), "-o", str(other)]) == 0


def test_a_session_and_a_test_can_be_selected(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_in(study.parent, monkeypatch, "--max-runs", "2", "--min-runs", "2", "--", "true")
    capsys.readouterr()
    assert main(["report", "--json", f"{study}@1", str(study)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [part["session"] for part in document["parts"]] == [1, 2]
    assert main(["report", "--json", f"{study}@7"]) == 2
    assert "there are: 1, 2" in capsys.readouterr().err
    assert main(["report", "--json", f"{study}:missing"]) == 2
    assert "there is no test 'missing'" in capsys.readouterr().err
    assert main(["report", "--json", str(study / "journal.sqlite")]) == 2
    assert "is not a study" in capsys.readouterr().err


@pytest.fixture
def compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study with a comparison of three arms in ten blocks."""
    monkeypatch.chdir(tmp_path)
    words = ("--max-blocks", "10", "--quiet", "--no-watch", "--seed", "1")
    assert main(["compare", *words, "--", "true", "sleep 0.002", "echo"]) in (0, 3)
    return tmp_path / "bw-study"


def test_an_unfinished_comparison_is_compared_from_its_blocks(compared: Path) -> None:
    """The trials alone give the ratios that the session recorded at its end."""
    with contextlib.closing(Study.open_to_read(compared)) as study:
        (session,) = study.sessions()
        stored = read_results(study, session, "p1")
        (recorded,) = stored.comparisons
        again = unfinished_comparison(session, stored.tests)
    assert again is not None
    assert again.blocks == recorded.blocks == 10
    assert [v.ratio for v in again.verdicts if v.judged] == [
        v.ratio for v in recorded.verdicts if v.judged
    ]
    assert not again.stop.answered


def test_a_comparison_says_what_its_own_command_says(
    compared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = gather_document([StudyPart(compared)]).parts[0]
    capsys.readouterr()
    with contextlib.closing(Study.open_to_read(compared)) as study:
        (session,) = study.sessions()
        (recorded,) = read_results(study, session, "p1").comparisons
    assert part.verdict == tuple(
        sentence(verdict, recorded) for verdict in recorded.verdicts if verdict.judged
    )


def test_sections_of_the_live_view_are_those_of_the_page(study: Path) -> None:
    document = gather_document([StudyPart(study)])
    page = render_page(document)
    sections = section_pages(document)
    assert {"p1-answer", "p1-results", "p1-tests", "p1-why"} <= set(sections)
    for html in sections.values():
        assert html.strip() in page


def test_ids_differ_between_sessions(study: Path, compared: Path) -> None:
    document = gather_document([StudyPart(study), StudyPart(compared)])
    page = Page(render_page(document))
    assert [part.id for part in document.parts] == ["p1", "p2"]
    assert "together" in page.ids
    assert len(set(page.ids)) == len(page.ids)


def test_gates_are_a_table_and_a_sentence_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("--max-blocks", "6", "--quiet", "--no-watch", "--fail-if", "slower by 1%")
    assert main(["compare", *words, "--", "true", "sleep 0.01"]) in (0, 1, 3)
    with contextlib.closing(Study.open_to_read(tmp_path / "bw-study")) as study:
        (session,) = study.sessions()
        (recorded,) = read_results(study, session, "p1").comparisons
    # A busy machine can leave the gate undecided.
    outcome = recorded.gates[0].outcome
    tones: dict[str, Tone] = {"failed": "bad", "undecided": "doubtful"}
    document = gather_document([StudyPart(tmp_path / "bw-study")])
    (part,) = document.parts
    assert part.verdict[0] == f"1 of 1 gate {outcome}"
    assert part.tone == tones[outcome]
    assert part.verdict[1].startswith(f"Gate `slower by 1%`, sleep: {outcome}: ")
    (gates,) = (
        block
        for section in part.sections
        for block in section.blocks
        if isinstance(block, TableBlock) and block.title == "Gates"
    )
    gate, candidate, result, _ = gates.rows[0]
    assert (gate, candidate) == (Words("slower by 1%", code=True), Words("sleep"))
    assert result == Words(outcome, tone=tones[outcome])
    assert "Gate <code>slower by 1%</code>, sleep" in render_page(document)


def test_the_page_of_a_null_comparison_begins_with_the_noise_floor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("--null", "--max-blocks", "8", "--quiet", "--no-watch", "--", "true")
    assert main(["compare", *words]) in (0, 3)
    document = gather_document([StudyPart(tmp_path / "bw-study")])
    (part,) = document.parts
    assert part.verdict[0].startswith("Noise floor ")
    assert part.verdict[1] == (
        "Smaller differences cannot be detected reliably here (in 8 blocks of `true` "
        "against itself)"
    )
    assert not any("undecided" in tile.note for tile in part.tiles)
    assert "bw null" not in render_page(document)


def test_a_backtick_in_a_name_marks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--name", "a`<b>", "--runs", "2", "--", "true")
    assert run_in(tmp_path, monkeypatch, *words) == 0
    text = render_page(gather_document([StudyPart(tmp_path / "bw-study")]))
    assert "<p>a`&lt;b&gt;: " in text
