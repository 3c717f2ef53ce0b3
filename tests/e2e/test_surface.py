"""`bw surface` over simulated servers as a program, and over a real PostgreSQL in small.

Virtual time: a trial takes as long as its program. Nothing here asserts a time or a rate: only what
was told, what can be gone on with, and that nothing is left running.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SIMULATOR = Path(__file__).parents[1] / "sim" / "sim_server.py"
EXAMPLE = Path(__file__).parents[2] / "examples" / "surface-postgres.toml"
BW = (sys.executable, "-m", "benchwright.cli.main")
PATIENCE_S = 120.0
GENERATOR = """
import os, subprocess, sys
simulator, server, seed, rate, seconds = sys.argv[1:]
with open("begun", "a") as marks:
    marks.write("x")
if os.path.exists("broken") and server in open("broken").read():
    sys.exit("the disk of " + server + " is full")
words = [sys.executable, simulator, rate, seconds, "--server", server, "--seed", seed]
os.execv(sys.executable, words)
"""
SPEC = """
[load]
generator = "command"
command = "{python} gen.py {simulator} {{server}} {{k}} {{rate}} {{duration}}"
values = {{ response_ms_mean = "/mean_ms" }}
counts = {{ offered = "/offered", completed = "/completed" }}
series = "/series"

[factors]
server = ["A-mm4", "B-mg1"]
k = [1, 2, 3]

[peak]
criteria = ["mean response < 40ms"]
start = "100"
policy = "binsearch"
run_length = "20s"
max_trials = 2
seed = 1

[surface]
samples = 4
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory with a spec and its generator."""
    text = SPEC.format(python=sys.executable, simulator=SIMULATOR)
    (tmp_path / "s.toml").write_text(text)
    (tmp_path / "gen.py").write_text(GENERATOR)
    return tmp_path


def begin(place: Path, *words: str) -> subprocess.Popen[str]:
    """Start bw in the directory."""
    return subprocess.Popen(
        [*BW, *words, "--json"],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    """Return exit status, the document, and what was told."""
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, json.loads(out or "{}"), err


@contextlib.contextmanager
def after(place: Path, trials: int, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Start bw and wait until so many trials have begun; nothing of it survives."""
    process = begin(place, *words)
    marks = place / "begun"
    try:
        until = time.monotonic() + PATIENCE_S
        while not marks.exists() or marks.stat().st_size < trials:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.01)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)


def known(document: dict[str, Any]) -> dict[str, Any]:
    """Return what does not depend on the clock or the number of sessions."""
    left = ("seconds", "study", "session", "plots", "samples")
    return {name: told for name, told in document.items() if name not in left}


def test_a_surface_is_mapped_told_again_predicted_and_drawn(place: Path) -> None:
    status, first, err = ended(begin(place, "surface", "s.toml", "--plot", "a.svg"))
    assert status == 0, err
    assert first["schema"] == "benchwright/surface/1"
    assert len(first["samples"]) == 4
    assert len(first["predictions"]) == 6
    assert (place / "a.svg").read_text().lstrip().startswith("<?xml")
    words = ("surface", "--predict", "server=A-mm4,k=2.5")
    status, again, err = ended(begin(place, *words))
    assert status == 0, err
    assert len(again["asked"]) == 1
    assert again["predictions"] == first["predictions"]


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_a_mapping_that_was_cut_ends_with_the_same_surface(
    place: Path, end: signal.Signals
) -> None:
    status, whole, err = ended(begin(place, "surface", "s.toml", "--study", "whole"))
    assert status == 0, err
    (place / "begun").unlink()
    with after(place, 4, "surface", "s.toml") as process:
        os.killpg(process.pid, end)
        if end is signal.SIGINT:
            assert process.wait(timeout=PATIENCE_S) == 130
    status, resumed, err = ended(begin(place, "resume"))
    assert status == 0, err
    assert known(resumed) == known(whole)


def test_a_deadline_ends_a_mapping_and_a_resume_searches_the_rest(place: Path) -> None:
    """Each search takes two trials of 20 s, of which the program waits for none."""
    words = ("surface", "s.toml", "--deadline", "130s")
    status, cut, err = ended(begin(place, *words))
    assert status == 0, err
    assert (cut["status"], cut["deadline_s"]) == ("deadline", 130.0)
    assert len(cut["samples"]) + cut["left_out"] == 4
    assert 0 < len(cut["missing"]) <= cut["left_out"]
    assert "surface-deadline" in {one["code"] for one in cut["findings"]}
    assert known(ended(begin(place, "surface"))[1]) == known(cut)
    status, whole, err = ended(begin(place, "resume"))
    assert (status, whole["status"], whole["left_out"]) == (0, "complete", 0), err
    searched = [one["sample"] for one in whole["samples"]]
    assert searched[: len(cut["samples"])] == [one["sample"] for one in cut["samples"]]


def test_a_sample_that_fails_is_told_and_tried_again_when_mended(place: Path) -> None:
    (place / "broken").write_text("B-mg1")
    status, failed, _ = ended(begin(place, "surface", "s.toml"))
    assert status == 1
    assert "surface-sample-failed" in {one["code"] for one in failed["findings"]}
    assert "the disk of B-mg1 is full" in json.dumps(failed["findings"])
    (place / "broken").unlink()
    status, mended, err = ended(begin(place, "resume"))
    assert status == 0, err
    assert "surface-sample-failed" not in {one["code"] for one in mended["findings"]}
    assert all(one["peak_rate"] for one in mended["samples"])


def test_a_mapping_where_everything_fails_ends_without_a_model(place: Path) -> None:
    (place / "broken").write_text("A-mm4 B-mg1")
    status, failed, err = ended(begin(place, "surface", "s.toml"))
    assert status == 1
    assert "Traceback" not in err
    assert failed["model"] is None
    assert failed["predictions"] == []


@pytest.mark.skipif(
    shutil.which("postgres") is None or shutil.which("pgbench") is None,
    reason="PostgreSQL is not installed (apt-get install postgresql)",
)
def test_the_example_maps_a_real_postgres(tmp_path: Path) -> None:
    words = ("--samples", "4", "--max-trials", "2", "--run-length", "1s", "--seed", "1")
    kept = ("--study", str(tmp_path / "s"), "--policy", "binsearch")
    process = begin(EXAMPLE.parents[1], "surface", str(EXAMPLE), *words, *kept)
    status, found, err = ended(process)
    assert status in (0, 3), err
    assert len(found["samples"]) == 4
    assert {one["status"] for one in found["samples"]} <= {
        "found",
        "budget",
        "undecided",
    }
    state = [
        one.read_text().strip() for one in tmp_path.glob("s/logs/*/state-directory")
    ]
    assert state
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True)
    assert not [line for line in left.stdout.splitlines() if state[0] in line]
