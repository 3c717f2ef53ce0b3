"""A document that a trial printed is shown by the feature that knows it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from benchwright.cli.main import main
from benchwright.feature import Feature
from benchwright.page import kinds
from benchwright.page.kinds import StoredDocument, TrialDocument, TrialDocumentKind
from benchwright.report.charts.sheet import Sheet
from benchwright.views.blocks import Prose, Section, Tile, count_number
from benchwright.views.terminal import Paint


class Poem(msgspec.Struct, frozen=True):
    """A document of a feature that exists in this test alone."""

    lines: int

    @property
    def kind(self) -> TrialDocumentKind:
        return POEMS

    @property
    def headline(self) -> str:
        return f"{self.lines} lines"

    @property
    def sentence(self) -> str:
        return f"The poem has {self.lines} lines."

    def text(self, width: int, paint: Paint, *, table_width: int | None, verbose: bool) -> str:
        return f"a poem of {self.lines} lines\n"


class Poems:
    noun = "poem"
    mark = b'"test/poem/1"'

    def read(self, output: bytes) -> Poem | None:
        try:
            return msgspec.json.decode(output, type=Poem)
        except msgspec.MsgspecError:
            return None

    def tiles(self, one: StoredDocument) -> Iterator[Tile]:
        yield Tile("Lines", count_number(f"{one.id}.lines", len(one.document.headline)))

    def section(self, part: str, found: Sequence[StoredDocument]) -> Section:
        text = ", ".join(f"{one.id} of {one.name}" for one in found)
        return Section(id=f"{part}-poem", title="Poems", blocks=(Prose(text),))

    def sheet(self, named: Sequence[tuple[str, TrialDocument]]) -> Sheet:
        return Sheet(" and ".join(name for name, _ in named), ())


POEMS = Poems()


class Poetry(Feature):
    name = "poetry"

    def trial_documents(self) -> Sequence[TrialDocumentKind]:
        return (POEMS,)


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the place of a study, with one feature whose documents trials print."""
    monkeypatch.setattr(kinds, "features", lambda: (Poetry(),))
    return tmp_path / "s"


def printed(study: Path, text: str, trials: int = 1) -> None:
    words = ["run", "--max-runs", str(trials), "--min-runs", str(trials), "--no-watch"]
    assert main([*words, "--study", str(study), "--output", "file", "--", "echo", text]) in (0, 3)


def test_the_report_of_its_program_is_the_answer(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed(study, json.dumps({"schema": "test/poem/1", "lines": 4}))
    assert capsys.readouterr().out.startswith("a poem of 4 lines\n")
    main(["stats", str(study)])
    assert capsys.readouterr().out.startswith("a poem of 4 lines\n")
    main(["ls", str(study), "--json"])
    (session,) = json.loads(capsys.readouterr().out)["sessions"]
    assert session["answer"] == "4 lines"


def test_the_page_has_its_section(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(study, json.dumps({"schema": "test/poem/1", "lines": 4}), trials=2)
    assert main(["report", str(study), "-o", str(study.with_name("r.html"))]) == 0
    page = study.with_name("r.html").read_text()
    assert "p1.t1.poem1 of echo, trial 1, p1.t1.poem2 of echo, trial 2" in page
    assert "2 poems" in page
    assert "The poem has 4 lines." in page
    capsys.readouterr()


@pytest.mark.parametrize(
    "text", ['{"schema": "test/poem/1", "lines": "many"}', '{"schema": "test/verse/1", "lines": 4}']
)
def test_an_output_that_no_feature_knows_is_none(
    study: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    printed(study, text)
    assert "poem" not in capsys.readouterr().out.partition("\n")[0]
    main(["ls", str(study), "--json"])
    (session,) = json.loads(capsys.readouterr().out)["sessions"]
    assert session["answer"].startswith("echo: ")
