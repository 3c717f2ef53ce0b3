"""`bw surface` over a queue as a program, and over a real PostgreSQL in small.

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

EXAMPLE = Path(__file__).parents[2] / "examples" / "surface-postgres.toml"
BW = (sys.executable, "-m", "benchwright.cli.main")
PATIENCE_S = 120.0
GENERATOR = """
import json, os, sys
server, (k, rate, seconds) = sys.argv[1], map(float, sys.argv[2:])
with open("begun", "a") as marks:
    marks.write("x")
if os.path.exists("broken") and server in open("broken").read():
    sys.exit("the disk of " + server + " is full")
capacity = 300 + k
if os.path.exists("fast") and server in open("fast").read():
    capacity *= 100
left = 1 - rate / capacity
mean = 10 / left if left > 0 else 500 * seconds * -left + 500
count = round(rate * seconds)
print(json.dumps({"mean_ms": mean, "offered": count, "completed": count}))
"""
"""A queue without noise. The peak of all samples is near the start rate of the first search, which
two trials show; where the server is `fast`, they do not."""
SPEC = """
[load]
generator = "command"
command = "{python} gen.py {{server}} {{k}} {{rate}} {{duration}}"
values = {{ response_ms_mean = "/mean_ms" }}
counts = {{ offered = "/offered", completed = "/completed" }}

[factors]
server = ["A", "B"]
k = [1, 2, 3]

[peak]
criteria = ["mean response < 40ms"]
start = "225"
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
    text = SPEC.format(python=sys.executable)
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
    words = ("surface", "--predict", "server=A,k=2.5")
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


def test_a_sample_whose_search_ended_too_early_is_measured_nowhere(place: Path) -> None:
    """Its two trials are far below the 22,500/s that the server could do."""
    (place / "fast").write_text("B")
    status, document, err = ended(begin(place, "surface", "s.toml"))
    assert status == 3
    assert (document["status"], document["exit_status"]) == ("undecided", 3)
    fast = [one for one in document["samples"] if one["sample"]["server"] == "B"]
    others = [one for one in document["samples"] if one["sample"]["server"] == "A"]
    assert fast
    assert {one["status"] for one in fast} == {"undecided"}
    assert all(one["peak_rate"] < 1000 for one in fast)
    assert {one["claim_held"] for one in fast} == {False}
    assert {one["claim_held"] for one in others} == {True}
    assert all(one["seeded_from"] is None for one in fast)
    measured = {one["sample"]["server"] for one in document["predictions"] if one["measured"]}
    assert measured <= {"A"}
    again = subprocess.run([*BW, "surface"], cwd=place, capture_output=True, text=True)
    assert "the highest or the lowest peak rate is not established" in again.stdout
    assert again.stdout.count("(undecided)") == len(fast)
    page = subprocess.run([*BW, "report", "--json"], cwd=place, capture_output=True)
    (part,) = json.loads(page.stdout)["parts"]
    assert "not established" in part["verdict"][0]
    assert (part["status"], part["tone"]) == ("undecided", "doubtful")
    resumed = begin(place, "resume")
    _, err = resumed.communicate(timeout=PATIENCE_S)
    assert "its last session, 1, has ended: undecided" in err


def test_a_sample_that_fails_is_told_and_tried_again_when_mended(place: Path) -> None:
    (place / "broken").write_text("B")
    status, failed, _ = ended(begin(place, "surface", "s.toml"))
    assert status == 1
    assert "surface-sample-failed" in {one["code"] for one in failed["findings"]}
    assert "the disk of B is full" in json.dumps(failed["findings"])
    (place / "broken").unlink()
    status, mended, err = ended(begin(place, "resume"))
    assert status == 0, err
    assert "surface-sample-failed" not in {one["code"] for one in mended["findings"]}
    assert all(one["peak_rate"] for one in mended["samples"])


def test_a_mapping_where_everything_fails_ends_without_a_model(place: Path) -> None:
    (place / "broken").write_text("A B")
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
    assert {one["status"] for one in found["samples"]} <= {"found", "budget", "undecided"}
    state = [one.read_text().strip() for one in tmp_path.glob("s/logs/*/state-directory")]
    assert state
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True)
    assert not [line for line in left.stdout.splitlines() if state[0] in line]
