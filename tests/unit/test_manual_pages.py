"""The manual pages: valid for groff and mandoc, and complete."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from benchwright.cli.main import parser
from benchwright.cli.parser import SUMMARIES

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location(
    "packaged_files", ROOT / "scripts" / "packaged_files.py"
)
assert SPEC is not None
assert SPEC.loader is not None
packaged_files = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(packaged_files)

PAGES: dict[str, str] = packaged_files.manual_pages()
COMMANDS = [words for words in parser().commands() if words]
CHECKERS = {
    "groff": ("groff", "-ww", "-man", "-Tutf8"),
    "mandoc": ("mandoc", "-Tlint", "-Wwarning"),
}


def plain(page: str) -> str:
    """Return a page's text without fonts and escapes."""
    return re.sub(r"\\f[BIR]", "", page).replace("\\-", "-").replace("\\(ga", "`")


def test_every_command_has_a_page() -> None:
    assert set(PAGES) == {"bw", *("-".join(("bw", *words)) for words in COMMANDS)}
    assert all(f"bw-{name} (1)" in plain(PAGES["bw"]) for name in SUMMARIES)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_page_has_every_option_with_its_help(words: tuple[str, ...]) -> None:
    command = parser(words[:1]).of(words)
    page = plain(PAGES["-".join(("bw", *words))])
    for action in command._actions:
        if not isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
            for spelling in action.option_strings:
                assert re.search(rf"^(.*, )?{re.escape(spelling)}\b", page, re.MULTILINE)
            assert action.help is not None
            assert action.help.replace("%%", "%") in page


@pytest.mark.parametrize(
    "checker",
    [
        pytest.param(
            name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"needs {name}")
        )
        for name in CHECKERS
    ],
)
def test_pages_are_valid(tmp_path: Path, checker: str) -> None:
    for name, page in PAGES.items():
        file = tmp_path / f"{name}.1"
        file.write_text(page)
        done = subprocess.run(
            [*CHECKERS[checker], file], capture_output=True, text=True, check=False
        )
        warnings = done.stdout if checker == "mandoc" else done.stderr
        assert (done.returncode, warnings) == (0, ""), name


def test_examples_and_statuses_have_sections() -> None:
    for name in ("bw-run", "bw-load", "bw-peak"):
        headings = re.findall(r"^\.SH (.*)$", PAGES[name], re.MULTILINE)
        assert headings[:3] == ["NAME", "SYNOPSIS", "DESCRIPTION"]
        assert {"EXAMPLES", "EXIT STATUS", "SEE ALSO"} <= set(headings)
    run = PAGES["bw-run"]
    assert "\nbw run [options] SUITE\n" in run
    assert ".TP\n.B 130\ninterrupted" in run


@pytest.mark.skipif(shutil.which("man") is None, reason="needs man")
def test_man_finds_pages_beside_the_program(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    page = tmp_path / "share" / "man" / "man1" / "bw-run.1"
    page.parent.mkdir(parents=True)
    page.write_text(PAGES["bw-run"])
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    found = subprocess.run(
        ["man", "-w", "bw-run"],
        capture_output=True,
        text=True,
        env={"PATH": path, "HOME": str(tmp_path)},
        check=True,
    )
    assert found.stdout.strip() == str(page)


def test_installed_pages_are_those_of_the_declarations() -> None:
    files = importlib.metadata.files("benchwright") or []
    pages = [one for one in files if one.parent.name == "man1"]
    if not pages:
        pytest.skip("the package was not installed from a wheel with pages")
    installed = {one.stem: Path(str(one.locate())).read_text() for one in pages}
    dated = re.compile(r"^\.TH (\S+) 1 \S+", re.MULTILINE)
    assert {name: dated.sub(r"\1", text) for name, text in installed.items()} == {
        name: dated.sub(r"\1", text) for name, text in PAGES.items()
    }


def test_a_dot_at_the_start_of_a_line_is_text() -> None:
    assert packaged_files.escaped(".csv\n'a' \\ -") == "\\&.csv\n\\&'a' \\e \\-"


def test_packages_contain_pages_and_scripts() -> None:
    assert {path.split("/")[0] for path in packaged_files.files()} == {
        *("man", "bash-completion", "zsh", "fish")
    }
    assert "scripts/packaged_files.py" in (ROOT / "scripts" / "setup.sh").read_text()
