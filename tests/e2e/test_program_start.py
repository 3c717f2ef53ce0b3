"""What the programs answer before any command runs: bad options, and Ctrl-C."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
PROGRAMS = ("bw", "getstats", "graphit")


def answer(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the installation and return what it answered."""
    return subprocess.run([BIN / words[0], *words[1:]], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("words", [("bw",), ("bw", "run"), ("getstats",), ("graphit",)])
def test_a_bad_option_is_shown_without_its_control_characters(words: tuple[str, ...]) -> None:
    done = answer(*words, "--bogus\x1b[2J\x9b1m")
    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert "\x9b" not in done.stderr


def test_a_bad_option_shows_its_escape() -> None:
    assert "--bogus\\x1b[2J" in answer("bw", "env", "--bogus\x1b[2J").stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("load", "--rate", "100", "--target", "null", "--stu", "s"), "--study"),
        (("load", "--rate", "100", "--target", "null", "--stu=s"), "--study"),
        (("run", "--max-run", "10", "--", "true"), "--max-runs"),
        (("trace", "stat", "--lenie", "x"), "--lenient"),
    ],
)
def test_an_abbreviation_is_refused_with_the_whole_option(
    tmp_path: Path, words: tuple[str, ...], hint: str
) -> None:
    done = subprocess.run(
        [BIN / "bw", *words], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert f"= write {hint}" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seed", range(24))
def test_ctrl_c_at_the_start_shows_no_traceback(tmp_path: Path, seed: int) -> None:
    """Interrupted from the first line of the program on, through all its imports."""
    chance = random.Random(seed)
    program = BIN / chance.choice(PROGRAMS)
    words = {"bw": ("stats", "r.csv"), "getstats": ("r.csv",)}.get(program.name, ())
    (tmp_path / "r.csv").write_text("epoch,elapsed\n1,2.0\n2,2.1\n3,2.3\n")
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", program, *words],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        begun = "".join(iter(lambda: _until_site(process), ""))
        time.sleep(chance.uniform(0.002, 0.6))
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=60)[1]
    assert "Traceback" not in begun + rest
    assert process.returncode in (0, 2, 130, -signal.SIGINT)


def _until_site(process: subprocess.Popen[str]) -> str:
    """Return the next line, empty after the one where Python's own start ends."""
    assert process.stderr is not None
    line = process.stderr.readline()
    return "" if line.rstrip().endswith("| site") else line
