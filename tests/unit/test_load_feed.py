"""Filaments in Python reach an engine through a FIFO, with a stand-in that keeps it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchwright.load import read_samples

GOLDEN = Path(__file__).parents[1] / "golden" / "load" / "result.json"
KEEPS = """path=$(sed 's/.*"path":"\\([^"]*\\)".*/\\1/' request)
cat "$path" > fed.bw
"""
TAKES_SOME = """path=$(sed 's/.*"path":"\\([^"]*\\)".*/\\1/' request)
head -c 1000 "$path" > fed.bw
"""
IGNORES = ""
RAMP = """
from benchwright.load import Batch, Filament

class Ramp(Filament):
    def __init__(self, batches, stop=-1):
        self.batches_, self.stop = batches, stop

    def batches(self):
        for place in range(self.batches_):
            if place == self.stop:
                raise RuntimeError("enough")
            yield Batch(range(place * 1000, place * 1000 + 1000), kind="write")
"""


def load(directory: Path, engine: str, arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a workload whose filament is Ramp with an engine that does this."""
    script = directory / "engine"
    answer = f"tr -d '\\n' < {GOLDEN}\necho\n"
    script.write_text(f"#!/bin/sh\ncd {directory}\ncat > request\n{engine}{answer}")
    script.chmod(0o755)
    (directory / "ramp.py").write_text(RAMP)
    (directory / "w.toml").write_text(
        f'[[filament]]\ntype = "python"\nclass = "ramp:Ramp"\narguments = {arguments}\n'
    )
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "benchwright.cli.main",
            "load",
            "w.toml",
            "--target",
            "null",
            "--quiet",
        ],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "BW_ENGINE": str(script), "TMPDIR": str(directory)},
    )


def test_every_operation_goes_through_the_pipe(tmp_path: Path) -> None:
    done = load(tmp_path, KEEPS, "{batches = 70}")
    assert done.returncode == 0, done.stderr
    rows = read_samples(tmp_path / "fed.bw")
    assert rows["intended"].tolist() == list(range(70_000))
    assert (rows["kind"] == 1).all()
    assert '"format":"bw"' in (tmp_path / "request").read_text()
    assert list(tmp_path.glob("bw-load-*")) == [], "the FIFO is gone"


@pytest.mark.parametrize("engine", [IGNORES, TAKES_SOME])
def test_an_engine_that_does_not_take_it_all_is_not_waited_for(tmp_path: Path, engine: str) -> None:
    done = load(tmp_path, engine, "{batches = 1000000}")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_a_class_that_fails_on_the_way_is_told(tmp_path: Path) -> None:
    done = load(tmp_path, KEEPS, "{batches = 5, stop = 2}")
    assert done.returncode == 2
    assert "w.toml:3:9: ramp:Ramp failed: RuntimeError: enough" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(read_samples(tmp_path / "fed.bw")) == 2000


def test_a_class_that_is_not_there_is_told_before_anything_runs(tmp_path: Path) -> None:
    done = load(tmp_path, KEEPS, "{nothing = 5}")
    assert done.returncode == 2
    assert "cannot be made: TypeError" in done.stderr
    assert not (tmp_path / "request").exists()
