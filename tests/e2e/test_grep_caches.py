"""The example of the paper's Figure 6, small: warm, and cold by a remount."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
BW = [sys.executable, "-m", "benchwright.cli.main"]


def environment(place: Path) -> dict[str, str]:
    """Return the environment, with a `bw` on PATH for the example's script."""
    (place / "bin").mkdir()
    script = place / "bin/bw"
    script.write_text(f'#!/bin/sh\nexec {" ".join(BW)} "$@"\n')
    script.chmod(0o755)
    path = os.pathsep.join((str(place / "bin"), os.environ["PATH"], "/usr/sbin"))
    return {**os.environ, "PATH": path, "TESTROOT": str(place / "root"), "FILES": "60"}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")
def test_the_example_runs_and_leaves_nothing_mounted(tmp_path: Path) -> None:
    example = PROJECT / "examples/grep-caches.ap"
    words = ["-D", "METHODS=sequential remount", "-D", "EPOCHS=2", "--study", "study"]
    done = subprocess.run(
        [*BW, "run", str(example), *words],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    logs = (tmp_path / "study/logs/s1/remount").glob("setup-*.out")
    told = "".join(log.read_text() for log in logs)
    assert len(re.findall(r"^method +remount", told, re.M)) == 2, told
    assert "(60 files): " in told
    assert str(tmp_path) not in Path("/proc/mounts").read_text()
    assert [row["epoch"] for row in dumped(tmp_path)] == ["1", "2", "1", "2"]


def dumped(place: Path) -> list[dict[str, str]]:
    words = [*BW, "stats", "--dump", str(place / "study")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return list(csv.DictReader(done.stdout.splitlines()))
