"""Shells complete command lines of `bw` with the scripts that it prints."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
from pathlib import Path

import pytest

from benchwright.cli.completion import SHELLS, completion_script
from benchwright.cli.main import main, parser
from benchwright.cli.parser import SUMMARIES

FILES = ("suite.toml", "results.csv")
ASK_BASH = """\
source ./script
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_bw 2>/dev/null
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory with a study, a suite and results."""
    (tmp_path / "bw-study").mkdir()
    for name in FILES:
        (tmp_path / name).touch()
    return tmp_path


def by_bash(place: Path, *words: str) -> set[str]:
    """Return what bash offers for the last word."""
    (place / "script").write_text(completion_script("bash", parser()))
    asked = ["bash", "--norc", "-c", ASK_BASH, "bash", *words]
    done = subprocess.run(asked, cwd=place, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def by_fish(place: Path, *words: str) -> set[str]:
    """Return what fish offers for the last word."""
    (place / "script").write_text(completion_script("fish", parser()))
    line = " ".join(words)
    asked = ["fish", "--no-config", "-c", f"source script; complete -C '{line}'"]
    environment = {**os.environ, "HOME": str(place)}
    done = subprocess.run(
        asked, cwd=place, capture_output=True, text=True, check=True, env=environment
    )
    return {line.split("\t")[0] for line in done.stdout.splitlines()}


WAYS = {"bash": by_bash, "fish": by_fish}
needs_shell = [
    pytest.param(
        way,
        marks=pytest.mark.skipif(shutil.which(shell) is None, reason=f"needs {shell}"),
        id=shell,
    )
    for shell, way in WAYS.items()
]


@pytest.mark.parametrize("way", needs_shell)
@pytest.mark.parametrize(
    ("words", "some", "none"),
    [
        (("bw", ""), {*SUMMARIES}, {"suite.toml"}),
        (("bw", "run", "--prec"), {"--precision"}, {"--profile"}),
        (("bw", "trace", "c"), {"capture", "compare", "convert"}, {"stat"}),
        (("bw", "trace", "stat", "--wi"), {"--window"}, {"--width"}),
        (("bw", "run", "--mode", ""), {"plan", "watch"}, {"suite.toml"}),
        (("bw", "load", "--full", ""), {"queue", "drop"}, {"suite.toml"}),
        (("bw", "help", "pe"), {"peak"}, {"run"}),
        (("bw", "schema", "st"), {"stats"}, {"run"}),
        (("bw", "compare", "--accept", "too"), {"too-few-trials"}, {"drift"}),
        (("bw", "history", ""), {"show", "add", "bisect"}, {"--gate"}),
        # Words that name no command belong to `show`.
        (("bw", "history", "--fal"), {"--false-alarms"}, {"--file"}),
        (("bw", "history", "bw-study", "--ga"), {"--gate"}, {"--grep"}),
        (("bw", "history", "--accept", "search"), {"search-undecided"}, {"drift"}),
        (("bw", "history", "accept", "sort/1", "--re"), {"--reason"}, {"--ref"}),
        (("bw", "history", "push", "--re"), {"--ref", "--remote"}, {"--reason"}),
        (("bw", "history", "confirm", "v1", "--fail"), {"--fail-if"}, {"--file"}),
        (("bw", "history", "bisect", "v1", "--bui"), {"--build"}, {"--fail-if"}),
        (("bw", "ls", "--state", ""), {"undecided", "running"}, {"suite.toml"}),
        (("bw", "tag", "bw-study", "--no"), {"--note"}, {"--name"}),
        (("bw", "export", "--format", "go"), {"google-benchmark"}, {"jmh"}),
    ],
)
def test_a_word_is_completed(
    place: Path, way: object, words: tuple[str, ...], some: set[str], none: set[str]
) -> None:
    assert callable(way)
    offered = way(place, *words)
    assert some <= offered
    assert not none & offered


def test_bash_completes_files_where_an_option_takes_one(place: Path) -> None:
    assert by_bash(place, "bw", "stats", "res") == {"results.csv"}
    assert by_bash(place, "bw", "run", "--study", "") == {"bw-study"}
    assert by_bash(place, "bw", "load", "su") == {"suite.toml"}
    assert by_bash(place, "bw", "run", "su") == {"suite.toml"}
    assert by_bash(place, "bw", "run", "--runs", "3", "su") == {"suite.toml"}
    assert by_bash(place, "bw", "load", "res") == set()
    assert by_bash(place, "bw", "history", "add", "res") == {"results.csv"}
    assert by_bash(place, "bw", "history", "--html", "res") == {"results.csv"}
    assert by_bash(place, "bw", "export", "-o", "res") == {"results.csv"}
    for command in ("ls", "show", "tag", "export"):
        assert by_bash(place, "bw", command, "") == {"bw-study"}


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes_files_beside_the_commands_of_history(place: Path) -> None:
    assert {"results.csv", "show"} <= by_fish(place, "bw", "history", "")
    assert "results.csv" not in by_fish(place, "bw", "history", "push", "")


def test_bash_completes_the_command_after_the_dashes(place: Path) -> None:
    assert "bash" in by_bash(place, "bw", "run", "--", "bas")
    assert "--precision" not in by_bash(place, "bw", "run", "--", "true", "--prec")


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("bw run --preci", "bw run --precision "),
        ("bw run --mode wat", "bw run --mode watch "),
        ("bw stats resu", "bw stats results.csv "),
        ("bw trace capt", "bw trace capture "),
        ("bw compare --fail-i", "bw compare --fail-if "),
        ("bw history bis", "bw history bisect "),
        ("bw history resu", "bw history results.csv "),
        ("bw history --htm", "bw history --html "),
        ("bw history bw-study --gat", "bw history bw-study --gate "),
        ("bw history add resu", "bw history add results.csv "),
        ("bw export --format goo", "bw export --format google-benchmark "),
    ],
)
def test_zsh_completes_a_line(place: Path, typed: str, completed: str) -> None:
    functions = place / "functions"
    functions.mkdir()
    (functions / "_bw").write_text(completion_script("zsh", parser()))
    start = "PS1=READY; fpath=($PWD/functions $fpath); autoload -U compinit; compinit -u -D"
    (place / ".zshrc").write_text(f"{start}\nunsetopt beep\n")
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(place)
        environment = {**os.environ, "ZDOTDIR": str(place), "TERM": "dumb"}
        os.execvpe("zsh", ["zsh", "-i"], environment)
    try:
        read_until(terminal, "READY")
        os.write(terminal, typed.encode() + b"\t")
        assert completed in read_until(terminal, completed)
    finally:
        os.close(terminal)
        os.waitpid(child, 0)


def read_until(terminal: int, text: str) -> str:
    """Return what a terminal shows until it has shown a text; fail after 20 s of silence."""
    shown = ""
    while text not in shown:
        ready, _, _ = select.select([terminal], [], [], 20)
        assert ready, f"no {text!r} in {shown!r}"
        shown += os.read(terminal, 4096).decode(errors="replace")
    return shown


@pytest.mark.parametrize("shell", SHELLS)
def test_the_command_prints_the_script(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == completion_script(shell, parser())
