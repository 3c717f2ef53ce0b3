"""The manual pages: valid for groff and mandoc, and complete."""

from __future__ import annotations

import argparse
import importlib.util
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
                assert re.search(
                    rf"^(.*, )?{re.escape(spelling)}\b", page, re.MULTILINE
                )
            assert action.help is not None
            assert action.help.replace("%%", "%") in page


@pytest.mark.parametrize(
    "checker",
    [
        pytest.param(
            name,
            marks=pytest.mark.skipif(
                shutil.which(name) is None, reason=f"needs {name}"
            ),
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


def test_a_dot_at_the_start_of_a_line_is_text() -> None:
    assert packaged_files.escaped(".csv\n'a' \\ -") == "\\&.csv\n\\&'a' \\e \\-"


def test_packages_contain_pages_and_scripts() -> None:
    assert {path.split("/")[0] for path in packaged_files.files()} == {
        *("man", "bash-completion", "zsh", "fish")
    }
    assert "scripts/packaged_files.py" in (ROOT / "scripts" / "setup.sh").read_text()
