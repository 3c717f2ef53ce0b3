"""docs/papers.md is what docs/papers.toml says, and what a row names exists."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from benchwright.cli.main import parser

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("papers", ROOT / "scripts" / "papers.py")
assert SPEC is not None
assert SPEC.loader is not None
papers = importlib.util.module_from_spec(SPEC)
sys.modules["papers"] = papers
SPEC.loader.exec_module(papers)
LISTED = papers.papers()
ROWS = list(LISTED.rows())
RECIPES = dict(
    re.findall(r"^([a-z-]+):.*\n((?:\t.*\n)*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
)
COMMANDS = {words[0] for words in parser().commands() if words}
MEASURING = {
    file.stem: file
    for file in (*(ROOT / "benches").glob("*.py"), ROOT / "tests/limiters/limiter_matrix.py")
}


def missing(shown: str) -> bool:
    """Return whether there is no such test, file, target or command."""
    program, _, words = shown.partition(" ")
    if program == "make":
        return words not in RECIPES
    if program == "bw":
        return words.split()[0] not in COMMANDS
    path, _, name = program.partition("::")
    file = ROOT / path
    if not name:
        return not file.exists()
    return re.search(rf"^ *(def|fn) {name}\(", file.read_text(), re.MULTILINE) is None


def test_the_page_is_generated_from_the_list() -> None:
    assert papers.page(LISTED) == papers.PAGE.read_text(), "run scripts/papers.py"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_what_shows_a_row_exists(row: papers.Row) -> None:
    assert row.by, "nothing shows it"
    assert [one for one in row.by if missing(one)] == []


@pytest.mark.parametrize(
    "shown",
    [
        "make no-such-target",
        "bw no-such-command",
        "tests/unit/test_no_such.py",
        "tests/unit/test_papers.py::test_no_such",
    ],
)
def test_what_does_not_exist_is_found(shown: str) -> None:
    assert missing(shown)


def test_a_row_that_does_not_work_says_why_and_one_that_works_does_not() -> None:
    wrong = [row.id for row in ROWS if (row.state == papers.State.WORKS) == bool(row.why)]
    assert wrong == []


def test_each_row_has_a_name_of_its_own() -> None:
    names = [row.id for row in ROWS]
    assert sorted(set(names)) == sorted(names)


def test_every_command_with_a_length_measures_a_figure() -> None:
    used = {command for row in ROWS for command in row.by}
    assert set(LISTED.commands) <= used
    assert not any(missing(command) for command in LISTED.commands)


def test_a_target_that_needs_an_idle_machine_refuses_a_busy_one() -> None:
    idle = [command for command, needs in LISTED.commands.items() if needs.idle]
    for target in [one.removeprefix("make ") for one in idle if one.startswith("make ")]:
        recipe = RECIPES[target]
        files = [file for name, file in MEASURING.items() if re.search(rf"\b{name}\b", recipe)]
        assert files, target
        assert "$(BUSY)" in recipe
        assert all("refuse_busy(" in file.read_text() for file in files), target


def test_what_needs_an_idle_machine_is_printed_first_with_its_length() -> None:
    idle, other = papers.figures(LISTED).split("On any machine:")
    assert "make workload-fidelity: 20 min\n    Buttress, Figure 2" in idle
    assert "make paper-workbench: " in other
